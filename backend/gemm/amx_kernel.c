/*
 * amx_kernel.c - the micro-kernel by the tiles of AMX
 *
 * The eight tiles are up to four of sums, two of A and two of B: four products
 * of 64 cycles for four loads of 32.  Instructions name their tiles, so LLVM
 * neither allocates nor configures them.  A block of D2 begins with tiles of
 * zeros; their sums go straight to C if nothing is there yet.
 */
#include "backend/gemm/bf16.h"
#include "backend/gemm/pairs.h"

enum { TILE_OF_A = 4, TILE_OF_B = 6, NUM_TILES = 8, F32_BYTES = 4 };

typedef struct AmxKernel {
    Emit *e;
    const GemmPlan *plan;
    int down, across; /* tiles of sums */
    Val params[UKERNEL_NUM_PARAMS];
    Val sums; /* of a block [mr][lanes * vectors], on their way to C */
} AmxKernel;

static Val
tile(const AmxKernel *a, int number)
{
    return be_int(a->e->u->i8, number);
}

/* ---- instructions ------------------------------------------------------- */

static void
load_tile(const AmxKernel *a, int number, Val from, int64_t stride)
{
    BeUnit *u = a->e->u;
    Val args[] = {tile(a, number), from, be_word(u, stride)};
    be_intrinsic(u, "llvm.x86.tileloadd64", NULL, 0, args, 3);
}

static void
clear_sums(const AmxKernel *a)
{
    for (int i = 0; i < a->down * a->across; i++) {
        Val number = tile(a, i);
        be_intrinsic(a->e->u, "llvm.x86.tilezero", NULL, 0, &number, 1);
    }
}

static void
store_sums(const AmxKernel *a, Val to, Val stride)
{
    BeUnit *u = a->e->u;
    for (int i = 0; i < a->down; i++) {
        for (int j = 0; j < a->across; j++) {
            Val rows = be_mul(u, stride, be_word(u, (int64_t)i * BF16_LANES));
            Val p = be_offset_const(u, be_offset(u, to, rows),
                                    (int64_t)j * BF16_VECTOR_BYTES);
            Val args[] = {tile(a, i * a->across + j), p, stride};
            be_intrinsic(u, "llvm.x86.tilestored64", NULL, 0, args, 3);
        }
    }
}

/* ---- products ----------------------------------------------------------- */

/* 32 of them. */
static void
add_group(const AmxKernel *a, Val k)
{
    BeUnit *u = a->e->u;
    int64_t row = a->plan->a.stride * BF16_BYTES;
    int64_t pair = be_gemm_plan_nr(a->plan) * 2 * BF16_BYTES;
    Val rows = be_offset(u, a->params[UKERNEL_A],
                         be_mul(u, k, be_word(u, BF16_BYTES)));
    Val columns = be_offset(
        u, a->params[UKERNEL_B],
        be_mul(u, k, be_word(u, be_gemm_plan_nr(a->plan) * BF16_BYTES)));
    for (int j = 0; j < a->across; j++)
        load_tile(a, TILE_OF_B + j,
                  be_offset_const(u, columns, (int64_t)j * BF16_VECTOR_BYTES),
                  pair);
    for (int i = 0; i < a->down; i++) {
        load_tile(a, TILE_OF_A + i,
                  be_offset_const(u, rows, i * BF16_LANES * row), row);
        for (int j = 0; j < a->across; j++) {
            Val args[] = {tile(a, i * a->across + j), tile(a, TILE_OF_A + i),
                          tile(a, TILE_OF_B + j)};
            be_intrinsic(u, "llvm.x86.tdpbf16ps", NULL, 0, args, 3);
        }
    }
}

static void
add_groups(const AmxKernel *a, Val begin, Val end)
{
    BeUnit *u = a->e->u;
    BeLoop l;
    be_loop_begin(u, &l, begin, end, be_word(u, BF16_GROUP), "group");
    be_loop_body(u, &l);
    add_group(a, l.index);
    be_loop_end(u, &l);
}

/* ---- results ------------------------------------------------------------ */

/* Through memory, since there is something to add to or columns are missing. */
static void
put_by_rows(const AmxKernel *a, Val more)
{
    BeUnit *u = a->e->u;
    Val params[UKERNEL_NUM_PARAMS];
    for (int i = 0; i < UKERNEL_NUM_PARAMS; i++)
        params[i] = a->params[i];
    params[UKERNEL_ACCUMULATE] = more;
    store_sums(a, a->sums, be_word(u, be_gemm_plan_nr(a->plan) * F32_BYTES));
    be_gemm_store_sums(a->e, a->plan, params, a->sums);
}

static void
put_sums(const AmxKernel *a, const Gemm *g, Val more)
{
    BeUnit *u = a->e->u;
    if (g->direct) {
        put_by_rows(a, more);
        return;
    }
    Block add = be_block(u, "add"), first = be_block(u, "first");
    Block end = be_block(u, "put");
    be_cond_br(u, more, add, first);
    be_position_at_end(u, add);
    put_by_rows(a, more);
    be_br(u, end);
    be_position_at_end(u, first);
    store_sums(a, a->params[UKERNEL_C], a->params[UKERNEL_C_STRIDE]);
    be_br(u, end);
    be_position_at_end(u, end);
}

/* ---- functions ---------------------------------------------------------- */

/* The blocks of D2, at least one. */
static void
add_blocks(const AmxKernel *a, const Gemm *g)
{
    BeUnit *u = a->e->u;
    Val none = be_word(u, 0), k = a->params[UKERNEL_K];
    Val block = be_word(u, IR_K_BLOCK);
    BeLoop l;
    be_loop_begin(u, &l, none, be_max(u, k, be_word(u, 1)), block, "block");
    be_loop_body(u, &l);
    clear_sums(a);
    add_groups(a, l.index, be_min(u, be_add(u, l.index, block), k));
    Val later = be_icmp(u, LLVMIntNE, l.index, none);
    put_sums(a, g, be_or(u, a->params[UKERNEL_ACCUMULATE], later));
    be_loop_end(u, &l);
}

Val
be_amx_micro_kernel(Emit *e, const Gemm *g, const GemmPlan *plan)
{
    BeUnit *u = e->u;
    AmxKernel a = {.e = e, .plan = plan, .across = plan->vectors};
    a.down = plan->mr / BF16_LANES;
    Val fn = be_gemm_micro_kernel_begin(e, a.params);
    a.sums =
        be_alloca(u, u->f32, (uint64_t)(plan->mr * be_gemm_plan_nr(a.plan)),
                  BF16_VECTOR_BYTES, "sums");
    add_blocks(&a, g);
    LLVMBuildRetVoid(u->builder);
    be_func_end(u);
    return fn;
}

/* The operand of ldtilecfg: a palette, 15 bytes of 0, the bytes of a row of
 * each of 16 tiles in 16 bits, and their rows in 8. */
enum { CONFIG_WORDS = 8, WORD_OF_BYTES = 2, WORD_OF_ROWS = 6, PALETTE = 1 };

void
be_amx_begin(Emit *e)
{
    static const int64_t bytes =
        INT64_C(0x0001000100010001) * BF16_VECTOR_BYTES;
    static const int64_t rows = INT64_C(0x0101010101010101) * BF16_LANES;
    const int64_t config[CONFIG_WORDS] = {PALETTE, 0, bytes,
                                          bytes, [WORD_OF_ROWS] = rows};
    Val memory = be_emit_numbers(e, "tiles", config, CONFIG_WORDS, 0);
    be_intrinsic(e->u, "llvm.x86.ldtilecfg", NULL, 0, &memory, 1);
}

void
be_amx_end(Emit *e)
{
    be_intrinsic(e->u, "llvm.x86.tilerelease", NULL, 0, NULL, 0);
}
