/*
 * files_test.c - sources that read files: bytes, npy and npz
 */
#include "tests/unit/unit.h"
#include "tests/unit/dir.h"

#include <sys/stat.h>
#include <unistd.h>
#include "ir/base/io/file.h"
#include "runtime/data/npy.h"
#include "tests/data/make.h"
#include "tests/data/pipe.h"

static void
write_file(const void *bytes, size_t len)
{
    assert_null(file_write(in_dir("file"), bytes, len));
}

/* ---- bytes -------------------------------------------------------------- */

#define BYTES "bytes \"file\" : u8 at 3:4+5\n"
#define BYTES_BATCH(n) "batch size=" #n " drop_remainder=0 : u8[b" #n "]"

static const char *
steps_of(const char *stages, int replicas)
{
    Pipe pipe = {.stages = stages, .replicas = replicas, .dir = dir};
    return pipe_steps(arena, &pipe);
}

static void
bytes_are_elements(void **state)
{
    (void)state;
    write_file("AB\0\xff!", 5);
    assert_string_equal(steps_of(BYTES BYTES_BATCH(8), 1), "[65 66 0 255 33]");
    assert_string_equal(steps_of(BYTES
                                 "window size=2 stride=1 : u8[2]\n"
                                 "batch size=8 drop_remainder=0 : u8[b8, 2]",
                                 1),
                        "[[65 66] [66 0] [0 255] [255 33]]");
}

/* A file with a hole of 2^38 bytes, which nobody could read in time. */
static void
bytes_are_skipped_at_once(void **state)
{
    static const int64_t hole = (int64_t)1 << 38;
    (void)state;
    write_file("AB", 2);
    assert_int_equal(truncate(in_dir("file"), hole + 2), 0);
    assert_string_equal(
        steps_of(arena_printf(arena,
                              "bytes \"file\" : u8\nskip count=%lld : u8\n%s",
                              (long long)hole, BYTES_BATCH(8)),
                 1),
        "[0 0]");
    assert_string_equal(
        steps_of(arena_printf(arena,
                              "bytes \"file\" : u8\nrepeat count=3 : u8\n"
                              "skip count=%lld : u8\ntake count=3 : u8\n%s",
                              (long long)(2 * hole + 3), BYTES_BATCH(8)),
                 1),
        "[0 65 66]");
}

/* bytes is a file: V2 (section 7.2). */
static void
bytes_are_divided_as_files(void **state)
{
    (void)state;
    write_file("ABCDEFGHIJ", 10);
    assert_string_equal(steps_of(BYTES BYTES_BATCH(4), 3),
                        "[65 66]/[67]/[68]; [69 70]/[71]/[72]; [73 74]/[]/[]");
    Pipe data = {.stages = BYTES BYTES_BATCH(4),
                 .shard = "data",
                 .replicas = 2,
                 .dir = dir};
    assert_string_equal(pipe_steps(arena, &data),
                        "[65 66]/[67 68]; [69 70]/[71 72]; [73]/[74]");
    Pipe file = data;
    file.shard = "file";
    assert_string_equal(pipe_steps(arena, &file),
                        "[65 66]/[67 68]; [69 70]/[71 72]; [73 74]/[]");
}

static void
an_empty_file_has_no_elements(void **state)
{
    (void)state;
    write_file("", 0);
    assert_string_equal(steps_of(BYTES BYTES_BATCH(8), 2), "");
}

static void
paths_may_be_absolute(void **state)
{
    (void)state;
    write_file("AB", 2);
    Pipe pipe = {.stages = arena_printf(arena, "bytes \"%s/file\" : u8\n%s",
                                        dir, BYTES_BATCH(8)),
                 .dir = "/nowhere"};
    assert_string_equal(pipe_steps(arena, &pipe), "[65 66]");
}

/* The output when the iterator is made. */
static const char *
report_of(const char *stages)
{
    Pipe pipe = {.stages = stages, .dir = dir};
    PipeRun run;
    char *text = NULL;
    size_t len;
    Status st = pipe_open(arena, &pipe, &run);
    assert_non_null(st);
    FILE *to = open_memstream(&text, &len);
    assert_int_equal(status_report(st, "tfd-run", to), 1);
    fclose(to);
    status_free(st);
    const char *copy = arena_strdup(arena, text);
    free(text);
    return copy;
}

static void
a_missing_file_is_named(void **state)
{
    (void)state;
    assert_string_equal(
        report_of("bytes \"none.txt\" : u8 at 3:4+5\n" BYTES_BATCH(8)),
        arena_printf(arena,
                     "tfd-run: error: cannot open \"%s/none.txt\": No such "
                     "file or directory\n"
                     "tfd-run: note: while opening bytes(\"none.txt\") at "
                     "test.tfd:3:4\n"
                     "tfd-run: note: while opening the dataset \"data\"\n",
                     dir));
}

/* ---- npy ---------------------------------------------------------------- */

/* A file of version 1 with this dictionary. */
static void
write_npy(const char *dictionary, const void *elements, size_t bytes)
{
    size_t n = strlen(dictionary);
    char *file = arena_alloc(arena, 10 + n + bytes);
    memcpy(file, "\x93NUMPY\1\0", 8);
    file[8] = (char)n;
    memcpy(file + 10, dictionary, n);
    if (bytes)
        memcpy(file + 10 + n, elements, bytes);
    write_file(file, 10 + n + bytes);
}

#define NPY(type) "npy \"file\" : " type " at 3:4+5\n"

static void
npy_rows_are_elements(void **state)
{
    static const int16_t x[] = {1, 2, 3, 4, 5, 6};
    (void)state;
    write_npy("{'descr': '<i2', 'fortran_order': False, 'shape': (3, 2), }", x,
              sizeof x);
    assert_string_equal(
        steps_of(NPY("i16[2]") "batch size=2 drop_remainder=0 : i16[b2, 2]", 2),
        "[[1 2]]/[[3 4]]; [[5 6]]/[]");
    assert_string_equal(
        steps_of(NPY("i16[2]") "repeat count=2 : i16[2]\n"
                               "skip count=1 : i16[2]\n"
                               "batch size=8 drop_remainder=0 : i16[b8, 2]",
                 1),
        "[[3 4] [5 6] [1 2] [3 4] [5 6]]");
    assert_string_equal(
        steps_of(
            NPY("i16[2]") "skip count=2 : i16[2]\nrepeat count=2 : i16[2]\n"
                          "batch size=8 drop_remainder=0 : i16[b8, 2]",
            1),
        "[[5 6] [5 6]]");
    assert_string_equal(
        steps_of(NPY("i16[2]") "skip count=4 : i16[2]\n"
                               "batch size=8 drop_remainder=0 : i16[b8, 2]",
                 1),
        "");
}

static void
npy_of_each_dtype(void **state)
{
    static const struct {
        const char *type, *descr, *want;
        int count;
        unsigned char bytes[8];
        size_t size;
    } files[] = {
        {"f64", "<f8", "[1.5]", 1, {0, 0, 0, 0, 0, 0, 0xf8, 0x3f}, 8},
        {"f32", "<f4", "[-2.0]", 1, {0, 0, 0, 0xc0}, 4},
        {"f16", "<f2", "[1.0]", 1, {0, 0x3c}, 2},
        {"i64", "<i8", "[258]", 1, {2, 1, 0, 0, 0, 0, 0, 0}, 8},
        {"i32", "<i4", "[-1 258]", 2, {255, 255, 255, 255, 2, 1, 0, 0}, 8},
        {"i16", "<i2", "[258]", 1, {2, 1}, 2},
        {"i8", "|i1", "[-1 7]", 2, {255, 7}, 2},
        {"u8", "|u1", "[255 7]", 2, {255, 7}, 2},
        {"bool", "|b1", "[0 1 1]", 3, {0, 1, 2}, 3},
    };
    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        write_npy(arena_printf(arena,
                               "{'descr': '%s', 'fortran_order': False, "
                               "'shape': (%d,), }",
                               files[i].descr, files[i].count),
                  files[i].bytes, files[i].size);
        assert_string_equal(
            steps_of(arena_printf(arena,
                                  "npy \"file\" : %s\n"
                                  "batch size=8 drop_remainder=0 : %s[b8]",
                                  files[i].type, files[i].type),
                     1),
            files[i].want);
    }
}

static void
an_npy_without_rows_is_empty(void **state)
{
    (void)state;
    write_npy("{'descr': '<f4', 'fortran_order': False, 'shape': (0, 3), }", "",
              0);
    assert_string_equal(
        steps_of(NPY("f32[3]") "batch size=8 drop_remainder=0 : f32[b8, 3]", 2),
        "");
}

static void
expect_npy_error(const char *dictionary, size_t bytes, const char *want)
{
    static const char zeros[256];
    write_npy(dictionary, zeros, bytes);
    assert_string_equal(
        steps_of(NPY("f32[2]") "batch size=8 drop_remainder=0 : f32[b8, 2]", 1),
        arena_printf(arena, "error: test.tfd:3:4: \"file\" %s", want));
}

static void
a_file_of_another_type_is_refused(void **state)
{
    (void)state;
    expect_npy_error("{'descr': '<f8', 'fortran_order': False, 'shape': (3, "
                     "2), }",
                     48,
                     "has rows of f64[2], not of f32[2]: NumPy wrote '<f8' of "
                     "shape [3, 2]");
    expect_npy_error("{'descr': '>f4', 'fortran_order': False, 'shape': (3, "
                     "2), }",
                     24,
                     "holds '>f4' of shape [3, 2], not rows of f32[2]; save "
                     "it with x.astype('<f4')");
    expect_npy_error("{'descr': '<f4', 'fortran_order': False, 'shape': (3, "
                     "4), }",
                     48,
                     "has rows of f32[4], not of f32[2]: NumPy wrote '<f4' of "
                     "shape [3, 4]");
    expect_npy_error("{'descr': '<f4', 'fortran_order': False, 'shape': (6,), "
                     "}",
                     24,
                     "has rows of f32, not of f32[2]: NumPy wrote '<f4' of "
                     "shape [6]");
    expect_npy_error("{'descr': '<f4', 'fortran_order': False, 'shape': (), }",
                     24, "holds '<f4' of shape [], not rows of f32[2]");
    expect_npy_error("{'descr': '<f4', 'fortran_order': True, 'shape': (3, 2), "
                     "}",
                     24,
                     "is in column-major order; save it with "
                     "numpy.ascontiguousarray");
    expect_npy_error("{'descr': '<f4', 'fortran_order': False, 'shape': (3, "
                     "2), }",
                     23,
                     "is cut short: it has 23 bytes of elements, and its "
                     "header states 24, so 1 are missing");
    expect_npy_error("{'descr': '<f4', 'fortran_order': False, 'shape': "
                     "(4611686018427387904, 2), }",
                     24,
                     "is cut short: it has 24 bytes of elements, and its "
                     "header states more than any file has");
    expect_npy_error("{'descr': [('x', '<f4')], 'fortran_order': False, "
                     "'shape': (3, 2), }",
                     24,
                     "holds records of several fields; save x['name'] of each "
                     "field as an array");
    expect_npy_error("{'descr': 3, 'fortran_order': False, 'shape': (3, 2), }",
                     24, "is no .npy file");
    expect_npy_error("{'descr': '<u2', 'fortran_order': False, 'shape': (3, "
                     "2), }",
                     12,
                     "holds '<u2' of shape [3, 2], not rows of f32[2]; save it "
                     "with x.astype('<i4'), as i32");
    expect_npy_error("{'descr': '<U2', 'fortran_order': False, 'shape': (3, "
                     "2), }",
                     48, "holds '<U2' of shape [3, 2], not rows of f32[2]");
}

/* ---- npz ---------------------------------------------------------------- */

#define NPZ "npz \"t.npz\" names \"x\", \"y\" : i32, i8\n"
#define PAIRS "batch size=2 drop_remainder=0 : i32[b2], i8[b2]"

/* More than a block of bytes is left out, of arrays of two widths. */
static void
rows_of_arrays_are_skipped(void **state)
{
    enum { ROWS = 200000 };
    int32_t *x = arena_alloc(arena, ROWS * sizeof *x);
    int8_t *y = arena_alloc(arena, ROWS);
    const MakeArray both[] = {{"x", "<i4", "(200000,)", x, ROWS * sizeof *x},
                              {"y", "|i1", "(200000,)", y, ROWS}};
    (void)state;
    for (int i = 0; i < ROWS; i++) {
        x[i] = i;
        y[i] = (int8_t)(i % 100);
    }
    for (int packed = 0; packed < 2; packed++) {
        make_npz(in_dir("t.npz"), 2, both, packed);
        assert_string_equal(steps_of(NPZ "skip count=150001 : i32, i8\n"
                                         "take count=2 : i32, i8\n" PAIRS,
                                     1),
                            "[150001 150002]+[1 2]");
        assert_string_equal(steps_of(NPZ "repeat count=2 : i32, i8\n"
                                         "skip count=399999 : i32, i8\n" PAIRS,
                                     1),
                            "[199999]+[99]");
    }
}

/* ---- headers ------------------------------------------------------------ */

/* A header of a version whose length has n bytes. */
static bool
parse_header(int version, const char *dictionary, RtNpyHeader *h)
{
    char file[512] = "\x93NUMPY";
    size_t n = strlen(dictionary), at = version == 1 ? 10 : 12;
    file[6] = (char)version;
    file[8] = (char)n;
    memcpy(file + at, dictionary, n);
    return rt_npy_parse(file, at + n, h);
}

static void
headers_that_are_read(void **state)
{
    static const char *const dictionaries[] = {
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }    \n",
        "{'shape': (3, 4), 'descr': '<f4', 'fortran_order': False}",
        "{\"descr\":\"<f4\",\"fortran_order\":False,\"shape\":(3,4,)}",
        " { 'fortran_order' : False , 'descr' : '<f4' , 'shape' : ( 3 , 4 ) }",
    };
    (void)state;
    for (int version = 1; version <= 3; version++)
        for (size_t i = 0; i < sizeof dictionaries / sizeof *dictionaries;
             i++) {
            RtNpyHeader h;
            assert_true(parse_header(version, dictionaries[i], &h));
            assert_string_equal(h.descr, "<f4");
            assert_false(h.fortran_order);
            assert_int_equal(h.rank, 2);
            assert_int_equal(h.shape[0], 3);
            assert_int_equal(h.shape[1], 4);
            assert_int_equal(h.offset, (version == 1 ? 10 : 12) +
                                           strlen(dictionaries[i]));
        }
}

static void
headers_that_are_refused(void **state)
{
    static const char *const dictionaries[] = {
        "",
        "{",
        "{}",
        "{'descr': '<f4', 'fortran_order': False}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4)",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3 4)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-3, 4)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': "
        "(99999999999999999999,)}",
        "{'descr': '<f4', 'fortran_order': None, 'shape': (3, 4)}",
        "{'descr': '<f4, 'fortran_order': False, 'shape': (3, 4)}",
        "{'descr': 'a name of a dtype that is longer', 'fortran_order': False, "
        "'shape': (3, 4)}",
        "{'descr': '\n', 'fortran_order': False, 'shape': (3, 4)}",
        "{'more': 1, 'descr': '<f4', 'fortran_order': False, 'shape': (3, 4)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1,"
        "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1)}",
    };
    RtNpyHeader h;
    (void)state;
    for (size_t i = 0; i < sizeof dictionaries / sizeof *dictionaries; i++)
        assert_false(parse_header(1, dictionaries[i], &h));
    assert_false(parse_header(
        4, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }", &h));
    assert_false(rt_npy_parse("\x93NUMPY\1\0\377\377{", 11, &h));
    assert_false(rt_npy_parse("\x93NUMPY\2\0\0\0\0", 11, &h));
}

/* ---- files that fail while they are read --------------------------------- */

enum { ROW = 16384, ROWS_OF_ONE = 5, ROWS_OF_TWO = 40, MAX_STATES = 40 };

/* More than a stream reads at once; row i is bytes i + 1. */
static void
write_rows(const char *name, int n)
{
    char *bytes = arena_alloc(arena, (size_t)n * ROW);
    for (int i = 0; i < n; i++)
        memset(bytes + i * ROW, i + 1, ROW);
    assert_null(file_write(in_dir(name), bytes, (size_t)n * ROW));
}

static void
cut_to(const char *name, int bytes)
{
    assert_int_equal(truncate(in_dir(name), bytes), 0);
}

static void
add_rows(Str *s, const PipeRun *run, size_t row)
{
    for (int r = 0; r < run->replicas; r++) {
        const unsigned char *data = rt_iter_data(run->it, r, 0);
        int64_t n = run->equal ? 1 : rt_iter_rows(run->it, r);
        for (int64_t i = 0; i < n; i++)
            str_addf(s, " %d", data[(size_t)i * row]);
    }
}

/* A step's rows, or the error that ends the pass, and whether it has more. */
static bool
add_step(Str *s, const PipeRun *run)
{
    bool more = false;
    Status st = rt_iter_has_next(run->it, &more);
    if (!st && more) {
        assert_null(rt_iter_next(run->it));
        add_rows(s, run, ROW);
    } else if (st) {
        str_addf(s, " error: %s", status_message(st));
    }
    status_free(st);
    return more;
}

/* The states of a run before each of its steps, when a file is truncated before
 * one of them, and the elements until then. */
typedef struct States {
    RtArchive of[MAX_STATES];
    size_t done[MAX_STATES]; /* of the text */
    int num;
    Str text;
} States;

static void
add_state(States *all, const PipeRun *run)
{
    int i = all->num++;
    assert_true(i < MAX_STATES);
    all->of[i] = rt_archive_writer(arena, 0);
    assert_null(rt_iter_archive(run->it, &all->of[i], NULL));
    all->done[i] = all->text.len;
}

/* The last one is that of the fault itself, of which nothing remains. */
static void
run_until_fault(const Pipe *pipe, int good, States *all)
{
    PipeRun run = pipe_run(arena, pipe);
    assert_null(rt_iter_open(run.it, 0));
    *all = (States){.text = str_new(arena)};
    do {
        if (all->num == good)
            cut_to("two", 6 * ROW + ROW / 2);
        add_state(all, &run);
    } while (add_step(&all->text, &run));
    add_state(all, &run);
    all->done[all->num - 1] = all->done[all->num - 2];
}

static const char *
rest_after(const Pipe *pipe, const RtArchive *state_of)
{
    Str s = str_new(arena);
    PipeRun run = pipe_run(arena, pipe);
    RtArchive reader = rt_archive_reader(arena, state_of->data, state_of->len);
    assert_null(rt_iter_archive(run.it, &reader, NULL));
    assert_null(rt_archive_end(&reader));
    while (add_step(&s, &run))
        ;
    return str_text(&s);
}

static const char *
rows_in_peace(const Pipe *pipe)
{
    Str s = str_new(arena);
    PipeRun run = pipe_run(arena, pipe);
    assert_null(rt_iter_open(run.it, 0));
    while (add_step(&s, &run))
        ;
    return str_text(&s);
}

#define TWO_FILES "bytes \"one\", \"two\" : u8[16384] at 3:4+5\n"
#define IN_BATCHES(n) "batch size=" #n " drop_remainder=0 : u8[b" #n ", 16384]"

static const struct {
    const char *stages, *second;
    int replicas;
    int good; /* steps before the fault */
} failing[] = {
    {TWO_FILES IN_BATCHES(1), NULL, 1, 8},
    {TWO_FILES IN_BATCHES(3), NULL, 2, 1},
    {TWO_FILES IN_BATCHES(4) "\nprefetch depth=3 : u8[b4, 16384]", NULL, 3, 1},
    {TWO_FILES "shuffle buffer=4 seed=1 reshuffle=1 has_seed=1 : u8[16384]\n"
               "repeat count=2 : u8[16384]\n" IN_BATCHES(2),
     NULL, 1, 4},
    {TWO_FILES "skip count=1 : u8[16384]\ncache : u8[16384]\n"
               "repeat count=2 : u8[16384]\n" IN_BATCHES(3),
     NULL, 2, 1},
    {TWO_FILES "window size=2 stride=1 : u8[2, 16384]\n"
               "unbatch : u8[16384]\n" IN_BATCHES(3),
     NULL, 1, 2},
    {"bytes \"one\" : u8[16384]\nconcat with @second : u8[16384]\n" IN_BATCHES(
         2),
     "bytes \"two\" : u8[16384] at 3:4+5", 2, 1},
};

/* Whichever checkpoint was made meanwhile: once the file is repaired, a resumed
 * run sees what an undisturbed run sees. */
static void
no_fault_of_a_file_is_kept(const Pipe *pipe, int good)
{
    States all;
    write_rows("one", ROWS_OF_ONE);
    write_rows("two", ROWS_OF_TWO);
    const char *whole = rows_in_peace(pipe);
    run_until_fault(pipe, good, &all);
    const char *text = str_text(&all.text);
    const char *error = strstr(text, " error: ");
    if (!error)
        fail_msg("no error: %s: %s", pipe->stages, text);
    if (!strstr(error, " bytes, and had 655360 when it was opened") &&
        !strstr(error, "\"two\" had 655360 bytes when the run began, and has "
                       "106496 now"))
        fail_msg("%s: %s", pipe->stages, text);
    write_rows("two", ROWS_OF_TWO);
    for (int i = 0; i < all.num; i++) {
        const char *rest = rest_after(pipe, &all.of[i]);
        assert_string_equal(
            arena_printf(arena, "%.*s%s", (int)all.done[i], text, rest), whole);
    }
}

static void
faults_of_files_are_not_kept(void **state)
{
    (void)state;
    Arena *test = arena;
    for (size_t i = 0; i < 2 * (sizeof failing / sizeof *failing); i++) {
        Pipe pipe = {.stages = failing[i / 2].stages,
                     .second = failing[i / 2].second,
                     .replicas = failing[i / 2].replicas,
                     .threads = i % 2,
                     .dir = dir};
        arena = arena_new(test, "a pipeline");
        no_fault_of_a_file_is_kept(&pipe, failing[i / 2].good);
        arena_release(arena);
        arena = test;
    }
}

/* Elements that were taken before the fault are gone. */
static void
a_state_that_data_have_not_is_told(void **state)
{
    States all;
    Pipe pipe = {.stages = failing[0].stages, .dir = dir};
    (void)state;
    write_rows("one", ROWS_OF_ONE);
    write_rows("two", ROWS_OF_TWO);
    run_until_fault(&pipe, 8, &all);
    write_rows("one", 2);
    write_rows("two", 1);
    assert_string_equal(rest_after(&pipe, &all.of[all.num - 1]),
                        " error: the data of \"data\" end after 3 steps of a "
                        "pass, of which the checkpoint has seen 9");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, new_dir, release_arena)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(bytes_are_elements),
        TEST(bytes_are_skipped_at_once),
        TEST(bytes_are_divided_as_files),
        TEST(an_empty_file_has_no_elements),
        TEST(paths_may_be_absolute),
        TEST(a_missing_file_is_named),
        TEST(npy_rows_are_elements),
        TEST(rows_of_arrays_are_skipped),
        TEST(npy_of_each_dtype),
        TEST(an_npy_without_rows_is_empty),
        TEST(a_file_of_another_type_is_refused),
        TEST(headers_that_are_read),
        TEST(headers_that_are_refused),
        TEST(faults_of_files_are_not_kept),
        TEST(a_state_that_data_have_not_is_told),
    };
    return cmocka_run_group_tests_name("files", tests, NULL, NULL);
}
