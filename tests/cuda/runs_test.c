/*
 * runs_test.c - tfd-run on the fake CUDA driver
 *
 * The bits of the CPU, in many orders; what is said where something is missing;
 * and each function of the driver failing in turn.
 */
#include "tests/cuda/fakes.h"
#include "tests/e2e/run.h"
#include "tests/unit/sweep.h"
#include "tests/unit/unit.h"

#include <sys/stat.h>
#include <unistd.h>

static const char program[] =
    "var w: f32[3] = [1.0, 2.0, 3.0]\n"
    "dataset train = range(16).map(fn(i) = f32(i)).batch(4)\n"
    "fn step(x) {\n"
    "  w -= 0.001 * all_reduce(sum, w * sum(x))\n"
    "  return sum(w)\n"
    "}\n"
    "main {\n"
    "  for x in distribute(train) { run step(x) }\n"
    "  print(\"{w}\")\n"
    "}\n";

/* Steps whose work differs: by branches and rounds that the device decides on,
 * by ragged batches, and by lines, of which there are more than are kept. */
static const char branches[] =
    "var w: f32[3] = [1.0, 2.0, 3.0]\n"
    "var v: i32 = 0\n"
    "dataset train = range(50).map(fn(i) = f32(i)).batch(4)\n"
    "fn step(x) {\n"
    "  w -= 0.0001 * all_reduce(sum, w * sum(x))\n"
    "  for i in 0..300 { v += i }\n"
    "  let s = all_reduce(sum, sum(x))\n"
    "  print(\"sum {s}\")\n"
    "  if i32(s) % 3 == 0 {\n"
    "    w += 0.01\n"
    "    print(\"a third of {sum(x)}\")\n"
    "  } else {\n"
    "    w *= 1.01\n"
    "  }\n"
    "  mut n = 0\n"
    "  while n < i32(sum(x)) % 5 {\n"
    "    print(\"round {n} of {w}\")\n"
    "    n += 1\n"
    "  }\n"
    "  for i in 0..100 { print(\"{i}: {w}\") }\n"
    "  for i in 0..v % 3 { print(\"late {i}\") }\n"
    "  for i in 0..200 { print(\"{i}: {sum(x) + f32(i)}\") }\n"
    "  return sum(w)\n"
    "}\n"
    "main {\n"
    "  for e in 0..3 { for x in distribute(train) { run step(x) } }\n"
    "  print(\"{w} {v}\")\n"
    "}\n";

/* More kernels in a step, and more rounds, than are recorded. */
/* A product with few results, and sums of whole tensors: kernels in two
 * launches; the last batch is ragged. */
static const char sums[] =
    "var w: f32[20, 12] = 0.01\n"
    "dataset train = range(75000).map(fn(i) = f32(i) * 0.0001 + zeros([20]))"
    ".batch(30000)\n"
    "fn step(x) {\n"
    "  let y = tanh(x @ w)\n"
    "  let loss = sum(y * y)\n"
    "  w -= 0.0000001 * all_reduce(sum, grad(loss, w))\n"
    "  return loss\n"
    "}\n"
    "main {\n"
    "  for x in distribute(train) { print(\"{reduce(sum, run step(x))}\") }\n"
    "}\n";

/* The gradient of c is two sums and two values, one of which it overwrites. */
static const char overwritten[] =
    "var w: f32[2, 130, 17] = f32(reshape(iota((4420,)) * 49 % 5 - 2, "
    "(2, 130, 17)))\n"
    "fn step() {\n"
    "  let x = top_k(w, 1).0\n"
    "  let c = einsum(\"abc,abc->a\", x, x) * 0.1\n"
    "  let large = max(c, x)\n"
    "  mut e = c\n"
    "  e[iota((17,)) % 2] += c[0]\n"
    "  let small = min(c, x)\n"
    "  let loss = sum(large * f32(reshape(iota((520,)) % 3, (2, 130, "
    "2)))) + sum(e * f32(reshape(iota((2,)) * 5 % 3 - 1, (2,)))) + "
    "sum(small * f32(reshape(iota((520,)) % 3, (2, 130, 2))))\n"
    "  return sum(grad(loss, w))\n"
    "}\n"
    "main { print(\"{run step()}\") }\n";

static const char large[] = "var v: i32 = 0\n"
                            "fn step() {\n"
                            "  for i in 0..9000 { v += i }\n"
                            "  mut n = 0\n"
                            "  while n < 300 {\n"
                            "    n += 1\n"
                            "    v += n\n"
                            "  }\n"
                            "  for i in 0..9000 { v += i }\n"
                            "}\n"
                            "fn few() {\n"
                            "  mut n = 0\n"
                            "  while n < 300 {\n"
                            "    n += 1\n"
                            "    v += n\n"
                            "  }\n"
                            "}\n"
                            "main {\n"
                            "  for i in 0..3 { run step() }\n"
                            "  for i in 0..4 { run few() }\n"
                            "  print(\"{v}\")\n"
                            "}\n";

/* ---- results ------------------------------------------------------------- */

/* Where the program of that name is. */
static const char *
source_of(Arena *a, const char *name)
{
    const char *root = getenv("TFD_ROOT");
    const char *paths[] = {
        arena_printf(a, "%s/%s.tfd", dir, name),
        arena_printf(a, "%s/docs/examples/%s.tfd", root, name),
        arena_printf(a, "%s/tests/e2e/programs/%s.tfd", root, name)};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        if (access(paths[i], F_OK) == 0)
            return paths[i];
    fail_msg("there is no program %s", name);
    return NULL;
}

static const char *
plan_of(Arena *a, const char *name)
{
    const char *plan = arena_printf(a, "%s/%s.tfp", dir, name);
    run_ok(a, "tfdc %s --devices gpu:0 -o %s", source_of(a, name), plan);
    return plan;
}

/* As on the CPU, whatever the order. */
static void
bits_are_those_of_the_cpu(void **state)
{
    static const struct {
        const char *name;
        int seeds;
    } rows[] = {{"small", 20},   {"linear", 5},      {"schedule", 1},
                {"branches", 3}, {"large", 1},       {"metric", 1},
                {"sums", 3},     {"overwritten", 1}, {"long_rows", 1}};
    Arena *a = *state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *plan = plan_of(a, rows[i].name);
        set_fake("");
        Ran cpu = run_ok(a, "tfd-run %s --devices cpu:0 --checksum", plan);
        for (int s = sweep_first(rows[i].seeds); s < rows[i].seeds;
             s = sweep_next(s)) {
            /* The large one may take much for its graph. */
            set_fake(arena_printf(a, "seed:%d,memory:4000000000", s));
            Ran gpu = run_ok(a, "tfd-run %s --checksum", plan);
            assert_string_equal(gpu.out, cpu.out);
            assert_string_equal(gpu.err, "");
        }
    }
}

/* --precision tf32: on a CPU the bits of the exact plan; on a GPU others, which
 * are the same in every order of its work. */
static void
tf32_is_for_gpus_alone(void **state)
{
    Arena *a = *state;
    const char *plan = arena_printf(a, "%s/sums.tf32.tfp", dir);
    run_ok(a, "tfdc %s/sums.tfd --devices gpu:0 --precision tf32 -o %s", dir,
           plan);
    set_fake("");
    const char *command = "tfd-run %s --devices %s --checksum";
    Ran exact = run_ok(a, command, plan_of(a, "sums"), "cpu:0");
    assert_string_equal(run_ok(a, command, plan, "cpu:0").out, exact.out);
    set_fake("seed:1");
    Ran gpu = run_ok(a, command, plan, "cuda:0");
    assert_string_not_equal(gpu.out, exact.out);
    set_fake("seed:2");
    assert_string_equal(run_ok(a, command, plan, "cuda:0").out, gpu.out);
}

/* Products of f32 and bf16 say so, those of f64 and integers do not. */
static void
tf32_is_seen_in_dumps(void **state)
{
    static const char products[] =
        "fn step() {\n"
        "  let x = normal((24, 24))\n"
        "  let y = x @ x + f32(bf16(x) @ bf16(x))\n"
        "  let z = f64(x) @ f64(x)\n"
        "  let i = i32(x) @ i32(x)\n"
        "  return sum(y) + f32(sum(z)) + f32(sum(i))\n"
        "}\n"
        "main { print(\"{local_results(run step()).0}\") }\n";
    Arena *a = *state;
    const char *source = arena_printf(a, "%s/products.tfd", dir);
    const char *command = "tfdc %s --devices %s --precision %s %s";
    write_text(source, products);
    Ran placed = run_ok(a, command, source, "gpu:0", "tf32", "--to placed");
    int marked = 0;
    for (const char *at = placed.out; (at = strstr(at, "tf32=true")); at++)
        marked++;
    assert_int_equal(marked, 2);
    Ran exact = run_ok(a, command, source, "gpu:0", "exact", "--to placed");
    assert_null(strstr(exact.out, "tf32"));
    Ran gpu = run_ok(a, command, source, "gpu:0", "tf32", "--explain");
    assert_non_null(strstr(gpu.out, "2 of 2 products of f32, bf16 and f16 may "
                                    "be computed in TF32"));
    Ran cpu = run_ok(a, command, source, "cpu:0", "tf32", "--explain");
    assert_null(strstr(cpu.out, "TF32"));
}

/* Products of bf16 in one chain have bits of their own, which are the same on
 * every device. */
static void
vdpbf16ps_has_one_order_everywhere(void **state)
{
    static const char products[] =
        "fn step() {\n"
        "  let x = normal((160, 1100))\n"
        "  let y = precision(bf16, fn() = x @ transpose(x))\n"
        "  return sum(abs(y - x @ transpose(x)))\n"
        "}\n"
        "main { print(\"{local_results(run step()).0}\") }\n";
    Arena *a = *state;
    const char *source = arena_printf(a, "%s/one_chain.tfd", dir);
    const char *plan = arena_printf(a, "%s/one_chain.tfp", dir);
    const char *compile = "tfdc %s --devices gpu:0 --precision %s %s";
    const char *run = "tfd-run %s --devices %s --checksum";
    write_text(source, products);
    const char *out = arena_printf(a, "-o %s", plan);
    set_fake("");
    run_ok(a, compile, source, "exact", out);
    Ran exact = run_ok(a, run, plan, "cpu:0");
    run_ok(a, compile, source, "vdpbf16ps", out);
    Ran cpu = run_ok(a, run, plan, "cpu:0");
    assert_string_not_equal(cpu.out, exact.out);
    assert_string_equal(run_ok(a, run, plan, "cuda:0").out, cpu.out);
    Ran explained = run_ok(a, compile, source, "vdpbf16ps", "--explain");
    assert_non_null(strstr(explained.out, "1 of 1 products of bf16 are added "
                                          "in the order of vdpbf16ps"));
    Ran placed = run_ok(a, compile, source, "vdpbf16ps", "--to placed");
    char *at = strstr(placed.out, "one_chain=true");
    assert_non_null(at);
    assert_null(strstr(at + 1, "one_chain=true"));
}

/* ---- what steps print and assert ----------------------------------------- */

/* More lines than are kept before the host looks, lines in rounds that the
 * device decides on, and an index that is wrong after the third step. */
static const char prints[] =
    "var w: f32[3] = [1.0, 2.0, 3.0]\n"
    "dataset train = range(24).map(fn(i) = f32(i)).batch(4)\n"
    "fn step(x) {\n"
    "  print(\"step {sum(x)}: {w}\")\n"
    "  for i in 0..300 { print(\"{i}: {sum(x) + f32(i)}\") }\n"
    "  w -= 0.001 * all_reduce(sum, w * sum(x))\n"
    "  mut n = 0\n"
    "  while n < i32(sum(x)) % 5 {\n"
    "    print(\"round {n} of {w}\")\n"
    "    n += 1\n"
    "  }\n"
    "  let at = i32(sum(x)) // 20\n"
    "  print(\"before {at}\")\n"
    "  let y = w[at]\n"
    "  print(\"after {y} {w}\")\n"
    "  let z = w[at + 1]\n"
    "  return y + z\n"
    "}\n"
    "main {\n"
    "  for x in distribute(train) {\n"
    "    run step(x)\n"
    "    print(\"main\")\n"
    "  }\n"
    "  print(\"{w}\")\n"
    "}\n";

/* It would not end, if nobody looked before its end. */
static const char endless[] =
    "var w: f32[10] = [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]\n"
    "fn step() {\n"
    "  mut n = 0\n"
    "  mut s = 0.0\n"
    "  while s < 1.0 + s {\n"
    "    s = w[n]\n"
    "    n += 1\n"
    "  }\n"
    "  return s\n"
    "}\n"
    "main { run step() }\n";

/* Replica 1 fails, and replica 0 does not come past the all_reduce. */
static const char two[] =
    "var w: f32[3] = [1.0, 2.0, 3.0]\n"
    "dataset train = range(24).map(fn(i) = f32(i)).batch(8)\n"
    "fn step(x) {\n"
    "  print(\"replica {replica_id} step {sum(x)}: {w}\")\n"
    "  let y = w[i32(sum(x)) // 20 + replica_id]\n"
    "  print(\"replica {replica_id} {y}\")\n"
    "  w -= 0.001 * all_reduce(sum, w * y)\n"
    "  print(\"replica {replica_id} after {w}\")\n"
    "  return sum(w)\n"
    "}\n"
    "main {\n"
    "  for x in distribute(train) {\n"
    "    run step(x)\n"
    "    print(\"main\")\n"
    "  }\n"
    "  print(\"{w}\")\n"
    "}\n";

static const struct {
    const char *text, *compiled_for;
    const char *runs[6][3]; /* TFD_PROGRAMS, TFD_FAKE_CUDA, --devices */
} ahead[] = {
    {prints,
     "gpu:0",
     {{"enqueue", "", "cpu:0"},
      {"enqueue", "", "sandbox:0"},
      {"", "seed:1", "cuda:0"},
      {"", "seed:2", "cuda:0"}}},
    {endless,
     "gpu:0",
     {{"enqueue", "", "cpu:0"},
      {"enqueue", "", "sandbox:0"},
      {"", "seed:3", "cuda:0"}}},
    {two,
     "gpu:0-1",
     {{"enqueue", "", "cpu:0-1"},
      {"enqueue", "", "cpu:0"},
      {"enqueue", "", "sandbox:0-1"},
      {"", "devices:2,seed:4", "cuda:0-1"},
      {"", "seed:5", "cuda:0"}}},
};

/* Without the names of devices. */
static const char *
first_lines(Arena *a, const char *text)
{
    const char *end = strstr(text, "note: on replica");
    return end ? arena_printf(a, "%.*s", (int)(end - text), text) : text;
}

static void
run_ahead(Arena *a, const char *plan, const Ran *cpu, const char *const *how)
{
    set_fake(how[1]);
    setenv("TFD_SANDBOX", "seed:3", 1);
    setenv("TFD_PROGRAMS", how[0], 1);
    Ran ran = run(a, "tfd-run %s --devices %s", plan, how[2]);
    unsetenv("TFD_PROGRAMS");
    unsetenv("TFD_SANDBOX");
    assert_int_equal(ran.code, cpu->code);
    assert_string_equal(ran.out, cpu->out);
    assert_string_equal(first_lines(a, ran.err), first_lines(a, cpu->err));
}

/* Programs that enqueue their work do not wait for what they print. */
static void
prints_and_asserts_are_those_of_the_cpu(void **state)
{
    Arena *a = *state;
    for (size_t i = 0; i < sizeof ahead / sizeof *ahead; i++) {
        const char *plan = arena_printf(a, "%s/ahead%zu.tfp", dir, i);
        const char *source = arena_printf(a, "%s/ahead%zu.tfd", dir, i);
        write_text(source, ahead[i].text);
        run_ok(a, "tfdc %s --devices %s -o %s", source, ahead[i].compiled_for,
               plan);
        Ran cpu = run(a, "tfd-run %s --devices cpu:0%s", plan,
                      ahead[i].text == two ? "-1" : "");
        assert_int_equal(cpu.code, 1);
        for (int k = 0; ahead[i].runs[k][0]; k++)
            run_ahead(a, plan, &cpu, ahead[i].runs[k]);
    }
}

/* Its kernels are no progress: it is the same round again and again. */
static void
endless_loops_end(void **state)
{
    static const char forever[] = "var w: f32 = 1.0\n"
                                  "fn step() {\n"
                                  "  mut s = w\n"
                                  "  while s < 1.0 + s { s = w }\n"
                                  "  return s\n"
                                  "}\n"
                                  "main { print(\"{run step()}\") }\n";
    Arena *a = *state;
    write_text(arena_printf(a, "%s/forever.tfd", dir), forever);
    const char *plan = plan_of(a, "forever");
    set_fake("");
    Ran ran = run(a, "tfd-run %s --timeout 0.3", plan);
    assert_int_equal(ran.code, 1);
    assert_non_null(
        strstr(ran.err, "this step has not ended after 0.3 seconds"));
    assert_non_null(strstr(ran.err, "replica 0, device cuda:0, is in this "
                                    "while, at the "));
}

/* ---- checkpoints --------------------------------------------------------- */

/* A checkpoint made on one kind of device is resumed on the other. */
static void
checkpoints_go_both_ways(void **state)
{
    static const char *const order[][2] = {{"cuda:0", "cpu:0"},
                                           {"cpu:0", "cuda:0"}};
    Arena *a = *state;
    const char *plan = plan_of(a, "linear");
    set_fake("");
    Ran whole = run_ok(a, "tfd-run %s --devices cpu:0 --checksum", plan);
    for (int i = 0; i < 2; i++) {
        const char *folder = arena_printf(a, "%s/checkpoints%d", dir, i);
        run_ok(a, "tfd-run %s --devices %s --checkpoint %s --every 300", plan,
               order[i][0], folder);
        Ran rest = run_ok(a,
                          "tfd-run %s --devices %s --checkpoint %s --every 300 "
                          "--resume --checksum",
                          plan, order[i][1], folder);
        assert_non_null(strstr(whole.out, strstr(rest.out, "checksum")));
    }
}

/* ---- messages ------------------------------------------------------------ */

static const struct {
    const char *options, *devices, *says;
} messages[] = {
    {"version:11020", "cuda:0",
     "cuda:0 cannot be used: the driver is for CUDA 11.2; CUDA 11.4 (driver "
     "470) or newer is needed"},
    {"devices:2", "cuda:3", "there is no cuda:3: this machine has 2 GPUs"},
    {"memory:100", "cuda:0",
     " MB of cuda:0, and 0.000 of its 0.000 MB are free; "},
    {"version:11040", "cuda:0",
     ": its PTX is newer than the driver, which is for CUDA 11.4; a newer "
     "driver can"},
    {"fail:cuModuleLoadDataEx:2:218", "cuda:0",
     ": cuModuleLoadDataEx says CUDA_ERROR_INVALID_PTX, 218 (the fake driver "
     "says so)"},
    {"fail:cuInit:1:100", "cuda:0",
     "cuda:0 cannot be used: cuInit says CUDA_ERROR_NO_DEVICE, 100 (the fake "
     "driver says so)"},
    {"fail:cuEventQuery:9:700", "cuda:0",
     "cuda:0 has failed: cuEventQuery says CUDA_ERROR_ILLEGAL_ADDRESS, 700 "
     "(the fake driver says so)"},
};

static void
what_is_missing_is_said(void **state)
{
    Arena *a = *state;
    const char *plan = arena_printf(a, "%s/newer.tfp", dir);
    run_ok(a, "tfdc %s/small.tfd --target native,sm_90 -o %s", dir, plan);
    for (size_t i = 0; i < sizeof messages / sizeof *messages; i++) {
        set_fake(messages[i].options);
        Ran ran = run(a, "tfd-run %s --devices %s", plan, messages[i].devices);
        assert_int_equal(ran.code, 3);
        if (!strstr(ran.err, messages[i].says))
            fail_msg("not said: %s\nbut: %s", messages[i].says, ran.err);
    }
}

/* A library that is none, and one without the functions. */
static void
drivers_that_are_none_are_said(void **state)
{
    Arena *a = *state;
    const char *plan = plan_of(a, "small");
    const char *folder = arena_printf(a, "%s/none", dir);
    assert_int_equal(mkdir(folder, 0777), 0);
    write_text(arena_printf(a, "%s/libcuda.so.1", folder), "none\n");
    set_driver(folder, "");
    Ran none = run(a, "tfd-run %s", plan);
    assert_int_equal(none.code, 3);
    assert_non_null(strstr(none.err, "cuda:0 cannot be used: there is no "
                                     "libcuda.so.1, which comes with NVIDIA's "
                                     "driver; CUDA 11.4"));
    set_driver(getenv("TFD_OLD_DRIVER"), "");
    Ran old = run(a, "tfd-run %s", plan);
    assert_int_equal(old.code, 3);
    assert_non_null(strstr(old.err, "cuda:0 cannot be used: the driver has no "
                                    "cuDriverGetVersion; CUDA 11.4"));
}

static void
devices_are_listed(void **state)
{
    Arena *a = *state;
    set_fake("devices:2,capability:86");
    const char *out = run_ok(a, "tfd-run --list-devices").out;
    for (int i = 0; i < 2; i++)
        assert_non_null(strstr(
            out, arena_printf(a,
                              "\ncuda:%d            Fake GPU %d, compute "
                              "capability 8.6, 1.1 GB, driver for CUDA 12.2\n",
                              i, i)));
    assert_non_null(strstr(out, "cpu:0-1023        some threads"));
    set_driver(getenv("TFD_OLD_DRIVER"), "");
    out = run_ok(a, "tfd-run --list-devices").out;
    assert_non_null(strstr(out, "\ncuda              cuda:0 cannot be used: "
                                "the driver has no "));
}

static const char *const shortages[] = {
    "no memory for the streams of cuda:0",
    " kernels of cuda:0",
    "no memory for the handles of cuda:0",
    "no memory for the graphs of cuda:0",
};

static void
shortages_are_said(void **state)
{
    enum { NUM = sizeof shortages / sizeof *shortages, MOST = 100 };
    Arena *a = *state;
    const char *plan = plan_of(a, "small");
    bool seen[NUM] = {false};
    if (sweep_part_of_build() > 1)
        return; /* each piece of an arena is an allocation there */
    set_fake("");
    for (int n = 1, code = 3; code && n < MOST; n++) {
        setenv("TFD_FAIL", arena_printf(a, "alloc:%d", n), 1);
        Ran ran = run(a, "tfd-run %s", plan);
        code = ran.code;
        for (int i = 0; i < NUM; i++)
            seen[i] |= strstr(ran.err, shortages[i]) != NULL;
    }
    unsetenv("TFD_FAIL");
    for (int i = 0; i < NUM; i++)
        if (!seen[i])
            fail_msg("not said: %s", shortages[i]);
}

/* ---- each call failing --------------------------------------------------- */

static const char *const calls[] = {
#define CUDA_CALL(name, params) #name,
#include "runtime/hal/cuda/driver.def"
#undef CUDA_CALL
};

/* These give back, or say what an error is: a run can do without.  The context
 * is set by main's thread and by the device's, and then to close it. */
static bool
is_needed(const char *call, int n)
{
    if (!strcmp(call, "cuCtxSetCurrent"))
        return n <= 2;
    static const char *const others[] = {"cuDevicePrimaryCtxRelease_v2",
                                         "cuModuleUnload",
                                         "cuMemFree_v2",
                                         "cuMemFreeHost",
                                         "cuStreamDestroy_v2",
                                         "cuEventDestroy_v2",
                                         "cuGraphExecDestroy",
                                         "cuGraphDestroy",
                                         "cuGetErrorName",
                                         "cuGetErrorString"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (!strcmp(call, others[i]))
            return false;
    return true;
}

/* The lines that are not the fake driver's counts. */
static int
count_messages(const char *text)
{
    int n = 0;
    for (const char *end; (end = strchr(text, '\n')); text = end + 1)
        n += strncmp(text, "fake driver: ", 13) != 0;
    return n;
}

/* Whether the run came to call n, by the counts that it ends with: how many
 * there are of some functions depends on how fast threads are. */
static bool
was_called(Arena *a, const char *err, const char *call, int n)
{
    const char *at = strstr(err, arena_printf(a, " %s\n", call));
    while (at && at > err && at[-1] != ' ')
        at--;
    return at && atoi(at) >= n;
}

static void
fail_call(Arena *a, const char *plan, const char *call, int n)
{
    set_fake(arena_printf(a, "seed:%d,count,fail:%s:%d", n, call, n));
    Ran ran = run(a, "tfd-run %s --checksum", plan);
    bool fails = was_called(a, ran.err, call, n) && is_needed(call, n);
    if (ran.code != (fails ? 3 : 0) ||
        count_messages(ran.err) != (fails ? 1 : 0))
        fail_msg("%s, call %d: status %d, and %s", call, n, ran.code, ran.err);
}

static void
each_call_may_fail(void **state)
{
    enum { TIMES = 3, NUM = TIMES * (int)(sizeof calls / sizeof *calls) };
    Arena *a = *state;
    const char *plan = plan_of(a, "small");
    for (int i = sweep_first(NUM); i < NUM; i = sweep_next(i))
        fail_call(a, plan, calls[i / TIMES], 1 + i % TIMES);
}

/* One message and status 3, or the result. */
static void
fail_call_of_two(Arena *a, const char *plan, const char *out,
                 const char *options, const char *call, int n)
{
    set_fake(arena_printf(a, "%s,seed:%d,fail:%s:%d", options, n, call, n));
    Ran ran = run(a, "tfd-run %s --checksum", plan);
    bool fails = ran.code == 3 && count_messages(ran.err) == 1;
    bool works = ran.code == 0 && !strcmp(ran.out, out) && !*ran.err;
    if ((!fails && !works) || strstr(ran.err, "fake driver: "))
        fail_msg("%s, %s, call %d: status %d, and %s", options, call, n,
                 ran.code, ran.err);
}

/* A sample of what tests/cuda/fail_calls does. */
static void
each_call_of_two_devices_may_fail(void **state)
{
    enum { TIMES = 5, NUM = 2 * TIMES * (int)(sizeof calls / sizeof *calls) };
    static const char *const options[] = {"devices:2", "devices:2,no-peers"};
    Arena *a = *state;
    const char *plan = arena_printf(a, "%s/pair.tfp", dir);
    uint64_t gap = 20 * (uint64_t)sweep_part_of_build();
    run_ok(a, "tfdc %s/small.tfd --devices gpu:0-1 -o %s", dir, plan);
    set_fake(options[0]);
    const char *out = run_ok(a, "tfd-run %s --checksum", plan).out;
    for (uint64_t i = sweep_random() % gap; i < NUM;
         i += 1 + sweep_random() % (2 * gap - 1))
        fail_call_of_two(a, plan, out, options[i % 2], calls[i / 2 / TIMES],
                         1 + (int)(i / 2 % TIMES));
}

/* ---- the suite ----------------------------------------------------------- */

static int
make_programs(void **state)
{
    new_dir(state);
    write_text(in_dir("small.tfd"), program);
    write_text(in_dir("branches.tfd"), branches);
    write_text(in_dir("large.tfd"), large);
    write_text(in_dir("sums.tfd"), sums);
    write_text(in_dir("overwritten.tfd"), overwritten);
    return 0;
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_are_those_of_the_cpu),
        cmocka_unit_test(tf32_is_for_gpus_alone),
        cmocka_unit_test(vdpbf16ps_has_one_order_everywhere),
        cmocka_unit_test(tf32_is_seen_in_dumps),
        cmocka_unit_test(prints_and_asserts_are_those_of_the_cpu),
        cmocka_unit_test(endless_loops_end),
        cmocka_unit_test(checkpoints_go_both_ways),
        cmocka_unit_test(what_is_missing_is_said),
        cmocka_unit_test(drivers_that_are_none_are_said),
        cmocka_unit_test(devices_are_listed),
        cmocka_unit_test(shortages_are_said),
        cmocka_unit_test(each_call_may_fail),
        cmocka_unit_test(each_call_of_two_devices_may_fail),
    };
    return cmocka_run_group_tests(tests, make_programs, release_arena);
}
