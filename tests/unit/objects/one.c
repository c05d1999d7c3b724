/*
 * one.c - an object for loader_test with every kind of relocation that the
 * loader supports
 */
#include <stdint.h>
#include <string.h>

int64_t p_twice(int64_t x);
int64_t p_choose(int64_t x);
int64_t p_through_slot(int64_t x);
int64_t p_through_table(int64_t which, int64_t x);
int64_t p_count(void);
void p_copy(void *to, const void *from, uint64_t n);

int64_t p_add_seven(int64_t x); /* of two.c */

static int64_t
negate(int64_t x)
{
    return -x;
}

/* Needs addresses in data. */
static int64_t (*const table[])(int64_t) = {p_add_seven, negate, p_twice};
static int64_t calls;

int64_t
p_twice(int64_t x)
{
    return 2 * x;
}

/* A table of jumps or of constants. */
int64_t
p_choose(int64_t x)
{
    switch (x) {
    case 0:
        return 17;
    case 1:
        return p_add_seven(x);
    case 2:
        return -5;
    case 3:
        return p_twice(x);
    case 4:
        return 1 << 20;
    case 5:
        return p_count();
    default:
        return 3;
    }
}

int64_t
p_through_slot(int64_t x)
{
    int64_t (*volatile f)(int64_t) = p_add_seven;
    return f(x);
}

int64_t
p_through_table(int64_t which, int64_t x)
{
    return table[which](x);
}

int64_t
p_count(void)
{
    return ++calls;
}

void
p_copy(void *to, const void *from, uint64_t n)
{
    memcpy(to, from, n);
}
