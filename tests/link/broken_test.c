/*
 * broken_test.c - connections of ZeroMQ that are closed under way
 *
 * Two links of one thread, which moves them in turn.  The library makes a
 * connection again, without what it was sending; whether it has sent all of a
 * message by then is chance, so rounds go on until one was lost.
 */
#include "tests/unit/unit.h"
#include "tests/unit/status.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include "ir/base/clock.h"
#include "runtime/link/zmq/zmq.h"

enum { SIZE = 2, LONG = 32 << 20, TAG = 3, MOST_ROUNDS = 30, MOST_FD = 1024 };

static const double long_enough = 60; /* seconds, for a message */

static const char lost[] =
    "rank 1 has lost messages of rank 0: a connection between them, over zmq, "
    "was closed by the network or what is in it";

static RtLink *links[SIZE];
static in_port_t port_of_1;

static int
open_two(void **state)
{
    RtLinkAddress all[SIZE];
    uint32_t port;
    (void)state;
    for (int k = 0; k < SIZE; k++) {
        Status st = rt_link_zmq_open(k, SIZE, "127.0.0.1", NULL, &links[k]);
        if (st)
            return -1;
        all[k] = links[k]->ops->address(links[k]);
    }
    memcpy(&port, all[1].bytes, sizeof port); /* an address begins with it */
    port_of_1 = htons((in_port_t)port);
    for (int k = 0; k < SIZE; k++)
        if (links[k]->ops->connect(links[k], all))
            return -1;
    return 0;
}

static int
close_two(void **state)
{
    (void)state;
    for (int k = 0; k < SIZE; k++)
        links[k]->ops->close(links[k], true);
    return 0;
}

/* The end of rank 0's connection to rank 1 at rank 0. */
static void
break_connection(void)
{
    for (int fd = 0; fd < MOST_FD; fd++) {
        struct sockaddr_in6 at; /* a port is where it is in sockaddr_in */
        socklen_t n = sizeof at;
        if (getpeername(fd, (struct sockaddr *)&at, &n) == 0 &&
            (at.sin6_family == AF_INET || at.sin6_family == AF_INET6) &&
            at.sin6_port == port_of_1)
            shutdown(fd, SHUT_RDWR);
    }
}

static void
begin(int rank, RtTransfer *t, bool sends, char *bytes)
{
    RtLink *l = links[rank];
    *t = (RtTransfer){.peer = 1 - rank,
                      .tag = TAG,
                      .address = bytes,
                      .bytes = LONG,
                      .sends = sends};
    if (sends)
        l->ops->send(l, t);
    else
        l->ops->recv(l, t);
}

/* Until rank 1 has received it; a failure, *ended says whether it has. */
static Status
wait_for(RtTransfer *t, bool *ended)
{
    double end = clock_seconds() + long_enough;
    *ended = false;
    while (!*ended && clock_seconds() < end) {
        bool moved;
        for (int k = 0; k < SIZE; k++)
            TRY(links[k]->ops->progress(links[k], &moved));
        *ended = links[1]->ops->test(links[1], t);
    }
    return OK;
}

/* A message is sent over a connection that is closed a moment later, then so
 * many others; what comes is compared.  Whether one was lost. */
static bool
lose_one(int round, int num_more)
{
    char *from = malloc(LONG), *to = malloc(LONG);
    RtTransfer sent, received;
    bool ended;
    memset(from, round + 1, LONG);
    begin(0, &sent, true, from);
    nanosleep(&(struct timespec){.tv_nsec = 200000 * (round % 10)}, NULL);
    break_connection();
    for (int i = 0; i < num_more; i++) {
        memset(from, 100 + i, LONG);
        begin(0, &sent, true, from);
    }
    Status st = OK;
    for (int i = 0; i < 1 + num_more && !st; i++) {
        begin(1, &received, false, to);
        st = wait_for(&received, &ended);
        assert_true(st || ended);
        if (!st)
            assert_int_equal(to[LONG - 1], i ? 100 + i - 1 : round + 1);
    }
    free(from);
    free(to);
    if (!st)
        return false;
    assert_status_says(st, STATUS_MACHINE, lost);
    return true;
}

static void
lose(int num_more)
{
    int round = 0;
    while (round < MOST_ROUNDS && !lose_one(round, num_more))
        round++;
    assert_true(round < MOST_ROUNDS);
}

static void
the_last_message_is_asked_for(void **state)
{
    (void)state;
    lose(0);
}

static void
a_later_message_is_not_taken_for_it(void **state)
{
    (void)state;
    lose(1);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_last_message_is_asked_for, open_two,
                                        close_two),
        cmocka_unit_test_setup_teardown(a_later_message_is_not_taken_for_it,
                                        open_two, close_two),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
