/*
 * footprint.c - memory that a placed module needs beyond the places in it
 */
#include "ir/analysis/footprint.h"

#include <assert.h>
#include <stdlib.h>
#include "ir/analysis/per_replica.h"

#include "ir/analysis/hooks.h"
#include "ir/base/cache_line.h"
#include "ir/base/minmax.h"
#include "ir/dataset/stage.h"
#include "ir/type_bounds.h"

/* a * b, neither of them negative; IR_MAX_BYTES if the product is larger. */
static int64_t
bytes_times(int64_t a, int64_t b)
{
    int64_t all;
    bool over = __builtin_mul_overflow(a, b, &all);
    return over ? IR_MAX_BYTES : min_i64(all, IR_MAX_BYTES);
}

/* ---- how many elements -------------------------------------------------- */

static int64_t
count_range(const IrStage *s)
{
    int64_t n = 0;
    bool over = __builtin_sub_overflow(s->ints[1], s->ints[0], &n);
    return over ? -1 : n > 0 ? n : 0;
}

/* The number of windows of `size` elements that begin at every stride-th of n.
 */
static int64_t
count_windows(int64_t n, int64_t size, int64_t stride)
{
    return n < size ? 0 : (n - size) / stride + 1;
}

static int64_t
count_repeated(int64_t n, int64_t times)
{
    int64_t all;
    return times < 0 || __builtin_mul_overflow(n, times, &all) ? -1 : all;
}

/* The number of batches of n elements, the last of which may be smaller. */
static int64_t
count_rows(const IrModule *m, const IrStage *of, int64_t n)
{
    int64_t all, each = ir_dim_full(m, of->types.data[0].dims[0]).c;
    return __builtin_mul_overflow(n, each, &all) ? -1 : all;
}

/* The number of a stage's input of which one is kept: one of workers, whose
 * number is not known here, keeps all at most. */
static int64_t
num_shards(const IrStage *s)
{
    return s->ints[0] > 0 ? s->ints[0] : 1;
}

/* Elements after a stage whose input, the stage before it, has a known number
 * n. */
static int64_t
count_after(const IrModule *m, const IrStage *s, int64_t n)
{
    switch ((StageKind)s->kind) {
    case STAGE_batch:
        return n / s->ints[0] + (!s->ints[1] && n % s->ints[0]);
    case STAGE_window:
        return count_windows(n, s->ints[0], s->ints[1]);
    case STAGE_unbatch:
        return count_rows(m, s - 1, n);
    case STAGE_lanes:
        return n / s->ints[0];
    case STAGE_repeat:
        return count_repeated(n, s->ints[0]);
    case STAGE_skip:
        return n > s->ints[0] ? n - s->ints[0] : 0;
    case STAGE_shard:
        return n > s->ints[1] ? (n - s->ints[1] - 1) / num_shards(s) + 1 : 0;
    default:
        return n;
    }
}

/* Elements after a stage that zips or concatenates n with another dataset's. */
static int64_t
count_joined(const IrModule *m, const IrStage *s, int64_t n)
{
    const IrDataset *other = ir_dataset_find(m, s->other);
    int64_t all, k = ir_stage_count(m, other, other->stages.len - 1);
    if (s->kind == STAGE_zip)
        return k < 0 ? n : n < 0 ? k : min_i64(n, k);
    return k < 0 || n < 0 || __builtin_add_overflow(n, k, &all) ? -1 : all;
}

int64_t
ir_stage_count(const IrModule *m, const IrDataset *d, int stage)
{
    assert(stage >= 0 && stage < d->stages.len);
    const IrStage *s = &d->stages.data[stage];
    if (s->kind == STAGE_range)
        return count_range(s);
    if (s->kind == STAGE_tensors)
        return s->ints[0];
    if (ir_stage_info[s->kind].is_source)
        return -1;
    int64_t n = ir_stage_count(m, d, stage - 1);
    if (ir_stage_info[s->kind].has_other)
        return count_joined(m, s, n);
    if (s->kind == STAGE_take)
        return n < 0 ? s->ints[0] : min_i64(n, s->ints[0]);
    return n < 0 ? -1 : count_after(m, s, n);
}

/* ---- how many are made ahead -------------------------------------------- */

/* n elements of a stage's input as elements after it, the last of which may be
 * incomplete. */
static int64_t
ahead_after(const IrModule *m, const IrStage *s, int64_t n)
{
    int64_t rows, each = 1;
    switch ((StageKind)s->kind) {
    case STAGE_batch:
    case STAGE_lanes:
        each = s->ints[0];
        break;
    case STAGE_shard:
        each = num_shards(s);
        break;
    case STAGE_window:
        each = s->ints[1];
        break;
    case STAGE_unbatch:
        rows = count_rows(m, s - 1, n);
        return rows < 0 ? IR_MAX_PREFETCH : min_i64(rows, IR_MAX_PREFETCH);
    default:
        break;
    }
    return n / each + (n % each > 0);
}

/* The greatest prefetch of d and the datasets that it reads, in elements of d;
 * -1 if there is none. */
static int64_t
dataset_ahead(const IrModule *m, const IrDataset *d)
{
    int64_t ahead = -1;
    for (int i = 0; i < d->stages.len; i++) {
        const IrStage *s = &d->stages.data[i];
        if (ahead > 0)
            ahead = ahead_after(m, s, ahead);
        if (s->other)
            ahead =
                max_i64(ahead, dataset_ahead(m, ir_dataset_find(m, s->other)));
        if (s->kind == STAGE_prefetch)
            ahead = max_i64(ahead, s->ints[0]);
    }
    return ahead;
}

int64_t
ir_iter_ahead(const IrModule *m, const IrIter *it)
{
    int64_t ahead = -1;
    for (int i = 0; i < it->datasets.len; i++)
        ahead = max_i64(
            ahead, dataset_ahead(m, ir_dataset_find(m, it->datasets.data[i])));
    ahead = ahead < 0 ? USUAL_STEPS_AHEAD : ahead;
    return it->buffer > 1 ? max_i64(ahead, it->buffer) : ahead;
}

int64_t
ir_iter_fetched(const IrIter *it)
{
    return it->on_host ? 0 : it->buffer;
}

int64_t
ir_iter_steps(const IrModule *m, const IrIter *it)
{
    return 1 + max_i64(ir_iter_ahead(m, it), 1);
}

/* ---- how large they are ------------------------------------------------- */

/* Bytes of one element after a stage, batches at their bounds. */
static int64_t
element_bytes(const IrModule *m, const IrStage *s)
{
    int64_t sum = 0, bytes;
    for (int i = 0; i < s->types.len; i++)
        if (ir_type_bytes(m, &s->types.data[i], &bytes))
            sum += bytes;
    return sum;
}

static int64_t
round_up(int64_t x, int64_t multiple)
{
    return (x + multiple - 1) / multiple * multiple;
}

/* Components of large elements, and large ones, begin on a cache line, as
 * everything that they are copied to: where the source and the destination of a
 * `rep movsb` differ by 1 to 63 bytes modulo a page, Zen 3 and 4 copy at a
 * tenth of their rate (glibc's bug 30994). */
int64_t
ir_stored_element(const IrModule *m, const IrStage *s, int64_t *offsets)
{
    enum { LARGE = 1024 };
    bool is_large = element_bytes(m, s) >= (int64_t)LARGE * s->types.len;
    int64_t at = (int64_t)sizeof(int64_t), align = 1;
    for (int i = 0; i < s->types.len; i++) {
        int64_t bytes = 0;
        bool is_known = ir_type_bytes(m, &s->types.data[i], &bytes);
        if (is_known && (is_large || bytes >= LARGE)) {
            align = CACHE_LINE;
            at = round_up(at, CACHE_LINE);
        }
        if (offsets)
            offsets[i] = at;
        at += bytes;
    }
    return round_up(at, align);
}

/* Bytes of the elements that a stage stores: all that exist, but at most `most`
 * (-1: no limit). 0 if unknown. */
static int64_t
store_bytes(const IrModule *m, const IrDataset *d, int stage, int64_t most)
{
    const IrStage *s = &d->stages.data[stage];
    int64_t n = ir_stage_count(m, d, stage);
    int64_t held = n < 0 || (most >= 0 && most < n) ? most : n;
    if (held < 0)
        return 0;
    return bytes_times(held, ir_stored_element(m, s, NULL));
}

/* The number of the stage whose elements this one keeps completely; -1: none.
 */
static int
kept_stage(const IrDataset *d, int stage)
{
    StageKind kind = (StageKind)d->stages.data[stage].kind;
    return kind == STAGE_cache ? stage : kind == STAGE_lanes ? stage - 1 : -1;
}

/* Bytes that a stage holds, not counting the element of its input. */
static int64_t
held_bytes(const IrModule *m, const IrDataset *d, int stage)
{
    const IrStage *s = &d->stages.data[stage];
    int kept = kept_stage(d, stage);
    if (kept >= 0)
        return store_bytes(m, d, kept, -1);
    if (s->kind == STAGE_shuffle)
        return store_bytes(m, d, stage, s->ints[0]);
    return s->kind == STAGE_window ? element_bytes(m, s) : 0;
}

bool
ir_stage_is_uncounted(const IrModule *m, const IrDataset *d, int stage)
{
    int kept = kept_stage(d, stage);
    return kept >= 0 && ir_stage_count(m, d, kept) < 0;
}

/* Bytes of a pipeline with the pipelines that it reads, not counting the
 * element of its last stage. */
static int64_t
pipeline_bytes(const IrModule *m, const IrDataset *d)
{
    int64_t sum = 0, element = 0;
    for (int i = 0; i < d->stages.len; i++) {
        const IrStage *s = &d->stages.data[i];
        sum += element + held_bytes(m, d, i);
        if (s->other)
            sum += pipeline_bytes(m, ir_dataset_find(m, s->other));
        element = element_bytes(m, s);
    }
    return sum;
}

static void
list_kept(Arena *a, const IrModule *m, const IrDataset *d,
          IrUncountedStages *to)
{
    for (int i = 0; i < d->stages.len; i++) {
        const IrStage *s = &d->stages.data[i];
        if (s->other)
            list_kept(a, m, ir_dataset_find(m, s->other), to);
        if (!ir_stage_is_uncounted(m, d, i))
            continue;
        const IrStage *of = &d->stages.data[kept_stage(d, i)];
        VEC_PUSH(a, *to,
                 ((IrUncountedStage){s, ir_stored_element(m, of, NULL)}));
    }
}

IrUncountedStages
ir_iter_uncounted_stages(Arena *a, const IrModule *m, const IrIter *it)
{
    IrUncountedStages kept = {0};
    for (int i = 0; i < it->datasets.len; i++)
        list_kept(a, m, ir_dataset_find(m, it->datasets.data[i]), &kept);
    return kept;
}

/* How many pipelines read one of the iterator's datasets. */
static int
pipelines_each(const IrModule *m, const IrIter *it)
{
    return it->whole ? 1 : m->num_workers;
}

/* A batch that is split stays in memory, one for each worker, beside the steps
 * made of it.  When the replicas take whole elements, a step has one for each
 * replica. */
int64_t
ir_iter_bytes(const IrModule *m, const IrIter *it)
{
    int64_t sum = 0, most = 0;
    for (int i = 0; i < it->datasets.len; i++) {
        const IrDataset *d = ir_dataset_find(m, it->datasets.data[i]);
        int64_t element = element_bytes(m, &VEC_LAST(d->stages));
        sum += bytes_times(pipelines_each(m, it), pipeline_bytes(m, d));
        most = max_i64(most, element);
    }
    int64_t steps = ir_iter_steps(m, it);
    int64_t elements =
        it->whole ? m->num_replicas * steps : m->num_workers + steps;
    return sum + bytes_times(elements, most);
}

/* ---- devices ------------------------------------------------------------ */

typedef struct OwnBytes {
    Arena *arena;
    const IrModule *module;
    VEC(int64_t) lines; /* numbers of cache lines: begin, end, begin, ... */
} OwnBytes;

static void
add_own(OwnBytes *o, const IrType *t, IrPlace place)
{
    int64_t bytes;
    if ((place.space != SPACE_ARENA && place.space != SPACE_ROW) ||
        !ir_type_bytes(o->module, t, &bytes))
        return;
    VEC_PUSH(o->arena, o->lines, place.offset);
    VEC_PUSH(o->arena, o->lines, place.offset + ir_align_to_line(bytes));
}

static void
add_own_values(OwnBytes *o, IrValue *const *values, int n)
{
    for (int i = 0; i < n; i++)
        if (!ir_value_is_shared(values[i]))
            add_own(o, &values[i]->type, values[i]->place);
}

static void
add_own_op(IrOp *op, void *data)
{
    add_own_values(data, op->results, op->num_results);
    for (int r = 0; op->kind != OP_kernel && r < op->num_regions; r++)
        add_own_values(data, op->regions[r]->args.data,
                       op->regions[r]->args.len);
}

static int
by_begin(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* Bytes of the variables that only the first replica has. */
static int64_t
central_bytes(const IrModule *m)
{
    int64_t sum = 0, bytes;
    for (int i = 0; i < m->vars.len; i++) {
        const IrType *t = &m->vars.data[i]->type;
        if (t->locality == LOCAL_ON && ir_type_bytes(m, t, &bytes))
            sum += ir_align_to_line(bytes);
    }
    return sum;
}

/* Bytes of the lines together, each counted once. */
static int64_t
union_bytes(const OwnBytes *o)
{
    int64_t sum = 0, end = 0;
    if (o->lines.len)
        qsort(o->lines.data, (size_t)o->lines.len / 2, 2 * sizeof(int64_t),
              by_begin);
    for (int i = 0; i < o->lines.len; i += 2) {
        int64_t from = max_i64(end, o->lines.data[i]);
        end = max_i64(end, o->lines.data[i + 1]);
        sum += end - from > 0 ? end - from : 0;
    }
    return sum;
}

/* The places of a replica's own variables and values. */
static OwnBytes
own_places(Arena *a, const IrModule *m)
{
    OwnBytes o = {.arena = a, .module = m};
    for (int i = 0; i < m->vars.len; i++)
        if (!ir_var_is_shared(m->vars.data[i]))
            add_own(&o, &m->vars.data[i]->type, m->vars.data[i]->place);
    for (IrFunc *fn = m->first; fn; fn = fn->next)
        if (fn->kind == FUNC_PROGRAM || fn->kind == FUNC_MAIN)
            ir_walk(fn->body, add_own_op, &o);
    return o;
}

/* Bytes that each further replica of a device touches: its own places, but not
 * variables of central storage, nor the values that their updates leave there,
 * which are the first replica's. */
static int64_t
own_bytes(Arena *a, const IrModule *m)
{
    OwnBytes o = own_places(a, m);
    return union_bytes(&o) - central_bytes(m);
}

int64_t
ir_first_own_place(Arena *a, const IrModule *m)
{
    OwnBytes o = own_places(a, m);
    int64_t first = INT64_MAX;
    for (int i = 0; i < o.lines.len; i += 2)
        if (o.lines.data[i] < first)
            first = o.lines.data[i];
    return first;
}

int64_t
ir_arenas_bytes(Arena *a, const IrModule *m, int64_t arena, int num_devices)
{
    assert(num_devices > 0 && num_devices <= m->num_replicas);
    int sharing = m->num_replicas - num_devices;
    return num_devices * arena - (num_devices - 1) * central_bytes(m) +
           (sharing ? sharing * own_bytes(a, m) : 0);
}

int64_t
ir_vars_bytes(const IrModule *m, int num_devices)
{
    int64_t sum = 0, bytes;
    for (int i = 0; i < m->vars.len; i++) {
        const IrVar *v = m->vars.data[i];
        int copies = v->type.locality == LOCAL_ON ? 1
                     : ir_var_is_shared(v)        ? num_devices
                                                  : m->num_replicas;
        if (ir_type_bytes(m, &v->type, &bytes))
            sum += bytes_times(copies, bytes);
    }
    return sum;
}

/* ---- what launches need ------------------------------------------------- */

enum { MAX_BITS = 46 }; /* no arena is larger */

typedef struct Rooms {
    Arena *arena;
    const IrModule *module;
    int64_t rows_end; /* where the variables, and the rows seen so far, end */
    IrLaunchFootprints list;
} Rooms;

static void
extend(Rooms *s, const IrType *t, IrPlace place, IrSpace space)
{
    int64_t bytes;
    if (place.space == space && ir_type_bytes(s->module, t, &bytes))
        s->rows_end = max_i64(s->rows_end, place.offset + bytes);
}

static void
extend_by_op(IrOp *op, void *data)
{
    for (int i = 0; i < op->num_results; i++)
        extend(data, &op->results[i]->type, op->results[i]->place, SPACE_ROW);
    for (int r = 0; r < op->num_regions; r++) {
        const IrValues *args = &op->regions[r]->args;
        for (int i = 0; i < args->len; i++)
            extend(data, &args->data[i]->type, args->data[i]->place, SPACE_ROW);
    }
}

static void
list_launch(IrOp *op, void *data)
{
    Rooms *s = data;
    IrLaunchFootprint room = {op, ir_align_to_line(s->rows_end)};
    if (op->kind == OP_launch)
        VEC_PUSH(s->arena, s->list, room);
}

/* A row that is live at a launch is made before it, or within the same
 * operation of main's own block, which may be a loop. */
static void
list_launches(Rooms *s, const IrFunc *main_fn)
{
    for (IrOp *op = main_fn->body->first; op; op = op->next) {
        ir_walk_op(op, extend_by_op, s);
        ir_walk_op(op, list_launch, s);
    }
}

IrLaunchFootprints
ir_launch_footprints(Arena *a, const IrModule *m)
{
    Rooms s = {.arena = a, .module = m};
    for (int i = 0; i < m->vars.len; i++)
        extend(&s, &m->vars.data[i]->type, m->vars.data[i]->place, SPACE_ARENA);
    const IrFunc *fn = ir_main(m);
    if (fn)
        list_launches(&s, fn);
    return s.list;
}

static int64_t
program_end(const IrOp *launch, IrAttrName attr)
{
    const char *name = ir_text(launch, attr);
    const IrFunc *fn = name ? ir_func_find(launch->module, name) : NULL;
    return fn ? fn->arena_bytes : 0;
}

int64_t
ir_launch_stage_operands(const IrLaunchFootprint *r, int64_t *offsets)
{
    assert(r->launch->kind == OP_launch && r->rows_end >= 0);
    const IrOp *op = r->launch;
    int64_t end = max_i64(r->rows_end, max_i64(program_end(op, A_program),
                                               program_end(op, A_full)));
    end = max_i64(end, program_end(op, A_worker));
    for (int i = 0; i < op->num_operands; i++) {
        const IrValue *v = op->operands[i];
        int64_t bytes;
        if (v->place.space != SPACE_FRAME ||
            !ir_type_bytes(op->module, &v->type, &bytes))
            continue;
        int64_t offset = ir_align_to_line(end);
        end = min_i64(offset + bytes, INT64_C(1) << MAX_BITS);
        if (offsets)
            offsets[i] = offset;
    }
    return end;
}
