/*
 * shadow.c - races in shared and global memory
 *
 * Each grain of memory has a shadow: who last wrote it and who has read it. A
 * grain has the bytes of the kernel's smallest access to that space, so that
 * every access covers whole grains and the answer is exact.
 *
 * Time is the number of barriers and of blocks begun so far; it never goes
 * back, so shadows are not cleared between blocks and launches. Two accesses by
 * threads of one block are ordered if they are at different times, or in one
 * warp with a bar.warp.sync between them. Accesses by two blocks of a launch
 * are never ordered. Of several readers at one time it is enough to know
 * whether they are one thread, lanes of one warp, or more.
 *
 * A mark has, from the top: the time, three flags, the warp's number of
 * bar.warp.syncs, and who.
 */
#include "tests/cuda/ptx/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

enum {
    SYNCS_SHIFT = 12,
    WHO_MASK = 0xfff,
    WARP_OF = 1024,     /* + warp: several lanes of it */
    SEVERAL = WHO_MASK, /* of several warps */
    SYNCS_MASK = 0x1ffff
};

#define FLAG_ASYNC (UINT64_C(1) << 29)  /* a cp.async has yet to write it */
#define FLAG_BLOCKS (UINT64_C(1) << 30) /* other blocks of the launch, too */
#define FLAG_NC (UINT64_C(1) << 31)     /* by ld.global.nc, in this launch */
#define TIME_SHIFT 32

static uint32_t
time_of(uint64_t mark)
{
    return (uint32_t)(mark >> TIME_SHIFT);
}

static uint32_t
who_of(uint64_t mark)
{
    return mark & WHO_MASK;
}

static uint64_t
mark_now(const Warp *w, uint32_t who)
{
    uint32_t syncs = w->syncs < SYNCS_MASK ? w->syncs : SYNCS_MASK;
    return (uint64_t)w->block->machine->now << TIME_SHIFT |
           (uint64_t)syncs << SYNCS_SHIFT | who;
}

/* The warp that all of a mark's threads are in, or -1. */
static int
warp_of(uint32_t who)
{
    return who == SEVERAL  ? -1
           : who < WARP_OF ? (int)(who / NUM_LANES)
                           : (int)(who - WARP_OF);
}

/* An access by a lane. */
typedef struct Toucher {
    Warp *w;
    const Insn *i;
    uint32_t lane, thread;
    Space space;
    uint64_t address;
    uint32_t now, began, block_began; /* marks before `began` mean nothing */
    bool races;                       /* are reported */
} Toucher;

/* Shared memory is new to each block. */
static Toucher
toucher_of(Warp *w, const Insn *i, uint32_t lane, Space space, uint64_t address)
{
    const Block *b = w->block;
    const PtxMachine *m = b->machine;
    bool shared = space == SPACE_SHARED;
    unsigned check = shared ? PTX_CHECK_SHARED_RACES : PTX_CHECK_GLOBAL_RACES;
    return (Toucher){
        .w = w,
        .i = i,
        .lane = lane,
        .thread = w->number * NUM_LANES + lane,
        .space = space,
        .address = address,
        .now = m->now,
        .began = shared ? m->block_began : m->launch_began,
        .block_began = m->block_began,
        .races = b->checks & check,
    };
}

/* ---- order -------------------------------------------------------------- */

/* Whether what a mark says may be concurrent with an access now. */
static bool
is_concurrent(const Toucher *t, uint64_t mark)
{
    uint32_t time = time_of(mark), who = who_of(mark);
    if (time < t->began || !t->races)
        return false;
    if (mark & FLAG_BLOCKS || time < t->block_began)
        return true;
    if (time < t->now || who == t->thread)
        return false;
    bool synced = warp_of(who) == (int)t->w->number &&
                  (mark >> SYNCS_SHIFT & SYNCS_MASK) < t->w->syncs;
    return !synced;
}

static _Noreturn void
report_race(const Toucher *t, uint64_t mark, const char *what)
{
    bool blocks = mark & FLAG_BLOCKS || time_of(mark) < t->block_began;
    PtxKind kind = t->space == SPACE_SHARED ? PTX_SHARED_RACE
                   : blocks                 ? PTX_BLOCK_RACE
                                            : PTX_GLOBAL_RACE;
    uint32_t who = who_of(mark);
    if (blocks)
        ptx_violate(t->w, t->i, t->lane, kind, t->address,
                    "%s by another block", what);
    else if (who < WARP_OF)
        ptx_violate(t->w, t->i, t->lane, kind, t->address, "%s by thread %u",
                    what, who);
    else
        ptx_violate(t->w, t->i, t->lane, kind, t->address,
                    "%s by several threads", what);
}

static void
check_async(const Toucher *t, uint64_t mark)
{
    if (mark & FLAG_ASYNC && time_of(mark) >= t->block_began)
        ptx_violate(t->w, t->i, t->lane, PTX_ASYNC_ACCESS, t->address,
                    "begun by thread %u", who_of(mark));
}

/* ---- readers ------------------------------------------------------------ */

/* The mark of the readers at this time once another one joins them. */
static uint64_t
joined(const Toucher *t, uint64_t mark)
{
    uint32_t who = who_of(mark);
    if (who == t->thread)
        return mark;
    bool same_warp = warp_of(who) == (int)t->w->number;
    uint64_t flags = mark & (FLAG_BLOCKS | FLAG_NC);
    return mark_now(t->w, same_warp ? WARP_OF + t->w->number : SEVERAL) | flags;
}

static uint64_t
with_reader(const Toucher *t, uint64_t mark)
{
    uint32_t time = time_of(mark);
    if (time == t->now)
        return joined(t, mark);
    uint64_t flags = 0;
    if (time >= t->began)
        flags = mark & (FLAG_BLOCKS | FLAG_NC);
    if (time >= t->began && time < t->block_began)
        flags |= FLAG_BLOCKS;
    return mark_now(t->w, t->thread) | flags;
}

/* ---- accesses ----------------------------------------------------------- */

static void
read_cell(const Toucher *t, Shadow *cell, bool nc)
{
    check_async(t, cell->written);
    if (is_concurrent(t, cell->written))
        report_race(t, cell->written, "reads what is written");
    if (nc && time_of(cell->written) >= t->began)
        ptx_violate(t->w, t->i, t->lane, PTX_NC_WRITTEN, t->address,
                    "written before");
    cell->read = with_reader(t, cell->read) | (nc ? FLAG_NC : 0);
}

static void
write_cell(const Toucher *t, Shadow *cell)
{
    check_async(t, cell->written);
    if (cell->read & FLAG_NC && time_of(cell->read) >= t->began)
        ptx_violate(t->w, t->i, t->lane, PTX_NC_WRITTEN, t->address,
                    "read before");
    if (is_concurrent(t, cell->written))
        report_race(t, cell->written, "writes what is written");
    if (is_concurrent(t, cell->read))
        report_race(t, cell->read, "writes what is read");
    cell->written = mark_now(t->w, t->thread);
}

static uint32_t
num_cells(const Warp *w, Space space, uint32_t bytes)
{
    uint32_t grain = w->block->kernel->grain[space];
    return bytes > grain ? bytes / grain : 1;
}

void
ptx_touch(Warp *w, const Insn *i, uint32_t lane, Touch touch, Space space,
          Shadow *cells, uint64_t address, uint32_t bytes)
{
    Toucher t = toucher_of(w, i, lane, space, address);
    uint32_t num = num_cells(w, space, bytes);
    for (uint32_t n = 0; n < num; n++) {
        if (touch == TOUCH_WRITE)
            write_cell(&t, &cells[n]);
        else
            read_cell(&t, &cells[n], touch == TOUCH_READ_NC);
    }
}

bool
ptx_shared_is_valid(const Block *b, const Shadow *cells, uint32_t bytes)
{
    uint32_t num = num_cells(&b->warps[0], SPACE_SHARED, bytes);
    for (uint32_t n = 0; n < num; n++)
        if (time_of(cells[n].written) < b->machine->block_began)
            return false;
    return true;
}

/* ---- copies that have begun --------------------------------------------- */

void
ptx_shadow_begin_async(Warp *w, const Insn *i, uint32_t lane, Shadow *cells,
                       uint64_t address, uint32_t bytes)
{
    ptx_touch(w, i, lane, TOUCH_WRITE, SPACE_SHARED, cells, address, bytes);
    uint32_t num = num_cells(w, SPACE_SHARED, bytes);
    for (uint32_t n = 0; n < num; n++)
        cells[n].written |= FLAG_ASYNC;
}

void
ptx_shadow_end_async(Warp *w, uint32_t lane, Shadow *cells, uint32_t bytes)
{
    uint32_t num = num_cells(w, SPACE_SHARED, bytes);
    for (uint32_t n = 0; n < num; n++)
        cells[n].written = mark_now(w, w->number * NUM_LANES + lane);
}

/* ---- shadows of global memory ------------------------------------------- */

/* Memory is used only where cells are touched. */
static Shadow *
map_cells(size_t num)
{
    void *p = mmap(NULL, num * sizeof(Shadow), PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) {
        fprintf(stderr,
                "PTX emulator: no address space for the shadows of "
                "%zu bytes\n",
                num);
        exit(3);
    }
    return p;
}

void
ptx_shadow_unmap(PtxMachine *m)
{
    for (int i = 0; i < m->maps.len; i++)
        munmap(m->maps.data[i].cells, m->maps.data[i].bytes * sizeof(Shadow));
    m->maps.len = 0;
}

Shadow *
ptx_shadow_map(PtxMachine *m, uint64_t begin, uint64_t bytes)
{
    for (int i = 0; i < m->maps.len; i++)
        if (m->maps.data[i].begin == begin && m->maps.data[i].bytes == bytes)
            return m->maps.data[i].cells;
    ShadowMap map = {begin, bytes, map_cells(bytes)};
    VEC_PUSH(m->arena, m->maps, map);
    return map.cells;
}
