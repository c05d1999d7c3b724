/*
 * cache_trim.c - removes the least recently used objects from the cache
 *
 * Each folder may take its share of the cache's size.  After some insertions
 * the process visits the files of the folder, from the newest (a file's time is
 * that of its last use) to the oldest, and keeps those that fit.
 *
 * Links, pipes and folders are removed, since the cache never makes them.  A
 * time in the future is invalid: such a file counts as oldest.  The number of
 * files that are read is limited, so that memory is bounded, too.
 */
#include "backend/cache_impl.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "ir/base/arena.h"
#include "ir/base/vec.h"

enum {
    MAX_ENTRIES = 1 << 16,
    CLOCKS_DIFFER = 86400, /* seconds, between machines that share a cache */
    BLOCK = 512            /* bytes: what st_blocks counts */
};

typedef struct Entry {
    const char *name;
    time_t used;
    uint64_t size;
} Entry;

typedef VEC(Entry) Entries;

static int
newer_first(const void *x, const void *y)
{
    const Entry *a = x, *b = y;
    return a->used != b->used ? (a->used < b->used) - (a->used > b->used)
                              : strcmp(a->name, b->name);
}

/* Bytes of disk that the file takes, or would take. */
static uint64_t
size_on_disk(const struct stat *st)
{
    uint64_t blocks = (uint64_t)st->st_blocks * BLOCK;
    uint64_t bytes = (uint64_t)st->st_size;
    return blocks > bytes ? blocks : bytes;
}

static void
remove_entry(int folder, const char *name)
{
    if (unlinkat(folder, name, 0))
        unlinkat(folder, name, AT_REMOVEDIR); /* if the folder is empty */
}

static bool
is_dots(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* Lists the files of a folder; others are removed. */
static Entries
list_entries(Arena *a, DIR *folder)
{
    Entries entries = {0};
    time_t latest = time(NULL) + CLOCKS_DIFFER;
    for (struct dirent *d; (d = readdir(folder));) {
        struct stat st;
        if (is_dots(d->d_name))
            continue;
        if (fstatat(dirfd(folder), d->d_name, &st, AT_SYMLINK_NOFOLLOW) ||
            !S_ISREG(st.st_mode) || entries.len == MAX_ENTRIES) {
            remove_entry(dirfd(folder), d->d_name);
            continue;
        }
        Entry e = {arena_strdup(a, d->d_name),
                   st.st_mtime > latest ? 0 : st.st_mtime, size_on_disk(&st)};
        VEC_PUSH(a, entries, e);
    }
    return entries;
}

static void
keep_newest(int folder, Entries *entries, uint64_t limit)
{
    uint64_t left = limit;
    if (entries->len)
        qsort(entries->data, (size_t)entries->len, sizeof *entries->data,
              newer_first);
    for (int i = 0; i < entries->len; i++) {
        const Entry *e = &entries->data[i];
        if (e->size > left)
            remove_entry(folder, e->name);
        else
            left -= e->size;
    }
}

void
be_cache_trim(int folder, uint64_t limit)
{
    int own = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = own >= 0 ? fdopendir(own) : NULL;
    if (!dir) {
        if (own >= 0)
            close(own);
        return;
    }
    Arena *a = arena_new(NULL, "the cache's folder");
    Entries entries = list_entries(a, dir);
    keep_newest(folder, &entries, limit);
    arena_release(a);
    closedir(dir);
}
