/*
 * partition.c - in how many parts servers hold a variable
 *
 * The clause has TensorFlow's three rules (docs/tensorflow.md, section 9.2).
 * A variable is cut along its first axis; scalars, and what is colocated with
 * another variable, stay whole.
 */
#include "frontend/context/eval.h"
#include "frontend/context/messages.h"
#include "frontend/emit/require_const.h"
#include "frontend/lower/call.h"
#include "frontend/vars/vars.h"

#include <string.h>
#include "ir/type_bounds.h"

/* How much there is to cut. */
typedef struct Extent {
    int64_t rows, bytes; /* of the variable, both at least 1 */
} Extent;

typedef struct Rule {
    const char *name;
    const char *params[2]; /* NULL: it has one */
    int64_t usual[2];      /* 0: has to be given; INT64_MAX: none */
    int64_t (*parts)(const Extent *e, const int64_t *args);
} Rule;

static int64_t
quotient_up(int64_t a, int64_t b)
{
    return a / b + (a % b != 0);
}

static int64_t
fixed_parts(const Extent *e, const int64_t *args)
{
    (void)e;
    return args[0];
}

/* Parts may be smaller than that, as the quotient is rounded up. */
static int64_t
min_size_parts(const Extent *e, const int64_t *args)
{
    int64_t parts = quotient_up(e->bytes, args[0]);
    return parts < args[1] ? parts : args[1];
}

static int64_t
max_size_parts(const Extent *e, const int64_t *args)
{
    int64_t rows = args[0] / (e->bytes / e->rows);
    int64_t parts = quotient_up(e->rows, rows ? rows : 1);
    return parts < args[1] ? parts : args[1];
}

static const Rule rules[] = {
    {"fixed", {"parts"}, {0}, fixed_parts},
    {"min_size", {"bytes", "max"}, {256 << 10, 1}, min_size_parts},
    {"max_size", {"bytes", "max"}, {0, INT64_MAX}, max_size_parts},
};

static const Rule *
rule_of(const AstNode *clause)
{
    const Rule *r = rules;
    while (strcmp(r->name, clause->call.callee->name.text) != 0)
        r++; /* the parser has checked the word */
    return r;
}

static bool
read_argument(Lower *cx, const Rule *r, int i, const FeArg *arg, Loc loc,
              int64_t *out)
{
    const char *what = fe_format(cx, "\"%s\" of %s", r->params[i], r->name);
    *out = r->usual[i];
    if (!arg && *out)
        return true;
    if (!arg) {
        fe_error(cx, loc, "partition(%s) has no \"%s\"", r->name, r->params[i]);
        return false;
    }
    if (!fe_require_int(cx, arg->value, what, arg->loc, out))
        return false;
    if (*out > 0)
        return true;
    fe_error(cx, arg->loc, "%s is at least 1, not %lld", what, (long long)*out);
    return false;
}

bool
fe_var_partition(Lower *cx, IrVar *v, const AstNode *clause)
{
    FeArg *args[2] = {NULL, NULL};
    int64_t values[2] = {0, 0};
    if (!clause)
        return true;
    if (!fe_var_may_have(cx, v, "partition", clause->loc))
        return false;
    const Rule *r = rule_of(clause);
    int num = r->params[1] ? 2 : 1;
    FeCall call = fe_call_args(cx, clause, NULL, r->name);
    if (!fe_match_args(cx, &call, num, r->params, args))
        return false;
    for (int i = 0; i < num; i++)
        if (!read_argument(cx, r, i, args[i], clause->loc, &values[i]))
            return false;
    Extent e = {v->type.rank ? v->type.dims[0].c : 0, 0};
    if (v->colocate || e.rows < 2 ||
        !ir_type_bytes(cx->module, &v->type, &e.bytes) || e.bytes == 0)
        return true;
    int64_t parts = r->parts(&e, values);
    v->parts = parts < e.rows ? parts : e.rows;
    return true;
}
