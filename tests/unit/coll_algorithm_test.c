/*
 * coll_algorithm_test.c - the schedules of collectives, without a transport
 *
 * A model takes the steps of all participants: it knows which elements have
 * reached whom, and what may not be done to operands that are results too.
 */
#include "tests/unit/unit.h"

#include <string.h>
#include "runtime/coll/algorithm/algorithm.h"
#include "runtime/coll/algorithm/reduce.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

enum { MOST = 9, MAX_OPERANDS = 4, MAX_COUNT = 1100 };

/* Replicas on participants. */
static const int groups[][2] = {
    {1, 1}, {2, 2}, {3, 3}, {4, 4}, {5, 5}, {6, 6}, {7, 7},
    {8, 8}, {9, 9}, {2, 1}, {6, 2}, {6, 3}, {8, 4}, {9, 3},
};

static const int64_t counts[][MAX_OPERANDS] = {
    {0, 0, 0, 0},    {1, 0, 0, 0},       {3, 1, 7, 2},
    {64, 65, 63, 1}, {1000, 0, 129, 64}, {1100, 1100, 1, 1100},
};

static const RtAlgorithmChoice ways[] = {
    {.algorithm = COLL_AUTO},
    {.algorithm = COLL_TWO_PHASE},
    {.algorithm = COLL_REDUCE_TO_ONE},
    {.algorithm = COLL_HIERARCHICAL},
    {.algorithm = COLL_HIERARCHICAL, .packs = 1},
    {.algorithm = COLL_HIERARCHICAL, .packs = 3},
    {.algorithm = COLL_HIERARCHICAL, .packs = 64},
    {.algorithm = COLL_RING},
};

/* What has happened to each element of each operand. */
typedef struct Model {
    RtCollShape shape;
    int participant, phase;
    int combined[MAX_OPERANDS][MAX_COUNT];
    /* Of each participant's result: how often, and last in which phase. */
    int delivered[MOST][MAX_OPERANDS][MAX_COUNT];
    int delivered_in[MOST][MAX_OPERANDS][MAX_COUNT];
    int64_t work[MOST]; /* elements that a participant combines */
    int64_t moved;      /* elements, from participant to participant */
} Model;

static Model model; /* too large for a stack */

static void
check_step(const Model *m, const RtCollStep *step)
{
    assert_true(step->operand >= 0 && step->operand < m->shape.num_operands);
    assert_true(step->begin >= 0 && step->begin < step->end);
    assert_true(step->end <= m->shape.counts[step->operand]);
    assert_true(step->first_receiver >= 0 && step->num_receivers > 0);
    assert_true(step->first_receiver + step->num_receivers <=
                m->shape.num_participants);
}

/* A copy needs what an earlier phase delivered. */
static void
take_element(Model *m, const RtCollStep *step, int64_t e)
{
    int i = step->operand;
    if (step->kind == STEP_COMBINE) {
        m->combined[i][e]++;
        m->work[m->participant]++;
    } else {
        assert_int_equal(step->kind, STEP_COPY);
        assert_int_equal(m->delivered[step->from][i][e], 1);
        assert_true(m->delivered_in[step->from][i][e] < m->phase);
    }
    for (int k = 0; k < step->num_receivers; k++) {
        m->delivered[step->first_receiver + k][i][e]++;
        m->delivered_in[step->first_receiver + k][i][e] = m->phase;
    }
}

static void
take_step(void *data, const RtCollStep *step)
{
    Model *m = data;
    check_step(m, step);
    m->moved += (step->end - step->begin) *
                rt_step_moves(&m->shape, m->participant, step);
    for (int64_t e = step->begin; e < step->end; e++)
        take_element(m, step, e);
}

/* Everyone gets every element once.  It is combined once, since the result may
 * be the operand; unless that is a copy: then by everyone. */
static void
check_elements(const Model *m, const RtAlgorithm *a)
{
    int n = m->shape.num_participants;
    for (int i = 0; i < m->shape.num_operands; i++)
        for (int64_t e = 0; e < m->shape.counts[i]; e++) {
            assert_int_equal(m->combined[i][e], a->is_staged ? n : 1);
            for (int k = 0; k < n; k++)
                assert_int_equal(m->delivered[k][i][e], 1);
        }
}

static void
run_model(const RtCollShape *shape, RtAlgorithmChoice choice, size_t bytes,
          bool backwards)
{
    int n = shape->num_participants;
    memset(&model, 0, sizeof model);
    model.shape = *shape;
    const RtAlgorithm *a = rt_reduce_algorithm(choice.algorithm, shape, bytes);
    for (int phase = 0; phase < rt_algorithm_phases(a, shape); phase++)
        for (int k = 0; k < n; k++) {
            model.phase = phase;
            model.participant = backwards ? n - 1 - k : k;
            a->all_reduce(shape, model.participant, phase, take_step, &model);
        }
    check_elements(&model, a);
}

/* bytes: of the operands, which auto asks for. */
static void
for_all_shapes(void (*check)(const RtCollShape *shape, RtAlgorithmChoice choice,
                             size_t bytes))
{
    for (int g = 0; g < COUNT(groups); g++)
        for (int c = 0; c < COUNT(counts); c++)
            for (int w = 0; w < COUNT(ways); w++) {
                RtCollShape shape = {groups[g][0],  groups[g][1],
                                     MAX_OPERANDS,  counts[c],
                                     ways[w].packs, c % groups[g][1]};
                check(&shape, ways[w], IR_COLL_REPLICATED_BYTES);
                check(&shape, ways[w], IR_COLL_REPLICATED_BYTES + 1);
            }
}

static void
check_delivery(const RtCollShape *shape, RtAlgorithmChoice choice, size_t bytes)
{
    run_model(shape, choice, bytes, false);
    run_model(shape, choice, bytes, true);
}

static void
everyone_gets_every_element_once(void **state)
{
    (void)state;
    for_all_shapes(check_delivery);
}

/* In two phases nobody combines over two steps of a slice more than another,
 * for each operand. */
static void
check_balance(const RtCollShape *shape, RtAlgorithmChoice choice, size_t bytes)
{
    if (choice.algorithm != COLL_TWO_PHASE)
        return;
    run_model(shape, choice, bytes, false);
    for (int k = 1; k < shape->num_participants; k++) {
        int64_t more = model.work[k] - model.work[0];
        assert_true(more <= 2 * COLL_SLICE_STEP * MAX_OPERANDS);
        assert_true(-more <= 2 * COLL_SLICE_STEP * MAX_OPERANDS);
    }
}

static void
slices_are_of_equal_size(void **state)
{
    (void)state;
    for_all_shapes(check_balance);
}

static bool
carried_out_as(RtCollAlgorithm asked, int participants, size_t bytes,
               RtCollAlgorithm as)
{
    static const int64_t count = 1;
    RtCollShape shape = {participants, participants, 1, &count, 0, 0};
    return rt_reduce_algorithm(asked, &shape, bytes) ==
           rt_reduce_algorithm(as, &shape, bytes);
}

static void
auto_goes_by_bytes(void **state)
{
    (void)state;
    size_t small = IR_COLL_REPLICATED_BYTES;
    assert_true(carried_out_as(COLL_AUTO, 4, 0, COLL_REPLICATED));
    assert_true(carried_out_as(COLL_AUTO, 4, small, COLL_REPLICATED));
    assert_true(carried_out_as(COLL_AUTO, 4, small + 1, COLL_TWO_PHASE));
    assert_false(carried_out_as(COLL_TWO_PHASE, 4, 0, COLL_REPLICATED));
    assert_false(carried_out_as(COLL_HIERARCHICAL, 4, 0, COLL_TWO_PHASE));
    assert_true(carried_out_as(COLL_HIERARCHICAL, 5, 0, COLL_TWO_PHASE));
}

/* Reducing into halves has a phase for each of the two, a ring one for each
 * participant; nothing else has to meet midway. */
static void
phases_meet_midway(void **state)
{
    static const int64_t count = 1000;
    RtCollShape shape = {8, 8, 1, &count, 0, 3};
    (void)state;
    for (int k = COLL_REPLICATED; k < NUM_COLL_ALGORITHMS; k++) {
        const RtAlgorithm *a =
            rt_reduce_algorithm((RtCollAlgorithm)k, &shape, 4000);
        assert_int_equal(rt_algorithm_phases(a, &shape), k == COLL_HIERARCHICAL
                                                             ? 2
                                                         : k == COLL_RING ? 8
                                                                          : 1);
    }
}

/* The bytes that have to move: in two phases of n participants each sends and
 * gets n - 1 of n parts, twice.  Replicas of others are fetched one by one. */
static void
moves_are_counted(void **state)
{
    static const int64_t count = 1000;
    static const struct {
        int num_replicas, participants;
        RtCollAlgorithm asked;
        int64_t moved;
    } rows[] = {
        {4, 4, COLL_TWO_PHASE, 2 * 3 * 1000},
        {8, 4, COLL_TWO_PHASE, (6 + 3) * 1000},
        {4, 4, COLL_RING, 2 * 3 * 1000},
        {4, 4, COLL_REDUCE_TO_ONE, 2 * 3 * 1000},
        {4, 4, COLL_AUTO, 4 * 3 * 1000},
        {4, 4, COLL_HIERARCHICAL, (3 + 1 + 2) * 1000},
        {4, 1, COLL_TWO_PHASE, 0},
    };
    (void)state;
    for (int i = 0; i < COUNT(rows); i++) {
        RtCollShape shape = {
            rows[i].num_replicas,    rows[i].participants, 1, &count, 0,
            i % rows[i].participants};
        run_model(&shape, (RtAlgorithmChoice){.algorithm = rows[i].asked}, 0,
                  false);
        assert_int_equal(model.moved, rows[i].moved);
    }
}

/* ---- a transport of messages --------------------------------------------- */

/* Each participant is a process that sees its own memory and what others sent
 * it, in order; it knows the schedules of all. */
enum { ALL = MAX_OPERANDS * MAX_COUNT, MOST_EACH = 6 };

typedef struct Process {
    float in[MOST_EACH][MAX_OPERANDS][MAX_COUNT]; /* of its replicas */
    float out[MAX_OPERANDS][MAX_COUNT];
} Process;

typedef struct Channel {
    float sent[(MOST_EACH + 1) * ALL];
    int64_t first, end;
} Channel;

static struct {
    RtCollShape shape;
    int me, executor; /* who acts, and whose schedule that is */
    Process processes[MOST];
    Channel channels[MOST][MOST]; /* from, to */
} cluster;

static int
cluster_each(void)
{
    return cluster.shape.num_replicas / cluster.shape.num_participants;
}

static void
send_to(int process, const float *x, int64_t n)
{
    Channel *c = &cluster.channels[cluster.me][process];
    assert_true(c->end + n <= COUNT(c->sent));
    memcpy(c->sent + c->end, x, (size_t)n * sizeof *x);
    c->end += n;
}

static const float *
receive_from(int process, int64_t n)
{
    Channel *c = &cluster.channels[process][cluster.me];
    const float *x = c->sent + c->first;
    c->first += n;
    assert_true(c->first <= c->end);
    return x;
}

/* To whoever takes the step: what it needs of mine. */
static void
send_needed(void *data, const RtCollStep *step)
{
    const Process *me = &cluster.processes[cluster.me];
    int64_t n = step->end - step->begin;
    (void)data;
    if (step->kind == STEP_COPY && step->from == cluster.me)
        send_to(cluster.executor, me->out[step->operand] + step->begin, n);
    for (int k = 0; k < cluster_each() && step->kind == STEP_COMBINE; k++)
        send_to(cluster.executor, me->in[k][step->operand] + step->begin, n);
}

/* Takes a step, with what was sent, and sends the result. */
static void
execute_step(void *data, const RtCollStep *step)
{
    static float sum[MAX_COUNT];
    const void *x[MOST];
    int64_t n = step->end - step->begin;
    (void)data;
    if (step->kind == STEP_COMBINE) {
        for (int k = 0; k < cluster.shape.num_replicas; k++)
            x[k] = receive_from(k / cluster_each(), n);
        rt_reduce_kernel(REDUCE_SUM, DT_f32)(cluster.shape.num_replicas, x, 1,
                                             (void *[]){sum}, 0, n);
    } else {
        memcpy(sum, receive_from(step->from, n), (size_t)n * sizeof *sum);
    }
    for (int k = 0; k < step->num_receivers; k++)
        send_to(step->first_receiver + k, sum, n);
}

static void
receive_result(void *data, const RtCollStep *step)
{
    int64_t n = step->end - step->begin;
    float *out = cluster.processes[cluster.me].out[step->operand];
    int place = cluster.me - step->first_receiver;
    (void)data;
    if (place >= 0 && place < step->num_receivers)
        memcpy(out + step->begin, receive_from(cluster.executor, n),
               (size_t)n * sizeof *out);
}

/* Everyone walks the schedules of all, or only its own. */
static void
everyone_walks(const RtAlgorithm *a, int phase, RtCollStepFunction *take,
               bool all)
{
    int n = cluster.shape.num_participants;
    for (cluster.me = 0; cluster.me < n; cluster.me++)
        for (int k = 0; k < n; k++) {
            cluster.executor = k;
            if (all || k == cluster.me)
                a->all_reduce(&cluster.shape, k, phase, take, NULL);
        }
}

static void
fill_operands(void)
{
    for (int p = 0; p < cluster.shape.num_participants; p++)
        for (int k = 0; k < cluster_each(); k++)
            for (int i = 0; i < ALL; i++)
                (&cluster.processes[p].in[k][0][0])[i] =
                    1.0f / (float)(1 + i % 101 + 7 * p + 3 * k);
}

static void
check_sums(void)
{
    static float sum[MAX_COUNT];
    const void *x[MOST];
    for (int i = 0; i < cluster.shape.num_operands; i++) {
        int64_t count = cluster.shape.counts[i];
        for (int r = 0; r < cluster.shape.num_replicas; r++)
            x[r] =
                cluster.processes[r / cluster_each()].in[r % cluster_each()][i];
        rt_reduce_kernel(REDUCE_SUM, DT_f32)(cluster.shape.num_replicas, x, 1,
                                             (void *[]){sum}, 0, count);
        for (int p = 0; p < cluster.shape.num_participants; p++)
            assert_memory_equal(cluster.processes[p].out[i], sum,
                                (size_t)count * sizeof *sum);
    }
}

static void
send_everything(const RtCollShape *shape, RtAlgorithmChoice choice,
                size_t bytes)
{
    int n = shape->num_participants;
    const RtAlgorithm *a = rt_reduce_algorithm(choice.algorithm, shape, bytes);
    cluster.shape = *shape;
    fill_operands();
    for (int i = 0; i < n * n; i++)
        cluster.channels[i / n][i % n].first =
            cluster.channels[i / n][i % n].end = 0;
    for (int phase = 0; phase < rt_algorithm_phases(a, shape); phase++) {
        everyone_walks(a, phase, send_needed, true);
        everyone_walks(a, phase, execute_step, false);
        everyone_walks(a, phase, receive_result, true);
    }
    for (int i = 0; i < n * n; i++)
        assert_int_equal(cluster.channels[i / n][i % n].first,
                         cluster.channels[i / n][i % n].end);
    check_sums();
}

static void
messages_can_carry_schedules(void **state)
{
    (void)state;
    for_all_shapes(send_everything);
}

/* ---- gathering ----------------------------------------------------------- */

typedef struct Gathered {
    RtCollShape shape;
    int got[MOST][MOST][3]; /* a participant's blocks of a replica */
} Gathered;

static void
take_blocks(void *data, const RtCollStep *step)
{
    Gathered *g = data;
    assert_int_equal(step->kind, STEP_GATHER);
    assert_true(step->from >= 0 && step->from < g->shape.num_replicas);
    for (int k = 0; k < step->num_receivers; k++)
        for (int64_t b = step->begin; b < step->end; b++)
            g->got[step->first_receiver + k][step->from][b]++;
}

static void
gather_among(int num_replicas, int participants, RtCollAlgorithm asked)
{
    static const int64_t blocks = 3;
    Gathered g = {.shape = {num_replicas, participants, 1, &blocks, 0, 0}};
    const RtAlgorithm *a = rt_gather_algorithm(asked);
    assert_int_equal(a->num_phases, 1);
    for (int k = 0; k < participants; k++)
        a->all_gather(&g.shape, k, 0, take_blocks, &g);
    for (int k = 0; k < participants; k++)
        for (int r = 0; r < num_replicas; r++)
            for (int64_t b = 0; b < blocks; b++)
                assert_int_equal(g.got[k][r][b], 1);
}

static void
everyone_gets_every_block_once(void **state)
{
    (void)state;
    for (int i = 0; i < COUNT(groups); i++) {
        gather_among(groups[i][0], groups[i][1], COLL_AUTO);
        gather_among(groups[i][0], groups[i][1], COLL_REPLICATED);
        gather_among(groups[i][0], groups[i][1], COLL_TWO_PHASE);
        gather_among(groups[i][0], groups[i][1], COLL_REDUCE_TO_ONE);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everyone_gets_every_element_once),
        cmocka_unit_test(slices_are_of_equal_size),
        cmocka_unit_test(auto_goes_by_bytes),
        cmocka_unit_test(phases_meet_midway),
        cmocka_unit_test(moves_are_counted),
        cmocka_unit_test(messages_can_carry_schedules),
        cmocka_unit_test(everyone_gets_every_block_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
