/*
 * cache_line.h - lines of a CPU's caches
 *
 * What begins on one shares none with what is before it, and no load or store
 * of a vector crosses two.  So values begin on lines wherever they are: in the
 * places that plans name, in packed elements, and in memory of the runtime;
 * code that is compiled and hooks that are called rely on each other for that.
 */
#ifndef TFD_IR_BASE_CACHE_LINE_H
#define TFD_IR_BASE_CACHE_LINE_H

#include <stddef.h>
#include "ir/base/arena.h"

enum { CACHE_LINE = 64 }; /* bytes; of all CPUs that plans are made for */

/* The bytes of whole lines that hold so many. */
static inline size_t
on_lines(size_t bytes)
{
    return (bytes + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
}

/* Zeroed bytes on lines of their own, valid until a is released. */
void *arena_alloc_on_lines(Arena *a, size_t bytes);

#endif
