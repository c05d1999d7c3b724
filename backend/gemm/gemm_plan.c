/*
 * gemm_plan.c - how a gemm is blocked, and how A and B are laid out
 *
 * A candidate is a layout of A and one of B that the operands allow; the rest
 * of its plan (the tile, the blocks that are packed) follows from these.  The
 * cheapest candidate is taken.  The unit of cost is packing an operand once:
 * reading it in place costs a part of that each time that the loops around the
 * micro-kernel pass over it, nothing if it stays in a cache.
 *
 * Tiles fill the registers; A of a tile, for kc of k, stays in L1, B in L2.
 */
#include "backend/gemm/gemm.h"

#include <assert.h>
#include <math.h>

enum {
    IN_PLACE_BYTES = 512 << 10, /* of A that is read in place */
    LINES_BYTES = 256 << 10,    /* of lines along k */
    A_BYTES = 2 << 20,          /* of A that is packed once */
    MOST_C_BYTES = 7 << 19, /* of accumulators, which are on a thread's stack
                               beside packed A and B */
    PAGE = 4096,
    MOST_CONFLICTS = 6, /* lines that a set of the first cache keeps beside
                           others */
    MAX_TOGETHER = BE_MAX_VECTORS /* vectors that are packed at once, so that
                                     whole lines of the cache are read */
};

/* The number of passes over an operand in place that cost as much as packing
 * it.  If the elements for a k are near those for the next, prefetching hides
 * most of the cost, and more of it for A, whose rows are short. */
static const double near_a_passes = 16, near_b_passes = 8, far_b_passes = 2;

/* ... where B is in the second cache, but a panel's rows are in few sets of the
 * first one, and too far from each other to be prefetched. */
static const double in_l2_b_passes = 32;

/* ... where a tile's rows of A are all in the same sets of the first cache,
 * from which B sometimes displaces them. */
static const double conflicting_a_passes = 32;

/* The cost of packing an operand as lines: an element is computed once for all
 * places that share it. */
static const double lines_cost = 0.5;

/* The input of all candidates. */
typedef struct Problem {
    const Gemm *gemm;
    const BeKernel *kernel;
    const BeTarget *target;
    int64_t m, n, k; /* bounds of their extents */
    int64_t bytes;   /* of an element */
    int64_t run;     /* rows that tiles can divide among them */
} Problem;

/* ---- tiles --------------------------------------------------------------- */

static int
choose_lanes(const Problem *x)
{
    int most = (int)(x->target->register_bytes / x->bytes), lanes = 2;
    while (lanes < most && lanes < x->n)
        lanes *= 2;
    return lanes;
}

/* Two, unless one or three leave less of the last tile empty. */
static int
choose_vectors(int lanes, int64_t n)
{
    int64_t vectors = (n + lanes - 1) / lanes;
    if (vectors == 1)
        return 1;
    return vectors % 2 && vectors % 3 == 0 ? 3 : 2;
}

/* Rows whose accumulators fit in the registers beside a row of B and elements
 * of A for two products, but fill three quarters of them at most: LLVM loads
 * what the next products need early, and spills accumulators for it. */
static int
most_mr(const Problem *x, int vectors)
{
    int registers = x->target->num_registers, sums = registers * 3 / 4;
    if (sums > registers - vectors - 2)
        sums = registers - vectors - 2;
    int most = sums / vectors;
    if (x->gemm->contract->contract.pairs == IR_ONE_CHAIN && most > 1)
        most--; /* two products go into the same sum, one after the other */
    if (x->gemm->contract->contract.pairs == IR_TWO_CHAINS)
        most = (most + 1) / 2 > 1 ? (most + 1) / 2 : 1;
    return most < GEMM_MAX_MR ? most : GEMM_MAX_MR;
}

/* At most `most`, or fewer when the last tile is then fuller. */
static int
fullest_mr(int64_t m, int most)
{
    int best = most;
    double least = INFINITY;
    for (int mr = most; mr > most / 2; mr--) {
        double tiles = (double)((m + mr - 1) / mr);
        double cost = tiles * (mr + 0.5);
        if (cost < least) {
            least = cost;
            best = mr;
        }
    }
    return best;
}

/* Part of a line's rows, or those of some full lines. */
static int
k_lines_mr(const GemmLines *l, int most)
{
    int64_t lines = l->lines;
    if (l->run > most)
        return fullest_mr(l->run, most);
    while (lines * l->run > most || l->lines % lines)
        lines--;
    return (int)(lines * l->run);
}

static bool
run_is_known(const Gemm *g)
{
    return ir_dim_is_const(g->m.vars[g->m.count - 1]->extent);
}

static int
choose_mr(const Problem *x, const GemmPlan *plan)
{
    const Gemm *g = x->gemm;
    int most = most_mr(x, plan->vectors);
    if (plan->a.kind == GEMM_K_LINES)
        return k_lines_mr(&g->k_lines, most);
    if (!g->a.along_k && plan->a.kind != GEMM_M_LINES && most > plan->lanes)
        most = plan->lanes;
    if (x->run <= most)
        return (int)x->run;
    bool known = be_space_is_const(&g->m) || (g->in_runs && run_is_known(g));
    return known ? fullest_mr(x->run, most) : most;
}

/* ---- lines --------------------------------------------------------------- */

/* Elements of a line along m for that many rows. */
static int64_t
m_line_size(const Problem *x, const GemmPlan *plan, int64_t rows)
{
    rows = be_gemm_round_up(rows, plan->mr);
    return be_gemm_round_up(be_gemm_line_size(&x->gemm->m_lines, rows),
                            plan->lanes);
}

/* Rows whose lines stay in L1, in pieces of a run of about equal length. */
static int64_t
m_lines_group(const Problem *x, const GemmPlan *plan)
{
    const GemmLines *l = &x->gemm->m_lines;
    int64_t rows = l->length;
    for (int64_t pieces = 2;
         rows > plan->mr &&
         l->lines * m_line_size(x, plan, rows) * x->bytes > GEMM_L1_BYTES / 2;
         pieces++)
        rows = be_gemm_round_up((l->length + pieces - 1) / pieces, plan->mr);
    return rows;
}

static int64_t
k_line_size(const GemmLines *l, const GemmPlan *plan)
{
    return be_gemm_round_up(be_gemm_line_size(l, l->length), plan->lanes);
}

/* The lines along k that a block of k reaches. */
static int64_t
k_line_segments(const GemmLines *l, const GemmPlan *plan)
{
    return (plan->kc + l->length - 2) / l->length + 1;
}

static bool
k_lines_fit(const Problem *x, const GemmPlan *plan)
{
    const GemmLines *l = &x->gemm->k_lines;
    int64_t all;
    return !__builtin_mul_overflow(k_line_segments(l, plan) * l->lines,
                                   k_line_size(l, plan), &all) &&
           all <= LINES_BYTES / x->bytes;
}

/* ---- layouts ------------------------------------------------------------- */

/* Whether neighbours at that distance fall into the same few sets of a cache.
 */
static bool
conflicts_in_cache(int64_t stride, int64_t bytes)
{
    return stride * bytes % PAGE == 0;
}

/* Whether there are always as many rows as a tile has, and a tile's part of
 * them stays in L1. */
static bool
can_read_a(const Problem *x, const GemmPlan *plan)
{
    const Gemm *g = x->gemm;
    const GemmOperand *a = &g->a;
    if (!a->plain || !be_space_is_const(&g->m))
        return false;
    if (a->k_stride == 1)
        return most_mr(x, plan->vectors) <= MOST_CONFLICTS ||
               !conflicts_in_cache(a->stride, x->bytes);
    return a->stride == 1;
}

static bool
can_lay_out_a(const Problem *x, const GemmPlan *plan)
{
    const Gemm *g = x->gemm;
    bool by_rows = !g->m_lines.index;
    switch (plan->a.kind) {
    case GEMM_IN_PLACE:
        return can_read_a(x, plan);
    case GEMM_K_LINES:
        return g->k_lines.index && k_lines_fit(x, plan);
    case GEMM_M_LINES:
        return g->m_lines.index;
    case GEMM_ALONG_K:
        return by_rows && g->a.along_k;
    case GEMM_GROUPS:
        return by_rows && !g->a.along_k && g->in_runs;
    case GEMM_TILES:
        return by_rows && !g->a.along_k && !g->in_runs;
    case GEMM_PANELS:
        return false;
    }
    UNREACHABLE("a layout");
}

static bool
can_lay_out_b(const Problem *x, const GemmPlan *plan)
{
    const GemmOperand *b = &x->gemm->b;
    return plan->b.kind == GEMM_PANELS ||
           (b->plain && b->stride == 1 && ir_dim_is_const(x->gemm->n->extent) &&
            x->n % be_gemm_plan_nr(plan) == 0);
}

static int64_t
choose_group(const Problem *x, const GemmPlan *plan)
{
    int64_t all = be_gemm_round_up(x->run, plan->lanes);
    int64_t most = (int64_t)plan->lanes * MAX_TOGETHER;
    return all < most ? all : most;
}

/* The rest of a's layout, whose kind is set. */
static void
lay_out_a(const Problem *x, GemmPlan *plan)
{
    const Gemm *g = x->gemm;
    GemmLayout *a = &plan->a;
    a->stride = a->k_stride = 1;
    switch (a->kind) {
    case GEMM_IN_PLACE:
        a->stride = g->a.stride;
        a->k_stride = g->a.k_stride;
        break;
    case GEMM_K_LINES:
        a->k_stride = g->k_lines.stride * g->k_lines.elements;
        a->group = plan->mr > g->k_lines.run ? plan->mr : g->k_lines.run;
        a->line_size = k_line_size(&g->k_lines, plan);
        a->segments = k_line_segments(&g->k_lines, plan);
        a->size = a->segments * g->k_lines.lines * a->line_size + plan->mr +
                  plan->lanes;
        break;
    case GEMM_M_LINES:
        a->stride = g->m_lines.stride * g->m_lines.elements;
        a->group = m_lines_group(x, plan);
        a->line_size = m_line_size(x, plan, a->group);
        a->size = g->m_lines.lines * a->line_size + plan->lanes;
        break;
    case GEMM_ALONG_K:
        a->stride = be_gemm_round_up(plan->kc, plan->lanes) + plan->lanes;
        if (conflicts_in_cache(a->stride, x->bytes))
            a->stride += plan->lanes;
        a->size = plan->mr * a->stride;
        break;
    case GEMM_GROUPS:
        a->group = a->k_stride = choose_group(x, plan);
        a->size = plan->kc * a->group + plan->mr;
        break;
    case GEMM_TILES:
        a->k_stride = plan->mr;
        a->size = plan->kc * plan->mr + plan->lanes;
        break;
    case GEMM_PANELS:
        UNREACHABLE("A in panels");
    }
}

/* ---- blocks -------------------------------------------------------------- */

/* Whether A can be packed once for all blocks of columns: the loop over these
 * is then inside the one over k, so that no accumulators wait for more
 * products, except in the result. */
static bool
can_keep_a(const Problem *x, const GemmPlan *plan)
{
    return (plan->a.kind == GEMM_TILES || plan->a.kind == GEMM_ALONG_K) &&
           !be_gemm_keeps_c(x->gemm, plan);
}

/* Bytes of a block of B, which is in L2 beside rows of A and C: where registers
 * have 32 bytes that is an L2 of 512 KB if all of B fits it, else less than
 * half of that.  Blocks are larger where each costs another packing of A. */
static int64_t
b_block_bytes(const Problem *x, const GemmPlan *plan)
{
    enum { SMALL_REGISTER = 32 };
    int64_t most = be_gemm_l2_bytes(x->target);
    bool has_a = plan->a.kind == GEMM_IN_PLACE || can_keep_a(x, plan);
    bool small = x->target->register_bytes <= SMALL_REGISTER;
    bool is_one = (double)x->n * (double)(plan->kc * x->bytes) <= (double)most;
    return small && has_a && !is_one ? most * 3 / 8 : most;
}

int64_t
be_gemm_block_columns(const GemmPlan *plan, int64_t n, int64_t block_bytes,
                      int64_t bytes)
{
    int64_t nr = be_gemm_plan_nr(plan);
    int64_t fit = block_bytes / (plan->kc * bytes) / nr * nr;
    return be_gemm_even_piece(n, fit, nr);
}

/* Rows that are packed at once. */
static int64_t
rows_together(const GemmPlan *plan)
{
    int64_t rows = (int64_t)plan->m_tiles * plan->mr;
    return rows < plan->a.group ? be_gemm_round_up(plan->a.group, plan->mr)
                                : rows;
}

/* A tile's rows have accumulators beside those of all rows that are kept. */
void
be_gemm_limit_columns(const Gemm *g, GemmPlan *plan, int64_t n)
{
    int64_t bytes = (int64_t)dtype_info[g->contract->dtype].bytes;
    int64_t column = (rows_together(plan) + plan->mr) * bytes;
    int64_t nr = be_gemm_plan_nr(plan), most = MOST_C_BYTES / column / nr * nr;
    if (most < nr)
        most = nr;
    if (!g->direct && plan->nc > most)
        plan->nc = be_gemm_even_piece(n, most, nr);
}

static void
lay_out_b(const Problem *x, GemmPlan *plan)
{
    bool in_place = plan->b.kind == GEMM_IN_PLACE;
    plan->b.stride = 1;
    plan->b.k_stride = in_place ? x->gemm->b.k_stride : be_gemm_plan_nr(plan);
    plan->nc = in_place ? x->n
                        : be_gemm_block_columns(
                              plan, x->n, b_block_bytes(x, plan), x->bytes);
    be_gemm_limit_columns(x->gemm, plan, x->n);
    int64_t panels = plan->nc / be_gemm_plan_nr(plan);
    int most = MAX_TOGETHER / plan->vectors;
    plan->n_panels = panels < most ? (int)panels : most;
}

/* Tiles whose rows are packed at once: where lanes run along m. */
static int
choose_m_tiles(const Problem *x, const GemmPlan *plan)
{
    GemmLayoutKind kind = plan->a.kind;
    int64_t all = (x->run + plan->mr - 1) / plan->mr;
    if (kind != GEMM_TILES && kind != GEMM_GROUPS && kind != GEMM_M_LINES)
        return 1;
    return all < MAX_TOGETHER ? (int)all : MAX_TOGETHER;
}

int64_t
be_gemm_kept_rows(const Gemm *g, const GemmPlan *plan, int64_t most_bytes)
{
    int64_t bytes = (int64_t)dtype_info[g->contract->dtype].bytes;
    int64_t mc = rows_together(plan);
    int64_t fit = most_bytes / (plan->nc * bytes);
    return be_gemm_keeps_c(g, plan) && fit > mc ? fit / mc * mc : mc;
}

int64_t
be_gemm_a_rows(const GemmPlan *plan, int64_t m, int64_t bytes)
{
    int64_t together = (int64_t)plan->m_tiles * plan->mr;
    int64_t most = A_BYTES / (plan->a.size * bytes) * plan->mr;
    return be_gemm_even_piece(m, most, together);
}

/* 0: there is one block of columns, or A is not to be kept. */
static int64_t
choose_a_rows(const Problem *x, const GemmPlan *plan)
{
    if (plan->nc >= x->n || !can_keep_a(x, plan) || x->m == 0)
        return 0;
    return be_gemm_a_rows(plan, x->m, x->bytes);
}

/* ---- costs --------------------------------------------------------------- */

/* Whether the elements for a k are near those for the next. */
static bool
is_near(const Problem *x, const GemmOperand *o)
{
    return o->k_stride * x->bytes <= PAGE / 2;
}

/* Whether A, if it were packed row by row, would be packed once for all
 * columns. */
static bool
is_packed_once(const Problem *x, const GemmPlan *plan)
{
    GemmPlan other = *plan;
    other.a.kind = GEMM_ALONG_K;
    return can_keep_a(x, &other) || plan->nc >= x->n;
}

static double
cost_of_a(const Problem *x, const GemmPlan *plan)
{
    const GemmOperand *a = &x->gemm->a;
    double bytes = (double)x->m * (double)x->k * (double)x->bytes;
    if (plan->a.kind == GEMM_K_LINES || plan->a.kind == GEMM_M_LINES)
        return lines_cost;
    if (plan->a.kind != GEMM_IN_PLACE)
        return 1;
    double passes = (double)x->n / (double)be_gemm_plan_nr(plan);
    if (a->k_stride == 1)
        return conflicts_in_cache(a->stride, x->bytes) &&
                       is_packed_once(x, plan)
                   ? passes / conflicting_a_passes
                   : 0;
    if (bytes <= IN_PLACE_BYTES)
        return 0;
    return is_near(x, a) ? passes / near_a_passes : INFINITY;
}

/* Whether a panel of B in place stays in L1 while all rows of A pass, or is
 * prefetched: its rows share sets where they are a multiple of a power of two
 * apart. */
static bool
stays_in_cache(const Problem *x, const GemmPlan *plan)
{
    enum { WAYS = GEMM_L1_BYTES / PAGE };
    int64_t stride = x->gemm->b.k_stride * x->bytes, apart = PAGE;
    if (be_gemm_streams_b(plan, x->bytes))
        return !conflicts_in_cache(x->gemm->b.k_stride, x->bytes);
    while (stride % apart)
        apart /= 2;
    int64_t row =
        be_gemm_round_up(be_gemm_plan_nr(plan) * x->bytes, CACHE_LINE);
    int64_t way = apart > row ? PAGE / apart * row : PAGE;
    return plan->kc * row <= way * WAYS;
}

static double
cost_of_b(const Problem *x, const GemmPlan *plan)
{
    double bytes = (double)x->n * (double)x->k * (double)x->bytes;
    if (plan->b.kind == GEMM_PANELS)
        return 1;
    double passes = (double)x->m / plan->mr;
    if (bytes <= (double)be_gemm_l2_bytes(x->target))
        return stays_in_cache(x, plan) ? 0 : passes / in_l2_b_passes;
    return passes / (is_near(x, &x->gemm->b) ? near_b_passes : far_b_passes);
}

/* ---- the choice ---------------------------------------------------------- */

static Problem
describe(const Emit *e, const Gemm *g)
{
    const BeKernel *k = e->k;
    Problem x = {.gemm = g, .kernel = k, .target = e->target};
    x.m = be_space_bound(k, &g->m);
    x.n = be_dim_bound(k, g->n->extent);
    x.k = be_space_bound(k, &g->k);
    x.bytes = (int64_t)dtype_info[g->contract->dtype].bytes;
    x.run =
        g->in_runs ? be_dim_bound(k, g->m.vars[g->m.count - 1]->extent) : x.m;
    return x;
}

/* The plan with these layouts, at *plan; false if they are not possible. */
static bool
make_plan(const Problem *x, GemmLayoutKind a, GemmLayoutKind b, GemmPlan *plan)
{
    *plan = (GemmPlan){.a.kind = a, .b.kind = b};
    plan->lanes = choose_lanes(x);
    plan->vectors = choose_vectors(plan->lanes, x->n);
    bool is_whole = x->k <= IR_K_BLOCK || a == GEMM_M_LINES;
    plan->kc = is_whole ? x->k : IR_K_BLOCK;
    plan->k_blocked = !is_whole;
    if (!can_lay_out_a(x, plan) || !can_lay_out_b(x, plan))
        return false;
    plan->mr = choose_mr(x, plan);
    lay_out_a(x, plan);
    plan->m_tiles = choose_m_tiles(x, plan);
    lay_out_b(x, plan);
    plan->mc = be_gemm_kept_rows(x->gemm, plan, GEMM_C_BYTES);
    plan->a_rows = choose_a_rows(x, plan);
    plan->skips_zeros = be_gemm_can_skip_zeros(x->gemm, plan);
    plan->cost = cost_of_a(x, plan) + cost_of_b(x, plan);
    return true;
}

GemmPlan
be_gemm_plan_choose(const Emit *e, const Gemm *g)
{
    static const GemmLayoutKind of_a[] = {GEMM_IN_PLACE, GEMM_K_LINES,
                                          GEMM_M_LINES,  GEMM_ALONG_K,
                                          GEMM_GROUPS,   GEMM_TILES};
    static const GemmLayoutKind of_b[] = {GEMM_IN_PLACE, GEMM_PANELS};
    Problem x = describe(e, g);
    GemmPlan best = {.cost = INFINITY}, plan;
    for (size_t i = 0; i < sizeof of_a / sizeof of_a[0]; i++) {
        for (size_t j = 0; j < sizeof of_b / sizeof of_b[0]; j++) {
            if (make_plan(&x, of_a[i], of_b[j], &plan) && plan.cost < best.cost)
                best = plan;
        }
    }
    assert(best.mr > 0);
    assert(best.mr * best.vectors <= BE_MAX_CARRIED);
    return best;
}
