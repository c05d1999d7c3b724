/*
 * truth.c - exact results of elementary functions of f32, in double
 *
 * Compiled with -ffast-math, which lets the compiler call libmvec: of 2^32
 * values some 10^10 results are wanted.  libmvec gives NaN, infinities and
 * zeros as libm does, and here nothing else is done with them.
 */
#include "tests/ulp/truth.h"

#include <math.h>

static inline double
rsqrt(double x)
{
    return 1 / sqrt(x);
}

/* e^-x is finite in double for all x above -709, and below the quotient is 0 in
 * f32. */
static inline double
sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

#define OPERANDS_1 (double)b->x[i]
#define OPERANDS_2 (double)b->x[i], (double)b->y[i]

#define MATHS_FN(name, operands, ulp32, ulp64, doc)                            \
    void truth32_##name(Batch32 *b)                                            \
    {                                                                          \
        for (int i = 0; i < BATCH; i++)                                        \
            b->want[i] = name(OPERANDS_##operands);                            \
    }
#include "ir/maths/maths.def"
