#!/usr/bin/env python3
"""many.py BUILD [--most P] [--link NAME] [--programs NAME,...] [--check]

Plans for 64 replicas in 1, 2, 4 ... P processes of this machine, of one thread
each: they join, train and end, and have to print what one process prints, with
its checksum.  Printed are seconds, and what the busiest process sends in a step.

--link: messages over it; without, processes share memory.
--check: fails if messages of a step grow faster than the logarithm of P, or
bytes faster than that and what all have to know of each process (AGREEMENT).
TAP.
"""
import argparse
import math
import os
import re
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
# Short: what is replaced in the program, and options.
PROGRAMS = {"linear": ([("0..200", "0..10"), ("< 0.01", "< 10.0"),
                        ("6400", "320")], [], []),
            "bigram": ([], ["-D", "BATCH=64"], ["--set", "epochs=1"])}
REPLICAS = 64
# Of a step's agreement, everybody's go to everybody (Part, exec/agreement.c).
AGREEMENT = 24
SENT = re.compile(r"messages +([0-9.]+) a step of ([0-9.]+) bytes")


def compile_plan(args, name, folder):
    replaced, options, _ = PROGRAMS[name]
    plan, program = f"{folder}/{name}.tfp", f"{folder}/{name}.tfd"
    with open(f"{ROOT}/docs/examples/{name}.tfd") as f:
        text = f.read()
    for old, new in replaced:
        text = text.replace(old, new)
    with open(program, "w") as f:
        f.write(text)
    subprocess.run([f"{args.build}/tfdc", program, *options, "--devices",
                    f"cpu:0-{REPLICAS - 1}", "-o", plan], check=True)
    return plan


def run(args, name, plan, size):
    """Standard output, seconds, and messages and bytes of a step."""
    command = [f"{args.build}/tfd-run", plan, "--data", os.path.dirname(plan),
               "--checksum", "--stats", "--threads", "1", *PROGRAMS[name][2]]
    if size > 1:
        command += ["-n", str(size)] + (["--link", args.link] if args.link
                                        else [])
    begin = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    seconds = time.perf_counter() - begin
    if done.returncode:
        return f"status {done.returncode}: {done.stderr}", seconds, None
    sent = SENT.search(done.stderr)
    return (done.stdout, seconds,
            tuple(float(n) for n in sent.groups()) if sent else None)


def is_within(size, sent, of_two):
    """As the logarithm of the number of processes, at most; of much each sends
    twice what it sends in two processes, D (P - 1) / P."""
    rounds = math.ceil(math.log2(size))
    return (sent[0] <= of_two[0] * rounds and
            sent[1] <= of_two[1] * max(2, rounds) + AGREEMENT * size)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=os.path.abspath)
    parser.add_argument("--most", type=int, default=64)
    parser.add_argument("--sizes")
    parser.add_argument("--link")
    parser.add_argument("--programs", default="linear,bigram")
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    sizes = ([int(n) for n in args.sizes.split(",")] if args.sizes else
             [2 ** k for k in range(1, args.most.bit_length())])
    names = args.programs.split(",")
    number = failed = 0
    print(f"1..{len(names) * len(sizes)}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/text.txt", "w") as f:
            f.write("the quick brown fox jumps over the lazy dog. " * 60)
        for name in names:
            plan = compile_plan(args, name, folder)
            expected = run(args, name, plan, 1)[0]
            of_two = None
            for size in sizes:
                out, seconds, sent = run(args, name, plan, size)
                of_two = of_two or sent
                ok = out == expected and "checksum" in out
                if args.check:
                    ok = ok and sent and is_within(size, sent, of_two)
                number += 1
                failed += not ok
                print(f"{'' if ok else 'not '}ok {number} - {name} in {size} "
                      f"processes: {seconds:.2f} s" +
                      (", %.1f messages a step of %.0f bytes" % sent
                       if sent else ""), flush=True)
                if not ok:
                    print("# " + out.strip().replace("\n", "\n# "))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
