/*
 * memory.c - loads and stores
 *
 * An access is located first: where the bytes of each lane are on the host,
 * after bounds and alignment were checked.  Lanes that do not take part get the
 * place of one that does, so that a load may read for all 32.  Most accesses of
 * a warp are to one array: then the smallest and the largest address tell that
 * all are within.
 */
#include "tests/cuda/ptx/machine.h"

#include <string.h>

enum { MATRIX_LINES = 8 }; /* of ldmatrix, each of which a lane points to */

/* Where the elements of a warp's access are. */
typedef struct Place {
    Space space;
    uint32_t bytes; /* a lane */
    uint64_t address[NUM_LANES];
    uint8_t *host[NUM_LANES];
    const Range *range; /* of global memory; NULL: lanes have several */
    int64_t stride;     /* from a lane to the next; -1: no such thing */
} Place;

/* ---- ranges of global memory -------------------------------------------- */

static bool
contains(const Range *r, uint64_t address)
{
    return address >= r->memory.begin && address < r->memory.end;
}

static bool
find_variable(const PtxModule *m, uint64_t address, PtxRange *out)
{
    for (int i = 0; i < m->variables.len; i++) {
        const Variable *v = &m->variables.data[i];
        if (address < v->address || address - v->address >= v->bytes)
            continue;
        *out = (PtxRange){
            .begin = v->address, .end = v->address + v->bytes, .host = v->data};
        return true;
    }
    return false;
}

static const Range *
remember(PtxMachine *m, const Range *r)
{
    Range *to = &m->recent[m->next_recent];
    *to = *r;
    m->next_recent = (m->next_recent + 1) % NUM_RECENT;
    if (m->num_recent < NUM_RECENT)
        m->num_recent++;
    return to;
}

const Range *
ptx_find_range(Block *b, uint64_t address)
{
    PtxMachine *m = b->machine;
    const PtxMemory *memory = &b->launch->memory;
    for (int i = 0; i < m->num_recent; i++)
        if (contains(&m->recent[i], address))
            return &m->recent[i];
    Range r = {.memory = {.host = NULL}};
    if (!find_variable(b->kernel->module, address, &r.memory) &&
        !(memory->find && memory->find(memory->context, address, &r.memory)))
        return NULL;
    if (b->checks & PTX_CHECK_GLOBAL_RACES)
        r.shadows =
            ptx_shadow_map(m, r.memory.begin, r.memory.end - r.memory.begin);
    return remember(m, &r);
}

void
ptx_observe(Warp *w, const uint64_t *addresses, uint32_t bytes, uint32_t lanes,
            bool stores)
{
    const Block *b = w->block;
    const PtxLaunch *l = b->launch;
    PtxTraffic t = {stores, bytes, lanes, 0, addresses};
    if (!l->observe || !lanes)
        return;
    t.block = ((uint64_t)b->id[2] * l->grid[1] + b->id[1]) * l->grid[0];
    t.block += b->id[0];
    l->observe(l->observer, &t);
}

/* ---- locating ----------------------------------------------------------- */

/* The addresses of all lanes; those that do not execute have the first's. */
static void
read_addresses(Warp *w, Operand at, bool narrow, int64_t offset, uint32_t lanes,
               uint64_t *out)
{
    if (narrow) {
        const uint32_t *a = LANES(uint32_t, w, at);
        FOR_LANES(l)
        out[l] = (uint32_t)(a[l] + (uint32_t)offset);
    } else {
        const uint64_t *a = LANES(uint64_t, w, at);
        FOR_LANES(l)
        out[l] = a[l] + (uint64_t)offset;
    }
    if (lanes == ALL_LANES)
        return;
    uint64_t first = out[__builtin_ctz(lanes)];
    FOR_LANES(l)
    out[l] = lanes >> l & 1 ? out[l] : first;
}

static void
check_alignment(Warp *w, const Insn *i, const Place *p, uint32_t lanes)
{
    uint64_t low = 0;
    FOR_LANES(l)
    low |= p->address[l];
    if (!(low & (p->bytes - 1)))
        return;
    FOR_LANES_OF(l, lanes)
    if (p->address[l] & (p->bytes - 1))
        ptx_violate(w, i, l, PTX_MISALIGNED, p->address[l], "%u bytes",
                    p->bytes);
}

/* The furthest address above `base` that a lane has, as a distance; addresses
 * below it are very far. */
static uint64_t
furthest(const uint64_t *address, uint64_t base)
{
    uint64_t most = 0;
    FOR_LANES(l)
    {
        uint64_t distance = address[l] - base;
        most = distance > most ? distance : most;
    }
    return most;
}

static void
locate_shared(Warp *w, const Insn *i, Place *p, uint32_t lanes)
{
    Block *b = w->block;
    uint64_t bytes = b->shared_bytes;
    uint64_t last = furthest(p->address, 0);
    if (last >= bytes || last + p->bytes > bytes) {
        FOR_LANES_OF(l, lanes)
        if (p->address[l] >= bytes || p->address[l] + p->bytes > bytes)
            ptx_violate(w, i, l, PTX_OUT_OF_BOUNDS, p->address[l],
                        "%u bytes of shared memory, of which there are %u",
                        p->bytes, b->shared_bytes);
    }
    FOR_LANES(l)
    p->host[l] = b->shared + p->address[l];
}

static void
locate_local(Warp *w, const Insn *i, Place *p, uint32_t lanes)
{
    uint32_t bytes = w->block->kernel->info.local;
    FOR_LANES_OF(l, lanes)
    if (p->address[l] >= bytes || p->address[l] + p->bytes > bytes)
        ptx_violate(w, i, l, PTX_OUT_OF_BOUNDS, p->address[l],
                    "%u bytes of local memory, of which there are %u", p->bytes,
                    bytes);
    int first = __builtin_ctz(lanes);
    FOR_LANES(l)
    {
        int own = lanes >> l & 1 ? l : first;
        p->host[l] = w->local + (size_t)own * bytes + p->address[l];
    }
}

static const Range *
range_of_lane(Warp *w, const Insn *i, const Place *p, uint32_t lane,
              bool writes)
{
    uint64_t at = p->address[lane];
    const Range *r = ptx_find_range(w->block, at);
    if (!r || !r->memory.host || r->memory.end - at < p->bytes)
        ptx_violate(w, i, lane, PTX_OUT_OF_BOUNDS, at,
                    "%u bytes of global memory", p->bytes);
    if (writes && r->memory.read_only)
        ptx_violate(w, i, lane, PTX_READ_ONLY, at, "%u bytes", p->bytes);
    return r;
}

/* Lanes in different arrays, or one of them outside. */
static void
locate_each(Warp *w, const Insn *i, Place *p, uint32_t lanes, bool writes)
{
    p->range = NULL;
    FOR_LANES_OF(l, lanes)
    {
        /* A range found later may take the place of an earlier one. */
        const Range *r = range_of_lane(w, i, p, l, writes);
        p->host[l] = r->memory.host + (p->address[l] - r->memory.begin);
    }
    uint8_t *first = p->host[__builtin_ctz(lanes)];
    FOR_LANES(l)
    p->host[l] = lanes >> l & 1 ? p->host[l] : first;
}

static void
locate_global(Warp *w, const Insn *i, Place *p, uint32_t lanes, bool writes)
{
    const Range *r =
        range_of_lane(w, i, p, (uint32_t)__builtin_ctz(lanes), writes);
    uint64_t begin = r->memory.begin, size = r->memory.end - begin;
    uint64_t last = furthest(p->address, begin);
    if (last >= size || size - last < p->bytes) {
        locate_each(w, i, p, lanes, writes);
        return;
    }
    p->range = r;
    uint64_t shift = (uint64_t)(uintptr_t)r->memory.host - begin;
    FOR_LANES(l)
    p->host[l] = (uint8_t *)(uintptr_t)(p->address[l] + shift);
}

/* The space that all lanes' generic addresses are in. */
static Space
resolve_generic(Warp *w, const Insn *i, Place *p, uint32_t lanes)
{
    uint64_t window = p->address[0] & WINDOW_MASK;
    FOR_LANES_OF(l, lanes)
    if ((p->address[l] & WINDOW_MASK) != window)
        ptx_violate(w, i, l, PTX_UNDEFINED, p->address[l],
                    "generic addresses of several state spaces");
    if (window != SHARED_WINDOW && window != LOCAL_WINDOW)
        return SPACE_GLOBAL;
    FOR_LANES(l)
    p->address[l] &= ~WINDOW_MASK;
    return window == SHARED_WINDOW ? SPACE_SHARED : SPACE_LOCAL;
}

/* From a lane to the next, if that is the same for all 32; else -1. */
static int64_t
stride_of(const Place *p, uint32_t lanes)
{
    uint64_t stride = p->address[1] - p->address[0], bad = 0;
    if (lanes != ALL_LANES || stride > p->bytes)
        return -1;
    for (uint64_t l = 0; l < NUM_LANES; l++)
        bad |= p->address[l] ^ (p->address[0] + l * stride);
    return bad ? -1 : (int64_t)stride;
}

/* A warp operation has its mask before the address. */
static void
locate(Warp *w, const Insn *i, Place *p, uint32_t lanes, bool writes)
{
    const Access *a = &i->access;
    Operand at = i->src[i->flow == FLOW_WARP];
    p->space = (Space)a->space;
    p->bytes = (uint32_t)a->size * a->count;
    read_addresses(w, at, a->narrow, a->offset, lanes, p->address);
    if (p->space == SPACE_GENERIC)
        p->space = resolve_generic(w, i, p, lanes);
    if (w->block->checks & PTX_CHECK_ALIGNMENT)
        check_alignment(w, i, p, lanes);
    if (p->space == SPACE_SHARED)
        locate_shared(w, i, p, lanes);
    else if (p->space == SPACE_LOCAL)
        locate_local(w, i, p, lanes);
    else
        locate_global(w, i, p, lanes, writes);
    p->stride = stride_of(p, lanes);
}

/* ---- checks ------------------------------------------------------------- */

static void
touch_shared(Warp *w, const Insn *i, const Place *p, uint32_t lanes, Touch how)
{
    ptx_touch_lanes(w, i, SPACE_SHARED, how,
                    &(Touched){.lanes = lanes,
                               .bytes = p->bytes,
                               .address = p->address,
                               .stride = p->stride,
                               .shadows = w->block->shared_shadows});
}

static bool
all_valid(const uint8_t *valid, uint32_t bytes)
{
    uint8_t all = PTX_VALID;
    for (uint32_t n = 0; n < bytes; n++)
        all &= valid[n];
    return all;
}

static void
set_flags(const Range *r, uint64_t distance, uint32_t bytes, uint8_t flags)
{
    uint8_t *valid = r->memory.valid + distance;
    for (uint32_t n = 0; n < bytes; n++)
        valid[n] |= flags;
    if (r->memory.pages) {
        r->memory.pages[distance / PTX_PAGE] = 1;
        r->memory.pages[(distance + bytes - 1) / PTX_PAGE] = 1;
    }
}

void
ptx_note_read(const Range *r, uint64_t distance, uint32_t bytes)
{
    if (r->memory.valid && r->memory.pages)
        set_flags(r, distance, bytes, PTX_READ);
}

static void
check_valid(Warp *w, const Insn *i, uint32_t lane, const Range *r,
            const Place *p, Touch how)
{
    uint64_t distance = p->address[lane] - r->memory.begin;
    if (how == TOUCH_WRITE) {
        set_flags(r, distance, p->bytes, PTX_VALID | PTX_WRITTEN);
        return;
    }
    if (w->block->checks & PTX_CHECK_VALID &&
        !all_valid(r->memory.valid + distance, p->bytes))
        ptx_violate(w, i, lane, PTX_INVALID_READ, p->address[lane],
                    "%u bytes of global memory", p->bytes);
    ptx_note_read(r, distance, p->bytes);
}

/* Lanes one after another, as one access: false if some of it is not valid. */
static bool
touch_flags(const Warp *w, const Range *r, const Place *p, Touch how)
{
    uint64_t distance = p->address[0] - r->memory.begin;
    uint32_t bytes = p->stride ? p->bytes * NUM_LANES : p->bytes;
    if (how == TOUCH_WRITE)
        set_flags(r, distance, bytes, PTX_VALID | PTX_WRITTEN);
    else if (w->block->checks & PTX_CHECK_VALID &&
             !all_valid(r->memory.valid + distance, bytes))
        return false;
    else
        ptx_note_read(r, distance, bytes);
    return true;
}

static void
touch_one_range(Warp *w, const Insn *i, const Place *p, uint32_t lanes,
                Touch how)
{
    const Range *r = p->range;
    bool together = p->stride == 0 || p->stride == p->bytes;
    if (r->memory.valid && !(together && touch_flags(w, r, p, how)))
        FOR_LANES_OF(l, lanes)
    check_valid(w, i, l, r, p, how);
    if (r->shadows.written)
        ptx_touch_lanes(w, i, SPACE_GLOBAL, how,
                        &(Touched){.lanes = lanes,
                                   .bytes = p->bytes,
                                   .address = p->address,
                                   .base = r->memory.begin,
                                   .stride = p->stride,
                                   .shadows = r->shadows});
}

static void
touch_global(Warp *w, const Insn *i, const Place *p, uint32_t lanes, Touch how)
{
    if (p->range) {
        touch_one_range(w, i, p, lanes, how);
        return;
    }
    FOR_LANES_OF(l, lanes)
    {
        const Range *r = ptx_find_range(w->block, p->address[l]);
        uint64_t n = (p->address[l] - r->memory.begin) /
                     w->block->kernel->grain[SPACE_GLOBAL];
        if (r->memory.valid)
            check_valid(w, i, l, r, p, how);
        if (r->shadows.written)
            ptx_touch(w, i, l, how, SPACE_GLOBAL,
                      (Shadows){r->shadows.written + n, r->shadows.read + n},
                      p->address[l], p->bytes);
    }
}

static void
touch_local(Warp *w, const Insn *i, const Place *p, uint32_t lanes, Touch how)
{
    FOR_LANES_OF(l, lanes)
    {
        uint8_t *valid = w->local_valid + (p->host[l] - w->local);
        if (how == TOUCH_WRITE)
            memset(valid, 1, p->bytes);
        else if (!all_valid(valid, p->bytes))
            ptx_violate(w, i, l, PTX_INVALID_READ, p->address[l],
                        "%u bytes of local memory", p->bytes);
    }
}

static void
touch(Warp *w, const Insn *i, const Place *p, uint32_t lanes, Touch how)
{
    const Block *b = w->block;
    if (p->space == SPACE_GLOBAL) {
        ptx_observe(w, p->address, p->bytes, lanes, how == TOUCH_WRITE);
        touch_global(w, i, p, lanes, how);
    } else if (p->space == SPACE_SHARED && b->shared_shadows.written) {
        touch_shared(w, i, p, lanes, how);
    } else if (p->space == SPACE_LOCAL && b->checks & PTX_CHECK_VALID) {
        touch_local(w, i, p, lanes, how);
    }
}

/* ---- loads -------------------------------------------------------------- */

/* Elements that registers of the same width receive as they are. */
#define LOAD_ELEMENTS(T)                                                       \
    for (int n = 0; n < i->num_dst; n++) {                                     \
        T *d = LANES(T, w, i->dst[n]);                                         \
        FOR_LANES(l)                                                           \
        {                                                                      \
            T x;                                                               \
            memcpy(&x, p->host[l] + n * (int)sizeof x, sizeof x);              \
            d[l] = lanes >> l & 1 ? x : d[l];                                  \
        }                                                                      \
    }

/* An element in a register that is wider. */
static uint64_t
extended(const uint8_t *from, const Access *a)
{
    uint64_t x = 0;
    memcpy(&x, from, a->size);
    int unused = 64 - 8 * a->size;
    return a->is_signed ? (uint64_t)((int64_t)(x << unused) >> unused) : x;
}

static void
set_lane(Warp *w, Operand o, int width, uint32_t lane, uint64_t x)
{
    memcpy(w->rows + o.at + lane * (uint32_t)width, &x, (size_t)width);
}

static void
load_wide(Warp *w, const Insn *i, const Place *p, uint32_t lanes)
{
    const Access *a = &i->access;
    for (int n = 0; n < i->num_dst; n++)
        FOR_LANES_OF(l, lanes)
    set_lane(w, i->dst[n], a->width, l, extended(p->host[l] + n * a->size, a));
}

static void
load_elements(Warp *w, const Insn *i, const Place *p, uint32_t lanes)
{
    const Access *a = &i->access;
    if (a->width != a->size)
        load_wide(w, i, p, lanes);
    else if (a->size == 4)
        LOAD_ELEMENTS(uint32_t)
    else if (a->size == 8)
        LOAD_ELEMENTS(uint64_t)
    else
        LOAD_ELEMENTS(uint16_t)
}

void
ptx_exec_load(Warp *w, const Insn *i, uint32_t lanes)
{
    Place p;
    locate(w, i, &p, lanes, false);
    touch(w, i, &p, lanes, i->access.is_nc ? TOUCH_READ_NC : TOUCH_READ);
    load_elements(w, i, &p, lanes);
}

/* Two neighbours of matrix number n, or one above the other. */
static uint32_t
halves_of_matrix(const Place *p, int n, uint32_t lane, bool is_turned)
{
    uint8_t *const *line = &p->host[n * MATRIX_LINES];
    uint32_t major = lane / 4, minor = lane % 4;
    uint16_t x[2];
    if (is_turned) {
        memcpy(&x[0], line[2 * minor] + major * sizeof *x, sizeof *x);
        memcpy(&x[1], line[2 * minor + 1] + major * sizeof *x, sizeof *x);
    } else {
        memcpy(x, line[major] + minor * sizeof x, sizeof x);
    }
    return (uint32_t)x[1] << 16 | x[0];
}

void
ptx_exec_load_matrices(Warp *w, const Insn *i, uint32_t lanes)
{
    Place p;
    if (lanes != ALL_LANES)
        ptx_violate(w, i, (uint32_t)__builtin_ctz(lanes), PTX_BAD_WARP_OP, 0,
                    "some lanes of the warp have ended");
    locate(w, i, &p, lanes, false);
    touch(w, i, &p, lanes, TOUCH_READ);
    for (int n = 0; n < i->num_dst; n++)
        FOR_LANES(l)
    LANES(uint32_t, w, i->dst[n])[l] = halves_of_matrix(&p, n, l, i->mode);
}

void
ptx_exec_load_param(Warp *w, const Insn *i, uint32_t lanes)
{
    Place p;
    const Access *a = &i->access;
    const PtxLaunch *launch = w->block->launch;
    p.bytes = (uint32_t)a->size * a->count;
    read_addresses(w, i->src[0], a->narrow, a->offset, lanes, p.address);
    check_alignment(w, i, &p, lanes);
    FOR_LANES_OF(l, lanes)
    if (p.address[l] >= launch->param_bytes ||
        p.address[l] + p.bytes > launch->param_bytes)
        ptx_violate(w, i, l, PTX_OUT_OF_BOUNDS, p.address[l],
                    "%u bytes of the parameters", p.bytes);
    FOR_LANES(l)
    p.host[l] = (uint8_t *)(uintptr_t)launch->params + p.address[l];
    load_elements(w, i, &p, lanes);
}

/* ---- stores ------------------------------------------------------------- */

static void
store_elements(Warp *w, const Insn *i, const Place *p, uint32_t lanes)
{
    const Access *a = &i->access;
    for (int n = 0; n < a->count; n++) {
        const uint8_t *from = w->rows + i->src[1 + n].at;
        FOR_LANES_OF(l, lanes)
        memcpy(p->host[l] + n * a->size, from + l * a->width, a->size);
    }
}

void
ptx_exec_store(Warp *w, const Insn *i, uint32_t lanes)
{
    Place p;
    locate(w, i, &p, lanes, true);
    touch(w, i, &p, lanes, TOUCH_WRITE);
    store_elements(w, i, &p, lanes);
}
