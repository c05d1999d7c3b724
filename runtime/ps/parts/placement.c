/*
 * placement.c - which server has which part of which variable
 */
#include "runtime/ps/parts/placement.h"

#include <stdlib.h>
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

/* The number of parts of each group, by its first variable. */
static int *
group_parts(const Groups *g)
{
    const IrModule *m = g->run->module;
    int *most = NEW_ARRAY(g->run->arena, int, (size_t)m->vars.len);
    for (int i = 0; i < m->vars.len; i++) {
        int *of_group = &most[first_of(g, i)];
        *of_group = parts_of(m, i) > *of_group ? parts_of(m, i) : *of_group;
    }
    return most;
}

/* Verified: the sizes are bounded. */
static RtPart
part_of(const IrModule *m, int var, int k, int64_t first)
{
    const IrVar *v = m->vars.data[var];
    int64_t bytes = 0;
    int num = parts_of(m, var);
    if (!ir_type_bytes(m, &v->type, &bytes))
        UNREACHABLE("\"%s\" has no size", v->name);
    int64_t all = v->type.rank && v->type.dims[0].c ? v->type.dims[0].c : 1;
    int64_t each = bytes / all;
    int64_t rows = num > 1 ? ir_var_part_rows(ir_var_home(m, v), k) : all;
    return (RtPart){.var = var,
                    .k = k,
                    .first = first,
                    .rows = rows,
                    .offset = first * each,
                    .bytes = rows * each};
}

/* Part k of the variables of a group, which is on one server. */
typedef struct Item {
    int group, k;
    int64_t server; /* that is named, counted from 1; 0: any */
    int64_t bytes;
} Item;

typedef VEC(Item) Items;

/* The server that one of the group's variables names. */
static int64_t
named_server(const Groups *g, int group)
{
    const IrModule *m = g->run->module;
    int64_t server = 0;
    for (int i = 0; i < m->vars.len && !server; i++)
        if (first_of(g, i) == group)
            server = m->vars.data[i]->server;
    return server;
}

/* In the order of declaration. */
static Items
list_items(const Groups *g)
{
    Items items = {0};
    const IrModule *m = g->run->module;
    const int *num = group_parts(g);
    int *begin = NEW_ARRAY(g->run->arena, int, (size_t)m->vars.len);
    for (int i = 0; i < m->vars.len; i++) {
        begin[i] = items.len;
        if (first_of(g, i) != i)
            continue;
        int64_t server = named_server(g, i);
        for (int k = 0; k < num[i]; k++)
            VEC_PUSH(g->run->arena, items,
                     ((Item){.group = i, .k = k, .server = server}));
    }
    for (int i = 0; i < m->vars.len; i++)
        for (int k = 0; k < parts_of(m, i); k++)
            items.data[begin[first_of(g, i)] + k].bytes +=
                part_of(m, i, k, 0).bytes;
    return items;
}

static int
larger_first(const void *a, const void *b)
{
    const Item *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return x->group != y->group ? x->group - y->group : x->k - y->k;
}

static int
least(const int64_t *bytes, int num)
{
    int found = 0;
    for (int i = 1; i < num; i++)
        if (bytes[i] < bytes[found])
            found = i;
    return found;
}

typedef struct Deal {
    int **server;   /* of each group's parts */
    int64_t *bytes; /* of each server */
    int num_servers;
} Deal;

static void
give(Deal *d, const Item *item, int64_t server)
{
    d->bytes[server] += item->bytes;
    d->server[item->group][item->k] = (int)server;
}

/* The servers of each group's parts: those that are named, then the others
 * dealt out in turn, or each to the one that has the fewest bytes, the largest
 * first. */
static int **
deal(const Groups *g, int num_servers, bool by_bytes)
{
    Arena *a = g->run->arena;
    size_t num_vars = (size_t)g->run->module->vars.len;
    Items items = list_items(g);
    const int *num = group_parts(g);
    Deal d = {NEW_ARRAY(a, int *, num_vars),
              NEW_ARRAY(a, int64_t, (size_t)num_servers), num_servers};
    for (size_t i = 0; i < num_vars; i++)
        d.server[i] = NEW_ARRAY(a, int, (size_t)num[i]);
    if (by_bytes && items.len)
        qsort(items.data, (size_t)items.len, sizeof *items.data, larger_first);
    for (int i = 0; i < items.len; i++)
        if (items.data[i].server)
            give(&d, &items.data[i], (items.data[i].server - 1) % num_servers);
    for (int i = 0, turn = 0; i < items.len; i++)
        if (!items.data[i].server)
            give(&d, &items.data[i],
                 by_bytes ? least(d.bytes, num_servers) : turn++ % num_servers);
    return d.server;
}

/* How many parts of the variable the server has already. */
static int
next_slot(const RtPlacement *p, int var, int server)
{
    int slot = 0;
    for (int i = p->first_part[var]; i < p->parts.len; i++)
        slot += p->parts.data[i].server == server;
    return slot;
}

static void
add_parts(RtPlacement *p, RtRun *run, int var, const int *server)
{
    int64_t first = 0;
    int num = parts_of(run->module, var);
    p->first_part[var] = p->parts.len;
    for (int k = 0; k < num; k++) {
        RtPart part = part_of(run->module, var, k, first);
        part.server = server[k];
        part.slot = next_slot(p, var, part.server);
        VEC_PUSH(run->arena, p->parts, part);
        first += part.rows;
    }
}

static Status
no_such_server(const RtRun *run, const IrVar *v, int num_servers)
{
    Arena *scratch = arena_new(NULL, "a variable's line");
    const Diag *d = run->module->diag;
    Str lines = str_new(scratch);
    diag_add_excerpt(&lines, d, v->loc);
    Status st = status_new(
        STATUS_USAGE,
        "%s:%u:%u: \"%s\" is on server %lld, and the coordinator has %d, from "
        "ps:0 on: start it with ps=%lld",
        diag_source_name(d, v->loc.file), v->loc.line, v->loc.col, v->name,
        (long long)v->server - 1, num_servers, (long long)v->server);
    st = status_show(st, str_text(&lines));
    arena_release(scratch);
    return st;
}

Status
rt_placement_check(const RtRun *run, int num_servers)
{
    const IrModule *m = run->module;
    const IrVar *last = NULL; /* that needs the most servers */
    for (int i = 0; i < m->vars.len; i++)
        if (!last || m->vars.data[i]->server > last->server)
            last = m->vars.data[i];
    if (!last || last->server <= num_servers)
        return OK;
    return no_such_server(run, last, num_servers);
}

void
rt_placement_init(RtPlacement *p, RtRun *run, int num_servers, bool by_bytes)
{
    Groups g = {.run = run};
    int num = run->module->vars.len;
    *p = (RtPlacement){.num_servers = num_servers,
                       .first_part =
                           NEW_ARRAY(run->arena, int, (size_t)num + 1)};
    list_pushes(p, run);
    group_variables(&g, p);
    int **server = deal(&g, num_servers, by_bytes);
    for (int i = 0; i < num; i++)
        add_parts(p, run, i, server[first_of(&g, i)]);
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

int64_t
rt_part_rows_of_bytes(const RtPart *part, int64_t bytes)
{
    int64_t each = part->rows ? part->bytes / part->rows : 0;
    int64_t rows = each ? bytes / each : part->rows;
    return rows > 1 ? rows : 1;
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
