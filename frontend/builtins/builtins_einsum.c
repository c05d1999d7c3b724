/*
 * builtins_einsum.c - sums of products, by letters for axes
 *
 *   einsum("bqd,bkd->bqk", q, k)
 *
 * Nothing of this is left in the IR: an equation becomes reductions, products
 * and contractions of two values at a time.
 *
 *   1. Axes of one value with one letter become its diagonal.
 *   2. What only one value has, and the result has not, is summed.
 *   3. While there are two values, the two whose product makes the least of
 *      what they are become one: letters that no other value has are
 * contracted, others that both have run along.
 *   4. The axes are put in order.
 *
 * Letters that are in the equation for "..." are made up: one an axis, counted
 * from the right, so that shapes broadcast as in NumPy.
 */
#include "frontend/builtins/builtins.h"
#include "frontend/context/messages.h"
#include "frontend/emit/operand.h"
#include "frontend/emit/require_const.h"
#include "frontend/emit/shape_ops.h"
#include "frontend/lower/call.h"
#include "ir/type_bounds.h"
#include "ir/type_text.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

enum {
    MAX_TERMS = 32,
    FIRST_DOT = 128, /* the label of the last axis of "..."; then leftwards */
    NUM_LABELS = FIRST_DOT + IR_MAX_RANK
};

/* The labels of a value's axes. */
typedef struct Labels {
    int len;
    unsigned char at[IR_MAX_RANK];
} Labels;

typedef struct Term {
    IrValue *value; /* NULL after an error */
    Labels labels;
} Term;

typedef struct Einsum {
    Lower *cx;
    Loc loc; /* of the call */
    Loc text_loc;
    const char *text;
    bool is_literal; /* text_loc is where the text stands, in quotes */
    int num_terms;
    Term terms[MAX_TERMS];
    Labels result;
    Dim sizes[NUM_LABELS];
    bool is_sized[NUM_LABELS];
    int num_dots; /* axes that "..." stands for, in all */
} Einsum;

static bool
has(const Labels *l, int label)
{
    return l->len && memchr(l->at, label, (size_t)l->len);
}

static int
axis_of(const Labels *l, int label)
{
    const unsigned char *at = memchr(l->at, label, (size_t)l->len);
    return (int)(at - l->at);
}

static void
push(Labels *l, int label)
{
    l->at[l->len++] = (unsigned char)label;
}

/* "j", or "...": for messages. */
static const char *
label_text(Einsum *s, int label)
{
    return label >= FIRST_DOT ? "..." : fe_format(s->cx, "%c", label);
}

/* ---- reading the equation ----------------------------------------------- */

/* The part of the text from at on. */
static Loc
part_loc(const Einsum *s, const char *at, size_t len)
{
    Loc loc = s->text_loc;
    if (!s->is_literal)
        return loc;
    loc.col = (uint16_t)(loc.col + 1 + (at - s->text));
    loc.len = (uint16_t)(len ? len : 1);
    return loc;
}

static const char *
skip_spaces(const char *p)
{
    return p + strspn(p, " ");
}

/* A row of letters of a value, or of the result. */
typedef struct Row {
    const char *at;
    size_t len;
    int num_letters;
    int num_before; /* letters before the dots; -1: no dots */
    unsigned char letters[IR_MAX_RANK];
} Row;

static bool
read_letter(Einsum *s, Row *row, const char *p)
{
    if (!isalpha((unsigned char)*p)) {
        fe_error_note(s->cx, part_loc(s, p, 1),
                      "an equation is of letters, commas, \"...\" and \"->\", "
                      "as in \"ij,jk->ik\"",
                      "\"%c\" is no letter for an axis", *p);
        return false;
    }
    if (row->num_letters == IR_MAX_RANK) {
        fe_error(s->cx, part_loc(s, p, 1), "more than %d axes", IR_MAX_RANK);
        return false;
    }
    row->letters[row->num_letters++] = (unsigned char)*p;
    return true;
}

/* Up to a comma, an arrow or the end. */
static bool
read_row(Einsum *s, const char *p, Row *row)
{
    *row = (Row){.at = skip_spaces(p), .num_before = -1};
    for (p = row->at; *p && *p != ',' && strncmp(p, "->", 2) != 0;) {
        if (strncmp(p, "...", 3) == 0 && row->num_before < 0) {
            row->num_before = row->num_letters;
            p += 3;
        } else if (strncmp(p, "...", 3) == 0) {
            fe_error(s->cx, part_loc(s, p, 3), "a second \"...\" of one value");
            return false;
        } else if (read_letter(s, row, p)) {
            p++;
        } else {
            return false;
        }
        row->len = (size_t)(p - row->at);
        p = skip_spaces(p);
    }
    return true;
}

static const char *
row_end(const Row *row)
{
    return skip_spaces(row->at + row->len);
}

/* The labels of a row for a value of that rank. */
static bool
spread_row(Einsum *s, const Row *row, int rank, Labels *out)
{
    int dots = rank - row->num_letters;
    if (dots < 0 || (dots > 0 && row->num_before < 0)) {
        fe_error(s->cx, part_loc(s, row->at, row->len),
                 "\"%.*s\" has %d letter%s for a value of %d dimension%s",
                 (int)row->len, row->at, row->num_letters,
                 row->num_letters == 1 ? "" : "s", rank, rank == 1 ? "" : "s");
        return false;
    }
    out->len = 0;
    for (int i = 0; i <= row->num_letters; i++) {
        for (int k = dots - 1; i == row->num_before && k >= 0; k--)
            push(out, FIRST_DOT + k);
        if (i < row->num_letters)
            push(out, row->letters[i]);
    }
    if (row->num_before >= 0 && dots > s->num_dots)
        s->num_dots = dots;
    return true;
}

/* ---- sizes -------------------------------------------------------------- */

/* "3", "2*n": without the brackets of a shape. */
static const char *
dim_text(Einsum *s, Dim d)
{
    const char *text = ir_dims_text(s->cx->module, 1, &d);
    return fe_format(s->cx, "%.*s", (int)strlen(text) - 2, text + 1);
}

static bool
note_size(Einsum *s, const Row *row, int label, Dim d)
{
    Dim *size = &s->sizes[label];
    bool dots = label >= FIRST_DOT;
    if (!s->is_sized[label] || (dots && ir_dim_equal(*size, ir_dim_const(1))))
        *size = d;
    s->is_sized[label] = true;
    if (ir_dim_equal(*size, d) || (dots && ir_dim_equal(d, ir_dim_const(1))))
        return true;
    fe_error(s->cx, part_loc(s, row->at, row->len),
             "\"%s\" is %s here and %s before", label_text(s, label),
             dim_text(s, d), dim_text(s, *size));
    return false;
}

static bool
read_term(Einsum *s, const Row *row, Term *t)
{
    const IrType *type = &t->value->type;
    if (!spread_row(s, row, type->rank, &t->labels))
        return false;
    for (int i = 0; i < type->rank; i++)
        if (!note_size(s, row, t->labels.at[i], type->dims[i]))
            return false;
    return true;
}

/* ---- the result --------------------------------------------------------- */

static int
count_label(const Einsum *s, int label)
{
    int count = 0;
    for (int t = 0; t < s->num_terms; t++)
        for (int i = 0; i < s->terms[t].labels.len; i++)
            count += s->terms[t].labels.at[i] == label;
    return count;
}

/* "..." and the letters that are there once, in the alphabet's order. */
static bool
imply_result(Einsum *s)
{
    Row row = {.at = s->text, .len = strlen(s->text), .num_before = 0};
    for (int c = 0; c < FIRST_DOT; c++) {
        if (count_label(s, c) != 1)
            continue;
        if (!fe_check_rank(s->cx, row.num_letters + 1, s->text_loc))
            return false;
        row.letters[row.num_letters++] = (unsigned char)c;
    }
    return spread_row(s, &row, row.num_letters + s->num_dots, &s->result);
}

static bool
check_result(Einsum *s, const Row *row)
{
    for (int i = 0; i < row->num_letters; i++) {
        int c = row->letters[i];
        bool twice = memchr(row->letters, c, (size_t)i);
        Loc loc = part_loc(s, row->at, row->len);
        if (!s->is_sized[c])
            fe_error(s->cx, loc, "\"%c\" is in no value", c);
        else if (twice)
            fe_error(s->cx, loc, "\"%c\" is twice in the result", c);
        if (twice || !s->is_sized[c])
            return false;
    }
    if (s->num_dots && row->num_before < 0) {
        fe_error_note(s->cx, part_loc(s, row->at, row->len),
                      "write \"...\" there too, or sum over these axes first",
                      "the result has no place for the axes of \"...\"");
        return false;
    }
    return true;
}

static bool
read_result(Einsum *s, const char *arrow)
{
    Row row;
    if (!*arrow)
        return imply_result(s);
    if (!read_row(s, arrow + 2, &row) || !check_result(s, &row))
        return false;
    if (*row_end(&row)) {
        fe_error(s->cx, part_loc(s, row_end(&row), 1),
                 "an equation has one result");
        return false;
    }
    if (!fe_check_rank(s->cx, row.num_letters + s->num_dots,
                       part_loc(s, row.at, row.len)))
        return false;
    return spread_row(s, &row, row.num_letters + s->num_dots, &s->result);
}

static bool
read_equation(Einsum *s)
{
    const char *p = s->text;
    for (int i = 0; i < s->num_terms; i++) {
        Row row;
        if (!read_row(s, p, &row) || !read_term(s, &row, &s->terms[i]))
            return false;
        p = row_end(&row);
        bool last = i == s->num_terms - 1;
        if (last != (*p != ',')) {
            fe_error(s->cx, s->text_loc,
                     "the equation has %s values than the %d given",
                     last ? "more" : "fewer", s->num_terms);
            return false;
        }
        p += !last;
    }
    return read_result(s, p);
}

/* ---- one value ---------------------------------------------------------- */

/* t's value under other labels, of the sizes that they have. */
static void
relabel(Einsum *s, Term *t, const Labels *labels)
{
    Dim dims[IR_MAX_RANK];
    for (int i = 0; i < labels->len; i++)
        dims[i] = s->sizes[labels->at[i]];
    if (t->value)
        t->value =
            fe_tensor(fe_reshape(s->cx, t->value, labels->len, dims, s->loc));
    t->labels = *labels;
}

/* Without axes of 1 of "..." that are longer elsewhere. */
static void
drop_short_dots(Einsum *s, Term *t)
{
    Labels kept = {0};
    for (int i = 0; i < t->labels.len; i++) {
        int label = t->labels.at[i];
        if (ir_dim_equal(t->value->type.dims[i], s->sizes[label]))
            push(&kept, label);
    }
    if (kept.len < t->labels.len)
        relabel(s, t, &kept);
}

static void
sum_axis(Einsum *s, Term *t, int axis)
{
    FeAxes axes = {{axis}, 1};
    if (t->value)
        t->value = fe_tensor(
            fe_reduce_axes(s->cx, OP_sum, t->value, &axes, false, s->loc));
    t->labels.len--;
    memmove(t->labels.at + axis, t->labels.at + axis + 1,
            (size_t)(t->labels.len - axis));
}

static FeValue *
emit_iota_along(Einsum *s, const IrType *t, int axis)
{
    Dim dims[IR_MAX_RANK];
    for (int i = 0; i < t->rank; i++)
        dims[i] = i == axis ? t->dims[i] : ir_dim_const(1);
    IrOp *op = fe_op(s->cx, OP_iota, 0, NULL, s->loc);
    ir_set_dims(op, A_dims, dims, t->rank);
    ir_set_int(op, A_dtype, DT_i64);
    ir_set_int(op, A_axis, axis);
    return fe_emit(s->cx, op);
}

/* Axes i and j are one: elements off the diagonal become 0, and the axis is
 * summed. */
static void
take_diagonal(Einsum *s, Term *t, int i, int j)
{
    Lower *cx = s->cx;
    if (t->value) {
        IrValue *x = t->value;
        FeValue *row = emit_iota_along(s, &x->type, i);
        FeValue *column = emit_iota_along(s, &x->type, j);
        FeValue *on = fe_op2(cx, OP_eq, row, column, s->loc);
        Scalar zero = scalar_cast(scalar_int(DT_i64, 0), x->type.dtype);
        t->value =
            fe_tensor(fe_op3(cx, OP_where, on, fe_value_tensor(cx->arena, x),
                             fe_value_scalar(cx->arena, zero), s->loc));
    }
    sum_axis(s, t, j);
}

static void
take_diagonals(Einsum *s, Term *t)
{
    for (int i = 0; i < t->labels.len; i++)
        for (int j = t->labels.len - 1; j > i; j--)
            if (t->labels.at[i] == t->labels.at[j])
                take_diagonal(s, t, i, j);
}

/* Whether the result or a value other than x and y has label. */
static bool
is_wanted(const Einsum *s, int label, const Term *x, const Term *y)
{
    for (int i = 0; i < s->num_terms; i++) {
        const Term *t = &s->terms[i];
        if (t != x && t != y && has(&t->labels, label))
            return true;
    }
    return has(&s->result, label);
}

static void
sum_own_axes(Einsum *s, Term *t)
{
    for (int i = t->labels.len - 1; i >= 0; i--)
        if (!is_wanted(s, t->labels.at[i], t, t))
            sum_axis(s, t, i);
}

static void
order_axes(Einsum *s, Term *t, const Labels *order)
{
    int64_t perm[IR_MAX_RANK];
    bool same = true;
    for (int i = 0; i < order->len; i++) {
        perm[i] = axis_of(&t->labels, order->at[i]);
        same = same && perm[i] == i;
    }
    t->labels = *order;
    if (same || !t->value)
        return;
    IrOp *op = fe_op(s->cx, OP_transpose, 1, &t->value, s->loc);
    ir_set_ints(op, A_perm, perm, order->len);
    t->value = fe_tensor(fe_emit(s->cx, op));
}

/* ---- two values --------------------------------------------------------- */

/* How x and y become one: labels of both that are contracted and that are
 * kept, and those of one alone. */
typedef struct Pair {
    Labels contract, batch, free_x, free_y;
} Pair;

static Pair
pair_of(const Einsum *s, const Term *x, const Term *y)
{
    Pair p = {0};
    for (int i = 0; i < x->labels.len; i++) {
        int label = x->labels.at[i];
        push(!has(&y->labels, label)     ? &p.free_x
             : is_wanted(s, label, x, y) ? &p.batch
                                         : &p.contract,
             label);
    }
    for (int i = 0; i < y->labels.len; i++)
        if (!has(&x->labels, y->labels.at[i]))
            push(&p.free_y, y->labels.at[i]);
    return p;
}

static int
pair_rank(const Pair *p)
{
    return p->batch.len + p->free_x.len + p->free_y.len;
}

static Labels
pair_labels(const Pair *p)
{
    const Labels *parts[] = {&p->batch, &p->free_x, &p->free_y};
    Labels all = {0};
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < parts[i]->len; k++)
            push(&all, parts[i]->at[k]);
    return all;
}

static void
set_axes(IrOp *op, IrAttrName name, const Labels *of, const Labels *wanted)
{
    int64_t axes[IR_MAX_RANK];
    for (int i = 0; i < wanted->len; i++)
        axes[i] = axis_of(of, wanted->at[i]);
    ir_set_ints(op, name, axes, wanted->len);
}

static IrValue *
contract(Einsum *s, const Term *x, const Term *y, const Pair *p)
{
    IrValue *operands[] = {x->value, y->value};
    IrOp *op = fe_op(s->cx, OP_dot, 2, operands, s->loc);
    set_axes(op, A_contract_x, &x->labels, &p->contract);
    set_axes(op, A_contract_y, &y->labels, &p->contract);
    if (p->batch.len) {
        set_axes(op, A_batch_x, &x->labels, &p->batch);
        set_axes(op, A_batch_y, &y->labels, &p->batch);
    }
    return fe_tensor(fe_emit(s->cx, op));
}

/* t with the axes of all, those that it has not being 1. */
static FeValue *
align(Einsum *s, Term t, const Labels *all)
{
    Labels own = {0};
    Dim dims[IR_MAX_RANK];
    for (int i = 0; i < all->len; i++) {
        bool mine = has(&t.labels, all->at[i]);
        dims[i] = mine ? s->sizes[all->at[i]] : ir_dim_const(1);
        if (mine)
            push(&own, all->at[i]);
    }
    order_axes(s, &t, &own);
    return t.value ? fe_reshape(s->cx, t.value, all->len, dims, s->loc)
                   : &fe_poison;
}

/* Nothing is summed: element by element. */
static IrValue *
multiply(Einsum *s, const Term *x, const Term *y, const Labels *all)
{
    FeValue *left = align(s, *x, all), *right = align(s, *y, all);
    return fe_tensor(fe_op2(s->cx, OP_mul, left, right, s->loc));
}

/* y goes into x. */
static bool
join(Einsum *s, Term *x, Term *y)
{
    Pair p = pair_of(s, x, y);
    if (pair_rank(&p) > IR_MAX_RANK) {
        fe_error(s->cx, s->text_loc,
                 "a product of two of the values has more than %d axes",
                 IR_MAX_RANK);
        return false;
    }
    Labels all = pair_labels(&p);
    x->value = p.contract.len ? contract(s, x, y, &p) : multiply(s, x, y, &all);
    x->labels = all;
    *y = s->terms[--s->num_terms];
    return x->value != NULL;
}

/* How many elements: at[d] * n^d, summed over d.  Every batch length is n, so
 * that the order of products is the same for all numbers of replicas. */
typedef struct Size {
    double at[IR_MAX_RANK + 1];
} Size;

static Size
size_of(const Einsum *s, const Labels *l)
{
    Size size = {{1}};
    for (int i = 0; i < l->len; i++) {
        Dim dim = s->sizes[l->at[i]];
        for (int d = i + 1; d >= 0; d--)
            size.at[d] = size.at[d] * (double)dim.c +
                         (d ? size.at[d - 1] * (double)dim.k : 0);
    }
    return size;
}

/* How many elements more a product has than its operands. */
static Size
growth(const Einsum *s, const Pair *p, const Term *x, const Term *y)
{
    Labels all = pair_labels(p);
    Size size = size_of(s, &all);
    Size of_x = size_of(s, &x->labels), of_y = size_of(s, &y->labels);
    for (int d = 0; d <= IR_MAX_RANK; d++)
        size.at[d] -= of_x.at[d] + of_y.at[d];
    return size;
}

/* A batch is longer than any constant: a matrix with two of its lengths, which
 * cannot be stored, is made only where all products are. */
static bool
is_less(const Size *x, const Size *y)
{
    for (int d = IR_MAX_RANK; d >= 0; d--)
        if (x->at[d] != y->at[d])
            return x->at[d] < y->at[d];
    return false;
}

/* The pair whose product grows least, the first of equal ones; of too many axes
 * only where all are. */
static void
best_pair(Einsum *s, int *best_x, int *best_y)
{
    Size least = {{0}};
    *best_x = *best_y = 0;
    for (int i = 0; i < s->num_terms; i++) {
        for (int j = i + 1; j < s->num_terms; j++) {
            const Term *x = &s->terms[i], *y = &s->terms[j];
            Pair p = pair_of(s, x, y);
            Size grown = {{0}};
            if (pair_rank(&p) <= IR_MAX_RANK)
                grown = growth(s, &p, x, y);
            else
                grown.at[IR_MAX_RANK] = INFINITY;
            if (*best_y && !is_less(&grown, &least))
                continue;
            least = grown;
            *best_x = i;
            *best_y = j;
        }
    }
}

/* ---- the call ----------------------------------------------------------- */

static FeValue *
lower(Einsum *s)
{
    for (int i = 0; i < s->num_terms; i++) {
        drop_short_dots(s, &s->terms[i]);
        take_diagonals(s, &s->terms[i]);
    }
    for (int i = 0; i < s->num_terms; i++)
        sum_own_axes(s, &s->terms[i]);
    while (s->num_terms > 1) {
        int x, y;
        best_pair(s, &x, &y);
        if (!join(s, &s->terms[x], &s->terms[y]))
            return &fe_poison;
    }
    order_axes(s, &s->terms[0], &s->result);
    return fe_value_tensor(s->cx->arena, s->terms[0].value);
}

static bool
read_values(Einsum *s, const FeCall *call)
{
    FeValue *values[MAX_TERMS];
    IrValue *tensors[MAX_TERMS];
    s->num_terms = call->num_args - 1;
    if (s->num_terms < 1 || s->num_terms > MAX_TERMS) {
        fe_error_note(s->cx, s->loc, "einsum(\"ij,jk->ik\", x, y)",
                      "einsum takes an equation and up to %d values",
                      MAX_TERMS);
        return false;
    }
    for (int i = 0; i < call->num_args; i++) {
        if (call->args[i].name) {
            fe_error(s->cx, call->args[i].loc, "einsum has no \"%s\"",
                     call->args[i].name);
            return false;
        }
        if (i)
            values[i - 1] = call->args[i].value;
    }
    if (!fe_operands(s->cx, s->num_terms, values, tensors, s->loc))
        return false;
    for (int i = 0; i < s->num_terms; i++)
        s->terms[i].value = tensors[i];
    return true;
}

FeValue *
fe_builtin_einsum(Lower *cx, const FeArgs *in)
{
    Einsum s = {.cx = cx, .loc = in->loc, .text_loc = in->loc};
    if (!read_values(&s, in->call))
        return &fe_poison;
    const FeArg *first = &in->call->args[0];
    s.text_loc = first->loc;
    if (!fe_require_text(cx, first->value, "an equation", first->loc, &s.text))
        return &fe_poison;
    s.is_literal = first->loc.len == strlen(s.text) + 2;
    return read_equation(&s) ? lower(&s) : &fe_poison;
}
