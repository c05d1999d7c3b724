/*
 * outside.c - an object for loader_test that calls a forbidden function
 */
#include <stdint.h>
#include <stdlib.h>

int64_t p_ends(void);

int64_t
p_ends(void)
{
    exit(7);
}
