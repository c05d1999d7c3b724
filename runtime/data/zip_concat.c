/*
 * zip_concat.c - stages of two datasets: zip, concat
 *
 * Each of the two has nodes of its own, in the same pass as the stage.
 */
#include "runtime/data/node.h"

static Status
join_rewind(RtNode *n)
{
    TRY(rt_node_rewind(n->input, n->pass));
    return rt_node_rewind(n->other, n->pass);
}

/* The two chains have all of the state. */
static void
join_archive(RtNode *n, RtArchive *ar)
{
    rt_node_archive(n->other, ar);
}

/* ---- zip ----------------------------------------------------------------- */

/* Whether the number of rows of n's elements is that of their batch. */
static bool
is_batch(const RtNode *n)
{
    for (int i = 0; i < n->stage->types.len; i++)
        if (!ir_type_is_static(&n->stage->types.data[i]))
            return true;
    return false;
}

/* The other's components come after those of the input. */
static Status
zip_next(RtNode *n, RtElement *e, bool *end)
{
    RtElement other = {.data = e->data + n->input->stage->types.len};
    TRY(rt_node_next(n->input, e, end));
    if (!*end)
        TRY(rt_node_next(n->other, &other, end));
    if (*end || !is_batch(n->other))
        return OK;
    if (is_batch(n->input) && e->rows != other.rows)
        return rt_stage_show(
            n,
            status_new(STATUS_INPUT,
                       "%s: a batch of %lld rows beside one of %lld; zip the "
                       "datasets before .batch(n)",
                       rt_stage_location(n), (long long)e->rows,
                       (long long)other.rows));
    e->rows = other.rows;
    return OK;
}

/* Batches of two are made, since their rows are compared. */
static Status
zip_skip(RtNode *n, int64_t *num, RtElement *e, bool *end)
{
    RtElement other = {.data = e->data + n->input->stage->types.len};
    int64_t missing = *num, missing_too;
    bool other_ends;
    if (is_batch(n->input) && is_batch(n->other))
        return rt_node_drop(n, num, e, end);
    TRY(rt_node_skip(n->input, &missing, e, end));
    missing_too = *num - missing;
    TRY(rt_node_skip(n->other, &missing_too, &other, &other_ends));
    *num = missing + missing_too;
    *end = *end || other_ends;
    return OK;
}

void
rt_zip_new(RtNode *n)
{
    static const RtNodeOps ops = {zip_next, join_rewind, join_archive,
                                  zip_skip};
    n->ops = &ops;
}

/* ---- concat -------------------------------------------------------------- */

static Status
concat_next(RtNode *n, RtElement *e, bool *end)
{
    TRY(rt_node_next(n->input, e, end));
    return *end ? rt_node_next(n->other, e, end) : OK;
}

static Status
concat_skip(RtNode *n, int64_t *num, RtElement *e, bool *end)
{
    TRY(rt_node_skip(n->input, num, e, end));
    return *end ? rt_node_skip(n->other, num, e, end) : OK;
}

void
rt_concat_new(RtNode *n)
{
    static const RtNodeOps ops = {concat_next, join_rewind, join_archive,
                                  concat_skip};
    n->ops = &ops;
}
