#!/usr/bin/env python3
"""shapes.py TFDC TFD_RUN [--shapes N] [--seed S]

Collectives of N random shapes (500) in jobs of random numbers of processes,
over all that joins them and by every algorithm: variables and what is printed
have to be those of one process, bit for bit.  A program has SHAPES sums,
maxima and minima of any type, among them of one element and of none, and
gathers of batches that are ragged and empty.  TAP; on demand 10000.
"""
import argparse
import ctypes.util
import os
import random
import subprocess
import sys
import tempfile

from tap import check, end

SHAPES = 50
SECONDS = 120
TYPES = ["f32", "f64", "f16", "bf16", "i32", "i64"]
MESSAGES = ["gather", "exchange", "halving", "doubling", "hierarchy", None]


def shape(rng):
    """A few large ones; some with no elements."""
    most = rng.choice([1, 3, 17, 70, 70, 300, 5000])
    dims = [rng.randint(1, most)]
    while rng.random() < 0.4 and len(dims) < 4:
        dims.append(rng.randint(1, 3))
    if rng.random() < 0.05:
        dims[rng.randrange(len(dims))] = 0
    return [] if rng.random() < 0.08 else dims


def variable(rng, i):
    """Its declaration and its line in the step."""
    dtype, dims = rng.choice(TYPES), shape(rng)
    how = rng.choice(["sum", "sum", "sum", "max", "min"])
    of = dtype + (f"[{', '.join(map(str, dims))}]" if dims else "")
    start = rng.randint(1, 5)
    one = f"{dtype}(replica_id + {rng.randint(1, 9)})"
    if dtype[0] == "i":
        return (f"var v{i}: {of} = {start}",
                f"  v{i} = all_reduce({how}, v{i} * {one}) % {dtype}(1000)")
    return (f"var v{i}: {of} = {start}.0",
            f"  v{i} = {dtype}(0.01) * all_reduce({how}, (v{i} + {dtype}(0.3)) * "
            f"{one} / {dtype}(3.0))")


def program(rng, num):
    """Of ragged batches, of which some replicas have no row."""
    batch, steps = rng.randint(1, 12), rng.randint(1, 4)
    rows = max(1, batch * steps - rng.randrange(batch))
    width = rng.choice(["", f" * ones(({rng.randint(1, 40)},))"])
    lines = [variable(rng, i) for i in range(num)]
    return "\n".join(
        [f"dataset train = range({rows}).map(fn(i) = f32(i){width})"
         f".batch({batch})"] + [declared for declared, _ in lines] +
        ["var g: f32 = 0.0", "fn step(x) {"] + [line for _, line in lines] +
        ["  let all = all_gather(x * f32(replica_id + 1), axis=0)",
         "  g = 0.5 * g + sum(all)", "  return all", "}", "main {",
         "  for x in distribute(train) { print(run step(x)) }", "}", ""])


def links():
    return [None, "zmq"] + (["ucx"] if ctypes.util.find_library("ucp") else [])


def run(command, **environment):
    done = subprocess.run(command, text=True, capture_output=True,
                          timeout=SECONDS, env=dict(os.environ, **environment))
    return done.returncode, done.stdout, done.stderr


def ways(rng, replicas):
    """How a job of some processes is run: its options and environment."""
    sizes = [n for n in range(2, replicas + 1) if replicas % n == 0]
    for link in links():
        options = ["-n", str(rng.choice(sizes))]
        environment = {"UCX_TLS": "tcp,self,posix"} if link == "ucx" else {}
        algorithm = rng.choice(MESSAGES)
        if link:
            options += ["--link", link]
        if link and algorithm:
            environment["TFD_ALL_REDUCE"] = algorithm
        yield options, environment


def check_program(args, rng, num):
    """What differs, or None."""
    replicas = rng.choice([2, 3, 4, 4, 6, 8])
    text = program(rng, num)
    with open("shapes.tfd", "w") as f:
        f.write(text)
    made = run([args.tfdc, "shapes.tfd", "--devices", f"cpu:0-{replicas - 1}"])
    if made[0]:
        return f"{made[2]}\n{text}"
    command = [args.tfd_run, "shapes.tfp", "--checksum", "--threads", "1",
               "--quiet"]
    right = run(command)
    for options, environment in ways(rng, replicas):
        got = run(command + options, **environment)
        if got[0] or got[1] != right[1] or "checksum" not in got[1]:
            return f"{options} {environment}: {got}, not {right}\n{text}"
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tfdc", type=os.path.abspath)
    parser.add_argument("tfd_run", type=os.path.abspath)
    parser.add_argument("--shapes", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    done, wrong = 0, None
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        while done < args.shapes and not wrong:
            wrong = check_program(args, random.Random(f"{args.seed} {done}"),
                                  SHAPES)
            done += SHAPES
        os.chdir("/")
    check(f"{done} shapes in several processes, over "
          f"{', '.join(link or 'memory' for link in links())}: the bits of one",
          not wrong, wrong)
    end()


main()
