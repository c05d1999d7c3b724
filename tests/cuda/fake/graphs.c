/*
 * graphs.c - stream capture, and graphs
 *
 * A capture has a chain for each stream that takes part.  The nodes of a chain
 * are in order, those of two are where an event says so: so a node's place is
 * how many of each chain come before it.
 *
 * A launch adds the nodes as operations: those of the first chain, where the
 * capture began, to the stream itself, those of the others to branches of it.
 * So they are executed in any order that the graph allows, with the same clocks
 * as other operations.  The branches of a stream serve all of its launches,
 * which are ordered.
 */
#include <stdlib.h>
#include <string.h>
#include "tests/cuda/fake/calls.h"

typedef struct Node {
    Op op;
    Place place;
    struct Node *next;
} Node;

/* Of a graph, and of each that is made executable. */
typedef struct Nodes {
    Node *first, **last;
    int num_chains;
    Counts counts; /* of one launch */
} Nodes;

struct Capture {
    uint64_t serial;
    CUstream origin;
    CUstreamCaptureMode mode;
    const void *thread;
    bool is_invalid;
    CUstream streams[MAX_CHAINS]; /* by chain; NULL: it was destroyed */
    Place ends[MAX_CHAINS];
    Nodes nodes;
    struct Capture *next;
};

struct CUgraph_st {
    CUcontext context;
    Nodes nodes;
};

struct CUgraphExec_st {
    CUcontext context;
    Nodes nodes;
    uint64_t clock[MAX_STREAMS]; /* of its last launch */
    struct CUgraphExec_st *next;
};

static Capture *captures;
static CUgraphExec execs;
static _Thread_local char this_thread;

/* ---- nodes --------------------------------------------------------------- */

static void
add_node(Nodes *nodes, const Op *op, const Place *place)
{
    Node *n = fake_alloc(sizeof *n);
    n->op = *op;
    n->place = *place;
    if (!nodes->first)
        nodes->last = &nodes->first;
    *nodes->last = n;
    nodes->last = &n->next;
    nodes->counts.nodes++;
    fake_count(&nodes->counts, op);
}

static unsigned char *
copy_params(const Op *op)
{
    if (op->kind != OP_KERNEL)
        return NULL;
    size_t n = ptx_kernel_info(op->kernel)->param_bytes;
    unsigned char *params = fake_alloc(n);
    memcpy(params, op->params, n);
    return params;
}

static void
copy_nodes(Nodes *to, const Nodes *from)
{
    to->num_chains = from->num_chains;
    for (const Node *n = from->first; n; n = n->next) {
        Op op = n->op;
        op.params = copy_params(&op);
        add_node(to, &op, &n->place);
    }
}

static void
free_nodes(Nodes *nodes)
{
    for (Node *n = nodes->first, *next; n; n = next) {
        next = n->next;
        free(n->op.params);
        free(n);
    }
    *nodes = (Nodes){.first = NULL};
}

/* ---- captures ------------------------------------------------------------ */

static void
join(Place *to, const Place *from)
{
    for (int i = 0; i < MAX_CHAINS; i++)
        if (from->clock[i] > to->clock[i])
            to->clock[i] = from->clock[i];
}

/* The stream takes part from now on, in a chain of its own. */
static void
begin_part(Capture *c, CUstream s)
{
    if (c->nodes.num_chains == MAX_CHAINS)
        fake_complain("more than %d streams in a capture", MAX_CHAINS);
    s->capture = c;
    s->captured = (Place){.chain = c->nodes.num_chains};
    c->streams[c->nodes.num_chains++] = s;
}

void
fake_end_part(CUstream s)
{
    Capture *c = s->capture;
    if (!c)
        return;
    c->ends[s->captured.chain] = s->captured;
    c->streams[s->captured.chain] = NULL;
    s->capture = NULL;
}

/* The capture is good for nothing but to be ended. */
static CUresult
invalidate(Capture *c, CUresult error)
{
    if (c)
        c->is_invalid = true;
    return error;
}

static Capture *
find_capture(uint64_t serial)
{
    Capture *c = captures;
    while (c && c->serial != serial)
        c = c->next;
    return c;
}

/* In the mode of threads that have not chosen another one. */
static bool
forbids(const Capture *c)
{
    return c->mode == CU_STREAM_CAPTURE_MODE_GLOBAL ||
           (c->mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL &&
            c->thread == &this_thread);
}

CUresult
fake_forbid_in_capture(void)
{
    CUresult wrong = CUDA_SUCCESS;
    for (Capture *c = captures; c; c = c->next)
        if (forbids(c))
            wrong = invalidate(c, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    return wrong;
}

CUresult
fake_capture(CUstream s, const Op *op)
{
    Capture *c = s->capture;
    if (c->is_invalid) {
        free(op->params);
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    }
    s->captured.clock[s->captured.chain]++;
    add_node(&c->nodes, op, &s->captured);
    return CUDA_SUCCESS;
}

CUresult
fake_capture_record(CUevent event, CUstream s)
{
    if (s->capture->is_invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    event->capture = s->capture->serial;
    event->captured = s->captured;
    return CUDA_SUCCESS;
}

CUresult
fake_capture_wait(CUstream s, CUevent event)
{
    Capture *c = find_capture(event->capture);
    if (!event->capture) /* work that is outside cannot be waited for */
        return invalidate(s->capture, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    if (!c)
        return invalidate(s->capture, CUDA_ERROR_CAPTURED_EVENT);
    if (c->is_invalid)
        return invalidate(s->capture, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    if (s->capture && s->capture != c) {
        invalidate(s->capture, CUDA_ERROR_STREAM_CAPTURE_MERGE);
        return invalidate(c, CUDA_ERROR_STREAM_CAPTURE_MERGE);
    }
    if (!s->capture)
        begin_part(c, s);
    join(&s->captured, &event->captured);
    return CUDA_SUCCESS;
}

CUresult
fake_ask_captured(CUevent event)
{
    return invalidate(find_capture(event->capture), CUDA_ERROR_CAPTURED_EVENT);
}

/* Whether the first chain comes after all of the others. */
static bool
is_joined(const Capture *c)
{
    const Place *end = &c->ends[0];
    for (int i = 1; i < c->nodes.num_chains; i++)
        if (c->ends[i].clock[i] > end->clock[i])
            return false;
    return true;
}

/* What the capture gave, if all is well with it; nothing is left of it. */
static CUresult
end_capture(Capture *c, CUgraph *graph)
{
    Capture **at = &captures;
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    for (int i = 0; i < c->nodes.num_chains; i++)
        if (c->streams[i])
            fake_end_part(c->streams[i]);
    CUresult wrong = c->is_invalid   ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
                     : !is_joined(c) ? CUDA_ERROR_STREAM_CAPTURE_UNJOINED
                                     : CUDA_SUCCESS;
    *graph = NULL;
    if (!wrong) {
        CUgraph g = fake_alloc(sizeof *g);
        g->context = fake_current;
        copy_nodes(&g->nodes, &c->nodes);
        fake_current->device->graphs++;
        *graph = g;
    }
    free_nodes(&c->nodes);
    free(c);
    return wrong;
}

EXPORT
cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode)
{
    ENTER(CONTEXT);
    if (!stream)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    fake_check_context(__func__, stream->context, "a stream");
    if ((unsigned)mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    if (stream->capture)
        return CUDA_ERROR_ILLEGAL_STATE;
    Capture *c = fake_alloc(sizeof *c);
    c->serial = ++fake_world.serials;
    c->origin = stream;
    c->mode = mode;
    c->thread = &this_thread;
    c->next = captures;
    captures = c;
    begin_part(c, stream);
    return CUDA_SUCCESS;
}

EXPORT
cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
    ENTER(CONTEXT);
    fake_check_context(__func__, stream->context, "a stream");
    Capture *c = stream->capture;
    if (!c)
        return CUDA_ERROR_ILLEGAL_STATE;
    if (c->origin != stream)
        return invalidate(c, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    if (c->mode != CU_STREAM_CAPTURE_MODE_RELAXED && c->thread != &this_thread)
        return invalidate(c, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
    return end_capture(c, graph);
}

EXPORT
cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status)
{
    ENTER(CONTEXT);
    fake_check_context(__func__, stream->context, "a stream");
    const Capture *c = stream->capture;
    *status = !c              ? CU_STREAM_CAPTURE_STATUS_NONE
              : c->is_invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                              : CU_STREAM_CAPTURE_STATUS_ACTIVE;
    return CUDA_SUCCESS;
}

/* ---- graphs -------------------------------------------------------------- */

EXPORT
cuGraphDestroy(CUgraph graph)
{
    ENTER(GIVES_BACK);
    graph->context->device->graphs--;
    free_nodes(&graph->nodes);
    free(graph);
    return failed;
}

EXPORT
cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph,
                            unsigned long long flags)
{
    ENTER(CONTEXT);
    fake_check_context(__func__, graph->context, "a graph");
    if (flags)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphExec e = fake_alloc(sizeof *e);
    e->context = fake_current;
    copy_nodes(&e->nodes, &graph->nodes);
    fake_current->device->graphs++;
    e->next = execs;
    execs = e;
    *exec = e;
    return CUDA_SUCCESS;
}

static CUgraphExec *
find_exec(const char *call, CUgraphExec exec)
{
    CUgraphExec *at = &execs;
    while (*at && *at != exec)
        at = &(*at)->next;
    if (!*at)
        fake_complain("%s of a graph that is destroyed", call);
    fake_check_context(call, (*at)->context, "a graph");
    return at;
}

EXPORT
cuGraphUpload(CUgraphExec exec, CUstream stream)
{
    ENTER(CONTEXT);
    find_exec(__func__, exec);
    return fake_enqueue(__func__, stream, (Op){.kind = OP_NOTHING});
}

/* The streams that execute the chains, after what the launch comes after. */
static void
open_branches(CUgraphExec e, CUstream s, CUstream *streams)
{
    fake_join(s->clock, e->clock);
    streams[0] = s;
    for (int i = 1; i < e->nodes.num_chains; i++) {
        if (!s->branches[i]) {
            s->branches[i] = fake_alloc(sizeof *s);
            s->branches[i]->context = s->context;
            fake_open_slot(s->branches[i]);
        }
        streams[i] = s->branches[i];
        fake_join(streams[i]->clock, s->clock);
    }
}

static void
add_nodes(const Nodes *nodes, CUstream *streams)
{
    uint64_t begins[MAX_CHAINS];
    for (int i = 0; i < nodes->num_chains; i++)
        begins[i] = fake_world.added[streams[i]->slot];
    for (Node *n = nodes->first; n; n = n->next) {
        Op op = n->op;
        CUstream s = streams[n->place.chain];
        for (int i = 0; i < nodes->num_chains; i++) {
            uint64_t *known = &s->clock[streams[i]->slot];
            uint64_t before = n->place.clock[i] ? begins[i] : 0;
            if (i != n->place.chain && before + n->place.clock[i] > *known)
                *known = before + n->place.clock[i];
        }
        op.params = copy_params(&op);
        fake_add(s, &op);
    }
}

EXPORT
cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
    CUstream streams[MAX_CHAINS];
    Counts *counts = &fake_world.counts;
    ENTER(CONTEXT);
    fake_check_context(__func__, stream->context, "a stream");
    Nodes *nodes = &(*find_exec(__func__, exec))->nodes;
    if (stream->capture)
        return invalidate(stream->capture,
                          CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    counts->graph_launches++;
    counts->nodes += nodes->counts.nodes;
    for (int i = 0; i < NUM_OPS; i++)
        if (i != OP_KERNEL) {
            counts->ops[i] += nodes->counts.ops[i];
            counts->bytes[i] += nodes->counts.bytes[i];
        }
    for (Node *n = nodes->first; n; n = n->next)
        fake_check_uses(&n->op);
    open_branches(exec, stream, streams);
    add_nodes(nodes, streams);
    for (int i = 1; i < nodes->num_chains; i++)
        fake_join(stream->clock, streams[i]->clock);
    memcpy(exec->clock, stream->clock, sizeof exec->clock);
    return CUDA_SUCCESS;
}

/* What has been launched is executed to its end. */
EXPORT
cuGraphExecDestroy(CUgraphExec exec)
{
    ENTER(GIVES_BACK);
    CUgraphExec *at = find_exec(__func__, exec);
    *at = exec->next;
    exec->context->device->graphs--;
    free_nodes(&exec->nodes);
    free(exec);
    return failed;
}
