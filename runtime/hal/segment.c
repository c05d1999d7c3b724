/*
 * segment.c - memory that several processes of one machine map
 *
 * The file ends with a page that nobody uses but to recognise it.  Its size is
 * sealed: no process can take pages away that another one has mapped.
 */
#include "runtime/hal/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include "ir/base/fail.h"
#include "ir/base/message.h"

enum {
    PAGE_BYTES = 4096,
    HUGE_PAGE_BYTES = 2 << 20,
    LARGE_BYTES = 4 << 20 /* dense memory that gets huge pages */
};

/* ---- mapping ------------------------------------------------------------- */

static size_t
file_bytes(size_t bytes)
{
    return (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES + PAGE_BYTES;
}

static uint64_t *
cookie_of(const RtSegment *s)
{
    return (uint64_t *)(void *)(s->at + file_bytes(s->bytes) - PAGE_BYTES);
}

/* An address that is a multiple of a huge page, with room behind it; the kernel
 * aligns maps of such files only where it is set to always use huge pages. */
static void *
reserve_aligned(size_t bytes)
{
    size_t all = bytes + HUGE_PAGE_BYTES;
    char *at = mmap(NULL, all, PROT_NONE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        return MAP_FAILED;
    size_t before = -(uintptr_t)at & (HUGE_PAGE_BYTES - 1);
    if (before)
        munmap(at, before);
    munmap(at + before + bytes, HUGE_PAGE_BYTES - before);
    return at + before;
}

static bool
map_file(int fd, RtSegment *s)
{
    size_t bytes = file_bytes(s->bytes);
    bool huge = s->dense && s->bytes >= LARGE_BYTES;
    void *place = NULL;
    if (huge && (place = reserve_aligned(bytes)) == MAP_FAILED)
        return false;
    void *at = mmap(place, bytes, PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_NORESERVE | (huge ? MAP_FIXED : 0), fd, 0);
    if (at == MAP_FAILED) {
        int error = errno;
        if (huge)
            munmap(place, bytes);
        errno = error;
        return false;
    }
    if (huge)
        madvise(at, bytes, MADV_HUGEPAGE);
    s->at = at;
    return true;
}

static Status
no_memory(size_t bytes)
{
    return status_new(STATUS_MACHINE,
                      "no memory for %zu bytes that processes share", bytes);
}

/* A limit on files is one on memory that has a descriptor, too. */
static Status
no_segment(size_t bytes, int error)
{
    if (error != EFBIG)
        return no_memory(bytes);
    return status_new(STATUS_MACHINE,
                      "the limit on the size of files (ulimit -f) is below "
                      "the %zu bytes that processes share in memory",
                      bytes);
}

Status
rt_segment_new(size_t bytes, bool dense, RtSegment *out)
{
    RtSegment s = {.bytes = bytes, .dense = dense, .fd = -1};
    if (fail_here(FAIL_ALLOC))
        return no_memory(bytes);
    s.fd = memfd_create("tfd", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (s.fd < 0 || ftruncate(s.fd, (off_t)file_bytes(bytes)) ||
        fcntl(s.fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) ||
        getrandom(&s.cookie, sizeof s.cookie, 0) != (ssize_t)sizeof s.cookie ||
        !map_file(s.fd, &s)) {
        int error = errno;
        if (s.fd >= 0)
            close(s.fd);
        return no_segment(bytes, error);
    }
    *cookie_of(&s) = s.cookie;
    *out = s;
    return OK;
}

void
rt_segment_close(RtSegment *s)
{
    if (!s->at)
        return;
    munmap(s->at, file_bytes(s->bytes));
    if (s->fd >= 0)
        close(s->fd);
    *s = (RtSegment){.fd = -1};
}

/* ---- names --------------------------------------------------------------- */

static void
read_boot(char *to, size_t n)
{
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? 0 : read(fd, to, n - 1);
    for (ssize_t i = got < 0 ? 0 : got; i < (ssize_t)n; i++)
        to[i] = '\0';
    if (fd >= 0)
        close(fd);
}

static uint64_t
own_pid_space(void)
{
    struct stat st;
    return stat("/proc/self/ns/pid", &st) == 0 ? (uint64_t)st.st_ino : 0;
}

RtSegmentName
rt_segment_name(const RtSegment *s)
{
    RtSegmentName name = {0};
    if (!s->at)
        return name;
    name = (RtSegmentName){.pid_space = own_pid_space(),
                           .cookie = s->cookie,
                           .bytes = s->bytes,
                           .dense = s->dense,
                           .pid = (int32_t)getpid(),
                           .fd = s->fd};
    read_boot(name.boot, sizeof name.boot);
    return name;
}

/* ---- those of another process -------------------------------------------- */

/* Nobody can take pages away from under a map of it. */
static bool
keeps_its_size(int fd)
{
    int seals = fcntl(fd, F_GET_SEALS);
    return seals >= 0 && (seals & F_SEAL_SHRINK);
}

/* Whether fd, opened as the name says, is what the name means; maps it. */
static bool
map_meant(int fd, const RtSegmentName *name, RtSegment *out)
{
    struct stat st;
    RtSegment s = {.bytes = name->bytes,
                   .dense = name->dense,
                   .fd = -1,
                   .cookie = name->cookie};
    if (fstat(fd, &st) || !S_ISREG(st.st_mode) ||
        (uint64_t)st.st_size != file_bytes(name->bytes) ||
        !keeps_its_size(fd) || !map_file(fd, &s))
        return false;
    if (*cookie_of(&s) != name->cookie) {
        rt_segment_close(&s);
        return false;
    }
    *out = s;
    return true;
}

/* It may be anything, if a stranger has that number: a pipe must not block. */
static const char *
map_named(const RtSegmentName *name, RtSegment *out)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)name->pid,
             (int)name->fd);
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return strerror(errno);
    bool is_mapped = map_meant(fd, name, out);
    close(fd);
    return is_mapped ? NULL
                     : message_part(MESSAGE("process and descriptor are not "
                                            "of this job"));
}

const char *
rt_segment_map(const RtSegmentName *name, RtSegment *out)
{
    char boot[sizeof name->boot];
    read_boot(boot, sizeof boot);
    if (!name->pid) {
        *out = (RtSegment){.fd = -1};
        return NULL;
    }
    if (memcmp(name->boot, boot, sizeof boot) != 0)
        return message_part(MESSAGE("it is on another machine"));
    if (name->pid_space != own_pid_space())
        return message_part(
            MESSAGE("it is in another container (PID namespace)"));
    return map_named(name, out);
}
