/*
 * compare.c - every launch of a kernel again on the host (--compare cpu)
 *
 * Programs enqueue their work, so that each launch comes by a hook, with the
 * addresses of its operands and results; the operation that it belongs to is at
 * the program's position, and says how large they are.  Kernels have the same
 * bits on all targets, so the host's object must give what the device did.
 *
 * Operands are read before the launch, since a result may have the place of
 * one.  Products that tensor cores have computed in TF32 (D36) are compared
 * with a tolerance.  No lock is held while a device is waited for: another
 * device may have to go on for that.  The host's kernels take turns, on all its
 * threads.
 *
 * The operands of an all_reduce are read when a replica starts it, its results
 * when a device is done, and are compared with D2's tree of the operands of all
 * replicas.  They are in two sets, used in turn: who is one call ahead must not
 * overwrite what another still reads, and it cannot be two ahead, for it has
 * waited for the other in between.
 */
#include "runtime/run/compare.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <string.h>
#include "ir/base/message.h"
#include "ir/base/thread.h"
#include "ir/device/device.h"
#include "ir/plan/target.h"
#include "ir/rules/tf32.h"
#include "runtime/coll/algorithm/reduce.h"
#include "runtime/exec/end.h"
#include "runtime/exec/output.h"
#include "runtime/exec/run_state.h"
#include "runtime/hal/cpu/pool.h"
#include "runtime/ops/host_ops.h"
#include "runtime/check/difference.h"
#include "runtime/run/hooks.h"
#include "runtime/check/kernel_lines.h"

/* One replica's operands of an all_reduce, in two sets. */
typedef struct Part {
    uint32_t calls; /* of start */
    Arena *copies[2];
    char **operands[2]; /* for each */
} Part;

typedef struct Reduction {
    const RtCollInstance *instance;
    Part *parts; /* for each replica */
    struct Reduction *next;
} Reduction;

struct RtComparison {
    TfdHooks hooks;
    pthread_mutex_t lock; /* of the rest */
    Arena *arena;
    RtPool *pool;
    int64_t launches, reduces;
    int64_t rounded; /* launches with other bits that TF32 explains */
    Reduction *reductions;
};

/* ---- what is compared ---------------------------------------------------- */

static RtInvocation *
invocation_of(TfdCall *call)
{
    return call->context;
}

/* Whether the present step is one of those that are asked for. */
static bool
is_asked(const RtRun *run)
{
    int64_t steps = atomic_load(&run->watchdog.steps) - run->stats.resumed;
    return !run->options->compare_steps || steps < run->options->compare_steps;
}

/* The operation that a launch belongs to; NULL: a number is wrong. */
static const IrOp *
kernel_at(const TfdCall *call, const RtInvocation *inv, int32_t kernel)
{
    int32_t at = atomic_load_explicit(&call->at, memory_order_relaxed);
    if (at < 0 || at >= inv->fn->positions.len)
        return NULL;
    const IrOp *op = inv->fn->positions.data[at];
    return op->kind == OP_kernel &&
                   plan_kernel_number(inv->executor->run->plan, op) == kernel
               ? op
               : NULL;
}

/* ---- arrays -------------------------------------------------------------- */

/* An operand or result, on the device and for the host's kernel. */
typedef struct Array {
    RtDevicePtr at;
    RtBits bits;
    size_t bytes;
    char *device, *cpu;
} Array;

static void
size_array(Arena *a, const RtInvocation *inv, const IrType *t, Array *x)
{
    const RtExecutor *executor = inv->executor;
    int64_t *dims = NEW_ARRAY(a, int64_t, (size_t)t->rank + 1);
    x->bits =
        (RtBits){.dtype = t->dtype, .count = 1, .rank = t->rank, .dims = dims};
    for (int i = 0; i < t->rank; i++) {
        Dim d = t->dims[i];
        int64_t rows =
            d.sym < 0
                ? 0
                : executor->dims[ir_symbol_word(executor->run->module, d.sym)];
        dims[i] = ir_dim_is_const(d) ? d.c : ir_dim_value(d, rows);
        dims[i] = dims[i] > 0 ? dims[i] : 0;
        x->bits.count *= dims[i];
    }
    x->bytes = (size_t)x->bits.count * dtype_info[t->dtype].bytes;
}

/* An address that compiled code has for memory of the device. */
static RtDevicePtr
pointer_at(const RtExecutor *executor, const void *address)
{
    const RtRun *run = executor->run;
    uintptr_t at = (uintptr_t)address;
    for (int i = 0; i < run->num_local; i++) {
        const RtMemory *m = run->locals[i].base.memory;
        size_t offset = at - m->address;
        if (m->device == executor->device && offset >= m->begin &&
            offset < m->bytes)
            return (RtDevicePtr){m, offset};
    }
    return (RtDevicePtr){0};
}

static bool
read_array(const RtInvocation *inv, const Array *x, char *to)
{
    RtDevice *d = inv->executor->device;
    if (x->bytes && x->at.memory)
        d->ops->program->copy_out(d, to, x->at, x->bytes);
    return !rt_device_has_failed(d) && (x->at.memory || !x->bytes);
}

/* ---- a launch ------------------------------------------------------------ */

typedef struct Launch {
    RtKernelLaunch launch; /* on the host */
    TfdKernel *kernel;
    RtInvocation *inv;
    const IrOp *op;
    Arena *arena;
    Array *arrays; /* operands, then results */
    int num;
} Launch;

static const IrValue *
value_of(const IrOp *op, int i)
{
    return i < op->num_operands ? op->operands[i]
                                : op->results[i - op->num_operands];
}

/* A result that begins as an operand, some of whose rows the kernel changes. */
static bool
begins_as_operand(const Launch *l, int i)
{
    int result = i - l->op->num_operands;
    return result >= 0 && rt_maker_of(l->op, result)->kind == OP_scatter;
}

static bool
read_operands(Launch *l, void *const *ptrs)
{
    void **host = NEW_ARRAY(l->arena, void *, (size_t)l->num + 1);
    for (int i = 0; i < l->num; i++) {
        Array *x = &l->arrays[i];
        bool is_result = i >= l->op->num_operands;
        size_array(l->arena, l->inv, &value_of(l->op, i)->type, x);
        x->at = pointer_at(l->inv->executor, ptrs[i]);
        x->cpu = arena_alloc_on_lines(l->arena, x->bytes);
        x->device = is_result ? arena_alloc_on_lines(l->arena, x->bytes) : NULL;
        host[i] = x->cpu;
        if ((!is_result || begins_as_operand(l, i)) &&
            !read_array(l->inv, x, x->cpu))
            return false;
    }
    l->launch.ptrs = host;
    return true;
}

static bool
read_results(Launch *l)
{
    for (int i = l->op->num_operands; i < l->num; i++) {
        Array *x = &l->arrays[i];
        if (!read_array(l->inv, x, x->device))
            return false;
        x->bits.device = x->device;
        x->bits.cpu = x->cpu;
    }
    return true;
}

static void
run_range(void *data, int64_t begin, int64_t end)
{
    const Launch *l = data;
    l->kernel(l->launch.ptrs, l->launch.dims, begin, end);
}

static void
run_on_host(RtComparison *c, Launch *l)
{
    int64_t grain = l->launch.grain ? l->launch.grain : l->launch.count;
    pthread_mutex_lock(&c->lock);
    if (l->launch.count > 0)
        rt_pool_run(c->pool, run_range, l, l->launch.count, grain);
    c->launches++;
    pthread_mutex_unlock(&c->lock);
}

/* ---- differences --------------------------------------------------------- */

/* Of the greatest element: numbers of TF32 have 10 bits of mantissa, and a
 * result of bf16 that is rounded the other way differs by 1/128. */
#define TF32_NEAR 0x1p-6

static void
note_tf32(IrOp *op, void *data)
{
    bool *found = data;
    *found |= ir_is_tf32(op);
}

static bool
has_tf32(const IrOp *kernel)
{
    bool found = false;
    ir_walk(kernel->regions[0], note_tf32, &found);
    return found;
}

static int32_t
fault_in_launch(Launch *l, int result, int64_t first, bool is_near)
{
    RtExecutor *executor = l->inv->executor;
    const RtRun *run = executor->run;
    Arena *a = executor->arena;
    const RtBits *b = &l->arrays[l->op->num_operands + result].bits;
    RtHostOp h = {.op = rt_maker_of(l->op, result)};
    if (!executor->fault.op)
        rt_note_kernel_lines(l->op, h.op, &executor->fault, a);
    return rt_fault(
        l->inv, &h, STATUS_INPUT,
        "kernel %s has other %s on %s than on the CPU: in step %lld, of this "
        "%s, result %d of the kernel, %s is %s, on the CPU %s; %lld of %lld "
        "elements differ",
        run->plan->kernels[l->launch.kernel],
        is_near ? "values (TF32 explains 1/64 of the greatest)" : "bits",
        executor->device->name,
        (long long)atomic_load(&run->watchdog.steps) + 1,
        rt_operation_name(h.op), result, rt_bits_element(a, b, first),
        rt_bits_value(a, b->dtype, b->device, first),
        rt_bits_value(a, b->dtype, b->cpu, first), (long long)rt_bits_count(b),
        (long long)b->count);
}

static int32_t
find_difference(Launch *l)
{
    RtComparison *c = l->inv->executor->run->comparison;
    bool is_near = has_tf32(l->op), is_rounded = false;
    int64_t first;
    for (int i = 0; i < l->op->num_results; i++) {
        const RtBits *b = &l->arrays[l->op->num_operands + i].bits;
        if (rt_bits_are_equal(b, &first))
            continue;
        if (!is_near || !rt_bits_are_near(b, TF32_NEAR, &first))
            return fault_in_launch(l, i, first, is_near);
        is_rounded = true;
    }
    pthread_mutex_lock(&c->lock);
    c->rounded += is_rounded;
    pthread_mutex_unlock(&c->lock);
    return EXEC_OK;
}

/* A device that has failed ends the program, as without comparing. */
static int32_t
compare(Launch *l, TfdCall *call, void *const *ptrs)
{
    const RtKernelLaunch *on = &l->launch;
    RtRun *run = l->inv->executor->run;
    if (!read_operands(l, ptrs))
        return EXEC_STOPPED;
    int32_t end = rt_hooks.launch(call, on->kernel, ptrs, on->num_ptrs,
                                  on->dims, on->count, on->grain);
    if (end != EXEC_OK)
        return end;
    if (!read_results(l))
        return EXEC_STOPPED;
    run_on_host(run->comparison, l);
    return find_difference(l);
}

static int32_t
compare_launch(TfdCall *call, int32_t kernel, void *const *ptrs,
               int32_t num_ptrs, const int64_t *dims, int64_t items,
               int64_t grain)
{
    RtInvocation *inv = invocation_of(call);
    const RtRun *run = inv->executor->run;
    const IrOp *op = kernel_at(call, inv, kernel);
    if (!op || !is_asked(run))
        return rt_hooks.launch(call, kernel, ptrs, num_ptrs, dims, items,
                               grain);
    assert(num_ptrs == op->num_operands + op->num_results);
    Launch l = {.launch = {.kernel = kernel,
                           .dims = dims,
                           .count = items,
                           .grain = grain,
                           .num_ptrs = num_ptrs},
                .kernel = run->tables.kernels[kernel],
                .inv = inv,
                .op = op,
                .num = num_ptrs,
                .arena = arena_new(NULL, "a launch")};
    l.arrays = NEW_ARRAY(l.arena, Array, (size_t)l.num + 1);
    int32_t end = compare(&l, call, ptrs);
    arena_release(l.arena);
    return end;
}

/* ---- all_reduces --------------------------------------------------------- */

static Reduction *
reduction_of(RtRun *run, const RtCollInstance *instance)
{
    RtComparison *c = run->comparison;
    pthread_mutex_lock(&c->lock);
    Reduction *r = c->reductions;
    while (r && r->instance != instance)
        r = r->next;
    if (!r) {
        r = NEW(c->arena, Reduction);
        *r = (Reduction){instance,
                         NEW_ARRAY(c->arena, Part, (size_t)run->num_replicas),
                         c->reductions};
        c->reductions = r;
    }
    pthread_mutex_unlock(&c->lock);
    return r;
}

static void
array_of(Arena *a, const RtInvocation *inv, const RtHostOp *start, int i,
         bool is_result, Array *x)
{
    const IrValue *v =
        is_result ? start->op->results[i] : start->op->operands[i];
    size_array(a, inv, &v->type, x);
    x->at = rt_device_value(inv, is_result ? &start->out[i] : &start->in[i]);
}

/* Before the replica announces that its operands are there. */
static bool
keep_operands(RtInvocation *inv, const RtHostOp *h)
{
    RtRun *run = inv->executor->run;
    Part *p = &reduction_of(run, h->instance)->parts[inv->executor->replica];
    int set = p->calls++ % 2;
    arena_release(p->copies[set]);
    Arena *a = p->copies[set] = arena_new(NULL, "operands");
    p->operands[set] = NEW_ARRAY(a, char *, (size_t)h->op->num_operands + 1);
    for (int i = 0; i < h->op->num_operands; i++) {
        Array x;
        array_of(a, inv, h, i, false, &x);
        p->operands[set][i] = arena_alloc_on_lines(a, x.bytes);
        if (!read_array(inv, &x, p->operands[set][i]))
            return false;
    }
    return true;
}

static void
combine(const RtRun *run, const Reduction *r, int set, const RtHostOp *start,
        int i, Array *x)
{
    RtReduceOp how = rt_reduce_op_of(start->op);
    Arena *scratch = arena_new(NULL, "operands");
    const void **in =
        NEW_ARRAY(scratch, const void *, (size_t)run->num_replicas);
    void *out = x->cpu;
    for (int k = 0; k < run->num_replicas; k++)
        in[k] = r->parts[k].operands[set][i];
    rt_reduce_kernel(how, x->bits.dtype)(run->num_replicas, in, 1, &out, 0,
                                         x->bits.count);
    arena_release(scratch);
}

/* The kernel that combines an operand on devices with code of their own. */
static const char *
combining_kernel(Arena *a, const IrOp *start, int operand)
{
    int count;
    const char *const *names = ir_names(start, A_kernels, &count);
    return operand < count ? arena_printf(a, ", by kernel %s,", names[operand])
                           : "";
}

static int32_t
fault_in_reduce(RtInvocation *inv, const RtHostOp *h, int result,
                const RtBits *b, int64_t first)
{
    const RtRun *run = inv->executor->run;
    Arena *a = inv->executor->arena;
    return rt_fault(
        inv, h, STATUS_INPUT,
        "this all_reduce%s has other bits on %s than on the CPU: in step %lld, "
        "of its result %d, %s is %s, on the CPU %s; %lld of %lld elements "
        "differ",
        combining_kernel(a, h->op, result), inv->executor->device->name,
        (long long)atomic_load(&run->watchdog.steps) + 1, result,
        rt_bits_element(a, b, first),
        rt_bits_value(a, b->dtype, b->device, first),
        rt_bits_value(a, b->dtype, b->cpu, first), (long long)rt_bits_count(b),
        (long long)b->count);
}

static int32_t
compare_result(Arena *a, RtInvocation *inv, const RtHostOp *start, int i)
{
    int64_t first;
    RtRun *run = inv->executor->run;
    const Reduction *r = reduction_of(run, start->instance);
    int set = (r->parts[inv->executor->replica].calls - 1) % 2;
    Array x;
    array_of(a, inv, start, i, true, &x);
    x.cpu = arena_alloc_on_lines(a, x.bytes);
    x.device = arena_alloc_on_lines(a, x.bytes);
    if (!read_array(inv, &x, x.device))
        return EXEC_STOPPED;
    combine(run, r, set, start, i, &x);
    x.bits.cpu = x.cpu;
    x.bits.device = x.device;
    return rt_bits_are_equal(&x.bits, &first)
               ? EXEC_OK
               : fault_in_reduce(inv, start, i, &x.bits, first);
}

static void
count_reduce(RtComparison *c)
{
    pthread_mutex_lock(&c->lock);
    c->reduces++;
    pthread_mutex_unlock(&c->lock);
}

/* All results of a device are its first replica's, which asks. */
static int32_t
compare_results(RtInvocation *inv, const RtHostOp *done)
{
    const IrOp *op = done->op->operands[0]->def;
    const RtHostOp *start = NULL;
    int32_t end = EXEC_OK;
    for (int i = 0; i < inv->fn->starts.len && !start; i++)
        if (inv->fn->starts.data[i]->op == op)
            start = inv->fn->starts.data[i];
    Arena *a = arena_new(NULL, "an all_reduce");
    for (int i = 0; i < op->num_results && end == EXEC_OK; i++)
        end = compare_result(a, inv, start, i);
    arena_release(a);
    count_reduce(inv->executor->run->comparison);
    return end;
}

static int32_t
compare_op(TfdCall *call, int32_t index)
{
    RtInvocation *inv = invocation_of(call);
    const RtHostOp *h =
        index >= 0 && index < inv->fn->num_ops ? &inv->fn->ops[index] : NULL;
    if (!h || !is_asked(inv->executor->run))
        return rt_hooks.op(call, index);
    if (h->op->kind == OP_all_reduce_start && !keep_operands(inv, h))
        return EXEC_STOPPED;
    int32_t end = rt_hooks.op(call, index);
    return end == EXEC_OK && h->op->kind == OP_all_reduce_done
               ? compare_results(inv, h)
               : end;
}

/* ---- a run that compares ------------------------------------------------- */

/* Code of a GPU, and with it the programs that enqueue kernels. */
static bool
has_code_to_compare(const Plan *p)
{
    for (int i = 0; i < p->num_codes; i++) {
        const TargetInfo *t = p->codes[i].target;
        if (t && !target_formats[t->device].hosts)
            return true;
    }
    return false;
}

Status
rt_open_comparison(RtRun *run)
{
    if (run->caps->machine)
        return status_new(STATUS_USAGE,
                          "--compare: %s executes nothing that could be "
                          "compared",
                          ir_device_name(run->arena, run->device_list.data[0]));
    if (run->size > 1)
        return status_new(STATUS_USAGE,
                          "--compare needs all replicas in one process: run "
                          "it without others");
    if (!has_code_to_compare(run->plan))
        return status_new(STATUS_USAGE,
                          "--compare cpu compares what a GPU computes with the "
                          "CPU, and this plan has code for CPUs alone: leave "
                          "it out, or tfdc --target native,sm_80 makes a plan "
                          "for both");
    RtComparison *c = run->comparison = NEW(run->arena, RtComparison);
    int threads = run->options->num_threads;
    c->hooks = rt_hooks;
    c->hooks.launch = compare_launch;
    c->hooks.op = compare_op;
    c->arena = arena_new(NULL, "comparison");
    pthread_mutex_init(&c->lock, NULL);
    run->hooks = &c->hooks;
    return rt_pool_open(threads > 0 ? threads : num_cores(), false, &c->pool);
}

static void
release_copies(const RtRun *run, const Reduction *r)
{
    for (int i = 0; i < run->num_replicas; i++)
        for (int set = 0; set < 2; set++)
            arena_release(r->parts[i].copies[set]);
}

void
rt_close_comparison(RtRun *run)
{
    RtComparison *c = run->comparison;
    if (!c)
        return;
    for (const Reduction *r = c->reductions; r; r = r->next)
        release_copies(run, r);
    rt_pool_close(c->pool);
    arena_release(c->arena);
}

Status
rt_print_comparison(RtRun *run)
{
    const RtComparison *c = run->comparison;
    fprintf(run->options->out,
            "compared %" PRId64 " launches of kernels and %" PRId64
            " all_reduces with the CPU: equal bits",
            c->launches, c->reduces);
    if (c->rounded)
        fprintf(run->options->out,
                ", but for %" PRId64
                " launches with products in TF32, within 1/64 of the greatest "
                "element",
                c->rounded);
    fputc('\n', run->options->out);
    return rt_flush(run);
}
