/*
 * save_test.c - checkpoints and event files, byte by byte and with other
 * readers
 *
 * The expected bytes are written out here; the Python packages safetensors and
 * tensorboard read the files, too, where they are installed.
 */
#include <dirent.h>
#include <sys/stat.h>
#include "ir/base/io/file.h"
#include "ir/base/hash/hash.h"
#include "ir/base/str.h"
#include "tests/e2e/run.h"
#include "tests/unit/dir.h"
#include "tests/unit/unit.h"

/* Compiles a program for n devices; gives the plan's path. */
static const char *
compile(const char *text, int devices)
{
    write_text(in_dir("p.tfd"), text);
    run_ok(arena, "tfdc %s --strategy mirrored --devices cpu:0-%d -o %s",
           in_dir("p.tfd"), devices - 1, in_dir("p.tfp"));
    return in_dir("p.tfp");
}

/* Runs it in the test's folder, with settings of the environment. */
static Ran
run_there(const char *plan, const char *settings, const char *options)
{
    return run(arena, "env -C %s %s %s %s %s", dir, settings, getenv("TFD_RUN"),
               plan, options);
}

static void
run_program(const char *text, int devices)
{
    Ran r = run_there(compile(text, devices), "TFD_SPIN=0", "");
    if (r.code)
        fail_msg("exit status %d: %s", r.code, r.err);
}

static void
assert_refused(const char *text, const char *part)
{
    Ran r = run_there(compile(text, 1), "TFD_SPIN=0", "");
    assert_int_equal(r.code, 1);
    if (!strstr(r.err, part))
        fail_msg("\"%s\" is not in: %s", part, r.err);
}

static const char *
bytes_of(const char *path, size_t *len)
{
    char *bytes;
    Status st = file_read(arena, path, &bytes, len);
    if (st)
        fail_msg("%s", status_message(st));
    return bytes;
}

/* ---- the file ----------------------------------------------------------- */

static const char of_all_dtypes[] = "var wide: f64 = 1.5\n"
                                    "var w: f32[2] = [1.0, -2.0]\n"
                                    "var brief: bf16 = 1.0\n"
                                    "var half: f16 = 1.0\n"
                                    "var n: i64 = -1\n"
                                    "var i: i32 = 258\n"
                                    "var s: i16 = 3\n"
                                    "var b: i8 = -4\n"
                                    "var u: u8[3] = [7, 8, 9]\n"
                                    "var yes: bool = true\n"
                                    "main { save(\"all/{n}\") }\n";

static const char header_of_all[] =
    "{\"__metadata__\":{\"format\":\"tfd\",\"checksum\":"
    "\"00000000000000000000000000000000\"},"
    "\"n\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[0,8]},"
    "\"wide\":{\"dtype\":\"F64\",\"shape\":[],\"data_offsets\":[8,16]},"
    "\"i\":{\"dtype\":\"I32\",\"shape\":[],\"data_offsets\":[16,20]},"
    "\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[20,28]},"
    "\"brief\":{\"dtype\":\"BF16\",\"shape\":[],\"data_offsets\":[28,30]},"
    "\"half\":{\"dtype\":\"F16\",\"shape\":[],\"data_offsets\":[30,32]},"
    "\"s\":{\"dtype\":\"I16\",\"shape\":[],\"data_offsets\":[32,34]},"
    "\"b\":{\"dtype\":\"I8\",\"shape\":[],\"data_offsets\":[34,35]},"
    "\"u\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[35,38]},"
    "\"yes\":{\"dtype\":\"BOOL\",\"shape\":[],\"data_offsets\":[38,39]}}";

static const unsigned char data_of_all[39] = {
    255, 255, 255, 255, 255, 255, 255, 255, /* -1 */
    0,   0,   0,   0,   0,   0,   248, 63,  /* 1.5 */
    2,   1,   0,   0,                       /* 258 */
    0,   0,   128, 63,  0,   0,   0,   192, /* 1, -2 */
    128, 63,  0,   60,                      /* 1, 1 */
    3,   0,   252, 7,   8,   9,   1,
};

static void
a_checkpoint_has_these_bytes(void **state)
{
    (void)state;
    size_t len, n = strlen(header_of_all);
    const char *zeros = strstr(header_of_all, "0000");
    for (int devices = 1; devices <= 3; devices++) {
        run_program(of_all_dtypes, devices);
        char *file =
            (char *)bytes_of(in_dir("all/-1/variables.safetensors"), &len);
        size_t begin = (8 + n + 63) / 64 * 64;
        uint64_t length;
        assert_int_equal(len, begin + sizeof data_of_all);
        memcpy(&length, file, sizeof length);
        assert_int_equal(length, begin - 8);
        assert_non_null(zeros);
        char *digits = file + 8 + (zeros - header_of_all);
        const char *checksum = arena_strndup(arena, digits, HASH_LEN);
        memset(digits, '0', HASH_LEN);
        assert_string_equal(checksum, hash_text(arena, file, len));
        assert_memory_equal(file + 8, header_of_all, n);
        for (size_t i = 8 + n; i < begin; i++)
            assert_int_equal(file[i], ' ');
        assert_memory_equal(file + begin, data_of_all, sizeof data_of_all);
    }
}

/* ---- restored values ---------------------------------------------------- */

#define KINDS                                                                  \
    "use optim\n"                                                              \
    "var w: f32[3] = [1.0, 2.0, 3.0]\n"                                        \
    "var on: bool = false\n"                                                   \
    "var k: bf16 = 0.0\n"                                                      \
    "var total: f32 = 0.0 sync(on_read) aggregate(sum)\n"                      \
    "var count: i64 = 0 sync(on_read) aggregate(sum)\n"                        \
    "var mid: f32 = 0.0 sync(on_read) aggregate(mean)\n"                       \
    "var one: i32 = 0 sync(on_read) aggregate(first)\n"                        \
    "non_slot var t: i64 = 0\n"                                                \
    "let adam = Adam(0.1)\n"                                                   \
    "fn step() {\n"                                                            \
    "  total += 3.5\n"                                                         \
    "  count += 5\n"                                                           \
    "  mid = f32(replica_id)\n"                                                \
    "  one = 7 + replica_id\n"                                                 \
    "  adam.apply([w], [0.5 * read(w)], aggregated = true)\n"                  \
    "}\n"

/* On two devices; restored on one, three and four. */
static void
checkpoints_fit_any_number_of_devices(void **state)
{
    (void)state;
    static const char saves[] =
        KINDS "main {\n"
              "  on = true\n  k = 3.0\n  t = 11\n"
              "  run step()\n  run step()\n"
              "  save(\"kept\")\n"
              "  print(\"{w:.9e} {adam.moments.m[w]:.9e}\")\n"
              "}\n";
    static const char restores[] =
        KINDS "main {\n"
              "  restore(\"kept\")\n"
              "  assert(total == 14.0 and count == 20, \"sums\")\n"
              "  assert(mid == 0.5 and one == 7, \"mean, first\")\n"
              "  assert(on and k == 3.0 and t == 11, \"mirrored\")\n"
              "  print(\"{w:.9e} {adam.moments.m[w]:.9e}\")\n"
              "  save(\"again\")\n"
              "  run step()\n"
              "}\n";
    Ran first = run_there(compile(saves, 2), "TFD_SPIN=0", "");
    assert_int_equal(first.code, 0);
    for (int devices = 1; devices <= 4; devices++) {
        Ran r = run_there(compile(restores, devices), "TFD_SPIN=0", "");
        if (r.code)
            fail_msg("%d devices: %s", devices, r.err);
        assert_string_equal(r.out, first.out);
        run_ok(arena, "cmp %s %s", in_dir("kept/variables.safetensors"),
               in_dir("again/variables.safetensors"));
    }
}

/* The replicas draw in as many turns as their rows need: one count is saved. */
static void
draws_go_on_where_replicas_take_other_turns(void **state)
{
    (void)state;
    static const char program[] =
        "dataset d = range(24).batch(4)\n"
        "param from: i32 = 0\n"
        "fn step(i) {\n"
        "  mut left = i % 4 + 1\n"
        "  mut x = zeros((len(i),))\n"
        "  while any(left > 0) {\n"
        "    x += where(left > 0, uniform((len(i),), seed = 3), 0.0)\n"
        "    left -= 1\n"
        "  }\n"
        "  return x\n"
        "}\n"
        "main {\n"
        "  mut k = 0\n"
        "  if from > 0 { restore(\"turns\") }\n"
        "  for i in distribute(d) {\n"
        "    if k >= from {\n"
        "      let x = gather(run step(i), 0)\n"
        "      if k >= 3 { print(\"{x}\") }\n"
        "    }\n"
        "    k += 1\n"
        "    if k == 3 and from == 0 { save(\"turns\") }\n"
        "  }\n"
        "}\n";
    Ran whole = run_there(compile(program, 2), "TFD_SPIN=0", "");
    assert_int_equal(whole.code, 0);
    for (int devices = 1; devices <= 3; devices++) {
        Ran rest =
            run_there(compile(program, devices), "TFD_SPIN=0", "--set from=3");
        assert_string_equal(rest.out, whole.out);
    }
}

static void
listed_variables_are_all_that_changes(void **state)
{
    (void)state;
    run_program("module M { var w: f32 = 1.0\n  var v: f32 = 2.0 }\n"
                "let m = M()\n"
                "var other: f32 = 3.0\n"
                "main {\n"
                "  save(\"part\", vars(m))\n"
                "  m.w = 0.0\n  m.v = 0.0\n  other = 0.0\n"
                "  restore(\"part\", [m.v])\n"
                "  assert(m.w == 0.0 and m.v == 2.0 and other == 0.0, \"v\")\n"
                "  restore(\"part\", vars(m))\n"
                "  assert(m.w == 1.0 and other == 0.0, \"w\")\n"
                "}\n",
                2);
}

/* Of a file that another program wrote, and on a device and in main alike. */
static void
the_file_has_other_names(void **state)
{
    (void)state;
    run_program("var a: f32[2] = [1.0, 2.0]\nvar b: i32 = 3\n"
                "var sum: f32 = 5.0 sync(on_read) aggregate(sum)\n"
                "main { save(\"named\") }\n",
                2);
    run_program("module M { var w: f32[2] = zeros\n  var n: i32 = 0 }\n"
                "let m = M()\n"
                "var total: f32 = 0.0 sync(on_read) aggregate(sum)\n"
                "main {\n"
                "  restore(\"named\", [m.n, total, m.w],"
                " names = [\"b\", \"sum\", \"a\"])\n"
                "  assert(all(m.w == stack([1.0, 2.0])), \"w\")\n"
                "  assert(m.n == 3 and total == 10.0, \"n, total\")\n"
                "}\n",
                2);
    assert_refused("var a: f32[2] = zeros\nvar c: i32 = 0\n"
                   "main { restore(\"named\", [a, c]) }\n",
                   "has no \"c\"; of others it has \"b\", \"sum\": names = "
                   "[...] behind the list says what the file calls its");
    assert_refused("var a: f32 = 0.0\n"
                   "main { restore(\"named\", [a], names = [\"b\"]) }\n",
                   "the variable \"a\" is f32, but i32 in");
}

/* The repair of the message is what the second program does. */
static void
the_file_has_another_width(void **state)
{
    (void)state;
    run_program("var a: f32[2] = [1.0, 1.0009765625]\n"
                "main { save(\"floats\") }\n",
                1);
    assert_refused("var a: bf16[2] = zeros\nmain { restore(\"floats\") }\n",
                   "the variable \"a\" is bf16[2], but f32[2] in "
                   "\"floats/variables.safetensors\", and restore does not "
                   "cast; with a variable wide: f32[2] write "
                   "restore(\"floats\", [wide], names = [\"a\"]) and then a = "
                   "bf16(wide)");
    run_program("var a: bf16[2] = zeros\nvar wide: f32[2] = zeros\n"
                "main {\n"
                "  restore(\"floats\", [wide], names = [\"a\"])\n"
                "  a = bf16(wide)\n"
                "  assert(all(f32(a) == stack([1.0, 1.0])), \"a\")\n"
                "}\n",
                2);
}

/* ---- refused files ------------------------------------------------------ */

static void
what_does_not_fit_is_told(void **state)
{
    (void)state;
    run_program("var a: f32[2] = zeros\nvar b: i32 = 0\n"
                "main { save(\"ab\") }\n",
                1);
    assert_refused("var a: f32 = 0.0\nmain { restore(\"none\") }\n",
                   "p.tfd:2:8: error: there is no checkpoint \"none\": "
                   "save(\"none\") makes it");
    assert_refused("var a: f32 = 0.0\n"
                   "main { restore(\"ab/variables.safetensors\") }\n",
                   "\"ab/variables.safetensors\" is a file, and restore takes "
                   "the folder that has variables.safetensors in it: "
                   "restore(\"ab\")");
    assert_refused("var a: f32[2] = zeros\nvar b: i32 = 0\nvar c: f32 = 0.0\n"
                   "main { restore(\"ab\") }\n",
                   "\"ab/variables.safetensors\" has no \"c\" of the program");
    assert_refused("var a: f32[2] = zeros\nmain { restore(\"ab\") }\n",
                   "has \"b\", which the program has not; "
                   "restore(\"ab\", [...]) takes only");
    assert_refused("var a: f32[3] = zeros\nvar b: i32 = 0\n"
                   "main { restore(\"ab\") }\n",
                   "the variable \"a\" is f32[3], but f32[2] in");
    assert_refused("var a: f32[2] = zeros\nvar b: f32 = 0.0\n"
                   "main { restore(\"ab\") }\n",
                   "the variable \"b\" is f32, but i32 in");
}

static void
files_stand_in_the_way(void **state)
{
    (void)state;
    write_text(in_dir("file"), "");
    assert_refused("var a: f32 = 0.0\nmain { save(\"file/x\") }\n",
                   "cannot make the folder \"file\": Not a directory");
    mkdir(in_dir("bad"), 0777);
    write_text(in_dir("bad/variables.safetensors"), "nonsense");
    assert_refused("var a: f32 = 0.0\nmain { restore(\"bad\") }\n",
                   "no safetensors file");
}

/* Truncated anywhere, a checkpoint is refused; after the header, as too
 * short. */
static void
damaged_files_are_refused(void **state)
{
    (void)state;
    size_t len;
    run_program("var a: f32[4] = ones\nmain { save(\"cut\") }\n", 1);
    const char *path = in_dir("cut/variables.safetensors");
    const char *bytes = bytes_of(path, &len);
    const char *plan =
        compile("var a: f32[4] = zeros\nmain { restore(\"cut\") }\n", 1);
    for (size_t n = 0; n < len; n += 5) {
        assert_null(file_write(path, bytes, n));
        Ran r = run_there(plan, "TFD_SPIN=0", "");
        assert_int_equal(r.code, 1);
        assert_non_null(strstr(r.err, "cannot read"));
    }
    assert_null(file_write(path, bytes, len));
    assert_int_equal(run_there(plan, "TFD_SPIN=0", "").code, 0);
}

/* Whichever operation on a file fails, the old or the new file is there. */
static void
a_failure_leaves_the_old_or_the_new(void **state)
{
    (void)state;
    size_t len, old_len, new_len;
    const char *path = in_dir("safe/variables.safetensors");
    run_program("var a: f32 = 1.0\nmain { save(\"safe\") }\n", 1);
    const char *old = bytes_of(path, &old_len);
    const char *plan =
        compile("var a: f32 = 2.0\nmain { save(\"safe\") }\n", 1);
    int num_failed = 0, n = 0;
    Ran r = {.code = 3};
    for (n = 1; r.code; n++) {
        r = run_there(plan, arena_printf(arena, "TFD_FAIL=io:%d", n), "");
        assert_true(n < 100);
        if (!r.code)
            break;
        assert_int_equal(r.code, 3);
        num_failed += strstr(r.err, "safe") != NULL;
        const char *now = bytes_of(path, &len);
        assert_int_equal(len, old_len);
        assert_memory_equal(now, old, len);
    }
    assert_true(num_failed >= 5); /* folder, open, write, sync, close, rename */
    const char *new_bytes = bytes_of(path, &new_len);
    assert_memory_not_equal(new_bytes, old, old_len);
}

/* ---- event files -------------------------------------------------------- */

static const char tells[] =
    "var w: f32[4] = [0.0, 1.0, 2.0, 3.0]\n"
    "main {\n"
    "  for i in 0..3 { summary(\"loss/{i}\", 0.5 * f32(i), 10 * i) }\n"
    "  summary(\"w\", w, 7)\n"
    "}\n";

static const char *
event_file(const char *folder)
{
    const char *found = NULL;
    DIR *d = opendir(folder);
    for (struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d))
        if (!strncmp(e->d_name, "events.out.tfevents.", 20))
            found = arena_printf(arena, "%s/%s", folder, e->d_name);
    if (d)
        closedir(d);
    return found;
}

/* Bit by bit, as its definition says. */
static uint32_t
masked_crc(const char *bytes, size_t n)
{
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < n; i++) {
        crc ^= (unsigned char)bytes[i];
        for (int k = 0; k < 8; k++)
            crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78 : 0);
    }
    crc = ~crc;
    return (crc >> 15 | crc << 17) + 0xa282ead8;
}

static uint32_t
word_at(const char *bytes)
{
    uint32_t x;
    memcpy(&x, bytes, sizeof x);
    return x;
}

static void
events_have_these_bytes(void **state)
{
    (void)state;
    size_t len, at = 0;
    int num = 0;
    Ran r = run_there(compile(tells, 2), "TFD_SPIN=0", "--log-dir logs/a");
    assert_int_equal(r.code, 0);
    const char *file = bytes_of(event_file(in_dir("logs/a")), &len);
    /* step 20; summary { value { tag: "loss/2", simple_value: 1.0 } } */
    static const char last_loss[] = "\x10\x14\x2a\x0f\x0a\x0d\x0a\x06loss/2"
                                    "\x15\x00\x00\x80\x3f";
    for (; at < len; num++) {
        size_t n = word_at(file + at);
        const char *event = file + at + 12;
        assert_int_equal(word_at(file + at + 8), masked_crc(file + at, 8));
        assert_int_equal(word_at(event + n), masked_crc(event, n));
        assert_int_equal(event[0], 9); /* wall_time */
        if (num == 0)
            assert_memory_equal(event + 9,
                                "\x10\x00\x1a\x0d"
                                "brain.Event:2",
                                17);
        if (num == 3) {
            assert_int_equal(n, 9 + sizeof last_loss - 1);
            assert_memory_equal(event + 9, last_loss, sizeof last_loss - 1);
        }
        at += n + 16;
    }
    assert_int_equal(num, 5);
}

/* Field `tag`, which is one byte with a length of one byte, of a message. */
static const char *
part_of(const char *message, char tag, size_t *len)
{
    assert_int_equal(message[0], tag);
    *len = (unsigned char)message[1];
    return message + 2;
}

/* "3 loss 0.5" of each event, or "3 loss histogram". */
static const char *
events_text(const char *file, size_t len)
{
    Str s = str_new(arena);
    for (size_t at = 0; at < len; at += word_at(file + at) + 16) {
        const char *event = file + at + 12 + 9;
        size_t n;
        float x;
        int step = event[0] == 0x10 ? event[1] : 0;
        event += event[0] == 0x10 ? 2 : 0;
        if (event[0] != 0x2a)
            continue;
        bool is_long = event[1] < 0; /* a histogram */
        const char *value = event + (is_long ? 3 : 2);
        value += value[1] < 0 ? 3 : 2;
        const char *tag = part_of(value, 0x0a, &n);
        str_addf(&s, "%d %.*s ", step, (int)n, tag);
        memcpy(&x, tag + n + 1, sizeof x);
        if (tag[n] == 0x15)
            str_addf(&s, "%g\n", (double)x);
        else
            str_add(&s, "histogram\n");
    }
    return str_text(&s);
}

static const char of_param[] = "param tag: str = \"x\"\n"
                               "main {\n"
                               "  summary(\"before\", 0.5, 1)\n"
                               "  summary(\"{tag}\", 1.5, 2)\n"
                               "}\n";

/* None at all, and bytes that no reader takes for text. */
static void
tags_may_be_any_text(void **state)
{
    static const struct {
        const char *folder, *given, *told;
    } tags[] = {
        {"none", "", ""},
        {"latin", "a\xe9\xff\xc3\xa9\xc3", "a??\xc3\xa9?"},
    };
    (void)state;
    size_t len;
    const char *plan = compile(of_param, 1);
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++) {
        Ran r = run_there(plan, "TFD_SPIN=0",
                          arena_printf(arena, "--log-dir %s --set tag=%s",
                                       tags[i].folder, tags[i].given));
        assert_int_equal(r.code, 0);
        const char *file = bytes_of(event_file(in_dir(tags[i].folder)), &len);
        assert_string_equal(
            events_text(file, len),
            arena_printf(arena, "1 before 0.5\n2 %s 1.5\n", tags[i].told));
    }
}

static const char in_steps[] =
    "var k: i64 = 0\n"
    "dataset d = range(8).map(fn(i) = f32(i)).batch(4)\n"
    "fn step(x) {\n"
    "  summary(\"sum\", all_reduce(sum, sum(x)), k)\n"
    "  print(\"before\")\n"
    "  summary(\"own\", sum(x), k)\n"
    "  for i in 0..2 { summary(\"x/{i}\", x, k) }\n"
    "  k += 1\n"
    "}\n"
    "main {\n"
    "  for x in distribute(d) { run step(x); summary(\"main\", k, k) }\n"
    "}\n";

#define STEP_OF_TWO(k, sum, first, second, after)                              \
    k " sum " sum "\n" k " own/replica_0 " first "\n" k                        \
      " own/replica_1 " second "\n" k " x/0/replica_0 histogram\n" k           \
      " x/0/replica_1 histogram\n" k " x/1/replica_0 histogram\n" k            \
      " x/1/replica_1 histogram\n" after " main " after "\n"

/* In their order, replica after replica, whatever executes them. */
static void
steps_have_summaries(void **state)
{
    static const char *const how[] = {"", "--devices cpu:0", "-n 2",
                                      "--devices sandbox:0-1",
                                      "--checkpoint run --every 1"};
    static const char of_one[] =
        "0 sum 6\n0 own/replica_0 6\n0 x/0/replica_0 histogram\n"
        "0 x/1/replica_0 histogram\n1 main 1\n"
        "1 sum 22\n1 own/replica_0 22\n1 x/0/replica_0 histogram\n"
        "1 x/1/replica_0 histogram\n2 main 2\n";
    static const char of_two[] = STEP_OF_TWO("0", "6", "1", "5", "1")
        STEP_OF_TWO("1", "22", "9", "13", "2");
    (void)state;
    size_t len;
    const char *file;
    const char *plan = compile(in_steps, 1);
    assert_int_equal(run_there(plan, "TFD_SPIN=0", "--log-dir one").code, 0);
    file = bytes_of(event_file(in_dir("one")), &len);
    assert_string_equal(events_text(file, len), of_one);
    plan = compile(in_steps, 2);
    for (size_t i = 0; i < sizeof how / sizeof *how; i++) {
        const char *options =
            arena_printf(arena, "--log-dir two%d %s", (int)i, how[i]);
        Ran r = run_there(plan, "TFD_SPIN=0", options);
        assert_string_equal(r.out, "before\nbefore\n");
        const char *folder = arena_printf(arena, "two%d", (int)i);
        file = bytes_of(event_file(in_dir(folder)), &len);
        assert_string_equal(events_text(file, len), of_two);
    }
    assert_int_equal(run_there(plan, "TFD_SPIN=0", "").code, 0);
}

/* Also behind a longer one, whose memory it takes. */
static void
a_tag_may_be_empty(void **state)
{
    (void)state;
    size_t len;
    const char *plan = compile("param none_given: str = \"\"\n"
                               "main {\n"
                               "  summary(\"tag {1}\", 1.0, 0)\n"
                               "  summary(none_given, 2.0, 1)\n"
                               "}\n",
                               1);
    assert_int_equal(run_there(plan, "TFD_SPIN=0", "--log-dir empty").code, 0);
    const char *file = bytes_of(event_file(in_dir("empty")), &len);
    assert_string_equal(events_text(file, len), "0 tag 1 1\n1  2\n");
}

static void
summaries_are_not_kept_unasked(void **state)
{
    (void)state;
    const char *plan = compile(tells, 1);
    assert_int_equal(run_there(plan, "TFD_SPIN=0", "").code, 0);
    assert_null(event_file(dir));
    write_text(in_dir("taken"), "");
    Ran r = run_there(plan, "TFD_SPIN=0", "--log-dir taken");
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.err, "cannot make the folder \"taken\""));
}

/* ---- others read them --------------------------------------------------- */

static const char reader[] =
    "import sys\n"
    "from safetensors.numpy import load_file\n"
    "from tensorboard.backend.event_processing.event_accumulator import "
    "EventAccumulator\n"
    "t = load_file(sys.argv[1])\n"
    "assert sorted(t) == ['b', 'u', 'w'], sorted(t)\n"
    "assert t['w'].tolist() == [[1.0, 2.0]] and t['b'].tolist() is True\n"
    "assert t['u'].dtype == 'uint8' and t['u'].tolist() == [7]\n"
    "e = EventAccumulator(sys.argv[2])\n"
    "e.Reload()\n"
    "s = [e.Scalars('loss/%d' % i)[0] for i in range(3)]\n"
    "assert [(x.step, x.value) for x in s] == [(0, 0), (10, .5), (20, 1)], s\n"
    "h = e.Histograms('w')[0]\n"
    "assert h.step == 7 and h.histogram_value.num == 4, h\n"
    "assert sum(h.histogram_value.bucket) == 4, h\n";

static void
their_readers_read_them(void **state)
{
    (void)state;
    run_program("var w: f32[1, 2] = [[1.0, 2.0]]\nvar b: bool = true\n"
                "var u: u8[1] = [7]\nmain { save(\"read\") }\n",
                2);
    Ran r = run_there(compile(tells, 2), "TFD_SPIN=0", "--log-dir logs/b");
    assert_int_equal(r.code, 0);
    write_text(in_dir("reader.py"), reader);
    run_ok(arena, "env python3 %s %s %s", in_dir("reader.py"),
           in_dir("read/variables.safetensors"), in_dir("logs/b"));
}

static int
read_by_others(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(their_readers_read_them),
    };
    if (system("python3 -c 'import safetensors.numpy, tensorboard' "
               ">/dev/null 2>&1") != 0) {
        puts("1..0 # SKIP Python has no packages safetensors and tensorboard");
        return 0;
    }
    return cmocka_run_group_tests(tests, new_dir, release_arena);
}

/* save_test [readers] */
int
main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "readers") == 0)
        return read_by_others();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_checkpoint_has_these_bytes),
        cmocka_unit_test(checkpoints_fit_any_number_of_devices),
        cmocka_unit_test(draws_go_on_where_replicas_take_other_turns),
        cmocka_unit_test(listed_variables_are_all_that_changes),
        cmocka_unit_test(the_file_has_other_names),
        cmocka_unit_test(the_file_has_another_width),
        cmocka_unit_test(what_does_not_fit_is_told),
        cmocka_unit_test(files_stand_in_the_way),
        cmocka_unit_test(damaged_files_are_refused),
        cmocka_unit_test(a_failure_leaves_the_old_or_the_new),
        cmocka_unit_test(events_have_these_bytes),
        cmocka_unit_test(tags_may_be_any_text),
        cmocka_unit_test(steps_have_summaries),
        cmocka_unit_test(a_tag_may_be_empty),
        cmocka_unit_test(summaries_are_not_kept_unasked),
    };
    return cmocka_run_group_tests(tests, new_dir, release_arena);
}
