/*
 * verify_places.c - every value of a placed module has a place that exists
 *
 * Each place is checked alone: it is of a space that the function has, within
 * its bytes, and aligned; and variables and main's rows are disjoint in the
 * arena. verify_overlap.c checks how places are used over time.
 */
#include "ir/verify/verify_places.h"

#include <stdlib.h>
#include "ir/analysis/hooks.h"
#include "ir/base/message.h"
#include "ir/segments.h"
#include "ir/type_bounds.h"

Extent
ir_extent_of(const IrModule *m, IrPlace place, const IrType *t)
{
    Extent e = {place, 0};
    ir_type_bytes(m, t, &e.bytes);
    return e;
}

static bool
is_pointer(IrSpace space)
{
    return space == SPACE_IN || space == SPACE_OUT;
}

/* Memory of different pointers is disjoint. */
bool
ir_extents_overlap(const Extent *a, const Extent *b)
{
    if (a->place.space != b->place.space || !a->bytes || !b->bytes)
        return false;
    if (is_pointer(a->place.space))
        return a->place.offset == b->place.offset;
    return a->place.offset < b->place.offset + b->bytes &&
           b->place.offset < a->place.offset + a->bytes;
}

int
ir_extents_compare(const void *x, const void *y)
{
    const Extent *a = x, *b = y;
    return (a->place.offset > b->place.offset) -
           (a->place.offset < b->place.offset);
}

/* ---- one value --------------------------------------------------------- */

/* Whether a value of fn may be in that space. */
static bool
has_space(const IrFunc *fn, const IrValue *x)
{
    if (fn->kind == FUNC_MAIN)
        return x->place.space ==
               (x->type.locality == LOCAL_HOST ? SPACE_FRAME : SPACE_ROW);
    return x->place.space == SPACE_ARENA || is_pointer(x->place.space);
}

/* Whether e fits the memory of pointer number i, which is one of those values.
 */
static bool
fits_pointer(const IrModule *m, const Extent *e, IrValue *const *values, int n)
{
    int64_t bytes = 0;
    if (e->place.offset >= n)
        return false;
    ir_type_bytes(m, &values[e->place.offset]->type, &bytes);
    return e->bytes <= bytes;
}

/* Whether the place is within the function's memory of that space. */
static bool
is_within(const IrFunc *fn, const Extent *e)
{
    int64_t end, size = fn->arena_bytes;
    const IrValues *args = &fn->body->args;
    const IrOp *ret = ir_func_return(fn);
    if (e->place.space == SPACE_IN)
        return fits_pointer(fn->module, e, args->data, args->len);
    if (e->place.space == SPACE_OUT)
        return fits_pointer(fn->module, e, ret->operands, ret->num_operands);
    if (e->place.space == SPACE_ROW)
        size = IR_MAX_BYTES;
    return !__builtin_add_overflow(e->place.offset, e->bytes, &end) &&
           end <= size;
}

static const char *
wrong_place(const Verify *v, const IrFunc *fn, const IrValue *x)
{
    Extent e = ir_extent_of(v->module, x->place, &x->type);
    int64_t width = (int64_t)dtype_info[x->type.dtype].bytes;
    if (x->place.space == SPACE_NONE)
        return MESSAGE("has no place");
    if (!has_space(fn, x))
        return MESSAGE("is in a space that is not for it");
    if (x->place.offset < 0 || !is_within(fn, &e))
        return MESSAGE("is not within the bytes of its function");
    if (!is_pointer(x->place.space) && x->place.offset % width)
        return MESSAGE("is not aligned to its elements");
    return NULL;
}

static void
check_values(Verify *v, const IrOp *op, IrValue *const *values, int n)
{
    for (int i = 0; i < n; i++) {
        const char *wrong = wrong_place(v, op->block->func, values[i]);
        if (wrong)
            ir_verify_error(v, op, "value %d %s", i, message_part(wrong));
    }
}

static void
check_buffers(Verify *v, const IrOp *op, IrValue *const *values, int n)
{
    for (int i = 0; i < n; i++) {
        IrPlace p = values[i]->place;
        int64_t bytes = 0;
        ir_type_bytes(v->module, &values[i]->type, &bytes);
        int64_t align = ir_collective_align(bytes);
        if (p.space != SPACE_ARENA || p.offset % align)
            ir_verify_error(v, op,
                            "a collective's buffer of %lld bytes is in the "
                            "arena, aligned to %lld",
                            (long long)bytes, (long long)align);
    }
}

static void
check_op(Verify *v, IrOp *op)
{
    if (ir_is_in_kernel(op))
        return;
    check_values(v, op, op->results, op->num_results);
    for (int r = 0; op->kind != OP_kernel && r < op->num_regions; r++) {
        const IrValues *args = &op->regions[r]->args;
        check_values(v, op, args->data, args->len);
    }
    if (ir_op_is_start(op->kind)) {
        check_buffers(v, op, op->operands, op->num_operands);
        check_buffers(v, op, op->results, op->num_results);
    }
}

static void
check_parameters(Verify *v, const IrFunc *fn)
{
    for (int i = 0; i < fn->body->args.len; i++) {
        IrPlace p = fn->body->args.data[i]->place;
        if (p.space != SPACE_IN || p.offset != i)
            ir_verify_error_at(v, fn->loc, "parameter %d of @%s is not [in %d]",
                               i, fn->name, i);
    }
}

/* ---- the arena --------------------------------------------------------- */

/* Variables in the order of their places, which must not overlap. */
static Extents
check_variables(Verify *v)
{
    const IrModule *m = v->module;
    Extents vars = {0};
    for (int i = 0; i < m->vars.len; i++) {
        const IrVar *var = m->vars.data[i];
        Extent e = ir_extent_of(m, var->place, &var->type);
        int64_t end;
        if (e.place.space != SPACE_ARENA || e.place.offset < 0 ||
            __builtin_add_overflow(e.place.offset, e.bytes, &end) ||
            end > IR_MAX_BYTES)
            ir_verify_error_at(v, var->loc, "the variable \"%s\" has no place",
                               var->name);
        else if (e.place.offset % (int64_t)dtype_info[var->type.dtype].bytes)
            ir_verify_error_at(v, var->loc,
                               "the variable \"%s\" is not aligned to its "
                               "elements",
                               var->name);
        if (e.bytes)
            VEC_PUSH(v->scratch, vars, e);
    }
    if (vars.len)
        qsort(vars.data, (size_t)vars.len, sizeof *vars.data,
              ir_extents_compare);
    for (int i = 1; i < vars.len; i++) {
        if (ir_extents_overlap(&vars.data[i - 1], &vars.data[i]))
            ir_verify_error_at(v, NO_LOC, "two variables are at [arena+%lld]",
                               (long long)vars.data[i].place.offset);
    }
    return vars;
}

typedef struct Rows {
    Verify *v;
    Extents vars;
} Rows;

static bool
meets_any(const Extents *list, Extent e)
{
    for (int i = 0; i < list->len; i++) {
        e.place.space = list->data[i].place.space;
        if (ir_extents_overlap(&e, &list->data[i]))
            return true;
    }
    return false;
}

static void
check_row(const Rows *r, const IrOp *op, const IrValue *x)
{
    Extent e = ir_extent_of(r->v->module, x->place, &x->type);
    if (e.place.space == SPACE_ROW && e.bytes && meets_any(&r->vars, e))
        ir_verify_error(r->v, op, "[row+%lld] is a variable's",
                        (long long)e.place.offset);
}

static void
check_rows(IrOp *op, void *data)
{
    for (int i = 0; i < op->num_results; i++)
        check_row(data, op, op->results[i]);
    for (int k = 0; k < op->num_regions; k++) {
        const IrValues *args = &op->regions[k]->args;
        for (int i = 0; i < args->len; i++)
            check_row(data, op, args->data[i]);
    }
}

static void
check_arena(Verify *v)
{
    Rows r = {v, check_variables(v)};
    for (const IrFunc *fn = v->module->first; fn; fn = fn->next) {
        if (fn->kind == FUNC_MAIN)
            ir_walk(fn->body, check_rows, &r);
    }
}

void
ir_verify_places(Verify *v)
{
    if (v->module->phase < PHASE_PLACED)
        return;
    for (const IrFunc *fn = v->module->first; fn; fn = fn->next)
        check_parameters(v, fn);
    ir_verify_walk(v, check_op);
    if (!v->num_errors)
        check_arena(v);
    for (const IrFunc *fn = v->module->first; fn && !v->num_errors;
         fn = fn->next)
        ir_verify_overlap(v, fn);
}
