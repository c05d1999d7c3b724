/*
 * memory.c - memory of the fake devices, and who touched it
 *
 * A device's address is that of pages without rights; the fake itself has the
 * same pages, from an anonymous file, at another address.  Every copy is
 * checked against the last writer and readers of what it touches.  The emulator
 * says which bytes a kernel read and wrote by flags of each.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "tests/cuda/fake/fake.h"

enum { PAGE = 4096, FRESH = 0xcb };

/* ---- allocations --------------------------------------------------------- */

static bool
map_twice(Memory *m)
{
    int file = memfd_create("device memory", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, (off_t)m->mapped) != 0)
        return false;
    int rights = m->is_pinned ? PROT_READ | PROT_WRITE : PROT_NONE;
    void *device = mmap(NULL, m->mapped, rights, MAP_SHARED, file, 0);
    void *host =
        mmap(NULL, m->mapped, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    m->at = (CUdeviceptr)(uintptr_t)device;
    m->host = host;
    return device != MAP_FAILED && host != MAP_FAILED;
}

CUresult
fake_memory_new(CUcontext context, size_t bytes, bool is_pinned,
                CUdeviceptr *out)
{
    Device *d = context->device;
    if (bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (!is_pinned && bytes > fake_world.options.memory - d->used)
        return CUDA_ERROR_OUT_OF_MEMORY;
    Memory *m = fake_alloc(sizeof *m);
    m->serial = ++fake_world.serials;
    m->context = context;
    m->is_pinned = is_pinned;
    m->bytes = bytes;
    m->mapped = (bytes + PAGE - 1) / PAGE * PAGE;
    if (!map_twice(m))
        fake_complain("no memory for %zu bytes", bytes);
    memset(m->host, FRESH, bytes);
    m->valid = fake_alloc(m->mapped);
    memset(m->valid, is_pinned, m->mapped); /* the host may write it */
    m->pages = fake_alloc(m->mapped / PTX_PAGE);
    fake_history_open(m);
    m->next = fake_world.memories;
    fake_world.memories = m;
    d->used += is_pinned ? 0 : bytes;
    d->memories++;
    *out = m->at;
    return CUDA_SUCCESS;
}

void
fake_memory_free(Memory *m)
{
    Memory **at = &fake_world.memories;
    while (*at != m)
        at = &(*at)->next;
    *at = m->next;
    m->context->device->used -= m->is_pinned ? 0 : m->bytes;
    m->context->device->memories--;
    munmap((void *)(uintptr_t)m->at, m->mapped);
    munmap(m->host, m->mapped);
    free(m->valid);
    free(m->pages);
    fake_history_close(m);
    free(m);
}

Memory *
fake_memory_find(CUdeviceptr at, size_t n)
{
    for (Memory *m = fake_world.memories; m; m = m->next)
        if (at >= m->at && at - m->at <= m->bytes &&
            n <= m->bytes - (at - m->at))
            return m;
    return NULL;
}

Pinned *
fake_pinned_find(const void *at, size_t n)
{
    uintptr_t a = (uintptr_t)at;
    for (Pinned *p = fake_world.pinned; p; p = p->next)
        if (a >= (uintptr_t)p->at && a - (uintptr_t)p->at <= p->bytes &&
            n <= p->bytes - (a - (uintptr_t)p->at))
            return p;
    return NULL;
}

/* ---- what operations name ------------------------------------------------ */

/* The first time notes which object it is; later it must be that one. */
static void
check_serial(const Op *op, uint64_t *noted, uint64_t serial, const char *what)
{
    if (*noted && *noted != serial)
        fake_complain("a graph is launched of which %s names %s that is gone",
                      op->call, what);
    *noted = serial;
}

bool
fake_reaches(const Device *d, const Memory *m)
{
    const Device *other = m->context->device;
    return m->is_pinned || other == d || d->peers >> other->number & 1;
}

static void
check_memory(const Op *op, CUdeviceptr at, size_t n, uint64_t *noted)
{
    const Memory *m = fake_memory_find(at, n);
    if (!m)
        fake_complain("%s of %zu bytes outside the device's memory, or of "
                      "memory that was freed",
                      op->call, n);
    if (!op->is_peer && !fake_reaches(op->device, m))
        fake_complain("%s of memory of another context", op->call);
    check_serial(op, noted, m->serial, "memory");
}

static void
check_pinned(Op *op, const void *at)
{
    const Pinned *p = fake_pinned_find(at, op->bytes);
    if (!p)
        fake_complain("%s of %zu bytes of the host that are not pinned, or no "
                      "longer",
                      op->call, op->bytes);
    check_serial(op, &op->uses.pinned, p->serial, "memory of the host");
}

static void
check_function(Op *op)
{
    const struct CUmod_st *m = fake_world.modules;
    while (m && m != op->module)
        m = m->next;
    check_serial(op, &op->uses.module, m ? m->serial : 0, "a module");
}

/* Of rows from the first byte to the last. */
static size_t
extent(const Op *op, size_t pitch)
{
    return op->rows ? (op->rows - 1) * pitch + op->bytes : op->bytes;
}

void
fake_check_uses(Op *op)
{
    OpKind k = op->kind;
    if (k == OP_HTOD || k == OP_DTOD || k == OP_SET || k == OP_ROWS)
        check_memory(op, op->to, extent(op, op->to_pitch), &op->uses.to);
    if (k == OP_DTOH || k == OP_DTOD || k == OP_ROWS)
        check_memory(op, op->from, extent(op, op->from_pitch), &op->uses.from);
    if (k == OP_HTOD)
        check_pinned(op, op->host_from);
    if (k == OP_DTOH)
        check_pinned(op, op->host_to);
    if (k == OP_KERNEL)
        check_function(op);
}

/* ---- copies and fills ---------------------------------------------------- */

static Memory *
find_for(const Op *op, CUdeviceptr at, size_t n)
{
    Memory *m = fake_memory_find(at, n);
    if (!m)
        fake_complain("%s of %zu bytes outside the device's memory, or of "
                      "memory that was freed",
                      op->call, n);
    return m;
}

uint8_t *
fake_read(const Op *op, CUdeviceptr at, size_t n)
{
    Memory *m = find_for(op, at, n);
    size_t begin = at - m->at;
    uint8_t all = PTX_VALID;
    for (size_t i = begin; i < begin + n; i++)
        all &= m->valid[i];
    if (!all)
        fake_complain("%s reads device memory that nobody has written",
                      op->call);
    if (n)
        fake_note_read(m, op, begin, n);
    return m->host + begin;
}

uint8_t *
fake_write(const Op *op, CUdeviceptr at, size_t n)
{
    Memory *m = find_for(op, at, n);
    size_t begin = at - m->at;
    memset(m->valid + begin, PTX_VALID, n);
    if (n)
        fake_note_write(m, op, begin, n);
    return m->host + begin;
}

/* ---- kernels ------------------------------------------------------------- */

typedef struct Launch {
    const Op *op;
    Memory *found; /* by the launch, one after another */
} Launch;

static bool
find_range(void *context, uint64_t address, PtxRange *range)
{
    Launch *l = context;
    Memory *m = fake_memory_find(address, 1);
    if (!m || !fake_reaches(l->op->device, m))
        return false;
    if (!m->is_found) {
        m->is_found = true;
        m->next_found = l->found;
        l->found = m;
    }
    *range = (PtxRange){.begin = m->at,
                        .end = m->at + m->bytes,
                        .host = m->host,
                        .valid = m->valid,
                        .pages = m->pages};
    return true;
}

/* Pages begin .. end - 1 of a memory that a launch has touched. */
typedef struct Pages {
    size_t begin, end;
} Pages;

static bool
next_pages(const Memory *m, Pages *p)
{
    size_t num = m->mapped / PTX_PAGE;
    p->begin = p->end;
    while (p->begin < num && !m->pages[p->begin])
        p->begin++;
    p->end = p->begin;
    while (p->end < num && m->pages[p->end])
        p->end++;
    return p->begin < p->end;
}

/* The first byte from `at` on whose flag is another one. */
static size_t
skip(const uint8_t *valid, size_t at, size_t end, uint8_t flag, uint8_t is)
{
    enum { STEP = 64 };
    for (uint8_t other = 0; !other && at + STEP <= end;) {
        for (size_t i = 0; i < STEP; i++)
            other |= (valid[at + i] ^ is) & flag;
        at += other ? 0 : STEP;
    }
    while (at < end && !((valid[at] ^ is) & flag))
        at++;
    return at;
}

typedef void Note(Memory *m, const Op *op, size_t at, size_t n);

/* Calls note for all bytes of pages that have a flag. */
static void
note_flag(Memory *m, const Op *op, Pages p, uint8_t flag, Note *note)
{
    size_t at = p.begin * PTX_PAGE, end = p.end * PTX_PAGE;
    while (at < end) {
        at = skip(m->valid, at, end, flag, 0);
        size_t begin = at;
        at = skip(m->valid, at, end, flag, flag);
        if (at > begin)
            note(m, op, begin, at - begin);
    }
}

/* What the kernel has read is noted first: it may overwrite that itself. */
static void
note_touched(const Op *op, Memory *m)
{
    for (Pages p = {0, 0}; next_pages(m, &p);)
        note_flag(m, op, p, PTX_READ, fake_note_read);
    for (Pages p = {0, 0}; next_pages(m, &p);) {
        note_flag(m, op, p, PTX_WRITTEN, fake_note_write);
        for (size_t i = p.begin * PTX_PAGE; i < p.end * PTX_PAGE; i++)
            m->valid[i] &= PTX_VALID;
    }
    memset(m->pages, 0, m->mapped / PTX_PAGE);
    m->is_found = false;
}

void
fake_run_kernel(const Op *op)
{
    Launch l = {.op = op};
    PtxReport report;
    const PtxKernelInfo *info = ptx_kernel_info(op->kernel);
    PtxLaunch launch = {
        .kernel = op->kernel,
        .grid = {op->grid[0], op->grid[1], op->grid[2]},
        .block = {op->block[0], op->block[1], op->block[2]},
        .dynamic_shared = op->shared,
        .params = op->params,
        .param_bytes = info->param_bytes,
        .memory = {find_range, &l},
        .checks = PTX_CHECK_ALL,
        .seed = fake_random(1u << 30),
    };
    if (!fake_world.machine)
        fake_world.machine = ptx_machine_new();
    if (!ptx_launch(fake_world.machine, &launch, &report))
        fake_complain("%s", report.text);
    for (Memory *m = l.found; m; m = m->next_found)
        note_touched(op, m);
}
