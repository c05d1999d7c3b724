/*
 * placement.h - which server has which variable
 *
 * Variables that one update writes are on one server, and so are those that are
 * colocated; what remains is dealt out in the order of declaration, to server k
 * mod P.  Every process finds the same, from the plan and the number of
 * servers.
 */
#ifndef TFD_RUNTIME_PS_PLACEMENT_H
#define TFD_RUNTIME_PS_PLACEMENT_H

#include "runtime/exec/run_state.h"

/* A program that servers execute. */
typedef struct RtUpdate {
    const RtFunction *fn;
    int server;
    VEC(int) writes; /* the variables that it changes */
} RtUpdate;

typedef struct RtPlacement {
    int num_servers;
    int *servers; /* of each variable of the module */
    VEC(RtUpdate) updates;
} RtPlacement;

void rt_placement_init(RtPlacement *p, RtRun *run, int num_servers);
/* Of its variables. */
int64_t rt_server_bytes(const RtPlacement *p, const IrModule *m, int server);
/* The number of the update that a push names. */
int rt_update_number(const RtPlacement *p, const RtFunction *fn);

#endif
