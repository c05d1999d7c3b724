/*
 * algorithm.h - the algorithms of collectives, apart from what executes them
 *
 * An algorithm is a schedule of phases.  In each phase every participant, which
 * is a device with its replicas, takes some steps that depend on no other step
 * of that phase; between two phases all participants meet.  A schedule follows
 * from numbers that all participants know, so each can also compute what the
 * others do: a transport that sends messages finds in it what to send to whom.
 */
#ifndef TFD_RUNTIME_COLL_ALGORITHM_ALGORITHM_H
#define TFD_RUNTIME_COLL_ALGORITHM_ALGORITHM_H

#include "runtime/coll/coll.h"

enum {
    COLL_SLICE_STEP = 64 /* elements: slices begin at multiples of it, so that
                            they share no cache line, and aligned if their
                            operands are */
};

typedef enum RtCollStepKind {
    /* Combines elements begin .. end of an operand of all replicas by D2's tree
     * and stores them in the results of the receivers. */
    STEP_COMBINE,
    /* Copies elements begin .. end of the result of participant `from`, which
     * an earlier phase completed, to the results of the receivers. */
    STEP_COPY,
    /* Copies blocks begin .. end of the operand of replica `from` to its place
     * in the results of the receivers. */
    STEP_GATHER
} RtCollStepKind;

typedef struct RtCollStep {
    RtCollStepKind kind;
    int operand;
    int64_t begin, end;                /* never empty */
    int from;                          /* not of STEP_COMBINE */
    int first_receiver, num_receivers; /* participants */
} RtCollStep;

/* The numbers of a call from which its schedule follows. */
typedef struct RtCollShape {
    int num_replicas;
    int num_participants;  /* each has as many replicas, next to one another */
    int num_operands;      /* 1 of an all_gather */
    const int64_t *counts; /* elements of each; blocks of an all_gather */
    int packs;             /* as RtAlgorithmChoice */
    int root;              /* the participant that reduce_to_one asks */
} RtCollShape;

typedef void RtCollStepFunction(void *data, const RtCollStep *step);

/* Calls take for each step of a participant in a phase. */
typedef void RtCollPhase(const RtCollShape *shape, int participant, int phase,
                         RtCollStepFunction *take, void *data);

typedef struct RtAlgorithm {
    IrCollAlgorithm by;
    int num_phases; /* of an all_reduce; an all_gather has 1. 0: as many as
                       there are participants */
    /* Operands are copied when they are ready, and every participant writes its
     * own results only: nobody has to wait at the end. */
    bool is_staged;
    RtCollPhase *all_reduce;
    RtCollPhase *all_gather; /* NULL: it does not gather */
} RtAlgorithm;

/* The algorithm of an all_reduce for which `asked` was asked; operand_bytes are
 * those of a replica.
 *
 *   auto           up to IR_COLL_REPLICATED_BYTES replicated, above that
 * two_phase hierarchical   two_phase for an odd number of participants
 *
 * and any other is itself. */
const RtAlgorithm *rt_reduce_algorithm(RtCollAlgorithm asked,
                                       const RtCollShape *shape,
                                       size_t operand_bytes);

/* The phases of an all_reduce. */
int rt_algorithm_phases(const RtAlgorithm *a, const RtCollShape *shape);

/* The same for an all_gather: auto is two_phase. */
const RtAlgorithm *rt_gather_algorithm(RtCollAlgorithm asked);

/* How often the range of a step moves from one participant to another, where
 * `participant` takes the step. */
int rt_step_moves(const RtCollShape *shape, int participant,
                  const RtCollStep *step);

/* Whether that many replicas can be combined as asked. */
Status rt_reduce_check(RtCollAlgorithm asked, int num_replicas) MUST_USE;

#endif
