/*
 * without_signalfd.c - a library for LD_PRELOAD: a system without signalfd
 */
#include <errno.h>
#include <signal.h>
#include <sys/signalfd.h>

__attribute__((visibility("default"))) int
signalfd(int fd, const sigset_t *mask, int flags)
{
    (void)fd;
    (void)mask;
    (void)flags;
    errno = ENOSYS;
    return -1;
}
