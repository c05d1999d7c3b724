/*
 * params.c - values of params, by option or default
 */
#include "runtime/exec/params.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "ir/dataset/sharding.h"
#include "runtime/exec/function.h"
#include "runtime/exec/run_state.h"

/* As messages have it: a value may be a file by mistake. */
static const char *
shown(Arena *a, const char *text)
{
    enum { MOST = 64, LEFT = 32 };
    size_t n = strlen(text);
    return n <= MOST
               ? text
               : arena_printf(a, "%.*s... (%zu characters)", LEFT, text, n);
}

static Status
bad_value(Arena *a, const RtSet *set, DType t)
{
    const char *value = shown(a, set->value);
    const char *example = t == DT_bool        ? "true"
                          : dtype_is_float(t) ? "0.5"
                                              : "8";
    return status_new(STATUS_USAGE,
                      "--set %s=%s: the param is %s, which \"%s\" is not, and "
                      "--set %s=%s would be",
                      set->name, value, dtype_info[t].name, value, set->name,
                      example);
}

/* An integer that the dtype has no place for. */
static Status
out_of_range(Arena *a, const RtSet *set, DType t)
{
    return status_new(STATUS_USAGE,
                      "--set %s=%s is out of the range of %s, %lld to %lld",
                      set->name, shown(a, set->value), dtype_info[t].name,
                      (long long)int_min(t), (long long)int_max(t));
}

/* Whether it has the mark of a hexadecimal number, which C reads and neither
 * programs nor tables have. */
static bool
is_hex(const char *text)
{
    return strpbrk(text, "xX") != NULL;
}

static bool
read_float(const char *text, DType t, Scalar *out)
{
    char *end;
    *out = scalar_float(t, strtod(text, &end));
    return end != text && !*end && !is_hex(text);
}

/* Whether the text is a number and x is infinite. */
static bool
overflows(const char *text, Scalar x)
{
    return dtype_is_float(x.dtype) && isinf(x.f) && !strpbrk(text, "iI");
}

/* Whether the text is a number other than 0 and x is 0. */
static bool
underflows(const char *text, Scalar x)
{
    if (!dtype_is_float(x.dtype) || x.f != 0)
        return false;
    errno = 0;
    return strtod(text, NULL) != 0 || errno == ERANGE;
}

/* Whether the text is an integer: decimal, whatever zeros it begins with, as
 * scripts pad numbers.  errno is set where *out has no place for it. */
static bool
is_integer(const char *text, long long *out)
{
    char *end;
    errno = 0;
    *out = strtoll(text, &end, 10);
    return end != text && !*end;
}

static bool
read_int(const char *text, DType t, Scalar *out)
{
    long long x;
    bool fits = is_integer(text, &x) && !errno && int_fits(t, x);
    *out = scalar_int(t, x);
    return fits;
}

static bool
read_bool(const char *text, Scalar *out)
{
    bool yes = strcmp(text, "true") == 0;
    *out = scalar_int(DT_bool, yes);
    return yes || strcmp(text, "false") == 0;
}

static bool
read_scalar(const char *text, DType t, Scalar *out)
{
    if (dtype_is_float(t))
        return read_float(text, t, out);
    return t == DT_bool ? read_bool(text, out) : read_int(text, t, out);
}

static Status
unknown_param(const RtRun *run, const RtSet *set)
{
    int n = run->module->params.len;
    const char **names = NEW_ARRAY(run->arena, const char *, (size_t)n);
    for (int i = 0; i < n; i++)
        names[i] = run->module->params.data[i]->name;
    const char *near = nearest_name(set->name, names, n);
    if (near)
        return status_new(STATUS_USAGE,
                          "the program has no param \"%s\"; did you mean %s?",
                          shown(run->arena, set->name), near);
    return status_new(STATUS_USAGE,
                      "the program has no param \"%s\" (a const is given when "
                      "compiling: tfdc -D %s=...)",
                      shown(run->arena, set->name),
                      shown(run->arena, set->name));
}

/* A resumed run has its original values, which main has read. */
static Status
begun_otherwise(const RtRun *run, const char *option)
{
    return status_new(STATUS_USAGE,
                      "%s: the run in \"%s\" was begun with another value; "
                      "leave it out, or begin anew in another folder",
                      option, run->options->checkpoint_dir);
}

static bool
same(DType t, Scalar a, Scalar b)
{
    char bytes[2][sizeof(Scalar)] = {{0}};
    scalar_store(t, bytes[0], 0, a);
    scalar_store(t, bytes[1], 0, b);
    return memcmp(bytes[0], bytes[1], sizeof bytes[0]) == 0;
}

static Status
set_scalar(Arena *a, const RtSet *set, DType t, Scalar *param)
{
    long long any;
    bool is_read = read_scalar(set->value, t, param);
    if (!is_read && dtype_is_int(t) && is_integer(set->value, &any))
        return out_of_range(a, set, t);
    if (!is_read)
        return bad_value(a, set, t);
    if (overflows(set->value, *param))
        return status_new(STATUS_USAGE,
                          "--set %s=%s is too large for %s; inf is infinity",
                          set->name, shown(a, set->value), dtype_info[t].name);
    if (underflows(set->value, *param))
        return status_new(STATUS_USAGE,
                          "--set %s=%s is too small for %s, which would make "
                          "it 0; if it may be, give 0",
                          set->name, shown(a, set->value), dtype_info[t].name);
    return OK;
}

/* Index of the param that is set; -1: there is none. */
static int
param_of(const RtRun *run, const RtSet *set)
{
    for (int i = 0; i < run->module->params.len; i++)
        if (strcmp(run->module->params.data[i]->name, set->name) == 0 &&
            strcmp(set->name, IR_PIPELINE_ID) != 0 &&
            strcmp(set->name, IR_NUM_PIPELINES) != 0)
            return i;
    return -1;
}

static Status
set_param(RtRun *run, const RtSet *set, int param)
{
    const IrParam *p = run->module->params.data[param];
    if (!p->text)
        return set_scalar(run->arena, set, p->dtype, &run->params[param]);
    run->texts[param].value = set->value;
    return OK;
}

/* Of several values for one param the last holds. */
static Status
apply_sets(RtRun *run)
{
    for (int i = 0; i < run->options->num_sets; i++) {
        const RtSet *set = &run->options->sets[i];
        int param = param_of(run, set);
        if (param < 0)
            return unknown_param(run, set);
        TRY(set_param(run, set, param));
    }
    return OK;
}

/* What a run began with. */
typedef struct Begun {
    Scalar *params;
    FormatName *texts;
} Begun;

static bool
is_as_begun(const RtRun *run, const Begun *begun, int param)
{
    const IrParam *p = run->module->params.data[param];
    return p->text
               ? strcmp(begun->texts[param].value, run->texts[param].value) == 0
               : same(p->dtype, begun->params[param], run->params[param]);
}

static Status
check_sets(const RtRun *run, const Begun *begun)
{
    for (int i = run->options->num_sets - 1; i >= 0; i--) {
        const RtSet *set = &run->options->sets[i];
        int param = param_of(run, set);
        if (!is_as_begun(run, begun, param))
            return begun_otherwise(
                run, arena_printf(run->arena, "--set %s=%s", set->name,
                                  shown(run->arena, set->value)));
    }
    return OK;
}

/* The hidden param of random numbers without a seed in the program is --seed.
 */
static Scalar
default_of(const RtRun *run, const IrParam *p)
{
    bool is_seed = p->dtype == DT_i64 && strcmp(p->name, "random.seed") == 0;
    return is_seed ? scalar_int(DT_i64, (int64_t)run->seed) : p->value;
}

static void
text_archive(RtRun *run, const char **text, RtArchive *ar)
{
    rt_archive_text(ar, text);
    if (ar->reads)
        *text = arena_strdup(run->arena, *text);
}

void
rt_params_archive(RtRun *run, RtArchive *ar)
{
    rt_archive_u64(ar, &run->seed);
    for (int i = 0; i < run->module->params.len; i++) {
        DType t = run->module->params.data[i]->dtype;
        char bytes[sizeof(Scalar)];
        scalar_store(t, bytes, 0, run->params[i]);
        rt_archive_bytes(ar, bytes, dtype_info[t].bytes);
        run->params[i] = scalar_load(t, bytes, 0);
        if (run->module->params.data[i]->text)
            text_archive(run, &run->texts[i].value, ar);
    }
}

Status
rt_read_params(RtRun *run)
{
    int n = run->module->params.len;
    run->seed = run->options->seed;
    run->params = NEW_ARRAY(run->arena, Scalar, (size_t)n);
    run->texts = NEW_ARRAY(run->arena, FormatName, (size_t)n);
    for (int i = 0; i < n; i++) {
        const IrParam *p = run->module->params.data[i];
        run->params[i] = default_of(run, p);
        run->texts[i] =
            (FormatName){p->text ? p->name : "", p->text ? p->text : ""};
    }
    if (run->told_params.len) {
        rt_params_archive(run, &run->told_params);
        return run->told_params.wrong ? rt_archive_end(&run->told_params) : OK;
    }
    if (run->resume.is_resuming)
        rt_params_archive(run, &run->resume.read);
    if (run->options->seed_given && run->seed != run->options->seed)
        return begun_otherwise(run, "--seed");
    Begun begun = {NEW_ARRAY(run->arena, Scalar, (size_t)n),
                   NEW_ARRAY(run->arena, FormatName, (size_t)n)};
    for (int i = 0; i < n; i++) {
        begun.params[i] = run->params[i];
        begun.texts[i] = run->texts[i];
    }
    TRY(apply_sets(run));
    return run->resume.is_resuming ? check_sets(run, &begun) : OK;
}
