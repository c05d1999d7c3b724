#!/usr/bin/env python3
"""What NVIDIA's assembler makes of the kernels, and what they ask of memory.

  check.py MEASURE ROOT [--all | PROGRAM...] [--table] [--bless]

Of each kernel that a step of an example launches, at the example's own sizes:

  spills      ptxas -v for sm_80, sm_90 and sm_100: no spills, and no local
              memory but what the PTX declares
  registers   at most those of pins.txt
  loops       of contractions of f32: the share of multiply-adds (FFMA) among the
              instructions of the main loop, and how many there are for each
              load from shared memory, by nvdisasm
  accesses    of elementwise kernels: the share of the bytes that accesses of 16
              bytes a thread move, on the emulator
  bytes       moved for each byte needed: sectors of 32 bytes, each counted once
              for a block, on the emulator

pins.txt has the figures of today: none may become worse.  TFD_BLESS=1 or
--bless writes it.  misses.txt has the kernels that miss a target of TARGETS,
each with the reason; a miss that it does not have is a failure, and so is a
row of it that is none.  Without --all it takes a sample of the examples;
TFD_SWEEP=1:SEED chooses another one.  --table prints a row for each kernel.
"""
import argparse
import collections
import os
import random
import re
import statistics
import sys
import tempfile

sys.dont_write_bytecode = True

import assembler
import gpus
import programs

HERE = os.path.dirname(os.path.abspath(__file__))
PINS, MISSES = (os.path.join(HERE, n) for n in ("pins.txt", "misses.txt"))
TARGETS_OF_GPUS = ["sm_80", "sm_90", "sm_100"]
TEXT_OF = {"sm_80": "sm_80", "sm_90": "sm_90", "sm_100": "sm_90"}

# Always checked, and how many of the others.
SAMPLE, OTHERS = ["charlm", "convnet", "gpt2", "gpt2_tf32", "gpt2_bf16",
                  "convnet_tf32"], 1
# Smaller kernels are a matter of latency; nothing is asked of them.
FEW_BYTES, FEW_FMAS = 16 * 1024, 1 << 20

# What a kernel should reach: the measure, at least or at most, the figure.
Target = collections.namedtuple("Target", "measure at_least figure")
TARGETS = [
    Target("ffma", True, 0.88),      # of the main loop's instructions
    Target("ffma_lds", True, 16.0),  # for each load from shared memory
    Target("wide", True, 0.90),      # bytes by accesses of 16 bytes
    Target("moved", False, 1.15),    # bytes for each byte needed
]
SLACK = 0.011  # figures are rounded to two digits

Row = collections.namedtuple(
    "Row", "program kernel line form sm_80 sm_90 sm_100 ffma ffma_lds wide moved")


# ---- tables -----------------------------------------------------------------

def read_table(path):
    """Rows of words by (program, kernel), and the comments above them."""
    rows, head = {}, []
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            if line.startswith("#"):
                head.append(line)
            elif words := line.split():
                rows[tuple(words[:2])] = words
    return rows, head


def read_pins():
    rows, _ = read_table(PINS) if os.path.exists(PINS) else ({}, [])
    return {key: Row(*(None if w == "-" else w for w in words))
            for key, words in rows.items()}


def shown(value):
    if value is None:
        return "-"
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def write_pins(rows, version):
    widths = [max(len(shown(v)) for v in column)
              for column in zip(Row._fields, *rows)]
    with open(PINS, "w", encoding="utf-8") as out:
        out.write("# Figures of kernels that no change may make worse: registers of a thread,\n"
                  "# shares, ratios (check.py).  TFD_BLESS=1 writes this file.\n"
                  f"# ptxas {version[0]}.{version[1]}\n")
        for row in [Row(*("# " + Row._fields[0], *Row._fields[1:])), *rows]:
            out.write(" ".join(shown(v).ljust(w) for v, w in zip(row, widths))
                      .rstrip() + "\n")


def version_of_pins():
    if os.path.exists(PINS):
        for line in read_table(PINS)[1]:
            if m := re.match(r"# ptxas (\d+)\.(\d+)", line):
                return int(m[1]), int(m[2])
    return None


def read_misses():
    """(program, kernel, measure) to reason; a "*" stands for any."""
    found = {}
    with open(MISSES, encoding="utf-8") as lines:
        for line in lines:
            words = line.split(None, 3)
            if words and not line.startswith("#"):
                found[tuple(words[:3])] = words[3].strip() if words[3:] else ""
    return found


# ---- measuring --------------------------------------------------------------

def declared(path):
    """By kernel: the bytes of local memory that its text declares, and the
    threads of a block."""
    local, threads, name = {}, {}, None
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            if m := re.search(r"\.entry (\w+)", line):
                name = m[1]
            elif m := re.search(r"\.local .*\[(\d+)\]", line):
                local[name] = local.get(name, 0) + int(m[1])
            elif m := re.search(r"\.reqntid (\d+)", line):
                threads[name] = int(m[1])
    return local, threads


class Measured:
    """One program: usage by target and kernel, and a Row for each kernel of its
    step."""

    def __init__(self, program, tools, targets, executes):
        self.name, self.kernels = program.name, program.kernels
        self.executes = executes  # launches, on the emulator
        self.local, self.threads = declared(program.text("sm_80"))
        jobs = {t: assembler.start_assembling(
            tools.ptxas, program.text(TEXT_OF[t]), t, f"{program.out}.{t}.cubin")
            for t in targets}
        self.usage, self.errors = {}, []
        for target, job in jobs.items():
            text = job.communicate()[0]
            self.usage[target] = assembler.read_usage(text)
            if job.returncode:
                self.errors.append(f"ptxas -arch={target}: {text.strip()}")
        self.sass = {}
        if tools.nvdisasm and not self.errors:
            self.sass = assembler.disassemble(
                tools.nvdisasm, f"{program.out}.sm_90.cubin")
        self.counts = {}
        self.rows = [self.measure(program, k) for k in program.kernels.values()
                     if k.runs]

    def registers(self, target, kernel):
        usage = self.usage.get(target, {}).get(kernel)
        return usage and usage.registers

    def grid(self, k):
        """Blocks that an H100 would be given."""
        gpu, usage = gpus.GPUS["H100"], self.usage["sm_90"][k.name]
        blocks = gpus.blocks_of_processor(gpu, self.threads[k.name],
                                          usage.registers, usage.shared)
        return max(1, min(k.items, gpu.processors * blocks))

    def measure(self, program, k):
        usage = self.usage["sm_90"].get(k.name)
        if not usage:
            return Row(self.name, k.name, k.line, k.form, *[None] * 7)
        c, loop, wide, moved = None, None, None, None
        if self.executes:
            c = program.launch(k.name, "sm_90", self.grid(k))
            self.counts[k.name] = c
        if (k.form == "contraction" and not program.tf32
                and (not c or c["fma"] * 32 >= FEW_FMAS)):
            loop = assembler.main_loop(self.sass.get(k.name, []))
        if c and c["needed"] >= FEW_BYTES:
            moved = c["moved"] / c["needed"]
            if k.form == "elementwise":
                wide = c["accessed_128"] / c["accessed"]
        return Row(self.name, k.name, k.line, k.form,
                   *(self.registers(t, k.name) for t in TARGETS_OF_GPUS),
                   loop and loop.multiply_adds / loop.instructions,
                   loop and loop.multiply_adds / max(1, loop.shared_loads),
                   wide, moved)


# ---- judging ----------------------------------------------------------------

def spills_of(m):
    yield from m.errors
    for target, usages in m.usage.items():
        for name, u in usages.items():
            if u.spill_stores or u.spill_loads:
                yield f"{name} spills {u.spill_stores} bytes on {target}"
            elif u.stack > m.local.get(name, 0):
                yield (f"{name} has {u.stack} bytes of local memory on {target}, "
                       f"its text {m.local.get(name, 0)}")


def is_worse(measure, now, pinned):
    at_least = measure in ("ffma", "ffma_lds", "wide")
    if measure.startswith("sm_"):
        return now > float(pinned)
    return (now < float(pinned) - SLACK if at_least
            else now > float(pinned) + SLACK)


def worse_than(pins, m, measures):
    for row in m.rows:
        pin = pins.get((row.program, row.kernel))
        if not pin:
            yield (f"{row.program} {row.kernel} is not in pins.txt: "
                   "TFD_BLESS=1 writes it")
            continue
        for measure in measures:
            now, pinned = getattr(row, measure), getattr(pin, measure)
            if now is not None and pinned and is_worse(measure, now, pinned):
                yield (f"{row.program} {row.kernel} ({row.form} of line "
                       f"{row.line}): {measure} is {shown(now)}, was {pinned}")


def misses_of(m):
    """(program, kernel, measure) of figures that are not as they should be."""
    for row in m.rows:
        for t in TARGETS:
            now = getattr(row, t.measure)
            if now is not None and (now < t.figure if t.at_least
                                    else now > t.figure):
                yield (row.program, row.kernel, t.measure), now


def reason_for(misses, key):
    return misses.get(key) or misses.get((key[0], "*", key[2]))


def unlisted(misses, m, measures):
    found = dict(misses_of(m))
    for key, now in found.items():
        if key[2] in measures and not reason_for(misses, key):
            yield f"{' '.join(key)} is {now:.2f}, and misses.txt has no reason"
    known = {r.kernel for r in m.rows}
    for key in misses:
        row = next((r for r in m.rows if r.kernel == key[1]), None)
        if (key[0] == m.name and key[1] != "*" and key[2] in measures
                and key not in found):
            if key[1] not in known or getattr(row, key[2]) is not None:
                yield f"misses.txt has {' '.join(key)}, which is no miss"


# ---- reports ----------------------------------------------------------------

class Tap:
    def __init__(self):
        self.lines, self.failed = 0, 0

    def case(self, name, problems, skip=None):
        self.lines += 1
        problems = [] if skip else list(problems)
        self.failed += bool(problems)
        print("not ok" if problems else "ok", self.lines, "-", name
              + (f" # SKIP {skip}" if skip else ""))
        for text in problems:
            print("#  ", text)

    def end(self):
        print(f"1..{self.lines}", flush=True)
        return 1 if self.failed else 0


def occupancies(m):
    """(kernel's name, warps of an H100's SM that it fills) of a step."""
    for row in m.rows:
        u = m.usage["sm_90"].get(row.kernel)
        if u:
            yield row.kernel, gpus.occupancy(
                gpus.GPUS["H100"], m.threads[row.kernel], u.registers, u.shared)


def summary(m):
    shares = [share for _, share in occupancies(m)]
    if not shares:
        return "no kernels"
    return (f"{len(shares)} kernels of a step; occupancy of an H100 "
            f"{100 * min(shares):.0f} to {100 * max(shares):.0f} %, median "
            f"{100 * statistics.median(shares):.0f} %")


def print_table(m):
    shares = dict(occupancies(m))
    print("#", " ".join(f"{h:>8}" for h in (
        "line", "runs", "sm_80", "sm_90", "sm_100", "occup.", "ffma", "/lds",
        "wide", "moved", "asked")), " kernel")
    for row in m.rows:
        c = m.counts.get(row.kernel)
        asked = c and c["requested"] / max(1, c["needed"])
        print("#", " ".join(f"{shown(v):>8}" for v in (
            row.line, m.kernels[row.kernel].runs, row.sm_80, row.sm_90,
            row.sm_100, shares.get(row.kernel), row.ffma, row.ffma_lds,
            row.wide, row.moved, asked)), "", row.form, row.kernel)


# ---- all --------------------------------------------------------------------

def chosen(args):
    every = programs.examples(args.root) + programs.LARGE
    by_name = {programs.name_of(s): s for s in every}
    if args.programs:
        return [by_name[n] for n in args.programs]
    if args.all or args.bless:
        return every
    told = os.environ.get("TFD_SWEEP", "").partition(":")[2]
    others = sorted(set(by_name) - set(SAMPLE))
    return [by_name[n] for n in
            SAMPLE + random.Random(told or "1").sample(others, OTHERS)]


Tools = collections.namedtuple("Tools", "ptxas nvdisasm version")


def find_tools(root):
    ptxas = assembler.find_tool("ptxas", root)
    return Tools(ptxas, assembler.find_tool("nvdisasm", root),
                 assembler.version_of(ptxas) if ptxas else None)


def judge(tap, m, tools, pins, misses, skipped):
    for target in TARGETS_OF_GPUS:
        if target in skipped:
            tap.case(f"{m.name}: spills on {target}", [], skipped[target])
    tap.case(f"{m.name}: no spills on {', '.join(m.usage)}", spills_of(m))
    pinned = version_of_pins()
    tap.case(f"{m.name}: registers",
             worse_than(pins, m, TARGETS_OF_GPUS),
             None if pinned in (None, tools.version) else
             "pins.txt is of ptxas %d.%d, and here is %d.%d"
             % (*pinned, *tools.version))
    for name, measures in [("main loops", ["ffma", "ffma_lds"]),
                           ("wide accesses", ["wide"]),
                           ("bytes moved", ["moved"])]:
        problems = [*worse_than(pins, m, measures),
                    *unlisted(misses, m, measures)]
        tap.case(f"{m.name}: {name}", problems,
                 "no nvdisasm, which ./setup test installs from pip"
                 if "ffma" in measures and not tools.nvdisasm else None)
    print("#", f"{m.name}:", summary(m), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("measure")
    parser.add_argument("root")
    parser.add_argument("programs", nargs="*")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--bless", action="store_true",
                        default=bool(os.environ.get("TFD_BLESS")))
    args = parser.parse_args()
    tools = find_tools(args.root)
    if not tools.ptxas:
        print("1..0 # SKIP no ptxas, which comes with CUDA")
        return 0
    targets = [t for t in TARGETS_OF_GPUS
               if tools.version >= assembler.FIRST.get(t, (0, 0))]
    skipped = {t: "ptxas %d.%d does not know it" % tools.version
               for t in TARGETS_OF_GPUS if t not in targets}
    pins, misses, tap, rows = read_pins(), read_misses(), Tap(), []
    all_of_it = args.all or args.bless
    for source in chosen(args):
        with tempfile.TemporaryDirectory(prefix="tfd-static-") as folder:
            program = programs.Program(args.measure, args.root, folder, source)
            large = source in programs.LARGE
            some = [t for t in targets if not large or all_of_it or t == "sm_90"]
            m = Measured(program, tools, some, executes=not large)
            program.close()
        if args.table:
            print_table(m)
        if args.bless:
            rows += m.rows
            for key, now in misses_of(m):
                if not reason_for(misses, key):
                    print("# no reason in misses.txt:", *key, f"{now:.2f}")
            continue
        judge(tap, m, tools, pins, misses, skipped)
    if args.bless:
        write_pins(rows, tools.version)
        print("1..0 # SKIP pins.txt was written")
        return 0
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
