/*
 * emit_cpu.c - the functions of a kernel on a CPU
 *
 * One that does a range of the kernel's items; for long reductions two more,
 * by which several threads do it together.  A contraction that is a product of
 * matrices is packed and tiled, everything else is done as it stands.
 */
#include "backend/cpu/emit_cpu.h"

#include <string.h>
#include "backend/gemm/emit_product.h"

/* Words of a call's dims. */
static Val
dims_word(Emit *e, int64_t word)
{
    return be_load(e->u, e->u->i64, be_offset_const(e->u, e->dims, word * 8),
                   8);
}

static const EmitMachine cpu = {
    .call_word = dims_word,
    .nodes =
        {
            [K_LOAD] = emit_load,
            [K_STORE] = emit_store,
            [K_REDUCE] = emit_reduce,
            [K_CONTRACT] = emit_contract,
            [K_LOOP] = emit_loop,
            [K_SCAN] = emit_scan,
            [K_SORT] = emit_sort,
        },
};

static void
begin_function(Emit *e, const char *suffix)
{
    BeUnit *u = e->u;
    const char *name = arena_printf(e->arena, "%s%s", e->k->name, suffix);
    Type params[] = {u->ptr, u->ptr, u->i64, u->i64};
    Val fn = be_func_begin(u, name, u->nothing, params, 4, true);
    emit_use_registers(e);
    static const char *const names[] = {"ptrs", "dims", "begin", "end"};
    for (unsigned i = 0; i < 4; i++)
        LLVMSetValueName2(LLVMGetParam(fn, i), names[i], strlen(names[i]));
    e->dims = LLVMGetParam(fn, 1);
    e->begin = LLVMGetParam(fn, 2);
    e->end = LLVMGetParam(fn, 3);
}

/* A function for a part of what the kernel does, beside its own. */
static void
emit_beside(Emit *e, const char *suffix, void (*body)(Emit *e))
{
    BeUnit *u = e->u;
    int arrays = e->k->arrays[K_IN].len + e->k->arrays[K_OUT].len;
    Emit own = {.u = u,
                .arena = e->arena,
                .k = e->k,
                .target = e->target,
                .machine = e->machine,
                .word = e->word};
    emit_open(&own);
    begin_function(&own, suffix);
    emit_arrays(&own);
    Val at = be_offset_const(u, LLVMGetParam(u->func, 0), 8 * arrays);
    own.parts = be_load(u, u->ptr, at, 8);
    body(&own);
    LLVMBuildRetVoid(u->builder);
    be_func_end(u);
}

Status
be_kernel_emit(BeUnit *u, const void *kernel, const BeTarget *t)
{
    const BeKernel *k = kernel;
    Arena *a = arena_new(NULL, "kernel code");
    Emit e = {.u = u, .arena = a, .k = k, .target = t, .machine = &cpu};
    e.word = u->i64;
    emit_open(&e);
    EmitProduct p;
    bool is_product = emit_product_find(&e, &p);
    EmitPlan plan = is_product ? emit_plan_choose(&e, &p) : (EmitPlan){0};
    Val adder = is_product ? emit_adder(&e, &p, &plan) : NULL;
    begin_function(&e, "");
    emit_arrays(&e);
    if (is_product)
        emit_tiles(&e, &p, &plan, adder);
    else
        emit_grid(&e);
    LLVMBuildRetVoid(u->builder);
    be_func_end(u);
    if (emit_num_chunks(k)) {
        emit_beside(&e, EMIT_PART, emit_part);
        emit_beside(&e, EMIT_REST, emit_grid);
    }
    arena_release(a);
    return OK;
}
