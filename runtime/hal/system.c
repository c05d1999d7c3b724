/*
 * system.c - the system that a process runs on
 */
#include "runtime/hal/system.h"

#include <errno.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>
#include "ir/base/io/file.h"

Status
rt_system_error(const char *call)
{
    return file_error(errno, "a job of several processes needs %s, which fails",
                      call);
}

bool
rt_signal_is_ignored(int signal_number)
{
    struct sigaction now;
    return sigaction(signal_number, NULL, &now) == 0 &&
           now.sa_handler == SIG_IGN;
}

const char *
rt_host_name(Arena *a)
{
    char name[256] = "";
    if (gethostname(name, sizeof name - 1))
        return "?";
    return arena_strdup(a, name);
}

const char *
rt_machine_name(Arena *a)
{
    char *boot = NULL;
    size_t n = 0;
    struct stat net = {0}, pid = {0};
    Status st = file_read(a, "/proc/sys/kernel/random/boot_id", &boot, &n);
    if (st || n < 36)
        boot = arena_printf(a, "%ld", gethostid());
    else
        boot[36] = '\0';
    status_free(st);
    if (stat("/proc/self/ns/net", &net) || stat("/proc/self/ns/pid", &pid))
        return boot;
    return arena_printf(a, "%s.%llu.%llu", boot, (unsigned long long)net.st_ino,
                        (unsigned long long)pid.st_ino);
}
