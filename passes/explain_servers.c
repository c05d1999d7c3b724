/*
 * explain_servers.c - what servers execute, what workers push to them and pull
 */
#include <string.h>
#include "ir/analysis/lookups.h"
#include "ir/analysis/parts.h"
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

/* Bytes of values, "208 + 40*N". */
typedef struct Bytes {
    int64_t fixed;
    int64_t *each; /* of a symbol of the module */
} Bytes;

static Bytes
new_bytes(const Pushes *p)
{
    size_t num_symbols = (size_t)p->m->symbols.len;
    return (Bytes){.each = NEW_ARRAY(p->arena, int64_t, num_symbols)};
}

static void
add_bytes(Bytes *sum, const IrType *t, int64_t times)
{
    Dim d = ir_dim_const(0);
    int64_t bytes = (int64_t)dtype_info[t->dtype].bytes * times;
    if (ir_type_elements(t, &d) && !ir_dim_is_const(d))
        sum->each[d.sym] += d.k * bytes;
    sum->fixed += d.c * bytes;
}

static void
add_formula(Pushes *p, const Bytes *sum)
{
    const char *between = "";
    for (int i = 0; i < p->m->symbols.len; i++) {
        if (!sum->each[i])
            continue;
        str_addf(p->out, "%s%lld*%s", between, (long long)sum->each[i],
                 p->m->symbols.data[i].name);
        between = " + ";
    }
    if (sum->fixed || !*between)
        str_addf(p->out, "%s%lld", between, (long long)sum->fixed);
}

/* Rows and their numbers go to one part each, the rest to all parts, or to
 * those with rows. */
static void
explain_push(IrOp *op, void *data)
{
    Pushes *p = data;
    if (op->kind != OP_push)
        return;
    const IrFunc *update = ir_func_find(p->m, ir_text(op, A_update));
    int64_t parts = 1;
    if (update->part_of && !update->rows_only)
        parts = ir_var_parts(p->m, ir_var_find(p->m, update->part_of));
    Bytes once = new_bytes(p), each = new_bytes(p);
    for (int i = 0; i < op->num_operands; i++) {
        IrCut cut = ir_push_cut(update, op, i);
        if (cut == CUT_IDS || cut == CUT_ENTRIES || ir_update_is_set(update))
            add_bytes(&once, &op->operands[i]->type, 1);
        else
            add_bytes(update->rows_only ? &each : &once,
                      &update->body->args.data[i]->type, parts);
    }
    str_addf(p->out, "    %-12s ", update->name);
    add_formula(p, &once);
    str_add(p->out, " bytes");
    if (each.fixed) {
        str_add(p->out, ", and ");
        add_formula(p, &each);
        str_add(p->out, " for each part with one of these rows");
    }
    str_addc(p->out, '\n');
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
    Loc loc = ir_op_loc(l->whole);
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
