/*
 * cache.c - compiled code kept from one compilation to the next
 *
 * A file is a header with the key and a checksum, then the bytes.  It is
 * written under another name and renamed, so a reader sees all of it or
 * nothing; what is damaged all the same is not believed.
 *
 * The compiler is known by its build-id, which the linker makes of all its
 * bytes: a changed code generator never meets code of its predecessor.
 *
 * Files lie in 256 folders by the first digits of their names.  Each may take
 * its part of the cache's size: now and then one who has put a file there
 * removes what was longest unused (a file's time is that of its last use).
 */
#include "backend/cache.h"

#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>
#include "runtime/base/fail.h"
#include "runtime/base/str.h"
#include "runtime/base/vec.h"

enum {
    FOLDERS = 256,
    PUTS_PER_TRIM = 16,    /* on average; a folder is read in about 1 ms */
    DEFAULT_SIZE = 1024,   /* MB */
    SECONDS_OF_USE = 3600, /* uses nearer than that are not told apart */
};

struct BeCache {
    const char *dir; /* NULL: no cache */
    uint64_t limit;  /* bytes, of all files together */
};

typedef struct Header {
    char magic[8];
    BeCacheKey key;
    uint64_t size, checksum;
} Header;

static const char magic[8] = "tfdcode1";

/* ---- where, and what it hangs on ---------------------------------------- */

static const char *
default_dir(Arena *a)
{
    const char *own = getenv("TFD_CACHE");
    if (own)
        return own;
    const char *xdg = getenv("XDG_CACHE_HOME");
    if (xdg && *xdg)
        return arena_printf(a, "%s/tfd", xdg);
    const char *home = getenv("HOME");
    return home && *home ? arena_printf(a, "%s/.cache/tfd", home) : "";
}

static bool
make_folders(Arena *a, const char *dir)
{
    char *path = arena_strdup(a, dir);
    for (char *p = path + 1; *p; p++) {
        if (*p != '/')
            continue;
        *p = '\0';
        if (mkdir(path, 0777) && errno != EEXIST)
            return false;
        *p = '/';
    }
    return mkdir(path, 0777) == 0 || errno == EEXIST;
}

static uint64_t
size_limit(void)
{
    const char *own = getenv("TFD_CACHE_SIZE");
    char *end;
    unsigned long mb = own && *own ? strtoul(own, &end, 10) : DEFAULT_SIZE;
    if (own && *own && *end)
        mb = DEFAULT_SIZE;
    return (uint64_t)mb << 20;
}

BeCache *
be_cache_open(Arena *a, const char *dir)
{
    BeCache *c = NEW(a, BeCache);
    c->limit = size_limit();
    if (!dir)
        dir = default_dir(a);
    if (*dir && make_folders(a, dir))
        c->dir = arena_strdup(a, dir);
    return c;
}

/* The build-id among the notes of the program itself, which comes first. */
static int
find_build_id(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
        if (ph->p_type != PT_NOTE)
            continue;
        const char *p = (const char *)(info->dlpi_addr + ph->p_vaddr);
        const char *end = p + ph->p_memsz;
        while (p + sizeof(ElfW(Nhdr)) <= end) {
            const ElfW(Nhdr) *note = (const void *)p;
            size_t name = (note->n_namesz + 3) & ~(size_t)3;
            size_t bytes = (note->n_descsz + 3) & ~(size_t)3;
            p += sizeof *note + name;
            if (note->n_type == NT_GNU_BUILD_ID)
                XXH3_128bits_update(data, p, note->n_descsz);
            p += bytes;
        }
    }
    return 1;
}

static void
add_text(XXH3_state_t *state, const char *text, size_t len)
{
    XXH3_128bits_update(state, text, len + 1);
}

BeCacheKey
be_cache_key(const char *text, size_t len, const char *target, int level)
{
    XXH3_state_t *state = XXH3_createState();
    if (!state)
        return (BeCacheKey){0, 0};
    XXH3_128bits_reset(state);
    add_text(state, TFD_VERSION, strlen(TFD_VERSION));
    dl_iterate_phdr(find_build_id, state);
    add_text(state, target, strlen(target));
    XXH3_128bits_update(state, &level, sizeof level);
    add_text(state, text, len);
    XXH128_hash_t h = XXH3_128bits_digest(state);
    XXH3_freeState(state);
    return (BeCacheKey){h.high64, h.low64};
}

/* ---- files -------------------------------------------------------------- */

static char *
folder_path(const BeCache *c, BeCacheKey key, Arena *a)
{
    return arena_printf(a, "%s/%02x", c->dir,
                        (unsigned)(key.high >> 56) % FOLDERS);
}

static char *
entry_path(const BeCache *c, BeCacheKey key, Arena *a)
{
    return arena_printf(a, "%s/%016llx%016llx.o", folder_path(c, key, a),
                        (unsigned long long)key.high,
                        (unsigned long long)key.low);
}

static bool
read_all(int fd, void *to, size_t n)
{
    for (size_t done = 0; done < n;) {
        ssize_t got = read(fd, (char *)to + done, n - done);
        if (got <= 0)
            return false;
        done += (size_t)got;
    }
    return true;
}

static bool
write_all(int fd, const void *from, size_t n)
{
    for (size_t done = 0; done < n;) {
        ssize_t put = write(fd, (const char *)from + done, n - done);
        if (put <= 0)
            return false;
        done += (size_t)put;
    }
    return true;
}

static bool
is_sound(const Header *h, BeCacheKey key, off_t file_size)
{
    return memcmp(h->magic, magic, sizeof magic) == 0 &&
           h->key.high == key.high && h->key.low == key.low &&
           h->size == (uint64_t)file_size - sizeof *h;
}

static bool
read_entry(int fd, BeCacheKey key, Arena *a, const void **bytes, size_t *size)
{
    Header h;
    struct stat st;
    if (fstat(fd, &st) || !read_all(fd, &h, sizeof h) ||
        !is_sound(&h, key, st.st_size))
        return false;
    void *data = arena_alloc(a, h.size);
    if (!read_all(fd, data, h.size) || XXH3_64bits(data, h.size) != h.checksum)
        return false;
    if (time(NULL) - st.st_mtime > SECONDS_OF_USE)
        futimens(fd, NULL);
    *bytes = data;
    *size = h.size;
    return true;
}

bool
be_cache_get(const BeCache *c, BeCacheKey key, Arena *a, const void **bytes,
             size_t *size)
{
    if (!c->dir || fail_here(FAIL_IO))
        return false;
    int fd = open(entry_path(c, key, a), O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    bool found = read_entry(fd, key, a, bytes, size);
    close(fd);
    return found;
}

/* ---- what was longest unused goes --------------------------------------- */

typedef struct Entry {
    const char *name;
    time_t used;
    uint64_t size;
} Entry;

typedef VEC(Entry) Entries;

static int
by_use(const void *x, const void *y)
{
    const Entry *a = x, *b = y;
    return a->used != b->used ? (a->used > b->used) - (a->used < b->used)
                              : strcmp(a->name, b->name);
}

/* The files of an open folder, and how many bytes they are. */
static uint64_t
list_entries(DIR *folder, Arena *a, Entries *entries)
{
    uint64_t total = 0;
    for (struct dirent *d; (d = readdir(folder));) {
        struct stat st;
        if (fstatat(dirfd(folder), d->d_name, &st, AT_SYMLINK_NOFOLLOW) ||
            !S_ISREG(st.st_mode))
            continue;
        Entry e = {arena_strdup(a, d->d_name), st.st_mtime,
                   (uint64_t)st.st_size};
        VEC_PUSH(a, *entries, e);
        total += (uint64_t)st.st_size;
    }
    return total;
}

static void
trim_folder(const char *path, uint64_t limit, Arena *a)
{
    DIR *folder = opendir(path);
    if (!folder)
        return;
    Entries entries = {0};
    uint64_t total = list_entries(folder, a, &entries);
    if (total > limit) {
        qsort(entries.data, (size_t)entries.len, sizeof *entries.data, by_use);
        for (int i = 0; i < entries.len && total > limit; i++) {
            total -= entries.data[i].size;
            unlinkat(dirfd(folder), entries.data[i].name, 0);
        }
    }
    closedir(folder);
}

/* ---- putting ------------------------------------------------------------ */

static bool
write_entry(int fd, BeCacheKey key, const void *bytes, size_t size)
{
    Header h = {.key = key, .size = size, .checksum = XXH3_64bits(bytes, size)};
    memcpy(h.magic, magic, sizeof magic);
    bool written = write_all(fd, &h, sizeof h) && write_all(fd, bytes, size);
    return (close(fd) == 0) & written;
}

void
be_cache_put(const BeCache *c, BeCacheKey key, const void *bytes, size_t size)
{
    if (!c->dir || fail_here(FAIL_IO))
        return;
    Arena *a = arena_new(NULL, "cache entry");
    char *folder = folder_path(c, key, a);
    mkdir(folder, 0777);
    char *temporary = arena_printf(a, "%s/new.XXXXXX", folder);
    int fd = mkstemp(temporary);
    if (fd >= 0 && (!write_entry(fd, key, bytes, size) ||
                    rename(temporary, entry_path(c, key, a))))
        unlink(temporary);
    if (key.low % PUTS_PER_TRIM == 0)
        trim_folder(folder, c->limit / FOLDERS, a);
    arena_release(a);
}
