/*
 * checkpoint.c - a run that may be killed at any moment (D11)
 *
 * At a safepoint no program runs (what is copied ahead is not saved), and all
 * values that main may read again are in memory: values in its frame and rows
 * on the devices, variables (ir/analysis/live.h), the sizes of batches,
 * the iterators.  These are copied, and main continues while a thread writes
 * the copy.  A resumed run restores all of them, and main is entered at the
 * same safepoint (TfdCall.resume).
 *
 * Files that the program itself writes are complete at any time, except that of
 * summaries, which grows: it is cut back to its length at the checkpoint.
 */
#include "runtime/exec/checkpoint.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "ir/analysis/footprint.h"
#include "ir/analysis/hooks.h"
#include "ir/analysis/live.h"
#include "ir/base/clock.h"
#include "ir/base/minmax.h"
#include "ir/evaluation.h"
#include "ir/ir.h"
#include "ir/type_bounds.h"
#include "runtime/exec/output.h"
#include "runtime/exec/params.h"
#include "runtime/exec/end.h"
#include "runtime/exec/run_state.h"

enum {
    BLOCK_BYTES = 64 << 10,
    FEW_BYTES = 4 << 10, /* more than params and sizes of batches take */
    AT_BEGINNING = -1
};

/* ---- safepoints --------------------------------------------------------- */

/* Of values at a safepoint. */
static int64_t
value_bytes(const RtRun *run, const IrSafepoint *s)
{
    return ir_extents_bytes(&s->frame) + ir_extents_bytes(&s->central) +
           ir_extents_bytes(&s->shared) +
           run->num_replicas * ir_extents_bytes(&s->own);
}

/* About what a checkpoint has beside values. */
static int64_t
other_bytes(const RtRun *run)
{
    const IrModule *m = run->module;
    int64_t bytes = FEW_BYTES * (1 + run->num_replicas) +
                    (int64_t)sizeof(Scalar) * m->params.len;
    for (int i = 0; i < m->iters.len; i++)
        bytes += ir_iter_bytes(m, m->iters.data[i]);
    for (int i = 0; i < m->params.len; i++)
        if (m->params.data[i]->text)
            bytes += (int64_t)strlen(m->params.data[i]->text);
    for (int i = 0; i < run->options->num_sets; i++)
        bytes += (int64_t)strlen(run->options->sets[i].value);
    return bytes;
}

void
rt_list_safepoints(RtRun *run, IrFunc *main)
{
    RtResume *r = &run->resume;
    IrHooks hooks = ir_hooks(run->arena, main);
    r->num_safepoints = hooks.safepoints.len;
    r->safepoints =
        NEW_ARRAY(run->arena, IrSafepoint, (size_t)r->num_safepoints);
    for (int i = 0; i < r->num_safepoints; i++) {
        r->safepoints[i] =
            ir_safepoint(run->module, main, hooks.safepoints.data[i]);
        r->bytes = max_i64(r->bytes, value_bytes(run, &r->safepoints[i]));
    }
    r->bytes += other_bytes(run);
}

/* ---- devices ------------------------------------------------------------ */

/* For the watchdog: a block was copied from or to a device. */
static void
note_progress(RtRun *run)
{
    atomic_fetch_add_explicit(&run->main.num_ops, 1, memory_order_relaxed);
}

/* A checkpoint knows replicas, not devices or processes: it can be resumed on
 * any number of them.  Shared values are saved once, from the first device. */
static void
shared_archive(RtRun *run, const IrExtent *e, RtArchive *ar)
{
    char block[BLOCK_BYTES];
    int each = run->replicas_each;
    for (int64_t at = e->begin; at < e->end && !ar->wrong; at += BLOCK_BYTES) {
        int64_t rest = e->end - at;
        size_t n = rest < BLOCK_BYTES ? (size_t)rest : BLOCK_BYTES;
        if (!ar->reads)
            rt_copy_out(block, rt_ptr_add(run->locals[0].shared, (size_t)at),
                        n);
        note_progress(run);
        rt_archive_bytes(ar, block, n);
        for (int i = 0; ar->reads && !ar->wrong && i < run->num_devices; i++)
            rt_copy_in(rt_ptr_add(run->locals[i * each].shared, (size_t)at),
                       block, n);
    }
}

static void
own_archive(RtRun *run, const IrExtent *e, int replica, RtArchive *ar)
{
    char block[BLOCK_BYTES];
    bool is_here = rt_is_local(run, replica);
    RtDevicePtr base = run->replicas[replica].base;
    assert(is_here || ar->reads);
    for (int64_t at = e->begin; at < e->end && !ar->wrong; at += BLOCK_BYTES) {
        int64_t rest = e->end - at;
        size_t n = rest < BLOCK_BYTES ? (size_t)rest : BLOCK_BYTES;
        if (!ar->reads)
            rt_copy_out(block, rt_ptr_add(base, (size_t)at), n);
        note_progress(run);
        rt_archive_bytes(ar, block, n);
        if (ar->reads && !ar->wrong && is_here)
            rt_copy_in(rt_ptr_add(base, (size_t)at), block, n);
    }
}

static void
own_values_archive(RtRun *run, const IrSafepoint *p, int first, int num,
                   RtArchive *ar)
{
    for (int r = first; r < first + num; r++)
        for (int i = 0; i < p->own.len; i++)
            own_archive(run, &p->own.data[i], r, ar);
}

/* Variables of central storage, which their home alone has. */
static void
central_archive(RtRun *run, const IrSafepoint *p, RtArchive *ar)
{
    for (int i = 0; i < p->central.len; i++)
        own_archive(run, &p->central.data[i], run->module->home, ar);
}

/* ---- parts of processes ------------------------------------------------- */

/* What the chief lacks comes from the other processes of the job: variables of
 * central storage, the values of their replicas, then, iterator by iterator,
 * the states of the workers that are not open in the chief.  Each is sent by
 * the process with the worker's first replica. */
static bool
sends_worker(const RtRun *run, int rank, int worker)
{
    int each = run->num_replicas / run->module->num_workers;
    return rank > 0 && rt_rank_of(run, worker * each) == rank;
}

static bool
sends_home(const RtRun *run, const IrSafepoint *p, int rank)
{
    return rank > 0 && p->central.len &&
           rt_rank_of(run, run->module->home) == rank;
}

static bool
lacks_parts(const RtRun *run, const IrSafepoint *p)
{
    const IrModule *m = run->module;
    int last = run->num_replicas - run->num_replicas / m->num_workers;
    bool lacks_workers = m->iters.len && rt_rank_of(run, last) > 0;
    bool lacks_home = sends_home(run, p, rt_rank_of(run, m->home));
    return run->size > 1 && (p->own.len || lacks_workers || lacks_home);
}

static Status
add_workers(RtRun *run, RtIter *it, RtArchive *part)
{
    for (int w = 0; w < run->module->num_workers; w++) {
        if (!sends_worker(run, run->rank, w))
            continue;
        size_t begin = rt_archive_begin_part(part);
        TRY(rt_iter_archive_worker(it, w, part));
        rt_archive_end_part(part, begin);
    }
    return OK;
}

static Status
make_part(RtRun *run, const IrSafepoint *p, RtArchive *part)
{
    rt_archive_clear(part);
    if (sends_home(run, p, run->rank))
        central_archive(run, p, part);
    own_values_archive(run, p, run->first_local, run->num_local, part);
    for (int i = 0; i < run->module->iters.len; i++)
        if (run->iterators[i].iter)
            TRY(add_workers(run, run->iterators[i].iter, part));
    return OK;
}

static void
take_part(void *data, int rank, const void *bytes, size_t n)
{
    RtParts *parts = data;
    parts->readers[rank].at = parts->bytes.len;
    rt_archive_bytes(&parts->bytes, (void *)bytes, n);
    parts->readers[rank].len = parts->bytes.len;
}

/* To the chief; each process calls it. */
static Status
gather_parts(RtRun *run, const IrSafepoint *p)
{
    RtParts *parts = &run->resume.parts;
    TRY(make_part(run, p, &parts->own));
    rt_archive_clear(&parts->bytes);
    TRY(rt_gather(run, parts->own.data, parts->own.len, take_part, parts));
    for (int r = 0; r < run->size; r++) {
        size_t at = parts->readers[r].at, len = parts->readers[r].len;
        parts->readers[r] =
            rt_archive_reader(run->arena, parts->bytes.data, len);
        parts->readers[r].at = at;
    }
    return OK;
}

static const RtWorkerState *
other_workers(RtRun *run)
{
    RtParts *parts = &run->resume.parts;
    for (int w = 0; parts->workers && w < run->module->num_workers; w++)
        for (int rank = 1; rank < run->size; rank++) {
            RtArchive *from = &parts->readers[rank];
            if (!sends_worker(run, rank, w))
                continue;
            size_t end = rt_archive_begin_part(from);
            parts->workers[w] =
                (RtWorkerState){from->data + from->at, end - from->at};
            from->at = end;
        }
    return parts->workers;
}

/* What every replica has for itself: a process reads its own, but all are in
 * the bytes. */
static void
replicas_archive(RtRun *run, const IrSafepoint *p, RtArchive *ar)
{
    RtParts *parts = &run->resume.parts;
    size_t each = (size_t)(ir_extents_bytes(&p->own) * run->num_local);
    if (ar->reads || !lacks_parts(run, p)) {
        own_values_archive(run, p, 0, run->num_replicas, ar);
        return;
    }
    for (int r = 0; r < run->size; r++) {
        RtArchive *from = &parts->readers[r];
        assert(each <= from->len - from->at);
        rt_archive_bytes(ar, from->data + from->at, each);
        from->at += each;
    }
}

/* Every process finds all of it in the bytes; the chief writes what the home's
 * process has sent. */
static void
home_archive(RtRun *run, const IrSafepoint *p, RtArchive *ar)
{
    int rank = rt_rank_of(run, run->module->home);
    size_t n = (size_t)ir_extents_bytes(&p->central);
    if (ar->reads || !sends_home(run, p, rank)) {
        central_archive(run, p, ar);
        return;
    }
    RtArchive *from = &run->resume.parts.readers[rank];
    assert(n <= from->len - from->at);
    rt_archive_bytes(ar, from->data + from->at, n);
    from->at += n;
}

static void
places_archive(RtRun *run, char *frame, const IrSafepoint *p, RtArchive *ar)
{
    for (int i = 0; i < p->frame.len; i++) {
        const IrExtent *e = &p->frame.data[i];
        rt_archive_bytes(ar, frame + e->begin, (size_t)(e->end - e->begin));
    }
    for (int i = 0; i < p->shared.len; i++)
        shared_archive(run, &p->shared.data[i], ar);
    home_archive(run, p, ar);
}

/* ---- main --------------------------------------------------------------- */

/* The sizes of batches. */
static void
batches_archive(const IrModule *m, RtExecutor *executor, RtArchive *ar)
{
    for (int i = 0; i < m->symbols.len; i++)
        rt_archive_i64(ar, &executor->dims[ir_symbol_word(m, i)], 0,
                       m->symbols.data[i].bound);
    for (int i = 0; i < ir_num_pairs(m); i++)
        rt_archive_position(ar, &executor->batches[i].row_start);
}

/* now() continues from its saved value: time without a process does not count.
 */
static void
clock_archive(RtRun *run, RtArchive *ar)
{
    double now = clock_seconds() + run->now_offset;
    rt_archive_bytes(ar, &now, sizeof now);
    if (ar->reads)
        run->now_offset = now - clock_seconds();
}

/* A coordinator has not opened what only workers take elements of. */
static Status
iterators_archive(RtRun *run, RtArchive *ar)
{
    for (int i = 0; i < run->module->iters.len && !ar->wrong; i++)
        if (run->iterators[i].iter)
            TRY(rt_iter_archive(run->iterators[i].iter, ar,
                                ar->reads ? NULL : other_workers(run)));
    return OK;
}

/* Where servers and workers have the rest of the state, it is resumed with such
 * ones. */
static void
coordinator_archive(RtRun *run, RtArchive *ar)
{
    const RtCoordinatorState *c = run->resume.coordinator;
    bool has_tasks = c != NULL;
    rt_archive_bool(ar, &has_tasks);
    if (has_tasks && !c)
        rt_archive_fail(ar, "it is of a job with servers and workers: resume "
                            "it with -n workers=W,ps=P");
    else if (!has_tasks && c)
        rt_archive_fail(ar, "it is of a run in one process: resume it without "
                            "servers and workers");
    else if (c)
        c->archive(run, ar);
}

/* Where main is, and the sizes of batches there; of none before its first step.
 */
static void
place_archive(RtRun *run, int64_t *safepoint, RtArchive *ar)
{
    rt_archive_position(ar, &run->stats.steps);
    rt_archive_i64(ar, safepoint, AT_BEGINNING, run->resume.num_safepoints - 1);
    clock_archive(run, ar);
    if (*safepoint == AT_BEGINNING)
        return;
    batches_archive(run->module, &run->main, ar);
    for (int r = 0; r < run->num_replicas; r++)
        batches_archive(run->module, &run->replicas[r], ar);
}

static Status
main_archive(RtRun *run, RtInvocation *main, int64_t *safepoint, RtArchive *ar)
{
    place_archive(run, safepoint, ar);
    if (*safepoint == AT_BEGINNING || ar->wrong)
        return rt_archive_end(ar);
    const IrSafepoint *p = &run->resume.safepoints[*safepoint];
    places_archive(run, main->call.base, p, ar);
    replicas_archive(run, p, ar);
    coordinator_archive(run, ar);
    TRY(iterators_archive(run, ar));
    return rt_archive_end(ar);
}

/* ---- summaries ---------------------------------------------------------- */

static void
events_archive(RtRun *run, RtArchive *ar)
{
    RtResume *r = &run->resume;
    if (!ar->reads) {
        r->events_name = run->events ? rt_events_name(run->events) : "";
        r->events_bytes = run->events ? rt_events_bytes(run->events) : 0;
    }
    rt_archive_text(ar, &r->events_name);
    rt_archive_i64(ar, &r->events_bytes, 0, INT64_MAX);
    if (strchr(r->events_name, '/'))
        rt_archive_fail(ar, "\"%s\" is no name of a file", r->events_name);
    if (*r->events_name && !rt_events_is_name(r->events_name))
        rt_archive_fail(ar, "\"%s\" is no name of a file of events",
                        r->events_name);
}

/* Of the tasks of a job the coordinator alone has a main. */
static bool
calls_main(const RtRun *run)
{
    const RtTaskOptions *task = run->options->task;
    return !task || task->role == RT_ROLE_alone ||
           task->role == RT_ROLE_coordinator;
}

/* Steps and main have summaries, closures have none. */
static bool
has_events(const RtRun *run)
{
    return rt_is_chief(run) && (calls_main(run) || run->evaluator) &&
           ir_has_summary(run->module, run->evaluator != NULL);
}

/* Beside the coordinator's. */
static const char *
events_folder(const RtRun *run)
{
    const char *folder = run->options->log_dir;
    return run->evaluator ? arena_printf(run->arena, "%s/evaluator", folder)
                          : folder;
}

/* The file may have been moved away since: then a new one begins. */
static Status
continue_events(RtRun *run)
{
    const RtResume *r = &run->resume;
    const char *folder = run->options->log_dir;
    Status st = rt_events_continue(folder, r->events_name, r->events_bytes,
                                   &run->events);
    if (!st || status_kind(st) != STATUS_INPUT)
        return st;
    fprintf(run->options->err, "%s; a new file begins here\n",
            status_message(st));
    status_free(st);
    return rt_events_open(folder, &run->events);
}

/* Whoever forgets the option has a gap in the curves that nothing fills. */
static void
note_end_of_events(const RtRun *run)
{
    const RtOptions *o = run->options;
    if (*run->resume.events_name && !o->quiet && has_events(run))
        fprintf(o->err,
                "\"%s\" ends here: the run was begun with --log-dir, and "
                "without it summaries are not kept\n",
                run->resume.events_name);
}

Status
rt_open_events(RtRun *run)
{
    const RtOptions *o = run->options;
    RtResume *r = &run->resume;
    if (r->is_resuming) {
        events_archive(run, &r->read);
        if (r->read.wrong)
            return rt_archive_end(&r->read);
    }
    if (!o->log_dir && r->is_resuming)
        note_end_of_events(run);
    if (!o->log_dir || o->load_only || !has_events(run))
        return OK;
    return r->is_resuming && *r->events_name
               ? continue_events(run)
               : rt_events_open(events_folder(run), &run->events);
}

/* ---- beginning ---------------------------------------------------------- */

static void
note_newest(const RtRun *run, const RtCheckpoint *c)
{
    const RtOptions *o = run->options;
    if (o->quiet)
        return;
    if (c->state)
        fprintf(o->err, "resuming after step %lld, from \"%s\"\n",
                (long long)c->step, c->path);
    else
        fprintf(o->err, "no checkpoint in \"%s\": beginning at the beginning\n",
                o->checkpoint_dir);
}

/* The chief reads it, and gives it to the other processes, whose machines need
 * not reach the file. */
static Status
read_newest(RtRun *run)
{
    RtResume *r = &run->resume;
    RtCheckpoint c = {.state = NULL};
    r->arena = arena_new(NULL, "the checkpoint to resume from");
    if (rt_is_chief(run)) {
        TRY(rt_checkpoints_newest(r->folder, r->arena, run->options->err, &c));
        note_newest(run, &c);
    }
    int64_t len = c.state ? (int64_t)c.len : -1;
    TRY(rt_broadcast(run, 0, &len, sizeof len));
    r->is_resuming = len >= 0;
    if (!r->is_resuming)
        return OK;
    char *state = rt_is_chief(run) ? (char *)c.state
                                   : arena_alloc(r->arena, (size_t)len + 1);
    TRY(rt_broadcast(run, 0, state, (size_t)len));
    r->read = rt_archive_reader(r->arena, state, (size_t)len);
    return OK;
}

/* No plan says how large a coordinator's state is: it has iterators of each of
 * its workers, and a record of each pass over files that were dealt to them. */
static int64_t
most_bytes(const RtRun *run)
{
    bool has_workers = run->resume.coordinator || run->evaluator;
    return has_workers ? INT64_MAX : run->resume.bytes;
}

/* A state begins with them. */
static Status
read_told_params(RtRun *run)
{
    RtResume *r = &run->resume;
    RtCheckpoint c = {.state = NULL};
    r->arena = arena_new(NULL, "the checkpoint of a job that has ended");
    TRY(rt_checkpoints_newest(r->folder, r->arena, run->options->err, &c));
    if (c.state)
        run->told_params = rt_archive_reader(r->arena, c.state, c.len);
    return OK;
}

Status
rt_open_checkpoints(RtRun *run)
{
    RtResume *r = &run->resume;
    const RtOptions *o = run->options;
    RtOwner owner = {run->plan->hash, (uint32_t)run->num_replicas,
                     (size_t)most_bytes(run)};
    r->is_on = o->checkpoint_dir && calls_main(run);
    if (run->evaluator) {
        r->folder = rt_checkpoints_follow(o->checkpoint_dir, &owner);
        if (!run->told_params.len)
            return read_told_params(run);
    }
    if (!r->is_on)
        return OK;
    if (rt_is_chief(run))
        TRY(rt_checkpoints_open(o->checkpoint_dir, &owner, &r->folder));
    if (o->resume)
        return read_newest(run);
    return r->folder ? rt_checkpoints_expect_none(r->folder) : OK;
}

/* ---- writing ------------------------------------------------------------ */

/* A disk may take longer than the timeout of other operations. */
static Status
wait_for_disk(RtRun *run)
{
    if (!run->resume.folder)
        return OK;
    rt_watchdog_suspend(run);
    Status st = rt_checkpoints_wait(run->resume.folder);
    rt_watchdog_resume(run);
    return st;
}

static Status
write_checkpoint(RtInvocation *main, int64_t safepoint)
{
    RtRun *run = main->executor->run;
    RtResume *r = &run->resume;
    r->step = run->stats.steps;
    if (safepoint != AT_BEGINNING && r->coordinator)
        TRY(r->coordinator->collect(main, &r->safepoints[safepoint]));
    if (safepoint != AT_BEGINNING &&
        lacks_parts(run, &r->safepoints[safepoint]))
        TRY(gather_parts(run, &r->safepoints[safepoint]));
    if (!rt_is_chief(run))
        return OK;
    TRY(wait_for_disk(run));
    rt_archive_clear(&r->written);
    rt_params_archive(run, &r->written);
    events_archive(run, &r->written);
    TRY(main_archive(run, main, &safepoint, &r->written));
    TRY(rt_devices_status(run));
    if (rt_is_stopped(run)) /* by then prefetched steps may be cancelled */
        return rt_data_stopped();
    rt_checkpoints_write(r->folder, run->stats.steps, &r->written, run->events);
    return OK;
}

/* Even a run without steps has begun: with its params, and with a file of
 * summaries that a resumed run must not begin again. */
static Status
begin(RtRun *run, RtInvocation *main)
{
    TRY(write_checkpoint(main, AT_BEGINNING));
    return wait_for_disk(run);
}

/* ---- variables of another run -------------------------------------------- */

static void
skip_extents(const IrExtents *list, RtArchive *ar)
{
    rt_archive_place(ar, (size_t)ir_extents_bytes(list));
}

/* Those of an extent that are variables, to where `base` has them. */
static void
take_variables(RtRun *run, IrSafepoint *s, const IrExtents *of,
               const IrExtent *e, const char *bytes, RtDevicePtr base)
{
    for (int i = 0; i < run->module->vars.len; i++) {
        int64_t n;
        const IrVar *v = run->module->vars.data[i];
        int64_t at = v->place.offset;
        if (ir_extents_of(s, v) == of && at >= e->begin && at < e->end &&
            ir_type_bytes(run->module, &v->type, &n))
            rt_copy_in(rt_ptr_add(base, (size_t)at), bytes + (at - e->begin),
                       (size_t)n);
    }
}

/* num bases, every one of which gets what is there once. */
static void
take_extents(RtRun *run, IrSafepoint *s, const IrExtents *of,
             const RtDevicePtr *bases, int num, RtArchive *ar)
{
    for (int i = 0; i < of->len; i++) {
        const IrExtent *e = &of->data[i];
        char *bytes = rt_archive_place(ar, (size_t)(e->end - e->begin));
        for (int k = 0; bytes && k < num; k++)
            take_variables(run, s, of, e, bytes, bases[k]);
        note_progress(run);
    }
}

static void
take_all_variables(RtRun *run, IrSafepoint *s, Arena *scratch, RtArchive *ar)
{
    RtDevicePtr *shared =
        NEW_ARRAY(scratch, RtDevicePtr, (size_t)run->num_devices);
    for (int i = 0; i < run->num_devices; i++)
        shared[i] = run->locals[i * run->replicas_each].shared;
    skip_extents(&s->frame, ar);
    take_extents(run, s, &s->shared, shared, run->num_devices, ar);
    take_extents(run, s, &s->central, &run->replicas[run->module->home].base, 1,
                 ar);
    for (int r = 0; r < run->num_replicas; r++)
        take_extents(run, s, &s->own, &run->replicas[r].base, 1, ar);
}

Status
rt_restore_variables(RtRun *run, const RtCheckpoint *c)
{
    int64_t safepoint = AT_BEGINNING;
    Arena *scratch = arena_new(NULL, "reading a checkpoint");
    RtArchive ar = rt_archive_reader(scratch, c->state, c->len);
    rt_params_archive(run, &ar);
    events_archive(run, &ar);
    run->resume.events_name = "";
    place_archive(run, &safepoint, &ar);
    if (safepoint != AT_BEGINNING && !ar.wrong)
        take_all_variables(run, &run->resume.safepoints[safepoint], scratch,
                           &ar);
    Status st = ar.wrong ? rt_archive_end(&ar) : rt_devices_status(run);
    arena_release(scratch);
    return st;
}

/* ---- going on ------------------------------------------------------------ */

static Status
go_on(RtRun *run, RtInvocation *main)
{
    RtResume *r = &run->resume;
    TRY(status_note(main_archive(run, main, &main->call.resume, &r->read),
                    "resuming from a checkpoint in \"%s\"",
                    run->options->checkpoint_dir));
    if (main->call.resume != AT_BEGINNING && r->coordinator)
        TRY(r->coordinator->distribute(run));
    TRY(rt_devices_status(run));
    run->stats.resumed = r->step = run->stats.steps;
    atomic_store(&run->watchdog.steps, run->stats.steps);
    rt_progress_resume(&run->progress, run->stats.steps);
    arena_release(r->arena);
    r->arena = NULL;
    r->is_resuming = false;
    return OK;
}

static void
prepare_parts(RtRun *run)
{
    RtParts *parts = &run->resume.parts;
    size_t workers = (size_t)run->module->num_workers;
    parts->own = rt_archive_writer(run->arena, 0);
    parts->bytes = rt_archive_writer(run->arena, 0);
    parts->readers = NEW_ARRAY(run->arena, RtArchive, (size_t)run->size);
    if (rt_is_chief(run))
        parts->workers = NEW_ARRAY(run->arena, RtWorkerState, workers);
}

Status
rt_resume(RtRun *run, RtInvocation *main)
{
    RtResume *r = &run->resume;
    if (!r->is_on)
        return OK;
    if (!r->num_safepoints)
        return status_new(STATUS_USAGE,
                          "--checkpoint: main has no loop over a dataset, nor "
                          "one that joins closures, and checkpoints are made "
                          "after iterations of these");
    if (rt_is_chief(run))
        r->written = rt_archive_writer(run->arena, (size_t)r->bytes);
    if (run->size > 1)
        prepare_parts(run);
    if (run->options->load_only && !r->is_resuming)
        return OK;
    return r->is_resuming ? go_on(run, main) : begin(run, main);
}

/* Measures how long main waits for it: the next step waits for the copy, and
 * for the previous checkpoint if that is still being written. */
static void
note_stall(RtRun *run, double begin)
{
    RtStats *s = &run->stats;
    double took = clock_seconds() - begin;
    s->saving += took;
    s->saving_most = fmax(s->saving_most, took);
    s->saved++;
    s->saved_bytes += (int64_t)run->resume.written.len;
}

/* Whether the reader of the output has gone: the run ends, and no output is
 * missing, since there is no reader. */
static bool
has_lost_its_reader(const RtRun *run)
{
    return run->out_error == EPIPE;
}

static bool
is_due(const RtRun *run)
{
    return run->stats.steps % run->options->every == 0 || rt_stops_here(run) ||
           (!run->group && has_lost_its_reader(run));
}

/* Flushes first: a line that a full disk did not take is printed again by the
 * resumed run. */
Status
rt_checkpoint(RtInvocation *main, int32_t safepoint)
{
    RtRun *run = main->executor->run;
    assert(main->executor == &run->main);
    if (!run->resume.is_on || !is_due(run))
        return OK;
    double begin = clock_seconds();
    if (!has_lost_its_reader(run))
        TRY(rt_flush(run));
    rt_note_state(run, RT_JOB_SAVES);
    TRY(write_checkpoint(main, safepoint));
    rt_note_state(run, RT_JOB_RUNS);
    note_stall(run, begin);
    return OK;
}

Status
rt_end_checkpoints(RtRun *run)
{
    if (!run->resume.folder)
        return OK;
    double begin = clock_seconds();
    Status st = wait_for_disk(run);
    run->stats.saving_end = clock_seconds() - begin;
    return st;
}

void
rt_close_checkpoints(RtRun *run)
{
    rt_watchdog_suspend(run);
    rt_checkpoints_close(run->resume.folder);
    rt_watchdog_resume(run);
    if (run->resume.arena)
        arena_release(run->resume.arena);
}
