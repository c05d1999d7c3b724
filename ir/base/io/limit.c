/*
 * limit.c - limits on input, and the command line that raises them
 */
#include "ir/base/io/limit.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include "ir/base/message.h"
#include "ir/base/str.h"

const LimitRow limit_rows[NUM_LIMITS] = {
#define LIMIT(name, of, value, most, message, about)                           \
    {#name, #of, value, most, message, about},
#include "ir/base/io/limit.def"
#undef LIMIT
};

static int64_t raised[NUM_LIMITS]; /* set by the command line; 0: not set */

int64_t
limit_value(LimitId id)
{
    return raised[id] ? raised[id] : limit_rows[id].value;
}

const char *
limit_message(Arena *a, LimitId id)
{
    return message_printf(a, limit_rows[id].message,
                          (long long)limit_value(id));
}

const char *
limit_note(Arena *a, LimitId id)
{
    if (limit_value(id) >= limit_rows[id].most)
        return NULL;
    return arena_printf(a, "--limit %s=N allows more", limit_rows[id].name);
}

Status
limit_status(LimitId id, const char *what)
{
    Arena *scratch = arena_new(NULL, "a limit");
    const char *note = limit_note(scratch, id);
    Status st = status_new(STATUS_INPUT, "cannot read \"%s\": %s%s%s", what,
                           limit_message(scratch, id), note ? "; " : "",
                           note ? note : "");
    arena_release(scratch);
    return st;
}

/* ---- the command line ---------------------------------------------------- */

static bool
belongs_to(const LimitRow *row, const char *program)
{
    return strcmp(row->of, "both") == 0 || strcmp(row->of, program) == 0;
}

static Status
unknown_limit(const char *program, const char *name)
{
    const char *names[NUM_LIMITS];
    int n = 0;
    for (int i = 0; i < NUM_LIMITS; i++)
        if (belongs_to(&limit_rows[i], program))
            names[n++] = limit_rows[i].name;
    const char *near = nearest_name(name, names, n);
    if (near)
        return status_new(STATUS_USAGE,
                          "there is no limit \"%s\"; did you mean %s?", name,
                          near);
    return status_new(STATUS_USAGE,
                      "there is no limit \"%s\"; docs/limits.md has all", name);
}

/* A positive number with an optional K, M or G; 0 if it is not one. */
static int64_t
parse_count(const char *text)
{
    static const char units[] = "KMG";
    char *end;
    errno = 0;
    int64_t n = strtoll(text, &end, 10);
    const char *unit = *end ? strchr(units, *end) : NULL;
    if (errno || end == text || n < 0 || (*end && (!unit || end[1])))
        return 0;
    for (const char *u = units; unit && u <= unit; u++)
        if (__builtin_mul_overflow(n, 1000, &n))
            return 0;
    return n;
}

static Status
set_row(LimitId id, const char *value)
{
    const LimitRow *row = &limit_rows[id];
    int64_t n = parse_count(value);
    if (!row->most)
        return status_new(STATUS_USAGE,
                          "the limit %s is %lld and cannot be changed",
                          row->name, (long long)row->value);
    if (n < 1 || n > row->most)
        return status_new(STATUS_USAGE,
                          "the limit %s is a number from 1 to %lld (K, M and G "
                          "are 1,000, a million and a billion), not \"%s\"",
                          row->name, (long long)row->most, value);
    raised[id] = n;
    return OK;
}

Status
limit_set(const char *program, const char *text)
{
    size_t len = strcspn(text, "=");
    if (!text[len])
        return status_new(STATUS_USAGE, "--limit needs %s, not \"%s\"",
                          LIMIT_ARG, text);
    for (int i = 0; i < NUM_LIMITS; i++)
        if (belongs_to(&limit_rows[i], program) &&
            strlen(limit_rows[i].name) == len &&
            memcmp(limit_rows[i].name, text, len) == 0)
            return set_row((LimitId)i, text + len + 1);
    Arena *scratch = arena_new(NULL, "a limit");
    Status st = unknown_limit(program, arena_strndup(scratch, text, len));
    arena_release(scratch);
    return st;
}
