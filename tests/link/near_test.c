/*
 * near_test.c - messages in memory between processes of one machine
 *
 * Two links of one thread, which moves them in turn: so what comes early, what
 * waits for room and what is cancelled midway is so each time.  Their segments
 * are found under /proc, as those of another process are.
 */
#include "tests/unit/unit.h"
#include "tests/unit/status.h"

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "ir/base/memory.h"
#include "runtime/link/near/near.h"
#include "runtime/link/near/ring.h"
#include "runtime/link/zmq/zmq.h"

enum { SIZE = 2, LONG = 3 * RT_RING_BYTES + 12345, MOST_EXCHANGES = 4 };

/* ---- two links ----------------------------------------------------------- */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    RtBytes parts[MOST_EXCHANGES][SIZE];
    int num[MOST_EXCHANGES];
} board = {.lock = PTHREAD_MUTEX_INITIALIZER,
           .changed = PTHREAD_COND_INITIALIZER};

typedef struct Member {
    RtExchange exchange;
    int exchanges;
    RtLink *link;
    Status st;
} Member;

static Member members[SIZE];

static Status
exchange(void *data, const char *name, const void *own, size_t bytes, Arena *a,
         RtBytes **all)
{
    Member *m = data;
    int n = m->exchanges++;
    (void)name;
    pthread_mutex_lock(&board.lock);
    board.parts[n][m->exchange.rank] =
        (RtBytes){arena_copy(a, own, bytes), bytes};
    board.num[n]++;
    pthread_cond_broadcast(&board.changed);
    while (board.num[n] < SIZE)
        pthread_cond_wait(&board.changed, &board.lock);
    *all = NEW_ARRAY(a, RtBytes, SIZE);
    for (int k = 0; k < SIZE; k++) {
        RtBytes b = board.parts[n][k];
        (*all)[k] = (RtBytes){arena_copy(a, b.data, b.len), b.len};
    }
    board.num[n]++; /* the others' memory is not gone before they have it */
    pthread_cond_broadcast(&board.changed);
    while (board.num[n] < 2 * SIZE)
        pthread_cond_wait(&board.changed, &board.lock);
    pthread_mutex_unlock(&board.lock);
    return OK;
}

static void *
open_one(void *data)
{
    static const int machine_of[SIZE] = {0, 0};
    Member *m = data;
    RtLink *far;
    m->st = rt_link_zmq_open(m->exchange.rank, SIZE, "127.0.0.1", NULL, &far);
    if (!m->st)
        m->st = rt_link_near_open(far, &m->exchange, machine_of, &m->link);
    return NULL;
}

static int
open_two(void **state)
{
    pthread_t threads[SIZE];
    (void)state;
    memset(board.num, 0, sizeof board.num);
    for (int k = 0; k < SIZE; k++) {
        members[k] = (Member){.exchange = {k, SIZE, exchange, &members[k]}};
        pthread_create(&threads[k], NULL, open_one, &members[k]);
    }
    for (int k = 0; k < SIZE; k++) {
        pthread_join(threads[k], NULL);
        if (members[k].st ||
            !members[k].link->ops->is_near(members[k].link, 1 - k))
            return -1;
    }
    return 0;
}

static int
close_two(void **state)
{
    (void)state;
    for (int k = 0; k < SIZE; k++)
        members[k].link->ops->close(members[k].link, false);
    return 0;
}

/* ---- messages ------------------------------------------------------------ */

static RtTransfer
begin(int rank, bool sends, uint32_t tag, void *at, size_t n)
{
    return (RtTransfer){.peer = 1 - rank,
                        .tag = tag,
                        .address = at,
                        .bytes = n,
                        .sends = sends};
}

static void
send_from(int rank, RtTransfer *t, uint32_t tag, void *at, size_t n)
{
    *t = begin(rank, true, tag, at, n);
    members[rank].link->ops->send(members[rank].link, t);
}

static void
recv_at(int rank, RtTransfer *t, uint32_t tag, void *at, size_t n)
{
    *t = begin(rank, false, tag, at, n);
    members[rank].link->ops->recv(members[rank].link, t);
}

static bool
has_ended(int rank, RtTransfer *t)
{
    return members[rank].link->ops->test(members[rank].link, t);
}

/* Whether anything was moved. */
static bool
move(int rank)
{
    bool moved = false;
    assert_null(members[rank].link->ops->progress(members[rank].link, &moved));
    return moved;
}

static void
move_both(void)
{
    bool moved = true;
    while (moved) {
        moved = move(0);
        moved |= move(1);
    }
}

static void
fill(char *bytes, size_t n, int salt)
{
    for (size_t i = 0; i < n; i++)
        bytes[i] = (char)(i * 31 + i / 257 + (size_t)salt);
}

static void
assert_filled(const char *bytes, size_t n, int salt)
{
    for (size_t i = 0; i < n; i++)
        if (bytes[i] != (char)(i * 31 + i / 257 + (size_t)salt))
            fail_msg("byte %zu of %zu", i, n);
}

static char sent[SIZE][LONG], received[SIZE][LONG];

/* ---- tests --------------------------------------------------------------- */

static void
a_message_longer_than_the_ring_arrives_both_ways(void **state)
{
    RtTransfer s[SIZE], r[SIZE];
    (void)state;
    for (int k = 0; k < SIZE; k++) {
        fill(sent[k], LONG, k);
        send_from(k, &s[k], 7, sent[k], LONG);
        assert_false(has_ended(k, &s[k]));
        recv_at(1 - k, &r[k], 7, received[k], LONG);
    }
    move_both();
    for (int k = 0; k < SIZE; k++) {
        assert_true(has_ended(k, &s[k]) && has_ended(1 - k, &r[k]));
        assert_filled(received[k], LONG, k);
    }
}

static void
messages_that_nobody_waits_for_are_kept_in_their_order(void **state)
{
    enum { NUM = 6, N = 1000 };
    RtTransfer s[NUM], r;
    static const int order[] = {4, 0, 5, 1, 2, 3};
    (void)state;
    for (int i = 0; i < NUM; i++) {
        fill(sent[0] + i * N, N, i);
        send_from(0, &s[i], i < 4 ? 1 : (uint32_t)i, sent[0] + i * N, N);
        assert_true(has_ended(0, &s[i]));
    }
    move(1);
    for (int i = 0; i < NUM; i++) {
        recv_at(1, &r, order[i] < 4 ? 1 : (uint32_t)order[i], received[0], N);
        assert_true(has_ended(1, &r));
        assert_filled(received[0], N, order[i]);
    }
}

/* It waits in the ring and beyond while others pass on its tag. */
static void
a_long_message_that_is_early_does_not_hold_up_others(void **state)
{
    RtTransfer s[2], r[2];
    (void)state;
    fill(sent[0], LONG, 3);
    fill(sent[1], 100, 4);
    send_from(0, &s[0], 1, sent[0], LONG);
    send_from(0, &s[1], 2, sent[1], 100);
    recv_at(1, &r[1], 2, received[1], 100);
    move_both();
    assert_true(has_ended(1, &r[1]));
    assert_filled(received[1], 100, 4);
    recv_at(1, &r[0], 1, received[0], LONG);
    assert_true(has_ended(1, &r[0]));
    assert_filled(received[0], LONG, 3);
}

/* What it sent of a cancelled message is followed by the rest of it, as it was,
 * so that the next one is found. */
static void
cancelled_transfers_leave_the_others_whole(void **state)
{
    RtTransfer s[3], r[3];
    (void)state;
    for (int i = 0; i < 2; i++) {
        fill(sent[i], LONG, i);
        send_from(0, &s[i], (uint32_t)i, sent[i], LONG);
        recv_at(1, &r[i], (uint32_t)i, received[i], LONG);
    }
    move(1); /* some of the first one */
    members[0].link->ops->cancel(members[0].link, &s[0]);
    members[1].link->ops->cancel(members[1].link, &r[0]);
    memset(sent[0], 0, LONG);
    memset(received[0], 77, LONG);
    send_from(0, &s[2], 2, sent[0], 10);
    members[0].link->ops->cancel(members[0].link, &s[2]); /* never begun */
    recv_at(1, &r[2], 2, received[0], 10);
    move_both();
    assert_true(has_ended(1, &r[1]));
    assert_filled(received[1], LONG, 1);
    assert_false(has_ended(1, &r[2]));
    members[1].link->ops->cancel(members[1].link, &r[2]);
    for (size_t i = 0; i < LONG; i++)
        assert_int_equal(received[0][i], 77);
}

static bool
is_readable(int fd)
{
    struct pollfd p = {fd, POLLIN, 0};
    return poll(&p, 1, 0) == 1;
}

static int
sleep_on(int rank)
{
    while (move(rank))
        ;
    return members[rank].link->ops->wait_fd(members[rank].link);
}

static void
a_process_that_sleeps_is_woken(void **state)
{
    RtTransfer s, r;
    (void)state;
    fill(sent[0], LONG, 9);
    recv_at(1, &r, 5, received[0], LONG);
    int fd = sleep_on(1);
    assert_false(is_readable(fd));
    send_from(0, &s, 5, sent[0], LONG); /* as much as there is room for */
    assert_true(is_readable(fd));
    assert_true(is_readable(sleep_on(0)) == false);
    while (move(1))
        ;
    int first = members[0].link->ops->wait_fd(members[0].link);
    assert_true(is_readable(first)); /* there is room */
    move_both();
    assert_true(has_ended(0, &s) && has_ended(1, &r));
    assert_filled(received[0], LONG, 9);
    assert_false(is_readable(sleep_on(0)));
    assert_false(is_readable(sleep_on(1)));
}

/* What came between the last look and the sleep. */
static void
nothing_is_missed_before_a_sleep(void **state)
{
    RtTransfer s, r;
    (void)state;
    recv_at(1, &r, 5, received[0], 100);
    move_both();
    send_from(0, &s, 5, sent[0], 100);
    assert_true(is_readable(members[1].link->ops->wait_fd(members[1].link)));
    move_both();
    assert_true(has_ended(1, &r));
}

/* ---- headers that cannot be -----------------------------------------------
 *
 * Only what the ring has room for is read of a message that is sent.
 */

static void
assert_is_no_message(uint32_t tag, size_t n)
{
    RtTransfer s;
    bool moved = false;
    send_from(0, &s, tag, sent[0], n);
    assert_status(members[1].link->ops->progress(members[1].link, &moved),
                  STATUS_MACHINE,
                  "rank 0 has sent what is no message, in memory");
}

static void
a_message_longer_than_memory_ends_the_link(void **state)
{
    (void)state;
    assert_is_no_message(1, ((size_t)1 << 63) + 1);
}

static void
a_message_with_no_tag_of_a_link_ends_it(void **state)
{
    (void)state;
    assert_is_no_message(RT_LINK_NUM_TAGS, 10);
}

static void
a_header_alone_takes_no_memory(void **state)
{
    RtTransfer s;
    (void)state;
    send_from(0, &s, 1, sent[0], MEMORY_MAX);
    assert_true(move(1)); /* so much at once would end the process */
}

int
main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, open_two, close_two)
    const struct CMUnitTest tests[] = {
        TEST(a_message_longer_than_the_ring_arrives_both_ways),
        TEST(messages_that_nobody_waits_for_are_kept_in_their_order),
        TEST(a_long_message_that_is_early_does_not_hold_up_others),
        TEST(cancelled_transfers_leave_the_others_whole),
        TEST(a_process_that_sleeps_is_woken),
        TEST(nothing_is_missed_before_a_sleep),
        TEST(a_message_longer_than_memory_ends_the_link),
        TEST(a_message_with_no_tag_of_a_link_ends_it),
        TEST(a_header_alone_takes_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
