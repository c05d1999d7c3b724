/*
 * server.h - a server: holds variables, and executes updates of them
 */
#ifndef TFD_RUNTIME_PS_SERVER_H
#define TFD_RUNTIME_PS_SERVER_H

#include "runtime/exec/run_state.h"
#include "runtime/ps/member.h"
#include "runtime/ps/parts/placement.h"

/* Bytes that the arguments of an update take in replica 0's arena, from its end
 * on: to be reserved before arenas are made. */
int64_t rt_update_bytes(const RtRun *run, const RtPlacement *p);

typedef struct RtServing {
    RtRun *run;
    RtPsNet *net;
    RtPsMember *member;
    RtPsListener *listener;
    const RtPlacement *placement;
    int64_t staleness; /* of a push, at most; negative: no bound */
    int64_t staging;   /* where arguments are in the arena */
} RtServing;

/* Answers pulls and applies pushes until the coordinator ends the job. */
Status rt_ps_serve(const RtServing *serving) MUST_USE;

#endif
