/*
 * clone.c - copies of operations, bodies and whole modules
 *
 * Copies are made in the order of the text, so an operand is copied before its
 * use.  The functions write into the arena of the block they append to, which
 * may belong to another module with the same names.
 */

#include "ir/ir.h"

#include <assert.h>
#include "ir/ptrmap.h"

struct IrCloneMap {
    PtrMap values;
    PtrMap reasons; /* when the module is copied: theirs, once each */
    bool deep;
};

IrCloneMap *
ir_clone_map(Arena *a)
{
    IrCloneMap *map = NEW(a, IrCloneMap);
    map->values.arena = a;
    map->reasons.arena = a;
    return map;
}

void
ir_clone_set(IrCloneMap *map, const IrValue *from, IrValue *to)
{
    assert(from && to);
    ir_ptrmap_set(&map->values, from, to);
}

IrValue *
ir_clone_get(const IrCloneMap *map, IrValue *from)
{
    IrValue *to = ir_ptrmap_get(&map->values, from);
    return to ? to : from;
}

/* Copies the fields of a value that are not in its type. */
static void
copy_value(IrCloneMap *map, const IrModule *m, const IrValue *from, IrValue *to)
{
    to->name = from->name;
    to->place = from->place;
    if (map->deep && from->name)
        to->name = intern(m->names, from->name);
    ir_clone_set(map, from, to);
}

static const IrReason *
copy_reason(IrCloneMap *map, IrModule *m, const IrReason *from)
{
    if (!map->deep || !from)
        return from;
    IrReason *to = ir_ptrmap_get(&map->reasons, from);
    if (!to) {
        to = NEW(m->arena, IrReason);
        to->rule = intern(m->names, from->rule);
        to->cause = arena_strdup(m->arena, from->cause);
        to->loc = from->loc;
        ir_ptrmap_set(&map->reasons, from, to);
    }
    return to;
}

static void
copy_results(IrCloneMap *map, const IrOp *from, IrOp *to)
{
    Arena *a = to->module->arena;
    int n = from->num_results;
    IrType one, *types = &one;
    if (n > 1)
        types = NEW_ARRAY(a, IrType, (size_t)n);
    for (int i = 0; i < n; i++)
        types[i] = from->results[i]->type;
    ir_op_results(to, n, types);
    for (int i = 0; i < n; i++)
        copy_value(map, to->module, from->results[i], to->results[i]);
}

static void
copy_args(IrCloneMap *map, const IrBlock *from, IrBlock *to)
{
    for (int i = 0; i < from->args.len; i++) {
        const IrValue *arg = from->args.data[i];
        IrValue *copy = ir_block_arg(to, arg->type, arg->name);
        copy_value(map, to->func->module, arg, copy);
    }
}

IrOp *
ir_clone_op(IrCloneMap *map, const IrOp *op, IrBlock *to)
{
    IrOp *copy =
        ir_op_new(to->func, op->kind, op->num_operands, op->operands, op->loc);
    for (int i = 0; i < op->num_operands; i++)
        copy->operands[i] = ir_clone_get(map, op->operands[i]);
    ir_attrs_copy(copy, op);
    copy->reason = copy_reason(map, copy->module, op->reason);
    copy->calls = copy->module == op->module ? op->calls : NULL;
    ir_append(to, copy);
    for (int i = 0; i < op->num_regions; i++) {
        IrBlock *b = ir_block_new(to->func);
        ir_set_region(copy, i, b);
        copy_args(map, op->regions[i], b);
        ir_clone_body(map, op->regions[i], b);
    }
    copy_results(map, op, copy);
    return copy;
}

void
ir_clone_body(IrCloneMap *map, const IrBlock *from, IrBlock *to)
{
    for (const IrOp *op = from->first; op; op = op->next)
        ir_clone_op(map, op, to);
}

/* ---- modules ----------------------------------------------------------- */

static void
clone_func(const IrFunc *from, IrModule *m)
{
    Arena *scratch = arena_new(m->arena, "clone");
    IrCloneMap *map = ir_clone_map(scratch);
    map->deep = true;
    IrFunc *to = ir_func_new(m, from->name, from->kind, from->loc);
    if (from->variant_of)
        to->variant_of = intern(m->names, from->variant_of);
    if (from->worker_of)
        to->worker_of = intern(m->names, from->worker_of);
    if (from->part_of)
        to->part_of = intern(m->names, from->part_of);
    to->row_ids = from->row_ids;
    to->rows_only = from->rows_only;
    to->arena_bytes = from->arena_bytes;
    copy_args(map, from->body, to->body);
    ir_clone_body(map, from->body, to->body);
    arena_release(scratch);
}

static const char *
clone_text(IrModule *m, const char *text)
{
    return text ? intern(m->names, text) : NULL;
}

static void
clone_var(const IrVar *from, IrModule *m)
{
    IrVar *to = NEW(m->arena, IrVar);
    *to = *from;
    to->name = clone_text(m, from->name);
    to->colocate = clone_text(m, from->colocate);
    to->init = clone_text(m, from->init);
    ir_var_add(m, to);
}

static void
clone_param(const IrParam *from, IrModule *m)
{
    IrParam *to = NEW(m->arena, IrParam);
    *to = *from;
    to->name = clone_text(m, from->name);
    to->text = from->text ? clone_text(m, from->text) : NULL;
    VEC_PUSH(m->arena, m->params, to);
}

static IrNames
clone_strings(IrModule *m, const IrNames *from)
{
    IrNames to = {0};
    for (int i = 0; i < from->len; i++)
        VEC_PUSH(m->arena, to, arena_strdup(m->arena, from->data[i]));
    return to;
}

static void
clone_stage(const IrStage *from, IrDataset *ds, IrModule *m)
{
    IrStage to = *from;
    to.paths = clone_strings(m, &from->paths);
    to.names = clone_strings(m, &from->names);
    to.func = clone_text(m, from->func);
    to.other = clone_text(m, from->other);
    if (from->data)
        to.data = arena_copy(m->arena, from->data, (size_t)from->data_size);
    to.types.data = NULL;
    to.types.len = to.types.cap = 0;
    for (int i = 0; i < from->types.len; i++)
        VEC_PUSH(m->arena, to.types, from->types.data[i]);
    VEC_PUSH(m->arena, ds->stages, to);
}

static void
clone_dataset(const IrDataset *from, IrModule *m)
{
    IrDataset *to = NEW(m->arena, IrDataset);
    to->name = clone_text(m, from->name);
    to->loc = from->loc;
    for (int i = 0; i < from->stages.len; i++)
        clone_stage(&from->stages.data[i], to, m);
    VEC_PUSH(m->arena, m->datasets, to);
}

static void
clone_iter(const IrIter *from, IrModule *m)
{
    IrIter *to = NEW(m->arena, IrIter);
    *to = *from;
    to->name = clone_text(m, from->name);
    to->datasets.data = NULL;
    to->datasets.len = to->datasets.cap = 0;
    for (int i = 0; i < from->datasets.len; i++)
        VEC_PUSH(m->arena, to->datasets, clone_text(m, from->datasets.data[i]));
    VEC_PUSH(m->arena, m->iters, to);
}

static void
clone_symbols(const IrModule *from, IrModule *m)
{
    for (int i = 0; i < from->symbols.len; i++) {
        IrSymbol s = from->symbols.data[i];
        s.name = clone_text(m, s.name);
        VEC_PUSH(m->arena, m->symbols, s);
    }
    for (int i = 0; i < from->sources.len; i++)
        VEC_PUSH(m->arena, m->sources, from->sources.data[i]);
    m->lists_sources = from->lists_sources;
}

#define CLONE_EACH(from, list, clone, to)                                      \
    for (int i = 0; i < (from)->list.len; i++)                                 \
    clone((from)->list.data[i], to)

IrModule *
ir_clone_module(const IrModule *from, Arena *a)
{
    IrModule *m = ir_module_new(a, from->names, from->diag);
    m->num_replicas = from->num_replicas;
    m->num_workers = from->num_workers;
    m->strategy = from->strategy;
    m->devices = clone_text(m, from->devices);
    m->algorithm = from->algorithm;
    m->packs = from->packs;
    m->root = from->root;
    m->home = from->home;
    m->bytes_per_pack = from->bytes_per_pack;
    m->timeout_ms = from->timeout_ms;
    m->phase = from->phase;
    m->after = from->after;
    m->text = from->text;
    clone_symbols(from, m);
    CLONE_EACH(from, params, clone_param, m);
    CLONE_EACH(from, vars, clone_var, m);
    CLONE_EACH(from, datasets, clone_dataset, m);
    CLONE_EACH(from, iters, clone_iter, m);
    for (const IrFunc *fn = from->first; fn; fn = fn->next)
        clone_func(fn, m);
    return m;
}
