/*
 * gpu_memory.c - the memory that a plan takes of a GPU, and how it would take
 * less
 */
#include "ir/analysis/gpu_memory.h"

#include <math.h>
#include "ir/analysis/cost.h"
#include "ir/analysis/hooks.h"
#include "ir/analysis/live_range.h"
#include "ir/analysis/per_replica.h"
#include "ir/base/message.h"
#include "ir/type_bounds.h"

/* Sources of the estimates:
 * - context: PyTorch's developers report about 400 MB with lazily loaded
 *   modules (pytorch/pytorch issue 109888), RAPIDS 335 MiB for its allocator
 *   alone (rapidsai/cudf issue 4718).
 * - graphs: "64 KB of device memory per kernel launch", less from CUDA 12.4 on
 *   (PyTorch's documentation, "CUDAGraph Trees").
 * - modules: the kernels of docs/examples have 9 to 12 KB of PTX; an
 *   instruction is about 30 bytes there, and 16 in machine code.
 * - NCCL: a rank has a buffer for each channel of each other rank of its
 *   machine (NVIDIA/nccl issue 2294), of the sizes of three protocols (NCCL's
 *   src/init.cc): NCCL_BUFFSIZE, by default 4 MiB (NCCL's documentation,
 *   "Environment Variables"), 512 KiB and 4,800 KiB.  Between GPUs with NVLink
 *   there are up to 32 channels; over a network usually 2, whose buffers are
 *   shared (NCCL_NCHANNELS_PER_NET_PEER, NVIDIA/nccl issues 1424 and 1450). */
static const int64_t context_bytes = 400000000, graph_bytes_a_launch = 65536,
                     module_bytes = 16384, pinned_bytes = 8 << 20;

static const int64_t nccl_buffer = 4 << 20,
                     nccl_connection = (4 << 20) + (512 << 10) + (4800 << 10);

enum {
    NCCL_CHANNELS = 32,
    NCCL_NET_CHANNELS = 2,
    NCCL_LOCAL_PEERS = 7,   /* of a machine with 8 GPUs */
    MOST_RECORDED = 1 << 15 /* launches of a program; the runtime's limit */
};

int64_t
ir_gpu_bytes(void)
{
    return (int64_t)ir_machines[DEVICE_cuda].memory;
}

const char *
ir_gpu_name(void)
{
    return "an A100 or H100 with 80 GB";
}

/* ---- the need ------------------------------------------------------------ */

static void
count_kernel(IrOp *op, void *data)
{
    *(int *)data += op->kind == OP_kernel;
}

/* At most as many differ. */
static int
count_kernels(const IrModule *m)
{
    int num = 0;
    for (IrFunc *fn = m->first; fn; fn = fn->next)
        ir_walk(fn->body, count_kernel, &num);
    return num;
}

/* Kernels in two launches. */
typedef struct Split {
    int num;
    int64_t most; /* bytes */
} Split;

static void
note_split(IrOp *op, void *data)
{
    Split *s = data;
    if (op->kind != OP_kernel || !ir_has(op, A_scratch))
        return;
    s->num++;
    s->most = ir_int(op, A_scratch) > s->most ? ir_int(op, A_scratch) : s->most;
}

static int64_t
scratch_bytes(const IrModule *m)
{
    Split s = {0};
    for (const IrFunc *fn = m->first; fn; fn = fn->next)
        ir_walk(fn->body, note_split, &s);
    return s.most;
}

static int
count_launches_of(const IrModule *m, const IrFunc *fn, int replicas)
{
    IrProgramWork w = ir_program_work(m, fn, ir_machine_of(m));
    Split split = {0};
    ir_walk(fn->body, note_split, &split);
    double n = w.once.kernels + w.each.kernels * replicas + w.collectives +
               split.num * replicas;
    return n < MOST_RECORDED ? (int)n : MOST_RECORDED;
}

/* Of all programs, once each: a variant has as many as its program, and a run
 * records one of both. */
static int
count_launches(const IrModule *m, int replicas)
{
    int num = 0;
    for (const IrFunc *fn = m->first; fn; fn = fn->next)
        if (fn->kind == FUNC_PROGRAM && !fn->variant_of)
            num += count_launches_of(m, fn, replicas);
    return num;
}

static void
add_batch(IrOp *op, void *data)
{
    int64_t *sum = data, bytes;
    if (op->kind != OP_iter_next)
        return;
    for (int i = 0; i < op->num_results; i++)
        if (ir_type_bytes(op->module, &op->results[i]->type, &bytes))
            *sum += ir_align_to_line(bytes);
}

static int64_t
batch_bytes(const IrModule *m)
{
    int64_t sum = 0;
    IrFunc *fn = ir_main(m);
    if (fn)
        ir_walk(fn->body, add_batch, &sum);
    return sum;
}

static int64_t
own_begin(const IrModule *m)
{
    Arena *scratch = arena_new(NULL, "arenas");
    int64_t begin = ir_own_begin(scratch, m);
    arena_release(scratch);
    return begin;
}

/* ---- NCCL ---------------------------------------------------------------- */

static bool
is_nccl(IrAlgorithm algorithm)
{
    return algorithm == ALGORITHM_nccl || algorithm == ALGORITHM_nccl_allreduce;
}

static void
note_nccl(IrOp *op, void *data)
{
    bool *found = data;
    if (ir_op_is_start(op->kind))
        *found |= is_nccl((IrAlgorithm)ir_enum(op, A_algorithm));
}

bool
ir_asks_for_nccl(const IrModule *m)
{
    bool found = is_nccl(m->algorithm);
    for (const IrFunc *fn = m->first; fn && !found; fn = fn->next)
        ir_walk(fn->body, note_nccl, &found);
    return found;
}

/* The bytes of the operands of the largest all_reduce. */
static void
note_operands(IrOp *op, void *data)
{
    int64_t *most = data, sum = 0, bytes;
    if (op->kind != OP_all_reduce_start)
        return;
    for (int i = 0; i < op->num_operands; i++)
        if (ir_type_bytes(op->module, &op->operands[i]->type, &bytes))
            sum += ir_align_to_line(bytes);
    *most = sum > *most ? sum : *most;
}

/* Connections with the other ranks, and a slice of each other replica's
 * operands. */
static int64_t
nccl_bytes(const IrModule *m, int replicas)
{
    int ranks = m->num_replicas / replicas, peers = ranks - 1;
    int local = peers < NCCL_LOCAL_PEERS ? peers : NCCL_LOCAL_PEERS;
    int64_t operands = 0;
    for (const IrFunc *fn = m->first; fn; fn = fn->next)
        ir_walk(fn->body, note_operands, &operands);
    return local * NCCL_CHANNELS * nccl_connection +
           (peers - local) * NCCL_NET_CHANNELS * nccl_buffer +
           (m->num_replicas - replicas) * (operands / ranks);
}

/* ---- all of it ----------------------------------------------------------- */

IrGpuMemory
ir_gpu_memory(const IrModule *m, int64_t arena, int replicas, bool is_open,
              bool uses_nccl)
{
    IrGpuMemory n = {.replicas = replicas,
                     .is_open = is_open,
                     .uses_nccl = uses_nccl,
                     .context = is_open ? 0 : context_bytes,
                     .pinned = pinned_bytes};
    n.kernels = count_kernels(m);
    n.launches = count_launches(m, replicas);
    n.scratch = scratch_bytes(m);
    n.arena = arena;
    n.arenas = arena + (replicas - 1) * (arena - own_begin(m));
    n.staging = replicas * batch_bytes(m);
    n.graphs = n.launches * graph_bytes_a_launch;
    n.modules = n.kernels * module_bytes;
    n.nccl = uses_nccl ? nccl_bytes(m, replicas) : 0;
    n.all = n.arenas + n.staging + n.graphs + n.scratch + n.modules + n.nccl +
            n.context;
    return n;
}

/* ---- what grows with the batch ------------------------------------------- */

/* The largest batch of a replica, and the bytes of its arena that have a row
 * for each row of it. */
typedef struct Scaling {
    const IrModule *module;
    int64_t rows, rows_bytes;
    int64_t bytes; /* with the batch itself */
    int64_t kept;  /* of values that are computed */
    int num_kept;
} Scaling;

static int64_t
leading(const IrModule *m, const IrType *t)
{
    return t->rank ? ir_dim_full(m, t->dims[0]).c : 1;
}

static void
find_batch(IrOp *op, void *data)
{
    Scaling *s = data;
    int64_t bytes;
    for (int i = 0; op->kind == OP_iter_next && i < op->num_results; i++) {
        const IrType *t = &op->results[i]->type;
        if (!ir_type_bytes(s->module, t, &bytes) || bytes < s->rows_bytes)
            continue;
        s->rows_bytes = bytes;
        s->rows = leading(s->module, t);
    }
}

static bool
has_symbol(const IrType *t)
{
    for (int i = 0; i < t->rank; i++)
        if (!ir_dim_is_const(t->dims[i]))
            return true;
    return false;
}

static bool
has_shape_of_a_variable(const IrModule *m, const IrType *t)
{
    for (int i = 0; i < m->vars.len; i++) {
        const IrType *v = &m->vars.data[i]->type;
        bool same = v->rank == t->rank;
        for (int k = 0; same && k < v->rank; k++)
            same = ir_dim_equal(v->dims[k], t->dims[k]);
        if (same)
            return true;
    }
    return false;
}

/* Where batches are full, their sizes are constants: then what begins with a
 * multiple of the batch counts, unless it is as a variable is, like a gradient
 * of one. */
static bool
scales(const Scaling *s, const IrType *t)
{
    if (has_symbol(t))
        return true;
    return s->rows > 1 && t->rank && leading(s->module, t) % s->rows == 0 &&
           !has_shape_of_a_variable(s->module, t);
}

static int64_t
scaling_bytes(const Scaling *s, const IrType *t)
{
    int64_t bytes;
    return scales(s, t) && ir_type_bytes(s->module, t, &bytes)
               ? ir_align_to_line(bytes)
               : 0;
}

static Scaling
scaling_of(Arena *a, const IrModule *m)
{
    Scaling s = {.module = m};
    IrFunc *main_ir = ir_main(m);
    if (main_ir)
        ir_walk(main_ir->body, find_batch, &s);
    IrValues peak = ir_values_at_peak(a, m);
    for (int i = 0; i < peak.len; i++) {
        int64_t bytes = scaling_bytes(&s, &peak.data[i]->type);
        s.bytes += bytes;
        s.kept += peak.data[i]->def ? bytes : 0;
        s.num_kept += peak.data[i]->def && bytes;
    }
    s.bytes += batch_bytes(m);
    return s;
}

/* ---- remedies ------------------------------------------------------------ */

/* The most rows of a batch with which n is at most room; 0: none. */
static int64_t
rows_that_fit(const Scaling *s, const IrGpuMemory *n, int64_t room)
{
    double scaling = (double)s->bytes * n->replicas;
    double over = (double)(n->all - room);
    return s->rows > 1 && over < scaling
               ? (int64_t)floor((double)s->rows * (1.0 - over / scaling))
               : 0;
}

static int64_t
bytes_with_rows(const Scaling *s, const IrGpuMemory *n, int64_t rows)
{
    double less = 1.0 - (double)rows / (double)s->rows;
    return n->all - (int64_t)((double)(s->bytes * n->replicas) * less);
}

/* Fewer replicas for each, as long as there are several. */
static void
try_devices(const IrModule *m, const IrGpuMemory *need, int64_t room,
            IrGpuRemedies *out)
{
    for (int each = need->replicas - 1; each > 0 && !out->devices; each--) {
        IrGpuMemory n =
            ir_gpu_memory(m, need->arena, each, need->is_open, need->uses_nccl);
        if (m->num_replicas % each == 0 && n.all <= room) {
            out->devices = m->num_replicas / each;
            out->devices_all = n.all;
        }
    }
}

/* A device for each replica, of which there are more for the same batch. */
static void
try_replicas(const IrModule *m, const Scaling *s, const IrGpuMemory *need,
             int64_t room, IrGpuRemedies *out)
{
    IrGpuMemory n =
        ir_gpu_memory(m, need->arena, 1, need->is_open, need->uses_nccl);
    int64_t rows = rows_that_fit(s, &n, room);
    if (!rows)
        return;
    int64_t all = s->rows * m->num_replicas;
    out->devices = (int)((all + rows - 1) / rows);
    out->devices_all =
        bytes_with_rows(s, &n, (all + out->devices - 1) / out->devices);
    out->compiled = true;
}

/* Of k values, 2 sqrt(k) stay (Chen et al., Training Deep Nets with Sublinear
 * Memory Cost). */
static int64_t
saved_by_recomputing(const Scaling *s, const IrGpuMemory *need)
{
    double k = s->num_kept;
    return k > 4.0 ? (int64_t)((double)(s->kept * need->replicas) *
                               (1.0 - 2.0 / sqrt(k)))
                   : 0;
}

IrGpuRemedies
ir_gpu_remedies(Arena *a, const IrModule *m, const IrGpuMemory *need,
                int64_t room)
{
    IrGpuRemedies r = {0};
    Scaling s = scaling_of(a, m);
    int64_t rows = rows_that_fit(&s, need, room);
    if (rows) {
        r.batch = rows * m->num_replicas;
        r.batch_all = bytes_with_rows(&s, need, rows);
    }
    try_devices(m, need, room, &r);
    if (!r.devices)
        try_replicas(m, &s, need, room, &r);
    r.recomputed = saved_by_recomputing(&s, need);
    return r;
}

/* ---- words --------------------------------------------------------------- */

static double
megabytes(int64_t bytes)
{
    return (double)bytes / 1e6;
}

static void
add_part(Arena *a, const char **text, const char *part)
{
    *text = *text ? arena_printf(a, "%s; %s", *text, part) : part;
}

const char *
ir_gpu_remedies_text(Arena *a, const IrGpuRemedies *r)
{
    const char *text = NULL;
    if (r->batch)
        add_part(a, &text,
                 message_printf(a, "with batches of %lld it has %.3f MB",
                                (long long)r->batch, megabytes(r->batch_all)));
    if (r->devices && r->compiled)
        add_part(a, &text,
                 message_printf(a, "compiled for %d devices each has %.3f MB",
                                r->devices, megabytes(r->devices_all)));
    else if (r->devices)
        add_part(a, &text,
                 message_printf(a, "on %d devices each has %.3f MB", r->devices,
                                megabytes(r->devices_all)));
    if (r->recomputed)
        add_part(a, &text,
                 message_printf(a,
                                "with parts of the step in recompute(fn() = "
                                "...) it has up to about %.3f MB less",
                                megabytes(r->recomputed)));
    return text ? text
                : message_part(
                      MESSAGE("neither smaller batches nor more devices help"));
}
