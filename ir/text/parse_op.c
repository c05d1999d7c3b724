/*
 * parse_op.c - functions, blocks and operations of the text
 *
 * Types that the table infers are inferred again and must agree with the text;
 * a written locality may be greater.  Visibility of values and all other checks
 * are the verifier's.
 */
#include "ir/text/parse.h"

#include <string.h>
#include "ir/rules/rules.h"
#include "ir/type_bounds.h"
#include "ir/type_text.h"
#include "ir/words.h"

static Defined
parse_defined(Parser *p)
{
    Defined d = {.at = ir_parse_here(p)};
    if (p->token.kind != TOKEN_VALUE) {
        ir_parse_fail(p, d.at, "expected a %%value");
        return d;
    }
    d.name = p->token.text;
    ir_parse_next(p);
    ir_parse_expect(p, ':');
    d.type = ir_parse_type(p);
    d.place = ir_parse_place(p);
    return d;
}

/* A value without a name has its number as its name. */
static bool
is_number(const char *name)
{
    return name[strspn(name, "0123456789")] == 0;
}

/* Enters v under its name. */
static void
define(Parser *p, IrValue *v, const Defined *d)
{
    if (p->failed)
        return;
    if (!is_number(d->name)) {
        v->name = intern(p->module->names, d->name);
        if (*d->name >= '0' && *d->name <= '9')
            ir_parse_fail(p, d->at, "a value's name begins with a letter");
    }
    v->place = d->place;
    if (map_get(p->values, d->name))
        ir_parse_fail(p, d->at, "%%%s is defined twice", d->name);
    map_set(p->values, d->name, v);
}

static void
parse_args(Parser *p, IrBlock *b)
{
    ir_parse_expect(p, '(');
    while (!p->failed && !ir_parse_accept(p, ')')) {
        if (b->args.len)
            ir_parse_expect(p, ',');
        Defined d = parse_defined(p);
        define(p, ir_block_arg(b, d.type, NULL), &d);
    }
}

static void
parse_operands(Parser *p)
{
    p->operands.len = 0;
    while (p->token.kind == TOKEN_VALUE && !p->token.first) {
        IrValue *v = map_get(p->values, p->token.text);
        if (!v)
            ir_parse_fail(p, ir_parse_here(p), "there is no value %%%s here",
                          p->token.text);
        VEC_PUSH(p->scratch, p->operands, v);
        ir_parse_next(p);
        if (!ir_parse_accept(p, ','))
            break;
        if (p->token.kind != TOKEN_VALUE)
            ir_parse_fail(p, ir_parse_here(p),
                          "expected a %%value after the comma");
    }
}

static void parse_block(Parser *p, IrBlock *b);

static void
parse_regions(Parser *p, IrOp *op)
{
    for (int r = 0; r < ir_op_info[op->kind].num_regions; r++) {
        IrBlock *b = ir_block_new(p->func);
        ir_set_region(op, r, b);
        if (ir_parse_is(p, '('))
            parse_args(p, b);
        parse_block(p, b);
    }
}

static void
parse_reason(Parser *p, IrOp *op)
{
    if (p->token.first || !ir_parse_accept_word(p, "because"))
        return;
    Arena *a = p->module->arena;
    IrReason *r = NEW(a, IrReason);
    r->rule = ir_parse_word(p, "a rule");
    r->cause = arena_strdup(a, ir_parse_string(p));
    r->loc = ir_parse_loc(p);
    op->reason = r;
}

/* ---- results ----------------------------------------------------------- */

static void
check_result(Parser *p, const IrOp *op, int i, const Defined *d)
{
    IrType t = d->type;
    const char *wrong = ir_infer_result(op, op->block, i, &t);
    if (wrong)
        ir_parse_fail(p, d->at, "%s", wrong);
    else if (!ir_type_allows(&d->type, &t))
        ir_parse_fail(p, d->at, "%%%s is written as %s, but %s gives %s",
                      d->name, ir_type_text(op->module, &d->type),
                      ir_op_info[op->kind].name, ir_type_text(op->module, &t));
}

/* The results of op, n from number `first` of the stack, compared with the
 * table. */
static void
check_results(Parser *p, const IrOp *op, int first, int n, Loc at)
{
    const char *wrong = ir_check_form(op);
    if (wrong) {
        ir_parse_fail(p, at, "%s", wrong);
        return;
    }
    if (!ir_is_inferred(op->kind))
        return;
    int count = ir_infer_count(op);
    if (n != count)
        ir_parse_fail(p, at, "%s has %d results, not %d",
                      ir_op_info[op->kind].name, count, n);
    else if (count == 0)
        check_result(p, op, 0, &(Defined){.at = at});
    for (int i = 0; !p->failed && i < count; i++)
        check_result(p, op, i, &p->results.data[first + i]);
}

static void
set_results(Parser *p, IrOp *op, int first, int n)
{
    const Defined *list = n ? p->results.data + first : NULL;
    IrType one, *types = &one;
    if (n > 1)
        types = NEW_ARRAY(p->scratch, IrType, (size_t)n);
    for (int i = 0; i < n; i++)
        types[i] = list[i].type;
    ir_op_results(op, n, types);
    for (int i = 0; i < n; i++)
        define(p, op->results[i], &list[i]);
}

/* ---- operations -------------------------------------------------------- */

static void
parse_results(Parser *p)
{
    if (p->token.kind != TOKEN_VALUE)
        return;
    do {
        Defined d = parse_defined(p);
        VEC_PUSH(p->scratch, p->results, d);
    } while (ir_parse_accept(p, ','));
    ir_parse_expect(p, '=');
}

static IrOpKind
parse_kind(Parser *p)
{
    IrOpKind kind = OP_constant;
    Loc at = ir_parse_here(p);
    const char *word = ir_parse_word(p, "an operation");
    if (!p->failed && !ir_op_by_name(word, &kind))
        ir_parse_fail(p, at, "there is no operation %s", word);
    return kind;
}

/* Reads the rest after results and operands; the operation, or NULL. */
static IrOp *
parse_rest(Parser *p, IrBlock *b, IrOpKind kind)
{
    if (p->failed)
        return NULL;
    IrOp *op =
        ir_op_new(p->func, kind, p->operands.len, p->operands.data, NO_LOC);
    ir_append(b, op);
    ir_parse_attrs(p, op);
    parse_regions(p, op);
    op->loc = ir_parse_loc(p);
    parse_reason(p, op);
    if (!p->token.first && !ir_parse_is(p, '}') && p->token.kind != TOKEN_END)
        ir_parse_fail(p, ir_parse_here(p), "an operation ends with its line");
    return p->failed ? NULL : op;
}

static void
parse_op(Parser *p, IrBlock *b)
{
    int first = p->results.len;
    parse_results(p);
    int n = p->results.len - first;
    Loc at = ir_parse_here(p);
    IrOpKind kind = parse_kind(p);
    parse_operands(p);
    IrOp *op = parse_rest(p, b, kind);
    if (op) {
        check_results(p, op, first, n, at);
        set_results(p, op, first, n);
    }
    p->results.len = first;
}

static void
parse_block(Parser *p, IrBlock *b)
{
    if (p->depth == IR_MAX_NESTING)
        ir_parse_fail(p, ir_parse_here(p),
                      "regions are nested more than %d deep", IR_MAX_NESTING);
    p->depth++;
    ir_parse_expect(p, '{');
    while (!p->failed && !ir_parse_accept(p, '}'))
        parse_op(p, b);
    p->depth--;
}

/* ---- hints --------------------------------------------------------------- */

/* The length of x in x.1, where the suffix is a number that printing adds. */
static size_t
stem_len(const char *name)
{
    const char *dot = strrchr(name, '.');
    bool is_suffix = dot && dot[1] >= '1' && is_number(dot + 1);
    return is_suffix ? (size_t)(dot - name) : strlen(name);
}

/* A name to which printing added a suffix becomes the plain hint again: the
 * passes' results depend on hints, not on how they were printed. */
static void
restore_hint(Parser *p, Map *seen, IrValue *v)
{
    if (!v->name)
        return;
    const char *stem = intern_n(p->module->names, v->name, stem_len(v->name));
    map_set(seen, v->name, v);
    if (map_get(seen, stem))
        v->name = stem;
}

/* In the order in which printing names the values. */
static void
restore_hints(Parser *p, Map *seen, const IrBlock *b)
{
    for (int i = 0; i < b->args.len; i++)
        restore_hint(p, seen, b->args.data[i]);
    for (const IrOp *op = b->first; op; op = op->next) {
        for (int i = 0; i < op->num_results; i++)
            restore_hint(p, seen, op->results[i]);
        for (int r = 0; r < op->num_regions; r++)
            restore_hints(p, seen, op->regions[r]);
    }
}

static void
parse_part(Parser *p, IrFunc *fn)
{
    fn->part_of = ir_parse_name(p);
    if (ir_parse_accept_word(p, "rows"))
        fn->row_ids = (int)ir_parse_int(p, 0, INT32_MAX);
    fn->rows_only = fn->row_ids >= 0 && ir_parse_accept_word(p, "only");
}

void
ir_parse_func(Parser *p)
{
    Arena *outer = p->scratch;
    Loc at = ir_parse_here(p);
    const char *name = ir_parse_name(p);
    if (p->failed)
        return;
    if (ir_func_find(p->module, name))
        ir_parse_fail(p, at, "there is a function @%s already", name);
    IrFunc *fn = ir_func_new(p->module, name, FUNC_MAIN, NO_LOC);
    p->func = fn;
    p->scratch = arena_new(outer, "function");
    p->values = map_new(p->scratch);
    p->results.data = NULL;
    p->results.len = p->results.cap = 0;
    p->operands = (IrValues){0};
    parse_args(p, fn->body);
    fn->kind = (IrFuncKind)ir_parse_word_of(p, ir_func_words,
                                            "main, host, init or program");
    if (ir_parse_accept_word(p, "variant"))
        fn->variant_of = ir_parse_name(p);
    if (ir_parse_accept_word(p, "worker"))
        fn->worker_of = ir_parse_name(p);
    if (ir_parse_accept_word(p, "part"))
        parse_part(p, fn);
    if (ir_parse_accept_word(p, "bytes"))
        fn->arena_bytes = ir_parse_int(p, 0, IR_MAX_BYTES);
    fn->loc = ir_parse_loc(p);
    parse_block(p, fn->body);
    if (!p->failed)
        restore_hints(p, map_new(p->scratch), fn->body);
    arena_release(p->scratch);
    p->scratch = outer;
}
