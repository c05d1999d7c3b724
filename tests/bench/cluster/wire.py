#!/usr/bin/env python3
"""wire.py ALL_REDUCE [--processes P] [--gigabits N] [--link NAME] [--check]
           [--rounds N] [MEGABYTES...]

all_reduce beside Open MPI's MPI_Allreduce over TCP, on machines of one process
each with a network of their own of 1 Gbit/s (network namespaces, the token
bucket of tc, tests/cluster/hosts.py).  Both are the same processes, which sum
by the one and the other in turns (all_reduce.c).  Nothing leaves the
namespaces, which end with the script.

--check: fails if tfd's rate is below 0.95 of MPI's.
"""
import argparse
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "../../cluster"))
import hosts  # noqa: E402

LEAST = 0.95


def remote_shell(folder):
    path = f"{folder}/rsh"
    with open(os.open(path, os.O_CREAT | os.O_WRONLY, 0o755), "w") as f:
        f.write(f'#!/bin/sh\nexec {sys.executable} {hosts.__file__} "$@"\n')
    return path


def command(args, folder):
    addresses = ",".join(hosts.address(i + 1) for i in range(args.processes))
    more = ["--check", str(1 / LEAST)] if args.check else []
    return ["mpirun.openmpi", "-n", str(args.processes), "--host", addresses,
            "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1",
            "--mca", "plm", "rsh", "--mca", "plm_rsh_agent",
            remote_shell(folder), "--mca", "pml", "ob1",
            "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "eth0",
            "--mca", "oob_tcp_if_include", "eth0", args.all_reduce,
            "--link", args.link, "--gigabits", str(args.gigabits),
            "--rounds", str(args.rounds), *more, *args.megabytes]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("all_reduce", type=os.path.abspath)
    parser.add_argument("megabytes", nargs="*", default=["16"])
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--gigabits", type=float, default=1)
    parser.add_argument("--link", default="zmq")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--check", action="store_true")
    args = parser.parse_intermixed_args()
    why = not os.environ.get(hosts.ISOLATED) and hosts.why_not()
    if why:
        print(f"skipped: {why}")
        return 77
    hosts.isolate()
    env = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1",
               OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    rate = f"{int(args.gigabits * 1000)}mbit"
    with tempfile.TemporaryDirectory() as folder, \
            hosts.Hosts(args.processes, rate=rate) as machines:
        os.chmod(folder, 0o755)
        process = machines.start(1, command(args, folder), env=env)
        try:
            return process.wait(timeout=300)
        except subprocess.TimeoutExpired:
            return 1


if __name__ == "__main__":
    sys.exit(main())
