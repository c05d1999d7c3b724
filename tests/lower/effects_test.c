/*
 * effects_test.c - every clause, option and optional argument has an effect
 *
 * A program with one becomes another module than without it, apart from source
 * locations: a clause that is read and forgotten would change nothing.  A
 * clause without effect is refused, which the lists of messages test.  outside
 * and created_in_scope exist only in the front end, so the module has the
 * answer.
 *
 *   effects_test
 */
#include "ir/text/text.h"
#include "tests/unit/golden.h"

#include "frontend/frontend.h"
#include "ir/base/str.h"

static Arena *arena; /* of the whole run */

/* ---- the programs ------------------------------------------------------- */

/* The position of the two texts of a row. */
typedef enum Place {
    STEP,
    SOURCE,
    MAIN,
    CLAUSE,
    DIST,
    STRATEGY,
    NUM_PLACES
} Place;

/* The text at that position in all other rows. */
static const char *const usual[NUM_PLACES] = {
    [STEP] = "y",
    [SOURCE] = "range(8).batch(4)",
    [MAIN] = "let a = run step(x)",
    [CLAUSE] = "",
    [DIST] = "distribute(d)",
    [STRATEGY] = "",
};

#define IMAGE "reshape(y, (1, 4, 4, 1))"
#define CSV "csv(\"a.csv\", (a: f32, b: i32)"
#define SHUFFLED "range(8).shuffle(4"
#define OPTIONS "strategy mirrored(communication_options = "
#define CROSS "strategy mirrored(cross_device_ops = "

static const struct {
    Place place;
    const char *without, *with;
} rows[] = {
    {STEP, "all_reduce(sum, own())",
     "all_reduce(sum, own(), options = (implementation: \"ring\"))"},
    {STEP, "all_reduce(sum, own())",
     "all_reduce(sum, own(), options = (timeout_seconds: 1.0))"},
    {STEP, "all_reduce(sum, own())",
     "all_reduce(sum, own(), options = (bytes_per_pack: 0))"},
    {STEP, "all_gather(wide(), 0)",
     "all_gather(wide(), 0, options = (implementation: \"two_phase\"))"},
    {STEP, "cumsum(y, 0)", "cumsum(y, 1)"},
    {STEP, "cumsum(y, 1)", "cumsum(y, 1, exclusive = true)"},
    {STEP, "cumsum(y, 1)", "cumsum(y, 1, reverse = true)"},
    {STEP, "conv2d(" IMAGE ", k)", "conv2d(" IMAGE ", k, stride = 2)"},
    {STEP, "conv2d(" IMAGE ", k)", "conv2d(" IMAGE ", k, padding = \"same\")"},
    {STEP, "max_pool2d(" IMAGE ", 3)", "max_pool2d(" IMAGE ", 3, stride = 1)"},
    {STEP, "max_pool2d(" IMAGE ", 3)",
     "max_pool2d(" IMAGE ", 3, padding = \"same\")"},
    {STEP, "avg_pool2d(" IMAGE ", 3)", "avg_pool2d(" IMAGE ", 3, stride = 1)"},
    {STEP, "avg_pool2d(" IMAGE ", 3)",
     "avg_pool2d(" IMAGE ", 3, padding = \"same\")"},
    {STEP, "zeros((2,))", "zeros((2,), dtype = i32)"},
    {STEP, "ones((2,))", "ones((2,), dtype = i32)"},
    {STEP, "iota((2, 3))", "iota((2, 3), axis = 1)"},
    {STEP, "iota((2, 3))", "iota((2, 3), dtype = i32)"},
    {STEP, "uniform((2,))", "uniform((3,))"},
    {STEP, "uniform((2,))", "uniform((2,), low = 0.5)"},
    {STEP, "uniform((2,))", "uniform((2,), high = 2.0)"},
    {STEP, "uniform((2,))", "uniform((2,), dtype = f64)"},
    {STEP, "uniform((2,))", "uniform((2,), seed = 3)"},
    {STEP, "uniform((2,))", "uniform((2,), index = 3)"},
    {STEP, "normal((2,))", "normal((2,), mean = 1.0)"},
    {STEP, "normal((2,))", "normal((2,), stddev = 2.0)"},
    {STEP, "normal((2,))", "normal((2,), dtype = f64)"},
    {STEP, "randn((2,))", "randn((2,), dtype = f64)"},
    {STEP, "std([1.0, 2.0])", "std([1.0, 2.0], ddof = 1)"},
    {STEP, "norm([1.0, 2.0])", "norm([1.0, 2.0], keepdims = true)"},
    {STEP, "truncated_normal((2,))", "truncated_normal((2,), mean = 1.0)"},
    {STEP, "truncated_normal((2,))", "truncated_normal((2,), stddev = 2.0)"},
    {STEP, "gumbel((2,))", "gumbel((2,), dtype = f64)"},
    {STEP, "randint(0, 5, (2,))", "randint(0, 5, (2,), dtype = i64)"},
    {STEP, "randint(0, 5, (2,))", "randint(0, 5, (2,), seed = 3)"},
    {STEP, "dropout(y)", "dropout(y, rate = 0.1)"},
    {STEP, "dropout(y)", "dropout(y, seed = 3)"},
    {STEP, "dropout(y)", "dropout(y, index = 3)"},
    {STEP, "transpose(ones((2, 3, 4)))",
     "transpose(ones((2, 3, 4)), axes = (1, 0, 2))"},
    {STEP, "concat([y, y])", "concat([y, y], axis = 1)"},
    {STEP, "stack([y, y])", "stack([y, y], axis = 1)"},
    {STEP, "split(y, 2).0", "split(y, 2, axis = 1).0"},
    {STEP, "take(y, [0])", "take(y, [0], axis = 1)"},
    {STEP, "reverse(y)", "reverse(y, axis = 1)"},
    {STEP, "tril(y)", "tril(y, k = 1)"},
    {STEP, "triu(y)", "triu(y, k = 1)"},
    {STEP, "sort(y)", "sort(y, axis = 0)"},
    {STEP, "sort(y)", "sort(y, descending = true)"},
    {STEP, "argsort(y)", "argsort(y, axis = 0)"},
    {STEP, "argsort(y)", "argsort(y, descending = true)"},
    {STEP, "top_k(y, 2)", "top_k(y, 2, axis = 0)"},
    {STEP, "one_hot(ids, 3)", "one_hot(ids, 3, dtype = f64)"},
    {STEP, "sum(y)", "sum(y, axis = 0)"},
    {STEP, "sum(y, axis = 0)", "sum(y, axis = 0, keepdims = true)"},
    {STEP, "mean(y)", "mean(y, axis = 0)"},
    {STEP, "mean(y, axis = 0)", "mean(y, axis = 0, keepdims = true)"},
    {STEP, "argmax(y)", "argmax(y, axis = 0)"},
    {STEP, "argmax(y, axis = 0)", "argmax(y, axis = 0, keepdims = true)"},
    {STEP, "y * f32(len(trainable()))", "y * f32(len(trainable(o)))"},
    {MAIN, "let a = reduce(max, run wide())",
     "let a = reduce(max, run wide(), axis = 0)"},
    {MAIN, "let a = reduce_to(sum, run own())",
     "let a = reduce_to(sum, run own(), dest = w)"},
    {MAIN, "let a = broadcast_to(read(w))",
     "let a = broadcast_to(read(w), dest = w)"},
    {MAIN, "let a = gather(run wide(), 0)", "let a = gather(run wide(), 1)"},
    {MAIN, "save(\"p\")", "save(\"p\", [w])"},
    {MAIN, "restore(\"p\")", "restore(\"p\", [w])"},
    {MAIN, "print(created_in_scope(v))", "print(created_in_scope(w))"},
    {SOURCE, "range(8).batch(4)", "range(1, 8).batch(4)"},
    {SOURCE, "range(8).batch(4)", "range(8).batch(4, drop_remainder = true)"},
    {SOURCE, "range(8).window(2).batch(4)",
     "range(8).window(2, stride = 1).batch(4)"},
    {SOURCE, SHUFFLED ").batch(4)", SHUFFLED ", seed = 3).batch(4)"},
    {SOURCE, SHUFFLED ").batch(4)", SHUFFLED ", reshuffle = false).batch(4)"},
    {SOURCE, "range(8).batch(4).repeat()", "range(8).batch(4).repeat(2)"},
    {SOURCE, "range(8).batch(4).prefetch(1)", "range(8).batch(4).prefetch(2)"},
    {SOURCE, CSV ").batch(4)", CSV ", header = false).batch(4)"},
    {SOURCE, CSV ").batch(4)", CSV ", names = (\"q\", \"r\")).batch(4)"},
    {SOURCE, CSV ").batch(4)", CSV ", separator = \";\").batch(4)"},
    {SOURCE, CSV ").batch(4)", CSV ", missing = 1).batch(4)"},
    {SOURCE, "npz(\"a\", (a: f32)).batch(4)",
     "npz(\"a\", (a: f32), names = (\"q\",)).batch(4)"},
    {SOURCE, "tfrecord(\"a\", (a: f32)).batch(4)",
     "tfrecord(\"a\", (a: f32), names = (\"q\",)).batch(4)"},
    {SOURCE, "tfrecord(\"a\", (a: f32)).batch(4)",
     "tfrecord(\"a\", (a: f32), missing = 1).batch(4)"},
    {SOURCE, "lines(\"a\", u8[4]).batch(4)",
     "lines(\"a\", u8[4], cut = true).batch(4)"},
    {SOURCE, "bytes(\"a\").batch(4)", "bytes(\"a\", type = i32).batch(4)"},
    {DIST, "distribute(d)", "distribute(d, shard = data)"},
    {DIST, "distribute(d)", "distribute(d, shard = off)"},
    {DIST, "distribute_from(fn(ctx) = d)",
     "distribute_from(fn(ctx) = d, pipelines = per_replica)"},
    {CLAUSE, "", "sync(on_read)"},
    {CLAUSE, "", "aggregate(sum)"},
    {CLAUSE, "", "aggregate(mean)"},
    {CLAUSE, "", "aggregate(first)"},
    {CLAUSE, "", "trainable(false)"},
    {CLAUSE, "", "colocate(u)"},
    {STRATEGY, "", OPTIONS "(bytes_per_pack: 8))"},
    {STRATEGY, "", OPTIONS "(timeout_seconds: 8))"},
    {STRATEGY, "", OPTIONS "(implementation: \"ring\"))"},
    {STRATEGY, "", CROSS "\"two_phase\")"},
    {STRATEGY, "", CROSS "\"ring\")"},
    {STRATEGY, "", CROSS "\"nccl\")"},
    {STRATEGY, "", CROSS "\"reduction_to_one\")"},
    {STRATEGY, "", CROSS "\"hierarchical_copy\")"},
    {STRATEGY, CROSS "\"hierarchical_copy\")",
     CROSS "\"hierarchical_copy:packs=2\")"},
};

enum { NUM_ROWS = sizeof rows / sizeof *rows };

static const char *
program(Place place, const char *text)
{
    const char *at[NUM_PLACES];
    for (int i = 0; i < NUM_PLACES; i++)
        at[i] = i == (int)place ? text : usual[i];
    return arena_printf(arena,
                        "%s\n"
                        "module M() { var m: f32 = 1.0 }\n"
                        "let o = M()\n"
                        "var u: f32 = 0.0\n"
                        "var v: f32 = 0.0 %s\n"
                        "var w: f32[4, 4] = ones outside\n"
                        "var ids: i64[4] = zeros\n"
                        "dataset d = %s\n"
                        "fn own() = f32(replica_id)\n"
                        "fn wide() = ones((2, 2)) * f32(replica_id)\n"
                        "fn step(x) {\n"
                        "  let (y, k) = (read(w), ones((2, 2, 1, 1)))\n"
                        "  return %s\n"
                        "}\n"
                        "main { for x in %s { %s } }\n",
                        at[STRATEGY], at[CLAUSE], at[SOURCE], at[STEP],
                        at[DIST], at[MAIN]);
}

/* ---- modules ------------------------------------------------------------ */

/* text without " at 1:2+3", what messages show. */
static const char *
without_places(const char *text)
{
    Str out = str_new(arena);
    for (; *text; text++) {
        if (strncmp(text, " at ", 4) == 0)
            text += 4 + strspn(text + 4, "0123456789:+");
        if (!*text)
            break;
        str_addc(&out, *text);
    }
    return str_text(&out);
}

static const char *
module_of(Place place, const char *part)
{
    const char *text = program(place, part);
    FeOptions options = {.path = "p.tfd",
                         .text = text,
                         .len = strlen(text),
                         .devices = "cpu:0-1"};
    Diag *d = diag_new(arena);
    IrModule *m = fe_compile(arena, intern_new(arena), d, &options);
    if (!m)
        fail_msg("%s\n%s", text, diag_text(d, arena));
    return without_places(ir_module_text(arena, m));
}

static void
each_has_an_effect(void **state)
{
    (void)state;
    for (int i = 0; i < NUM_ROWS; i++)
        if (!strcmp(module_of(rows[i].place, rows[i].without),
                    module_of(rows[i].place, rows[i].with)))
            fail_msg("%s does what %s does", rows[i].with, rows[i].without);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_has_an_effect)};
    arena = arena_new(NULL, "test");
    int failed = cmocka_run_group_tests_name("effects", tests, NULL, NULL);
    arena_release(arena);
    return failed;
}
