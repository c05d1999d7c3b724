/*
 * maths_direct.h - the elementary functions as plain C, for one element
 *
 * Defines f32_exp(float), f64_pow(double, double) and so on for ir_maths_eval
 * and for tests, as inline functions, so that a loop over them becomes vector
 * code.
 */
#ifndef TFD_IR_MATHS_MATHS_DIRECT_H
#define TFD_IR_MATHS_MATHS_DIRECT_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

typedef float f32_float;
typedef uint32_t f32_int;
typedef double f64_float;
typedef uint64_t f64_int;

typedef union f32_word {
    float f;
    uint32_t i;
} f32_word;

typedef union f64_word {
    double f;
    uint64_t i;
} f64_word;

#define F T(float)
#define I T(int)
#define M bool
#define CX
#define O
#define DO(f, ...) T(f)(__VA_ARGS__)
#define UNLESS(usual, y, f, ...) ((usual) ? (y) : DO(f, __VA_ARGS__))
#define K(x) ((F)(x))
#define IK(n) ((I)(n))

#define f32_LIBM(fn) fn##f
#define f64_LIBM(fn) fn
#define LIBM(fn) T(LIBM)(fn)
#define AS_INT(x) ((T(word)){.f = x}.i)
#define AS_FLOAT(n) ((T(word)){.i = n}.f)

#define PRIM1(result, name, A, meaning)                                        \
    static inline result T(name)(A a)                                          \
    {                                                                          \
        return meaning;                                                        \
    }
#define PRIM2(result, name, A, B, meaning)                                     \
    static inline result T(name)(A a, B b)                                     \
    {                                                                          \
        return meaning;                                                        \
    }
#define PRIM3(result, name, A, B, C, meaning)                                  \
    static inline result T(name)(A a, B b, C c)                                \
    {                                                                          \
        return meaning;                                                        \
    }

#define T(name) f32_##name
#define CAST(to, name, from)                                                   \
    static inline to##_float f32_##name(from##_float a)                        \
    {                                                                          \
        return (to##_float)a;                                                  \
    }
#include "ir/maths/maths_prims.def"
#undef T
#undef CAST

#define T(name) f64_##name
#define CAST(to, name, from) /* defined above */
#include "ir/maths/maths_prims.def"
#undef T

#include "ir/maths/maths_f64.inc"
#include "ir/maths/maths_f32.inc"

#undef F
#undef I
#undef M
#undef CX
#undef O
#undef DO
#undef UNLESS
#undef K
#undef IK
#undef f32_LIBM
#undef f64_LIBM
#undef LIBM
#undef AS_INT
#undef AS_FLOAT
#undef PRIM1
#undef PRIM2
#undef PRIM3
#undef CAST
#undef POLY

#endif
