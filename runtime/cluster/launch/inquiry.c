/*
 * inquiry.c - how `tfd-run --status PID` finds the coordinator of a job of -n
 *
 * The socket has an abstract name: it ends with the process, and only processes
 * of the same machine and network namespace see it, as they do its loopback.
 * Both sides ask the kernel who the other one is.
 */
#include "runtime/cluster/launch/inquiry.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>
#include "runtime/hal/system.h"

enum { PATIENCE_S = 3 };

/* Its name begins with a zero byte. */
static socklen_t
name_of(int64_t pid, struct sockaddr_un *out)
{
    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    int n = snprintf(out->sun_path + 1, sizeof out->sun_path - 1,
                     "tfd-run %lld", (long long)pid);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

int
rt_inquiry_open(void)
{
    enum { WAITING = 8 };
    struct sockaddr_un name;
    socklen_t len = name_of(getpid(), &name);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && !bind(fd, (struct sockaddr *)&name, len) &&
        !listen(fd, WAITING))
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

static bool
peer_of(int fd, struct ucred *out)
{
    socklen_t len = sizeof *out;
    return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, out, &len);
}

void
rt_inquiry_answer(int listener, const RtInquiryAnswer *answer)
{
    struct ucred peer;
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0)
        return;
    if (peer_of(fd, &peer) && (peer.uid == geteuid() || peer.uid == 0))
        (void)!send(fd, answer, sizeof *answer, MSG_NOSIGNAL);
    close(fd);
}

/* ---- asking -------------------------------------------------------------- */

static Status
no_parent(int64_t pid)
{
    return status_new(STATUS_USAGE,
                      "process %lld is no parent of a job with a coordinator "
                      "(tfd-run -n workers=W,ps=P) of this user: its pid is "
                      "that of the first tfd-run",
                      (long long)pid);
}

static Status
read_answer(int fd, int64_t pid, RtInquiryAnswer *out)
{
    struct ucred peer;
    if (!peer_of(fd, &peer) || peer.pid != pid ||
        (peer.uid != geteuid() && peer.uid != 0))
        return no_parent(pid);
    ssize_t n = recv(fd, out, sizeof *out, 0);
    if (n == 0)
        return no_parent(pid);
    if (n != (ssize_t)sizeof *out)
        return status_new(STATUS_MACHINE,
                          "process %lld has not said within %d s where its "
                          "coordinator listens: it is stopped, or its tasks "
                          "are still starting",
                          (long long)pid, PATIENCE_S);
    return OK;
}

Status
rt_inquiry_ask(int64_t pid, RtInquiryAnswer *out)
{
    struct sockaddr_un name;
    struct timeval patience = {.tv_sec = PATIENCE_S};
    socklen_t len = name_of(pid, &name);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return rt_system_error("socket");
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    Status st = connect(fd, (struct sockaddr *)&name, len)
                    ? no_parent(pid)
                    : read_answer(fd, pid, out);
    close(fd);
    return st;
}
