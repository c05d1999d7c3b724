/*
 * rebatch_test.c - the share of each of several workers, and whole elements
 *
 * A row is a pipeline with the steps of every worker, "|" between them: each
 * worker makes its own steps from its number.  Names are those of the cases of
 * tf.distribute (docs/tensorflow.md section 7).  A worker whose data end before
 * the others' makes empty steps as long as others have data, which the rows do
 * not show.
 */
#include "tests/unit/unit.h"

#include <unistd.h>
#include "ir/base/io/file.h"
#include "ir/dataset/sharding.h"
#include "tests/data/pipe.h"

#define RANGE(a, b) "range start=" #a " stop=" #b " : i64\n"
#define BATCH(n) "batch size=" #n " drop_remainder=0 : i64[b" #n "]\n"
#define WHOLE(n) "batch size=" #n " drop_remainder=1 : i64[" #n "]\n"
#define BYTES(n) "batch size=" #n " drop_remainder=0 : u8[b" #n "]\n"
#define FILES(a, b) "bytes \"" a "\", \"" b "\" : u8\n"
#define SHARD(n, i) "shard num=" #n " index=" #i " : i64\n"

typedef struct Row {
    const char *name;
    Pipe pipe;
    const char *want;
} Row;

/* clang-format off */
static const Row rows[] = {
    /* ---- workers, by data ---- */
    {"INP-24", {.stages = RANGE(0, 8) BATCH(2), .workers = 2},
     "[0]; [2]; [4]; [6] | [1]; [3]; [5]; [7]"},
    {"INP-25", {.stages = RANGE(0, 9) BATCH(2), .workers = 2},
     "[0]; [2]; [4]; [6]; [8] | [1]; [3]; [5]; [7]; []"},
    {"INP-26", {.stages = RANGE(0, 9) WHOLE(2), .workers = 2},
     "[0]; [2]; [4]; [6] | [1]; [3]; [5]; [7]"},
    {"INP-27", {.stages = RANGE(0, 15) BATCH(4), .workers = 2, .replicas = 2},
     "[0]/[2]; [4]/[6]; [8]/[10]; [12]/[14] | "
     "[1]/[3]; [5]/[7]; [9]/[11]; [13]/[]"},
    {"INP-29 auto", {.stages = RANGE(0, 8) BATCH(3), .workers = 2},
     "[0 1]; [3 4]; [6] | [2]; [5]; [7]"},
    {"INP-29 data",
     {.stages = RANGE(0, 8) BATCH(3), .workers = 2, .shard = "data"},
     "[0 1]; [3 4]; [6] | [2]; [5]; [7]"},
    {"INP-33", {.stages = RANGE(0, 14) BATCH(8), .workers = 2},
     "[0 1 2 3]; [8 9 10] | [4 5 6 7]; [11 12 13]"},
    {"INP-34 auto", {.stages = RANGE(0, 4) BATCH(2), .workers = 2},
     "[0]; [2] | [1]; [3]"},
    {"INP-35",
     {.stages = RANGE(0, 12) BATCH(4), .workers = 2, .shard = "data"},
     "[0 1]; [4 5]; [8 9] | [2 3]; [6 7]; [10 11]"},

    /* ---- workers that read everything ---- */
    {"INP-31", {.stages = RANGE(0, 12) BATCH(8), .workers = 2, .shard = "off"},
     "[0 1 2 3]; [4 5 6 7]; [8 9 10 11] | "
     "[0 1 2 3]; [4 5 6 7]; [8 9 10 11]"},
    {"INP-34 off",
     {.stages = RANGE(0, 4) BATCH(2), .workers = 2, .shard = "off"},
     "[0]; [1]; [2]; [3] | [0]; [1]; [2]; [3]"},
    {"workers begin in turn",
     {.stages = RANGE(0, 8) BATCH(4), .workers = 3, .shard = "off"},
     "[0 1]; [2]; [3]; [4 5]; [6]; [7] | "
     "[0]; [1]; [2 3]; [4]; [5]; [6 7] | "
     "[0]; [1 2]; [3]; [4]; [5 6]; [7]"},
    {"parts of no rows alone",
     {.stages = RANGE(0, 1) BATCH(1), .workers = 2, .replicas = 2,
      .shard = "off"},
     "[0]/[]; []/[] | []/[]; [0]/[]; []/[]"},
    {"batches of unknown size",
     {.stages = RANGE(0, 5) BATCH(4) "map @halves : f32[b4]\n", .workers = 2,
      .shard = "off"},
     "[0.0 0.5]; [1.0 1.5]; [2.0]; [] | [0.0 0.5]; [1.0 1.5]; [2.0]; []"},

    /* ---- workers, by file: those named a-b have the bytes a to b ---- */
    {"INP-37",
     {.stages = FILES("0-5", "6-11") BYTES(4), .workers = 2, .shard = "file"},
     "[0 1]; [2 3]; [4 5] | [6 7]; [8 9]; [10 11]"},
    {"INP-37 auto", {.stages = FILES("0-5", "6-11") BYTES(4), .workers = 2},
     "[0 1]; [2 3]; [4 5] | [6 7]; [8 9]; [10 11]"},
    {"INP-37 data",
     {.stages = FILES("0-5", "6-11") BYTES(4), .workers = 2, .shard = "data"},
     "[0 1]; [4 5]; [8 9] | [2 3]; [6 7]; [10 11]"},
    {"INP-42, one after the other",
     {.stages = "bytes \"?-[369]\" : u8\n" BYTES(2), .workers = 2},
     "[1]; [2]; [3]; [7]; [8]; [9] | [4]; [5]; [6]"},

    /* ---- whole elements ---- */
    {"FUN-01",
     {.stages = RANGE(5, 9), .replicas = 2, .iter = "from @data"},
     "5/6; 7/8"},
    {"FUN-02",
     {.stages = RANGE(0, 9) BATCH(2), .replicas = 2,
      .iter = "from @data rows n"},
     "[0 1]/[2 3]; [4 5]/[6 7]; [8]/[]"},
    {"INP-49",
     {.stages = RANGE(0, 10) SHARD(2, 0) BATCH(1), .replicas = 2,
      .iter = "from @data rows n"},
     "[0]/[2]; [4]/[6]; [8]/[]"},
    {"steps of equal elements are complete",
     {.stages = RANGE(0, 10) WHOLE(2), .replicas = 2, .iter = "from @data"},
     "[0 1]/[2 3]; [4 5]/[6 7]"},
    {"one pipeline a worker",
     {.stages = RANGE(0, 4) BATCH(1), .second = RANGE(4, 9) BATCH(1),
      .workers = 2, .iter = "from @data, @second rows n"},
     "[0]; [1]; [2]; [3] | [4]; [5]; [6]; [7]; [8]"},
    {"FUN-06",
     {.stages = RANGE(0, 8) BATCH(2), .second = RANGE(0, 9) BATCH(2),
      .workers = 2, .iter = "from @data, @second rows n"},
     "[0 1]; [2 3]; [4 5]; [6 7] | [0 1]; [2 3]; [4 5]; [6 7]; [8]"},
    {"FUN-06 by replica",
     {.stages = RANGE(0, 8) BATCH(2), .second = RANGE(0, 9) BATCH(2),
      .replicas = 2, .iter = "from @data, @second rows n"},
     "[0 1]/[0 1]; [2 3]/[2 3]; [4 5]/[4 5]; [6 7]/[6 7]; []/[8]"},
    {"FUN-12",
     {.stages = RANGE(0, 14) BATCH(4) "shard num=2 index=0 : i64[b4]",
      .second = RANGE(0, 14) BATCH(4) "shard num=2 index=1 : i64[b4]",
      .workers = 2, .iter = "from @data, @second rows n"},
     "[0 1 2 3]; [8 9 10 11] | [4 5 6 7]; [12 13]"},
    {"the shorter pipeline ends steps of equal elements",
     {.stages = RANGE(0, 2), .second = RANGE(10, 13), .replicas = 2,
      .iter = "from @data, @second"},
     "0/10; 1/11"},

    {"an endless pipeline ends with the others",
     {.stages = RANGE(0, 2) "repeat count=-1 : i64\n" BATCH(2),
      .second = RANGE(10, 13) BATCH(2), .replicas = 2,
      .iter = "from @data, @second rows n"},
     "[0 1]/[10 11]; [0 1]/[12]"},
    {"pipelines of one dataset are shuffled each in its own way",
     {.stages = RANGE(0, 8) "shuffle buffer=8 seed=0 reshuffle=1 has_seed=0 : "
                "i64\n" BATCH(8), .replicas = 2,
      .iter = "from @data, @data rows n"},
     "[2 5 4 1 6 0 7 3]/[7 2 1 0 3 5 4 6]"},
    {"pipelines of one dataset with a seed are shuffled alike",
     {.stages = RANGE(0, 4) "shuffle buffer=4 seed=1 reshuffle=1 has_seed=1 : "
                "i64\n" BATCH(4), .replicas = 2,
      .iter = "from @data, @data rows n"},
     "[0 3 1 2]/[0 3 1 2]"},

    /* ---- errors ---- */
    {"INP-44",
     {.stages = "bytes \"?-[369]\", \"0-5\", \"6-11\" : u8\n"
                "batch size=4 drop_remainder=0 : u8[b4] at 3:4+5\n",
      .workers = 10, .shard = "file"},
     "error: test.tfd:3:4: \"data\" cannot be sharded by file: it has 5 of "
     "them, and there are 10 workers"},
    {"replicas that workers cannot share",
     {.stages = RANGE(0, 4) BATCH(2), .workers = 2, .replicas = 2, .own = 3},
     "error: 4 replicas cannot be shared by workers of 3 each"},
    {"INP-48", {.stages = RANGE(0, 4) BATCH(2), .workers = 2, .worker = 2},
     "error: worker 2 cannot have a part of the data of 2 workers, which are "
     "counted from 0"},
    {"a pipeline is missing",
     {.stages = RANGE(0, 4) BATCH(1), .second = RANGE(4, 9) BATCH(1),
      .workers = 2, .replicas = 2, .iter = "from @data rows n"},
     "error: \"it\" has 1 pipelines, and there are 2 workers"},
};
/* clang-format on */

enum { NUM_ROWS = sizeof rows / sizeof *rows };

/* ---- files -------------------------------------------------------------- */

static char folder[] = "/tmp/tfd-rebatch-XXXXXX";

static const struct {
    const char *name;
    int first, last;
} files[] = {{"0-5", 0, 5},
             {"6-11", 6, 11},
             {"1-3", 1, 3},
             {"4-6", 4, 6},
             {"7-9", 7, 9}};

enum { NUM_FILES = sizeof files / sizeof *files };

static int
write_files(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    for (int i = 0; i < NUM_FILES; i++) {
        char path[64], bytes[16];
        int len = 0;
        for (int x = files[i].first; x <= files[i].last; x++)
            bytes[len++] = (char)x;
        snprintf(path, sizeof path, "%s/%s", folder, files[i].name);
        assert_null(file_write(path, bytes, (size_t)len));
    }
    return 0;
}

static int
remove_files(void **state)
{
    (void)state;
    for (int i = 0; i < NUM_FILES; i++) {
        char path[64];
        snprintf(path, sizeof path, "%s/%s", folder, files[i].name);
        unlink(path);
    }
    return rmdir(folder);
}

/* ---- rows --------------------------------------------------------------- */

static int
num_workers(const Pipe *pipe)
{
    return pipe->workers ? pipe->workers : 1;
}

/* The passes of all workers; in turns: with a state archived after each step.
 */
static const char *
all_passes(Arena *a, Pipe pipe, bool in_turns)
{
    Str s = str_new(a);
    for (int first = pipe.worker; pipe.worker < first + num_workers(&pipe);
         pipe.worker++)
        str_addf(&s, "%s%s", pipe.worker > first ? " | " : "",
                 in_turns ? pipe_pass_in_turns(a, &pipe)
                          : pipe_steps(a, &pipe));
    return str_text(&s);
}

static void
expect_row(void **state)
{
    const Row *row = *state;
    for (int threads = 0; threads < 2; threads++) {
        Arena *a = arena_new(NULL, "test");
        Pipe pipe = row->pipe;
        pipe.threads = threads;
        pipe.dir = folder;
        if (strncmp(row->want, "error: ", 7) == 0) {
            assert_string_equal(pipe_steps(a, &pipe), row->want);
        } else {
            assert_string_equal(all_passes(a, pipe, false), row->want);
            assert_string_equal(all_passes(a, pipe, true), row->want);
        }
        arena_release(a);
    }
}

/* ---- sizes -------------------------------------------------------------- */

/* The first num_replicas sizes of the parts of worker i, of num_local replicas
 * each. */
static const char *
sizes(Arena *a, int64_t batch, int num_replicas, int num_local, int worker)
{
    Str s = str_new(a);
    for (int k = 0; k < num_replicas; k++)
        str_addf(&s, "%s%lld", k ? " " : "",
                 (long long)ir_rebatch_rows(batch, num_replicas,
                                            worker * num_local + k));
    return str_text(&s);
}

static void
INP_01(void **state)
{
    Arena *a = arena_new(NULL, "test");
    (void)state;
    assert_string_equal(sizes(a, 8, 4, 2, 0), "2 2 2 2");
    assert_string_equal(sizes(a, 8, 4, 2, 1), "2 2 2 2");
    arena_release(a);
}

static void
INP_02(void **state)
{
    Arena *a = arena_new(NULL, "test");
    (void)state;
    assert_string_equal(sizes(a, 4, 3, 1, 0), "2 1 1");
    assert_string_equal(sizes(a, 4, 3, 1, 1), "1 1 2");
    assert_string_equal(sizes(a, 4, 3, 1, 2), "1 2 1");
    arena_release(a);
}

int
main(void)
{
    struct CMUnitTest tests[NUM_ROWS + 2] = {cmocka_unit_test(INP_01),
                                             cmocka_unit_test(INP_02)};
    for (int i = 0; i < NUM_ROWS; i++)
        tests[i + 2] = (struct CMUnitTest){rows[i].name, expect_row, NULL, NULL,
                                           (void *)(uintptr_t)&rows[i]};
    return _cmocka_run_group_tests("rebatch", tests, NUM_ROWS + 2, write_files,
                                   remove_files);
}
