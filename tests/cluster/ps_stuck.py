#!/usr/bin/env python3
"""ps_stuck.py - libzmq that fails, or does not return, in a task of a job with
servers and workers

    ps_stuck.py TFDC TFD_RUN ROOT LIBRARY [--count N | --full] [--seed N]    TAP

One function of libzmq does not return, fails once, or fails from then on
(blocking_zmq.c), in the coordinator, a server or a worker, at its first call or
in the midst of the run: each task ends in time, with a line that says why if
not well, and where all end well, with the values of an undisturbed job.  --full:
each function in each of those ways; else --count of them by chance, beside some
that are chosen.
"""
import argparse
import itertools
import os
import random
import re
import shutil
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

import ps_tasks
from ps_tasks import end_of, loopback, start
from stuck import functions, path_of_libzmq
from tap import check, end

TASKS = ["coordinator", "ps:0", "ps:1", "worker:0"]
VICTIMS = ["coordinator", "ps:1", "worker:0"]
WAYS = ["blocks", "once", "ever"]
AFTER = [0, 60]
AT_ONCE = 6
SECONDS = 40  # until all have ended, with --timeout 3 and --silence 2
SAID = re.compile(r"^(tfd-run|\S+:\d+:\d+): (error|note): |interrupted", re.M)
# What the others are chosen beside: each task's waits and sends.
ALWAYS = [("zmq_msg_recv", victim, way, 60)
          for victim, way in itertools.product(VICTIMS, ["blocks", "ever"])] + \
    [("zmq_send", "worker:0", "once", 60), ("zmq_bind", "ps:1", "ever", 0),
     ("zmq_ctx_term", "worker:0", "blocks", 0)]


class Case:
    def __init__(self, library):
        self.libzmq = path_of_libzmq()
        self.folder = os.getcwd()
        os.mkdir("lib")
        shutil.copy(library, "lib/libzmq.so.5")
        self.made = ps_tasks.plan("saved")

    def environment(self, function, way, after, mark):
        path = os.environ.get("LD_LIBRARY_PATH")
        fail = {} if way == "blocks" else {"TEST_FAIL": way}
        return dict(os.environ, LD_LIBRARY_PATH=f"{self.folder}/lib" +
                    (f":{path}" if path else ""), TEST_ZMQ=self.libzmq,
                    TEST_BLOCK=function, TEST_BLOCK_RANK="",
                    TEST_BLOCK_AFTER=str(after), TEST_BLOCK_MARK=mark, **fail)

    def run(self, victim=None, env=None):
        """What each task ended with, and in how many seconds."""
        at, begin, parts = loopback(), time.time(), {}
        for task in TASKS:
            where = ["--coordinate", "workers=1,ps=2", "--listen", at] \
                if task == "coordinator" else ["--serve", task, "--join", at]
            parts[task] = start(
                self.made, *where, "--timeout", "3", "--silence", "2", "--set",
                "rounds=3", "--set", "each=20",
                **({"env": env} if task == victim else {}))
        ends = {task: end_of(part, max(1, SECONDS - (time.time() - begin)))
                for task, part in parts.items()}
        return ends, time.time() - begin


def judge(ends, whole):
    for name, (status, _, err) in ends.items():
        if status is None:
            return f"{name} has not ended: {err!r}"
        if status not in (0, 1, 2, 3):
            return f"{name} ends with {status}: {err!r}"
        if status and not SAID.search(err):
            return f"{name} does not say why it ends"
    if all(e[0] == 0 for e in ends.values()) and \
            ends["coordinator"][1] != whole:
        return "the job ends with other values"
    return ""


def trial(case, function, victim, way, after, whole):
    mark = tempfile.mktemp(dir=case.folder)
    ends, took = case.run(victim, case.environment(function, way, after, mark))
    wrong = judge(ends, whole)
    return wrong and f"{wrong}, after {took:.0f} s\n{ends}", \
        os.path.exists(mark)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", nargs=3)
    parser.add_argument("library")
    parser.add_argument("--count", type=int, default=3)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    library = os.path.abspath(args.library)
    ps_tasks.use(*args.build)
    rows = list(itertools.product(functions(), VICTIMS, WAYS, AFTER))
    if not args.full:
        rows = ALWAYS + random.Random(args.seed).sample(rows, args.count)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        case = Case(library)
        ends, _ = case.run()
        whole = ends["coordinator"][1]
        check("a job without faults", all(e[0] == 0 for e in ends.values()),
              str(ends))
        hits = 0
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for row, (wrong, hit) in zip(rows, pool.map(
                    lambda r: trial(case, *r, whole), rows)):
                hits += hit
                check(" ".join(map(str, row)), not wrong, wrong)
        check("some of these calls were reached", hits > 0, hits)
        print(f"# {hits} of {len(rows)} calls were reached")
        os.chdir("/")
    end()


if __name__ == "__main__":
    main()
