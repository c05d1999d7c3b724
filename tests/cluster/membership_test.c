/*
 * membership_test.c - the control server's decisions, with a clock of the
 * test's
 *
 * Frames are given to the membership as members send them; damaged ones, too:
 * membership_test 1000000 tries as many.
 */
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
#include "ir/base/io/file.h"
#include "ir/base/message.h"
#include "runtime/cluster/control/membership_impl.h"

enum { MOST = 4, SAID = 1 << 16 };

static const RtJobSite job_sites[] = {{"train.tfd:12:5", "all_reduce"},
                                      {"train.tfd:20:3", "all_gather"}};

typedef struct Stage {
    Arena *arena;
    RtMembership *membership;
    int size;
    double now;
    char said[SAID];
    int sent[RT_NUM_FRAMES]; /* of each type */
    int evicted;             /* the last rank; -1: none */
    int connection;          /* of rank 1; 0: none that anybody looks at */
} Stage;

static void
on_send(void *data, const RtRoute *to, const RtFrame *frame)
{
    Stage *s = data;
    assert_int_equal(to->len, 5);
    s->sent[frame->type]++;
}

static void
on_say(void *data, RtSay say, const char *line, const char *lines)
{
    Stage *s = data;
    size_t n = strlen(s->said);
    snprintf(s->said + n, SAID - n, "%s: %s\n%s",
             say == RT_SAY_ERROR ? "error" : "note", line, lines);
    message_shown(arena_printf(s->arena, "tfd-run: %s", s->said + n));
}

static void
on_evict(void *data, int rank)
{
    ((Stage *)data)->evicted = rank;
}

static void
stage_open_with(Stage *s, int size, const char *machine, double joining,
                const char *diagnose)
{
    *s = (Stage){.arena = arena_new(NULL, "a stage"),
                 .size = size,
                 .now = 1000,
                 .evicted = -1};
    RtMembershipConfig config = {.id = "test",
                                 .size = size,
                                 .server_rank = -1,
                                 .joining = joining,
                                 .diagnose = diagnose,
                                 .machine = machine,
                                 .out = {s, on_send, on_say, on_evict}};
    s->membership = rt_membership_new(s->arena, &config, s->now);
}

static void
stage_open_on(Stage *s, int size, const char *machine)
{
    stage_open_with(s, size, machine, 0, NULL);
}

static void
stage_open(Stage *s, int size)
{
    stage_open_on(s, size, NULL);
}

static RtRoute
route_of(int rank)
{
    return (RtRoute){{0, 0, 0, 0, (uint8_t)rank}, 5};
}

static void
give(Stage *s, int rank, const RtFrame *f)
{
    RtRoute from = route_of(rank);
    int fd = rank == 1 && s->connection ? s->connection : 1000 + rank;
    assert_true(rt_frame_is_good(f));
    rt_membership_receive(s->membership, &from, fd, f->bytes, f->len, s->now);
}

static RtHello
hello_of(int rank, int size)
{
    RtHello h = {.rank = rank,
                 .size = size,
                 .pid = 400 + rank,
                 .host = "h",
                 .machine = "m",
                 .num_sites = rank == 0 ? 2 : 0,
                 .sites = (RtJobSite *)job_sites};
    return h;
}

static void
say_hello(Stage *s, const RtHello *from, uint64_t nonce)
{
    RtHello h = *from;
    RtFrame f = rt_frame_new(s->arena, RT_FRAME_HELLO, 0, nonce);
    rt_frame_hello(&f, &h);
    give(s, h.rank, &f);
}

static void
heartbeat(Stage *s, int rank, RtHeartbeat b)
{
    RtFrame f = rt_frame_new(s->arena, RT_FRAME_HEARTBEAT, 0, 0);
    rt_frame_heartbeat(&f, &b);
    give(s, rank, &f);
}

static void
join_opened(Stage *s)
{
    for (int i = 0; i < s->size; i++) {
        RtHello h = hello_of(i, s->size);
        say_hello(s, &h, (uint64_t)i + 1);
    }
    for (int i = 0; i < s->size; i++) {
        RtFrame f = rt_frame_new(s->arena, RT_FRAME_LINKED, 0, 0);
        RtLinked linked = {0};
        rt_frame_linked(&f, &linked);
        give(s, i, &f);
    }
    assert_true(rt_membership_has_begun(s->membership));
}

static void
join_with(Stage *s, int size, const char *machine, const char *diagnose)
{
    stage_open_with(s, size, machine, 0, diagnose);
    join_opened(s);
}

static void
join_on(Stage *s, int size, const char *machine)
{
    join_with(s, size, machine, NULL);
}

static void
join(Stage *s, int size)
{
    join_on(s, size, NULL);
}

/* Ticks of 0.1 s; rank `late` is in call 7 and all others wait in call 8,
 * unless it is -1; `silent` sends no heartbeat. */
static void
run_for(Stage *s, double seconds, int late, int silent)
{
    for (double end = s->now + seconds; s->now < end;) {
        s->now += 0.1;
        for (int i = 0; i < s->size; i++) {
            RtHeartbeat b = {.step = 4,
                             .call = 8,
                             .site = 1,
                             .wait_site = 1,
                             .wait_call = 8,
                             .at_site = -1,
                             .state = RT_JOB_WAITS};
            if (i == late)
                b = (RtHeartbeat){.step = 4,
                                  .call = 7,
                                  .wait_site = -1,
                                  .state = RT_JOB_RUNS};
            if (i != silent)
                heartbeat(s, i, b);
        }
        rt_membership_tick(s->membership, s->now);
    }
}

static void
exchange(Stage *s, int rank, const char *name)
{
    RtExchangePart part = {.name = name, .own = {"x", 1}};
    RtFrame f = rt_frame_new(s->arena, RT_FRAME_EXCHANGE, 0, 0);
    rt_frame_exchange(&f, &part);
    give(s, rank, &f);
}

static void
expect(Stage *s, const char *part, int exit_status)
{
    int got;
    if (!strstr(s->said, part))
        fail_msg("\"%s\" is not in:\n%s", part, s->said);
    assert_true(rt_membership_is_stopped(s->membership));
    rt_membership_has_ended(s->membership, &got);
    assert_int_equal(got, exit_status);
    arena_release(s->arena);
}

/* ---- joining ------------------------------------------------------------ */

static const char *const kinds[] = {
#define IDENTITY(name, what, repair) what,
#include "runtime/cluster/control/identity.def"
#undef IDENTITY
};

static void
each_kind_of_difference_is_refused(void **state)
{
    (void)state;
    for (int kind = 0; kind < RT_NUM_IDENTITIES; kind++) {
        Stage s;
        char part[256];
        stage_open(&s, 2);
        RtHello first = hello_of(0, 2), second = hello_of(1, 2);
        first.identity[kind] = "1f3a";
        second.identity[kind] = "77ac\33[2J";
        say_hello(&s, &second, 1);
        assert_false(rt_membership_is_stopped(s.membership));
        say_hello(&s, &first, 2);
        snprintf(part, sizeof part,
                 "error: rank 1 (h) has another %s than rank 0 (h): "
                 "77ac?[2J, not 1f3a; ",
                 kinds[kind]);
        assert_int_equal(s.sent[RT_FRAME_STOP], 2);
        expect(&s, part, 1);
    }
}

static void
wrong_members_are_refused(void **state)
{
    (void)state;
    Stage s;
    stage_open(&s, 2);
    RtHello h = hello_of(1, 2);
    say_hello(&s, &h, 1);
    say_hello(&s, &h, 1); /* again, by another address */
    assert_false(rt_membership_is_stopped(s.membership));
    say_hello(&s, &h, 2);
    expect(&s, "rank 1 was started twice: on h (pid 401) and on h (pid 401)",
           1);
    stage_open(&s, 2);
    h = hello_of(1, 3);
    say_hello(&s, &h, 1);
    expect(&s, "rank 1 of 3 (h, pid 401) came to a job of 2 processes", 1);
    stage_open(&s, 2);
    RtFrame f = rt_frame_new(s.arena, RT_FRAME_HELLO, 0, 1);
    f.bytes[2] = 9;
    give(&s, 1, &f);
    expect(&s, "a process speaks protocol 9, and the control server protocol 2",
           1);
}

/* The job goes on. */
static void
newcomers_are_refused(void **state)
{
    (void)state;
    Stage s;
    join(&s, 2);
    RtHello h = hello_of(1, 2);
    say_hello(&s, &h, 77);
    assert_int_equal(s.sent[RT_FRAME_STOP], 1);
    assert_false(rt_membership_is_stopped(s.membership));
    arena_release(s.arena);
}

/* Where fewer would do, those who are missing have less time. */
static void
some_have_less_time_to_join(void **state)
{
    (void)state;
    Stage s;
    stage_open_with(&s, 4, NULL, 20, NULL);
    RtHello h = hello_of(2, 4);
    say_hello(&s, &h, 1);
    run_for(&s, 19, -1, -1);
    assert_false(rt_membership_is_stopped(s.membership));
    run_for(&s, 6, -1, -1);
    expect(&s, "error: ranks 0, 1, 3 of 4 have not come after 20 seconds\n", 3);
}

static void
missing_ranks_are_said(void **state)
{
    (void)state;
    Stage s;
    stage_open(&s, 4);
    RtHello h = hello_of(2, 4);
    say_hello(&s, &h, 1);
    run_for(&s, 5.2, -1, -1);
    assert_non_null(strstr(s.said, "note: waiting for ranks 0, 1, 3 of 4\n"));
    run_for(&s, 300, -1, -1);
    expect(&s, "error: ranks 0, 1, 3 of 4 have not come after 300 seconds", 3);
}

/* Not at the next time that they would be said. */
static void
missing_ranks_have_the_time_of_timeout(void **state)
{
    (void)state;
    Stage s;
    stage_open(&s, 2);
    RtHello h = hello_of(0, 2);
    h.timeout = 7;
    say_hello(&s, &h, 1);
    run_for(&s, 6.9, -1, -1);
    assert_false(rt_membership_is_stopped(s.membership));
    run_for(&s, 0.2, -1, -1);
    expect(&s,
           "error: rank 1 of 2 has not come after 7 seconds (--timeout "
           "allows more)\n",
           3);
}

static void
pairs_without_a_link_are_named(void **state)
{
    (void)state;
    Stage s;
    stage_open(&s, 2);
    for (int i = 0; i < 2; i++) {
        RtHello h = hello_of(i, 2);
        say_hello(&s, &h, 1);
    }
    for (int i = 0; i < 2; i++) {
        RtUnreached u = {1, "10.0.0.2:4711"};
        RtLinked linked = {i == 0, &u};
        RtFrame f = rt_frame_new(s.arena, RT_FRAME_LINKED, 0, 0);
        rt_frame_linked(&f, &linked);
        give(&s, i, &f);
    }
    expect(&s,
           "error: rank 0 (h, pid 400) does not reach rank 1 (h, pid 401): "
           "10.0.0.2:4711",
           3);
}

/* ---- verdicts ----------------------------------------------------------- */

static void
dead_ranks_are_named(void **state)
{
    (void)state;
    Stage s;
    join(&s, 4);
    run_for(&s, 1, 2, -1);
    rt_membership_closed(s.membership, 1002, s.now);
    run_for(&s, 0.5, 2, 2);
    assert_int_equal(s.evicted, 2);
    expect(&s,
           "error: rank 2 (h, pid 402) is dead; it has not finished call 8, "
           "train.tfd:20:3 (all_gather, step 4)\n"
           "train.tfd:20:3: note: ranks 0, 1, 3 wait here for it (all_gather, "
           "call 8)\n",
           3);
    join(&s, 2);
    rt_membership_lost(s.membership, 1, "it ended with status 1", 1, s.now);
    run_for(&s, 0.5, -1, 1);
    expect(&s, "error: rank 1 (h, pid 401) is dead (it ended with status 1); ",
           1);
    stage_open(&s, 2);
    rt_membership_lost(s.membership, 1, "it ended with status 2", 2, s.now);
    run_for(&s, 0.5, -1, 1);
    expect(&s, "error: rank 1 has not joined (it ended with status 2)", 2);
}

static void
lose_rank_1(Stage *s, const char *part)
{
    rt_membership_closed(s->membership, 1001, s->now);
    for (int i = 0; i < 9; i++) {
        assert_true(i > 6 || !rt_membership_is_stopped(s->membership));
        s->now += 0.1;
        rt_membership_tick(s->membership, s->now);
    }
    expect(s, part, 3);
}

static void
all_run(Stage *s, int64_t wait_call)
{
    for (int i = 0; i < 2; i++)
        heartbeat(s, i,
                  (RtHeartbeat){.step = 4,
                                .call = 7,
                                .wait_call = wait_call,
                                .at_site = -1,
                                .state = RT_JOB_RUNS});
}

/* Its machine is another one: heartbeats are what there is. */
static void
heartbeats_of_the_dead_are_written(void **state)
{
    (void)state;
    Stage s;
    char folder[] = "/tmp/tfd-test-XXXXXX", *text;
    size_t len;
    assert_non_null(mkdtemp(folder));
    join_with(&s, 4, "server's", folder);
    run_for(&s, 1, 2, -1);
    rt_membership_closed(s.membership, 1002, s.now);
    run_for(&s, 1, 2, 2);
    const char *path =
        arena_printf(s.arena, "%s/rank-2-heartbeats.txt", folder);
    Status st = file_read(s.arena, path, &text, &len);
    assert_null(st);
    assert_non_null(strstr(text, "# rank 2, host h: rank 2 (h, pid 402) is "));
    assert_non_null(strstr(text, "\n         7        4 "));
    assert_non_null(strstr(text, "  runs       all_reduce train.tfd:12:5\n"));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0);
    expect(&s, "error: rank 2 (h, pid 402) is dead; ", 3);
}

/* Of a process on another machine that nobody waits for, or of one whose memory
 * the server has: the last call that it has told of. */
static void
last_calls_are_named(void **state)
{
    (void)state;
    Stage s;
    join(&s, 2);
    all_run(&s, 6);
    lose_rank_1(&s, "error: rank 1 (h, pid 401) is dead; it was last seen in "
                    "call 7, train.tfd:12:5 (all_reduce, step 4)\n");
    join(&s, 2);
    all_run(&s, 7);
    lose_rank_1(&s, "error: rank 1 (h, pid 401) is dead; it was last seen "
                    "after call 7, train.tfd:12:5 (all_reduce, step 4)\n");
    join(&s, 2);
    lose_rank_1(&s, "error: rank 1 (h, pid 401) is dead; it was last seen "
                    "before its first collective, in step 0\n");
}

/* They wait in no call, but for the rank that makes their data. */
static void
who_waits_for_data_is_named(void **state)
{
    (void)state;
    Stage s;
    join(&s, 3);
    for (int i = 0; i < 3; i++)
        heartbeat(&s, i,
                  (RtHeartbeat){.step = 4,
                                .call = 7,
                                .wait_call = 7,
                                .at_site = -1,
                                .maker = i == 1 ? -1 : 1,
                                .read_site = 1,
                                .state = RT_JOB_READS});
    lose_rank_1(&s,
                "step 4, waiting for data)\ntrain.tfd:20:3: note: ranks 0, 2 "
                "wait here for data that it reads for them (step 4)\n");
}

/* The server's own network is down: nobody is to blame. */
static void
all_silent_ranks_are_said_at_once(void **state)
{
    (void)state;
    Stage s;
    join_on(&s, 3, "another");
    run_for(&s, 1, -1, -1);
    for (int i = 0; i < 22; i++) {
        s.now += 0.1;
        rt_membership_tick(s.membership, s.now);
    }
    assert_non_null(strstr(s.said, "note: ranks 0-2 are silent: no sign of any "
                                   "process of another machine for 2."));
    assert_null(strstr(s.said, "rank 0 "));
    for (int i = 0; i < 30; i++) {
        s.now += 0.1;
        rt_membership_tick(s.membership, s.now);
    }
    assert_int_equal(s.evicted, -1);
    expect(&s,
           "error: ranks 0-2 are silent: no sign of any process of another "
           "machine for 5.",
           3);
}

static void
silent_ranks_are_named(void **state)
{
    (void)state;
    Stage s;
    join(&s, 2);
    run_for(&s, 1, 1, -1);
    run_for(&s, 2.3, 1, 1);
    assert_false(rt_membership_is_stopped(s.membership));
    assert_non_null(strstr(s.said, "note: rank 1 (h, pid 401) is silent: no "
                                   "sign of it for 2."));
    run_for(&s, 3, 1, 1);
    expect(&s, "error: rank 1 (h, pid 401) is silent: no sign of it for 5.", 3);
}

/* The server itself was stopped, with all others. */
static void
own_gaps_are_no_silence(void **state)
{
    (void)state;
    Stage s;
    join(&s, 2);
    run_for(&s, 1, -1, -1);
    s.now += 60;
    rt_membership_tick(s.membership, s.now);
    run_for(&s, 1, -1, -1);
    assert_string_equal(s.said, "");
    arena_release(s.arena);
}

/* Nor has anybody waited meanwhile: for those who have not come, in a call, or
 * in an exchange. */
static void
own_gaps_are_no_waiting(void **state)
{
    (void)state;
    Stage s;
    stage_open(&s, 2);
    run_for(&s, 1, -1, -1);
    s.now += 1000;
    rt_membership_tick(s.membership, s.now);
    join_opened(&s);
    run_for(&s, 1, 1, -1);
    s.now += 1000;
    rt_membership_tick(s.membership, s.now);
    run_for(&s, 1, 1, -1);
    run_for(&s, 1, -1, -1);
    exchange(&s, 0, "memory");
    run_for(&s, 1, -1, -1);
    s.now += 1000;
    rt_membership_tick(s.membership, s.now);
    assert_string_equal(s.said, "note: waiting for ranks 0, 1 of 2\n");
    arena_release(s.arena);
}

/* The thread that reads gets no processor: what came is a sign of its sender.
 */
static void
what_is_not_read_yet_is_no_silence(void **state)
{
    (void)state;
    Stage s;
    int ends[2];
    char byte = 'x';
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    stage_open(&s, 2);
    s.connection = ends[0];
    join_opened(&s);
    run_for(&s, 1, -1, -1);
    assert_int_equal(write(ends[1], &byte, 1), 1);
    run_for(&s, 10, -1, 1);
    assert_string_equal(s.said, "");
    assert_int_equal(read(ends[0], &byte, 1), 1);
    run_for(&s, 4.5, -1, 1);
    assert_non_null(strstr(s.said, "note: rank 1 (h, pid 401) is silent: no "));
    close(ends[0]);
    close(ends[1]);
    arena_release(s.arena);
}

/* Its heartbeats do not come, but its memory, which the server maps, tells that
 * it goes on. */
static void
who_is_seen_to_go_on_is_not_silent(void **state)
{
    (void)state;
    Stage s;
    join(&s, 2);
    run_for(&s, 1, -1, -1);
    for (int i = 0; i < 60; i++) {
        RtMemberState *member = &s.membership->members[1];
        RtHeartbeat at = member->heartbeat;
        at.call += i % 10 == 0;
        rt_membership_locate(s.membership, member, &at, s.now);
        run_for(&s, 0.1, -1, 1);
    }
    assert_string_equal(s.said, "");
    arena_release(s.arena);
}

static void
absent_ranks_are_named(void **state)
{
    (void)state;
    Stage s;
    join(&s, 2);
    run_for(&s, 5.3, 1, -1);
    assert_non_null(strstr(s.said, "note: rank 1 (h, pid 401) is alive but "
                                   "does not come: others have waited for 5 "));
    assert_non_null(strstr(s.said, "\ntrain.tfd:12:5: note: rank 1 is in this "
                                   "all_reduce\ntrain.tfd:20:3: note: rank 0 "
                                   "waits here for it (all_gather, call 8)\n"));
    assert_false(rt_membership_is_stopped(s.membership));
    run_for(&s, 296, 1, -1);
    expect(&s,
           "error: rank 1 (h, pid 401) is alive but does not come: others have "
           "waited for 300 seconds",
           3);
}

static void
slow_ranks_are_noted(void **state)
{
    (void)state;
    Stage s;
    join(&s, 3);
    for (int step = 0; step < 200; step++) {
        s.now += 0.1;
        for (int i = 0; i < 3; i++)
            heartbeat(&s, i,
                      (RtHeartbeat){.step = step,
                                    .site = -1,
                                    .wait_site = -1,
                                    .state = RT_JOB_RUNS,
                                    .waited = i == 1 ? 0 : 0.05 * step});
        rt_membership_tick(s.membership, s.now);
    }
    assert_non_null(strstr(s.said, "note: rank 1 (h, pid 401) is slow: "));
    assert_false(rt_membership_is_stopped(s.membership));
    arena_release(s.arena);
}

static void
exchanges_are_watched(void **state)
{
    (void)state;
    Stage s;
    join(&s, 2);
    exchange(&s, 0, "memory");
    run_for(&s, 5.3, -1, -1);
    assert_non_null(strstr(s.said, "note: rank 1 (h, pid 401) has not come to "
                                   "the exchange \"memory\" for 5 seconds"));
    run_for(&s, 296, -1, -1);
    expect(&s,
           "error: rank 1 (h, pid 401) has not come to the exchange \"memory\" "
           "after 300 seconds",
           3);
    join(&s, 2);
    exchange(&s, 0, "a");
    exchange(&s, 1, "b");
    expect(&s, "is at \"a\" where rank 1 (h, pid 401) is at \"b\"", 3);
}

/* ---- strangers ---------------------------------------------------------- */

static int num_frames = 10000;

/* Frames that members send, with some bytes changed, cut off or added. */
static void
damaged_frames_change_nothing(void **state)
{
    (void)state;
    uint64_t seed = 88172645463325252u;
    for (int round = 0; round < num_frames; round++) {
        Stage s;
        join(&s, 2);
        RtFrame f = rt_frame_new(
            s.arena, (RtFrameType)(1 + round % (RT_NUM_FRAMES - 1)), 0, 0);
        RtHello h = hello_of(0, 2);
        rt_frame_hello(&f, &h);
        uint8_t bytes[4096];
        size_t n = f.len < sizeof bytes ? f.len : sizeof bytes;
        memcpy(bytes, f.bytes, n);
        for (int k = 0; k < 4; k++) {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            if (k == 3)
                n = seed % (n + 1);
            else
                bytes[2 * (k > 0) + seed % (n - 2)] = (uint8_t)(seed >> 32);
        }
        RtRoute from = route_of((int)(seed >> 60) & 1);
        rt_membership_receive(s.membership, &from, 10, bytes, n, s.now);
        rt_membership_tick(s.membership, s.now + 0.1);
        arena_release(s.arena);
    }
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_kind_of_difference_is_refused),
        cmocka_unit_test(wrong_members_are_refused),
        cmocka_unit_test(newcomers_are_refused),
        cmocka_unit_test(missing_ranks_are_said),
        cmocka_unit_test(some_have_less_time_to_join),
        cmocka_unit_test(missing_ranks_have_the_time_of_timeout),
        cmocka_unit_test(pairs_without_a_link_are_named),
        cmocka_unit_test(dead_ranks_are_named),
        cmocka_unit_test(heartbeats_of_the_dead_are_written),
        cmocka_unit_test(last_calls_are_named),
        cmocka_unit_test(who_waits_for_data_is_named),
        cmocka_unit_test(silent_ranks_are_named),
        cmocka_unit_test(all_silent_ranks_are_said_at_once),
        cmocka_unit_test(own_gaps_are_no_silence),
        cmocka_unit_test(own_gaps_are_no_waiting),
        cmocka_unit_test(what_is_not_read_yet_is_no_silence),
        cmocka_unit_test(who_is_seen_to_go_on_is_not_silent),
        cmocka_unit_test(absent_ranks_are_named),
        cmocka_unit_test(slow_ranks_are_noted),
        cmocka_unit_test(exchanges_are_watched),
        cmocka_unit_test(damaged_frames_change_nothing),
    };
    if (argc > 1)
        num_frames = atoi(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
