/*
 * memory.h - memory of a placed module, and its lower bound
 *
 * The bytes that are live at a point are those of all live values, each place
 * counted once: values that share bytes are one.  No allocation of the same
 * values in the same order needs less than the bytes that are live at the worst
 * point, so this is the lower bound for an arena.  A value counts as whole
 * cache lines, the unit of places.
 */
#ifndef TFD_PASSES_MEMORY_MEMORY_H
#define TFD_PASSES_MEMORY_MEMORY_H

#include "ir/ir.h"

/* A device program, its variants counted with it. */
typedef struct ProgramMemory {
    const IrFunc *program;
    int64_t arena; /* the end of its last place; variables and rows included */
    int64_t live;  /* of the values it computes, at its worst point */
    int64_t given; /* rows and host operands, at the worst of its launches */
} ProgramMemory;

typedef struct DeviceMemory {
    VEC(ProgramMemory) programs;
    int64_t vars;
    int64_t rows;  /* of main, at its worst point */
    int64_t arena; /* of the device: the largest of its programs' */
    int64_t live;  /* the lower bound of the arena */
} DeviceMemory;

/* For each device of the placed module m. */
DeviceMemory pass_device_memory(Arena *a, const IrModule *m);

#endif
