/*
 * peers_test.c - bytes of another process of a job that cannot be right
 *
 * A run of two processes, of which this one is rank 0, has nothing but what the
 * module reads; what rank 1 sends is made here.
 */
#include "tests/unit/dir.h"
#include "tests/unit/status.h"

#include <limits.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include "ir/base/hash/hash.h"
#include "runtime/checkpoint/archive.h"
#include "runtime/checkpoint/events.h"
#include "runtime/cluster/segments/speed.h"
#include "runtime/exec/output.h"
#include "runtime/exec/run_state.h"
#include "runtime/exec/summaries.h"
#include "runtime/ops/same_files.h"

enum { SIZE = 2, MOST_CALLS = 3 };

/* What rank 1 gives in each exchange, and in a gather. */
static RtBytes given[MOST_CALLS];
static int num_calls;

static Status
exchange(void *data, const char *name, const void *own, size_t bytes, Arena *a,
         RtBytes **all)
{
    (void)data;
    (void)name;
    assert_true(num_calls < MOST_CALLS);
    *all = NEW_ARRAY(a, RtBytes, SIZE);
    (*all)[0] = (RtBytes){arena_copy(a, own, bytes), bytes};
    /* Just as long: what is read behind it is found by AddressSanitizer. */
    RtBytes b = given[num_calls++];
    char *copy = malloc(b.len + !b.len);
    arena_on_release(a, free, copy);
    if (b.len)
        memcpy(copy, b.data, b.len);
    (*all)[1] = (RtBytes){copy, b.len};
    return OK;
}

static Status
group_gather(RtGroup *g, int root, const void *own, size_t n,
             void (*take)(void *data, int rank, const void *part, size_t n),
             void *data)
{
    (void)g;
    take(data, root, own, n);
    take(data, 1, given[0].data, given[0].len);
    return OK;
}

static Status
group_start(RtGroup *g, int slot, const void *own, size_t bytes)
{
    (void)g, (void)slot, (void)own, (void)bytes;
    return OK;
}

static Status
group_finish(RtGroup *g, int slot, void *all)
{
    (void)g, (void)slot, (void)all;
    return OK;
}

static const RtGroupOps group_ops = {
    .gather = group_gather, .start = group_start, .finish = group_finish};

static RtGroup group = {&group_ops, 0, SIZE};
static IrModule module;
static RtExecutor replicas[SIZE];
static RtOptions options;
static char words[64];

static RtRun
new_run(void)
{
    memset(&module, 0, sizeof module);
    memset(replicas, 0, sizeof replicas);
    module.num_workers = 1;
    module.diag = diag_new(arena);
    diag_add_source(module.diag, "a.tfd", NULL, 0);
    for (int i = 0; i < SIZE; i++) {
        replicas[i].arena = arena;
        replicas[i].lines.text = str_new(arena);
    }
    num_calls = 0;
    return (RtRun){.arena = arena,
                   .module = &module,
                   .options = &options,
                   .group = &group,
                   .exchange = {0, SIZE, exchange, NULL},
                   .agreement = {.all = words},
                   .size = SIZE,
                   .num_replicas = SIZE,
                   .num_local = 1,
                   .replicas = replicas,
                   .locals = replicas};
}

/* ---- lines --------------------------------------------------------------- */

/* Two lines of the replica of rank 1 that end there, and their text. */
static void
give_lines(int64_t first, int64_t second, const char *text)
{
    RtArchive ar = rt_archive_writer(arena, 0);
    int64_t num = 2, is_summary = 0, len = (int64_t)strlen(text);
    rt_archive_i64(&ar, &num, 0, INT64_MAX);
    rt_archive_i64(&ar, &first, INT64_MIN, INT64_MAX);
    rt_archive_i64(&ar, &is_summary, 0, 1);
    rt_archive_i64(&ar, &second, INT64_MIN, INT64_MAX);
    rt_archive_i64(&ar, &is_summary, 0, 1);
    rt_archive_i64(&ar, &len, 0, INT64_MAX);
    rt_archive_bytes(&ar, (void *)(uintptr_t)text, (size_t)len);
    given[0] = (RtBytes){ar.data, ar.len};
}

static Status
print_given(const char **out)
{
    char *text;
    size_t n;
    RtRun run = new_run();
    options.out = open_memstream(&text, &n);
    Status st = rt_print_lines(&run, true);
    fclose(options.out);
    *out = arena_strndup(arena, text, n);
    free(text);
    return st;
}

static void
lines_of_others_are_printed(void **state)
{
    const char *out;
    (void)state;
    give_lines(2, 5, "a\nbc\n");
    assert_null(print_given(&out));
    assert_string_equal(out, "a\nbc\n");
}

static void
lines_end_in_their_text_and_in_order(void **state)
{
    const char *out;
    (void)state;
    give_lines(5, 2, "a\nbc\n");
    assert_status(print_given(&out), STATUS_INPUT,
                  "2 is not from 5 to 9223372036854775807");
    assert_string_equal(out, "");
    give_lines(2, 6, "a\nbc\n");
    assert_status(print_given(&out), STATUS_INPUT,
                  "a line ends behind the text");
    assert_string_equal(out, "");
    give_lines(2, 5, "a\nbc\n");
    given[0].len--;
    assert_status(print_given(&out), STATUS_INPUT, "it ends before 5 parts");
    assert_string_equal(out, "");
}

/* ---- summaries ----------------------------------------------------------- */

/* Every byte of a line but those of the tag, with values of all kinds. */
static void
a_summary_that_cannot_be_is_none(void **state)
{
    static const unsigned char values[] = {0, 1, 2, 127, 128, 255};
    static const float numbers[] = {1.0f, 2.0f};
    RtRun run = new_run();
    Str line = str_new(arena);
    (void)state;
    rt_summary_pack(&line, &(RtSummary){.step = 1,
                                        .is_scalar = true,
                                        .dtype = DT_f32,
                                        .n = 2,
                                        .data = numbers});
    str_add(&line, "tag");
    assert_null(rt_events_open(dir, &run.events));
    int64_t begin = rt_events_bytes(run.events);
    assert_null(rt_summary_write_line(&run, line.data, line.len));
    assert_true(rt_events_bytes(run.events) > begin);
    for (size_t i = 0; i + 3 < line.len; i++)
        for (size_t k = 0; k < sizeof values; k++) {
            char *copy = malloc(line.len);
            memcpy(copy, line.data, line.len);
            copy[i] = (char)values[k];
            assert_null(rt_summary_write_line(&run, copy, line.len));
            free(copy);
        }
    rt_events_close(run.events);
}

/* ---- gathers ------------------------------------------------------------- */

static void
add_word(void *data, int rank, const void *part, size_t n)
{
    (void)rank;
    (void)n;
    *(int64_t *)data += *(const int64_t *)part;
}

static void
parts_of_a_gather_have_one_length(void **state)
{
    int64_t own = 3, sum = 0;
    RtRun run = new_run();
    (void)state;
    given[0] = (RtBytes){&own, sizeof own};
    assert_null(rt_gather_equal(&run, &own, sizeof own, add_word, &sum));
    assert_int_equal(sum, 6);
    given[0].len--;
    assert_status(rt_gather_equal(&run, &own, sizeof own, add_word, &sum),
                  STATUS_INPUT,
                  "rank 1 has sent a part of a gather that is not as long as "
                  "that of rank 0");
    assert_int_equal(sum, 9);
}

/* ---- lists of files ------------------------------------------------------ */

typedef struct Digests { /* of the list of all, and of those of worker 0 */
    int64_t all;
    char all_hash[HASH_LEN];
    int64_t own;
    char own_hash[HASH_LEN];
} Digests;

typedef struct Entry {
    Loc loc;
    int64_t size;
    char name[8];
} Entry;

static Digests digests;
static char hashes[2 * HASH_LEN];
static Entry entry;

/* Rank 1 has so many files, and says of the first one that it is b.txt. */
static RtRun
two_lists(int64_t num_files)
{
    digests = (Digests){.all = num_files, .own = -1};
    entry = (Entry){.size = 7, .name = "b.txt"};
    given[0] = (RtBytes){&digests, sizeof digests};
    given[1] = (RtBytes){&entry, offsetof(Entry, name) + 6};
    if (num_files == 2) {
        given[2] = given[1];
        given[1] = (RtBytes){hashes, sizeof hashes};
    }
    return new_run();
}

static void
assert_no_list(RtRun *run)
{
    assert_status(rt_check_same_files(run), STATUS_INPUT,
                  "rank 1 has sent what is no list of files");
}

static void
a_file_of_another_process_is_named(void **state)
{
    RtRun run = two_lists(2);
    (void)state;
    assert_status_says(rt_check_same_files(&run), STATUS_INPUT,
                       "\"b.txt\" is a file of rank 1, and not of rank 0");
}

static void
lists_of_files_are_as_long_as_they_have_to_be(void **state)
{
    (void)state;
    RtRun run = two_lists(1);
    given[0].len--;
    assert_no_list(&run);
    run = two_lists(2);
    given[1].len--;
    assert_no_list(&run);
    run = two_lists((int64_t)INT_MAX + 1);
    assert_no_list(&run);
}

static void
names_of_files_end(void **state)
{
    (void)state;
    RtRun run = two_lists(1);
    given[1].len--;
    assert_no_list(&run);
    run = two_lists(1);
    given[1].len = offsetof(Entry, name);
    assert_no_list(&run);
    run = two_lists(1);
    entry.loc.file = 1;
    assert_no_list(&run);
}

/* ---- memory -------------------------------------------------------------- */

static void
assert_shares_other_memory(RtSegmentName *name, size_t n)
{
    RtExchange x = {0, SIZE, exchange, NULL};
    RtMemoryTest *t;
    Str why = str_new(arena);
    num_calls = 0;
    given[0] = (RtBytes){name, n};
    given[1] = (RtBytes){NULL, 0}; /* no reason why it could not map them */
    assert_status(rt_memory_test_open(&x, false, &t, &why), STATUS_MACHINE,
                  "rank 1 shares other memory than it should");
}

static void
segments_of_others_are_those_that_are_expected(void **state)
{
    RtSegment small;
    (void)state;
    assert_null(rt_segment_new(1, false, &small));
    RtSegmentName names[2] = {rt_segment_name(&small)};
    assert_shares_other_memory(names, 0);
    assert_shares_other_memory(names, sizeof *names);
    assert_shares_other_memory(names + 1, sizeof *names); /* of no segment */
    rt_segment_close(&small);
}

int
main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, new_dir, release_arena)
    const struct CMUnitTest tests[] = {
        TEST(lines_of_others_are_printed),
        TEST(lines_end_in_their_text_and_in_order),
        TEST(a_summary_that_cannot_be_is_none),
        TEST(parts_of_a_gather_have_one_length),
        TEST(a_file_of_another_process_is_named),
        TEST(lists_of_files_are_as_long_as_they_have_to_be),
        TEST(names_of_files_end),
        TEST(segments_of_others_are_those_that_are_expected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
