/*
 * host_impl.h - the function being built, shared by the files of this folder
 *
 * Layers: host_memory.c (addresses, copies, loops over replicas, calls of
 * hooks), host_kernel.c and host_tiles.c (calls of kernels), host_code.c
 * (control flow, functions).
 */
#ifndef TFD_BACKEND_HOST_HOST_IMPL_H
#define TFD_BACKEND_HOST_HOST_IMPL_H

#include "backend/kernel/kernel.h"
#include "backend/llvm/llvm_util.h"
#include "ir/base/status.h"
#include "ir/ir.h"

/* The fields of a replica's call; base: of its arena, or main's frame. */
typedef struct BeCallFields {
    Val call, base, in, out, dims;
} BeCallFields;

/* A loop over the calls of a device's replicas. */
typedef struct BeReplicaLoop {
    Block head, end;
    Val call; /* phi */
} BeReplicaLoop;

/* Kernels that may run together, tile by tile (host_tiles.c). */
typedef struct BeTiles BeTiles;

typedef struct BeHost {
    BeUnit *u;
    IrModule *module;
    const BeKernels *kernels; /* of the module */
    IrFunc *fn;
    bool enqueues; /* code for devices that do not execute it */
    Arena *arena;
    BeCallFields first; /* of the first replica, with shared values */
    BeCallFields cur;   /* of the replica that executes */
    bool in_replica;    /* in a replica loop */
    Val stop;
    Val mark;        /* the hook, or null; of functions that are timed */
    Val ptrs, words; /* tables handed to kernels */
    Val word;        /* memory for what is loaded from a device */
    Val partials;    /* memory for those of long reductions */
    VEC(BeTiles *) groups; /* of the function */
    Block failed;    /* returns the status that its phi is given */
    Val failure;
    Val entry_switch; /* main's: to the safepoint to resume at */
    int num_safepoints, num_ops, num_counters, num_positions;
    Status status;
} BeHost;

/* A location in memory. */
typedef struct BeLocation {
    IrPlace place;
    bool shared; /* one for all replicas of the device */
} BeLocation;

/* ---- memory (host_memory.c) ---------------------------------------------- */

/* The field of a TfdCall at that offset. */
Val be_host_call_field(BeHost *h, Val call, Type type, size_t offset);
BeCallFields be_host_load_call(BeHost *h, Val call);

BeLocation be_host_location(const BeHost *h, const IrValue *v);
/* Of the replica that executes. */
Val be_host_address(BeHost *h, const IrValue *v);
/* Number `word` of the sizes of batches (TfdCall.dims). */
Val be_host_dim_word(BeHost *h, int word);

/* Code built between these two is executed by each replica of the device. */
BeReplicaLoop be_host_begin_replicas(BeHost *h);
void be_host_end_replicas(BeHost *h, const BeReplicaLoop *loop);

/* Copies a value of that type if the places differ; each replica copies its own
 * unless the value is shared. */
void be_host_copy_location(BeHost *h, BeLocation from, BeLocation to,
                           const IrType *type);
void be_host_copy_value(BeHost *h, const IrValue *from, const IrValue *to);
/* Whether these two would do something. */
bool be_host_is_copied(BeLocation from, BeLocation to);

/* The integer at v's place, of the type's width, and its change. */
Val be_host_load_integer(BeHost *h, const IrValue *v);
void be_host_store_integer(BeHost *h, const IrValue *v, Val x);
/* An i1. */
Val be_host_condition(BeHost *h, const IrValue *v);

/* Returns the status from the function if it is not 0. */
void be_host_check_status(BeHost *h, Val status);
/* The hook at that offset of the table. */
Val be_host_load_hook(BeHost *h, size_t hook);
/* Calls the hook at that offset of the table with the call and further
 * arguments, and checks the status that it returns, a value of that name. */
void be_host_call_hook(BeHost *h, size_t hook, const Val *args, int num_args,
                       const char *name);
void be_host_call_numbered(BeHost *h, size_t hook, int index, const char *name);
/* Calls a hook without a result with these arguments, if the run has it. */
void be_host_call_if_any(BeHost *h, Val hook, const Val *args, int num_args);
/* Stores in TfdCall.at that the replica has come to that position; -1: to none,
 * since its turn is over. */
void be_host_emit_position(BeHost *h, int position);
/* Calls the hook mark with that position, if the run has it. */
void be_host_emit_mark(BeHost *h, int position);

/* ---- kernels (host_kernel.c) --------------------------------------------- */

/* Calls the kernel of an OP_kernel, by all threads of the device if that is
 * worthwhile. */
void be_host_emit_kernel(BeHost *h, const IrOp *op);
/* Calls the function of k with that suffix, or k's main one, on this thread:
 * args are pointers, words, and the first and last item. */
void be_host_call_kernel(const BeHost *h, const BeKernel *k, const char *suffix,
                         const Val *args);

/* ---- kernels together (host_tiles.c) ------------------------------------- */

/* Emits functions for those of h->fn, into h->groups: before its own one. */
void be_host_find_tiles(BeHost *h);
/* Those that begin with op, and *last of them; or NULL. */
const BeTiles *be_host_tiles_from(const BeHost *h, const IrOp *op,
                                  const IrOp **last);
/* An i1: whether they run together in this call. */
Val be_host_runs_tiles(BeHost *h, const BeTiles *g);
/* ... when the first of them, which is at `position`, has been marked. */
void be_host_emit_tiles(BeHost *h, const BeTiles *g, int position);

#endif
