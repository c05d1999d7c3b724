/*
 * ast.c - facts about nodes, from the rows of ast.def
 */
#include "frontend/syntax/ast_impl.h"

#include <stdlib.h>
#include <string.h>

/* The fields of each kind: MEMBER_fields, ended by a nameless one. */
/* clang-format off */
#define AST(KIND, member, level, what, text)                                   \
    static const AstFieldInfo member##_fields[] = {
#define HAS(member, type, name)                                                \
        {#name, AST_FIELD_##type, offsetof(AstNode, member.name)},
#define END(member)                                                            \
        {NULL, AST_FIELD_NODE, 0}};
#include "frontend/syntax/ast.def"
/* clang-format on */

static const AstFieldInfo no_fields[] = {{NULL, AST_FIELD_NODE, 0}};

const AstKindInfo fe_ast_kind_info[NUM_AST_KINDS] = {
#define AST(KIND, member, level, what, text)                                   \
    [AST_##KIND] = {what, text, AST_LEVEL_##level, member##_fields},
#define LEAF(KIND, level, what, text)                                          \
    [AST_##KIND] = {what, text, AST_LEVEL_##level, no_fields},
#include "frontend/syntax/ast.def"
};

const AstOpInfo fe_ast_op_info[NUM_AST_OPS] = {
#define AST_OP(NAME, spelling, level) [AST_OP_##NAME] = {spelling, level},
#include "frontend/syntax/ast.def"
};

const void *
fe_ast_field(const AstNode *n, const AstFieldInfo *f)
{
    return (const char *)n + f->offset;
}

AstIter
fe_ast_children(const AstNode *n)
{
    return (AstIter){.node = n};
}

/* The next item of a list, or NULL at its end. */
static AstNode *
next_item(AstIter *it, const AstList *list)
{
    return it->item < list->len ? list->data[it->item++] : NULL;
}

AstNode *
fe_ast_next_child(AstIter *it)
{
    const AstFieldInfo *fields = fe_ast_kind_info[it->node->kind].fields;
    for (; fields[it->field].name; it->field++, it->item = 0) {
        const AstFieldInfo *f = &fields[it->field];
        const void *at = fe_ast_field(it->node, f);
        AstNode *child = NULL;
        if (f->type == AST_FIELD_LIST)
            child = next_item(it, at);
        else if (f->type == AST_FIELD_NODE && it->item++ == 0)
            child = *(AstNode *const *)at;
        if (child)
            return child;
    }
    return NULL;
}

bool
fe_ast_mentions(const AstNode *n, const char *name)
{
    AstNode *child;
    if (n->kind == AST_NAME && strcmp(n->name.text, name) == 0)
        return true;
    for (AstIter it = fe_ast_children(n); (child = fe_ast_next_child(&it));)
        if (fe_ast_mentions(child, name))
            return true;
    return false;
}

const char *
fe_ast_describe(const AstNode *n)
{
    return fe_ast_kind_info[n->kind].what;
}

const char *
fe_ast_op_text(AstOp op)
{
    return fe_ast_op_info[op].text;
}

bool
fe_ast_is_expr(const AstNode *n)
{
    if (n->kind == AST_FN)
        return n->fn.name == NULL;
    return fe_ast_kind_info[n->kind].level >= AST_LEVEL_WHOLE;
}

/* ---- literals ----------------------------------------------------------- */

bool
fe_ast_negated_value(const AstNode *n, int64_t *value)
{
    int64_t v = 0;
    for (const char *p = n->number.text; *p; p++) {
        if (*p == '_')
            continue;
        if (__builtin_mul_overflow(v, 10, &v) ||
            __builtin_sub_overflow(v, *p - '0', &v))
            return false;
    }
    *value = v;
    return true;
}

bool
fe_ast_int_value(const AstNode *n, int64_t *value)
{
    int64_t negated;
    return fe_ast_negated_value(n, &negated) &&
           !__builtin_sub_overflow(0, negated, value);
}

double
fe_ast_float_value(const AstNode *n)
{
    Arena *scratch = arena_new(NULL, "number");
    Str digits = str_new(scratch);
    for (const char *p = n->number.text; *p; p++)
        if (*p != '_')
            str_addc(&digits, *p);
    double value = strtod(str_text(&digits), NULL);
    arena_release(scratch);
    return value;
}

const char *
fe_ast_string_text(const AstNode *n)
{
    AstList pieces = n->string.pieces;
    if (pieces.len == 0)
        return "";
    bool is_plain = pieces.len == 1 && pieces.data[0]->kind == AST_TEXT;
    return is_plain ? pieces.data[0]->text.text : NULL;
}
