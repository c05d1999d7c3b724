/*
 * vec.c - growing arrays in an arena
 */
#include "ir/base/vec.h"

#include <limits.h>
#include <string.h>
#include "ir/base/status.h"

void *
vec_grow(Arena *a, const void *data, int len, int *cap, int need, size_t size)
{
    int new_cap = *cap > INT_MAX / 2 ? INT_MAX : *cap * 2;
    if (new_cap < 8)
        new_cap = 8;
    if (new_cap < need)
        new_cap = need;
    if (len < 0 || need < len)
        UNREACHABLE("a vector of %d elements grows to %d", len, need);
    void *grown = arena_array(a, (size_t)new_cap, size);
    if (len)
        memcpy(grown, data, (size_t)len * size);
    *cap = new_cap;
    return grown;
}
