/*
 * dealer_test.c - a worker whose coordinator answers wrongly, or not at all
 */
#include "tests/unit/status.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>
#include "runtime/ps/input/dealer.h"

static const RtPsDealing worker = {.index = 1, .incarnation = 7};

typedef struct Deal {
    char at[32];
    RtPsNet coordinators, workers;
    RtPsListener listener;
    RtPsDealer *dealer;
    pthread_t thread; /* of the coordinator */
    atomic_bool ends;
} Deal;

static void
begin(Deal *d, double patience)
{
    assert_null(rt_ps_net_open(&d->coordinators, NULL));
    assert_null(rt_ps_net_open(&d->workers, NULL));
    assert_null(rt_ps_listen(&d->coordinators, "127.0.0.1:0", &d->listener));
    snprintf(d->at, sizeof d->at, "tcp://127.0.0.1:%d", d->listener.port);
    assert_null(
        rt_ps_dealer_open(&d->workers, d->at, &worker, patience, &d->dealer));
}

static void
end(Deal *d)
{
    rt_ps_dealer_close(d->dealer);
    rt_ps_listener_close(&d->listener);
    rt_ps_net_close(&d->workers);
    rt_ps_net_close(&d->coordinators);
}

static Status
next(Deal *d, int64_t taken, int64_t *file)
{
    RtFileDealer *of = rt_ps_dealer_of(d->dealer, 3);
    RtDataClient client = {0};
    return of->next(of, &client, 0, taken, 10, "a hash", file);
}

static void
a_coordinator_that_never_answers_is_an_error(void **state)
{
    (void)state;
    Deal d = {0};
    int64_t file;
    begin(&d, 0.3);
    assert_status_says(next(&d, 0, &file), STATUS_MACHINE,
                       ", which deals files to workers, has not answered for ");
    end(&d);
}

/* ---- answers ------------------------------------------------------------- */

static void
reply(Deal *d, const RtPsRoute *to, RtPsDealing answer)
{
    Arena *a = arena_new(NULL, "an answer");
    RtArchive out = rt_archive_writer(a, 0);
    rt_ps_begin(&out, RT_PS_DEALT);
    rt_ps_dealing(&out, &answer);
    rt_ps_send_to(&d->listener, to, &out);
    arena_release(a);
}

/* Answers of another question, and of a file that is not there, before the
 * right one, which is the file 2 + taken. */
static void
answer(Deal *d, const RtPsRoute *from, zmq_msg_t *m)
{
    RtArchive in;
    RtPsDealing asked;
    const RtZmq *z = d->coordinators.zmq;
    Arena *a = arena_new(NULL, "a question");
    if (rt_ps_read(&in, a, z->zmq_msg_data(m), z->zmq_msg_size(m)) ==
        RT_PS_DEAL) {
        rt_ps_dealing(&in, &asked);
        RtPsDealing other = asked, absent = asked, right = asked;
        other.pass++;
        other.file = 9;
        absent.file = asked.num + 1;
        right.file = 2 + asked.taken;
        reply(d, from, other);
        reply(d, from, absent);
        reply(d, from, right);
    }
    arena_release(a);
}

static void *
coordinate(void *data)
{
    Deal *d = data;
    const RtZmq *z = d->coordinators.zmq;
    while (!atomic_load(&d->ends)) {
        RtPsRoute from;
        zmq_msg_t m;
        z->zmq_msg_init(&m);
        if (rt_ps_next_from(&d->listener, &from, &m))
            answer(d, &from, &m);
        else
            usleep(1000);
        z->zmq_msg_close(&m);
    }
    return NULL;
}

static void
only_the_answer_to_the_question_counts(void **state)
{
    (void)state;
    Deal d = {0};
    begin(&d, 20.0);
    assert_int_equal(pthread_create(&d.thread, NULL, coordinate, &d), 0);
    for (int64_t taken = 0; taken < 5; taken++) {
        int64_t file = -1;
        assert_null(next(&d, taken, &file));
        assert_int_equal(file, 2 + taken);
    }
    atomic_store(&d.ends, true);
    pthread_join(d.thread, NULL);
    end(&d);
}

/* Says again and again what was not asked. */
static void *
chatter(void *data)
{
    Deal *d = data;
    const RtZmq *z = d->coordinators.zmq;
    RtPsRoute from = {0};
    while (!atomic_load(&d->ends)) {
        RtPsRoute asker;
        zmq_msg_t m;
        z->zmq_msg_init(&m);
        if (rt_ps_next_from(&d->listener, &asker, &m))
            from = asker;
        z->zmq_msg_close(&m);
        if (from.len)
            reply(d, &from, (RtPsDealing){.index = 2, .names = ""});
        usleep(100);
    }
    return NULL;
}

static void
other_messages_are_no_answer(void **state)
{
    (void)state;
    Deal d = {0};
    int64_t file;
    begin(&d, 1.5);
    assert_int_equal(pthread_create(&d.thread, NULL, chatter, &d), 0);
    alarm(20); /* seconds: it would wait as long as there are messages */
    assert_status_says(next(&d, 0, &file), STATUS_MACHINE,
                       ", which deals files to workers, has not answered for ");
    alarm(0);
    atomic_store(&d.ends, true);
    pthread_join(d.thread, NULL);
    end(&d);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_coordinator_that_never_answers_is_an_error),
        cmocka_unit_test(only_the_answer_to_the_question_counts),
        cmocka_unit_test(other_messages_are_no_answer),
    };
    return cmocka_run_group_tests_name("dealing files", tests, NULL, NULL);
}
