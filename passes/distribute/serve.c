/*
 * serve.c - programs for workers, and the updates that servers execute
 *
 * Where servers have the variables, a worker computes with copies of them that
 * may be old, and does not write them: it sends what a change takes, and the
 * server that has the variable makes the change.  So each program that writes
 * variables gets a variant for workers, in which every update is also pushed:
 *
 *   launch %x {program=@main.2}      launch %x {program=@main.2
 *                                               worker=@main.2.worker}
 *   @main.2: update {var=@w} {       @main.2.worker: push %g {update=@update.1}
 *     %w = read {var=@w}                             update {var=@w} { ... }
 *     %1 = sub %w, %g            ->
 *     write %1 {var=@w mode=set}     @update.1(%g): update {var=@w} { ... }
 *     yield }
 *
 * An update is an update region; or a write outside of one, with the scatters
 * through which it writes rows of what the variable is.  It takes what it uses
 * from around it, except for constants, which it has itself; equal ones are
 * one.  A write that combines the values of replicas is only marked here:
 * communicate pushes the value that it makes of them, also of constants.
 *
 * The variables that an update reads are where the first of it is: that one,
 * those colocated with it, and what the update writes.  Others are read by the
 * worker.  What a variant writes and does not read again is removed later
 * (forward_stores).
 */
#include <assert.h>
#include <string.h>
#include "ir/ir.h"
#include "ir/rules/build.h"
#include "ir/rules/locality.h"
#include "passes/distribute/part.h"

typedef VEC(IrOp *) OpList;

typedef struct Serve {
    PassCx *cx;
    IrModule *m;
    VEC(IrFunc *) updates;
    int num_made; /* also those that are equal to another one */
} Serve;

/* One update, whose operations have its number as id. */
typedef struct Update {
    Serve *s;
    int number;
    bool combined; /* it takes what communicate makes of the replicas' values */
    const char *var; /* that it is of */
    Loc loc;
    IrFunc *fn;
    IrCloneMap *map;
    IrValues operands;      /* what it takes */
    const IrValue *differs; /* the first of them that each replica has of its
                               own, or NULL */
} Update;

/* ---- which variables are together --------------------------------------- */

static const char *
home_of(const IrModule *m, const char *var)
{
    return ir_var_home(m, ir_var_find(m, var))->name;
}

typedef struct FindWrite {
    const char *var; /* that is looked for; NULL: any */
    const char *found;
} FindWrite;

static void
find_write(IrOp *op, void *data)
{
    FindWrite *f = data;
    if (op->kind != OP_write || f->found)
        return;
    const char *var = ir_text(op, A_var);
    if (!f->var || !strcmp(var, f->var))
        f->found = var;
}

/* The first variable that op or its regions write, or whether they write that
 * one; NULL: none. */
static const char *
written_by(IrOp *op, const char *var)
{
    FindWrite f = {.var = var};
    ir_walk_op(op, find_write, &f);
    return f.found;
}

/* ---- what an update reads from elsewhere -------------------------------- */

typedef struct Hoist {
    IrModule *m;
    IrOp *update;
    const char *home;
    OpList reads; /* before the update, one for each variable */
    Arena *arena;
} Hoist;

static IrOp *
read_before(Hoist *h, const IrOp *read)
{
    const char *var = ir_text(read, A_var);
    for (int i = 0; i < h->reads.len; i++)
        if (!strcmp(ir_text(h->reads.data[i], A_var), var))
            return h->reads.data[i];
    IrBlock *b = ir_block_scratch(h->update);
    IrOp *before = ir_build_read(b, var, read->loc)->def;
    ir_stamp(b, ir_reason_for(h->update, "serve.read",
                              "\"%s\" is on another server than \"%s\"", var,
                              h->home));
    ir_splice_before(h->update, b);
    VEC_PUSH(h->arena, h->reads, before);
    return before;
}

static void
hoist_read(IrOp *op, void *data)
{
    Hoist *h = data;
    if (op->kind != OP_read)
        return;
    const char *var = ir_text(op, A_var);
    if (!strcmp(home_of(h->m, var), h->home) || written_by(h->update, var))
        return;
    ir_forward(op->results[0], read_before(h, op)->results[0]);
    ir_remove(op);
}

static void
hoist_reads(IrOp *op, void *data)
{
    const Serve *s = data;
    op->id = 0;
    const char *var = op->kind == OP_update ? written_by(op, NULL) : NULL;
    if (!var)
        return;
    Hoist h = {.m = s->m, .update = op, .arena = s->cx->arena};
    h.home = home_of(s->m, ir_has(op, A_var) ? ir_text(op, A_var) : var);
    ir_walk(op->regions[0], hoist_read, &h);
}

/* ---- equal updates ------------------------------------------------------ */

static bool same_block(const IrBlock *a, const IrBlock *b);

static void
number_values(IrValue *const *values, int n, int *next)
{
    for (int i = 0; i < n; i++)
        values[i]->id = (*next)++;
}

static void
number_block(const IrBlock *b, int *next)
{
    number_values(b->args.data, b->args.len, next);
    for (const IrOp *op = b->first; op; op = op->next) {
        number_values(op->results, op->num_results, next);
        for (int i = 0; i < op->num_regions; i++)
            number_block(op->regions[i], next);
    }
}

static bool
same_types(IrValue *const *a, int num_a, IrValue *const *b, int num_b)
{
    bool same = num_a == num_b;
    for (int i = 0; same && i < num_a; i++)
        same = ir_type_equal(&a[i]->type, &b[i]->type);
    return same;
}

static bool
same_op(const IrOp *a, const IrOp *b)
{
    bool same =
        a->kind == b->kind && a->num_operands == b->num_operands &&
        ir_attrs_equal(a, b) &&
        same_types(a->results, a->num_results, b->results, b->num_results);
    for (int i = 0; same && i < a->num_operands; i++)
        same = a->operands[i]->id == b->operands[i]->id;
    for (int i = 0; same && i < a->num_regions; i++)
        same = same_block(a->regions[i], b->regions[i]);
    return same;
}

static bool
same_block(const IrBlock *a, const IrBlock *b)
{
    if (!same_types(a->args.data, a->args.len, b->args.data, b->args.len))
        return false;
    const IrOp *x = a->first, *y = b->first;
    while (x && y && same_op(x, y))
        x = x->next, y = y->next;
    return !x && !y;
}

/* The name of the update that does what fn does: of one that was made before,
 * in place of fn, or fn's. */
static const char *
shared_update(Serve *s, IrFunc *fn)
{
    int next = 0;
    number_block(fn->body, &next);
    for (int i = 0; i < s->updates.len; i++) {
        if (same_block(s->updates.data[i]->body, fn->body)) {
            ir_func_remove(fn);
            return s->updates.data[i]->name;
        }
    }
    VEC_PUSH(s->cx->arena, s->updates, fn);
    return fn->name;
}

/* ---- what an update takes ----------------------------------------------- */

/* Whether v is made by the operations of the update. */
static bool
is_made_inside(const Update *u, const IrValue *v)
{
    const IrOp *op = v->def ? v->def : v->block->op;
    for (; op; op = op->block->op)
        if (op->id == u->number)
            return true;
    return false;
}

static bool
is_cut(const Update *u)
{
    const IrVar *var = ir_var_find(u->s->m, u->var);
    return ir_var_parts(u->s->m, ir_var_home(u->s->m, var)) > 1;
}

/* Whether an update computes v itself rather than to have it sent.  A server
 * of a part cannot take rows of an array that the update has. */
static bool
is_constant(const Update *u, const IrValue *v)
{
    for (; v->def && v->type.locality != LOCAL_PER_REPLICA;
         v = v->def->operands[0]) {
        const IrOp *op = v->def;
        if (ir_op_info[op->kind].effect != PURE || op->num_regions ||
            op->num_operands > 1 || op->kind == OP_param)
            return false;
        if (!op->num_operands)
            return !is_cut(u) || !v->type.rank;
    }
    return false;
}

static void
clone_constant(Update *u, IrValue *v)
{
    if (ir_clone_get(u->map, v) != v)
        return;
    if (v->def->num_operands)
        clone_constant(u, v->def->operands[0]);
    ir_clone_op(u->map, v->def, u->fn->body);
}

static bool
is_captured(const Update *u, IrValue *v)
{
    return is_made_inside(u, v) || ir_clone_get(u->map, v) != v;
}

static void
capture_operand(Update *u, IrValue *v)
{
    IrType type = v->type;
    if (type.locality == LOCAL_PER_REPLICA && !u->differs)
        u->differs = v;
    type.locality = LOCAL_MIRRORED;
    VEC_PUSH(u->s->cx->arena, u->operands, v);
    ir_clone_set(u->map, v, ir_block_arg(u->fn->body, type, v->name));
}

/* The numbers of rows that are looked up or changed are sent, constants too: a
 * server of a part gets those of its rows. */
static void
capture_rows(IrOp *op, void *data)
{
    Update *u = data;
    if (op->kind != OP_take && op->kind != OP_scatter)
        return;
    IrValue *rows = op->operands[1];
    if (rows->type.rank && is_cut(u) && !is_captured(u, rows) &&
        is_constant(u, rows))
        capture_operand(u, rows);
}

static void
capture(Update *u, IrValue *v)
{
    if (is_captured(u, v))
        return;
    if (!u->combined && is_constant(u, v))
        clone_constant(u, v);
    else
        capture_operand(u, v);
}

static void
capture_operands(IrOp *op, void *data)
{
    for (int i = 0; i < op->num_operands; i++)
        capture(data, op->operands[i]);
}

/* ---- making an update --------------------------------------------------- */

static Update
begin_update(Serve *s, const IrOp *op, const char *var)
{
    Update u = {
        .s = s, .number = ++s->num_made, .var = var, .loc = ir_op_loc(op)};
    const char *name =
        arena_printf(s->cx->arena, "update.%d", s->updates.len + 1);
    u.fn = ir_func_new(s->m, intern(s->m->names, name), FUNC_PROGRAM, u.loc);
    u.map = ir_clone_map(s->cx->arena);
    return u;
}

static const IrReason *
reason_of(const Update *u)
{
    return ir_reason(u->s->m, "serve.update", u->loc, "the update of \"%s\"",
                     u->var);
}

/* The update of these operations, of one block and in order: its name. */
static const char *
end_update(Update *u, const OpList *ops)
{
    IrBlock *body = u->fn->body;
    for (int i = 0; i < ops->len; i++)
        ops->data[i]->id = u->number;
    for (int i = 0; i < ops->len; i++)
        ir_walk_op(ops->data[i], capture_rows, u);
    for (int i = 0; i < ops->len; i++)
        ir_walk_op(ops->data[i], capture_operands, u);
    IrOp *update = ir_build_op(body, OP_update, 0, NULL, u->loc);
    ir_set_text(update, A_var, u->var);
    for (int i = 0; i < ops->len; i++)
        ir_clone_op(u->map, ops->data[i], update->regions[0]);
    ir_build_yield(update->regions[0], 0, NULL, u->loc);
    ir_build_return(body, 0, NULL, u->loc);
    ir_stamp(body, reason_of(u));
    ir_infer_localities(u->fn);
    return shared_update(u->s, u->fn);
}

static void
insert_push(const Update *u, const char *update, IrOp *before)
{
    IrBlock *b = ir_block_scratch(before);
    IrOp *push =
        ir_build_op(b, OP_push, u->operands.len, u->operands.data, u->loc);
    ir_set_text(push, A_update, update);
    ir_build_infer(push);
    ir_stamp(b, reason_of(u));
    ir_splice_before(before, b);
}

/* ---- update regions ----------------------------------------------------- */

static void
remove_assert(IrOp *op, void *unused)
{
    (void)unused;
    if (op->kind == OP_assert)
        ir_remove(op);
}

static bool
report_differing(const Update *u, const IrOp *op)
{
    Diag *d = u->s->cx->diag;
    diag_error(d, u->loc,
               "servers make this update of \"%s\", and it takes a value that "
               "each replica has of its own",
               u->var);
    diag_note(d, u->loc, "combine them before it: reduce_to(sum, ..., %s)",
              u->var);
    ir_note_calls(d, op->calls, NO_LOC);
    return false;
}

/* The server asserts what the region asserts. */
static bool
serve_update(Serve *s, IrOp *op)
{
    const char *var = written_by(op, NULL);
    if (!var)
        return true;
    Update u =
        begin_update(s, op, ir_has(op, A_var) ? ir_text(op, A_var) : var);
    OpList ops = {0};
    IrOp *end = ir_block_yield(op->regions[0]);
    for (IrOp *in = op->regions[0]->first; in != end; in = in->next)
        VEC_PUSH(s->cx->arena, ops, in);
    const char *update = end_update(&u, &ops);
    if (u.differs)
        return report_differing(&u, op);
    insert_push(&u, update, op);
    ir_walk(op->regions[0], remove_assert, NULL);
    return true;
}

/* ---- writes ------------------------------------------------------------- */

static bool
differs(const IrValue *v)
{
    return v->type.locality == LOCAL_PER_REPLICA;
}

/* The read of op's variable whose rows scatters change for the write op, and no
 * others write the variable in between; else NULL. */
static IrOp *
read_of_rows(IrOp *op)
{
    const char *var = ir_text(op, A_var);
    IrOp *read = op->operands[0]->def;
    while (read && read->kind == OP_scatter && read->block == op->block)
        read = read->operands[0]->def;
    if (!read || read->kind != OP_read || read->block != op->block ||
        read == op->operands[0]->def || strcmp(ir_text(read, A_var), var) != 0)
        return NULL;
    for (IrOp *in = read->next; in != op; in = in->next)
        if (written_by(in, var))
            return NULL;
    return read;
}

/* What makes the value of the write op, and op. */
static OpList
list_scatters(const Serve *s, IrOp *op)
{
    OpList ops = {0};
    IrOp *read = ir_enum(op, A_mode) == UPDATE_set && !differs(op->operands[0])
                     ? read_of_rows(op)
                     : NULL;
    for (IrOp *in = op->operands[0]->def; read; in = in->operands[0]->def) {
        VEC_PUSH(s->cx->arena, ops, in);
        if (in == read)
            break;
    }
    for (int i = 0; i < ops.len / 2; i++) {
        IrOp *in = ops.data[i];
        ops.data[i] = ops.data[ops.len - 1 - i];
        ops.data[ops.len - 1 - i] = in;
    }
    VEC_PUSH(s->cx->arena, ops, op);
    return ops;
}

/* Whether the write op combines the values of the replicas.  A variable that
 * each has of its own is a counter of random numbers: the first one's counts.
 */
static bool
combines(const Serve *s, const IrOp *op)
{
    const IrVar *v = ir_var_find(s->m, ir_text(op, A_var));
    return ir_context(op->block) == CX_REPLICA && s->m->num_replicas > 1 &&
           !ir_var_is_own(v) && (v->agg == AGG_sum || differs(op->operands[0]));
}

static bool
serve_write(Serve *s, IrOp *op)
{
    const char *var = ir_text(op, A_var);
    Update u = begin_update(s, op, var);
    OpList ops = {0};
    u.combined = combines(s, op);
    if (u.combined)
        VEC_PUSH(s->cx->arena, ops, op);
    else
        ops = list_scatters(s, op);
    const char *update = end_update(&u, &ops);
    if (u.differs && ir_var_is_own(ir_var_find(s->m, var)))
        return report_differing(&u, op);
    if (u.combined)
        ir_set_text(op, A_update, update);
    else
        insert_push(&u, update, op);
    return true;
}

/* ---- programs ----------------------------------------------------------- */

static bool
serve_block(Serve *s, IrBlock *b)
{
    bool served = true;
    for (IrOp *op = b->first, *next; op && served; op = next) {
        next = op->next;
        if (op->kind == OP_update)
            served = serve_update(s, op);
        else if (op->kind == OP_write)
            served = serve_write(s, op);
        for (int i = 0; op->kind != OP_update && served && i < op->num_regions;
             i++)
            served = serve_block(s, op->regions[i]);
    }
    return served;
}

static IrFunc *
clone_for_workers(Serve *s, const IrFunc *fn)
{
    const char *name = arena_printf(s->cx->arena, "%s.worker", fn->name);
    IrFunc *worker =
        ir_func_new(s->m, intern(s->m->names, name), FUNC_PROGRAM, fn->loc);
    worker->worker_of = fn->name;
    IrCloneMap *map = ir_clone_map(s->cx->arena);
    for (int i = 0; i < fn->body->args.len; i++) {
        const IrValue *arg = fn->body->args.data[i];
        ir_clone_set(map, arg,
                     ir_block_arg(worker->body, arg->type, arg->name));
    }
    ir_clone_body(map, fn->body, worker->body);
    return worker;
}

typedef struct Launches {
    Serve *s;
    bool served;
} Launches;

static void
serve_launch(IrOp *op, void *data)
{
    Launches *l = data;
    Serve *s = l->s;
    if (op->kind != OP_launch || ir_has(op, A_worker) || !l->served)
        return;
    const IrFunc *fn = ir_func_find(s->m, ir_text(op, A_program));
    FindWrite f = {0};
    ir_walk(fn->body, find_write, &f);
    if (!f.found)
        return;
    IrFunc *worker = clone_for_workers(s, fn);
    ir_set_text(op, A_worker, worker->name);
    ir_walk(worker->body, hoist_reads, s);
    ir_apply_forwards(worker);
    l->served = serve_block(s, worker->body);
}

bool
pass_serve(PassCx *cx)
{
    IrFunc *main_fn = ir_main(cx->m);
    Serve s = {.cx = cx, .m = cx->m};
    Launches l = {&s, true};
    if (main_fn && ir_strategy_info[cx->m->strategy].servers)
        ir_walk(main_fn->body, serve_launch, &l);
    if (l.served)
        pass_part_updates(cx, s.updates.data, s.updates.len);
    return l.served;
}
