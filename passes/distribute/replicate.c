/*
 * replicate.c - device work of main becomes device programs
 *
 * main keeps its control flow, its host values and its input and output;
 * everything that needs a device (run, update, writes and reads of variables,
 * cross-replica reductions, computing with values that live on devices) moves
 * into device programs that main launches.  Neighbours share a program, so
 * `total += reduce(sum, run f(x))` is one launch:
 *
 *   %loss: f32 per_replica = run { ... }      %l: f32 mirrored = launch %x
 *   %l: f32 = reduce %loss {op=sum}      ->       {program=@main.1}
 *                                             %1: f32 = fetch %l {replica=0}
 *
 * A group of neighbours ends where main needs one of its results, where main
 * does input or output, and where a block ends.  Host values go in as operands;
 * a result that the host uses comes back by fetch; a per-replica or mirrored
 * result stays on its device, and main holds a handle.  Variables that only the
 * host uses (save, print) need no program: they are fetched from their places,
 * and what restore reads is written there.
 * A closure that main schedules is a program by itself, with all that it does.
 *
 * The body of a program is still cross-replica context: communicate makes
 * replica context of it.
 */
#include <assert.h>
#include <string.h>
#include "ir/ir.h"
#include "ir/loop.h"
#include "ir/table.h"
#include "ir/analysis/users.h"
#include "ir/rules/build.h"
#include "ir/rules/locality.h"
#include "passes/distribute/central.h"
#include "passes/support/pass.h"

typedef VEC(IrOp *) OpList;

typedef struct Group {
    OpList ops; /* of one block, in order */
    int number;
} Group;

typedef IR_TABLE(bool) Flags;

typedef struct Replicate {
    PassCx *cx;
    IrModule *m;
    VEC(Group *) groups;
    Group *open;
    IR_TABLE(Group *) group_of;          /* of operations that are in one */
    Flags used_on_devices, used_outside; /* of values */
} Replicate;

static void
set_flag(const Replicate *r, Flags *flags, const IrValue *v)
{
    *IR_TABLE_SLOT(r->cx->arena, *flags, v->number) = true;
}

static bool
has_flag(const Flags *flags, const IrValue *v)
{
    const bool *flag = IR_TABLE_FIND(*flags, v->number);
    return flag && *flag;
}

/* ---- which operations need a device ------------------------------------- */

static bool
lives_on_devices(const IrValue *v)
{
    return v->type.locality != LOCAL_HOST;
}

static bool
uses_device_value(const IrOp *op)
{
    for (int i = 0; i < op->num_operands; i++)
        if (lives_on_devices(op->operands[i]))
            return true;
    return false;
}

static bool
is_device_op(const IrOp *op)
{
    switch (op->kind) {
    case OP_run:
    case OP_schedule:
    case OP_update:
    case OP_read:
    case OP_write:
    case OP_reduce:
    case OP_reduce_to:
    case OP_broadcast_to:
    case OP_gather:
        return true;
    default:
        return ir_op_info[op->kind].effect == PURE && uses_device_value(op);
    }
}

/* ---- grouping ----------------------------------------------------------- */

static Group *
group_of(const Replicate *r, const IrOp *op)
{
    Group *const *group = IR_TABLE_FIND(r->group_of, op->number);
    return group ? *group : NULL;
}

/* Whether v is made by an operation of g or inside one. */
static bool
made_in_group(const Replicate *r, const IrValue *v, const Group *g)
{
    const IrOp *op = v->def;
    const IrBlock *b = op ? op->block : v->block;
    for (; b; op = b->op, b = op ? op->block : NULL)
        if (op && group_of(r, op) == g)
            return true;
    return false;
}

static bool
uses_group(const Replicate *r, const IrOp *op, const Group *g)
{
    for (int i = 0; i < op->num_operands; i++)
        if (made_in_group(r, op->operands[i], g))
            return true;
    return false;
}

static void
join_open_group(Replicate *r, IrOp *op)
{
    if (!r->open) {
        r->open = NEW(r->cx->arena, Group);
        r->open->number = r->groups.len + 1;
        VEC_PUSH(r->cx->arena, r->groups, r->open);
    }
    VEC_PUSH(r->cx->arena, r->open->ops, op);
    *IR_TABLE_SLOT(r->cx->arena, r->group_of, op->number) = r->open;
}

static void
group_block(Replicate *r, IrBlock *b)
{
    r->open = NULL;
    for (IrOp *op = b->first; op; op = op->next) {
        if (op->kind == OP_schedule) {
            r->open = NULL;
            join_open_group(r, op);
            r->open = NULL;
        } else if (is_device_op(op)) {
            join_open_group(r, op);
        } else if (ir_op_info[op->kind].effect != PURE ||
                   (r->open && uses_group(r, op, r->open))) {
            for (int i = 0; i < op->num_regions; i++)
                group_block(r, op->regions[i]);
            r->open = NULL;
        }
    }
    r->open = NULL;
}

/* ---- results of devices that the host needs ----------------------------- */

/* A control operation accepts per-replica and mirrored values as handles for
 * arguments of its region b that are handles, too. */
static bool
takes_handle(const IrOp *op, int operand)
{
    switch (op->kind) {
    case OP_for:
    case OP_while: {
        IrLoop loop = ir_loop(op);
        int i = operand - loop.first_init;
        return i >= 0 && lives_on_devices(loop.entry_arg[i]);
    }
    case OP_yield:
        return !ir_is_loop_test(op->block) &&
               lives_on_devices(op->block->op->results[operand]);
    default:
        return false;
    }
}

/* A fetch of v before the operation, at the place of the one that uses v. */
static IrValue *
insert_fetch(IrOp *before, const IrOp *user, IrValue *v, int64_t replica)
{
    IrBlock *b = ir_block_scratch(before);
    IrOp *fetch = ir_build_op(b, OP_fetch, 1, &v, user->loc);
    ir_set_int(fetch, A_replica, replica);
    ir_build_infer(fetch);
    ir_stamp(b, ir_reason_for(user, "replicate.fetch", "%s is used by main",
                              v->name ? v->name : "a value of the devices"));
    ir_splice_before(before, b);
    return fetch->results[0];
}

static void
fetch_operands(IrOp *op)
{
    for (int i = 0; i < op->num_operands; i++)
        if (lives_on_devices(op->operands[i]) && !takes_handle(op, i))
            op->operands[i] = insert_fetch(op, op, op->operands[i], 0);
}

static void
replace_local_result(IrOp *op)
{
    IrValue *fetched =
        insert_fetch(op, op, op->operands[0], ir_int(op, A_replica));
    ir_forward(op->results[0], fetched);
    ir_remove(op);
}

/* A loop of main counts on the host, even if its count was computed on the
 * devices; so the values computed from its index are host values. */
static void
infer_index_locality(IrOp *op)
{
    if (op->kind == OP_for && lives_on_devices(ir_loop(op).index))
        ir_infer_localities(op->block->func);
}

/* Main's own operations take host values: fetches those on a device. */
static void
fetch_in_block(Replicate *r, IrBlock *b)
{
    for (IrOp *op = b->first, *next; op; op = next) {
        next = op->next;
        if (op->kind == OP_local_result) {
            replace_local_result(op);
        } else if (!is_device_op(op)) {
            fetch_operands(op);
            infer_index_locality(op);
            for (int i = 0; i < op->num_regions; i++)
                fetch_in_block(r, op->regions[i]);
        }
    }
}

/* ---- variables that only the host uses ------------------------------ */

static void
note_device_uses(Replicate *r, IrBlock *b, bool on_devices)
{
    for (IrOp *op = b->first; op; op = op->next) {
        bool here = on_devices || is_device_op(op);
        for (int i = 0; here && i < op->num_operands; i++)
            set_flag(r, &r->used_on_devices, op->operands[i]);
        for (int i = 0; i < op->num_regions; i++)
            note_device_uses(r, op->regions[i], here);
    }
}

/* The operation before which main fetches the value: after other reads, which
 * one program does together.  NULL if devices do work before it, in the program
 * that reads. */
static IrOp *
first_host_use(const IrOp *read)
{
    IrOp *op = read->next;
    for (; op->kind == OP_read ||
           (ir_op_info[op->kind].effect == PURE && !is_device_op(op) &&
            !ir_is_operand(op, read->results[0]));
         op = op->next)
        ;
    return is_device_op(op) ? NULL : op;
}

/* The components of a sync-on-read variable are combined by a program. */
static bool
is_for_host(const Replicate *r, const IrOp *op)
{
    if (op->kind != OP_read || has_flag(&r->used_on_devices, op->results[0]) ||
        lives_on_devices(op->results[0]))
        return false;
    return ir_var_find(r->m, ir_text(op, A_var))->sync != SYNC_ON_READ;
}

/* Copied from its place, it needs no other memory on the devices. */
static void
fetch_variable(IrOp *read, IrOp *before)
{
    IrBlock *b = ir_block_scratch(before);
    const char *var = ir_text(read, A_var);
    IrOp *fetch = ir_build_op(b, OP_fetch_var, 0, NULL, read->loc);
    ir_set_text(fetch, A_var, var);
    ir_build_infer(fetch);
    fetch->results[0]->name = read->results[0]->name;
    ir_stamp(b, ir_reason_for(read, "replicate.fetch",
                              "\"%s\" is used by main alone", var));
    ir_splice_before(before, b);
    ir_forward(read->results[0], fetch->results[0]);
    ir_remove(read);
}

static void
fetch_if_for_host(IrOp *op, void *data)
{
    IrOp *before = is_for_host(data, op) ? first_host_use(op) : NULL;
    if (before)
        fetch_variable(op, before);
}

static void
fetch_variables(Replicate *r, IrFunc *fn)
{
    note_device_uses(r, fn->body, false);
    ir_walk(fn->body, fetch_if_for_host, r);
    ir_apply_forwards(fn);
}

/* ---- variables that are restored ---------------------------------------- */

/* All replicas have the value, and neither a server nor one of them alone. */
static bool
is_restored_in_place(const Replicate *r, const char *name)
{
    const IrVar *v = ir_var_find(r->m, name);
    return v->type.locality == LOCAL_MIRRORED && !pass_central_has(r->m, v) &&
           !ir_strategy_info[r->m->strategy].servers;
}

/* The write right behind a restore, among others, that alone uses its result;
 * NULL: there is none. */
static IrOp *
write_of(const IrOp *restore, const IrValue *v, const char *var)
{
    if (v->num_uses != 1)
        return NULL;
    for (IrOp *op = restore->next; op->kind == OP_write; op = op->next)
        if (op->operands[0] == v)
            return ir_int(op, A_mode) == UPDATE_set &&
                           strcmp(ir_text(op, A_var), var) == 0
                       ? op
                       : NULL;
    return NULL;
}

/* What the file calls the variables, in the order that op has them now. */
static void
take_names(Replicate *r, const IrOp *op, IrOp *const *writes, IrOp *now)
{
    int n, k = 0;
    const char *const *names = ir_names(op, A_names, &n);
    if (!names)
        return;
    const char **taken = NEW_ARRAY(r->cx->arena, const char *, (size_t)n);
    for (int placed = 0; placed <= 1; placed++)
        for (int i = 0; i < n; i++)
            if ((writes[i] != NULL) == placed)
                taken[k++] = names[i];
    ir_set_names(now, A_names, taken, n);
}

/* The same operation with results for those variables alone that are not
 * restored in place. */
static void
take_results(Replicate *r, IrOp *op, const char *const *vars, IrOp **writes)
{
    int num_kept = 0, num_placed = 0, n = op->num_results;
    Arena *a = r->cx->arena;
    const char **kept = NEW_ARRAY(a, const char *, (size_t)n);
    const char **placed = NEW_ARRAY(a, const char *, (size_t)n);
    IrType *types = NEW_ARRAY(a, IrType, (size_t)n);
    IrBlock *b = ir_block_scratch(op);
    IrOp *now =
        ir_build_op(b, OP_restore, op->num_operands, op->operands, op->loc);
    for (int i = 0; i < n; i++) {
        if (writes[i]) {
            placed[num_placed++] = vars[i];
            continue;
        }
        types[num_kept] = op->results[i]->type;
        kept[num_kept++] = vars[i];
    }
    ir_set_text(now, A_format, ir_text(op, A_format));
    ir_set_names(now, A_vars, kept, num_kept);
    ir_set_names(now, A_in_place, placed, num_placed);
    take_names(r, op, writes, now);
    if (ir_has(op, A_strict))
        ir_set_int(now, A_strict, ir_int(op, A_strict));
    ir_op_results(now, num_kept, types);
    for (int i = 0, k = 0; i < n; i++)
        if (writes[i])
            ir_remove(writes[i]);
        else
            ir_forward(op->results[i], now->results[k++]);
    ir_splice_before(op, b);
    ir_remove(op);
}

/* What is read from a file then has no copy on the host, and none on its way to
 * the devices. */
static void
restore_in_place(IrOp *op, void *data)
{
    Replicate *r = data;
    int n;
    bool any = false;
    if (op->kind != OP_restore)
        return;
    const char *const *vars = ir_names(op, A_vars, &n);
    IrOp **writes = NEW_ARRAY(r->cx->arena, IrOp *, (size_t)n);
    for (int i = 0; i < n; i++) {
        if (is_restored_in_place(r, vars[i]))
            writes[i] = write_of(op, op->results[i], vars[i]);
        any |= writes[i] != NULL;
    }
    if (any)
        take_results(r, op, vars, writes);
}

static void
restore_variables(Replicate *r, IrFunc *fn)
{
    ir_count_uses(fn);
    ir_walk(fn->body, restore_in_place, r);
    ir_apply_forwards(fn);
}

/* ---- making a program --------------------------------------------------- */

typedef struct Outline {
    Replicate *r;
    Group *group;
    IrFunc *program;
    IrCloneMap *map;
    IrValues operands; /* of the launch, for each parameter */
    IrValues results;  /* of main, with uses outside of the group */
} Outline;

static void
capture(Outline *o, IrValue *v)
{
    if (made_in_group(o->r, v, o->group) || ir_clone_get(o->map, v) != v)
        return;
    IrType type = v->type;
    if (type.locality == LOCAL_HOST)
        type.locality = LOCAL_MIRRORED;
    VEC_PUSH(o->r->cx->arena, o->operands, v);
    ir_clone_set(o->map, v, ir_block_arg(o->program->body, type, v->name));
}

static void
capture_operands(IrOp *op, void *data)
{
    for (int i = 0; i < op->num_operands; i++)
        capture(data, op->operands[i]);
}

static void
note_use_outside(Replicate *r, IrOp *op, Group *user)
{
    for (int i = 0; i < op->num_operands; i++) {
        IrValue *v = op->operands[i];
        Group *g = v->def ? group_of(r, v->def) : NULL;
        if (g && g != user)
            set_flag(r, &r->used_outside, v); /* a result of its program */
    }
}

static void
note_uses(Replicate *r, IrBlock *b, Group *user)
{
    for (IrOp *op = b->first; op; op = op->next) {
        Group *g = user ? user : group_of(r, op);
        note_use_outside(r, op, g);
        for (int i = 0; i < op->num_regions; i++)
            note_uses(r, op->regions[i], g);
    }
}

/* Into the program; of a closure what it does. */
static void
clone_into(Outline *o, IrOp *op)
{
    ir_walk_op(op, capture_operands, o);
    if (op->kind != OP_schedule) {
        ir_clone_op(o->map, op, o->program->body);
        return;
    }
    IrOp *end = ir_block_yield(op->regions[0]);
    for (IrOp *in = op->regions[0]->first; in != end; in = in->next)
        ir_clone_op(o->map, in, o->program->body);
    for (int i = 0; i < op->num_results; i++)
        ir_clone_set(o->map, op->results[i],
                     ir_clone_get(o->map, end->operands[i]));
}

static void
collect_results(Outline *o)
{
    for (int i = 0; i < o->group->ops.len; i++) {
        IrOp *op = o->group->ops.data[i];
        for (int j = 0; j < op->num_results; j++)
            if (has_flag(&o->r->used_outside, op->results[j]))
                VEC_PUSH(o->r->cx->arena, o->results, op->results[j]);
    }
}

static void
return_results(Outline *o, Loc loc)
{
    IrValue **values =
        NEW_ARRAY(o->r->cx->arena, IrValue *, (size_t)o->results.len);
    for (int i = 0; i < o->results.len; i++)
        values[i] = ir_clone_get(o->map, o->results.data[i]);
    ir_build_return(o->program->body, o->results.len, values, loc);
}

/* The type of a launch's result for a value of main. */
static IrType
handle_type(const IrValue *v)
{
    IrType t = v->type;
    if (t.locality == LOCAL_HOST)
        t.locality = LOCAL_MIRRORED;
    return t;
}

static IrOp *
insert_launch(Outline *o, IrOp *before, const IrReason *why)
{
    IrBlock *b = ir_block_scratch(before);
    IrOp *launch =
        ir_build_op(b, OP_launch, o->operands.len, o->operands.data, why->loc);
    ir_set_text(launch, A_program, o->program->name);
    if (o->group->ops.data[0]->kind == OP_schedule)
        ir_set_int(launch, A_scheduled, true);
    IrType *types = NEW_ARRAY(o->r->cx->arena, IrType, (size_t)o->results.len);
    for (int i = 0; i < o->results.len; i++)
        types[i] = handle_type(o->results.data[i]);
    ir_op_results(launch, o->results.len, types);
    ir_stamp(b, why);
    ir_splice_before(before, b);
    return launch;
}

typedef struct Use {
    const IrValue *of;
    IrValue *by; /* NULL: it is only looked for */
    bool found;
} Use;

static void
visit_use(IrOp *op, void *data)
{
    Use *u = data;
    for (int i = 0; i < op->num_operands; i++) {
        if (op->operands[i] != u->of)
            continue;
        u->found = true;
        if (u->by)
            op->operands[i] = u->by;
    }
}

/* Of main's operation, whose regions are main, or of what devices do. */
static bool
visit_op(IrOp *op, Use *u)
{
    u->found = false;
    if (is_device_op(op))
        ir_walk_op(op, visit_use, u);
    else
        visit_use(op, u);
    return u->found;
}

/* The first of op and the operations after it, or in their regions, that uses
 * the value; NULL if none does. */
static const IrOp *
first_user(const IrOp *op, const IrValue *v)
{
    for (; op; op = op->next) {
        if (ir_is_operand(op, v))
            return op;
        for (int i = 0; i < op->num_regions; i++) {
            const IrOp *user = first_user(op->regions[i]->first, v);
            if (user)
                return user;
        }
    }
    return NULL;
}

/* What a closure gives is waited for where main uses it first: in each block
 * that no use comes before. */
static void
fetch_at_uses(Replicate *r, IrBlock *b, const IrValue *old, IrValue *now,
              IrValue *fetched)
{
    for (IrOp *op = b->first; op; op = op->next) {
        Use use = {.of = old};
        if (visit_op(op, &use)) {
            if (!fetched)
                fetched = insert_fetch(op, op, now, 0);
            use.by = fetched;
            visit_op(op, &use);
        }
        for (int i = 0; !is_device_op(op) && i < op->num_regions; i++)
            fetch_at_uses(r, op->regions[i], old, now, fetched);
    }
}

/* What main waits for by name has been fetched there. */
static void
remove_wait(IrOp *op, void *unused)
{
    (void)unused;
    if (op->kind == OP_join && op->num_operands)
        ir_remove(op);
}

/* Replaces main's uses of the group's values by the launch's results. */
static void
forward_results(Outline *o, IrOp *launch, IrOp *before)
{
    for (int i = 0; i < o->results.len; i++) {
        IrValue *old = o->results.data[i], *now = launch->results[i];
        now->name = old->name;
        if (old->type.locality != LOCAL_HOST) {
            ir_forward(old, now);
        } else if (ir_int(launch, A_scheduled)) {
            fetch_at_uses(o->r, launch->block, old, now, NULL);
        } else {
            const IrOp *user = first_user(before, old);
            now = insert_fetch(before, user ? user : before, now, 0);
            ir_forward(old, now);
        }
    }
}

static const char *
program_name(Replicate *r, const Group *g)
{
    const char *name = arena_printf(r->cx->arena, "main.%d", g->number);
    return intern(r->m->names, name);
}

static void
outline_group(Replicate *r, Group *g)
{
    IrOp *first = g->ops.data[0];
    const IrReason *why = ir_reason_for(first, "replicate.program",
                                        "%s and what follows it on the devices",
                                        ir_op_info[first->kind].name);
    Outline o = {.r = r, .group = g};
    o.program =
        ir_func_new(r->m, program_name(r, g), FUNC_PROGRAM, ir_op_loc(first));
    o.map = ir_clone_map(r->cx->arena);
    for (int i = 0; i < g->ops.len; i++)
        clone_into(&o, g->ops.data[i]);
    collect_results(&o);
    return_results(&o, first->loc);
    ir_infer_localities(o.program);

    IrOp *last = g->ops.data[g->ops.len - 1];
    IrOp *after = last->next;
    assert(after && "a block ends in its terminator");
    IrOp *launch = insert_launch(&o, after, why);
    forward_results(&o, launch, after);
    for (int i = 0; i < g->ops.len; i++)
        ir_remove(g->ops.data[i]);
}

static void
replicate_main(PassCx *cx, IrFunc *fn)
{
    Replicate r = {.cx = cx, .m = cx->m};
    fetch_in_block(&r, fn->body);
    ir_apply_forwards(fn);
    fetch_variables(&r, fn);
    restore_variables(&r, fn);
    group_block(&r, fn->body);
    note_uses(&r, fn->body, NULL);
    for (int i = 0; i < r.groups.len; i++) {
        outline_group(&r, r.groups.data[i]);
        /* later groups may capture values that this one forwarded */
        ir_apply_forwards(fn);
    }
    ir_walk(fn->body, remove_wait, NULL);
}

bool
pass_replicate(PassCx *cx)
{
    assert(pass_stage(cx->m) == STAGE_step);
    IrFunc *main_fn = ir_main(cx->m);
    if (main_fn)
        replicate_main(cx, main_fn);
    return true;
}
