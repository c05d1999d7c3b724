/*
 * places_test.c - offsets for buffers (passes/memory/pool.h)
 *
 * Any set of buffers gets places where no two that live together meet; sets
 * like those of training steps get places with next to no waste.
 */
#include "ir/analysis/hooks.h"
#include "ir/base/number/philox.h"
#include "passes/memory/pool.h"
#include "tests/unit/unit.h"

enum { NUM_SETS = 200, MAX_BUFFERS = 120 };

typedef struct Random {
    uint32_t set, next;
} Random;

static int
below(Random *r, int n)
{
    uint32_t counter[4] = {r->next++, 0, 0, 0}, key[2] = {r->set, 17}, out[4];
    philox4x32(counter, key, out);
    return (int)(out[0] % (uint32_t)n);
}

static Buffer *
add(Pool *p, int begin, int end, int64_t bytes)
{
    Buffer *b = NEW(p->arena, Buffer);
    *b = (Buffer){.begin = begin,
                  .end = end,
                  .bytes = bytes,
                  .align = 64,
                  .number = p->buffers.len};
    VEC_PUSH(p->arena, p->buffers, b);
    return b;
}

static bool
live_together(const Buffer *a, const Buffer *b)
{
    return a->begin <= b->end && b->begin <= a->end;
}

static bool
meet(const Buffer *a, const Buffer *b)
{
    return a->place.offset < b->place.offset + b->bytes &&
           b->place.offset < a->place.offset + a->bytes;
}

static void
check_places(const Pool *p, int64_t top)
{
    for (int i = 0; i < p->buffers.len; i++) {
        const Buffer *b = p->buffers.data[i];
        assert_true(b->place.offset >= p->base);
        assert_true(b->place.offset % b->align == 0);
        assert_true(b->place.offset + b->bytes <= top);
        for (int k = 0; k < i; k++)
            if (live_together(b, p->buffers.data[k]))
                assert_false(meet(b, p->buffers.data[k]));
    }
}

/* The most bytes, in whole lines, that are live at one position. */
static int64_t
most_live(const Pool *p)
{
    int64_t most = 0;
    for (int i = 0; i < p->buffers.len; i++) {
        int at = p->buffers.data[i]->begin;
        int64_t sum = 0;
        for (int k = 0; k < p->buffers.len; k++) {
            const Buffer *b = p->buffers.data[k];
            if (b->begin <= at && at <= b->end)
                sum += ir_align_to_line(b->bytes);
        }
        most = sum > most ? sum : most;
    }
    return most;
}

static Pool
random_set(Arena *a, Random *r)
{
    Pool p = {.arena = a, .base = 64 * below(r, 3)};
    int n = below(r, MAX_BUFFERS);
    for (int i = 0; i < n; i++) {
        int begin = below(r, 100);
        Buffer *b = add(&p, begin, begin + below(r, 30), 1 + below(r, 1 << 14));
        b->align = below(r, 8) ? 64 : 4096;
    }
    return p;
}

static void
any_set_is_placed(void **state)
{
    (void)state;
    for (uint32_t set = 0; set < NUM_SETS; set++) {
        Arena *a = arena_new(NULL, "set");
        Random r = {set, 0};
        Pool p = random_set(a, &r);
        check_places(&p, pass_pool_assign_offsets(&p));
        arena_release(a);
    }
}

/* Layers leave values of a few sizes for the way back, and need others for a
 * moment. */
static Pool
training_step(Arena *a, Random *r)
{
    Pool p = {.arena = a};
    int layers = 2 + below(r, 12), end = 8 * layers;
    for (int i = 0; i < layers; i++) {
        int64_t size = 4096 << below(r, 4);
        add(&p, 2 * i, end - 2 * i, size);
        add(&p, 2 * i, 2 * i + 1, 4 * size);
        add(&p, 2 * i + 1, end - 2 * i - 1, 3 * size);
        add(&p, end - 2 * i - 1, end - 2 * i, 2 * size);
        add(&p, end - 2 * i, end + 1, size / 2);
    }
    return p;
}

static void
training_steps_waste_little(void **state)
{
    (void)state;
    for (uint32_t set = 0; set < NUM_SETS; set++) {
        Arena *a = arena_new(NULL, "set");
        Random r = {set, 0};
        Pool p = training_step(a, &r);
        int64_t top = pass_pool_assign_offsets(&p), least = most_live(&p);
        check_places(&p, top);
        if ((double)top > 1.05 * (double)least)
            fail_msg("set %u takes %lld bytes, %lld are live at most", set,
                     (long long)top, (long long)least);
        arena_release(a);
    }
}

/* Largest first puts c between a and b, and then d above all. */
static void
largest_first_is_not_always_best(void **state)
{
    (void)state;
    Arena *a = arena_new(NULL, "set");
    Pool p = {.arena = a};
    add(&p, 0, 3, 64 * 3);
    add(&p, 2, 7, 64 * 2);
    add(&p, 4, 9, 64 * 3);
    add(&p, 8, 11, 64 * 4);
    add(&p, 10, 13, 64 * 3);
    int64_t least = most_live(&p);
    assert_int_equal(pass_pool_assign_offsets(&p), least);
    check_places(&p, least);
    arena_release(a);
}

static void
nothing_takes_nothing(void **state)
{
    (void)state;
    Arena *a = arena_new(NULL, "set");
    Pool p = {.arena = a, .base = 192};
    assert_int_equal(pass_pool_assign_offsets(&p), 192);
    arena_release(a);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_set_is_placed),
        cmocka_unit_test(training_steps_waste_little),
        cmocka_unit_test(largest_first_is_not_always_best),
        cmocka_unit_test(nothing_takes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
