/*
 * steps_test.c - the elements of each stage, and each replica's share of them
 *
 * A row is a pipeline with all its steps.  Names INP-... are those of the cases
 * of tf.distribute (docs/tensorflow.md section 7).  Every row is run with and
 * without a thread, and twice: both passes see the same data.  Then it is run
 * once more by pipelines that take turns: each continues from the state of the
 * one before.
 */
#include "tests/unit/unit.h"

#include "tests/data/pipe.h"

#define BATCH(n) "batch size=" #n " drop_remainder=0 : i64[b" #n "]"
#define WHOLE(n) "batch size=" #n " drop_remainder=1 : i64[" #n "]"
#define BATCH_OF(n, dims)                                                      \
    "batch size=" #n " drop_remainder=0 : i64[b" #n ", " dims "]"
#define WINDOW(n, stride)                                                      \
    "window size=" #n " stride=" #stride " : i64[" #n "]\n"
#define REPEAT(n) "repeat count=" #n " : i64\n"
#define TAKE(n) "take count=" #n " : i64\n"
#define SKIP(n) "skip count=" #n " : i64\n"
#define SHARD(n, i) "shard num=" #n " index=" #i " : i64\n"
#define MAP(f, types) "map @" #f " : " types "\n"
#define FILTER(f) "filter @" #f " : i64\n"
#define UNBATCH "unbatch : i64\n"
#define LANES(n) "lanes num=" #n " : i64[" #n "]\n"
#define CACHE "cache : i64\n"
#define ZIP "zip with @second : i64, i64 at 3:4+5\n"
#define CONCAT "concat with @second : i64\n"
#define PAIRS(n)                                                               \
    "batch size=" #n " drop_remainder=0 : i64[b" #n "], i64[b" #n "]"
#define RANGE(a, b) "range start=" #a " stop=" #b " : i64\n"

typedef struct Row {
    const char *name;
    const char *stages;
    const char *shard; /* NULL: auto */
    int replicas;
    const char *want;
} Row;

/* One that reads another dataset, @second, of these stages. */
typedef struct Joined {
    Row row;
    const char *second;
} Joined;

/* clang-format off */
static const Row rows[] = {
    /* ---- sources ---- */
    {"range", RANGE(-2, 3) BATCH(8), NULL, 1, "[-2 -1 0 1 2]"},
    {"range_backwards", RANGE(3, -2) BATCH(8), NULL, 1, ""},
    {"range_of_the_greatest", RANGE(9223372036854775805, 9223372036854775807)
     BATCH(8), NULL, 1, "[9223372036854775805 9223372036854775806]"},
    {"range_too_long",
     "range start=-9223372036854775807 stop=2 : i64 at 2:3+4\n" BATCH(8), NULL,
     1, "error: test.tfd:2:3: a range of more than 2^63 numbers"},
    {"tensors",
     "tensors count=2 data=hex\"0000803f00000040" /* 1.0 2.0 */
     "010002000300" "040005000600" "0708\" : f32, i16[3], u8\n"
     "batch size=8 drop_remainder=0 : f32[b8], i16[b8, 3], u8[b8]",
     NULL, 1, "[1.0 2.0]+[[1 2 3] [4 5 6]]+[7 8]"},
    {"tensors_without_rows", "tensors count=0 data=hex\"\" : f32\n"
     "batch size=8 drop_remainder=0 : f32[b8]", NULL, 2, ""},
    {"tensors_of_nothing", "tensors count=2 data=hex\"\" : f32[0]\n"
     "batch size=8 drop_remainder=0 : f32[b8, 0]", NULL, 2, "[[]]/[[]]"},

    /* ---- stages ---- */
    {"map", RANGE(0, 3) MAP(twice, "i64") BATCH(8), NULL, 1, "[0 2 4]"},
    {"map_to_two", RANGE(0, 3) MAP(pair, "i64, i64")
     "batch size=8 drop_remainder=0 : i64[b8], i64[b8]", NULL, 1,
     "[0 1 2]+[1 2 3]"},
    {"map_of_batches", RANGE(0, 7) BATCH(4) "\nmap @halves : f32[b4]", NULL, 2,
     "[0.0 0.5]/[1.0 1.5]; [2.0 2.5]/[3.0]"},
    {"batch", RANGE(0, 7) BATCH(3), NULL, 1, "[0 1 2]; [3 4 5]; [6]"},
    {"batch_fits", RANGE(0, 6) BATCH(3), NULL, 1, "[0 1 2]; [3 4 5]"},
    {"batch_drops", RANGE(0, 7) WHOLE(3), NULL, 1, "[0 1 2]; [3 4 5]"},
    {"batch_drops_all", RANGE(0, 2) WHOLE(3), NULL, 1, ""},
    {"batch_of_whole_batches", RANGE(0, 5) WHOLE(2) "\nbatch size=8 "
     "drop_remainder=0 : i64[b8, 2]", NULL, 1, "[[0 1] [2 3]]"},
    {"window", RANGE(0, 5) WINDOW(2, 2) BATCH_OF(8, "2"), NULL, 1,
     "[[0 1] [2 3]]"},
    {"window_overlapping", RANGE(0, 6) WINDOW(3, 1) BATCH_OF(8, "3"), NULL, 1,
     "[[0 1 2] [1 2 3] [2 3 4] [3 4 5]]"},
    {"window_overlapping_by_one", RANGE(0, 8) WINDOW(3, 2) BATCH_OF(8, "3"),
     NULL, 1, "[[0 1 2] [2 3 4] [4 5 6]]"},
    {"window_with_gaps", RANGE(0, 13) WINDOW(2, 5) BATCH_OF(8, "2"), NULL, 1,
     "[[0 1] [5 6] [10 11]]"},
    {"window_too_large", RANGE(0, 3) WINDOW(4, 1) BATCH_OF(8, "4"), NULL, 1,
     ""},
    {"window_of_windows", RANGE(0, 4) WINDOW(2, 1)
     "window size=2 stride=1 : i64[2, 2]\n" BATCH_OF(8, "2, 2"), NULL, 1,
     "[[[0 1] [1 2]] [[1 2] [2 3]]]"},
    {"map_of_windows", RANGE(0, 4) WINDOW(2, 1) MAP(sums, "i64") BATCH(8), NULL,
     1, "[1 3 5]"},
    {"repeat", RANGE(0, 2) REPEAT(3) BATCH(8), NULL, 1, "[0 1 0 1 0 1]"},
    {"repeat_never", RANGE(0, 2) REPEAT(0) BATCH(8), NULL, 1, ""},
    {"repeat_for_ever", RANGE(0, 3) REPEAT(-1) TAKE(7) BATCH(8), NULL, 1,
     "[0 1 2 0 1 2 0]"},
    {"repeat_nothing", RANGE(0, 0) REPEAT(-1) BATCH(8), NULL, 1, ""},
    {"repeat_repeat", RANGE(0, 1) REPEAT(2) REPEAT(3) BATCH(8), NULL, 1,
     "[0 0 0 0 0 0]"},
    {"repeat_batches", RANGE(0, 3) BATCH(2) "\nrepeat count=2 : i64[b2]",
     NULL, 1, "[0 1]; [2]; [0 1]; [2]"},
    {"batch_repeated", RANGE(0, 3) REPEAT(2) BATCH(2), NULL, 1,
     "[0 1]; [2 0]; [1 2]"},
    {"take", RANGE(0, 5) TAKE(3) BATCH(8), NULL, 1, "[0 1 2]"},
    {"take_nothing", RANGE(0, 5) TAKE(0) BATCH(8), NULL, 1, ""},
    {"take_more", RANGE(0, 2) TAKE(3) BATCH(8), NULL, 1, "[0 1]"},
    {"take_batches", RANGE(0, 7) BATCH(3) "\ntake count=2 : i64[b3]", NULL, 1,
     "[0 1 2]; [3 4 5]"},
    {"skip", RANGE(0, 5) SKIP(3) BATCH(8), NULL, 1, "[3 4]"},
    {"skip_nothing", RANGE(0, 2) SKIP(0) BATCH(8), NULL, 1, "[0 1]"},
    {"skip_all", RANGE(0, 5) SKIP(9) BATCH(8), NULL, 1, ""},
    {"skip_far", RANGE(0, 1000000000003) SKIP(1000000000000) BATCH(2), NULL, 1,
     "[1000000000000 1000000000001]; [1000000000002]"},
    {"skip_to_the_end", RANGE(0, 1000000000000) SKIP(1000000000000) BATCH(2),
     NULL, 1, ""},
    {"skip_beyond", RANGE(0, 1000000000000) SKIP(9223372036854775807) BATCH(2),
     NULL, 1, ""},
    {"skip_most", RANGE(0, 9223372036854775807) SKIP(9223372036854775805)
     BATCH(1), NULL, 1, "[9223372036854775805]; [9223372036854775806]"},
    {"skip_through_stages", RANGE(0, 9000000000000) SHARD(3, 2)
     TAKE(2000000000002) "prefetch depth=2 : i64\n" SKIP(1000000000000)
     SKIP(999999999999) BATCH(2), NULL, 1,
     "[5999999999999 6000000000002]; [6000000000005]"},
    {"skip_of_a_share", RANGE(0, 10) SHARD(3, 1) SKIP(2) BATCH(8), NULL, 1,
     "[7]"},
    {"skip_a_share_beyond", RANGE(0, 10) SHARD(3, 1) SKIP(4611686018427387904)
     BATCH(8), NULL, 1, ""},
    {"skip_more_than_is_taken", RANGE(0, 10) TAKE(3) SKIP(4) BATCH(8), NULL, 1,
     ""},
    {"skip_mapped", RANGE(0, 1000000000003) MAP(twice, "i64")
     SKIP(1000000000000) BATCH(2), NULL, 1,
     "[2000000000000 2000000000002]; [2000000000004]"},
    {"skip_many_batches", RANGE(0, 1000000000003)
     "batch size=2 drop_remainder=1 : i64[2]\nskip count=500000000000 : "
     "i64[2]\n" BATCH_OF(8, "2"), NULL, 1, "[[1000000000000 1000000000001]]"},
    {"skip_all_batches", RANGE(0, 1000000000003)
     "batch size=2 drop_remainder=1 : i64[2]\nskip count=500000000001 : "
     "i64[2]\n" BATCH_OF(8, "2"), NULL, 1, ""},
    {"skip_fails", RANGE(0, 9) MAP(no5, "i64") SKIP(7) BATCH(8), NULL, 1,
     "error: there is a 5"},
    {"skip_a_rest", RANGE(0, 7) BATCH(3) "\nskip count=3 : i64[b3]", NULL, 1,
     ""},
    {"skip_batches_beyond", RANGE(0, 7) BATCH(3)
     "\nskip count=9223372036854775807 : i64[b3]", NULL, 1, ""},
    {"skip_tensors", "tensors count=4 data=hex\"01020304\" : u8\n"
     "skip count=2 : u8\nbatch size=8 drop_remainder=0 : u8[b8]", NULL, 1,
     "[3 4]"},
    {"skip_most_of_a_window", RANGE(0, 1000000000003) WINDOW(2, 3)
     "skip count=333333333333 : i64[2]\n" BATCH_OF(8, "2"), NULL, 1,
     "[[999999999999 1000000000000]]"},
    {"skip_all_windows", RANGE(0, 1000000000003) WINDOW(2, 3)
     "skip count=9223372036854775807 : i64[2]\n" BATCH_OF(8, "2"), NULL, 1,
     ""},
    {"skip_passes", RANGE(0, 1000000000000) REPEAT(3) SKIP(2999999999999)
     BATCH(8), NULL, 1, "[999999999999]"},
    {"skip_nothing_for_ever", RANGE(0, 0) REPEAT(-1) SKIP(1000000000000)
     BATCH(8), NULL, 1, ""},
    {"skip_in_each_pass", RANGE(0, 4) SKIP(2) REPEAT(2) BATCH(8), NULL, 1,
     "[2 3 2 3]"},
    {"skip_batches", RANGE(0, 7) BATCH(3) "\nskip count=2 : i64[b3]", NULL, 1,
     "[6]"},
    {"prefetch", RANGE(0, 5) "prefetch depth=2 : i64\n" BATCH(2), NULL, 1,
     "[0 1]; [2 3]; [4]"},
    {"prefetch_none", RANGE(0, 5) BATCH(2) "\nprefetch depth=0 : i64[b2]", NULL,
     1, "[0 1]; [2 3]; [4]"},
    {"prefetch_one", RANGE(0, 5) BATCH(2) "\nprefetch depth=1 : i64[b2]", NULL,
     1, "[0 1]; [2 3]; [4]"},
    {"prefetch_many", RANGE(0, 5) BATCH(2) "\nprefetch depth=9 : i64[b2]",
     "off", 2, "[0]/[1]; [2]/[3]; [4]/[]"},
    {"INP-39a", RANGE(0, 10) SHARD(5, 2) BATCH(8), NULL, 1, "[2 7]"},
    {"INP-39b", RANGE(0, 10) SHARD(5, 0) BATCH(8), NULL, 1, "[0 5]"},
    {"INP-39c", RANGE(0, 10) SHARD(7, 5) BATCH(8), NULL, 1, "[5]"},
    {"INP-39d", RANGE(0, 1) SHARD(5, 2) BATCH(8), NULL, 1, ""},

    /* ---- rebatching: every batch by itself (legacy) ---- */
    {"INP-05", RANGE(0, 8) BATCH(4), NULL, 2, "[0 1]/[2 3]; [4 5]/[6 7]"},
    {"INP-06", RANGE(0, 8) BATCH(4), NULL, 3, "[0 1]/[2 3]/[]; [4 5]/[6 7]/[]"},
    {"INP-08", RANGE(0, 10) BATCH(4), NULL, 2,
     "[0 1]/[2 3]; [4 5]/[6 7]; [8]/[9]"},
    {"INP-11", RANGE(0, 9) WHOLE(4), NULL, 2, "[0 1]/[2 3]; [4 5]/[6 7]"},
    {"INP-12", RANGE(0, 10) BATCH(5), NULL, 3,
     "[0 1]/[2 3]/[4]; [5 6]/[7 8]/[9]"},
    {"INP-14", RANGE(0, 8) MAP(pair, "i64, i64")
     "batch size=4 drop_remainder=0 : i64[b4], i64[b4]", NULL, 2,
     "[0 1]+[1 2]/[2 3]+[3 4]; [4 5]+[5 6]/[6 7]+[7 8]"},
    {"INP-15", RANGE(0, 16) WHOLE(2) "\n" BATCH_OF(4, "2"), NULL, 2,
     "[[0 1] [2 3]]/[[4 5] [6 7]]; [[8 9] [10 11]]/[[12 13] [14 15]]"},
    {"INP-54", RANGE(5, 8) BATCH(2), NULL, 2, "[5]/[6]; [7]/[]"},
    {"INP-55", RANGE(5, 7) WHOLE(1), NULL, 2, "[5]/[]; [6]/[]"},
    {"INP-59", RANGE(0, 0) BATCH(4), NULL, 2, ""},
    {"data", RANGE(0, 10) BATCH(4), "data", 2,
     "[0 1]/[2 3]; [4 5]/[6 7]; [8]/[9]"},
    {"whole_batches_not_divided_evenly", RANGE(0, 9) WHOLE(4), NULL, 3,
     "[0 1]/[2 3]/[]; [4 5]/[6 7]/[]"},
    {"one_row_for_eight", RANGE(0, 1) BATCH(8), NULL, 8,
     "[0]/[]/[]/[]/[]/[]/[]/[]"},

    /* ---- rebatching: the stream of rows (V2) ---- */
    {"INP-07", RANGE(0, 8) BATCH(4), "off", 3, "[0 1]/[2]/[3]; [4 5]/[6]/[7]"},
    {"INP-09", RANGE(0, 10) BATCH(4), "off", 2,
     "[0 1]/[2 3]; [4 5]/[6 7]; [8 9]/[]"},
    {"INP-17a", RANGE(0, 5) BATCH(4), "off", 2, "[0 1]/[2 3]; [4]/[]"},
    {"INP-17b", RANGE(0, 5) WHOLE(4), "off", 2, "[0 1]/[2 3]"},
    {"INP-18", RANGE(0, 4) BATCH(4), "off", 5, "[0]/[1]/[2]/[3]/[]"},
    {"off_empty", RANGE(0, 0) BATCH(4), "off", 2, ""},
    {"off_refills_short_batches", RANGE(0, 3) BATCH(2) "\n"
     "repeat count=2 : i64[b2]", "off", 2, "[0]/[1]; [2]/[0]; [1]/[2]"},
    {"off_with_two_components", RANGE(0, 5) MAP(pair, "i64, i64")
     "batch size=4 drop_remainder=0 : i64[b4], i64[b4]", "off", 2,
     "[0 1]+[1 2]/[2 3]+[3 4]; [4]+[5]/[]+[]"},
    {"off_of_rows", RANGE(0, 6) WHOLE(2) "\n" BATCH_OF(2, "2"), "off", 2,
     "[[0 1]]/[[2 3]]; [[4 5]]/[]"},

    /* ---- errors ---- */
    {"filter", RANGE(0, 7) FILTER(odd) BATCH(2), NULL, 1, "[1 3]; [5]"},
    {"filter_of_all", RANGE(0, 4) MAP(twice, "i64") FILTER(odd) BATCH(2), NULL,
     2, ""},
    {"filter_of_batches", RANGE(0, 7) BATCH(4) "\nfilter @whole : i64[b4]", NULL,
     2, "[0 1]/[2 3]"},
    {"filter_fails", RANGE(97, 101) FILTER(odd) BATCH(1), NULL, 1,
     "[97]; error: there is a 99"},
    {"filter_repeated", RANGE(0, 4) FILTER(odd) REPEAT(-1) TAKE(5) BATCH(8),
     NULL, 1, "[1 3 1 3 1]"},
    {"filter_of_none_repeated", RANGE(0, 4) MAP(twice, "i64") FILTER(odd)
     REPEAT(-1) BATCH(8), NULL, 1, ""},
    {"unbatch", RANGE(0, 7) BATCH(3) "\n" UNBATCH BATCH(2), NULL, 1,
     "[0 1]; [2 3]; [4 5]; [6]"},
    {"unbatch_of_windows", RANGE(0, 4) WINDOW(2, 1) UNBATCH BATCH(8), NULL, 2,
     "[0 1 1]/[2 2 3]"},
    {"unbatch_of_two", RANGE(0, 4) MAP(pair, "i64, i64") PAIRS(3) "\n"
     "unbatch : i64, i64\n" PAIRS(2), NULL, 1, "[0 1]+[1 2]; [2 3]+[3 4]"},
    {"unbatch_of_no_rows", "tensors count=2 data=hex\"\" : i64[0]\n" UNBATCH
     BATCH(2), NULL, 1, ""},
    {"lanes", RANGE(0, 11) LANES(3), NULL, 3, "[0]/[3]/[6]; [1]/[4]/[7]; "
     "[2]/[5]/[8]"},
    {"lanes_of_windows", RANGE(0, 9) WINDOW(2, 2) "lanes num=2 : i64[2, 2]",
     NULL, 1, "[[0 1] [4 5]]; [[2 3] [6 7]]"},
    {"lanes_of_too_few", RANGE(0, 2) LANES(3), NULL, 1, ""},
    {"lanes_repeated", RANGE(0, 4) LANES(2) "repeat count=2 : i64[2]", NULL, 2,
     "[0]/[2]; [1]/[3]; [0]/[2]; [1]/[3]"},
    {"cache", RANGE(0, 5) CACHE BATCH(2), NULL, 1, "[0 1]; [2 3]; [4]"},
    {"cache_repeated", RANGE(0, 3) MAP(twice, "i64") CACHE REPEAT(2) BATCH(4),
     NULL, 1, "[0 2 4 0]; [2 4]"},
    {"cache_of_batches", RANGE(0, 7) BATCH(4) "\ncache : i64[b4]\n"
     "repeat count=2 : i64[b4]", NULL, 2,
     "[0 1]/[2 3]; [4 5]/[6]; [0 1]/[2 3]; [4 5]/[6]"},
    {"cache_of_whole_batches", RANGE(0, 6) WHOLE(2) "\ncache : i64[2]\n"
     "repeat count=2 : i64[2]\nprefetch depth=2 : i64[2]", NULL, 1,
     "[0 1]; [2 3]; [4 5]; [0 1]; [2 3]; [4 5]"},
    {"cache_of_batches_with_a_short_one", RANGE(0, 5) BATCH(4)
     "\ncache : i64[b4]\nrepeat count=3 : i64[b4]", NULL, 1,
     "[0 1 2 3]; [4]; [0 1 2 3]; [4]; [0 1 2 3]; [4]"},
    {"cache_of_batches_that_are_filled", RANGE(0, 5) BATCH(4)
     "\ncache : i64[b4]\nrepeat count=3 : i64[b4]", "off", 1,
     "[0 1 2 3]; [4 0 1 2]; [3 4 0 1]; [2 3 4]"},
    {"batches_of_one", RANGE(0, 9) BATCH(4), "off", 1,
     "[0 1 2 3]; [4 5 6 7]; [8]"},
    {"batches_of_one_are_filled", RANGE(0, 5) BATCH(4)
     "\nrepeat count=2 : i64[b4]", "off", 1, "[0 1 2 3]; [4 0 1 2]; [3 4]"},
    {"whole_batches_of_one", RANGE(0, 5) WHOLE(2), "off", 1, "[0 1]; [2 3]"},
    {"batches_of_one_fail", RANGE(3, 9) MAP(no5, "i64") BATCH(2), "off", 1,
     "[3 4]; error: there is a 5"},
    {"cache_of_nothing", RANGE(3, 3) CACHE REPEAT(-1) BATCH(2), NULL, 1, ""},
    {"cache_fails", RANGE(4, 9) MAP(no5, "i64") CACHE BATCH(1), NULL, 1,
     "[4]; error: there is a 5"},
    {"file_policy_without_files", RANGE(0, 4) BATCH(2) " at 3:4+5", "file", 2,
     "error: test.tfd:3:4: \"data\" cannot be sharded by file: its source is "
     "range, which reads none; shard = data or off needs no files"},
    {"INP-20", "range start=0 stop=4 : i64 at 3:4+5", NULL, 2,
     "error: test.tfd:3:4: i64 is no batch that replicas can share"},
    {"components_of_several_lengths",
     "tensors count=1 data=hex\"0000803f0000803f0000803f\" : f32[2], f32[1] "
     "at 3:4+5",
     NULL, 2,
     "error: test.tfd:3:4: f32[1] is no batch that replicas can share"},
    {"batches_of_no_rows", "tensors count=1 data=hex\"\" : f32[0] at 3:4+5",
     NULL, 2,
     "error: test.tfd:3:4: f32[0] is no batch that replicas can share"},
    {"batch_of_ragged_batches", RANGE(0, 4) BATCH(2) "\n"
     "batch size=2 drop_remainder=1 : i64[2, b2] at 4:5+6", NULL, 1,
     "error: test.tfd:4:5: batch needs elements of one shape"},
    {"map_fails", RANGE(3, 9) MAP(no5, "i64") BATCH(1), NULL, 1,
     "[3]; [4]; error: there is a 5"},
    {"map_fails_at_once", RANGE(5, 9) MAP(no5, "i64") BATCH(4), NULL, 2,
     "error: there is a 5"},
};

static const Joined joined[] = {
    {{"zip", RANGE(0, 5) ZIP PAIRS(2), NULL, 1, "[0 1]+[7 8]; [2]+[9]"},
     RANGE(7, 10)},
    {{"zip_of_fewer", RANGE(0, 2) ZIP PAIRS(2), NULL, 2, "[0]+[7]/[1]+[8]"},
     RANGE(7, 10)},
    {{"zip_skipped", RANGE(0, 1000000000003) ZIP
     "skip count=1000000000001 : i64, i64\n" PAIRS(2), NULL, 1,
     "[1000000000001 1000000000002]+[1000000000008 1000000000009]"},
     RANGE(7, 2000000000000)},
    {{"zip_skipped_batches", RANGE(0, 5) BATCH(2) "\nzip with @second : "
     "i64[b2], i64[b2] at 3:4+5\nskip count=3 : i64[b2], i64[b2]", NULL, 1,
     "error: test.tfd:3:4: a batch of 1 rows beside one of 2; zip the datasets "
     "before .batch(n)"}, RANGE(7, 13) BATCH(2)},
    {{"zip_of_batches", RANGE(0, 5) BATCH(2) "\nzip with @second : i64[b2], "
     "i64[b2]", NULL, 1, "[0 1]+[7 8]; [2 3]+[9 10]; [4]+[11]"},
     RANGE(7, 12) BATCH(2)},
    {{"zip_of_other_batches", RANGE(0, 5) BATCH(2) "\nzip with @second : "
     "i64[b2], i64[b2] at 3:4+5", NULL, 1,
     "[0 1]+[7 8]; [2 3]+[9 10]; error: test.tfd:3:4: a batch of 1 rows beside "
     "one of 2; zip the datasets before .batch(n)"}, RANGE(7, 13) BATCH(2)},
    {{"zip_fails", RANGE(0, 5) ZIP PAIRS(1), NULL, 1,
     "[0]+[4]; error: there is a 5"}, RANGE(4, 9) MAP(no5, "i64")},
    {{"zip_with_an_end", RANGE(0, 3) ZIP PAIRS(2), NULL, 1,
     "[0 1]+[0 1]; [2]+[0]"}, RANGE(0, 2) REPEAT(-1)},
    {{"concat", RANGE(0, 3) CONCAT BATCH(2), NULL, 1, "[0 1]; [2 7]; [8]"},
     RANGE(7, 9)},
    {{"concat_skipped", RANGE(0, 1000000000000) CONCAT SKIP(1000000000001)
     BATCH(2), NULL, 1, "[8]"}, RANGE(7, 9)},
    {{"concat_of_nothing", RANGE(0, 0) CONCAT BATCH(2), NULL, 2, "[7]/[8]"},
     RANGE(7, 9)},
    {{"concat_repeated", RANGE(0, 1) CONCAT REPEAT(2) SKIP(1) BATCH(8), NULL, 1,
     "[7 8 0 7 8]"}, RANGE(7, 9)},
    {{"concat_twice_the_same", RANGE(0, 1) CONCAT CONCAT BATCH(8), NULL, 1,
     "[0 7 8 7 8]"}, RANGE(7, 9)},
    {{"all_of_them", RANGE(0, 9) CONCAT FILTER(odd) ZIP
     PAIRS(2) "\nunbatch : i64, i64\ncache : i64, i64\n"
     "window size=2 stride=1 : i64[2], i64[2]\nunbatch : i64, i64\n"
     PAIRS(8), NULL, 1, "[1 3 3 5 5 7 7 7]+[7 8 8 9 9 10 10 11]; [7 9]+[11 12]"},
     RANGE(7, 13)},
};
/* clang-format on */

enum {
    NUM_ROWS = sizeof rows / sizeof *rows,
    NUM_JOINED = sizeof joined / sizeof *joined
};

static void
expect_twice(const Row *row, const char *second, bool threads)
{
    Arena *a = arena_new(NULL, "test");
    Pipe pipe = {.stages = row->stages,
                 .second = second,
                 .shard = row->shard,
                 .replicas = row->replicas,
                 .threads = threads};
    assert_string_equal(pipe_steps(a, &pipe), row->want);
    if (strncmp(row->want, "error: test", 11) != 0) {
        PipeRun run = pipe_run(a, &pipe);
        assert_string_equal(pipe_pass(a, &run), row->want);
        assert_string_equal(pipe_pass(a, &run), row->want);
        assert_string_equal(pipe_pass_in_turns(a, &pipe), row->want);
    }
    arena_release(a);
}

static void
expect_row(void **state)
{
    const Row *row = *state;
    expect_twice(row, NULL, false);
    expect_twice(row, NULL, true);
}

static void
expect_joined(void **state)
{
    const Joined *j = *state;
    expect_twice(&j->row, j->second, false);
    expect_twice(&j->row, j->second, true);
}

/* ---- elements that a cache lends ----------------------------------------- */

/* Six large elements, in batches: as they are, and from a cache; with two slots
 * for steps, so that one has rows of its own after it borrowed some. */
#define LARGE(end) RANGE(0, 205) WINDOW(200, 1) "batch size=4 " end
#define OF_BATCHES LARGE("drop_remainder=0 : i64[b4, 200]\n")
#define OF_WHOLE_BATCHES LARGE("drop_remainder=1 : i64[4, 200]\n")

static const struct Lent {
    const char *name, *batches, *type, *shard;
    int replicas;
} lent[] = {
    {"lent_whole_batches", OF_WHOLE_BATCHES, "i64[4, 200]", NULL, 1},
    {"lent_batches", OF_BATCHES, "i64[b4, 200]", NULL, 1},
    {"lent_whole_batches_of_the_stream", OF_WHOLE_BATCHES, "i64[4, 200]", "off",
     1},
    {"lent_batches_that_are_filled", OF_BATCHES, "i64[b4, 200]", "off", 1},
    {"lent_batches_of_two", OF_BATCHES, "i64[b4, 200]", NULL, 2},
    {"lent_batches_of_two_of_the_stream", OF_BATCHES, "i64[b4, 200]", "off", 2},
};

enum { NUM_LENT = sizeof lent / sizeof *lent };

static const char *
lent_stages(Arena *a, const struct Lent *l, bool cached)
{
    const char *cache = cached ? arena_printf(a, "cache : %s\n", l->type) : "";
    return arena_printf(a, "%s%srepeat count=3 : %s\nprefetch depth=1 : %s",
                        l->batches, cache, l->type, l->type);
}

static void
expect_lent(void **state)
{
    const struct Lent *l = *state;
    Arena *a = arena_new(NULL, "test");
    Pipe plain = {.stages = lent_stages(a, l, false),
                  .shard = l->shard,
                  .replicas = l->replicas};
    Row row = {l->name, lent_stages(a, l, true), l->shard, l->replicas,
               pipe_steps(a, &plain)};
    expect_twice(&row, NULL, false);
    expect_twice(&row, NULL, true);
    arena_release(a);
}

static const void *
next_data(const PipeRun *run)
{
    bool more;
    assert_null(rt_iter_has_next(run->it, &more));
    assert_true(more);
    assert_null(rt_iter_next(run->it));
    return rt_iter_data(run->it, 0, 0);
}

/* Steps that were copied would be in slots in turn. */
static void
lent_elements_stay_in_the_cache(void **state)
{
    Arena *a = arena_new(NULL, "test");
    Pipe pipe = {.stages = lent_stages(a, &lent[0], true)};
    PipeRun run = pipe_run(a, &pipe);
    (void)state;
    assert_null(rt_iter_open(run.it, 0));
    const void *first = next_data(&run);
    assert_ptr_equal(next_data(&run), first);
    assert_ptr_equal(next_data(&run), first);
    arena_release(a);
}

/* ---- elements that are left out ------------------------------------------ */

/* Their elements are numbers, `each` of them. */
static const struct {
    const char *stages, *type;
    int each;
} inputs[] = {
    {RANGE(0, 5), "i64", 1},
    {RANGE(0, 0), "i64", 1},
    {RANGE(0, 3) REPEAT(3), "i64", 1},
    {RANGE(0, 9) TAKE(4), "i64", 1},
    {RANGE(0, 3) TAKE(9), "i64", 1},
    {RANGE(0, 9) SKIP(4), "i64", 1},
    {RANGE(0, 11) SHARD(3, 1), "i64", 1},
    {RANGE(0, 6) FILTER(odd), "i64", 1},
    {RANGE(0, 4) MAP(twice, "i64"), "i64", 1},
    {RANGE(0, 3) CACHE, "i64", 1},
    {RANGE(0, 3) CACHE REPEAT(2), "i64", 1},
    {RANGE(0, 9) WINDOW(3, 1), "i64[3]", 3},
    {RANGE(0, 9) WINDOW(3, 2), "i64[3]", 3},
    {RANGE(0, 13) WINDOW(2, 5), "i64[2]", 2},
    {RANGE(0, 12) WINDOW(2, 5), "i64[2]", 2},
    {RANGE(0, 3) WINDOW(4, 1), "i64[4]", 4},
    {RANGE(0, 7) WHOLE(2) "\n", "i64[2]", 2},
    {RANGE(0, 7) LANES(2), "i64[2]", 2},
    {RANGE(0, 7) BATCH(3) "\n" UNBATCH, "i64", 1},
    {RANGE(0, 4) CONCAT, "i64", 1},
    {RANGE(0, 4) CONCAT REPEAT(2), "i64", 1},
    {RANGE(0, 9) ZIP MAP(sum_of_pair, "i64"), "i64", 1},
    {RANGE(0, 2) ZIP MAP(sum_of_pair, "i64"), "i64", 1},
};

static Numbers
numbers_of(Arena *a, const char *stages, const char *end)
{
    Pipe pipe = {.stages = arena_printf(a, "%s%s" BATCH(1), stages, end),
                 .second = RANGE(7, 10)};
    PipeRun run = pipe_run(a, &pipe);
    return pipe_numbers(a, &run);
}

/* Skipping m and then n leaves the rest of all numbers. */
static void
expect_rest(const char *stages, const char *type, int each, int m, int n)
{
    Arena *a = arena_new(NULL, "test");
    const char *end = each > 1 ? UNBATCH : "";
    Numbers all = numbers_of(a, stages, end);
    const char *skips = arena_printf(a,
                                     "skip count=%d : %s\nskip count=%d : "
                                     "%s\n%s",
                                     m, type, n, type, end);
    Numbers rest = numbers_of(a, stages, skips);
    int first = (m + n) * each < all.len ? (m + n) * each : all.len;
    assert_int_equal(rest.len, all.len - first);
    if (rest.len)
        assert_memory_equal(rest.data, all.data + first,
                            (size_t)rest.len * sizeof *rest.data);
    arena_release(a);
}

/* Also of two passes one after the other, so that each stage says how many
 * elements its pass had that is left out. */
static void
what_is_not_skipped_is_the_rest(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++)
        for (int k = 0; k < 4 * 11; k++) {
            Arena *a = arena_new(NULL, "test");
            const char *type = inputs[i].type;
            int m = k / 11 * 3, n = k % 11, each = inputs[i].each;
            expect_rest(inputs[i].stages, type, each, m, n);
            expect_rest(arena_printf(a, "%srepeat count=2 : %s\n",
                                     inputs[i].stages, type),
                        type, each, m, n);
            arena_release(a);
        }
}

/* ---- positions that nothing reaches -------------------------------------- */

static const Pipe far[] = {
    {.stages = RANGE(0, 9) REPEAT(9) SKIP(2) TAKE(60) SHARD(2, 1) BATCH(4),
     .replicas = 2},
    {.stages = RANGE(0, 9) REPEAT(-1) BATCH(4), .replicas = 3, .shard = "off"},
    {.stages = RANGE(0, 40) BATCH(4), .replicas = 2, .workers = 2},
    {.stages = RANGE(0, 40) CACHE BATCH(4)},
    {.stages = RANGE(0, 40) LANES(2), .replicas = 2},
};

static void
positions_that_nothing_reaches(void **state)
{
    (void)state;
    Arena *a = arena_new(NULL, "test");
    for (size_t i = 0; i < sizeof far / sizeof *far; i++)
        pipe_go_on_from_far(a, &far[i]);
    arena_release(a);
}

int
main(void)
{
    struct CMUnitTest tests[NUM_ROWS + NUM_JOINED + NUM_LENT + 3];
    for (int i = 0; i < NUM_ROWS; i++)
        tests[i] = (struct CMUnitTest){rows[i].name, expect_row, NULL, NULL,
                                       (void *)(uintptr_t)&rows[i]};
    for (int i = 0; i < NUM_JOINED; i++)
        tests[NUM_ROWS + i] =
            (struct CMUnitTest){joined[i].row.name, expect_joined, NULL, NULL,
                                (void *)(uintptr_t)&joined[i]};
    int num = NUM_ROWS + NUM_JOINED;
    for (int i = 0; i < NUM_LENT; i++)
        tests[num++] = (struct CMUnitTest){lent[i].name, expect_lent, NULL,
                                           NULL, (void *)(uintptr_t)&lent[i]};
    tests[num++] =
        (struct CMUnitTest)cmocka_unit_test(lent_elements_stay_in_the_cache);
    tests[num++] =
        (struct CMUnitTest)cmocka_unit_test(what_is_not_skipped_is_the_rest);
    tests[num++] =
        (struct CMUnitTest)cmocka_unit_test(positions_that_nothing_reaches);
    return _cmocka_run_group_tests("steps", tests, (size_t)num, NULL, NULL);
}
