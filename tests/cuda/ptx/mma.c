/*
 * mma.c - mma.sync.aligned.m16n8k8 of TF32 (PTX ISA, "Warp Level Matrix
 * Multiply-Accumulate Instructions")
 *
 * Which lane has which element follows the figures of "Matrix Fragments for
 * mma.m16n8k8".  NVIDIA does not say in what order products are added, nor how
 * sums are rounded.  Here all of them are added exactly to the sum so far, and
 * what does not fit an f32 is cut off, as measurements of hardware have found;
 * whoever relies on the last bits is wrong.
 */
#include "tests/cuda/ptx/machine.h"

#include <math.h>
#include "tests/cuda/ptx/numbers.h"

enum { ROWS = 16, COLUMNS = 8, DEPTH = 8, NUM_A = 4, NUM_B = 2, NUM_C = 4 };

/* Where an instruction's operands begin; its mask is src[0]. */
enum { SRC_A = 1, SRC_B = SRC_A + NUM_A, SRC_C = SRC_B + NUM_B };

typedef struct Matrices {
    f32 a[ROWS][DEPTH], b[DEPTH][COLUMNS], c[ROWS][COLUMNS];
} Matrices;

/* ---- elements of lanes --------------------------------------------------- */

/* The low bits of an operand are not part of a number of TF32. */
static f32
tf32_operand(Warp *w, const Insn *i, uint32_t lane, int src)
{
    u32 bits = LANES(u32, w, i->src[src])[lane];
    f32 x = from_bits32(bits);
    if (x == x && bits & TF32_UNUSED)
        ptx_violate(w, i, lane, PTX_UNDEFINED, 0,
                    "operand 0x%08x is no number of TF32", bits);
    return x;
}

static f32 *
element_of_c(Matrices *m, uint32_t lane, int i)
{
    return &m->c[lane / 4 + (uint32_t)(i / 2) * 8]
                [lane % 4 * 2 + (uint32_t)(i % 2)];
}

static void
read_lane(Warp *w, const Insn *i, uint32_t lane, Matrices *m)
{
    uint32_t row = lane / 4, k = lane % 4;
    for (int n = 0; n < NUM_A; n++)
        m->a[row + (uint32_t)(n % 2) * 8][k + (uint32_t)(n / 2) * 4] =
            tf32_operand(w, i, lane, SRC_A + n);
    for (int n = 0; n < NUM_B; n++)
        m->b[k + (uint32_t)n * 4][row] = tf32_operand(w, i, lane, SRC_B + n);
    for (int n = 0; n < NUM_C; n++)
        *element_of_c(m, lane, n) = LANES(f32, w, i->src[SRC_C + n])[lane];
}

/* ---- sums ---------------------------------------------------------------- */

static f32
cut_off(f64 x)
{
    f32 near = (f32)x;
    return isfinite(near) && fabs((f64)near) > fabs(x) ? nextafterf(near, 0)
                                                       : nan32(near);
}

static void
multiply(Matrices *m)
{
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < COLUMNS; c++) {
            f64 sum = m->c[r][c];
            for (int k = 0; k < DEPTH; k++)
                sum += (f64)m->a[r][k] * m->b[k][c];
            m->c[r][c] = cut_off(sum);
        }
}

void
ptx_mma(Warp *w, const Insn *i, uint32_t lanes)
{
    Matrices m;
    if (lanes != UINT32_MAX)
        ptx_violate(w, i, (uint32_t)__builtin_ctz(lanes), PTX_BAD_WARP_OP, 0,
                    "some lanes of the warp have ended");
    FOR_LANES_OF(l, lanes)
    read_lane(w, i, l, &m);
    multiply(&m);
    FOR_LANES_OF(l, lanes)
    for (int n = 0; n < NUM_C; n++)
        LANES(f32, w, i->dst[n])[l] = *element_of_c(&m, l, n);
}
