/*
 * ptx.h - an emulator of PTX: executes kernels on the CPU and checks them
 *
 *   ptx_module_open     text becomes a module of kernels
 *   ptx_kernel_info     what a driver needs to know to launch one
 *   ptx_machine_new     the state of an executing thread of the host
 *   ptx_launch          executes one launch, from its first block to its last
 *
 * What the emulator does not know (an instruction, a modifier, a directive) is
 * an error of ptx_module_open, never skipped.  A launch that breaks a rule of
 * PTX ends at once, with a report of the first violation.
 *
 * Addresses are those of the device: the caller's PtxMemory says where their
 * bytes are on the host.  Modules are read-only once they are open, but for
 * their .global variables: any number of threads may launch from one, each on
 * a machine of its own.
 */
#ifndef TFD_TESTS_CUDA_PTX_PTX_H
#define TFD_TESTS_CUDA_PTX_PTX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- modules ------------------------------------------------------------ */

typedef struct PtxModule PtxModule;
typedef struct PtxKernel PtxKernel;

typedef struct PtxError {
    int line; /* of the text, from 1 */
    char text[256];
} PtxError;

/* The module of a PTX text of len bytes, which is not kept.  Its .global
 * variables begin at the device address `globals`, a multiple of 256; 0 is an
 * address that no allocation on a host has.  NULL after writing *error. */
PtxModule *ptx_module_open(const char *text, size_t len, uint64_t globals,
                           PtxError *error);
void ptx_module_close(PtxModule *m);

/* Of .target (80 for sm_80) and .version (70 for 7.0). */
int ptx_module_target(const PtxModule *m);
int ptx_module_version(const PtxModule *m);

int ptx_module_num_kernels(const PtxModule *m);
const PtxKernel *ptx_module_kernel(const PtxModule *m, int i);
const PtxKernel *ptx_module_find(const PtxModule *m, const char *name);

/* A .global variable: its device address, the bytes in *bytes and those
 * themselves in *host (either may be NULL).  0: there is none. */
uint64_t ptx_module_global(const PtxModule *m, const char *name, size_t *bytes,
                           void **host);

/* ---- kernels ------------------------------------------------------------ */

typedef struct PtxParam {
    const char *name;
    uint32_t offset, bytes, align; /* in the block of parameters */
} PtxParam;

typedef struct PtxKernelInfo {
    const char *name;
    int line; /* of its .entry */
    int num_params;
    const PtxParam *params;
    uint32_t param_bytes;
    uint32_t reqntid[3];      /* threads of a block; 0: not stated */
    uint32_t maxntid;         /* at most so many; 0: not stated */
    uint32_t minnctapersm;    /* 0: not stated */
    uint32_t static_shared;   /* bytes a block */
    bool uses_dynamic_shared; /* has an .extern .shared array */
    uint32_t local;           /* bytes a thread */
    uint32_t registers;       /* virtual ones, in words of 32 bits */
    int num_instructions;
} PtxKernelInfo;

/* Valid while the module is open. */
const PtxKernelInfo *ptx_kernel_info(const PtxKernel *k);

/* ---- memory of a launch ------------------------------------------------- */

/* What is known of a byte of memory.  A launch sets READ and WRITTEN. */
enum { PTX_VALID = 1, PTX_READ = 2, PTX_WRITTEN = 4, PTX_PAGE = 4096 };

/* Bytes begin .. end of the device's memory. */
typedef struct PtxRange {
    uint64_t begin, end;
    uint8_t *host;  /* where the bytes are; NULL: the device cannot access it */
    uint8_t *valid; /* a byte of flags for each; NULL: all are valid */
    bool read_only;
    uint8_t *pages; /* a byte for each PTX_PAGE of them, from begin on, which is
                       set if the page is touched; NULL: the caller does not
                       ask, and READ is not set */
} PtxRange;

typedef struct PtxMemory {
    /* Writes the range that contains the address; false: none does.  The range
     * must remain as it is until the launch ends. */
    bool (*find)(void *context, uint64_t address, PtxRange *range);
    void *context;
} PtxMemory;

/* ---- launches ----------------------------------------------------------- */

/* What is checked.  Unknown addresses and divergent barriers are always
 * reported, since no execution can go on from them. */
typedef enum PtxCheck {
    PTX_CHECK_ALIGNMENT = 1 << 0,
    PTX_CHECK_VALID = 1 << 1,     /* reads of memory that nobody wrote */
    PTX_CHECK_REGISTERS = 1 << 2, /* reads of registers likewise */
    PTX_CHECK_SHARED_RACES = 1 << 3,
    PTX_CHECK_GLOBAL_RACES = 1 << 4, /* and ld.global.nc of what is written */
    PTX_CHECK_NONE = 0,
    PTX_CHECK_ALL = 0x1f,
} PtxCheck;

/* One access of a warp to global memory. */
typedef struct PtxTraffic {
    bool stores;
    uint32_t bytes;            /* of a lane */
    uint32_t lanes;            /* a bit for each that takes part */
    uint64_t block;            /* its number in the grid */
    const uint64_t *addresses; /* of all 32; of those that take part */
} PtxTraffic;

typedef struct PtxLaunch {
    const PtxKernel *kernel;
    uint32_t grid[3], block[3];
    uint64_t only_blocks;    /* execute so many, the first ones; 0: all */
    uint32_t dynamic_shared; /* bytes */
    const void *params;      /* the block of parameters */
    size_t param_bytes;      /* must be those of the kernel */
    PtxMemory memory;
    unsigned checks;    /* of PtxCheck */
    uint64_t seed;      /* of the order of blocks and warps; 0: ascending */
    uint64_t *executed; /* NULL, or one for each instruction of the kernel: how
                           often a warp executed it is added (mix.h) */
    void (*observe)(void *context, const PtxTraffic *access); /* or NULL */
    void *observer;                                           /* its context */
    uint64_t max_instructions; /* of a warp, after which it counts as hung; 0:
                                  2^32 */
} PtxLaunch;

/* kinds.def is the list: PTX_OUT_OF_BOUNDS, PTX_MISALIGNED, ... */
typedef enum PtxKind {
#define KIND(name, text) PTX_##name,
#include "tests/cuda/ptx/kinds.def"
#undef KIND
    PTX_NUM_KINDS
} PtxKind;

/* The first violation of a launch. */
typedef struct PtxReport {
    PtxKind kind;
    const char *kernel; /* its name: the module's */
    int line;           /* of the text; 0: the launch itself is wrong */
    uint32_t block[3], thread[3];
    uint64_t address; /* of memory accesses; 0: none */
    char text[256];   /* all of it, as one line */
} PtxReport;

/* What launches executed, in warp and in lane instructions. */
typedef struct PtxCounts {
    uint64_t launches, blocks, warp_instructions, lane_instructions;
} PtxCounts;

typedef struct PtxMachine PtxMachine;
PtxMachine *ptx_machine_new(void);
void ptx_machine_free(PtxMachine *machine);
const PtxCounts *ptx_machine_counts(const PtxMachine *machine);

/* Executes a launch.  False after a violation, with *report; memory is then as
 * the instructions before it left it. */
bool ptx_launch(PtxMachine *machine, const PtxLaunch *launch,
                PtxReport *report);

#endif
