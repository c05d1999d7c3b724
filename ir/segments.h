/*
 * segments.h - kernels of several segments, kernels that work in place, and
 * kernels that run together
 */
#ifndef TFD_IR_SEGMENTS_H
#define TFD_IR_SEGMENTS_H

#include "ir/ir.h"
#include "ir/table.h"

/* One of the segments of a kernel: kernels that differ only in the lengths of
 * their values, executed as one.  A kernel without `segments` is one segment.
 */
typedef struct IrSegment {
    IrValue **args, **results; /* of the region, and operands of its yield */
    IrOp *first;
    int num_args, num_results, num_ops; /* the same for all */
} IrSegment;
int ir_kernel_num_segments(const IrOp *kernel);
IrSegment ir_kernel_segment(const IrOp *kernel, int number);
/* The number of elements of each of p's results; -1 when they differ, when it
 * is less than 2, or when p is not a kernel that can be a segment. */
int64_t ir_segment_length(const IrSegment *p);
/* Whether both compute the same for values of other lengths; both have lengths.
 */
bool ir_segments_match(const IrSegment *p, const IrSegment *q);

typedef IR_TABLE(int) IrCalls;

/* What the calls of ir_kernel_may_overwrite on one module share. */
typedef struct IrOverwrites {
    Arena *arena;
    /* Rows may be read several times before they are overwritten: not on GPUs,
     * whose kernels load operands by ld.global.nc, which need not see stores of
     * the same launch. */
    bool rows;
    /* of values in kernels: the last call in which they were made of the
     * operand asked about, or needed for the result asked about */
    IrCalls followers, needed;
    int call; /* the number of the last one */
} IrOverwrites;

/* For the plan of m; what is found is in a. */
IrOverwrites ir_overwrites(Arena *a, const IrModule *m);

/* Whether the kernel may make result r in exactly the bytes of operand o: it
 * reads an element of o only to make that element of its results, and before
 * that rows of it for their reductions; or it changes rows of it. */
bool ir_kernel_may_overwrite(IrOverwrites *x, const IrOp *kernel, int o, int r);

/* Whether op is a scatter that changes one part of a value, at a place that is
 * one number, and elements of the part that are neighbours are so in the value:
 * beside maps of the part's elements a kernel stores each of them where it is
 * computed. */
bool ir_updates_part(const IrOp *op);

/* The tiles of a kernel that may run together with its neighbours; else 0. */
int64_t ir_op_tiles(const IrOp *op);
/* The last of the neighbours that may run together with op, which has tiles. */
const IrOp *ir_tiles_last(const IrOp *op);

/* Whether a kernel contains op. */
bool ir_is_in_kernel(const IrOp *op);

#endif
