/*
 * io_inject.c - makes the Nth call of a class fail (to be preloaded)
 *
 * Only calls that go through the table of symbols are seen: those of the two
 * programs, not those that libc makes for itself (stdio, the loader).
 */
#include "tests/faults/io_inject.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const class_names[NUM_IO_CLASSES] = {
#define X(name, faults) #name,
    IO_CLASSES(X)
#undef X
};

static const struct {
    const char *name;
    int error;
} errors[] = {{"EIO", EIO},     {"ENOSPC", ENOSPC}, {"EMFILE", EMFILE},
              {"EINTR", EINTR}, {"ENOMEM", ENOMEM}, {"short", 0}};

static atomic_long num_done[NUM_IO_CLASSES];
static int fault_class = -1;
static long fault_at;
static int fault; /* an errno; 0: a short count */

static int
index_of(const char *const *names, int n, const char *name, size_t len)
{
    for (int i = 0; i < n; i++)
        if (strlen(names[i]) == len && !memcmp(names[i], name, len))
            return i;
    _exit(99);
}

__attribute__((constructor)) static void
read_request(void)
{
    char *text = getenv("TFD_IO_FAULT");
    if (!text)
        return;
    size_t len = strcspn(text, ":");
    fault_class = index_of(class_names, NUM_IO_CLASSES, text, len);
    fault_at = strtol(text + len + 1, &text, 10);
    size_t i = 0;
    while (strcmp(errors[i].name, text + 1) != 0)
        if (++i == sizeof errors / sizeof *errors)
            _exit(99);
    fault = errors[i].error;
}

__attribute__((destructor)) static void
write_counts(void)
{
    const char *path = getenv("TFD_IO_COUNTS");
    FILE *to = path ? fopen(path, "w") : NULL;
    for (int i = 0; to && i < NUM_IO_CLASSES; i++)
        fprintf(to, "%ld\n", num_done[i]);
    if (to)
        fclose(to);
}

static bool
is_chosen(IoClass class)
{
    long n = atomic_fetch_add(&num_done[class], 1) + 1;
    return (int)class == fault_class && n == fault_at;
}

/* Whether a call fails, with errno set. */
static bool
fails(IoClass class)
{
    if (!is_chosen(class))
        return false;
    errno = fault;
    return true;
}

/* Whether a transfer fails; one that is short has one byte then. */
static bool
transfer_fails(IoClass class, size_t *n)
{
    if (!is_chosen(class))
        return false;
    errno = fault;
    if (!fault && *n > 1)
        *n = 1;
    return fault != 0;
}

#define REAL(name) (__extension__(__typeof__(&name)) dlsym(RTLD_NEXT, #name))

/* ---- open ---------------------------------------------------------------- */

static mode_t
mode_of(int flags, va_list args)
{
    return flags & (O_CREAT | __O_TMPFILE) ? va_arg(args, mode_t) : 0;
}

int
open64(const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    mode_t mode = mode_of(flags, args);
    va_end(args);
    return fails(IO_open) ? -1 : REAL(open64)(path, flags, mode);
}

int
openat64(int folder, const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    mode_t mode = mode_of(flags, args);
    va_end(args);
    return fails(IO_open) ? -1 : REAL(openat64)(folder, path, flags, mode);
}

DIR *
opendir(const char *path)
{
    return fails(IO_open) ? NULL : REAL(opendir)(path);
}

/* ---- bytes --------------------------------------------------------------- */

ssize_t
read(int fd, void *to, size_t n)
{
    return transfer_fails(IO_read, &n) ? -1 : REAL(read)(fd, to, n);
}

ssize_t
pread64(int fd, void *to, size_t n, off64_t at)
{
    return transfer_fails(IO_read, &n) ? -1 : REAL(pread64)(fd, to, n, at);
}

ssize_t
write(int fd, const void *from, size_t n)
{
    return transfer_fails(IO_write, &n) ? -1 : REAL(write)(fd, from, n);
}

/* ---- files and folders --------------------------------------------------- */

int
fsync(int fd)
{
    return fails(IO_fsync) ? -1 : REAL(fsync)(fd);
}

int
renameat(int from, const char *old, int to, const char *new)
{
    return fails(IO_rename) ? -1 : REAL(renameat)(from, old, to, new);
}

int
close(int fd)
{
    int done = REAL(close)(fd);
    return fails(IO_close) ? -1 : done;
}

int
stat64(const char *restrict path, struct stat64 *restrict to)
{
    return fails(IO_stat) ? -1 : REAL(stat64)(path, to);
}

int
fstat64(int fd, struct stat64 *to)
{
    return fails(IO_stat) ? -1 : REAL(fstat64)(fd, to);
}

int
fstatat64(int folder, const char *restrict path, struct stat64 *restrict to,
          int flags)
{
    return fails(IO_stat) ? -1 : REAL(fstatat64)(folder, path, to, flags);
}

int
ftruncate64(int fd, off64_t n)
{
    return fails(IO_ftruncate) ? -1 : REAL(ftruncate64)(fd, n);
}

int
mkdir(const char *path, mode_t mode)
{
    return fails(IO_mkdir) ? -1 : REAL(mkdir)(path, mode);
}

int
mkdirat(int folder, const char *path, mode_t mode)
{
    return fails(IO_mkdir) ? -1 : REAL(mkdirat)(folder, path, mode);
}

/* ---- memory -------------------------------------------------------------- */

void *
mmap64(void *at, size_t n, int protection, int flags, int fd, off64_t from)
{
    return fails(IO_mmap) ? MAP_FAILED
                          : REAL(mmap64)(at, n, protection, flags, fd, from);
}

int
mprotect(void *at, size_t n, int protection)
{
    return fails(IO_mmap) ? -1 : REAL(mprotect)(at, n, protection);
}
