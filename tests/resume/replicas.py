#!/usr/bin/env python3
"""replicas.py TFDC TFD_RUN

A program that saves its variables, and its position in the input with them,
goes on with other numbers of replicas, workers and processes: with --widen the
losses are those of one run within 1e-11, and each pass has each element once
(replicas.tfd asserts that).  TAP.
"""
import os
import re
import subprocess
import sys
import tempfile

TFDC, TFD_RUN = (os.path.abspath(p) for p in sys.argv[1:])
SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                      "replicas.tfd")
SECONDS = 60
CLOSE = 1e-11

# Devices and workers (0: not of that strategy), processes, and the step after
# which it is saved: in the midst of passes of 8 steps, and at the end of one.
LIVES = [
    ("cpu:0-3", 0, 2, 3),
    ("cpu:0", 2, 2, 11),
    ("cpu:0", 0, 1, 16),
    ("cpu:0-2", 0, 3, 21),
    ("cpu:0-1", 4, 4, 30),
    ("cpu:0-1", 0, 1, 32),
]


def call(command, folder):
    done = subprocess.run(command, cwd=folder, text=True, timeout=SECONDS,
                          capture_output=True)
    if done.returncode:
        raise AssertionError(f"{' '.join(command)}: status {done.returncode}: "
                             f"{done.stderr}")
    return done.stdout


def compile_for(folder, devices, workers):
    plan = f"{folder}/{devices}-{workers}.tfp"
    strategy = (["--strategy", "multi_worker_mirrored", "--workers",
                 str(workers)] if workers else [])
    call([TFDC, SOURCE, "-o", plan, "--widen", "--devices", devices,
          *strategy], folder)
    return plan


def run(folder, plan, processes, *options):
    return call([TFD_RUN, plan, "--quiet", "-n", str(processes), *options],
                folder)


def numbers_of(lines):
    """The values of each step, by its number."""
    found = re.findall(r"^step (\d+): (.*)$", lines, re.MULTILINE)
    return {int(step): [float(x) for x in rest.split()]
            for step, rest in found}


def differing(expected, got):
    """What is said of the first step that differs; None: none does."""
    if sorted(expected) != sorted(got):
        return f"steps {sorted(got)}, not {sorted(expected)}"
    for step, values in expected.items():
        for x, y in zip(values, got[step]):
            if abs(x - y) > CLOSE * max(1, abs(x)):
                return f"step {step}: {got[step]}, not {values}"
    return None


def main():
    print("1..2")
    with tempfile.TemporaryDirectory() as folder:
        undisturbed = f"{folder}/undisturbed"
        os.mkdir(undisturbed)
        whole = run(undisturbed, compile_for(undisturbed, "cpu:0-1", 0), 1)
        lines, before = "", 0
        for devices, workers, processes, stop in LIVES:
            plan = compile_for(folder, devices, workers)
            lines += run(folder, plan, processes, "--set", f"stop={stop}",
                         "--set", f"first={'false' if before else 'true'}")
            before = stop
    expected, got = numbers_of(whole), numbers_of(lines)
    wrong = differing(expected, got)
    if wrong:
        print(f"# {wrong}")
    print(f"{'not ' if wrong else ''}ok 1 - losses of {len(expected)} steps "
          "by other numbers of replicas and workers")
    passes = re.findall(r"^pass (\d): each element once$", lines,
                        re.MULTILINE)
    once = passes == ["0", "1", "2", "3"]
    print(f"{'' if once else 'not '}ok 2 - each element once a pass")
    sys.exit(bool(wrong) or not once)


if __name__ == "__main__":
    main()
