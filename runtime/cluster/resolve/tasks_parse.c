/*
 * tasks_parse.c - the tasks of a cluster, from JSON as TF_CONFIG has it
 */
#include "runtime/cluster/resolve/tasks.h"

#include <stdlib.h>
#include <string.h>
#include "ir/base/io/limit.h"
#include "ir/base/message.h"
#include "ir/base/str.h"
#include "runtime/cluster/resolve/resolve_impl.h"

enum { MOST_PORT = 65535 };

typedef struct Parser {
    Arena *arena;
    const char *from; /* "TF_CONFIG" */
    int num;          /* tasks so far */
    Map *seen;        /* address -> its task, as text */
} Parser;

static Status __attribute__((format(printf, 2, 3)))
refuse(const Parser *p, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const char *what = message_vprintf(p->arena, format, args);
    va_end(args);
    return status_new(STATUS_INPUT, "cannot read %s: %s", p->from,
                      message_part(what));
}

/* ---- addresses ----------------------------------------------------------- */

const char *
rt_host_port(Arena *a, const char *host, int port)
{
    bool bare = strchr(host, ':') && *host != '[';
    return arena_printf(a, bare ? "[%s]:%d" : "%s:%d", host, port);
}

/* Where the host ends: before the last colon; NULL: there is no host. */
static const char *
end_of_host(const char *text)
{
    const char *colon = strrchr(text, ':');
    return colon && colon > text ? colon : NULL;
}

static const char *
wrong_address(Arena *a, const char *text, int first_port)
{
    const char *colon = end_of_host(text);
    if (!colon || strstr(text, "://"))
        return message_printf(a, "\"%s\" is no HOST:PORT", text);
    bool closed = *text == '[' && colon[-1] == ']';
    if (memchr(text, ':', (size_t)(colon - text)) && !closed)
        return message_printf(a,
                              "in \"%s\" an address of IPv6 has no brackets: "
                              "[::1]:2222",
                              text);
    size_t digits = strspn(colon + 1, "0123456789");
    if (digits == 0 || digits > 5 || colon[1 + digits] ||
        atoi(colon + 1) < first_port || atoi(colon + 1) > MOST_PORT)
        return message_printf(a,
                              "in \"%s\" the port is no number from %d to %d",
                              text, first_port, MOST_PORT);
    return NULL;
}

const char *
rt_wrong_address(Arena *a, const char *text)
{
    return wrong_address(a, text, 1);
}

const char *
rt_wrong_listen(Arena *a, const char *text, bool any_port)
{
    return wrong_address(a, text, any_port ? 0 : 1);
}

static Status
add_task(Parser *p, RtTaskJob *job, int index, const json_t *value)
{
    Arena *a = p->arena;
    const char *task = arena_printf(a, "%s %d", job->name, index);
    if (!json_is_string(value))
        return refuse(p, "the address of %s is no string", task);
    const char *address = arena_strdup(a, json_string_value(value));
    const char *wrong = rt_wrong_address(a, address);
    if (wrong)
        return refuse(p, "the address of %s: %s", task, message_part(wrong));
    const char *other = map_get(p->seen, address);
    if (other)
        return refuse(p, "%s and %s have the same address %s", other, task,
                      address);
    if (++p->num > limit_value(LIMIT_processes))
        return limit_status(LIMIT_processes, p->from);
    map_set(p->seen, address, (char *)task);
    VEC_PUSH(a, job->tasks, ((RtTask){index, address}));
    return OK;
}

/* ---- jobs ---------------------------------------------------------------- */

/* A number as JSON has it, or as a string. */
static bool
read_index(const json_t *value, int *out)
{
    long long n = -1;
    if (json_is_integer(value))
        n = json_integer_value(value);
    else if (json_is_string(value)) {
        const char *text = json_string_value(value);
        size_t digits = strspn(text, "0123456789");
        if (digits && digits < 10 && !text[digits])
            n = atoll(text);
    }
    if (n < 0 || n > limit_value(LIMIT_processes))
        return false;
    *out = (int)n;
    return true;
}

static int
by_index(const void *x, const void *y)
{
    const RtTask *a = x, *b = y;
    return (a->index > b->index) - (a->index < b->index);
}

static Status
read_sparse(Parser *p, RtTaskJob *job, json_t *tasks)
{
    const char *key;
    json_t *value;
    json_object_foreach(tasks, key, value)
    {
        int index;
        json_t *text = json_string(key);
        bool ok = read_index(text, &index);
        json_decref(text);
        if (!ok)
            return refuse(p,
                          "\"%s\" is no index of a "
                          "task of \"%s\"",
                          key, job->name);
        TRY(add_task(p, job, index, value));
    }
    if (job->tasks.len)
        qsort(job->tasks.data, (size_t)job->tasks.len, sizeof(RtTask),
              by_index);
    for (int i = 1; i < job->tasks.len; i++)
        if (job->tasks.data[i].index == job->tasks.data[i - 1].index)
            return refuse(p, "%s %d is there twice", job->name,
                          job->tasks.data[i].index);
    return OK;
}

static Status
read_job(Parser *p, const char *name, json_t *tasks, RtTaskJob *job)
{
    size_t i;
    json_t *value;
    job->name = arena_strdup(p->arena, name);
    job->sparse = json_is_object(tasks);
    if (job->sparse)
        return read_sparse(p, job, tasks);
    if (!json_is_array(tasks))
        return refuse(p,
                      "the tasks of \"%s\" are no "
                      "list of addresses: [\"host:2222\", ...]",
                      job->name);
    json_array_foreach(tasks, i, value) TRY(add_task(p, job, (int)i, value));
    return OK;
}

static Status
read_cluster(Parser *p, json_t *cluster, RtTasks *out)
{
    const char *name;
    json_t *tasks;
    if (!cluster)
        return OK;
    if (!json_is_object(cluster))
        return refuse(p, "\"cluster\" is no object of jobs: {\"worker\": "
                         "[\"host:2222\", ...]}");
    json_object_foreach(cluster, name, tasks)
    {
        RtTaskJob job = {0};
        TRY(read_job(p, name, tasks, &job));
        VEC_PUSH(p->arena, out->jobs, job);
    }
    return OK;
}

/* ---- this process -------------------------------------------------------- */

/* TensorFlow takes numbers for the type, too. */
static const char *
text_of(Arena *a, const json_t *value)
{
    if (json_is_string(value))
        return arena_strdup(a, json_string_value(value));
    if (json_is_integer(value))
        return arena_printf(a, "%lld", (long long)json_integer_value(value));
    return NULL;
}

static Status
read_task(Parser *p, json_t *task, RtTasks *out)
{
    out->index = -1;
    if (!task)
        return OK;
    if (!json_is_object(task))
        return refuse(p, "\"task\" is no object: {\"type\": \"worker\", "
                         "\"index\": 0}");
    const json_t *type = json_object_get(task, "type");
    const json_t *index = json_object_get(task, "index");
    if (type && !(out->type = text_of(p->arena, type)))
        return refuse(p, "the \"type\" of the task is no string");
    if (index && !read_index(index, &out->index))
        return refuse(p, "the \"index\" of the task is no number from 0");
    return OK;
}

static Status
read_all(Parser *p, json_t *root, RtTasks *out)
{
    if (!json_is_object(root))
        return refuse(p, "it is no object: {\"cluster\": ..., \"task\": ...}");
    const json_t *layer = json_object_get(root, "rpc_layer");
    if (layer)
        out->rpc_layer = text_of(p->arena, layer);
    TRY(read_cluster(p, json_object_get(root, "cluster"), out));
    return read_task(p, json_object_get(root, "task"), out);
}

Status
rt_tasks_parse(Arena *a, const char *from, const char *json, size_t len,
               RtTasks *out)
{
    json_t *root;
    Parser p = {a, from, 0, map_new(a)};
    *out = (RtTasks){.index = -1};
    TRY(rt_read_json(from, json, len, &root));
    Status st = read_all(&p, root, out);
    json_decref(root);
    return st;
}
