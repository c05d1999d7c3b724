#!/usr/bin/env python3
"""ps_saved.py - jobs with servers and workers that go on from checkpoints

    ps_saved.py TFDC TFD_RUN ROOT [KILLS [SEED]]    TAP

A job that is killed and resumed, as a whole, ends with the bits of an
undisturbed one where there is one worker, and each closure counts once however
many there are.
"""
import glob
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

from hosts import free_port
from tap import check, end

TFDC, RUN, ROOT = map(os.path.abspath, sys.argv[1:4])
KILLS = int(sys.argv[4]) if len(sys.argv) > 4 else 2
random.seed(int(sys.argv[5]) if len(sys.argv) > 5 else 1)
LIMIT = 60  # seconds
SAVES = ["--checkpoint", "saved", "--every"]


def plan(name):
    source = os.path.join(ROOT, "tests", "cluster", "ps", name + ".tfd")
    subprocess.run([TFDC, source, "-o", name + ".tfp"], check=True)
    return name + ".tfp"


def run(*args):
    done = subprocess.run([RUN, *args], text=True, capture_output=True,
                          timeout=LIMIT)
    return done.returncode, done.stdout, done.stderr


def anew():
    shutil.rmtree("saved", ignore_errors=True)


def forget(step):
    """As if the run had ended before it made this checkpoint."""
    os.remove(f"saved/step-{step}.ckpt")


# ---- the bits ---------------------------------------------------------------

def from_each_checkpoint(made):
    alone = run(made, "--checksum")
    job = ["-n", "workers=1,ps=2", "--checksum"]
    anew()
    saved = run(made, *job, *SAVES, "1")
    check("a job that is saved has the bits of one process",
          saved == alone and alone[0] == 0, f"{alone} {saved}")
    files = sorted(glob.glob("saved/*.ckpt"))
    for step in [12, 11]:
        forget(step)
        again = run(made, "-n", f"workers=1,ps={step - 9}", "--checksum",
                    *SAVES, "100", "--resume")
        check(f"... and resumed after step {step - 1}, on {step - 9} servers",
              again[:2] == alone[:2] and
              f"resuming after step {step - 1}," in again[2],
              f"{files} {alone} {again}")
    code, out, err = run(made, *SAVES, "100", "--resume")
    check("one process refuses it", code == 1 and "it is of a job with servers "
          "and workers: resume it with -n workers=W,ps=P" in err, out + err)
    anew()
    run(made, *SAVES, "5")
    code, out, err = run(made, *job, *SAVES, "5", "--resume")
    check("a job refuses that of one process", code == 1 and "it is of a run in "
          "one process: resume it without servers and workers" in err, out + err)


def params_are_the_coordinators(made):
    """They are in the checkpoint, and need not be said again."""
    job = ["-n", "workers=1,ps=2", "--checksum"]
    values = ["--set", "rate=0.2", "--seed", "5"]
    whole = run(made, *job, *values)
    anew()
    run(made, *job, *values, *SAVES, "1")
    forget(12)
    again = run(made, *job, *SAVES, "1", "--resume")
    check("a resumed job has its params and seed",
          again[:2] == whole[:2] and whole[0] == 0, f"{whole} {again}")
    at = f"127.0.0.1:{free_port()}"
    tasks = [["--coordinate", "workers=1,ps=2", "--listen", at, "--checksum",
              *values]]
    tasks += [["--serve", task, "--join", at]
              for task in ["ps:0", "ps:1", "worker:0"]]
    parts = [subprocess.Popen([RUN, made, *task], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
             for task in tasks]
    ends = [part.communicate(timeout=LIMIT) for part in parts]
    check("... and tasks started by hand have those of their coordinator",
          ends[0][0] == whole[1], f"{whole} {ends}")


def no_such_param(made):
    """Those who wait for the coordinator hear that it has ended."""
    at = f"127.0.0.1:{free_port()}"
    server = subprocess.Popen([RUN, made, "--serve", "ps:0", "--join", at],
                              text=True, stderr=subprocess.PIPE)
    code, out, err = run(made, "--coordinate", "workers=1,ps=1", "--listen", at,
                         "--set", "rat=2")
    told = server.communicate(timeout=LIMIT)[1]
    check("a coordinator that ends before its main", code == 2 and
          "did you mean rate?" in err and server.returncode == 3 and
          f"the coordinator at tcp://{at} has ended the job" in told,
          f"{code} {err} {told}")


# ---- the end of a job, at any moment ----------------------------------------

COUNTS = re.compile(r"(\d+) closures, \[(.*)\]")


def newest():
    """The step of the newest checkpoint."""
    steps = re.findall(r"step-(\d+)\.ckpt", " ".join(glob.glob("saved/*")))
    return max(map(int, steps), default=0)


def killed(made, workers):
    """All of it, by the death of the parent, KILLS times."""
    job = ["-n", f"workers={workers},ps=2", "--checksum", "--set",
           f"rounds={40 + 30 * KILLS}", "--set", "each=50"]
    whole = run(made, *job)
    anew()
    begin = time.time()
    kills = 0
    while kills < KILLS and time.time() - begin < LIMIT:
        last = newest()
        p = subprocess.Popen([RUN, made, *job, *SAVES, "1", "--resume"],
                             text=True, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE)
        while newest() == last and p.poll() is None and \
                time.time() - begin < LIMIT:
            time.sleep(0.01)
        time.sleep(0.25 * random.random())
        kills += p.poll() is None
        p.send_signal(signal.SIGKILL)
        p.communicate()
        if p.returncode == 0:
            break
        time.sleep(0.05)
    code, out, err = run(made, *job, *SAVES, "1", "--resume")
    if workers == 1:
        good = out == whole[1]
    else:
        good = COUNTS.match(out) and COUNTS.match(out)[0] == \
            COUNTS.match(whole[1])[0]
    check(f"{workers} worker(s), {kills} times all are killed", kills and
          code == 0 and good and ("resuming after step" in err), f"{whole} {code} {out} {err}")


def tasks(parent, kind):
    """The processes of a job that are workers or servers, or its coordinator."""
    options = {"coordinator": "--coordinate"}
    found = []
    try:
        with open(f"/proc/{parent.pid}/task/{parent.pid}/children") as f:
            pids = [int(word) for word in f.read().split()]
    except OSError:
        return found
    for pid in pids:
        try:
            with open(f"/proc/{pid}/cmdline") as f:
                words = f.read().split("\0")
        except OSError:
            continue
        if options.get(kind) in words or \
                any(word.startswith(kind + ":") for word in words):
            found.append(pid)
    return found


def signalled(made, kind, what, kills, workers, each=50):
    """Tasks of that kind end at random moments; the parent starts the job again
    from its checkpoint, as it does by --restarts."""
    job = ["-n", f"workers={workers},ps=2", "--checksum",
           "--set", f"rounds={40 + 40 * kills}", "--set", f"each={each}"]
    if what == signal.SIGSTOP:
        job += ["--silence", "3"]
    whole = run(made, *job)
    anew()
    p = subprocess.Popen([RUN, made, *job, *SAVES, "1", "--restarts",
                          str(kills)], text=True, stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE)
    done, hit = 0, set()
    begin = time.time()
    while what == signal.SIGSTOP and p.poll() is None and \
            not glob.glob("saved/step-[1-9]*") and time.time() - begin < LIMIT:
        time.sleep(0.01)  # who has not joined yet is not missed
    while done < kills and p.poll() is None and time.time() - begin < 2 * LIMIT:
        time.sleep((0.3 if each > 1 else 0.02) * random.random())
        found = [pid for pid in tasks(p, kind) if pid not in hit]
        if len(found) < (2 if kind == "ps" else 1):
            continue  # one that comes later would be taken for the next's
        pid = random.choice(found)
        hit.update(found)  # one of each attempt
        try:
            os.kill(pid, what)
            done += 1
        except ProcessLookupError:
            pass
    try:
        out, err = p.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        p.kill()
        out, err = p.communicate()
    counted = COUNTS.match(out) and COUNTS.match(out)[0] == \
        COUNTS.match(whole[1])[0]
    again = len(re.findall(r"restart \d+ of \d+, from the newest", err))
    check(f"{kind}, signal {what}, {done} times of {workers} worker(s): each "
          "closure counts once", p.returncode == 0 and done and
          again == done and counted and (workers > 1 or out == whole[1]),
          f"{whole} {p.returncode} {out} {err}")


class Lines:
    """What a process says, while it runs."""

    def __init__(self, process):
        self.text = ""
        self.process = process
        self.thread = threading.Thread(target=self.read)
        self.thread.start()

    def read(self):
        for line in self.process.stderr:
            self.text += line


def is_writing():
    return bool(glob.glob("saved/*.tmp-*"))


def in_the_midst(made, kills):
    """A task is killed while a checkpoint is written; while main collects what
    the next one has; while a resumed job gets what it had."""
    job = ["-n", "workers=1,ps=2", "--checksum", "--set",
           f"rounds={6 + 2 * kills}"]
    whole = run(made, *job)
    anew()
    p = subprocess.Popen([RUN, made, *job, *SAVES, "1", "--restarts",
                          str(kills)], text=True, stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE)
    lines, begin, done, ends = Lines(p), time.time(), [], 0
    while ends < kills and p.poll() is None and time.time() - begin < 2 * LIMIT:
        moment = ["writing", "collecting", "resuming"][len(done) % 3]
        kind = random.choice(["ps", "coordinator", "worker"])
        resumed, last = lines.text.count("resuming after step"), newest()
        while p.poll() is None and time.time() - begin < 2 * LIMIT:
            if newest() > last and (is_writing() or moment != "writing"):
                break
            if moment == "resuming" and \
                    lines.text.count("resuming after step") > resumed:
                break
            time.sleep(0.001)
        time.sleep({"writing": 0.01, "collecting": 0.3,
                    "resuming": 0.3}[moment] * random.random())
        found = tasks(p, kind)
        if not found or p.poll() is not None:
            continue
        again = lines.text.count("restart ")
        os.kill(random.choice(found), signal.SIGKILL)
        done.append(f"{kind} {moment}")
        if kind == "worker":
            continue
        ends += 1
        while p.poll() is None and lines.text.count("restart ") == again and \
                time.time() - begin < 2 * LIMIT:
            time.sleep(0.001)
    out = p.stdout.read()
    p.wait(LIMIT)
    lines.thread.join()
    left = [name for name in os.listdir("saved") if ".tmp-" in name]
    # A worker that is replaced takes elements since the checkpoint anew.
    good = out == whole[1] or (ends < len(done) and
                               out.split(",")[0] == whole[1].split(",")[0])
    check(f"killed in the midst of it, {len(done)} times: each closure counts "
          "once", p.returncode == 0 and good and not left and
          lines.text.count("from the newest checkpoint") == ends,
          f"{whole} {p.returncode} {out} {lines.text} {done} {left}")


def more_often(made):
    """A server's death is the end where that was allowed N times already."""
    anew()
    p = subprocess.Popen([RUN, made, "-n", "workers=1,ps=2", *SAVES, "1",
                          "--restarts", "1", "--set", "rounds=1000000"],
                         text=True, stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE)
    hit = set()
    for _ in range(2):
        new = []
        while len(new) < 2 and p.poll() is None:
            time.sleep(0.05)
            new = [pid for pid in tasks(p, "ps") if pid not in hit]
        time.sleep(0.2)
        hit.update(new)
        os.kill(new[0], signal.SIGKILL)
    out, err = p.communicate(timeout=LIMIT)
    check("the second death of a server, of one that is allowed",
          p.returncode == 3 and err.count("was killed by signal 9") == 2
          and err.count("from the newest checkpoint") == 1,
          f"{p.returncode} {out} {err}")


def interrupted(made):
    job = ["-n", "workers=1,ps=2", "--checksum", "--set", "rounds=200"]
    whole = run(made, *job)
    anew()
    p = subprocess.Popen([RUN, made, *job, *SAVES, "1000"], text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    while not glob.glob("saved/step-0.ckpt") and p.poll() is None:
        time.sleep(0.01)
    time.sleep(0.05)
    p.send_signal(signal.SIGINT)
    out, err = p.communicate(timeout=LIMIT)
    left = glob.glob("saved/step-[1-9]*.ckpt")
    check("an interrupt ends a job with a checkpoint", p.returncode == 130 and
          len(left) == 1, f"{p.returncode} {out} {err} {left}")
    again = run(made, *job, *SAVES, "1000", "--resume")
    check("... from which it goes on", again[:2] == whole[:2], f"{whole} {again}")


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    saved = plan("saved")
    from_each_checkpoint(saved)
    params_are_the_coordinators(saved)
    no_such_param(saved)
    interrupted(saved)
    killed(saved, 2)
    more_often(saved)
    for count in [1, 3]:
        signalled(saved, "ps", signal.SIGKILL, KILLS, count)
    signalled(saved, "coordinator", signal.SIGKILL, KILLS, 2)
    in_the_midst(plan("heavy"), KILLS)
    # Main pulls from it, most of the time.
    signalled(saved, "ps", signal.SIGSTOP, 1, 2, each=1)
end()
