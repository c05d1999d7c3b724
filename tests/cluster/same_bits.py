#!/usr/bin/env python3
"""same_bits.py TFDC TFD_RUN [--full] [--seed N] [--count N]

The bits of a run depend on its replicas and input workers alone: programs on
any number of processes and devices, over everything that joins processes, with
every algorithm, print what one process prints, with the checksum of their
variables.  The cases are a pairwise cover: any two values of two columns below
that may stand together do so in one case.  --full runs the cover; without it a
seeded sample of a few cases that need no MPI is run.  TAP.
"""
import argparse
import ctypes.util
import itertools
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from hosts import free_port

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
SECONDS = 120
MOST_REPLICAS = 16

COLUMNS = {
    "processes": [1, 2, 3, 4, 8],
    "devices": [1, 2, 4],  # of a process
    "each": [1, 2],  # replicas of a device
    "joined by": ["shm", "zmq", "ucx", "Open MPI", "MPICH"],
    # Of all_reduce in shared memory, as the plan says, or over messages.
    "algorithm": ["auto", "two_phase", "ring", "hierarchical_copy",
                  "reduction_to_one", "gather", "exchange", "halving",
                  "doubling"],
    "workers": ["mirrored", "one a process", "two", "as many as replicas"],
    "program": ["linear", "bigram", "spiral", "charlm", "convnet", "f64",
                "f16", "bf16", "i64", "ragged", "auto", "file", "data", "off",
                "from"],
}
MESSAGES = ("gather", "exchange", "halving", "doubling")

# ---- programs ---------------------------------------------------------------

# Sums of every aggregation, of more elements than one that is gathered whole
# has, and of few; a component of each replica's own.
DTYPE = """\
const M = 9000
var w: T[M] = zeros
var few: T[3] = zeros
var own: i64 = 0 sync(on_read) aggregate(sum)
dataset d = range(37).shuffle(37, seed = 5).batch(11)
fn step(x) {
  let own_part = SCALE(f64(sum(x)) * 0.37 + f64(replica_id))
  let all = all_reduce(sum, SPREAD(M) + own_part)
  w = w HALVED + all
  few = stack([all_reduce(max, own_part), all_reduce(min, own_part),
               all_reduce(sum, own_part)])
  own += len(x)
}
main {
  for pass in 0..2 { for x in distribute(d) { run step(x) } }
  print("{few} {own}")
}
"""

# COUNT elements in batches of BATCH: the last ones leave replicas without rows.
RAGGED = """\
var w: f32[5] = zeros
var seen: i64 = 0 sync(on_read) aggregate(sum)
dataset d = range(COUNT).map(fn(i) = f32(i) * 0.7).shuffle(9, seed = 3).batch(BATCH)
fn step(x) {
  let noise = uniform((len(x), 5), seed = 4)
  w = w * 0.5 + all_reduce(sum, sum(noise * reshape(x, (len(x), 1)), axis = 0))
  seen += len(x)
  return sum(x)
}
main {
  for pass in 0..3 {
    for x in distribute(d) { print("{reduce(sum, run step(x))}") }
  }
  print("{w} {seen}")
}
"""

FILES = """\
var w: f32[3] = zeros
var seen: i64 = 0 sync(on_read) aggregate(sum)
dataset d = bytes("part??.txt").shuffle(40, seed = 1).batch(53)
fn step(x) {
  let y = f32(x) / 128.0
  w = w * 0.9 + all_reduce(sum, reshape(stack([sum(y), sum(y * y), f32(len(x))]), (3,)))
  seen += len(x)
}
main {
  for pass in 0..2 { for x in distribute(d, shard = POLICY) { run step(x) } }
  print("{w} {seen}")
}
"""

FROM = """\
var w: f32[2] = zeros
fn part(ctx) = range(40).shard(ctx.num_pipelines, ctx.pipeline_id)
  .map(fn(i) = f32(i) * 0.3).shuffle(40, seed = 2).batch(2)
fn step(x) { w = w * 0.9 + all_reduce(sum, reshape(stack([sum(x), f32(len(x))]), (2,))) }
main {
  for pass in 0..2 { for x in distribute_from(part) { run step(x) } }
  print("{w}")
}
"""


def example(name, *changes, options=(), run=()):
    with open(f"{ROOT}/docs/examples/{name}.tfd") as f:
        text = re.sub(r"\n *assert\(.*", "", f.read())
    for old, new in changes:
        if old not in text:
            raise AssertionError(f"{name}.tfd has no {old}")
        text = text.replace(old, new)
    return text, options, run


def of_dtype(dtype, options=()):
    is_int = dtype == "i64"
    text = re.sub(r"\bT\b", dtype, DTYPE)
    text = text.replace("SCALE", dtype)
    text = text.replace("HALVED", "// 2" if is_int else "* 0.5")
    spread = ("iota((M,))" if is_int
              else f"{dtype}(f32(iota((M,))) * 0.0137)")
    return text.replace("SPREAD(M)", spread), options, ()


def ragged(rng):
    count, batch = rng.randint(1, 60), rng.randint(1, 33)
    text = RAGGED.replace("COUNT", str(count)).replace("BATCH", str(batch))
    return text, (), ()


def program(name, rng):
    """Its text, and options of tfdc and tfd-run."""
    if name in ("auto", "file", "data", "off"):
        return FILES.replace("POLICY", name), (), ()
    return {
        "linear": lambda: example("linear", ("0..200", "0..8")),
        "bigram": lambda: example(
            "bigram", options=("-D", "TEXT=part??.txt", "-D", "BATCH=300"),
            run=("--set", "epochs=1")),
        "spiral": lambda: example(
            "spiral", ("3000", "300"), ("2400", "240"),
            options=("-D", "BATCH=50"), run=("--set", "epochs=2")),
        "charlm": lambda: example(
            "charlm", ('  save("charlm-checkpoint")\n', ""),
            options=("-D", "TEXT=part??.txt", "-D", "C=8", "-D", "T=8", "-D",
                     "LAYERS=1", "-D", "BATCH=20"),
            run=("--set", "steps=4")),
        "convnet": lambda: example(
            "convnet", ("range(2048, 2560)", "range(96, 116)"),
            ("2048", "96"),
            options=("-D", "SIZE=8", "-D", "CHANNELS=4", "-D", "BLOCKS=1",
                     "-D", "BATCH=36"),
            run=("--set", "epochs=1")),
        "f64": lambda: of_dtype("f64"),
        "f16": lambda: of_dtype("f16"),
        "bf16": lambda: of_dtype("bf16"),
        "i64": lambda: of_dtype("i64"),
        "ragged": lambda: ragged(rng),
        "from": lambda: (FROM, (), ()),
    }[name]()


# ---- which cases there are --------------------------------------------------

def replicas_of(case):
    return case["processes"] * case["devices"] * case["each"]


def workers_of(case):
    """Of its plan; None if there are none, 0 if they cannot be so many."""
    replicas = replicas_of(case)
    num = {"mirrored": None, "one a process": case["processes"], "two": 2,
           "as many as replicas": replicas}[case["workers"]]
    return 0 if num and replicas % num else num


def may_be(case):
    """Whether these values may stand together; some columns may be missing."""
    def has(*names):
        return all(name in case for name in names)
    if has("joined by", "algorithm") and (case["algorithm"] in MESSAGES and
                                          case["joined by"] == "shm"):
        return False
    if has("processes", "joined by") and (case["processes"] == 1 and
                                          case["joined by"] != "shm"):
        return False
    if has("processes", "algorithm") and (case["processes"] == 1 and
                                          case["algorithm"] in MESSAGES):
        return False
    replicas = 1
    for name in ("processes", "devices", "each"):
        replicas *= case.get(name, 1)
    if replicas > MOST_REPLICAS:
        return False
    if has("algorithm") and has("processes", "devices", "each"):
        if case["algorithm"] == "hierarchical_copy" and replicas % 2:
            return False
    if has("workers", "processes", "devices", "each"):
        return workers_of(case) != 0
    return True


def pairs_of(case):
    return set(itertools.combinations(sorted(case.items()), 2))


def complete(case, uncovered, rng):
    """The case with values for all columns that cover most; None: none may."""
    for name in sorted(COLUMNS, key=lambda n: n not in case):
        if name in case:
            continue
        values = [v for v in COLUMNS[name] if may_be(case | {name: v})]
        if not values:
            return None
        rng.shuffle(values)
        case = case | {name: max(values, key=lambda v: len(
            pairs_of(case | {name: v}) & uncovered))}
    return case


def all_cases(seed):
    rng = random.Random(seed)
    uncovered = set()
    for a, b in itertools.combinations(sorted(COLUMNS), 2):
        for x, y in itertools.product(COLUMNS[a], COLUMNS[b]):
            if may_be({a: x, b: y}):
                uncovered.add(((a, x), (b, y)))
    cases = []
    while uncovered:
        pair = min(uncovered, key=str)
        tries = [complete(dict(pair), uncovered, rng) for _ in range(20)]
        tries = [c for c in tries if c]
        if tries:
            case = max(tries, key=lambda c: len(pairs_of(c) & uncovered))
            cases.append(case)
            uncovered -= pairs_of(case)
        uncovered.discard(pair)  # maybe none has it
    return cases


# ---- running one ------------------------------------------------------------

class Runner:
    def __init__(self, tfdc, tfd_run, folder):
        self.tfdc = os.path.abspath(tfdc)
        self.tfd_run = os.path.abspath(tfd_run)
        self.folder = folder
        self.plans = 0
        self.expected = {}  # what one process prints
        with open(f"{ROOT}/docs/style.md") as f:
            text = f.read()
        for i in range(MOST_REPLICAS):  # of unequal lengths
            with open(f"{folder}/part{i:02}.txt", "w") as f:
                f.write(text[300 * i:300 * i + 100 + 17 * i])

    def call(self, command, **env):
        process = subprocess.Popen(
            command, cwd=self.folder, text=True, errors="backslashreplace",
            env=dict(os.environ, **env), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            start_new_session=True)
        try:
            out, said = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # those of MPI, too
            process.communicate()
            raise
        if process.returncode:
            raise AssertionError(f"{' '.join(command)}: status "
                                 f"{process.returncode}: {said}")
        return out

    def compile(self, case, text, options):
        self.plans += 1
        name = f"{self.folder}/{case['program']}{self.plans}"
        with open(f"{name}.tfd", "w") as f:
            f.write(text)
        replicas, workers = replicas_of(case), workers_of(case)
        if workers:
            options = (*options, "--strategy", "multi_worker_mirrored",
                       "--workers", str(workers))
        each = replicas // (workers or 1)
        if case["algorithm"] not in (*MESSAGES, "auto"):
            options = (*options, "--cross-device-ops", case["algorithm"])
        self.call([self.tfdc, f"{name}.tfd", "-o", f"{name}.tfp", "--devices",
                   f"cpu:0-{each - 1}", *options])
        return f"{name}.tfp"

    def joined(self, case, command):
        """The output of the case's processes."""
        number = str(case["processes"])
        devices = ["--devices", f"cpu:0-{case['devices'] - 1}"]
        env = ({"TFD_ALL_REDUCE": case["algorithm"]}
               if case["algorithm"] in MESSAGES else {})
        by = case["joined by"]
        if by == "shm":
            return self.call([*command, *devices, "-n", number], **env)
        if by in ("zmq", "ucx"):
            return self.call([*command, *devices, "-n", number, "--link", by],
                             **env)
        # Processes of MPI spin while they wait, and cores are few.
        env |= {"OMPI_ALLOW_RUN_AS_ROOT": "1",
                "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                "OMPI_MCA_rmaps_base_oversubscribe": "1",
                "OMPI_MCA_mpi_yield_when_idle": "1",
                "OMPI_MCA_hwloc_base_binding_policy": "none",
                "TFD_CONTROL": f"127.0.0.1:{free_port()}"}
        launcher = {"Open MPI": "mpirun.openmpi", "MPICH": "mpirun.mpich"}[by]
        return self.call([launcher, "-n", number, *command, *devices, "--link",
                          "mpi"], **env)

    def run(self, case):
        rng = random.Random(str(sorted(case.items())))
        text, options, run = program(case["program"], rng)
        plan = self.compile(case, text, options)
        command = [self.tfd_run, plan, "--data", self.folder, "--quiet",
                   "--checksum", *run]
        # Also of all algorithms, which plans have.
        key = text, replicas_of(case), workers_of(case)
        if key not in self.expected:
            self.expected[key] = self.call(command)
        got = self.joined(case, [*command, "--threads",
                                 str(case["devices"])])
        os.remove(plan)
        if got != self.expected[key]:
            raise AssertionError(f"expected\n{self.expected[key]}\nnot\n{got}")


def why_not(case):
    if case["joined by"] == "ucx" and not ctypes.util.find_library("ucp"):
        return "there is no libucp"
    need = {"Open MPI": "mpirun.openmpi", "MPICH": "mpirun.mpich"}
    launcher = need.get(case["joined by"])
    if launcher and not shutil.which(launcher):
        return f"there is no {launcher}"
    return None


def text_of(case):
    return ", ".join(f"{name} {case[name]}" for name in COLUMNS)


def sample(cases, seed, count):
    """Of those that take no time: of one machine's memory and of ZeroMQ."""
    few = [c for c in cases if 1 < c["processes"] <= 4 and
           c["joined by"] in ("shm", "zmq") and
           c["program"] not in ("charlm", "convnet", "spiral")]
    return random.Random(seed).sample(few, count)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tfdc")
    parser.add_argument("tfd_run")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=8)
    args = parser.parse_args()
    cases = all_cases(args.seed)
    if not args.full:
        cases = sample(cases, args.seed, args.count)
    failed = 0
    print(f"1..{len(cases)}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        runner = Runner(args.tfdc, args.tfd_run, folder)
        for number, case in enumerate(cases, 1):
            begin, why = time.monotonic(), why_not(case)
            try:
                if not why:
                    runner.run(case)
                end = f" # SKIP {why}" if why else ""
                print(f"ok {number} - {text_of(case)}{end}")
            except (AssertionError, subprocess.TimeoutExpired) as wrong:
                failed += 1
                print(f"not ok {number} - {text_of(case)}")
                print("".join(f"# {line}\n" for line in
                              str(wrong).splitlines()), end="")
            print(f"# {time.monotonic() - begin:.2f} s", flush=True)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
