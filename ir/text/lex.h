/*
 * lex.h - inside ir/: the text of the IR as tokens
 */
#ifndef TFD_IR_TEXT_LEX_H
#define TFD_IR_TEXT_LEX_H

#include "ir/base/arena.h"
#include "ir/base/diag.h"

typedef enum TokenKind {
    TOKEN_END,
    TOKEN_WORD,   /* letters, digits, _ and . */
    TOKEN_NUMBER, /* digits, perhaps with fraction and exponent; no sign */
    TOKEN_VALUE,  /* %name: text is name */
    TOKEN_NAME,   /* @name, @"any name": text is name */
    TOKEN_STRING, /* text is the string without escapes */
    TOKEN_PUNCT,  /* one byte */
    TOKEN_BAD     /* text is the error message */
} TokenKind;

typedef struct Token {
    TokenKind kind;
    const char *at; /* in the source */
    size_t len;
    const char *text; /* terminated, of VALUE NAME STRING BAD */
    uint32_t line, col;
    bool first; /* on its line */
} Token;

typedef struct Lexer {
    Arena *arena;
    const char *at, *end;
    const char *line_start;
    uint32_t line;
} Lexer;

Lexer ir_lex_new(Arena *a, const char *text, size_t len);
Token ir_lex_next(Lexer *lx);

#endif
