/*
 * truth.h - exact results of elementary functions of f32, in double
 */
#ifndef TFD_TESTS_ULP_TRUTH_H
#define TFD_TESTS_ULP_TRUTH_H

enum { BATCH = 1024 };

/* Operands, our results, and the exact results. */
typedef struct Batch32 {
    float x[BATCH], y[BATCH], got[BATCH];
    double want[BATCH];
} Batch32;

/* Fill want, right to some units of the last place of a double: 2^-27 of an ulp
 * of f32. */
#define MATHS_FN(name, operands, ulp32, ulp64, doc)                            \
    void truth32_##name(Batch32 *b);
#include "ir/maths/maths.def"
#undef MATHS_FN

#endif
