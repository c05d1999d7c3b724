/*
 * ptx.c - compiles a kernel to a module of PTX
 *
 *   ptx.c         the function, its parameters, the text of several
 *   ptx_block.c   barriers, conditions, shuffles, shared memory
 *   ptx_shape.c   how a kernel is divided among threads
 *   ptx_grid.c    threads, teams, and loops that they share out
 *   ptx_groups.c  which neighbours are adjacent in memory
 *   ptx_memory.c  loads and stores
 *   ptx_reduce.c  reductions of a team
 *   ptx_rows.c    rows that stay in registers
 *   ptx_panels.c  long rows, a block each
 *   ptx_columns.c reductions of columns
 *   ptx_reuse.c   what reductions and loops over the same elements share
 *   ptx_scatter.c scatters, divided by columns and rows
 *   ptx_slice.c   the part of a kernel that some values follow from
 *   ptx_squares.c transposes, a square of elements by each thread
 *   ptx_tree.c    the tree of a reduction, by shuffles
 *   ptx_tiles.c   contractions in tiles (with ptx_operand.c, ptx_pairs.c,
 *                 ptx_stage.c, ptx_tile_parts.c and ptx_tile_shape.c)
 *   ptx_split.c   work in two launches
 *   ptx_scan.c    running sums and sorts of a team
 *
 * Without further options NVPTX rounds division and square root correctly,
 * keeps subnormals and fuses nothing.  Additions and multiplications are
 * written as add.rn and mul.rn, which the assembler may not fuse either.
 */
#include "backend/ptx/ptx.h"

#include <string.h>
#include "backend/kernel/kernel_impl.h"
#include "backend/ptx/ptx_emit.h"
#include "ir/plan/abi.h"

/* LLVM-C has no names for these. */
enum { PTX_KERNEL_CALL = 71 };

/* From this value on an index is an i64: twice the value must not overflow an
 * i32, since loops step beyond their end. */
#define NARROW_LIMIT (INT64_C(1) << 30)

/* ---- width of indices --------------------------------------------------- */

typedef struct Width {
    const BeKernel *k;
    int64_t items;
    bool wide;
} Width;

static void
note_width(KNode *n, void *data)
{
    Width *w = data;
    KRanges *ranges;
    int64_t points;
    if (!be_kernel_body(n, &ranges))
        return;
    points = be_ranges_bound(w->k, ranges);
    if (n->kind == K_LOOP && __builtin_mul_overflow(points, w->items, &points))
        points = INT64_MAX;
    w->wide = w->wide || points >= NARROW_LIMIT;
}

static bool
is_wide(const BeKernel *k)
{
    Width w = {.k = k, .items = be_items_bound(k)};
    w.wide = be_indices_are_wide(k) || w.items >= NARROW_LIMIT;
    KBlock body = k->body;
    be_kernel_walk(&body, note_width, &w);
    return w.wide;
}

/* ---- aliasing ---------------------------------------------- */

/* Whether an array of this role shares memory with none of the other. */
static bool
is_apart(const BeKernel *k, const KArray *array, KRole role)
{
    KRole other = role == K_IN ? K_OUT : K_IN;
    for (int i = 0; i < k->arrays[other].len; i++) {
        const KArray *x = k->arrays[other].data[i];
        if (role == K_IN ? be_ptx_may_share(k, array, x)
                         : be_ptx_may_share(k, x, array))
            return false;
    }
    return true;
}

/* ---- the function ------------------------------------------------------- */

static int
num_arrays(const BeKernel *k)
{
    return k->arrays[K_IN].len + k->arrays[K_OUT].len;
}

/* The addresses of segments are one parameter; that of scratch memory is the
 * last one. */
static Val
call_word(Emit *e, int64_t word)
{
    bool splits = ((Ptx *)e)->shape.split.parts > 0;
    int before = e->k->segments.len ? 1 : num_arrays(e->k) + splits;
    return LLVMGetParam(e->u->func, (unsigned)(before + word));
}

static const EmitLowering gpu = {
    .call_word = call_word,
    .nodes =
        {
            BE_EMIT_COMMON_NODES,
            [K_LOAD] = be_ptx_load,
            [K_STORE] = be_ptx_store,
            [K_REDUCE] = be_ptx_reduce,
            [K_CONTRACT] = be_ptx_contract,
            [K_LOOP] = be_ptx_emit_loop,
            [K_SCAN] = be_ptx_scan,
            [K_SORT] = be_ptx_sort,
        },
};

static int
num_words(const BeKernel *k)
{
    return be_kernel_replica_word(k) + (k->uses_replica ? 1 : 0);
}

static const char *
suffix(const Ptx *p)
{
    return p->is_rest ? TFD_REST : "";
}

/* Names and attributes of the parameters that are arrays of a role. */
static void
add_arrays(Ptx *p, KRole role, int first)
{
    Emit *e = &p->e;
    const BeKernel *k = e->k;
    int num = k->arrays[role].len;
    e->arrays[role] = NEW_ARRAY(e->arena, Val, (size_t)num + 1);
    for (int i = 0; i < num; i++) {
        Val x = LLVMGetParam(e->u->func, (unsigned)(first + i));
        const char *name =
            arena_printf(e->arena, "%s%d", role == K_IN ? "in" : "out", i);
        LLVMSetValueName2(x, name, strlen(name));
        e->arrays[role][i] = x;
        if (role == K_IN)
            be_param_attr(e->u, first + i, "readonly");
        if (is_apart(k, k->arrays[role].data[i], role))
            be_param_attr(e->u, first + i, "noalias");
    }
}

static void
add_tables(Ptx *p)
{
    Emit *e = &p->e;
    const BeKernel *k = e->k;
    int num = k->arrays[K_TABLE].len;
    e->arrays[K_TABLE] = NEW_ARRAY(e->arena, Val, (size_t)num + 1);
    for (int i = 0; i < num; i++) {
        const char *name =
            arena_printf(e->arena, "%s%s_table%d", k->name, suffix(p), i);
        e->arrays[K_TABLE][i] =
            be_emit_table(e->u, k->arrays[K_TABLE].data[i], name, PTX_GLOBAL);
    }
}

static void
add_scratch(Ptx *p, int at)
{
    BeUnit *u = p->e.u;
    p->scratch = LLVMGetParam(u->func, (unsigned)at);
    be_param_attr(u, at, "noalias");
    if (p->is_rest)
        be_param_attr(u, at, "readonly");
}

static void
add_all_arrays(Ptx *p)
{
    add_arrays(p, K_IN, 0);
    add_arrays(p, K_OUT, p->e.k->arrays[K_IN].len);
    if (p->shape.split.parts)
        add_scratch(p, num_arrays(p->e.k));
}

/* The addresses are one parameter, a table by value, with the layout that they
 * would have one by one: a segment finds its own by number. */
static void
add_table_of_arrays(Ptx *p)
{
    Emit *e = &p->e;
    Type pointer = LLVMPointerTypeInContext(e->u->context, PTX_GLOBAL);
    Type table = LLVMArrayType2(pointer, (uint64_t)num_arrays(e->k));
    be_param_by_value(e->u, 0, table, 8);
    for (int role = K_IN; role <= K_OUT; role++)
        e->arrays[role] = NEW_ARRAY(
            e->arena, Val, (size_t)be_kernel_segment_arrays(e->k, (KRole)role));
}

static void
begin_function(Ptx *p)
{
    Emit *e = &p->e;
    BeUnit *u = e->u;
    const BeKernel *k = e->k;
    Type pointer = LLVMPointerTypeInContext(u->context, PTX_GLOBAL);
    int num = k->segments.len ? 1 : num_arrays(k) + (p->shape.split.parts > 0),
        num_params = num + num_words(k);
    Type *params = NEW_ARRAY(e->arena, Type, (size_t)num_params + 1);
    for (int i = 0; i < num_params; i++)
        params[i] = i >= num ? u->i64 : k->segments.len ? u->ptr : pointer;
    const char *name = arena_printf(e->arena, "%s%s", k->name, suffix(p));
    Val fn = be_func_begin(u, name, u->nothing, params, num_params, true);
    LLVMSetFunctionCallConv(fn, PTX_KERNEL_CALL);
    if (k->segments.len)
        add_table_of_arrays(p);
    else
        add_all_arrays(p);
    add_tables(p);
}

/* ---- the module --------------------------------------------------- */

static Val
special(Ptx *p, const char *name)
{
    Val x = be_intrinsic(p->e.u, name, NULL, 0, NULL, 0);
    return LLVMBuildIntCast2(p->e.u->builder, x, p->e.word, 0, "");
}

/* In a module that is joined with others every name must be unique. */
static Val
shared_memory(Ptx *p)
{
    BeUnit *u = p->e.u;
    if (!p->shape.shared)
        return NULL;
    const char *name = arena_printf(p->e.arena, "%s_shared", p->e.k->name);
    Type type = LLVMArrayType2(u->i8, (uint64_t)p->shape.shared);
    Val memory = LLVMAddGlobalInAddressSpace(u->module, type, name, PTX_SHARED);
    LLVMSetInitializer(memory, LLVMGetUndef(type));
    LLVMSetLinkage(memory, LLVMInternalLinkage);
    LLVMSetAlignment(memory, PTX_ALIGN);
    return memory;
}

static void
annotate(Ptx *p, const char *key, int value)
{
    BeUnit *u = p->e.u;
    LLVMMetadataRef fields[] = {
        LLVMValueAsMetadata(u->func),
        LLVMMDStringInContext2(u->context, key, strlen(key)),
        LLVMValueAsMetadata(LLVMConstInt(u->i32, (uint64_t)value, 0)),
    };
    LLVMMetadataRef node = LLVMMDNodeInContext2(u->context, fields, 3);
    LLVMAddNamedMetadataOperand(u->module, "nvvm.annotations",
                                LLVMMetadataAsValue(u->context, node));
}

/* How k is divided; p is open then. */
static void
open_kernel(Ptx *p)
{
    p->e.lowering = &gpu;
    p->e.word = is_wide(p->e.k) ? p->e.u->i64 : p->e.u->i32;
    be_emit_open(&p->e);
    p->shape = be_ptx_shape_choose(p);
    if (p->is_rest) {
        p->shape.threads = PTX_REST_THREADS;
        p->shape.shared = 0;
    }
}

static PtxSplit
emit_launch(BeUnit *u, Arena *a, const BeKernel *k, const BeTarget *t,
            bool is_rest)
{
    Ptx p = {.e = {.u = u, .arena = a, .k = k, .target = t},
             .is_rest = is_rest};
    open_kernel(&p);
    begin_function(&p);
    annotate(&p, "reqntidx", p.shape.threads);
    /* One block may use all registers: by default the assembler spills. */
    annotate(&p, "minctasm",
             p.is_rest ? 1 : be_ptx_tile_resident(&p.shape.tiles));
    p.shared = shared_memory(&p);
    p.thread = special(&p, "llvm.nvvm.read.ptx.sreg.tid.x");
    p.block = special(&p, "llvm.nvvm.read.ptx.sreg.ctaid.x");
    p.num_blocks = special(&p, "llvm.nvvm.read.ptx.sreg.nctaid.x");
    be_ptx_emit_grid(&p);
    LLVMBuildRetVoid(u->builder);
    be_func_end(u);
    return p.shape.split;
}

/* What whoever launches both functions has to know, as a comment. */
static void
note_launches(BeUnit *u, Arena *a, const BeKernel *k, const BeTarget *t)
{
    BePtxLaunches l = be_ptx_launches(k, t);
    const char *note = arena_printf(
        a, TFD_LAUNCHES "%s" TFD_LAUNCHES_FORMAT, k->name, (long long)l.blocks,
        (long long)l.rest_blocks, (long long)l.scratch);
    LLVMSetModuleInlineAsm2(u->module, note, strlen(note));
}

Status
be_ptx_emit(BeUnit *u, const void *kernel, const BeTarget *t)
{
    const BeKernel *k = kernel;
    Arena *a = arena_new(NULL, "kernel code");
    LLVMSetTarget(u->module, t->triple);
    PtxSplit split = emit_launch(u, a, k, t, false);
    if (split.parts) {
        emit_launch(u, a, k, t, true);
        note_launches(u, a, k, t);
    }
    arena_release(a);
    return OK;
}

BePtxLaunches
be_ptx_launches(const BeKernel *k, const BeTarget *t)
{
    BeUnit u;
    be_unit_open(&u, k->name, false);
    Arena *a = arena_new(NULL, "kernel shape");
    Ptx p = {.e = {.u = &u, .arena = a, .k = k, .target = t}};
    open_kernel(&p);
    BePtxLaunches l = {.blocks = be_ptx_shape_blocks(k, &p.shape),
                       .scratch = p.shape.split.bytes};
    if (p.shape.split.parts)
        l.rest_blocks = be_ptx_rest_blocks(k, &p.shape);
    arena_release(a);
    be_unit_close(&u);
    return l;
}

/* ---- text --------------------------------------------------------------- */

/* The line that ends the header, which is the same for all modules. */
static const char last_of_header[] = ".address_size 64\n";

void
be_ptx_join(Str *out, const char *ptx, size_t len)
{
    size_t header = sizeof last_of_header - 1;
    const char *end = memmem(ptx, len, last_of_header, header);
    size_t skip = end && out->len ? (size_t)(end - ptx) + header : 0;
    str_addn(out, ptx + skip, len - skip);
}
