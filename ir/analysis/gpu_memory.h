/*
 * gpu_memory.h - the memory that a plan takes of a GPU, and how it would take
 * less
 *
 * Arenas and batches follow from the module.  What the driver takes for kernels
 * and graphs, and for itself, nobody can ask for before it has taken it: these
 * are estimates, whose sources stand beside them in gpu_memory.c.
 */
#ifndef TFD_IR_ANALYSIS_GPU_MEMORY_H
#define TFD_IR_ANALYSIS_GPU_MEMORY_H

#include "ir/ir.h"

/* In bytes, of one GPU. */
typedef struct IrGpuMemory {
    int64_t arenas;  /* of the replicas that it has */
    int64_t staging; /* the next batch of each */
    int64_t graphs;  /* at most */
    int64_t scratch; /* that kernels in two launches have in turn */
    int64_t modules; /* machine code of kernels, at most */
    int64_t nccl;    /* its connections and slices of operands, at most */
    int64_t context; /* the driver, about */
    int64_t all;     /* of these */
    int64_t pinned;  /* of the host's memory, for copies */
    int64_t arena;   /* of its first replica */
    int replicas, kernels, launches;
    bool is_open;   /* the context is there already, and not counted */
    bool uses_nccl; /* collectives are over NCCL, each GPU a rank */
} IrGpuMemory;

/* With so many replicas on it, whose arenas have that many bytes without
 * staging. */
IrGpuMemory ir_gpu_memory(const IrModule *m, int64_t arena, int replicas,
                          bool is_open, bool uses_nccl);

/* Whether the strategy or one of the collectives asks for NCCL: one transport
 * serves all. */
bool ir_asks_for_nccl(const IrModule *m);

/* The bytes that a GPU has for which plans are explained. */
int64_t ir_gpu_bytes(void);
const char *ir_gpu_name(void);

/* How less memory would be needed, as far as the peak of the largest program
 * tells: what has a row for each row of the batch shrinks with it. */
typedef struct IrGpuRemedies {
    int64_t batch;     /* the largest of all replicas that fits; 0: none does */
    int64_t batch_all; /* IrGpuMemory.all with it */
    int devices;       /* the fewest that hold the same batch; 0: none do */
    int64_t devices_all;
    bool compiled; /* for more replicas than m has, which share the batch */
    int64_t recomputed; /* checkpointing of activations would save it */
} IrGpuRemedies;

/* need is more than room. */
IrGpuRemedies ir_gpu_remedies(Arena *a, const IrModule *m,
                              const IrGpuMemory *need, int64_t room);

/* As a part of a sentence, in a. */
const char *ir_gpu_remedies_text(Arena *a, const IrGpuRemedies *r);

#endif
