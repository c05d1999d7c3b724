/*
 * program.h - a module as the emulator keeps it
 *
 * A register is a row of 32 lanes in the registers of a warp, 128 bytes, or 256
 * of one with 64 bits.  Constants and special registers are rows, too, so that
 * an instruction finds all of its operands in the same way: `at` is the offset
 * of a row in bytes, `number` that of the register, which has a mask of the
 * lanes that were written; all lanes of number 0 always were.
 *
 * Predicates are lanes of 32 bits, 0 or 1.
 */
#ifndef TFD_TESTS_CUDA_PTX_PROGRAM_H
#define TFD_TESTS_CUDA_PTX_PROGRAM_H

#include "ir/base/arena.h"
#include "ir/base/str.h"
#include "ir/base/vec.h"
#include "tests/cuda/ptx/ptx.h"

enum { NUM_LANES = 32, MAX_SRC = 11, MAX_DST = 4 };

typedef struct Operand {
    uint32_t at, number;
} Operand;

typedef enum Flow {
    FLOW_NEXT,    /* goes on with the next instruction */
    FLOW_BRANCH,  /* to `target` */
    FLOW_BARRIER, /* waits for the block */
    FLOW_WARP,    /* waits for the lanes of its mask, src[0] */
    FLOW_EXIT,
} Flow;

typedef enum Space {
    SPACE_GENERIC,
    SPACE_GLOBAL,
    SPACE_SHARED,
    SPACE_LOCAL,
    SPACE_PARAM,
    NUM_SPACES
} Space;

/* What one of ld and st accesses. */
typedef struct Access {
    int64_t offset;   /* added to the address, src[0] */
    uint8_t space;    /* Space */
    uint8_t size;     /* bytes of an element: 1, 2, 4, 8 */
    uint8_t count;    /* elements: 1, 2, 4 */
    uint8_t width;    /* bytes of a lane of the registers; 4 for 1 and 2 of
                         32 bits that are extended */
    bool is_signed;   /* of elements that are extended */
    bool is_nc;       /* ld.global.nc */
    bool narrow;      /* the address has 32 bits */
    bool from_narrow; /* of cp.async: that of the source, src[1] */
    int64_t from_offset;
} Access;

typedef struct Warp Warp;
typedef struct Insn Insn;
typedef void Execute(Warp *w, const Insn *i, uint32_t lanes);

struct Insn {
    Execute *execute; /* NULL for those that only are flow */
    uint8_t flow;     /* Flow */
    uint8_t num_dst, num_src;
    bool has_guard, guard_negated;
    Operand guard;
    Operand dst[MAX_DST], src[MAX_SRC];
    Access access;
    int32_t target;               /* of branches */
    int32_t line;                 /* of the text */
    uint8_t barrier;              /* its number */
    uint8_t mode;                 /* of warp operations, roundings, cp.async */
    uint8_t to, from;             /* Type, of cvt */
    uint8_t to_width, from_width; /* bytes of the registers of cvt */
    bool is_uniform;              /* bra.uni */
    bool is_negated;              /* the predicate that votes */
    const char *name;
};

/* A row that has the same value in all lanes. */
typedef struct Constant {
    uint64_t value;
    uint32_t at;
    uint8_t bytes; /* of an element: 2, 4, 8 */
} Constant;

typedef enum SpecialKind {
#define SPECIAL(id, name, value) SPECIAL_##id,
#include "tests/cuda/ptx/specials.def"
#undef SPECIAL
    NUM_SPECIALS
} SpecialKind;

typedef struct Variable {
    const char *name;
    Space space;
    uint64_t address; /* in its space; of the device for .global */
    uint64_t bytes;
    uint8_t *data;   /* of .global */
    bool is_dynamic; /* shared memory of the launch: begins at dynamic_at */
    uint32_t align;
    bool is_of_module; /* shared memory that each kernel which names it has */
    const PtxKernel *placed_in; /* where its address was chosen last */
} Variable;

struct PtxKernel {
    PtxKernelInfo info;
    const PtxModule *module;
    VEC(Insn) code;
    bool *is_leader; /* where branches lead */
    VEC(Constant) constants;
    uint32_t special_at[NUM_SPECIALS]; /* rows; 0: not used */
    uint32_t dynamic_row[2]; /* address of dynamic memory in 32 and 64 bits */
    uint32_t row_bytes;      /* of all rows */
    uint32_t num_registers;  /* numbers used; from 1 */
    uint32_t dynamic_at;     /* where dynamic shared memory begins */
    uint32_t dynamic_align;
    /* bytes of the smallest access: what races are tracked by */
    uint32_t grain[NUM_SPACES];
};

struct PtxModule {
    Arena *arena;
    int target, version;
    VEC(PtxKernel *) kernels;
    Map *by_name;
    VEC(Variable) variables; /* .global ones */
    uint64_t globals, globals_end;
};

/* Generic addresses of shared and local memory are in these windows. */
#define SHARED_WINDOW (UINT64_C(0x71) << 56)
#define LOCAL_WINDOW (UINT64_C(0x72) << 56)
#define WINDOW_MASK (UINT64_C(0xff) << 56)

/* Where .global variables are if the caller does not say. */
#define DEFAULT_GLOBALS (UINT64_C(0x7e) << 48)

#endif
