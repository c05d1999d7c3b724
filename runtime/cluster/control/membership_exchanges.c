/*
 * membership_exchanges.c - bytes that every process gives, and all get
 */
#include <string.h>
#include "ir/base/message.h"
#include "runtime/cluster/control/membership_impl.h"

static void
drop_exchange(RtMembership *r)
{
    for (int i = 0; i < r->config.size; i++) {
        if (r->members[i].bytes)
            arena_release(r->members[i].bytes);
        r->members[i].bytes = NULL;
    }
    r->exchange_began = 0;
    r->exchange_said = false;
}

static void
send_exchange(RtMembership *r)
{
    Arena *a = arena_new(NULL, "an exchange");
    RtBytes *all = NEW_ARRAY(a, RtBytes, (size_t)r->config.size);
    for (int i = 0; i < r->config.size; i++)
        all[i] = r->members[i].exchange.own;
    RtFrame f =
        rt_frame_new(a, RT_FRAME_ALL, r->config.attempt, r->exchange_number);
    rt_frame_all(&f, all, r->config.size);
    rt_membership_send_all(r, &f);
    arena_release(a);
    r->exchange_number++;
    drop_exchange(r);
}

/* Programs of which the one does what the other does not have diverged, which
 * only a fault of ours explains. */
static void
stop_diverged(RtMembership *r, int one, int other)
{
    Arena *a = arena_new(NULL, "an exchange");
    const char *first = rt_membership_name(r, a, one);
    const char *second = rt_membership_name(r, a, other);
    rt_membership_stop(
        r, 3, -1,
        message_printf(a,
                       "%s is at \"%s\" where %s is at \"%s\": the "
                       "processes have diverged",
                       first, r->members[one].exchange.name, second,
                       r->members[other].exchange.name),
        "");
    arena_release(a);
}

void
rt_membership_exchange(RtMembership *r, int rank, uint64_t number,
                       const RtExchangePart *exchange, double now)
{
    RtMemberState *member = &r->members[rank];
    int first = 0;
    if (r->phase != PHASE_RUNNING || member->bytes ||
        number != r->exchange_number)
        return;
    while (first < r->config.size && !r->members[first].bytes)
        first++;
    member->bytes = arena_new(r->arena, "an exchange");
    member->exchange.name = arena_strdup(member->bytes, exchange->name);
    member->exchange.own = exchange->own;
    if (exchange->own.len)
        member->exchange.own.data =
            arena_copy(member->bytes, exchange->own.data, exchange->own.len);
    if (first == r->config.size)
        r->exchange_began = now;
    else if (strcmp(member->exchange.name, r->members[first].exchange.name) !=
             0) {
        stop_diverged(r, first, rank);
        return;
    }
    for (int i = 0; i < r->config.size; i++)
        if (!r->members[i].bytes)
            return;
    send_exchange(r);
}
