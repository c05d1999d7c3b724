/*
 * parse_impl.h - shared by the files of the parser
 *
 *   scan.l          characters to words; brackets, strings and their holes
 *   tokens.c        words to tokens: where statements end, which names are
 *                   keywords here, where to start afresh after an error
 *   gram.y          tokens to tree
 *   build.c         makes nodes, and checks what a grammar says badly
 *   syntax_error.c  what was expected, in plain words
 *   parse.c         fe_parse; checks of the finished tree
 */
#ifndef TFD_FRONTEND_SYNTAX_PARSE_IMPL_H
#define TFD_FRONTEND_SYNTAX_PARSE_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "frontend/syntax/ast.h"
#include "ir/base/diag.h"
#include "ir/base/io/limit.h"
#include "ir/base/str.h"
#include "ir/base/vec.h"

enum { MAX_ERRORS = 100 }; /* then the rest is not read */

/* A piece of the source: from byte start to byte end. */
typedef struct FePlace {
    uint32_t line, col;
    uint32_t end_line;
    uint32_t start, end;
} FePlace;

typedef struct FeToken {
    int kind;         /* a token of gram.y; 0 before the first one */
    const char *text; /* of names, numbers and strings */
    FePlace place;
    int depth;          /* open brackets around it */
    bool first_on_line; /* nothing but blanks stands before it */
} FeToken;

/* An open bracket: ( [ {, a string, or a hole in one. */
typedef enum FeOpen {
    OPEN_PAREN = '(',
    OPEN_SQUARE = '[',
    OPEN_BLOCK = '{',
    OPEN_STRING = '"',
    OPEN_HOLE = 'h'
} FeOpen;

typedef struct FeBracket {
    FeOpen kind;
    FePlace place;
} FeBracket;

typedef struct FeParser {
    Arena *arena;
    Intern *names;
    Diag *diag;
    uint16_t file;
    const char *text;
    size_t len;
    AstNode *program;
    bool stopped;        /* nothing further is read or reported */
    bool recovering;     /* skipping to the next declaration, in silence */
    uint32_t error_line; /* of the last error; 0: none */
    const AstNode *last_of_fn; /* the last statement of the last function */
    int num_idle;              /* errors that leave the tree whole */

    /* scan.l */
    void *scanner;
    uint32_t offset;     /* of the next character */
    uint32_t line;       /* it is on, from 1 */
    uint32_t line_start; /* offset of that line */
    FePlace place;       /* of the word being read */
    const char *word_text;
    bool line_has_word;
    int last_word; /* kind of the word before */
    Str piece;     /* characters of the string being read */
    FePlace piece_place;
    int num_holes; /* open */
    VEC(FeBracket) open;

    /* tokens.c */
    FeToken ahead; /* scanned but not yet asked for */
    bool has_ahead;
    FeToken held; /* decided on, to be handed out next */
    bool has_held;
    FeToken last, before_last; /* handed to the grammar */
    uint32_t redelivered;      /* offset of the last token read twice, + 1 */
    uint32_t item_col;         /* where the current declaration begins */
} FeParser;

/* ---- scan.l ------------------------------------------------------------- */

void fe_scan_begin(FeParser *ps, const char *text, size_t len);
void fe_scan_end(FeParser *ps);
/* The next word; T_NEWLINE only where a newline may end a statement. */
FeToken fe_scan_word(FeParser *ps);
/* Forgets open brackets and strings. */
void fe_scan_reset(FeParser *ps);

/* ---- tokens.c: the grammar's yylex is there ----------------------------- */

/* Whether a token of this kind can be the last of an expression. */
bool fe_ends_expr(int kind);
/* Whether it can be the first of a declaration. */
bool fe_begins_declaration(int kind);

/* ---- build.c ------------------------------------------------------------ */

Loc fe_loc(const FeParser *ps, FePlace place);

/* from, with its depth counted, in the parser's arena. */
AstNode *fe_node(FeParser *ps, FePlace place, AstNode from);

/* A node of a kind from its fields, in the order of ast.def. */
#define FE_NODE(ps, place, KIND, member, ...)                                  \
    fe_node((ps), (place),                                                     \
            (AstNode){.kind = AST_##KIND, .member = {__VA_ARGS__}})
#define FE_LEAF(ps, place, KIND)                                               \
    fe_node((ps), (place), (AstNode){.kind = AST_##KIND})

AstList fe_list(FeParser *ps, AstNode *first);
AstList fe_append(FeParser *ps, AstList list, AstNode *next);
/* The same of a parameter, whose name is its own. */
AstList fe_append_formal(FeParser *ps, FePlace place, AstList list,
                         AstNode *next);
AstList fe_prepend(FeParser *ps, AstNode *first, AstList rest);

/* Whether a clause of a variable begins so. */
bool fe_is_clause(const char *name);

/* Nodes whose parts are checked. */
AstNode *fe_make_binary(FeParser *ps, FePlace place, AstOp op, AstNode *left,
                        AstNode *right);
AstNode *fe_make_assign(FeParser *ps, FePlace place, AstOp op, AstNode *target,
                        AstNode *value);
AstNode *fe_make_update(FeParser *ps, FePlace place, AstNode *target,
                        AstNode *body);
AstNode *fe_colocate(FeParser *ps, FePlace place, AstNode *target,
                     AstList members);
AstNode *fe_element(FeParser *ps, FePlace place, AstNode *value,
                    const char *index, FePlace index_place);
AstNode *fe_use(FeParser *ps, FePlace place, AstList modules);
/* A VAR with its name, type and INIT, and clauses, which are NAMEs and CALLs.
 */
AstNode *fe_var(FeParser *ps, FePlace place, AstNode from, AstList clauses);
AstList fe_add_arg(FeParser *ps, AstList args, AstNode *arg);
void fe_expect_word(FeParser *ps, FePlace place, const char *word,
                    const char *expected);

/* ---- syntax_error.c ----------------------------------------------------- */

/* An error while reading, unless in recovery. */
void fe_syntax_error(FeParser *ps, FePlace place, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void fe_note(FeParser *ps, FePlace place, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same, after which nothing is read. */
void fe_syntax_stop(FeParser *ps, FePlace place, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same of a limit, with the option that raises it. */
void fe_syntax_limit(FeParser *ps, FePlace place, LimitId id);
void fe_too_deep(FeParser *ps, FePlace place);

/* Reports the token handed out last, which the grammar did not expect; the
 * names are those that gram.y gives its tokens. */
void fe_unexpected(FeParser *ps, const char *const *expected, int n);
/* Reports a word of another language that was handed out last, or before it;
 * false: there is none. */
bool fe_report_foreign_word(FeParser *ps);
/* Notes of a dict, where a value could stand, and of a = where a : could,
 * behind the name of a field or of what is declared. */
void fe_note_names(FeParser *ps, bool wants_value, bool wants_colon,
                   bool in_tuple);
/* The text from start to the end of its line, without blanks or ; there. */
const char *fe_rest_of_line(FeParser *ps, uint32_t start);

#endif
