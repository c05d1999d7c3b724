/*
 * dispatcher_status.c - how the job is
 */
#include "runtime/ps/dispatcher_impl.h"

#include "ir/base/clock.h"

static int64_t
microseconds(double seconds)
{
    return seconds > 0 ? (int64_t)(seconds * 1e6) : 0;
}

static RtPsTask
state_of_worker(const RtPsWorker *w, double now)
{
    if (!w->is_known)
        return (RtPsTask){.host = ""};
    return (RtPsTask){.host = str_text(&w->host),
                      .pid = w->pid,
                      .is_lost = w->is_lost,
                      .silent = microseconds(now - w->heard),
                      .in_flight = w->num_in_flight,
                      .done = w->num_done};
}

static RtPsTask
state_of_server(const RtDispatcherServer *s, double now)
{
    if (!s->is_known)
        return (RtPsTask){.host = ""};
    return (RtPsTask){.host = str_text(&s->host),
                      .pid = s->pid,
                      .silent = microseconds(now - s->heard)};
}

RtPsStatus
rt_dispatcher_status(const RtDispatcher *d, Arena *a, double now)
{
    const RtClosureQueue *q = &d->queue;
    int num_servers = d->config.task->num_servers;
    RtPsStatus s = {.at = microseconds(now),
                    .scheduled = q->next - 1,
                    .ended = q->next - 1 - q->num_open,
                    .waiting = q->num_waiting,
                    .put_back = q->num_put_back,
                    .cancelled = q->num_cancelled,
                    .staleness = q->staleness.bound,
                    .num_workers = q->workers.len,
                    .num_servers = num_servers};
    s.workers = NEW_ARRAY(a, RtPsTask, (size_t)q->workers.len);
    s.servers = NEW_ARRAY(a, RtPsTask, (size_t)num_servers);
    s.loads = NEW_ARRAY(a, RtPsLoad, (size_t)num_servers);
    for (int i = 0; i < q->workers.len; i++)
        s.workers[i] = state_of_worker(&q->workers.data[i], now);
    for (int i = 0; i < num_servers; i++) {
        s.servers[i] = state_of_server(&d->servers[i], now);
        s.loads[i] = d->servers[i].load;
    }
    return s;
}

void
rt_dispatcher_show_status(RtDispatcher *d,
                          void (*show)(void *data, const RtPsStatus *s),
                          void *data)
{
    Arena *scratch = arena_new(NULL, "how the job is");
    pthread_mutex_lock(&d->lock);
    RtPsStatus s = rt_dispatcher_status(d, scratch, clock_seconds());
    show(data, &s);
    pthread_mutex_unlock(&d->lock);
    arena_release(scratch);
}
