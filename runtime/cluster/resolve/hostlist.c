/*
 * hostlist.c - lists as Slurm abbreviates them
 *
 * A name may have ranges in brackets, whose numbers have as many digits as
 * their first: n[08-10], rack[1-2]n[1-4,7].
 */
#include "runtime/cluster/resolve/hostlist.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include "ir/base/io/limit.h"

enum { MOST_DIGITS = 9, MOST_NAME = 255 };

typedef struct Reader {
    Arena *arena;
    const char *from, *text, *at;
    const char *end; /* of the name that was read last */
    RtNames *names;
} Reader;

static Status
wrong_at(const char *from, const char *text, const char *at, const char *want)
{
    return status_new(STATUS_INPUT,
                      "%s is \"%s\", where after %td characters there should "
                      "be %s",
                      from, text, at - text, want);
}

static Status
malformed(const Reader *r, const char *want)
{
    return wrong_at(r->from, r->text, r->at, want);
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

static Status read_name(Reader *r, const char *prefix);

/* "08-10" or "12", of names that begin with the prefix; text is what follows
 * the brackets. */
static Status
read_range(Reader *r, const char *prefix, const char *text)
{
    int first, last, width = (int)strspn(r->at, "0123456789");
    if (!read_number(&r->at, &first))
        return malformed(r, "a number");
    last = first;
    if (*r->at == '-') {
        r->at++;
        if (!read_number(&r->at, &last) || last < first)
            return malformed(r, "a number that is not less");
    }
    const char *next = r->at;
    for (int i = first; i <= last; i++) {
        r->at = text;
        TRY(read_name(r, arena_printf(r->arena, "%s%0*d", prefix, width, i)));
    }
    r->end = r->at;
    r->at = next;
    return OK;
}

/* The rest of a name whose beginning is known: letters, and ranges in brackets,
 * each of whose numbers is one more name. */
static Status
read_name(Reader *r, const char *prefix)
{
    size_t n = strcspn(r->at, "[],");
    if (strlen(prefix) + n > MOST_NAME)
        return malformed(r, "the end of a name, after 255 characters");
    prefix = arena_printf(r->arena, "%s%.*s", prefix, (int)n, r->at);
    r->at += n;
    if (*r->at != '[')
        return *prefix ? add_name(r, prefix) : malformed(r, "a name");
    const char *close = strchr(r->at, ']');
    do {
        r->at++;
        TRY(read_range(r, prefix, close ? close + 1 : ""));
    } while (*r->at == ',');
    if (r->at != close)
        return malformed(r, "\",\" or \"]\"");
    r->at = r->end;
    return OK;
}

Status
rt_hostlist(Arena *a, const char *from, const char *text, RtNames *out)
{
    Reader r = {
        .arena = a, .from = from, .text = text, .at = text, .names = out};
    *out = (RtNames){0};
    for (;;) {
        TRY(read_name(&r, ""));
        if (!*r.at)
            return OK;
        if (*r.at != ',')
            return malformed(&r, "\",\"");
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
            return wrong_at(from, text, at, "a list as \"3(x2),1\"");
        for (int i = 0; i < times; i++) {
            if (out->len >= limit_value(LIMIT_processes))
                return limit_status(LIMIT_processes, from);
            VEC_PUSH(a, *out, count);
        }
        if (!*at)
            return OK;
        if (*at != ',')
            return wrong_at(from, text, at, "\",\"");
    }
}
