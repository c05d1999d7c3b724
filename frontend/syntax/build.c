/*
 * build.c - nodes, and the checks that a grammar would say badly
 *
 * The grammar takes any expression as the target of an assignment and any word
 * as a clause of a variable; errors in them are reported here, in the words of
 * the user, and parsing goes on.
 */
#include "frontend/syntax/parse_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "ir/ops/op.h"
#include "ir/words.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

/* Where the first line of a place ends. */
static uint32_t
end_of_line(const FeParser *ps, FePlace place)
{
    if (place.line == place.end_line)
        return place.end;
    const char *from = ps->text + place.start;
    const char *newline = memchr(from, '\n', place.end - place.start);
    return newline ? (uint32_t)(newline - ps->text) : place.end;
}

Loc
fe_loc(const FeParser *ps, FePlace place)
{
    uint32_t len = end_of_line(ps, place) - place.start;
    return (Loc){.line = place.line,
                 .col = place.col,
                 .len = len < UINT16_MAX ? (uint16_t)len : UINT16_MAX,
                 .file = ps->file};
}

static int
depth_of(const AstNode *n)
{
    int depth = 0;
    AstNode *child;
    for (AstIter it = fe_ast_children(n); (child = fe_ast_next_child(&it));)
        if (child->depth > depth)
            depth = child->depth;
    return depth + 1;
}

AstNode *
fe_node(FeParser *ps, FePlace place, AstNode from)
{
    AstNode *n = NEW(ps->arena, AstNode);
    int depth = depth_of(&from);
    if (depth > AST_MAX_DEPTH) {
        fe_too_deep(ps, place);
        from = (AstNode){.kind = AST_NONE};
        depth = 1;
    }
    *n = from;
    n->loc = fe_loc(ps, place);
    n->depth = (uint16_t)depth;
    return n;
}

AstList
fe_list(FeParser *ps, AstNode *first)
{
    return fe_append(ps, (AstList){0}, first);
}

AstList
fe_append(FeParser *ps, AstList list, AstNode *next)
{
    VEC_PUSH(ps->arena, list, next);
    return list;
}

AstList
fe_append_formal(FeParser *ps, FePlace place, AstList list, AstNode *next)
{
    const char *name = next->formal.name;
    if (list.len == limit_value(LIMIT_parameters))
        fe_syntax_limit(ps, place, LIMIT_parameters);
    if (ps->stopped)
        return list;
    for (int i = 0; i < list.len; i++)
        if (list.data[i]->formal.name == name && strcmp(name, "_") != 0)
            diag_error(ps->diag, next->loc,
                       "the parameter \"%s\" is there twice", name);
    return fe_append(ps, list, next);
}

AstList
fe_prepend(FeParser *ps, AstNode *first, AstList rest)
{
    VEC_PUSH(ps->arena, rest, first);
    memmove(rest.data + 1, rest.data, (size_t)(rest.len - 1) * sizeof first);
    rest.data[0] = first;
    return rest;
}

static void
error_at(FeParser *ps, const AstNode *n, const char *message)
{
    if (!ps->stopped)
        diag_error(ps->diag, n->loc, "%s", message);
}

void
fe_expect_word(FeParser *ps, FePlace place, const char *word,
               const char *expected)
{
    if (strcmp(word, expected) != 0)
        fe_syntax_error(ps, place, "expected %s, not \"%.40s\"", expected,
                        word);
}

/* ---- expressions -------------------------------------------------------- */

static bool
is_comparison(AstOp op)
{
    return op >= AST_OP_EQ && op <= AST_OP_GE;
}

AstNode *
fe_make_binary(FeParser *ps, FePlace place, AstOp op, AstNode *left,
               AstNode *right)
{
    if (is_comparison(op) && left->kind == AST_BINARY && !left->in_parens &&
        is_comparison(left->binary.op)) {
        fe_syntax_error(ps, place, "comparisons are not chained");
        fe_note(ps, place, "write a < b and b < c, or put one in parentheses");
    }
    return FE_NODE(ps, place, BINARY, binary, op, left, right);
}

AstNode *
fe_element(FeParser *ps, FePlace place, AstNode *value, const char *index,
           FePlace index_place)
{
    errno = 0;
    long long i = strtoll(index, NULL, 10);
    if (errno || i > INT32_MAX) {
        fe_syntax_error(ps, index_place, "no tuple has so many elements");
        i = 0;
    }
    return FE_NODE(ps, place, ELEMENT, element, value, i);
}

AstList
fe_add_arg(FeParser *ps, AstList args, AstNode *arg)
{
    if (VEC_LAST(args)->kind == AST_NAMED && arg->kind != AST_NAMED)
        error_at(ps, arg,
                 "arguments without a name stand before those with "
                 "one");
    return fe_append(ps, args, arg);
}

/* ---- statements --------------------------------------------------------- */

static bool is_target(FeParser *ps, const AstNode *n);

static bool
are_targets(FeParser *ps, AstList items)
{
    for (int i = 0; i < items.len; i++)
        if (!is_target(ps, items.data[i]))
            return false;
    return items.len > 0;
}

static bool
is_target(FeParser *ps, const AstNode *n)
{
    return n->kind == AST_NAME || n->kind == AST_INDEX ||
           n->kind == AST_FIELD ||
           (n->kind == AST_TUPLE && are_targets(ps, n->tuple.items));
}

AstNode *
fe_make_assign(FeParser *ps, FePlace place, AstOp op, AstNode *target,
               AstNode *value)
{
    if (!is_target(ps, target) && !ps->stopped)
        diag_error(ps->diag, target->loc, "cannot assign to %s",
                   target->kind == AST_TUPLE ? "this tuple"
                                             : fe_ast_describe(target));
    else if (target->kind == AST_TUPLE && op != AST_OP_NONE)
        error_at(ps, target, "a tuple can only be assigned with =");
    return FE_NODE(ps, place, ASSIGN, assign, op, target, value);
}

/* The operand in the parentheses of `non_slot(vars)`, else NULL. */
static AstNode *
non_slot_vars(FeParser *ps, AstNode *target)
{
    if (target->kind != AST_CALL || target->call.callee->kind != AST_NAME ||
        strcmp(target->call.callee->name.text, "non_slot") != 0)
        return NULL;
    AstList args = target->call.args;
    if (args.len == 1 && args.data[0]->kind != AST_NAMED)
        return args.data[0];
    error_at(ps, target, "update non_slot takes one list of variables");
    return target;
}

AstNode *
fe_make_update(FeParser *ps, FePlace place, AstNode *target, AstNode *body)
{
    AstNode *vars = non_slot_vars(ps, target);
    if (!vars && !is_target(ps, target) && target->kind != AST_ELEMENT)
        error_at(ps, target, "update takes a variable");
    return FE_NODE(ps, place, UPDATE, update, vars ? vars : target,
                   vars != NULL, body);
}

/* ---- declarations ------------------------------------------------------- */

AstNode *
fe_use(FeParser *ps, FePlace place, AstList modules)
{
    for (int i = 0; i < modules.len; i++)
        if (modules.data[i]->kind == AST_STRING &&
            !fe_ast_string_text(modules.data[i]))
            error_at(ps, modules.data[i], "the name of a file has no {holes}");
    return FE_NODE(ps, place, USE, use, modules);
}

AstNode *
fe_colocate(FeParser *ps, FePlace place, AstNode *target, AstList members)
{
    for (int i = 0; i < members.len; i++)
        if (members.data[i]->kind != AST_VAR)
            error_at(ps, members.data[i],
                     "a colocate block holds only variables");
    return FE_NODE(ps, place, COLOCATE, colocate, target, members);
}

/* ---- the clauses of a variable ------------------------------------------ */

/* The position in words of the word that n is, or -1. */
static int
find_word(const AstNode *n, const char *const *words)
{
    const char *text = n->kind == AST_NONE   ? "none"
                       : n->kind == AST_NAME ? n->name.text
                                             : "";
    return ir_word_index(words, text, strlen(text));
}

static bool
is_sync(const AstNode *n)
{
    return find_word(n, ir_sync_words) >= 0;
}

static bool
is_aggregate(const AstNode *n)
{
    int i = find_word(n, ir_words[WORDS_AGG]);
    return i >= 0 && (IR_VAR_AGGS >> i & 1);
}

static bool
is_anything(const AstNode *n)
{
    return n->kind != AST_NAMED;
}

static bool
is_trainable(const AstNode *n)
{
    return n->kind == AST_BOOL;
}

static bool
is_partition(const AstNode *n)
{
    static const char *const words[] = {"fixed", "min_size", "max_size", NULL};
    return n->kind == AST_CALL && find_word(n->call.callee, words) >= 0;
}

typedef struct Clause {
    const char *name;
    size_t field; /* of AstNode.var, where a node goes */
    bool (*fits)(const AstNode *arg);
    const char *takes;
} Clause;

#define VAR_FIELD(name) offsetof(AstNode, var.name)

static const Clause clause_info[] = {
    {"sync", VAR_FIELD(sync), is_sync, "auto, none, on_write or on_read"},
    {"aggregate", VAR_FIELD(aggregate), is_aggregate,
     "none, sum, mean or first"},
    {"colocate", VAR_FIELD(colocate), is_anything, "a variable"},
    {"trainable", VAR_FIELD(trainable), is_trainable, "true or false"},
    {"partition", VAR_FIELD(partition), is_partition,
     "fixed(n), min_size(bytes, max) or max_size(bytes, max)"},
    {"on", VAR_FIELD(on), is_anything, "a server, as \"ps:0\""},
};

bool
fe_is_clause(const char *name)
{
    for (int i = 0; i < COUNT(clause_info); i++)
        if (strcmp(name, clause_info[i].name) == 0)
            return true;
    return strcmp(name, "outside") == 0;
}

static void
unknown_clause(FeParser *ps, const AstNode *clause, const char *name)
{
    const char *names[COUNT(clause_info) + 1] = {"outside"};
    for (int i = 0; i < COUNT(clause_info); i++)
        names[i + 1] = clause_info[i].name;
    const char *nearest = nearest_name(name, names, COUNT(names));
    if (ps->stopped)
        return;
    diag_error(ps->diag, clause->loc, "a variable has no clause \"%.40s\"",
               name);
    if (nearest)
        diag_note(ps->diag, clause->loc, "did you mean the clause %s?",
                  nearest);
}

/* The word that a clause takes and arg may be a slip of. */
static void
note_word(FeParser *ps, const Clause *info, const AstNode *arg)
{
    const char *words[8];
    int n = 0;
    for (const char *at = info->takes; *at && n < COUNT(words);) {
        size_t len = strcspn(at, ", ");
        words[n++] = arena_strndup(ps->arena, at, len);
        at += len + strspn(at + len, ", ");
    }
    const char *near =
        arg->kind == AST_NAME ? nearest_name(arg->name.text, words, n) : NULL;
    if (near && strchr(info->takes, ','))
        diag_note(ps->diag, arg->loc, "write %s(%s)", info->name, near);
}

/* The argument of a clause, or NULL after an error. */
static AstNode *
clause_arg(FeParser *ps, const Clause *info, const AstNode *clause)
{
    bool is_call = clause->kind == AST_CALL;
    if (is_call && clause->call.args.len == 1 &&
        info->fits(clause->call.args.data[0]))
        return clause->call.args.data[0];
    if (ps->stopped)
        return NULL;
    diag_error(ps->diag, clause->loc, "%s takes %s", info->name, info->takes);
    if (is_call && clause->call.args.len == 1)
        note_word(ps, info, clause->call.args.data[0]);
    return NULL;
}

static void
add_clause(FeParser *ps, AstNode *var, const AstNode *clause)
{
    const AstNode *word =
        clause->kind == AST_CALL ? clause->call.callee : clause;
    const char *name = word->kind == AST_NAME ? word->name.text : "";
    if (strcmp(name, "outside") == 0) {
        if (clause->kind == AST_CALL)
            error_at(ps, clause, "outside stands without parentheses");
        var->var.outside = true;
        return;
    }
    for (int i = 0; i < COUNT(clause_info); i++) {
        const Clause *info = &clause_info[i];
        AstNode **field = (AstNode **)((char *)var + info->field);
        if (strcmp(name, info->name) != 0)
            continue;
        if (*field)
            error_at(ps, clause, "this clause stands here twice");
        *field = clause_arg(ps, info, clause);
        return;
    }
    unknown_clause(ps, clause, name);
}

AstNode *
fe_var(FeParser *ps, FePlace place, AstNode from, AstList clauses)
{
    for (int i = 0; i < clauses.len; i++)
        add_clause(ps, &from, clauses.data[i]);
    return fe_node(ps, place, from);
}
