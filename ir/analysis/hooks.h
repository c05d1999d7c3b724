/*
 * hooks.h - the numbering shared by compiled code and the runner
 *
 * Compiled code names operations, dimensions and safepoints by number.  The
 * compiler writes these numbers into objects, the runner finds them again in
 * the verified IR of the plan: both get them here (docs/abi.md).
 */
#ifndef TFD_IR_ANALYSIS_HOOKS_H
#define TFD_IR_ANALYSIS_HOOKS_H

#include "ir/analysis/batch.h"
#include "ir/ir.h"

typedef VEC(IrOp *) IrOps;

typedef struct IrHooks {
    IrOps ops;        /* executed by hooks->op(call, index) */
    IrOps safepoints; /* loops of main whose iterations end in one */
    IrOps counters;   /* loops of main that count: for, and while with max */
    IrOps positions;  /* counted by TfdCall.at: all that may take long */
} IrHooks;

/* Lists what the runtime does for a placed function, in the order of the text.
 * An operation in ops or safepoints has its index there in op->id. */
IrHooks ir_hooks(Arena *a, IrFunc *fn);

/* Whether the runtime executes op (print, launch, all_reduce_start, ...). */
bool ir_is_hooked(const IrOp *op);
/* Whether compiled code reports that it has reached op: a kernel, a loop, an
 * operation that the runtime executes, one that moves a value (unless there is
 * nothing to move), or the end. */
bool ir_is_position(const IrOp *op);
/* Whether op, outside of a kernel, gives a value another place or shape. */
bool ir_is_move(const IrOp *op);
/* Whether op is a while over a dataset. */
bool ir_is_dataset_loop(const IrOp *op);
/* Whether the iterations of op end in safepoints: a dataset loop of main, or a
 * loop of main that joins closures in each iteration. */
bool ir_has_safepoints(const IrOp *op);

/* Bytes to allocate for fn's places.  In main each counting loop has two words
 * after the places, iterations done and iterations to do, in the order of
 * IrHooks.counters: main may be entered in the middle of the loop, with the
 * frame of an earlier run. */
int64_t ir_frame_bytes(IrFunc *fn);
int64_t ir_counter_offset(const IrFunc *fn, int index);

/* bytes, rounded up to whole cache lines, which is the unit of places. */
int64_t ir_align_to_line(int64_t bytes);

/* The alignment of a collective's buffer of that many bytes (D13). */
int64_t ir_collective_align(int64_t bytes);

/* TfdCall.dims has one IrBatchSizes for each pair of batch symbols, and for
 * each symbol without a partner, like b or n_1.  These give the number of such
 * entries, the entry of a symbol, and the word that holds the symbol's value.
 */
int ir_num_pairs(const IrModule *m);
int ir_symbol_batch(const IrModule *m, int32_t symbol);
int ir_symbol_word(const IrModule *m, int32_t symbol);

#endif
