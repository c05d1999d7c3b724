/*
 * heard.c - what the heartbeats of a process told, for --diagnose
 */
#include "runtime/cluster/control/heard.h"

#include "ir/base/io/file.h"
#include "ir/base/str.h"
#include "runtime/cluster/control/job.h"

void
rt_heard_add(RtHeard *h, const RtHeartbeat *heartbeat, double now)
{
    const RtHeartbeat *last =
        h->num ? &h->last[(h->num - 1) % RT_RING].heartbeat : NULL;
    if (last && last->call == heartbeat->call &&
        last->wait_call == heartbeat->wait_call &&
        last->state == heartbeat->state)
        return;
    int64_t i = h->num++ % RT_RING;
    h->last[i].at = now;
    h->last[i].heartbeat = *heartbeat;
}

static const char *
state_text(const RtHeartbeat *b)
{
    switch (b->state) {
    case RT_JOB_WAITS:
        return "waits";
    case RT_JOB_SAVES:
        return "saves";
    case RT_JOB_RETURNED:
        return "has ended";
    default:
        return "runs";
    }
}

static void
add_heartbeat(Str *s, const RtHeartbeat *b, double seconds, const RtDump *dump)
{
    int32_t number = b->state == RT_JOB_WAITS ? b->wait_site : b->site;
    int64_t call = b->state == RT_JOB_WAITS ? b->wait_call : b->call;
    bool is_known = number >= 0 && number < dump->num_sites;
    str_addf(s, "%10lld %8lld  %10.3f  %-9s  %s %s\n", (long long)call,
             (long long)b->step, seconds, state_text(b),
             is_known ? dump->sites[number].what : "-",
             is_known ? dump->sites[number].where : "");
}

Status
rt_heard_dump(const RtHeard *h, const RtDump *dump, double now)
{
    Arena *a = arena_new(NULL, "heartbeats");
    Str s = str_new(a);
    str_addf(&s,
             "# rank %d, host %s: %s\n"
             "# it was on another machine than the control server, and may not "
             "have written its calls: the last %d places that its heartbeats "
             "told, and how many seconds ago\n"
             "#     call     step     seconds  state      operation\n",
             dump->rank, dump->host, dump->reason, RT_RING);
    for (int64_t i = h->num > RT_RING ? h->num - RT_RING : 0; i < h->num; i++)
        add_heartbeat(&s, &h->last[i % RT_RING].heartbeat,
                      now - h->last[i % RT_RING].at, dump);
    Status st = file_make_folder(dump->folder);
    if (!st)
        st = file_write(arena_printf(a, "%s/rank-%d-heartbeats.txt",
                                     dump->folder, dump->rank),
                        str_text(&s), s.len);
    arena_release(a);
    return st;
}
