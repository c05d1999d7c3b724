/*
 * cost.c - how long a device program would take
 */
#include "ir/analysis/cost.h"

#include <assert.h>
#include <math.h>
#include "ir/analysis/per_replica.h"
#include "ir/ops/op.h"
#include "ir/type_bounds.h"

const IrMachine ir_machines[NUM_DEVICE_KINDS] = {
#define MACHINE(kind, operations, bytes, link_bytes, kernel, collective,       \
                memory, network_bytes, network)                                \
    [DEVICE_##                                                                 \
        kind] = {operations, bytes, link_bytes, kernel, collective, memory},
#include "ir/analysis/machines.def"
#undef MACHINE
};

/* The same devices, of workers that a network connects. */
static const IrMachine networked[NUM_DEVICE_KINDS] = {
#define MACHINE(kind, operations, bytes, link_bytes, kernel, collective,       \
                memory, network_bytes, network)                                \
    [DEVICE_##                                                                 \
        kind] = {operations, bytes, network_bytes, kernel, network, memory},
#include "ir/analysis/machines.def"
#undef MACHINE
};

const IrMachine *
ir_machine_of(const IrModule *m)
{
    const IrMachine *slowest = NULL;
    const IrMachine *all = m->num_workers > 1 ? networked : ir_machines;
    for (int i = 0; i < NUM_DEVICE_KINDS; i++)
        if (ir_devices_have(m->devices, (IrDeviceKind)i) &&
            (!slowest || all[i].link_bytes < slowest->link_bytes))
            slowest = &all[i];
    return slowest ? slowest : &all[DEVICE_cpu];
}

typedef struct Cost {
    const IrModule *module;
    const IrMachine *machine;
    bool fused; /* operations that are in no kernel cost nothing */
} Cost;

/* ---- one kernel --------------------------------------------------------- */

static double
bytes_of(const Cost *c, const IrValue *v)
{
    int64_t bytes;
    return ir_type_bytes(c->module, &v->type, &bytes) ? (double)bytes : 0.0;
}

static double
elements_of(const Cost *c, const IrValue *v)
{
    return bytes_of(c, v) / (double)dtype_info[v->type.dtype].bytes;
}

static double
all_bytes(const Cost *c, int n, IrValue *const *values)
{
    double sum = 0.0;
    for (int i = 0; i < n; i++)
        sum += bytes_of(c, values[i]);
    return sum;
}

/* The number of products that each element of the result sums. */
static double
products_of_dot(const Cost *c, const IrOp *op)
{
    int n;
    double k = 1.0;
    const IrType *x = &op->operands[0]->type;
    const int64_t *axes = ir_ints(op, A_contract_x, &n);
    for (int i = 0; i < n; i++)
        k *= (double)ir_dim_full(c->module, x->dims[axes[i]]).c;
    return k;
}

/* The same for each output of a convolution, whose windows are [height, width,
 * channels, outputs]. */
static double
products_of_conv(const Cost *c, const IrValue *windows)
{
    const IrType *t = &windows->type;
    double outputs = (double)ir_dim_full(c->module, t->dims[t->rank - 1]).c;
    return elements_of(c, windows) / fmax(1.0, outputs);
}

static double
operations_of_contraction(const Cost *c, const IrOp *op)
{
    switch (op->kind) {
    case OP_dot:
        return 2.0 * elements_of(c, op->results[0]) * products_of_dot(c, op);
    case OP_conv:
        return 2.0 * elements_of(c, op->results[0]) *
               products_of_conv(c, op->operands[1]);
    case OP_conv_weights:
        return 2.0 * elements_of(c, op->operands[1]) *
               products_of_conv(c, op->results[0]);
    default:
        return 0.0;
    }
}

/* Whether the scatter changes rows where they are: its value is an operand of
 * the kernel, which has the result in the same bytes once it has any. */
static bool
changes_in_place(const IrOp *op)
{
    const IrValue *x = op->operands[0];
    const IrOp *kernel = op->block->op;
    if (x->block != op->block || !kernel || kernel->kind != OP_kernel)
        return false;
    const IrOp *yield = ir_block_yield(op->block);
    for (int i = 0; i < yield->num_operands; i++)
        if (yield->operands[i] == op->results[0])
            return ir_place_equal(kernel->operands[x->index]->place,
                                  kernel->results[i]->place);
    return false;
}

/* Of a value of which op reads or changes a part, its first operand, the value
 * that has as many elements as the part; NULL: it reads and makes all of what
 * it has. */
static const IrValue *
part_of(const IrOp *op)
{
    switch (op->kind) {
    case OP_slice:
    case OP_take:
        return op->results[0];
    case OP_scatter:
        return changes_in_place(op) ? op->operands[2] : NULL;
    default:
        return NULL;
    }
}

/* Instructions of an operation within a kernel: those of a contraction's
 * products, or those of each element of its largest value. */
static double
operations_of(const Cost *c, const IrOp *op)
{
    double most = 0.0, products = operations_of_contraction(c, op);
    const IrValue *part = part_of(op);
    if (op->kind == OP_constant || op->kind == OP_yield || products > 0.0)
        return products;
    for (int i = part ? 1 : 0; i < op->num_operands; i++)
        most = fmax(most, elements_of(c, op->operands[i]));
    for (int i = 0; i < op->num_results; i++)
        most = fmax(most, elements_of(c, part ? part : op->results[i]));
    return most * ir_op_code(op->kind)->cost;
}

/* Bytes of v, an operand of the kernel, that its operations do not read, since
 * each of them reads or changes parts. */
static double
unread_bytes(const Cost *c, const IrOp *kernel, const IrValue *v)
{
    double read = 0.0, all = bytes_of(c, v);
    for (const IrOp *op = kernel->regions[0]->first; op; op = op->next)
        for (int i = 0; i < op->num_operands; i++) {
            const IrValue *part = i == 0 ? part_of(op) : NULL;
            if (op->operands[i] == v)
                read += part ? bytes_of(c, part) : all;
        }
    return fmax(all - read, 0.0);
}

/* Operands and results, but for what stays in memory as it is. */
static double
bytes_of_kernel(const Cost *c, const IrOp *kernel)
{
    const IrBlock *body = kernel->regions[0];
    const IrOp *yield = ir_block_yield(body);
    double bytes = all_bytes(c, kernel->num_operands, kernel->operands) +
                   all_bytes(c, kernel->num_results, kernel->results);
    bool has_parts = false;
    for (const IrOp *op = body->first; op; op = op->next)
        has_parts |= part_of(op) != NULL;
    for (int i = 0; has_parts && i < body->args.len; i++)
        bytes -= unread_bytes(c, kernel, body->args.data[i]);
    for (int i = 0; has_parts && i < yield->num_operands; i++) {
        const IrOp *op = yield->operands[i]->def;
        if (op && op->kind == OP_scatter && changes_in_place(op))
            bytes -= fmax(bytes_of(c, yield->operands[i]) -
                              bytes_of(c, op->operands[2]),
                          0.0);
    }
    return bytes;
}

/* One that is in no kernel yet. */
static double
seconds_of_single(const Cost *c, const IrOp *op)
{
    const IrMachine *machine = c->machine;
    if (c->fused || ir_op_info[op->kind].effect != PURE)
        return 0.0;
    double seconds = operations_of(c, op) / machine->operations;
    if (operations_of_contraction(c, op) == 0.0)
        return seconds;
    double bytes = all_bytes(c, op->num_operands, op->operands) +
                   all_bytes(c, op->num_results, op->results);
    return machine->kernel + fmax(seconds, bytes / machine->bytes);
}

static IrKernelWork
work_in_kernel(const Cost *c, const IrOp *kernel)
{
    IrKernelWork w = {0};
    for (const IrOp *op = kernel->regions[0]->first; op; op = op->next)
        w.operations += operations_of(c, op);
    w.bytes = bytes_of_kernel(c, kernel);
    return w;
}

static double
seconds_of_kernel(const Cost *c, const IrOp *kernel)
{
    const IrMachine *machine = c->machine;
    IrKernelWork w = work_in_kernel(c, kernel);
    return machine->kernel +
           fmax(w.operations / machine->operations, w.bytes / machine->bytes);
}

IrKernelWork
ir_kernel_work(const IrModule *m, const IrOp *kernel)
{
    return work_in_kernel(&(Cost){.module = m}, kernel);
}

double
ir_op_operations(const IrModule *m, const IrOp *op)
{
    return operations_of(&(Cost){.module = m}, op);
}

/* ---- collectives -------------------------------------------------------- */

/* A ring or two phases: of n parts, each device sends n - 1.  On a network each
 * worker does, for the devices that it has combined. */
static double
seconds_on_link(const IrModule *m, const IrMachine *machine, int num_devices,
                double bytes)
{
    int workers = m->num_workers > 1 ? m->num_workers : num_devices;
    double n = workers < num_devices ? workers : num_devices;
    double rounds = (n - 1.0) / n;
    return rounds * bytes / machine->link_bytes;
}

/* Once to reduce and once to gather. */
double
ir_transfer_seconds(const IrModule *m, const IrMachine *machine, double bytes)
{
    return seconds_on_link(m, machine, m->num_replicas, 2.0 * bytes);
}

static IrProgramWork
work_of_collective(const Cost *c, const IrOp *op)
{
    bool reduces = op->kind == OP_all_reduce_start || op->kind == OP_all_reduce;
    IrProgramWork w = {.collectives = 1.0};
    if (reduces)
        w.reduced = all_bytes(c, op->num_operands, op->operands);
    else
        w.gathered = all_bytes(c, op->num_results, op->results);
    return w;
}

/* ---- programs ----------------------------------------------------------- */

static void
add_work(IrProgramWork *to, const IrProgramWork *w, double times)
{
    to->once.seconds += times * w->once.seconds;
    to->once.kernels += times * w->once.kernels;
    to->each.seconds += times * w->each.seconds;
    to->each.kernels += times * w->each.kernels;
    to->collectives += times * w->collectives;
    to->reduced += times * w->reduced;
    to->gathered += times * w->gathered;
}

/* The constant that a kernel yields, if that is all it does; 1 for any other
 * value. */
static double
constant_of(const IrValue *v)
{
    const IrOp *op = v->def;
    if (!op || op->kind != OP_kernel)
        return 1.0;
    const IrOp *last = op->regions[0]->first;
    if (!last || last->kind != OP_constant)
        return 1.0;
    int64_t size;
    DType t = last->results[0]->type.dtype;
    const char *data = ir_data(last, A_data, &size);
    return fmax(0.0, scalar_cast(scalar_load(t, data, 0), DT_f64).f);
}

static IrProgramWork work_of_block(const Cost *c, const IrBlock *b, bool each);

static double
seconds_of_work(const Cost *c, const IrProgramWork *w)
{
    return ir_work_seconds(c->module, w, c->machine, c->module->num_replicas);
}

static IrProgramWork
work_of_regions(const Cost *c, const IrOp *op, bool each)
{
    IrProgramWork longest = {0}, sum = {0};
    double times = op->kind == OP_for ? constant_of(op->operands[0]) : 1.0;
    for (int r = 0; r < op->num_regions; r++) {
        IrProgramWork w = work_of_block(c, op->regions[r], each);
        if (seconds_of_work(c, &w) >= seconds_of_work(c, &longest))
            longest = w;
        add_work(&sum, &w, times);
    }
    return op->kind == OP_if ? longest : sum;
}

static IrProgramWork
work_of_kernel(const Cost *c, const IrOp *op, bool each)
{
    IrWork w = {seconds_of_kernel(c, op), 1.0};
    return each ? (IrProgramWork){.each = w} : (IrProgramWork){.once = w};
}

static IrProgramWork
work_of_single(const Cost *c, const IrOp *op)
{
    return (IrProgramWork){.each = {seconds_of_single(c, op), 0.0}};
}

/* each: within an operation that every replica executes by itself. */
static IrProgramWork
work_of_op(const Cost *c, const IrOp *op, bool each)
{
    each = each || (c->fused && ir_op_is_per_replica(op));
    switch (op->kind) {
    case OP_kernel:
        return work_of_kernel(c, op, each);
    case OP_all_reduce:
    case OP_all_gather:
    case OP_all_reduce_start:
    case OP_all_gather_start:
        return work_of_collective(c, op);
    default:
        return op->num_regions ? work_of_regions(c, op, each)
                               : work_of_single(c, op);
    }
}

static IrProgramWork
work_of_block(const Cost *c, const IrBlock *b, bool each)
{
    IrProgramWork sum = {0};
    for (const IrOp *op = b->first; op; op = op->next) {
        IrProgramWork w = work_of_op(c, op, each);
        add_work(&sum, &w, 1.0);
    }
    return sum;
}

IrProgramWork
ir_program_work(const IrModule *m, const IrFunc *fn, const IrMachine *machine)
{
    Cost c = {m, machine, .fused = true};
    assert(fn->kind == FUNC_PROGRAM);
    return work_of_block(&c, fn->body, false);
}

double
ir_work_seconds(const IrModule *m, const IrProgramWork *w,
                const IrMachine *machine, int num_devices)
{
    double each = m->num_replicas / num_devices;
    return w->once.seconds + each * w->each.seconds +
           w->collectives * machine->collective +
           seconds_on_link(m, machine, num_devices, 2.0 * w->reduced) +
           seconds_on_link(m, machine, num_devices, w->gathered);
}

double
ir_work_bytes_between(const IrModule *m, const IrProgramWork *w,
                      int num_devices)
{
    double replicas = m->num_replicas, devices = num_devices;
    double operands = replicas - replicas / devices, results = devices - 1.0;
    return (operands + results) * w->reduced + results * w->gathered;
}

double
ir_program_seconds(const IrModule *m, const IrFunc *fn,
                   const IrMachine *machine, int num_devices)
{
    IrProgramWork w = ir_program_work(m, fn, machine);
    return ir_work_seconds(m, &w, machine, num_devices);
}

double
ir_op_seconds(const IrModule *m, const IrOp *op, const IrMachine *machine)
{
    Cost c = {m, machine, .fused = false};
    IrProgramWork w = work_of_op(&c, op, true);
    return seconds_of_work(&c, &w);
}
