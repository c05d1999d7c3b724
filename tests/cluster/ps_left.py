#!/usr/bin/env python3
"""ps_left.py - who is left of a job, or waits for one that does not come

    ps_left.py TFDC TFD_RUN ROOT    TAP

Tasks that are started by hand at one address, with one key: those of a job
whose coordinator is dead do not take part in the next one, two processes of one
number are two, and whoever waits ends.
"""
import os
import re
import signal
import sys
import tempfile
import time

import ps_tasks
from ps_tasks import LIMIT, end_of, loopback, plan, run, start
from tap import check, end

ps_tasks.use(*sys.argv[1:4])
KEY = ["--key", "key"]
MANY = ["--set", "closures=100000000"]


def wait_until_it_works(at, closures=100):
    """So many have ended, says the coordinator."""
    begin = time.time()
    while time.time() - begin < LIMIT:
        out = run("--status", at, *KEY)[1]
        found = re.search(r"(\d+) ended", out)
        if found and int(found[1]) > closures:
            return
        time.sleep(0.05)


def catches_interrupts(pid):
    with open(f"/proc/{pid}/status") as f:
        caught = re.search(r"SigCgt:\t(\w+)", f.read())
    return int(caught[1], 16) >> (signal.SIGTERM - 1) & 1


def an_old_server_and_worker():
    """Their job's coordinator dies, and the next one listens where it did: the
    worker, which was stopped, sends again what no server had acknowledged."""
    made, at, server_at = plan("amounts"), loopback(), loopback()
    server = ["--serve", "ps:0", "--join", at, "--listen", server_at, *KEY]
    worker = ["--serve", "worker:0", "--join", at, *KEY]
    old = [start(made, "--coordinate", "workers=1,ps=1", "--listen", at, *KEY,
                 *MANY, "--set", "amount=1000"),
           start(made, *server), start(made, *worker)]
    wait_until_it_works(at, 40000)
    old[1].send_signal(signal.SIGSTOP)  # pushes are under way then
    time.sleep(0.2)
    old[2].send_signal(signal.SIGSTOP)
    old[0].kill()
    old[1].kill()
    for p in old[:2]:
        p.communicate()
    time.sleep(1)  # until they are sent again
    new = [start(made, "--coordinate", "workers=1,ps=1", "--listen", at, *KEY,
                 "--set", "closures=100000"),
           start(made, *server), start(made, *worker)]
    time.sleep(0.2)
    old[2].send_signal(signal.SIGCONT)
    code, out, err = end_of(new[0])
    left = end_of(old[2])
    check("a worker of another job takes no part", code == 0 and
          out == "total 100000\n" and left[0] == 2 and re.search(
              "refuses it: (it is of another job|a later process)", left[2]),
          f"{code} {out} {err} {left}")
    for p in new[1:]:
        check("... and the new job's end well", end_of(p)[0] == 0)


def an_old_server():
    """It greets the next coordinator, before that one's own server does."""
    made, at = plan("amounts"), loopback()
    old = [start(made, "--coordinate", "workers=1,ps=1", "--listen", at, *KEY,
                 *MANY, "--set", "amount=1000"),
           start(made, "--serve", "ps:0", "--join", at, *KEY),
           start(made, "--serve", "worker:0", "--join", at, *KEY)]
    wait_until_it_works(at)
    for i in [2, 0]:
        old[i].kill()
        old[i].communicate()
    new = start(made, "--coordinate", "workers=1,ps=1", "--listen", at, *KEY)
    code, _, err = end_of(old[1])
    check("a server of another job is refused", code == 2 and
          "refuses it: it is of another job, whose coordinator has ended" in
          err, f"{code} {err}")
    parts = [start(made, "--serve", task, "--join", at, *KEY)
             for task in ["ps:0", "worker:0"]]
    code, out, err = end_of(new)
    check("... and the job waits for its own", code == 0 and
          out == "total 1000\n", f"{code} {out} {err}")
    for p in parts:
        end_of(p)


def two_of_one_number():
    """Started in one moment: the second takes the first one's place."""
    made, at = plan("counts"), loopback()
    job = [start(made, "--coordinate", "workers=1,ps=1", "--listen", at, *KEY,
                 "--set", "closures=40000"),
           start(made, "--serve", "ps:0", "--join", at, *KEY)]
    two = [start(made, "--serve", "worker:0", "--join", at, *KEY)
           for _ in range(2)]
    code, out, err = end_of(job[0])
    ends = [end_of(p) for p in two]
    refused = [e for e in ends if "a later process has taken its place" in e[2]]
    check("two workers of one number", code == 0 and
          out == ps_tasks.counts(40000) and len(refused) == 1 and
          sorted(str(e[0]) for e in ends) == ["0", "2"], f"{code} {out} {err} {ends}")
    check("... their server", end_of(job[1])[0] == 0)


def two_servers_of_one_number():
    made, at = plan("amounts"), loopback()
    coordinator = start(made, "--coordinate", "workers=1,ps=1", "--listen", at,
                        *KEY)
    two = [start(made, "--serve", "ps:0", "--join", at, *KEY)
           for _ in range(2)]
    begin = time.time()
    while all(p.poll() is None for p in two) and time.time() - begin < LIMIT:
        time.sleep(0.05)
    worker = start(made, "--serve", "worker:0", "--join", at, *KEY)
    ends = [end_of(p) for p in [coordinator, worker, *two]]
    check("two servers of one number: one of them is refused",
          ends[0][:2] == (0, "total 1000\n") and
          sorted(str(e[0]) for e in ends[1:]) == ["0", "0", "2"] and
          "another process is this server" in ends[2][2] + ends[3][2],
          f"{ends}")


def nobody_comes():
    made, at = plan("amounts"), loopback()
    few = ["--timeout", "1", "--silence", "1"]
    waits = [start(made, "--serve", task, "--join", at, *KEY, *few)
             for task in ["ps:0", "worker:0"]]
    for p in waits:
        code, _, err = end_of(p)
        check("no coordinator", code == 3 and
              f"no coordinator has answered at tcp://{at} for 1 seconds "
              "(--timeout allows more)" in err, f"{code} {err}")
    alone = start(made, "--serve", "ps:0", "--join", at, *KEY)
    while not catches_interrupts(alone.pid) and alone.poll() is None:
        time.sleep(0.01)
    alone.send_signal(signal.SIGTERM)
    code, _, err = end_of(alone)
    check("... and an interrupt", code == 130 and "the task was interrupted" in
          err, f"{code} {err}")
    at = loopback()
    lonely = start(made, "--coordinate", "workers=1,ps=2", "--listen", at, *KEY,
                   *few)
    server = start(made, "--serve", "ps:1", "--join", at, *KEY, *few)
    code, _, err = end_of(lonely)
    check("a server does not come", code == 3 and "server 0 has not joined "
          "after 1 seconds (--timeout allows more)" in err, f"{code} {err}")
    end_of(server)
    at = loopback()
    coordinator = start(made, "--coordinate", "workers=1,ps=1", "--listen", at,
                        *KEY)
    worker = start(made, "--serve", "worker:0", "--join", at, *KEY, "--silence",
                   "1")
    while " worker 0" not in run("--status", at, *KEY)[1].replace("\n", " "):
        time.sleep(0.05)
    coordinator.kill()
    coordinator.communicate()
    code, _, err = end_of(worker)
    check("a coordinator dies while others wait for its servers", code == 3 and
          "the coordinator has not been heard for 1 s" in err, f"{code} {err}")


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    with open(os.open("key", os.O_CREAT | os.O_WRONLY, 0o600), "wb") as f:
        f.write(os.urandom(32))
    an_old_server_and_worker()
    an_old_server()
    two_of_one_number()
    two_servers_of_one_number()
    nobody_comes()
end()
