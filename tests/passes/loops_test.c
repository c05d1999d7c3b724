/*
 * loops_test.c - loops over time need time and memory in proportion to it
 *
 * Not measured, but counted in placed programs: operations, bytes of the arena,
 * and bytes that the kernels of a step write, each as often as its loop goes
 * round.  A scatter in place writes its rows alone.
 *
 *   loops_test
 */
#include "tests/unit/unit.h"

#include "frontend/frontend.h"
#include "ir/base/str.h"
#include "ir/loop.h"
#include "ir/rules/build.h"
#include "ir/type_bounds.h"
#include "passes/passes.h"

/* What is done for S steps; the text before and after it is the same for all.
 */
typedef struct Model {
    const char *name, *body;
    int last;      /* the most steps that are tried */
    bool unrolled; /* by the front end */
} Model;

enum { FIRST = 16, LAST = 1024, LAST_UNROLLED = 128 };

static const Model models[] = {
    {"slices of a batch, assigned to a batch",
     "  mut h = zeros((4, 8))\n"
     "  mut out = zeros((4, S, 8))\n"
     "  for t in 0..S {\n"
     "    h = tanh(x[:, t] @ w + h @ u)\n"
     "    out[:, t] = h\n"
     "  }\n"
     "  let loss = sum(out ** 2)\n",
     LAST, false},
    {"rows of a table",
     "  let ids = iota(S) % 16\n"
     "  mut h = zeros((8,))\n"
     "  for t in 0..S { h = tanh(w[ids[t] % 8] + h @ u) * x[1, t] }\n"
     "  let loss = sum(h)\n",
     LAST, false},
    {"parts that are changed and read again",
     "  mut out = x\n"
     "  for t in 1..S { out[:, t] += tanh(out[:, t - 1] @ u) }\n"
     "  let loss = sum(out) + sum(w)\n",
     LAST, false},
    {"loops in loops",
     "  mut h = zeros((4, 8))\n"
     "  for t in 0..S {\n"
     "    let a = x[:, t] @ w\n"
     "    for k in 0..20 { h = tanh(h @ u + a) }\n"
     "  }\n"
     "  let loss = sum(h)\n",
     LAST, false},
    {"a layer", "  let loss = sum(lstm(x) ** 2) + sum(w) + sum(u)\n", LAST,
     false},
    {"a list of slices",
     "  let parts = [tanh(x[:, t] @ w) for t in 0..S]\n"
     "  let loss = sum(stack(parts)) + sum(u)\n",
     LAST_UNROLLED, true},
};

enum { NUM_MODELS = sizeof models / sizeof *models };

static const char *
program(Arena *a, const Model *model, int steps)
{
    return arena_printf(a,
                        "use nn\n"
                        "const S = %d\n"
                        "var w: f32[8, 8] = normal(stddev = 0.1)\n"
                        "var u: f32[8, 8] = normal(stddev = 0.1)\n"
                        "let lstm = Lstm(8, 8)\n"
                        "fn step() {\n"
                        "  let x = normal((4, S, 8), seed = 1, index = 2)\n"
                        "%s"
                        "  let (dx, dw, du) = grad(loss, (x, w, u))\n"
                        "  w -= dw\n"
                        "  u -= du\n"
                        "  for v in vars(lstm) { v -= grad(loss, v) }\n"
                        "  return sum(dx)\n"
                        "}\n"
                        "main { print(\"{run step()}\") }\n",
                        steps, model->body);
}

static IrModule *
place(Arena *a, const char *text)
{
    Diag *d = diag_new(a);
    PassOptions how = {.level = 2};
    FeOptions options = {.path = "loops.tfd",
                         .text = text,
                         .len = strlen(text),
                         .devices = "cpu:0"};
    IrModule *m = fe_compile(a, intern_new(a), d, &options);
    if (!m || !pass_run_pipeline(m, d, &how, NULL))
        fail_msg("%s", diag_text(d, a));
    return m;
}

/* ---- counting ----------------------------------------------------------- */

typedef struct Counts {
    const IrModule *m;
    int64_t ops;   /* of the text */
    int64_t bytes; /* that kernels write */
    int64_t arena;
} Counts;

static int64_t
bytes_of(const Counts *c, const IrValue *v)
{
    int64_t bytes = 0;
    assert_true(ir_type_bytes(c->m, &v->type, &bytes));
    return bytes;
}

/* Of a scatter those of its rows, if it changes them in place. */
static int64_t
bytes_written(const Counts *c, const IrOp *kernel, int i)
{
    const IrValue *v = kernel->results[i];
    const IrOp *made = ir_block_yield(kernel->regions[0])->operands[i]->def;
    if (!made || made->kind != OP_scatter)
        return bytes_of(c, v);
    const IrValue *x = kernel->operands[made->operands[0]->index];
    return ir_place_equal(x->place, v->place)
               ? bytes_of(c, made->operands[2])
               : bytes_of(c, v) + bytes_of(c, made->operands[2]);
}

/* A kernel makes the count, which is a constant. */
static int64_t
rounds_of(const IrOp *loop)
{
    Scalar count;
    const IrValue *v = loop->operands[0];
    if (v->def->kind == OP_kernel)
        v = ir_block_yield(v->def->regions[0])->operands[v->index];
    assert_true(ir_const_known(v, &count));
    return count.i;
}

static void
count_block(Counts *c, const IrBlock *b, int64_t times)
{
    for (const IrOp *op = b->first; op; op = op->next) {
        c->ops++;
        if (op->kind == OP_kernel) {
            for (int i = 0; i < op->num_results; i++)
                c->bytes += times * bytes_written(c, op, i);
            continue;
        }
        int64_t inside = op->kind == OP_for ? times * rounds_of(op) : times;
        for (int i = 0; i < op->num_regions; i++)
            count_block(c, op->regions[i], inside);
    }
}

static Counts
count(const Model *model, int steps)
{
    Arena *a = arena_new(NULL, "program");
    Counts c = {.m = place(a, program(a, model, steps))};
    for (const IrFunc *fn = c.m->first; fn; fn = fn->next)
        if (fn->kind == FUNC_PROGRAM) {
            count_block(&c, fn->body, 1);
            c.arena += fn->arena_bytes;
        }
    c.m = NULL;
    arena_release(a);
    return c;
}

/* Twice the steps are at most twice the work and, if loops stay loops, the same
 * text. */
static void
grows_with_the_steps(void **state)
{
    const Model *model = *state;
    Counts before = count(model, FIRST);
    for (int steps = 2 * FIRST; steps <= model->last; steps *= 2) {
        Counts c = count(model, steps);
        if (!model->unrolled)
            assert_int_equal(c.ops, before.ops);
        if (c.bytes > 2 * before.bytes || c.arena > 2 * before.arena)
            fail_msg("%d steps: %lld bytes written, %lld of the arena; half as "
                     "many: %lld and %lld",
                     steps, (long long)c.bytes, (long long)c.arena,
                     (long long)before.bytes, (long long)before.arena);
        before = c;
    }
}

int
main(void)
{
    static struct CMUnitTest tests[NUM_MODELS];
    for (int i = 0; i < NUM_MODELS; i++)
        tests[i] = (struct CMUnitTest){.name = models[i].name,
                                       .test_func = grows_with_the_steps,
                                       .initial_state = (void *)&models[i]};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
