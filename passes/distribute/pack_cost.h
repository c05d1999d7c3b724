/*
 * pack_cost.h - where packs of all_reduces close, by what they cost
 *
 * A collective takes a latency, and its bytes over the link; it hides behind
 * what the device computes between its start and its done.  Values come in the
 * order in which they are ready.  A pack that is closed begins at once, and the
 * next one costs a latency of its own; so a pack stays open
 *
 *   - until its transfer takes several times the latency;
 *   - while the next value is ready before the pack could begin (the link is
 *     busy with another one) or within a latency of that: what the wait costs
 *     is less than what it saves (MG-WFBP, Shi et al. 2019).
 *
 * Both sides are models, of the machine that the devices' kind says
 * (ir/analysis/cost.h), never measurements: plans must be the same wherever
 * they are made.
 */
#ifndef TFD_PASSES_DISTRIBUTE_PACK_COST_H
#define TFD_PASSES_DISTRIBUTE_PACK_COST_H

#include "ir/analysis/cost.h"
#include "passes/support/pass.h"

typedef struct PackCost {
    IrModule *m;
    const IrMachine *machine;
    double *seconds;  /* [i]: until what stands before operation i is done */
    double link_free; /* when the last closed pack is through */
    int last_known;   /* after which all values are known */
} PackCost;

/* What closing asks of a pack, and of a value that could join it. */
typedef struct PackLoad {
    int known;  /* position after which all operands are known; -1: at first */
    int needed; /* position of the first use of a result, or of an assert */
    bool by_assert; /* which one */
    int64_t bytes;
} PackLoad;

/* Of the operations of b, which have their positions as ids; in cx->arena. */
PackCost pass_pack_cost(PassCx *cx, const IrBlock *b, int last_known);

/* Whether p closes before a value that is known after position next; the
 * reason, in the module's arena, or NULL. */
const char *pass_pack_closes(PackCost *c, const PackLoad *p, int next);
/* Why p, which did not, is not larger. */
const char *pass_pack_ends(const PackCost *c, const PackLoad *p);

/* Whether a value may share p: what is needed while others are still to come
 * does not wait for the transfer of what is not, unless that is less than a
 * latency. */
bool pass_pack_shares(const PackCost *c, const PackLoad *p,
                      const PackLoad *value);

#endif
