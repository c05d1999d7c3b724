/*
 * lines.c - the output of a process, line by line with its label before it
 */
#include "runtime/cluster/launch/lines.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Of any bytes: a 0 ends no line. */
static void
print(const RtLines *l, const char *text, size_t n)
{
    fputs(l->label, stderr);
    fwrite(text, 1, n, stderr);
    fputc('\n', stderr);
}

static void
print_lines(RtLines *l)
{
    size_t begin = 0;
    for (char *end; (end = memchr(l->text + begin, '\n', l->len - begin));) {
        size_t at = (size_t)(end - l->text);
        print(l, l->text + begin, at - begin);
        begin = at + 1;
    }
    if (begin == 0 && l->len == sizeof l->text) {
        print(l, l->text, l->len);
        begin = l->len;
    }
    memmove(l->text, l->text + begin, l->len - begin);
    l->len -= begin;
    fflush(stderr);
}

bool
rt_lines_pass(RtLines *l)
{
    if (l->fd < 0)
        return false;
    ssize_t n = read(l->fd, l->text + l->len, sizeof l->text - l->len);
    if (n > 0) {
        l->len += (size_t)n;
        print_lines(l);
        return true;
    }
    if (n < 0 && errno == EINTR)
        return true;
    if (l->len)
        print(l, l->text, l->len);
    l->len = 0;
    close(l->fd);
    l->fd = -1;
    return false;
}

void
rt_lines_close(RtLines *l)
{
    struct pollfd item = {.fd = l->fd, .events = POLLIN};
    while (l->fd >= 0 && poll(&item, 1, 0) > 0 && rt_lines_pass(l))
        continue;
    if (l->fd >= 0)
        close(l->fd);
    l->fd = -1;
}
