/*
 * maths.c - the table of elementary functions, and their value for one element
 */
#include "ir/base/status.h"
#include "ir/maths/maths.h"
#include "ir/maths/maths_direct.h"

const MathsFnInfo ir_maths_fn_info[NUM_MATHS_FNS] = {
#define MATHS_FN(name, operands, ulp32, ulp64, doc)                            \
    {#name, operands, ulp32, ulp64},
#include "ir/maths/maths.def"
#undef MATHS_FN
};

const MathsPrimInfo ir_maths_prim_info[NUM_MATHS_PRIMS] = {
#define PRIM1(result, name, A, meaning) {#name, 1},
#define PRIM2(result, name, A, B, meaning) {#name, 2},
#define PRIM3(result, name, A, B, C, meaning) {#name, 3},
#define CAST(to, name, from) {#name, 1},
#include "ir/maths/maths_prims.def"
#undef PRIM1
#undef PRIM2
#undef PRIM3
#undef CAST
};

typedef double (*Evaluate)(double x, double y);

#define OPERANDS_1(type) (type) x
#define OPERANDS_2(type) (type) x, (type)y

#define MATHS_FN(name, operands, ulp32, ulp64, doc)                            \
    static double eval_f32_##name(double x, double y)                          \
    {                                                                          \
        (void)y;                                                               \
        return f32_##name(OPERANDS_##operands(float));                         \
    }                                                                          \
    static double eval_f64_##name(double x, double y)                          \
    {                                                                          \
        (void)y;                                                               \
        return f64_##name(OPERANDS_##operands(double));                        \
    }
#include "ir/maths/maths.def"
#undef MATHS_FN

static const struct {
    Evaluate f32, f64;
} evaluate[NUM_MATHS_FNS] = {
#define MATHS_FN(name, operands, ulp32, ulp64, doc)                            \
    {eval_f32_##name, eval_f64_##name},
#include "ir/maths/maths.def"
#undef MATHS_FN
};

double
ir_maths_eval(MathsFn fn, DType width, double x, double y)
{
    switch (width) {
    case DT_f32:
        return evaluate[fn].f32(x, y);
    case DT_f64:
        return evaluate[fn].f64(x, y);
    default:
        UNREACHABLE("%s of %s", ir_maths_fn_info[fn].name,
                    dtype_info[width].name);
    }
}
