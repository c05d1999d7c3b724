/*
 * placement.c - which server has which variable
 */
#include "runtime/ps/placement.h"

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

typedef struct Writes {
    const IrModule *m;
    RtRun *run;
    RtUpdate *update;
} Writes;

static void
note_write(IrOp *op, void *data)
{
    Writes *w = data;
    if (op->kind == OP_write)
        VEC_PUSH(w->run->arena, w->update->writes,
                 number_of(w->m, ir_text(op, A_var)));
}

typedef struct Pushes {
    RtRun *run;
    RtPlacement *p;
} Pushes;

static void
note_push(IrOp *op, void *data)
{
    Pushes *s = data;
    if (op->kind != OP_push)
        return;
    const RtFunction *fn = map_get(s->run->fns, ir_text(op, A_update));
    if (!fn || rt_update_number(s->p, fn) >= 0)
        return;
    RtUpdate update = {.fn = fn};
    Writes writes = {s->run->module, s->run, &update};
    ir_walk(fn->ir->body, note_write, &writes);
    VEC_PUSH(s->run->arena, s->p->updates, update);
}

static void
list_updates(RtPlacement *p, RtRun *run)
{
    Pushes pushes = {run, p};
    for (IrFunc *fn = run->module->first; fn; fn = fn->next)
        ir_walk(fn->body, note_push, &pushes);
}

int64_t
rt_server_bytes(const RtPlacement *p, const IrModule *m, int server)
{
    int64_t sum = 0, bytes;
    for (int i = 0; i < m->vars.len; i++)
        if (p->servers[i] == server &&
            ir_type_bytes(m, &m->vars.data[i]->type, &bytes))
            sum += bytes;
    return sum;
}

int
rt_update_number(const RtPlacement *p, const RtFunction *fn)
{
    for (int i = 0; i < p->updates.len; i++)
        if (p->updates.data[i].fn == fn)
            return i;
    return -1;
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

void
rt_placement_init(RtPlacement *p, RtRun *run, int num_servers)
{
    Groups g = {.run = run};
    int num = run->module->vars.len, dealt = 0;
    *p = (RtPlacement){.num_servers = num_servers,
                       .servers = NEW_ARRAY(run->arena, int, (size_t)num)};
    list_updates(p, run);
    group_variables(&g, p);
    for (int i = 0; i < num; i++) {
        int first = first_of(&g, i);
        p->servers[i] = first == i ? dealt++ % num_servers : p->servers[first];
    }
    for (int i = 0; i < p->updates.len; i++) {
        RtUpdate *u = &p->updates.data[i];
        u->server = u->writes.len ? p->servers[u->writes.data[0]] : 0;
    }
}
