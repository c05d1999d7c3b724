/*
 * parse.h - inside ir/: the parts of the parser
 *
 * After the first error of syntax the reader sees nothing but the end of the
 * text, so that every loop ends and callers need not ask after each step.
 */
#ifndef TFD_IR_TEXT_PARSE_H
#define TFD_IR_TEXT_PARSE_H

#include "ir/ir.h"
#include "ir/text/lex.h"

enum {
    IR_MAX_NESTING = 256,     /* D16 */
    IR_MAX_REPLICAS = 1 << 16 /* ranks are words of 16 bits in messages */
};

/* A value as it is defined: "%x: f32[3] [arena+0]". */
typedef struct Defined {
    const char *name; /* as written */
    IrType type;
    IrPlace place;
    Loc at;
} Defined;

typedef struct Parser {
    Arena *scratch; /* until the reader is done */
    IrModule *module;
    Diag *diag;
    uint16_t file;
    Lexer lexer;
    Token token;  /* the next one */
    Map *symbols; /* name -> its number + 1, as a pointer */
    IrFunc *func;
    Map *values; /* of func */
    /* Results and operands read so far.  Results are a stack: they are made
     * when the operations in the regions have been. */
    VEC(Defined) results;
    IrValues operands;
    int depth;
    bool failed;
} Parser;

/* ---- parse_text.c: tokens, numbers, types ------------------------------ */

Loc ir_parse_here(const Parser *p);
/* Reads the number of a batch symbol; `what` is the expected word. */
int32_t ir_parse_symbol(Parser *p, const char *what);
/* Reports a syntax error: the parser stops. */
void ir_parse_fail(Parser *p, Loc at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void ir_parse_next(Parser *p);

/* Whether the next token is of that kind; parse_accept_* consumes it then, and
 * parse_expect_* fails otherwise. */
bool ir_parse_is(const Parser *p, char punct);
bool ir_parse_is_word(const Parser *p, const char *word);
bool ir_parse_accept(Parser *p, char punct);
bool ir_parse_accept_word(Parser *p, const char *word);
void ir_parse_expect(Parser *p, char punct);
void ir_parse_expect_word(Parser *p, const char *word);

/* Each fails unless the next token is of its kind, and returns a harmless value
 * then: a word (also as an index into words), an interned @name, a string. */
const char *ir_parse_word(Parser *p, const char *what);
int ir_parse_word_of(Parser *p, const char *const *words, const char *what);
/* A word of a list of attrs.def, among those whose bit is set in allowed. */
int ir_parse_one_of(Parser *p, IrWordList list, unsigned allowed,
                    const char *what);
const char *ir_parse_name(Parser *p);
const char *ir_parse_string(Parser *p);

int64_t ir_parse_int(Parser *p, int64_t low, int64_t high);
Scalar ir_parse_scalar(Parser *p, DType t);
DType ir_parse_dtype(Parser *p);
/* hex"00ff": the bytes, in the module's arena. */
const void *ir_parse_hex(Parser *p, int64_t *size);
/* [2, n]: at most max dimensions. */
int ir_parse_dims(Parser *p, Dim *dims, int max);
IrType ir_parse_type(Parser *p);
/* These return none where the next token does not begin one. */
IrPlace ir_parse_place(Parser *p);
Loc ir_parse_loc(Parser *p);

/* ---- parse_op.c, parse_attr.c ------------------------------------------ */

void ir_parse_func(Parser *p);
/* {name=value ...} of op, if the next tokens begin one. */
void ir_parse_attrs(Parser *p, IrOp *op);

#endif
