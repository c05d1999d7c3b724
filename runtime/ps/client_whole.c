/*
 * client_whole.c - all of all variables, a little at a time
 *
 * What is much travels in several messages, so that nobody needs memory for a
 * second copy of it.
 */
#include "runtime/ps/client_impl.h"

#include "ir/base/minmax.h"

/* A part of many bytes in rows, one message after another. */
static Status
pull_by_rows(RtPsClient *c, const RtPart *part)
{
    Status st = OK;
    int64_t most = rt_part_rows_of_bytes(part, RT_PS_MUCH);
    Arena *scratch = arena_new(NULL, "numbers of rows");
    RtPsWantedRows w = {.part = part,
                        .rows = NEW_ARRAY(scratch, int64_t, (size_t)most)};
    for (int64_t first = 0; first < part->rows && !st; first += w.num) {
        w.num = min_i64(most, part->rows - first);
        for (int64_t i = 0; i < w.num; i++)
            w.rows[i] = first + i;
        rt_client_want_rows(c, part - c->placement->parts.data, &w);
        st = rt_ps_pull(c);
    }
    arena_release(scratch);
    return st;
}

Status
rt_ps_pull_all(RtPsClient *c)
{
    const RtPlacement *p = c->placement;
    for (int i = 0; i < p->parts.len; i++)
        if (p->parts.data[i].bytes <= RT_PS_MUCH)
            rt_client_want_part(c, i);
    TRY(rt_ps_pull(c));
    for (int i = 0; i < p->parts.len; i++)
        if (p->parts.data[i].bytes > RT_PS_MUCH)
            TRY(pull_by_rows(c, &p->parts.data[i]));
    return OK;
}

/* Rows of a part, from the first replica that has them. */
static Status
set_rows_of(RtPsClient *c, const RtPart *part, int64_t first, int64_t num)
{
    const IrVar *v = c->run->module->vars.data[part->var];
    int64_t number = part - c->placement->parts.data;
    size_t each = (size_t)(part->bytes / part->rows);
    size_t n = (size_t)num * each;
    size_t at = (size_t)(v->place.offset + part->offset) + (size_t)first * each;
    RtPsSent *q = &c->servers[part->server].pull;
    rt_client_begin_request(c, q, RT_PS_SET, 0);
    rt_archive_i64(&q->bytes, &number, 0, INT64_MAX);
    rt_archive_i64(&q->bytes, &first, 0, INT64_MAX);
    rt_archive_i64(&q->bytes, &num, 0, INT64_MAX);
    size_t begin = rt_archive_begin_part(&q->bytes);
    rt_copy_out(rt_archive_place(&q->bytes, n),
                rt_ptr_add(c->run->locals[0].base, at), n);
    rt_archive_end_part(&q->bytes, begin);
    return rt_ps_pull(c);
}

Status
rt_ps_set_all(RtPsClient *c)
{
    for (int i = 0; i < c->placement->parts.len; i++) {
        const RtPart *part = &c->placement->parts.data[i];
        int64_t most = rt_part_rows_of_bytes(part, RT_PS_MUCH);
        for (int64_t first = 0; first < part->rows; first += most)
            TRY(set_rows_of(c, part, first, min_i64(most, part->rows - first)));
    }
    return OK;
}

Status
rt_ps_count(RtPsClient *c, RtPsTraffic *sum)
{
    c->traffic = (RtPsTraffic){.stalest = 0};
    for (int i = 0; i < c->num_servers; i++)
        rt_client_begin_request(c, &c->servers[i].pull, RT_PS_COUNT, 0);
    TRY(rt_ps_pull(c));
    *sum = c->traffic;
    return OK;
}
