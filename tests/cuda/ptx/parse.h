/*
 * parse.h - shared by the files that read PTX
 *
 *   parse.c     the module, kernels, registers and variables
 *   operands.c  registers, constants and addresses
 *   decode.c    instructions
 */
#ifndef TFD_TESTS_CUDA_PTX_PARSE_H
#define TFD_TESTS_CUDA_PTX_PARSE_H

#include "tests/cuda/ptx/arith.h"
#include "tests/cuda/ptx/lexer.h"
#include "tests/cuda/ptx/program.h"

typedef enum TypeClass {
    CLASS_PRED,
    CLASS_BITS,
    CLASS_UNSIGNED,
    CLASS_SIGNED,
    CLASS_FLOAT,
} TypeClass;

typedef struct TypeInfo {
    const char *name;
    uint8_t bytes;
    TypeClass class;
} TypeInfo;

extern const TypeInfo ptx_types[];

/* One line of .reg: %f<9> are nine registers, %f0 ... %f8. */
typedef struct Declared {
    const char *name;
    Type type;
    bool is_range;
    uint32_t count;
    uint32_t at, number; /* of the first */
} Declared;

typedef struct Label {
    const char *name;
    int at; /* the instruction after it */
} Label;

typedef struct Fixup {
    int insn, line;
    const char *label;
} Fixup;

/* What is being read. */
typedef struct Parser {
    Lexer x;
    Arena *arena;
    PtxModule *module;
    PtxKernel *kernel;
    VEC(Declared) registers; /* those in scope, the innermost last */
    VEC(Variable)
    variables; /* likewise: those of the module, the kernel's,
                  its parameters */
    VEC(PtxParam) params;
    VEC(Label) labels;
    VEC(Fixup) fixups;
    Map *label_set;
    Map *arith; /* rows of ptx_arith by name */
    int depth;  /* of braces */
    int address_size;
} Parser;

/* The type that a name without its dot stands for; NUM_TYPES: none. */
Type ptx_type_of(const char *name);

static inline uint64_t
ptx_aligned(uint64_t x, uint64_t align)
{
    return (x + align - 1) / align * align;
}

/* The address of another static array of the kernel. */
uint32_t ptx_place_shared(Parser *p, uint64_t bytes, uint32_t align);

/* A new row of registers whose elements have so many bytes. */
uint32_t ptx_new_row(PtxKernel *k, uint32_t bytes);

/* A row with the same bits in all lanes. */
Operand ptx_constant(Parser *p, uint64_t bits, uint32_t bytes);

/* The operands of an instruction, from the current token on.  They report what
 * does not fit. */
Operand ptx_parse_src(Parser *p, Type type);
Operand ptx_parse_dst(Parser *p, Type type);
/* A register of any type. */
Operand ptx_parse_register(Parser *p, Type *type);
/* Its value; a constant. */
uint32_t ptx_parse_number(Parser *p, const char *what);
/* [register + offset], [variable + offset]. */
Operand ptx_parse_address(Parser *p, Space space, int64_t *offset,
                          bool *narrow);
Variable *ptx_find_variable(const Parser *p, const char *name);

/* One instruction, from its guard to its semicolon. */
void ptx_parse_instruction(Parser *p);

#endif
