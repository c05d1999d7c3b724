/*
 * hostlist.c - lists as Slurm abbreviates them
 *
 * A name may have one range in brackets, whose numbers have as many digits as
 * its first: n[08-10].
 */
#include "runtime/cluster/resolve/hostlist.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include "ir/base/io/limit.h"

enum { MOST_DIGITS = 9 };

typedef struct Reader {
    Arena *arena;
    const char *from, *text, *at;
    RtNames *names;
} Reader;

static Status
malformed(const char *from, const char *text, const char *at, const char *want)
{
    return status_new(STATUS_INPUT,
                      "%s is \"%s\", where after %td characters there should "
                      "be %s",
                      from, text, at - text, want);
}

/* The number at *at, which goes behind it; false: there is none. */
static bool
read_number(const char **at, int *out)
{
    size_t digits = strspn(*at, "0123456789");
    if (digits == 0 || digits > MOST_DIGITS)
        return false;
    *out = (int)strtol(*at, NULL, 10);
    *at += digits;
    return true;
}

static Status
add_name(Reader *r, const char *name)
{
    if (r->names->len >= limit_value(LIMIT_processes))
        return limit_status(LIMIT_processes, r->from);
    VEC_PUSH(r->arena, *r->names, name);
    return OK;
}

/* "08-10" or "12", of names that begin with the prefix. */
static Status
read_range(Reader *r, const char *prefix)
{
    int first, last, width = (int)strspn(r->at, "0123456789");
    if (!read_number(&r->at, &first))
        return malformed(r->from, r->text, r->at, "a number");
    last = first;
    if (*r->at == '-') {
        r->at++;
        if (!read_number(&r->at, &last) || last < first)
            return malformed(r->from, r->text, r->at,
                             "a number that is not less");
    }
    for (int i = first; i <= last; i++)
        TRY(add_name(r, arena_printf(r->arena, "%s%0*d", prefix, width, i)));
    return OK;
}

static Status
read_name(Reader *r)
{
    size_t n = strcspn(r->at, "[],");
    const char *prefix = arena_printf(r->arena, "%.*s", (int)n, r->at);
    r->at += n;
    if (*r->at != '[') {
        if (n == 0)
            return malformed(r->from, r->text, r->at, "a name");
        return add_name(r, prefix);
    }
    do {
        r->at++;
        TRY(read_range(r, prefix));
    } while (*r->at == ',');
    if (*r->at != ']')
        return malformed(r->from, r->text, r->at, "\",\" or \"]\"");
    r->at++;
    return OK;
}

Status
rt_hostlist(Arena *a, const char *from, const char *text, RtNames *out)
{
    Reader r = {a, from, text, text, out};
    *out = (RtNames){0};
    for (;;) {
        TRY(read_name(&r));
        if (!*r.at)
            return OK;
        if (*r.at != ',')
            return malformed(from, text, r.at, "\",\"");
        r.at++;
    }
}

/* "(x2)", or nothing: once. */
static bool
read_times(const char **at, int *times)
{
    *times = 1;
    if (**at != '(')
        return true;
    if ((*at)[1] != 'x')
        return false;
    *at += 2;
    return read_number(at, times) && *(*at)++ == ')';
}

Status
rt_repeated_counts(Arena *a, const char *from, const char *text, RtCounts *out)
{
    const char *at = text;
    *out = (RtCounts){0};
    for (;; at++) {
        int count, times;
        if (!read_number(&at, &count) || !read_times(&at, &times))
            return malformed(from, text, at, "a list as \"3(x2),1\"");
        for (int i = 0; i < times; i++) {
            if (out->len >= limit_value(LIMIT_processes))
                return limit_status(LIMIT_processes, from);
            VEC_PUSH(a, *out, count);
        }
        if (!*at)
            return OK;
        if (*at != ',')
            return malformed(from, text, at, "\",\"");
    }
}
