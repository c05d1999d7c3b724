/*
 * open_files.c - whether a process may open as many files as a job needs
 */
#include "runtime/cluster/control/open_files.h"

#include <dirent.h>
#include <limits.h>
#include <sys/resource.h>

/*
 * Descriptors that a process opens, beside those that it was started with.
 * Each is what it takes at least, found by lowering `ulimit -n` of one of the
 * processes until a job of 2, 4, 8 and 16 does not train any more (libzmq
 * 4.3.4, which has two descriptors for each of its threads, one for each
 * socket, and one for each connection; UCX 1.13):
 *
 *   the parent of -n 4, 8, 16                      25, 37, 61
 *   a member, by shared memory                     13
 *   the same with the control server, of 2, 4, 8   32, 34, 38
 *   a member over zmq, of 2, 4, 8, 16              25, 31, 43, 67
 *   a member over ucx, of 2 and 4                  29
 *   both, over zmq, of 2, 4, 8                     41, 49, 65
 */
enum {
    PARENT = 13,
    PARENT_EACH = 3, /* its connection, its process and its output */
    MEMBER = 13,     /* the plan, what is shared, a connection */
    SERVER = 17,     /* the control server's context and sockets */
    SERVER_EACH = 1,
    MESSAGES = 16,
    MESSAGES_EACH = 3, /* of the others: a socket, and two connections */
    /* For files of the plan's data, other versions of the libraries, and
     * connections that are tried at several addresses. */
    SPARE = 8
};

/* Those that are open now; the limit, where none is left to count them. */
static int
num_open(int limit)
{
    int num = 0;
    DIR *folder = opendir("/proc/self/fd");
    if (!folder)
        return limit;
    for (struct dirent *at; (at = readdir(folder));)
        num += at->d_name[0] != '.';
    closedir(folder);
    return num - 1; /* the folder's */
}

static int
num_of_member(const RtFileUse *use)
{
    int n = MEMBER;
    if (use->has_server)
        n += SERVER + SERVER_EACH * use->size;
    if (use->has_messages)
        n += MESSAGES + MESSAGES_EACH * (use->size - 1);
    return n;
}

static int
num_needed(const RtFileUse *use)
{
    int parent = use->is_parent ? PARENT + PARENT_EACH * use->size : 0;
    int member = use->is_member ? num_of_member(use) : 0;
    return SPARE + (parent > member ? parent : member);
}

static int
raise_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit))
        return INT_MAX;
    if (limit.rlim_cur < limit.rlim_max) {
        struct rlimit raised = {limit.rlim_max, limit.rlim_max};
        if (!setrlimit(RLIMIT_NOFILE, &raised))
            limit = raised;
    }
    return limit.rlim_cur < INT_MAX ? (int)limit.rlim_cur : INT_MAX;
}

Status
rt_provide_files(const RtFileUse *use)
{
    int limit = raise_limit();
    int needed = num_open(limit) + num_needed(use);
    if (needed <= limit)
        return OK;
    return status_new(STATUS_MACHINE,
                      "a job of %d processes needs %d open files in a process, "
                      "and the hard limit here is %d: raise it (ulimit -Hn, "
                      "nofile of limits.conf, LimitNOFILE of systemd), or "
                      "start fewer processes",
                      use->size, needed, limit);
}
