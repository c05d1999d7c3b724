/*
 * rows.c - which rows of variables a closure looks up, or changes
 */
#include "runtime/ps/parts/rows.h"

#include <string.h>
#include "runtime/exec/value.h"

/* Row numbers and a hash table of where they are, a power of two large. */
typedef struct RowSet {
    RtRows *to;
    int64_t *table;
    uint64_t mask;
} RowSet;

static RowSet
new_set(Arena *a, RtRows *to, int64_t most)
{
    uint64_t size = 1;
    while (size < 2 * (uint64_t)most)
        size *= 2;
    *to = (RtRows){.rows = NEW_ARRAY(a, int64_t, (size_t)most)};
    return (RowSet){to, NEW_ARRAY(a, int64_t, size), size - 1};
}

/* Where the row is among them. */
static int64_t
add_row(RowSet *s, int64_t row)
{
    static const uint64_t odd = 0x9e3779b97f4a7c15; /* 2^64 / golden ratio */
    uint64_t at = ((uint64_t)row * odd >> 32) & s->mask;
    while (s->table[at] && s->to->rows[s->table[at] - 1] != row)
        at = (at + 1) & s->mask;
    if (!s->table[at]) {
        s->to->rows[s->to->num++] = row;
        s->table[at] = s->to->num;
    }
    return s->table[at] - 1;
}

/* ---- what a server is sent ----------------------------------------------- */

RtRows
rt_rows_number(Arena *a, char *ids, DType t, int64_t n, int64_t rows)
{
    RtRows found;
    RowSet s = new_set(a, &found, n);
    for (int64_t i = 0; i < n; i++) {
        int64_t row = scalar_load(t, ids, i).i;
        if (row >= 0 && row < rows)
            scalar_store(t, ids, i, (Scalar){DT_i64, .i = add_row(&s, row)});
    }
    return found;
}

/* ---- what a worker looks up ---------------------------------------------- */

static void
add_rows(RowSet *s, const char *bytes, DType t, int64_t n, int64_t last)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t row = scalar_load(t, bytes, i).i;
        add_row(s, row < 0 ? 0 : row > last ? last : row);
    }
}

/* The bytes of an operand on a replica. */
static const char *
bytes_of(Arena *a, const RtInvocation *main, const RtValue *v,
         const RtExecutor *replica)
{
    if (v->place.space == SPACE_FRAME)
        return rt_host_value(main, v);
    size_t n = rt_value_bytes(v, replica->dims);
    char *copy = arena_alloc(a, n);
    rt_copy_out(copy, rt_row(replica, v), n);
    return copy;
}

static int64_t
count_numbers(const RtRun *run, const RtHostOp *h, const RtLookup *l)
{
    int64_t sum = 0;
    for (int i = 0; i < l->operands.len; i++)
        for (int r = 0; r < run->num_local; r++)
            sum += rt_value_count(&h->in[l->operands.data[i]],
                                  run->locals[r].dims);
    return sum;
}

RtRows
rt_rows_looked_up(Arena *a, const RtInvocation *main, const RtHostOp *h,
                  const RtLookup *l)
{
    const RtRun *run = main->executor->run;
    const IrVar *var = run->module->vars.data[l->var];
    int64_t last = var->type.dims[0].c - 1;
    RtRows found;
    RowSet s = new_set(a, &found, count_numbers(run, h, l));
    for (int i = 0; i < l->operands.len; i++) {
        const RtValue *v = &h->in[l->operands.data[i]];
        for (int r = 0; r < run->num_local; r++)
            add_rows(&s, bytes_of(a, main, v, &run->locals[r]), v->dtype,
                     rt_value_count(v, run->locals[r].dims), last);
    }
    return found;
}
