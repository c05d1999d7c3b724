/*
 * own_host.c - where others reach this machine
 *
 * A machine has many addresses, of which a server has to tell the one that the
 * job's network has.  Routing knows it: a socket for datagrams that is
 * connected to the coordinator gets it, and sends nothing.
 */
#include "runtime/cluster/launch/own_host.h"

#include <netdb.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "runtime/cluster/control/job.h"
#include "runtime/hal/bounded.h"

typedef struct Search {
    const char *const *addresses;
    int num;
    char found[NI_MAXHOST]; /* empty: none */
} Search;

/* The own end of a way to this address. */
static bool
find_end(const struct addrinfo *to, char *out)
{
    struct sockaddr_storage own;
    socklen_t len = sizeof own;
    int fd = socket(to->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool found = fd >= 0 && !connect(fd, to->ai_addr, to->ai_addrlen) &&
                 !getsockname(fd, (struct sockaddr *)&own, &len) &&
                 !getnameinfo((struct sockaddr *)&own, len, out, NI_MAXHOST,
                              NULL, 0, NI_NUMERICHOST);
    if (fd >= 0)
        close(fd);
    return found;
}

/* HOST:PORT or [HOST]:PORT, which was checked. */
static void
split(const char *address, char host[NI_MAXHOST], const char **port)
{
    const char *colon = strrchr(address, ':');
    size_t n = (size_t)(colon - address), skipped = *address == '[';
    *port = colon + 1;
    n -= 2 * skipped;
    n = n < NI_MAXHOST ? n : NI_MAXHOST - 1;
    memcpy(host, address + skipped, n);
    host[n] = '\0';
}

static void
search_one(Search *s, const char *address)
{
    char host[NI_MAXHOST];
    const char *port;
    struct addrinfo *list, hints = {.ai_socktype = SOCK_DGRAM};
    split(address, host, &port);
    if (getaddrinfo(host, port, &hints, &list))
        return;
    for (struct addrinfo *at = list; at && !*s->found; at = at->ai_next)
        if (!find_end(at, s->found))
            *s->found = '\0';
    freeaddrinfo(list);
}

static void
search(void *data)
{
    Search *s = data;
    for (int i = 0; i < s->num && !*s->found; i++)
        search_one(s, s->addresses[i]);
}

Status
rt_own_host(Arena *a, const char *const *addresses, int num, const char **out)
{
    RtBound bound = {.seconds = RT_JOB_TIMEOUT};
    Search *s = NEW(a, Search);
    *s = (Search){.addresses = addresses, .num = num};
    if (!rt_call_bounded(search, s, &bound))
        return rt_not_returned("a ps", "the resolver of host names", &bound);
    if (!*s->found)
        return status_new(STATUS_MACHINE,
                          "this machine has no way to the coordinator at %s, "
                          "so nothing says where others reach it: give "
                          "--listen HOST:PORT",
                          addresses[0]);
    *out = arena_printf(a, strchr(s->found, ':') ? "[%s]" : "%s", s->found);
    return OK;
}
