/*
 * part.c - updates of variables that lie in parts on several servers
 *
 * A server has some rows of such a variable, and executes an update of these
 * alone.  So each value of an update has a kind, which says what one of its
 * rows hangs on:
 *
 *   whole      on nothing that is cut: all servers have the same
 *   table      row r on row r of the variable and of other tables, and on the
 *              entries that name it
 *   ids        the numbers of rows that are pushed
 *   entries    entry i on those that name the same row as entry i
 *   positions  the same, numbers of such entries
 *   places     a table of positions, where it was set
 *   check      on several entries, but it is only asserted
 *
 * All servers together then compute what one with all rows would, to the bit:
 * entries that name a row go to its server, in their order.  Where a kind is
 * found for each value, tables become those of a part, which differ in nothing
 * but their first dimension:
 *
 *   @update.1(%ids: i64[N], %g: f32[N, 16])      @update.1(...) part @w rows 0
 *     %w: f32[400, 16] = read {var=@w}      ->     %w: f32[100, 16] = read
 *
 * An update that needs only rows which entries name has a table of as many rows
 * as there may be entries: the server puts the rows there and takes them back.
 */
#include "passes/distribute/part.h"

#include <string.h>
#include "ir/rules/build.h"
#include "ir/type_bounds.h"

typedef enum Kind {
    KIND_WHOLE,
    KIND_TABLE,
    KIND_IDS,
    KIND_ENTRIES,
    KIND_POSITIONS,
    KIND_PLACES,
    KIND_CHECK
} Kind;

typedef struct Parting {
    IrModule *m;
    IrFunc *fn;
    const IrVar *home;
    Dim rows; /* of the variable */
    int ids;  /* the parameter; -1: none */
    Dim entries;
    Kind *kinds;         /* of each value, by id */
    const IrOp *refuses; /* the first that needs more than its row; or NULL */
    bool fails;
    bool needs_all; /* rows that nobody has named, too */
} Parting;

/* ---- kinds --------------------------------------------------------------- */

static Kind
kind_of(const Parting *p, const IrValue *v)
{
    return p->kinds[v->id];
}

static bool
begins_with(const IrValue *v, Dim d)
{
    return v->type.rank > 0 && ir_dim_equal(v->type.dims[0], d);
}

static bool
has_entries(const Parting *p, const IrValue *v)
{
    return p->ids >= 0 && begins_with(v, p->entries);
}

static void
refuse(Parting *p, const IrOp *op)
{
    if (!p->fails)
        p->refuses = op;
    p->fails = true;
}

static bool
is_rowwise(Kind k)
{
    return k == KIND_TABLE || k == KIND_ENTRIES;
}

static void
set_kind(Parting *p, const IrOp *op, Kind k)
{
    for (int i = 0; i < op->num_results; i++)
        p->kinds[op->results[i]->id] = k;
}

/* That of a value that is the same on all servers, if it can be: one with as
 * many rows as the variable or entries is different. */
static void
set_whole(Parting *p, const IrOp *op)
{
    for (int i = 0; i < op->num_results; i++)
        if (begins_with(op->results[i], p->rows) ||
            has_entries(p, op->results[i]))
            refuse(p, op);
    set_kind(p, op, KIND_WHOLE);
}

/* That of a value whose rows are all made alike. */
static void
set_by_rows(Parting *p, const IrOp *op)
{
    const IrValue *v = op->results[0];
    if (has_entries(p, v))
        set_kind(p, op, KIND_ENTRIES);
    else
        set_kind(p, op, begins_with(v, p->rows) ? KIND_TABLE : KIND_WHOLE);
}

static bool
are_whole(const Parting *p, const IrOp *op)
{
    for (int i = 0; i < op->num_operands; i++)
        if (kind_of(p, op->operands[i]) != KIND_WHOLE)
            return false;
    return true;
}

/* ---- operations ---------------------------------------------------------- */

/* Whether a whole operand is the same for all rows of result r. */
static bool
spreads_over_rows(const IrValue *v, const IrValue *r)
{
    return v->type.rank < r->type.rank ||
           ir_dim_equal(v->type.dims[0], ir_dim_const(1));
}

static void
join_elements(Parting *p, const IrOp *op)
{
    const IrValue *r = op->results[0];
    Kind joined = KIND_WHOLE;
    for (int i = 0; i < op->num_operands; i++) {
        const IrValue *v = op->operands[i];
        Kind k = kind_of(p, v);
        if (k == KIND_WHOLE)
            continue;
        if ((k != KIND_CHECK &&
             (!is_rowwise(k) || v->type.rank != r->type.rank)) ||
            (joined != KIND_WHOLE && joined != k))
            refuse(p, op);
        joined = k;
    }
    for (int i = 0; i < op->num_operands && is_rowwise(joined); i++)
        if (kind_of(p, op->operands[i]) == KIND_WHOLE &&
            !spreads_over_rows(op->operands[i], r))
            refuse(p, op);
    if (joined == KIND_WHOLE)
        set_whole(p, op);
    else
        set_kind(p, op, joined);
}

static void
reduce_rows(Parting *p, const IrOp *op)
{
    int n;
    const int64_t *axes = ir_ints(op, A_axes, &n);
    Kind k = kind_of(p, op->operands[0]);
    bool joins_rows = n > 0 && axes[0] == 0;
    if (k == KIND_WHOLE)
        set_whole(p, op);
    else if (joins_rows && op->results[0]->type.rank == 0 && k != KIND_TABLE &&
             k != KIND_PLACES)
        set_kind(p, op, KIND_CHECK);
    else if (is_rowwise(k) && !joins_rows)
        set_kind(p, op, k);
    else
        refuse(p, op);
}

static void
spread(Parting *p, const IrOp *op)
{
    const IrValue *v = op->operands[0], *r = op->results[0];
    Kind k = kind_of(p, v);
    bool keeps = v->type.rank == r->type.rank &&
                 ir_dim_equal(v->type.dims[0], r->type.dims[0]);
    if (is_rowwise(k) && keeps)
        set_kind(p, op, k);
    else if (k == KIND_WHOLE && !r->type.rank)
        set_kind(p, op, k);
    else if (k == KIND_WHOLE && spreads_over_rows(v, r))
        set_by_rows(p, op);
    else if (k == KIND_WHOLE)
        set_whole(p, op);
    else
        refuse(p, op);
}

static void
reshape_rows(Parting *p, const IrOp *op)
{
    const IrValue *v = op->operands[0], *r = op->results[0];
    Kind k = kind_of(p, v);
    if (k == KIND_WHOLE)
        set_whole(p, op);
    else if ((is_rowwise(k) && r->type.rank &&
              ir_dim_equal(v->type.dims[0], r->type.dims[0])) ||
             (k == KIND_CHECK && !r->type.rank))
        set_kind(p, op, k);
    else
        refuse(p, op);
}

static void
count(Parting *p, const IrOp *op)
{
    const IrValue *r = op->results[0];
    bool is_first = ir_int(op, A_axis) == 0;
    if (is_first && r->type.rank == 1 && has_entries(p, r))
        set_kind(p, op, KIND_POSITIONS);
    else if (is_first)
        set_whole(p, op);
    else
        set_by_rows(p, op);
}

static void
take_rows(Parting *p, const IrOp *op)
{
    Kind x = kind_of(p, op->operands[0]), y = kind_of(p, op->operands[1]);
    if (ir_int(op, A_axis) != 0) {
        if (is_rowwise(x) && y == KIND_WHOLE)
            set_kind(p, op, x);
        else
            refuse(p, op);
    } else if ((x == KIND_TABLE && y == KIND_IDS) ||
               (x == KIND_ENTRIES && y == KIND_POSITIONS) ||
               (x == KIND_WHOLE && y == KIND_ENTRIES)) {
        set_kind(p, op, KIND_ENTRIES);
    } else if (x == KIND_PLACES && y == KIND_IDS) {
        set_kind(p, op, KIND_POSITIONS);
    } else if (x == KIND_WHOLE && y == KIND_TABLE) {
        set_kind(p, op, KIND_TABLE);
    } else {
        refuse(p, op);
    }
}

static void
scatter_rows(Parting *p, const IrOp *op)
{
    Kind x = kind_of(p, op->operands[0]), y = kind_of(p, op->operands[1]),
         z = kind_of(p, op->operands[2]);
    bool first = !ir_has(op, A_axis) || ir_int(op, A_axis) == 0;
    if (first && x == KIND_TABLE && y == KIND_IDS && z == KIND_ENTRIES)
        set_kind(p, op, KIND_TABLE);
    else if (first && x == KIND_TABLE && y == KIND_IDS && z == KIND_POSITIONS &&
             ir_enum(op, A_mode) == UPDATE_set)
        set_kind(p, op, KIND_PLACES);
    else if (first && x == KIND_ENTRIES && y == KIND_POSITIONS &&
             z == KIND_ENTRIES)
        set_kind(p, op, KIND_ENTRIES);
    else
        refuse(p, op);
}

/* Whether a write of v changes only rows that are named. */
static bool
is_scattered(const Parting *p, const IrOp *write)
{
    const IrOp *op = write->operands[0]->def;
    while (op && op->kind == OP_scatter &&
           kind_of(p, op->operands[1]) == KIND_IDS)
        op = op->operands[0]->def;
    return op && op->kind == OP_read && ir_enum(write, A_mode) == UPDATE_set &&
           !strcmp(ir_text(op, A_var), ir_text(write, A_var));
}

/* All of a variable that an update of a part reads and writes is in parts. */
static void
use_variable(Parting *p, const IrOp *op)
{
    const IrVar *v = ir_var_find(p->m, ir_text(op, A_var));
    if (ir_var_home(p->m, v) != p->home || ir_var_parts(p->m, v) < 2 ||
        (op->kind == OP_write && kind_of(p, op->operands[0]) != KIND_TABLE))
        refuse(p, op);
    if (op->kind == OP_write)
        p->needs_all |= !is_scattered(p, op);
    set_kind(p, op, KIND_TABLE);
}

static void
assert_rows(Parting *p, const IrOp *op)
{
    for (int i = 0; i < op->num_operands; i++) {
        Kind k = kind_of(p, op->operands[i]);
        if (k != KIND_WHOLE && k != KIND_CHECK)
            refuse(p, op);
    }
}

static void
find_kind(IrOp *op, void *data)
{
    Parting *p = data;
    unsigned traits = ir_op_info[op->kind].traits;
    if (p->fails || op->kind == OP_update || op->kind == OP_yield ||
        op->kind == OP_return)
        return;
    if (op->kind == OP_read || op->kind == OP_write)
        use_variable(p, op);
    else if (op->kind == OP_assert)
        assert_rows(p, op);
    else if (op->kind == OP_dim_size)
        set_kind(p, op,
                 ir_dim_is_const(*ir_dims(op, A_dims, &(int){0})) ? KIND_WHOLE
                                                                  : KIND_CHECK);
    else if (op->kind == OP_iota)
        count(p, op);
    else if (op->kind == OP_broadcast)
        spread(p, op);
    else if (op->kind == OP_reshape)
        reshape_rows(p, op);
    else if (op->num_regions || ir_op_info[op->kind].effect != PURE)
        refuse(p, op);
    else if (are_whole(p, op))
        set_whole(p, op);
    else if (op->kind == OP_take)
        take_rows(p, op);
    else if (op->kind == OP_scatter)
        scatter_rows(p, op);
    else if (traits & REDUCES)
        reduce_rows(p, op);
    else if (traits & ELEMENTWISE)
        join_elements(p, op);
    else
        refuse(p, op);
}

/* ---- parameters ---------------------------------------------------------- */

/* The parameter by which rows of tables are looked up, or changed; several are
 * of no use. */
static void
find_ids(IrOp *op, void *data)
{
    Parting *p = data;
    if ((op->kind != OP_take && op->kind != OP_scatter) ||
        !begins_with(op->operands[0], p->rows) || op->operands[1]->def)
        return;
    int i = 0;
    while (i < p->fn->body->args.len &&
           p->fn->body->args.data[i] != op->operands[1])
        i++;
    if (i == p->fn->body->args.len || op->operands[1]->type.rank != 1 ||
        (p->ids >= 0 && p->ids != i))
        refuse(p, op);
    p->ids = i;
}

static int
number_values(IrBlock *b, int next)
{
    for (int i = 0; i < b->args.len; i++)
        b->args.data[i]->id = next++;
    for (IrOp *op = b->first; op; op = op->next) {
        for (int i = 0; i < op->num_results; i++)
            op->results[i]->id = next++;
        for (int i = 0; i < op->num_regions; i++)
            next = number_values(op->regions[i], next);
    }
    return next;
}

static void
find_parameters(Parting *p)
{
    const IrValues *args = &p->fn->body->args;
    ir_walk(p->fn->body, find_ids, p);
    if (p->fails)
        return;
    if (p->ids >= 0)
        p->entries = args->data[p->ids]->type.dims[0];
    if (p->ids >= 0 && ir_dim_equal(p->entries, p->rows))
        refuse(p, ir_func_return(p->fn)); /* nobody could tell them apart */
    for (int i = 0; i < args->len; i++) {
        const IrValue *v = args->data[i];
        p->kinds[v->id] = i == p->ids               ? KIND_IDS
                          : has_entries(p, v)       ? KIND_ENTRIES
                          : begins_with(v, p->rows) ? KIND_TABLE
                                                    : KIND_WHOLE;
        p->needs_all |= p->kinds[v->id] == KIND_TABLE;
    }
}

static Parting
find_kinds(PassCx *cx, IrFunc *fn, const IrVar *home)
{
    Parting p = {.m = cx->m,
                 .fn = fn,
                 .home = home,
                 .rows = home->type.dims[0],
                 .ids = -1};
    int num = number_values(fn->body, 0);
    p.kinds = NEW_ARRAY(cx->arena, Kind, (size_t)num);
    find_parameters(&p);
    if (!p.fails)
        ir_walk(fn->body, find_kind, &p);
    return p;
}

/* ---- parts --------------------------------------------------------------- */

/* A part gets any number of entries: theirs is a dimension of its own, unless
 * it is one already. */
static Dim
part_entries(const Parting *p)
{
    Dim d = p->entries;
    if (d.c == 0 && d.k == 1)
        return d;
    int64_t most = ir_dim_full(p->m, d).c;
    int32_t n = ir_symbol_pair(p->m, most, most);
    return ir_dim_linear(0, 1, p->m->symbols.data[n].partner);
}

typedef struct Retype {
    const Parting *p;
    Dim rows, entries;
} Retype;

static void
cut_value(const Retype *r, IrValue *v)
{
    Kind k = kind_of(r->p, v);
    if (k == KIND_TABLE || k == KIND_PLACES)
        v->type.dims[0] = r->rows;
    else if (k != KIND_WHOLE && k != KIND_CHECK)
        v->type.dims[0] = r->entries;
}

static void
cut_op(IrOp *op, void *data)
{
    const Retype *r = data;
    for (int i = 0; i < op->num_results; i++)
        cut_value(r, op->results[i]);
    if (ir_attr_index(op->kind, A_dims) < 0)
        return;
    int n;
    const Dim *dims = ir_dims(op, A_dims, &n);
    Dim cut[IR_MAX_RANK];
    for (int i = 0; i < n; i++)
        cut[i] = dims[i];
    if (op->kind == OP_dim_size && r->p->ids >= 0 &&
        ir_dim_equal(dims[0], r->p->entries))
        cut[0] = r->entries;
    else if (op->results[0]->type.rank)
        cut[0] = op->results[0]->type.dims[0];
    ir_set_dims(op, A_dims, cut, n);
}

static void
cut_update(const Parting *p)
{
    const IrValues *args = &p->fn->body->args;
    Retype r = {.p = p};
    p->fn->part_of = p->home->name;
    p->fn->row_ids = p->ids;
    p->fn->rows_only = p->ids >= 0 && !p->needs_all;
    if (p->ids >= 0) {
        r.entries = part_entries(p);
        cut_value(&r, args->data[p->ids]); /* of which the rows are as many */
    }
    r.rows = ir_dim_const(ir_update_rows(p->fn, p->home));
    for (int i = 0; i < args->len; i++)
        cut_value(&r, args->data[i]);
    ir_walk(p->fn->body, cut_op, &r);
}

/* ---- variables ----------------------------------------------------------- */

typedef struct FindUse {
    const IrVar *home;
    bool found;
} FindUse;

/* What is colocated with it and lies whole has updates of its own. */
static void
find_use(IrOp *op, void *data)
{
    FindUse *f = data;
    if (op->kind != OP_read && op->kind != OP_write)
        return;
    const IrVar *v = ir_var_find(op->module, ir_text(op, A_var));
    f->found |= ir_var_home(op->module, v) == f->home &&
                ir_var_parts(op->module, v) > 1;
}

static bool
is_of(const IrFunc *update, const IrVar *home)
{
    FindUse f = {home, false};
    ir_walk(update->body, find_use, &f);
    return f.found;
}

static void
leave_whole(PassCx *cx, IrVar *v, const Parting *p)
{
    v->parts = 0;
    diag_warning(
        cx->diag, v->loc,
        "\"%s\" is not in parts, but whole on one server: an update of "
        "it needs more than a row at a time",
        v->name);
    diag_note(cx->diag, p->refuses->loc, "here");
    ir_note_calls(cx->diag, p->refuses->calls, NO_LOC);
}

static void
part_variable(PassCx *cx, IrVar *home, IrFunc *const *updates, int num)
{
    Parting *found = NEW_ARRAY(cx->arena, Parting, (size_t)num);
    int n = 0;
    for (int i = 0; i < num; i++) {
        if (!is_of(updates[i], home))
            continue;
        found[n] = find_kinds(cx, updates[i], home);
        if (found[n++].fails) {
            leave_whole(cx, home, &found[n - 1]);
            return;
        }
    }
    for (int i = 0; i < n; i++)
        cut_update(&found[i]);
}

void
pass_part_updates(PassCx *cx, IrFunc *const *updates, int num)
{
    for (int i = 0; i < cx->m->vars.len; i++)
        if (cx->m->vars.data[i]->parts > 1)
            part_variable(cx, cx->m->vars.data[i], updates, num);
}
