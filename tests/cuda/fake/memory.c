/*
 * memory.c - memory of the fake devices, and who touched it
 *
 * A device's address is that of pages without rights; the fake itself has the
 * same pages, from an anonymous file, at another address.  Every copy is
 * checked against the last writer and readers of what it touches.  The emulator
 * says which bytes a kernel wrote by its marks of what is valid; what was
 * written without an order to the kernel is not valid for it, so that it
 * complains of reading that.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "tests/cuda/fake/fake.h"

enum { PAGE = 4096, FRESH = 0xcb, WRITTEN = 0xff, UNORDERED = 0 };

/* ---- allocations ----------------------------------------------------------
 */

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
    m->granules = fake_alloc(m->mapped / GRANULE * sizeof *m->granules);
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
    free(m->granules);
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

/* ---- what operations name --------------------------------------------------
 */

/* The first time notes which object it is; later it must be that one. */
static void
check_serial(const Op *op, uint64_t *noted, uint64_t serial, const char *what)
{
    if (*noted && *noted != serial)
        fake_complain("a graph is launched of which %s names %s that is gone",
                      op->call, what);
    *noted = serial;
}

static bool
reaches(const Device *d, const Memory *m)
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
    if (!op->is_peer && !reaches(op->device, m))
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

/* ---- who touched what -----------------------------------------------------
 */

static void
check_writer(const Op *op, const Granule *g, const char *does)
{
    if (!fake_is_before(g->writer, op))
        fake_complain("%s %s what %s wrote on another stream, and no event "
                      "orders them",
                      op->call, does, g->written_by);
}

static void
note_read(const Op *op, Granule *g)
{
    check_writer(op, g, "reads");
    for (int i = 0; i < g->num_readers; i++)
        if (g->readers[i].stream == op->mark.stream) {
            g->readers[i] = op->mark;
            return;
        }
    if (g->num_readers < READERS)
        g->readers[g->num_readers++] = op->mark;
}

static void
note_write(const Op *op, Granule *g)
{
    check_writer(op, g, "overwrites");
    for (int i = 0; i < g->num_readers; i++)
        if (!fake_is_before(g->readers[i], op))
            fake_complain("%s overwrites what another stream reads, and no "
                          "event orders them",
                          op->call);
    g->writer = op->mark;
    g->written_by = op->call;
    g->num_readers = 0;
}

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
    for (size_t i = begin; i < begin + n; i++)
        if (!m->valid[i])
            fake_complain("%s reads device memory that nobody has written",
                          op->call);
    for (size_t g = begin / GRANULE; n && g <= (begin + n - 1) / GRANULE; g++)
        note_read(op, &m->granules[g]);
    return m->host + begin;
}

uint8_t *
fake_write(const Op *op, CUdeviceptr at, size_t n)
{
    Memory *m = find_for(op, at, n);
    size_t begin = at - m->at;
    memset(m->valid + begin, 1, n);
    for (size_t g = begin / GRANULE; n && g <= (begin + n - 1) / GRANULE; g++)
        note_write(op, &m->granules[g]);
    return m->host + begin;
}

/* ---- kernels --------------------------------------------------------------
 */

/* The memories that a launch has found, as they are to it. */
enum { MAX_FOUND = 64 };

typedef struct Found {
    Memory *memory;
    uint8_t *valid;
} Found;

typedef struct Launch {
    const Op *op;
    Found found[MAX_FOUND];
    int num;
} Launch;

/* Whether all that has been executed comes before op. */
static bool
follows_all(const Op *op)
{
    for (int t = 0; t < MAX_STREAMS; t++)
        if (fake_world.executed[t] > op->clock[t])
            return false;
    return true;
}

/* A copy without what the kernel has no order to. */
static uint8_t *
valid_for(const Op *op, const Memory *m)
{
    if (follows_all(op))
        return m->valid;
    uint8_t *valid = fake_alloc(m->mapped);
    memcpy(valid, m->valid, m->mapped);
    for (size_t g = 0; g < m->mapped / GRANULE; g++)
        if (!fake_is_before(m->granules[g].writer, op))
            memset(valid + g * GRANULE, UNORDERED, GRANULE);
    return valid;
}

static bool
find_range(void *context, uint64_t address, PtxRange *range)
{
    Launch *l = context;
    Memory *m = fake_memory_find(address, 1);
    if (!m || !reaches(l->op->device, m))
        return false;
    uint8_t *valid = NULL;
    for (int i = 0; i < l->num; i++)
        if (l->found[i].memory == m)
            valid = l->found[i].valid;
    if (!valid) {
        if (l->num == MAX_FOUND)
            fake_complain("a kernel touches more than %d allocations",
                          MAX_FOUND);
        valid = valid_for(l->op, m);
        l->found[l->num++] = (Found){m, valid};
    }
    *range = (PtxRange){m->at, m->at + m->bytes, m->host, valid, false};
    return true;
}

/* What the kernel has written. */
static void
note_writes(const Op *op, const Found *f)
{
    Memory *m = f->memory;
    const uint8_t *at = f->valid, *end = at + m->mapped;
    while ((at = memchr(at, WRITTEN, (size_t)(end - at)))) {
        size_t g = (size_t)(at - f->valid) / GRANULE;
        for (size_t i = g * GRANULE; i < (g + 1) * GRANULE; i++)
            if (f->valid[i] == WRITTEN)
                m->valid[i] = 1;
        note_write(op, &m->granules[g]);
        at = f->valid + (g + 1) * GRANULE;
        if (at == end)
            break;
    }
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
    for (int i = 0; i < l.num; i++) {
        note_writes(op, &l.found[i]);
        if (l.found[i].valid != l.found[i].memory->valid)
            free(l.found[i].valid);
    }
}
