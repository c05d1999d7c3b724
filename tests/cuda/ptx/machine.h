/*
 * machine.h - what exists while a launch is executed
 *
 *   machine   one for each thread of the host: buffers that launches reuse
 *   block     the one that is executed, with its shared memory
 *   warp      32 lanes: registers, local memory, where each lane is
 */
#ifndef TFD_TESTS_CUDA_PTX_MACHINE_H
#define TFD_TESTS_CUDA_PTX_MACHINE_H

#include <setjmp.h>
#include "tests/cuda/ptx/program.h"

enum {
    MAX_WARPS = 32,
    MAX_THREADS = NUM_LANES * MAX_WARPS,
    MAX_SHARED = 227 << 10, /* bytes a block, of any GPU so far */
    MANY_MAPS = 1024        /* ShadowMaps that are kept between launches */
};
#define ALL_LANES UINT32_C(0xffffffff)

#define FOR_LANES(l) for (int l = 0; l < NUM_LANES; l++)

/* The lanes of a mask, from the lowest on. */
#define FOR_LANES_OF(l, mask)                                                  \
    for (uint32_t rest_ = (mask), l;                                           \
         rest_ && (l = (uint32_t)__builtin_ctz(rest_), true);                  \
         rest_ &= rest_ - 1)

/* Who last wrote and who read a grain of memory: shadow.c. */
typedef struct Shadows {
    uint64_t *written, *read; /* of the first grain; NULL: not checked */
} Shadows;

/* The shadows of a range of global memory. */
typedef struct ShadowMap {
    uint64_t begin, bytes;
    Shadows shadows; /* one for each byte, of which grains use the first */
} ShadowMap;

typedef struct Range {
    PtxRange memory;
    Shadows shadows;
} Range;

/* Copies that lanes have begun by one cp.async. */
typedef struct AsyncCopy {
    const Insn *insn;
    uint32_t lanes; /* whose copies are not made yet */
    uint32_t bytes;
    uint64_t to[NUM_LANES], from[NUM_LANES];
    uint32_t kept[NUM_LANES]; /* bytes that are copied; the rest is zeros */
    uint32_t groups[NUM_LANES];
} AsyncCopy;

typedef struct Block Block;

struct Warp {
    uint8_t *rows;   /* of registers, constants and special registers */
    uint32_t *valid; /* by register number: lanes that were written */
    uint8_t *local, *local_valid; /* of all lanes */
    Block *block;
    uint32_t number;
    uint32_t live;   /* lanes that have not ended */
    uint32_t parked; /* lanes that wait where they are */
    uint32_t pc[NUM_LANES];
    uint32_t syncs; /* bar.warp.sync since the last barrier of the block */
    uint64_t instructions, lane_instructions;
    VEC(AsyncCopy) copies;
    uint32_t groups[NUM_LANES]; /* committed, by lane */
};

struct Block {
    const PtxKernel *kernel;
    const PtxLaunch *launch;
    PtxMachine *machine;
    uint32_t id[3];
    uint32_t num_warps, num_threads;
    Warp warps[MAX_WARPS];
    uint8_t *shared;
    Shadows shared_shadows;
    uint32_t shared_bytes;
    unsigned checks;
};

enum { NUM_RECENT = 8 };

struct PtxMachine {
    Arena *arena;
    PtxCounts counts;
    Block block;
    jmp_buf stop;
    PtxReport *report;
    /* time: counts barriers and blocks, never goes back (shadow.c) */
    uint32_t now, block_began, launch_began;
    Range recent[NUM_RECENT]; /* ranges of global memory found last */
    int num_recent, next_recent;
    VEC(ShadowMap) maps;
    Shadows shared_shadows;
    uint8_t *rows, *locals, *valid;
    size_t rows_cap, locals_cap, valid_cap;
};

/* The lanes of an operand, as elements of type T. */
#define LANES(T, w, operand)                                                   \
    ((T *)__builtin_assume_aligned((w)->rows + (operand).at, 64))

/* Reports a violation by a lane and ends the launch. */
_Noreturn void ptx_violate(Warp *w, const Insn *i, uint32_t lane, PtxKind kind,
                           uint64_t address, const char *format, ...)
    __attribute__((format(printf, 6, 7)));

/* ---- memory.c ----------------------------------------------------------- */

/* The range of global memory that contains an address, or NULL. */
const Range *ptx_find_range(Block *b, uint64_t address);
/* Notes that bytes at a distance from its begin are read. */
void ptx_note_read(const Range *r, uint64_t distance, uint32_t bytes);
/* Tells the launch's observer of an access to global memory. */
void ptx_observe(Warp *w, const uint64_t *addresses, uint32_t bytes,
                 uint32_t lanes, bool stores);
Execute ptx_exec_load, ptx_exec_load_matrices, ptx_exec_store,
    ptx_exec_load_param;

/* ---- shadow.c ----------------------------------------------------------- */

typedef enum Touch { TOUCH_READ, TOUCH_READ_NC, TOUCH_WRITE } Touch;

/* The cells of a range of global memory, one for each byte; and the end of all
 * of them, between launches. */
Shadows ptx_shadow_map(PtxMachine *m, uint64_t begin, uint64_t bytes);
void ptx_shadow_unmap(PtxMachine *m);

/* Notes that a lane touches bytes of shared or global memory, at an address
 * whose shadow is the first, and reports races. */
void ptx_touch(Warp *w, const Insn *i, uint32_t lane, Touch how, Space space,
               Shadows s, uint64_t address, uint32_t bytes);

/* What lanes of a warp touch.  Those that do not take part have an address of
 * one that does. */
typedef struct Touched {
    uint32_t lanes;
    uint32_t bytes; /* a lane */
    const uint64_t *address;
    uint64_t base;   /* the address of the first shadow */
    int64_t stride;  /* from a lane to the next, if all 32 take part; else -1 */
    Shadows shadows; /* of the memory that all are in */
} Touched;

/* The same of all of them; and reports reads of shared memory that was not
 * written since the block began. */
void ptx_touch_lanes(Warp *w, const Insn *i, Space space, Touch how,
                     const Touched *x);

/* ---- async.c: cp.async -------------------------------------------------- */

Execute ptx_async_copy, ptx_async_commit, ptx_async_wait;

/* Marks cells whose bytes a copy has yet to write. */
void ptx_shadow_begin_async(Warp *w, const Insn *i, const Touched *x);
void ptx_shadow_end_async(Warp *w, const Touched *x);

/* ---- warp_ops.c --------------------------------------------------------- */

Execute ptx_shfl, ptx_vote, ptx_redux, ptx_activemask, ptx_bar_warp;

/* ---- mma.c ------------------------------------------------------------- */

/* What is multiplied: an instruction's mode. */
enum { MMA_TF32, MMA_BF16, MMA_F16 };
Execute ptx_mma;

/* ---- convert.c ---------------------------------------------------------- */

Execute ptx_cvt, ptx_cvt_pack, ptx_pack, ptx_unpack;

#endif
