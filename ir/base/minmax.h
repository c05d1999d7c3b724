/*
 * minmax.h - the smaller and the larger one of two numbers
 */
#ifndef TFD_IR_BASE_MINMAX_H
#define TFD_IR_BASE_MINMAX_H

#include <stddef.h>
#include <stdint.h>

static inline int
min_int(int x, int y)
{
    return x < y ? x : y;
}

static inline int
max_int(int x, int y)
{
    return x > y ? x : y;
}

static inline int64_t
min_i64(int64_t x, int64_t y)
{
    return x < y ? x : y;
}

static inline int64_t
max_i64(int64_t x, int64_t y)
{
    return x > y ? x : y;
}

static inline size_t
min_size(size_t x, size_t y)
{
    return x < y ? x : y;
}

static inline size_t
max_size(size_t x, size_t y)
{
    return x > y ? x : y;
}

#endif
