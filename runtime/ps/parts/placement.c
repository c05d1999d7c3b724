/*
 * placement.c - which server has which part of which variable
 */
#include "runtime/ps/parts/placement.h"

#include <string.h>
#include "ir/type_bounds.h"

typedef struct Groups {
    RtRun *run;
    int *parent; /* of each variable, towards the group's first */
} Groups;

static int
first_of(const Groups *g, int var)
{
    while (g->parent[var] != var)
        var = g->parent[var];
    return var;
}

static void
unite(Groups *g, int a, int b)
{
    a = first_of(g, a);
    b = first_of(g, b);
    g->parent[a > b ? a : b] = a < b ? a : b;
}

static int
number_of(const IrModule *m, const char *name)
{
    return ir_var_number(m, ir_var_find(m, name));
}

/* ---- updates ------------------------------------------------------------ */

typedef struct Uses {
    const IrModule *m;
    RtRun *run;
    RtUpdate *update;
} Uses;

static bool
has_use(const RtUpdate *u, int var)
{
    for (int i = 0; i < u->uses.len; i++)
        if (u->uses.data[i] == var)
            return true;
    return false;
}

static void
note_use(IrOp *op, void *data)
{
    Uses *u = data;
    if (op->kind != OP_read && op->kind != OP_write)
        return;
    int var = number_of(u->m, ir_text(op, A_var));
    if (!has_use(u->update, var))
        VEC_PUSH(u->run->arena, u->update->uses, var);
    if (op->kind == OP_write)
        VEC_PUSH(u->run->arena, u->update->writes, var);
}

static int
update_number(const RtPlacement *p, const RtFunction *fn)
{
    for (int i = 0; i < p->updates.len; i++)
        if (p->updates.data[i].fn == fn)
            return i;
    return -1;
}

typedef struct Pushes {
    RtRun *run;
    RtPlacement *p;
} Pushes;

static int
note_update(Pushes *s, const RtFunction *fn)
{
    int number = update_number(s->p, fn);
    if (number >= 0)
        return number;
    RtUpdate update = {.fn = fn, .is_set = ir_update_is_set(fn->ir)};
    Uses uses = {s->run->module, s->run, &update};
    ir_walk(fn->ir->body, note_use, &uses);
    VEC_PUSH(s->run->arena, s->p->updates, update);
    return s->p->updates.len - 1;
}

static void
note_push(IrOp *op, void *data)
{
    Pushes *s = data;
    if (op->kind != OP_push)
        return;
    const RtFunction *fn = map_get(s->run->fns, ir_text(op, A_update));
    if (!fn)
        return;
    RtPushOp push = {.op = op, .update = note_update(s, fn)};
    push.cuts = NEW_ARRAY(s->run->arena, IrCut, (size_t)op->num_operands);
    for (int i = 0; i < op->num_operands; i++)
        push.cuts[i] = ir_push_cut(fn->ir, op, i);
    VEC_PUSH(s->run->arena, s->p->pushes, push);
}

static void
list_pushes(RtPlacement *p, RtRun *run)
{
    Pushes pushes = {run, p};
    for (IrFunc *fn = run->module->first; fn; fn = fn->next)
        ir_walk(fn->body, note_push, &pushes);
}

const RtPushOp *
rt_push_of(const RtPlacement *p, const IrOp *op)
{
    int i = 0;
    while (p->pushes.data[i].op != op)
        i++;
    return &p->pushes.data[i];
}

/* ---- places ------------------------------------------------------------- */

static void
group_variables(Groups *g, const RtPlacement *p)
{
    const IrModule *m = g->run->module;
    g->parent = NEW_ARRAY(g->run->arena, int, (size_t)m->vars.len);
    for (int i = 0; i < m->vars.len; i++)
        g->parent[i] = i;
    for (int i = 0; i < m->vars.len; i++)
        if (m->vars.data[i]->colocate)
            unite(g, i, number_of(m, m->vars.data[i]->colocate));
    for (int i = 0; i < p->updates.len; i++) {
        const RtUpdate *u = &p->updates.data[i];
        for (int k = 1; k < u->writes.len; k++)
            unite(g, u->writes.data[0], u->writes.data[k]);
    }
}

static int
parts_of(const IrModule *m, int var)
{
    return (int)ir_var_parts(m, m->vars.data[var]);
}

/* Where each group begins to be dealt out. */
static int *
deal(const Groups *g)
{
    const IrModule *m = g->run->module;
    int *most = NEW_ARRAY(g->run->arena, int, (size_t)m->vars.len);
    int *begin = NEW_ARRAY(g->run->arena, int, (size_t)m->vars.len);
    int dealt = 0;
    for (int i = 0; i < m->vars.len; i++) {
        int *of_group = &most[first_of(g, i)];
        *of_group = parts_of(m, i) > *of_group ? parts_of(m, i) : *of_group;
    }
    for (int i = 0; i < m->vars.len; i++) {
        begin[i] = first_of(g, i) == i ? dealt : begin[first_of(g, i)];
        dealt += first_of(g, i) == i ? most[i] : 0;
    }
    return begin;
}

/* Verified: the sizes are bounded. */
static void
add_parts(RtPlacement *p, RtRun *run, int var, int begin)
{
    const IrVar *v = run->module->vars.data[var];
    const IrVar *home = ir_var_home(run->module, v);
    int64_t bytes = 0, first = 0;
    int num = parts_of(run->module, var);
    if (!ir_type_bytes(run->module, &v->type, &bytes))
        UNREACHABLE("\"%s\" has no size", v->name);
    int64_t all = v->type.rank && v->type.dims[0].c ? v->type.dims[0].c : 1;
    int64_t each = bytes / all;
    p->first_part[var] = p->parts.len;
    for (int k = 0; k < num; k++) {
        int64_t rows = num > 1 ? ir_var_part_rows(home, k) : all;
        RtPart part = {.var = var,
                       .k = k,
                       .server = (begin + k) % p->num_servers,
                       .slot = k / p->num_servers,
                       .first = first,
                       .rows = rows,
                       .offset = first * each,
                       .bytes = rows * each};
        VEC_PUSH(run->arena, p->parts, part);
        first += rows;
    }
}

void
rt_placement_init(RtPlacement *p, RtRun *run, int num_servers)
{
    Groups g = {.run = run};
    int num = run->module->vars.len;
    *p = (RtPlacement){.num_servers = num_servers,
                       .first_part =
                           NEW_ARRAY(run->arena, int, (size_t)num + 1)};
    list_pushes(p, run);
    group_variables(&g, p);
    const int *begin = deal(&g);
    for (int i = 0; i < num; i++)
        add_parts(p, run, i, begin[i]);
    p->first_part[num] = p->parts.len;
    for (int i = 0; i < p->updates.len; i++) {
        RtUpdate *u = &p->updates.data[i];
        int var = u->writes.len ? u->writes.data[0] : 0;
        u->first_part = p->first_part[var];
        u->num_parts = u->fn->ir->part_of ? parts_of(run->module, var) : 1;
    }
}

int64_t
rt_server_bytes(const RtPlacement *p, int server)
{
    int64_t sum = 0;
    for (int i = 0; i < p->parts.len; i++)
        if (p->parts.data[i].server == server)
            sum += p->parts.data[i].bytes;
    return sum;
}

int
rt_server_slots(const RtPlacement *p, int server)
{
    int num = 1;
    for (int i = 0; i < p->parts.len; i++) {
        const RtPart *part = &p->parts.data[i];
        if (part->server == server && part->slot >= num)
            num = part->slot + 1;
    }
    return num;
}

int
rt_part_with(const RtPart *parts, int num, int64_t row)
{
    if (row < 0 || row >= parts[num - 1].first + parts[num - 1].rows)
        return 0;
    /* The first ones have as many rows as part 0, the others one less. */
    int64_t k = row / parts[0].rows;
    while (row >= parts[k].first + parts[k].rows)
        k++;
    return (int)k;
}
