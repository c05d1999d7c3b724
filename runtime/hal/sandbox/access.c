/*
 * access.c - memory that the host cannot touch
 *
 * An allocation is a mapping without rights.  It gets them while the token is
 * with a thread that executes operations, and loses them while host code runs,
 * hooks of programs included.  A queue opens the memory of its own device; a
 * task, which may move data between devices, that of all.
 */
#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "ir/base/fail.h"
#include "runtime/hal/sandbox/sandbox_impl.h"

enum { PAGE_BYTES = 4096, HUGE_BYTES = 4 << 20 };

/* ---- allocations -------------------------------------------------------- */

static bool
round_to_pages(size_t bytes, size_t *out)
{
    if (__builtin_add_overflow(bytes, PAGE_BYTES - 1, out))
        return false;
    *out = *out / PAGE_BYTES * PAGE_BYTES;
    *out = *out ? *out : PAGE_BYTES;
    return true;
}

static int
rights(bool of_host)
{
    return rt_sandbox_world.options.is_engine || of_host
               ? PROT_READ | PROT_WRITE
               : PROT_NONE;
}

Status
rt_sandbox_map(Sandbox *s, size_t bytes, size_t begin, bool of_host,
               const RtMemory **out)
{
    size_t mapped = 0;
    Allocation *a = fail_here(FAIL_ALLOC) ? NULL : calloc(1, sizeof *a);
    void *at = !a || !round_to_pages(bytes, &mapped)
                   ? MAP_FAILED
                   : mmap(NULL, mapped, rights(of_host),
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) {
        free(a);
        return status_new(STATUS_MACHINE,
                          "no memory for %zu bytes that %s is asked for", bytes,
                          s->device.name);
    }
    if (mapped >= HUGE_BYTES) /* fewer pages to open and close */
        madvise(at, mapped, MADV_HUGEPAGE);
    *a = (Allocation){{.device = &s->device,
                       .bytes = bytes,
                       .address = (uintptr_t)at,
                       .host = of_host ? at : NULL,
                       .begin = begin},
                      mapped,
                      s->allocations};
    s->allocations = a;
    *out = &a->memory;
    return OK;
}

void
rt_sandbox_unmap(Sandbox *s)
{
    for (Allocation *a = s->allocations, *next; a; a = next) {
        next = a->next;
        munmap((void *)a->memory.address, a->mapped);
        free(a);
    }
    s->allocations = NULL;
}

static bool
is_allocated(const Sandbox *s, const RtMemory *memory)
{
    for (const Allocation *a = s->allocations; a; a = a->next)
        if (&a->memory == memory)
            return true;
    return false;
}

static bool
is_allocated_anywhere(const RtMemory *memory)
{
    for (const Sandbox *s = rt_sandbox_world.first; s; s = s->next)
        if (is_allocated(s, memory))
            return true;
    return false;
}

void
rt_sandbox_check_range(const Sandbox *s, const char *what, RtDevicePtr p,
                       size_t n)
{
    size_t end;
    const char *name = s ? s->device.name : "any device";
    if (s ? !is_allocated(s, p.memory) : !is_allocated_anywhere(p.memory))
        rt_sandbox_complain("%s of memory that is not %s's, or no longer", what,
                            name);
    if (__builtin_add_overflow(p.offset, n, &end) || end > p.memory->bytes)
        rt_sandbox_complain(
            "%s of %zu bytes at +%zu of an allocation of %zu bytes of %s", what,
            n, p.offset, p.memory->bytes, p.memory->device->name);
}

/* ---- views -------------------------------------------------------------- */

static void
set_open(Sandbox *s, bool open)
{
    if (s->is_open == open)
        return;
    int now = open ? PROT_READ | PROT_WRITE : PROT_NONE;
    for (const Allocation *a = s->allocations; a; a = a->next) {
        size_t closed = a->memory.begin / PAGE_BYTES * PAGE_BYTES;
        if (!a->memory.host && mprotect((void *)(a->memory.address + closed),
                                        a->mapped - closed, now) != 0)
            rt_sandbox_complain("cannot change the rights of %zu bytes: %s",
                                a->mapped, strerror(errno));
    }
    s->is_open = open;
}

void
rt_sandbox_apply_view(const Sandbox *s, View view)
{
    if (rt_sandbox_world.options.is_engine)
        return;
    for (Sandbox *each = rt_sandbox_world.first; each; each = each->next)
        set_open(each, view == VIEW_ALL || (view == VIEW_OWN && each == s));
}

/* ---- faults ------------------------------------------------------------- */

static struct sigaction usual; /* what faults did before */

static const Allocation *
find_address(uintptr_t at)
{
    for (const Sandbox *s = rt_sandbox_world.first; s; s = s->next)
        for (const Allocation *a = s->allocations; a; a = a->next)
            if (at - a->memory.address < a->mapped)
                return a;
    return NULL;
}

/* Who runs on this thread: "the host", "a hook on sandbox:1". */
static void
describe_thread(char *text, size_t n)
{
    const Queue *q = rt_sandbox_current;
    if (!q)
        snprintf(text, n, "the host");
    else
        snprintf(text, n, "%s on %s",
                 q->view != VIEW_NONE ? "code"
                 : q->hooks           ? "a hook"
                                      : "host code",
                 q->sandbox->device.name);
}

/* The instruction is executed again, and faults as it did without us. */
static void
on_fault(int signal_number, siginfo_t *info, void *context)
{
    char who[64], text[160];
    const Allocation *a = find_address((uintptr_t)info->si_addr);
    (void)context;
    if (a) {
        describe_thread(who, sizeof who);
        int n = snprintf(
            text, sizeof text, "sandbox: %s touched memory of %s at +%zu\n",
            who, a->memory.device->name,
            (size_t)((uintptr_t)info->si_addr - a->memory.address));
        ssize_t written = write(2, text, (size_t)n);
        (void)written;
        usual.sa_handler = SIG_DFL;
        usual.sa_flags = 0;
    }
    sigaction(signal_number, &usual, NULL);
}

void
rt_sandbox_explain_faults(void)
{
    struct sigaction now,
        action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    sigemptyset(&action.sa_mask);
    sigaction(SIGSEGV, NULL, &now);
    if ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == on_fault)
        return;
    sigaction(SIGSEGV, &action, &usual);
}
