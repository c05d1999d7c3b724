/*
 * arith.c - the instructions of instructions.def
 *
 * Each row becomes a function over 32 lanes.  Results are computed for all of
 * them, which the C compiler turns into vector code, and kept for the lanes
 * that execute.  A destination may be one of the sources; lane l depends on
 * lane l alone, so that order does not matter.
 */
#include "tests/cuda/ptx/arith.h"

#include "tests/cuda/ptx/machine.h"
#include "tests/cuda/ptx/numbers.h"

#if defined(__clang__)
#define INDEPENDENT /* clang finds out by itself */
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#endif

#define KEEP_LANES(D, value)                                                   \
    if (lanes == ALL_LANES) {                                                  \
        INDEPENDENT FOR_LANES(l)                                               \
        {                                                                      \
            d[l] = (D)(value);                                                 \
        }                                                                      \
    } else {                                                                   \
        INDEPENDENT FOR_LANES(l)                                               \
        {                                                                      \
            D new = (D)(value);                                                \
            d[l] = lanes >> l & 1 ? new : d[l];                                \
        }                                                                      \
    }

#define OP1(id, name, D, A, value)                                             \
    static inline D value_##id(A x)                                            \
    {                                                                          \
        return (D)(value);                                                     \
    }                                                                          \
    static void id(Warp *w, const Insn *i, uint32_t lanes)                     \
    {                                                                          \
        D *d = LANES(D, w, i->dst[0]);                                         \
        const A *a = LANES(A, w, i->src[0]);                                   \
        KEEP_LANES(D, value_##id(a[l]))                                        \
    }

#define OP2(id, name, D, A, B, value)                                          \
    static inline D value_##id(A x, B y)                                       \
    {                                                                          \
        return (D)(value);                                                     \
    }                                                                          \
    static void id(Warp *w, const Insn *i, uint32_t lanes)                     \
    {                                                                          \
        D *d = LANES(D, w, i->dst[0]);                                         \
        const A *a = LANES(A, w, i->src[0]);                                   \
        const B *b = LANES(B, w, i->src[1]);                                   \
        KEEP_LANES(D, value_##id(a[l], b[l]))                                  \
    }

#define OP3(id, name, D, A, B, C, value)                                       \
    static inline D value_##id(A x, B y, C z)                                  \
    {                                                                          \
        return (D)(value);                                                     \
    }                                                                          \
    static void id(Warp *w, const Insn *i, uint32_t lanes)                     \
    {                                                                          \
        D *d = LANES(D, w, i->dst[0]);                                         \
        const A *a = LANES(A, w, i->src[0]);                                   \
        const B *b = LANES(B, w, i->src[1]);                                   \
        const C *c = LANES(C, w, i->src[2]);                                   \
        KEEP_LANES(D, value_##id(a[l], b[l], c[l]))                            \
    }

#define OP4(id, name, D, A, B, C, E, value)                                    \
    static inline D value_##id(A x, B y, C z, E v)                             \
    {                                                                          \
        return (D)(value);                                                     \
    }                                                                          \
    static void id(Warp *w, const Insn *i, uint32_t lanes)                     \
    {                                                                          \
        D *d = LANES(D, w, i->dst[0]);                                         \
        const A *a = LANES(A, w, i->src[0]);                                   \
        const B *b = LANES(B, w, i->src[1]);                                   \
        const C *c = LANES(C, w, i->src[2]);                                   \
        const E *e = LANES(E, w, i->src[3]);                                   \
        KEEP_LANES(D, value_##id(a[l], b[l], c[l], e[l]))                      \
    }

#define DIV(id, name, T, value)                                                \
    OP2(quotient_##id, name, T, T, T, value)                                   \
    static void id(Warp *w, const Insn *i, uint32_t lanes)                     \
    {                                                                          \
        const T *b = LANES(T, w, i->src[1]);                                   \
        FOR_LANES_OF(l, lanes)                                                 \
        if (!b[l])                                                             \
            ptx_violate(w, i, l, PTX_UNDEFINED, 0, "division by zero");        \
        quotient_##id(w, i, lanes);                                            \
    }

#include "tests/cuda/ptx/instructions.def"

#undef OP1
#undef OP2
#undef OP3
#undef OP4
#undef DIV

/* ---- the table ---------------------------------------------------------- */

#define T(name) TYPE_##name
#define OP1(id, name, D, A, value) {name, id, 1, T(D), {T(A)}},
#define OP2(id, name, D, A, B, value) {name, id, 2, T(D), {T(A), T(B)}},
#define OP3(id, name, D, A, B, C, value)                                       \
    {name, id, 3, T(D), {T(A), T(B), T(C)}},
#define OP4(id, name, D, A, B, C, E, value)                                    \
    {name, id, 4, T(D), {T(A), T(B), T(C), T(E)}},
#define DIV(id, name, A, value) {name, id, 2, T(A), {T(A), T(A)}},

const ArithRow ptx_arith[] = {
#include "tests/cuda/ptx/instructions.def"
    {NULL, NULL, 0, TYPE_pred, {TYPE_pred}},
};
