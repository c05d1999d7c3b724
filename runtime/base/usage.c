/*
 * usage.c - how much memory this process has
 *
 * From /proc: getrusage counts what the process was before it became this
 * program, too.
 */
#include "runtime/base/usage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A row of /proc/self/status, "VmRSS:   1234 kB", in bytes. */
static int64_t
status_row(const char *name)
{
    char line[256];
    long long kilobytes = 0;
    size_t n = strlen(name);
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, name, n) && line[n] == ':')
            kilobytes = strtoll(line + n + 1, NULL, 10);
    if (f)
        fclose(f);
    return kilobytes * 1024;
}

int64_t
usage_now(void)
{
    return status_row("VmRSS");
}

int64_t
usage_peak(void)
{
    return status_row("VmHWM");
}

void
usage_forget_peak(void)
{
    FILE *f = fopen("/proc/self/clear_refs", "w");
    if (!f)
        return;
    fputs("5", f);
    fclose(f);
}
