/*
 * formats_test.c - csv, lines, IDX, TFRecord and npz files, valid and damaged
 *
 * Files are made here, as their formats say.  Each pipeline is run once more by
 * pipelines that take turns, so that places in files are archived, too.
 */
#include "tests/unit/unit.h"
#include "tests/unit/dir.h"

#include <unistd.h>
#include "ir/base/io/file.h"
#include "tests/data/make.h"
#include "tests/data/pipe.h"

static void
write_file(const char *name, const void *bytes, size_t len)
{
    make_file(in_dir(name), bytes, len);
}

static void
write_packed(const char *name, int packing, const void *bytes, size_t len)
{
    make_packed(in_dir(name), packing, bytes, len);
}

static void
write_text(const char *name, const char *text)
{
    write_file(name, text, strlen(text));
}

/* The elements of a dataset of these stages. */
static void
expect(const char *stages, const char *want)
{
    Pipe pipe = {.stages = stages, .dir = dir};
    assert_string_equal(pipe_steps(arena, &pipe), want);
    if (strncmp(want, "error: ", 7) == 0)
        return;
    PipeRun run = pipe_run(arena, &pipe);
    assert_string_equal(pipe_pass(arena, &run), want);
    assert_string_equal(pipe_pass(arena, &run), want);
    assert_string_equal(pipe_pass_in_turns(arena, &pipe), want);
    pipe.threads = true;
    assert_string_equal(pipe_steps(arena, &pipe), want);
}

/* An error of a source at 3:4. */
static void
expect_error(const char *stages, const char *want)
{
    expect(stages, arena_printf(arena, "error: test.tfd:3:4: %s", want));
}

#define AT " at 3:4+5\n"
#define BATCH(n, types) "batch size=" #n " drop_remainder=0 : " types

/* ---- csv ----------------------------------------------------------------- */

#define CSV(header, names, types)                                              \
    "csv header=" #header " separator=44 \"t.csv\"" names " : " types AT
#define ONE CSV(0, "", "i32") BATCH(2, "i32[b2]")
#define TWO CSV(0, "", "f32, i32") BATCH(8, "f32[b8], i32[b8]")
#define NAMED(a, b)                                                            \
    CSV(2, " names \"" a "\", \"" b "\"", "f32, i32")                          \
    BATCH(8, "f32[b8], i32[b8]")
#define TEXT CSV(0, "", "u8[3]") BATCH(8, "u8[b8, 3]")

static const struct {
    const char *file, *stages, *want;
} csv_files[] = {
    {"1\n2\n3\n", ONE, "[1 2]; [3]"},
    {"1\r\n2\r\n3", ONE, "[1 2]; [3]"},
    {"\n1\n\r\n\n2\n\n", ONE, "[1 2]"},
    {"\r1\r\r2\r3", ONE, "[1 2]; [3]"},
    {"1\r2\n3\r\r\n", ONE, "[1 2]; [3]"},
    {"b,a\r2,1.5\r\"3\",2.5\r", NAMED("a", "b"), "[1.5 2.5]+[2 3]"},
    {"\"a\rb\"\rc\r", TEXT, "[[97 13 98] [99 0 0]]"},
    {"\xef\xbb\xbf"
     "1\n",
     ONE, "[1]"},
    {"", ONE, ""},
    {"\n\n", ONE, ""},
    {" 1 \n\t-2\n+3", ONE, "[1 -2]; [3]"},
    {"\"1\"\n\"2\"", ONE, "[1 2]"},
    {"1.5,2\n-1e-3,7\n", TWO, "[1.5 -0.001]+[2 7]"},
    {"inf,2\nnan,7\n", TWO, "[inf nan]+[2 7]"},
    {"a,b\n1.5,2\n", NAMED("a", "b"), "[1.5]+[2]"},
    {"b,x,a\n2,word,1.5\n", NAMED("a", "b"), "[1.5]+[2]"},
    {"b,\" x\"\"y,\n\", a \n2,,1.5\n", NAMED("a", "b"), "[1.5]+[2]"},
    {"a,b\n", NAMED("a", "b"), ""},
    {"one line\n1\n", CSV(1, "", "i32") BATCH(2, "i32[b2]"), "[1]"},
    {"1,2,3\n4,5,6\n",
     CSV(0, " names \"2\", \"0\"", "i32, f32") BATCH(2, "i32[b2], f32[b2]"),
     "[3 6]+[1.0 4.0]"},
    {"1,2,3,4,5\n",
     CSV(0, "", "i8, f32[2, 2]") BATCH(1, "i8[b1], f32[b1, 2, 2]"),
     "[1]+[[[2.0 3.0] [4.0 5.0]]]"},
    {"abc\nx\n\"a\"\"b\"\n\" , \"", TEXT,
     "[[97 98 99] [120 0 0] [97 34 98] [32 44 32]]"},
    {"true\nFALSE\n1\n0\n", CSV(0, "", "bool") BATCH(8, "bool[b8]"),
     "[1 0 1 0]"},
    {"255\n", CSV(0, "", "u8") BATCH(1, "u8[b1]"), "[255]"},
    {"1;2\n",
     "csv header=0 separator=59 \"t.csv\" : i32, i32\n" BATCH(
         1, "i32[b1], i32[b1]"),
     "[1]+[2]"},
    {"1,\n,2\nNA,null\n",
     "csv header=0 separator=44 \"t.csv\" data=hex\"0000c0bf07000000\" : f32, "
     "i32\n" BATCH(8, "f32[b8], i32[b8]"),
     "[1.0 -1.5 -1.5]+[7 2 7]"},
    /* numbers that are rounded once */
    {"16777217,1\n0.1,1\n1e-46,1", TWO, "[16777216.0 0.1 0.0]+[1 1 1]"},
    {"16777217.0000001,1\n3.4028235e38,1\n1e-40,1\n1.5E+2,1\n-.5,1\n5.,-0\n",
     TWO, "[16777218.0 3.4028235e38 1e-40 150.0 -0.5 5.0]+[1 1 1 1 1 0]"},
    {"1.000000059604644775390624,1\n1.000000059604644775390626,1\n"
     "123456789e-30,1\n0.00000000000000000000000000001,1\n",
     TWO, "[1.0 1.0000001 1.234568e-22 1e-29]+[1 1 1 1]"},
    {"9007199254740993\n0.1\n1e23\n-0.0\n123456789012345678\n",
     CSV(0, "", "f64") BATCH(8, "f64[b8]"),
     "[9007199000000000.0 0.1 1e23 -0.0 1.2345679e17]"},
    {"9223372036854775807\n-9223372036854775808\n007\n",
     CSV(0, "", "i64") BATCH(8, "i64[b8]"),
     "[9223372036854775807 -9223372036854775808 7]"},
};

static void
tables(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof csv_files / sizeof *csv_files; i++) {
        write_text("t.csv", csv_files[i].file);
        expect(csv_files[i].stages, csv_files[i].want);
    }
}

/* Errors of the first row are found when the file is opened, of others when
 * they are asked for. */
static const struct {
    const char *file, *stages, *want;
} csv_errors[] = {
    {"1\nx\n", ONE, "\"t.csv\", line 2: \"x\" in column 0 is no i32"},
    {"x\n1\n", ONE,
     "\"t.csv\", line 1: \"x\" in column 0 is no i32; "
     "csv(..., header = true) leaves out a first line of names"},
    {"1\r\rx\r", ONE, "\"t.csv\", line 3: \"x\" in column 0 is no i32"},
    {"1\n\n\n2.0\n", ONE,
     "\"t.csv\", line 4: \"2.0\" in column 0 is no i32; "
     "declare it as f32"},
    {"1\n99999999999\n", ONE,
     "\"t.csv\", line 2: \"99999999999\" in column 0 is no i32; "
     "declare it as i64"},
    {"1\n\"\"\n", ONE,
     "\"t.csv\", line 2: column 0 is empty; csv(..., missing = 0) gives such "
     "fields a value"},
    {"1\n\"2\n3\n", ONE,
     "\"t.csv\", line 2: a field that begins with \" has no end"},
    {"1\n2\"\n", ONE,
     "\"t.csv\", line 2: a quote stands in a field that does not begin with "
     "one; write \"...\"\"...\""},
    {"1\n\"2\"3\n", ONE,
     "\"t.csv\", line 2: text stands behind a field in quotes; a quote in one "
     "is written \"\""},
    {"1,2\n", ONE,
     "\"t.csv\" has 2 columns, and the program takes 1; names = (0,) takes "
     "some by number"},
    {"1,2,3\n", TWO,
     "\"t.csv\" has 3 columns, and the program takes 2; names = (0, 1) takes "
     "some by number"},
    {"a;b\n1;2\n", NAMED("a", "b"),
     "\"t.csv\" has no column \"a\"; it has \"a;b\": write separator = \";\" "
     "in csv(...)"},
    {"a\tb\n1\t2\n", NAMED("a", "b"),
     "\"t.csv\" has no column \"a\"; it has \"a\tb\": write separator = "
     "\"\t\" (a tab) in csv(...)"},
    {"1\n", TWO,
     "\"t.csv\" has 1 columns, and component 1 takes 1 from column 1"},
    {"1.0,2\n3.0\n", TWO,
     "\"t.csv\", line 2: it has 1 fields, and those before 2"},
    {"a,b\n1,\"2\n\"\n1\n",
     CSV(2, " names \"a\", \"b\"", "f32, u8[3]") BATCH(2, "f32[b2], u8[b2, 3]"),
     "\"t.csv\", line 4: it has 1 fields, and those before 2"},
    {"a,c\n1,2\n", NAMED("a", "b"),
     "\"t.csv\" has no column \"b\"; it has \"a\", \"c\""},
    {"apple,b\n1,2\n", NAMED("aple", "b"),
     "\"t.csv\" has no column \"aple\"; it has \"apple\", \"b\": write apple "
     "in place of aple"},
    {"a,b,a\n1,2,3\n", NAMED("a", "b"), "\"t.csv\" has two columns \"a\""},
    {"", NAMED("a", "b"), "\"t.csv\" is empty: it has no line of names"},
    {"a,b\n1,x\n", NAMED("a", "b"),
     "\"t.csv\", line 2: \"x\" in column \"b\" is no i32"},
    {"0x10,1\n", TWO, "\"t.csv\", line 1: \"0x10\" in column 0 is no f32"},
    {"1e39,1\n", TWO, "\"t.csv\", line 1: \"1e39\" in column 0 is no f32"},
    {"1e,1\n", TWO, "\"t.csv\", line 1: \"1e\" in column 0 is no f32"},
    {".,1\n", TWO, "\"t.csv\", line 1: \".\" in column 0 is no f32"},
    {"1,1e0\n", TWO,
     "\"t.csv\", line 1: \"1e0\" in column 1 is no i32; "
     "declare it as f32"},
    {"1,1.\n", TWO,
     "\"t.csv\", line 1: \"1.\" in column 1 is no i32; "
     "declare it as f32"},
    {"abc\nabcd\n", TEXT,
     "\"t.csv\", line 2: column 0 has 4 bytes, more than u8[3] holds: write "
     "u8[4] or longer"},
    {"2\n", CSV(0, "", "bool") BATCH(8, "bool[b8]"),
     "\"t.csv\", line 1: \"2\" in column 0 is no bool; "
     "declare it as i64"},
    {"-1\n", CSV(0, "", "u8") BATCH(1, "u8[b1]"),
     "\"t.csv\", line 1: \"-1\" in column 0 is no u8; "
     "declare it as i64"},
};

static void
wrong_tables(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof csv_errors / sizeof *csv_errors; i++) {
        write_text("t.csv", csv_errors[i].file);
        expect_error(csv_errors[i].stages, csv_errors[i].want);
    }
}

#define ZERO(column)                                                           \
    "line " column " has a zero byte, as no number or name has; a file in "    \
    "UTF-16 is to be converted to UTF-8"

/* Texts may have them; numbers and names do not end there. */
static void
zero_bytes_in_tables(void **state)
{
    static const char numbers[] = "a,b\n\"1\0junk\",3\n", behind[] = "1\0 \n",
                      names[] = "a\0,b\n1,3\n", texts[] = "1\0x\n",
                      wide[] = "\xff\xfe"
                               "a\0,\0b\0\n\0";
    (void)state;
    write_file("t.csv", numbers, sizeof numbers - 1);
    expect_error(NAMED("a", "b"), "\"t.csv\", " ZERO("2: column \"a\""));
    write_file("t.csv", behind, sizeof behind - 1);
    expect_error(ONE, "\"t.csv\", " ZERO("1: column 0"));
    write_file("t.csv", names, sizeof names - 1);
    expect_error(NAMED("a", "b"), "\"t.csv\", " ZERO("1: column 0"));
    write_file("t.csv", wide, sizeof wide - 1);
    expect_error(NAMED("a", "b"), "\"t.csv\", " ZERO("1: column 0"));
    write_file("t.csv", texts, sizeof texts - 1);
    expect(TEXT, "[[49 0 120]]");
}

/* A column may be read more than once. */
static void
a_column_of_two_components(void **state)
{
    (void)state;
    write_text("t.csv", "1  ,2\n");
    expect(CSV(0, " names \"0\", \"0\"", "f32, i32")
               BATCH(8, "f32[b8], i32[b8]"),
           "[1.0]+[1]");
}

/* ---- lines --------------------------------------------------------------- */

#define LINES(cut)                                                             \
    "lines cut=" #cut " \"t.txt\" : u8[3]" AT BATCH(4, "u8[b4, 3]")

static void
lines_of_text(void **state)
{
    (void)state;
    write_text("t.txt", "ab\r\n\ncde\nf");
    expect(LINES(0), "[[97 98 0] [0 0 0] [99 100 101] [102 0 0]]");
    write_text("t.txt", "");
    expect(LINES(0), "");
    write_text("t.txt", "ab\nabcd\n");
    expect_error(LINES(0), "\"t.txt\", line 2: it has 4 bytes, more than u8[3] "
                           "holds: write u8[4] or longer, or cut = true "
                           "behind it");
    expect(LINES(1), "[[97 98 0] [97 98 99]]");
}

/* Longer than the buffer of a file. */
static void
long_lines(void **state)
{
    (void)state;
    enum { LONG = 200000 };
    char *text = arena_alloc(arena, LONG);
    memset(text, 'x', LONG);
    text[LONG - 3] = '\n';
    write_file("t.txt", text, LONG);
    expect(LINES(1), "[[120 120 120] [120 120 0]]");
}

/* ---- IDX ----------------------------------------------------------------- */

#define IDX(type) "idx \"t.idx\" : " type AT

static void
idx_files(void **state)
{
    static const char bytes[] = {0, 0, 8, 2, 0, 0, 0, 3, 0,
                                 0, 0, 2, 1, 2, 3, 4, 5, 6};
    static const char shorts[] = {0, 0, 11, 1, 0, 0, 0, 2, 1, 2, -1, -2};
    static const char untyped[] = {0, 0, 7, 1, 0, 0, 0, 1, 0, 0, 0, 0};
    static const char floats[] = {0, 0, 13, 1, 0, 0, 0, 1, 0x3f, -64, 0, 0};
    const char *stages = IDX("u8[2]") BATCH(2, "u8[b2, 2]");
    (void)state;
    write_file("t.idx", bytes, sizeof bytes);
    expect(stages, "[[1 2] [3 4]]; [[5 6]]");
    write_packed("t.idx", MAKE_GZIP, bytes, sizeof bytes);
    expect(stages, "[[1 2] [3 4]]; [[5 6]]");
    write_file("t.idx", shorts, sizeof shorts);
    expect(IDX("i16") BATCH(2, "i16[b2]"), "[258 -2]");
    write_file("t.idx", floats, sizeof floats);
    expect(IDX("f32") BATCH(2, "f32[b2]"), "[1.5]");
    expect_error(stages, "\"t.idx\" holds f32[1], not rows of u8[2]");
    expect_error(IDX("f64") BATCH(2, "f64[b2]"),
                 "\"t.idx\" holds f32[1], not rows of f64; f64 is what the "
                 "program states, or tfdc --widen made of f32");
    write_file("t.idx", untyped, sizeof untyped);
    expect_error(stages, "\"t.idx\" is no IDX file: its third byte, 0x07, "
                         "stands for no dtype");
    write_file("t.idx", bytes, sizeof bytes - 1);
    expect_error(
        stages,
        "\"t.idx\" is cut short: it has 5 bytes of elements, and its header "
        "states 6, so 1 are missing");
    write_packed("t.idx", MAKE_GZIP, bytes, sizeof bytes - 1);
    expect(stages,
           "[[1 2] [3 4]]; error: test.tfd:3:4: \"t.idx\", record 2: it "
           "is cut short: 1 bytes of 2");
    write_packed("t.idx", MAKE_GZIP, bytes, sizeof bytes - 2);
    expect(stages,
           "[[1 2] [3 4]]; error: test.tfd:3:4: \"t.idx\", record 2: it "
           "is cut short: 0 bytes of 2");
    write_file("t.idx", bytes, 11);
    expect_error(stages, "\"t.idx\" is cut short in its header");
    write_text("t.idx", "text");
    expect_error(stages, "\"t.idx\" is no IDX file");
}

/* ---- TFRecord ------------------------------------------------------------ */

/* Two Examples: x bytes, y integers, z floats, and a feature that no test
 * reads. */
static Str
two_examples(void)
{
    Str file = str_new(arena);
    for (int i = 0; i < 2; i++) {
        Str f = str_new(arena);
        make_ints(&f, "other", 1, (const int64_t[]){7});
        make_bytes(&f, "x", i ? "cd" : "ab", 2);
        make_ints(&f, "y", 1, (const int64_t[]){i ? -2 : 300});
        make_floats(&f, "z", 2, (const float[]){1.5, (float)i});
        make_example(&file, &f);
    }
    return file;
}

#define RECORDS(names, types) "tfrecord \"t.rec\"" names " : " types AT
#define XYZ                                                                    \
    RECORDS(" names \"x\", \"y\", \"z\"", "u8[2], i16, f64[2]")                \
    BATCH(2, "u8[b2, 2], i16[b2], f64[b2, 2]")
#define XYZ_STEPS "[[97 98] [99 100]]+[300 -2]+[[1.5 0.0] [1.5 1.0]]"
#define ONE_OF(name, type) RECORDS(" names \"" name "\"", type) "cache : " type

static void
examples(void **state)
{
    Str file = two_examples();
    (void)state;
    write_file("t.rec", file.data, file.len);
    expect(XYZ, XYZ_STEPS);
    write_packed("t.rec", MAKE_GZIP, file.data, file.len);
    expect(XYZ, XYZ_STEPS);
    write_packed("t.rec", MAKE_ZLIB, file.data, file.len);
    expect(XYZ, XYZ_STEPS);
    write_text("t.rec", "");
    expect(XYZ, "");
}

static void
bytes_are_elements_in_memory(void **state)
{
    (void)state;
    Str file = str_new(arena), f = str_new(arena);
    make_bytes(&f, "x", "\0\0\xc0\x3f\0\0\0\xc0", 8);
    make_example(&file, &f);
    write_file("t.rec", file.data, file.len);
    expect(RECORDS(" names \"x\"", "f32[2]") BATCH(1, "f32[b1, 2]"),
           "[[1.5 -2.0]]");
    expect(RECORDS(" names \"x\"", "i16[2, 2]") BATCH(1, "i16[b1, 2, 2]"),
           "[[[0 16320] [0 -16384]]]");
}

static void
missing_values_are_filled_up(void **state)
{
    (void)state;
    Str file = str_new(arena), f = str_new(arena);
    make_ints(&f, "y", 1, (const int64_t[]){5});
    make_example(&file, &f);
    write_file("t.rec", file.data, file.len);
    expect("tfrecord \"t.rec\" names \"x\", \"y\" data=hex\"0000803f0700\" : "
           "f32, i16[2]\n" BATCH(1, "f32[b1], i16[b1, 2]"),
           "[1.0]+[[5 7]]");
}

static void
records_of_bytes(void **state)
{
    (void)state;
    Str file = str_new(arena);
    make_record(&file, "abc", 3);
    make_record(&file, "def", 3);
    write_file("t.rec", file.data, file.len);
    expect(RECORDS("", "u8[3]") BATCH(4, "u8[b4, 3]"),
           "[[97 98 99] [100 101 102]]");
    expect_error(RECORDS("", "u8[2]") BATCH(4, "u8[b4, 2]"),
                 "\"t.rec\", record 0: it has 3 bytes, and u8[2] takes 2");
}

static void
examples_of_other_types(void **state)
{
    static const struct {
        const char *stages, *want;
    } wrong[] = {
        {ONE_OF("w", "i64"),
         "it has no feature \"w\"; it has \"other\", \"x\", \"y\", \"z\""},
        {ONE_OF("y", "f32"), "feature \"y\" holds integers, which are no f32"},
        {ONE_OF("z", "i64[2]"), "feature \"z\" holds floats, which are no i64"},
        {ONE_OF("y", "u8"), "300 in feature \"y\" is no u8"},
        {ONE_OF("y", "bool"), "300 in feature \"y\" is no bool"},
        {ONE_OF("x", "f32"), "feature \"x\" holds bytes, which are no f32"},
        {ONE_OF("x", "u8[3]"),
         "feature \"x\" has 2 values, and u8[3] takes 3; tfrecord(..., missing "
         "= 0) fills it up"},
        {ONE_OF("z", "f32"), "feature \"z\" has 2 values, and f32 takes 1"},
    };
    Str file = two_examples();
    (void)state;
    write_file("t.rec", file.data, file.len);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        expect_error(
            wrong[i].stages,
            arena_printf(arena, "\"t.rec\", record 0: %s", wrong[i].want));
}

static void
strings_are_read_one_at_a_time(void **state)
{
    (void)state;
    Str file = str_new(arena), f = str_new(arena);
    make_strings(&f, "x", 2, "abcd");
    make_example(&file, &f);
    write_file("t.rec", file.data, file.len);
    expect_error(ONE_OF("x", "u8[2]"),
                 "\"t.rec\", record 0: feature \"x\" has several strings of "
                 "bytes, and one is read");
}

static void
a_feature_without_values(void **state)
{
    (void)state;
    Str file = str_new(arena), f = str_new(arena);
    str_addn(&f, "\x0a\x05\x0a\x01x\x12\0", 7);
    make_example(&file, &f);
    write_file("t.rec", file.data, file.len);
    expect_error(ONE_OF("x", "f32"), "\"t.rec\", record 0: its feature \"x\" "
                                     "has no list of values");
}

static void
expect_damage(size_t len, size_t at, const char *want)
{
    Str file = two_examples();
    file.data[at] ^= 1;
    write_file("t.rec", file.data, len);
    Pipe pipe = {.stages = XYZ, .dir = dir};
    assert_string_equal(
        pipe_steps(arena, &pipe),
        arena_printf(arena, "error: test.tfd:3:4: \"t.rec\", record %s", want));
}

static void
damaged_records(void **state)
{
    Str file = two_examples();
    size_t half = 16 + (size_t)(unsigned char)file.data[0]; /* the first */
    (void)state;
    expect_damage(file.len, half,
                  "1: the check sum of its length is wrong: the "
                  "file is damaged, or no TFRecord file");
    expect_damage(file.len, half + 20,
                  "1: its check sum is wrong: the file is damaged");
    expect_damage(half + 5, half + 20,
                  "1: it is cut short: its length has 5 bytes");
    expect_damage(half + 12, half + 20,
                  arena_printf(arena,
                               "1: it is cut short: it has 0 bytes of %zu",
                               file.len - half - 16));
    Str other = str_new(arena);
    make_record(&other, "\x0a\x05xx", 4);
    write_file("t.rec", other.data, other.len);
    expect_error(XYZ,
                 "\"t.rec\", record 0: it is no tf.train.Example; a type in "
                 "place of features reads its bytes");
}

/* Beyond the 64 KiB that are read at once; another stream may follow. */
static void
padded_gzip(void **state)
{
    enum { PADDING = 200000 };
    char *data;
    size_t len;
    Str file = two_examples(), padded = str_new(arena);
    (void)state;
    write_packed("t.rec", MAKE_GZIP, file.data, file.len);
    assert_null(file_read(arena, in_dir("t.rec"), &data, &len));
    str_addn(&padded, data, len);
    str_addn(&padded, arena_alloc(arena, PADDING), PADDING);
    write_file("t.rec", padded.data, padded.len);
    expect(XYZ, XYZ_STEPS);
    str_addn(&padded, data, len);
    write_file("t.rec", padded.data, padded.len);
    expect(XYZ, XYZ_STEPS "; " XYZ_STEPS);
}

static void
damaged_gzip(void **state)
{
    char *data;
    size_t len;
    Str file = two_examples();
    (void)state;
    write_packed("t.rec", MAKE_GZIP, file.data, file.len);
    const char *path = in_dir("t.rec");
    assert_null(file_read(arena, path, &data, &len));
    write_file("t.rec", data, len / 2);
    Pipe pipe = {.stages = XYZ, .dir = dir};
    assert_string_equal(
        pipe_steps(arena, &pipe),
        arena_printf(arena,
                     "error: \"%s\" cannot be unpacked: its end is missing",
                     path));
    write_file("t.rec", "\x78\xbb", 2); /* zlib's, with a dictionary */
    assert_string_equal(
        pipe_steps(arena, &pipe),
        arena_printf(arena,
                     "error: \"%s\" cannot be unpacked: its end is missing",
                     path));
    write_file("t.rec", "\x78\xbb\1\2\3\4", 6);
    assert_string_equal(pipe_steps(arena, &pipe),
                        arena_printf(arena,
                                     "error: \"%s\" cannot be unpacked: "
                                     "it asks for a dictionary",
                                     path));
    data[len - 5] ^= 1;
    write_file("t.rec", data, len);
    assert_string_equal(pipe_steps(arena, &pipe),
                        arena_printf(arena,
                                     "error: \"%s\" cannot be unpacked: "
                                     "incorrect data check",
                                     path));
}

/* All elements are there, but not the checksum. */
static void
packed_idx_without_its_end(void **state)
{
    static const char idx[] = {0, 0, 8, 1, 0, 0, 0, 2, 1, 2};
    enum { TRAILER = 8 };
    char *data;
    size_t len;
    (void)state;
    write_packed("t.idx", MAKE_GZIP, idx, sizeof idx);
    const char *path = in_dir("t.idx");
    assert_null(file_read(arena, path, &data, &len));
    for (size_t cut = 1; cut <= TRAILER; cut++) {
        write_file("t.idx", data, len - cut);
        Pipe pipe = {.stages = IDX("u8") BATCH(2, "u8[b2]"), .dir = dir};
        const char *steps = pipe_steps(arena, &pipe);
        if (!strstr(steps, "cannot be unpacked: its end is missing"))
            fail_msg("%zu bytes are missing: %s", cut, steps);
    }
}

/* ---- npz ----------------------------------------------------------------- */

/* x of rows rows, and y of 3. */
static void
write_npz(const char *rows, bool packed)
{
    static const float x[] = {1, 2, 3, 4, 5, 6};
    static const int8_t y[] = {7, 8, 9};
    const MakeArray arrays[] = {{"x", "<f4", rows, x, sizeof x},
                                {"y", "|i1", "(3,)", y, sizeof y}};
    make_npz(in_dir("t.npz"), 2, arrays, packed);
}

#define NPZ(names, types) "npz \"t.npz\" names " names " : " types AT
#define XY NPZ("\"x\", \"y\"", "f32[2], i8") BATCH(2, "f32[b2, 2], i8[b2]")

static void
arrays(void **state)
{
    (void)state;
    write_npz("(3, 2)", false);
    expect(XY, "[[1.0 2.0] [3.0 4.0]]+[7 8]; [[5.0 6.0]]+[9]");
    write_npz("(3, 2)", true);
    expect(XY, "[[1.0 2.0] [3.0 4.0]]+[7 8]; [[5.0 6.0]]+[9]");
    expect_error(NPZ("\"z\"", "i8") BATCH(2, "i8[b2]"),
                 "\"t.npz\" has no array \"z\"; it has \"x\", \"y\"");
    expect_error(
        NPZ("\"x\"", "i8[2]") BATCH(2, "i8[b2, 2]"),
        "\"t.npz\" array \"x\" has rows of f32[2], not of i8[2]: NumPy wrote "
        "'<f4' of shape [3, 2]");
    expect_error(
        NPZ("\"x\"", "f64[2]") BATCH(2, "f64[b2, 2]"),
        "\"t.npz\" array \"x\" has rows of f32[2], not of f64[2]: NumPy wrote "
        "'<f4' of shape [3, 2]; f64 is what the program states, or tfdc "
        "--widen "
        "made of f32");
    write_npz("(2, 2)", false);
    expect_error(XY, "\"t.npz\" has 2 rows of \"x\" and 3 of \"y\"");
    write_npz("(4, 2)", false);
    expect_error(
        XY, "\"t.npz\" array \"x\" is cut short: it has 24 bytes of elements, "
            "and its header states 32, so 8 are missing");
    write_text("t.npz", "text");
    expect_error(XY, "\"t.npz\" is no .npz file: it is no zip");
}

/* ---- several files ------------------------------------------------------- */

#define LETTERS BATCH(8, "u8[b8]")

static void
several_files(void **state)
{
    (void)state;
    write_text("a2", "CD");
    write_text("a1", "AB");
    write_text("a3", "");
    write_text("b", "E");
    write_text("[b]", "F");
    expect("bytes \"a?\", \"b\" : u8\n" LETTERS, "[65 66 67 68 69]");
    expect("bytes \"b\", \"a[12]\", \"b\" : u8\n" LETTERS,
           "[69 65 66 67 68 69]");
    expect("bytes \"[b]\" : u8\n" LETTERS, "[70]");
    expect("bytes \"a*\" : u8[2]\n" BATCH(4, "u8[b4, 2]"), "[[65 66] [67 68]]");
    expect("bytes \"c*\" : u8" AT LETTERS,
           arena_printf(arena, "error: no file matches \"%s/c*\"", dir));
    expect_error("bytes \"b\" : u8[0]" AT BATCH(4, "u8[b4, 0]"),
                 "\"b\" cannot be read as elements of no bytes");
    const char *loop = in_dir("loop");
    assert_int_equal(symlink("loop", loop), 0);
    expect("bytes \"loop/*\" : u8\n" LETTERS,
           arena_printf(arena,
                        "error: cannot look for \"%s/*\": Too many levels of "
                        "symbolic links",
                        loop));
    expect_error(
        "bytes \"a?\", \"b\" : u8[2]" AT BATCH(4, "u8[b4, 2]"),
        "\"b\" has 1 bytes, which is no multiple of the 2 of an element "
        "of type u8[2]");
    expect("bytes \".\" : u8\n" LETTERS,
           arena_printf(arena,
                        "error: cannot open \"%s/.\": it is a folder; name the "
                        "files in it, as \"%s/./*\"",
                        dir, dir));
    expect("bytes \"/dev/null\" : u8\n" LETTERS,
           "error: cannot open \"/dev/null\": it is no file that can be read "
           "again; write it to one first");
}

/* A wrong file is found before the first step, wherever it is in the list. */
static void
all_files_are_opened_first(void **state)
{
    (void)state;
    write_text("t.csv", "1\n");
    write_text("u.csv", "1\nx\n");
    write_text("v.csv", "x\n");
    expect(
        "csv header=0 separator=44 \"t.csv\", \"u.csv\" : i32" AT BATCH(
            1, "i32[b1]"),
        "[1]; [1]; error: test.tfd:3:4: \"u.csv\", line 2: \"x\" in column 0 "
        "is no i32");
    expect_error(
        "csv header=0 separator=44 \"t.csv\", \"v.csv\" : i32" AT BATCH(
            1, "i32[b1]"),
        "\"v.csv\", line 1: \"x\" in column 0 is no i32; "
        "csv(..., header = true) leaves out a first line of names");
}

/* ---- resuming ------------------------------------------------------------ */

static const char *
resumed_after(const char *before, const char *after, const char *stages)
{
    Pipe pipe = {.stages = stages, .dir = dir};
    write_text("t.csv", before);
    PipeRun run = pipe_run(arena, &pipe);
    assert_null(rt_iter_open(run.it, rt_iter_passes(run.it)));
    assert_null(rt_iter_next(run.it));
    write_text("t.csv", after);
    PipeRun other = pipe_archive(arena, &pipe, &run);
    return pipe_rest(arena, &other);
}

static void
files_that_changed_are_not_gone_on_with(void **state)
{
    (void)state;
    const char *stages = CSV(0, "", "i32") BATCH(1, "i32[b1]");
    assert_string_equal(resumed_after("1\n2\n3\n", "1\n2\n3\n", stages),
                        "[2]; [3]");
    assert_string_equal(
        resumed_after("1\n2\n3\n", "1\n2\n", stages),
        "error: test.tfd:3:4: \"t.csv\" had 6 bytes when the checkpoint was "
        "written, and has 4 now");
}

/* Every byte of the state after the first step is changed, a little and
 * completely. */
static void
damage_states(const char *stages)
{
    Pipe pipe = {.stages = stages, .dir = dir};
    PipeRun run = pipe_run(arena, &pipe);
    assert_null(rt_iter_open(run.it, 0));
    assert_null(rt_iter_next(run.it));
    RtArchive state_of = rt_archive_writer(arena, 0);
    assert_null(rt_iter_archive(run.it, &state_of, NULL));
    for (size_t i = 0; i < state_of.len; i++) {
        char was = state_of.data[i];
        state_of.data[i] = was ^ 1;
        pipe_go_on_from(&pipe, &state_of);
        state_of.data[i] = 0x7f;
        pipe_go_on_from(&pipe, &state_of);
        state_of.data[i] = was;
    }
    pipe_go_on_from_far(arena, &pipe);
}

static void
damaged_states_do_no_harm(void **state)
{
    Str file = two_examples();
    (void)state;
    write_file("t.rec", file.data, file.len);
    damage_states(RECORDS(" names \"y\"", "i16") BATCH(1, "i16[b1]"));
    write_packed("t.rec", MAKE_GZIP, file.data, file.len);
    damage_states(RECORDS(" names \"y\"", "i16") BATCH(1, "i16[b1]"));
    write_text("t.csv", "1\n2\n3\n");
    damage_states(CSV(0, "", "i32") BATCH(1, "i32[b1]"));
    write_npz("(3, 2)", true);
    damage_states(NPZ("\"x\", \"y\"", "f32[2], i8")
                      BATCH(1, "f32[b1, 2], i8[b1]"));
    write_file("t.idx", "\0\0\10\1\0\0\0\3\1\2\3", 11);
    damage_states(IDX("u8") BATCH(1, "u8[b1]"));
    damage_states("bytes \"t.csv\", \"t.idx\" : u8\n" BATCH(1, "u8[b1]"));
}

static void
files_that_came_are_not_gone_on_with(void **state)
{
    (void)state;
    Pipe pipe = {.stages = "bytes \"new*\" : u8" AT BATCH(1, "u8[b1]"),
                 .dir = dir};
    write_text("new1", "AB");
    PipeRun run = pipe_run(arena, &pipe), other;
    assert_null(rt_iter_open(run.it, rt_iter_passes(run.it)));
    assert_null(rt_iter_next(run.it));
    write_text("new2", "C");
    RtArchive state_of = rt_archive_writer(arena, 0);
    assert_null(rt_iter_archive(run.it, &state_of, NULL));
    RtArchive reader = rt_archive_reader(arena, state_of.data, state_of.len);
    assert_null(pipe_open(arena, &pipe, &other));
    assert_null(rt_iter_archive(other.it, &reader, NULL));
    Status st = rt_archive_end(&reader);
    assert_string_equal(status_message(st),
                        "test.tfd:3:4: there were 1 files, and are 2 now");
    status_free(st);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, new_dir, release_arena)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(tables),
        TEST(wrong_tables),
        TEST(zero_bytes_in_tables),
        TEST(a_column_of_two_components),
        TEST(lines_of_text),
        TEST(long_lines),
        TEST(idx_files),
        TEST(examples),
        TEST(bytes_are_elements_in_memory),
        TEST(missing_values_are_filled_up),
        TEST(records_of_bytes),
        TEST(examples_of_other_types),
        TEST(strings_are_read_one_at_a_time),
        TEST(a_feature_without_values),
        TEST(damaged_records),
        TEST(padded_gzip),
        TEST(damaged_gzip),
        TEST(packed_idx_without_its_end),
        TEST(arrays),
        TEST(several_files),
        TEST(all_files_are_opened_first),
        TEST(files_that_changed_are_not_gone_on_with),
        TEST(damaged_states_do_no_harm),
        TEST(files_that_came_are_not_gone_on_with),
    };
    return cmocka_run_group_tests_name("formats", tests, NULL, NULL);
}
