#!/usr/bin/env python3
"""ps_strangers.py - frames that nobody should send, to a coordinator, servers
and workers

    ps_strangers.py TFDC TFD_RUN ROOT RELAY [--full | --frames N] [--seed N]

Strangers without the key, at the ports of the coordinator and of the servers:
half-open connections, slow handshakes, bytes that are no protocol, garbage
frames (with --full a million).  The job has to end with its values, and to keep
no memory and no descriptor of them.

A member that has the key: it stands between workers and all others and sends
damaged copies of what each says, before that is passed on (ps_relay.c).  The
job may end for it, or compute something else, but no process crashes, none
takes much memory, and all end when they are told to.  Who gets what it cannot
read says so once for each peer, and how often at its end.  TAP.
"""
import argparse
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

import ps_tasks
from ps_tasks import end_of, loopback, start
from strangers import Strangers, settled
from tap import check, end

KEY = ["--key", "key"]
# Those that come by a worker.
KINDS = ["HELLO", "WELCOME", "HEARTBEAT", "SYNC", "RUN", "DONE", "START",
         "STATE", "SAVE", "SAVED", "PULL", "VALUES", "PUSH", "ACK", "SEVERAL"]
MOST_MEMORY = 16 << 20  # more than without them
LIMIT = 20  # seconds until all have ended
# A line that says why a process has ended, if not well.
LINE = re.compile(r"error: |interrupted")
# Who says what of whom, of messages of that kind.
SAYS = re.compile(r"warning: a damaged message \((.*)\) from (.*) is ignored")
SENDERS = {"coordinator": r"worker [01]$|a process with the job's key$",
           # PULL says which worker it is of, and so may a damaged one.
           "ps": r"worker \d+$|the coordinator$|a process with the job's key$",
           "worker": r"the coordinator$|server [01]$"}
TASKS = ["coordinator", "ps", "ps", "worker", "worker"]
ENOUGH = 30  # copies, of which some cannot be read


def memory(pid):
    """In bytes: none once it has ended."""
    with open(f"/proc/{pid}/status") as f:
        resident = re.search(r"VmRSS:\s+(\d+)", f.read())
    return int(resident[1]) << 10 if resident else 0


def descriptors(pid):
    """How many, of a process that nobody has waited for yet."""
    return len(os.listdir(f"/proc/{pid}/fd"))


# ---- without the key --------------------------------------------------------

class Port:
    """What Strangers know of a job."""

    def __init__(self, port):
        self.port = port
        self.with_key = True


def wait_for(port):
    """Until somebody listens there."""
    begin = time.time()
    while time.time() - begin < LIMIT:
        try:
            socket.create_connection(("127.0.0.1", port), 5).close()
            return
        except OSError:
            time.sleep(0.05)


def without_the_key(args):
    made, n = ps_tasks.plan("counts"), 400000 if args.full else 100000
    at = [loopback() for _ in range(3)]
    parts = [start(made, "--coordinate", "workers=1,ps=2", "--listen", at[0],
                   *KEY, "--set", f"closures={n}")]
    parts += [start(made, "--serve", f"ps:{i}", "--join", at[0], "--listen",
                    at[1 + i], *KEY) for i in range(2)]
    for a in at:
        wait_for(int(a.rsplit(":", 1)[1]))
    before = [(memory(p.pid), descriptors(p.pid)) for p in parts]
    visits = [Strangers(Port(int(a.rsplit(":", 1)[1])),
                        random.Random(args.seed + i), args.full,
                        args.frames // 3) for i, a in enumerate(at)]
    worker = start(made, "--serve", "worker:0", "--join", at[0], *KEY)
    for s in visits:
        s.hold_half_open()
        s.be_slow()
        s.be_wrong()
        s.flood()
    for s in visits:
        s.go()
    kept = []
    for p, (bytes, files) in zip(parts, before):
        if p.poll() is None:
            # The closures that wait are in the coordinator's memory.
            more = MOST_MEMORY + (200 * n if p is parts[0] else 0)
            kept.append(settled(lambda: memory(p.pid), bytes + more, 5) <=
                        bytes + more and
                        settled(lambda: descriptors(p.pid), files + 8, 15) <=
                        files + 8)
    ends = [end_of(p) for p in [*parts, worker]]
    check(f"{args.frames} frames of strangers",
          all(e[0] == 0 for e in ends) and all(kept) and
          ends[0][1] == ps_tasks.counts(n), f"{kept} {ends}")


# ---- with the key -----------------------------------------------------------

def a_member(args, kind, seed):
    """How many damaged copies of messages of that type it has sent."""
    made, at = ps_tasks.plan("saved"), loopback()
    common = [*KEY, "--silence", "2"]
    job = [start(made, "--coordinate", "workers=2,ps=2", "--listen", at,
                 "--checkpoint", f"saved-{kind}-{seed}", "--every", "1", "--set",
                 "rounds=30", *common)]
    job += [start(made, "--serve", f"ps:{i}", "--join", at, *common)
            for i in range(2)]
    relay = subprocess.Popen([args.relay, at, "key", str(seed), "1", kind],
                             text=True, stdout=subprocess.PIPE)
    door = f"127.0.0.1:{relay.stdout.readline().strip()}"
    job += [start(made, "--serve", f"worker:{i}", "--join", door, *common)
            for i in range(2)]
    most, begin = 0, time.time()
    # Of PUSH the job has to end by itself, however long that takes here.
    seconds = 3 * LIMIT if kind == "PUSH" else args.seconds
    while job[0].poll() is None and time.time() - begin < seconds:
        for p in job:
            try:
                most = max(most, memory(p.pid))
            except (OSError, TypeError):
                pass
        time.sleep(0.05)
    for p in job:
        if p.poll() is None:
            p.send_signal(signal.SIGTERM)
    ends = [end_of(p, LIMIT) for p in job]
    relay.send_signal(signal.SIGTERM)
    sent = int(relay.communicate()[0] or 0)
    wrong = [e for e in ends if e[0] not in (0, 1, 2, 3, 130) or
             (e[0] and not LINE.search(e[2]))]
    check(f"{sent} damaged copies of {kind}, seed {seed}",
          not wrong and most < args.memory << 20 and sent,
          f"{most >> 20} MB {wrong}\n{ends}")
    said = [(task, *of) for task, e in zip(TASKS, ends)
            for of in SAYS.findall(e[2])]
    check("... somebody says who has sent what", (said or sent < ENOUGH or
          kind == "PUSH") and
          all(re.match(SENDERS[task], peer) for task, _, peer in said) and
          all(len(SAYS.findall(e[2])) ==
              len({peer for _, peer in SAYS.findall(e[2])}) for e in ends),
          f"{said}")
    if kind == "PUSH" and not args.full:
        check("... the updates of a closure are damaged, says the coordinator",
              ends[0][0] == 1 and "the updates of a closure are damaged" in
              ends[0][2], str(ends))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", nargs=3)
    parser.add_argument("relay")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--frames", type=int)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--memory", type=int, default=400)  # MB
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    args.frames = args.frames or (1000000 if args.full else 100000)
    args.relay = os.path.abspath(args.relay)
    ps_tasks.use(*args.build)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        with open(os.open("key", os.O_CREAT | os.O_WRONLY, 0o600), "wb") as f:
            f.write(os.urandom(32))
        without_the_key(args)
        rng = random.Random(args.seed)
        kinds = KINDS if args.full else \
            ["PUSH", "PULL", *rng.sample(KINDS, args.rounds - 2)]
        for i, kind in enumerate(kinds * (args.rounds if args.full else 1)):
            a_member(args, kind, args.seed + i)
        os.chdir("/")
    end()


main()
