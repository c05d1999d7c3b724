/*
 * heartbeat.c - a thread that tells the coordinator that this process lives
 */
#include "runtime/ps/heartbeat.h"

#include <pthread.h>
#include <stdatomic.h>
#include "ir/base/thread.h"
#include "runtime/hal/wait.h"

struct RtHeartbeats {
    Arena *arena;
    RtPsNet *net;
    RtPsSocket socket;
    RtPsHeartbeat heartbeat;
    pthread_t thread;
    RtWaitWord closing;
};

static void *
tell(void *data)
{
    RtHeartbeats *b = data;
    RtArchive out = rt_archive_writer(b->arena, 0);
    rt_ps_begin(&out, RT_PS_HEARTBEAT);
    rt_ps_heartbeat(&out, &b->heartbeat);
    while (!rt_wait_word_load(&b->closing)) {
        rt_ps_send(b->net, &b->socket, &out);
        rt_wait_word_wait(&b->closing, 0, false); /* a tenth of a second */
    }
    return NULL;
}

Status
rt_heartbeats_start(RtPsNet *net, const char *coordinator,
                    RtPsHeartbeat heartbeat, RtHeartbeats **out)
{
    Arena *a = arena_new(NULL, "a heartbeat");
    RtHeartbeats *b = arena_alloc_on_lines(a, sizeof *b);
    b->arena = a;
    b->net = net;
    b->heartbeat = heartbeat;
    Status st = rt_ps_connect(net, coordinator, &b->socket);
    if (!st)
        st = thread_start(&b->thread, tell, b, "a heartbeat");
    if (st) {
        rt_ps_disconnect(net, &b->socket);
        arena_release(a);
        return st;
    }
    *out = b;
    return OK;
}

void
rt_heartbeats_stop(RtHeartbeats *b)
{
    if (!b)
        return;
    rt_wait_word_store(&b->closing, 1);
    pthread_join(b->thread, NULL);
    rt_ps_disconnect(b->net, &b->socket);
    arena_release(b->arena);
}
