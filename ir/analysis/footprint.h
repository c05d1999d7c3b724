/*
 * footprint.h - memory that a placed module needs beyond the places in it
 *
 * The runner makes room for elements when it opens an iterator, and for host
 * values where a program is to read them.  How much follows from the module,
 * so that tfdc can say it (--explain) and tfd-run can compare (--stats).  Only
 * the sizes of files are not in a module.
 */
#ifndef TFD_IR_ANALYSIS_FOOTPRINT_H
#define TFD_IR_ANALYSIS_FOOTPRINT_H

#include "ir/ir.h"

enum { USUAL_STEPS_AHEAD = 3 }; /* where no prefetch says how many */

/* How many elements a pass of the stage has at most; -1: unknown, or no end. */
int64_t ir_stage_count(const IrModule *m, const IrDataset *d, int stage);

/* How many steps an iterator makes ahead of the one that is used: by the
 * greatest prefetch of its datasets, in steps. */
int64_t ir_iter_ahead(const IrModule *m, const IrIter *it);

/* How many it holds: those, and the one that is used.  One that makes none
 * ahead has room for the next all the same, which is made while the one that is
 * used is still there. */
int64_t ir_iter_steps(const IrModule *m, const IrIter *it);

/* Whether the stage keeps all elements there are, and nobody can count them
 * before the files are read. */
bool ir_stage_is_uncounted(const IrModule *m, const IrDataset *d, int stage);

/* Bytes that an iterator's pipeline and its steps take, without its files and
 * what stages keep that nobody can count; a shuffle of it is taken to be full.
 */
int64_t ir_iter_bytes(const IrModule *m, const IrIter *it);

/* A stage that keeps elements which nobody can count, and bytes of each. */
typedef struct IrUncountedStage {
    const IrStage *stage;
    int64_t each;
} IrUncountedStage;

typedef VEC(IrUncountedStage) IrUncountedStages;

/* Those of an iterator's pipelines, in their order. */
IrUncountedStages ir_iter_uncounted_stages(Arena *a, const IrModule *m,
                                           const IrIter *it);

/* Bytes that the arenas of all replicas take, on so many devices and each being
 * so large.  What nobody touches of them takes none: variables that live on one
 * device, and what all but the first replica of a device share with it. */
int64_t ir_arenas_bytes(Arena *a, const IrModule *m, int64_t arena,
                        int num_devices);

/* What of a device's arena is taken when main launches a program: variables
 * and the rows that can be alive then end at rows_end.  From there on memory
 * is the program's; behind what it uses the launch puts its host operands. */
typedef struct IrLaunchFootprint {
    const IrOp *launch;
    int64_t rows_end;
} IrLaunchFootprint;

typedef VEC(IrLaunchFootprint) IrLaunchFootprints;

/* Of all launches of main, in the order of the text. */
IrLaunchFootprints ir_launch_footprints(Arena *a, const IrModule *m);

/* Fills in where the launch's host operands go, one after the other (offsets
 * may be NULL; those of other operands are left alone); gives where the last
 * one ends. */
int64_t ir_launch_stage_operands(const IrLaunchFootprint *r, int64_t *offsets);

#endif
