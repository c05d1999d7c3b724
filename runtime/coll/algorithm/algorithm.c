/*
 * algorithm.c - the algorithms of collectives, apart from what executes them
 */
#include "runtime/coll/algorithm/algorithm.h"

#include <assert.h>

/* What the functions below pass on. */
typedef struct Walk {
    const RtCollShape *shape;
    RtCollStepFunction *take;
    void *data;
} Walk;

static void
take(const Walk *w, RtCollStep step)
{
    if (step.begin < step.end)
        w->take(w->data, &step);
}

/* ---- each everything, for itself ---------------------------------------- */

static void
reduce_replicated(const RtCollShape *shape, int participant, int phase,
                  RtCollStepFunction *f, void *data)
{
    Walk w = {shape, f, data};
    (void)phase;
    for (int i = 0; i < shape->num_operands; i++)
        take(&w, (RtCollStep){STEP_COMBINE, i, 0, shape->counts[i], 0,
                              participant, 1});
}

/* The blocks of replicas first .. first + num, for some participants. */
static void
gather_replicas(const RtCollShape *shape, int first, int num,
                int first_receiver, int num_receivers, RtCollStepFunction *f,
                void *data)
{
    Walk w = {shape, f, data};
    for (int k = first; k < first + num; k++)
        take(&w, (RtCollStep){STEP_GATHER, 0, 0, shape->counts[0], k,
                              first_receiver, num_receivers});
}

static void
gather_replicated(const RtCollShape *shape, int participant, int phase,
                  RtCollStepFunction *f, void *data)
{
    (void)phase;
    gather_replicas(shape, 0, shape->num_replicas, participant, 1, f, data);
}

/* ---- each a slice, for all ---------------------------------------------- */

/* Where the slice of a participant begins among count elements. */
static int64_t
slice_begin(int64_t count, int n, int participant)
{
    int64_t steps = (count + COLL_SLICE_STEP - 1) / COLL_SLICE_STEP;
    int64_t at = steps * participant / n * COLL_SLICE_STEP;
    return at < count ? at : count;
}

static void
reduce_slices(const RtCollShape *shape, int participant, int phase,
              RtCollStepFunction *f, void *data)
{
    Walk w = {shape, f, data};
    int n = shape->num_participants;
    (void)phase;
    for (int i = 0; i < shape->num_operands; i++) {
        int64_t count = shape->counts[i];
        take(&w,
             (RtCollStep){STEP_COMBINE, i, slice_begin(count, n, participant),
                          slice_begin(count, n, participant + 1), 0, 0, n});
    }
}

static void
gather_own(const RtCollShape *shape, int participant, int phase,
           RtCollStepFunction *f, void *data)
{
    int each = shape->num_replicas / shape->num_participants;
    (void)phase;
    gather_replicas(shape, participant * each, each, 0, shape->num_participants,
                    f, data);
}

/* ---- each a slice, which goes around ------------------------------------- */

/* In phase k > 0 each participant takes from the one before it what that got in
 * phase k - 1: slice p - k of participant p. */
static void
reduce_around(const RtCollShape *shape, int participant, int phase,
              RtCollStepFunction *f, void *data)
{
    Walk w = {shape, f, data};
    int n = shape->num_participants;
    int slice = (participant - phase + n) % n;
    RtCollStep step = {.kind = phase == 0 ? STEP_COMBINE : STEP_COPY,
                       .from = phase == 0 ? 0 : (participant - 1 + n) % n,
                       .first_receiver = participant,
                       .num_receivers = 1};
    for (int i = 0; i < shape->num_operands; i++) {
        step.operand = i;
        step.begin = slice_begin(shape->counts[i], n, slice);
        step.end = slice_begin(shape->counts[i], n, slice + 1);
        take(&w, step);
    }
}

/* ---- the root everything, for all --------------------------------------- */

static void
reduce_to_one(const RtCollShape *shape, int participant, int phase,
              RtCollStepFunction *f, void *data)
{
    Walk w = {shape, f, data};
    (void)phase;
    for (int i = 0; i < shape->num_operands && participant == shape->root; i++)
        take(&w, (RtCollStep){STEP_COMBINE, i, 0, shape->counts[i], 0, 0,
                              shape->num_participants});
}

static void
gather_by_one(const RtCollShape *shape, int participant, int phase,
              RtCollStepFunction *f, void *data)
{
    (void)phase;
    if (participant == shape->root)
        gather_replicas(shape, 0, shape->num_replicas, 0,
                        shape->num_participants, f, data);
}

/* ---- by packs, in two halves --------------------------------------------- */

static int64_t
clamp(int64_t x, int64_t most)
{
    return x < 0 ? 0 : x > most ? most : x;
}

static int
num_packs(const RtCollShape *shape)
{
    return shape->packs ? shape->packs : shape->num_operands;
}

/* Whole steps, so that ranges begin where kernels can. */
static int64_t
round_down(int64_t at, int64_t count)
{
    return at < count ? at / COLL_SLICE_STEP * COLL_SLICE_STEP : count;
}

static void
take_range(const Walk *w, RtCollStep step, int operand, int64_t begin,
           int64_t end)
{
    int64_t count = w->shape->counts[operand];
    step.operand = operand;
    step.begin = round_down(clamp(begin, count), count);
    step.end = round_down(clamp(end, count), count);
    take(w, step);
}

/* Takes the step for the ranges of operands in a pack: packs have equally many
 * elements, except the last, which has the remainder. */
static void
walk_pack(const Walk *w, RtCollStep step, int pack)
{
    const RtCollShape *shape = w->shape;
    int64_t total = 0, before = 0;
    if (shape->packs == 0) {
        take_range(w, step, pack, 0, shape->counts[pack]);
        return;
    }
    for (int i = 0; i < shape->num_operands; i++)
        total += shape->counts[i];
    int64_t size = total / shape->packs, from = size * pack;
    int64_t to = pack + 1 < shape->packs ? from + size : total;
    for (int i = 0; i < shape->num_operands; before += shape->counts[i++])
        take_range(w, step, i, from - before, to - before);
}

/* Pack k is combined by participant k mod n for its own half, and copied to the
 * other half by that half's participant with the same place in it. */
static void
reduce_halves(const RtCollShape *shape, int participant, int phase,
              RtCollStepFunction *f, void *data)
{
    Walk w = {shape, f, data};
    int n = shape->num_participants, half = n / 2;
    int source = phase == 0 ? participant : (participant + half) % n;
    RtCollStep step = {.kind = phase == 0 ? STEP_COMBINE : STEP_COPY,
                       .from = phase == 0 ? 0 : source,
                       .first_receiver = participant < half ? 0 : half,
                       .num_receivers = half};
    for (int k = source; k < num_packs(shape); k += n)
        walk_pack(&w, step, k);
}

/* ---- the table ----------------------------------------------------------- */

static const RtAlgorithm algorithms[NUM_COLL_ALGORITHMS] = {
    [COLL_REPLICATED] = {IR_COLL_REPLICATED, 1, true, reduce_replicated,
                         gather_replicated},
    [COLL_TWO_PHASE] = {IR_COLL_TWO_PHASE, 1, false, reduce_slices, gather_own},
    [COLL_RING] = {IR_COLL_RING, 0, false, reduce_around, NULL},
    [COLL_REDUCE_TO_ONE] = {IR_COLL_REDUCE_TO_ONE, 1, false, reduce_to_one,
                            gather_by_one},
    [COLL_HIERARCHICAL] = {IR_COLL_HALVES, 2, false, reduce_halves, NULL},
};

const RtAlgorithm *
rt_reduce_algorithm(RtCollAlgorithm asked, const RtCollShape *shape,
                    size_t operand_bytes)
{
    if (asked == COLL_AUTO)
        asked = operand_bytes <= IR_COLL_REPLICATED_BYTES ? COLL_REPLICATED
                                                          : COLL_TWO_PHASE;
    if (asked == COLL_LIBRARY)
        asked = COLL_TWO_PHASE;
    if (asked == COLL_HIERARCHICAL && shape->num_participants % 2)
        asked = COLL_TWO_PHASE;
    return &algorithms[asked];
}

int
rt_algorithm_phases(const RtAlgorithm *a, const RtCollShape *shape)
{
    return a->num_phases ? a->num_phases : shape->num_participants;
}

const RtAlgorithm *
rt_gather_algorithm(RtCollAlgorithm asked)
{
    const RtAlgorithm *found =
        &algorithms[asked == COLL_AUTO || asked == COLL_LIBRARY ? COLL_TWO_PHASE
                                                                : asked];
    assert(found->all_gather);
    return found;
}

static bool
receives(const RtCollStep *step, int participant)
{
    return participant >= step->first_receiver &&
           participant < step->first_receiver + step->num_receivers;
}

int
rt_step_moves(const RtCollShape *shape, int participant, const RtCollStep *step)
{
    int each = shape->num_replicas / shape->num_participants;
    switch (step->kind) {
    case STEP_COMBINE:
        return shape->num_replicas - each + step->num_receivers -
               receives(step, participant);
    case STEP_COPY:
        return step->num_receivers - receives(step, step->from);
    case STEP_GATHER:
        return step->num_receivers - receives(step, step->from / each);
    }
    UNREACHABLE("a step of kind %d", step->kind);
}

Status
rt_reduce_check(RtCollAlgorithm asked, int num_replicas)
{
    if (asked == COLL_HIERARCHICAL && num_replicas % 2)
        return status_new(STATUS_INPUT, "%d replicas have no two halves",
                          num_replicas);
    return OK;
}
