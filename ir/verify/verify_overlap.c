/*
 * verify_overlap.c - values are intact wherever they are used
 *
 * The walk through a placed function knows at each point which values are
 * valid: defining a value clobbers all values that its bytes overlap, and using
 * a clobbered one is the error.  So no lifetimes are needed, and any correct
 * sharing is allowed.  Variables are values, too: one must be valid where it is
 * read and when the function ends, though a kernel may make the value that is
 * written to it later in its bytes.
 *
 * Branches are walked separately; a value is valid after them if it is valid
 * after both.  At the beginning of an iteration a value is valid if it was
 * valid before the loop and overlaps nothing that the loop writes; a variable
 * that was valid must be valid again at the end of each iteration.
 *
 * Between the start and the done of a collective nobody writes its buffers.
 *
 * A value that the replicas of a device share must be valid to the end of the
 * replica loop that reads it (per_replica.h), since another replica reads it
 * after this one's end.
 *
 * For main, a launch writes its results, which are rows of the arena, and all
 * places of the program itself.
 */
#include "ir/analysis/per_replica.h"
#include "ir/loop.h"
#include "ir/segments.h"
#include "ir/rules/locality.h"
#include "ir/verify/valid.h"
#include "ir/verify/verify_places.h"

#include <stdlib.h>
#include <string.h>

/* A value or a variable in memory. */
typedef struct Slot {
    Extent extent;
    const IrVar *var; /* or NULL */
} Slot;

typedef struct Overlap {
    Verify *v;
    Arena *arena;
    const IrModule *module;
    Slot *slots;   /* the variables, then the values, whose ids are slots */
    Map *vars;     /* name -> its slot */
    Map *programs; /* program -> the extents of its own places */
    Map *spaces;   /* program -> the Extent that its places lie in */
    int num_slots, num_vars;
    IrOverwrites overwrites;
    ValidSet valid;
    VEC(const IrOp *) flights; /* starts without their done so far */
} Overlap;

/* ---- slots ------------------------------------------------------------- */

static void
count_op(IrOp *op, void *data)
{
    int *n = data;
    *n += op->num_results;
    for (int r = 0; r < op->num_regions; r++)
        *n += op->regions[r]->args.len;
}

static void
add_slots(Overlap *o, IrValue *const *values, int n)
{
    for (int i = 0; i < n; i++) {
        values[i]->id = o->num_slots;
        o->slots[o->num_slots++].extent =
            ir_extent_of(o->module, values[i]->place, &values[i]->type);
    }
}

static void
add_op_slots(IrOp *op, void *data)
{
    add_slots(data, op->results, op->num_results);
    for (int r = 0; r < op->num_regions; r++)
        add_slots(data, op->regions[r]->args.data, op->regions[r]->args.len);
}

static int
var_slot(const Overlap *o, const IrOp *op)
{
    const Slot *slot = map_get(o->vars, ir_text(op, A_var));
    return (int)(slot - o->slots);
}

/* ---- defining and using -------------------------------------------------- */

static void
define(Overlap *o, int slot)
{
    ir_valid_add(&o->valid, slot);
}

static bool
is_valid(const Overlap *o, int slot)
{
    return ir_valid_has(&o->valid, slot);
}

/* Values that overlap e are no longer valid. */
static void
clobber(Overlap *o, const Extent *e)
{
    ir_valid_clobber(&o->valid, e, 0);
}

static bool
overlaps_values(const Overlap *o, const Extent *e, IrValue *const *values,
                int n)
{
    for (int i = 0; i < n; i++) {
        if (ir_extents_overlap(e, &o->slots[values[i]->id].extent))
            return true;
    }
    return false;
}

static void
check_flights(Overlap *o, const IrOp *op, const Extent *e)
{
    for (int i = 0; i < o->flights.len; i++) {
        const IrOp *start = o->flights.data[i];
        if (overlaps_values(o, e, start->operands, start->num_operands) ||
            overlaps_values(o, e, start->results, start->num_results))
            ir_verify_error(o->v, op,
                            "it writes the buffers of a collective in flight");
    }
}

static void
check_writable(Overlap *o, const IrOp *op, const Extent *e)
{
    if (e->place.space == SPACE_IN && e->bytes)
        ir_verify_error(o->v, op, "it writes a parameter");
}

/* op writes the bytes of slot, which is valid afterwards. */
static void
write_slot(Overlap *o, const IrOp *op, int slot)
{
    const Extent *e = &o->slots[slot].extent;
    check_writable(o, op, e);
    check_flights(o, op, e);
    clobber(o, e);
    define(o, slot);
}

static void
require(Overlap *o, const IrOp *op, int slot, const char *what, int number)
{
    if (!is_valid(o, slot))
        ir_verify_error(o->v, op,
                        "the bytes of %s %d are overwritten before it", what,
                        number);
}

static void
require_operands(Overlap *o, const IrOp *op)
{
    for (int i = 0; i < op->num_operands; i++)
        require(o, op, op->operands[i]->id, "operand", i);
}

/* Whether a slot is copied to another one of its type rather than being in its
 * place already; checks that the copy is possible. */
static bool
check_copy(Overlap *o, const IrOp *op, int from, int to, int number)
{
    const Extent *a = &o->slots[from].extent, *b = &o->slots[to].extent;
    if (ir_place_equal(a->place, b->place))
        return false;
    if (ir_extents_overlap(a, b))
        ir_verify_error(o->v, op, "operand %d is copied onto a part of itself",
                        number);
    check_writable(o, op, b);
    check_flights(o, op, b);
    return true;
}

/* op assigns the value of one slot to another of its type. */
static void
transfer(Overlap *o, const IrOp *op, int from, int to, int number)
{
    require(o, op, from, "operand", number);
    if (check_copy(o, op, from, to, number))
        clobber(o, &o->slots[to].extent);
    define(o, to);
}

/* ---- operations -------------------------------------------------------- */

/* Whether op's result i has the bytes of its operand i (for a read: of the
 * variable), so that op writes nothing. */
static bool
is_alias(const IrModule *m, const IrOp *op, int i)
{
    if (op->kind == OP_read)
        return ir_place_equal(op->results[0]->place,
                              ir_var_find(m, ir_text(op, A_var))->place);
    return ir_op_info[op->kind].traits & VIEW &&
           ir_place_equal(op->results[i]->place, op->operands[i]->place);
}

/* Results must not overlap operands, which are still being read, except when a
 * kernel overwrites one element by element. */
static void
check_operands_kept(Overlap *o, const IrOp *op, int r)
{
    const Extent *e = &o->slots[op->results[r]->id].extent;
    for (int i = 0; i < op->num_operands; i++) {
        const Extent *in = &o->slots[op->operands[i]->id].extent;
        if (!ir_extents_overlap(in, e))
            continue;
        if (op->kind == OP_kernel && ir_place_equal(in->place, e->place) &&
            ir_kernel_may_overwrite(&o->overwrites, op, i, r))
            continue;
        ir_verify_error(o->v, op, "result %d overwrites operand %d", r, i);
    }
}

static void
make_results(Overlap *o, const IrOp *op)
{
    for (int i = 0; i < op->num_results; i++) {
        if (is_alias(o->module, op, i)) {
            define(o, op->results[i]->id);
            continue;
        }
        check_operands_kept(o, op, i);
        write_slot(o, op, op->results[i]->id);
    }
}

/* ---- launches ----------------------------------------------------------- */

typedef struct ProgramPlaces {
    Arena *arena;
    const IrModule *module;
    Extents places;
} ProgramPlaces;

static void
add_places(ProgramPlaces *own, IrValue *const *values, int n)
{
    for (int i = 0; i < n; i++) {
        Extent e =
            ir_extent_of(own->module, values[i]->place, &values[i]->type);
        if (e.place.space != SPACE_ARENA || !e.bytes)
            continue;
        e.place.space = SPACE_ROW; /* as seen by main */
        VEC_PUSH(own->arena, own->places, e);
    }
}

static void
add_op_places(IrOp *op, void *data)
{
    add_places(data, op->results, op->num_results);
    for (int r = 0; r < op->num_regions; r++)
        add_places(data, op->regions[r]->args.data, op->regions[r]->args.len);
}

/* Extents that touch are merged. */
static void
join(Extents *list)
{
    int n = 0;
    if (list->len)
        qsort(list->data, (size_t)list->len, sizeof *list->data,
              ir_extents_compare);
    for (int i = 0; i < list->len; i++) {
        Extent *last = n ? &list->data[n - 1] : NULL, e = list->data[i];
        int64_t from = e.place.offset, to = from + e.bytes;
        if (!last || from > last->place.offset + last->bytes)
            list->data[n++] = e;
        else if (to > last->place.offset + last->bytes)
            last->bytes = to - last->place.offset;
    }
    list->len = n;
}

/* The extents of the named program's own places, if there is such a program. */
static const Extents *
program_places(Overlap *o, const char *program)
{
    static const Extents none = {0};
    const IrFunc *fn = program ? ir_func_find(o->module, program) : NULL;
    ProgramPlaces *own = fn ? map_get(o->programs, program) : NULL;
    if (!fn || own)
        return own ? &own->places : &none;
    own = NEW(o->arena, ProgramPlaces);
    *own = (ProgramPlaces){.arena = o->arena, .module = o->module};
    ir_walk(fn->body, add_op_places, own);
    join(&own->places);
    map_set(o->programs, program, own);
    return &own->places;
}

/* The program writes its own places while its operands and results are live,
 * and clobbers any other value there. */
static void
walk_program_places(Overlap *o, const IrOp *op, const Extents *own)
{
    for (int i = 0; i < own->len; i++) {
        const Extent *e = &own->data[i];
        if (overlaps_values(o, e, op->operands, op->num_operands) ||
            overlaps_values(o, e, op->results, op->num_results))
            ir_verify_error(o->v, op,
                            "an operand or result lies in [arena+%lld], "
                            "where the program computes",
                            (long long)e->place.offset);
        clobber(o, e);
    }
}

static void
walk_launch(Overlap *o, const IrOp *op)
{
    require_operands(o, op);
    walk_program_places(o, op, program_places(o, ir_text(op, A_program)));
    walk_program_places(o, op, program_places(o, ir_text(op, A_full)));
    walk_program_places(o, op, program_places(o, ir_text(op, A_worker)));
    make_results(o, op);
}

static void
walk_read(Overlap *o, const IrOp *op)
{
    int var = var_slot(o, op);
    if (!is_valid(o, var))
        ir_verify_error(o->v, op,
                        "the variable's bytes are something else here");
    make_results(o, op);
}

static void
walk_return(Overlap *o, const IrOp *op)
{
    for (int i = 0; i < op->num_operands; i++) {
        Slot *from = &o->slots[op->operands[i]->id];
        Extent to = {{SPACE_OUT, i}, from->extent.bytes};
        require(o, op, op->operands[i]->id, "operand", i);
        if (ir_place_equal(from->extent.place, to.place))
            continue;
        check_flights(o, op, &to);
        clobber(o, &to);
    }
    for (int i = 0; i < o->num_vars; i++) {
        if (!is_valid(o, i))
            ir_verify_error(o->v, op, "the bytes of \"%s\" are something else",
                            o->slots[i].var->name);
    }
}

static void
walk_start(Overlap *o, const IrOp *op)
{
    make_results(o, op);
    VEC_PUSH(o->arena, o->flights, op);
}

static void
walk_done(Overlap *o, const IrOp *op)
{
    for (int i = 0; i < o->flights.len; i++) {
        if (o->flights.data[i] == op->operands[0]->def) {
            o->flights.data[i] = VEC_LAST(o->flights);
            o->flights.len--;
        }
    }
    make_results(o, op);
}

/* ---- control flow ------------------------------------------------------ */

static void walk_block(Overlap *o, const IrBlock *b);

/* The yield of b assigns its operands, from `first` on, to the values `to`, one
 * after the other. */
static void
yield_to(Overlap *o, const IrBlock *b, IrValue *const *to, int n)
{
    const IrOp *yield = ir_block_yield(b);
    for (int i = 0; i < n; i++)
        transfer(o, yield, yield->operands[i]->id, to[i]->id, i);
}

static void
walk_if(Overlap *o, const IrOp *op)
{
    Arena *a = arena_new(o->arena, "branches");
    ValidSet before = ir_valid_copy(a, &o->valid);
    walk_block(o, op->regions[0]);
    yield_to(o, op->regions[0], op->results, op->num_results);
    ValidSet after = ir_valid_copy(a, &o->valid);
    ir_valid_assign(&o->valid, &before);
    walk_block(o, op->regions[1]);
    yield_to(o, op->regions[1], op->results, op->num_results);
    ir_valid_intersect(&o->valid, &after);
    arena_release(a);
}

/* Clobbers the values (not the variables) that e overlaps. */
static void
clobber_values(Overlap *o, const Extent *e)
{
    ir_valid_clobber(&o->valid, e, o->num_vars);
}

static void
clobber_list(Overlap *o, IrValue *const *values, int n)
{
    for (int i = 0; i < n; i++)
        clobber_values(o, &o->slots[values[i]->id].extent);
}

static void
clobber_program(Overlap *o, const Extents *own)
{
    for (int i = 0; i < own->len; i++)
        clobber_values(o, &own->data[i]);
}

/* Values that an operation of a loop overwrites are invalid at the beginning of
 * an iteration. */
static void
clobber_written(IrOp *op, void *data)
{
    Overlap *o = data;
    if (op->kind == OP_launch) {
        clobber_program(o, program_places(o, ir_text(op, A_program)));
        clobber_program(o, program_places(o, ir_text(op, A_full)));
        clobber_program(o, program_places(o, ir_text(op, A_worker)));
    }
    if (op->kind == OP_write)
        clobber_values(o, &o->slots[var_slot(o, op)].extent);
    for (int i = 0; i < op->num_results; i++) {
        if (!is_alias(o->module, op, i))
            clobber_values(o, &o->slots[op->results[i]->id].extent);
    }
    for (int r = 0; op->kind != OP_kernel && r < op->num_regions; r++)
        clobber_list(o, op->regions[r]->args.data, op->regions[r]->args.len);
}

static void
require_list(Overlap *o, const IrOp *op, IrValue *const *values, int n)
{
    for (int i = 0; i < n; i++)
        require(o, op, values[i]->id, "carried value", i);
}

static void
check_disjoint(Overlap *o, const IrOp *op, const IrValues *args)
{
    for (int i = 0; i < args->len; i++) {
        const Extent *e = &o->slots[args->data[i]->id].extent;
        if (overlaps_values(o, e, args->data, i))
            ir_verify_error(o->v, op, "carried value %d overlaps another", i);
    }
}

static void
enter_loop(Overlap *o, const IrLoop *loop)
{
    const IrOp *op = loop->op;
    const IrValues *args = &op->regions[0]->args;
    check_disjoint(o, op, args);
    if (loop->index)
        write_slot(o, op, loop->index->id);
    for (int i = 0; i < loop->num_carried; i++)
        transfer(o, op, loop->init[i]->id, loop->entry_arg[i]->id,
                 loop->first_init + i);
    require_list(o, op, args->data, args->len);
    for (int r = 0; r < op->num_regions; r++) {
        ir_walk(op->regions[r], clobber_written, o);
        clobber_list(o, op->regions[r]->args.data, op->regions[r]->args.len);
    }
    for (int i = 0; i < args->len; i++)
        define(o, args->data[i]->id);
}

/* Copies the values that an iteration yields to the arguments of the next.  The
 * arguments are operands of the yield, too, with their old values: they are
 * valid with the new ones when all are copied. */
static void
pass_to_next_iteration(Overlap *o, const IrLoop *loop)
{
    for (int i = 0; i < loop->num_carried; i++) {
        int from = loop->next[i]->id, to = loop->entry_arg[i]->id;
        require(o, loop->yield, from, "operand", i);
        if (check_copy(o, loop->yield, from, to, i))
            clobber(o, &o->slots[to].extent);
    }
    for (int i = 0; i < loop->num_carried; i++)
        define(o, loop->entry_arg[i]->id);
}

/* The end of an iteration; `head` is the valid set at its beginning. */
static void
end_iteration(Overlap *o, const IrLoop *loop, const ValidSet *head)
{
    pass_to_next_iteration(o, loop);
    for (int i = 0; i < o->num_vars; i++) {
        if (ir_valid_has(head, i) && !is_valid(o, i))
            ir_verify_error(
                o->v, loop->op,
                "an iteration leaves something else in the bytes of "
                "\"%s\"",
                o->slots[i].var->name);
    }
}

static void
leave_loop(Overlap *o, const IrLoop *loop)
{
    for (int i = 0; i < loop->num_carried; i++)
        transfer(o, loop->op, loop->entry_arg[i]->id, loop->result[i]->id, i);
}

static void
walk_for(Overlap *o, const IrOp *op)
{
    Arena *a = arena_new(o->arena, "loop");
    IrLoop loop = ir_loop(op);
    enter_loop(o, &loop);
    ValidSet head = ir_valid_copy(a, &o->valid);
    walk_block(o, loop.body);
    end_iteration(o, &loop, &head);
    ir_valid_assign(&o->valid, &head);
    leave_loop(o, &loop);
    arena_release(a);
}

static void
walk_while(Overlap *o, const IrOp *op)
{
    Arena *a = arena_new(o->arena, "loop");
    IrLoop loop = ir_loop(op);
    enter_loop(o, &loop);
    ValidSet head = ir_valid_copy(a, &o->valid);
    walk_block(o, loop.test);
    require_operands(o, ir_block_yield(loop.test));
    ValidSet tested = ir_valid_copy(a, &o->valid);
    for (int i = 0; i < loop.num_carried; i++)
        transfer(o, op, loop.entry_arg[i]->id, loop.body_arg[i]->id, i);
    require_list(o, op, loop.body_arg, loop.num_carried);
    walk_block(o, loop.body);
    end_iteration(o, &loop, &head);
    ir_valid_assign(&o->valid, &tested);
    leave_loop(o, &loop);
    arena_release(a);
}

static void
walk_op(Overlap *o, const IrOp *op)
{
    switch (op->kind) {
    case OP_yield: /* its control operation uses the operands */
        return;
    case OP_if:
        require_operands(o, op);
        walk_if(o, op);
        return;
    case OP_for:
        require(o, op, op->operands[0]->id, "operand", 0);
        walk_for(o, op);
        return;
    case OP_while:
        walk_while(o, op);
        return;
    case OP_read:
        walk_read(o, op);
        return;
    case OP_write:
        transfer(o, op, op->operands[0]->id, var_slot(o, op), 0);
        return;
    case OP_launch:
        walk_launch(o, op);
        return;
    case OP_return:
        walk_return(o, op);
        return;
    default:
        break;
    }
    require_operands(o, op);
    if (ir_op_is_start(op->kind))
        walk_start(o, op);
    else if (ir_op_is_done(op->kind))
        walk_done(o, op);
    else
        make_results(o, op);
}

/* ---- replica loops ------------------------------------- */

/* The last replica still needs the values that the replicas of a device share
 * when the first has come to the end of the replica loop. */
static void
need_shared(Overlap *o, const IrOp *op, const IrOp *last)
{
    for (int i = 0; i < op->num_operands; i++)
        if (ir_value_is_shared(op->operands[i]) &&
            !is_valid(o, op->operands[i]->id))
            ir_verify_error(o->v, op,
                            "the bytes of operand %d, which the replicas of a "
                            "device share, are overwritten by %s before the "
                            "last replica has read them",
                            i, ir_op_info[last->kind].name);
    for (int r = 0; op->kind != OP_kernel && r < op->num_regions; r++)
        for (const IrOp *in = op->regions[r]->first; in; in = in->next)
            need_shared(o, in, last);
}

static void
check_replica_loop(Overlap *o, const IrOp *first, const IrOp *last)
{
    for (const IrOp *op = first; op != last->next; op = op->next)
        need_shared(o, op, last);
}

static void
walk_block(Overlap *o, const IrBlock *b)
{
    const IrOp *first = NULL, *last = NULL;
    bool may_begin_loop =
        ir_func_repeats_replica_loops(b->func) && !ir_divergence(b);
    for (const IrOp *op = b->first; op && !o->v->num_errors; op = op->next) {
        if (may_begin_loop && !last && ir_op_is_per_replica(op)) {
            first = op;
            last = ir_replica_loop_last(op);
        }
        walk_op(o, op);
        if (op == last) {
            check_replica_loop(o, first, last);
            last = NULL;
        }
    }
}

/* ---- a function -------------------------------------------------------- */

static void
add_variables(Overlap *o)
{
    for (int i = 0; i < o->num_vars; i++) {
        const IrVar *var = o->module->vars.data[i];
        o->slots[o->num_slots++] =
            (Slot){ir_extent_of(o->module, var->place, &var->type), var};
        map_set(o->vars, var->name, &o->slots[i]);
    }
}

static const SlotOrder *
order_slots(const Overlap *o)
{
    Extent *all = NEW_ARRAY(o->arena, Extent, (size_t)o->num_slots);
    for (int i = 0; i < o->num_slots; i++)
        all[i] = o->slots[i].extent;
    return ir_slot_order_new(o->arena, all, o->num_slots);
}

void
ir_verify_overlap(Verify *v, const IrFunc *fn)
{
    Arena *arena = arena_new(v->scratch, "places");
    Overlap o = {.v = v,
                 .arena = arena,
                 .module = v->module,
                 .overwrites = ir_overwrites(arena, v->module)};
    const IrValues *args = &fn->body->args;
    bool on_device = fn->kind == FUNC_PROGRAM || fn->kind == FUNC_INIT;
    int n = args->len;
    o.num_vars = on_device ? o.module->vars.len : 0;
    ir_walk(fn->body, count_op, &n);
    o.slots = NEW_ARRAY(arena, Slot, (size_t)(n + o.num_vars));
    o.vars = map_new(arena);
    o.programs = map_new(arena);
    add_variables(&o);
    add_slots(&o, args->data, args->len);
    ir_walk(fn->body, add_op_slots, &o);
    o.valid = ir_valid_new(arena, order_slots(&o));
    for (int i = 0; i < o.num_vars + args->len; i++)
        define(&o, i);
    walk_block(&o, fn->body);
    arena_release(arena);
}
