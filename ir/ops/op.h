/*
 * op.h - the op table
 *
 * ops.def has a row for each operation and for each attribute of it.
 * Everything here is made from it; so are builder, printer, parser, verifier,
 * gradients, code generation, tests and docs/ops.md.
 */
#ifndef TFD_IR_OPS_OP_H
#define TFD_IR_OPS_OP_H

#include <stdbool.h>
#include <stdint.h>

typedef enum IrOpKind {
#define OP(name, in, out, regions, shape, dtype, locality, effect, traits,     \
           index, grad, code, doc)                                             \
    OP_##name,
#define ATTR(op, attr, kind, need, doc)
#include "ir/ops/ops.def"
#undef OP
#undef ATTR
    NUM_OPS
} IrOpKind;

/* The words of the column code: how kernels compute an operation. */
typedef enum IrCode {
#define ELEMENT_CODE(word, exact, cost) CODE_##word,
#define OTHER_CODE(word, in_kernels) CODE_##word,
#include "ir/ops/codes.def"
    NUM_CODES
} IrCode;

/* Attribute names are shared between ops: A_axis is one name. */
typedef enum IrAttrName {
#define ATTR_NAME(name) A_##name,
#include "ir/ops/attrs.def"
    NUM_ATTR_NAMES
} IrAttrName;

/* The lists of words, and the words of each. */
typedef enum IrWordList {
#define WORD_LIST(LIST, doc) WORDS_##LIST,
#include "ir/ops/attrs.def"
    NUM_WORD_LISTS
} IrWordList;

typedef enum IrAgg {
#define AGG(word, doc) AGG_##word,
#include "ir/ops/attrs.def"
    NUM_AGGS
} IrAgg;

/* The aggregations that a variable may have, a bit for each. */
enum {
    IR_VAR_AGGS = 1 << AGG_none | 1 << AGG_sum | 1 << AGG_mean | 1 << AGG_first
};

typedef enum IrUpdate {
#define UPDATE(word, floats, ints, doc) UPDATE_##word,
#include "ir/ops/attrs.def"
    NUM_UPDATES
} IrUpdate;

typedef enum IrAlgorithm {
#define ALGORITHM(word, has_packs, doc) ALGORITHM_##word,
#include "ir/ops/attrs.def"
    NUM_ALGORITHMS
} IrAlgorithm;

typedef enum IrAttrKind {
    INT,
    BOOL,
    INTS,
    DTYPE_,
    ENUM,
    SYMBOL,
    SYMBOLS,
    STRING,
    DIMS,
    DATA
} IrAttrKind;

typedef enum IrEffect {
    PURE,       /* may be removed, copied and moved */
    READS,      /* reads the variable of attribute var */
    WRITES,     /* writes it */
    COLLECTIVE, /* all replicas must execute it in the same order */
    HOST,       /* happens on the host, in order */
    CONTROL     /* has the effects of the operations in its regions */
} IrEffect;

/* Traits, or-ed. */
enum {
    NONE = 0,
    ELEMENTWISE = 1, /* element i of the result needs element i of operands */
    COMMUTES = 2,
    REDUCES = 4, /* has axes and keepdims */
    VIEW = 8,    /* the result is the operand's bytes under another shape */
    TERMINATOR = 16,
    MOVES = 32 /* result elements are operand elements, moved */
};

/* What operand 1 selects from operand 0, by numbers that are known when the
 * program runs; the column index of ops.def. */
typedef enum IrIndexing {
    INDEXES_none,
    INDEXES_part,
    INDEXES_row,
    INDEXES_order
} IrIndexing;

typedef struct IrAttrInfo {
    IrAttrName name;
    const char *text;
    IrAttrKind kind;
    IrWordList list; /* ENUM: its words, and a bit for each allowed one */
    unsigned allowed;
    bool required;
    const char *doc;
} IrAttrInfo;

typedef struct IrCodeInfo {
    const char *name;
    bool in_kernels; /* kernels may contain it */
    bool exact;      /* its f16 or bf16 result is not rounded */
    double cost;     /* instructions an element, about */
} IrCodeInfo;

typedef struct IrOpInfo {
    const char *name;
    int num_in;  /* -1: any number */
    int num_out; /* -1: as its regions or attributes say */
    int num_regions;
    IrEffect effect;
    unsigned traits;
    IrIndexing index;
    const char *shape_rule, *dtype_rule, *locality_rule; /* names, for docs */
    const char *grad;
    IrCode code;
    const char *doc;
    const IrAttrInfo *attrs;
    int num_attrs;
} IrOpInfo;

extern const IrOpInfo ir_op_info[NUM_OPS];
extern const IrCodeInfo ir_code_info[NUM_CODES];
extern const char *const ir_attr_text[NUM_ATTR_NAMES];

/* The words of a list in the order of its enum, and a NULL. */
extern const char *const *const ir_words[NUM_WORD_LISTS];

/* The operation that combines a value with the one that updates it, for floats
 * or integers; copy: none, the new value replaces the old one. */
IrOpKind ir_update_op(IrUpdate update, bool floats);
/* Whether the algorithm divides the elements in packs. */
bool ir_algorithm_has_packs(IrAlgorithm algorithm);

/* The row of how kernels compute it. */
const IrCodeInfo *ir_op_code(IrOpKind kind);

bool ir_op_by_name(const char *name, IrOpKind *out);
/* A collective that is split in two: its start, and the done that waits for it.
 */
typedef struct IrSplit {
    IrOpKind op, start, done;
} IrSplit;

/* The row in which kind is the op, its start or its done, or NULL. */
const IrSplit *ir_op_split(IrOpKind kind);
bool ir_op_is_start(IrOpKind kind);
bool ir_op_is_done(IrOpKind kind);

/* Position of attribute a among those of op kind, or -1. */
int ir_attr_index(IrOpKind kind, IrAttrName a);
/* The row of attribute a of op kind, which has one. */
const IrAttrInfo *ir_attr_info(IrOpKind kind, IrAttrName a);
/* Whether the attribute, an ENUM, may be word number x of its list. */
bool ir_attr_allows(const IrAttrInfo *attr, int64_t x);

#endif
