"""What NVIDIA publishes of the GPUs that the model is for, and occupancy.

Sources: [1] NVIDIA A100 Tensor Core GPU Architecture, V1.0, tables 1, 4 and 5;
[2] NVIDIA H100 Tensor Core GPU Architecture, V1.04, tables 1 to 3; [3] CUDA C++
Programming Guide, "Compute Capabilities" (technical specifications, arithmetic
throughput); [4] Jia et al., "Dissecting the NVIDIA Volta GPU Architecture via
Microbenchmarking", 2018, and Luo et al., "Benchmarking and Dissecting the
NVIDIA Hopper GPU Architecture via Microbenchmarking", 2024 (latencies, L2).
docs/gpu.md has the formula.
"""
from dataclasses import dataclass


@dataclass(frozen=True)
class Gpu:
    name: str
    target: str           # that ptxas assembles for
    text: str             # whose PTX a plan has for it
    processors: int       # SMs
    clock: float          # Hz, boost
    memory: float         # bytes a second
    l2: float             # bytes a second from the L2 cache
    fp32: int             # lanes a clock and SM: FFMA, FADD, FMUL
    fp64: int
    special: int          # lanes a clock and SM of the special function unit
    shared_sm: int        # bytes of shared memory of an SM
    mma: float            # clocks of an SM for a warp's m16n8k8 of TF32,
                          # or its m16n8k16 of bf16 and f16
    latency: float = 550  # clocks from a load to its use, of DRAM
    chain: float = 4.5    # clocks from an arithmetic instruction to its user
    barrier: float = 30   # clocks of a barrier among warps that are there
    launch: float = 3e-6  # seconds of a kernel in a graph, with its end
    issue: int = 4        # warp instructions a clock and SM
    shared: int = 128     # bytes a clock and SM of shared memory
    warps: int = 64       # of an SM, at most
    blocks: int = 32
    registers: int = 65536


GPUS = {
    "A100": Gpu("A100 SXM", "sm_80", "sm_80", 108, 1.410e9, 2.039e12, 4.5e12,
                64, 32, 16, 164 * 1024, 2.0),
    "H100": Gpu("H100 SXM", "sm_90", "sm_90", 132, 1.980e9, 3.352e12, 5.5e12,
                128, 64, 16, 228 * 1024, 1.6),
}

RESERVED = 1024     # bytes of shared memory that a block takes for itself
REGISTER_UNIT = 256  # registers of a warp are allocated in so many


def blocks_of_processor(gpu, threads, registers, shared):
    """How many blocks of a kernel an SM executes at once."""
    warps = -(-threads // 32)
    unit = -(-registers * 32 // REGISTER_UNIT) * REGISTER_UNIT
    fit = gpu.registers // max(unit, 1) // 4 * 4
    return min(gpu.blocks, gpu.warps // warps, fit // warps,
               gpu.shared_sm // (shared + RESERVED))


def occupancy(gpu, threads, registers, shared):
    """The share of an SM's warps that such blocks are."""
    warps = -(-threads // 32)
    return blocks_of_processor(gpu, threads, registers, shared) * warps / gpu.warps
