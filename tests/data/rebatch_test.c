/*
 * rebatch_test.c - the share of each of several workers, and whole elements
 *
 * A row is a pipeline with the steps of every worker, "|" between them.  Names
 * are those of the cases of tf.distribute (docs/tensorflow.md section 7).  Each
 * row is run by one process with all workers and by several that exchange the
 * rows of their replicas: by one for each worker, and one for each replica.
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
     "[0]/[]; []/[]; []/[] | []/[]; [0]/[]; []/[]"},
    {"batches of unknown size",
     {.stages = RANGE(0, 5) BATCH(4) "map @halves : f32[b4]\n", .workers = 2,
      .shard = "off"},
     "[0.0 0.5]; [1.0 1.5]; [2.0]; [] | [0.0 0.5]; [1.0 1.5]; [2.0]; []"},
    {"steps of no rows between others",
     {.stages = RANGE(0, 8) BATCH(4) "map @halves : f32[b4]\n", .workers = 3,
      .shard = "off"},
     "[0.0 0.5]; [1.0 1.5]; []; [2.0 2.5]; [3.0 3.5]; [] | "
     "[0.0 0.5]; [1.0 1.5]; []; [2.0 2.5]; [3.0 3.5]; [] | "
     "[0.0 0.5]; [1.0 1.5]; []; [2.0 2.5]; [3.0 3.5]; []"},

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
     "[1]; [2]; [3]; [7]; [8]; [9] | [4]; [5]; [6]; []; []; []"},

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
     "[0]; [1]; [2]; [3]; [] | [4]; [5]; [6]; [7]; [8]"},
    {"FUN-06",
     {.stages = RANGE(0, 8) BATCH(2), .second = RANGE(0, 9) BATCH(2),
      .workers = 2, .iter = "from @data, @second rows n"},
     "[0 1]; [2 3]; [4 5]; [6 7]; [] | [0 1]; [2 3]; [4 5]; [6 7]; [8]"},
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
     "them, and there are 10 workers; shard = data or off needs no "
     "files"},
    {"INP-48",
     {.stages = RANGE(0, 4) BATCH(2), .workers = 2, .first = 2, .local = 1},
     "error: 1 replicas from number 2 are not among the plan's 2, which are "
     "counted from 0"},
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

/* ---- processes ---------------------------------------------------------- */

enum { MAX_REPLICAS = 4 };

/* The iterators of all processes, which have equally many replicas. */
typedef struct Job {
    PipeRun processes[MAX_REPLICAS];
    int num, replicas, workers;
} Job;

static Job
open_job(Arena *a, Pipe pipe, int num)
{
    Job job = {.num = num, .workers = pipe.workers ? pipe.workers : 1};
    job.replicas = job.workers * (pipe.replicas ? pipe.replicas : 1);
    assert_true(job.replicas <= MAX_REPLICAS);
    pipe.local = job.replicas / num;
    for (int p = 0; p < num; p++) {
        pipe.first = p * pipe.local;
        job.processes[p] = pipe_run(a, &pipe);
    }
    return job;
}

/* Every process moves to the next step; false: there is none. */
static bool
next_step(const Job *job)
{
    bool more;
    int64_t own[MAX_REPLICAS];
    for (int p = 0; p < job->num; p++)
        assert_null(rt_iter_local_rows(job->processes[p].it,
                                       &own[p * job->replicas / job->num]));
    for (int p = 0; p < job->num; p++) {
        RtIter *it = job->processes[p].it;
        rt_iter_set_rows(it, own);
        assert_null(rt_iter_has_next(it, &more));
        if (more)
            assert_null(rt_iter_next(it));
    }
    return more;
}

static void
add_steps(Str *workers, const Job *job)
{
    for (int r = 0; r < job->replicas; r++) {
        int each = job->replicas / job->workers;
        Str *s = &workers[r / each];
        str_add(s, r % each ? "/" : s->len ? "; " : "");
        pipe_add_part(s, &job->processes[r * job->num / job->replicas], r);
    }
}

/* Writes the state of all, as the first one does that has the others' parts. */
static RtArchive
archive_job(Arena *a, const Job *job)
{
    RtWorkerState others[MAX_REPLICAS];
    RtArchive ar = rt_archive_writer(a, 0);
    for (int w = 0; w < job->workers; w++) {
        RtIter *it = job->processes[w * job->num / job->workers].it;
        RtArchive own = rt_archive_writer(a, 0);
        assert_true(rt_iter_has_worker(it, w));
        assert_null(rt_iter_archive_worker(it, w, &own));
        others[w] = (RtWorkerState){own.data, own.len};
    }
    assert_null(rt_iter_archive(job->processes[0].it, &ar, others));
    return ar;
}

/* The next number of processes that runs the rows. */
static int
other_number(const Job *job)
{
    return job->num == 1              ? job->workers
           : job->num < job->replicas ? job->replicas
                                      : 1;
}

/* Another number of processes that goes on from the state of these. */
static Job
resume_job(Arena *a, const Pipe *pipe, const Job *from)
{
    RtArchive state = archive_job(a, from);
    Job job = open_job(a, *pipe, other_number(from));
    for (int p = 0; p < job.num; p++) {
        RtArchive back = rt_archive_reader(a, state.data, state.len);
        assert_null(rt_iter_archive(job.processes[p].it, &back, NULL));
        assert_null(rt_archive_end(&back));
    }
    return job;
}

/* ---- rows --------------------------------------------------------------- */

/* A pass of all workers, by num processes; in turns: with another number of
 * them after each step. */
static const char *
all_passes(Arena *a, const Pipe *pipe, int num, bool in_turns)
{
    Str all = str_new(a), workers[MAX_REPLICAS];
    Job job = open_job(a, *pipe, num);
    for (int w = 0; w < job.workers; w++)
        workers[w] = str_new(a);
    for (int p = 0; p < num; p++)
        assert_null(rt_iter_open(job.processes[p].it, 0));
    while (next_step(&job)) {
        add_steps(workers, &job);
        if (in_turns)
            job = resume_job(a, pipe, &job);
    }
    for (int w = 0; w < job.workers; w++)
        str_addf(&all, "%s%s", w ? " | " : "", str_text(&workers[w]));
    return str_text(&all);
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
            int workers = pipe.workers ? pipe.workers : 1;
            int all = workers * (pipe.replicas ? pipe.replicas : 1);
            assert_string_equal(all_passes(a, &pipe, 1, false), row->want);
            assert_string_equal(all_passes(a, &pipe, workers, false),
                                row->want);
            assert_string_equal(all_passes(a, &pipe, all, false), row->want);
            assert_string_equal(all_passes(a, &pipe, 1, true), row->want);
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
