/*
 * member.c - a server or worker and its connection to the coordinator
 */
#include "runtime/ps/member.h"

#include <string.h>
#include <unistd.h>
#include "ir/base/clock.h"
#include "ir/base/message.h"
#include "runtime/hal/system.h"

static const double usual_patience = 10; /* seconds without the coordinator */
static const double over_patience = 10;  /* for one that resumes a job */

enum { TRY_MS = 50, SAY_AGAIN = 1 /* seconds */, MOST_ADDRESSES = 64 };

/* While it joins: a socket to each address. */
typedef struct Joining {
    RtPsMember *m;
    RtPsSocket sockets[MOST_ADDRESSES];
    const char *addresses[MOST_ADDRESSES];
    int num;
    int chosen;     /* -1: none has welcomed it */
    bool was_heard; /* the coordinator was, at m->heard */
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
                   .job = m->job,
                   .crash = (uint32_t)task->crash,
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
        rt_ps_send(j->m->net, &j->sockets[i], &j->m->out);
}

static Status
interrupted(void)
{
    return status_new(STATUS_STOPPED, "the task was interrupted");
}

double
rt_ps_member_patience(const RtPsMember *m)
{
    double silence = m->config.task->silence;
    return silence > 0 ? silence : usual_patience;
}

/* One answer may be lost or late. */
double
rt_ps_member_interval(const RtPsMember *m, double usual)
{
    double most = rt_ps_member_patience(m) / 4;
    return usual < most ? usual : most;
}

void
rt_ps_member_greet(RtPsMember *m)
{
    double now = clock_seconds();
    if (now - m->greeted < rt_ps_member_interval(m, SAY_AGAIN))
        return;
    m->greeted = now;
    write_hello(m);
    rt_ps_send(m->net, &m->socket, &m->out);
}

/* OK: the message is damaged. */
static Status
refused(const char *coordinator, RtArchive *in)
{
    const char *why = "";
    rt_ps_text(in, &why);
    if (!rt_ps_is_good(in))
        return OK;
    return status_new(STATUS_USAGE, "the coordinator at %s refuses it: %s",
                      coordinator, message_part(why));
}

Status
rt_ps_member_refused(RtPsMember *m, RtArchive *in)
{
    return refused(m->coordinator, in);
}

static void
take(Joining *j, int i, zmq_msg_t *msg)
{
    RtArchive in;
    const RtZmq *z = j->m->net->zmq;
    RtPsType type = rt_ps_read(&in, j->m->arena, z->zmq_msg_data(msg),
                               z->zmq_msg_size(msg));
    switch (type) {
    case RT_PS_WAIT:
        j->was_heard = true;
        j->m->heard = clock_seconds();
        break;
    case RT_PS_WELCOME:
        rt_ps_welcome(&in, j->welcome);
        if (rt_ps_is_good(&in))
            j->chosen = i;
        break;
    case RT_PS_END:
        if (!j->refused)
            j->refused = status_new(STATUS_MACHINE,
                                    "the coordinator at %s has ended the job",
                                    j->addresses[i]);
        break;
    case RT_PS_REFUSED:
        if (!j->refused)
            j->refused = refused(j->addresses[i], &in);
        break;
    default:
        rt_ps_reject(&in, "it is for somebody else");
    }
    if (in.wrong)
        rt_ps_blame(j->m->net, RT_ROLE_coordinator, 0, type);
}

static void
take_answers(Joining *j)
{
    RtPsSocket *sockets[MOST_ADDRESSES];
    zmq_msg_t msg;
    for (int i = 0; i < j->num; i++)
        sockets[i] = &j->sockets[i];
    rt_ps_poll(j->m->net, sockets, j->num, TRY_MS);
    j->m->net->zmq->zmq_msg_init(&msg);
    for (int i = 0; i < j->num && j->chosen < 0; i++)
        while (j->chosen < 0 && rt_ps_next(j->m->net, &j->sockets[i], &msg))
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

/* One that never answered may still be started; one that did answers each
 * time. */
static Status
still_waits(Joining *j, double begun)
{
    RtPsMember *m = j->m;
    if (j->was_heard)
        return rt_ps_member_check(m);
    if (m->config.is_stopped(m->config.data))
        return interrupted();
    if (m->config.is_over && clock_seconds() - begun > over_patience &&
        m->config.is_over(m->config.data))
        return status_new(STATUS_STOPPED, "the job has ended");
    if (clock_seconds() - begun < m->config.timeout)
        return OK;
    return status_new(STATUS_MACHINE,
                      "no coordinator has answered at %s for %g seconds "
                      "(--timeout allows more)",
                      j->addresses[0], m->config.timeout);
}

static Status
wait_for_welcome(Joining *j)
{
    double begun = clock_seconds(), said = -SAY_AGAIN;
    TRY(connect_all(j));
    while (j->chosen < 0 && !j->refused) {
        if (clock_seconds() - said >= SAY_AGAIN) {
            say_hello(j);
            said = clock_seconds();
        }
        take_answers(j);
        rt_guard_turn(j->m->config.guard);
        if (j->chosen < 0 && !j->refused)
            TRY(still_waits(j, begun));
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
            rt_ps_disconnect(net, &j.sockets[i]);
    if (j.chosen < 0)
        return st;
    m->job = welcome->job;
    m->coordinator = j.addresses[j.chosen];
    m->socket = j.sockets[j.chosen];
    m->heard = m->greeted = m->checked = clock_seconds();
    RtPsHeartbeat own = {(uint32_t)task->role, (uint32_t)task->index,
                         task->incarnation};
    TRY(rt_heartbeats_start(net, j.addresses[j.chosen], own, &m->heartbeats));
    return rt_ps_announce(task->announce_fd, "joined");
}

void
rt_ps_member_leave(RtPsMember *m)
{
    rt_heartbeats_stop(m->heartbeats);
    if (m->net)
        rt_ps_disconnect(m->net, &m->socket);
    if (m->arena)
        arena_release(m->arena);
    *m = (RtPsMember){0};
}

/* A process that was stopped itself has heard nobody. */
static void
forgive(RtPsMember *m, double now)
{
    if (m->checked > 0 && now - m->checked > rt_ps_member_patience(m) / 2)
        m->heard = now;
    m->checked = now;
}

Status
rt_ps_member_check(RtPsMember *m)
{
    double now = clock_seconds();
    rt_guard_turn(m->config.guard);
    if (m->config.is_stopped(m->config.data))
        return interrupted();
    forgive(m, now);
    double silent = now - m->heard;
    if (silent < rt_ps_member_patience(m))
        return OK;
    return status_new(STATUS_MACHINE,
                      "the coordinator has not been heard for %.0f s", silent);
}
