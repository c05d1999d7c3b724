/*
 * footprint_test.c - memory that a module needs beyond its places
 *
 * The number of elements in each stage is counted by hand here;
 * tests/e2e/memory_test compares the bytes with the memory of running programs.
 */
#include "tests/ir/module.h"

#include "ir/analysis/footprint.h"
#include "ir/dataset/stage.h"

static IrModule *
with_dataset(Arena *a, const char *stages)
{
    return module_of_text(a, arena_printf(a,
                                 "tfd-ir 1 phase ir\n"
                                 "strategy mirrored devices \"cpu:0\" "
                                 "replicas 1\n"
                                 "symbols b4 <= 4 alone\n"
                                 "dataset @three {\n"
                                 "range start=0 stop=3 : i64\n}\n"
                                 "dataset @kept {\n"
                                 "bytes \"g\" : u8[2]\n"
                                 "cache : u8[2]\n}\n"
                                 "dataset @deep {\n"
                                 "range start=0 stop=3 : i64\n"
                                 "prefetch depth=12 : i64\n}\n"
                                 "dataset @d {\n%s\n}\n"
                                 "iter @it of @d shard auto\n"
                                 "func @wide(%%x: u8) host {\n"
                                 "  %%0: i64 = cast %%x {dtype=i64}\n"
                                 "  return %%0\n}\n"
                                 "func @main() main {\n  return\n}\n",
                                 stages));
}

static void
elements_are_counted(void **state)
{
    static const struct {
        const char *stages;
        int64_t count;
    } cases[] = {
        {"range start=3 stop=13 : i64", 10},
        {"range start=13 stop=3 : i64", 0},
        {"range start=0 stop=10 : i64\ntake count=4 : i64", 4},
        {"range start=0 stop=10 : i64\ntake count=40 : i64", 10},
        {"range start=0 stop=10 : i64\nskip count=4 : i64", 6},
        {"range start=0 stop=10 : i64\nskip count=40 : i64", 0},
        {"range start=0 stop=10 : i64\nshard num=4 index=0 : i64", 3},
        {"range start=0 stop=10 : i64\nshard num=4 index=2 : i64", 2},
        {"range start=0 stop=10 : i64\nrepeat count=3 : i64", 30},
        {"range start=0 stop=10 : i64\nrepeat count=-1 : i64", -1},
        {"range start=0 stop=10 : i64\nrepeat count=-1 : i64\n"
         "take count=70 : i64",
         70},
        {"range start=0 stop=10 : i64\nbatch size=4 drop_remainder=0 : "
         "i64[b4]",
         3},
        {"range start=0 stop=10 : i64\nbatch size=4 drop_remainder=1 : i64[4]",
         2},
        {"range start=0 stop=0 : i64\nbatch size=4 drop_remainder=0 : i64[b4]",
         0},
        {"range start=0 stop=10 : i64\nwindow size=4 stride=3 : i64[4]", 3},
        {"range start=0 stop=3 : i64\nwindow size=4 stride=3 : i64[4]", 0},
        {"range start=0 stop=10 : i64\ncache : i64", 10},
        {"range start=0 stop=10 : i64\nlanes num=3 : i64[3]", 3},
        {"range start=0 stop=10 : i64\nbatch size=4 drop_remainder=0 : "
         "i64[b4]\nunbatch : i64",
         12}, /* at most */
        {"range start=0 stop=10 : i64\nzip with @three : i64, i64", 3},
        {"range start=0 stop=10 : i64\nrepeat count=-1 : i64\n"
         "zip with @three : i64, i64",
         3},
        {"range start=0 stop=10 : i64\nconcat with @three : i64", 13},
        {"bytes \"f\" : u8\nmap @wide : i64\nconcat with @three : i64", -1},
        {"bytes \"f\" : u8", -1},
        {"bytes \"f\" : u8\ntake count=5 : u8", 5},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Arena *a = arena_new(NULL, "test");
        const IrModule *m = with_dataset(a, cases[i].stages);
        const IrDataset *d = ir_dataset_find(m, "d");
        int64_t count = ir_stage_count(m, d, d->stages.len - 1);
        if (count != cases[i].count)
            fail_msg("%s\ngives %lld elements, not %lld", cases[i].stages,
                     (long long)count, (long long)cases[i].count);
        arena_release(a);
    }
}

static int64_t
iter_bytes(const char *stages)
{
    Arena *a = arena_new(NULL, "test");
    const IrModule *m = with_dataset(a, stages);
    int64_t bytes = ir_iter_bytes(m, m->iters.data[0]);
    arena_release(a);
    return bytes;
}

/* Whole elements: each pipeline has its stages, each step as many elements as
 * there are replicas, as large as those of the largest pipeline. */
static void
whole_elements_are_held_for_each_replica(void **state)
{
    enum { ELEMENT = 8, SMALL = 2 * 8, LARGE = 5 * 8, STEPS = 4, REPLICAS = 2 };
    (void)state;
    Arena *a = arena_new(NULL, "test");
    const IrModule *m =
        module_of_text(a, "tfd-ir 1 phase ir\n"
                 "strategy mirrored devices \"cpu:0-1\" replicas 2\n"
                 "symbols b <= 2 alone, b1 <= 5 alone, n <= 5, N <= 10\n"
                 "dataset @d {\n"
                 "range start=0 stop=9 : i64\n"
                 "batch size=2 drop_remainder=0 : i64[b]\n}\n"
                 "dataset @e {\n"
                 "range start=0 stop=9 : i64\n"
                 "shuffle buffer=3 seed=5 reshuffle=1 has_seed=1 : i64\n"
                 "batch size=5 drop_remainder=0 : i64[b1]\n}\n"
                 "iter @one from @d rows n\n"
                 "iter @two from @d, @e rows n\n"
                 "func @main() main {\n  return\n}\n");
    assert_int_equal(ir_iter_bytes(m, m->iters.data[0]),
                     ELEMENT + REPLICAS * STEPS * SMALL);
    assert_int_equal(ir_iter_bytes(m, m->iters.data[1]),
                     ELEMENT + (2 * ELEMENT + 3 * (ELEMENT + 8)) +
                         REPLICAS * STEPS * LARGE);
    arena_release(a);
}

/* A shuffle holds elements with their number of rows, and no more than exist;
 * then five batches: one in use, the others ahead. */
static void
iterators_hold_what_they_shuffle_and_batch(void **state)
{
    (void)state;
    enum { ELEMENT = 8, BATCH = 4 * 8, STAGES = ELEMENT + ELEMENT };
    assert_int_equal(
        iter_bytes("range start=0 stop=100 : i64\n"
                   "shuffle buffer=10 seed=5 reshuffle=1 has_seed=1 : i64\n"
                   "batch size=4 drop_remainder=1 : i64[4]"),
        STAGES + 10 * (ELEMENT + 8) + 5 * BATCH);
    assert_int_equal(
        iter_bytes("range start=0 stop=6 : i64\n"
                   "shuffle buffer=10 seed=5 reshuffle=1 has_seed=1 : i64\n"
                   "batch size=4 drop_remainder=1 : i64[4]"),
        STAGES + 6 * (ELEMENT + 8) + 5 * BATCH);
}

/* A cache and lanes hold all elements that there are; zip's other dataset has
 * stages of its own. */
static void
iterators_hold_what_they_keep(void **state)
{
    (void)state;
    enum { ELEMENT = 8, STORED = 8 + ELEMENT };
    assert_int_equal(iter_bytes("range start=0 stop=100 : i64\n"
                                "cache : i64\n"
                                "window size=2 stride=1 : i64[2]"),
                     2 * ELEMENT + 100 * STORED + 16 + 5 * 16);
    assert_int_equal(iter_bytes("range start=0 stop=100 : i64\n"
                                "lanes num=4 : i64[4]"),
                     ELEMENT + 100 * STORED + 5 * 32);
    assert_int_equal(iter_bytes("range start=0 stop=100 : i64\n"
                                "lanes num=4 : i64[4]\n"
                                "zip with @three : i64[4], i64"),
                     ELEMENT + 100 * STORED + 32 + 5 * 40);
}

/* The bytes of an element and its number of rows.  Stages whose elements can be
 * counted are not among them. */
static void
what_nobody_can_count_is_listed(void **state)
{
    (void)state;
    Arena *a = arena_new(NULL, "test");
    const IrModule *m = with_dataset(a, "bytes \"f\" : u8\n"
                                        "cache : u8\n"
                                        "lanes num=4 : u8[4]\n"
                                        "zip with @kept : u8[4], u8[2]\n"
                                        "take count=9 : u8[4], u8[2]\n"
                                        "cache : u8[4], u8[2]");
    IrUncountedStages kept = ir_iter_uncounted_stages(a, m, m->iters.data[0]);
    assert_int_equal(kept.len, 3);
    static const struct {
        int kind;
        int64_t each;
    } want[] = {{STAGE_cache, 9}, {STAGE_lanes, 9}, {STAGE_cache, 2 + 8}};
    for (int i = 0; i < kept.len; i++) {
        assert_int_equal(kept.data[i].stage->kind, want[i].kind);
        assert_int_equal(kept.data[i].each, want[i].each);
    }
    arena_release(a);
}

/* Steps, of the elements that a prefetch says; memory goes with them. */
static void
steps_are_made_ahead(void **state)
{
#define RANGE "range start=0 stop=100 : i64\n"
#define BATCH "batch size=4 drop_remainder=0 : i64[b4]\n"
#define PREFETCH(n, type) "prefetch depth=" #n " : " #type "\n"
    static const struct {
        const char *stages;
        int64_t ahead;
    } cases[] = {
        {RANGE, 3},
        {RANGE PREFETCH(0, i64), 0},
        {RANGE PREFETCH(1, i64), 1},
        {RANGE PREFETCH(65536, i64), 65536},
        {RANGE PREFETCH(2, i64) PREFETCH(5, i64) PREFETCH(1, i64), 5},
        {RANGE PREFETCH(8, i64) BATCH, 2},
        {RANGE PREFETCH(9, i64) BATCH, 3},
        {RANGE PREFETCH(0, i64) BATCH, 0},
        {RANGE PREFETCH(1, i64) BATCH PREFETCH(2, i64[b4]), 2},
        {RANGE BATCH PREFETCH(2, i64[b4]) "unbatch : i64", 8},
        {RANGE BATCH PREFETCH(65536, i64[b4]) "unbatch : i64", 65536},
        {RANGE PREFETCH(9, i64) "window size=4 stride=3 : i64[4]", 3},
        {RANGE PREFETCH(9, i64) "lanes num=3 : i64[3]", 3},
        {RANGE PREFETCH(9, i64) "shard num=2 index=0 : i64", 5},
        {RANGE PREFETCH(9, i64) "skip count=2 : i64", 9},
        {RANGE "zip with @deep : i64, i64", 12},
        {RANGE PREFETCH(20, i64) "zip with @deep : i64, i64", 20},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Arena *a = arena_new(NULL, "test");
        const IrModule *m = with_dataset(a, cases[i].stages);
        const IrIter *it = m->iters.data[0];
        if (ir_iter_ahead(m, it) != cases[i].ahead)
            fail_msg("%s\nmakes %lld steps ahead, not %lld", cases[i].stages,
                     (long long)ir_iter_ahead(m, it),
                     (long long)cases[i].ahead);
        arena_release(a);
    }
    assert_int_equal(iter_bytes(RANGE), 5 * 8);
    assert_int_equal(iter_bytes(RANGE PREFETCH(0, i64)), 8 + 3 * 8);
    assert_int_equal(iter_bytes(RANGE PREFETCH(1, i64)), 8 + 3 * 8);
    assert_int_equal(iter_bytes(RANGE PREFETCH(10, i64)), 8 + 12 * 8);
}

/* Host operands are after the program's places, and after the rows that are
 * made before the launch or in its loop. */
static void
launches_find_room_behind_rows_and_programs(void **state)
{
    static const char text[] =
        "tfd-ir 1 phase placed\n"
        "strategy mirrored devices \"cpu:0\" replicas 1\n"
        "var @w: f32 mirrored [arena+0] sync(on_write) aggregate(none)\n"
        "func @main() main bytes 8 {\n"
        "  %n: i32 [frame+0] = constant {dims=[] dtype=i32 data=[3]}\n"
        "  launch %n {program=@g}\n"
        "  for %n (%i: i32 [frame+4]) {\n"
        "    launch %i {program=@g}\n"
        "    %a: f32 mirrored [row+512] = launch {program=@f}\n"
        "    yield\n"
        "  }\n"
        "  return\n"
        "}\n"
        "func @f() program bytes 128 {\n"
        "  %a: f32 mirrored [arena+64] = constant {dims=[] dtype=f32 "
        "data=[1.0]}\n"
        "  return %a\n"
        "}\n"
        "func @g(%i: i32 mirrored [in 0]) program bytes 300 {\n"
        "  return\n"
        "}\n";
    (void)state;
    Arena *a = arena_new(NULL, "test");
    IrLaunchFootprints rooms = ir_launch_footprints(a, module_of_text(a, text));
    int64_t offset = -1;
    assert_int_equal(rooms.len, 3);
    assert_int_equal(rooms.data[0].rows_end, 64);
    assert_int_equal(rooms.data[1].rows_end, 576);
    assert_int_equal(rooms.data[2].rows_end, 576);
    assert_int_equal(ir_launch_stage_operands(&rooms.data[0], &offset),
                     320 + 4);
    assert_int_equal(offset, 320);
    assert_int_equal(ir_launch_stage_operands(&rooms.data[1], &offset),
                     576 + 4);
    assert_int_equal(offset, 576);
    arena_release(a);
}

/* Rows, then components: large ones, and those of large elements, begin on a
 * cache line. */
static void
large_components_are_aligned(void **state)
{
    Arena *a = arena_new(NULL, "test");
    (void)state;
    const IrModule *m = with_dataset(
        a, "bytes \"a\" : u8[1500]\nzip with @kept : u8[1500], u8[2]");
    const IrDataset *d = ir_dataset_find(m, "d");
    int64_t offsets[2];
    assert_int_equal(ir_stored_element(m, &d->stages.data[1], offsets), 1600);
    assert_int_equal(offsets[0], 64);
    assert_int_equal(offsets[1], 1564);
    m = with_dataset(
        a, "bytes \"a\" : u8[5000]\nzip with @kept : u8[5000], u8[2]");
    d = ir_dataset_find(m, "d");
    assert_int_equal(ir_stored_element(m, &d->stages.data[1], offsets), 5184);
    assert_int_equal(offsets[1], 5120);
    d = ir_dataset_find(m, "kept");
    assert_int_equal(ir_stored_element(m, &d->stages.data[1], offsets), 10);
    assert_int_equal(offsets[0], 8);
    arena_release(a);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elements_are_counted),
        cmocka_unit_test(iterators_hold_what_they_shuffle_and_batch),
        cmocka_unit_test(whole_elements_are_held_for_each_replica),
        cmocka_unit_test(iterators_hold_what_they_keep),
        cmocka_unit_test(what_nobody_can_count_is_listed),
        cmocka_unit_test(large_components_are_aligned),
        cmocka_unit_test(steps_are_made_ahead),
        cmocka_unit_test(launches_find_room_behind_rows_and_programs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
