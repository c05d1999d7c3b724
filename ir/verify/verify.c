/*
 * verify.c - the verifier's entry, and the structure of modules
 *
 * A plan comes from a file, and passes may have bugs, so the verifier trusts
 * neither: the runner indexes, allocates and waits as the IR tells it.
 *
 * Here: every operation has the form its row asks for, its operands are visible
 * (SSA with regions), results that the table infers are inferred again, and
 * every region ends in its terminator.
 */
#include "ir/rules/rules.h"
#include "ir/text/text.h"
#include "ir/type_bounds.h"
#include "ir/type_text.h"
#include "ir/verify/verify.h"
#include "ir/verify/verify_impl.h"

#include <string.h>
#include "ir/base/message.h"

enum { MAX_ERRORS = 20 }; /* the diag shows no more */

void
ir_verify_error_at(Verify *v, Loc loc, const char *format, ...)
{
    if (v->num_errors++ >= MAX_ERRORS)
        return;
    va_list args;
    va_start(args, format);
    const char *text = message_vprintf(v->scratch, format, args);
    va_end(args);
    diag_error(v->diag, loc, "%s", text);
}

void
ir_verify_error(Verify *v, const IrOp *op, const char *format, ...)
{
    if (v->num_errors++ >= MAX_ERRORS)
        return;
    va_list args;
    va_start(args, format);
    const char *text = message_vprintf(v->scratch, format, args);
    va_end(args);
    Str where = str_new(v->scratch);
    ir_print_op(&where, op);
    diag_error(v->diag, op->loc, "%s, in @%s: %s", text, op->block->func->name,
               str_text(&where));
}

void
ir_verify_var(Verify *v, const char *name, Loc loc)
{
    if (!ir_var_find(v->module, name))
        ir_verify_error_at(v, loc, "no variable has the name \"%s\"", name);
}

typedef struct Walk {
    Verify *v;
    void (*visit)(Verify *v, IrOp *op);
} Walk;

static void
visit_op(IrOp *op, void *data)
{
    Walk *w = data;
    w->visit(w->v, op);
}

void
ir_verify_walk(Verify *v, void (*visit)(Verify *v, IrOp *op))
{
    Walk w = {v, visit};
    for (const IrFunc *fn = v->module->first; fn; fn = fn->next)
        ir_walk(fn->body, visit_op, &w);
}

/* ---- visibility -------------------------------------------------------- */

/* A value's id is VISIBLE while the walk is where it may be used.  The walk
 * clears the ids that it sets; earlier ids are cleared first. */
enum { HIDDEN = 0, VISIBLE = 1 };

static void
set_ids(const IrValues *args, int id)
{
    for (int i = 0; i < args->len; i++)
        args->data[i]->id = id;
}

static void
set_result_ids(const IrOp *op, int id)
{
    for (int i = 0; i < op->num_results; i++)
        op->results[i]->id = id;
}

static void
hide_all(IrOp *op, void *data)
{
    (void)data;
    set_result_ids(op, HIDDEN);
    for (int r = 0; r < op->num_regions; r++) {
        if (op->regions[r])
            set_ids(&op->regions[r]->args, HIDDEN);
    }
}

/* Whether x may be an operand in block b.  A kernel sees its arguments only. */
static bool
is_visible(const IrValue *x, const IrBlock *b)
{
    if (!x || x->id != VISIBLE)
        return false;
    if (x->def && (!x->def->block || x->index >= x->def->num_results ||
                   x->def->results[x->index] != x))
        return false;
    bool isolated = b->op && b->op->kind == OP_kernel;
    return !isolated || ir_value_block(x) == b;
}

/* ---- types ------------------------------------------------------------- */

static bool
dims_are_known(const IrModule *m, int rank, const Dim *dims)
{
    for (int i = 0; i < rank; i++) {
        if (dims[i].sym >= m->symbols.len ||
            (dims[i].sym < 0 && dims[i].k != 0))
            return false;
    }
    return true;
}

static bool
is_sound_type(const IrModule *m, const IrType *t)
{
    int64_t bytes;
    return t->rank >= 0 && t->rank <= IR_MAX_RANK && t->dtype >= 0 &&
           t->dtype < NUM_DTYPES && (t->locality != LOCAL_ON || t->on) &&
           dims_are_known(m, t->rank, t->dims) && ir_type_bytes(m, t, &bytes);
}

/* Not ir_verify_error: such a type cannot be printed. */
static void
check_types(Verify *v, const IrOp *op, IrValue *const *values, int n)
{
    for (int i = 0; i < n; i++) {
        const IrType *t = &values[i]->type;
        if (!is_sound_type(v->module, t))
            ir_verify_error_at(v, op->loc,
                               "a value of %s has a type that cannot be",
                               ir_op_info[op->kind].name);
        else if (t->locality == LOCAL_ON)
            ir_verify_var(v, t->on, op->loc);
    }
}

static bool
attr_dims_are_known(const IrOp *op)
{
    const IrOpInfo *info = &ir_op_info[op->kind];
    for (int i = 0; i < info->num_attrs; i++) {
        const IrAttrValue *v = &op->attrs[i];
        if (info->attrs[i].kind == DIMS && v->present &&
            !dims_are_known(op->module, v->list.count, v->list.items))
            return false;
    }
    return true;
}

static void
check_op_types(Verify *v, IrOp *op)
{
    check_types(v, op, op->results, op->num_results);
    for (int r = 0; r < op->num_regions; r++) {
        const IrValues *args = &op->regions[r]->args;
        check_types(v, op, args->data, args->len);
    }
    if (!attr_dims_are_known(op))
        ir_verify_error_at(v, op->loc, "%s names a batch symbol that is none",
                           ir_op_info[op->kind].name);
}

void
ir_verify_types(Verify *v)
{
    for (const IrFunc *fn = v->module->first; fn; fn = fn->next) {
        const IrValues *args = &fn->body->args;
        for (int i = 0; i < args->len; i++) {
            if (!is_sound_type(v->module, &args->data[i]->type))
                ir_verify_error_at(
                    v, fn->loc, "a parameter of @%s has a type that cannot be",
                    fn->name);
        }
    }
    ir_verify_walk(v, check_op_types);
}

/* ---- one operation ----------------------------------------------------- */

/* Whether the form of op is valid, so that rules may look at it. */
static bool
check_form(Verify *v, const IrOp *op)
{
    const IrOpInfo *info = &ir_op_info[op->kind];
    const char *wrong = ir_check_form(op);
    if (!wrong && op->num_regions != info->num_regions)
        wrong = MESSAGE("a region is missing");
    if (!wrong && info->num_out >= 0 && op->num_results != info->num_out)
        wrong = MESSAGE("another number of results than its kind has");
    for (int i = 0; !wrong && i < op->num_operands; i++) {
        if (!is_visible(op->operands[i], op->block))
            wrong = MESSAGE("an operand is not visible here");
    }
    if (wrong)
        ir_verify_error(v, op, "%s", wrong);
    return !wrong;
}

static void
check_inferred(Verify *v, const IrOp *op)
{
    int count = ir_infer_count(op);
    if (count != op->num_results) {
        ir_verify_error(v, op, "%d results, not %d", count, op->num_results);
        return;
    }
    for (int i = 0; i == 0 || i < count; i++) {
        IrType t = {0};
        const char *wrong = ir_infer_result(op, op->block, i, &t);
        if (wrong)
            ir_verify_error(v, op, "%s", wrong);
        else if (count && !ir_type_allows(&op->results[i]->type, &t))
            ir_verify_error(v, op, "the result is %s",
                            ir_type_text(v->module, &t));
        if (wrong)
            return;
    }
}

static void verify_block(Verify *v, const IrBlock *b, const IrOp *of);

static void
verify_op(Verify *v, const IrOp *op)
{
    int before = v->num_errors;
    if (!check_form(v, op))
        return;
    for (int r = 0; r < op->num_regions; r++)
        verify_block(v, op->regions[r], op);
    if (v->num_errors == before && ir_is_inferred(op->kind))
        check_inferred(v, op);
}

/* ---- blocks and functions ---------------------------------------------- */

static void
check_terminator(Verify *v, const IrBlock *b, const IrOp *op)
{
    IrOpKind ends = b->op ? OP_yield : OP_return;
    bool is_end = op->kind == ends;
    if (ir_op_info[op->kind].traits & TERMINATOR && !is_end)
        ir_verify_error(v, op, "a %s ends in %s", b->op ? "region" : "function",
                        ir_op_info[ends].name);
    else if (is_end != (op == b->last))
        ir_verify_error(v, op,
                        is_end ? MESSAGE("something follows")
                               : MESSAGE("nothing ends the block"));
}

/* The block is op's region, or the body of a function when op is NULL. */
static void
verify_block(Verify *v, const IrBlock *b, const IrOp *of)
{
    if (!b->last) {
        if (of)
            ir_verify_error(v, of, "a region is empty");
        else
            ir_verify_error_at(v, b->func->loc, "@%s is empty", b->func->name);
        return;
    }
    set_ids(&b->args, VISIBLE);
    for (const IrOp *op = b->first; op; op = op->next) {
        check_terminator(v, b, op);
        verify_op(v, op);
        set_result_ids(op, VISIBLE);
    }
    set_ids(&b->args, HIDDEN);
    for (const IrOp *op = b->first; op; op = op->next)
        set_result_ids(op, HIDDEN);
}

void
ir_verify_structure(Verify *v)
{
    for (const IrFunc *fn = v->module->first; fn; fn = fn->next) {
        set_ids(&fn->body->args, HIDDEN);
        ir_walk(fn->body, hide_all, NULL);
    }
    for (const IrFunc *fn = v->module->first; fn; fn = fn->next)
        verify_block(v, fn->body, NULL);
}

/* ---- the whole module ---------------------------------------------------- */

bool
ir_verify(const IrModule *m, Diag *d)
{
    static void (*const parts[])(Verify *) = {
        ir_verify_types,   ir_verify_declarations, ir_verify_structure,
        ir_verify_given,   ir_verify_contexts,     ir_verify_locality,
        ir_verify_symbols, ir_verify_places,
    };
    Verify v = {.module = m, .diag = d, .scratch = arena_new(NULL, "verifier")};
    /* Each part relies on the earlier ones. */
    for (size_t i = 0; i < sizeof parts / sizeof *parts && !v.num_errors; i++)
        parts[i](&v);
    arena_release(v.scratch);
    return v.num_errors == 0;
}
