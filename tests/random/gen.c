/*
 * gen.c - numbers, scopes and lines of random programs
 *
 * A program is generated line by line, one operation a line, so that a failing
 * program is reduced by removing lines.  Each line takes its operands from the
 * values in scope and adds its results to them.  A value's type is known, and
 * whether it may differ among replicas, so that only legal lines are generated.
 */
#include "tests/random/gen_impl.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- numbers ------------------------------------------------------------ */

static uint64_t
next_random(Gen *g)
{
    uint64_t z = g->state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

int
gen_pick(Gen *g, int n)
{
    return (int)(next_random(g) % (uint64_t)n);
}

bool
gen_chance(Gen *g, int percent)
{
    return gen_pick(g, 100) < percent;
}

/* ---- lines -------------------------------------------------------------- */

const char *
gen_text(Gen *g, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const char *text = arena_vprintf(g->arena, format, args);
    va_end(args);
    return text;
}

static void
put_line(Gen *g, const char *format, va_list args)
{
    str_addf(&g->out, "%*s%s\n", 2 * g->indent, "",
             arena_vprintf(g->arena, format, args));
}

void
gen_line(Gen *g, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    put_line(g, format, args);
    va_end(args);
}

void
gen_open(Gen *g, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    put_line(g, format, args);
    va_end(args);
    g->indent++;
}

void
gen_close(Gen *g, const char *text)
{
    g->indent--;
    gen_line(g, "%s", text);
}

const char *
gen_name(Gen *g, const char *prefix)
{
    return gen_text(g, "%s%d", prefix, g->num_names++);
}

GenValue *
gen_add(Gen *g, GenValue v, const char *name)
{
    snprintf(v.name, sizeof v.name, "%s", name);
    VEC_PUSH(g->arena, g->scope, v);
    return &VEC_LAST(g->scope);
}

GenValue *
gen_let(Gen *g, GenValue v, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const char *name = gen_name(g, "x");
    gen_line(g, "let %s = %s", name, arena_vprintf(g->arena, format, args));
    va_end(args);
    v.frame = 0;
    return gen_add(g, v, name);
}

/* ---- scopes ------------------------------------------------------------- */

bool
gen_find(Gen *g, GenFits fits, const void *like, GenValue *out)
{
    int tries = 12;
    for (int i = g->scope.len; i > 0 && tries > 0; tries--) {
        int a = gen_pick(g, g->scope.len), b = gen_pick(g, g->scope.len);
        const GenValue *v = &g->scope.data[a > b ? a : b];
        if (fits(g, v, like)) {
            *out = *v;
            return true;
        }
    }
    for (int i = g->scope.len - 1; i >= 0; i--)
        if (fits(g, &g->scope.data[i], like)) {
            *out = g->scope.data[i];
            return true;
        }
    return false;
}

/* ---- types -------------------------------------------------------------- */

GenType
gen_scalar(DType t)
{
    return (GenType){.dtype = t};
}

/* Most are small, so that programs stay so; some are longer than a vector. */
static int
random_dim(Gen *g)
{
    static const int longer[] = {5, 8, 17, 33};
    return gen_chance(g, 12) ? longer[gen_pick(g, 4)] : 1 + gen_pick(g, 3);
}

GenType
gen_random_type(Gen *g, DType t)
{
    static const int ranks[] = {0, 0, 1, 1, 1, 2, 2, 3};
    GenType type = {.dtype = t, .rank = ranks[gen_pick(g, 8)]};
    for (int i = 0; i < type.rank; i++)
        type.dims[i] = random_dim(g);
    return type;
}

GenValue
gen_parameter(Gen *g, int own_percent)
{
    GenValue v = {.type = gen_random_type(g, gen_dtype(g)), .size = 50};
    v.who = !g->invariant && gen_chance(g, own_percent) ? OWN : SAME;
    v.fuzzy = gen_is_float(v.type.dtype);
    v.constant = v.type.rank == 0;
    v.collective = v.in_control = true; /* as the caller may have made it */
    return v;
}

bool
gen_same_type(const GenType *x, const GenType *y)
{
    if (x->dtype != y->dtype || x->rank != y->rank || x->rows != y->rows)
        return false;
    for (int i = x->rows; i < x->rank; i++)
        if (x->dims[i] != y->dims[i])
            return false;
    return true;
}

int
gen_count(const GenType *t)
{
    int n = t->rows ? 4 : 1;
    for (int i = t->rows; i < t->rank; i++)
        n *= t->dims[i];
    return n;
}

const char *
gen_shape_text(Gen *g, const GenType *t)
{
    Str s = str_new(g->arena);
    str_addc(&s, '(');
    for (int i = 0; i < t->rank; i++)
        if (i == 0 && t->rows)
            str_addf(&s, "len(%s), ", g->rows_name);
        else
            str_addf(&s, "%d, ", t->dims[i]);
    if (t->rank != 1)
        s.data[s.len -= t->rank ? 2 : 0] = '\0';
    str_addc(&s, ')');
    return str_text(&s);
}

const char *
gen_type_text(Gen *g, const GenType *t)
{
    Str s = str_new(g->arena);
    str_add(&s, dtype_info[t->dtype].name);
    for (int i = 0; i < t->rank; i++)
        str_addf(&s, "%s%d", i ? ", " : "[", t->dims[i]);
    if (t->rank)
        str_addc(&s, ']');
    return str_text(&s);
}

DType
gen_dtype(Gen *g)
{
    static const DType often[] = {DT_f32, DT_f32, DT_f32, DT_f32, DT_f64,
                                  DT_i32, DT_i32, DT_i64, DT_bool};
    static const DType seldom[] = {DT_bf16, DT_f16, DT_i16, DT_i8, DT_u8};
    if (gen_chance(g, 8) && !g->invariant)
        return seldom[gen_pick(g, 5)];
    return often[gen_pick(g, 9)];
}

bool
gen_is_float(DType t)
{
    return dtype_is_float(t);
}

bool
gen_is_int(DType t)
{
    return !dtype_is_float(t) && t != DT_bool;
}

bool
gen_is_own(const GenValue *v)
{
    return v->who != SAME;
}

Who
gen_join(Who x, Who y)
{
    return x > y ? x : y;
}

const char *
gen_number(Gen *g, DType t)
{
    static const char *const floats[] = {"0.5", "-1.25", "2.0", "0.0", "0.1"};
    static const char *const ints[] = {"1", "2", "3", "5", "0"};
    if (t == DT_bool)
        return gen_chance(g, 50) ? "true" : "false";
    return gen_is_float(t) ? floats[gen_pick(g, 5)] : ints[gen_pick(g, 5)];
}
