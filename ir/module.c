/*
 * module.c - modules, functions, blocks and operations as linked structure
 *
 * Nothing here depends on the meaning of an operation.  An operation is one
 * allocation with its operands and attributes; its results are another, made
 * when they are known.
 */

#include "ir/ir.h"
#include "ir/type_bounds.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include "ir/base/status.h"

IrModule *
ir_module_new(Arena *a, Intern *names, Diag *diag)
{
    IrModule *m = NEW(a, IrModule);
    m->arena = a;
    m->names = names;
    m->diag = diag;
    m->num_replicas = m->num_workers = 1;
    m->bytes_per_pack = -1;
    m->devices = "cpu:0";
    m->vars_by_name = map_new(a);
    m->funcs_by_name = map_new(a);
    return m;
}

IrFunc *
ir_func_new(IrModule *m, const char *name, IrFuncKind kind, Loc loc)
{
    assert(name);
    IrFunc *fn = NEW(m->arena, IrFunc);
    fn->module = m;
    fn->name = intern(m->names, name);
    fn->kind = kind;
    fn->loc = loc;
    fn->row_ids = -1;
    fn->body = ir_block_new(fn);
    if (m->last)
        m->last->next = fn;
    else
        m->first = fn;
    m->last = fn;
    if (!ir_func_find(m, fn->name))
        map_set(m->funcs_by_name, fn->name, fn);
    return fn;
}

IrFunc *
ir_main(const IrModule *m)
{
    IrFunc *fn = m->first;
    while (fn && fn->kind != FUNC_MAIN)
        fn = fn->next;
    return fn;
}

void
ir_func_remove(IrFunc *fn)
{
    IrModule *m = fn->module;
    IrFunc **link = &m->first, *before = NULL;
    while (*link != fn) {
        assert(*link); /* fn is a function of this module */
        before = *link;
        link = &before->next;
    }
    *link = fn->next;
    if (m->last == fn)
        m->last = before;
    fn->next = NULL;
    if (ir_func_find(m, fn->name) == fn)
        map_set(m->funcs_by_name, fn->name, NULL);
}

/* Most names are interned and equal as pointers. */
static bool
same_name(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

IrFunc *
ir_func_find(const IrModule *m, const char *name)
{
    return name ? map_get(m->funcs_by_name, name) : NULL;
}

#define FIND_IN(list, wanted)                                                  \
    for (int i = 0; i < (list).len; i++) {                                     \
        if (same_name((list).data[i]->name, wanted))                           \
            return (list).data[i];                                             \
    }                                                                          \
    return NULL

void
ir_var_add(IrModule *m, IrVar *v)
{
    assert(v->name && (IR_VAR_AGGS >> v->agg & 1));
    VEC_PUSH(m->arena, m->vars, v);
    if (!ir_var_find(m, v->name))
        map_set(m->vars_by_name, v->name, v);
}

IrVar *
ir_var_find(const IrModule *m, const char *name)
{
    return name ? map_get(m->vars_by_name, name) : NULL;
}

int
ir_var_number(const IrModule *m, const IrVar *v)
{
    int i = 0;
    while (m->vars.data[i] != v)
        i++;
    return i;
}

IrParam *
ir_param_find(const IrModule *m, const char *name)
{
    FIND_IN(m->params, name);
}

IrDataset *
ir_dataset_find(const IrModule *m, const char *name)
{
    FIND_IN(m->datasets, name);
}

IrIter *
ir_iter_find(const IrModule *m, const char *name)
{
    FIND_IN(m->iters, name);
}

/* The number after stem in name, 0 if there is none; -1: name has another stem.
 */
static int
number_after(const char *stem, const char *name)
{
    size_t n = strlen(stem);
    const char *digits = name + n;
    if (strncmp(name, stem, n) != 0)
        return -1;
    if (!*digits)
        return 0;
    bool is_number = strspn(digits, "0123456789") == strlen(digits);
    return is_number && strlen(digits) < 9 ? atoi(digits) : -1;
}

/* stem, or stem1, stem2, ...: one more than the highest in use. */
static const char *
free_symbol_name(IrModule *m, const char *stem, IrStem *counted)
{
    for (; counted->num_symbols < m->symbols.len; counted->num_symbols++) {
        const char *name = m->symbols.data[counted->num_symbols].name;
        int number = number_after(stem, name);
        if (number >= counted->next)
            counted->next = number + 1;
    }
    if (!counted->next)
        return intern(m->names, stem);
    return intern(m->names,
                  arena_printf(m->arena, "%s%d", stem, counted->next));
}

int32_t
ir_symbol_pair(IrModule *m, int64_t bound, int64_t total)
{
    int32_t n = m->symbols.len;
    const char *local_name = free_symbol_name(m, "n", &m->counted[0]);
    const char *global_name = free_symbol_name(m, "N", &m->counted[1]);
    IrSymbol local = {local_name, bound, n + 1, false, .of = -1};
    IrSymbol global = {global_name, total, n, true, .of = -1};
    VEC_PUSH(m->arena, m->symbols, local);
    VEC_PUSH(m->arena, m->symbols, global);
    return n;
}

int32_t
ir_next_rows(const IrOp *op)
{
    for (int i = 0; i < op->num_results; i++) {
        const IrType *t = &op->results[i]->type;
        for (int k = 0; k < t->rank; k++)
            if (!ir_dim_is_const(t->dims[k]))
                return t->dims[k].sym;
    }
    return -1;
}

void
ir_symbols_cut(IrModule *m, int n)
{
    assert(n >= 0 && n <= m->symbols.len);
    if (n == m->symbols.len)
        return;
    m->symbols.len = n;
    memset(m->counted, 0, sizeof m->counted);
}

int32_t
ir_symbol_alone(IrModule *m, int64_t bound)
{
    const char *name = free_symbol_name(m, "b", &m->counted[2]);
    IrSymbol s = {name, bound, -1, false, .of = -1};
    VEC_PUSH(m->arena, m->symbols, s);
    return m->symbols.len - 1;
}

int32_t
ir_symbol_find_replica(const IrModule *m, int32_t n, int64_t replica)
{
    for (int32_t i = 0; i < m->symbols.len; i++) {
        const IrSymbol *s = &m->symbols.data[i];
        if (s->of == n && s->replica == replica)
            return i;
    }
    return -1;
}

int32_t
ir_symbol_of_replica(IrModule *m, int32_t n, int replica)
{
    assert(n >= 0 && n < m->symbols.len && replica >= 0 &&
           replica < m->num_replicas);
    int32_t found = ir_symbol_find_replica(m, n, replica);
    if (found >= 0)
        return found;
    int32_t first = m->symbols.len;
    for (int r = 0; r < m->num_replicas; r++) {
        IrSymbol s = m->symbols.data[n];
        s.name = intern(m->names, arena_printf(m->arena, "%s_%d", s.name, r));
        s.partner = -1;
        s.of = n;
        s.replica = r;
        VEC_PUSH(m->arena, m->symbols, s);
    }
    return first + replica;
}

/* ---- blocks and operations --------------------------------------------- */

IrBlock *
ir_block_new(IrFunc *fn)
{
    IrBlock *b = NEW(fn->module->arena, IrBlock);
    b->func = fn;
    return b;
}

IrValue *
ir_block_arg(IrBlock *b, IrType type, const char *name)
{
    Arena *a = b->func->module->arena;
    IrValue *v = NEW(a, IrValue);
    v->type = type;
    v->block = b;
    v->index = b->args.len;
    v->number = b->func->module->num_values++;
    v->name = name;
    VEC_PUSH(a, b->args, v);
    return v;
}

IrOp *
ir_op_new(IrFunc *fn, IrOpKind kind, int num_operands, IrValue *const *operands,
          Loc loc)
{
    assert(kind < NUM_OPS && num_operands >= 0);
    size_t num_attrs = (size_t)ir_op_info[kind].num_attrs;
    size_t n = (size_t)num_operands;
    IrOp *op = arena_alloc(fn->module->arena,
                           sizeof *op + num_attrs * sizeof *op->attrs +
                               n * sizeof *op->operands);
    op->kind = kind;
    op->loc = loc;
    op->attrs = (IrAttrValue *)(op + 1);
    op->operands = (IrValue **)(op->attrs + num_attrs);
    op->num_operands = num_operands;
    if (n)
        memcpy(op->operands, operands, n * sizeof *op->operands);
    op->module = fn->module;
    op->number = fn->module->num_ops++;
    op->calls = fn->module->calls;
    return op;
}

enum { MAX_CALLS_NOTED = 10 };

void
ir_note_calls(Diag *d, const IrCall *calls, Loc shown)
{
    int n = 0, rest = 0;
    Loc last = NO_LOC; /* a function that calls itself says so once */
    for (; calls && n < MAX_CALLS_NOTED; calls = calls->caller) {
        if (loc_is_same(calls->loc, shown) || loc_is_same(calls->loc, last))
            continue;
        diag_note(d, calls->loc, "%s", calls->note);
        last = calls->loc;
        n++;
    }
    for (; calls; calls = calls->caller)
        rest++;
    if (rest)
        diag_note(d, NO_LOC, "and %d call%s more", rest, rest == 1 ? "" : "s");
}

Loc
ir_own_loc(const Diag *d, Loc loc, const IrCall *calls)
{
    for (; calls && diag_is_library(d, loc.file); calls = calls->caller)
        loc = calls->loc;
    return loc;
}

void
ir_note_library(Diag *d, Loc loc, const IrCall *calls, Loc own)
{
    if (loc_is_same(own, loc))
        return;
    while (calls && !loc_is_same(calls->loc, own))
        calls = calls->caller;
    if (calls && calls->layer)
        diag_note(d, loc, "found here, in the library, for \"%s\"",
                  calls->layer);
    else
        diag_note(d, loc, "found here, in the library");
}

void
ir_report(Diag *d, Loc loc, const IrCall *calls, const char *repair,
          const char *text)
{
    Loc own = ir_own_loc(d, loc, calls);
    diag_error(d, own, "%s", text);
    ir_note_library(d, loc, calls, own);
    if (repair)
        diag_note(d, loc, "%s", repair);
    ir_note_calls(d, calls, own);
}

void
ir_op_results(IrOp *op, int num, const IrType *types)
{
    if (num == 0)
        return;
    assert(num > 0);
    Arena *a = op->module->arena;
    IrValue *values = NEW_ARRAY(a, IrValue, (size_t)num);
    op->results = NEW_ARRAY(a, IrValue *, (size_t)num);
    op->num_results = num;
    for (int i = 0; i < num; i++) {
        values[i].type = types[i];
        values[i].def = op;
        values[i].index = i;
        values[i].number = op->module->num_values++;
        op->results[i] = &values[i];
    }
}

/* Sets fn as the function of op's regions: an operation may be moved to another
 * function of its module. */
static void
adopt_regions(IrOp *op, IrFunc *fn)
{
    for (int i = 0; i < op->num_regions; i++) {
        IrBlock *b = op->regions[i];
        if (b->func == fn)
            continue;
        b->func = fn;
        for (IrOp *inner = b->first; inner; inner = inner->next)
            adopt_regions(inner, fn);
    }
}

/* Links op into b between before and after, which may be NULL.  Passes that
 * order a block anew link operations that are in it already. */
static void
link_op(IrBlock *b, IrOp *before, IrOp *op, IrOp *after)
{
    assert(!op->block || op->block == b);
    assert(op->module == b->func->module);
    assert((before ? before->next : b->first) == after);
    assert((after ? after->prev : b->last) == before);
    op->block = b;
    op->prev = before;
    op->next = after;
    *(before ? &before->next : &b->first) = op;
    *(after ? &after->prev : &b->last) = op;
    adopt_regions(op, b->func);
}

void
ir_append(IrBlock *b, IrOp *op)
{
    link_op(b, b->last, op, NULL);
}

void
ir_insert_before(IrOp *where, IrOp *op)
{
    link_op(where->block, where->prev, op, where);
}

void
ir_remove(IrOp *op)
{
    IrBlock *b = op->block;
    assert(b); /* it is in a block */
    *(op->prev ? &op->prev->next : &b->first) = op->next;
    *(op->next ? &op->next->prev : &b->last) = op->prev;
    op->block = NULL;
    op->prev = op->next = NULL;
}

bool
ir_is_inside(const IrValue *v, const IrOp *op)
{
    const IrBlock *b = ir_value_block(v);
    for (; b; b = b->op ? b->op->block : NULL)
        if (b->op == op)
            return true;
    return false;
}

void
ir_set_region(IrOp *op, int index, IrBlock *b)
{
    assert(index == 0 || index == 1);
    op->regions[index] = b;
    b->op = op;
    if (op->num_regions <= index)
        op->num_regions = index + 1;
}

IrBlock *
ir_block_scratch(const IrOp *where)
{
    IrBlock *b = ir_block_new(where->block->func);
    b->op = where->block->op;
    return b;
}

/* Moves the chain of scratch between before and after in b. */
static void
splice(IrBlock *b, IrOp *before, IrBlock *scratch, IrOp *after)
{
    IrOp *first = scratch->first, *last = scratch->last;
    assert(scratch != b && scratch->func->module == b->func->module);
    if (!first)
        return;
    for (IrOp *op = first; op; op = op->next) {
        op->block = b;
        adopt_regions(op, b->func);
    }
    first->prev = before;
    last->next = after;
    *(before ? &before->next : &b->first) = first;
    *(after ? &after->prev : &b->last) = last;
    scratch->first = scratch->last = NULL;
}

void
ir_splice_before(IrOp *where, IrBlock *scratch)
{
    splice(where->block, where->prev, scratch, where);
}

void
ir_splice_after(IrOp *where, IrBlock *scratch)
{
    splice(where->block, where, scratch, where->next);
}

IrOp *
ir_block_yield(const IrBlock *b)
{
    IrOp *last = b->last;
    return last && ir_op_info[last->kind].traits & TERMINATOR ? last : NULL;
}

IrOp *
ir_func_return(const IrFunc *fn)
{
    return ir_block_yield(fn->body);
}

bool
ir_var_is_own(const IrVar *v)
{
    return v->sync == SYNC_ON_READ || v->type.locality == LOCAL_ON;
}

int64_t
ir_var_part_rows(const IrVar *v, int64_t i)
{
    int64_t rows = v->type.dims[0].c;
    return rows / v->parts + (i < rows % v->parts);
}

const IrVar *
ir_var_home(const IrModule *m, const IrVar *v)
{
    for (int i = 0; i < m->vars.len && v->colocate; i++) {
        const IrVar *of = ir_var_find(m, v->colocate);
        if (!of)
            break;
        v = of;
    }
    return v;
}

int64_t
ir_var_parts(const IrModule *m, const IrVar *v)
{
    const IrVar *home = ir_var_home(m, v);
    bool is_cut = home->parts > 1 && v->type.rank > 0 &&
                  ir_dim_equal(v->type.dims[0], home->type.dims[0]);
    return is_cut ? home->parts : 1;
}

int64_t
ir_update_rows(const IrFunc *fn, const IrVar *home)
{
    int64_t rows = ir_var_part_rows(home, 0);
    if (!fn->rows_only || fn->row_ids >= fn->body->args.len)
        return rows;
    const IrType *ids = &fn->body->args.data[fn->row_ids]->type;
    int64_t most = ids->rank ? ir_dim_full(fn->module, ids->dims[0]).c : rows;
    return most < rows ? most : rows;
}

IrType
ir_var_type_in(const IrFunc *fn, const IrVar *v)
{
    IrType t = v->type;
    const IrVar *of =
        fn && fn->part_of ? ir_var_find(fn->module, fn->part_of) : NULL;
    if (!of || ir_var_parts(fn->module, v) == 1)
        return t;
    const IrVar *home = ir_var_home(fn->module, v);
    if (home == ir_var_home(fn->module, of))
        t.dims[0] = ir_dim_const(ir_update_rows(fn, home));
    return t;
}

/* ---- contexts ---------------------------------------------------------- */

IrOp *
ir_context_op(const IrBlock *b)
{
    IrOp *op = b->op;
    while (op && op->kind != OP_run && op->kind != OP_merge &&
           op->kind != OP_update)
        op = op->block ? op->block->op : NULL;
    return op;
}

IrContext
ir_context(const IrBlock *b)
{
    const IrOp *op = ir_context_op(b);
    if (!op) {
        /* Until communicate has lowered their bodies, device programs are
         * pieces of main. */
        const IrFunc *fn = b->func;
        bool replica =
            fn->kind == FUNC_PROGRAM && fn->module->phase >= PHASE_REPLICATED;
        return replica ? CX_REPLICA : CX_CROSS;
    }
    if (op->kind == OP_run)
        return CX_REPLICA;
    return op->kind == OP_merge ? CX_MERGE : CX_UPDATE;
}
