/*
 * file.c - files in, whole or in parts; whole files out; folders, and files
 * that grow
 *
 * Every call that may fail passes through one of the wrappers below, where
 * TFD_FAIL=io:N makes the Nth one fail.
 */
#include "runtime/base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "runtime/base/fail.h"
#include "runtime/base/message.h"
#include "runtime/base/temporary.h"

enum { MIN_READ = 4 << 10 };

/* What the user cannot mend by another path or another right. */
static bool
is_machine_error(int error)
{
    static const int errors[] = {EIO,    ENOSPC, EDQUOT, EFBIG, ENOMEM,
                                 EMFILE, ENFILE, EROFS,  EPIPE, ESTALE};
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i] == error)
            return true;
    return false;
}

Status
file_error(int error, const char *format, ...)
{
    Arena *scratch = arena_new(NULL, "file error");
    va_list args;
    va_start(args, format);
    const char *what = message_vprintf(scratch, format, args);
    va_end(args);
    StatusKind kind = is_machine_error(error) ? STATUS_MACHINE : STATUS_INPUT;
    Status st = status_new(kind, "%s: %s", what, strerror(error));
    arena_release(scratch);
    return st;
}

static Status
cannot_open(const char *path)
{
    return file_error(errno, "cannot open \"%s\"", path);
}

static Status
cannot_read(const char *path)
{
    return file_error(errno, "cannot read \"%s\"", path);
}

static Status
cannot_open_folder(const char *path)
{
    return file_error(errno, "cannot open the folder \"%s\"", path);
}

static Status
cannot_create(const char *path)
{
    return file_error(errno, "cannot create \"%s\"", path);
}

static Status
cannot_write(int error, const char *path)
{
    return file_error(error, "cannot write \"%s\"", path);
}

static bool
fails(int error)
{
    if (!fail_here(FAIL_IO))
        return false;
    errno = error;
    return true;
}

static int
try_open(const char *path, int flags)
{
    return fails(EIO) ? -1 : open(path, flags | O_CLOEXEC, 0666);
}

static ssize_t
try_read(int fd, char *to, size_t n)
{
    ssize_t got;
    do
        got = fails(EIO) ? -1 : read(fd, to, n);
    while (got < 0 && errno == EINTR);
    return got;
}

static bool
try_write(int fd, const char *from, size_t n)
{
    while (n > 0) {
        ssize_t done = fails(ENOSPC) ? -1 : write(fd, from, n);
        if (done < 0 && errno != EINTR)
            return false;
        if (done > 0) {
            from += done;
            n -= (size_t)done;
        }
    }
    return true;
}

/* Some file systems know no fsync for what they keep elsewhere. */
static bool
try_sync(int fd)
{
    return !fails(EIO) && (fsync(fd) == 0 || errno == EINVAL);
}

/* Network file systems tell of a full disk only here. */
static bool
try_close(int fd)
{
    int error = fails(EIO) ? errno : 0;
    if (close(fd) < 0)
        error = errno;
    errno = error;
    return !error;
}

/* NULL is the end when errno is 0. */
static const struct dirent *
try_readdir(DIR *d)
{
    return fails(EIO) ? NULL : readdir(d);
}

static size_t
size_hint(int fd)
{
    struct stat info;
    if (fstat(fd, &info) < 0 || !S_ISREG(info.st_mode) || info.st_size < 0)
        return MIN_READ;
    return (size_t)info.st_size + 1; /* one more sees the end at once */
}

static bool
read_all(Arena *a, int fd, char **data, size_t *len)
{
    size_t cap = size_hint(fd), n = 0;
    char *bytes = arena_alloc(a, cap + 1);
    for (;;) {
        ssize_t got = try_read(fd, bytes + n, cap - n);
        if (got < 0)
            return false;
        if (got == 0)
            break;
        n += (size_t)got;
        if (n == cap) {
            char *larger = arena_alloc(a, cap * 2 + 1);
            bytes = memcpy(larger, bytes, n);
            cap *= 2;
        }
    }
    bytes[n] = 0;
    *data = bytes;
    *len = n;
    return true;
}

Status
file_read(Arena *a, const char *path, char **data, size_t *len)
{
    Status st = OK;
    int fd = try_open(path, O_RDONLY);
    if (fd < 0)
        return cannot_open(path);
    if (!read_all(a, fd, data, len))
        st = cannot_read(path);
    close(fd);
    return st;
}

bool
file_is_same(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev &&
           x.st_ino == y.st_ino;
}

static Status
check_regular(int fd, const char *path, int64_t *size)
{
    struct stat info;
    if (fstat(fd, &info) < 0)
        return cannot_open(path);
    if (S_ISDIR(info.st_mode))
        return status_new(STATUS_INPUT,
                          "cannot open \"%s\": it is a folder; name the files "
                          "in it, as \"%s/*\"",
                          path, path);
    if (!S_ISREG(info.st_mode))
        return status_new(STATUS_INPUT,
                          "cannot open \"%s\": it is no file that can be read "
                          "again; write it to one first",
                          path);
    *size = info.st_size;
    return OK;
}

Status
file_open(const char *path, int *fd, int64_t *size)
{
    /* a pipe without a writer would keep us waiting */
    *fd = try_open(path, O_RDONLY | O_NONBLOCK);
    if (*fd < 0)
        return cannot_open(path);
    Status st = check_regular(*fd, path, size);
    if (st)
        close(*fd);
    return st;
}

Status
file_read_at(int fd, const char *path, int64_t at, void *to, size_t n,
             size_t *got)
{
    ssize_t more = 1;
    for (*got = 0; *got < n && more > 0; *got += (size_t)more) {
        do
            more = fails(EIO) ? -1
                              : pread(fd, (char *)to + *got, n - *got,
                                      at + (int64_t)*got);
        while (more < 0 && errno == EINTR);
        if (more < 0)
            return cannot_read(path);
    }
    return OK;
}

static bool
write_parts(int fd, const FilePart *parts, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!try_write(fd, parts[i].data, parts[i].len))
            return false;
    return true;
}

static Status
write_straight(const char *path, const FilePart *parts, size_t n)
{
    Status st = OK;
    int fd = try_open(path, O_WRONLY);
    if (fd < 0)
        return cannot_open(path);
    if (!write_parts(fd, parts, n))
        st = cannot_write(errno, path);
    close(fd);
    return st;
}

static Status
write_output(const FilePart *parts, size_t n)
{
    if (!write_parts(STDOUT_FILENO, parts, n))
        return file_error(errno, "cannot write standard output");
    return OK;
}

/* A new file beside path.  The number keeps threads and the leavings of a
 * process that died apart. */
static int
open_temporary(Arena *a, const char *path, Temporary *t)
{
    static atomic_uint number;
    int fd;
    do {
        const char *name = arena_printf(a, "%s.tmp-%d-%u", path, (int)getpid(),
                                        atomic_fetch_add(&number, 1));
        fd = fails(EIO) ? -1 : temporary_open(t, AT_FDCWD, name, 0666);
    } while (fd < 0 && errno == EEXIST);
    return fd;
}

/* The new name is safe when the directory is.  That it could not be synced is
 * no reason to fail: the file is whole whichever name it has. */
static void
sync_directory(Arena *a, const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *dir = ".";
    if (slash)
        dir = slash == path ? "/" : arena_strndup(a, path, slash - path);
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
}

static bool
fill(int fd, const FilePart *parts, size_t n)
{
    bool done = write_parts(fd, parts, n) && try_sync(fd);
    int error = errno;
    bool closed = try_close(fd);
    if (!done)
        errno = error;
    return done && closed;
}

static Status
replace(Arena *a, const char *path, const FilePart *parts, size_t n)
{
    Temporary temporary;
    int fd = open_temporary(a, path, &temporary);
    if (fd < 0)
        return cannot_create(path);
    bool whole = fill(fd, parts, n) && !fails(EIO);
    int error = errno;
    if (!temporary_close(&temporary, whole ? path : NULL))
        error = errno, whole = false;
    if (!whole)
        return cannot_write(error, path);
    sync_directory(a, path);
    return OK;
}

Status
file_write_parts(const char *path, const FilePart *parts, size_t n)
{
    struct stat info;
    char target[PATH_MAX];
    if (strcmp(path, "-") == 0)
        return write_output(parts, n);
    bool exists = stat(path, &info) == 0;
    if (exists && !S_ISREG(info.st_mode))
        return write_straight(path, parts, n);
    /* A link stays one: its target is replaced. */
    if (exists && realpath(path, target))
        path = target;
    Arena *scratch = arena_new(NULL, "writing a file");
    Status st = replace(scratch, path, parts, n);
    arena_release(scratch);
    return st;
}

Status
file_write(const char *path, const void *data, size_t len)
{
    return file_write_parts(path, &(FilePart){data, len}, 1);
}

/* ---- folders ------------------------------------------------------------ */

/* Those that are there are no reason to fail. */
static bool
make_one_folder(const char *path)
{
    struct stat info;
    if (!fails(EIO) && mkdir(path, 0777) == 0)
        return true;
    int error = errno;
    if (error == EEXIST && stat(path, &info) == 0)
        error = S_ISDIR(info.st_mode) ? 0 : ENOTDIR;
    errno = error;
    return !error;
}

Status
file_make_folder(const char *path)
{
    Status st = OK;
    size_t len = strlen(path);
    Arena *scratch = arena_new(NULL, "making a folder");
    for (size_t n = 1; n <= len && !st; n++) {
        if (path[n] != '/' && path[n] != 0)
            continue;
        const char *part = arena_strndup(scratch, path, n);
        if (!make_one_folder(part))
            st = file_error(errno, "cannot make the folder \"%s\"", part);
    }
    if (len == 0)
        st = file_error(ENOENT, "cannot make the folder \"\"");
    arena_release(scratch);
    return st;
}

Status
file_list(Arena *a, const char *folder, FileNames *out)
{
    *out = (FileNames){0};
    DIR *d = fails(EIO) ? NULL : opendir(folder);
    if (!d)
        return cannot_open_folder(folder);
    const struct dirent *entry;
    while (errno = 0, (entry = try_readdir(d)))
        VEC_PUSH(a, *out, arena_strdup(a, entry->d_name));
    Status st = OK;
    if (errno)
        st = file_error(errno, "cannot read the folder \"%s\"", folder);
    closedir(d);
    return st;
}

Status
file_remove(const char *path)
{
    if (fails(EIO) || (unlink(path) < 0 && errno != ENOENT))
        return file_error(errno, "cannot remove \"%s\"", path);
    return OK;
}

/* Whether the lock was to be had within two seconds. */
static bool
try_lock(int fd)
{
    const struct timespec moment = {.tv_nsec = 50000000};
    for (int i = 0; i < 40; i++) {
        if (flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK)
            return true;
        nanosleep(&moment, NULL);
    }
    return false;
}

Status
file_lock_folder(const char *path, int *fd)
{
    *fd = try_open(path, O_RDONLY | O_DIRECTORY);
    if (*fd < 0)
        return cannot_open_folder(path);
    if (try_lock(*fd))
        return OK;
    close(*fd);
    *fd = -1;
    return status_new(STATUS_INPUT, "\"%s\" is in use by another process",
                      path);
}

/* ---- files that grow ---------------------------------------------------- */

Status
file_create(const char *path, int *fd)
{
    *fd = try_open(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND);
    return *fd < 0 ? cannot_create(path) : OK;
}

Status
file_add(int fd, const char *path, const void *data, size_t len)
{
    if (!try_write(fd, data, len))
        return cannot_write(errno, path);
    return OK;
}

static Status
cut_behind(int fd, const char *path, int64_t len)
{
    struct stat info;
    bool known = fstat(fd, &info) == 0;
    if (known && info.st_size < len)
        return status_new(STATUS_INPUT,
                          "\"%s\" has lost some of its %lld bytes", path,
                          (long long)len);
    if (!known || fails(EIO) || ftruncate(fd, len) < 0)
        return cannot_write(errno, path);
    return OK;
}

Status
file_continue(const char *path, int64_t len, int *fd)
{
    *fd = try_open(path, O_WRONLY | O_APPEND);
    if (*fd < 0)
        return cannot_open(path);
    Status st = cut_behind(*fd, path, len);
    if (st) {
        close(*fd);
        *fd = -1;
    }
    return st;
}

Status
file_sync(int fd, const char *path)
{
    return try_sync(fd) ? OK : cannot_write(errno, path);
}
