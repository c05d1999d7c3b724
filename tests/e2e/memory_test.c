/*
 * memory_test.c - the memory that programs need, beside the predicted memory
 *
 * tfdc --explain prints the sizes of arenas and a lower bound for each, and
 * predicts the memory of a run; tfd-run --stats prints the memory used.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tests/e2e/run.h"
#include "tests/unit/dir.h"
#include "tests/unit/unit.h"

/* How much an arena may exceed the lower bound, and a run may differ from the
 * prediction. */
#define WASTE 0.05
#define ERROR_SHARE 0.05
enum { ERROR_BYTES = 4000000 };

typedef struct Example {
    const char *name;
    const char *devices; /* lists of devices, each a run */
    const char *sets;    /* options that make it short */
    bool reads_text;
} Example;

static const Example examples[] = {
    {"linear", "cpu:0 cpu:0-1 cpu:0-2 cpu:0-3", "", false},
    {"bigram", "cpu:0 cpu:0-1 cpu:0-3", "--set epochs=1", true},
    {"spiral", "cpu:0 cpu:0-1 cpu:0-3", "--set epochs=1", false},
    {"convnet", "cpu:0 cpu:0-1", "--set epochs=1", false},
    {"charlm", "cpu:0 cpu:0-1 cpu:0-3", "--set steps=3", true},
    {"contexts", "cpu:0-1", "", false},
    {"ragged", "cpu:0-2", "", false},
};

enum { NUM_EXAMPLES = sizeof examples / sizeof *examples };

static int
set_up(void **state)
{
    new_dir(state);
    write_text(in_dir("text.txt"), source_text(arena, "docs/tensorflow.md"));
    return 0;
}

/* ---- programs ----------------------------------------------------------- */

static const char *
write_program(const char *text)
{
    const char *path = in_dir("program.tfd");
    write_text(path, text);
    return path;
}

/* The text without the lines that contain word. */
static const char *
without_lines(Arena *a, const char *text, const char *word)
{
    char *out = arena_alloc(a, strlen(text) + 1), *to = out;
    for (const char *line = text; *line;) {
        size_t n = strcspn(line, "\n");
        n += line[n] == '\n';
        const char *found = strstr(line, word);
        if (!found || found >= line + n) {
            memcpy(to, line, n);
            to += n;
        }
        line += n;
    }
    return out;
}

/* The example, which need not have learnt anything and leaves nothing. */
static const char *
example_program(const char *name)
{
    const char *path = arena_printf(arena, "docs/examples/%s.tfd", name);
    const char *text = source_text(arena, path);
    text = without_lines(arena, text, "save(");
    if (!strcmp(name, "spiral") || !strcmp(name, "convnet"))
        text = without_lines(arena, text, "assert(");
    return write_program(text);
}

/* The words of a list, one after the other. */
static const char *
next_word(Arena *a, const char **list)
{
    *list += strspn(*list, " ");
    size_t n = strcspn(*list, " ");
    const char *word = n ? arena_strndup(a, *list, n) : NULL;
    *list += n;
    return word;
}

/* ---- numbers of --explain ----------------------------------------------- */

/* The numbers of the row that begins with `what`, after `heading`. */
static void
read_row(const char *text, const char *heading, const char *what, int n,
         double *out)
{
    const char *at = strstr(text, heading);
    const char *row = at ? strstr(at, what) : NULL;
    if (!row)
        fail_msg("no \"%s\" behind \"%s\" in\n%s", what, heading, text);
    char *end = (char *)row + strlen(what);
    for (int i = 0; i < n; i++)
        out[i] = strtod(end, &end);
}

static void
check_arena(const char *name, const char *explained)
{
    double need[2];
    read_row(explained, "memory of each of", "  the device", 2, need);
    if (need[0] < need[1] || need[0] > (1 + WASTE) * need[1])
        fail_msg("%s: an arena of %.0f bytes, where %.0f are live at most",
                 name, need[0], need[1]);
}

/* No place in the placed IR is beyond the stated size of the arena. */
static void
check_bytes(const char *path, const char *options, const char *explained)
{
    double need[2];
    read_row(explained, "memory of each of", "  the device", 2, need);
    const char *placed =
        run_ok(arena, "tfdc %s %s --to placed", path, options).out;
    for (const char *at = placed; (at = strstr(at, "program")); at++) {
        long long bytes;
        if (sscanf(at, "program bytes %lld", &bytes) == 1 ||
            sscanf(at, "program variant %*s bytes %lld", &bytes) == 1)
            assert_true((double)bytes <= need[0]);
    }
}

static void
arenas_of_examples_waste_little(void **state)
{
    (void)state;
    for (int i = 0; i < NUM_EXAMPLES; i++) {
        const Example *e = &examples[i];
        const char *path = example_program(e->name), *list = e->devices;
        for (const char *d; (d = next_word(arena, &list));) {
            const char *options = arena_printf(arena, "--devices %s", d);
            const char *explained =
                run_ok(arena, "tfdc %s %s --explain", path, options).out;
            check_arena(e->name, explained);
            check_bytes(path, options, explained);
        }
    }
}

static void
larger_models_waste_little(void **state)
{
    static const char *const options[] = {
        "-D LAYERS=6", "-D LAYERS=1 -D C=64", "-D T=32 -D BATCH=7", "-O0",
        "--widen",
    };
    (void)state;
    const char *path = example_program("charlm");
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        check_arena(options[i],
                    run_ok(arena, "tfdc %s --devices cpu:0-1 %s --explain",
                           path, options[i])
                        .out);
}

/* The scores of attention exist for a block of rows at a time: of twice as many
 * positions the arena is twice as large, not four times. */
static void
check_attention_of_lengths(const char *text)
{
    double need[2][2];
    const char *path = write_program(text);
    for (int i = 0; i < 2; i++)
        read_row(run_ok(arena, "tfdc %s -D T=%d --devices cpu:0 --explain",
                        path, 4096 << i)
                     .out,
                 "memory of each of", "  the device", 2, need[i]);
    assert_true(need[1][0] < 2.2 * need[0][0]);
}

static void
attention_is_linear_in_its_length(void **state)
{
    (void)state;
    check_attention_of_lengths(
        "use nn\n"
        "const T = 4096\n"
        "var q: f32[4, T, 8] = normal(seed = 1)\n"
        "var k: f32[4, T, 8] = normal(seed = 2)\n"
        "var v: f32[4, T, 8] = normal(seed = 3)\n"
        "fn step() {\n"
        "  let score = q @ transpose(k, (0, 2, 1))\n"
        "  let seen = where(tril(ones((T, T), bool)), score, -1e9)\n"
        "  let o = dropout(softmax(seen, axis = -1), 0.1) @ v\n"
        "  let g = all_reduce(sum, grad(sum(o * o), (q, k, v)))\n"
        "  q -= g.0\n"
        "  k -= g.1\n"
        "  v -= g.2\n"
        "}\n"
        "main { run step() }\n");
}

/* So it is where the mask's gradient comes after a use of the weights', and
 * where the gradients of wide heads, which add up over all blocks, are large.
 */
static void
attention_of_wide_heads_is_linear_in_its_length(void **state)
{
    (void)state;
    check_attention_of_lengths(
        "use nn\n"
        "const T = 4096\n"
        "var w: f32[3, 512] = normal(seed = 1)\n"
        "fn heads(a) = transpose(reshape(a, (T, 8, 64)), (1, 0, 2))\n"
        "fn step() {\n"
        "  let x = normal((T, 512), seed = 2)\n"
        "  let score = heads(x * w[0]) @ transpose(heads(x * w[1]), (0, 2, "
        "1))\n"
        "  let seen = where(tril(ones((T, T), bool)), score / 8.0, -1e9)\n"
        "  let o = softmax(seen, axis = -1) @ heads(x * w[2])\n"
        "  w -= all_reduce(sum, grad(sum(o ** 2), w))\n"
        "}\n"
        "main { run step() }\n");
}

/* A program with blocks computes the bits of one that has all scores in memory,
 * with any number of threads. */
static void
check_bits(const char *text, bool has_blocks)
{
    static const char whole[] =
        "static_batches,partial_sort,differentiate,simplify,place_variables,"
        "replicate,serve,communicate,forward_stores,cleanup,bucket,specialize,"
        "fuse";
    const char *path = write_program(text), *ir = in_dir("whole.tir");
    const char *to = "--devices cpu:0-1";
    Ran blocks = run_ok(arena,
                        "tfdc %s %s --verify-each --print-after row_blocks "
                        "-o %s/blocks.tfp",
                        path, to, dir);
    assert_int_equal(strstr(blocks.out, "row_blocks.block") != NULL,
                     has_blocks);
    write_text(ir,
               run_ok(arena, "tfdc %s %s --passes %s", path, to, whole).out);

    run_ok(arena, "tfdc --from ir %s -o %s/whole.tfp", ir, dir);
    const char *expected =
        run_ok(arena, "tfd-run %s/whole.tfp --threads 1", dir).out;
    for (int threads = 1; threads <= 3; threads += 2)
        assert_string_equal(
            run_ok(arena, "tfd-run %s/blocks.tfp --threads %d", dir, threads)
                .out,
            expected);
}

static void
check_bits_of_blocks(const char *text)
{
    check_bits(text, true);
}

/* Two whole blocks and a rest, with gradients. */
static void
blocks_of_rows_have_the_bits_of_the_whole(void **state)
{
    (void)state;
    check_bits_of_blocks(
        "use nn\n"
        "const T = 1030\n"
        "var q: f32[2, T, 2] = normal(seed = 1)\n"
        "var k: f32[2, T, 2] = normal(seed = 2)\n"
        "var v: f32[2, T, 2] = normal(seed = 3)\n"
        "fn step() {\n"
        "  let score = q @ transpose(k, (0, 2, 1)) / sqrt(2.0)\n"
        "  let seen = where(tril(ones((T, T), bool)), score, -1e9)\n"
        "  let loss = sum(dropout(softmax(seen, axis = -1), 0.1) @ v)\n"
        "  let g = all_reduce(sum, grad(loss, (q, k, v)))\n"
        "  q -= 0.01 * g.0\n"
        "  k -= 0.01 * g.1\n"
        "  v -= 0.01 * g.2\n"
        "  return loss\n"
        "}\n"
        "main { for i in 0..2 { print(\"{reduce(sum, run step())}\") } }\n");
}

/* Sums of bf16 over all blocks are rounded once. */
static void
blocks_of_bf16_have_the_bits_of_the_whole(void **state)
{
    (void)state;
    check_bits_of_blocks(
        "use nn\n"
        "const T = 1030\n"
        "var w: f32[2, T, 8] = normal(seed = 1)\n"
        "fn step() {\n"
        "  let x = bf16(w)\n"
        "  let score = x @ transpose(x, (0, 2, 1))\n"
        "  let seen = where(tril(ones((T, T), bool)), score, -1e9)\n"
        "  let y = f32(softmax(seen, axis = -1) @ x)\n"
        "  let loss = sum(y * normal((2, T, 8), seed = replica_id))\n"
        "  w -= 0.01 * all_reduce(sum, grad(loss, w))\n"
        "  return loss\n"
        "}\n"
        "main { for i in 0..2 { print(\"{reduce(sum, run step())}\") } }\n");
}

/* Also where rows that end a region are divided by a sum within it. */
static void
blocks_of_weights_that_are_divided_late_have_the_bits(void **state)
{
    (void)state;
    check_bits_of_blocks(
        "use nn\n"
        "const T = 1030\n"
        "var q: f32[2, T, 2] = normal(seed = 1)\n"
        "fn step() {\n"
        "  let s = q @ transpose(q, (0, 2, 1))\n"
        "  let e = exp(s - max(s, axis = -1, keepdims = true))\n"
        "  let y = (e @ q) / sum(e, axis = -1, keepdims = true)\n"
        "  let loss = sum(y * normal((2, T, 2), seed = replica_id))\n"
        "  q -= 0.01 * all_reduce(sum, grad(loss, q))\n"
        "  return loss\n"
        "}\n"
        "main { for i in 0..2 { print(\"{reduce(sum, run step())}\") } }\n");
}

/* What a phase needs of others stands behind its place: members that do not
 * depend on products, which are used outside, too. */
static void
blocks_whose_operands_move_have_the_bits(void **state)
{
    (void)state;
    check_bits_of_blocks("const T = 1024\n"
                         "var q: f32[T, 2] = normal(seed = 1)\n"
                         "var m: f32[T, T] = normal(seed = 2)\n"
                         "fn step() {\n"
                         "  let e = exp(q @ transpose(q))\n"
                         "  let w = -(e @ q)\n"
                         "  let ww = w * w\n"
                         "  let p = -m\n"
                         "  let i = (e * p * exp(transpose(p))) @ q\n"
                         "  return (sum(ww), sum(i))\n"
                         "}\n"
                         "main { let r = run step()\n"
                         "  print(\"{r.0} {r.1}\") }\n");
}

/* A wide value that a region's rows are added to, and that is used outside,
 * keeps it whole. */
static void
wide_values_that_leave_keep_a_region_whole(void **state)
{
    (void)state;
    check_bits("const T = 1024\n"
               "var q: f32[T, 1] = normal(seed = 1)\n"
               "var m: f32[T, T] = normal(seed = 2)\n"
               "fn step() {\n"
               "  let e = sigmoid(q @ transpose(q))\n"
               "  let o = e @ q\n"
               "  let p = m + o\n"
               "  let x = transpose(p)\n"
               "  let i = (e * p) @ q\n"
               "  return (sum(x @ q), sum(i))\n"
               "}\n"
               "main { let r = run step()\n"
               "  print(\"{r.0} {r.1}\") }\n",
               false);
}

/* The second phase reads a total of the first one, and has its place. */
static void
blocks_of_several_phases_have_the_bits(void **state)
{
    (void)state;
    check_bits_of_blocks("const T = 8192\n"
                         "var q: f32[T, 2] = normal(seed = 1)\n"
                         "fn step() {\n"
                         "  let e = sigmoid(q @ transpose(q))\n"
                         "  let o = e @ q\n"
                         "  let d = einsum(\"rc,rd->cd\", e, q)\n"
                         "  let y = e @ d\n"
                         "  let u = concat((o, y), axis = 1)\n"
                         "  let z = e @ sin(d)\n"
                         "  return (sum(u), sum(z))\n"
                         "}\n"
                         "main { let r = run step()\n"
                         "  print(\"{r.0} {r.1}\") }\n");
}

/* ---- memory of runs ----------------------------------------------------- */

/* Runs the program; files are the bytes that its datasets read, which tfdc
 * cannot know. */
static void
check_run(const char *path, const char *options, const char *sets, double files)
{
    double predicted, planned, used;
    const char *plan = in_dir("program.tfp");
    const char *explained =
        run_ok(arena, "tfdc %s %s --explain", path, options).out;
    run_ok(arena, "tfdc %s %s -o %s", path, options, plan);
    Ran r = run_ok(arena, "tfd-run %s --data %s --stats %s", plan, dir, sets);
    read_row(explained, "memory in all", "\n", 1, &predicted);
    read_row(r.err, "memory", " ", 1, &planned);
    read_row(r.err, "memory", "in use", 1, &used);
    predicted += files;
    if (fabs(planned * 1e6 - predicted) > 1e3)
        fail_msg("%s: planned are %.0f bytes, predicted were %.0f", path,
                 planned * 1e6, predicted);
    double off = fabs(used * 1e6 - predicted);
    if (off > ERROR_SHARE * predicted + ERROR_BYTES)
        fail_msg("%s %s: in use are %.0f bytes, predicted were %.0f", path,
                 options, used * 1e6, predicted);
}

/* ---- replicas that share devices ---------------------------------------- */

/* The memory of a run, in bytes. */
typedef struct Taken {
    double planned, used;
} Taken;

static Taken
run_shared(const char *plan, const char *sets, int devices)
{
    Taken t;
    Ran r = run_ok(arena, "tfd-run %s --data %s --devices cpu:0-%d --stats %s",
                   plan, dir, devices - 1, sets);
    read_row(r.err, "memory", " ", 1, &t.planned);
    read_row(r.err, "memory", "in use", 1, &t.used);
    return (Taken){1e6 * t.planned, 1e6 * t.used};
}

/* What --explain tells of a number of devices: their memory, and the bytes of
 * the variables. */
static void
explained_on(const char *explained, int devices, double need[2])
{
    read_row(explained, "bytes between them",
             arena_printf(arena, "\n  %7d ", devices), 2, need);
}

/* A plan for several replicas: on each number of devices it takes what was
 * predicted, files and all. */
static void
check_shared(const char *path, const char *options, int replicas,
             const char *sets, double files)
{
    double all, host, on[2];
    const char *plan = in_dir("program.tfp");
    const char *explained = run_ok(arena,
                                   "tfdc %s --devices cpu:0-%d %s "
                                   "--explain -o %s",
                                   path, replicas - 1, options, plan)
                                .out;
    read_row(explained, "memory in all", "\n", 1, &all);
    explained_on(explained, replicas, on);
    host = all - on[0] + files;
    for (int n = replicas; n > 0; n--) {
        if (replicas % n)
            continue;
        explained_on(explained, n, on);
        Taken t = run_shared(plan, sets, n);
        double want = host + on[0];
        if (fabs(t.planned - want) > 1e3 ||
            fabs(t.used - want) > ERROR_SHARE * want + ERROR_BYTES)
            fail_msg("%s %s on %d: in use are %.0f bytes, planned were %.0f, "
                     "predicted were %.0f",
                     path, options, n, t.used, t.planned, want);
    }
}

static double
text_bytes(void)
{
    return (double)strlen(source_text(arena, "docs/tensorflow.md"));
}

static void
examples_take_what_was_predicted(void **state)
{
    (void)state;
    for (int i = 0; i < NUM_EXAMPLES; i++) {
        const Example *e = &examples[i];
        const char *path = example_program(e->name), *list = e->devices;
        for (const char *d; (d = next_word(arena, &list));)
            check_run(path, arena_printf(arena, "--devices %s", d), e->sets,
                      e->reads_text ? text_bytes() : 0);
    }
}

/* Each needs much of one kind of predicted memory, far more than the
 * tolerance. */
static const char *const hungry[] = {
    /* variables, and their initial values on the host */
    "var w: f32[4096, 1024] = normal(seed = 1)\n"
    "fn f() = sum(w)\n"
    "main { print(\"{reduce(mean, run f())}\") }\n",
    /* the values of a step */
    "param k: f32 = 2.0\n"
    "fn f() {\n"
    "  let x = uniform((4096, 1024), seed = 2, index = replica_id)\n"
    "  let y = sin(x * k)\n"
    "  return sum(x, axis = 0) @ transpose(y) @ (y + x)\n"
    "}\n"
    "main { print(\"{sum(reduce(sum, run f()))}\") }\n",
    /* rows that main keeps */
    "fn f(s) = uniform((4096, 1024), seed = 2, index = replica_id) * s\n"
    "fn g(x, y) = sum(x * y)\n"
    "main {\n"
    "  let a = run f(1.0)\n"
    "  let b = run f(2.0)\n"
    "  print(\"{reduce(sum, run g(a, b))}\")\n"
    "}\n",
    /* a shuffle buffer */
    "dataset d = range(100000).map(fn(i) = fill((64,), f32(i)))"
    ".shuffle(90000, seed = 1).batch(1000)\n"
    "fn f(x) = sum(x)\n"
    "main {\n"
    "  mut t = 0.0\n"
    "  for x in distribute(d) { t += reduce(sum, run f(x)) }\n"
    "  print(\"{t}\")\n"
    "}\n",
    /* steps made ahead */
    "dataset d = range(100000).map(fn(i) = fill((64,), f32(i)))"
    ".batch(1000).prefetch(80)\n"
    "fn f(x) = sum(x)\n"
    "main {\n"
    "  mut t = 0.0\n"
    "  for x in distribute(d) { t += reduce(sum, run f(x)) }\n"
    "  print(\"{t}\")\n"
    "}\n",
};

static void
large_programs_take_what_was_predicted(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof hungry / sizeof *hungry; i++) {
        const char *path = write_program(hungry[i]);
        check_run(path, "--devices cpu:0-1", "", 0);
    }
    const char *path = write_program(hungry[0]);
    check_run(path, "--devices cpu:0-2 --strategy central_storage", "", 0);
}

static void
replicas_that_share_take_what_was_predicted(void **state)
{
    (void)state;
    for (size_t i = 0; i < 3; i++)
        check_shared(write_program(hungry[i]), "", 4, "", 0);
    check_shared(write_program(hungry[0]), "--strategy central_storage", 4, "",
                 0);
    check_shared(example_program("bigram"), "--strategy central_storage", 3,
                 "--set epochs=1", text_bytes());
}

/* On one device, eight replicas have each mirrored variable once, as the only
 * replica of a plan for one device has. */
static void
one_device_has_the_variables_of_one_replica(void **state)
{
    enum { REPLICAS = 8 };
    (void)state;
    double alone, one[2], all[2];
    const char *path = example_program("charlm"), *plan = in_dir("program.tfp");
    const char *explained =
        run_ok(arena, "tfdc %s --devices cpu:0 --explain", path).out;
    const char *line = strstr(explained, " bytes on each device\n");
    assert_non_null(line);
    while (line[-1] != ' ')
        line--;
    alone = strtod(line, NULL);
    explained = run_ok(arena, "tfdc %s --devices cpu:0-%d --explain -o %s",
                       path, REPLICAS - 1, plan)
                    .out;
    explained_on(explained, 1, one);
    explained_on(explained, REPLICAS, all);
    assert_true(one[1] == alone && all[1] == REPLICAS * alone);
    Taken on_one = run_shared(plan, "--set steps=2", 1);
    Taken on_all = run_shared(plan, "--set steps=2", REPLICAS);
    double saved = (REPLICAS - 1) * alone;
    if (on_all.planned - on_one.planned < 0.99 * saved ||
        on_all.used - on_one.used < 0.95 * saved)
        fail_msg("planned are %.0f bytes on one device and %.0f on eight, in "
                 "use %.0f and %.0f; variables are %.0f of each replica",
                 on_one.planned, on_all.planned, on_one.used, on_all.used,
                 alone);
}

/* All bytes of the file, each as a row of 32 f32, with its number of rows. */
static const char keeping[] =
    "dataset d = bytes(\"text.txt\").map(fn(c) = fill((32,), f32(c)))"
    ".cache().repeat(2).batch(100)\n"
    "fn f(x) = sum(x)\n"
    "main {\n"
    "  mut t = 0.0\n"
    "  for x in distribute(d) { t += reduce(sum, run f(x)) }\n"
    "  print(\"{t}\")\n"
    "}\n";
enum { KEPT_BYTES = 32 * 4 + 8 };

static void
what_is_kept_of_files_is_said_to_be_unknown(void **state)
{
    (void)state;
    const char *text =
        run_ok(arena, "tfdc %s --explain", write_program(keeping)).out;
    double each;
    read_row(text, "memory of the host", "\n  cache", 1, &each);
    assert_int_equal(each, KEPT_BYTES);
    assert_non_null(strstr(text, "program.tfd:1:13, how many is unknown until "
                                 "the files are read\n"));
    assert_non_null(strstr(text, "  and what is kept of files\n"));
    text = run_ok(arena, "tfdc %s --explain", write_program(hungry[0])).out;
    assert_null(strstr(text, "of files"));
}

static void
what_is_kept_of_files_is_counted(void **state)
{
    (void)state;
    check_run(write_program(keeping), "", "", text_bytes() * (1 + KEPT_BYTES));
}

/* On the host; devices write directly from their variables, and need no more
 * memory than for training. */
static void
saving_takes_one_copy(void **state)
{
    static const char program[] =
        "var w: f32[1024, 64] = zeros\n"
        "var v: f32[512, 64] = ones\n"
        "fn f() { w += 1.0; v *= 2.0 }\n"
        "main { for i in 0..2 { run f(); save(\"saved-{i}\") } }\n";
    enum { BYTES = (1024 + 512) * 64 * 4, LITTLE = 1024 };
    (void)state;
    double rows, device, host;
    const char *text = run_ok(arena, "tfdc %s --devices cpu:0-1 --explain",
                              write_program(program))
                           .out;
    read_row(text, "memory of each of", "rows of main", 1, &rows);
    read_row(text, "rows of main", "main.2", 1, &device);
    read_row(text, "memory of the host", "  main", 1, &host);
    assert_true(rows < LITTLE);
    assert_true(device < BYTES + LITTLE);
    assert_true(host < BYTES + LITTLE);
}

static void
saving_takes_what_was_predicted(void **state)
{
    (void)state;
    const char *program =
        arena_printf(arena,
                     "var w: f32[4096, 1024] = zeros\n"
                     "fn f() { w += 1.0 }\n"
                     "main { run f(); save(\"%s/saved\"); run f() }\n",
                     dir);
    check_run(write_program(program), "--devices cpu:0-1", "", 0);
}

/* The file is read into the variables: neither main nor a launch has a copy. */
static void
restoring_takes_no_copy(void **state)
{
    enum { ROWS = 8192, BYTES = ROWS * 1024 * 4, LITTLE = 1024 };
    double host, program;
    (void)state;
    const char *saves =
        write_program(arena_printf(arena,
                                   "var w: f32[%d, 1024] = ones\n"
                                   "main { save(\"%s/saved\") }\n",
                                   ROWS, dir));
    run_ok(arena, "tfdc %s -o %s/saves.tfp", saves, dir);
    run_ok(arena, "tfd-run %s/saves.tfp", dir);
    const char *restores =
        write_program(arena_printf(arena,
                                   "var w: f32[%d, 1024] = zeros\n"
                                   "fn f() { w += 1.0 }\n"
                                   "main { restore(\"%s/saved\"); run f() }\n",
                                   ROWS, dir));
    const char *text =
        run_ok(arena, "tfdc %s --devices cpu:0-1 --explain", restores).out;
    read_row(text, "memory of the host", "  main", 1, &host);
    read_row(text, "memory of each of", "  the device", 1, &program);
    assert_true(host < LITTLE);
    assert_true(program < BYTES + LITTLE);
    check_run(restores, "--devices cpu:0", "", 0);
    check_run(restores, "--devices cpu:0-1", "", 0);
}

/* A variable that is most of the memory, and one of which a step reads rows. */
static const char large_variable[] = "var t: f32[4000000] = zeros\n"
                                     "main {\n"
                                     "  t = t + 1.0\n"
                                     "  print(\"{t[0]}\")\n"
                                     "}\n";
static const char large_embedding[] =
    "use nn, optim\n"
    "let table = Embedding(100000, 32)\n"
    "let sgd = Sgd(0.1)\n"
    "dataset d = range(64).batch(8)\n"
    "fn step(i) {\n"
    "  let l = sum(table(i))\n"
    "  sgd.apply(trainable(), grad(l, trainable()))\n"
    "  return l\n"
    "}\n"
    "main { for i in distribute(d) { print(\"{reduce(sum, run step(i))}\") } "
    "}\n";

static void
a_checksum_takes_no_copy(void **state)
{
    static const char *const devices[] = {"cpu:0", "cpu:0-1", "cpu:0-3"};
    (void)state;
    for (int i = 0; i < 3; i++) {
        const char *options = arena_printf(arena, "--devices %s", devices[i]);
        check_run(write_program(large_variable), options, "--checksum", 0);
        check_run(write_program(large_embedding), options, "--checksum", 0);
    }
}

/* Values that are the same on all devices are copied once. */
static void
a_checkpoint_takes_one_copy(void **state)
{
    static const char *const devices[] = {"cpu:0", "cpu:0-1", "cpu:0-3"};
    const double table = 100000 * 32 * 4;
    (void)state;
    for (int i = 0; i < 3; i++) {
        double planned, copy, used;
        const char *plan = in_dir("program.tfp");
        run_ok(arena, "tfdc %s --devices %s -o %s",
               write_program(large_embedding), devices[i], plan);
        Ran r =
            run_ok(arena, "tfd-run %s --stats --checkpoint %s/run-%d --every 3",
                   plan, dir, i);
        read_row(r.err, "memory", " ", 1, &planned);
        read_row(r.err, "memory", "of data,", 1, &copy);
        read_row(r.err, "memory", "in use", 1, &used);
        assert_true(copy * 1e6 >= table && copy * 1e6 < 1.05 * table);
        if (fabs(used - planned) * 1e6 > ERROR_SHARE * planned * 1e6)
            fail_msg("%s: in use are %.3f MB, planned were %.3f", devices[i],
                     used, planned);
    }
}

/* On one device, eight replicas touch the variable and its copy once; a limit
 * of addresses counts them for each.  Nothing is allocated in vain. */
static void
limited_addresses_count_for_each_replica(void **state)
{
    enum { VARIABLE = 4000000 * 4 };
    (void)state;
    const char *plan = in_dir("program.tfp");
    run_ok(arena, "tfdc %s --devices cpu:0-7 -o %s",
           write_program(large_variable), plan);
    Ran r = run(arena, "prlimit --as=%d %s %s --devices cpu:0", 10 * VARIABLE,
                getenv("TFD_RUN"), plan);
    if (r.code != 3 || !strstr(r.err, "(ulimit -v); 256.000 MB are for 1 "))
        fail_msg("exit status %d: %s", r.code, r.err);
    run_ok(arena, "prlimit --as=%d %s %s --devices cpu:0", 40 * VARIABLE,
           getenv("TFD_RUN"), plan);
}

static int
measure_peaks(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(examples_take_what_was_predicted),
        cmocka_unit_test(large_programs_take_what_was_predicted),
        cmocka_unit_test(what_is_kept_of_files_is_counted),
        cmocka_unit_test(saving_takes_what_was_predicted),
        cmocka_unit_test(restoring_takes_no_copy),
        cmocka_unit_test(a_checksum_takes_no_copy),
        cmocka_unit_test(a_checkpoint_takes_one_copy),
        cmocka_unit_test(replicas_that_share_take_what_was_predicted),
        cmocka_unit_test(one_device_has_the_variables_of_one_replica),
        cmocka_unit_test(limited_addresses_count_for_each_replica),
    };
    if (is_sanitized()) {
        puts("1..0 # SKIP sanitizers take memory of their own");
        return 0;
    }
    return cmocka_run_group_tests(tests, set_up, release_arena);
}

/* memory_test [peaks] */
int
main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "peaks") == 0)
        return measure_peaks();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arenas_of_examples_waste_little),
        cmocka_unit_test(larger_models_waste_little),
        cmocka_unit_test(attention_is_linear_in_its_length),
        cmocka_unit_test(attention_of_wide_heads_is_linear_in_its_length),
        cmocka_unit_test(blocks_of_rows_have_the_bits_of_the_whole),
        cmocka_unit_test(blocks_of_bf16_have_the_bits_of_the_whole),
        cmocka_unit_test(blocks_whose_operands_move_have_the_bits),
        cmocka_unit_test(wide_values_that_leave_keep_a_region_whole),
        cmocka_unit_test(blocks_of_several_phases_have_the_bits),
        cmocka_unit_test(blocks_of_weights_that_are_divided_late_have_the_bits),
        cmocka_unit_test(what_is_kept_of_files_is_said_to_be_unknown),
        cmocka_unit_test(saving_takes_one_copy),
    };
    return cmocka_run_group_tests(tests, set_up, release_arena);
}
