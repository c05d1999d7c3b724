#!/usr/bin/env python3
"""collectives.py TFDC TFD_RUN [--few]

What --stats says of each collective of a job: what carries it, by which
algorithm, calls and bytes; and that it is what --explain says.  --few: of one
link and algorithm.  TAP.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

from hosts import free_port
from tap import check, end

TFDC, RUN = sys.argv[1:3]
FEW = sys.argv[3:] == ["--few"]
REPLICAS, STEPS, GATHERS, WIDTH = 4, 10, 2, 300
SOURCE = f"""\
var w: f32[{WIDTH}] = zeros
fn few() {{ return all_gather(reshape(f32(replica_id), (1,)), axis=0) }}
fn many() {{ w += all_reduce(sum, 0.25 * f32(replica_id) * (w + 1.0)) }}
main {{
  for i in 0..{STEPS} {{ run many() }}
  for i in 0..{GATHERS} {{ print(run few()) }}
}}
"""
# "at", "operation", calls, bytes, seconds, over, by
ROW = re.compile(r"^  \S+:(\d+):\d+ +(\w+) +(\d+) +(\d+) +([\d.]+)  (\w+) +(.*)$",
                 re.M)
OVER = {"zmq": "libzmq.so.5", "ucx": "libucp.so.0"}


def has_library(name):
    found = subprocess.run(["ldconfig", "-p"], text=True, capture_output=True,
                           env=dict(os.environ, PATH="/sbin:/usr/sbin:" +
                                    os.environ.get("PATH", "")))
    return name in found.stdout


def run(*options, launcher=(), **environment):
    done = subprocess.run(
        [*launcher, RUN, "plan.tfp", "--stats", "--threads", "1", *options],
        text=True, capture_output=True, timeout=60,
        env=dict(os.environ, **environment))
    return done.stdout, done.stderr


def rows_of(err):
    return [(int(line), what, int(calls), int(num_bytes), over, by)
            for line, what, calls, num_bytes, seconds, over, by in
            ROW.findall(err)]


def wanted(over, reduced_by, gathered_by):
    return sorted([
        (3, "all_reduce", STEPS, STEPS * REPLICAS * WIDTH * 4, over, reduced_by),
        (2, "all_gather", GATHERS, GATHERS * REPLICAS * 4, over, gathered_by)])


def says(name, want, right, *options, **more):
    out, err = run(*options, **more)
    check(name, sorted(rows_of(err)) == want and out == right,
          f"wanted {want}\n{out}{err}")


def over_links(right):
    algorithms = ["gather", "exchange", "halving", "doubling"][3 * FEW:]
    for link, library in list(OVER.items())[:1 if FEW else None]:
        if not has_library(library):
            check(f"over {link} # SKIP there is no {library}", True)
            continue
        for by in algorithms if link == "zmq" else algorithms[-1:]:
            says(f"four processes over {link} by {by}",
                 wanted(link, by, "gather"), right, "-n", "4", "--link", link,
                 TFD_ALL_REDUCE=by)


def over_mpi(right):
    mpirun = shutil.which("mpirun.openmpi")
    if not mpirun:
        check("over mpi # SKIP there is no mpirun.openmpi", True)
        return
    says("two processes over mpi by exchange",
         wanted("mpi", "exchange", "gather"), right, "--link", "mpi",
         launcher=[mpirun, "-n", "2", "--oversubscribe"],
         OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
         OMPI_MCA_mpi_yield_when_idle="1",
         OMPI_MCA_hwloc_base_binding_policy="none",
         TFD_CONTROL=f"127.0.0.1:{free_port()}",
         TFD_ALL_REDUCE="exchange")


def as_explained(page):
    """What four processes choose follows from the K that they measured, but
    where bytes are near a change of the algorithm."""
    err = run("-n", "4", "--link", "zmq")[1]
    k = float(re.search(r"K = (\d+) bytes", err).group(1))
    line = re.search(r"^ +4 processes +(.*)$", page, re.M).group(1)
    parts = re.findall(r"(\w+) to ([\d.]+) K", line)
    last = re.search(r"(?:then )?(\w+)$", line).group(1)
    num = WIDTH * 4 / k
    right = next((by for by, to in parts if num <= float(to)), last)
    near = any(abs(num - float(to)) < 0.02 for _, to in parts)
    by = rows_of(err)[0][5]
    check("four processes choose what --explain says", near or by == right,
          f"{num} K: {line}\n{err}")


def main():
    with open("plan.tfd", "w") as f:
        f.write(SOURCE)
    page = subprocess.run([TFDC, "plan.tfd", "--devices", "cpu:0-3", "--explain",
                           "-o", "plan.tfp"], text=True, capture_output=True,
                          check=True).stdout
    right, err = run()
    check("one process", sorted(rows_of(err)) ==
          wanted("shm", "two_phase", "two_phase"), err)
    says("two processes in shared memory",
         wanted("shm", "two_phase", "two_phase"), right, "-n", "2")
    over_links(right)
    if not FEW:
        over_mpi(right)
        as_explained(page)
    end()


with tempfile.TemporaryDirectory() as folder:
    TFDC, RUN = os.path.abspath(TFDC), os.path.abspath(RUN)
    os.chdir(folder)
    main()
