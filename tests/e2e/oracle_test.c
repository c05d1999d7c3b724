/*
 * oracle_test.c - compiled code computes what the reference interpreter
 * computes
 *
 * Each program runs compiled, and its placed IR runs in the interpreter (D17):
 * the output, and the bits of every variable on every replica, are equal.
 */
#include "ir/base/hash/hash.h"
#include "ir/ir.h"
#include "ir/type_bounds.h"
#include "tests/e2e/run.h"
#include "tests/ref/interp.h"
#include "tests/ref/load.h"
#include "tests/unit/unit.h"
#include "tests/unit/sweep.h"
#include "tests/unit/arena.h"

typedef struct Program {
    const char *path, *options;
    int most_replicas; /* runs on 1 .. n replicas; negative: only on that
                        * many */
} Program;

static const Program programs[] = {
    {"docs/examples/linear.tfd", "", 4},
    {"docs/examples/linear.tfd", "--widen", 2},
    {"docs/examples/bigram.tfd", "-D BATCH=32", 3},
    {"docs/examples/contexts.tfd", "", -2},
    {"docs/examples/ragged.tfd", "", -3},
    {"tests/e2e/programs/accumulate.tfd", "", 3},
    {"tests/e2e/programs/accumulated.tfd", "", 3},
    {"tests/e2e/programs/autocast.tfd", "", 2},
    {"tests/e2e/programs/unbiased.tfd", "", 2},
    {"tests/e2e/programs/conditions.tfd", "", 2},
    {"tests/e2e/programs/convolutions.tfd", "", 1},
    {"tests/e2e/programs/datasets.tfd", "", 3},
    {"tests/e2e/programs/division.tfd", "", 1},
    {"tests/e2e/programs/slices.tfd", "", 1},
    {"tests/e2e/programs/dtypes.tfd", "", 3},
    {"tests/e2e/programs/ends.tfd", "", 2},
    {"tests/e2e/programs/evaluated.tfd", "", 2},
    {"tests/e2e/programs/exits.tfd", "", 3},
    {"tests/e2e/programs/floats.tfd", "", 2},
    {"tests/e2e/programs/full.tfd", "", 3},
    {"tests/e2e/programs/functions.tfd", "", 2},
    {"tests/e2e/programs/groups.tfd", "", 2},
    {"tests/e2e/programs/handles.tfd", "", 3},
    {"tests/e2e/programs/gathered.tfd", "", 3},
    {"tests/e2e/programs/gradients.tfd", "", 2},
    {"tests/e2e/programs/layers.tfd", "", 2},
    {"tests/e2e/programs/long_rows.tfd", "", 1},
    {"tests/e2e/programs/loops.tfd", "", 1},
    {"tests/e2e/programs/means.tfd", "", 2},
    {"tests/e2e/programs/metrics.tfd", "", 2},
    {"tests/e2e/programs/optimizers.tfd", "", 2},
    {"tests/e2e/programs/keras.tfd", "", 2},
    {"tests/e2e/programs/keras_metrics.tfd", "", 3},
    {"tests/e2e/programs/ordered.tfd", "", 3},
    {"tests/e2e/programs/custom_gradients.tfd", "", 3},
    {"tests/e2e/programs/passes.tfd", "", 1},
    {"tests/e2e/programs/pipelines.tfd", "", 3},
    {"tests/e2e/programs/prepacked.tfd", "", 2},
    {"tests/e2e/programs/random.tfd", "", 3},
    {"tests/e2e/programs/rearranged.tfd", "", 2},
    {"tests/e2e/programs/recompute.tfd", "", 2},
    {"tests/e2e/programs/rows.tfd", "", 3},
    {"tests/e2e/programs/sequences.tfd", "", 2},
    {"tests/e2e/programs/lines.tfd", "", 4},
    {"tests/e2e/programs/shares.tfd", "", 3},
    {"tests/e2e/programs/shares.tfd", "", -5},
    {"tests/e2e/programs/sparse.tfd", "", 3},
    {"tests/e2e/programs/turns.tfd", "", 3},
    {"tests/e2e/programs/windows.tfd", "", 3},
};

/* As tfd-run --checksum: all variables of replica 0, then 1, ... */
static const char *
checksum(Arena *a, const Interp *in, const IrModule *m)
{
    Str bytes = str_new(a);
    for (int r = 0; r < m->num_replicas; r++)
        for (int i = 0; i < m->vars.len; i++) {
            const IrVar *v = m->vars.data[i];
            int64_t n = 0;
            assert_true(ir_type_bytes(m, &v->type, &n));
            const RefTensor *t = interp_var(in, v->name, r);
            str_addn(&bytes, t->data, (size_t)n);
        }
    return arena_printf(a, "checksum %s\n",
                        hash_text(a, str_text(&bytes), bytes.len));
}

/* The output of the interpreter, and the checksum after it. */
static const char *
interpret(Arena *a, const char *text, const char *data_dir)
{
    const char *wrong;
    IrModule *m = ref_load(a, text, &wrong);
    if (!m)
        fail_msg("%s", wrong);
    InterpOptions options = {.data_dir = data_dir};
    Interp *in = interp_new(m, &options);
    Str out = str_new(a);
    Status st = interp_run(in, &out);
    if (st)
        fail_msg("%s", status_message(st));
    str_add(&out, checksum(a, in, m));
    interp_release(in);
    return str_text(&out);
}

/* With loops and branches of device programs whose conditions are on the
 * device. */
static const char *
run_enqueuing(Arena *a, const char *common, const char *dir)
{
    run_ok(a, "tfdc %s --target native,sm_80 -o %s/enqueue.tfp", common, dir);
    setenv("TFD_PROGRAMS", "enqueue", 1);
    Ran r = run_ok(a, "tfd-run %s/enqueue.tfp --data %s --checksum", dir, dir);
    unsetenv("TFD_PROGRAMS");
    return r.out;
}

static void
compare(Arena *a, const Program *p, int replicas)
{
    const char *dir = work_dir(a);
    const char *text = source_text(a, "docs/style.md");
    write_text(arena_printf(a, "%s/text.txt", dir),
               arena_strndup(a, text, 120));
    const char *common =
        arena_printf(a, "%s/%s %s --strategy mirrored --devices cpu:0-%d",
                     getenv("TFD_ROOT"), p->path, p->options, replicas - 1);
    const char *placed = run_ok(a, "tfdc %s --to placed", common).out;
    run_ok(a, "tfdc %s -o %s/program.tfp", common, dir);
    const char *want = interpret(a, placed, dir);
    Ran r = run_ok(a, "tfd-run %s/program.tfp --data %s --checksum", dir, dir);
    assert_string_equal(r.out, want);
    r = run_ok(a, "tfd-run %s/program.tfp --data %s --checksum --devices cpu:0",
               dir, dir);
    assert_string_equal(r.out, want);
    if (replicas == 2)
        assert_string_equal(run_enqueuing(a, common, dir), want);
}

static void
compiled_code_is_the_interpreter(void **state)
{
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        const Program *p = &programs[i];
        int most = abs(p->most_replicas);
        int least = p->most_replicas < 0 ? most : 1, n = most - least + 1;
        for (int k = sweep_first(n); k < n; k = sweep_next(k))
            compare(*state, p, least + k);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(compiled_code_is_the_interpreter),
    };
    return cmocka_run_group_tests(tests, new_arena, release_arena);
}
