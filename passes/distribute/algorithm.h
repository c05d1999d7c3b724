/*
 * algorithm.h - how replicas are combined: the cross-device operation
 */
#ifndef TFD_PASSES_DISTRIBUTE_ALGORITHM_H
#define TFD_PASSES_DISTRIBUTE_ALGORITHM_H

#include "ir/ir.h"

/* How a collective is made, and why so. */
typedef struct CollectiveAlgorithm {
    IrAlgorithm algorithm; /* auto: slice by slice, by all devices alike */
    int packs;             /* of hierarchical_copy */
    const char *why;
} CollectiveAlgorithm;

/* What the strategy of m makes of its choice (TensorFlow's rules, tensorflow.md
 * 6, but that copies in two levels are made on CPU devices, too). */
CollectiveAlgorithm pass_algorithm(const IrModule *m);

/* How a gather is made: through one device, unless all devices do it alike. */
CollectiveAlgorithm pass_gather_algorithm(const IrModule *m);

/* In words, for --explain. */
const char *pass_algorithm_name(const IrModule *m,
                                const CollectiveAlgorithm *w);

#endif
