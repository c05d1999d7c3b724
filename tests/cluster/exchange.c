/*
 * exchange.c - set-up exchanges of a test's processes, over their group
 *
 * Rank 0 gathers the parts, and broadcasts their lengths and them.
 */
#include "tests/cluster/exchange.h"

#include <string.h>
#include "tests/cluster/forked.h"

typedef struct Parts {
    size_t len[FORKED_MOST];
    char *bytes;
    size_t all;
} Parts;

static void
count_part(void *data, int rank, const void *part, size_t n)
{
    Parts *p = data;
    (void)part;
    p->len[rank] = n;
    p->all += n;
}

static void
add_part(void *data, int rank, const void *part, size_t n)
{
    Parts *p = data;
    (void)rank;
    memcpy(p->bytes + p->all, part, n);
    p->all += n;
}

static Status
exchange(void *data, const char *name, const void *own, size_t bytes, Arena *a,
         RtBytes **all)
{
    RtGroup *g = data;
    Parts p = {0};
    (void)name;
    TRY(g->ops->gather(g, 0, own, bytes, count_part, &p));
    TRY(g->ops->broadcast(g, 0, &p, sizeof p));
    p.bytes = arena_alloc(a, p.all + 1);
    p.all = 0;
    TRY(g->ops->gather(g, 0, own, bytes, add_part, &p));
    *all = NEW_ARRAY(a, RtBytes, (size_t)g->size);
    size_t at = 0;
    for (int r = 0; r < g->size; at += p.len[r++])
        (*all)[r] = (RtBytes){p.bytes + at, p.len[r]};
    return g->ops->broadcast(g, 0, p.bytes, at);
}

RtExchange
exchange_over(RtGroup *group)
{
    return (RtExchange){group->rank, group->size, exchange, group};
}
