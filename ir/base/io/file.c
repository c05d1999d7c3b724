/*
 * file.c - files in, whole or in parts; whole files out; folders, and files
 * that grow
 *
 * Every call that may fail passes through one of the wrappers below, where
 * TFD_FAIL=io:N makes the Nth one fail.
 */
#include "ir/base/io/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "ir/base/fail.h"
#include "ir/base/message.h"
#include "ir/base/temporary.h"

enum { MIN_READ = 4 << 10 };

/* Whether the user cannot repair it by another path or other permissions. */
static bool
is_machine_error(int error)
{
    static const int errors[] = {EIO,    ENOSPC, EDQUOT, EFBIG,  ENOMEM, EMFILE,
                                 ENFILE, EROFS,  EPIPE,  ESTALE, EBADF};
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

/* A standard stream that is closed would get the first file that is opened.
 * Its replacement can be neither read nor written. */
static void
open_standard_streams(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF &&
            open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) < 0)
            _exit(STATUS_MACHINE);
}

void
file_prepare_process(void)
{
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigaction(SIGPIPE, &ignore, NULL);
    sigaction(SIGXFSZ, &ignore, NULL);
    open_standard_streams();
}

/* A signal may interrupt a call that waits for a slow file system: then it is
 * made again. */
static int
try_open(const char *path, int flags)
{
    int fd;
    do
        fd = fails(EIO) ? -1 : open(path, flags | O_CLOEXEC, 0666);
    while (fd < 0 && errno == EINTR);
    return fd;
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

/* Some file systems have no fsync for files that they keep on another machine.
 */
static bool
try_sync(int fd)
{
    int done;
    do
        done = fails(EIO) ? -1 : fsync(fd);
    while (done < 0 && errno == EINTR);
    return done == 0 || errno == EINVAL;
}

/* Network file systems report a full disk only here.  A file is closed even if
 * the call was interrupted. */
static bool
try_close(int fd)
{
    int error = fails(EIO) ? errno : 0;
    if (close(fd) < 0 && errno != EINTR)
        error = errno;
    errno = error;
    return !error;
}

static bool
try_cut(int fd, int64_t len)
{
    int done;
    do
        done = fails(EIO) ? -1 : ftruncate(fd, len);
    while (done < 0 && errno == EINTR);
    return done == 0;
}

/* Looks up a name: 0, ENOENT if nothing has it, or the error that hides the
 * answer. */
static int
try_stat(const char *path, struct stat *info)
{
    if (!fails(EIO) && stat(path, info) == 0)
        return 0;
    return errno == ENOTDIR ? ENOENT : errno;
}

static DIR *
try_open_folder(const char *path)
{
    DIR *d;
    do
        d = fails(EIO) ? NULL : opendir(path);
    while (!d && errno == EINTR);
    return d;
}

/* NULL without an errno is the end of the folder. */
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
    return (size_t)info.st_size + 1; /* one byte more, to see the end at once */
}

/* Reads to the end, or until there are more bytes than `most`. */
static bool
read_all(Arena *a, int fd, size_t most, char **data, size_t *len)
{
    size_t cap = size_hint(fd), n = 0;
    char *bytes = arena_alloc(a, cap + 1);
    while (n <= most) {
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
    if (!read_all(a, fd, SIZE_MAX, data, len))
        st = cannot_read(path);
    close(fd);
    return st;
}

const char *
file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

const char *
file_directory(Arena *a, const char *path)
{
    const char *slash = strrchr(path, '/');
    if (!slash)
        return ".";
    return slash == path ? "/" : arena_strndup(a, path, (size_t)(slash - path));
}

Status
file_is_same(const char *a, const char *b, bool *same)
{
    struct stat x, y;
    int error = try_stat(a, &x);
    if (!error)
        error = try_stat(b, &y);
    *same = !error && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
    return is_machine_error(error)
               ? file_error(error, "cannot tell \"%s\" from \"%s\"", a, b)
               : OK;
}

static Status
check_regular(int fd, const char *path, int64_t *size)
{
    struct stat info;
    if (fstat(fd, &info) < 0)
        return cannot_open(path);
    if (S_ISDIR(info.st_mode))
        return status_new(STATUS_INPUT,
                          "cannot open \"%s\": it is a folder, and a file is "
                          "wanted",
                          path);
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
    /* a pipe without a writer would block open */
    *fd = try_open(path, O_RDONLY | O_NONBLOCK);
    if (*fd < 0)
        return cannot_open(path);
    Status st = check_regular(*fd, path, size);
    if (st)
        close(*fd);
    return st;
}

Status
file_open_limited(const char *path, LimitId limit, int *fd, int64_t *size)
{
    TRY(file_open(path, fd, size));
    if (*size <= limit_value(limit))
        return OK;
    close(*fd);
    return limit_status(limit, path);
}

Status
file_read_limited(Arena *a, const char *path, LimitId limit, char **data,
                  size_t *len)
{
    int fd = STDIN_FILENO;
    int64_t size = 0, most = limit_value(limit);
    bool is_input = strcmp(path, "-") == 0;
    if (!is_input)
        TRY(file_open_limited(path, limit, &fd, &size));
    Status st = OK;
    if (!read_all(a, fd, (size_t)most, data, len))
        st = cannot_read(path);
    if (!st && (int64_t)*len > most)
        st = limit_status(limit, path);
    if (!is_input)
        close(fd);
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
    if (!try_close(fd) && !st)
        st = cannot_write(errno, path);
    return st;
}

static Status
cannot_write_output(int error)
{
    return file_error(error, "cannot write standard output");
}

static Status
write_output(const FilePart *parts, size_t n)
{
    if (!write_parts(STDOUT_FILENO, parts, n))
        return cannot_write_output(errno);
    return OK;
}

Status
file_finish_output(void)
{
    bool failed = ferror(stdout); /* a line before, whose reason is lost */
    if (fflush(stdout) != 0 || failed)
        return cannot_write_output(errno ? errno : EIO);
    return OK;
}

/* ---- temporary files ---------------------------------------------------- */

/* They are called "NAME.tmp-PROCESS-NUMBER", and their writer holds a lock on
 * them.  A file without a lock was left by a process that died. */
#define TEMPORARY ".tmp-"

/* The "12-3" after the mark. */
static bool
is_temporary_of(const char *name, const char *base)
{
    size_t len = strlen(base), mark = strlen(TEMPORARY);
    if (strncmp(name, base, len) != 0 ||
        strncmp(name + len, TEMPORARY, mark) != 0)
        return false;
    const char *number = name + len + mark;
    size_t process = strspn(number, "0123456789");
    const char *rest = number + process;
    return process && *rest == '-' && rest[1] &&
           !rest[1 + strspn(rest + 1, "0123456789")];
}

static void
remove_if_left(int folder, const char *name)
{
    int fd =
        openat(folder, name, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0)
        unlinkat(folder, name, 0);
    close(fd);
}

/* Removes files that a dead process was writing for path.  A failure to remove
 * one is ignored. */
static void
remove_leavings(Arena *a, const char *path)
{
    const char *slash = strrchr(path, '/');
    DIR *d = opendir(file_directory(a, path));
    if (!d)
        return;
    for (const struct dirent *entry; (entry = readdir(d));)
        if (is_temporary_of(entry->d_name, slash ? slash + 1 : path))
            remove_if_left(dirfd(d), entry->d_name);
    closedir(d);
}

/* Takes the lock; false if another process removed the new file as an abandoned
 * one before.  On file systems without locks nobody removes files. */
static bool
take_lock(int fd)
{
    struct stat info;
    while (flock(fd, LOCK_EX) < 0 && errno == EINTR)
        ;
    return fstat(fd, &info) < 0 || info.st_nlink > 0;
}

/* Opens a new file beside path.  The number distinguishes threads. */
static int
open_temporary(Arena *a, const char *path, Temporary *t)
{
    static atomic_uint number;
    for (;;) {
        const char *name =
            arena_printf(a, "%s" TEMPORARY "%d-%u", path, (int)getpid(),
                         atomic_fetch_add(&number, 1));
        int fd = fails(EIO) ? -1 : temporary_open(t, AT_FDCWD, name, 0666);
        if (fd < 0 && errno != EEXIST && errno != EINTR)
            return -1;
        if (fd >= 0 && take_lock(fd))
            return fd;
        if (fd >= 0) {
            close(fd);
            temporary_close(t, NULL);
        }
    }
}

/* The new name is durable when the directory is.  A failure to sync it is
 * ignored: the file is complete under either name. */
static void
sync_directory(Arena *a, const char *path)
{
    int fd = open(file_directory(a, path), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
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

/* A second descriptor keeps the lock until the file has its name. */
static Status
replace(Arena *a, const char *path, const FilePart *parts, size_t n)
{
    Temporary temporary;
    remove_leavings(a, path);
    int fd = open_temporary(a, path, &temporary);
    if (fd < 0)
        return cannot_create(path);
    int lock = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    bool whole = fill(fd, parts, n) && !fails(EIO);
    int error = errno;
    if (!temporary_close(&temporary, whole ? path : NULL))
        error = errno, whole = false;
    if (lock >= 0)
        close(lock);
    if (!whole)
        return cannot_write(error, path);
    sync_directory(a, path);
    return OK;
}

Status
file_check_write(const char *path)
{
    struct stat info;
    Arena *scratch = arena_new(NULL, "a file to be written");
    bool is_there = stat(path, &info) == 0;
    bool is_folder = is_there && S_ISDIR(info.st_mode);
    const char *changed = is_there && !S_ISREG(info.st_mode)
                              ? path
                              : file_directory(scratch, path);
    bool good = !is_folder && access(changed, W_OK) == 0;
    int error = is_folder ? EISDIR : errno;
    arena_release(scratch);
    errno = error;
    return good ? OK : cannot_create(path);
}

Status
file_write_parts(const char *path, const FilePart *parts, size_t n)
{
    struct stat info;
    char target[PATH_MAX];
    if (strcmp(path, "-") == 0)
        return write_output(parts, n);
    int error = try_stat(path, &info);
    if (is_machine_error(error))
        return cannot_write(error, path);
    if (!error && !S_ISREG(info.st_mode))
        return write_straight(path, parts, n);
    /* A symbolic link stays: the file that it points to is replaced. */
    if (!error && realpath(path, target))
        path = target;
    else if (!error && is_machine_error(errno))
        return cannot_write(errno, path);
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

/* A folder that exists already is not a failure. */
static bool
make_one_folder(Arena *a, const char *path)
{
    struct stat info;
    if (!fails(EIO) && mkdir(path, 0777) == 0) {
        sync_directory(a, path);
        return true;
    }
    int error = errno;
    if (error == EEXIST) {
        error = try_stat(path, &info);
        if (!error && !S_ISDIR(info.st_mode))
            error = ENOTDIR;
    }
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
        if (!make_one_folder(scratch, part))
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
    DIR *d = try_open_folder(folder);
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

/* Whether the lock could be taken within two seconds. */
static bool
try_lock(int fd)
{
    const struct timespec moment = {.tv_nsec = 50000000};
    for (int i = 0; i < 40; i++) {
        if (flock(fd, LOCK_EX | LOCK_NB) == 0 ||
            (errno != EWOULDBLOCK && errno != EINTR))
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
    if (*fd < 0)
        return cannot_create(path);
    Arena *scratch = arena_new(NULL, "a file that grows");
    sync_directory(scratch, path);
    arena_release(scratch);
    return OK;
}

/* A record written in part is worse than none. */
Status
file_add(int fd, const char *path, int64_t at, const void *data, size_t len)
{
    if (try_write(fd, data, len))
        return OK;
    int error = errno;
    try_cut(fd, at);
    return cannot_write(error, path);
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
    if (!known || !try_cut(fd, len))
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
