/*
 * interfaces.c - the addresses at which others may reach this machine
 */
#include "runtime/cluster/control/interfaces.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include "runtime/hal/system.h"

static bool
is_useful(const struct ifaddrs *at)
{
    if (!at->ifa_addr || !(at->ifa_flags & IFF_UP))
        return false;
    if (at->ifa_addr->sa_family == AF_INET)
        return true;
    if (at->ifa_addr->sa_family != AF_INET6)
        return false;
    const struct sockaddr_in6 *six = (const void *)at->ifa_addr;
    return !IN6_IS_ADDR_LINKLOCAL(&six->sin6_addr);
}

static const char *
address_text(Arena *a, const struct sockaddr *at, int port)
{
    char text[INET6_ADDRSTRLEN] = "";
    if (at->sa_family == AF_INET) {
        inet_ntop(AF_INET, &((const struct sockaddr_in *)at)->sin_addr, text,
                  sizeof text);
        return arena_printf(a, "tcp://%s:%d", text, port);
    }
    inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)at)->sin6_addr, text,
              sizeof text);
    return arena_printf(a, "tcp://[%s]:%d", text, port);
}

Status
rt_list_addresses(Arena *a, int port, RtAddresses *out)
{
    struct ifaddrs *list;
    if (getifaddrs(&list))
        return rt_system_error("getifaddrs");
    out->text = NEW_ARRAY(a, const char *, RT_MOST_ADDRESSES);
    for (struct ifaddrs *at = list; at; at = at->ifa_next)
        if (is_useful(at) && out->num < RT_MOST_ADDRESSES)
            out->text[out->num++] = address_text(a, at->ifa_addr, port);
    freeifaddrs(list);
    return OK;
}
