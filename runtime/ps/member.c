/*
 * member.c - a server or worker and its connection to the coordinator
 */
#include "runtime/ps/member.h"

#include <string.h>
#include <unistd.h>
#include "ir/base/message.h"
#include "runtime/data/data.h"
#include "runtime/hal/system.h"
#include "runtime/hal/wait.h"

static const double usual_patience = 10; /* seconds without the coordinator */

enum { TRY_MS = 50, SAY_AGAIN = 1 /* seconds */, MOST_ADDRESSES = 64 };

/* While it joins: a socket to each address. */
typedef struct Joining {
    RtPsMember *m;
    void *sockets[MOST_ADDRESSES];
    const char *addresses[MOST_ADDRESSES];
    int num;
    int chosen; /* -1: none has answered */
    RtPsWelcome *welcome;
    Status refused;
} Joining;

static void
write_hello(RtPsMember *m)
{
    const RtTaskOptions *task = m->config.task;
    RtPsHello h = {.role = task->role,
                   .index = (uint32_t)task->index,
                   .incarnation = task->incarnation,
                   .pid = getpid(),
                   .plan = m->config.plan,
                   .host = m->host,
                   .address = m->config.address};
    rt_ps_begin(&m->out, RT_PS_HELLO);
    rt_ps_hello(&m->out, &h);
}

static void
say_hello(Joining *j)
{
    write_hello(j->m);
    for (int i = 0; i < j->num; i++)
        rt_ps_send(j->m->net, j->sockets[i], &j->m->out);
}

static double
patience_of(const RtPsMember *m)
{
    double silence = m->config.task->silence;
    return silence > 0 ? silence : usual_patience;
}

/* One answer may be lost or late. */
double
rt_ps_member_interval(const RtPsMember *m, double usual)
{
    double most = patience_of(m) / 4;
    return usual < most ? usual : most;
}

void
rt_ps_member_greet(RtPsMember *m)
{
    double now = rt_seconds();
    if (now - m->greeted < rt_ps_member_interval(m, SAY_AGAIN))
        return;
    m->greeted = now;
    write_hello(m);
    rt_ps_send(m->net, m->socket, &m->out);
}

static void
take(Joining *j, int i, zmq_msg_t *msg)
{
    RtArchive in;
    const char *why = "";
    const RtZmq *z = j->m->net->zmq;
    switch (rt_ps_read(&in, j->m->arena, z->zmq_msg_data(msg),
                       z->zmq_msg_size(msg))) {
    case RT_PS_WELCOME:
        rt_ps_welcome(&in, j->welcome);
        if (rt_ps_is_good(&in))
            j->chosen = i;
        break;
    case RT_PS_REFUSED:
        rt_archive_text(&in, &why);
        if (rt_ps_is_good(&in) && !j->refused)
            j->refused =
                status_new(STATUS_USAGE, "the coordinator at %s refuses it: %s",
                           j->addresses[i], message_part(why));
        break;
    default:
        break;
    }
}

static void
take_answers(Joining *j)
{
    zmq_pollitem_t items[MOST_ADDRESSES];
    zmq_msg_t msg;
    for (int i = 0; i < j->num; i++)
        items[i] = (zmq_pollitem_t){j->sockets[i], 0, ZMQ_POLLIN, 0};
    j->m->net->zmq->zmq_poll(items, j->num, TRY_MS);
    j->m->net->zmq->zmq_msg_init(&msg);
    for (int i = 0; i < j->num && j->chosen < 0; i++)
        while (j->chosen < 0 && rt_ps_next(j->m->net, j->sockets[i], &msg))
            take(j, i, &msg);
    j->m->net->zmq->zmq_msg_close(&msg);
}

static Status
connect_all(Joining *j)
{
    const RtTaskOptions *task = j->m->config.task;
    int num = task->num_join < MOST_ADDRESSES ? task->num_join : MOST_ADDRESSES;
    for (int i = 0; i < num; i++) {
        j->addresses[i] = arena_printf(j->m->arena, "tcp://%s", task->join[i]);
        TRY(rt_ps_connect(j->m->net, j->addresses[i], &j->sockets[i]));
        j->num++;
    }
    return OK;
}

static Status
wait_for_welcome(Joining *j)
{
    RtPsMember *m = j->m;
    double said = -SAY_AGAIN;
    TRY(connect_all(j));
    while (j->chosen < 0 && !j->refused) {
        if (rt_seconds() - said >= SAY_AGAIN) {
            say_hello(j);
            said = rt_seconds();
        }
        take_answers(j);
        if (m->config.is_stopped(m->config.data))
            return rt_data_stopped();
    }
    return j->refused;
}

Status
rt_ps_member_join(RtPsNet *net, const RtMemberConfig *config, RtPsMember *m,
                  RtPsWelcome *welcome)
{
    Arena *a = arena_new(NULL, "a member");
    const RtTaskOptions *task = config->task;
    *m = (RtPsMember){.arena = a,
                      .net = net,
                      .config = *config,
                      .host = rt_host_name(a),
                      .out = rt_archive_writer(a, 0)};
    Joining j = {.m = m, .chosen = -1, .welcome = welcome};
    Status st = wait_for_welcome(&j);
    for (int i = 0; i < j.num; i++)
        if (i != j.chosen)
            rt_ps_disconnect(net, j.sockets[i]);
    if (j.chosen < 0)
        return st;
    m->socket = j.sockets[j.chosen];
    m->heard = m->greeted = rt_seconds();
    RtPsHeartbeat own = {(uint32_t)task->role, (uint32_t)task->index,
                         task->incarnation};
    TRY(rt_heartbeats_start(net, j.addresses[j.chosen], own, &m->heartbeats));
    return rt_ps_announce(task->announce_fd, "joined");
}

void
rt_ps_member_leave(RtPsMember *m)
{
    rt_heartbeats_stop(m->heartbeats);
    if (m->socket)
        rt_ps_disconnect(m->net, m->socket);
    if (m->arena)
        arena_release(m->arena);
    *m = (RtPsMember){0};
}

Status
rt_ps_member_check(const RtPsMember *m)
{
    double silent = rt_seconds() - m->heard;
    if (m->config.is_stopped(m->config.data))
        return rt_data_stopped();
    if (silent < patience_of(m))
        return OK;
    return status_new(STATUS_MACHINE,
                      "the coordinator has not been heard for %.0f s", silent);
}
