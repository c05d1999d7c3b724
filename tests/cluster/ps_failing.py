#!/usr/bin/env python3
"""ps_failing.py - calls that fail in a coordinator, a server or a worker

    ps_failing.py TFDC TFD_RUN ROOT [--count N | --full] [--seed N]    TAP

The Nth allocation, file operation or new thread of one task fails (TFD_FAIL).
That task ends with a line that says why and exit status 3, or does its work
nevertheless; nobody hangs; a worker that is started in the place of one that
has failed finishes the job, with the values of an undisturbed one.  --full: each
N of each kind in each task; else N of them by chance.
"""
import argparse
import os
import random
import re
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

import ps_tasks
from ps_tasks import end_of, loopback, start
from tap import check, end

TASKS = ["coordinator", "ps:0", "ps:1", "worker:0"]
VICTIMS = ["coordinator", "ps:1", "worker:0"]
AT_ONCE = 6
MOST = {"alloc": 450, "io": 80, "thread": 6}  # of a task of this job
SAID = re.compile(r"^(tfd-run|\S+:\d+:\d+): (error|note): ", re.M)


class Job:
    """One with a fault in one of its tasks, or with none."""

    def __init__(self, made, folder, victim=None, fault=None):
        self.made, self.at, self.victim = made, loopback(), victim
        self.common = ["--silence", "1", "--timeout", "20", "--set", "rounds=3",
                       "--set", "each=5"]
        self.fault = dict(os.environ, **({"TFD_FAIL": fault} if fault else {}))
        self.parts = {"coordinator": self.start("coordinator", [
            "--coordinate", "workers=1,ps=2", "--listen", self.at,
            "--checksum", "--checkpoint", folder, "--every", "2"])}
        for task in TASKS[1:]:
            self.parts[task] = self.serve(task)

    def start(self, task, options):
        env = self.fault if task == self.victim else None
        return start(self.made, *options, *self.common, env=env)

    def serve(self, task):
        return self.start(task, ["--serve", task, "--join", self.at])

    def end(self):
        """What each of them ended with."""
        ends = {}
        if self.victim and self.victim.startswith("worker"):
            ends[self.victim] = end_of(self.parts.pop(self.victim), 30)
            if ends[self.victim][0]:
                task, self.victim = self.victim, None
                self.parts["the next worker"] = self.serve(task)
        for name, part in self.parts.items():
            ends[name] = end_of(part, 30)
        return ends


def judge(ends, victim, whole):
    """What is wrong with the ends of a job."""
    status, out, err = ends[victim]
    for name, (code, _, said) in ends.items():
        if code is None:
            return f"{name} hangs"
        if code not in (0, 3):
            return f"{name} ends with {code}: {said}"
        if code and not SAID.search(said):
            return f"{name} does not say why it ends"
    if status and len(re.findall(r"error: ", err)) != 1:
        return f"{victim} has not one error: {err}"
    # A worker in the place of another one takes its elements anew.
    lines = 1 if "the next worker" in ends else 3
    if not ends["coordinator"][0] and \
            ends["coordinator"][1].split("\n")[:lines] != whole[:lines]:
        return "the job ends with other values"
    if victim.startswith("worker") and ends["coordinator"][0]:
        return "the job has not ended well, with another worker"
    return ""


def trial(made, number, victim, fault, whole):
    """What is wrong, and whether the fault has happened."""
    folder = f"saved-{number}"
    ends = Job(made, folder, victim, fault).end()
    wrong = judge(ends, victim, whole)
    left = [name for name in os.listdir(folder) if ".tmp-" in name] \
        if os.path.isdir(folder) and not ends[victim][0] else []
    if left:
        wrong += f" {left} are left"
    if wrong:
        wrong += f"\n{fault} in {victim}: {ends}"
    return wrong, ends[victim][0] != 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", nargs=3)
    parser.add_argument("--count", type=int, default=8)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    ps_tasks.use(*args.build)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        made = ps_tasks.plan("saved")
        ends = Job(made, "saved").end()
        whole = ends["coordinator"][1].split("\n")
        check("a job without faults", all(e[0] == 0 for e in ends.values()),
              str(ends))
        rows = [(victim, f"{kind}:{n}") for victim in VICTIMS
                for kind, most in MOST.items() for n in range(1, 1 + most)]
        if not args.full:
            rows = random.Random(args.seed).sample(rows, args.count)
        hits = 0
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for row, (wrong, hit) in zip(rows, pool.map(
                    lambda r: trial(made, rows.index(r), *r, whole), rows)):
                hits += hit
                check(f"{row[1]} in {row[0]}", not wrong, wrong)
        check("some of them ended their task", hits > 0, hits)
        print(f"# {hits} of {len(rows)} ended their task")
        os.chdir("/")
    end()


main()
