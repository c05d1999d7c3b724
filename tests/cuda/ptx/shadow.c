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
 *
 * Most accesses of a warp are to consecutive grains, or by many lanes to few,
 * and to what was written long ago: then the marks are looked at together, and
 * lane by lane only if they do not show that all is well.
 */
#include "tests/cuda/ptx/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

/* The first mark of a time; there are fewer than 2^31. */
static int64_t
begin_of(uint32_t time)
{
    return (int64_t)time << TIME_SHIFT;
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

/* An access by a lane, or who: lanes that read the same. */
typedef struct Toucher {
    Warp *w;
    const Insn *i;
    uint32_t lane, who;
    Space space;
    Touch how;
    uint64_t address;
    uint32_t now, began, block_began; /* marks before `began` mean nothing */
    bool races;                       /* are reported */
} Toucher;

/* Shared memory is new to each block. */
static Toucher
toucher_of(Warp *w, const Insn *i, Space space, Touch how)
{
    const Block *b = w->block;
    const PtxMachine *m = b->machine;
    bool shared = space == SPACE_SHARED;
    unsigned check = shared ? PTX_CHECK_SHARED_RACES : PTX_CHECK_GLOBAL_RACES;
    return (Toucher){
        .w = w,
        .i = i,
        .space = space,
        .how = how,
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
    if (time < t->now || who == t->who)
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
    uint32_t who = who_of(mark), warp = t->w->number;
    uint32_t all = who == t->who               ? who
                   : warp_of(who) == (int)warp ? WARP_OF + warp
                                               : SEVERAL;
    return mark_now(t->w, all) | (mark & (FLAG_BLOCKS | FLAG_NC));
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
    return mark_now(t->w, t->who) | flags;
}

/* ---- lane by lane -------------------------------------------------------- */

static void
read_cell(const Toucher *t, uint64_t written, uint64_t *read)
{
    bool nc = t->how == TOUCH_READ_NC;
    check_async(t, written);
    if (is_concurrent(t, written))
        report_race(t, written, "reads what is written");
    if (nc && time_of(written) >= t->began)
        ptx_violate(t->w, t->i, t->lane, PTX_NC_WRITTEN, t->address,
                    "written before");
    *read = with_reader(t, *read) | (nc ? FLAG_NC : 0);
}

static void
write_cell(const Toucher *t, uint64_t *written, uint64_t read)
{
    check_async(t, *written);
    if (read & FLAG_NC && time_of(read) >= t->began)
        ptx_violate(t->w, t->i, t->lane, PTX_NC_WRITTEN, t->address,
                    "read before");
    if (is_concurrent(t, *written))
        report_race(t, *written, "writes what is written");
    if (is_concurrent(t, read))
        report_race(t, read, "writes what is read");
    *written = mark_now(t->w, t->who);
}

static uint32_t
num_cells(const Warp *w, Space space, uint32_t bytes)
{
    uint32_t grain = w->block->kernel->grain[space];
    return bytes > grain ? bytes / grain : 1;
}

static void
touch_cells(const Toucher *t, Shadows s, uint32_t num)
{
    for (uint32_t n = 0; n < num; n++)
        if (t->how == TOUCH_WRITE)
            write_cell(t, &s.written[n], s.read[n]);
        else
            read_cell(t, s.written[n], &s.read[n]);
}

static Shadows
shadows_at(Shadows s, uint64_t n)
{
    return (Shadows){s.written + n, s.read + n};
}

void
ptx_touch(Warp *w, const Insn *i, uint32_t lane, Touch how, Space space,
          Shadows s, uint64_t address, uint32_t bytes)
{
    Toucher t = toucher_of(w, i, space, how);
    t.lane = lane;
    t.who = w->number * NUM_LANES + lane;
    t.address = address;
    touch_cells(&t, s, num_cells(w, space, bytes));
}

static void
check_shared(const Toucher *t, Shadows s, uint32_t num, uint32_t bytes)
{
    for (uint32_t n = 0; n < num; n++)
        if (time_of(s.written[n]) < t->block_began)
            ptx_violate(t->w, t->i, t->lane, PTX_INVALID_READ, t->address,
                        "%u bytes of shared memory", bytes);
}

static void
touch_each(Toucher *t, const Touched *x, uint32_t lanes, int shift,
           uint32_t num)
{
    bool validity = t->space == SPACE_SHARED && t->how != TOUCH_WRITE &&
                    t->w->block->checks & PTX_CHECK_VALID;
    FOR_LANES_OF(l, lanes)
    {
        Shadows s = shadows_at(x->shadows, (x->address[l] - x->base) >> shift);
        t->lane = l;
        t->who = t->w->number * NUM_LANES + l;
        t->address = x->address[l];
        if (validity)
            check_shared(t, s, num, x->bytes);
        touch_cells(t, s, num);
    }
}

/* ---- many marks together ------------------------------------------------- */

/* Marks as signed numbers, which vectors compare. */
typedef struct Bounds {
    int64_t written_min, written_max, read_min, read_max;
    uint64_t written_any, read_all;
} Bounds;

static Bounds
bounds_of(Shadows s, uint32_t num)
{
    Bounds b = {INT64_MAX, 0, INT64_MAX, 0, 0, ~UINT64_C(0)};
    for (uint32_t n = 0; n < num; n++) {
        int64_t written = (int64_t)s.written[n], read = (int64_t)s.read[n];
        b.written_min = written < b.written_min ? written : b.written_min;
        b.written_max = written > b.written_max ? written : b.written_max;
        b.read_min = read < b.read_min ? read : b.read_min;
        b.read_max = read > b.read_max ? read : b.read_max;
        b.written_any |= (uint64_t)written;
        b.read_all &= (uint64_t)read;
    }
    return b;
}

/* Whether any reader may read what was written: before the last barrier in
 * shared memory, but in this block; before the launch in global memory. */
static bool
may_read(const Toucher *t, int64_t written_min, int64_t written_max,
         uint64_t written_any)
{
    if (t->space != SPACE_SHARED)
        return written_max < begin_of(t->began);
    return written_max < begin_of(t->now) &&
           written_min >= begin_of(t->block_began) &&
           !(written_any & FLAG_ASYNC);
}

/* Whether another reader changes nothing. */
static bool
is_settled(const Toucher *t, int64_t read_min, uint64_t read_all)
{
    if (t->space == SPACE_SHARED)
        return read_min >= begin_of(t->now) && who_of(read_all) == SEVERAL;
    return read_min >= begin_of(t->began) && read_all & FLAG_BLOCKS &&
           (t->how != TOUCH_READ_NC || read_all & FLAG_NC);
}

static void
fill_marks(uint64_t *marks, uint64_t first, uint32_t num, uint32_t a_lane)
{
    if (a_lane == 1) {
        for (uint32_t n = 0; n < num; n++)
            marks[n] = first + n;
        return;
    }
    for (uint32_t n = 0; n < num; n++)
        marks[n] = first + n / a_lane;
}

/* Grains of which each lane, from t->lane on, reads so many, one after another;
 * 0: all lanes read all of them.  False: nothing is known yet. */
static bool
read_run(Toucher *t, Shadows s, uint32_t num, uint32_t a_lane)
{
    uint32_t first = t->w->number * NUM_LANES + t->lane;
    Bounds b = bounds_of(s, num);
    uint64_t flags = t->how == TOUCH_READ_NC ? FLAG_NC : 0;
    uint32_t warp = t->w->number;
    if (!may_read(t, b.written_min, b.written_max, b.written_any))
        return false;
    if (is_settled(t, b.read_min, b.read_all))
        return true;
    if (a_lane && b.read_max < begin_of(t->began)) {
        fill_marks(s.read, mark_now(t->w, first) | flags, num, a_lane);
        return true;
    }
    for (uint32_t n = 0; n < num; n++) {
        t->who = a_lane ? first + n / a_lane : WARP_OF + warp;
        s.read[n] = with_reader(t, s.read[n]) | flags;
    }
    return true;
}

/* Whether nobody but the writing threads themselves, from t->lane on, has
 * touched the grains. */
static bool
write_run(const Toucher *t, Shadows s, uint32_t num, uint32_t a_lane)
{
    uint64_t first = mark_now(t->w, t->w->number * NUM_LANES + t->lane);
    bool shared = t->space == SPACE_SHARED;
    int64_t past = begin_of(shared ? t->now : t->began);
    int64_t block = begin_of(t->block_began);
    uint64_t bad = 0;
    for (uint32_t n = 0; n < num; n++) {
        int64_t written = (int64_t)s.written[n], read = (int64_t)s.read[n];
        uint64_t by = s.read[n] & (WHO_MASK | FLAG_BLOCKS | FLAG_NC);
        uint64_t other = by ^ who_of(first + n / a_lane);
        bad |= (uint64_t)(written >= past);
        bad |= (uint64_t)(read >= past) & (uint64_t)(read < block || other);
        bad |= s.written[n] & FLAG_ASYNC;
    }
    if (bad)
        return false;
    fill_marks(s.written, first, num, a_lane);
    return true;
}

/* ---- few grains that many lanes read ------------------------------------- */

enum { MOST_CELLS = 2048, FEW = 8 /* grains of a word */ };

/* The grains from the lowest on: a bit for each that somebody reads, and that
 * several do; and a lane that does. */
typedef struct Readers {
    uint64_t lowest;
    uint32_t words;
    uint32_t any[MOST_CELLS / 32 + 1], several[MOST_CELLS / 32 + 1];
    uint8_t lane[MOST_CELLS + 32];
} Readers;

static bool
find_extent(const Touched *x, int shift, uint32_t num, Readers *r)
{
    uint64_t low = UINT64_MAX, high = 0;
    FOR_LANES(l)
    {
        low = x->address[l] < low ? x->address[l] : low;
        high = x->address[l] > high ? x->address[l] : high;
    }
    uint64_t first = ((low - x->base) >> shift) / num * num;
    uint64_t last = ((high - x->base) >> shift) + num;
    if (last - first > MOST_CELLS)
        return false;
    r->lowest = first;
    r->words = (uint32_t)(last - first + 31) / 32;
    memset(r->any, 0, r->words * sizeof *r->any);
    memset(r->several, 0, r->words * sizeof *r->several);
    return true;
}

/* The lanes whose address is not that of the lane before. */
static uint32_t
first_lanes(const Touched *x)
{
    uint32_t mask = 1;
    for (int l = 1; l < NUM_LANES; l++)
        mask |= (uint32_t)(x->address[l] != x->address[l - 1]) << l;
    return mask;
}

/* False: an access is not at a multiple of its own grains.  Lanes that do not
 * take part count as the ones whose addresses they have. */
static bool
note_readers(const Touched *x, int shift, uint32_t num, Readers *r)
{
    uint32_t ones = (1u << num) - 1, first = first_lanes(x);
    FOR_LANES_OF(l, first)
    {
        uint64_t cell = ((x->address[l] - x->base) >> shift) - r->lowest;
        uint32_t mask = ones << (cell & 31), *any = &r->any[cell / 32];
        bool follows = l + 1 < NUM_LANES && !(first >> (l + 1) & 1);
        if (cell & (num - 1))
            return false;
        r->several[cell / 32] |= follows ? mask : *any & mask;
        *any |= mask;
        if (num == 4)
            memset(r->lane + cell, (int)l, 4);
        else
            memset(r->lane + cell, (int)l, num);
    }
    return true;
}

/* Whether all that is read of a word may be, and nothing changes. */
static bool
word_is_settled(const Toucher *t, Shadows s, uint32_t any)
{
    bool shared = t->space == SPACE_SHARED;
    uint64_t flags = shared                    ? WHO_MASK
                     : t->how == TOUCH_READ_NC ? FLAG_BLOCKS | FLAG_NC
                                               : FLAG_BLOCKS;
    int64_t least = shared ? begin_of(t->block_began) : 0;
    int64_t most = begin_of(shared ? t->now : t->began);
    uint64_t bad = 0;
    for (uint32_t n = 0; n < 32; n++) {
        int64_t written = (int64_t)s.written[n], read = (int64_t)s.read[n];
        bool is_bad = written < least || written >= most || read < most ||
                      (s.written[n] & FLAG_ASYNC) ||
                      (s.read[n] & flags) != flags;
        bad |= (uint64_t)is_bad & any >> n;
    }
    return !(bad & 1);
}

static bool
read_word(Toucher *t, Shadows s, const Readers *r, uint32_t word)
{
    uint64_t flags = t->how == TOUCH_READ_NC ? FLAG_NC : 0;
    uint32_t warp = t->w->number;
    if (__builtin_popcount(r->any[word]) > FEW &&
        word_is_settled(t, shadows_at(s, word * 32), r->any[word]))
        return true;
    FOR_LANES_OF(bit, r->any[word])
    {
        uint32_t n = word * 32 + bit;
        uint64_t written = s.written[n], read = s.read[n];
        if (!may_read(t, (int64_t)written, (int64_t)written, written))
            return false;
        if (is_settled(t, (int64_t)read, read))
            continue;
        t->who = r->several[word] >> bit & 1 ? WARP_OF + warp
                                             : warp * NUM_LANES + r->lane[n];
        s.read[n] = with_reader(t, read) | flags;
    }
    return true;
}

static bool
read_few(Toucher *t, const Touched *x, int shift, uint32_t num)
{
    Readers r;
    if (x->lanes != ALL_LANES || num > 16 || !find_extent(x, shift, num, &r) ||
        !note_readers(x, shift, num, &r))
        return false;
    for (uint32_t word = 0; word < r.words; word++)
        if (r.any[word] &&
            !read_word(t, shadows_at(x->shadows, r.lowest), &r, word))
            return false;
    return true;
}

/* ---- a warp -------------------------------------------------------------- */

/* The lanes whose accesses follow those of the lane before. */
static uint32_t
following_lanes(const Touched *x)
{
    uint32_t mask = 0;
    for (int l = 1; l < NUM_LANES; l++)
        mask |= (uint32_t)(x->address[l] == x->address[l - 1] + x->bytes) << l;
    return mask & x->lanes & x->lanes << 1;
}

/* Lanes that follow each other at once. */
static void
touch_runs(Toucher *t, const Touched *x, int shift, uint32_t num)
{
    uint32_t following = following_lanes(x);
    FOR_LANES_OF(l, x->lanes & ~following)
    {
        uint64_t after = (uint64_t)following >> l >> 1;
        uint32_t lanes = 1 + (uint32_t)__builtin_ctzll(~after);
        Shadows s = shadows_at(x->shadows, (x->address[l] - x->base) >> shift);
        t->lane = l;
        bool done = t->how == TOUCH_WRITE ? write_run(t, s, num * lanes, num)
                                          : read_run(t, s, num * lanes, num);
        if (!done)
            touch_each(t, x, (uint32_t)((UINT64_C(1) << lanes) - 1) << l, shift,
                       num);
    }
}

/* All lanes the same cells. */
static bool
read_one_place(Toucher *t, const Touched *x, int shift, uint32_t num)
{
    uint64_t at = x->address[__builtin_ctz(x->lanes)] - x->base;
    return read_run(t, shadows_at(x->shadows, at >> shift), num, 0);
}

void
ptx_touch_lanes(Warp *w, const Insn *i, Space space, Touch how,
                const Touched *x)
{
    Toucher t = toucher_of(w, i, space, how);
    int shift = __builtin_ctz(w->block->kernel->grain[space]);
    uint32_t num = num_cells(w, space, x->bytes);
    bool reads = how != TOUCH_WRITE;
    if (reads && x->stride == 0 && read_one_place(&t, x, shift, num))
        return;
    if (reads && x->stride < 0 && read_few(&t, x, shift, num))
        return;
    touch_runs(&t, x, shift, num);
}

/* ---- copies that have begun --------------------------------------------- */

void
ptx_shadow_begin_async(Warp *w, const Insn *i, const Touched *x)
{
    int shift = __builtin_ctz(w->block->kernel->grain[SPACE_SHARED]);
    uint32_t num = num_cells(w, SPACE_SHARED, x->bytes);
    ptx_touch_lanes(w, i, SPACE_SHARED, TOUCH_WRITE, x);
    FOR_LANES_OF(l, x->lanes)
    for (uint32_t n = 0; n < num; n++)
        x->shadows.written[(x->address[l] >> shift) + n] |= FLAG_ASYNC;
}

void
ptx_shadow_end_async(Warp *w, const Touched *x)
{
    int shift = __builtin_ctz(w->block->kernel->grain[SPACE_SHARED]);
    uint32_t num = num_cells(w, SPACE_SHARED, x->bytes);
    FOR_LANES_OF(l, x->lanes)
    for (uint32_t n = 0; n < num; n++)
        x->shadows.written[(x->address[l] >> shift) + n] =
            mark_now(w, w->number * NUM_LANES + l);
}

/* ---- shadows of global memory ------------------------------------------- */

/* So many more than there are: words are looked at as a whole. */
enum { MORE_CELLS = 64 };

/* Memory is used only where cells are touched. */
static Shadows
map_cells(size_t num)
{
    num += MORE_CELLS;
    uint64_t *p = mmap(NULL, 2 * num * sizeof *p, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) {
        fprintf(stderr,
                "PTX emulator: no address space for the shadows of "
                "%zu bytes\n",
                num);
        exit(3);
    }
    return (Shadows){p, p + num};
}

void
ptx_shadow_unmap(PtxMachine *m)
{
    for (int i = 0; i < m->maps.len; i++)
        munmap(m->maps.data[i].shadows.written,
               2 * (m->maps.data[i].bytes + MORE_CELLS) * sizeof(uint64_t));
    m->maps.len = 0;
}

Shadows
ptx_shadow_map(PtxMachine *m, uint64_t begin, uint64_t bytes)
{
    for (int i = 0; i < m->maps.len; i++)
        if (m->maps.data[i].begin == begin && m->maps.data[i].bytes == bytes)
            return m->maps.data[i].shadows;
    ShadowMap map = {begin, bytes, map_cells(bytes)};
    VEC_PUSH(m->arena, m->maps, map);
    return map.shadows;
}
