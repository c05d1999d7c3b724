/*
 * define.c - constants given on the command line: -D NAME=VALUE
 *
 * VALUE is read as an expression of the language, so that 1_000 and 2 * 4 mean
 * the same as in a file; where the file has a string, VALUE is the string
 * without quotes, since a shell takes them away.
 */
#include "frontend/context/eval.h"
#include "frontend/context/messages.h"
#include "frontend/context/scope.h"
#include "frontend/emit/operand.h"
#include "frontend/toplevel/toplevel.h"

#include <assert.h>
#include <string.h>
#include "frontend/syntax/parse.h"

/* The text after "NAME=", or NULL. */
static const char *
text_after(const char *define, const char *name)
{
    size_t n = strlen(name);
    bool is_it = strncmp(define, name, n) == 0 && define[n] == '=';
    return is_it ? define + n + 1 : NULL;
}

/* The number v as a value of the dtype that the const's own value has, if that
 * is a scalar and v has none. */
static FeValue *
of_own_dtype(Lower *cx, const char *define, const AstNode *original, FeValue *v,
             Loc loc)
{
    Scalar s;
    const FeValue *own = original->kind == AST_NUMBER || v->kind != FE_CONST
                             ? v
                             : fe_eval(cx, original);
    if (own == v || own->kind != FE_CONST || own->constant.untyped)
        return v;
    DType t = own->constant.scalar.dtype;
    if (t == DT_bool && v->constant.scalar.dtype != DT_bool)
        return fe_error(cx, loc,
                        "-D %s: the const is true or false, and no number",
                        define);
    if (!v->constant.untyped)
        return v;
    return fe_constant_as(cx, v, t, loc, &s) ? fe_value_scalar(cx->arena, s)
                                             : &fe_poison;
}

/* A source of its own, so that messages show the option. */
static FeValue *
parse_define(Lower *cx, const char *name, const char *value,
             const AstNode *original)
{
    const char *text = fe_format(cx, "const %s = %s", name, value);
    size_t len = strlen(text);
    uint16_t file = diag_add_source(cx->diag, "-D", text, len);
    diag_set_usage(cx->diag, file);
    AstNode *tree = fe_parse(cx->arena, cx->names, cx->diag, file, text, len);
    if (!tree) {
        cx->num_errors++;
        return &fe_poison;
    }
    const AstNode *given = tree->program.decls.data[0]->const_.value;
    if (given->kind == AST_NAME && original->kind == AST_NUMBER &&
        strcmp(given->name.text, "num_replicas") != 0 &&
        !fe_find_binding(cx, given->name.text).binding)
        return fe_error_note(cx, given->loc,
                             fe_format(cx, "write a number, as -D %s=%s", name,
                                       fe_ast_text(cx->arena, original)),
                             "-D %s=%s is no value: there is no const \"%s\"",
                             name, value, given->name.text);
    return of_own_dtype(cx, fe_format(cx, "%s=%s", name, value), original,
                        fe_eval(cx, given), given->loc);
}

FeValue *
fe_define_value(Lower *cx, const char *name, const AstNode *original)
{
    const char *value = NULL;
    for (int i = 0; i < cx->options->num_defines; i++) {
        const char *text = text_after(cx->options->defines[i], name);
        value = text ? text : value; /* the last one wins */
    }
    if (!value)
        return NULL;
    return original->kind == AST_STRING
               ? fe_value_text(cx->arena, value)
               : parse_define(cx, name, value, original);
}

static bool
defines_kind(AstKind kind, const FeScope *file, const char *define)
{
    for (int i = 0; i < file->names.len; i++) {
        const FeBinding *b = file->names.data[i];
        if (b->decl && b->decl->kind == kind && text_after(define, b->name))
            return true;
    }
    return false;
}

static const char *
nearest_const(Lower *cx, const char *define, int n)
{
    VEC(const char *) names = {0};
    for (int i = 0; i < cx->file->names.len; i++) {
        const FeBinding *b = cx->file->names.data[i];
        if (b->decl && b->decl->kind == AST_CONST)
            VEC_PUSH(cx->arena, names, b->name);
    }
    return nearest_name(fe_format(cx, "%.*s", n, define), names.data,
                        names.len);
}

/* n: the length of the name in define. */
static void
unknown_const(Lower *cx, const char *define, int n)
{
    const char *near = nearest_const(cx, define, n), *note = NULL;
    if (defines_kind(AST_PARAM, cx->file, define))
        note = fe_format(cx, "it is a param: tfd-run --set %s", define);
    else if (near)
        note = fe_format(cx, "did you mean %s?", near);
    fe_error_note(cx, NO_LOC, note,
                  "-D %.*s: the program has no const of that name", n, define);
}

void
fe_check_defines(Lower *cx)
{
    for (int i = 0; i < cx->options->num_defines; i++) {
        const char *define = cx->options->defines[i];
        int n = (int)strcspn(define, "=");
        assert(define[n]);
        if (defines_kind(AST_CONST, cx->file, define))
            continue;
        diag_blame_usage(cx->diag);
        unknown_const(cx, define, n);
    }
}
