/*
 * options.c - TFD_SANDBOX=seed:7,trace
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/hal/sandbox/sandbox_impl.h"

/* The number behind word, which ends in ":", in text; false: it is another
 * word, or no number. */
static bool
read_number(const char *text, const char *word, double *out)
{
    char *end;
    size_t n = strlen(word);
    if (strncmp(text, word, n) != 0 || !text[n])
        return false;
    double value = strtod(text + n, &end);
    if (*end || !isfinite(value) || value < 0.0)
        return false;
    *out = value;
    return true;
}

static bool
read_flag(const char *text, const char *word, bool *out)
{
    if (strcmp(text, word) != 0)
        return false;
    return *out = true;
}

static bool
read_option(const char *text, SandboxOptions *o)
{
    double seed;
    if (read_number(text, "seed:", &seed) && seed < 0x1p53) {
        o->seed = (uint64_t)seed;
        return true;
    }
    if (read_flag(text, "no-overlap", &o->has_no_overlap))
        return o->is_timed = true;
    return read_flag(text, "cpu", &o->replaces_cpu) ||
           read_flag(text, "one-queue", &o->has_one_queue) ||
           read_flag(text, "no-peers", &o->has_no_peers) ||
           read_flag(text, "repeat", &o->is_repeatable) ||
           read_flag(text, "trace", &o->trace) ||
           read_flag(text, "engine", &o->is_engine) ||
           read_flag(text, "timed", &o->is_timed) ||
           (read_number(text, "lost:", &o->lost) && o->lost > 0.0) ||
           (read_number(text, "bandwidth:", &o->link_bytes) &&
            o->link_bytes > 0.0) ||
           read_number(text, "latency:", &o->link_seconds);
}

Status
rt_sandbox_options(SandboxOptions *out)
{
    char text[256], *rest = text;
    const char *setting = getenv("TFD_SANDBOX");
    const IrMachine *machine = &ir_machines[DEVICE_sandbox];
    *out = (SandboxOptions){.link_bytes = machine->link_bytes,
                            .link_seconds = machine->collective};
    strncpy(text, setting ? setting : "", sizeof text - 1);
    text[sizeof text - 1] = '\0';
    for (char *word; (word = strtok_r(rest, ",", &rest));)
        if (!read_option(word, out))
            return status_new(
                STATUS_USAGE,
                "TFD_SANDBOX has \"%s\", which is none of seed:N, cpu, "
                "one-queue, no-peers, repeat, trace, lost:N, engine, timed, "
                "no-overlap, "
                "bandwidth:BYTES and latency:SECONDS",
                word);
    return OK;
}

/* Mistakes are told when a device is opened. */
static SandboxOptions
options_so_far(void)
{
    SandboxOptions o;
    Status st = rt_sandbox_options(&o);
    status_free(st);
    return o;
}

bool
rt_sandbox_replaces_cpu(void)
{
    return options_so_far().replaces_cpu;
}

bool
rt_sandbox_has_one_queue(void)
{
    return options_so_far().has_one_queue;
}
