/*
 * files_test.c - sources that read files: bytes and npy
 */
#include "tests/unit/unit.h"
#include "tests/unit/dir.h"

#include <sys/stat.h>
#include "runtime/base/file.h"
#include "runtime/data/npy.h"
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

/* What is printed when the iterator is made. */
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
                     "holds '<f8' of shape [3, 2], not rows of f32[2]; its "
                     "rows are f64[2]");
    expect_npy_error("{'descr': '>f4', 'fortran_order': False, 'shape': (3, "
                     "2), }",
                     24,
                     "holds '>f4' of shape [3, 2], not rows of f32[2]; save "
                     "it with x.astype('<f4')");
    expect_npy_error("{'descr': '<f4', 'fortran_order': False, 'shape': (3, "
                     "4), }",
                     48,
                     "holds '<f4' of shape [3, 4], not rows of f32[2]; its "
                     "rows are f32[4]");
    expect_npy_error("{'descr': '<f4', 'fortran_order': False, 'shape': (6,), "
                     "}",
                     24,
                     "holds '<f4' of shape [6], not rows of f32[2]; its rows "
                     "are f32");
    expect_npy_error("{'descr': '<f4', 'fortran_order': False, 'shape': (), }",
                     24, "holds '<f4' of shape [], not rows of f32[2]");
    expect_npy_error("{'descr': '<f4', 'fortran_order': True, 'shape': (3, 2), "
                     "}",
                     24,
                     "is in column-major order; save it with "
                     "numpy.ascontiguousarray");
    expect_npy_error("{'descr': '<f4', 'fortran_order': False, 'shape': (3, "
                     "2), }",
                     23, "is cut short: 23 bytes of elements");
    expect_npy_error("{'descr': '<f4', 'fortran_order': False, 'shape': "
                     "(4611686018427387904, 2), }",
                     24, "is cut short: 24 bytes of elements");
    expect_npy_error("{'descr': [('x', '<f4')], 'fortran_order': False, "
                     "'shape': (3, 2), }",
                     24, "is no .npy file");
}

/* ---- headers ------------------------------------------------------------ */

/* A header of a version whose length has so many bytes. */
static bool
parse_header(int version, const char *dictionary, NpyHeader *h)
{
    char file[512] = "\x93NUMPY";
    size_t n = strlen(dictionary), at = version == 1 ? 10 : 12;
    file[6] = (char)version;
    file[8] = (char)n;
    memcpy(file + at, dictionary, n);
    return npy_parse(file, at + n, h);
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
            NpyHeader h;
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
    NpyHeader h;
    (void)state;
    for (size_t i = 0; i < sizeof dictionaries / sizeof *dictionaries; i++)
        assert_false(parse_header(1, dictionaries[i], &h));
    assert_false(parse_header(
        4, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }", &h));
    assert_false(npy_parse("\x93NUMPY\1\0\377\377{", 11, &h));
    assert_false(npy_parse("\x93NUMPY\2\0\0\0\0", 11, &h));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, new_dir, release_arena)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(bytes_are_elements),
        TEST(bytes_are_divided_as_files),
        TEST(an_empty_file_has_no_elements),
        TEST(paths_may_be_absolute),
        TEST(a_missing_file_is_named),
        TEST(npy_rows_are_elements),
        TEST(npy_of_each_dtype),
        TEST(an_npy_without_rows_is_empty),
        TEST(a_file_of_another_type_is_refused),
        TEST(headers_that_are_read),
        TEST(headers_that_are_refused),
    };
    return cmocka_run_group_tests_name("files", tests, NULL, NULL);
}
