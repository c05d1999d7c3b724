/*
 * kernel_needs.h - which indices the values of a kernel depend on
 *
 * A value that is computed from inputs alone is the same wherever the indices
 * it depends on are, so that it need not be computed again.
 */
#ifndef TFD_TESTS_REF_KERNEL_NEEDS_H
#define TFD_TESTS_REF_KERNEL_NEEDS_H

#include "backend/kernel/kernel.h"

/* A set of indices, by id.  NEEDS_MORE is in it where a value depends on
 * something else, too: on what the kernel stored before, or on an index whose
 * id is too large for a set. */
typedef uint64_t Needs;
#define NEEDS_MORE (UINT64_C(1) << 63)

typedef struct KernelNeeds {
    const BeKernel *k;
    Needs *values, *vars; /* by id; an index of a range needs itself */
    const KVar **ranges;  /* by id: the indices of ranges */
} KernelNeeds;

/* Those of k, in a.  Of one with segments, each value needs more: they have
 * memory of their own. */
KernelNeeds kernel_needs(Arena *a, const BeKernel *k);

/* The set of the indices of r. */
Needs kernel_needs_ranges(const KRanges *r);

#endif
