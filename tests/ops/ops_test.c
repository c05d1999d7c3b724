/*
 * ops_test.c - every operation of the table, through all passes
 *
 *   ops_test values      each dtype it allows, axes of 0, 1, 7 and 65 elements
 *                        and of a batch's rows: the placed program gives the
 *                        bits that the program as written gave
 *   ops_test gradients   three random directional derivatives in f64 to 1e-6;
 *                        gradients in f32, bf16 and f16 against those in f64
 *
 * The programs are those of samples.h.
 */
#include "tests/unit/unit.h"

#include <math.h>
#include "ir/ir.h"
#include "ir/text/text.h"
#include "ir/verify/verify.h"
#include "passes/passes.h"
#include "tests/ops/samples.h"
#include "tests/passes/check.h"
#include "tests/ref/interp.h"
#include "tests/unit/sweep.h"

static const int64_t sizes[] = {0, 1, 7, 65, SIZE_BATCH};
enum { NUM_SIZES = sizeof sizes / sizeof *sizes };

/* Rows of three replicas: uneven, none on the first, all full. */
static const int64_t batches[][3] = {{5, 3, 4}, {0, 7, 1}, {65, 65, 65}};
enum { NUM_BATCHES = sizeof batches / sizeof *batches };

/* ---- running one -------------------------------------------------------- */

/* What a program gave: result i of replica r is results[i][r]. */
typedef struct Outcome {
    RefTensor **results;
    int num_results;
    RefTensor *vars; /* v * num_replicas + r */
    Str printed;
} Outcome;

static void
note_printed(void *data, const char *line)
{
    str_addf(data, "%s\n", line);
}

static const int64_t *
rows_of(const OpSample *s, int batch)
{
    return s->rows >= 0 ? batches[batch] : NULL;
}

/* A dimension on replica r: the batch's n or N. */
static int64_t
dim_of(const OpSample *s, Dim d, const int64_t *rows, int r)
{
    int64_t all = 0;
    for (int i = 0; rows && i < s->of.num_replicas; i++)
        all += rows[i];
    if (ir_dim_is_const(d))
        return d.c;
    return ir_dim_value(d, d.sym == s->rows ? rows[r] : all);
}

/* An argument's elements on each replica, shaped by its rows. */
static RefTensor *
make_arg(Arena *a, const OpSample *s, const OpArg *arg, const int64_t *rows,
         uint64_t seed)
{
    int n = s->of.num_replicas;
    RefTensor *x = NEW_ARRAY(a, RefTensor, (size_t)n);
    for (int r = 0; r < n; r++) {
        int64_t dims[IR_MAX_RANK];
        for (int i = 0; i < arg->type.rank; i++)
            dims[i] = dim_of(s, arg->type.dims[i], rows, r);
        ref_shape(a, &x[r], arg->type.dtype, arg->type.rank, dims);
        op_sample_fill(arg->values, seed * 16 + (uint64_t)r, &x[r]);
    }
    return x;
}

static RefTensor **
make_args(Arena *a, const OpSample *s, const int64_t *rows)
{
    RefTensor **args = NEW_ARRAY(a, RefTensor *, (size_t)s->num_args);
    for (int i = 0; i < s->num_args; i++)
        args[i] = make_arg(a, s, &s->args[i], rows, (uint64_t)i);
    return args;
}

static void
call(Arena *a, IrModule *m, Interp *in, const char *program,
     RefTensor *const *args, Outcome *out)
{
    int n = m->num_replicas;
    const char **programs = (const char **)NEW_ARRAY(a, char *, (size_t)n);
    out->num_results =
        ir_block_yield(ir_func_find(m, program)->body)->num_operands;
    out->results = NEW_ARRAY(a, RefTensor *, (size_t)out->num_results);
    for (int r = 0; r < n; r++)
        programs[r] = program;
    for (int i = 0; i < out->num_results; i++)
        out->results[i] = NEW_ARRAY(a, RefTensor, (size_t)n);
    Status st = interp_call(in, programs, (const RefTensor *const *)args, a,
                            out->results);
    if (st)
        fail_msg("%s", status_message(st));
}

static Outcome
run(Arena *a, const OpSample *s, IrModule *m, const char *program,
    const int64_t *rows, RefTensor *const *args)
{
    Outcome out = {.printed = str_new(a)};
    InterpOptions options = {.printed = note_printed, .data = &out.printed};
    Interp *in = interp_new(m, &options);
    if (rows)
        interp_set_rows(in, s->rows, rows);
    call(a, m, in, program, args, &out);
    int n = m->num_replicas;
    out.vars = NEW_ARRAY(a, RefTensor, (size_t)(n * m->vars.len));
    for (int i = 0; i < n * m->vars.len; i++)
        ref_copy(a, &out.vars[i],
                 interp_var(in, m->vars.data[i / n]->name, i % n));
    interp_release(in);
    return out;
}

/* ---- values ------------------------------------------------------------- */

static const char *
case_text(Arena *a, const OpCase *c)
{
    return arena_printf(a, "%s of %s, size %lld, %d replicas",
                        ir_op_info[c->kind].name, dtype_info[c->dtype].name,
                        (long long)c->size, c->num_replicas);
}

static void
expect_equal(Arena *a, const OpSample *s, const IrModule *m, const Outcome *x,
             const Outcome *y)
{
    const char *where = NULL;
    int n = s->of.num_replicas;
    for (int i = 0; i < x->num_results * n; i++)
        if (ref_first_difference(&x->results[i / n][i % n],
                                 &y->results[i / n][i % n]) >= 0)
            where = arena_printf(a, "result %d of replica %d", i / n, i % n);
    for (int i = 0; i < m->vars.len * n; i++)
        if (ref_first_difference(&x->vars[i], &y->vars[i]) >= 0)
            where = arena_printf(a, "variable \"%s\" of replica %d",
                                 m->vars.data[i / n]->name, i % n);
    if (strcmp(str_text(&x->printed), str_text(&y->printed)) != 0)
        where = "what it prints";
    if (!where)
        return;
    fail_msg("%s: %s changes in\n%s", case_text(a, &s->of), where,
             ir_module_text(a, m));
}

static void
find_kind(const IrModule *m, const IrBlock *b, IrOpKind kind, bool *found)
{
    for (const IrOp *op = b->first; op; op = op->next) {
        *found |= op->kind == kind;
        for (int i = 0; i < op->num_regions; i++)
            find_kind(m, op->regions[i], kind, found);
    }
}

static bool
has_kind(const IrModule *m, IrOpKind kind)
{
    bool found = false;
    for (const IrFunc *fn = m->first; fn; fn = fn->next)
        find_kind(m, fn->body, kind, &found);
    return found;
}

static void
run_pass(Arena *a, IrModule *m, const char *pass, const CheckOptions *options)
{
    const char *wrong = check_pass(a, m, pass, options);
    if (wrong)
        fail_msg("after %s: %s\n%s", pass, wrong, ir_module_text(a, m));
}

/* The module after all passes that apply to it: a sample that is a device
 * program begins in the middle of the pipeline. */
static IrModule *
place(Arena *a, IrModule *m, const CheckOptions *options)
{
    IrModule *copy = ir_clone_module(m, a);
    for (int i = 0; i < num_passes; i++)
        if (pass_fits(&pass_table[i], copy))
            run_pass(a, copy, pass_table[i].name, options);
    return copy;
}

/* The program as written, except for gradients, which nothing executes. */
static IrModule *
as_written(Arena *a, const OpSample *s)
{
    if (!has_kind(s->m, OP_grad) && !has_kind(s->m, OP_custom_gradient) &&
        !has_kind(s->m, OP_recompute))
        return s->m;
    IrModule *copy = ir_clone_module(s->m, a);
    CheckOptions options = {.level = 0};
    run_pass(a, copy, "differentiate", &options);
    return copy;
}

static void
check_program(Arena *a, OpSample *s)
{
    IrModule *written = as_written(a, s);
    bool found = has_kind(s->m, s->of.kind);
    for (int level = 0; level <= 2; level += 2) {
        CheckOptions options = {.level = level};
        IrModule *placed = place(a, s->m, &options);
        found |= has_kind(placed, s->of.kind);
        for (int b = 0; b < (s->rows >= 0 ? NUM_BATCHES : 1); b++) {
            const int64_t *rows = rows_of(s, b);
            RefTensor **args = make_args(a, s, rows);
            Outcome x = run(a, s, written, "f", rows, args);
            Outcome y = run(a, s, placed, "f", rows, args);
            expect_equal(a, s, placed, &x, &y);
            if (b + 1 < NUM_BATCHES || !ir_func_find(placed, "f.full"))
                continue;
            Outcome z = run(a, s, placed, "f.full", rows, args);
            expect_equal(a, s, placed, &x, &z);
        }
    }
    if (!found)
        fail_msg("%s: it is not in its sample", case_text(a, &s->of));
}

static void
check_main(Arena *a, OpSample *s)
{
    bool found = has_kind(s->m, s->of.kind);
    for (int level = 0; level <= 2; level += 2) {
        CheckOptions options = {.level = level};
        const char *wrong = check_pipeline(a, s->m, &options);
        if (wrong)
            fail_msg("%s: %s", case_text(a, &s->of), wrong);
        found |= has_kind(place(a, s->m, &options), s->of.kind);
    }
    if (!found)
        fail_msg("%s: it is not in its sample", case_text(a, &s->of));
}

static int
check_case(const OpCase *c)
{
    OpSample s;
    Arena *a = arena_new(NULL, "sample");
    bool allowed = op_sample(a, c, &s);
    if (allowed && !ir_verify(s.m, s.m->diag))
        fail_msg("%s: %s", case_text(a, c), diag_text(s.m->diag, a));
    if (allowed)
        (s.program ? check_program : check_main)(a, &s);
    arena_release(a);
    return allowed;
}

static void
expect_values(void **state)
{
    IrOpKind kind = *(const IrOpKind *)*state;
    bool together = ir_op_info[kind].effect == COLLECTIVE;
    int num = 0;
    for (int t = 0; t < NUM_DTYPES; t++)
        for (int i = sweep_first(NUM_SIZES); i < NUM_SIZES; i = sweep_next(i))
            for (int replicas = 2; replicas <= 2 + together; replicas++)
                num += check_case(
                    &(OpCase){kind, (DType)t, sizes[i], replicas, false});
    assert_true(num > 0 || sweep_part() > 1);
}

/* ---- gradients ---------------------------------------------------------- */

/* A sample whose gradients have become operations, and its arguments. */
typedef struct Slope {
    Arena *arena;
    OpSample s;
    const int64_t *rows;
    RefTensor **args;
} Slope;

static bool
slope_new(Slope *g, IrOpKind kind, DType t, int64_t size, int batch)
{
    OpCase c = {kind, t, size, 2, true};
    if (!op_sample(g->arena, &c, &g->s))
        return false;
    CheckOptions options = {.level = 2};
    if (!ir_verify(g->s.m, g->s.m->diag))
        fail_msg("%s: %s", case_text(g->arena, &c),
                 diag_text(g->s.m->diag, g->arena));
    run_pass(g->arena, g->s.m, "differentiate", &options);
    g->rows = rows_of(&g->s, batch);
    g->args = make_args(g->arena, &g->s, g->rows);
    return true;
}

static Outcome
slope_at(const Slope *g, RefTensor *const *args)
{
    return run(g->arena, &g->s, g->s.m, "f", g->rows, args);
}

/* The sum of the replicas' losses, each of which depends on all replicas'
 * values. */
static double
loss_of(const Slope *g, RefTensor *const *args)
{
    Outcome out = slope_at(g, args);
    double sum = 0;
    for (int r = 0; r < g->s.of.num_replicas; r++)
        sum += ref_get(&out.results[0][r], 0).f;
    return sum;
}

/* The arguments, those with a gradient moved by h along d. */
static RefTensor **
moved(const Slope *g, RefTensor *const *d, double h)
{
    RefTensor **args = make_args(g->arena, &g->s, g->rows);
    for (int i = 0; i < g->s.num_wrt; i++)
        for (int r = 0; r < g->s.of.num_replicas; r++)
            for (int64_t k = 0; k < args[i][r].count; k++) {
                double x = ref_get(&args[i][r], k).f;
                double to = x + h * ref_get(&d[i][r], k).f;
                ref_set(&args[i][r], k, scalar_float(DT_f64, to));
            }
    return args;
}

static double
along(const Slope *g, const Outcome *at, RefTensor *const *d)
{
    double sum = 0;
    for (int i = 0; i < g->s.num_wrt; i++)
        for (int r = 0; r < g->s.of.num_replicas; r++)
            for (int64_t k = 0; k < d[i][r].count; k++)
                sum += ref_get(&at->results[i + 1][r], k).f *
                       ref_get(&d[i][r], k).f;
    return sum;
}

static RefTensor **
direction(const Slope *g, int number)
{
    RefTensor **d = NEW_ARRAY(g->arena, RefTensor *, (size_t)g->s.num_wrt);
    for (int i = 0; i < g->s.num_wrt; i++) {
        OpArg arg = {g->s.args[i].type, VALUES_ANY};
        d[i] = make_arg(g->arena, &g->s, &arg, g->rows,
                        (uint64_t)(1000 * (number + 1) + i));
    }
    return d;
}

static void
check_directions(const Slope *g)
{
    const double h = 1e-5;
    Outcome at = slope_at(g, g->args);
    for (int k = 0; k < 3; k++) {
        RefTensor **d = direction(g, k);
        double up = loss_of(g, moved(g, d, h));
        double down = loss_of(g, moved(g, d, -h));
        double measured = (up - down) / (2 * h), ours = along(g, &at, d);
        double scale = fmax(1, fmax(fabs(ours), fabs(up)));
        if (!(fabs(measured - ours) <= 1e-6 * scale))
            fail_msg("%s: the slope is %.9g, its gradient says %.9g",
                     case_text(g->arena, &g->s.of), measured, ours);
    }
}

static void
check_zeros(const Slope *g)
{
    Outcome at = slope_at(g, g->args);
    for (int i = 0; i < g->s.num_wrt; i++)
        for (int r = 0; r < g->s.of.num_replicas; r++)
            for (int64_t k = 0; k < at.results[i + 1][r].count; k++)
                assert_true(ref_get(&at.results[i + 1][r], k).f == 0);
}

/* Gradients of a narrow dtype, against those in f64 at the same values. */
static void
check_narrow(const Slope *wide, DType t, int batch, double tolerance)
{
    Slope g = {.arena = wide->arena};
    if (!slope_new(&g, wide->s.of.kind, t, wide->s.of.size, batch))
        return;
    for (int i = 0; i < g.s.num_args; i++)
        for (int r = 0; r < g.s.of.num_replicas; r++)
            for (int64_t k = 0; k < g.args[i][r].count; k++)
                ref_set(&wide->args[i][r], k, ref_get(&g.args[i][r], k));
    Outcome x = slope_at(wide, wide->args), y = slope_at(&g, g.args);
    for (int i = 1; i <= g.s.num_wrt; i++) {
        double most = 0, off = 0;
        for (int r = 0; r < g.s.of.num_replicas; r++)
            for (int64_t k = 0; k < x.results[i][r].count; k++) {
                double a = ref_get(&x.results[i][r], k).f;
                double b = ref_get(&y.results[i][r], k).f;
                most = fmax(most, fabs(a));
                off = fmax(off, fabs(a - b));
            }
        if (!(off <= tolerance * fmax(most, 1)))
            fail_msg("%s: a gradient is off by %g of %g",
                     case_text(g.arena, &g.s.of), off, most);
    }
}

static void
expect_gradients(void **state)
{
    IrOpKind kind = *(const IrOpKind *)*state;
    const char *rule = ir_op_info[kind].grad;
    int num = 0;
    for (int i = 0; i < NUM_SIZES; i++)
        for (int b = 0; b < (sizes[i] == SIZE_BATCH ? 2 : 1); b++) {
            Slope g = {.arena = arena_new(NULL, "slope")};
            if (slope_new(&g, kind, DT_f64, sizes[i], b) &&
                isfinite(loss_of(&g, g.args))) {
                num++;
                if (!strcmp(rule, "zero"))
                    check_zeros(&g);
                else
                    check_directions(&g);
                check_narrow(&g, DT_f32, b, 1e-4);
                check_narrow(&g, DT_bf16, b, 2e-2);
                check_narrow(&g, DT_f16, b, 2e-2);
            }
            arena_release(g.arena);
        }
    assert_true(num > 0 || !strcmp(rule, "zero") || !strcmp(rule, "none"));
}

/* ---- one test an operation ---------------------------------------------- */

static int
run_all(const char *group, CMUnitTestFunction body)
{
    static struct CMUnitTest tests[NUM_OPS];
    static IrOpKind kinds[NUM_OPS];
    for (int i = 0; i < NUM_OPS; i++) {
        kinds[i] = (IrOpKind)i;
        tests[i].name = ir_op_info[i].name;
        tests[i].test_func = body;
        tests[i].initial_state = &kinds[i];
    }
    return cmocka_run_group_tests_name(group, tests, NULL, NULL);
}

int
main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    if (!strcmp(argv[1], "values"))
        return run_all("values", expect_values);
    if (!strcmp(argv[1], "gradients"))
        return run_all("gradients", expect_gradients);
    return 2;
}
