/*
 * algorithm.h - the algorithms of collectives: the cross-device operation
 */
#ifndef TFD_PASSES_DISTRIBUTE_ALGORITHM_H
#define TFD_PASSES_DISTRIBUTE_ALGORITHM_H

#include "ir/ir.h"

/* The algorithm of a collective, and the reason for it. */
typedef struct CollectiveAlgorithm {
    IrAlgorithm algorithm; /* auto: slice by slice, by all devices alike */
    int packs;             /* of hierarchical_copy */
    int root;              /* of reduction_to_one: whose device combines */
    const char *why;
} CollectiveAlgorithm;

/* The algorithm of a collective of m, by its own options or, where op is NULL
 * or has none, by m's strategy and options (TensorFlow's rules, tensorflow.md
 * 6, except that hierarchical copies are allowed on CPU devices, too). */
CollectiveAlgorithm pass_algorithm(const IrModule *m, const IrOp *op);

/* The algorithm of a gather: through one device, unless all devices take part
 * alike. */
CollectiveAlgorithm pass_gather_algorithm(const IrModule *m, const IrOp *op);

/* The device of a replica. */
const char *pass_device_name(const IrModule *m, int replica);

/* Its name for --explain. */
const char *pass_algorithm_name(const IrModule *m,
                                const CollectiveAlgorithm *w);

#endif
