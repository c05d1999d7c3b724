/*
 * execute.c - launches, blocks and warps
 *
 * Blocks run one after another, and the warps of a block in turns, each to its
 * next barrier.  Of a warp whose lanes are at different places those with the
 * lowest pc go on, until they are where others wait: so lanes that diverged
 * meet again where their paths join, since compilers put what comes later
 * later. Lanes at a barrier or a warp operation are parked there until all that
 * it is for have come.
 *
 * A violation leaves by longjmp; everything that a launch uses belongs to the
 * machine.
 */
#include "tests/cuda/ptx/machine.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What memory and registers hold before anything is written there. */
enum { RUBBISH = 0xcd };

/* ---- violations --------------------------------------------------------- */

static const char *const sentences[] = {
#define KIND(name, text) text,
#include "tests/cuda/ptx/kinds.def"
#undef KIND
};

static uint32_t
thread_of(const Warp *w, int lane, int dimension)
{
    const uint32_t *size = w->block->launch->block;
    uint32_t n = w->number * NUM_LANES + (uint32_t)lane;
    if (n >= w->block->num_threads)
        return 0; /* a lane of the last warp that has no thread */
    uint32_t parts[] = {n % size[0], n / size[0] % size[1],
                        n / size[0] / size[1]};
    return parts[dimension];
}

static void
describe(PtxReport *r, const char *detail)
{
    char address[40] = "";
    if (r->address)
        snprintf(address, sizeof address, " at 0x%llx",
                 (unsigned long long)r->address);
    snprintf(r->text, sizeof r->text,
             "%s: line %d, block %u %u %u, thread %u %u %u: %s%s%s%s",
             r->kernel, r->line, r->block[0], r->block[1], r->block[2],
             r->thread[0], r->thread[1], r->thread[2], sentences[r->kind],
             address, *detail ? ": " : "", detail);
}

void
ptx_violate(Warp *w, const Insn *i, uint32_t lane, PtxKind kind,
            uint64_t address, const char *format, ...)
{
    Block *b = w->block;
    PtxReport *r = b->machine->report;
    *r = (PtxReport){.kind = kind,
                     .kernel = b->kernel->info.name,
                     .line = i->line,
                     .address = address};
    for (int d = 0; d < 3; d++) {
        r->block[d] = b->id[d];
        r->thread[d] = thread_of(w, (int)lane, d);
    }
    char detail[160];
    va_list args;
    va_start(args, format);
    vsnprintf(detail, sizeof detail, format, args);
    va_end(args);
    describe(r, detail);
    longjmp(b->machine->stop, 1);
}

/* ---- one instruction ---------------------------------------------------- */

static uint32_t
predicate(const Warp *w, Operand o)
{
    const uint32_t *p = LANES(uint32_t, w, o);
    uint32_t mask = 0;
    FOR_LANES(l)
    mask |= (p[l] & 1) << l;
    return mask;
}

static void
check_source(Warp *w, const Insn *i, Operand o, uint32_t lanes)
{
    uint32_t missing = lanes & ~w->valid[o.number];
    if (missing)
        ptx_violate(w, i, (uint32_t)__builtin_ctz(missing),
                    PTX_INVALID_REGISTER, 0, "%s", i->name);
}

/* The lanes of those that come here for which the guard holds. */
static inline uint32_t
guarded(Warp *w, const Insn *i, uint32_t lanes)
{
    if (!i->has_guard)
        return lanes;
    if (w->block->checks & PTX_CHECK_REGISTERS)
        check_source(w, i, i->guard, lanes);
    uint32_t mask = predicate(w, i->guard);
    return lanes & (i->guard_negated ? ~mask : mask);
}

static inline void
execute_one(Warp *w, const Insn *i, uint32_t lanes)
{
    if (w->block->checks & PTX_CHECK_REGISTERS) {
        for (int s = 0; s < i->num_src; s++)
            if (lanes & ~w->valid[i->src[s].number])
                check_source(w, i, i->src[s], lanes);
        for (int d = 0; d < i->num_dst; d++)
            w->valid[i->dst[d].number] |= lanes;
    }
    i->execute(w, i, lanes);
}

static void
count(Warp *w, const Insn *i, uint32_t lanes)
{
    const PtxLaunch *launch = w->block->launch;
    uint64_t most = launch->max_instructions;
    w->lane_instructions += (uint64_t)__builtin_popcount(lanes);
    if (launch->executed)
        launch->executed[i - w->block->kernel->code.data]++;
    if (++w->instructions > (most ? most : UINT64_C(1) << 32))
        ptx_violate(w, i, (uint32_t)__builtin_ctz(lanes), PTX_HUNG, 0,
                    "%llu instructions", (unsigned long long)w->instructions);
}

/* ---- lanes that go on together ------------------------------------------ */

static void
set_pc(Warp *w, uint32_t lanes, uint32_t pc)
{
    FOR_LANES(l)
    w->pc[l] = lanes >> l & 1 ? pc : w->pc[l];
}

/* The lanes, of those that may run, with the lowest pc. */
static uint32_t
choose(const Warp *w, uint32_t ready, uint32_t *pc)
{
    uint32_t lowest = UINT32_MAX, chosen = 0;
    FOR_LANES(l)
    {
        uint32_t at = ready >> l & 1 ? w->pc[l] : UINT32_MAX;
        lowest = at < lowest ? at : lowest;
    }
    FOR_LANES(l)
    chosen |= (uint32_t)(w->pc[l] == lowest) << l;
    *pc = lowest;
    return chosen & ready;
}

/* Whether all lanes of a warp operation's mask that live are parked at it. */
static bool
warp_op_is_ready(Warp *w, const Insn *i, uint32_t pc, uint32_t lanes,
                 uint32_t *members)
{
    const uint32_t *mask = LANES(uint32_t, w, i->src[0]);
    uint32_t first = (uint32_t)__builtin_ctz(lanes);
    if (w->block->checks & PTX_CHECK_REGISTERS)
        check_source(w, i, i->src[0], lanes);
    uint32_t own = mask[first], here = 0;
    if (!(own >> first & 1))
        ptx_violate(w, i, first, PTX_BAD_WARP_OP, 0,
                    "its mask 0x%08x has not the lane itself", own);
    FOR_LANES_OF(l, w->live)
    here |= (uint32_t)(w->pc[l] == pc && mask[l] == own) << l;
    *members = own & w->live;
    return !(*members & ~here);
}

/* At a warp operation: executes it once all have come, else parks. */
static void
meet(Warp *w, const Insn *i, uint32_t pc, uint32_t lanes)
{
    uint32_t left = lanes, members;
    set_pc(w, lanes, pc);
    w->parked |= lanes;
    while (left) {
        uint32_t one = left & (0 - left);
        if (warp_op_is_ready(w, i, pc, one, &members)) {
            execute_one(w, i, members);
            w->parked &= ~members;
            set_pc(w, members, pc + 1);
            left &= ~members;
        }
        left &= ~one;
    }
}

static void
branch(Warp *w, const Insn *i, uint32_t pc, uint32_t lanes, uint32_t taken)
{
    if (i->is_uniform && taken && taken != lanes)
        ptx_violate(w, i, (uint32_t)__builtin_ctz(taken), PTX_UNDEFINED, 0,
                    "lanes diverge at bra.uni");
    set_pc(w, taken, (uint32_t)i->target);
    set_pc(w, lanes & ~taken, pc + 1);
}

/* What is not simply the next instruction.  False: choose lanes again. */
static bool
flow(Warp *w, const Insn *i, uint32_t *pc, uint32_t lanes, uint32_t taken)
{
    bool all = taken == lanes;
    if (i->flow == FLOW_BRANCH && (all || !taken)) {
        *pc = all ? (uint32_t)i->target : *pc + 1;
        return true;
    }
    if (i->flow == FLOW_BRANCH) {
        branch(w, i, *pc, lanes, taken);
        return false;
    }
    set_pc(w, lanes, *pc + 1);
    if (i->flow == FLOW_EXIT) {
        w->live &= ~taken;
        return false;
    }
    if (i->flow == FLOW_WARP) {
        if (taken)
            meet(w, i, *pc, taken);
        return false;
    }
    set_pc(w, taken, *pc);
    w->parked |= taken;
    return false;
}

/* Runs the chosen lanes until they must be chosen again.  Others may be waiting
 * to be joined where branches lead. */
static void
run_lanes(Warp *w, uint32_t lanes, uint32_t pc, bool alone)
{
    const PtxKernel *k = w->block->kernel;
    const Insn *code = k->code.data;
    for (;;) {
        if (pc >= (uint32_t)k->code.len) {
            w->live &= ~lanes; /* the end of a body is a ret */
            return;
        }
        const Insn *i = &code[pc];
        uint32_t active = guarded(w, i, lanes);
        count(w, i, lanes);
        if (i->flow != FLOW_NEXT) {
            if (!flow(w, i, &pc, lanes, active))
                return;
        } else {
            if (active)
                execute_one(w, i, active);
            pc++;
        }
        if (!alone && k->is_leader[pc])
            break;
    }
    set_pc(w, lanes, pc);
}

/* ---- barriers ----------------------------------------------------------- */

static const Insn *
insn_at(const Warp *w, uint32_t lane)
{
    return &w->block->kernel->code.data[w->pc[lane]];
}

/* All lanes are parked: at one barrier, or else some wait for ever. */
static void
check_parked(Warp *w)
{
    uint32_t first = (uint32_t)__builtin_ctz(w->live);
    FOR_LANES_OF(l, w->live)
    {
        const Insn *i = insn_at(w, l);
        if (i->flow == FLOW_WARP)
            ptx_violate(w, i, l, PTX_DIVERGENT_WARP_OP, 0, "%s", i->name);
        if (w->pc[l] != w->pc[first])
            ptx_violate(w, i, l, PTX_DIVERGENT_BARRIER, 0,
                        "lane %u of the warp is at line %d", first,
                        insn_at(w, first)->line);
    }
}

/* Warp operations that only waited for lanes which have ended since. */
static void
retry_parked(Warp *w)
{
    FOR_LANES_OF(l, w->live)
    if (w->parked >> l & 1 && insn_at(w, l)->flow == FLOW_WARP)
        meet(w, insn_at(w, l), w->pc[l], 1u << l);
}

/* To the warp's end or its next barrier. */
static void
run_warp(Warp *w)
{
    uint32_t ready;
    while ((ready = w->live & ~w->parked)) {
        uint32_t pc;
        uint32_t lanes = choose(w, ready, &pc);
        run_lanes(w, lanes, pc, lanes == w->live);
        if (w->live && w->live == w->parked)
            retry_parked(w);
    }
    if (w->live)
        check_parked(w);
}

/* A lane that has ended does not reach the barrier. */
static void
check_barrier(Block *b)
{
    const Warp *first = NULL;
    uint32_t arrived = 0;
    for (uint32_t n = 0; n < b->num_warps; n++) {
        Warp *w = &b->warps[n];
        arrived += (uint32_t)__builtin_popcount(w->live);
        first = !first && w->live ? w : first;
    }
    uint32_t at = (uint32_t)__builtin_ctz(first->live);
    const Insn *i = insn_at(first, at);
    for (uint32_t n = 0; n < b->num_warps; n++) {
        Warp *w = &b->warps[n];
        uint32_t l = w->live ? (uint32_t)__builtin_ctz(w->live) : 0;
        if (w->live && insn_at(w, l)->barrier != i->barrier)
            ptx_violate(w, insn_at(w, l), l, PTX_DIVERGENT_BARRIER, 0,
                        "others are at barrier %d", i->barrier);
    }
    if (arrived < b->num_threads)
        ptx_violate(&b->warps[first->number], i, at, PTX_DIVERGENT_BARRIER, 0,
                    "%u of %u threads reach it", arrived, b->num_threads);
}

static void
release_barrier(Block *b)
{
    check_barrier(b);
    b->machine->now++;
    for (uint32_t n = 0; n < b->num_warps; n++) {
        Warp *w = &b->warps[n];
        FOR_LANES_OF(l, w->live)
        w->pc[l]++;
        w->parked = w->syncs = 0;
    }
}

static bool
any_live(const Block *b)
{
    for (uint32_t n = 0; n < b->num_warps; n++)
        if (b->warps[n].live)
            return true;
    return false;
}

/* ---- blocks ------------------------------------------------------------- */

static uint64_t
next_random(uint64_t *state)
{
    uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* The i-th of n in an order that a seed decides: i itself for none. */
static uint64_t
in_order(uint64_t seed, uint64_t i, uint64_t n)
{
    if (!seed)
        return i;
    uint64_t first = next_random(&seed) % n;
    bool backwards = next_random(&seed) & 1;
    return (first + (backwards ? n - i : i)) % n;
}

static void
fill_row32(Warp *w, uint32_t at, uint32_t value)
{
    uint32_t *d = LANES(uint32_t, w, ((Operand){at, 0}));
    FOR_LANES(l)
    d[l] = value;
}

static void
fill_row64(Warp *w, uint32_t at, uint64_t value)
{
    uint64_t *d = LANES(uint64_t, w, ((Operand){at, 0}));
    FOR_LANES(l)
    d[l] = value;
}

static void
fill_constants(Warp *w)
{
    const PtxKernel *k = w->block->kernel;
    for (int c = 0; c < k->constants.len; c++) {
        const Constant *x = &k->constants.data[c];
        uint32_t value = (uint32_t)x->value;
        if (x->bytes == 8)
            fill_row64(w, x->at, x->value);
        else
            fill_row32(w, x->at, x->bytes == 2 ? value | value << 16 : value);
    }
    if (k->dynamic_row[0])
        fill_row32(w, k->dynamic_row[0], k->dynamic_at);
    if (k->dynamic_row[1])
        fill_row64(w, k->dynamic_row[1], k->dynamic_at);
}

static uint32_t
special_value(const Warp *w, int special, uint32_t l)
{
    const Block *b = w->block;
    switch ((SpecialKind)special) {
#define SPECIAL(id, name, value)                                               \
    case SPECIAL_##id:                                                         \
        return value;
#include "tests/cuda/ptx/specials.def"
#undef SPECIAL
    case NUM_SPECIALS:
        break;
    }
    return 0;
}

static void
fill_specials(Warp *w)
{
    const PtxKernel *k = w->block->kernel;
    for (int s = 0; s < NUM_SPECIALS; s++)
        for (uint32_t l = 0; k->special_at[s] && l < NUM_LANES; l++)
            LANES(uint32_t, w, ((Operand){k->special_at[s], 0}))
    [l] = special_value(w, s, l);
}

static void
begin_warp(Warp *w)
{
    const Block *b = w->block;
    const PtxKernel *k = b->kernel;
    uint32_t threads = b->num_threads - w->number * NUM_LANES;
    w->live = threads >= NUM_LANES ? ALL_LANES : (1u << threads) - 1;
    w->parked = w->syncs = 0;
    w->copies.len = 0;
    memset(w->pc, 0, sizeof w->pc);
    memset(w->groups, 0, sizeof w->groups);
    memset(w->valid, 0, k->num_registers * sizeof *w->valid);
    w->valid[0] = ALL_LANES;
    w->instructions = w->lane_instructions = 0;
    memset(w->local, RUBBISH, (size_t)k->info.local * NUM_LANES);
    memset(w->local_valid, 0, (size_t)k->info.local * NUM_LANES);
    fill_specials(w);
}

static void
end_block(Block *b)
{
    PtxCounts *c = &b->machine->counts;
    for (uint32_t n = 0; n < b->num_warps; n++) {
        c->warp_instructions += b->warps[n].instructions;
        c->lane_instructions += b->warps[n].lane_instructions;
    }
    c->blocks++;
}

static void
run_block(Block *b)
{
    PtxMachine *m = b->machine;
    m->block_began = ++m->now;
    memset(b->shared, RUBBISH, b->shared_bytes);
    for (uint32_t n = 0; n < b->num_warps; n++)
        begin_warp(&b->warps[n]);
    for (uint64_t round = 0;; round++) {
        uint64_t seed = b->launch->seed ? b->launch->seed + round : 0;
        for (uint32_t n = 0; n < b->num_warps; n++)
            run_warp(&b->warps[in_order(seed, n, b->num_warps)]);
        if (!any_live(b))
            break;
        release_barrier(b);
    }
    end_block(b);
}

/* ---- launches ----------------------------------------------------------- */

static const char *
reason_against(const PtxLaunch *l)
{
    const PtxKernelInfo *info = &l->kernel->info;
    uint64_t threads = 1;
    for (int d = 0; d < 3; d++) {
        if (!l->grid[d] || !l->block[d] || l->block[d] > MAX_THREADS)
            return "a grid or a block has a size of 0, or one too large";
        if (info->reqntid[d] && info->reqntid[d] != l->block[d])
            return "the block is not that of .reqntid";
        threads *= l->block[d];
    }
    if (threads > MAX_THREADS || (info->maxntid && threads > info->maxntid))
        return "the block has too many threads";
    if (l->param_bytes != info->param_bytes)
        return "the block of parameters has another size";
    if (l->dynamic_shared > MAX_SHARED)
        return "too much shared memory";
    return NULL;
}

static bool
refuse(const PtxLaunch *l, const char *reason, PtxReport *report)
{
    *report =
        (PtxReport){.kind = PTX_BAD_LAUNCH, .kernel = l->kernel->info.name};
    describe(report, reason);
    return false;
}

static void *
must_alloc(size_t bytes)
{
    void *p = aligned_alloc(256, (bytes + 255) / 256 * 256 + 256);
    if (!p) {
        fprintf(stderr, "PTX emulator: no memory\n");
        exit(3);
    }
    return p;
}

/* At least so many bytes; what was in it is lost. */
static void
reserve(uint8_t **buffer, size_t *cap, size_t bytes)
{
    if (*buffer && bytes <= *cap)
        return;
    free(*buffer);
    *buffer = must_alloc(bytes);
    *cap = bytes;
}

static void
place_warps(PtxMachine *m, Block *b)
{
    const PtxKernel *k = b->kernel;
    /* Warps do not begin at the same place of a page: they would share the same
     * lines of a cache. */
    size_t rows = (k->row_bytes + 255) / 256 * 256 + 256;
    size_t local = (size_t)k->info.local * NUM_LANES;
    reserve(&m->rows, &m->rows_cap, rows * b->num_warps);
    reserve(&m->locals, &m->locals_cap, 2 * local * b->num_warps);
    reserve(&m->valid, &m->valid_cap,
            sizeof(uint32_t) * k->num_registers * b->num_warps);
    memset(m->rows, RUBBISH, rows * b->num_warps);
    for (uint32_t n = 0; n < b->num_warps; n++) {
        Warp *w = &b->warps[n];
        w->block = b;
        w->number = n;
        w->rows = m->rows + rows * n;
        w->local = m->locals + 2 * local * n;
        w->local_valid = w->local + local;
        w->valid = (uint32_t *)(void *)m->valid + (size_t)k->num_registers * n;
        fill_constants(w);
    }
}

static void
prepare(PtxMachine *m, const PtxLaunch *l)
{
    Block *b = &m->block;
    const PtxKernel *k = l->kernel;
    b->kernel = k;
    b->launch = l;
    b->machine = m;
    b->checks = l->checks;
    b->num_threads = l->block[0] * l->block[1] * l->block[2];
    b->num_warps = (b->num_threads + NUM_LANES - 1) / NUM_LANES;
    b->shared_bytes = k->info.uses_dynamic_shared
                          ? k->dynamic_at + l->dynamic_shared
                          : k->info.static_shared;
    bool shadows = l->checks & (PTX_CHECK_SHARED_RACES | PTX_CHECK_VALID);
    b->shared_shadows = shadows ? m->shared_shadows : (Shadows){NULL, NULL};
    place_warps(m, b);
    m->num_recent = m->next_recent = 0;
    if (m->maps.len > MANY_MAPS)
        ptx_shadow_unmap(m);
}

static void
run_blocks(PtxMachine *m, const PtxLaunch *l)
{
    Block *b = &m->block;
    uint64_t num = (uint64_t)l->grid[0] * l->grid[1] * l->grid[2];
    uint64_t most = l->only_blocks ? l->only_blocks : num;
    m->launch_began = m->now + 1;
    for (uint64_t n = 0; n < num && n < most; n++) {
        uint64_t id = in_order(l->seed, n, num);
        b->id[0] = (uint32_t)(id % l->grid[0]);
        b->id[1] = (uint32_t)(id / l->grid[0] % l->grid[1]);
        b->id[2] = (uint32_t)(id / l->grid[0] / l->grid[1]);
        run_block(b);
    }
}

bool
ptx_launch(PtxMachine *m, const PtxLaunch *l, PtxReport *report)
{
    const char *reason = reason_against(l);
    if (reason)
        return refuse(l, reason, report);
    m->report = report;
    m->counts.launches++;
    prepare(m, l);
    if (setjmp(m->stop))
        return false;
    run_blocks(m, l);
    return true;
}

/* ---- machines ----------------------------------------------------------- */

PtxMachine *
ptx_machine_new(void)
{
    Arena *a = arena_new(NULL, "PTX machine");
    PtxMachine *m = NEW(a, PtxMachine);
    m->arena = a;
    m->block.shared = must_alloc(2 * MAX_SHARED);
    size_t shadows = 4 * MAX_SHARED * sizeof(uint64_t);
    m->shared_shadows.written = must_alloc(shadows);
    m->shared_shadows.read = m->shared_shadows.written + 2 * MAX_SHARED;
    memset(m->shared_shadows.written, 0, shadows);
    return m;
}

void
ptx_machine_free(PtxMachine *m)
{
    if (!m)
        return;
    ptx_shadow_unmap(m);
    free(m->rows);
    free(m->locals);
    free(m->valid);
    free(m->block.shared);
    free(m->shared_shadows.written);
    arena_release(m->arena);
}

const PtxCounts *
ptx_machine_counts(const PtxMachine *m)
{
    return &m->counts;
}
