/*
 * usage.c - how much memory this process has
 *
 * From /proc, because getrusage includes the process before exec.  Read without
 * a stream, since it is needed when there is no memory for one.
 */
#include "ir/base/usage.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The file's text; "" if it cannot be read. */
static void
read_text(const char *path, char *to, size_t size)
{
    size_t len = 0;
    ssize_t got = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && len + 1 < size &&
           (got = read(fd, to + len, size - 1 - len)) > 0)
        len += (size_t)got;
    to[len] = 0;
    if (fd >= 0)
        close(fd);
}

/* A row of /proc/self/status, "VmRSS:\t 1234 kB", in bytes. */
static int64_t
status_row(const char *name)
{
    char text[8192];
    read_text("/proc/self/status", text, sizeof text);
    const char *row = strstr(text, name);
    return row ? strtoll(row + strlen(name), NULL, 10) * 1024 : 0;
}

int64_t
usage_now(void)
{
    return status_row("\nVmRSS:");
}

int64_t
usage_peak(void)
{
    return status_row("\nVmHWM:");
}

int64_t
usage_addresses(void)
{
    return status_row("\nVmSize:");
}

void
usage_forget_peak(void)
{
    int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    ssize_t written = write(fd, "5", 1);
    (void)written; /* then the peak includes all the time before */
    close(fd);
}
