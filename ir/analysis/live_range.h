/*
 * live_range.h - which bytes each value occupies, and when
 *
 * Works on places alone and knows nothing of how they were chosen: so it holds
 * for modules that were read as text, too.
 */
#ifndef TFD_IR_ANALYSIS_LIVE_RANGE_H
#define TFD_IR_ANALYSIS_LIVE_RANGE_H

#include "ir/analysis/lifetime.h"
#include "ir/ir.h"

/* A value in its place.  Positions are those of lifetime.h; the bytes are whole
 * cache lines. */
typedef struct IrLiveRange {
    const IrValue *value;
    int begin, end;
    int64_t from, to;
} IrLiveRange;

typedef VEC(IrLiveRange) IrLiveRanges;

/* The values of fn, of which l knows, in that space, in order of their
 * beginnings; but for those that begin before past, which is where variables
 * end.  In l's arena. */
IrLiveRanges ir_live_ranges(const IrLifetimes *l, const IrFunc *fn,
                            IrSpace space, int64_t past);

/* The bytes that are live at a position, or at the worst one, each byte counted
 * once; peak: the ranges that are live then (may be NULL). */
int64_t ir_live_bytes_at(Arena *a, const IrLiveRanges *stays, int at);
int64_t ir_peak_live_bytes(Arena *a, const IrLiveRanges *stays,
                           IrLiveRanges *peak);

/* Where the last variable of a device ends. */
int64_t ir_vars_end(const IrModule *m);

/* Where the arenas of a device's further replicas may begin: nothing is used
 * before, since variables that replicas share are in the first one's. */
int64_t ir_own_begin(Arena *a, const IrModule *m);

/* A large user of a device's memory. */
typedef struct IrLarge {
    const char *what; /* "the variable "w"", "what this matmul makes" */
    Loc loc;
    int64_t bytes;
} IrLarge;

enum { IR_LARGEST = 3 };

/* The parameters of the program that needs most, and the values that are live
 * at its worst point, each place once. */
IrValues ir_values_at_peak(Arena *a, const IrModule *m);

/* Up to IR_LARGEST variables, parameters and values, the largest first, that
 * are live at the worst point of the program that needs most.  Returns how
 * many. */
int ir_largest_at_peak(Arena *a, const IrModule *m, IrLarge *out);

#endif
