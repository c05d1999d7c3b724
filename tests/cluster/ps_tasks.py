"""Jobs of a coordinator, servers and workers, for scripts that hurt them.

    made = ps_tasks.plan("counts")         in the folder in which the script is
    job = ps_tasks.start(made, "-n", "workers=3,ps=2")
    pid = random.choice(list(ps_tasks.tasks(job, "worker")))
"""
import os
import signal
import subprocess
import time

from hosts import free_port

TFDC = RUN = ROOT = None
LIMIT = 60  # seconds


def use(tfdc, run_, root):
    global TFDC, RUN, ROOT
    TFDC, RUN, ROOT = map(os.path.abspath, [tfdc, run_, root])


def plan(name):
    source = os.path.join(ROOT, "tests", "cluster", "ps", name + ".tfd")
    if not os.path.exists(name + ".tfp"):
        subprocess.run([TFDC, source, "-o", name + ".tfp"], check=True)
    return name + ".tfp"


def start(*args, **options):
    return subprocess.Popen([RUN, *args], text=True, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, **options)


def end_of(process, seconds=LIMIT):
    """Its status, None if it has none in time, and what it said."""
    try:
        out, err = process.communicate(timeout=seconds)
        return process.returncode, out, err
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        return None, out, err


def run(*args, seconds=LIMIT):
    return end_of(start(*args), seconds)


def loopback():
    return f"127.0.0.1:{free_port()}"


def tasks(parent, kind):
    """The processes of a job that are workers or servers, or its coordinator:
    what each is, by pid."""
    found = {}
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
        for word in words:
            if word.startswith(kind + ":") or \
                    (kind == "coordinator" and word == "--coordinate"):
                found[pid] = word
    return found


def send(pid, what):
    try:
        os.kill(pid, what)
    except ProcessLookupError:
        pass


def stop_for(seconds):
    def fault(pid):
        send(pid, signal.SIGSTOP)
        time.sleep(seconds)
        send(pid, signal.SIGCONT)
    return fault


def counts(n):
    """What counts.tfd prints of n closures, each of which counted once."""
    named = [str(n // 8)] * 7 + [str(n // 8 + n)]
    return (f"hits {n}\ncounts [{' '.join([str(n // 8)] * 8)}]\n"
            f"block {n}.0 {n}.0\nnamed ["
            f"{' '.join(word.rjust(len(named[7])) for word in named)}]\n")
