/*
 * usage_room.c - how much memory this process may take, and by which limit
 *
 * The minimum of the free memory, the limits of the control groups around the
 * process, and its own.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include "ir/base/usage.h"

enum { PATH_ROOM = PATH_MAX }; /* of longer ones nothing can be opened */

/* The number in a file; -1: there is none. */
static int64_t
number_in(const char *path)
{
    long long n = -1;
    FILE *f = fopen(path, "r");
    if (f && fscanf(f, "%lld", &n) != 1)
        n = -1;
    if (f)
        fclose(f);
    return n;
}

/* The number after a word at the beginning of a line; 0 if no line has it. */
static int64_t
row_in(const char *path, const char *word)
{
    char *line = NULL;
    int64_t n = 0;
    size_t room = 0, len = strlen(word);
    FILE *f = fopen(path, "r");
    while (f && getline(&line, &room, f) >= 0)
        if (!strncmp(line, word, len) && (line[len] == ' ' || line[len] == ':'))
            n = strtoll(line + len + 1, NULL, 10);
    free(line);
    if (f)
        fclose(f);
    return n;
}

static void
take_less(UsageRoom *room, int64_t bytes, const char *of)
{
    if (bytes < room->bytes)
        *room = (UsageRoom){bytes > 0 ? bytes : 0, of};
}

static void
look_at_machine(UsageRoom *room, const char *root)
{
    char path[PATH_ROOM];
    snprintf(path, sizeof path, "%s/proc/meminfo", root);
    int64_t kilobytes = row_in(path, "MemAvailable");
    if (kilobytes > 0)
        take_less(room, (kilobytes + row_in(path, "SwapFree")) * 1024,
                  "free memory and swap");
}

/* The file names of one version of control groups. */
typedef struct Groups {
    const char *mount, *limit, *used, *cached;
} Groups;

static const Groups version_1 = {
    "/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
    "total_inactive_file"};
static const Groups version_2 = {"/sys/fs/cgroup", "memory.max",
                                 "memory.current", "inactive_file"};

/* One group.  The kernel first reclaims clean pages of files. */
static void
look_at_group(UsageRoom *room, const Groups *g, const char *folder)
{
    char path[PATH_ROOM + 64];
    snprintf(path, sizeof path, "%s/%s", folder, g->limit);
    int64_t limit = number_in(path);
    snprintf(path, sizeof path, "%s/%s", folder, g->used);
    int64_t used = number_in(path);
    snprintf(path, sizeof path, "%s/memory.stat", folder);
    if (limit >= 0 && used >= 0)
        take_less(room, limit - used + row_in(path, g->cached),
                  "the limit of its control group");
}

/* The group and its ancestors, each of which has a limit. */
static void
look_at_groups(UsageRoom *room, const Groups *g, const char *root,
               const char *name)
{
    char folder[PATH_ROOM];
    int n = snprintf(folder, sizeof folder, "%s%s%s", root, g->mount, name);
    size_t mount = strlen(root) + strlen(g->mount);
    if (n < 0 || (size_t)n >= sizeof folder)
        return;
    for (;;) {
        look_at_group(room, g, folder);
        char *slash = strrchr(folder, '/');
        if (!slash || (size_t)(slash - folder) < mount)
            return;
        *slash = '\0';
    }
}

/* A line of /proc/self/cgroup: "0::/user.slice", "9:cpu,memory:/user.slice". */
static void
look_at_line(UsageRoom *room, const char *root, char *line)
{
    char *controllers = strchr(line, ':');
    char *name = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!name)
        return;
    *name++ = '\0';
    name[strcspn(name, "\n")] = '\0';
    controllers++;
    if (!*controllers)
        look_at_groups(room, &version_2, root, name);
    for (char *c = strtok(controllers, ","); c; c = strtok(NULL, ","))
        if (!strcmp(c, "memory"))
            look_at_groups(room, &version_1, root, name);
}

UsageRoom
usage_room_in(const char *root)
{
    char path[PATH_ROOM], *line = NULL;
    size_t size = 0;
    UsageRoom room = {INT64_MAX, "no limit"};
    look_at_machine(&room, root);
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *f = fopen(path, "r");
    while (f && getline(&line, &size, f) >= 0)
        look_at_line(&room, root, line);
    free(line);
    if (f)
        fclose(f);
    return room;
}

static void
look_at_limit(UsageRoom *room, int which, const char *used, const char *of)
{
    struct rlimit limit;
    if (getrlimit(which, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
        limit.rlim_cur < INT64_MAX)
        take_less(room,
                  (int64_t)limit.rlim_cur -
                      1024 * row_in("/proc/self/status", used),
                  of);
}

UsageRoom
usage_reservable(void)
{
    UsageRoom room = {INT64_MAX, "no limit"};
    look_at_limit(&room, RLIMIT_AS, "VmSize", "ulimit -v");
    look_at_limit(&room, RLIMIT_DATA, "VmData", "ulimit -d");
    return room;
}

UsageRoom
usage_room(void)
{
    UsageRoom room = usage_room_in(""), reservable = usage_reservable();
    take_less(&room, reservable.bytes, reservable.of);
    return room;
}
