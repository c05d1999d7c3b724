/*
 * check.c - a pass is correct when the program computes the same after it (D17)
 */
#include "tests/passes/check.h"

#include <string.h>
#include "ir/ptrmap.h"
#include "ir/ir.h"
#include "ir/text/text.h"
#include "tests/ref/interp.h"

/* ---- the behaviour of a program ----------------------------------------- */

/* The output of a program, how it ended, and the values of its variables. */
typedef struct Outcome {
    const char *output;
    const char *failure;   /* NULL: none */
    const RefTensor *vars; /* variable v of replica r: v * num_replicas + r */
} Outcome;

static const RefTensor *
copy_vars(Arena *a, const Interp *in, const IrModule *m)
{
    int n = m->num_replicas;
    RefTensor *vars = NEW_ARRAY(a, RefTensor, (size_t)(m->vars.len * n));
    for (int v = 0; v < m->vars.len; v++)
        for (int r = 0; r < n; r++)
            ref_copy(a, &vars[v * n + r],
                     interp_var(in, m->vars.data[v]->name, r));
    return vars;
}

static Outcome
execute(Arena *a, IrModule *m, const CheckOptions *options)
{
    InterpOptions how = {.seed = 1,
                         .data_dir = options->data_dir,
                         .max_steps = options->max_steps};
    Interp *in = interp_new(m, &how);
    Str output = str_new(a);
    Outcome o = {0};
    Status st = interp_run(in, &output);
    if (st)
        o.failure = arena_strdup(a, status_message(st));
    status_free(st);
    o.output = str_text(&output);
    o.vars = copy_vars(a, in, m);
    interp_release(in);
    return o;
}

static const char *
var_difference(Arena *a, const IrModule *m, const Outcome *x, const Outcome *y)
{
    for (int i = 0; i < m->vars.len * m->num_replicas; i++) {
        int64_t at = ref_first_difference(&x->vars[i], &y->vars[i]);
        if (at >= 0)
            return arena_printf(
                a, "element %lld of @%s on replica %d", (long long)at,
                m->vars.data[i / m->num_replicas]->name, i % m->num_replicas);
    }
    return NULL;
}

/* NULL, or how y is another outcome than x. */
static const char *
difference(Arena *a, const IrModule *m, const Outcome *x, const Outcome *y)
{
    const char *was = x->failure ? x->failure : "";
    if (strcmp(was, y->failure ? y->failure : "") != 0)
        return arena_printf(a, "it failed with \"%s\"",
                            y->failure ? y->failure : "nothing");
    if (strcmp(x->output, y->output) != 0)
        return arena_printf(a, "it printed\n%s\ninstead of\n%s", y->output,
                            x->output);
    const char *var = var_difference(a, m, x, y);
    return var ? arena_printf(a, "it left another %s", var) : NULL;
}

/* ---- reasons ------------------------------------------------------------ */

typedef VEC(const IrOp *) OpList;

typedef struct Inventory {
    Arena *arena;
    PtrMap known;  /* the operations before the pass */
    OpList source; /* of them, those without a reason */
    const char *wrong;
} Inventory;

static void
note_op(IrOp *op, void *data)
{
    Inventory *inv = data;
    ir_ptrmap_set(&inv->known, op, op);
    if (!op->reason)
        VEC_PUSH(inv->arena, inv->source, op);
}

static bool
same_place(Loc x, Loc y)
{
    return x.line == y.line && x.col == y.col && x.file == y.file;
}

/* Whether op is a copy of an operation of the program. */
static bool
is_copied(const Inventory *inv, const IrOp *op)
{
    for (int i = 0; i < inv->source.len; i++)
        if (inv->source.data[i]->kind == op->kind &&
            same_place(inv->source.data[i]->loc, op->loc))
            return true;
    return false;
}

static void
check_reason(IrOp *op, void *data)
{
    Inventory *inv = data;
    bool ends = (ir_op_info[op->kind].traits & TERMINATOR) != 0;
    if (op->reason || ends || ir_ptrmap_get(&inv->known, op) ||
        is_copied(inv, op) || inv->wrong)
        return;
    Str text = str_new(inv->arena);
    ir_print_op(&text, op);
    inv->wrong = arena_printf(inv->arena, "no reason for: %s", str_text(&text));
}

static void
walk_module(const IrModule *m, void (*visit)(IrOp *, void *), void *data)
{
    for (IrFunc *fn = m->first; fn; fn = fn->next)
        ir_walk(fn->body, visit, data);
}

/* ---- passes ------------------------------------------------------------- */

const char *
check_pass(Arena *a, IrModule *m, const char *pass, const CheckOptions *options)
{
    Inventory inv = {.arena = a, .known = {.arena = a}};
    PassOptions how = {.level = options->level, .verify_each = true};
    if (options->packs_by_bytes)
        m->bytes_per_pack = options->bytes_per_pack;
    /* what m holds stays allocated, so that new operations are elsewhere */
    walk_module(m, note_op, &inv);
    if (!pass_run_pipeline(m, m->diag, &how, pass))
        return diag_text(m->diag, a);
    walk_module(m, check_reason, &inv);
    return inv.wrong;
}

static void
find_grad(IrOp *op, void *data)
{
    if (op->kind == OP_grad || op->kind == OP_custom_gradient ||
        op->kind == OP_recompute)
        *(bool *)data = true;
}

static bool
has_gradients(const IrModule *m)
{
    bool found = false;
    walk_module(m, find_grad, &found);
    return found;
}

static const char *
in_pass(Arena *a, const IrModule *m, const char *pass, const char *wrong)
{
    return arena_printf(a, "after %s: %s\n%s", pass, wrong,
                        ir_module_text(a, m));
}

const char *
check_pipeline(Arena *a, IrModule *m, const CheckOptions *options)
{
    IrModule *copy = ir_clone_module(m, a);
    bool known = false;
    Outcome before = {0};
    for (int i = 0; i < num_passes; i++) {
        if (!known && !has_gradients(copy)) {
            before = execute(a, copy, options);
            if (before.failure && !options->may_fail)
                return before.failure;
            known = true;
        }
        const char *pass = pass_table[i].name;
        const char *wrong = check_pass(a, copy, pass, options);
        if (!wrong && known) {
            Outcome after = execute(a, copy, options);
            wrong = difference(a, copy, &before, &after);
        }
        if (wrong)
            return in_pass(a, copy, pass, wrong);
    }
    return NULL;
}
