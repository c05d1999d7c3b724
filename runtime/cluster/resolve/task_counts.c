/*
 * task_counts.c - how many tasks of each kind a parameter-server job has
 *
 * Either spelling is a list of a name and a number: "ps=2", as the command line
 * has it, and "2 ps", as people say it.
 */
#include "runtime/cluster/resolve/task_counts.h"

#include <stdlib.h>
#include <string.h>
#include "ir/base/io/limit.h"
#include "ir/base/message.h"

enum { WORKERS, SERVERS, COORDINATORS, EVALUATORS, NUM_KINDS };

static const struct {
    const char *name;
    int kind;
} names[] = {
    {"workers", WORKERS},    {"worker", WORKERS},
    {"ps", SERVERS},         {"coordinator", COORDINATORS},
    {"chief", COORDINATORS}, {"evaluator", EVALUATORS},
};

enum { NUM_NAMES = sizeof names / sizeof *names };

typedef struct Reader {
    Arena *arena;
    const char *option, *text;
    int counts[NUM_KINDS]; /* -1: not said */
} Reader;

static Status __attribute__((format(printf, 2, 3)))
refuse(const Reader *r, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const char *what = message_vprintf(r->arena, format, args);
    va_end(args);
    return status_new(STATUS_USAGE, "%s %s: %s, as workers=3,ps=2", r->option,
                      r->text, message_part(what));
}

static int
find_kind(const char *name)
{
    for (int i = 0; i < NUM_NAMES; i++)
        if (strcmp(names[i].name, name) == 0)
            return names[i].kind;
    return NUM_KINDS;
}

static Status
set_count(Reader *r, const char *name, const char *number)
{
    int kind = find_kind(name);
    if (kind == NUM_KINDS)
        return refuse(r, "\"%s\" is no kind of a task: workers, ps, evaluator",
                      name);
    if (!rt_is_number(number) || strlen(number) > 9 || atoi(number) < 1)
        return refuse(r, "\"%s\" is no number of %s from 1 on", number, name);
    if (r->counts[kind] >= 0)
        return refuse(r, "%s are there twice", name);
    r->counts[kind] = atoi(number);
    return OK;
}

static const char *
trim(Arena *a, const char *text, size_t n)
{
    while (n && *text == ' ') {
        text++;
        n--;
    }
    while (n && text[n - 1] == ' ')
        n--;
    return arena_printf(a, "%.*s", (int)n, text);
}

/* "ps=2" or "2 ps" */
static Status
read_part(Reader *r, const char *part)
{
    bool assigns = strchr(part, '=');
    size_t n = strcspn(part, assigns ? "=" : " ");
    if (!part[n])
        return refuse(r, "\"%s\" is no number of tasks", part);
    const char *left = trim(r->arena, part, n);
    const char *right = trim(r->arena, part + n + 1, strlen(part + n + 1));
    return assigns ? set_count(r, left, right) : set_count(r, right, left);
}

static Status
check(const Reader *r)
{
    if (r->counts[WORKERS] < 0 || r->counts[SERVERS] < 0)
        return refuse(r, "a job has workers and servers (ps)");
    if (r->counts[COORDINATORS] > 1)
        return refuse(r, "a job has one coordinator");
    if (r->counts[EVALUATORS] > 1)
        return refuse(r, "a job has one evaluator at most");
    if ((int64_t)r->counts[WORKERS] + r->counts[SERVERS] + 2 >
        limit_value(LIMIT_processes))
        return limit_status(LIMIT_processes, r->option);
    return OK;
}

Status
rt_task_counts_parse(Arena *a, const char *option, const char *text,
                     RtTaskCounts *out)
{
    Reader r = {a, option, text, {-1, -1, -1, -1}};
    for (const char *at = text;;) {
        size_t n = strcspn(at, ",");
        TRY(read_part(&r, trim(a, at, n)));
        if (!at[n])
            break;
        at += n + 1;
    }
    TRY(check(&r));
    *out = (RtTaskCounts){.workers = r.counts[WORKERS],
                          .servers = r.counts[SERVERS],
                          .evaluators = r.counts[EVALUATORS] > 0};
    return OK;
}

bool
rt_is_number(const char *text)
{
    return *text && !text[strspn(text, "0123456789")];
}

int
rt_num_tasks(const RtTaskCounts *counts)
{
    return 1 + counts->servers + counts->workers + counts->evaluators;
}
