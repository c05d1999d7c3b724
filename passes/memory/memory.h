/*
 * memory.h - what a placed module needs, and what it could do with
 *
 * The bytes that are live at a point are those of all values that are needed
 * then, each place counted once: values that share bytes by meaning or in place
 * are one.  No arrangement of the same values in the same order needs less than
 * what is live at the worst point, so this is the lower bound that an arena is
 * measured against.  A value counts as whole cache lines, which is how places
 * are given out.
 */
#ifndef TFD_PASSES_MEMORY_MEMORY_H
#define TFD_PASSES_MEMORY_MEMORY_H

#include "ir/ir.h"

/* A device program, its variants counted with it. */
typedef struct ProgramMemory {
    const IrFunc *program;
    int64_t arena; /* where its last place ends; variables and rows included */
    int64_t live;  /* of what it makes itself, at its worst point */
    int64_t given; /* rows and host operands, at the worst of its launches */
} ProgramMemory;

typedef struct DeviceMemory {
    VEC(ProgramMemory) programs;
    int64_t vars;
    int64_t rows;  /* of main, at its worst point */
    int64_t arena; /* of the device: the largest of its programs' */
    int64_t live;  /* the lower bound of that */
} DeviceMemory;

/* Of each device of the placed module m. */
DeviceMemory pass_device_memory(Arena *a, const IrModule *m);

#endif
