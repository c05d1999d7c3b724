/*
 * placement.h - which server has which part of which variable
 *
 * A variable is one part, or as many as its clause partition says; what is
 * colocated with it and has as many rows is cut alike.  Equal parts of
 * variables that one update writes, and of those that are colocated, are on one
 * server: the one that their clause on names; the others are dealt out in the
 * order of declaration, to server k mod P, or, by bytes, the largest first,
 * each to the server that has the fewest.  Every process finds the same, from
 * the plan and the number of servers.
 *
 * A server has a memory for each part that it has of one variable, its *slots*:
 * there the part's rows are where those of the whole variable would be.
 */
#ifndef TFD_RUNTIME_PS_PARTS_PLACEMENT_H
#define TFD_RUNTIME_PS_PARTS_PLACEMENT_H

#include "ir/analysis/parts.h"
#include "runtime/exec/run_state.h"

typedef struct RtPart {
    int var;
    int k; /* among the parts of var */
    int server, slot;
    int64_t first, rows;   /* of var; a scalar is one */
    int64_t offset, bytes; /* of them in the whole variable */
} RtPart;

/* A program that servers execute, for a part of what it is of. */
typedef struct RtUpdate {
    const RtFunction *fn;
    bool is_set;     /* it only gives a variable what is pushed */
    VEC(int) uses;   /* the variables that it reads or changes */
    VEC(int) writes; /* those that it changes */
    int first_part;  /* of the first of them, among all */
    int num_parts;   /* 1: they are whole */
} RtUpdate;

/* An operation of a worker's program, and how its operands are cut. */
typedef struct RtPushOp {
    const IrOp *op;
    int update;
    IrCut *cuts;
} RtPushOp;

typedef struct RtPlacement {
    int num_servers;
    VEC(RtPart) parts;
    int *first_part; /* of each variable of the module, and behind the last */
    VEC(RtUpdate) updates;
    VEC(RtPushOp) pushes;
} RtPlacement;

/* The coordinator: whether there are all servers that variables name. */
Status rt_placement_check(const RtRun *run, int num_servers) MUST_USE;
void rt_placement_init(RtPlacement *p, RtRun *run, int num_servers,
                       bool by_bytes);
/* Of its parts. */
int64_t rt_server_bytes(const RtPlacement *p, int server);
int rt_server_slots(const RtPlacement *p, int server);
/* That of an operation push. */
const RtPushOp *rt_push_of(const RtPlacement *p, const IrOp *op);

/* Which of a variable's parts, from the first on, has a row; of none that the
 * variable has: 0. */
int rt_part_with(const RtPart *parts, int num, int64_t row);

/* Its rows that have so many bytes at most, but one row at least. */
int64_t rt_part_rows_of_bytes(const RtPart *part, int64_t bytes);

/* The part of an update's variables. */
static inline const RtPart *
rt_update_part(const RtPlacement *p, const RtUpdate *u, int64_t k)
{
    return &p->parts.data[u->first_part + k];
}

#endif
