/*
 * options.c - command lines from a table
 */
#include "ir/base/io/options.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "ir/base/str.h"
#include "ir/base/vec.h"

enum {
    HELP_COLUMN = 28, /* where the descriptions of --help begin */
    HELP_WIDTH = 79
};

/* Options that every program has, numbered after its own. */
static const OptionRow common_rows[] = {
    {.name = "help", .letter = 'h', .repeatable = true, .help = "this page"},
    {.name = "version",
     .repeatable = true,
     .help = "the version of the program"},
};
enum { COMMON_HELP, COMMON_VERSION, NUM_COMMON };

typedef VEC(const char *) Values;

struct Options {
    Arena *arena;
    const OptionTable *table;
    Values *given; /* per row, the common ones too; "" for a switch */
    const char *operand;
};

/* The command line while it is read. */
typedef struct Args {
    int argc, at;
    char **argv;
} Args;

static int
num_rows(const Options *o)
{
    return o->table->num_rows + NUM_COMMON;
}

static const OptionRow *
row_of(const Options *o, int row)
{
    int own = o->table->num_rows;
    return row < own ? &o->table->rows[row] : &common_rows[row - own];
}

const char *
options_spelling(const Options *o, int row)
{
    const OptionRow *r = row_of(o, row);
    return r->name ? arena_printf(o->arena, "--%s", r->name)
                   : arena_printf(o->arena, "-%c", r->letter);
}

static int
find_name(const Options *o, const char *name, size_t len)
{
    for (int i = 0; i < num_rows(o); i++) {
        const char *have = row_of(o, i)->name;
        if (have && strlen(have) == len && memcmp(have, name, len) == 0)
            return i;
    }
    return -1;
}

static int
find_letter(const Options *o, char letter)
{
    for (int i = 0; i < num_rows(o); i++)
        if (row_of(o, i)->letter == letter)
            return i;
    return -1;
}

static Status
unknown_option(const Options *o, const char *arg)
{
    Values names = {0};
    for (int i = 0; i < num_rows(o); i++)
        if (row_of(o, i)->name)
            VEC_PUSH(o->arena, names, row_of(o, i)->name);
    size_t dashes = strspn(arg, "-");
    size_t len = strcspn(arg + dashes, "=");
    const char *name = arena_strndup(o->arena, arg + dashes, len);
    const char *near = nearest_name(name, names.data, names.len);
    if (near)
        return status_new(STATUS_USAGE,
                          "unknown option \"%.*s\"; did you mean --%s?",
                          (int)(dashes + len), arg, near);
    return status_new(STATUS_USAGE,
                      "unknown option \"%.*s\"; %s --help lists all",
                      (int)(dashes + len), arg, o->table->program);
}

Status
options_choice(const Options *o, int row, const char *what,
               const char *const *values, const char *value, int *out)
{
    int n = 0;
    Str all = str_new(o->arena);
    for (; values[n]; n++) {
        if (strcmp(values[n], value) == 0) {
            *out = n;
            return OK;
        }
        str_addf(&all, "%s%s", n ? ", " : "", values[n]);
    }
    const char *near = nearest_name(value, values, n);
    if (near)
        return status_new(STATUS_USAGE,
                          "unknown %s \"%s\" for %s; did you mean %s?", what,
                          value, options_spelling(o, row), near);
    return status_new(STATUS_USAGE, "unknown %s \"%s\" for %s; it is one of %s",
                      what, value, options_spelling(o, row), str_text(&all));
}

static Status
add_value(Options *o, int row, const char *value)
{
    const OptionRow *r = row_of(o, row);
    int unused;
    if (r->values)
        TRY(options_choice(o, row, r->arg, r->values, value, &unused));
    if (o->given[row].len && !r->repeatable)
        return status_new(STATUS_USAGE, "%s is given twice",
                          options_spelling(o, row));
    VEC_PUSH(o->arena, o->given[row], value);
    return OK;
}

/* attached is the value in the same argument as the option, or NULL. */
static Status
take_option(Options *o, Args *args, int row, const char *attached)
{
    const OptionRow *r = row_of(o, row);
    if (!r->arg) {
        if (attached)
            return status_new(STATUS_USAGE, "%s takes no value",
                              options_spelling(o, row));
        return add_value(o, row, "");
    }
    if (attached || r->optional)
        return add_value(o, row, attached ? attached : "");
    const char *next = args->at < args->argc ? args->argv[args->at] : NULL;
    if (!next || strncmp(next, "--", 2) == 0)
        return status_new(STATUS_USAGE, "%s needs a value: %s %s",
                          options_spelling(o, row), options_spelling(o, row),
                          r->arg);
    args->at++;
    return add_value(o, row, next);
}

static Status
take_long(Options *o, Args *args, const char *arg)
{
    const char *name = arg + 2;
    size_t len = strcspn(name, "=");
    int row = find_name(o, name, len);
    if (row < 0)
        return unknown_option(o, arg);
    return take_option(o, args, row, name[len] ? name + len + 1 : NULL);
}

static Status
take_short(Options *o, Args *args, const char *arg)
{
    int row = find_letter(o, arg[1]);
    if (row < 0 || (!row_of(o, row)->arg && arg[2]))
        return unknown_option(o, arg);
    return take_option(o, args, row, arg[2] ? arg + 2 : NULL);
}

static Status
take_operand(Options *o, const char *arg)
{
    if (o->operand)
        return status_new(STATUS_USAGE,
                          "one %s at a time: \"%s\" or \"%s\", not both",
                          o->table->operand, o->operand, arg);
    o->operand = arg;
    return OK;
}

static Status
take_all(Options *o, Args *args)
{
    bool options_ended = false;
    while (args->at < args->argc) {
        const char *arg = args->argv[args->at++];
        if (options_ended || arg[0] != '-' || !arg[1])
            TRY(take_operand(o, arg));
        else if (strcmp(arg, "--") == 0)
            options_ended = true;
        else if (arg[1] == '-')
            TRY(take_long(o, args, arg));
        else
            TRY(take_short(o, args, arg));
    }
    return OK;
}

static bool
has_question(const Options *o)
{
    int own = o->table->num_rows;
    for (int i = 0; i < own; i++)
        if (o->table->rows[i].alone && o->given[i].len)
            return true;
    return o->given[own + COMMON_HELP].len ||
           o->given[own + COMMON_VERSION].len;
}

Status
options_parse(Arena *a, const OptionTable *table, int argc, char **argv,
              Options **out)
{
    Options *o = NEW(a, Options);
    o->arena = a;
    o->table = table;
    o->given = NEW_ARRAY(a, Values, (size_t)num_rows(o));
    Args args = {argc, 1, argv};
    TRY(take_all(o, &args));
    if (!o->operand && !has_question(o))
        return status_new(STATUS_USAGE, "no %s given; %s --help tells more",
                          table->operand, table->program);
    *out = o;
    return OK;
}

const char *
options_operand(const Options *o)
{
    return o->operand;
}

bool
options_given(const Options *o, int row)
{
    return o->given[row].len > 0;
}

int
options_count(const Options *o, int row)
{
    return o->given[row].len;
}

const char *
options_nth(const Options *o, int row, int i)
{
    return o->given[row].data[i];
}

const char *
options_value(const Options *o, int row, const char *otherwise)
{
    return options_given(o, row) ? VEC_LAST(o->given[row]) : otherwise;
}

Status
options_int(const Options *o, int row, int64_t min, int64_t max, int64_t *out)
{
    const char *text = options_value(o, row, NULL);
    char *end;
    if (!text)
        return OK;
    errno = 0;
    long long x = strtoll(text, &end, 10);
    if (errno || end == text || *end || x < min || x > max)
        return status_new(STATUS_USAGE,
                          "%s needs a whole number from %lld to %lld, "
                          "not \"%s\"",
                          options_spelling(o, row), (long long)min,
                          (long long)max, text);
    *out = x;
    return OK;
}

Status
options_float(const Options *o, int row, double min, double max, double *out)
{
    const char *text = options_value(o, row, NULL);
    char *end;
    if (!text)
        return OK;
    double x = strtod(text, &end);
    if (end == text || *end || isnan(x) || x < min || x > max)
        return status_new(STATUS_USAGE,
                          "%s needs a number from %g to %g, not \"%s\"",
                          options_spelling(o, row), min, max, text);
    *out = x;
    return OK;
}

Status
options_assignment(const Options *o, Arena *a, int row, int i,
                   const char **name, const char **value)
{
    const char *text = options_nth(o, row, i);
    const char *equals = strchr(text, '=');
    if (!equals || equals == text)
        return status_new(STATUS_USAGE, "%s needs %s, not \"%s\"",
                          options_spelling(o, row), row_of(o, row)->arg, text);
    *name = arena_strndup(a, text, (size_t)(equals - text));
    *value = equals + 1;
    return OK;
}

/* "  -h, --help" */
static void
add_left(Str *s, const OptionRow *r)
{
    str_add(s, "  ");
    if (r->letter)
        str_addf(s, "-%c%s", r->letter, r->name ? ", " : "");
    if (r->name)
        str_addf(s, "--%s", r->name);
    if (r->arg)
        str_addf(s, r->optional ? "[=%s]" : " %s", r->arg);
}

/* Adds text word by word from that column on; line_start is where the current
 * last line of s began. */
static void
add_wrapped(Str *s, const char *text, size_t column, size_t line_start)
{
    while (*text) {
        size_t len = strcspn(text, " ");
        size_t used = s->len - line_start;
        if (used > column && used + 1 + len > HELP_WIDTH) {
            str_addc(s, '\n');
            line_start = s->len;
            used = 0;
        }
        if (used < column)
            str_addf(s, "%*s", (int)(column - used), "");
        else if (used > column)
            str_addc(s, ' ');
        str_addn(s, text, len);
        text += len;
        text += strspn(text, " ");
    }
}

static void
add_row(Str *s, const OptionRow *r)
{
    size_t start = s->len;
    add_left(s, r);
    if (s->len - start >= HELP_COLUMN) {
        str_addc(s, '\n');
        start = s->len;
    }
    Str help = str_new(s->arena);
    str_add(&help, r->help);
    for (int i = 0; r->values && r->values[i]; i++)
        str_addf(&help, "%s %s", i ? "," : ":", r->values[i]);
    add_wrapped(s, str_text(&help), HELP_COLUMN, start);
    str_addc(s, '\n');
}

static void
add_help(Str *s, const Options *o)
{
    str_addf(s, "Usage: %s %s [OPTION]...\n", o->table->program,
             o->table->operand);
    add_wrapped(s, o->table->about, 0, s->len);
    str_add(s, "\n\n");
    for (int i = 0; i < num_rows(o); i++)
        add_row(s, row_of(o, i));
}

const char *
options_answer(const Options *o)
{
    Str s = str_new(o->arena);
    if (options_given(o, o->table->num_rows + COMMON_HELP))
        add_help(&s, o);
    else if (options_given(o, o->table->num_rows + COMMON_VERSION))
        str_addf(&s, "%s %s\n", o->table->program, TFD_VERSION);
    return s.len ? str_text(&s) : NULL;
}
