/*
 * mma.c - mma.sync.aligned.m16n8k8 of TF32, m16n8k16 of bf16 and f16 (PTX ISA,
 * "Warp Level Matrix Multiply-Accumulate Instructions")
 *
 * Which lane has which element follows the figures of "Matrix Fragments for
 * mma.m16n8k8" and "... for mma.m16n8k16 with floating point type", where a
 * register has two elements, the first in its low bits.  NVIDIA does not say in
 * what order products are added, nor how sums are rounded.  Here all of them
 * are added exactly to the sum so far, and what does not fit an f32 is cut off,
 * as measurements of hardware have found; whoever relies on the last bits is
 * wrong.
 */
#include "tests/cuda/ptx/machine.h"

#include <math.h>
#include "tests/cuda/ptx/numbers.h"

enum { ROWS = 16, COLUMNS = 8, NUM_A = 4, NUM_B = 2, NUM_C = 4 };
enum { MAX_DEPTH = 16, WORDS = 8 /* of a row's products */ };

/* Where an instruction's operands begin; its mask is src[0]. */
enum { SRC_A = 1, SRC_B = SRC_A + NUM_A, SRC_C = SRC_B + NUM_B };

typedef struct Matrices {
    int depth;
    f32 a[ROWS][MAX_DEPTH], b[COLUMNS][MAX_DEPTH], c[ROWS][COLUMNS];
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

/* The elements of a register, which is number `word` of a row or column. */
static void
read_word(Warp *w, const Insn *i, uint32_t lane, int src, uint32_t word,
          f32 *line)
{
    u32 bits = LANES(u32, w, i->src[src])[lane];
    if (i->mode == MMA_TF32) {
        line[word] = tf32_operand(w, i, lane, src);
        return;
    }
    for (uint32_t n = 0; n < 2; n++) {
        u16 half = (u16)(bits >> (16 * n));
        f64 x = i->mode == MMA_BF16 ? f64_of_bf16(half) : f64_of_f16(half);
        line[2 * word + n] = (f32)x;
    }
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
    uint32_t row = lane / 4, word = lane % 4;
    for (int n = 0; n < NUM_A; n++)
        read_word(w, i, lane, SRC_A + n, word + (uint32_t)(n / 2) * 4,
                  m->a[row + (uint32_t)(n % 2) * 8]);
    for (int n = 0; n < NUM_B; n++)
        read_word(w, i, lane, SRC_B + n, word + (uint32_t)n * 4, m->b[row]);
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
            for (int k = 0; k < m->depth; k++)
                sum += (f64)m->a[r][k] * m->b[c][k];
            m->c[r][c] = cut_off(sum);
        }
}

void
ptx_mma(Warp *w, const Insn *i, uint32_t lanes)
{
    Matrices m = {.depth = i->mode == MMA_TF32 ? WORDS : 2 * WORDS};
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
