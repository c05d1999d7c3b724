/*
 * cache_lanes.c - stages that keep all elements of their input: cache, lanes
 *
 * A checkpoint has none of these elements: they are a function of the pass of
 * the input, which is done once more after a resume.
 */
#include <string.h>
#include "ir/analysis/footprint.h"
#include "ir/base/minmax.h"
#include "runtime/data/store.h"

/* Allocates the store of all elements of another node, or of its own.  Plans
 * that could not count the elements get their bytes reported. */
static RtStore
store_for(const RtNode *n, const RtNode *of)
{
    RtStore s = rt_store_new(of);
    int stage = (int)(n->stage - n->dataset->stages.data);
    if (ir_stage_is_uncounted(n->module, n->dataset, stage))
        s.kept_bytes = n->kept_bytes;
    return s;
}

/* Leaves *num elements out of len, of which *given were given. */
static void
pass_over(int64_t *given, int64_t len, int64_t *num, bool *end)
{
    int64_t skipped = *given < len ? min_i64(*num, len - *given) : 0;
    *given += skipped;
    *num -= skipped;
    *end = *num > 0;
}

/* ---- cache --------------------------------------------------------------- */

/* Every pass gives the elements of the input's pass 0.  A pass that ends early
 * leaves a store that the next one continues to fill: the input is positioned
 * after the last element of it. */
typedef struct Cache {
    RtStore store;
    RtElement in;
    bool begun;    /* the input is in its pass 0 */
    bool whole;    /* and at the end of it */
    int64_t given; /* elements, in this pass */
} Cache;

static Status
cache_rewind(RtNode *n)
{
    Cache *c = n->state;
    c->given = 0;
    return OK;
}

/* The next element of pass 0 into the store, or its end. */
static Status
take_in(RtNode *n)
{
    Cache *c = n->state;
    if (!c->begun)
        TRY(rt_node_rewind(n->input, 0));
    c->begun = true;
    TRY(rt_node_next(n->input, &c->in, &c->whole));
    if (!c->whole)
        rt_store_add(&c->store, &c->in);
    return OK;
}

/* After an error the next pass begins again, and reaches it again. */
static Status
forget(Cache *c, Status st)
{
    c->store.len = 0;
    c->begun = false;
    return st;
}

/* Until the store has num elements more than were given, or all. */
static Status
take_in_ahead(RtNode *n, int64_t num)
{
    Cache *c = n->state;
    while (c->store.len - c->given < num && !c->whole) {
        Status st = take_in(n);
        if (st)
            return forget(c, st);
    }
    return OK;
}

static Status
cache_next(RtNode *n, RtElement *e, bool *end)
{
    Cache *c = n->state;
    TRY(take_in_ahead(n, 1));
    *end = c->given >= c->store.len;
    if (*end)
        return OK;
    bool lends = e->own && c->store.is_on_lines;
    (lends ? rt_store_lend : rt_store_get)(&c->store, c->given++, e);
    return OK;
}

/* Those that another pass took in are left out at once. */
static Status
cache_skip(RtNode *n, int64_t *num, RtElement *e, bool *end)
{
    Cache *c = n->state;
    (void)e;
    TRY(take_in_ahead(n, *num));
    pass_over(&c->given, c->store.len, num, end);
    return OK;
}

static void
cache_archive(RtNode *n, RtArchive *ar)
{
    Cache *c = n->state;
    rt_archive_position(ar, &c->given);
}

void
rt_cache_new(RtNode *n)
{
    static const RtNodeOps ops = {cache_next, cache_rewind, cache_archive,
                                  cache_skip};
    Cache *c = NEW(n->arena, Cache);
    c->store = store_for(n, n);
    c->in = rt_element_new(n->input);
    n->state = c;
    n->ops = &ops;
}

/* ---- lanes --------------------------------------------------------------- */

/* Element k consists of those numbered k, k + length, k + 2 length, ... of the
 * pass; elements after the last part are dropped. */
typedef struct Lanes {
    RtStore store;
    RtElement in;
    bool filled; /* the store has all elements of this pass */
    int64_t given;
} Lanes;

static Status
lanes_rewind(RtNode *n)
{
    Lanes *l = n->state;
    l->given = l->store.len = 0;
    l->filled = false;
    return OK;
}

static Status
fill(RtNode *n)
{
    Lanes *l = n->state;
    if (!l->filled)
        TRY(rt_node_rewind(n->input, n->pass));
    while (!l->filled) {
        TRY(rt_node_next(n->input, &l->in, &l->filled));
        if (!l->filled)
            rt_store_add(&l->store, &l->in);
    }
    return OK;
}

static Status
lanes_next(RtNode *n, RtElement *e, bool *end)
{
    Lanes *l = n->state;
    TRY(fill(n));
    int64_t num = n->stage->ints[0], length = l->store.len / num;
    *end = l->given >= length;
    if (*end)
        return OK;
    for (int64_t lane = 0; lane < num; lane++)
        for (int i = 0; i < n->stage->types.len; i++) {
            int64_t bytes = n->input->bytes[i], at = lane * length + l->given;
            memcpy(e->data[i] + lane * bytes,
                   rt_store_component(&l->store, at, i), (size_t)bytes);
        }
    l->given++;
    return OK;
}

static Status
lanes_skip(RtNode *n, int64_t *num, RtElement *e, bool *end)
{
    Lanes *l = n->state;
    (void)e;
    TRY(fill(n));
    pass_over(&l->given, l->store.len / n->stage->ints[0], num, end);
    return OK;
}

static void
lanes_archive(RtNode *n, RtArchive *ar)
{
    Lanes *l = n->state;
    rt_archive_position(ar, &l->given);
}

void
rt_lanes_new(RtNode *n)
{
    static const RtNodeOps ops = {lanes_next, lanes_rewind, lanes_archive,
                                  lanes_skip};
    Lanes *l = NEW(n->arena, Lanes);
    l->store = store_for(n, n->input);
    l->in = rt_element_new(n->input);
    n->state = l;
    n->ops = &ops;
}
