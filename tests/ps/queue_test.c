/*
 * queue_test.c - which closure is where, and which a server has applied
 */
#include "tests/unit/unit.h"
#include <string.h>
#include "tests/unit/arena.h"

#include "runtime/ps/applied.h"
#include "runtime/ps/input/deals.h"
#include "runtime/ps/queue.h"

static RtClosureQueue q;

static int
set_up(void **state)
{
    new_arena(state);
    rt_queue_init(&q, arena);
    return 0;
}

static RtPsWorker *
joins(uint32_t index, uint32_t incarnation)
{
    RtPsHello h = {.role = RT_ROLE_worker,
                   .index = index,
                   .incarnation = incarnation,
                   .pid = 100 * index + incarnation,
                   .plan = "",
                   .host = "h",
                   .address = ""};
    return rt_queue_join(&q, &h, 0);
}

/* The next incarnation, after a crash. */
static RtPsWorker *
crashes(uint32_t index)
{
    RtPsHello h = {.role = RT_ROLE_worker,
                   .index = index,
                   .incarnation = q.workers.data[index].incarnation + 1,
                   .crash = 11,
                   .plan = "",
                   .host = "h",
                   .address = ""};
    return rt_queue_join(&q, &h, 0);
}

static int64_t
add(bool has_results)
{
    RtArchive none = rt_archive_writer(arena, 0);
    return rt_queue_add(&q, 0, &none, has_results)->id;
}

/* The id of the closure that a worker gets; 0: none. */
static int64_t
send(RtPsWorker *w)
{
    RtClosure *c = rt_queue_send(&q, w, 0);
    return c ? c->id : 0;
}

static void
end(RtPsWorker *w, int64_t id, bool first)
{
    rt_queue_take_from(w, id, 0);
    assert_int_equal(rt_queue_end(&q, id, "ab", 2), first);
}

/* One that takes an element of iterator 1. */
static int64_t
add_fed(uint64_t pass)
{
    int64_t id = add(false);
    rt_queue_add_feed(&q, rt_queue_closure(&q, id), 1, pass);
    return id;
}

/* The index of the element that w gets with its next closure, whose id is that.
 */
static int64_t
element(RtPsWorker *w, int64_t id)
{
    assert_int_equal(send(w), id);
    return rt_queue_closure(&q, id)->feeds.data[0].index;
}

static void
elements_stay_with_the_worker(void **state)
{
    (void)state;
    RtPsWorker *w = joins(0, 0);
    for (int i = 1; i <= 4; i++)
        add_fed(1);
    assert_int_equal(element(w, 1), 0);
    assert_int_equal(element(w, 2), 1);
    joins(1, 0);
    w = joins(0, 1); /* in the place of the first one */
    RtPsWorker *other = &q.workers.data[1];
    assert_int_equal(element(other, 3), 0);
    assert_int_equal(element(w, 1), 0);
    w = joins(0, 2);
    assert_int_equal(element(w, 1), 0);
    assert_int_equal(element(w, 2), 1);
    end(w, 1, true);
    end(w, 2, true);
    assert_int_equal(element(w, 4), 2);
    rt_queue_lose(&q, w); /* nobody comes in its place */
    assert_int_equal(element(other, 4), 1);
}

static void
a_pass_begins_with_the_first_element(void **state)
{
    (void)state;
    RtPsWorker *w = joins(0, 0);
    add_fed(1);
    add_fed(2);
    assert_int_equal(element(w, 1), 0);
    assert_int_equal(element(w, 2), 0);
}

static void
elements_are_in_checkpoints(void **state)
{
    (void)state;
    RtPsWorker *w = joins(0, 0);
    add_fed(1);
    element(w, 1);
    RtArchive out = rt_archive_writer(arena, 0);
    rt_queue_taken_archive(&q, &out);
    rt_queue_init(&q, arena);
    RtArchive in = rt_archive_reader(arena, out.data, out.len);
    rt_queue_taken_archive(&q, &in);
    assert_false(in.wrong);
    w = joins(0, 0);
    add_fed(1);
    assert_int_equal(element(w, 1), 1);
}

/* The last number of the state is the count of the last iterator. */
static void
elements_that_no_run_counts_are_refused(void **state)
{
    (void)state;
    int64_t most = INT64_MAX;
    RtPsWorker *w = joins(0, 0);
    add_fed(1);
    element(w, 1);
    RtArchive out = rt_archive_writer(arena, 0);
    rt_queue_taken_archive(&q, &out);
    memcpy(out.data + out.len - sizeof most, &most, sizeof most);
    rt_queue_init(&q, arena);
    RtArchive in = rt_archive_reader(arena, out.data, out.len);
    rt_queue_taken_archive(&q, &in);
    assert_string_equal(
        in.wrong, "9223372036854775807 is not from 0 to 4611686018427387904");
}

static void
returned_closures_are_dropped_with_all(void **state)
{
    (void)state;
    RtPsWorker *w = joins(0, 0);
    add_fed(1);
    element(w, 1);
    w = joins(0, 1);
    rt_queue_drop(&q);
    assert_int_equal(q.num_open, 0);
    assert_int_equal(send(w), 0);
}

static void
closures_are_sent_in_order(void **state)
{
    RtPsWorker *w = joins(0, 0);
    (void)state;
    for (int i = 1; i <= 3; i++)
        assert_int_equal(add(false), i);
    assert_int_equal(send(w), 1);
    assert_int_equal(send(w), 2);
    assert_int_equal(send(w), 0); /* it has enough */
    end(w, 1, true);
    assert_int_equal(send(w), 3);
    assert_int_equal(w->sent, 3);
    assert_int_equal(q.num_open, 2);
}

/* One with short closures gets the next ones when it has half of its most. */
static void
short_closures_are_sent_together(void **state)
{
    RtPsWorker *w = joins(0, 0);
    (void)state;
    for (int i = 0; i < 40; i++)
        add(false);
    send(w);
    end(w, 1, true); /* in no time */
    for (int i = 2; i < 2 + RT_PS_IN_FLIGHT; i++)
        assert_int_equal(send(w), i);
    for (int i = 2; i < 2 + RT_PS_IN_FLIGHT / 2; i++) {
        assert_int_equal(send(w), 0);
        end(w, i, true);
    }
    for (int i = 0; i < RT_PS_IN_FLIGHT / 2; i++)
        assert_int_equal(send(w), 2 + RT_PS_IN_FLIGHT + i);
    assert_int_equal(send(w), 0);
}

static void
what_a_lost_worker_has_goes_first(void **state)
{
    RtPsWorker *w = joins(0, 0);
    (void)state;
    for (int i = 0; i < 3; i++)
        add(false);
    send(w);
    send(w);
    rt_queue_lose(&q, w);
    assert_int_equal(q.num_put_back, 2);
    joins(1, 0);
    RtPsWorker *other = rt_queue_worker(&q, 1);
    assert_int_equal(send(other), 1);
    assert_int_equal(send(other), 2);
    /* the first worker comes back, and both say that 1 has ended */
    end(rt_queue_worker(&q, 0), 1, true);
    end(other, 1, false);
    assert_int_equal(q.low, 2);
}

static void
one_that_ended_is_not_sent_again(void **state)
{
    RtPsWorker *w = joins(0, 0);
    (void)state;
    add(false);
    send(w);
    rt_queue_lose(&q, w);
    end(w, 1, true);
    joins(1, 0);
    assert_int_equal(send(rt_queue_worker(&q, 1)), 0);
    assert_int_equal(q.num_open, 0);
}

static void
a_replacement_takes_a_workers_place(void **state)
{
    RtPsWorker *w = joins(0, 0);
    (void)state;
    add(false);
    send(w);
    w = joins(0, 1);
    assert_int_equal(w->num_in_flight, 0);
    assert_int_equal(w->sent, 0);
    assert_null(joins(0, 0)); /* the old one, late */
    assert_int_equal(send(w), 1);
    assert_ptr_equal(joins(0, 1), w); /* it says so again */
    assert_int_equal(w->num_in_flight, 1);
}

static void
low_waits_for_the_oldest(void **state)
{
    RtPsWorker *w = joins(0, 0);
    (void)state;
    add(false);
    add(false);
    send(w);
    send(w);
    end(w, 2, true);
    assert_int_equal(q.low, 1);
    assert_non_null(rt_queue_closure(&q, 1));
    assert_null(rt_queue_closure(&q, 2));
    end(w, 1, true);
    assert_int_equal(q.low, 3);
}

static void
a_future_lasts_while_main_refers_to_it(void **state)
{
    RtPsWorker *w = joins(0, 0);
    RtArchive none = rt_archive_writer(arena, 0);
    (void)state;
    RtFuture *f = rt_queue_add(&q, 0, &none, true)->future;
    f->refs = 1;
    send(w);
    end(w, 1, true);
    assert_true(f->is_there);
    assert_int_equal(f->bytes.len, 2);
    assert_null(q.free);
    rt_queue_release(&q, f);
    assert_ptr_equal(q.free, f);
    /* one that main has left before it was there */
    RtFuture *g = rt_queue_add(&q, 0, &none, true)->future;
    assert_ptr_equal(g, f);
    g->refs = 1;
    rt_queue_release(&q, g);
    assert_null(q.free);
    send(w);
    end(w, 2, true);
    assert_ptr_equal(q.free, f);
}

static void
the_window_fills(void **state)
{
    RtPsWorker *w = joins(0, 0);
    (void)state;
    for (int i = 0; i < RT_PS_WINDOW; i++)
        add(false);
    assert_true(rt_queue_is_full(&q));
    send(w);
    send(w);
    end(w, 2, true);
    assert_true(rt_queue_is_full(&q));
    end(w, 1, true);
    assert_false(rt_queue_is_full(&q));
    assert_int_equal(add(false), RT_PS_WINDOW + 1);
    rt_queue_drop(&q);
    assert_int_equal(q.num_open, 0);
}

/* What a worker may have begun is executed. */
static void
what_waits_is_cancelled(void **state)
{
    RtPsWorker *w = joins(0, 0);
    RtArchive none = rt_archive_writer(arena, 0);
    (void)state;
    for (int i = 1; i <= 3; i++)
        add(false);
    RtFuture *f = rt_queue_add(&q, 0, &none, true)->future;
    f->refs = 1;
    send(w);
    send(w);
    rt_queue_lose(&q, w); /* 1 and 2 wait again */
    rt_queue_cancel(&q);
    assert_int_equal(q.num_cancelled, 2);
    assert_int_equal(q.num_open, 2);
    assert_true(f->is_there && f->is_cancelled);
    w = joins(0, 1);
    assert_int_equal(add(false), 5);
    assert_int_equal(send(w), 1);
    assert_int_equal(send(w), 2);
    end(w, 1, true);
    assert_int_equal(send(w), 5);
}

/* A worker says that it has not begun a closure. */
static void
what_no_worker_has_begun_is_cancelled(void **state)
{
    RtPsWorker *w = joins(0, 0);
    (void)state;
    for (int i = 1; i <= 2; i++)
        add(false);
    send(w);
    assert_true(rt_queue_end_cancelled(&q, 1));
    assert_false(rt_queue_end_cancelled(&q, 1)); /* it has ended */
    send(w);
    rt_queue_lose(&q, w);
    w = joins(0, 1);
    assert_int_equal(send(w), 2);
    assert_false(rt_queue_end_cancelled(&q, 2)); /* another one may have */
    end(w, 2, true);
    assert_int_equal(q.num_cancelled, 1);
}

static void
one_attempt_is_decided_for(void **state)
{
    RtPsWorker *w = joins(0, 0);
    RtArchive none = rt_archive_writer(arena, 0);
    (void)state;
    RtFuture *f = rt_queue_add(&q, 0, &none, true)->future;
    f->refs = 1;
    send(w);
    rt_queue_lose(&q, w);
    joins(1, 0);
    assert_int_equal(send(rt_queue_worker(&q, 1)), 1);
    assert_false(rt_queue_decide(&q, 1, 1, "ab", 2)); /* it came back */
    assert_true(rt_queue_decide(&q, 1, 2, "cde", 3));
    assert_false(rt_queue_decide(&q, 1, 2, "cde", 3));
    rt_queue_lose(&q, rt_queue_worker(&q, 1)); /* that changes nothing */
    assert_int_equal(send(joins(2, 0)), 0);
    assert_false(f->is_there);
    assert_true(rt_queue_end(&q, 1, NULL, 0));
    assert_true(f->is_there);
    assert_int_equal(f->bytes.len, 3);
}

/* The worker that was lost comes back before another one has begun. */
static void
one_that_waits_again_is_decided_for(void **state)
{
    RtPsWorker *w = joins(0, 0);
    (void)state;
    add(false);
    send(w);
    rt_queue_lose(&q, w);
    assert_true(rt_queue_decide(&q, 1, 1, NULL, 0));
    assert_int_equal(send(joins(1, 0)), 0);
}

/* ---- pushes that a server keeps ------------------------------------------ */

static void
keep(RtStaging *s, int64_t id, int64_t attempt, char *bytes)
{
    RtStagedPush p = {
        .id = id, .attempt = attempt, .bytes = bytes, .len = strlen(bytes)};
    rt_staging_add(s, &p);
}

static void
attempts_are_kept_until_one_is_committed(void **state)
{
    RtStaging s = {0};
    char one[] = "one", two[] = "two";
    (void)state;
    keep(&s, 7, 1, one);
    keep(&s, 7, 2, two);
    keep(&s, 8, 1, one);
    one[0] = 'x'; /* it has copies */
    assert_true(rt_staging_has(&s, 7, 2));
    assert_false(rt_staging_has(&s, 8, 2));
    RtStagedPush *all = rt_staging_take(&s, 7);
    int64_t attempts = 0;
    for (RtStagedPush *p = all; p; p = p->next) {
        assert_string_equal(p->bytes, p->attempt == 1 ? "one" : "two");
        attempts += p->attempt;
    }
    assert_int_equal(attempts, 3);
    rt_staged_free(all);
    assert_false(rt_staging_has(&s, 7, 1));
    rt_staging_advance(&s, 8);
    assert_true(rt_staging_has(&s, 8, 1));
    rt_staging_advance(&s, 9);
    assert_null(s.first);
}

static void
closures_are_sent_in_rounds(void **state)
{
    RtPsWorker *w = joins(0, 0), *other = joins(1, 0);
    (void)state;
    w = rt_queue_worker(&q, 0);
    q.rounds = (RtPsRounds){.need = 1, .of = 2};
    add(false);
    rt_queue_open_round(&q);
    assert_int_equal(send(w), 0); /* the round is not full */
    for (int i = 2; i <= 3; i++)
        add(false);
    rt_queue_open_round(&q);
    assert_int_equal(send(w), 1);
    assert_int_equal(send(w), 0); /* one at a time */
    assert_int_equal(send(other), 2);
    assert_true(rt_queue_decide(&q, 2, 1, NULL, 0));
    assert_true(rt_rounds_are_complete(&q.rounds));
    rt_queue_take_from(other, 2, 0);
    assert_int_equal(send(other), 0);
    rt_queue_end(&q, 2, NULL, 0);
    rt_rounds_close(&q.rounds);
    rt_queue_open_round(&q);
    assert_int_equal(send(other), 0); /* 3 alone is no round yet */
    rt_queue_end_round(&q);           /* main waits */
    assert_int_equal(add(false), 4);
    rt_queue_open_round(&q);
    assert_int_equal(q.rounds.size, 1);
    assert_int_equal(send(other), 3);
    assert_true(rt_queue_decide(&q, 1, 1, NULL, 0));
    assert_true(rt_queue_closure(&q, 1)->is_late);
    assert_false(rt_queue_closure(&q, 3)->is_late);
}

/* Whatever is lost, and whoever says so twice: each closure ends once. */
static void
all_end_once(void **state)
{
    enum { CLOSURES = 20000, WORKERS = 3 };
    uint32_t random = 1, incarnation[WORKERS] = {0};
    int ended = 0, added = 0;
    (void)state;
    for (uint32_t i = 0; i < WORKERS; i++)
        joins(i, 0);
    while (ended < CLOSURES) {
        random = random * 1664525 + 1013904223;
        uint32_t i = (random >> 8) % WORKERS;
        RtPsWorker *w = rt_queue_worker(&q, i);
        if (added < CLOSURES && added - ended < 50) {
            add(false);
            added++;
        }
        rt_queue_send(&q, w, 0);
        if ((random >> 16) % 7 == 0)
            joins(i, ++incarnation[i]);
        else if ((random >> 16) % 7 == 1)
            rt_queue_lose(&q, w);
        else if (w->num_in_flight) {
            int64_t id = w->in_flight[0].id;
            rt_queue_take_from(w, id, 0);
            ended += rt_queue_end(&q, id, NULL, 0);
        }
    }
    assert_int_equal(q.low, CLOSURES + 1);
    assert_int_equal(q.num_open, 0);
    assert_true(q.num_put_back > 0);
}

/* ---- messages ------------------------------------------------------------ */

static void
a_task_beyond_all_is_refused(void **state)
{
    RtArchive out = rt_archive_writer(arena, 0), in;
    RtPsHello h = {.role = RT_ROLE_ps,
                   .index = RT_PS_MOST_TASKS,
                   .plan = "",
                   .host = "",
                   .address = ""};
    (void)state;
    rt_ps_begin(&out, RT_PS_HELLO);
    rt_ps_hello(&out, &h);
    assert_int_equal(rt_ps_read(&in, arena, out.data, out.len), RT_PS_HELLO);
    rt_ps_hello(&in, &h);
    assert_string_equal(in.wrong, "there is no such task");
    assert_false(rt_ps_is_good(&in));
}

/* A message that is cut anywhere, or has bytes after its end, is none. */
static void
a_damaged_message_is_none(void **state)
{
    RtArchive out = rt_archive_writer(arena, 0), in;
    const char *addresses[] = {"tcp://a:1", "tcp://b:2"};
    RtPsWelcome w = {.num_servers = 2, .addresses = addresses};
    (void)state;
    rt_ps_begin(&out, RT_PS_WELCOME);
    rt_ps_welcome(&out, &w);
    for (size_t n = 0; n <= out.len; n++) {
        RtPsType type = rt_ps_read(&in, arena, out.data, n);
        if (type == RT_PS_WELCOME)
            rt_ps_welcome(&in, &w);
        assert_int_equal(type == RT_PS_WELCOME && rt_ps_is_good(&in),
                         n == out.len);
    }
    assert_string_equal(w.addresses[1], "tcp://b:2");
    rt_archive_place(&out, 1);
    rt_ps_read(&in, arena, out.data, out.len);
    rt_ps_welcome(&in, &w);
    assert_false(rt_ps_is_good(&in));
}

/* ---- what a server has applied ------------------------------------------- */

static void
an_id_is_applied_once(void **state)
{
    RtAppliedSet *s = NEW(arena, RtAppliedSet);
    (void)state;
    rt_applied_advance(s, 5);
    assert_true(rt_applied_has(s, 4)); /* it has ended */
    assert_false(rt_applied_has(s, 7));
    rt_applied_add(s, 7);
    assert_true(rt_applied_has(s, 7));
    assert_false(rt_applied_has(s, 8));
    rt_applied_advance(s, 3); /* a message that was late */
    assert_int_equal(s->low, 5);
}

static void
bits_are_used_again(void **state)
{
    RtAppliedSet *s = NEW(arena, RtAppliedSet);
    (void)state;
    rt_applied_add(s, 7);
    assert_false(rt_applied_is_beyond(s, RT_PS_WINDOW - 1));
    assert_true(rt_applied_is_beyond(s, RT_PS_WINDOW + 7));
    rt_applied_advance(s, 8);
    assert_false(rt_applied_is_beyond(s, RT_PS_WINDOW + 7));
    assert_false(rt_applied_has(s, RT_PS_WINDOW + 7));
    rt_applied_add(s, 9);
    rt_applied_advance(s, 5 * (int64_t)RT_PS_WINDOW);
    assert_false(rt_applied_has(s, 5 * (int64_t)RT_PS_WINDOW + 9));
}

static void
a_closure_that_crashes_is_found(void **state)
{
    (void)state;
    RtPsWorker *w = joins(0, 0);
    for (int i = 1; i <= 4; i++)
        add(false);
    assert_int_equal(send(w), 1);
    assert_int_equal(send(w), 2); /* it ends its worker: nobody knows */
    w = crashes(0);
    assert_int_equal(send(w), 1); /* each alone, from now on */
    assert_int_equal(send(w), 0);
    end(w, 1, true);
    for (int times = 2; times <= 3; times++) {
        assert_int_equal(q.deadly, 0);
        assert_int_equal(send(w), 2);
        assert_int_equal(send(w), 0);
        w = crashes(0);
    }
    assert_int_equal(q.deadly, 2);
}

static void
others_go_on_beside_one_alone(void **state)
{
    (void)state;
    RtPsWorker *w = joins(0, 0), *other = joins(1, 0);
    w = &q.workers.data[0];
    for (int i = 1; i <= 4; i++)
        add(false);
    assert_int_equal(send(w), 1);
    assert_int_equal(send(other), 2);
    w = crashes(0);
    assert_int_equal(send(other), 0); /* it has one already */
    assert_int_equal(send(w), 1);
    assert_int_equal(send(other), 3);
    end(w, 1, true);
    assert_int_equal(send(w), 4);
    assert_int_equal(q.deadly, 0);
}

/* What a worker answers that has none for a closure. */
static void
lacks(RtPsWorker *w, int64_t id)
{
    rt_queue_take_from(w, id, 0);
    rt_queue_lacks_elements(&q, w, id);
}

static void
closures_go_where_elements_are(void **state)
{
    RtPsWorker *w = joins(0, 0), *other = joins(1, 0);
    (void)state;
    add_fed(1);
    add_fed(1);
    w = rt_queue_worker(&q, 0);
    assert_int_equal(send(w), 1);
    lacks(w, 1);
    assert_int_equal(send(w), 0);
    assert_null(rt_queue_without_elements(&q, 2));
    assert_int_equal(element(other, 1), 0);
    assert_int_equal(element(other, 2), 1);
    lacks(other, 2);
    assert_int_equal(send(other), 0);
    assert_null(rt_queue_without_elements(&q, 3)); /* one may still join */
    assert_int_equal(rt_queue_without_elements(&q, 2)->id, 2);
    rt_queue_lacks_elements(&q, w, 1); /* it is the other one's */
    assert_non_null(rt_queue_closure(&q, 1));
    rt_queue_worker(&q, 0)->is_lost = true;
    assert_non_null(rt_queue_without_elements(&q, 2));
    end(other, 1, true);
    end(other, 2, true);
    add_fed(2); /* the next pass */
    assert_int_equal(element(other, 3), 0);
}

/* Which file worker `index` has as its file number `taken`, of three. */
static int64_t
dealt(RtPsDeals *deals, uint32_t index, uint64_t pass, int64_t taken)
{
    RtPsDealing d = {
        .index = index, .pass = pass, .taken = taken, .num = 3, .names = "n"};
    return rt_ps_deal(deals, &d) == RT_DEAL_answered ? d.file : -1;
}

static void
files_are_dealt_once(void **state)
{
    RtPsDeals deals = {.arena = arena}, again = {.arena = arena};
    RtPsDealing other = {.num = 3, .names = "m"};
    (void)state;
    assert_int_equal(dealt(&deals, 0, 0, 0), 0);
    assert_int_equal(dealt(&deals, 1, 0, 0), 1);
    assert_int_equal(dealt(&deals, 0, 0, 0), 0);  /* it is asked again */
    assert_int_equal(dealt(&deals, 0, 0, 2), -1); /* there was no second one */
    assert_int_equal(dealt(&deals, 0, 1, 0), 0);  /* the next pass */
    assert_int_equal(dealt(&deals, 0, 0, 1), 2);
    assert_int_equal(dealt(&deals, 1, 0, 1), 3); /* none is left */
    assert_int_equal(rt_ps_deal(&deals, &other), RT_DEAL_differs);
    RtArchive out = rt_archive_writer(arena, 0);
    rt_ps_deals_archive(&deals, &out);
    RtArchive in = rt_archive_reader(arena, out.data, out.len);
    rt_ps_deals_archive(&again, &in);
    assert_null(in.wrong);
    assert_int_equal(dealt(&again, 0, 0, 1), 2);
    assert_int_equal(dealt(&again, 1, 0, 0), 1);
    assert_int_equal(dealt(&again, 1, 1, 0), 1);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(elements_stay_with_the_worker, set_up,
                                        release_arena),
        cmocka_unit_test_setup_teardown(closures_go_where_elements_are, set_up,
                                        release_arena),
        cmocka_unit_test_setup_teardown(files_are_dealt_once, set_up,
                                        release_arena),
        cmocka_unit_test_setup_teardown(a_pass_begins_with_the_first_element,
                                        set_up, release_arena),
        cmocka_unit_test_setup_teardown(elements_are_in_checkpoints, set_up,
                                        release_arena),
        cmocka_unit_test_setup_teardown(elements_that_no_run_counts_are_refused,
                                        set_up, release_arena),
        cmocka_unit_test_setup_teardown(returned_closures_are_dropped_with_all,
                                        set_up, release_arena),
        cmocka_unit_test_setup_teardown(closures_are_sent_in_order, set_up,
                                        release_arena),
        cmocka_unit_test_setup_teardown(short_closures_are_sent_together,
                                        set_up, release_arena),
        cmocka_unit_test_setup_teardown(what_a_lost_worker_has_goes_first,
                                        set_up, release_arena),
        cmocka_unit_test_setup_teardown(one_that_ended_is_not_sent_again,
                                        set_up, release_arena),
        cmocka_unit_test_setup_teardown(a_replacement_takes_a_workers_place,
                                        set_up, release_arena),
        cmocka_unit_test_setup_teardown(low_waits_for_the_oldest, set_up,
                                        release_arena),
        cmocka_unit_test_setup_teardown(a_future_lasts_while_main_refers_to_it,
                                        set_up, release_arena),
        cmocka_unit_test_setup_teardown(the_window_fills, set_up,
                                        release_arena),
        cmocka_unit_test_setup_teardown(what_waits_is_cancelled, set_up,
                                        release_arena),
        cmocka_unit_test_setup_teardown(what_no_worker_has_begun_is_cancelled,
                                        set_up, release_arena),
        cmocka_unit_test_setup_teardown(closures_are_sent_in_rounds, set_up,
                                        release_arena),
        cmocka_unit_test_setup_teardown(one_attempt_is_decided_for, set_up,
                                        release_arena),
        cmocka_unit_test_setup_teardown(one_that_waits_again_is_decided_for,
                                        set_up, release_arena),
        cmocka_unit_test_setup_teardown(
            attempts_are_kept_until_one_is_committed, set_up, release_arena),
        cmocka_unit_test_setup_teardown(all_end_once, set_up, release_arena),
        cmocka_unit_test_setup_teardown(a_task_beyond_all_is_refused, set_up,
                                        release_arena),
        cmocka_unit_test_setup_teardown(a_damaged_message_is_none, set_up,
                                        release_arena),
        cmocka_unit_test_setup_teardown(an_id_is_applied_once, set_up,
                                        release_arena),
        cmocka_unit_test_setup_teardown(bits_are_used_again, set_up,
                                        release_arena),
        cmocka_unit_test_setup_teardown(a_closure_that_crashes_is_found, set_up,
                                        release_arena),
        cmocka_unit_test_setup_teardown(others_go_on_beside_one_alone, set_up,
                                        release_arena),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
