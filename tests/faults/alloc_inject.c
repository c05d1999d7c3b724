/*
 * alloc_inject.c - makes the Nth allocation of a process fail (to be preloaded)
 *
 * All allocations count: of our code, of its libraries, of LLVM before main, of
 * the loader.  Forking at an allocation instead of running the program again
 * makes it cheap to let each of them fail in turn: the work before is done
 * once.  A child has only the thread that forked it, so programs are limited to
 * one thread for this.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "tests/faults/alloc_inject.h"

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t n);
void *__libc_memalign(size_t align, size_t n);

static atomic_long num_done;
static long fail_at; /* 0: none */
static bool is_read, forks;
static int in, out;

static void
take_next(void)
{
    int64_t n = 0;
    if (read(in, &n, sizeof n) != sizeof n)
        n = 0;
    fail_at = (long)n;
}

static void
report(int64_t n, int64_t status)
{
    AllocReport r = {n, status};
    if (write(out, &r, sizeof r) != sizeof r)
        _exit(99);
}

/* The first allocations come before there is an environment. */
static void
read_request(void)
{
    extern char **environ;
    if (!environ)
        return;
    is_read = true;
    char *text = getenv("TFD_INJECT");
    if (!text)
        return;
    forks = !strncmp(text, "fork:", 5);
    if (!forks) {
        fail_at = strtol(text + strlen("once:"), NULL, 10);
        return;
    }
    in = (int)strtol(text + strlen("fork:"), &text, 10);
    out = (int)strtol(text + 1, NULL, 10);
    take_next();
}

/* Whether this is the child, where the allocation fails. */
static bool
try_in_child(void)
{
    int status = 0, error = errno;
    pid_t child = fork();
    if (child == 0) {
        forks = false;
        fail_at = 0;
        alarm(ALLOC_CHILD_SECONDS);
        return true;
    }
    if (child < 0 || waitpid(child, &status, 0) != child)
        _exit(99);
    report(fail_at, status);
    take_next();
    errno = error;
    return false;
}

static bool
fails(void)
{
    if (!is_read)
        read_request();
    if (atomic_fetch_add(&num_done, 1) + 1 != fail_at ||
        (forks && !try_in_child()))
        return false;
    errno = ENOMEM;
    return true;
}

__attribute__((destructor)) static void
end(void)
{
    if (forks)
        report(atomic_load(&num_done), ALLOC_ENDED);
}

void *
malloc(size_t n)
{
    return fails() ? NULL : __libc_malloc(n);
}

void *
calloc(size_t count, size_t size)
{
    return fails() ? NULL : __libc_calloc(count, size);
}

void *
realloc(void *old, size_t n)
{
    return fails() ? NULL : __libc_realloc(old, n);
}

void *
aligned_alloc(size_t align, size_t n)
{
    return fails() ? NULL : __libc_memalign(align, n);
}

int
posix_memalign(void **to, size_t align, size_t n)
{
    void *p = fails() ? NULL : __libc_memalign(align, n);
    if (!p)
        return ENOMEM;
    *to = p;
    return 0;
}
