/*
 * maths_emit.c - the elementary functions as primitive operations
 *
 * The same text as in maths_direct.h, with DO(add, a, b) an operation that
 * MathsOps makes: running f32_exp here emits the code of exp.
 */
#include <math.h>
#include "ir/base/status.h"
#include "ir/maths/maths.h"

typedef MathsVal f32_float, f32_int, f64_float, f64_int;

#define F T(float)
#define I T(int)
#define M MathsVal
#define CX const MathsOps *ops,
#define O ops,
#define DO(f, ...) T(f)(ops, __VA_ARGS__)
#define UNLESS(usual, y, f, ...)                                               \
    (ops->rare_begin(ops->cx, usual),                                          \
     ops->rare_end(ops->cx, WIDTH, usual, y, DO(f, __VA_ARGS__)))
#define K(x) ops->number(ops->cx, WIDTH, x)
#define IK(n) ops->integer(ops->cx, WIDTH, n)

#define PRIM1(result, name, A, meaning)                                        \
    static inline MathsVal T(name)(CX MathsVal a)                              \
    {                                                                          \
        return ops->prim(ops->cx, WIDTH, PRIM_##name, &a);                     \
    }
#define PRIM2(result, name, A, B, meaning)                                     \
    static inline MathsVal T(name)(CX MathsVal a, MathsVal b)                  \
    {                                                                          \
        MathsVal operands[] = {a, b};                                          \
        return ops->prim(ops->cx, WIDTH, PRIM_##name, operands);               \
    }
#define PRIM3(result, name, A, B, C, meaning)                                  \
    static inline MathsVal T(name)(CX MathsVal a, MathsVal b, MathsVal c)      \
    {                                                                          \
        MathsVal operands[] = {a, b, c};                                       \
        return ops->prim(ops->cx, WIDTH, PRIM_##name, operands);               \
    }

#define T(name) f32_##name
#define WIDTH DT_f32
#define CAST(to, name, from)                                                   \
    static inline MathsVal f32_##name(CX MathsVal a)                           \
    {                                                                          \
        return ops->prim(ops->cx, DT_##to, PRIM_##name, &a);                   \
    }
#include "ir/maths/maths_prims.def"
#undef T
#undef WIDTH
#undef CAST

#define T(name) f64_##name
#define WIDTH DT_f64
#define CAST(to, name, from) /* defined above */
#include "ir/maths/maths_prims.def"
#undef T
#undef WIDTH

#include "ir/maths/maths_f64.inc"
#include "ir/maths/maths_f32.inc"

typedef MathsVal (*Emit)(const MathsOps *ops, MathsVal x, MathsVal y);

#define OPERANDS_1 x
#define OPERANDS_2 x, y

#define MATHS_FN(name, operands, ulp32, ulp64, doc)                            \
    static MathsVal emit_f32_##name(CX MathsVal x, MathsVal y)                 \
    {                                                                          \
        (void)y;                                                               \
        return f32_##name(O OPERANDS_##operands);                              \
    }                                                                          \
    static MathsVal emit_f64_##name(CX MathsVal x, MathsVal y)                 \
    {                                                                          \
        (void)y;                                                               \
        return f64_##name(O OPERANDS_##operands);                              \
    }
#include "ir/maths/maths.def"
#undef MATHS_FN

static const struct {
    Emit f32, f64;
} emit[NUM_MATHS_FNS] = {
#define MATHS_FN(name, operands, ulp32, ulp64, doc)                            \
    {emit_f32_##name, emit_f64_##name},
#include "ir/maths/maths.def"
#undef MATHS_FN
};

MathsVal
ir_maths_emit(const MathsOps *ops, MathsFn fn, DType width, MathsVal x,
              MathsVal y)
{
    switch (width) {
    case DT_f32:
        return emit[fn].f32(ops, x, y);
    case DT_f64:
        return emit[fn].f64(ops, x, y);
    default:
        UNREACHABLE("%s of %s", ir_maths_fn_info[fn].name,
                    dtype_info[width].name);
    }
}
