/*
 * maths.h - the elementary functions, defined once for every processor
 *
 * exp, tanh, sin and the rest are straight-line programs over a few primitive
 * operations, each of which IEEE 754 defines to the last bit (D24).  So the
 * interpreter, which evaluates them in C, and the code generators, which emit
 * them as instructions, give equal bits; only the sign and payload of a NaN
 * are not part of that promise.
 *
 * The programs read no memory and convert no float to an integer; their only
 * branches skip the code for unusual operands when no lane has one, so the
 * emitted code works on vectors of any length.  f32 functions compute in f32,
 * but for pow, sin and cos, which use f64 inside.  f16 and bf16 have no
 * functions of their own: compute in f32 and round (D4).
 *
 * Accuracy: f32 within 2 ulp for every float, f64 within 4 ulp; maths.def says
 * how much nearer each function is, and tests/ulp measures it.  Special values
 * are those of C's Annex F.
 *
 * Rounding must be to nearest, subnormals must not be flushed, and compilers
 * must neither contract a * b + c nor reorder (-ffp-contract=off, no fast-math;
 * on GPUs the correctly rounded division and square root).
 */
#ifndef TFD_IR_MATHS_MATHS_H
#define TFD_IR_MATHS_MATHS_H

#include <stdint.h>
#include "ir/base/number/dtype.h"

typedef enum MathsFn {
#define MATHS_FN(name, operands, ulp32, ulp64, doc) MATHS_##name,
#include "ir/maths/maths.def"
#undef MATHS_FN
    NUM_MATHS_FNS
} MathsFn;

typedef struct MathsFnInfo {
    const char *name;
    int num_operands;
    double ulp_f32, ulp_f64; /* no error is greater */
} MathsFnInfo;

extern const MathsFnInfo ir_maths_fn_info[NUM_MATHS_FNS];

/* fn of one element, computed in width, which is DT_f32 or DT_f64.  x and y
 * are values of that dtype; y is ignored by functions of one operand. */
double ir_maths_eval(MathsFn fn, DType width, double x, double y);

/* A primitive operation, as defined in maths_prims.def. */
typedef enum MathsPrim {
#define PRIM1(result, name, a, meaning) PRIM_##name,
#define PRIM2(result, name, a, b, meaning) PRIM_##name,
#define PRIM3(result, name, a, b, c, meaning) PRIM_##name,
#define CAST(to, name, from) PRIM_##name,
#include "ir/maths/maths_prims.def"
#undef PRIM1
#undef PRIM2
#undef PRIM3
#undef CAST
    NUM_MATHS_PRIMS
} MathsPrim;

/* The name of a primitive and how many operands it has. */
typedef struct MathsPrimInfo {
    const char *name;
    int num_operands;
} MathsPrimInfo;

extern const MathsPrimInfo ir_maths_prim_info[NUM_MATHS_PRIMS];

/* A value of the implementation of the primitives: an instruction of LLVM, a
 * number.  Other code does not look inside. */
typedef union MathsVal {
    void *ptr;
    uint64_t bits;
} MathsVal;

/* How to make constants and primitive operations.  width is DT_f32 or DT_f64:
 * the float type of operands and result if they are F, and the one of the same
 * size if they are I or M; for widen and narrow it is the result's.  Values may
 * be vectors; constants then are the same in each lane. */
typedef struct MathsOps {
    void *cx;
    MathsVal (*number)(void *cx, DType width, double value); /* fits width */
    MathsVal (*integer)(void *cx, DType width, uint64_t value);
    MathsVal (*prim)(void *cx, DType width, MathsPrim prim,
                     const MathsVal *operands);
    /* Code made between these two is needed only in lanes where usual, the
     * answer of a comparison, is false, and may be skipped when there is none.
     * The result is y where usual is true, else the other.  Not nested. */
    void (*rare_begin)(void *cx, MathsVal usual);
    MathsVal (*rare_end)(void *cx, DType width, MathsVal usual, MathsVal y,
                         MathsVal other);
} MathsOps;

/* Emits fn of x (and y) and returns the value of its result. */
MathsVal ir_maths_emit(const MathsOps *ops, MathsFn fn, DType width, MathsVal x,
                       MathsVal y);

#endif
