/*
 * server_updates.c - updates of a server's variables
 */
#include "runtime/ps/server_impl.h"

#include <string.h>
#include "ir/analysis/batch.h"
#include "ir/analysis/hooks.h"
#include "ir/type_bounds.h"
#include "runtime/exec/end.h"
#include "runtime/ps/parts/batches.h"

/* ---- places of arguments ------------------------------------------------- */

static int64_t
bytes_of(const RtRun *run, const IrValue *v)
{
    int64_t bytes = 0;
    if (!ir_type_bytes(run->module, &v->type, &bytes))
        UNREACHABLE("an argument of an update without a size");
    return ir_align_to_line(bytes);
}

static int64_t
bytes_of_update(const RtRun *run, const RtUpdate *u)
{
    int64_t sum = 0;
    for (int i = 0; i < u->fn->ir->body->args.len; i++)
        sum += bytes_of(run, u->fn->ir->body->args.data[i]);
    return sum;
}

int64_t
rt_update_bytes(const RtRun *run, const RtPlacement *p)
{
    int64_t most = 0;
    for (int i = 0; i < p->updates.len; i++) {
        const RtUpdate *u = &p->updates.data[i];
        int64_t bytes = u->is_set ? 0 : bytes_of_update(run, u);
        most = bytes > most ? bytes : most;
    }
    return most;
}

void
rt_server_init_apply(RtServer *s, RtApply *a, const RtUpdate *u)
{
    RtRun *run = s->with.run;
    RtExecutor *replica = &run->locals[0];
    const IrBlock *body = u->fn->ir->body;
    size_t n = (size_t)body->args.len;
    int64_t at = s->with.staging;
    a->in = NEW_ARRAY(s->arena, RtDevicePtr, n);
    a->values = NEW_ARRAY(s->arena, RtValue, n);
    for (size_t i = 0; i < n; i++) {
        a->values[i] = rt_value_of(run->module, body->args.data[i]);
        a->in[i] = rt_ptr_add(replica->base, (size_t)at);
        at += bytes_of(run, body->args.data[i]);
    }
    rt_program_invocation_init(&a->inv, u->fn, replica, a->in, NULL,
                               replica->dims);
}

/* ---- updates ------------------------------------------------------------ */

static void
count_argument(RtServer *s, const RtApply *a, int i, size_t n)
{
    const IrFunc *fn = a->inv.fn->ir;
    int64_t entries = 0;
    if (fn->row_ids < 0) {
        rt_ps_count_traffic(&s->traffic, RT_TRAFFIC_pushed_parts, n, i == 0);
        return;
    }
    if (i == fn->row_ids)
        entries = rt_value_count(&a->values[i], s->with.run->locals[0].dims);
    rt_ps_count_traffic(&s->traffic, RT_TRAFFIC_pushed_rows, n, entries);
}

/* Arguments are read behind their lengths; ids of rows that are put together
 * become numbers of these. */
static void
read_arguments(RtServer *s, RtApply *a, const RtPart *part, RtArchive *in)
{
    const RtRun *run = s->with.run;
    const IrFunc *fn = a->inv.fn->ir;
    for (int i = 0; i < a->inv.fn->num_in && !in->wrong; i++) {
        const RtValue *v = &a->values[i];
        size_t n = rt_value_bytes(v, run->locals[0].dims);
        size_t part_begin = rt_archive_begin_part(in);
        char *bytes = rt_archive_place(in, n);
        rt_archive_end_part(in, part_begin);
        if (!bytes || in->wrong)
            continue;
        if (fn->rows_only && i == fn->row_ids)
            a->rows = rt_rows_number(in->arena, bytes, v->dtype,
                                     rt_value_count(v, run->locals[0].dims),
                                     part->rows);
        rt_copy_in(a->in[i], bytes, n);
        count_argument(s, a, i, n);
    }
}

/* In the memory of a slot. */
static void
move_to(RtApply *a, RtDevicePtr slot)
{
    RtExecutor *replica = a->inv.executor;
    replica->base = replica->shared = slot;
    a->inv.call.base = a->inv.call.shared = rt_ptr_address(slot);
}

/* On replica 0, which nobody waits for. */
static int32_t
execute(RtApply *a)
{
    RtExecutor *replica = a->inv.executor;
    RtDevice *d = replica->device;
    atomic_store_explicit(&a->inv.call.at, -1, memory_order_relaxed);
    atomic_store_explicit(&replica->running, &a->inv, memory_order_relaxed);
    replica->started = replica->met = 0;
    a->launch =
        (RtProgramLaunch){.program = a->inv.fn->number, .call = &a->inv.call};
    d->ops->launch_program(d->queues[QUEUE_COMPUTE], &a->launch);
    rt_event_wait(d->ops->record(d->queues[QUEUE_COMPUTE]));
    atomic_store_explicit(&replica->running, NULL, memory_order_relaxed);
    return a->launch.status;
}

/* Why an update failed, as the coordinator will say it. */
static void
note_failure(RtServer *s, const RtUpdate *u)
{
    RtRun *run = s->with.run;
    RtFault *f = &run->locals[0].fault;
    if (!f->op) {
        s->failure = "an update was stopped";
        return;
    }
    Status st = rt_fault_in_words(run, f);
    Str text = str_new(s->arena);
    str_addf(&text, "%s\n%s", status_message(st), status_lines(st));
    str_addf(&text, "note: on server %d, in an update of \"%s\"\n", s->index,
             run->module->vars.data[u->writes.data[0]]->name);
    s->failure = str_text(&text);
    status_free(st);
}

static void
copy_row(const RtServer *s, RtDevicePtr to, RtDevicePtr from, size_t n)
{
    RtDevice *d = s->with.run->locals[0].device;
    char *host = rt_ptr_host(to);
    if (host)
        memcpy(host, rt_ptr_host(from), n);
    else
        d->ops->copy(d->queues[QUEUE_COMPUTE], to, from, n);
}

/* The rows of var that an update needs, between a part and where they are put
 * together. */
static void
copy_rows(const RtServer *s, const RtRows *rows, const RtPart *part, bool back)
{
    size_t at = (size_t)s->with.run->module->vars.data[part->var]->place.offset;
    size_t n = (size_t)(part->bytes / part->rows);
    RtDevicePtr of_part = rt_ptr_add(s->slots[part->slot], at);
    RtDevicePtr of_rows = rt_ptr_add(s->together, at);
    for (int64_t i = 0; i < rows->num; i++) {
        RtDevicePtr one = rt_ptr_add(of_part, (size_t)rows->rows[i] * n);
        RtDevicePtr other = rt_ptr_add(of_rows, (size_t)i * n);
        if (back)
            copy_row(s, one, other, n);
        else
            copy_row(s, other, one, n);
    }
}

static const RtPart *
part_of(const RtServer *s, int var, int64_t k)
{
    const RtPlacement *p = s->with.placement;
    return &p->parts.data[p->first_part[var] + k];
}

static int32_t
execute_on_rows(RtServer *s, RtApply *a, const RtUpdate *u, int64_t k)
{
    for (int i = 0; i < u->uses.len; i++)
        copy_rows(s, &a->rows, part_of(s, u->uses.data[i], k), false);
    move_to(a, s->together);
    int32_t end = execute(a);
    for (int i = 0; i < u->writes.len && end == EXEC_OK; i++)
        copy_rows(s, &a->rows, part_of(s, u->writes.data[i], k), true);
    return end;
}

static void
apply(RtServer *s, int64_t update, int64_t k, RtArchive *in)
{
    RtRun *run = s->with.run;
    const RtPlacement *p = s->with.placement;
    const RtUpdate *u = &p->updates.data[update];
    const RtPart *part = rt_update_part(p, u, k);
    RtApply *a = &s->applies[update];
    rt_ps_batches(run, &run->locals[0], in);
    read_arguments(s, a, part, in);
    if (in->wrong || s->failure)
        return;
    rt_guard_pause(s->with.member->config.guard);
    move_to(a, s->slots[part->slot]);
    int32_t end =
        u->fn->ir->rows_only ? execute_on_rows(s, a, u, k) : execute(a);
    if (end != EXEC_OK)
        note_failure(s, u);
    move_to(a, s->slots[0]);
    rt_guard_resume(s->with.member->config.guard);
    for (int i = 0; i < u->writes.len; i++)
        s->versions[p->first_part[u->writes.data[i]] + k]++;
}

void
rt_server_set(RtServer *s, const RtPart *part, RtArchive *in)
{
    const IrVar *v = s->with.run->module->vars.data[part->var];
    size_t each = (size_t)(part->bytes / part->rows);
    int64_t first, num;
    rt_archive_i64(in, &first, 0, part->rows);
    rt_archive_i64(in, &num, 0, part->rows - first);
    size_t n = (size_t)num * each, part_begin = rt_archive_begin_part(in);
    const char *bytes = rt_archive_place(in, n);
    rt_archive_end_part(in, part_begin);
    if (in->wrong || s->failure)
        return;
    RtDevicePtr at = rt_ptr_add(s->slots[part->slot],
                                (size_t)v->place.offset + (size_t)first * each);
    if (bytes && n)
        rt_copy_in(at, bytes, n);
    s->versions[part - s->with.placement->parts.data]++;
    rt_ps_count_traffic(&s->traffic, RT_TRAFFIC_pushed_parts, n, first == 0);
}

bool
rt_server_apply_next(RtServer *s, RtArchive *in)
{
    const RtPlacement *p = s->with.placement;
    int64_t update, k;
    if (!p->updates.len)
        return false;
    rt_archive_i64(in, &update, 0, p->updates.len - 1);
    if (in->wrong)
        return false;
    const RtUpdate *u = &p->updates.data[update];
    rt_archive_i64(in, &k, 0, u->num_parts - 1);
    if (in->wrong || rt_update_part(p, u, k)->server != s->index)
        return false;
    if (u->is_set)
        rt_server_set(s, rt_update_part(p, u, k), in);
    else
        apply(s, update, k, in);
    return !in->wrong;
}
