/*
 * data_test.c - programs that read files of each format
 *
 * The files are written here.  The output of a program does not depend on the
 * number of devices; a fault in a file is reported before main begins, or when
 * the record is read.
 */
#include "tests/unit/unit.h"
#include "ir/base/io/file.h"
#include "tests/unit/arena.h"

#include "tests/data/make.h"
#include "tests/e2e/run.h"

static const char program[] =
    "dataset images = npy(\"images-*.npy\", u8[2])\n"
    "dataset arrays = npz(\"arrays.npz\", (x: f32[2], y: i32))\n"
    "dataset digits = idx(\"digits.gz\", u8[2, 2])\n"
    "dataset table = csv(\"table.csv\", (y: i64, x: f64), missing = -1)\n"
    "dataset text = lines([\"a.txt\", \"b.txt\"], u8[4])\n"
    "dataset examples = tfrecord(\"examples\", (image: u8[2], label: i64, "
    "w: f32[2]))\n"
    "dataset raw = bytes(\"raw.bin\", i16[2])\n"
    "dataset all = arrays.zip(images.zip(raw.repeat()))\n"
    "  .filter(fn(a, b) = a.y != 8).map(fn(a, b) = (a.x, b.0, b.1))\n"
    "main {\n"
    "  for x in distribute(images.batch(2)) { print(\"npy {gather(x, 0)}\") }\n"
    "  for x in distribute(arrays.batch(2)) {\n"
    "    print(\"npz {gather(x.x, 0)} {gather(x.y, 0)}\")\n"
    "  }\n"
    "  for x in distribute(digits.batch(2)) { print(\"idx {gather(x, 0)}\") }\n"
    "  for x in distribute(table.batch(2)) {\n"
    "    print(\"csv {gather(x.y, 0)} {gather(x.x, 0)}\")\n"
    "  }\n"
    "  for x in distribute(text.batch(3)) { print(\"lines {gather(x, 0)}\") }\n"
    "  for x in distribute(examples.batch(2)) {\n"
    "    print(\"tfrecord {gather(x.image, 0)} {gather(x.label, 0)} "
    "{gather(x.w, 0)}\")\n"
    "  }\n"
    "  for x in distribute(raw.batch(2)) { print(\"bytes {gather(x, 0)}\") }\n"
    "  for (x, y, z) in distribute(all.batch(2)) {\n"
    "    print(\"all {gather(x, 0)} {gather(y, 0)} {gather(z, 0)}\")\n"
    "  }\n"
    "}\n";

static const char want[] = "npy [[1 2]\n"
                           " [3 4]]\n"
                           "npy [[5 6]]\n"
                           "npz [[1. 2.]\n"
                           " [3. 4.]] [7 8]\n"
                           "npz [[5. 6.]] [9]\n"
                           "idx [[[1 2]\n"
                           "  [3 4]]\n"
                           "\n"
                           " [[5 6]\n"
                           "  [7 8]]]\n"
                           "csv [ 1 -2] [ 0.5 -1. ]\n"
                           "csv [3] [4.]\n"
                           "lines [[97 98  0  0]\n"
                           " [ 0  0  0  0]\n"
                           " [99  0  0  0]]\n"
                           "tfrecord [[1 2]\n"
                           " [3 4]] [ 5 -6] [[0.5 1.5]\n"
                           " [2.5 3.5]]\n"
                           "bytes [[   1    2]\n"
                           " [   3 -256]]\n"
                           "all [[1. 2.]\n"
                           " [5. 6.]] [[1 2]\n"
                           " [5 6]] [[1 2]\n"
                           " [1 2]]\n";

static const char *
at(Arena *a, const char *dir, const char *name)
{
    return arena_printf(a, "%s/%s", dir, name);
}

static void
write_arrays(Arena *a, const char *dir)
{
    static const uint8_t images[] = {1, 2, 3, 4, 5, 6};
    static const float x[] = {1, 2, 3, 4, 5, 6};
    static const int32_t y[] = {7, 8, 9};
    const MakeArray arrays[] = {{"x", "<f4", "(3, 2)", x, sizeof x},
                                {"y", "<i4", "(3,)", y, sizeof y}};
    Str first = make_npy(a, &(MakeArray){"", "|u1", "(1, 2)", images, 2});
    Str rest = make_npy(a, &(MakeArray){"", "|u1", "(2, 2)", images + 2, 4});
    make_file(at(a, dir, "images-2.npy"), rest.data, rest.len);
    make_file(at(a, dir, "images-1.npy"), first.data, first.len);
    make_npz(at(a, dir, "arrays.npz"), 2, arrays, true);
}

static void
write_examples(Arena *a, const char *dir)
{
    Str file = str_new(a);
    for (int i = 0; i < 2; i++) {
        Str f = str_new(a);
        make_bytes(&f, "image", i ? "\3\4" : "\1\2", 2);
        make_ints(&f, "label", 1, (const int64_t[]){i ? -6 : 5});
        make_floats(&f, "w", 2,
                    i ? (const float[]){2.5, 3.5} : (const float[]){0.5, 1.5});
        make_example(&file, &f);
    }
    make_packed(at(a, dir, "examples"), MAKE_GZIP, file.data, file.len);
}

static const char *
write_files(Arena *a)
{
    static const char digits[] = {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 2,
                                  0, 0, 0, 2, 1, 2, 3, 4, 5, 6, 7, 8};
    static const int16_t raw[] = {1, 2, 3, -256};
    const char *dir = work_dir(a);
    write_arrays(a, dir);
    write_examples(a, dir);
    make_packed(at(a, dir, "digits.gz"), MAKE_GZIP, digits, sizeof digits);
    write_text(at(a, dir, "table.csv"),
               "x,\"name\",y\r\n0.5,a,1\r\n,\"b,\"\"c\","
               "-2\r\n4,,3\r\n");
    write_text(at(a, dir, "a.txt"), "ab\n\n");
    write_text(at(a, dir, "b.txt"), "c");
    make_file(at(a, dir, "raw.bin"), raw, sizeof raw);
    return dir;
}

static void
every_format_on_any_number_of_devices(void **state)
{
    Arena *a = *state;
    const char *dir = write_files(a);
    write_text(at(a, dir, "program.tfd"), program);
    for (int devices = 1; devices <= 3; devices++) {
        run_ok(a, "tfdc %s/program.tfd --strategy mirrored --devices cpu:0-%d",
               dir, devices - 1);
        assert_string_equal(run_ok(a, "tfd-run %s/program.tfp", dir).out, want);
    }
}

/* Two pipelines over one file, and an endless one, taken from in turn; each
 * makes elements ahead in a thread of its own. */
static void
several_pipelines_at_once(void **state)
{
    static const char text[] =
        "dataset t = csv(\"table.csv\", (y: i64), missing = 0).map(fn(r) = "
        "r.y)\n"
        "main {\n"
        "  let a = iter(distribute(t.batch(2)))\n"
        "  let b = iter(distribute(t.cache().repeat().prefetch(2).batch(2)))\n"
        "  while has_next(a) {\n"
        "    let x = next(a)\n"
        "    let y = next(b)\n"
        "    print(\"{gather(x, 0)} {gather(y, 0)}\")\n"
        "  }\n"
        "  for x in distribute(t.batch(3)) {\n"
        "    let y = next(b)\n"
        "    print(\"{gather(x, 0)} {gather(y, 0)} {has_next(a)}\")\n"
        "  }\n"
        "}\n";
    Arena *a = *state;
    const char *dir = write_files(a);
    write_text(at(a, dir, "several.tfd"), text);
    run_ok(a, "tfdc %s/several.tfd --devices cpu:0-1", dir);
    assert_string_equal(run_ok(a, "tfd-run %s/several.tfp", dir).out,
                        "[ 1 -2] [ 1 -2]\n"
                        "[3] [3 1]\n"
                        "[ 1 -2  3] [-2  3] False\n");
}

/* The output of tfd-run for a program with one dataset, whose files are in
 * dir. */
static const char *
told(Arena *a, const char *dir, const char *dataset)
{
    write_text(at(a, dir, "one.tfd"),
               arena_printf(a,
                            "dataset d = %s\n"
                            "main {\n"
                            "  print(\"main\")\n"
                            "  for x in distribute(d.batch(1)) { }\n"
                            "}\n",
                            dataset));
    run_ok(a, "tfdc %s/one.tfd", dir);
    Ran r = run(a, "tfd-run %s/one.tfp", dir);
    assert_int_equal(r.code, 1);
    return arena_printf(a, "%s%s", r.out, r.err);
}

static void
mistakes_are_told_before_main_begins(void **state)
{
    Arena *a = *state;
    const char *dir = write_files(a);
    assert_string_equal(
        told(a, dir, "csv(\"table.csv\", (x: f32, z: i32))"),
        "tfd-run: error: one.tfd:1:13: \"table.csv\" has no column \"z\"; it "
        "has "
        "\"x\", \"name\", \"y\"\n"
        "    1 | dataset d = csv(\"table.csv\", (x: f32, z: i32))\n"
        "      |             ^~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~\n"
        "tfd-run: note: while opening csv(\"table.csv\") at one.tfd:1:13\n"
        "tfd-run: note: while opening the dataset at one.tfd:4:23\n");
    assert_string_equal(
        told(a, dir, "range(3).zip(npy(\"images-*.npy\", f32[2]))"),
        "tfd-run: error: one.tfd:1:26: \"images-1.npy\" has rows of u8[2], "
        "not of f32[2]: NumPy wrote '|u1' of shape [1, 2]\n"
        "    1 | dataset d = range(3).zip(npy(\"images-*.npy\", f32[2]))\n"
        "      |                          ^~~~~~~~~~~~~~~~~~~~~~~~~~~\n"
        "tfd-run: note: while opening npy(\"images-1.npy\") at one.tfd:1:26\n"
        "tfd-run: note: while opening the dataset at one.tfd:1:26\n"
        "tfd-run: note: while opening the dataset at one.tfd:4:23\n");
}

static void
mistakes_further_on_are_told_with_their_line(void **state)
{
    Arena *a = *state;
    const char *dir = write_files(a);
    assert_string_equal(
        told(a, dir, "csv(\"table.csv\", (x: f32, y: i32))"),
        "main\n"
        "tfd-run: error: one.tfd:1:13: \"table.csv\", line 3: column \"x\" "
        "is "
        "empty; csv(..., missing = 0) gives such fields a value\n"
        "    1 | dataset d = csv(\"table.csv\", (x: f32, y: i32))\n"
        "      |             ^~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~\n"
        "one.tfd:4:12: note: an element is taken from here\n");
}

/* The end of a packed file is met in whichever record was asked for last. */
static void
faults_of_a_packed_file_are_told_with_their_line(void **state)
{
    Arena *a = *state;
    char *packed;
    size_t len;
    const char *dir = write_files(a);
    assert_null(file_read(a, at(a, dir, "digits.gz"), &packed, &len));
    make_file(at(a, dir, "cut.gz"), packed, len - 9);
    assert_string_equal(
        told(a, dir, "idx(\"cut.gz\", u8[2, 2])"),
        arena_printf(a,
                     "main\n"
                     "tfd-run: error: \"%s/cut.gz\" cannot be unpacked: its "
                     "end is missing\n"
                     "    1 | dataset d = idx(\"cut.gz\", u8[2, 2])\n"
                     "      |             ^~~~~~~~~~~~~~~~~~~~~~~\n"
                     "one.tfd:4:12: note: an element is taken from here\n"
                     "tfd-run: note: while reading idx at one.tfd:1:13\n",
                     dir));
}

/* Steps that are made ahead of the first pass, which takes one, come to 5 after
 * 4 0 7; the second pass begins with 1. */
static void
each_pass_has_its_own_fault(void **state)
{
    Arena *a = *state;
    const char *dir = work_dir(a);
    write_text(at(a, dir, "passes.tfd"),
               "fn check(i) {\n"
               "  assert(i != 1 and i != 5, \"bad {i}\")\n"
               "  return i\n"
               "}\n"
               "dataset d = range(8).shuffle(8).map(check).batch(1)\n"
               "fn show(x) { print(\"{sum(x)}\") }\n"
               "main {\n"
               "  for pass in 0..2 {\n"
               "    let it = iter(distribute(d))\n"
               "    if has_next(it) { run show(next(it)) }\n"
               "    let begin = now()\n"
               "    while now() - begin < 0.3 { }\n"
               "  }\n"
               "}\n");
    run_ok(a, "tfdc %s/passes.tfd", dir);
    Ran r = run(a, "tfd-run %s/passes.tfp --seed 1", dir);
    assert_int_equal(r.code, 1);
    assert_string_equal(r.out, "4\n");
    if (!strstr(r.err, "error: passes.tfd:2:3: bad 1\n"))
        fail_msg("%s", r.err);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_format_on_any_number_of_devices),
        cmocka_unit_test(several_pipelines_at_once),
        cmocka_unit_test(mistakes_are_told_before_main_begins),
        cmocka_unit_test(mistakes_further_on_are_told_with_their_line),
        cmocka_unit_test(faults_of_a_packed_file_are_told_with_their_line),
        cmocka_unit_test(each_pass_has_its_own_fault),
    };
    return cmocka_run_group_tests_name("data", tests, new_arena, release_arena);
}
