/*
 * algorithm.c - the algorithms of collectives
 */
#include "passes/distribute/algorithm.h"

#include "ir/device/device.h"

static bool
has_devices(const IrModule *m, IrDeviceKind kind)
{
    return ir_devices_have(m->devices, kind);
}

/* CPU devices, and those that tests have in their place. */
static bool
has_host_devices(const IrModule *m)
{
    return has_devices(m, DEVICE_cpu) || has_devices(m, DEVICE_sandbox);
}

/* The strategy's default algorithm. */
static CollectiveAlgorithm
default_algorithm(const IrModule *m)
{
    if (ir_strategy_info[m->strategy].central)
        return (CollectiveAlgorithm){
            ALGORITHM_reduction_to_one, 0, m->home,
            "central_storage combines where its variables are"};
    if (m->num_workers > 1 &&
        !(has_devices(m, DEVICE_cuda) && has_host_devices(m)))
        return (CollectiveAlgorithm){
            ALGORITHM_auto, 0, 0,
            "devices of a worker first, then workers over the network"};
    if (!has_devices(m, DEVICE_cuda))
        return (CollectiveAlgorithm){ALGORITHM_auto, 0, 0,
                                     "all devices share memory"};
    if (!has_host_devices(m))
        return (CollectiveAlgorithm){ALGORITHM_auto, 0, 0,
                                     "all devices are GPUs"};
    return (CollectiveAlgorithm){ALGORITHM_reduction_to_one, 0, 0,
                                 "some devices are CPUs and some are GPUs"};
}

/* What a collective, or for all of them the strategy or the command line, asks
 * for. */
typedef struct Asked {
    IrAlgorithm algorithm;
    int packs, root;
    const char *why;
} Asked;

static Asked
asked_for(const IrModule *m, const IrOp *op)
{
    if (op && ir_has(op, A_implementation)) {
        bool has_packs = ir_attr_index(op->kind, A_packs) >= 0;
        return (Asked){(IrAlgorithm)ir_enum(op, A_implementation),
                       has_packs ? (int)ir_int(op, A_packs) : 0,
                       (int)ir_int(op, A_root), "the call asks for it"};
    }
    return (Asked){m->algorithm, m->packs, m->root, "it is asked for"};
}

static bool
is_nccl(IrAlgorithm algorithm)
{
    return algorithm == ALGORITHM_nccl || algorithm == ALGORITHM_nccl_allreduce;
}

/* Where some values are NaN, maximum and minimum are (IEEE 754-2019), and those
 * of NCCL are of the other values. */
static bool
drops_nan(const IrOp *op)
{
    if (!op || op->kind != OP_all_reduce ||
        (ir_enum(op, A_op) != AGG_max && ir_enum(op, A_op) != AGG_min))
        return false;
    for (int i = 0; i < op->num_operands; i++)
        if (dtype_is_float(op->operands[i]->type.dtype))
            return true;
    return false;
}

/* By messages of NCCL and kernels of the plan. */
static CollectiveAlgorithm
over_nccl(const IrModule *m, const char *why)
{
    return (CollectiveAlgorithm){
        is_nccl(m->algorithm) ? ALGORITHM_auto : ALGORITHM_nccl, 0, 0, why};
}

CollectiveAlgorithm
pass_algorithm(const IrModule *m, const IrOp *op)
{
    Asked asked = asked_for(m, op);
    if (asked.algorithm == ALGORITHM_auto)
        return default_algorithm(m);
    if (is_nccl(asked.algorithm) && has_host_devices(m))
        return (CollectiveAlgorithm){ALGORITHM_reduction_to_one, 0, 0,
                                     "NCCL does not reach devices of the CPU"};
    if (asked.algorithm == ALGORITHM_nccl)
        return over_nccl(m, "NCCL is asked for");
    if (asked.algorithm == ALGORITHM_nccl_allreduce && drops_nan(op))
        return over_nccl(m, "maxima and minima of ncclAllReduce are those of "
                            "what is not NaN");
    if (asked.algorithm == ALGORITHM_nccl_allreduce)
        return (CollectiveAlgorithm){
            asked.algorithm, 0, 0,
            "it is asked for; the order of sums is NCCL's, not that of a run "
            "on other devices"};
    if (asked.algorithm == ALGORITHM_two_phase)
        return (CollectiveAlgorithm){ALGORITHM_auto, 0, 0, asked.why};
    return (CollectiveAlgorithm){asked.algorithm, asked.packs, asked.root,
                                 asked.why};
}

CollectiveAlgorithm
pass_gather_algorithm(const IrModule *m, const IrOp *op)
{
    CollectiveAlgorithm w = pass_algorithm(m, op);
    if (w.algorithm == ALGORITHM_hierarchical_copy)
        return (CollectiveAlgorithm){ALGORITHM_reduction_to_one, 0, 0,
                                     "hierarchical_copy does not gather"};
    if (w.algorithm == ALGORITHM_nccl_allreduce)
        return over_nccl(m, "ncclAllReduce does not gather");
    if (w.algorithm == ALGORITHM_ring)
        return (CollectiveAlgorithm){ALGORITHM_auto, 0, 0,
                                     "ring does not gather"};
    return w;
}

/* "cpu:1", or where workers have equal names "cpu:1 of worker 2". */
const char *
pass_device_name(const IrModule *m, int replica)
{
    IrDevices devices = {0};
    if (ir_devices_parse(m->arena, m->devices, &devices) || !devices.len)
        return m->devices;
    const char *name =
        ir_device_name(m->arena, devices.data[replica % devices.len]);
    if (m->num_workers == 1)
        return name;
    return arena_printf(m->arena, "%s of worker %d", name,
                        replica / devices.len);
}

/* The symmetric algorithm is two_phase, on whatever it is carried out. */
const char *
pass_algorithm_name(const IrModule *m, const CollectiveAlgorithm *w)
{
    if (w->algorithm == ALGORITHM_reduction_to_one)
        return arena_printf(m->arena, "%s on %s",
                            ir_words[WORDS_ALGORITHM][w->algorithm],
                            pass_device_name(m, w->root));
    if (w->algorithm)
        return ir_words[WORDS_ALGORITHM][w->algorithm];
    return is_nccl(m->algorithm) ? "nccl" : "two_phase";
}
