/*
 * deals.c - the coordinator's record of which worker has which file
 */
#include "runtime/ps/input/deals.h"

#include <string.h>

/* The deal that was asked for last is most often asked for again. */
static RtPsDeal *
find(RtPsDeals *s, int64_t iter, uint64_t pass)
{
    for (int64_t i = 0; i < s->list.len; i++) {
        int64_t at = (s->last + s->list.len - i) % s->list.len;
        RtPsDeal *deal = &s->list.data[at];
        if (deal->iter == iter && deal->pass == pass) {
            s->last = at;
            return deal;
        }
    }
    return NULL;
}

static RtPsDeal *
begin(RtPsDeals *s, const RtPsDealing *d)
{
    RtPsDeal deal = {.iter = d->iter,
                     .pass = d->pass,
                     .num = d->num,
                     .names = arena_strdup(s->arena, d->names)};
    VEC_PUSH(s->arena, s->list, deal);
    s->last = s->list.len - 1;
    return &s->list.data[s->last];
}

/* The number of a worker's file number `taken`; or how many it has: -1 - n. */
static int64_t
file_of(const RtPsDeal *deal, uint32_t worker, int64_t taken)
{
    int64_t n = 0;
    for (int i = 0; i < deal->owners.len; i++)
        if (deal->owners.data[i] == worker && n++ == taken)
            return i;
    return -1 - n;
}

RtPsDealt
rt_ps_deal(RtPsDeals *s, RtPsDealing *d)
{
    RtPsDeal *deal = find(s, d->iter, d->pass);
    if (!deal)
        deal = begin(s, d);
    if (deal->num != d->num || strcmp(deal->names, d->names) != 0)
        return RT_DEAL_differs;
    d->file = file_of(deal, d->index, d->taken);
    if (d->file >= 0)
        return RT_DEAL_answered;
    if (-1 - d->file != d->taken)
        return RT_DEAL_ignored;
    d->file = deal->owners.len;
    if (d->file < deal->num)
        VEC_PUSH(s->arena, deal->owners, d->index);
    return RT_DEAL_answered;
}

static void
deal_archive(RtPsDeals *s, RtPsDeal *deal, RtArchive *ar)
{
    int64_t num = deal->owners.len;
    rt_archive_i64(ar, &deal->iter, 0, INT32_MAX);
    rt_archive_u64(ar, &deal->pass);
    rt_archive_i64(ar, &deal->num, 0, INT32_MAX);
    rt_archive_text(ar, &deal->names);
    rt_archive_count(ar, &num, deal->num, sizeof(uint32_t));
    for (int64_t i = 0; i < num && !ar->wrong; i++) {
        uint32_t owner = ar->reads ? 0 : deal->owners.data[i];
        rt_archive_u32(ar, &owner);
        if (ar->reads)
            VEC_PUSH(s->arena, deal->owners, owner);
    }
    if (ar->reads)
        deal->names = arena_strdup(s->arena, deal->names);
}

void
rt_ps_deals_archive(RtPsDeals *s, RtArchive *ar)
{
    int64_t num = s->list.len;
    rt_archive_count(ar, &num, INT32_MAX, sizeof(int64_t));
    for (int64_t i = 0; i < num && !ar->wrong; i++) {
        RtPsDeal none = {.names = ""};
        if (ar->reads)
            VEC_PUSH(s->arena, s->list, none);
        deal_archive(s, &s->list.data[i], ar);
    }
}
