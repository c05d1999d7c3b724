/*
 * kernel_dependences.h - which indices the values of a kernel depend on
 *
 * A value that is computed from inputs alone is the same wherever the indices
 * it depends on are, so that it need not be computed again.
 */
#ifndef TFD_TESTS_REF_KERNEL_DEPENDENCES_H
#define TFD_TESTS_REF_KERNEL_DEPENDENCES_H

#include "backend/kernel/kernel.h"

/* A set of indices, by id.  INDEX_SET_MORE is in it where a value depends on
 * something else, too: on what the kernel stored before, or on an index whose
 * id is too large for a set. */
typedef uint64_t IndexSet;
#define INDEX_SET_MORE (UINT64_C(1) << 63)

typedef struct KernelDependences {
    const BeKernel *k;
    IndexSet *values, *vars; /* by id; an index of a range depends on itself */
    const KVar **ranges;     /* by id: the indices of ranges */
} KernelDependences;

/* Those of k, in a.  Of one with segments, each value depends on more: they
 * have memory of their own. */
KernelDependences kernel_dependences(Arena *a, const BeKernel *k);

/* The set of the indices of r. */
IndexSet kernel_range_set(const KRanges *r);

#endif
