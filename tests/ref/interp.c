/*
 * interp.c - the reference interpreter
 *
 * Every replica goes through the program by itself, up to an operation that
 * needs the others; when all have come to it, it is executed for all.  Such a
 * meeting is a collective, a region in another context, an aggregated read or
 * write, what main does with the world, and control flow that has one of these
 * inside.  Replicas that come to different meetings would wait for each other
 * for ever: here that is an error.
 *
 * Each value has a tensor a replica, host values too: what main computes is
 * computed num_replicas times, to the same bits.
 */
#include "ir/text/text.h"
#include "tests/ref/interp_impl.h"

#include <string.h>
#include "ir/ir.h"

enum { MAX_REPLICAS = 64 };

/* Replicas that go through the same code together: all, or a single one. */
typedef struct Crew {
    int first, end;
} Crew;

static Crew
only(int r)
{
    return (Crew){r, r + 1};
}

static Crew
everybody(const Interp *in)
{
    return (Crew){0, in->num_replicas};
}

static Status execute(Interp *in, Crew c, IrBlock *const *block) MUST_USE;

/* ---- values ------------------------------------------------------------- */

static const IrFunc *
func_of(const IrValue *v)
{
    return v->def ? v->def->block->func : v->block->func;
}

/* Where allocate put v of replica r, or NULL. */
static char *
place_of(const Interp *in, int r, const IrValue *v)
{
    int64_t at = v->place.offset;
    bool program = func_of(v)->kind == FUNC_PROGRAM;
    switch (v->place.space) {
    case SPACE_NONE:
        return NULL;
    case SPACE_FRAME:
        return in->frames[r] + at;
    case SPACE_ARENA:
        return (program ? in->arenas[r] : in->scratch[r]) + at;
    case SPACE_ROW:
        return in->arenas[r] + at;
    case SPACE_IN:
        return in->inputs[r][at];
    case SPACE_OUT:
        return in->outputs[r][at];
    }
    UNREACHABLE("space %d", v->place.space);
}

static RefTensor *
tensor_of(Interp *in, int r, const IrValue *v)
{
    RefTensor **of = IR_TABLE_SLOT(in->arena, in->values, v->number);
    if (!*of)
        *of = NEW_ARRAY(in->arena, RefTensor, (size_t)in->num_replicas);
    return *of + r;
}

RefTensor *
interp_value(Interp *in, int r, const IrValue *v)
{
    RefTensor *const *of = IR_TABLE_FIND(in->values, v->number);
    if (!of || !*of)
        UNREACHABLE("%s was not computed", v->name ? v->name : "a value");
    return *of + r;
}

static int64_t
dim_now(const Interp *in, int r, Dim d)
{
    if (ir_dim_is_const(d))
        return d.c;
    return ir_dim_value(d, in->rows[d.sym * in->num_replicas + r]);
}

/* t gets the dtype and shape that a value of `type` has on replica r now. */
static void
shape_now(const Interp *in, int r, const IrType *type, Arena *a, RefTensor *t)
{
    int64_t dims[IR_MAX_RANK];
    for (int i = 0; i < type->rank; i++)
        dims[i] = dim_now(in, r, type->dims[i]);
    ref_shape(a, t, type->dtype, type->rank, dims);
}

RefTensor *
interp_shaped(Interp *in, int r, IrValue *v)
{
    RefTensor *t = tensor_of(in, r, v);
    char *place = place_of(in, r, v);
    if (place) {
        t->data = place;
        t->room = INT64_MAX;
    }
    shape_now(in, r, &v->type, in->arena, t);
    return t;
}

void
interp_bind(Interp *in, int r, IrValue *v, const RefTensor *from)
{
    RefTensor *to = interp_shaped(in, r, v);
    if (to->dtype != from->dtype || to->count != from->count)
        UNREACHABLE("%s takes a value of another type",
                    v->name ? v->name : "a value");
    if (to->data != from->data)
        memmove(to->data, from->data,
                (size_t)to->count * dtype_info[to->dtype].bytes);
}

/* The values `from` of replica r become its values `to`: all at once, but one
 * after the other in a placed module, as compiled code does it. */
static void
pass_on(Interp *in, int r, int n, IrValue *const *from, IrValue *const *to)
{
    bool at_once = in->m->phase != PHASE_PLACED;
    Arena *a = arena_new(NULL, "values passed on");
    RefTensor *held = NEW_ARRAY(a, RefTensor, (size_t)n);
    for (int i = 0; at_once && i < n; i++)
        ref_copy(a, &held[i], interp_value(in, r, from[i]));
    for (int i = 0; i < n; i++)
        interp_bind(in, r, to[i],
                    at_once ? &held[i] : interp_value(in, r, from[i]));
    arena_release(a);
}

/* What the region yields become the results of op. */
static void
pass_results(Interp *in, int r, const IrBlock *region, IrOp *op)
{
    pass_on(in, r, op->num_results, ir_block_yield(region)->operands,
            op->results);
}

static bool
holds(Interp *in, int r, const IrValue *condition)
{
    return ref_get(interp_value(in, r, condition), 0).i != 0;
}

/* ---- dependences -------------------------------------------------------- */

static bool
is_in_main(const IrOp *op)
{
    return op->block->func->kind == FUNC_MAIN &&
           ir_context(op->block) == CX_CROSS;
}

static bool
meets(const Interp *in, const IrOp *op)
{
    switch (ir_op_info[op->kind].effect) {
    case COLLECTIVE:
        return true;
    case HOST:
        return is_in_main(op) || op->kind == OP_local_result;
    case READS:
        return replicas_aggregate_read(in, op);
    case WRITES:
        return replicas_aggregate_write(in, op);
    case PURE:
        return false;
    case CONTROL:
        break;
    }
    if (op->kind == OP_run || op->kind == OP_update)
        return true;
    for (int i = 0; i < op->num_regions; i++)
        for (const IrOp *in_op = op->regions[i]->first; in_op;
             in_op = in_op->next)
            if (meets(in, in_op))
                return true;
    return false;
}

static Status
complain(const IrOp *op, const char *what)
{
    Arena *a = arena_new(NULL, "message");
    Str text = str_new(a);
    ir_print_op(&text, op);
    Status st = status_new(STATUS_INPUT, "%s, at: %s", what, str_text(&text));
    arena_release(a);
    return st;
}

/* The replicas are at the same operation, and agree on values that are said to
 * be equal on all. */
static Status
check_meeting(Interp *in, IrOp *const *at)
{
    for (int r = 1; r < in->num_replicas; r++) {
        if (at[r]->kind != at[0]->kind)
            return complain(at[r], "replicas wait for each other for ever");
        for (int i = 0; i < at[r]->num_operands; i++) {
            const IrValue *x = at[0]->operands[i], *y = at[r]->operands[i];
            if (x->type.locality != LOCAL_PER_REPLICA &&
                y->type.locality != LOCAL_PER_REPLICA &&
                ref_first_difference(interp_value(in, 0, x),
                                     interp_value(in, r, y)) >= 0)
                return complain(at[r], "replicas differ in a mirrored value");
        }
    }
    return OK;
}

/* ---- control flow ------------------------------------------------------- */

/* Replicas of one crew stay together: they all do, or none does, what `does`
 * says of each. */
static Status
check_agreement(Crew c, IrOp *const *at, const bool *does)
{
    for (int r = c.first; r < c.end; r++)
        if (does[r] != does[c.first])
            return complain(at[r], "replicas go different ways to a meeting");
    return OK;
}

static Status
do_if(Interp *in, Crew c, IrOp *const *at)
{
    IrBlock *way[MAX_REPLICAS] = {NULL};
    bool first[MAX_REPLICAS];
    for (int r = c.first; r < c.end; r++) {
        first[r] = holds(in, r, at[r]->operands[0]);
        way[r] = at[r]->regions[first[r] ? 0 : 1];
    }
    TRY(check_agreement(c, at, first));
    TRY(execute(in, c, way));
    for (int r = c.first; r < c.end; r++)
        pass_results(in, r, way[r], at[r]);
    return OK;
}

/* A loop's region of each replica. */
static void
regions_of(Crew c, IrOp *const *at, int index, IrBlock **out)
{
    for (int r = c.first; r < c.end; r++)
        out[r] = at[r]->regions[index];
}

/* The count is asked for once, before the first round. */
static Status
do_for(Interp *in, Crew c, IrOp *const *at)
{
    IrBlock *body[MAX_REPLICAS] = {NULL};
    int64_t count[MAX_REPLICAS];
    bool goes_on[MAX_REPLICAS];
    regions_of(c, at, 0, body);
    for (int r = c.first; r < c.end; r++) {
        count[r] = ref_get(interp_value(in, r, at[r]->operands[0]), 0).i;
        pass_on(in, r, at[r]->num_results, at[r]->operands + 1,
                body[r]->args.data + 1);
    }
    for (int64_t k = 0;; k++) {
        for (int r = c.first; r < c.end; r++)
            goes_on[r] = k < count[r];
        TRY(check_agreement(c, at, goes_on));
        if (!goes_on[c.first])
            break;
        for (int r = c.first; r < c.end; r++)
            ref_set(interp_shaped(in, r, body[r]->args.data[0]), 0,
                    scalar_int(DT_i64, k));
        TRY(execute(in, c, body));
        for (int r = c.first; r < c.end; r++)
            pass_on(in, r, at[r]->num_results,
                    ir_block_yield(body[r])->operands, body[r]->args.data + 1);
    }
    for (int r = c.first; r < c.end; r++)
        pass_on(in, r, at[r]->num_results, body[r]->args.data + 1,
                at[r]->results);
    return OK;
}

static bool
may_go_round(const IrOp *op, int64_t rounds)
{
    return !ir_has(op, A_max) || rounds < ir_int(op, A_max);
}

static Status
do_while(Interp *in, Crew c, IrOp *const *at)
{
    IrBlock *test[MAX_REPLICAS], *body[MAX_REPLICAS];
    bool goes_on[MAX_REPLICAS];
    regions_of(c, at, 0, test);
    regions_of(c, at, 1, body);
    for (int r = c.first; r < c.end; r++)
        pass_on(in, r, at[r]->num_results, at[r]->operands, test[r]->args.data);
    for (int64_t k = 0; may_go_round(at[c.first], k); k++) {
        TRY(execute(in, c, test));
        for (int r = c.first; r < c.end; r++)
            goes_on[r] = holds(in, r, ir_block_yield(test[r])->operands[0]);
        TRY(check_agreement(c, at, goes_on));
        if (!goes_on[c.first])
            break;
        for (int r = c.first; r < c.end; r++)
            pass_on(in, r, at[r]->num_results, test[r]->args.data,
                    body[r]->args.data);
        TRY(execute(in, c, body));
        for (int r = c.first; r < c.end; r++)
            pass_on(in, r, at[r]->num_results,
                    ir_block_yield(body[r])->operands, test[r]->args.data);
    }
    for (int r = c.first; r < c.end; r++)
        pass_on(in, r, at[r]->num_results, test[r]->args.data, at[r]->results);
    return OK;
}

/* What main has done on the devices is over. */
static Status
end_step(Interp *in, const IrOp *op)
{
    if (!is_in_main(op))
        return OK;
    world_end_step(in);
    const char *var = replicas_drifted(in);
    return var ? status_new(STATUS_INPUT,
                            "the copies of the variable \"%s\" differ", var)
               : OK;
}

/* run, merge, update and kernel: the region, once. */
static Status
do_region(Interp *in, Crew c, IrOp *const *at)
{
    IrBlock *body[MAX_REPLICAS] = {NULL};
    regions_of(c, at, 0, body);
    for (int r = c.first; r < c.end; r++)
        pass_on(in, r, at[r]->num_operands, at[r]->operands,
                body[r]->args.data);
    TRY(execute(in, c, body));
    for (int r = c.first; r < c.end; r++)
        pass_results(in, r, body[r], at[r]);
    return at[c.first]->kind == OP_kernel ? OK : end_step(in, at[c.first]);
}

/* ---- device programs ---------------------------------------------------- */

/* Whether a program's batches are full on a replica. */
typedef struct Fullness {
    const Interp *in;
    int replica;
    bool full;
} Fullness;

static void
check_symbol_full(Fullness *f, int32_t sym)
{
    const IrSymbol *s = &f->in->m->symbols.data[sym];
    f->full &= f->in->rows[sym * f->in->num_replicas + f->replica] == s->bound;
}

static void
check_dims_full(Fullness *f, int rank, const Dim *dims)
{
    for (int i = 0; i < rank; i++) {
        if (ir_dim_is_const(dims[i]))
            continue;
        int32_t partner = f->in->m->symbols.data[dims[i].sym].partner;
        check_symbol_full(f, dims[i].sym);
        if (partner >= 0)
            check_symbol_full(f, partner);
    }
}

static void
check_op_full(IrOp *op, void *data)
{
    for (int i = 0; i < op->num_results; i++)
        check_dims_full(data, op->results[i]->type.rank,
                        op->results[i]->type.dims);
    int n = 0;
    const Dim *dims = NULL;
    if (ir_attr_index(op->kind, A_dims) >= 0)
        dims = ir_dims(op, A_dims, &n);
    check_dims_full(data, n, dims);
}

static bool
is_full(const Interp *in, int r, const IrFunc *fn)
{
    Fullness f = {in, r, true};
    for (int i = 0; i < fn->body->args.len; i++)
        check_dims_full(&f, fn->body->args.data[i]->type.rank,
                        fn->body->args.data[i]->type.dims);
    ir_walk(fn->body, check_op_full, &f);
    return f.full;
}

static IrFunc *
program_for(const Interp *in, int r, const IrOp *launch)
{
    IrFunc *fn = ir_func_find(in->m, ir_text(launch, A_program));
    const char *full = ir_text(launch, A_full);
    return full && is_full(in, r, fn) ? ir_func_find(in->m, full) : fn;
}

/* Replica r's function finds parameters and results where main has them. */
static void
point_to_values(Interp *in, int r, IrOp *launch)
{
    for (int i = 0; i < launch->num_operands; i++)
        in->inputs[r][i] = interp_value(in, r, launch->operands[i])->data;
    for (int i = 0; i < launch->num_results; i++)
        in->outputs[r][i] = interp_shaped(in, r, launch->results[i])->data;
}

static Status
do_launch(Interp *in, IrOp *const *at)
{
    IrBlock *body[MAX_REPLICAS] = {NULL};
    for (int r = 0; r < in->num_replicas; r++) {
        body[r] = program_for(in, r, at[r])->body;
        point_to_values(in, r, at[r]);
        for (int i = 0; i < at[r]->num_operands; i++)
            interp_bind(in, r, body[r]->args.data[i],
                        interp_value(in, r, at[r]->operands[i]));
    }
    TRY(execute(in, everybody(in), body));
    for (int r = 0; r < in->num_replicas; r++)
        pass_results(in, r, body[r], at[r]);
    return end_step(in, at[0]);
}

/* ---- one operation after the other -------------------------------------- */

/* A scalar that an operation knows without operands. */
static bool
known_fact(const Interp *in, int r, const IrOp *op, Scalar *out)
{
    int n;
    switch (op->kind) {
    case OP_dim_size:
        *out = scalar_int(DT_i64, dim_now(in, r, ir_dims(op, A_dims, &n)[0]));
        return true;
    case OP_replica_id:
        *out = scalar_int(DT_i32, r);
        return true;
    case OP_row_start: {
        int32_t sym = ir_dims(op, A_dims, &n)[0].sym;
        *out = scalar_int(DT_i64,
                          sym < 0 ? 0 : in->starts[sym * in->num_replicas + r]);
        return true;
    }
    case OP_param:
        *out = world_param(in, ir_text(op, A_param));
        return true;
    default:
        return false;
    }
}

static Status
compute(Interp *in, int r, IrOp *op)
{
    Scalar fact;
    if (known_fact(in, r, op, &fact)) {
        ref_set(interp_shaped(in, r, op->results[0]), 0, fact);
        return OK;
    }
    if (!ref_can_compute(op))
        return complain(op, "this has to be lowered before it is executed");
    Arena *a = arena_new(NULL, "operands");
    const RefTensor **x =
        (const RefTensor **)NEW_ARRAY(a, RefTensor *, (size_t)op->num_operands);
    for (int i = 0; i < op->num_operands; i++)
        x[i] = interp_value(in, r, op->operands[i]);
    ref_compute(op, x, interp_shaped(in, r, op->results[0]));
    arena_release(a);
    return OK;
}

/* What replica r does without the others. */
static Status
do_own(Interp *in, int r, IrOp *op)
{
    switch (ir_op_info[op->kind].effect) {
    case PURE:
        return compute(in, r, op);
    case READS:
        replicas_read_own(in, r, op);
        return OK;
    case WRITES:
        replicas_write_own(in, r, op);
        return OK;
    case HOST:
        return world_do_in_step(in, r, op);
    default:
        return complain(op, "no replica does this by itself");
    }
}

static Status
do_together(Interp *in, Crew c, IrOp *const *at)
{
    if (c.end - c.first < in->num_replicas)
        return complain(at[c.first], "one replica waits for the others");
    TRY(check_meeting(in, at));
    if (at[0]->kind == OP_launch)
        return do_launch(in, at);
    if (replicas_together(in, at))
        return OK;
    return world_do(in, at[0]);
}

/* at[r] is where replica r of the crew is. */
static Status
do_op(Interp *in, Crew c, IrOp *const *at)
{
    switch (at[c.first]->kind) {
    case OP_if:
        return do_if(in, c, at);
    case OP_for:
        return do_for(in, c, at);
    case OP_while:
        return do_while(in, c, at);
    case OP_run:
    case OP_schedule:
    case OP_merge:
    case OP_update:
    case OP_kernel:
        return do_region(in, c, at);
    default:
        return meets(in, at[c.first]) ? do_together(in, c, at)
                                      : do_own(in, c.first, at[c.first]);
    }
}

static bool
is_end(const IrOp *op)
{
    return (ir_op_info[op->kind].traits & TERMINATOR) != 0;
}

/* Executes block[r] on each replica r of the crew. */
static Status
execute(Interp *in, Crew c, IrBlock *const *block)
{
    IrOp *at[MAX_REPLICAS];
    for (int r = c.first; r < c.end; r++)
        at[r] = block[r]->first;
    bool alone = c.end - c.first < in->num_replicas;
    for (;;) {
        for (int r = c.first; r < c.end; r++)
            for (; !is_end(at[r]) && (alone || !meets(in, at[r]));
                 at[r] = at[r]->next)
                TRY(do_op(in, only(r), at));
        for (int r = c.first; r < c.end; r++)
            if (is_end(at[r]) != is_end(at[c.first]))
                return complain(at[r], "replicas wait for one that is done");
        if (is_end(at[c.first]))
            return OK;
        TRY(do_op(in, c, at));
        for (int r = c.first; r < c.end; r++)
            at[r] = at[r]->next;
    }
}

Status
interp_alone(Interp *in, IrFunc *fn)
{
    return execute(in, only(0), &fn->body);
}

/* ---- from outside ------------------------------------------------------- */

static Status
execute_on_all(Interp *in, IrFunc *fn)
{
    IrBlock *body[MAX_REPLICAS] = {NULL};
    for (int r = 0; r < in->num_replicas; r++)
        body[r] = fn->body;
    return execute(in, everybody(in), body);
}

static Status
initialize(Interp *in, const IrVar *v)
{
    IrFunc *fn = v->init ? ir_func_find(in->m, v->init) : NULL;
    if (!fn)
        return OK;
    TRY(execute_on_all(in, fn));
    for (int r = 0; r < in->num_replicas; r++) {
        RefTensor *var = replicas_var(in, r, v->name);
        ref_copy(in->arena, var,
                 interp_value(in, r, ir_func_return(fn)->operands[0]));
    }
    return OK;
}

Status
interp_run(Interp *in, Str *output)
{
    in->output = output;
    for (int i = 0; i < in->m->vars.len; i++)
        TRY(initialize(in, in->m->vars.data[i]));
    IrFunc *main_fn = ir_main(in->m);
    if (main_fn)
        TRY(execute_on_all(in, main_fn));
    const char *var = replicas_drifted(in);
    return var ? status_new(STATUS_INPUT,
                            "the copies of the variable \"%s\" differ", var)
               : OK;
}

/* What each replica has of n, as all know it. */
static void
set_rows_of_replicas(Interp *in, int32_t n, const int64_t *rows)
{
    for (int i = 0; i < in->m->symbols.len; i++) {
        const IrSymbol *s = &in->m->symbols.data[i];
        for (int r = 0; s->of == n && r < in->num_replicas; r++)
            in->rows[i * in->num_replicas + r] = rows[s->replica];
    }
}

void
interp_set_rows(Interp *in, int32_t n, const int64_t *rows)
{
    int32_t all = in->m->symbols.data[n].partner;
    int64_t sum = 0;
    for (int r = 0; r < in->num_replicas; r++) {
        in->rows[n * in->num_replicas + r] = rows[r];
        in->starts[n * in->num_replicas + r] = sum;
        sum += rows[r];
    }
    for (int r = 0; r < in->num_replicas; r++)
        if (all >= 0)
            in->rows[all * in->num_replicas + r] = sum;
    set_rows_of_replicas(in, n, rows);
}

/* Calls fn on replica r: its parameters and, with room for them in a, its
 * results. */
static void
begin_call(Interp *in, int r, IrFunc *fn, const RefTensor *const *args,
           Arena *a, RefTensor *const *results)
{
    const IrValues *params = &fn->body->args;
    const IrOp *end = ir_func_return(fn);
    for (int i = 0; i < end->num_operands; i++) {
        shape_now(in, r, &end->operands[i]->type, a, &results[i][r]);
        in->outputs[r][i] = results[i][r].data;
    }
    for (int i = 0; i < params->len; i++) {
        in->inputs[r][i] = args[i][r].data;
        interp_bind(in, r, params->data[i], &args[i][r]);
    }
}

Status
interp_call(Interp *in, const char *const *programs,
            const RefTensor *const *args, Arena *a, RefTensor *const *results)
{
    IrBlock *body[MAX_REPLICAS] = {NULL};
    for (int r = 0; r < in->num_replicas; r++) {
        IrFunc *fn = ir_func_find(in->m, programs[r]);
        begin_call(in, r, fn, args, a, results);
        body[r] = fn->body;
    }
    TRY(execute(in, everybody(in), body));
    world_end_step(in);
    for (int r = 0; r < in->num_replicas; r++) {
        const IrOp *end = ir_block_yield(body[r]);
        for (int i = 0; i < end->num_operands; i++)
            ref_copy(a, &results[i][r], interp_value(in, r, end->operands[i]));
    }
    return OK;
}
