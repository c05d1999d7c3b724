/*
 * explain_inserted.c - the operations that passes inserted, and why
 *
 * Every operation with a reason is counted, at any depth: in branches, loops
 * and kernels, and in the variants for full batches.  Operations with the same
 * rule, source line and cause are one line of the page.  Causes that differ
 * only in a quoted name count as the same, with all the names.  Collectives
 * come first, by themselves; a start and its done share a line.
 */
#include <stdlib.h>
#include <string.h>
#include "ir/base/str.h"
#include "ir/ir.h"
#include "ir/segments.h"
#include "ir/type_bounds.h"
#include "passes/explain.h"

typedef struct KindCount {
    IrOpKind kind;
    int count;
} KindCount;

/* The operations of one line of the page. */
typedef struct Line {
    const IrReason *reason;    /* of the first of them */
    const char *program;       /* of collectives: where; else NULL */
    int num, num_full;         /* of all, and of those in variants */
    int64_t bytes, full_bytes; /* outside of variants, and in them */
    bool moves;
    VEC(KindCount) kinds;
    Map *names; /* quoted in the causes, each once, as a set */
} Line;

typedef VEC(Line *) Lines;

typedef struct Inserted {
    Arena *a;
    const IrModule *m;
    const IrFunc *fn; /* the current one */
    Lines collectives, others;
    Map *by_key; /* lines of both */
} Inserted;

/* ---- bytes -------------------------------------------------------------- */

static int64_t
bytes_of(const IrModule *m, IrValue *const *values, int num)
{
    int64_t sum = 0, n = 0;
    for (int i = 0; i < num; i++)
        sum += ir_type_bytes(m, &values[i]->type, &n) ? n : 0;
    return sum;
}

static bool
is_collective(const IrOp *op)
{
    return ir_op_info[op->kind].effect == COLLECTIVE && op->kind != OP_launch;
}

static bool
is_same_place(const IrPlace *a, const IrPlace *b)
{
    return a->space == b->space && a->offset == b->offset;
}

/* A read or write of a value that is in the variable's place moves nothing. */
static int64_t
variable_bytes(const IrModule *m, const IrOp *op)
{
    IrValue *const *v = op->kind == OP_read ? op->results : op->operands;
    const IrVar *var = ir_var_find(m, ir_text(op, A_var));
    return is_same_place(&v[0]->place, &var->place) ? 0 : bytes_of(m, v, 1);
}

/* Whether op moves values to another device, to or from the host, or within a
 * memory; values inside kernels are in registers. */
static bool
is_move(const IrOp *op)
{
    IrEffect e = ir_op_info[op->kind].effect;
    return e == COLLECTIVE || e == HOST || op->kind == OP_read ||
           op->kind == OP_write ||
           ((op->kind == OP_kernel || op->kind == OP_copy) &&
            !ir_is_in_kernel(op));
}

/* The bytes that op moves each time it runs.  A done waits for the bytes of its
 * start. */
static int64_t
bytes_moved(const IrModule *m, const IrOp *op)
{
    if (!is_move(op) || ir_op_is_done(op->kind))
        return 0;
    if (op->kind == OP_read || op->kind == OP_write)
        return variable_bytes(m, op);
    if (op->kind == OP_kernel || op->kind == OP_copy)
        return bytes_of(m, op->results, op->num_results);
    if (ir_op_info[op->kind].effect == COLLECTIVE || op->kind == OP_fetch)
        return bytes_of(m, op->operands, op->num_operands);
    return bytes_of(m, op->operands, op->num_operands) +
           bytes_of(m, op->results, op->num_results);
}

/* ---- collecting --------------------------------------------------------- */

/* The name quoted in a cause: its length, and *name where it begins; 0 for
 * none. */
static size_t
quoted(const char *cause, const char **name)
{
    const char *open = strchr(cause, '"');
    const char *end = open ? strchr(open + 1, '"') : NULL;
    *name = end ? open + 1 : cause;
    return end ? (size_t)(end - open - 1) : 0;
}

/* The key that the operations of a line share: collectives include their
 * program. */
static const char *
key_of(const Inserted *in, const IrReason *r, const char *program)
{
    const char *name;
    size_t n = quoted(r->cause, &name);
    return arena_printf(in->a, "%s %u:%u:%u %s %.*s\"%s", r->rule, r->loc.file,
                        r->loc.line, r->loc.col, program ? program : "",
                        (int)(name - r->cause), r->cause, name + n);
}

static Line *
find_line(Inserted *in, const IrReason *r, const char *program)
{
    const char *key = key_of(in, r, program);
    Line *l = map_get(in->by_key, key);
    if (l)
        return l;
    l = NEW(in->a, Line);
    l->reason = r;
    l->program = program;
    l->names = map_new(in->a);
    map_set(in->by_key, key, l);
    if (program)
        VEC_PUSH(in->a, in->collectives, l);
    else
        VEC_PUSH(in->a, in->others, l);
    return l;
}

static Line *
line_of(Inserted *in, const IrOp *op)
{
    const IrFunc *fn = in->fn;
    if (!is_collective(op))
        return find_line(in, op->reason, NULL);
    return find_line(in, op->reason,
                     fn->variant_of ? fn->variant_of : fn->name);
}

static void
count_kind(Inserted *in, Line *l, IrOpKind kind)
{
    for (int i = 0; i < l->kinds.len; i++)
        if (l->kinds.data[i].kind == kind) {
            l->kinds.data[i].count++;
            return;
        }
    KindCount first = {kind, 1};
    VEC_PUSH(in->a, l->kinds, first);
}

static void
note_name(Inserted *in, Line *l, const char *cause)
{
    const char *at;
    size_t n = quoted(cause, &at);
    if (n)
        map_set(l->names, arena_strndup(in->a, at, n), l);
}

static void
note_op(IrOp *op, void *data)
{
    Inserted *in = data;
    if (!op->reason)
        return;
    Line *l = line_of(in, op);
    bool full = in->fn->variant_of != NULL;
    l->num++;
    l->num_full += full;
    l->moves |= is_move(op);
    *(full ? &l->full_bytes : &l->bytes) += bytes_moved(in->m, op);
    count_kind(in, l, op->kind);
    note_name(in, l, op->reason->cause);
}

/* ---- names -------------------------------------------------------------- */

/* Whether the line has all variables, at least two, whose names begin with
 * these n bytes. */
static bool
has_all_of(const IrModule *m, const Line *l, const char *prefix, size_t n)
{
    int num = 0;
    for (int i = 0; i < m->vars.len; i++) {
        const char *name = m->vars.data[i]->name;
        if (strncmp(name, prefix, n) != 0)
            continue;
        if (!map_get(l->names, name))
            return false;
        num++;
    }
    return num > 1;
}

/* The shortest prefix of name up to a dot for which the line has all variables;
 * the whole name if there is none. */
static size_t
covering(const IrModule *m, const Line *l, const char *name)
{
    for (const char *dot = name; (dot = strchr(dot, '.')); dot++)
        if (has_all_of(m, l, name, (size_t)(dot - name) + 1))
            return (size_t)(dot - name) + 1;
    return strlen(name);
}

static bool
is_covered_before(const Line *l, int i, size_t n)
{
    const char *name = map_key(l->names, i);
    for (int k = 0; k < i && name[n]; k++)
        if (!strncmp(map_key(l->names, k), name, n))
            return true;
    return false;
}

/* "w", "b"; or "net.*" for all variables of net. */
static void
add_names(Str *out, const IrModule *m, const Line *l)
{
    const char *between = "";
    for (int i = 0; i < map_count(l->names); i++) {
        const char *name = map_key(l->names, i);
        size_t n = covering(m, l, name);
        if (is_covered_before(l, i, n))
            continue;
        str_addf(out, "%s\"%.*s%s\"", between, (int)n, name,
                 name[n] ? "*" : "");
        between = ", ";
    }
}

static void
add_cause(Str *out, const IrModule *m, const Line *l)
{
    const char *cause = l->reason->cause, *name;
    size_t n = quoted(cause, &name);
    if (n == 0) {
        str_add(out, cause);
        return;
    }
    str_addn(out, cause, (size_t)(name - 1 - cause));
    add_names(out, m, l);
    str_add(out, name + n + 1);
}

/* ---- the page ----------------------------------------------------------- */

static void
add_full(Str *out, int num_full)
{
    if (num_full)
        str_addf(out, " (%d for full batches)", num_full);
}

static void
add_line(Str *out, const IrModule *m, const Line *l)
{
    const IrReason *r = l->reason;
    str_addf(out, "  %s:%u:%u  ", diag_source_name(m->diag, r->loc.file),
             r->loc.line, r->loc.col);
    for (int i = 0; i < l->kinds.len; i++)
        str_addf(out, "%s%d %s", i ? ", " : "", l->kinds.data[i].count,
                 ir_op_info[l->kinds.data[i].kind].name);
    add_full(out, l->num_full);
    int64_t bytes = l->num > l->num_full ? l->bytes : l->full_bytes;
    if (l->moves)
        str_addf(out, ", %lld bytes", (long long)bytes);
    if (l->program)
        str_addf(out, " in @%s, by %s", l->program, r->rule);
    str_add(out, ": ");
    add_cause(out, m, l);
    str_addc(out, '\n');
}

static int
compare_numbers(unsigned a, unsigned b)
{
    return (a > b) - (a < b);
}

/* By rule, then by source line. */
static int
compare_lines(const void *x, const void *y)
{
    const IrReason *a = (*(Line *const *)x)->reason;
    const IrReason *b = (*(Line *const *)y)->reason;
    int order = strcmp(a->rule, b->rule);
    if (!order)
        order = compare_numbers(a->loc.file, b->loc.file);
    if (!order)
        order = compare_numbers(a->loc.line, b->loc.line);
    if (!order)
        order = compare_numbers(a->loc.col, b->loc.col);
    return order ? order : strcmp(a->cause, b->cause);
}

typedef struct Sum {
    int num, num_full;
} Sum;

static void
add_to_sum(Sum *sum, const Lines *lines, int begin, int end)
{
    for (int i = begin; i < end; i++) {
        sum->num += lines->data[i]->num;
        sum->num_full += lines->data[i]->num_full;
    }
}

static void
add_sum(Str *out, const char *what, Sum sum)
{
    str_addf(out, "\n%s: %d operation%s", what, sum.num,
             sum.num == 1 ? "" : "s");
    add_full(out, sum.num_full);
    str_addc(out, '\n');
}

/* A heading with the number of operations in lines begin to end. */
static void
add_heading(Str *out, const char *what, const Lines *lines, int begin, int end)
{
    Sum sum = {0};
    add_to_sum(&sum, lines, begin, end);
    add_sum(out, what, sum);
}

static int
end_of_rule(const Lines *lines, int begin)
{
    int end = begin;
    while (end < lines->len && !strcmp(lines->data[end]->reason->rule,
                                       lines->data[begin]->reason->rule))
        end++;
    return end;
}

static void
add_rules(Str *out, const IrModule *m, Lines *lines)
{
    if (lines->len)
        qsort(lines->data, (size_t)lines->len, sizeof *lines->data,
              compare_lines);
    for (int begin = 0, end; begin < lines->len; begin = end) {
        end = end_of_rule(lines, begin);
        const char *rule = lines->data[begin]->reason->rule;
        add_heading(out, rule, lines, begin, end);
        for (int i = begin; i < end; i++)
            add_line(out, m, lines->data[i]);
    }
}

static void
add_collectives(Str *out, const IrModule *m, const Lines *lines)
{
    if (lines->len)
        add_heading(out, "collectives", lines, 0, lines->len);
    for (int i = 0; i < lines->len; i++)
        add_line(out, m, lines->data[i]);
}

static void
add_total(Str *out, const Inserted *in)
{
    Sum sum = {0};
    add_to_sum(&sum, &in->collectives, 0, in->collectives.len);
    add_to_sum(&sum, &in->others, 0, in->others.len);
    add_sum(out, "inserted", sum);
    if (sum.num)
        str_add(out, "  bytes are those moved when each of a line runs once");
    if (sum.num_full)
        str_add(out,
                "; a variant for full batches runs in its program's place");
    if (sum.num)
        str_addc(out, '\n');
}

void
pass_explain_inserted(Str *out, const IrModule *m)
{
    Arena *a = arena_new(NULL, "explaining what was inserted");
    Inserted in = {.a = a, .m = m, .by_key = map_new(a)};
    for (in.fn = m->first; in.fn; in.fn = in.fn->next)
        ir_walk(in.fn->body, note_op, &in);
    add_total(out, &in);
    add_collectives(out, m, &in.collectives);
    add_rules(out, m, &in.others);
    arena_release(a);
}
