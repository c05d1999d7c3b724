/*
 * same_shape.c - same_shape(x, y): elements that go in pairs
 *
 * Losses and metrics pair the elements of two values.  Broadcasting would make
 * a table of [n, 1] and [n]: n * n numbers, and a loss of another meaning.
 */
#include "frontend/builtins/builtins.h"
#include "frontend/context/messages.h"
#include "frontend/context/eval.h"
#include "frontend/emit/type_of.h"
#include "ir/type_text.h"

/* Two arguments: y has the shape of x without its last dimensions. */
typedef struct Pair {
    IrType x, y;
    int last;
} Pair;

static bool
is_one(Dim d)
{
    return ir_dim_is_const(d) && d.c == 1;
}

/* Lengths that are not known until the plan runs are left to the operations. */
static bool
dims_differ(Dim a, Dim b)
{
    if (ir_dim_is_const(a) && ir_dim_is_const(b))
        return a.c != b.c;
    return is_one(a) != is_one(b);
}

/* A scalar goes with each element. */
static bool
fits(const Pair *p)
{
    int rank = p->x.rank - p->last;
    if (p->y.rank == 0 || p->x.rank == 0)
        return true;
    if (rank != p->y.rank)
        return false;
    for (int i = 0; i < rank; i++)
        if (dims_differ(p->x.dims[i], p->y.dims[i]))
            return false;
    return true;
}

/* Whether y, of integers, numbers classes along a dimension of its own. */
static bool
is_column_of_classes(const Pair *p)
{
    return p->y.rank == p->x.rank && dtype_is_int(p->y.dtype) &&
           is_one(p->y.dims[p->y.rank - 1]);
}

/* The argument to be changed, whose last dimension of 1 the other has not; or
 * -1. */
static int
column_of(const Pair *p)
{
    int rank = p->x.rank - p->last;
    if (rank == p->y.rank + 1 && is_one(p->x.dims[rank - 1]) && !p->last)
        return 0;
    if (rank + 1 == p->y.rank && is_one(p->y.dims[rank]))
        return 1;
    return is_column_of_classes(p) ? 1 : -1;
}

/* An argument as its author wrote it, or by its name, without its column. */
static const char *
without_column(Lower *cx, const FeOwn *own, const char *name)
{
    const AstNode *n = own->node;
    bool is_whole = n && (n->kind == AST_UNARY || n->kind == AST_BINARY);
    return fe_format(cx, is_whole ? "write (%s)[..., 0]" : "write %s[..., 0]",
                     n ? fe_ast_text(cx->arena, n) : name);
}

static FeValue *
refuse_shapes(Lower *cx, const FeArgs *in, const Pair *p)
{
    int column = column_of(p), at = column == 0 ? 0 : 1;
    const char *x = fe_arg_text(cx, in, 0), *y = fe_arg_text(cx, in, 1);
    FeOwn own = fe_arg_own(cx, in, at);
    const char *note = NULL;
    if (column >= 0)
        note = without_column(cx, &own, at ? y : x);
    else if (p->last && p->y.rank > p->x.rank)
        note = fe_format(cx, "%s come first, then %s", x, y);
    return fe_error_own(cx, &own, NO_LOC, note,
                        "\"%s\" is %s and \"%s\" is %s: %s", x,
                        fe_type_text(cx, &p->x), y, fe_type_text(cx, &p->y),
                        p->last ? "the first has one dimension more, the last"
                                : "their elements go in pairs, so they need "
                                  "the same shape");
}

FeValue *
fe_builtin_same_shape(Lower *cx, const FeArgs *in)
{
    Pair p = {0};
    FeValue *both[] = {fe_arg(in, 0), fe_arg(in, 1)};
    int64_t last = 0;
    if (!fe_type_of(cx, fe_arg(in, 0), &p.x) ||
        !fe_type_of(cx, fe_arg(in, 1), &p.y))
        return fe_value_tuple(cx->arena, 2, both);
    if (!fe_arg_int(cx, in, 2, "last", &last))
        return &fe_poison;
    p.last = (int)last;
    return fits(&p) ? fe_value_tuple(cx->arena, 2, both)
                    : refuse_shapes(cx, in, &p);
}
