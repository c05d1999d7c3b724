/*
 * cpu_kernel.c - the functions of a kernel on a CPU
 *
 * One executes a range of the kernel's items; for long reductions two more let
 * several threads work on one reduction.  A contraction that is a product of
 * matrices is packed and tiled, every other node is emitted directly.
 */
#include "backend/cpu/cpu_kernel.h"

#include <string.h>
#include "backend/depthwise/depthwise.h"
#include "backend/gemm/bf16.h"
#include "backend/gemm/pairs.h"

/* Words of a call's dims. */
static Val
dims_word(Emit *e, int64_t word)
{
    return be_load(e->u, e->u->i64, be_offset_const(e->u, e->dims, word * 8),
                   8);
}

static const EmitLowering cpu = {
    .call_word = dims_word,
    .nodes =
        {
            BE_EMIT_COMMON_NODES,
            [K_LOAD] = be_emit_load,
            [K_STORE] = be_emit_store,
            [K_REDUCE] = be_emit_reduce,
            [K_CONTRACT] = be_emit_contract,
            [K_LOOP] = be_emit_loop,
            [K_SCAN] = be_emit_scan,
            [K_SORT] = be_emit_sort,
        },
};

static void
begin_function(Emit *e, const char *suffix)
{
    BeUnit *u = e->u;
    const char *name = arena_printf(e->arena, "%s%s", e->k->name, suffix);
    Type params[] = {u->ptr, u->ptr, u->i64, u->i64};
    Val fn = be_func_begin(u, name, u->nothing, params, 4, true);
    be_emit_use_registers(e);
    static const char *const names[] = {"ptrs", "dims", "begin", "end"};
    for (unsigned i = 0; i < 4; i++)
        LLVMSetValueName2(LLVMGetParam(fn, i), names[i], strlen(names[i]));
    e->dims = LLVMGetParam(fn, 1);
    e->begin = LLVMGetParam(fn, 2);
    e->end = LLVMGetParam(fn, 3);
}

/* A function for a part of the kernel's work, besides the main one. */
static void
emit_beside(Emit *e, const char *suffix, void (*body)(Emit *e))
{
    BeUnit *u = e->u;
    int arrays = e->k->arrays[K_IN].len + e->k->arrays[K_OUT].len;
    Emit own = {.u = u,
                .arena = e->arena,
                .k = e->k,
                .target = e->target,
                .lowering = e->lowering,
                .word = e->word};
    be_emit_open(&own);
    begin_function(&own, suffix);
    be_emit_arrays(&own);
    Val at = be_offset_const(u, LLVMGetParam(u->func, 0), 8 * arrays);
    own.partials = be_load(u, u->ptr, at, 8);
    body(&own);
    LLVMBuildRetVoid(u->builder);
    be_func_end(u);
}

static GemmPlan
plan_of(const Emit *e, const Gemm *g)
{
    GemmUnit unit = be_bf16_unit(e->target, g->contract);
    GemmPlan plan =
        unit == GEMM_FMA ? be_gemm_plan_choose(e, g) : be_bf16_plan(e, g, unit);
    be_gemm_choose_cells(e->k, g, &plan);
    return plan;
}

static Val
micro_kernel_of(Emit *e, const Gemm *g, const GemmPlan *plan)
{
    if (plan->unit == GEMM_AMX)
        return be_amx_micro_kernel(e, g, plan);
    if (plan->unit == GEMM_VDPBF16PS)
        return be_vdpbf16ps_micro_kernel(e, g, plan);
    return g->contract->contract.pairs ? be_gemm_pairs_kernel(e, g, plan)
                                       : be_gemm_micro_kernel(e, g, plan);
}

Status
be_kernel_emit(BeUnit *u, const void *kernel, const BeTarget *t)
{
    const BeKernel *k = kernel;
    Arena *a = arena_new(NULL, "kernel code");
    Emit e = {.u = u, .arena = a, .k = k, .target = t, .lowering = &cpu};
    e.word = u->i64;
    be_emit_open(&e);
    Gemm g;
    Depthwise d;
    bool is_gemm = be_gemm_match(&e, &g);
    bool is_depthwise = !is_gemm && be_depthwise_match(&e, &d);
    if (is_gemm)
        be_gemm_find_shown(&e, &g);
    GemmPlan plan = is_gemm ? plan_of(&e, &g) : (GemmPlan){0};
    Val micro_kernel = is_gemm ? micro_kernel_of(&e, &g, &plan) : NULL;
    begin_function(&e, "");
    be_emit_arrays(&e);
    if (is_gemm)
        be_gemm_emit(&e, &g, &plan, micro_kernel);
    else if (is_depthwise)
        be_depthwise_emit(&e, &d);
    else
        be_emit_grid(&e);
    LLVMBuildRetVoid(u->builder);
    be_func_end(u);
    if (be_emit_num_chunks(k)) {
        emit_beside(&e, EMIT_PARTIAL, be_emit_partial);
        emit_beside(&e, EMIT_FINAL, be_emit_grid);
    }
    arena_release(a);
    return OK;
}

int64_t
be_cpu_kernel_grain(const BeKernel *k)
{
    int64_t grain;
    if (be_gemm_divides(k, &grain))
        return grain;
    return be_depthwise_is_undivided(k) ? 0 : be_kernel_grain(k);
}

bool
be_cpu_kernel_has_ranges(const BeKernel *k)
{
    int64_t grain;
    return !be_emit_num_chunks(k) && !be_gemm_divides(k, &grain) &&
           !be_depthwise_is_of_weights(k);
}
