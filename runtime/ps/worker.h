/*
 * worker.h - a worker: executes closures
 */
#ifndef TFD_RUNTIME_PS_WORKER_H
#define TFD_RUNTIME_PS_WORKER_H

#include "runtime/ps/client.h"
#include "runtime/ps/closures.h"
#include "runtime/ps/member.h"

typedef struct RtWorking {
    RtRun *run;
    RtPsNet *net;
    RtPsMember *member;
    RtPsClient *client;
    RtClosures *closures;
    bool atomic;        /* pushes are committed by the coordinator, */
    bool in_rounds;     /* those of a round together */
    RtInvocation *main; /* whose values closures use; main is not called */
} RtWorking;

/* Executes closures until the coordinator ends the job. */
Status rt_ps_work(const RtWorking *working) MUST_USE;

/* Pulls what an operation's program reads, launches it, and sends what it
 * pushes as those of closure id (rt_ps_begin_push); how it ended. */
int32_t rt_ps_execute(RtPsClient *client, RtInvocation *main,
                      const RtClosureOp *op, RtOpRun *launch, RtPsGuard *guard,
                      int64_t id, int64_t attempt, int64_t low);

#endif
