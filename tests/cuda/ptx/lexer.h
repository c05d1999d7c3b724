/*
 * lexer.h - the tokens of a PTX text
 *
 * A name takes dots along: "ld.global.nc.v4.f32", "%tid.x", ".reg",
 * "$L__BB0_1". Of numbers only what NVPTX writes and the manual's section
 * "Constants" has: decimal, hexadecimal, octal, binary, and the bits of floats,
 * 0f and 0d.
 */
#ifndef TFD_TESTS_CUDA_PTX_LEXER_H
#define TFD_TESTS_CUDA_PTX_LEXER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "ir/base/str.h"
#include "tests/cuda/ptx/ptx.h"

typedef enum TokenKind {
    TOKEN_END,
    TOKEN_NAME,
    TOKEN_INT,
    TOKEN_F32,
    TOKEN_F64,
    TOKEN_MARK, /* one of , ; : { } [ ] ( ) < > @ ! + - = | */
} TokenKind;

typedef struct Token {
    TokenKind kind;
    char mark;
    const char *name; /* interned */
    uint64_t bits;    /* of a number */
    int line;
} Token;

typedef struct Lexer {
    const char *at, *end;
    int line;
    Intern *names;
    PtxError *error; /* the first one; after it every token is the end */
    bool failed;
    Token token; /* the current one */
} Lexer;

/* The first token of len bytes is then the current one. */
void ptx_lexer_open(Lexer *x, const char *text, size_t len, Intern *names,
                    PtxError *error);
void ptx_next(Lexer *x);

/* Reports the first error, at a line of the text. */
void ptx_fail(Lexer *x, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Whether the current token is this mark, or this name; take it if so; it must
 * be so. */
bool ptx_is(const Lexer *x, char mark);
bool ptx_is_name(const Lexer *x, const char *name);
bool ptx_take(Lexer *x, char mark);
bool ptx_take_name(Lexer *x, const char *name);
void ptx_expect(Lexer *x, char mark);

/* The name, or the number, that must come; "" and 0 after an error. */
const char *ptx_expect_any_name(Lexer *x, const char *what);
int64_t ptx_expect_int(Lexer *x, const char *what);

#endif
