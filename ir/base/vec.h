/*
 * vec.h - growing arrays in an arena
 *
 *   VEC(int) v = {0};
 *   VEC_PUSH(arena, v, 7);
 *   for (int i = 0; i < v.len; i++) use(v.data[i]);
 *
 * The storage belongs to the arena; growing abandons the old storage in it.
 */
#ifndef TFD_IR_BASE_VEC_H
#define TFD_IR_BASE_VEC_H

#include <assert.h>
#include "ir/base/arena.h"

#define VEC(T)                                                                 \
    struct {                                                                   \
        T *data;                                                               \
        int len, cap;                                                          \
    }

/* New storage of *cap (at least need) elements holding the old len. */
void *vec_grow(Arena *a, const void *data, int len, int *cap, int need,
               size_t size);

#define VEC_RESERVE(arena, v, n)                                               \
    ((n) > (v).cap                                                             \
         ? (void)((v).data = vec_grow((arena), (v).data, (v).len, &(v).cap,    \
                                      (n), sizeof *(v).data))                  \
         : (void)0)

#define VEC_PUSH(arena, v, x)                                                  \
    do {                                                                       \
        VEC_RESERVE(arena, v, (v).len + 1);                                    \
        (v).data[(v).len++] = (x);                                             \
    } while (0)

/* The index of the last of len elements: there is one. */
static inline int
vec_top(int len)
{
    assert(len > 0);
    return len - 1;
}

#define VEC_POP(v) ((v).data[(v).len = vec_top((v).len)])
#define VEC_LAST(v) ((v).data[vec_top((v).len)])

#endif
