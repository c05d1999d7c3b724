/*
 * trace.c - programs as CUDA graphs
 *
 * What a program enqueues follows from its launch, the sizes of batches and the
 * values that it loads.  So its recording is a tree of segments: each is a
 * graph of what is enqueued up to a break, where the host has a part.  A load
 * has a child for each value seen, another break one child.
 *
 * The first launch goes straight to the stream.  The second calls the program
 * under capture; at each break the graph is launched, the host does its part,
 * and the next capture begins.  From then on the graphs are launched, and the
 * program is not called.  Where the tree has no child, the program is called
 * once more: it skips what was launched, and is recorded from there.  A tree
 * that is full does not grow: from there on programs go straight to the stream.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include "ir/base/fail.h"
#include "runtime/hal/cuda/cuda_impl.h"

static CUstream
stream_of(const Cuda *c)
{
    return c->queues[QUEUE_COMPUTE].stream;
}

/* ---- waiting for the device ---------------------------------------------- */

int32_t
rt_cuda_look(RtDevice *d)
{
    return rt_device_has_failed(d) ? 0 : rt_deferrals_look(d->deferrals);
}

void
rt_cuda_wait_for_work(Cuda *c)
{
    CUevent done = c->programs.done;
    if (!rt_cuda_enter(c) || !CALL_CUDA(c, cuEventRecord, done, stream_of(c)))
        return;
    while (!rt_cuda_poll(c, done, 0.1))
        ;
}

int32_t
rt_cuda_wait_and_look(Cuda *c)
{
    rt_cuda_wait_for_work(c);
    return c->device.deferrals ? rt_cuda_look(&c->device) : 0;
}

/* ---- segments ------------------------------------------------------------ */

static int
count_calls(const TfdCall *call)
{
    int n = 0;
    for (; call; call = call->next)
        n++;
    return n;
}

/* What the program has deferred since the capture began. */
static int
num_new_items(const Cuda *c)
{
    const RtDeferrals *left = c->device.deferrals;
    return left ? left->num - c->recorder.first_item : 0;
}

static void
note_items(const Cuda *c, CudaSegment *s)
{
    const RtDeferrals *left = c->device.deferrals;
    for (int i = 0; i < s->num_items; i++) {
        int k = c->recorder.first_item + i;
        size_t end = k + 1 < left->num ? left->at[k + 1] : left->used;
        s->items[i] = (CudaItem){left->items[k], end - left->at[k]};
    }
}

static void
note_positions(const TfdCall *call, CudaSegment *s)
{
    for (int i = 0; call; call = call->next, i++)
        s->at[i] = atomic_load_explicit(&call->at, memory_order_relaxed);
}

/* Where each replica was at the break, for diagnoses. */
static void
restore_positions(TfdCall *call, const CudaSegment *s)
{
    for (int i = 0; call; call = call->next, i++)
        atomic_store_explicit(&call->at, s->at[i], memory_order_relaxed);
}

static void *
allocate(Cuda *c, size_t bytes)
{
    void *at = fail_here(FAIL_ALLOC) ? NULL : calloc(1, bytes);
    if (!at)
        rt_device_fail(&c->device, "no memory for the graphs of %s",
                       c->device.name);
    return at;
}

/* Of what was captured, with the break that ends it. */
static CudaSegment *
new_segment(Cuda *c, const CudaBreak *end)
{
    const TfdCall *call = c->programs.launch->call;
    size_t items = (size_t)num_new_items(c), calls = (size_t)count_calls(call);
    CudaSegment *s = allocate(c, sizeof *s + items * sizeof *s->items +
                                     calls * sizeof *s->at);
    if (!s)
        return NULL;
    s->end = *end;
    s->value = c->recorder.value;
    s->num_items = (int)items;
    s->items = (CudaItem *)(s + 1);
    s->at = (int32_t *)(s->items + items);
    note_items(c, s);
    note_positions(call, s);
    return s;
}

static void
link_segment(CudaRecorder *r, CudaSegment *s)
{
    CudaSegment **to = r->last ? &r->last->first : &r->trace->root;
    s->next = *to;
    *to = s;
    r->last = s;
    r->trace->num_segments++;
    r->trace->has_waits |=
        s->end.kind != BREAK_CALL && s->end.kind != BREAK_END;
}

static CudaSegment *
find_child(const CudaSegment *s, int64_t value)
{
    CudaSegment *child = s->first;
    while (child && child->value != value)
        child = child->next;
    return child;
}

static void
free_segments(const Cuda *c, CudaSegment *s)
{
    while (s) {
        CudaSegment *next = s->next;
        free_segments(c, s->first);
        if (s->graph)
            c->cu->cuGraphExecDestroy(s->graph);
        free(s);
        s = next;
    }
}

/* ---- capture ------------------------------------------------------------- */

static bool
has_room(const CudaTrace *t)
{
    return t->num_segments < CUDA_SEGMENTS && t->num_nodes < CUDA_NODES;
}

static void
begin_capture(Cuda *c)
{
    CudaRecorder *r = &c->recorder;
    const RtDeferrals *left = c->device.deferrals;
    r->mode = CUDA_DIRECT;
    if (!has_room(r->trace) || !rt_cuda_enter(c) ||
        !CALL_CUDA(c, cuStreamBeginCapture_v2, stream_of(c),
                   CU_STREAM_CAPTURE_MODE_THREAD_LOCAL))
        return;
    r->mode = CUDA_RECORDS;
    r->is_capturing = true;
    r->first_item = left ? left->num : 0;
    r->num_nodes = 0;
}

/* Whatever the driver says: it is after a failure, or a program's own end. */
static void
abandon_capture(Cuda *c)
{
    CUgraph graph = NULL;
    if (!c->recorder.is_capturing)
        return;
    c->recorder.is_capturing = false;
    c->cu->cuStreamEndCapture(stream_of(c), &graph);
    if (graph)
        c->cu->cuGraphDestroy(graph);
}

/* Makes what was captured executable; nothing of it may be. */
static bool
instantiate(Cuda *c, CudaSegment *s)
{
    CUgraph graph = NULL;
    bool works = CALL_CUDA(c, cuStreamEndCapture, stream_of(c), &graph);
    if (!works)
        return false;
    c->recorder.is_capturing = false;
    if (c->recorder.num_nodes)
        works =
            CALL_CUDA(c, cuGraphInstantiateWithFlags, &s->graph, graph, 0) &&
            CALL_CUDA(c, cuGraphUpload, s->graph, stream_of(c));
    c->cu->cuGraphDestroy(graph);
    return works;
}

static void
launch_graph(Cuda *c, const CudaSegment *s)
{
    if (s->graph && rt_cuda_enter(c))
        CALL_CUDA(c, cuGraphLaunch, s->graph, stream_of(c));
}

void
rt_cuda_end_segment(Cuda *c, const CudaBreak *end)
{
    CudaRecorder *r = &c->recorder;
    if (r->mode != CUDA_RECORDS || !rt_cuda_enter(c))
        return;
    CudaSegment *s = new_segment(c, end);
    if (!s)
        return;
    link_segment(r, s);
    r->trace->num_nodes += r->num_nodes;
    if (instantiate(c, s))
        launch_graph(c, s);
}

void
rt_cuda_next_segment(Cuda *c, int64_t value)
{
    CudaRecorder *r = &c->recorder;
    r->value = value;
    if (r->mode == CUDA_RECORDS)
        begin_capture(c);
}

/* A program without end, or with one that is far, has no recording. */
bool
rt_cuda_may_enqueue(Cuda *c)
{
    CudaRecorder *r = &c->recorder;
    if (r->mode == CUDA_SKIPS || !rt_cuda_enter(c))
        return false;
    if (r->is_capturing &&
        r->trace->num_nodes + r->num_nodes == CUDA_NODES) {
        rt_cuda_end_segment(c, &(CudaBreak){.kind = BREAK_LIMIT});
        r->trace->is_too_large = true;
        r->mode = CUDA_DIRECT;
    }
    r->num_nodes++;
    return true;
}

/* ---- skipping ------------------------------------------------------------ */

bool
rt_cuda_skips(const Cuda *c)
{
    return c->recorder.mode == CUDA_SKIPS;
}

int64_t
rt_cuda_skip_break(Cuda *c)
{
    CudaRecorder *r = &c->recorder;
    const CudaSegment *s = r->path[r->skipped++];
    if (s->end.kind != BREAK_CALL)
        r->used = r->num = 0;
    if (r->skipped < r->len)
        return r->path[r->skipped]->value;
    assert(!c->device.deferrals ||
           (r->num == (size_t)c->device.deferrals->num &&
            r->used == c->device.deferrals->used));
    begin_capture(c);
    return r->value;
}

bool
rt_cuda_skip_fits(const Cuda *c, size_t bytes)
{
    const CudaRecorder *r = &c->recorder;
    return r->num < RT_MOST_DEFERRED &&
           bytes <= c->device.deferrals->capacity - r->used;
}

void
rt_cuda_skip_item(Cuda *c, size_t bytes)
{
    c->recorder.num++;
    c->recorder.used += bytes;
}

/* ---- replay -------------------------------------------------------------- */

static void
launch_segment(Cuda *c, const CudaSegment *s)
{
    launch_graph(c, s);
    for (int i = 0; i < s->num_items; i++)
        rt_deferrals_add(c->device.deferrals, &s->items[i].item,
                         s->items[i].bytes);
    restore_positions(c->programs.launch->call, s);
}

/* The host's part, as the program itself would have it done. */
static int32_t
take_break(Cuda *c, const CudaBreak *b)
{
    int32_t status = 0;
    c->recorder.value = 0;
    switch (b->kind) {
    case BREAK_CALL:
        return b->call(b->context, b->op);
    case BREAK_LOAD:
        status = rt_cuda_wait_and_look(c);
        memcpy(&c->recorder.value, c->programs.pinned, b->bytes);
        return status;
    case BREAK_LOOK:
        return rt_cuda_wait_and_look(c);
    case BREAK_END:
    case BREAK_LIMIT:
        break;
    }
    return 0;
}

static int32_t
stop_word(const TfdCall *call)
{
    return call->stop ? atomic_load_explicit(call->stop, memory_order_relaxed)
                      : 0;
}

/* As far as the tree goes; then path is what was launched.  true: the program
 * has ended, with that status. */
static bool
replay(Cuda *c, int32_t *status)
{
    CudaRecorder *r = &c->recorder;
    const TfdCall *call = c->programs.launch->call;
    CudaSegment *s = r->trace->root;
    *status = 0;
    while (s && !rt_device_has_failed(&c->device)) {
        launch_segment(c, s);
        r->path[r->len++] = r->last = s;
        if (s->end.kind == BREAK_END)
            return true;
        *status = take_break(c, &s->end);
        if (!*status)
            *status = stop_word(call);
        if (*status)
            return true;
        s = find_child(s, r->value);
    }
    return false;
}

/* The rest of a program whose beginning was launched, or all of it. */
static int32_t
record(Cuda *c)
{
    CudaRecorder *r = &c->recorder;
    const RtProgramLaunch *l = c->programs.launch;
    r->mode = CUDA_SKIPS;
    if (rt_device_has_failed(&c->device))
        r->mode = CUDA_DIRECT; /* its hooks end it */
    else if (!r->len)
        begin_capture(c);
    int32_t status = c->code->programs[l->program](l->call);
    assert(status || r->mode != CUDA_SKIPS);
    if (!status)
        rt_cuda_end_segment(c, &(CudaBreak){.kind = BREAK_END});
    abandon_capture(c);
    return status;
}

/* ---- traces -------------------------------------------------------------- */

CudaTrace *
rt_cuda_trace_find(Cuda *c, const RtProgramLaunch *l)
{
    CudaTrace *t = c->traces;
    while (t && (t->call != l->call || t->sizes != l->sizes))
        t = t->next;
    if (t || !l->sizes || c->code->is_read_along)
        return t;
    t = allocate(c, sizeof *t);
    if (t) {
        t->call = l->call;
        t->sizes = l->sizes;
        t->next = c->traces;
        c->traces = t;
    }
    return t;
}

bool
rt_cuda_trace_is_ahead(const CudaTrace *t)
{
    return t && t->root && !t->has_waits;
}

bool
rt_cuda_trace_is_one(const CudaTrace *t)
{
    return t && t->root && t->root->end.kind == BREAK_END;
}

void
rt_cuda_trace_launch(Cuda *c, const CudaTrace *t)
{
    launch_segment(c, t->root);
}

int32_t
rt_cuda_trace_run(Cuda *c, CudaTrace *t)
{
    CudaRecorder *r = &c->recorder;
    const RtProgramLaunch *l = c->programs.launch;
    int32_t status;
    r->mode = CUDA_DIRECT;
    if (!t || t->is_too_large || !t->was_executed) {
        if (t)
            t->was_executed = true;
        return c->code->programs[l->program](l->call);
    }
    r->trace = t;
    r->last = NULL;
    r->value = 0;
    r->len = r->skipped = 0;
    r->num = r->used = 0;
    if (!replay(c, &status))
        status = record(c);
    r->mode = CUDA_DIRECT;
    return status;
}

void
rt_cuda_traces_free(Cuda *c)
{
    while (c->traces) {
        CudaTrace *t = c->traces;
        c->traces = t->next;
        free_segments(c, t->root);
        free(t);
    }
}
