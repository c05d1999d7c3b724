/*
 * gemm_zeros.c - products that a tile's rows of A leave out
 *
 * Weights that a mask hides are +0 in all rows of a tile at the first or last k
 * of a block: in half of causal attention.  Where B is finite, +0 times B is
 * +0 or -0.  Sums begin with +0, so products before the first other k add
 * nothing to them; those after the last k change no sum but -0, for which the
 * micro-kernel looks at their signs.
 *
 * The k between are found once for the rows of a tile and all columns of a
 * block.  Whether B is finite is looked at when a tile first has zeros, once
 * for a block: B of which something is not is multiplied in full.
 */
#include "backend/gemm/gemm.h"

enum {
    GROUP = 16, /* k that are compared with 0 together */
    MIN_K = 128,
};

/* The function's parameters; the number of columns is a multiple of a tile's.
 */
enum {
    ZEROS_A,
    ZEROS_K,
    ZEROS_B,
    ZEROS_COLUMNS,
    ZEROS_FOUND,
    ZEROS_NUM_PARAMS
};

/* What it finds, and what it knows of B before and after. */
enum { FOUND_B, FOUND_FIRST, FOUND_END, FOUND_NUM };

enum { B_NOT_SEEN, B_FINITE, B_NOT_FINITE };

typedef struct Zeros {
    Emit *e;
    const GemmPlan *plan;
    Type element, bits;
    int64_t bytes;
    Val params[ZEROS_NUM_PARAMS];
} Zeros;

/* Whether a look at A's elements costs little beside the products: those of a
 * group are vectors in memory, and there is a first and a last one. */
bool
be_gemm_can_skip_zeros(const Gemm *g, const GemmPlan *plan)
{
    for (int i = 0; i < g->k.count; i++)
        if (!ir_dim_is_const(g->k.vars[i]->extent))
            return false;
    switch (plan->a.kind) {
    case GEMM_IN_PLACE:
    case GEMM_ALONG_K:
    case GEMM_GROUPS:
    case GEMM_TILES:
        return !g->contract->contract.pairs && plan->kc >= MIN_K &&
               plan->mr > 1 && (plan->a.k_stride == 1 || plan->a.stride == 1);
    case GEMM_K_LINES:
    case GEMM_M_LINES:
    case GEMM_PANELS:
        return false;
    }
    UNREACHABLE("a layout");
}

/* ---- A ------------------------------------------------------------------- */

/* The address `count` elements after p. */
static Val
element_at(const Zeros *z, Val p, Val count)
{
    return LLVMBuildGEP2(z->e->u->builder, z->element, p, &count, 1, "");
}

static Val
rows_at(const Zeros *z, Val k)
{
    Val before = be_mul(z->e->u, k, be_emit_word(z->e, z->plan->a.k_stride));
    return element_at(z, z->params[ZEROS_A], before);
}

/* A group's elements in memory: `count` vectors. */
typedef struct Vectors {
    int count, lanes;
    int64_t step; /* elements from one to the next */
} Vectors;

static Vectors
vectors_of_group(const GemmPlan *plan)
{
    if (plan->a.k_stride == 1)
        return (Vectors){plan->mr, GROUP, plan->a.stride};
    if (plan->a.k_stride == plan->mr)
        return (Vectors){plan->mr * GROUP / plan->lanes, plan->lanes,
                         plan->lanes};
    return (Vectors){GROUP, plan->mr, plan->a.k_stride};
}

/* Whether A is +0 in all rows for the group of k that begins there. */
static Val
is_zero_group(const Zeros *z, Val k)
{
    BeUnit *u = z->e->u;
    Vectors v = vectors_of_group(z->plan);
    Type type = be_vector(z->bits, v.lanes);
    Val p = rows_at(z, k), all = be_zero(type);
    for (int i = 0; i < v.count; i++) {
        Val at = be_offset_const(u, p, i * v.step * z->bytes);
        all = be_or(u, all, be_load(u, type, at, (unsigned)z->bytes));
    }
    Val others = be_icmp(u, LLVMIntNE, all, be_zero(type));
    return LLVMBuildNot(u->builder,
                        be_intrinsic1(u, "llvm.vector.reduce.or", others), "");
}

/* The length of the groups that are 0 at the beginning of the first `count` k,
 * or at the end.  Most A have none: one element is looked at before. */
static Val
zeros_at(const Zeros *z, Val count, bool at_end)
{
    Emit *e = z->e;
    BeUnit *u = e->u;
    Val none = be_emit_word(e, 0), group = be_emit_word(e, GROUP);
    Val last = be_sub(u, z->params[ZEROS_K], be_emit_word(e, 1));
    Val sample = rows_at(z, at_end ? be_max(u, last, none) : none);
    sample = be_load(u, z->bits, sample, (unsigned)z->bytes);
    Val is_zero = be_icmp(u, LLVMIntEQ, sample, be_zero(z->bits));
    Val end = be_sub(u, count, be_emit_word(e, GROUP - 1));
    BeLoop l;
    be_loop_begin(u, &l, none, be_select(u, is_zero, end, none), NULL, "zeros");
    Val length = be_loop_carry(u, &l, none);
    be_loop_body(u, &l);
    Val more = be_add(u, l.index, group), first = l.index;
    if (at_end)
        first = be_sub(u, z->params[ZEROS_K], more);
    Val zero = is_zero_group(z, first);
    l.step = be_select(u, zero, group, be_max(u, end, group));
    be_loop_next(&l, 0, be_select(u, zero, more, length));
    be_loop_end(u, &l);
    return be_loop_result(&l, 0);
}

/* ---- B ------------------------------------------------------------------- */

/* 0 in all lanes if B is finite in the panel of columns at p, else NaN in some
 * lane. */
static Val
zero_times_panel(const Zeros *z, Val p)
{
    Emit *e = z->e;
    BeUnit *u = e->u;
    const GemmPlan *plan = z->plan;
    Type vector = be_vector(z->element, plan->lanes);
    Val zero = be_zero(vector);
    BeLoop l;
    be_loop_begin(u, &l, be_emit_word(e, 0), z->params[ZEROS_K],
                  be_emit_word(e, 1), "k");
    for (int v = 0; v < plan->vectors; v++)
        be_loop_carry(u, &l, zero);
    Val row = be_loop_carry(u, &l, p);
    be_loop_body(u, &l);
    for (int v = 0; v < plan->vectors; v++) {
        Val at = be_offset_const(u, row, v * plan->lanes * z->bytes);
        Val b = be_load(u, vector, at, (unsigned)z->bytes);
        be_loop_next(&l, v,
                     be_intrinsic3(u, "llvm.fma", zero, b, l.carried[v]));
    }
    be_loop_next(&l, plan->vectors,
                 be_offset_const(u, row, plan->b.k_stride * z->bytes));
    be_loop_end(u, &l);
    Val sum = zero;
    for (int v = 0; v < plan->vectors; v++)
        sum = LLVMBuildFAdd(u->builder, sum, be_loop_result(&l, v), "");
    return sum;
}

/* Whether B is finite in all columns of the block. */
static Val
is_finite(const Zeros *z)
{
    Emit *e = z->e;
    BeUnit *u = e->u;
    const GemmPlan *plan = z->plan;
    int64_t step = plan->b.kind == GEMM_IN_PLACE ? 1 : plan->kc;
    Type vector = be_vector(z->element, plan->lanes);
    BeLoop l;
    be_loop_begin(u, &l, be_emit_word(e, 0), z->params[ZEROS_COLUMNS],
                  be_emit_word(e, be_gemm_plan_nr(plan)), "column");
    Val sum = be_loop_carry(u, &l, be_zero(vector));
    be_loop_body(u, &l);
    Val p = element_at(z, z->params[ZEROS_B],
                       be_mul(u, l.index, be_emit_word(e, step)));
    Val more = zero_times_panel(z, p);
    be_loop_next(&l, 0, LLVMBuildFAdd(u->builder, sum, more, ""));
    be_loop_end(u, &l);
    sum = be_loop_result(&l, 0);
    Val nan = be_fcmp(u, LLVMRealUNO, sum, sum);
    return LLVMBuildNot(u->builder,
                        be_intrinsic1(u, "llvm.vector.reduce.or", nan), "");
}

/* ---- the function -------------------------------------------------------- */

static Val
get_found(BeUnit *u, Val found, int field)
{
    return be_load(u, u->i64, be_offset_const(u, found, 8 * field), 8);
}

static void
set_found(const Zeros *z, int field, Val value)
{
    BeUnit *u = z->e->u;
    Val found = z->params[ZEROS_FOUND];
    be_store(u, value, be_offset_const(u, found, 8 * field), 8);
}

/* Looks at B if nobody has, and goes to `end`: unless B is finite, with all k.
 */
static void
ask_b(const Zeros *z, Block end)
{
    Emit *e = z->e;
    BeUnit *u = e->u;
    Block look = be_block(u, "look"), known = be_block(u, "known");
    Block all = be_block(u, "all");
    Val found = z->params[ZEROS_FOUND];
    Val b = get_found(u, found, FOUND_B);
    be_cond_br(u, be_icmp(u, LLVMIntEQ, b, be_emit_word(e, B_NOT_SEEN)), look,
               known);
    be_position_at_end(u, look);
    set_found(z, FOUND_B,
              be_select(u, is_finite(z), be_emit_word(e, B_FINITE),
                        be_emit_word(e, B_NOT_FINITE)));
    be_br(u, known);
    be_position_at_end(u, known);
    b = get_found(u, found, FOUND_B);
    be_cond_br(u, be_icmp(u, LLVMIntEQ, b, be_emit_word(e, B_FINITE)), end,
               all);
    be_position_at_end(u, all);
    set_found(z, FOUND_FIRST, be_emit_word(e, 0));
    set_found(z, FOUND_END, z->params[ZEROS_K]);
    be_br(u, end);
}

Val
be_gemm_zeros(Emit *e, const Gemm *g, const GemmPlan *plan)
{
    BeUnit *u = e->u;
    Zeros z = {.e = e, .plan = plan};
    DType dtype = g->contract->dtype;
    z.element = be_emit_type(e, dtype);
    z.bytes = (int64_t)dtype_info[dtype].bytes;
    z.bits = z.bytes == 8 ? u->i64 : u->i32;
    Type types[] = {u->ptr, u->i64, u->ptr, u->i64, u->ptr};
    Val fn =
        be_func_begin(u, "zeros", u->nothing, types, ZEROS_NUM_PARAMS, false);
    be_func_attr(u, "noinline");
    be_emit_use_registers(e);
    for (int i = 0; i < ZEROS_NUM_PARAMS; i++)
        z.params[i] = LLVMGetParam(fn, (unsigned)i);
    Val all = z.params[ZEROS_K];
    Val first = zeros_at(&z, all, false);
    Val end = be_sub(u, all, zeros_at(&z, be_sub(u, all, first), true));
    Block some = be_block(u, "some"), done = be_block(u, "done");
    set_found(&z, FOUND_FIRST, first);
    set_found(&z, FOUND_END, end);
    be_cond_br(u, be_icmp(u, LLVMIntSLT, be_sub(u, end, first), all), some,
               done);
    be_position_at_end(u, some);
    ask_b(&z, done);
    be_position_at_end(u, done);
    LLVMBuildRetVoid(u->builder);
    be_func_end(u);
    return fn;
}

/* ---- its calls ----------------------------------------------------------- */

void
be_gemm_begin_zeros(GemmCode *t)
{
    BeUnit *u = t->e->u;
    if (t->functions.zeros)
        t->found = be_alloca(u, u->i64, FOUND_NUM, 8, "found");
}

void
be_gemm_forget_b(const GemmCode *t)
{
    if (t->functions.zeros)
        be_store(t->e->u, be_emit_word(t->e, B_NOT_SEEN), t->found, 8);
}

GemmProducts
be_gemm_find_products(const GemmCode *t, Val rows, const GemmBlock *block)
{
    BeUnit *u = t->e->u;
    Type type = LLVMGlobalGetValueType(t->functions.zeros);
    Val nr = be_emit_word(t->e, be_gemm_nr(t));
    Val columns = be_add(u, block->n, be_emit_word(t->e, be_gemm_nr(t) - 1));
    columns = be_mul(u, LLVMBuildUDiv(u->builder, columns, nr, ""), nr);
    Val args[] = {rows, block->k, block->b, columns, t->found};
    LLVMBuildCall2(u->builder, type, t->functions.zeros, args, ZEROS_NUM_PARAMS,
                   "");
    GemmProducts found = {.first = get_found(u, t->found, FOUND_FIRST)};
    found.end = get_found(u, t->found, FOUND_END);
    return found;
}
