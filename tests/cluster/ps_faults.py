#!/usr/bin/env python3
"""ps_faults.py - workers that are killed, stopped and cut off, in one job

    ps_faults.py TFDC TFD_RUN ROOT [--share SHARE] [--seed SEED]    TAP
                 [--closures N] [--job "--atomic" | "--sync 2/3" | ...]

A coordinator and two servers on one machine, three workers on others (network
namespaces, hosts.py).  A worker is killed every 50 ms and started again;
meanwhile 100 times one is stopped for up to 3 s, longer than it takes to be
lost, and 20 times the network of one goes down for as long.  10^6 closures
count themselves by values: each has to be applied exactly once on each server;
with --sync those of each round that count, and nobody sees a part of one.
SHARE is how much of all that: 1, or a tenth; --closures other than those.
"""
import argparse
import os
import random
import signal
import sys
import tempfile
import threading
import time

import hosts
import ps_tasks
from tap import check, end

CLOSURES, STOPS, PARTITIONS = 1000000, 100, 20
STOPPERS = 3
KILL_EVERY, LONGEST = 0.05, 3.0  # seconds
WORKERS = 3
CONTROL = 1  # the coordinator's machine; those of workers are behind it
LIMIT = 1200


class Worker:
    """A worker that somebody starts again whenever it has ended."""

    def __init__(self, job, index):
        self.job, self.index = job, index
        self.process = job.start_worker(index)
        self.is_down = False

    def look(self):
        status = self.process.poll()
        if status is None or self.job.has_ended():
            return
        said = self.process.stderr.read()
        self.process.stderr.close()
        # A stopped one that goes on when the next has begun is refused (2).
        if status not in (-signal.SIGKILL, 0, 2):
            self.job.wrong.append(f"worker {self.index}: {status} {said}")
        self.process = self.job.start_worker(self.index)


class Job:
    def __init__(self, cluster, made, closures, seed, options):
        self.cluster, self.made = cluster, made
        self.random = random.Random(seed)
        self.lock = threading.Lock()
        self.wrong, self.counts = [], {"killed": 0, "stopped": 0, "cut off": 0}
        at = f"{hosts.address(CONTROL)}:17000"
        self.join = ["--join", at, "--key", "key"]
        self.coordinator = self.start(CONTROL, [
            "--coordinate", f"workers={WORKERS},ps=2", "--listen", at, "--key",
            "key", "--stats", "--set", f"closures={closures}", *options])
        self.servers = [self.start(CONTROL, [
            "--serve", f"ps:{i}", "--listen",
            f"{hosts.address(CONTROL)}:{17001 + i}", *self.join])
            for i in range(2)]
        self.workers = [Worker(self, i) for i in range(WORKERS)]

    def start(self, machine, options):
        return self.cluster.start(
            machine, [ps_tasks.RUN, self.made, *options], text=True,
            stdout=ps_tasks.subprocess.PIPE, stderr=ps_tasks.subprocess.PIPE)

    def start_worker(self, index):
        return self.cluster.start(
            CONTROL + 1 + index, [ps_tasks.RUN, self.made, "--serve",
                                  f"worker:{index}", *self.join], text=True,
            stdout=ps_tasks.subprocess.DEVNULL,
            stderr=ps_tasks.subprocess.PIPE)

    def has_ended(self):
        return self.coordinator.poll() is not None

    def kill(self):
        """One that runs, every 50 ms; those that have ended start again."""
        while not self.has_ended():
            time.sleep(KILL_EVERY * (0.5 + self.random.random()))
            for worker in self.workers:
                worker.look()
            ps_tasks.send(self.random.choice(self.workers).process.pid,
                          signal.SIGKILL)
            self.counts["killed"] += 1

    def repeat(self, name, times, fault, seed):
        chance = random.Random(seed)
        for _ in range(times):
            if self.has_ended():
                return
            fault(chance)
            with self.lock:
                self.counts[name] += 1

    def stop(self, chance):
        pid = chance.choice(self.workers).process.pid
        ps_tasks.stop_for(LONGEST * chance.random() ** 3)(pid)

    def cut_off(self, chance):
        machine = CONTROL + 1 + chance.randrange(WORKERS)
        self.cluster.link(machine, False)
        time.sleep(LONGEST * chance.random() ** 2)
        self.cluster.link(machine, True)
        time.sleep(0.5)


def in_rounds(closures, need, of):
    """What rounds.tfd prints."""
    n = closures // of * need
    return f"{n} {n} 0\n{n + 1} {n + 1} {n + 1}\n"


def program(args):
    """The plan, how many closures it is to have, the options, and what it
    prints."""
    closures = args.closures or int(CLOSURES * args.share)
    options = args.job.split()
    if "--sync" not in options:
        return (ps_tasks.plan("counts"), closures, options,
                ps_tasks.counts(closures))
    need, of = map(int, options[options.index("--sync") + 1].split("/"))
    closures -= closures % of
    return (ps_tasks.plan("rounds"), closures,
            [*options, "--set", f"need={need}"], in_rounds(closures, need, of))


def play(args):
    made, closures, options, whole = program(args)
    stops, partitions = [max(1, int(n * args.share))
                         for n in (STOPS, PARTITIONS)]
    begin = time.time()
    with hosts.Hosts(1 + WORKERS) as cluster:
        job = Job(cluster, made, closures, args.seed, options)
        faults = [(job.kill,), (job.repeat, "cut off", partitions, job.cut_off,
                                args.seed + 1)]
        for i in range(STOPPERS):
            faults.append((job.repeat, "stopped", stops // STOPPERS +
                           (i < stops % STOPPERS), job.stop, args.seed + 2 + i))
        threads = [threading.Thread(target=f[0], args=f[1:]) for f in faults]
        for t in threads:
            t.start()
        code, out, err = ps_tasks.end_of(job.coordinator, LIMIT)
        for t in threads:
            t.join()
        ends = [ps_tasks.end_of(p, 20)[0] for p in job.servers]
    took = time.time() - begin
    print(f"# {closures} closures {args.job} in {took:.1f} s, workers "
          f"{', '.join(f'{k} {v} times' for k, v in job.counts.items())}")
    for line in err.splitlines() + out.splitlines():
        print("# " + line)
    check("each closure is applied once on each server", code == 0 and
          out == whole, f"{code}")
    check("all faults have happened", job.counts["stopped"] == stops and
          job.counts["cut off"] == partitions and
          job.counts["killed"] > 10 * args.share, job.counts)
    check("servers end well", ends == [0, 0], ends)
    check("no worker ends but by those faults", not job.wrong,
          "\n".join(job.wrong))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", nargs=3)
    parser.add_argument("--share", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--closures", type=int)
    parser.add_argument("--job", default="")
    args = parser.parse_args()
    reason = hosts.why_not()
    if reason:
        print(f"1..0 # SKIP {reason}")
        return
    hosts.isolate()
    ps_tasks.use(*args.build)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        with open(os.open("key", os.O_CREAT | os.O_WRONLY, 0o600), "wb") as f:
            f.write(os.urandom(32))
        play(args)
        os.chdir("/")
    end()


main()
