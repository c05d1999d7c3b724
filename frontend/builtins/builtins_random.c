/*
 * builtins_random.c - random numbers, which are counted and not drawn (D7)
 *
 * A number is a function of its purpose: the seed, the place in the program
 * (its site), how often that place has run (its step), the row of the global
 * batch or the index, and the element in that row.  The operation `random`
 * makes bits of them, 63 for an element; distributions are maths of these bits:
 *
 *   uniform           as many bits as the mantissa has, so that 1 is not drawn
 *   normal            Box and Muller: 32 bits for the radius, 31 for the angle
 *   truncated_normal  the inverse of erf, by Giles' polynomial
 *   gumbel            -log(-log(u)), with u between 0 and 1
 *   randint           the remainder, whose bias is below range / 2^63
 *
 * f16 and bf16 are drawn in f32 and rounded.  Steps are counted by a hidden
 * variable for each site: each replica has its own in a run, all of which count
 * alike.  So where a condition that may differ among the replicas is around,
 * the step is counted before it, on all of them; behind it turns are counted,
 * from 0 each time, and the key is made of these, too.
 */
#include "frontend/builtins/builtins.h"
#include "frontend/context/dispatch.h"
#include "frontend/context/eval.h"
#include "frontend/context/messages.h"
#include "frontend/emit/operand.h"
#include "frontend/emit/require_const.h"
#include "frontend/emit/type_of.h"
#include "ir/base/message.h"
#include "ir/rules/build.h"
#include "ir/type_bounds.h"
#include "ir/type_text.h"

#include <math.h>
#include <string.h>

#define SEED_PARAM "random.seed"

/* The arguments of a call beside those of its distribution. */
typedef struct Draw {
    Lower *cx;
    IrBlock *b;
    Loc loc;
    int rank;
    Dim dims[IR_MAX_RANK];
    DType dtype;
    IrValue *bits;
} Draw;

/* Numbers of the parameters that all have, in the order of a row. */
typedef struct Params {
    int shape, dtype, seed, index; /* -1: there is none */
    const char *measures[2];       /* names of the two behind the shape; NULL:
                                      there are none */
} Params;

static IrValue *
integer(const Draw *d, int64_t x)
{
    return ir_const_int(d->b, DT_i64, x, d->loc);
}

static IrValue *
op2(const Draw *d, IrOpKind kind, IrValue *x, IrValue *y)
{
    return ir_build2(d->b, kind, x, y, d->loc);
}

/* x, an integer of the call, as an i64 scalar. */
static IrValue *
read_integer(Draw *d, FeValue *x, const char *what, Loc loc)
{
    int64_t known;
    IrType t;
    if (fe_value_is_int(x, &known))
        return integer(d, known);
    if (!fe_type_of(d->cx, x, &t) || t.rank != 0 || !dtype_is_int(t.dtype)) {
        fe_error(d->cx, loc, "%s is one integer, not %s", what,
                 fe_describe(d->cx, x));
        return NULL;
    }
    IrValue *v = fe_operand(d->cx, x, loc);
    return v ? ir_build_cast(d->b, v, DT_i64, loc) : NULL;
}

/* ---- the key ------------------------------------------------------------ */

/* That of --seed, for calls that state none. */
static IrValue *
default_seed(const Draw *d)
{
    IrModule *m = d->cx->module;
    const char *name = intern(d->cx->names, SEED_PARAM);
    if (!ir_param_find(m, name)) {
        IrParam *p = NEW(m->arena, IrParam);
        *p = (IrParam){.name = name,
                       .dtype = DT_i64,
                       .value = scalar_int(DT_i64, 0),
                       .loc = d->loc};
        VEC_PUSH(m->arena, m->params, p);
    }
    return ir_build_param(d->b, name, d->loc);
}

/* The low word of the seed, below the site: 0 for numbers with an index, which
 * depend on nothing else. */
static IrValue *
make_key(Draw *d, FeValue *seed, int64_t site, Loc loc)
{
    IrValue *x = seed ? read_integer(d, seed, "a seed", loc) : default_seed(d);
    if (!x)
        return NULL;
    int64_t words = INT64_C(1) << 32;
    IrValue *low = op2(d, OP_mod, x, integer(d, words));
    return op2(d, OP_add, low, integer(d, site * words));
}

/* ---- the counter -------------------------------------------------------- */

/* The hidden variable that counts the steps of a site, or behind the number
 * `level` of the conditions around that may differ, its turns.  A loop that was
 * tried and is unrolled comes to its sites again. */
static const char *
step_counter(Draw *d, int64_t site, int level)
{
    Lower *cx = d->cx;
    const char *name = fe_format(cx, level ? "random.%lld.%d" : "random.%lld",
                                 (long long)site, level);
    name = intern(cx->names, name);
    IrVar *v = fe_var_counter(cx, name, d->loc);
    bool own = cx->context == FE_REPLICA;
    v->sync = own ? SYNC_ON_READ : SYNC_ON_WRITE;
    v->agg = own ? AGG_first
                 : AGG_none; /* a checkpoint saves the first: all count alike */
    return name;
}

static void
count(Draw *d, IrBlock *b, const char *counter)
{
    IrValue *one = ir_const_int(b, DT_i64, 1, d->loc);
    ir_build_write(b, counter, UPDATE_add, one, d->loc);
}

static IrValue *
read_and_count(Draw *d, const char *counter)
{
    IrValue *n = ir_build_read(d->b, counter, d->loc);
    count(d, d->b, counter);
    return n;
}

static bool
counts_turns(const FeDivergence *at, int64_t site)
{
    for (int i = 0; i < at->sites.len; i++)
        if (at->sites.data[i] == site)
            return true;
    return false;
}

/* The number of conditions around, from `at` outwards; before each of them,
 * where all that come to it count alike, the level around counts, and its own
 * turns begin. */
static int
begin_turns(Draw *d, int64_t site, FeDivergence *at)
{
    if (!at)
        return 0;
    int around = begin_turns(d, site, at->outer);
    if (counts_turns(at, site))
        return around + 1;
    VEC_PUSH(d->cx->arena, at->sites, site);
    IrBlock *before = ir_block_scratch(at->op);
    IrValue *zero = ir_const_int(before, DT_i64, 0, d->loc);
    count(d, before, step_counter(d, site, around));
    ir_build_write(before, step_counter(d, site, around + 1), UPDATE_set, zero,
                   d->loc);
    ir_splice_before(at->op, before);
    return around + 1;
}

/* The step; the key is made of the turns, too, where there are any. */
static IrValue *
next_step(Draw *d, int64_t site, IrValue **key)
{
    if (d->cx->context == FE_INIT)
        return integer(d, 0);
    int levels = begin_turns(d, site, d->cx->divergence);
    const char *counter = step_counter(d, site, 0);
    if (!levels)
        return read_and_count(d, counter);
    IrValue *zero = integer(d, 0);
    for (int i = 1; i <= levels; i++) {
        const char *turns = step_counter(d, site, i);
        IrValue *turn = i < levels ? ir_build_read(d->b, turns, d->loc)
                                   : read_and_count(d, turns);
        *key = ir_build3(d->b, OP_random, *key, turn, zero, d->loc);
    }
    return ir_build_read(d->b, counter, d->loc);
}

static bool
too_many(const Draw *d)
{
    fe_error(d->cx, d->loc,
             "random numbers of shape %s: too many, or the batch's length "
             "twice",
             ir_dims_text(d->cx->module, d->rank, d->dims));
    return false;
}

/* The number of each element of dims from `first` on, in a shape that has 1
 * before; NULL when there are too many. */
static IrValue *
elements(Draw *d, int first)
{
    Dim shape[IR_MAX_RANK], all = ir_dim_const(1);
    if (first == d->rank)
        return integer(d, 0);
    for (int i = 0; i < d->rank; i++) {
        shape[i] = i < first ? ir_dim_const(1) : d->dims[i];
        if (!ir_dim_mul(all, shape[i], &all))
            return too_many(d), NULL;
    }
    IrValue *x = ir_build_iota(d->b, DT_i64, 1, &all, 0, d->loc);
    return ir_build_reshape(d->b, x, d->rank, shape, d->loc);
}

/* Whether the leading dimension is the rows of a batch, or so many for each. */
static bool
has_rows(const Draw *d)
{
    return d->cx->context == FE_REPLICA && d->rank > 0 &&
           !ir_dim_is_const(d->dims[0]) && d->dims[0].c == 0;
}

/* The rows of the global batch that the leading dimension is. */
static IrValue *
global_rows(Draw *d)
{
    Dim rows = d->dims[0], one = rows, shape[IR_MAX_RANK];
    one.k = 1;
    IrOp *op = ir_build_op(d->b, OP_row_start, 0, NULL, d->loc);
    ir_set_dims(op, A_dims, &one, 1);
    IrValue *start = ir_build_infer(op);
    start = op2(d, OP_mul, start, integer(d, rows.k));
    for (int i = 0; i < d->rank; i++)
        shape[i] = i == 0 ? rows : ir_dim_const(1);
    IrValue *row = ir_build_iota(d->b, DT_i64, d->rank, shape, 0, d->loc);
    return op2(d, OP_add, row, start);
}

static IrValue *
row_of(Draw *d)
{
    if (has_rows(d))
        return global_rows(d);
    if (d->cx->context != FE_REPLICA)
        return integer(d, 0);
    IrValue *id = ir_build0(d->b, OP_replica_id, d->loc);
    return ir_build_cast(d->b, id, DT_i64, d->loc);
}

/* ---- bits --------------------------------------------------------------- */

static bool
draw_indexed(Draw *d, const FeArgs *in, const Params *p)
{
    FeValue *index = fe_arg(in, p->index);
    IrValue *key = make_key(d, fe_arg(in, p->seed), 0, fe_arg_loc(in, p->seed));
    IrValue *row = read_integer(d, index, "an index", fe_arg_loc(in, p->index));
    IrValue *place = elements(d, 0);
    if (!key || !row || !place)
        return false;
    d->bits = ir_build3(d->b, OP_random, key, row, place, d->loc);
    return true;
}

static bool
draw_counted(Draw *d, const FeArgs *in, const Params *p)
{
    int64_t site = ++d->cx->num_sites;
    IrValue *key =
        make_key(d, fe_arg(in, p->seed), site, fe_arg_loc(in, p->seed));
    IrValue *place = elements(d, has_rows(d) ? 1 : 0);
    if (!key || !place)
        return false;
    IrValue *step = next_step(d, site, &key);
    step = op2(d, OP_mul, step, integer(d, INT64_C(1) << 32));
    place = op2(d, OP_add, place, step);
    d->bits = ir_build3(d->b, OP_random, key, row_of(d), place, d->loc);
    return true;
}

/* The parameters of the function around. */
static const char *
params_around(Lower *cx, int *n)
{
    Str names = str_new(cx->arena);
    const FeScope *s = cx->scope;
    while (s && s->kind != SCOPE_FUNC)
        s = s->parent;
    *n = s ? s->names.len : 0;
    for (int i = 0; i < *n; i++)
        str_addf(&names, "%s%s", i ? ", " : "", s->names.data[i]->name);
    return *n ? str_text(&names) : "x";
}

/* The call with an index, and where that comes from: a function of x gets i
 * beside it, one of (x, y) both as a tuple e. */
static const char *
index_note(Lower *cx, const FeArgs *in)
{
    Loc loc = in->loc, end = {loc.line, loc.col + loc.len - 1, 0, loc.file};
    int n;
    const char *all = params_around(cx, &n), *x = n > 1 ? "e" : all;
    const char *i = strcmp(x, "i") == 0 ? "k" : "i";
    const char *apart =
        n > 1 ? fe_format(cx, ", with let (%s) = e in it,", all) : "";
    const char *call = fe_edit(
        cx, loc, end,
        fe_format(cx, "%sindex = %s", in->call->num_args ? ", " : "", i));
    if (cx->context != FE_DATA || !call)
        return "give it what they are for, index = i: "
               "d.zip(range(n)).map(fn(x, i) = ...) numbers the elements";
    const char *dot = strrchr(cx->block->func->name, '.');
    bool filters = dot && strncmp(dot, ".filter", 7) == 0;
    const char *method = filters ? "filter" : "map";
    const char *behind =
        filters
            ? fe_format(cx, ", and behind it .map(fn(%s, %s) = %s)", x, i, x)
            : "";
    return fe_format(cx,
                     "write %s, and .zip(range(1000000).repeat()).%s(fn(%s, "
                     "%s)%s in place of .%s(fn(%s)%s: %s is the number of the "
                     "element, and the numbers drawn are the same in each "
                     "pass; others with .repeat().shuffle(1000)",
                     call, method, x, i, apart, method, all, behind, i);
}

/* Numbers without an index are counted, which needs a variable. */
static bool
check_counted(Lower *cx, const FeArgs *in)
{
    if (cx->context != FE_DATA && cx->context != FE_UPDATE)
        return true;
    fe_error_note(cx, in->loc, index_note(cx, in),
                  "random numbers in %s need an index",
                  fe_context_name(cx->context));
    return false;
}

/* Elsewhere the first two arguments are the bounds, or mean and deviation. */
static bool
check_shape_is_first(Lower *cx, const FeArgs *in, const Params *p,
                     const FeValue *shape)
{
    bool is_number =
        shape->kind == FE_CONST && dtype_is_float(shape->constant.scalar.dtype);
    if (!p->measures[0] || !is_number)
        return true;
    const char *first = fe_arg_text(cx, in, p->shape);
    const char *note =
        fe_format(cx, "write %s(%s = %s), or %s(%s = %s)", in->name,
                  p->measures[0], first, in->name, p->measures[1], first);
    if (in->args[p->shape + 1]) {
        const FeArg *last = in->args[p->shape + 2];
        const char *sizes =
            last && !last->name ? fe_arg_text(cx, in, p->shape + 2) : NULL;
        const char *second = fe_arg_text(cx, in, p->shape + 1);
        note = fe_format(cx, "write %s(%s%s%s = %s, %s = %s)", in->name,
                         sizes ? sizes : "", sizes ? ", " : "", p->measures[0],
                         first, p->measures[1], second);
    }
    fe_error_note(cx, fe_arg_loc(in, p->shape), note,
                  "the first argument of %s is a shape, not a number",
                  in->name);
    return false;
}

static bool
read_shape(Draw *d, const FeArgs *in, const Params *p)
{
    FeValue *shape = p->shape < 0 ? NULL : fe_arg(in, p->shape);
    const IrType *made = d->cx->context == FE_INIT ? d->cx->init_type : NULL;
    if (shape && !check_shape_is_first(d->cx, in, p, shape))
        return false;
    if (shape)
        return fe_require_dims(d->cx, shape, "a shape",
                               fe_arg_loc(in, p->shape), d->dims, &d->rank);
    if (made) {
        d->rank = made->rank;
        memcpy(d->dims, made->dims, sizeof d->dims);
    }
    return true;
}

static bool
read_dtype(Draw *d, const FeArgs *in, const Params *p)
{
    const IrType *made = d->cx->context == FE_INIT ? d->cx->init_type : NULL;
    d->dtype = made && dtype_is_float(made->dtype) ? made->dtype
                                                   : fe_default_float(d->cx);
    if (!fe_arg_dtype(d->cx, in, p->dtype, &d->dtype))
        return false;
    if (!dtype_is_float(d->dtype))
        fe_error(d->cx, fe_arg_loc(in, p->dtype), "%s makes floats, not %s",
                 in->name, dtype_info[d->dtype].name);
    return dtype_is_float(d->dtype);
}

/* Whether bits for all elements are not too large. */
static bool
check_size(const Draw *d)
{
    int64_t bytes;
    IrType bits = {.dtype = DT_i64, .rank = d->rank};
    memcpy(bits.dims, d->dims, sizeof bits.dims);
    if (ir_type_bytes(d->cx->module, &bits, &bytes))
        return true;
    return too_many(d);
}

/* Makes the bits; shape and dtype are read. */
static bool
draw(Draw *d, const FeArgs *in, const Params *p)
{
    if (!fe_check_can_emit(d->cx, in->loc) || !check_size(d))
        return false;
    d->b = d->cx->block;
    if (fe_arg(in, p->index))
        return draw_indexed(d, in, p);
    return check_counted(d->cx, in) && draw_counted(d, in, p);
}

static bool
draw_floats(Lower *cx, const FeArgs *in, const Params *p, Draw *d)
{
    *d = (Draw){.cx = cx, .loc = in->loc};
    return read_shape(d, in, p) && read_dtype(d, in, p) && draw(d, in, p);
}

/* ---- maths of bits ------------------------------------------------------ */

/* C does not say which argument of a call is evaluated first: of two that
 * build, one is built before, so that every compiler makes the same program. */

/* Floats are computed as such and rounded at the end. */
static IrValue *
number(const Draw *d, double x)
{
    return ir_const_float(d->b, dtype_compute(d->dtype), x, d->loc);
}

static IrValue *
as_float(const Draw *d, IrValue *x)
{
    return ir_build_cast(d->b, x, dtype_compute(d->dtype), d->loc);
}

static IrValue *
op1(const Draw *d, IrOpKind kind, IrValue *x)
{
    return ir_build1(d->b, kind, x, d->loc);
}

/* The first `count` bits as a float. */
static IrValue *
first_bits(const Draw *d, int count)
{
    IrValue *rest = integer(d, INT64_C(1) << (63 - count));
    return as_float(d, op2(d, OP_floordiv, d->bits, rest));
}

static IrValue *
unit(const Draw *d)
{
    int bits = d->dtype == DT_f64    ? 53
               : d->dtype == DT_f16  ? 11
               : d->dtype == DT_bf16 ? 8
                                     : 24;
    IrValue *whole = first_bits(d, bits);
    return op2(d, OP_mul, whole, number(d, ldexp(1, -bits)));
}

/* Between 0 and 1, neither of which it is in any dtype. */
static IrValue *
open_unit(const Draw *d)
{
    IrValue *whole = first_bits(d, 23);
    IrValue *middle = op2(d, OP_add, whole, number(d, 0.5));
    return op2(d, OP_mul, middle, number(d, ldexp(1, -23)));
}

static IrValue *
normal(const Draw *d)
{
    const double tau = 6.283185307179586;
    IrValue *half = integer(d, INT64_C(1) << 31);
    IrValue *high = op2(d, OP_floordiv, d->bits, half);
    IrValue *u = as_float(d, op2(d, OP_add, high, integer(d, 1)));
    IrValue *log = op1(d, OP_log, op2(d, OP_mul, u, number(d, ldexp(1, -32))));
    IrValue *radius = op1(d, OP_sqrt, op2(d, OP_mul, log, number(d, -2)));
    IrValue *part = as_float(d, op2(d, OP_mod, d->bits, half));
    IrValue *angle = op2(d, OP_mul, part, number(d, ldexp(tau, -31)));
    return op2(d, OP_mul, radius, op1(d, OP_cos, angle));
}

/* sqrt(2) * erfinv(x) for |x| < 0.96: the middle part of M. Giles,
 * "Approximating the erfinv function" (2010). */
static IrValue *
normal_at(const Draw *d, IrValue *x)
{
    static const double terms[] = {
        2.81022636e-08,  3.43273939e-07, -3.5233877e-06,
        -4.39150654e-06, 0.00021858087,  -0.00125372503,
        -0.00417768164,  0.246640727,    1.50140941};
    IrValue *one = number(d, 1);
    IrValue *below = op2(d, OP_sub, one, x), *above = op2(d, OP_add, one, x);
    IrValue *rest = op2(d, OP_mul, below, above);
    IrValue *w = op1(d, OP_neg, op1(d, OP_log, rest));
    w = op2(d, OP_sub, w, number(d, 2.5));
    IrValue *sum = number(d, terms[0]);
    for (size_t i = 1; i < sizeof terms / sizeof *terms; i++) {
        sum = op2(d, OP_mul, sum, w);
        sum = op2(d, OP_add, sum, number(d, terms[i]));
    }
    IrValue *inverse = op2(d, OP_mul, sum, x);
    return op2(d, OP_mul, inverse, number(d, 1.4142135623730951));
}

/* ---- distributions ------------------------------------------------------ */

/* x * scale + shift, where they are given, in the dtype of the result. */
static FeValue *
finish(const Draw *d, IrValue *x, FeValue *scale, FeValue *shift)
{
    Lower *cx = d->cx;
    FeValue *v =
        fe_value_tensor(cx->arena, ir_build_cast(d->b, x, d->dtype, d->loc));
    if (scale)
        v = fe_binary(cx, AST_OP_MUL, v, scale, d->loc);
    return shift ? fe_binary(cx, AST_OP_ADD, v, shift, d->loc) : v;
}

static bool
check_stddev(Lower *cx, const FeArgs *in)
{
    double stddev;
    if (!fe_arg_is_known(in, 2, &stddev) || stddev >= 0)
        return true;
    fe_error(cx, fe_arg_loc(in, 2),
             "a standard deviation is no less than 0, and this is %g", stddev);
    return false;
}

FeValue *
fe_builtin_uniform(Lower *cx, const FeArgs *in)
{
    Draw d;
    FeValue *low = fe_arg(in, 1), *high = fe_arg(in, 2);
    if (!fe_check_bounds(cx, in) ||
        !draw_floats(cx, in, &(Params){0, 3, 4, 5, {"low", "high"}}, &d))
        return &fe_poison;
    if (!high && low)
        high = fe_value_float(cx->arena, 1);
    FeValue *range =
        high && low ? fe_binary(cx, AST_OP_SUB, high, low, d.loc) : high;
    return finish(&d, unit(&d), range, low);
}

FeValue *
fe_builtin_normal(Lower *cx, const FeArgs *in)
{
    Draw d;
    if (!check_stddev(cx, in) ||
        !draw_floats(cx, in, &(Params){0, 3, 4, 5, {"mean", "stddev"}}, &d))
        return &fe_poison;
    return finish(&d, normal(&d), fe_arg(in, 2), fe_arg(in, 1));
}

FeValue *
fe_builtin_randn(Lower *cx, const FeArgs *in)
{
    Draw d;
    if (!draw_floats(cx, in, &(Params){0, 1, 2, 3, {NULL}}, &d))
        return &fe_poison;
    return finish(&d, normal(&d), NULL, NULL);
}

FeValue *
fe_builtin_truncated_normal(Lower *cx, const FeArgs *in)
{
    const double most = 0.954499; /* erf(2 / sqrt(2)) is a little more */
    Draw d;
    if (!check_stddev(cx, in) ||
        !draw_floats(cx, in, &(Params){0, 3, 4, 5, {"mean", "stddev"}}, &d))
        return &fe_poison;
    IrValue *u = open_unit(&d);
    IrValue *x = op2(&d, OP_mul, u, number(&d, 2 * most));
    x = op2(&d, OP_sub, x, number(&d, most));
    return finish(&d, normal_at(&d, x), fe_arg(in, 2), fe_arg(in, 1));
}

FeValue *
fe_builtin_gumbel(Lower *cx, const FeArgs *in)
{
    Draw d;
    if (!draw_floats(cx, in, &(Params){0, 1, 2, 3, {NULL}}, &d))
        return &fe_poison;
    IrValue *wait = op1(&d, OP_neg, op1(&d, OP_log, open_unit(&d)));
    return finish(&d, op1(&d, OP_neg, op1(&d, OP_log, wait)), NULL, NULL);
}

static bool
fits(int64_t x, DType t)
{
    return scalar_cast(scalar_int(t, x), DT_i64).i == x;
}

/* Of bounds that the compiler knows; others give low where none is between. */
static bool
check_bounds(Lower *cx, const FeArgs *in, DType t)
{
    int64_t low, high, numbers;
    if (!fe_value_is_int(fe_arg(in, 0), &low) ||
        !fe_value_is_int(fe_arg(in, 1), &high))
        return true;
    if (low >= high)
        fe_error_note(cx, in->loc, "high itself is not drawn",
                      "no number is from %lld up to but not %lld",
                      (long long)low, (long long)high);
    else if (__builtin_sub_overflow(high, low, &numbers))
        fe_error(cx, in->loc, "randint draws from less than 2^63 numbers");
    else if (!fits(low, t) || !fits(high - 1, t))
        fe_error_note(cx, in->loc, "give it a wider dtype",
                      "randint draws %s here, and not all from %lld up to but "
                      "not %lld are",
                      dtype_info[t].name, (long long)low, (long long)high);
    else
        return true;
    return false;
}

/* high - low, which check_bounds has looked at where both are known; of others
 * 1 where that is not between 1 and the greatest number. */
static IrValue *
count_numbers(const Draw *d, const FeArgs *in, IrValue *low, IrValue *high)
{
    int64_t from, to;
    if (fe_value_is_int(fe_arg(in, 0), &from) &&
        fe_value_is_int(fe_arg(in, 1), &to))
        return integer(d, to - from);
    IrValue *one = integer(d, 1);
    IrValue *some = op2(d, OP_gt, high, low);
    IrValue *n = op2(d, OP_maximum, op2(d, OP_sub, high, low), one);
    return ir_build3(d->b, OP_where, some, n, one, d->loc);
}

FeValue *
fe_builtin_randint(Lower *cx, const FeArgs *in)
{
    const Params p = {2, 3, 4, 5, {NULL}};
    Draw d = {.cx = cx, .loc = in->loc, .dtype = DT_i32};
    DType t = DT_i32;
    if (!read_shape(&d, in, &p) || !fe_arg_dtype(cx, in, p.dtype, &t))
        return &fe_poison;
    if (!dtype_is_int(t))
        return fe_error(cx, fe_arg_loc(in, p.dtype),
                        "randint makes integers, not %s", dtype_info[t].name);
    if (!check_bounds(cx, in, t) || !draw(&d, in, &p))
        return &fe_poison;
    IrValue *low = read_integer(&d, fe_arg(in, 0), "low", fe_arg_loc(in, 0));
    IrValue *high = read_integer(&d, fe_arg(in, 1), "high", fe_arg_loc(in, 1));
    if (!low || !high)
        return &fe_poison;
    IrValue *x = op2(&d, OP_mod, d.bits, count_numbers(&d, in, low, high));
    x = op2(&d, OP_add, x, low);
    return fe_value_tensor(cx->arena, ir_build_cast(d.b, x, t, in->loc));
}

static const char *
wrong_rate(void)
{
    return message_part("a rate of dropout is from 0 up to but not 1");
}

/* Of a rate that is known at run time alone, or several. */
static void
assert_rate(const Draw *d, IrValue *rate)
{
    int64_t axes[IR_MAX_RANK];
    int rank = rate->type.rank;
    for (int i = 0; i < rank; i++)
        axes[i] = i;
    DType t = rate->type.dtype;
    IrValue *zero = ir_const_float(d->b, t, 0, d->loc);
    IrValue *one = ir_const_float(d->b, t, 1, d->loc);
    IrValue *from_zero = op2(d, OP_ge, rate, zero);
    IrValue *below_one = op2(d, OP_lt, rate, one);
    IrValue *holds = op2(d, OP_and, from_zero, below_one);
    if (rank)
        holds = ir_build_reduce(d->b, OP_all, holds, axes, rank, false, d->loc);
    IrOp *op = fe_op(d->cx, OP_assert, 1, &holds, d->loc);
    ir_set_text(op, A_format, wrong_rate());
    fe_emit(d->cx, op);
}

static bool
check_rate(Lower *cx, FeValue *rate, Loc loc, Loc call)
{
    if (rate->kind == FE_CONST) {
        Scalar x = scalar_cast(rate->constant.scalar, DT_f64);
        if (x.f >= 0 && x.f < 1)
            return true;
        fe_error_note(cx, loc, "0.1 drops one element of ten", "%s",
                      wrong_rate());
        return false;
    }
    IrValue *v = fe_operand(cx, rate, loc);
    if (!v || !fe_check_can_emit(cx, call))
        return false;
    if (dtype_is_float(v->type.dtype))
        assert_rate(&(Draw){.cx = cx, .b = cx->block, .loc = call}, v);
    return true;
}

/* Whether each element of x is kept.  In 8 bits, as bf16 is drawn, a rate of
 * 0.01 would be three of 256. */
static FeValue *
kept(Lower *cx, const FeArgs *in, IrValue *x, FeValue *rate)
{
    DType t = dtype_compute(x->type.dtype);
    Draw d = {.cx = cx, .loc = in->loc, .dtype = t};
    d.rank = x->type.rank;
    memcpy(d.dims, x->type.dims, sizeof d.dims);
    if (!draw(&d, in, &(Params){-1, -1, 2, 3, {NULL}}))
        return &fe_poison;
    FeValue *u = finish(&d, unit(&d), NULL, NULL);
    bool literal = rate->kind == FE_CONST && rate->constant.untyped;
    rate = literal ? rate : fe_cast(cx, rate, t, in->loc);
    return fe_binary(cx, AST_OP_GE, u, rate, in->loc);
}

FeValue *
fe_builtin_dropout(Lower *cx, const FeArgs *in)
{
    FeValue *rate = fe_arg(in, 1);
    IrValue *x = fe_operand(cx, fe_arg(in, 0), fe_arg_loc(in, 0));
    if (!x)
        return &fe_poison;
    if (!dtype_is_float(x->type.dtype))
        return fe_error(cx, fe_arg_loc(in, 0), "dropout is for floats, not %s",
                        dtype_info[x->type.dtype].name);
    if (!rate)
        rate = fe_value_float(cx->arena, 0.5);
    if (!check_rate(cx, rate, fe_arg_loc(in, 1), in->loc))
        return &fe_poison;
    FeValue *one = fe_value_float(cx->arena, 1);
    FeValue *rest = fe_binary(cx, AST_OP_SUB, one, rate, in->loc);
    FeValue *grown =
        fe_binary(cx, AST_OP_DIV, fe_value_tensor(cx->arena, x), rest, in->loc);
    return fe_op3(cx, OP_where, kept(cx, in, x, rate), grown,
                  fe_value_float(cx->arena, 0), in->loc);
}
