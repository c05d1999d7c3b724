/*
 * collectives.h - by which algorithm a run carries out a collective
 *
 * Devices that meet in memory follow the plan and a number of bytes.  Processes
 * that send messages take the algorithm that takes the least time by a model,
 * of what they measure when they join: the latency of a message and the rate of
 * bytes.  --explain says the rule, the run follows it, and --stats says what
 * came of it.
 */
#ifndef TFD_IR_ANALYSIS_COLLECTIVES_H
#define TFD_IR_ANALYSIS_COLLECTIVES_H

#include <stdbool.h>

typedef enum IrCollAlgorithm {
#define COLLECTIVE(id, name, joined_by, doc) IR_COLL_##id,
#include "ir/analysis/collectives.def"
    NUM_IR_COLL_ALGORITHMS
} IrCollAlgorithm;

extern const char *const ir_coll_names[NUM_IR_COLL_ALGORITHMS];

enum {
    /* Devices: the most bytes of a replica's operands that each combines for
     * itself. */
    IR_COLL_REPLICATED_BYTES = 512,
    /* Processes: the most bytes of a process's operands, and of all blocks of
     * an all_gather, that are gathered. */
    IR_COLL_GATHER_BYTES = 64 << 10,
    IR_COLL_BLOCKS_BYTES = 32 << 10
};

typedef struct IrLinkSpeed {
    double latency; /* seconds of a short message */
    double rate;    /* bytes in a second */
} IrLinkSpeed;

/* Makes *s the slower of both, in latency and in rate (0: not known). */
void ir_coll_take_slower(IrLinkSpeed *s, IrLinkSpeed other);

/* Processes that a link joins, and what they have to combine: subtrees of D2's
 * tree, nodes, of their replicas. */
typedef struct IrCollProcesses {
    int size;              /* processes */
    int per_machine;       /* next to each other; 1: nothing is known */
    IrLinkSpeed near, far; /* on a machine, and between machines */
    int num_replicas;
    int nodes;       /* of all processes */
    int most_nodes;  /* of a process */
    bool is_rounded; /* nodes have the type of operands of less than 32 bits,
                        so they cannot be combined in several steps */
} IrCollProcesses;

/* The end of the largest node that begins at replica `at` and ends before `end`
 * (D2). */
int ir_coll_node_end(int at, int end, int num_replicas);

/* Whether such processes can use it, at any size. */
bool ir_coll_can(IrCollAlgorithm algorithm, const IrCollProcesses *p);
/* That for an all_reduce with so many bytes of a node. */
IrCollAlgorithm ir_coll_choose(const IrCollProcesses *p, double bytes);

#endif
