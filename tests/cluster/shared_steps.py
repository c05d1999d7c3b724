#!/usr/bin/env python3
"""shared_steps.py TFDC TFD_RUN

Processes that have replicas of the same worker read its data once: the one with
its first replica makes the steps, and the others take them from memory.  Loops
that are left early, steps without a thread, workers of two processes and
checkpoints in between: variables and output are those of one process.  TAP.
"""
import os
import re
import subprocess
import sys
import tempfile
import time

from tap import check, end

TFDC, RUN = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
SECONDS = 60
LINES = 40000

# Passes of which the first ones are left early, at different steps; ragged
# batches at the end; two iterators in turn.
PROGRAM = """var w: f32 = 1.0
var v: f32 = 0.0
dataset train = range(RANGE).map(fn(i) = f32(i) / 50.0).shuffle(16).batch(10)AHEAD
dataset other = range(23).map(fn(i) = f32(i)).batch(4)
fn step(x) {
  w = 0.9 * w + all_reduce(sum, 0.01 * sum(x))
  return sum(all_gather(x, axis=0))
}
fn test(x) { v += all_reduce(sum, sum(x) * w) }
main {
  for e in 0..8 {
    for x in distribute(train) {
      let s = run step(x)
      if s > 4.0 + 2.0 * f32(e) { break }
    }
    for x in distribute(other) { run test(x) }
  }
  print("{w} {v}")
}
"""
READS = """var w: f32 = 0.0
dataset train = lines("numbers.txt", u8[6]).map(fn(s) = sum(f32(s))).batch(100)
fn step(x) { w = 0.9 * w + all_reduce(sum, sum(x)) }
main {
  for e in 0..1000000 { for x in distribute(train, shard = data) { run step(x) } }
}
"""


def compile_plan(text, name, *options):
    with open(f"{name}.tfd", "w") as f:
        f.write(text)
    subprocess.run([TFDC, f"{name}.tfd", "-o", f"{name}.tfp", *options],
                   check=True)


def run(name, *options, threads="1"):
    done = subprocess.run([RUN, f"{name}.tfp", "--checksum", "--threads", threads,
                           "--quiet", *options], text=True, capture_output=True,
                          timeout=SECONDS)
    return done.stdout if done.returncode == 0 else done.stderr


PLANS = {
    "mirrored": ("four", ["--devices", "cpu:0-3"], (2, 4)),
    "of two workers, of which one is divided":
        ("six", ["--strategy", "multi_worker_mirrored", "--workers", "2",
               "--devices", "cpu:0-2"], (3, 6)),
}


def same_as_one():
    for what, (name, options, sizes) in PLANS.items():
        for ahead in ("", ".prefetch(0)", ".prefetch(1)"):
            text = PROGRAM.replace("AHEAD", ahead).replace("RANGE", "97")
            compile_plan(text, name, *options)
            right = run(name)
            for n in sizes:
                got = run(name, "-n", str(n))
                check(f"a plan {what}{ahead}, in {n} processes",
                      got == right and "checksum" in got, f"{got}{right}")


def resumed():
    """Each of these numbers of processes goes on from the last one's state, in
    the midst of a pass."""
    compile_plan(PROGRAM.replace("AHEAD", "").replace("RANGE", "397"), "long",
                 "--devices", "cpu:0-3")
    right = run("long")
    for k, size in enumerate((4, 2, 4, 1, 4)):
        got = run("long", "-n", str(size), "--checkpoint", "run", "--every", "7",
                  "--resume")
        check(f"checkpoints on the way, {size} processes", got == right,
              f"{got}{right}")
        cut_back(k)


def cut_back(k):
    """The newest checkpoints go, so that the next run has something to do."""
    steps = sorted(int(m[1]) for m in
                   (re.fullmatch(r"step-(\d+)\.ckpt", n) for n in os.listdir("run"))
                   if m)
    if not steps:
        sys.exit("there are no checkpoints")
    for step in steps[len(steps) // 2 + k % 2:]:
        os.unlink(f"run/step-{step}.ckpt")


UNEVEN = """var w: f32 = 0.0
dataset train = bytes("part?.txt").batch(12)
fn step(x) { w = 0.9 * w + all_reduce(sum, sum(f32(x))) }
main {
  for e in 0..3 { for x in distribute(train, shard = file) { run step(x) } }
  print("{w}")
}
"""


def uneven():
    """A worker's data end long before another one's, in whose steps processes
    are that have replicas of both."""
    for first, second in ((40, 400), (400, 40), (0, 90)):
        for i, n in enumerate((first, second)):
            with open(f"part{i}.txt", "w") as f:
                f.write("abcdefghij" * (n // 10))
        for ahead in ("", ".prefetch(0)"):
            compile_plan(UNEVEN.replace(".batch(12)", f".batch(12){ahead}"),
                         "uneven", "--strategy", "multi_worker_mirrored",
                         "--workers", "2", "--devices", "cpu:0-2")
            right = run("uneven")
            for threads in ("1", "2"):
                got = run("uneven", "-n", "3", threads=threads)
                check(f"files of {first} and {second} bytes{ahead}, {threads} "
                      "threads", got == right and "checksum" in got,
                      f"{got}{right}")


def bytes_read(pid):
    with open(f"/proc/{pid}/io") as f:
        return int(f.readline().split()[1])


def ranks(parent):
    found = {}
    with open(f"/proc/{parent}/task/{parent}/children") as f:
        for pid in f.read().split():
            with open(f"/proc/{pid}/environ", "rb") as e:
                m = re.search(rb"TFD_RANK=(\d+)", e.read())
            if m:
                found[int(m[1])] = int(pid)
    return found


def once():
    with open("numbers.txt", "w") as f:
        f.writelines(f"{i:06d}\n" for i in range(LINES))
    compile_plan(READS, "reads", "--devices", "cpu:0-1")
    job = subprocess.Popen([RUN, "reads.tfp", "-n", "2", "--threads", "1"])
    read, until = {}, time.monotonic() + SECONDS
    while time.monotonic() < until and read.get(0, 0) < 20 * 7 * LINES:
        time.sleep(0.05)
        read = {r: bytes_read(pid) for r, pid in ranks(job.pid).items()}
    job.kill()
    job.wait()
    check("only the process with a worker's first replica reads its files",
          read.get(0, 0) >= 20 * 7 * LINES and read[1] < 5 * 7 * LINES, read)


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    same_as_one()
    uneven()
    resumed()
    once()
    os.chdir("/")
end()
