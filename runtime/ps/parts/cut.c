/*
 * cut.c - what of an update's arguments goes to the server of each part
 *
 * Entries go to the part that has their row, in their order, with the row's
 * number in it; of tables each part gets its rows.  A row that the variable
 * does not have is sent to the first part as it is, where the update says so.
 */
#include "runtime/ps/parts/cut.h"

#include <string.h>
#include "ir/analysis/hooks.h"
#include "runtime/ps/parts/batches.h"

/* ---- numbers of rows ----------------------------------------------------- */

/* The entries of each part, one part after another. */
static void
sort_entries(RtCut *c, Arena *a)
{
    int num = c->update->num_parts;
    int64_t *at = NEW_ARRAY(a, int64_t, (size_t)num);
    c->first = NEW_ARRAY(a, int64_t, (size_t)num);
    c->order = NEW_ARRAY(a, int64_t, (size_t)c->num_entries);
    for (int k = 1; k < num; k++)
        c->first[k] = at[k] = at[k - 1] + c->counts[k - 1];
    for (int64_t e = 0; e < c->num_entries; e++)
        c->order[at[c->part_of[e]]++] = e;
}

/* Which part each entry is for; its number becomes that among the part's rows.
 */
static void
find_parts(RtCut *c, Arena *a, const RtPart *parts, int ids)
{
    DType t = c->h->in[ids].dtype;
    char *local = arena_alloc(a, c->sizes[ids]);
    c->num_entries = (int64_t)(c->sizes[ids] / c->each[ids]);
    c->part_of = NEW_ARRAY(a, int, (size_t)c->num_entries);
    for (int64_t i = 0; i < c->num_entries; i++) {
        int64_t row = scalar_load(t, c->bytes[ids], i).i;
        int k = rt_part_with(parts, c->update->num_parts, row);
        scalar_store(t, local, i, (Scalar){DT_i64, .i = row - parts[k].first});
        c->part_of[i] = k;
        c->counts[k]++;
    }
    c->bytes[ids] = local;
    sort_entries(c, a);
}

/* ---- what there is ------------------------------------------------------- */

/* The bytes of one of the first axis. */
static size_t
bytes_each(const RtValue *v, const int64_t *dims)
{
    RtValue row = *v;
    if (row.rank > 0)
        row.dims[0] = (RtDim){1, 0, -1};
    return rt_value_bytes(&row, dims);
}

RtCut
rt_cut_begin(Arena *a, RtInvocation *inv, const RtHostOp *h,
             const RtPlacement *p)
{
    const RtPushOp *push = rt_push_of(p, h->op);
    size_t n = (size_t)h->op->num_operands;
    RtCut c = {.inv = inv,
               .h = h,
               .push = push,
               .update = &p->updates.data[push->update],
               .bytes = NEW_ARRAY(a, const char *, n),
               .sizes = NEW_ARRAY(a, size_t, n),
               .each = NEW_ARRAY(a, size_t, n)};
    char *scratch = inv->executor->copies;
    const int64_t *dims = inv->executor->dims;
    c.counts = NEW_ARRAY(a, int64_t, (size_t)c.update->num_parts);
    for (size_t i = 0; i < n; i++) {
        c.bytes[i] = rt_read_value(inv, &h->in[i], &scratch);
        c.sizes[i] = rt_value_bytes(&h->in[i], dims);
        c.each[i] = bytes_each(&h->in[i], dims);
    }
    if (c.update->fn->ir->row_ids >= 0)
        find_parts(&c, a, rt_update_part(p, c.update, 0),
                   c.update->fn->ir->row_ids);
    return c;
}

bool
rt_cut_concerns(const RtCut *c, int k)
{
    return !c->update->fn->ir->rows_only || c->counts[k] > 0;
}

/* ---- what a part gets ---------------------------------------------------- */

static void
add_entries(const RtCut *c, int i, const RtPart *part, RtArchive *out)
{
    size_t part_begin = rt_archive_begin_part(out), each = c->each[i];
    const int64_t *entries = &c->order[c->first[part->k]];
    int64_t num = c->counts[part->k];
    char *to = rt_archive_place(out, (size_t)num * each);
    for (int64_t e = 0; e < num; e++)
        memcpy(to + (size_t)e * each, c->bytes[i] + (size_t)entries[e] * each,
               each);
    rt_archive_end_part(out, part_begin);
}

/* The update takes as many rows as the largest part has; nobody looks at the
 * one more. */
static void
add_rows(const RtCut *c, int i, const RtPart *part, int64_t most,
         RtArchive *out)
{
    const char *rows = c->bytes[i] + (size_t)part->first * c->each[i];
    size_t part_begin = rt_archive_begin_part(out);
    rt_archive_bytes(out, (char *)rows, (size_t)part->rows * c->each[i]);
    if (part->rows < most)
        memset(rt_archive_place(out, c->each[i]), 0, c->each[i]);
    rt_archive_end_part(out, part_begin);
}

static void
add_argument(const RtCut *c, int i, const RtPart *part, RtArchive *out)
{
    const IrValue *param = c->update->fn->ir->body->args.data[i];
    size_t part_begin;
    switch (c->push->cuts[i]) {
    case CUT_IDS:
    case CUT_ENTRIES:
        add_entries(c, i, part, out);
        return;
    case CUT_ROWS:
        add_rows(c, i, part, param->type.dims[0].c, out);
        return;
    case CUT_NOTHING:
        part_begin = rt_archive_begin_part(out);
        rt_archive_bytes(out, (char *)c->bytes[i], c->sizes[i]);
        rt_archive_end_part(out, part_begin);
        return;
    }
}

/* The sizes of batches, with as many entries as the part has. */
static void
add_batches(const RtCut *c, const RtPart *part, RtArchive *out)
{
    RtExecutor *executor = c->inv->executor;
    const IrFunc *fn = c->update->fn->ir;
    if (fn->row_ids < 0) {
        rt_ps_batches(executor->run, executor, out);
        return;
    }
    Dim entries = fn->body->args.data[fn->row_ids]->type.dims[0];
    int64_t *word = &executor->dims[ir_symbol_word(fn->module, entries.sym)];
    int64_t all = *word;
    *word = c->counts[part->k];
    rt_ps_batches(executor->run, executor, out);
    *word = all;
}

void
rt_cut_write(RtCut *c, const RtPart *part, RtArchive *out)
{
    add_batches(c, part, out);
    for (int i = 0; i < c->h->op->num_operands; i++)
        add_argument(c, i, part, out);
}

void
rt_cut_write_rows(const RtCut *c, const RtPart *part, int64_t first,
                  int64_t num, RtArchive *out)
{
    size_t each = (size_t)(part->bytes / part->rows);
    const char *rows = c->bytes[0] + (size_t)(part->first + first) * each;
    rt_archive_i64(out, &first, 0, INT64_MAX);
    rt_archive_i64(out, &num, 0, INT64_MAX);
    size_t part_begin = rt_archive_begin_part(out);
    rt_archive_bytes(out, (char *)rows, (size_t)num * each);
    rt_archive_end_part(out, part_begin);
}
