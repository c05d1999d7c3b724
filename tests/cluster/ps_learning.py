#!/usr/bin/env python3
"""ps_learning.py - asynchronous training learns what synchronous training does

    ps_learning.py TFDC TFD_RUN ROOT [TIMES]    TAP

The losses of docs/parameter-server.md: 1, 2 and 4 workers, with and without
--staleness, TIMES times each, within the bounds that stand there.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

from tap import check, end

TFDC, RUN, ROOT = map(os.path.abspath, sys.argv[1:4])
TIMES = int(sys.argv[4]) if len(sys.argv) > 4 else 0 # 0: a part of it, once
LIMIT = 60  # seconds


def loss(*args):
    done = subprocess.run([RUN, *args], text=True, capture_output=True,
                          timeout=LIMIT)
    found = re.search(r"^(?:epoch \d+: )?loss (\d+\.\d+)", done.stdout, re.M)
    if done.returncode or not found:
        print(f"# {args}: {done.returncode} {done.stdout} {done.stderr}")
        return float("nan")
    return float(found[1])


def plan(path, *options):
    out = os.path.relpath(path, ROOT).replace("/", ".") + ".tfp"
    subprocess.run([TFDC, path, "-o", out, *options], check=True)
    return out


def learns(program, bound, *options):
    """bound: of the loss, given that of the synchronous run."""
    made = plan(os.path.join(ROOT, "tests", "cluster", "ps", program + ".tfd"))
    options = ["--data", ".", *options]
    alone = loss(made, *options)
    for workers in [1, 2, 4] if TIMES else [2, 4]:
        for staleness in [[], ["--staleness", "4"], ["--staleness", "1"]][
                :3 if TIMES else 2]:
            seen = [loss(made, *options, "-n", f"workers={workers},ps=2",
                         *staleness) for _ in range(max(TIMES, 1))]
            name = " ".join([program, *options[2:], f"{workers} workers",
                             *staleness])
            most = alone if workers == 1 else bound(alone)
            check(f"{name}: {max(seen):.6f}, synchronous {alone:.6f}",
                  all(one <= most for one in seen), f"{seen} {most}")


def the_same_program():
    """In one process a closure is a synchronous step of the example."""
    example = plan(os.path.join(ROOT, "docs", "examples", "linear.tfd"))
    made = plan(os.path.join(ROOT, "tests", "cluster", "ps", "linear.tfd"))
    out = subprocess.run([RUN, example], text=True, check=True,
                         capture_output=True).stdout
    sums = dict(re.findall(r"epoch (\d+): loss (\d\.\d+)", out))
    for epochs in [50, 100]:
        before = float(sums[str(epochs - 1)]) / 4  # in the last four steps
        after = loss(made, "--set", f"steps={4 * epochs}")
        check(f"linear.tfd, epoch {epochs}, and {4 * epochs} closures: "
              f"{before:.6f} {after:.6f}",
              0.7 * before - 1e-6 <= after <= before + 1e-6)


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    shutil.copy(os.path.join(ROOT, "docs", "examples", "text.txt"), ".")
    the_same_program()
    learns("linear", lambda one: 10 * one, "--set", "steps=200")
    learns("linear", lambda one: 1e-6, "--set", "steps=800")
    learns("bigram", lambda one: one + 0.1)
end()
