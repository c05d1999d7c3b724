/*
 * cache.c - compiled code kept from one compilation to the next
 *
 * Trust: anyone who can put a file here can run code as the user.  So the
 * folder and each file that is read must belong to the user, and nobody else
 * may have write permission.  Folders and files are opened without following
 * links or waiting for pipes, and checked after they are open.  The folder has
 * a secret, `key`, of random bytes that only the user can read.  A file's name
 * and its seal are hashes keyed by it: a file that another user's compiler
 * made, that is damaged, or that has another file's name is rejected, and no
 * program can be constructed whose code would be used for another. (An attacker
 * who can act as the user is not kept out, and does not need the cache.)
 *
 * A file is a header with key and seal, then the bytes.  It is written under
 * another name and renamed, so a reader sees all of it or nothing.
 *
 * The compiler is identified by its build-id, which the linker computes from
 * all its bytes: a changed code generator never uses code of its predecessor.
 * LLVM's build-id is added, and a compiler without one has no cache.  With keys
 * of modules LLVM is known by its version alone, since compilers that share
 * code have it in different files: that is for the builds of one checkout.
 *
 * Files are in 256 folders by the first digits of their names (cache_trim.c
 * keeps those small).
 */
#include "backend/cache.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <llvm-c/Core.h>
#include "backend/cache_impl.h"
#include "ir/base/fail.h"
#include "ir/base/message.h"
#include "ir/base/hash/siphash.h"
#include "ir/base/temporary.h"

enum {
    PUTS_PER_TRIM = 16,      /* on average; a folder is read in about 1 ms */
    DEFAULT_SIZE = 1024,     /* MB */
    MAX_SIZE = 1 << 30,      /* MB */
    MAX_ENTRY = 256 << 20,   /* bytes; no object is so large */
    SECONDS_OF_USE = 3600,   /* closer uses are not distinguished */
    SECRET = 2 * SIPHASH_KEY /* bytes: for names, for seals */
};

#define SECRET_NAME "key"

struct BeCache {
    int folder;          /* -1: no cache */
    uint64_t limit;      /* bytes, of all files together */
    const char *warning; /* or NULL */
    uint8_t secret[SECRET];
    SipValue compiler;
    bool has_modules;
};

typedef struct Header {
    char magic[8];
    BeCacheKey key;
    uint64_t size;
    SipValue seal;
} Header;

/* "1c/1c55792052fb57c5f32c09dece6cbbdb.o" */
typedef struct Names {
    char folder[3];
    char file[2 * 16 + sizeof ".o"];
    char temporary[sizeof "new." + 16];
} Names;

static const char magic[8] = "tfdcode2";

/* ---- ownership ------------------------------------------------- */

/* Opens a folder inside another; -1 if it does not exist or is not the user's.
 */
static int
open_own_folder(int inside, const char *name)
{
    struct stat st;
    int fd =
        openat(inside, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 && (fstat(fd, &st) || st.st_uid != geteuid())) {
        close(fd);
        return -1;
    }
    return fd;
}

/* Opens a regular file of the user for reading; -1 otherwise. */
static int
open_own_file(int folder, const char *name, struct stat *st)
{
    int fd =
        openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0 &&
        (fstat(fd, st) || !S_ISREG(st->st_mode) || st->st_uid != geteuid())) {
        close(fd);
        return -1;
    }
    return fd;
}

static bool
read_all(int fd, void *to, size_t n)
{
    for (size_t done = 0; done < n;) {
        ssize_t got = read(fd, (char *)to + done, n - done);
        if (got == 0 || (got < 0 && errno != EINTR))
            return false;
        done += got > 0 ? (size_t)got : 0;
    }
    return true;
}

static bool
write_all(int fd, const void *from, size_t n)
{
    for (size_t done = 0; done < n;) {
        ssize_t put = write(fd, (const char *)from + done, n - done);
        if (put == 0 || (put < 0 && errno != EINTR))
            return false;
        done += put > 0 ? (size_t)put : 0;
    }
    return true;
}

/* "new." and an unused number. */
static bool
name_temporary(char *name, size_t size)
{
    uint64_t number;
    if (getrandom(&number, sizeof number, 0) != sizeof number)
        return false;
    snprintf(name, size, "new.%016llx", (unsigned long long)number);
    return true;
}

/* ---- the secret --------------------------------------------------------- */

static bool
read_secret(BeCache *c)
{
    struct stat st;
    int fd = open_own_file(c->folder, SECRET_NAME, &st);
    if (fd < 0)
        return false;
    bool good = st.st_size == SECRET && !(st.st_mode & 077) &&
                read_all(fd, c->secret, SECRET);
    close(fd);
    return good;
}

/* When two processes create it at once, both use the one that came first; an
 * invalid file is replaced. */
static void
make_secret(const BeCache *c)
{
    Temporary t;
    Names names;
    uint8_t secret[SECRET];
    if (getrandom(secret, SECRET, 0) != SECRET ||
        !name_temporary(names.temporary, sizeof names.temporary))
        return;
    int fd = temporary_open(&t, c->folder, names.temporary, 0600);
    if (fd < 0)
        return;
    bool good = write_all(fd, secret, SECRET);
    good &= close(fd) == 0;
    bool is_free = good && linkat(c->folder, names.temporary, c->folder,
                                  SECRET_NAME, 0) == 0;
    bool is_bad =
        good && !is_free && !read_secret(&(BeCache){.folder = c->folder});
    temporary_close(&t, is_bad ? SECRET_NAME : NULL);
}

/* ---- the compiler ------------------------------------------------------- */

typedef struct Ids {
    SipHash hash;
    bool program; /* the program itself has one */
} Ids;

static bool
contains(const struct dl_phdr_info *info, uintptr_t address)
{
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
        if (ph->p_type == PT_LOAD &&
            address - info->dlpi_addr - ph->p_vaddr < ph->p_memsz)
            return true;
    }
    return false;
}

/* Adds the build-ids among one segment's notes. */
static bool
add_notes(SipHash *hash, const char *p, const char *end)
{
    bool found = false;
    while (p + sizeof(ElfW(Nhdr)) <= end) {
        const ElfW(Nhdr) *note = (const void *)p;
        size_t name = (note->n_namesz + 3) & ~(size_t)3;
        size_t bytes = (note->n_descsz + 3) & ~(size_t)3;
        p += sizeof *note + name;
        if (note->n_type == NT_GNU_BUILD_ID) {
            siphash_add(hash, p, note->n_descsz);
            found = true;
        }
        p += bytes;
    }
    return found;
}

/* The build-ids of the program and of the library with LLVM, which may be the
 * same file. */
static int
add_build_id(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size;
    Ids *ids = data;
    bool program = contains(info, (uintptr_t)be_cache_open);
    if (!program && !contains(info, (uintptr_t)LLVMContextCreate))
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
        const char *p = (const char *)(info->dlpi_addr + ph->p_vaddr);
        if (ph->p_type == PT_NOTE && add_notes(&ids->hash, p, p + ph->p_memsz))
            ids->program |= program;
    }
    return 0;
}

static void
add_llvm(SipHash *h)
{
    unsigned version[3];
    LLVMGetVersion(&version[0], &version[1], &version[2]);
    siphash_add(h, version, sizeof version);
}

static bool
identify_compiler(BeCache *c)
{
    Ids ids = {.hash = siphash_begin(c->secret)};
    add_llvm(&ids.hash);
    siphash_add(&ids.hash, TFD_VERSION, sizeof TFD_VERSION);
    dl_iterate_phdr(add_build_id, &ids);
    c->compiler = siphash_end(&ids.hash);
    return ids.program;
}

/* ---- opening ------------------------------------------------------------ */

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
        if (mkdir(path, 0700) && errno != EEXIST)
            return false;
        *p = '/';
    }
    return mkdir(path, 0700) == 0 || errno == EEXIST;
}

static void
warn(BeCache *c, const char *message)
{
    message_shown(message);
    c->warning = message;
}

static void
set_size_limit(Arena *a, BeCache *c)
{
    const char *own = getenv("TFD_CACHE_SIZE");
    char *end = "";
    long mb = own && *own ? strtol(own, &end, 10) : DEFAULT_SIZE;
    if (*end || mb < 0) {
        mb = DEFAULT_SIZE;
        warn(c, message_printf(a,
                               "TFD_CACHE_SIZE is \"%s\", which is no number "
                               "of megabytes; the cache has %d",
                               own, DEFAULT_SIZE));
    }
    c->limit = (uint64_t)(mb < MAX_SIZE ? mb : MAX_SIZE) << 20;
}

/* Why the open folder cannot be trusted; NULL if it can. */
static const char *
distrust(Arena *a, const char *dir, int folder)
{
    struct stat st;
    if (fstat(folder, &st) || st.st_uid != geteuid())
        return message_printf(a,
                              "the cache \"%s\" is not used: the folder is "
                              "another user's; TFD_CACHE names another",
                              dir);
    if (st.st_mode & 022)
        return message_printf(a,
                              "the cache \"%s\" is not used: others may write "
                              "to the folder; chmod 700 it",
                              dir);
    return NULL;
}

static bool
wants_modules(void)
{
    const char *wanted = getenv("TFD_CACHE_MODULES");
    return wanted && !strcmp(wanted, "1");
}

static void
close_folder(void *cache)
{
    BeCache *c = cache;
    if (c->folder >= 0)
        close(c->folder);
}

static void
give_up(BeCache *c)
{
    close_folder(c);
    c->folder = -1;
}

BeCache *
be_cache_open(Arena *a, const char *dir)
{
    BeCache *c = NEW(a, BeCache);
    *c = (BeCache){.folder = -1, .has_modules = wants_modules()};
    set_size_limit(a, c);
    if (!dir)
        dir = default_dir(a);
    if (!*dir || !make_folders(a, dir))
        return c;
    arena_on_release(a, close_folder, c);
    c->folder = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (c->folder < 0)
        return c;
    const char *why_not = distrust(a, dir, c->folder);
    if (why_not)
        warn(c, why_not);
    else if (!read_secret(c))
        make_secret(c);
    if (why_not || !read_secret(c) || !identify_compiler(c))
        give_up(c);
    return c;
}

const char *
be_cache_warning(const BeCache *c)
{
    return c->warning;
}

bool
be_cache_has_modules(const BeCache *c)
{
    return c->has_modules && c->folder >= 0;
}

/* ---- names and seals ---------------------------------------------------- */

static void
add_text(SipHash *h, const char *text, size_t len)
{
    uint64_t n = len;
    siphash_add(h, &n, sizeof n);
    siphash_add(h, text, len);
}

/* h has who compiles. */
static BeCacheKey
end_key(SipHash *h, const void *text, size_t len, const char *target, int level)
{
    siphash_add(h, &level, sizeof level);
    add_text(h, target, strlen(target));
    add_text(h, text, len);
    SipValue v = siphash_end(h);
    return (BeCacheKey){v.first, v.second};
}

BeCacheKey
be_cache_key(const BeCache *c, const char *text, size_t len, const char *target,
             int level)
{
    SipHash h = siphash_begin(c->secret);
    siphash_add(&h, &c->compiler, sizeof c->compiler);
    return end_key(&h, text, len, target, level);
}

BeCacheKey
be_cache_module_key(const BeCache *c, const void *bitcode, size_t size,
                    const char *target, int level)
{
    SipHash h = siphash_begin(c->secret);
    add_llvm(&h);
    return end_key(&h, bitcode, size, target, level);
}

static SipValue
seal(const BeCache *c, const Header *header, const void *bytes)
{
    SipHash h = siphash_begin(c->secret + SIPHASH_KEY);
    siphash_add(&h, &header->key, sizeof header->key);
    siphash_add(&h, &header->size, sizeof header->size);
    siphash_add(&h, bytes, header->size);
    return siphash_end(&h);
}

static Names
names_of(BeCacheKey key)
{
    Names n;
    snprintf(n.folder, sizeof n.folder, "%02x",
             (unsigned)(key.high >> 56) % CACHE_FOLDERS);
    snprintf(n.file, sizeof n.file, "%016llx%016llx.o",
             (unsigned long long)key.high, (unsigned long long)key.low);
    return n;
}

/* ---- lookup ------------------------------------------------------------ */

static bool
is_sound(const Header *h, BeCacheKey key, off_t file_size)
{
    return memcmp(h->magic, magic, sizeof magic) == 0 &&
           h->key.high == key.high && h->key.low == key.low &&
           h->size == (uint64_t)file_size - sizeof *h;
}

static bool
read_entry(const BeCache *c, int fd, const struct stat *st, BeCacheKey key,
           Arena *a, const void **bytes, size_t *size)
{
    Header h;
    if (st->st_size < (off_t)sizeof h || st->st_size > MAX_ENTRY ||
        !read_all(fd, &h, sizeof h) || !is_sound(&h, key, st->st_size))
        return false;
    void *data = arena_alloc(a, h.size);
    if (!read_all(fd, data, h.size))
        return false;
    SipValue right = seal(c, &h, data);
    if (memcmp(&right, &h.seal, sizeof right) != 0)
        return false;
    if (time(NULL) - st->st_mtime > SECONDS_OF_USE)
        futimens(fd, NULL);
    *bytes = data;
    *size = h.size;
    return true;
}

bool
be_cache_get(const BeCache *c, BeCacheKey key, Arena *a, const void **bytes,
             size_t *size)
{
    struct stat st;
    if (c->folder < 0 || fail_here(FAIL_IO))
        return false;
    Names names = names_of(key);
    int folder = open_own_folder(c->folder, names.folder);
    if (folder < 0)
        return false;
    int fd = open_own_file(folder, names.file, &st);
    close(folder);
    if (fd < 0)
        return false;
    bool found = read_entry(c, fd, &st, key, a, bytes, size);
    close(fd);
    return found;
}

/* ---- insertion ----------------------------------------------------------- */

static bool
write_entry(const BeCache *c, int fd, BeCacheKey key, const void *bytes,
            size_t size)
{
    Header h = {.key = key, .size = size};
    memcpy(h.magic, magic, sizeof magic);
    h.seal = seal(c, &h, bytes);
    bool written = write_all(fd, &h, sizeof h) && write_all(fd, bytes, size);
    return (close(fd) == 0) & written;
}

void
be_cache_put(const BeCache *c, BeCacheKey key, const void *bytes, size_t size)
{
    Temporary t;
    if (c->folder < 0 || size > MAX_ENTRY - sizeof(Header) ||
        fail_here(FAIL_IO))
        return;
    Names names = names_of(key);
    mkdirat(c->folder, names.folder, 0700);
    int folder = open_own_folder(c->folder, names.folder);
    if (folder < 0)
        return;
    int fd = -1;
    if (name_temporary(names.temporary, sizeof names.temporary))
        fd = temporary_open(&t, folder, names.temporary, 0600);
    if (fd >= 0) {
        bool whole = write_entry(c, fd, key, bytes, size);
        temporary_close(&t, whole ? names.file : NULL);
    }
    if (key.low % PUTS_PER_TRIM == 0)
        be_cache_trim(folder, c->limit / CACHE_FOLDERS);
    close(folder);
}
