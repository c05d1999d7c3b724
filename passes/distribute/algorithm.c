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
            ALGORITHM_reduction_to_one, 0,
            "central_storage combines where its variables are"};
    if (!has_devices(m, DEVICE_cuda))
        return (CollectiveAlgorithm){ALGORITHM_auto, 0,
                                     "all devices share memory"};
    if (!has_host_devices(m))
        return (CollectiveAlgorithm){ALGORITHM_auto, 0, "all devices are GPUs"};
    return (CollectiveAlgorithm){ALGORITHM_reduction_to_one, 0,
                                 "some devices are CPUs and some are GPUs"};
}

static CollectiveAlgorithm
two_phase(const IrModule *m)
{
    return (CollectiveAlgorithm){ALGORITHM_auto, 0,
                                 has_host_devices(m)
                                     ? "it is asked for"
                                     : "two_phase needs memory that all "
                                       "devices share"};
}

CollectiveAlgorithm
pass_algorithm(const IrModule *m)
{
    if (m->algorithm == ALGORITHM_auto)
        return default_algorithm(m);
    if (m->algorithm == ALGORITHM_nccl && has_host_devices(m))
        return (CollectiveAlgorithm){ALGORITHM_reduction_to_one, 0,
                                     "NCCL does not reach devices of the CPU"};
    if (m->algorithm == ALGORITHM_nccl)
        return (CollectiveAlgorithm){ALGORITHM_auto, 0, "NCCL is asked for"};
    if (m->algorithm == ALGORITHM_two_phase)
        return two_phase(m);
    if (m->algorithm == ALGORITHM_ring && !has_devices(m, DEVICE_cpu))
        return (CollectiveAlgorithm){ALGORITHM_auto, 0,
                                     "NCCL chooses its rings by itself"};
    return (CollectiveAlgorithm){m->algorithm, m->packs, "it is asked for"};
}

CollectiveAlgorithm
pass_gather_algorithm(const IrModule *m)
{
    CollectiveAlgorithm w = pass_algorithm(m);
    if (w.algorithm == ALGORITHM_hierarchical_copy)
        return (CollectiveAlgorithm){ALGORITHM_reduction_to_one, 0,
                                     "hierarchical_copy does not gather"};
    if (w.algorithm == ALGORITHM_ring)
        return (CollectiveAlgorithm){ALGORITHM_auto, 0, "ring does not gather"};
    return w;
}

/* The symmetric algorithm has two phases in shared memory on CPUs; without CPU
 * devices it is NCCL's. */
const char *
pass_algorithm_name(const IrModule *m, const CollectiveAlgorithm *w)
{
    if (w->algorithm)
        return ir_words[WORDS_ALGORITHM][w->algorithm];
    return has_host_devices(m) ? "two_phase" : "nccl";
}
