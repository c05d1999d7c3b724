/*
 * metrics.c - --metrics: the numbers of a job, as a page for Prometheus
 *
 * Whoever reaches the port may read it, so it is on loopback unless the option
 * names another host.
 */
#include "runtime/metrics/metrics.h"

#include <string.h>
#include "ir/base/message.h"
#include "runtime/cluster/resolve/tasks.h"
#include "runtime/metrics/exposition.h"
#include "runtime/metrics/http.h"
#include "runtime/ps/ps.h"

static void
write_status(void *out, const RtPsStatus *s)
{
    rt_metrics_write(out, s);
}

static void
write_page(void *run, Str *out)
{
    rt_ps_show_status(run, write_status, out);
}

static bool
is_port(const char *text)
{
    return *text && strspn(text, "0123456789") == strlen(text);
}

/* "9100", "host:9100", "*:9100"; an address of IPv6 is in brackets. */
static Status
read_address(RtRun *run, const char *text, RtHttpConfig *out)
{
    Arena *a = run->arena;
    const char *address =
        is_port(text) ? arena_printf(a, "127.0.0.1:%s", text) : text;
    const char *wrong = rt_wrong_listen(a, address, true);
    if (wrong)
        return status_new(STATUS_USAGE, "--metrics: %s", message_part(wrong));
    const char *colon = strrchr(address, ':');
    bool in_brackets = *address == '[';
    int n = (int)(colon - address) - 2 * in_brackets;
    const char *host = arena_printf(a, "%.*s", n, address + in_brackets);
    out->host = strcmp(host, "*") == 0 ? NULL : host;
    out->port = colon + 1;
    return OK;
}

/* In a URL an address of IPv6 is in brackets. */
static void
tell_where(const RtRun *run, const RtHttpConfig *config)
{
    const char *host = config->host ? config->host : "*";
    bool is_bare = strchr(host, ':') != NULL;
    fprintf(run->options->err, "metrics at http://%s%s%s:%d%s\n",
            is_bare ? "[" : "", host, is_bare ? "]" : "",
            rt_http_port(run->metrics), config->path);
}

Status
rt_metrics_open(RtRun *run)
{
    const RtOptions *o = run->options;
    RtHttpConfig config = {.path = "/metrics",
                           .type = "text/plain; version=0.0.4; charset=utf-8",
                           .write = write_page,
                           .data = run};
    if (!o->metrics || !rt_ps_coordinates(run))
        return OK;
    TRY(read_address(run, o->metrics, &config));
    TRY(status_note(rt_http_open(&config, &run->metrics), "--metrics %s",
                    o->metrics));
    if (!o->quiet)
        tell_where(run, &config);
    return OK;
}

void
rt_metrics_close(RtRun *run)
{
    rt_http_close(run->metrics);
    run->metrics = NULL;
}
