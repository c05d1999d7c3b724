/*
 * cache.c - compiled code kept from one compilation to the next
 *
 * A file is a header with the key and a checksum, then the bytes.  It is
 * written under another name and renamed, so a reader sees all of it or
 * nothing; what is damaged all the same is not believed.
 *
 * The compiler is known by its build-id, which the linker makes of all its
 * bytes: a changed code generator never meets code of its predecessor.
 */
#include "backend/cache.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>
#include "runtime/base/fail.h"
#include "runtime/base/str.h"

struct BeCache {
    const char *dir; /* NULL: no cache */
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

BeCache *
be_cache_open(Arena *a, const char *dir)
{
    BeCache *c = NEW(a, BeCache);
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
entry_path(const BeCache *c, BeCacheKey key, Arena *a)
{
    return arena_printf(a, "%s/%016llx%016llx.o", c->dir,
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

void
be_cache_put(const BeCache *c, BeCacheKey key, const void *bytes, size_t size)
{
    if (!c->dir || fail_here(FAIL_IO))
        return;
    Arena *a = arena_new(NULL, "cache entry");
    char *temporary = arena_printf(a, "%s/new.XXXXXX", c->dir);
    int fd = mkstemp(temporary);
    if (fd >= 0) {
        Header h = {
            .key = key, .size = size, .checksum = XXH3_64bits(bytes, size)};
        memcpy(h.magic, magic, sizeof magic);
        bool written =
            write_all(fd, &h, sizeof h) && write_all(fd, bytes, size);
        written &= close(fd) == 0;
        if (!written || rename(temporary, entry_path(c, key, a)))
            unlink(temporary);
    }
    arena_release(a);
}
