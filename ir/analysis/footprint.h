/*
 * footprint.h - memory that a placed module needs beyond the places in it
 *
 * The runner allocates memory for elements when it opens an iterator, and for
 * host values where a program reads them.  The amount follows from the module,
 * so that tfdc can show it (--explain) and tfd-run can compare (--stats).  Only
 * the sizes of files are not in the module.
 */
#ifndef TFD_IR_ANALYSIS_FOOTPRINT_H
#define TFD_IR_ANALYSIS_FOOTPRINT_H

#include "ir/ir.h"

enum { USUAL_STEPS_AHEAD = 3 }; /* if no prefetch gives a number */

/* The most elements that one pass over the data gives after the stage; -1:
 * unknown, or endless. */
int64_t ir_stage_count(const IrModule *m, const IrDataset *d, int stage);

/* How many steps are copied in advance to devices with memory of their own. */
int64_t ir_iter_fetched(const IrIter *it);

/* How many steps an iterator makes in advance: the greatest prefetch of its
 * datasets, in steps. */
int64_t ir_iter_ahead(const IrModule *m, const IrIter *it);

/* How many steps it holds: those made in advance, and the one in use.  An
 * iterator without prefetch still has memory for the next step, which is made
 * while the current one is in use. */
int64_t ir_iter_steps(const IrModule *m, const IrIter *it);

/* Where an element of the stage has its components in memory that stores many
 * of them, behind its rows (an int64_t): offsets (may be NULL) of all of them.
 * Returns the bytes of an element. */
int64_t ir_stored_element(const IrModule *m, const IrStage *s,
                          int64_t *offsets);

/* Whether the stage keeps all elements of its input, whose number is known only
 * when the files are read. */
bool ir_stage_is_uncounted(const IrModule *m, const IrDataset *d, int stage);

/* Bytes that an iterator's pipeline and its steps take, not counting its files
 * and its uncounted stages; shuffle buffers count as full. */
int64_t ir_iter_bytes(const IrModule *m, const IrIter *it);

/* A stage that keeps an unknown number of elements, and the bytes of each. */
typedef struct IrUncountedStage {
    const IrStage *stage;
    int64_t each;
} IrUncountedStage;

typedef VEC(IrUncountedStage) IrUncountedStages;

/* The uncounted stages of an iterator's pipelines, in order. */
IrUncountedStages ir_iter_uncounted_stages(Arena *a, const IrModule *m,
                                           const IrIter *it);

/* Bytes of memory that the arenas of all replicas take, on that many devices
 * with arenas of that size.  Pages that nobody touches take none: those of
 * variables that live on another device, and the shared values in the arenas of
 * all but the first replica of a device. */
int64_t ir_arenas_bytes(Arena *a, const IrModule *m, int64_t arena,
                        int num_devices);

/* The first place that a further replica of a device has in its own arena;
 * INT64_MAX: none. */
int64_t ir_first_own_place(Arena *a, const IrModule *m);

/* Bytes of variables on that many devices: those that replicas share once a
 * device, a replica's own once for each, those of central storage once. */
int64_t ir_vars_bytes(const IrModule *m, int num_devices);

/* A device's arena when main launches a program: variables and the rows that
 * can be live end at rows_end.  The memory after it is the program's; the
 * launch puts its host operands after the places that the program uses. */
typedef struct IrLaunchFootprint {
    const IrOp *launch;
    int64_t rows_end;
} IrLaunchFootprint;

typedef VEC(IrLaunchFootprint) IrLaunchFootprints;

/* Of all launches of main, in the order of the text. */
IrLaunchFootprints ir_launch_footprints(Arena *a, const IrModule *m);

/* Computes the offsets of the launch's host operands, one after the other
 * (offsets may be NULL; those of other operands are left alone); returns the
 * end of the last one. */
int64_t ir_launch_stage_operands(const IrLaunchFootprint *r, int64_t *offsets);

#endif
