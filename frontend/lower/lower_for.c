/*
 * lower_for.c - which loops are loops of the IR, and which are unrolled
 *
 * A `for` over a range is tried as a loop of the IR; when its body fails for
 * want of a constant and the range is known, it is unrolled instead.  A `for`
 * over a nest is always unrolled, and so are loops at the top level.
 */
#include "frontend/context/eval.h"
#include "frontend/context/messages.h"
#include "frontend/context/scope.h"
#include "frontend/emit/region.h"
#include "frontend/emit/require_const.h"
#include "frontend/emit/type_of.h"
#include "frontend/lower/loop.h"
#include "frontend/lower/lower_impl.h"

#include <string.h>

/* ---- unrolling ---------------------------------------------------------- */

/* An iteration, executed if none before it left the loop. */
typedef struct Iteration {
    const AstNode *node; /* FOR or WHILE */
    FeLoop *loop;
    FeValue *element;
} Iteration;

static FeValue *
run_iteration(Lower *cx, const void *data)
{
    const Iteration *t = data;
    bool is_for = t->node->kind == AST_FOR;
    fe_loop_iteration(cx, t->loop, is_for ? t->node->for_.pattern : NULL,
                      t->element,
                      is_for ? t->node->for_.body : t->node->while_.body);
    return NULL;
}

static FeValue *
skip_iteration(Lower *cx, const void *data)
{
    (void)cx;
    (void)data;
    return NULL;
}

/* Executes one more iteration; false when it is the last. */
static bool
unroll_iteration(Lower *cx, const Iteration *t)
{
    int64_t errors = cx->num_errors;
    FeCond running = fe_cond(cx, t->loop->running->value, t->node->loc);
    if (running.value)
        fe_branch(cx, running.value, t->node->loc, run_iteration,
                  skip_iteration, t);
    else if (running.known && running.truth)
        run_iteration(cx, t);
    else
        return false;
    return cx->num_errors == errors && !cx->stopped;
}

static FeLoop
begin_unrolled(Lower *cx, Loc loc)
{
    return (FeLoop){
        fe_hidden_mut(cx, "running", fe_value_bool(cx->arena, true), loc)};
}

static void
unroll_range(Lower *cx, const AstNode *n, FeValue *from, int64_t count)
{
    FeLoop loop = begin_unrolled(cx, n->loc);
    Iteration t = {.node = n, .loop = &loop};
    bool more = true;
    for (int64_t i = 0; more && i < count; i++) {
        t.element = fe_range_item(cx, from, i);
        more = unroll_iteration(cx, &t);
    }
}

static void
unroll_nest(Lower *cx, const AstNode *n, const FeNest *nest)
{
    FeLoop loop = begin_unrolled(cx, n->loc);
    Iteration t = {.node = n, .loop = &loop};
    bool more = true;
    for (int i = 0; more && i < nest->len; i++) {
        t.element = nest->items[i];
        more = unroll_iteration(cx, &t);
    }
}

/* ---- for ---------------------------------------------------------------- */

/* Whether an error since the mark may go away when the loop is unrolled. */
static bool
wants_unrolling(const Lower *cx, const FeMark *mark)
{
    return cx->num_errors != mark->num_errors && cx->needs_constant &&
           !cx->stopped;
}

static bool
is_literal(const char *text)
{
    const char *digits = text + (*text == '-');
    return *digits && strspn(digits, "0123456789") == strlen(digits);
}

/* A range whose end is 0 or less as it stands in the text, and which begins
 * above it, as for i in 9..-1: whoever wrote it counts down. */
static void
warn_of_countdown(Lower *cx, const AstNode *n, const FeValue *from,
                  const FeValue *to)
{
    const AstNode *range = n->for_.iter;
    const char *first = fe_ast_text(cx->arena, range->range.from);
    const char *last = fe_ast_text(cx->arena, range->range.to);
    const char *name = fe_ast_text(cx->arena, n->for_.pattern);
    int64_t a, b, count;
    if (!fe_value_is_int(from, &a) || !fe_value_is_int(to, &b) || a <= b ||
        b > 0 || !is_literal(last) || __builtin_sub_overflow(a, b, &count))
        return;
    const char *turns = is_literal(first)
                            ? fe_format(cx, "%lld", (long long)count)
                        : b ? fe_format(cx, "%s + %lld", first, -(long long)b)
                            : first;
    fe_warning(cx, range->loc, range->loc,
               fe_format(cx, "write 0..%s, and %s - %s in place of %s", turns,
                         first, name, name),
               "%s..%s has no turns, since a range goes up by 1", first, last);
}

static void
for_range(Lower *cx, const AstNode *n)
{
    FeValue *from, *to;
    int64_t count;
    if (!fe_range(cx, n->for_.iter, &from, &to))
        return;
    warn_of_countdown(cx, n, from, to);
    FeMark mark = fe_mark(cx);
    bool known = fe_range_is_known(from, to);
    cx->needs_constant = false;
    cx->num_unrollable += known;
    if (cx->block)
        fe_loop_counted(cx, n, from, to);
    cx->num_unrollable -= known;
    bool unroll = !cx->block || wants_unrolling(cx, &mark);
    cx->needs_constant |= mark.needs_constant;
    if (!unroll)
        return;
    if (known)
        fe_rewind(cx, &mark);
    if (known && fe_range_count(cx, from, to, n->for_.iter->loc, &count))
        unroll_range(cx, n, from, count);
    else if (!cx->block && !known)
        fe_error(cx, n->for_.iter->loc,
                 "a loop that is evaluated while "
                 "compiling goes over a known range");
}

const char *
fe_count_of(Lower *cx, const AstNode *iter)
{
    if (iter->kind != AST_CALL || iter->call.callee->kind != AST_NAME ||
        strcmp(iter->call.callee->name.text, "range") != 0)
        return NULL;
    const AstList *args = &iter->call.args;
    if (args->len == 0 || args->len > 2)
        return NULL;
    const char *first = fe_ast_text(cx->arena, args->data[0]);
    return args->len == 1 ? fe_format(cx, "0..%s", first)
                          : fe_format(cx, "%s..%s", first,
                                      fe_ast_text(cx->arena, args->data[1]));
}

static void
refuse_range(Lower *cx, const AstNode *n, const char *count)
{
    const AstNode *iter = n->for_.iter;
    const char *text = fe_ast_text(cx->arena, iter);
    const char *name = fe_ast_text(cx->arena, n->for_.pattern);
    fe_error_note(
        cx, iter->loc, fe_format(cx, "write for %s in %s", name, count),
        "%s makes a dataset, and a for goes over numbers as %s", text, count);
}

static void
refuse_iter(Lower *cx, const AstNode *iter, FeValue *v)
{
    const char *text = fe_ast_text(cx->arena, iter);
    IrType t;
    const char *note = NULL;
    if (v->kind == FE_DATASET)
        note = fe_format(cx, "did you mean distribute(%s)?", text);
    else if (fe_type_of(cx, v, &t) && t.rank == 0 && dtype_is_int(t.dtype))
        note = fe_format(cx, "did you mean 0..%s?", text);
    else if (fe_type_of(cx, v, &t) && t.rank > 0)
        note = fe_format(
            cx, "write for i in 0..len(%s), and in the loop %s[i]", text,
            iter->kind == AST_NAME ? text : fe_format(cx, "(%s)", text));
    else if (v->kind == FE_ITER)
        note = fe_format(cx,
                         "while has_next(%s) takes the elements of an "
                         "iterator with next(%s)",
                         text, text);
    fe_error_note(cx, iter->loc, note,
                  "a for goes over a range, a nest or a distributed dataset, "
                  "not over %s",
                  fe_describe(cx, v));
}

void
fe_exec_for(Lower *cx, const AstNode *n)
{
    const AstNode *iter = n->for_.iter;
    if (iter->kind == AST_RANGE) {
        for_range(cx, n);
        return;
    }
    FeValue *v = fe_eval(cx, iter);
    const char *count = v->kind == FE_DATASET ? fe_count_of(cx, iter) : NULL;
    if (v->kind == FE_NEST)
        unroll_nest(cx, n, &v->nest);
    else if (v->kind == FE_DIST)
        fe_loop_dataset(cx, n, v);
    else if (count)
        refuse_range(cx, n, count);
    else if (!fe_is_poison(v))
        refuse_iter(cx, iter, v);
}

/* ---- while -------------------------------------------------------------- */

/* At the top level a while is evaluated iteration by iteration. */
static void
evaluate_while(Lower *cx, const AstNode *n, int64_t max)
{
    const AstNode *cond = n->while_.cond;
    FeLoop loop = begin_unrolled(cx, n->loc);
    Iteration t = {.node = n, .loop = &loop};
    bool goes_on;
    for (int64_t i = 0; i < limit_value(LIMIT_unroll); i++) {
        if (max && i == max)
            return;
        if (!fe_require_bool(cx, fe_eval(cx, cond), "the condition", cond->loc,
                             &goes_on) ||
            !goes_on || !unroll_iteration(cx, &t))
            return;
    }
    fe_report_limit(cx, n->loc, LIMIT_unroll);
}

/* The limit of `while c max N`: 0 when there is none. */
static bool
while_max(Lower *cx, const AstNode *limit, int64_t *max)
{
    *max = 0;
    if (!limit)
        return true;
    if (!fe_require_int(cx, fe_eval(cx, limit), "the limit of a while",
                        limit->loc, max))
        return false;
    if (*max > 0)
        return true;
    fe_error(cx, limit->loc, "the limit of a while is at least 1");
    return false;
}

void
fe_exec_while(Lower *cx, const AstNode *n)
{
    int64_t max;
    if (!while_max(cx, n->while_.max, &max))
        return;
    if (cx->block)
        fe_loop_while(cx, n, max);
    else
        evaluate_while(cx, n, max);
}
