#!/usr/bin/env python3
"""How long a step takes on an A100 and an H100, by a model: for comparing
versions of the compiler, not a result.

  model.py MEASURE ROOT [PROGRAM...] [--kernels] [--tf32] [-D NAME=VALUE]

Compiles the programs (charlm and GPT-2 124M if none is named; a path from ROOT
otherwise) for one GPU, takes registers from ptxas, the instructions of a
launch's first block from the emulator, and the share of multiply-adds in main
loops from nvdisasm, and prints what bounds the kernels of a step, and their sum.
--kernels prints a row for each; with --tf32 products are for tensor cores.  The formula and its constants are in
docs/gpu.md, "Model", and in gpus.py.
"""
import argparse
import collections
import os
import sys
import tempfile

sys.dont_write_bytecode = True

import assembler
import gpus
import programs

DEFAULT = ["docs/examples/charlm.tfd", "tests/bench/gpu/gpt2.tfd"]

# Machine instructions besides the first of a division or square root.
DIVISION = 8
# Independent instructions of a warp between one and its user.
PARALLEL = 2.0

Prediction = collections.namedtuple(
    "Prediction", "seconds bound grid occupancy parts")


def issue_clocks(gpu, c, share):
    """Clocks that an SM needs to issue the instructions of a block alone.
    share: that of multiply-adds in the main loop of a contraction, or None."""
    instructions = c["instructions"] + DIVISION * c["special"]
    if share and not c["mma"]:
        instructions = max(c["fma"] / share, c["fma"])
    return max(instructions / gpu.issue,
               c["mma"] * gpu.mma,
               (c["floats"] - c["doubles"]) * 32 / gpu.fp32,
               c["doubles"] * 32 / gpu.fp64,
               c["special"] * 32 / gpu.special,
               c["shared_bytes"] / gpu.shared)


def path_clocks(gpu, c):
    """Clocks from a warp's first instruction to its last, if nothing else
    executes."""
    warps = max(1, c["threads"] // 32)
    return (c["instructions"] / warps * gpu.chain / PARALLEL +
            c.get("load_groups", c["loads"]) / warps * gpu.latency +
            c["barriers"] / warps * gpu.barrier)


def predict(gpu, usage, c, most, array_bytes, share=None):
    """Of a kernel: at most so many blocks have work; c are the counts of its launch's first block, which has most
    to do."""
    shared = max(usage.shared, c.get("shared", 0))
    blocks = max(1, gpus.blocks_of_processor(gpu, c["threads"],
                                             usage.registers, shared))
    grid = max(1, min(most, gpu.processors * blocks))
    resident = -(-grid // gpu.processors)
    parts = {
        "issue": resident * issue_clocks(gpu, c, share) / gpu.clock,
        "latency": path_clocks(gpu, c) / gpu.clock,
        "memory": max(min(array_bytes, grid * c["needed"]) / gpu.memory,
                      grid * c["requested"] / gpu.l2),
        "launch": gpu.launch,
    }
    bound = max(parts, key=parts.get)
    rest = max(parts[p] for p in ("issue", "latency", "memory"))
    return Prediction(gpu.launch + rest, bound, grid,
                      gpus.occupancy(gpu, c["threads"], usage.registers, shared),
                      parts)


class Model:
    """A program's step on one GPU."""

    def __init__(self, program, tools, gpu):
        ptxas, nvdisasm = tools
        cubin = f"{program.out}.{gpu.target}.cubin"
        job = assembler.start_assembling(ptxas, program.text(gpu.text),
                                         gpu.target, cubin)
        usage = assembler.read_usage(job.communicate()[0])
        sass = assembler.disassemble(nvdisasm, cubin) if nvdisasm else {}
        self.rows = []
        for k in program.kernels.values():
            if k.runs:
                self.rows.append(self.row(program, gpu, k, usage[k.name],
                                          sass.get(k.name, [])))

    @staticmethod
    def row(program, gpu, k, usage, sass):
        blocks = max(1, gpus.blocks_of_processor(gpu, 256, usage.registers,
                                                 usage.shared))
        most = min(k.items, k.blocks)
        grid = max(1, min(most, gpu.processors * blocks))
        counts = program.launch(k.name, gpu.text, grid, 1)
        again = predict(gpu, usage, counts, most, k.bytes).grid
        if again != grid:
            counts = program.launch(k.name, gpu.text, again, 1)
        loop = k.form == "contraction" and assembler.main_loop(sass)
        share = loop and loop.multiply_adds / loop.instructions
        return k, predict(gpu, usage, counts, most, k.bytes, share)

    @property
    def seconds(self):
        return sum(k.runs * p.seconds for k, p in self.rows)

    def bounds(self):
        """(seconds, launches) by bound."""
        sums = collections.defaultdict(lambda: [0.0, 0])
        for k, p in self.rows:
            sums[p.bound][0] += k.runs * p.seconds
            sums[p.bound][1] += k.runs
        return sums


def print_kernels(models):
    """The most expensive first."""
    first = models[0][1]
    others = [{k.name: p for k, p in m.rows} for _, m in models]
    print(f"{'line':>5} {'runs':>4} {'form':<11}", end="")
    for name, _ in models:
        print(f" | {name}: {'grid':>5} {'occup.':>6} {'us':>9} {'bound':<7}",
              end="")
    print("  kernel")
    for k, _ in sorted(first.rows, key=lambda r: -r[0].runs * r[1].seconds):
        print(f"{k.line:>5} {k.runs:>4} {k.form:<11}", end="")
        for (name, _), found in zip(models, others):
            p = found[k.name]
            print(f" | {'':{len(name)}}  {p.grid:>5} {100 * p.occupancy:>5.0f}% "
                  f"{1e6 * p.seconds:>9.1f} {p.bound:<7}", end="")
        print(f"  {k.name}")


def print_sums(program, models):
    for name, m in models:
        print(f"{program}, {name}: a step takes {1e3 * m.seconds:.2f} ms, "
              f"{sum(k.runs for k, _ in m.rows)} launches")
        for bound, (seconds, launches) in sorted(m.bounds().items(),
                                                 key=lambda b: -b[1][0]):
            print(f"  {bound:<8} {100 * seconds / m.seconds:5.1f} % of the time, "
                  f"{launches} launches")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("measure")
    parser.add_argument("root")
    parser.add_argument("programs", nargs="*")
    parser.add_argument("--kernels", action="store_true")
    parser.add_argument("--tf32", action="store_true")
    parser.add_argument("-D", dest="defines", action="append", default=[])
    args = parser.parse_args()
    tools = (assembler.find_tool("ptxas", args.root),
             assembler.find_tool("nvdisasm", args.root))
    if not tools[0]:
        sys.exit("model: no ptxas, which comes with CUDA")
    if not tools[1]:
        print("no nvdisasm: instructions of contractions are those of PTX")
    for path in args.programs or DEFAULT:
        with tempfile.TemporaryDirectory(prefix="tfd-model-") as folder:
            source = programs.Source(path, "cuda:0", args.tf32, args.defines)
            program = programs.Program(args.measure, args.root, folder, source)
            models = [(name, Model(program, tools, gpu))
                      for name, gpu in gpus.GPUS.items()]
            program.close()
        if args.kernels:
            print_kernels(models)
        print_sums(os.path.basename(path).removesuffix(".tfd"), models)
    return 0


if __name__ == "__main__":
    sys.exit(main())
