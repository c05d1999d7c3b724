#!/usr/bin/env python3
"""preflight.py TFDC TFD_RUN

tfd-run --preflight: joins, measures all pairs and ends, and fails as a start
does.  TAP; what needs machines of its own is skipped where there are none.
"""
import os
import re
import subprocess
import sys
import tempfile

import hosts
import programs

TFDC, TFD_RUN = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
SECONDS = 60
PAIR = re.compile(r"^ +(\d+)  (\S+) +(\d+)  (\S+) +(shared memory|\w+) +"
                  r"([\d.]+) +([\d.]+)$", re.M)
SLOWEST = re.compile(r"^slowest pair   rank (\d+) \((\S+)\) and rank (\d+) "
                     r"\((\S+)\): ([\d.]+) us, ([\d.]+) GB/s$", re.M)
PROGRAM = f"""var w: f32 = 0.0
dataset train = range(720).map(fn(i) = f32(i) / 720.0).batch(360)
{programs.step(360)}main {{
  for x in distribute(train) {{ run train_step(x) }}
  print("trained {{w:.3f}}")
}}
"""


class Case:
    def __init__(self):
        self.key = os.path.abspath("key")
        with open("train.tfd", "w") as f:
            f.write(PROGRAM)
        with open(os.open(self.key, os.O_CREAT | os.O_WRONLY, 0o600),
                  "wb") as f:
            f.write(os.urandom(32))

    def plan(self, replicas):
        path = os.path.abspath(f"train-{replicas}.tfp")
        if not os.path.exists(path):
            devices = "cpu:0" + (f"-{replicas - 1}" if replicas > 1 else "")
            subprocess.run([TFDC, "train.tfd", "--devices", devices, "-o",
                            path], check=True)
        return path

    def command(self, replicas, *options):
        return [TFD_RUN, self.plan(replicas), *options]

    def run(self, replicas, *options):
        p = subprocess.run(self.command(replicas, *options), text=True,
                           capture_output=True, timeout=SECONDS)
        return p.returncode, p.stdout, p.stderr

    def member(self, rank, size, address, *options):
        return self.command(size, "--rank", str(rank), "--size", str(size),
                            "--join", address, "--key", self.key, *options)


def ends(processes):
    out = []
    for p in processes:
        text, err = p.communicate(timeout=SECONDS)
        out.append((p.returncode, text, err))
    return out


def pairs_of(text):
    return [(int(m[1]), int(m[3])) for m in PAIR.finditer(text)]


def all_pairs(size):
    return [(i, k) for i in range(size) for k in range(i + 1, size)]


def each_pair_is_measured_once(case):
    for size in (2, 3, 6, 15, 16):
        status, out, err = case.run(size, "-n", str(size), "--preflight")
        if status or err or pairs_of(out) != all_pairs(size) \
                or "measured       all pairs" not in out:
            return False, (size, status, out, err)
    return True, ""


def of_many_each_with_its_neighbours(case):
    for size in (17, 18):
        ring = sorted(tuple(sorted((i, (i + 1) % size))) for i in range(size))
        status, out, err = case.run(size, "-n", str(size), "--preflight")
        if status or err or pairs_of(out) != ring \
                or "each rank with the next one" not in out:
            return False, (size, status, out, err)
    return True, ""


def the_slowest_pair_is_named(case):
    _, out, _ = case.run(4, "-n", "4", "--preflight")
    found = SLOWEST.search(out)
    rows = {(m[1], m[2], m[3], m[4], m[6], m[7]): float(m[6]) * 1e-6 +
            (1 << 20) / (1e9 * max(float(m[7]), 1e-9))
            for m in PAIR.finditer(out)}
    worst = max(rows.values(), default=0)
    # What is printed is rounded.
    return (found and rows.get(found.groups(), 0) > 0.9 * worst, out)


def nothing_is_trained_or_written(case):
    status, out, err = case.run(2, "-n", "2", "--preflight", "--checkpoint",
                                "run", "--log-dir", "logs", "--checksum",
                                "--stats")
    left = [name for name in ("run", "logs") if os.path.exists(name) and
            os.listdir(name)]
    return (status == 0 and not left and "trained" not in out and
            "checksum" not in out and not err), (status, out, err, left)


def the_link_is_what_a_run_uses(case):
    status, out, err = case.run(4, "-n", "4", "--preflight", "--link", "zmq")
    over = {m[5] for m in PAIR.finditer(out)}
    return (status == 0 and over == {"zmq"} and
            "collectives    by messages" in out and
            re.search(r"\n  (gather|doubling) +1, of at most 4 bytes\n", out),
            (status, out, err))


def alone_it_says_so(case):
    for options in ((), ("-n", "1")):
        status, out, err = case.run(2, "--preflight", *options)
        if status or "one process, 2 replicas on 2 devices" not in out or \
                "there is no other process" not in out:
            return False, (status, out, err)
    return True, ""


def it_fails_as_a_start_does(case):
    status, out, err = case.run(2, "-n", "3", "--preflight")
    lines = err.strip().splitlines()
    return (status == 2 and not out and len(lines) == 1 and
            "cannot be divided among 3 processes evenly" in err,
            (status, out, err))


def a_process_that_trains_is_another_one(case):
    address = f"127.0.0.1:{hosts.free_port()}"
    got = ends([subprocess.Popen(case.member(rank, 2, address, *options),
                                 text=True, stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE)
                for rank, options in enumerate((["--preflight"], []))])
    said = "".join(err for _, _, err in got)
    return ([status for status, _, _ in got] == [1, 1] and
            said.count("error:") == 1 and "--compare or --preflight" in said,
            got)


def on_machines(case, *options):
    """How the processes of a job end, one on each machine."""
    size = case.cluster.num
    address = f"{hosts.address(1)}:17000"
    return ends([case.cluster.start(rank + 1,
                                    case.member(rank, size, address, *options),
                                    text=True, stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE)
                 for rank in range(size)])


def machines_are_named_with_their_speed(case):
    got = on_machines(case, "--preflight", "--link", "zmq", "--wire", "plain")
    out = got[0][1]
    rows = [(m[2], m[4], m[5]) for m in PAIR.finditer(out)]
    rates = [float(m[7]) for m in PAIR.finditer(out)]
    # 100 Mbit/s are 0.0125 GB/s; half a megabyte comes at once.
    return ([end[0] for end in got] == [0, 0, 0] and
            rows == [("h1", "h2", "zmq"), ("h1", "h3", "zmq"),
                     ("h2", "h3", "zmq")] and
            all(0.002 < rate < 0.1 for rate in rates) and
            not got[1][1] + got[2][1], got)


def a_pair_that_does_not_reach_each_other_is_named(case):
    hosts.run(["ip", "-n", "h2", "route", "add", "blackhole",
               f"{hosts.address(3)}/32"])
    got = on_machines(case, "--preflight")
    said = "".join(err for _, _, err in got)
    return ([end[0] for end in got] == [3, 3, 3] and
            said.count("error:") == 1 and
            re.search(r"rank 1 \(h2, pid \d+\) does not reach rank 2 "
                      r"\(h3, pid \d+\): .*10\.77\.0\.3:\d+", said) and
            not got[0][1], got)


CASES = [each_pair_is_measured_once, of_many_each_with_its_neighbours,
         the_slowest_pair_is_named, nothing_is_trained_or_written,
         the_link_is_what_a_run_uses, alone_it_says_so,
         it_fails_as_a_start_does, a_process_that_trains_is_another_one]
ON_MACHINES = [machines_are_named_with_their_speed,
               a_pair_that_does_not_reach_each_other_is_named]


def check_all(case, checks, first):
    failed = 0
    for i, check in enumerate(checks):
        good, detail = check(case)
        failed += not good
        print(f"{'' if good else 'not '}ok {first + i} - {check.__name__}",
              flush=True)
        if not good:
            print(f"# {detail!r}", flush=True)
    return failed


def main(why_not):
    print(f"1..{len(CASES + ON_MACHINES)}", flush=True)
    case = Case()
    failed = check_all(case, CASES, 1)
    first = len(CASES) + 1
    if why_not:
        for i, check in enumerate(ON_MACHINES):
            print(f"ok {first + i} - {check.__name__} # SKIP {why_not}")
    else:
        with hosts.Hosts(3, rate="100mbit") as case.cluster:
            failed += check_all(case, ON_MACHINES, first)
    return 1 if failed else 0


REASON = None if os.environ.get(hosts.ISOLATED) else hosts.why_not()
if not REASON:
    hosts.isolate()
with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    sys.exit(main(REASON))
