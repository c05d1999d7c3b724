/*
 * abi.h - the interface of compiled code and the runner (D8)
 *
 * docs/abi.md describes its use.  The number changes with anything in this
 * file, with the numbering of hooks, dimensions and places
 * (ir/analysis/hooks.h) and with the functions that objects may call; it is in
 * every plan, and a runner refuses plans with a higher number.
 */
#ifndef TFD_IR_PLAN_ABI_H
#define TFD_IR_PLAN_ABI_H

#include <stdint.h>

#define TFD_ABI 10

/* The host code of a module exports a function of this name followed by the
 * hash of the module's text, so that code cannot run with the operations of
 * another module. */
#define PLAN_MODULE_SYMBOL "ir_"

/* A kernel: items begin to end of its grid.  Calls whose ranges together are
 * all items do all of the work; a single one may do another part of it, as
 * large.  Symbol k_HASH. */
typedef void TfdKernel(void *const *ptrs, const int64_t *dims, int64_t begin,
                       int64_t end);

typedef struct TfdCall TfdCall;

/* A device program, dataset function or initial value, p_NAME, or tfd_main;
 * q_NAME is a device program that enqueues its work on the device.
 * Returns 0, or the first nonzero status of a function it called or of the stop
 * word, which it loads in every iteration of a loop. */
typedef int32_t TfdFunction(TfdCall *call);

/* Compiled code returns any nonzero status at once.  The second group is called
 * by programs that enqueue their work, q_NAME: their addresses are those of the
 * device. */
typedef struct TfdHooks {
    uint32_t abi; /* TFD_ABI */
    /* Executes hooked operation number index of the function. */
    int32_t (*op)(TfdCall *call, int32_t index);
    /* Runs kernel on 0 .. count in ranges of at least grain items. */
    int32_t (*parallel)(TfdCall *call, TfdKernel *kernel, void *const *ptrs,
                        const int64_t *dims, int64_t count, int64_t grain);
    /* main has come to the end of an iteration of a loop: safepoint index. */
    int32_t (*safepoint)(TfdCall *call, int32_t index);
    /* NULL, or called by main and by p_NAME where they store their position,
     * with that position, and at their end with -1 (D33). */
    void (*mark)(TfdCall *call, int32_t position);
    /* NULL, or called when the kernels at num positions from `position` on have
     * run together since the mark of the first, with the processor's ticks that
     * threads spent in each of them.  Where mark is there and this is NULL,
     * each runs alone, so that all of its result is there at the next mark. */
    void (*share)(TfdCall *call, int32_t position, int32_t num,
                  const int64_t *ticks);

    /* Launches kernel number `kernel` of the plan on items 0 .. items, ranges
     * of at least grain of which are worth a thread (0: one does all). */
    int32_t (*launch)(TfdCall *call, int32_t kernel, void *const *ptrs,
                      int32_t num_ptrs, const int64_t *dims, int64_t items,
                      int64_t grain);
    int32_t (*copy)(TfdCall *call, void *to, const void *from, int64_t bytes);
    /* Writes and reads the lower bytes of a word, 1 to 8. */
    int32_t (*store)(TfdCall *call, void *to, int64_t word, int32_t bytes);
    int32_t (*load)(TfdCall *call, int64_t *word, const void *from,
                    int32_t bytes);
} TfdHooks;

struct TfdCall {
    uint32_t abi;    /* TFD_ABI */
    int32_t replica; /* global number of this replica; -1 on the host */
    char *base;      /* the replica's arena; in main the frame */
    char *shared;    /* the arena with what its device's replicas share, that
                        of the first; in main the frame */
    TfdCall *next;   /* of the same function, by the next replica of the device;
                        NULL: none.  The device calls it with the first. */
    char *const *in; /* one pointer for each parameter of the function */
    char *const *out;    /* one for each result */
    const int64_t *dims; /* batch.h: of each symbol pair */
    const TfdHooks *hooks;
    void *context;  /* the runtime's, for hooks */
    int64_t resume; /* main: the safepoint to enter at; -1: the start */
    const _Atomic int32_t *stop; /* other than 0: return it */
    _Atomic int32_t at; /* the position it is at, for diagnoses; -1: at none,
                           or other replicas of the device have their turn */
    int32_t threads; /* that execute the kernels of a device program; 0: it is
                        not known */
};

/* A kernel's PTX may have two functions with the same parameters, k_HASH and
 * k_HASH_rest, which are launched one after the other; both have the address of
 * scratch memory after those of the arrays.  Then a comment of the text,
 *
 *   // launches of k_HASH: 216 blocks, then 8 of the rest, 1048576 bytes
 *
 * says how many blocks of both have work at most, and how much that memory is.
 */
#define TFD_REST "_rest"
#define TFD_LAUNCHES "// launches of "
#define TFD_LAUNCHES_FORMAT ": %lld blocks, then %lld of the rest, %lld bytes"

/* The products of a block that count, for the rows of A that are one tile: the
 * k from first to end.  In all rows, A is +0 at the others, which are at the
 * beginning and at the end, and B is finite.  Sizes and strides are in
 * elements, which have 4 or 8 bytes. */
enum { TFD_K_GROUP = 16 }; /* k that are looked at together */

typedef enum TfdKnown { TFD_UNKNOWN, TFD_FINITE, TFD_NOT_FINITE } TfdKnown;

typedef struct TfdProducts {
    int64_t first, end; /* results */
    int64_t b;          /* a TfdKnown: what is known of the block of B */
    int64_t bytes;      /* of an element */
    int64_t a_k_stride; /* from a k of A to the next; a group's elements are */
    int64_t num_runs;   /* so many runs, */
    int64_t run;        /* each of so many neighbours in memory, */
    int64_t run_stride; /* that begin so far from each other */
    int64_t b_k_stride; /* from a k of B to the next, */
    int64_t b_stride;   /* and from a tile's columns to the next tile's: */
    int64_t b_width;    /* so many neighbours */
} TfdProducts;

/* Finds first and end for `k` products, at least one, and the tile at a, whose
 * block of B has so many columns.  B is looked at when a tile first has zeros
 * and it is not known. */
void rt_find_products(TfdProducts *p, const char *a, const char *b, int64_t k,
                      int64_t columns);

/* Objects define their functions as global symbols.  Besides each other, they
 * may call only the functions of this table. */
#define TFD_ABI_CALLS(CALL)                                                    \
    CALL(memcpy)                                                               \
    CALL(memmove)                                                              \
    CALL(memset)                                                               \
    CALL(rt_find_products)

#endif
