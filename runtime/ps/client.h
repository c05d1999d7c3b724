/*
 * client.h - how main and workers use the servers' variables
 *
 * Before a program is executed the variables that it reads are *pulled*: those
 * that have changed are copied into the arenas of this process.  What the
 * program pushes is kept, and sent to each server as one message when it has
 * ended.  Requests are sent again until they are answered: a server applies a
 * closure's updates once.
 */
#ifndef TFD_RUNTIME_PS_CLIENT_H
#define TFD_RUNTIME_PS_CLIENT_H

#include "runtime/exec/run_state.h"
#include "runtime/ps/parts/rows.h"
#include "runtime/ps/wire/sockets.h"
#include "runtime/ps/wire/wire.h"

typedef struct RtPsClient RtPsClient;

/* A connection to each server; placement outlives it. */
Status rt_ps_client_open(RtRun *run, RtPsNet *net, const RtPsWelcome *servers,
                         const RtPlacement *placement,
                         RtPsClient **out) MUST_USE;
void rt_ps_client_close(RtPsClient *c); /* NULL: none */

/* Is called again and again while answers are waited for, and when that socket
 * (NULL: none) has news, and ends the wait by a failure. */
typedef Status (*RtPsWatch)(void *data);
void rt_ps_watch(RtPsClient *c, RtPsSocket *socket, RtPsWatch watch,
                 void *data);
/* Whether it does now: for waits for something else than answers. */
bool rt_ps_is_over(RtPsClient *c);

/* The next pull is also of these variables, by number... */
void rt_ps_want(RtPsClient *c, const int *vars, int num);
/* ...or of these rows of one, each of which is copied to where it is in the
 * variable; a is released after the pull. */
void rt_ps_want_rows(RtPsClient *c, Arena *a, int var, const RtRows *rows);
/* Pulls all of all variables, a little at a time: no server has to have a
 * second copy of what it has. */
Status rt_ps_pull_all(RtPsClient *c) MUST_USE;
/* Copies the current values of what is wanted.  STATUS_STOPPED: the run is. */
Status rt_ps_pull(RtPsClient *c) MUST_USE;

/* What has travelled to and from all servers, up to what this process has asked
 * of them last. */
Status rt_ps_count(RtPsClient *c, RtPsTraffic *sum) MUST_USE;

/* Servers get what this process has of all variables, in order before all that
 * is pulled or pushed later; nobody else uses them yet. */
Status rt_ps_set_all(RtPsClient *c) MUST_USE;

/* The program has changed its own copies of them. */
void rt_ps_forget(RtPsClient *c, const int *vars, int num);

/* What a program sets is sent in several messages where it is much, each with
 * an id of its own, if somebody gives them: main does, whose launches are no
 * closures. */
typedef Status (*RtPsNextId)(void *data, int64_t *id, int64_t *low);
void rt_ps_set_ids(RtPsClient *c, RtPsNextId next, void *data);

/* Whether another closure follows at once: then what this one pushes may leave
 * with what that one pulls, and servers may acknowledge it when they answer
 * that, with fewer wakeups. */
void rt_ps_expect_more(RtPsClient *c, bool more);
/* None follows: what waits for its pull leaves. */
void rt_ps_release(RtPsClient *c);

/* From here on the operations push of replica 0 are kept... */
/* attempt: of a closure that the coordinator commits; 0: servers apply it. */
void rt_ps_begin_push(RtPsClient *c, int64_t id, int64_t attempt, int64_t low);
/* ...this is what they call... */
int32_t rt_ps_push(RtInvocation *inv, const RtHostOp *h);
/* ...and sent, or held until the next pull.  Which closures all servers have
 * acknowledged is told by rt_ps_next_applied. */
void rt_ps_end_push(RtPsClient *c);
/* ...or not, since the program has failed. */
void rt_ps_drop_push(RtPsClient *c);
/* A closure whose updates failed on a server says why. */
typedef struct RtApplied {
    int64_t id;        /* 0: none yet */
    const char *error; /* "": none; valid until the next call */
    const char *lines; /* below it: its source line, the calls, the server */
} RtApplied;
RtApplied rt_ps_next_applied(RtPsClient *c);
/* A closure whose pushes all servers keep, once; 0: none. */
int64_t rt_ps_next_staged(RtPsClient *c);
/* What was pushed of it is left to the servers: nobody waits for them. */
void rt_ps_abandon(RtPsClient *c, int64_t id);
int rt_ps_num_pending(const RtPsClient *c);

/* Takes answers, sends again what was not answered for long. */
void rt_ps_progress(RtPsClient *c);
/* Waits until everything is acknowledged: the first failure. */
Status rt_ps_flush(RtPsClient *c) MUST_USE;

/* Waits until a server, or what is watched, has news. */
void rt_ps_client_wait(RtPsClient *c, int ms);

#endif
