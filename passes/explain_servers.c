/*
 * explain_servers.c - what servers execute, what workers push to them and pull
 */
#include <string.h>
#include "ir/analysis/lookups.h"
#include "ir/ir.h"
#include "ir/type_bounds.h"
#include "passes/explain.h"
#include "passes/support/pass.h"

typedef struct Pushes {
    Str *out;
    const IrModule *m;
    Arena *arena;
    const char *update; /* that is looked for */
    bool found;
} Pushes;

static void
find_push(IrOp *op, void *data)
{
    Pushes *p = data;
    if (op->kind == OP_push && !strcmp(ir_text(op, A_update), p->update))
        p->found = true;
}

/* ---- updates ------------------------------------------------------------ */

static void
add_written(IrOp *op, void *data)
{
    Pushes *p = data;
    if (op->kind != OP_write)
        return;
    str_addf(p->out, "%s%s", p->found ? ", " : "", ir_text(op, A_var));
    p->found = true;
}

/* "  update.3   writes w, momentum.m.w" */
static void
explain_update(Pushes *p, IrFunc *fn)
{
    p->update = fn->name;
    p->found = false;
    for (IrFunc *worker = p->m->first; worker; worker = worker->next)
        if (worker->worker_of)
            ir_walk(worker->body, find_push, p);
    if (!p->found)
        return;
    str_addf(p->out, "  %-12s writes ", fn->name);
    p->found = false;
    ir_walk(fn->body, add_written, p);
    str_addc(p->out, '\n');
}

/* ---- pushes ------------------------------------------------------------- */

/* The bytes of values, "208 + 40*N". */
static void
add_formula(Pushes *p, IrValue *const *values, int n)
{
    int num_symbols = p->m->symbols.len;
    int64_t fixed = 0;
    int64_t *each = NEW_ARRAY(p->arena, int64_t, (size_t)num_symbols);
    for (int i = 0; i < n; i++) {
        Dim d = ir_dim_const(0);
        int64_t bytes = (int64_t)dtype_info[values[i]->type.dtype].bytes;
        if (ir_type_elements(&values[i]->type, &d) && !ir_dim_is_const(d))
            each[d.sym] += d.k * bytes;
        fixed += d.c * bytes;
    }
    const char *between = "";
    for (int i = 0; i < num_symbols; i++) {
        if (!each[i])
            continue;
        str_addf(p->out, "%s%lld*%s", between, (long long)each[i],
                 p->m->symbols.data[i].name);
        between = " + ";
    }
    if (fixed || !*between)
        str_addf(p->out, "%s%lld", between, (long long)fixed);
}

static void
explain_push(IrOp *op, void *data)
{
    Pushes *p = data;
    if (op->kind != OP_push)
        return;
    str_addf(p->out, "    %-12s ", ir_text(op, A_update));
    add_formula(p, op->operands, op->num_operands);
    str_add(p->out, " bytes\n");
}

static void
find_any_push(IrOp *op, void *data)
{
    *(bool *)data |= op->kind == OP_push;
}

static void
explain_worker(Pushes *p, IrFunc *fn)
{
    bool pushes = false;
    ir_walk(fn->body, find_any_push, &pushes);
    if (!pushes)
        return;
    str_addf(p->out, "  %s pushes, each time it comes there\n", fn->worker_of);
    ir_walk(fn->body, explain_push, p);
}

/* ---- pulls --------------------------------------------------------------- */

/* Why all of v is pulled, where rows of it are looked up. */
static void
explain_whole(Pushes *p, const IrVar *v, const IrLookups *l)
{
    if (!v->type.rank)
        return;
    if (!l->whole) {
        str_addf(p->out, "; %lld rows that are looked up would be no fewer",
                 (long long)l->most);
        return;
    }
    Loc loc = pass_loc(l->whole);
    str_addf(p->out, "; \"%s\" at %s:%u:%u ", ir_op_info[l->whole->kind].name,
             diag_source_name(p->m->diag, loc.file), loc.line, loc.col);
    str_add(p->out, l->whole->kind == OP_take
                        ? "names rows that no parameter has"
                        : "needs more than rows");
}

static void
explain_pull(Pushes *p, const IrFunc *fn, const IrVar *v)
{
    int64_t bytes = 0;
    IrLookups l = ir_lookups_find(p->arena, fn, v);
    if (!l.reads || !ir_type_bytes(p->m, &v->type, &bytes))
        return;
    if (!p->found)
        str_addf(p->out, "  %s pulls, before it begins\n",
                 fn->worker_of ? fn->worker_of : fn->name);
    p->found = true;
    str_addf(p->out, "    %-12s ", v->name);
    if (ir_is_looked_up(&l)) {
        str_addf(p->out,
                 "%lld*R bytes, and %d*R of their numbers: the R rows "
                 "that are looked up, at most %lld\n",
                 (long long)ir_var_row_bytes(p->m, v), IR_ROW_NUMBER_BYTES,
                 (long long)l.most);
        return;
    }
    str_addf(p->out, "%lld bytes, of parts that have changed",
             (long long)bytes);
    explain_whole(p, v, &l);
    str_addc(p->out, '\n');
}

typedef struct Launched {
    Pushes *p;
    const IrFunc *fn;
    bool is_launched;
} Launched;

static void
note_launch(IrOp *op, void *data)
{
    Launched *l = data;
    if (op->kind != OP_launch)
        return;
    const char *worker = ir_text(op, A_worker);
    const char *name = worker ? worker : ir_text(op, A_program);
    l->is_launched |= !strcmp(name, l->fn->name);
}

/* What a worker executes: the variant that pushes, if there is one. */
static void
explain_pulls(Pushes *p, const IrFunc *fn)
{
    Launched l = {p, fn, false};
    ir_walk(ir_main(p->m)->body, note_launch, &l);
    p->found = false;
    for (int i = 0; l.is_launched && i < p->m->vars.len; i++)
        explain_pull(p, fn, p->m->vars.data[i]);
}

void
pass_explain_servers(Str *out, const IrModule *m)
{
    if (!ir_strategy_info[m->strategy].servers)
        return;
    Pushes p = {.out = out, .m = m, .arena = arena_new(NULL, "explaining")};
    str_add(out, "\nupdates that servers execute, one at a time, and what "
                 "workers push for them\n");
    for (IrFunc *fn = m->first; fn; fn = fn->next)
        if (fn->kind == FUNC_PROGRAM && !fn->worker_of)
            explain_update(&p, fn);
    for (IrFunc *fn = m->first; fn; fn = fn->next)
        if (fn->worker_of)
            explain_worker(&p, fn);
    str_add(out, "\nwhat workers pull from servers\n");
    for (IrFunc *fn = m->first; fn && ir_main(m); fn = fn->next)
        if (fn->kind == FUNC_PROGRAM)
            explain_pulls(&p, fn);
    arena_release(p.arena);
}
