/*
 * ptx_tile_shape.c - the shape of a contraction's tiles, by a model
 *
 * Large tiles load each element of the operands less often; small ones keep
 * all multiprocessors busy when the result is small, and waste less at its
 * edges.  Where even small tiles are fewer than the machine could take, the
 * products are divided among k slices of a block's threads, by D2's blocks of
 * 512.
 *
 * The model counts the cycles in which a multiprocessor issues instructions for
 * its share of the tiles, and how well the warps that fit on it keep it busy.
 * Its machine is an A100; a kernel's code does not depend on the GPU that it
 * will run on.
 *
 * Where the result is so small that this leaves multiprocessors without work,
 * the blocks of 512 products go to blocks of threads, and a second launch adds
 * their sums (ptx_split.c).
 */
#include "backend/ptx/ptx_tiles.h"

#include <math.h>
#include "ir/rules/pairs.h"

/* ---- shared memory ------------------------------------------------------ */

enum { LEAST_STEP = 8 };

/* So that no two lanes meet in a bank: eight of them that load 16 bytes, or all
 * of a warp that load 4 of eight rows or columns and of four products, or store
 * 4 of sixteen columns and of the first or fifth product. */
int
be_ptx_panel_line(const PtxTiles *t, const PtxTileShape *s, PtxSide side)
{
    int vector = be_ptx_element_vector(t);
    int elements = be_ptx_tile_side(s, side);
    if (be_ptx_lies_along_k(&t->operands[side]))
        return s->step + vector;
    if (t->operands[side].turned)
        return elements + vector;
    return elements + (t->mma ? PTX_MMA_DOWN : 0);
}

int64_t
be_ptx_panel_bytes(const PtxTiles *t, const PtxTileShape *s, PtxSide side)
{
    int lines = be_ptx_lies_along_k(&t->operands[side])
                    ? be_ptx_tile_side(s, side)
                    : s->step;
    return (int64_t)lines * be_ptx_panel_line(t, s, side) * t->element_bytes;
}

int64_t
be_ptx_buffer_bytes(const PtxTiles *t, const PtxTileShape *s)
{
    return be_ptx_panel_bytes(t, s, PTX_ROWS) +
           be_ptx_panel_bytes(t, s, PTX_COLUMNS);
}

/* Both buffers of all k slices. */
static int64_t
staged_bytes(const PtxTiles *t, const PtxTileShape *s)
{
    return 2 * s->k_slices * be_ptx_buffer_bytes(t, s);
}

enum { LEAST_RESULTS = 16 << 10 };

int
be_ptx_result_line(const PtxTiles *t, const PtxTileShape *s)
{
    return s->width + (t->mma ? PTX_MMA_DOWN : 0);
}

static int64_t
row_bytes(const PtxTiles *t, const PtxTileShape *s)
{
    return (int64_t)be_ptx_tile_places(s, PTX_ROWS) * be_ptx_result_line(t, s) *
           t->bytes;
}

int
be_ptx_result_rows(const PtxTiles *t, const PtxTileShape *s)
{
    int64_t most = staged_bytes(t, s);
    most = most > LEAST_RESULTS ? most : LEAST_RESULTS;
    int rows = s->rows;
    while (rows > 1 && rows * row_bytes(t, s) > most)
        rows /= 2;
    return rows;
}

int64_t
be_ptx_tiles_bytes(const PtxTiles *t, const PtxTileShape *s)
{
    int64_t bytes = staged_bytes(t, s);
    int64_t results = be_ptx_result_rows(t, s) * row_bytes(t, s);
    int64_t exchanged =
        s->k_slices > 1 ? (int64_t)s->height * s->width * t->bytes : 0;
    bytes = bytes > results ? bytes : results;
    return bytes > exchanged ? bytes : exchanged;
}

/* ---- the machine -------------------------------------------------------- */

enum {
    MOST_STEP = 32,
    MAX_K_SLICES = 32,
    SCHEDULERS = 4,
    WARP = 32,
    MAX_WARPS = 64,
    MAX_BLOCKS = 32,
    MAX_THREADS = 512,
    MAX_PARTS = 8,       /* of a panel that a thread stages in a step, */
    MAX_FETCHED = 64,    /* and elements, */
    MAX_UNROLLED = 512,  /* and multiply-adds, for the instruction cache */
    MAX_REGISTERS = 232, /* of a thread, in this estimate */
    REGISTERS = 65536,
    SHARED = 164 << 10,
    OTHER_REGISTERS = 40,
    LOAD_COST = 4,    /* issue slots of a shared load, which is 512 bytes */
    L2_BYTES = 64,    /* a cycle, of a multiprocessor */
    STEP_COST = 40,   /* cycles of a barrier, and what else a step does */
    LATENCY = 550,    /* cycles until memory answers */
    TILE_COST = 2000, /* cycles until the first products, and of results */
    MMA_COST = 8,     /* cycles of a scheduler for a warp's mma */
    MMA_SUMS = 4,     /* of a thread in it */
    FEW_REGISTERS = 128,
    RESULT_COST = 12,  /* issue slots of a result */
    PARTS_BYTES = 1400 /* a cycle, of the machine: 2 TB/s from memory */
};

/* ---- the model ---------------------------------------------------------- */

typedef struct Problem {
    const PtxTiles *t;
    double rows, columns, outer, products;
} Problem;

static bool
has_blocks(const Problem *p)
{
    return p->t->is_float && p->products > IR_K_BLOCK;
}

/* Whether a thread has many sums, which leave few registers for others. */
static bool
has_many_sums(const PtxTiles *t, const PtxTileShape *s)
{
    return t->is_float && t->bytes == 4 && s->k_slices == 1 &&
           s->rows * s->columns == PTX_MAX_SUMS;
}

static int
threads_of(const PtxTileShape *s)
{
    return s->k_slices * be_ptx_tile_threads(s);
}

/* Whether an operand is copied by 16 bytes, or loaded by as many. */
static bool
is_staged_wide(const PtxTiles *t, const PtxOperand *o)
{
    return (o->copied || o->turned) &&
           o->neighbours >= be_ptx_element_vector(t);
}

/* Whether a thread makes do with 128 registers.  The assembler would take more,
 * for loads ahead, and there would be half as many warps. */
static bool
has_few_registers(const PtxTiles *t, const PtxTileShape *s)
{
    const PtxOperand *x = &t->operands[PTX_ROWS],
                     *y = &t->operands[PTX_COLUMNS];
    if (!has_many_sums(t, s) || t->mma)
        return has_many_sums(t, s);
    return threads_of(s) >= 128 && is_staged_wide(t, x) &&
           is_staged_wide(t, y) &&
           !(be_ptx_lies_along_k(x) && be_ptx_lies_along_k(y));
}

bool
be_ptx_totals_are_aside(const PtxTiles *t, const PtxTileShape *s)
{
    return !t->mma && has_few_registers(t, s);
}

/* Whether a thread has totals of blocks of products in registers.  Tensor cores
 * have no order to keep. */
static bool
has_totals(const Problem *p, const PtxTileShape *s)
{
    return has_blocks(p) && !be_ptx_totals_are_aside(p->t, s) &&
           (!p->t->mma || s->k_slices > 1);
}

bool
be_ptx_tiles_may_turn(const PtxTiles *t)
{
    const PtxOperand *x = &t->operands[PTX_ROWS],
                     *y = &t->operands[PTX_COLUMNS];
    return !t->mma && has_many_sums(t, &t->shape) &&
           threads_of(&t->shape) >= 128 && x->along_k && y->along_k &&
           is_staged_wide(t, x) && is_staged_wide(t, y);
}

int
be_ptx_tile_resident(const PtxTiles *t)
{
    const PtxTileShape *s = &t->shape;
    return has_few_registers(t, s) ? REGISTERS / (FEW_REGISTERS * threads_of(s))
                                   : 1;
}

/* Of a thread: sums, and the elements of operands that it holds. */
static int
registers_of(const Problem *p, const PtxTileShape *s)
{
    int words = p->t->bytes / 4, vector = be_ptx_tile_vector(p->t);
    int num = s->rows * s->columns * (has_totals(p, s) ? 2 : 1);
    if (has_few_registers(p->t, s))
        return FEW_REGISTERS;
    if (p->t->mma)
        return num + 2 * s->rows + s->columns + OTHER_REGISTERS;
    for (int side = 0; side < PTX_NUM_SIDES; side++)
        num += be_ptx_tile_each(s, (PtxSide)side) *
               (be_ptx_lies_along_k(&p->t->operands[side]) ? vector : 1);
    return num * words + OTHER_REGISTERS;
}

/* Halves are staged by as many bytes as others are. */
static int
least_step(const PtxTiles *t)
{
    return be_ptx_has_halves(t) ? 2 * LEAST_STEP : LEAST_STEP;
}

static int
most_step(const PtxTiles *t)
{
    return MOST_STEP / LEAST_STEP * least_step(t);
}

/* Halves without neighbours are twice as many for the same bytes. */
static int
most_parts(const PtxTiles *t)
{
    return MAX_PARTS / LEAST_STEP * least_step(t);
}

/* Elements of a panel that a thread stages in a step. */
static int
staged_by_thread(const PtxTileShape *s, PtxSide side)
{
    int elements = be_ptx_tile_side(s, side) * s->step;
    int threads = be_ptx_tile_threads(s);
    return (elements + threads - 1) / threads;
}

/* Whether the code of a step is not too long; that of the fewest products never
 * is, nor that of 16 where a warp alone is a k slice. */
static bool
is_short(const Problem *p, const PtxTileShape *s)
{
    int fetched = 0, parts = 0;
    for (int side = 0; side < PTX_NUM_SIDES; side++) {
        const PtxOperand *o = &p->t->operands[side];
        int staged = staged_by_thread(s, (PtxSide)side);
        int own = staged / o->neighbours;
        fetched += o->copied ? 0 : staged;
        parts = own > parts ? own : parts;
    }
    int always = be_ptx_tile_threads(s) == WARP ? 2 * LEAST_STEP : LEAST_STEP;
    int unrolled = s->rows * s->columns * s->step;
    if (p->t->mma)
        unrolled /= MMA_SUMS * be_ptx_mma_products(p->t);
    return s->step <= always || s->step == least_step(p->t) ||
           (unrolled <= MAX_UNROLLED && parts <= most_parts(p->t) &&
            fetched <= MAX_FETCHED);
}

/* Whether blocks are whole warps; k slices that are less need several, to be
 * worth what they stage. */
static bool
are_warps(const PtxTileShape *s)
{
    int threads = threads_of(s);
    return threads % WARP == 0 &&
           (threads > WARP || be_ptx_tile_threads(s) == WARP);
}

static bool
is_possible(const Problem *p, const PtxTileShape *s)
{
    int64_t bytes = be_ptx_tiles_bytes(p->t, s);
    int threads = threads_of(s), registers = registers_of(p, s);
    return are_warps(s) && threads <= MAX_THREADS && bytes <= PTX_MAX_SHARED &&
           registers <= MAX_REGISTERS && threads * registers <= REGISTERS &&
           is_short(p, s) &&
           (s->k_slices == 1 ||
            (p->t->is_float && p->products > IR_K_BLOCK * (s->k_slices - 1)));
}

/* Whether products of bf16 can be added in such tiles: a step is a group of
 * them, for which a thread has two chains beside each sum. */
static bool
may_have_pairs(const PtxTileShape *s)
{
    return s->step == IR_PAIRS_GROUP &&
           s->rows * s->columns * PTX_PAIRS_VALUES <= PTX_MAX_SUMS;
}

/* Whether tensor cores can add the products of such tiles. */
static bool
may_have_mma(const PtxTileShape *s)
{
    return be_ptx_tile_places(s, PTX_ROWS) % PTX_MMA_DOWN == 0 &&
           be_ptx_tile_places(s, PTX_COLUMNS) % PTX_MMA_ACROSS == 0;
}

/* Blocks that a multiprocessor has at once. */
static double
resident(const Problem *p, const PtxTileShape *s)
{
    int threads = threads_of(s);
    double most = REGISTERS / (registers_of(p, s) * threads);
    int64_t shared = be_ptx_tiles_bytes(p->t, s) + 1024;
    most = fmin(most, (double)(SHARED / shared));
    return fmin(most, fmin(MAX_BLOCKS, MAX_WARPS * WARP / threads));
}

/* Warps with which a multiprocessor always has one to issue: a scheduler needs
 * one with many independent sums, or two with few. */
static double
warps_wanted(const PtxTileShape *s)
{
    return SCHEDULERS * (1 + 16.0 / (s->rows * s->columns));
}

/* Bytes of the operands of a tile. */
static double
bytes_of(const Problem *p, const PtxTileShape *s)
{
    return p->products * (s->height + s->width) * p->t->element_bytes;
}

/* Issue slots of a warp for one product of each sum.  For tensor cores a warp
 * loads the elements of its rows and columns once. */
static double
product_cost(const Problem *p, const PtxTileShape *s)
{
    double sums = s->rows * s->columns, vector = be_ptx_element_vector(p->t);
    if (!p->t->mma)
        return sums + LOAD_COST * (s->rows + s->columns) / vector;
    double loaded = s->rows * PTX_MMA_DOWN + s->columns * PTX_MMA_ACROSS;
    return sums / MMA_SUMS * MMA_COST / be_ptx_mma_products(p->t) +
           SCHEDULERS * LOAD_COST * loaded / (WARP * vector);
}

/* Issue slots of a tile. */
static double
work_of(const Problem *p, const PtxTileShape *s)
{
    double warps = be_ptx_tile_threads(s) / (double)WARP;
    int sums = s->rows * s->columns;
    double product = product_cost(p, s);
    double blocks = ceil(p->products / IR_K_BLOCK);
    double exchange = s->k_slices > 1 ? blocks * s->k_slices * 2.0 * sums : 0;
    return warps * (p->products * product + exchange + RESULT_COST * sums);
}

/* Cycles of a step besides its work, which hides the way of the next products
 * from memory if it is long enough. */
static double
step_cost(const Problem *p, const PtxTileShape *s, double work)
{
    double steps = ceil(p->products / s->step / s->k_slices);
    return steps * (STEP_COST + fmax(0, LATENCY - work / steps));
}

/* Cycles of the multiprocessor that has the most tiles. */
static double
time_of(const Problem *p, const PtxTileShape *s)
{
    double tiles =
        ceil(p->rows / s->height) * ceil(p->columns / s->width) * p->outer;
    double blocks = fmin(tiles, p->rows * p->outer); /* that are launched */
    double share = fmax(ceil(tiles / PTX_PROCESSORS), ceil(tiles / blocks));
    double at_once = fmin(fmin(share, ceil(blocks / PTX_PROCESSORS)),
                          fmax(1, resident(p, s)));
    double warps = at_once * threads_of(s) / WARP;
    double busy = fmin(1, warps / warps_wanted(s));
    double rounds = ceil(share / at_once);
    double work = work_of(p, s) / SCHEDULERS;
    return share * (work / busy + bytes_of(p, s) / L2_BYTES) +
           rounds * (TILE_COST + step_cost(p, s, at_once * work / busy)) +
           work / 1000;
}

/* ---- two launches -------------------------------------------------------- */

static double
num_parts(const Problem *p)
{
    return ceil(p->products / IR_K_BLOCK);
}

static double
num_tiles(const Problem *p, const PtxTileShape *s)
{
    return ceil(p->rows / s->height) * ceil(p->columns / s->width) * p->outer;
}

/* Tiles are whole in scratch memory. */
static double
split_bytes(const Problem *p, const PtxTileShape *s)
{
    return num_parts(p) * num_tiles(p, s) * s->height * s->width * p->t->bytes;
}

static bool
can_split(const Problem *p, const PtxTileShape *s)
{
    return has_blocks(p) && s->k_slices == 1 &&
           split_bytes(p, s) <= PTX_MAX_SCRATCH;
}

/* Of the launch that adds the parts. */
static double
rest_time(const Problem *p, const PtxTileShape *s)
{
    double rounds = ceil(num_parts(p) / PTX_PARTS_AT_ONCE);
    return PTX_LAUNCH_COST + 2 * split_bytes(p, s) / PARTS_BYTES +
           (1 + rounds) * LATENCY;
}

/* Of both launches: in the first a block has 512 products of a tile at a time.
 */
static double
split_time(const Problem *p, const PtxTileShape *s)
{
    Problem part = *p;
    part.products = IR_K_BLOCK;
    double blocks = num_tiles(p, s) * num_parts(p);
    double share = ceil(blocks / PTX_PROCESSORS);
    double at_once = fmin(share, fmax(1, resident(p, s)));
    double warps = at_once * threads_of(s) / WARP;
    double busy = fmin(1, warps / warps_wanted(s));
    double work = work_of(&part, s) / SCHEDULERS;
    return share * (work / busy + bytes_of(&part, s) / L2_BYTES) +
           ceil(share / at_once) *
               (TILE_COST + step_cost(&part, s, at_once * work / busy)) +
           rest_time(p, s);
}

/* ---- the choice --------------------------------------------------------- */

/* The threads of a block are a multiple of a warp, those of a k slice a power
 * of two. */
static const PtxTileShape shapes[] = {
    {.height = 128, .width = 128, .rows = 8, .columns = 8},
    {.height = 128, .width = 64, .rows = 8, .columns = 8},
    {.height = 64, .width = 128, .rows = 8, .columns = 8},
    {.height = 64, .width = 64, .rows = 8, .columns = 8},
    {.height = 64, .width = 32, .rows = 8, .columns = 8},
    {.height = 32, .width = 64, .rows = 8, .columns = 8},
    {.height = 64, .width = 64, .rows = 4, .columns = 4},
    {.height = 128, .width = 32, .rows = 8, .columns = 4},
    {.height = 32, .width = 128, .rows = 4, .columns = 8},
    {.height = 64, .width = 32, .rows = 8, .columns = 4},
    {.height = 32, .width = 64, .rows = 4, .columns = 8},
    {.height = 128, .width = 16, .rows = 8, .columns = 4},
    {.height = 16, .width = 128, .rows = 4, .columns = 8},
    {.height = 32, .width = 32, .rows = 4, .columns = 4},
    {.height = 32, .width = 16, .rows = 4, .columns = 4},
    {.height = 16, .width = 32, .rows = 4, .columns = 4},
    {.height = 16, .width = 16, .rows = 4, .columns = 4},
    {.height = 16, .width = 8, .rows = 4, .columns = 4},
    {.height = 8, .width = 16, .rows = 4, .columns = 4},
};
enum { NUM_SHAPES = sizeof shapes / sizeof shapes[0] };

typedef struct Choice {
    PtxTileShape shape;
    bool splits;
    double time;
} Choice;

static void
try_shape(const Problem *p, const PtxTileShape *s, Choice *best)
{
    if (!is_possible(p, s) ||
        (p->t->mma ? !may_have_mma(s)
                   : p->t->contract->contract.pairs && !may_have_pairs(s)))
        return;
    double whole = time_of(p, s);
    double split = can_split(p, s) ? split_time(p, s) : INFINITY;
    double time = fmin(whole, split);
    if (time < best->time)
        *best = (Choice){*s, split < whole, time};
}

void
be_ptx_tile_shape_choose(const BeKernel *k, PtxTiles *t)
{
    const EmitSpace *rows = &t->operands[PTX_ROWS].space;
    const EmitSpace *columns = &t->operands[PTX_COLUMNS].space;
    Problem p = {.t = t,
                 .rows = (double)be_space_bound(k, rows),
                 .columns = (double)be_space_bound(k, columns),
                 .outer = fmax(1, (double)be_space_bound(k, &t->outer)),
                 .products = (double)be_space_bound(k, &t->products)};
    Choice best = {.time = INFINITY};
    for (int i = 0; i < NUM_SHAPES; i++) {
        PtxTileShape s = shapes[i];
        for (s.k_slices = 1; s.k_slices <= MAX_K_SLICES; s.k_slices *= 2)
            for (s.step = least_step(t); s.step <= most_step(t); s.step *= 2)
                try_shape(&p, &s, &best);
    }
    t->shape = best.shape;
    t->split = (PtxSplit){0};
    if (best.splits)
        t->split = (PtxSplit){(int64_t)num_parts(&p),
                              (int64_t)split_bytes(&p, &best.shape)};
}
