/*
 * cache_line.c - lines of a CPU's caches
 */
#include "ir/base/cache_line.h"

#include <stdint.h>

void *
arena_alloc_on_lines(Arena *a, size_t bytes)
{
    size_t room;
    if (__builtin_add_overflow(bytes, CACHE_LINE, &room))
        room = SIZE_MAX; /* which there is not */
    uintptr_t at = (uintptr_t)arena_alloc(a, room);
    return (void *)on_lines(at);
}
