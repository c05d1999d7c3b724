/*
 * ast_print.c - the tree as program text
 *
 * Most kinds are printed by their text in ast.def, the others by a function of
 * printers[].  Two spaces a level, one statement a line; but on one line where
 * the text is part of a message or stands in a hole of a string.
 *
 * Parentheses are printed where the tree needs them: each place says how
 * tightly the node there must bind.
 */
#include "frontend/syntax/ast_impl.h"

#include <string.h>

typedef struct Printer {
    Str *out;
    int indent;
    bool one_line;
} Printer;

static void print_node(Printer *p, const AstNode *n, int level);

static void
print(Printer *p, const char *text)
{
    str_add(p->out, text);
}

static void
print_list(Printer *p, AstList list)
{
    for (int i = 0; i < list.len; i++) {
        print(p, i ? ", " : "");
        print_node(p, list.data[i], AST_LEVEL_WHOLE);
    }
}

static void
new_line(Printer *p)
{
    str_addc(p->out, '\n');
    for (int i = 0; i < p->indent; i++)
        print(p, "  ");
}

/* ---- kinds with a text -------------------------------------------------- */

static const AstFieldInfo *
find_field(const AstNode *n, const char *name, size_t len)
{
    const AstFieldInfo *f = fe_ast_kind_info[n->kind].fields;
    while (strncmp(f->name, name, len) != 0 || f->name[len])
        f++;
    return f;
}

static size_t
name_len(const char *text)
{
    return strspn(text, "abcdefghijklmnopqrstuvwxyz_");
}

static bool
is_there(const AstNode *n, const AstFieldInfo *f)
{
    const void *at = fe_ast_field(n, f);
    switch (f->type) {
    case AST_FIELD_NODE:
        return *(AstNode *const *)at != NULL;
    case AST_FIELD_LIST:
        return ((const AstList *)at)->len > 0;
    case AST_FIELD_NAME:
    case AST_FIELD_TEXT:
        return *(const char *const *)at != NULL;
    case AST_FIELD_FLAG:
        return *(const bool *)at;
    default:
        return true;
    }
}

static void
print_value(Printer *p, const AstNode *n, const AstFieldInfo *f, int level)
{
    const void *at = fe_ast_field(n, f);
    switch (f->type) {
    case AST_FIELD_NODE:
        print_node(p, *(AstNode *const *)at, level);
        break;
    case AST_FIELD_LIST:
        print_list(p, *(const AstList *)at);
        break;
    case AST_FIELD_NAME:
    case AST_FIELD_TEXT:
        print(p, *(const char *const *)at);
        break;
    case AST_FIELD_NUMBER:
        str_addf(p->out, "%lld", (long long)*(const int64_t *)at);
        break;
    case AST_FIELD_OP:
        print(p, fe_ast_op_text(*(const AstOp *)at));
        break;
    case AST_FIELD_FLAG:
        print(p, *(const bool *)at ? "true" : "false");
        break;
    }
}

/* Prints the field after a "$"; returns the text behind it. */
static const char *
print_field(Printer *p, const AstNode *n, const char *text)
{
    size_t len = name_len(text);
    char mark = text[len];
    int level = mark == '^'   ? AST_LEVEL_PRIMARY
                : mark == '!' ? AST_LEVEL_OPERATOR
                              : AST_LEVEL_WHOLE;
    print_value(p, n, find_field(n, text, len), level);
    return text + len + (mark == '^' || mark == '!');
}

/* The text to print behind "<", or NULL if the field is not there. */
static const char *
open_group(const AstNode *n, const char *text)
{
    bool is_flag = *text == '?';
    const char *name = is_flag ? text + 1 : strchr(text, '$') + 1;
    size_t len = name_len(name);
    if (!is_there(n, find_field(n, name, len)))
        return NULL;
    return is_flag ? name + len + 1 : text;
}

static void
print_text(Printer *p, const AstNode *n, const char *text)
{
    while (*text) {
        char c = *text++;
        if (c == '$') {
            text = print_field(p, n, text);
        } else if (c == '<') {
            const char *group = open_group(n, text);
            text = group ? group : strchr(text, '>') + 1;
        } else if (c != '>') {
            str_addc(p->out, c);
        }
    }
}

/* ---- blocks ------------------------------------------------------------- */

static void
print_block(Printer *p, AstList list)
{
    if (!list.len) {
        print(p, "{}");
        return;
    }
    print(p, p->one_line ? "{ " : "{");
    p->indent++;
    for (int i = 0; i < list.len; i++) {
        if (!p->one_line)
            new_line(p);
        else if (i)
            print(p, "; ");
        print_node(p, list.data[i], AST_LEVEL_STMT);
    }
    p->indent--;
    if (p->one_line)
        print(p, " ");
    else
        new_line(p);
    print(p, "}");
}

static void
print_program(Printer *p, const AstNode *n)
{
    AstList decls = n->program.decls;
    bool was_long = false;
    for (int i = 0; i < decls.len; i++) {
        Str text = str_new(p->out->arena);
        Printer inner = {.out = &text};
        print_node(&inner, decls.data[i], AST_LEVEL_STMT);
        bool is_long = strchr(str_text(&text), '\n') != NULL;
        bool is_new_kind = i && decls.data[i]->kind != decls.data[i - 1]->kind;
        if (i && (is_long || was_long || is_new_kind))
            print(p, "\n");
        print(p, str_text(&text));
        print(p, "\n");
        was_long = is_long;
    }
}

static void
print_block_node(Printer *p, const AstNode *n)
{
    print_block(p, n->block.stmts);
}

static void
print_module(Printer *p, const AstNode *n)
{
    str_addf(p->out, "module %s", n->module.name);
    if (n->module.params.len) {
        print(p, "(");
        print_list(p, n->module.params);
        print(p, ")");
    }
    print(p, " ");
    print_block(p, n->module.members);
}

static void
print_choice(Printer *p, const AstNode *n)
{
    print(p, "if ");
    print_node(p, n->choice.cond, AST_LEVEL_WHOLE);
    print(p, " ");
    print_block(p, n->choice.members);
    if (n->choice.otherwise.len) {
        print(p, " else ");
        print_block(p, n->choice.otherwise);
    }
}

static void
print_colocate(Printer *p, const AstNode *n)
{
    print(p, "colocate ");
    print_node(p, n->colocate.target, AST_LEVEL_PRIMARY);
    print(p, " ");
    print_block(p, n->colocate.members);
}

static void
print_update(Printer *p, const AstNode *n)
{
    bool non_slot = n->update.non_slot;
    print(p, non_slot ? "update non_slot(" : "update ");
    print_node(p, n->update.target,
               non_slot ? AST_LEVEL_WHOLE : AST_LEVEL_PRIMARY);
    print(p, non_slot ? ") " : " ");
    print_node(p, n->update.body, AST_LEVEL_PART);
}

static void
print_if(Printer *p, const AstNode *n)
{
    print(p, "if ");
    print_node(p, n->if_.cond, AST_LEVEL_OPERATOR);
    print(p, " ");
    print_node(p, n->if_.then, AST_LEVEL_PART);
    if (!n->if_.else_)
        return;
    print(p, " else ");
    print_node(p, n->if_.else_, AST_LEVEL_PART);
}

/* ---- functions ---------------------------------------------------------- */

static void
print_params_and_body(Printer *p, const AstNode *n)
{
    print(p, "(");
    print_list(p, n->fn.params);
    print(p, n->fn.body->kind == AST_BLOCK ? ") " : ") = ");
    print_node(p, n->fn.body, AST_LEVEL_WHOLE);
}

static void
print_fn(Printer *p, const AstNode *n)
{
    print(p, "fn");
    if (n->fn.name)
        str_addf(p->out, " %s", n->fn.name);
    print_params_and_body(p, n);
    if (!n->fn.grad)
        return;
    p->indent++;
    if (n->fn.body->kind == AST_BLOCK || p->one_line)
        print(p, " ");
    else
        new_line(p);
    p->indent--;
    str_addf(p->out, "with %s", n->fn.grad->fn.name);
    print_params_and_body(p, n->fn.grad);
}

/* ---- expressions -------------------------------------------------------- */

static int
level_of(const AstNode *n)
{
    if (n->kind == AST_BINARY)
        return fe_ast_op_info[n->binary.op].level;
    if (n->kind == AST_UNARY)
        return fe_ast_op_info[n->unary.op].level;
    return fe_ast_kind_info[n->kind].level;
}

static void
print_unary(Printer *p, const AstNode *n)
{
    print(p, fe_ast_op_text(n->unary.op));
    print(p, n->unary.op == AST_OP_NOT ? " " : "");
    print_node(p, n->unary.value, level_of(n));
}

/* Operators group to the left, ** to the right (its right side may be a -x),
 * and comparisons not at all. */
static void
print_binary(Printer *p, const AstNode *n)
{
    int level = level_of(n), left = level, right = level + 1;
    if (n->binary.op == AST_OP_POW) {
        left = AST_LEVEL_NUMBER;
        right = fe_ast_op_info[AST_OP_NEG].level;
    } else if (level == fe_ast_op_info[AST_OP_EQ].level) {
        left = level + 1;
    }
    print_node(p, n->binary.left, left);
    str_addf(p->out, " %s ", fe_ast_op_text(n->binary.op));
    print_node(p, n->binary.right, right);
}

static void
print_tuple(Printer *p, const AstNode *n)
{
    print(p, "(");
    print_list(p, n->tuple.items);
    print(p, n->tuple.items.len == 1 ? ",)" : ")");
}

static void
print_named_tuple(Printer *p, const AstNode *n)
{
    AstList items = n->named_tuple.items;
    print(p, "(");
    for (int i = 0; i < items.len; i++) {
        const AstNode *item = items.data[i];
        str_addf(p->out, "%s%s: ", i ? ", " : "", item->named.name);
        print_node(p, item->named.value, AST_LEVEL_WHOLE);
    }
    print(p, ")");
}

static void
print_string(Printer *p, const AstNode *n)
{
    Printer inner = {.out = p->out, .one_line = true};
    print(p, "\"");
    for (int i = 0; i < n->string.pieces.len; i++)
        print_node(&inner, n->string.pieces.data[i], AST_LEVEL_PART);
    print(p, "\"");
}

/* The characters of a string, as they are written in it. */
static void
print_string_text(Printer *p, const AstNode *n)
{
    for (const char *c = n->text.text; *c; c++) {
        if (*c == '\n') {
            print(p, "\\n");
            continue;
        }
        if (strchr("\\\"", *c))
            str_addc(p->out, '\\');
        if (strchr("{}", *c))
            str_addc(p->out, *c);
        str_addc(p->out, *c);
    }
}

static void
print_bool(Printer *p, const AstNode *n)
{
    print(p, n->boolean.value ? "true" : "false");
}

/* ---- nodes -------------------------------------------------------------- */

static void (*const printers[NUM_AST_KINDS])(Printer *p, const AstNode *n) = {
    [AST_PROGRAM] = print_program,
    [AST_BLOCK] = print_block_node,
    [AST_MODULE] = print_module,
    [AST_CHOICE] = print_choice,
    [AST_COLOCATE] = print_colocate,
    [AST_UPDATE] = print_update,
    [AST_IF] = print_if,
    [AST_FN] = print_fn,
    [AST_UNARY] = print_unary,
    [AST_BINARY] = print_binary,
    [AST_TUPLE] = print_tuple,
    [AST_NAMED_TUPLE] = print_named_tuple,
    [AST_STRING] = print_string,
    [AST_TEXT] = print_string_text,
    [AST_BOOL] = print_bool,
};

static bool
has_long_block(const AstNode *n, bool in_block)
{
    if (n->kind == AST_BLOCK) {
        if (in_block || n->block.stmts.len > 1)
            return true;
        in_block = true;
    }
    AstNode *child;
    for (AstIter it = fe_ast_children(n); (child = fe_ast_next_child(&it));)
        if (has_long_block(child, in_block))
            return true;
    return false;
}

/* Values with blocks, `if a { 1 } else { 2 }`, stay on their line when the
 * blocks are short. */
static bool
fits_one_line(const AstNode *n, int level)
{
    bool has_block = n->kind == AST_IF || n->kind == AST_FN ||
                     n->kind == AST_MERGE || n->kind == AST_UPDATE;
    return has_block && level >= AST_LEVEL_WHOLE && !has_long_block(n, false);
}

/* Prints n where an expression must bind at least as tightly as level. */
static void
print_node(Printer *p, const AstNode *n, int level)
{
    bool was_one_line = p->one_line;
    bool parens = fe_ast_is_expr(n) && level_of(n) < level;
    p->one_line = was_one_line || fits_one_line(n, level);
    print(p, parens ? "(" : "");
    if (printers[n->kind])
        printers[n->kind](p, n);
    else
        print_text(p, n, fe_ast_kind_info[n->kind].text);
    print(p, parens ? ")" : "");
    p->one_line = was_one_line;
}

void
fe_ast_print(Str *out, const AstNode *n)
{
    Printer p = {.out = out};
    print_node(&p, n, AST_LEVEL_PART);
}

const char *
fe_ast_text(Arena *a, const AstNode *expr)
{
    Str text = str_new(a);
    Printer p = {.out = &text, .one_line = true};
    print_node(&p, expr, AST_LEVEL_PART);
    return str_text(&text);
}
