#!/usr/bin/env python3
"""ps_local_cluster.py - servers and workers that stay, for coordinators

    ps_local_cluster.py TFDC TFD_RUN ROOT    TAP
"""
import errno
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time

import ps_tasks
from tap import check, end

ps_tasks.use(*sys.argv[1:4])
PRINTED = re.compile(r"target (127.0.0.1:\d+)\nkey (\S+)\ntfd-run (.*)\n")


def printed(cluster):
    text = "".join(cluster.stdout.readline() for _ in range(3))
    return PRINTED.fullmatch(text).groups()


def is_kept(target):
    """Whether nobody else gets its port, even before a coordinator listens."""
    host, port = target.split(":")
    with socket.socket() as other:
        try:
            other.bind((host, int(port)))
        except OSError as e:
            return e.errno == errno.EADDRINUSE
    return False


def jobs(made):
    cluster = ps_tasks.start(made, "--local-cluster", "workers=2,ps=2")
    target, key, command = printed(cluster)
    check("its port is kept for coordinators", is_kept(target))
    check("its key is for this user alone",
          stat.S_IMODE(os.stat(key).st_mode) == 0o600 and
          os.path.getsize(key) == 32)
    for i in range(3):
        code, out, err = ps_tasks.run(*command.split(), "--set",
                                      "closures=800")
        check(f"job {i} joins it by what it printed",
              code == 0 and out == ps_tasks.counts(800), f"{code} {out} {err}")
    for pid in ps_tasks.tasks(cluster, "worker"):
        ps_tasks.send(pid, signal.SIGKILL)
    code, out, err = ps_tasks.run(*command.split(), "--set", "closures=800")
    check("workers that were killed are replaced",
          code == 0 and out == ps_tasks.counts(800), f"{code} {out} {err}")
    with open("another", "wb") as f:
        f.write(os.urandom(32))
    os.chmod("another", 0o600)
    code, out, err = ps_tasks.run(made, "--coordinate", "workers=2,ps=2",
                                  "--listen", target, "--key", "another",
                                  "--timeout", "2")
    check("a coordinator with another key has no servers", code == 3, out + err)
    pids = list(ps_tasks.tasks(cluster, "worker")) + \
        list(ps_tasks.tasks(cluster, "ps"))
    cluster.send_signal(signal.SIGINT)
    code, out, err = ps_tasks.end_of(cluster)
    check("an interrupt ends all of it", code == 0 and len(pids) == 4 and
          not any(os.path.exists(f"/proc/{pid}") for pid in pids) and
          not os.path.exists(key), f"{code} {pids} {out} {err}")


def state(pid):
    """R, S: it goes on; T: it is stopped; "": it is gone."""
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rsplit(")", 1)[1].split()[0]
    except OSError:
        return ""


def comes_to(condition):
    end = time.monotonic() + ps_tasks.LIMIT
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def stopped(made):
    cluster = ps_tasks.start(made, "--local-cluster", "workers=1,ps=1")
    target, key, command = printed(cluster)
    pids = []

    def all_run():
        pids[:] = [cluster.pid, *ps_tasks.tasks(cluster, "worker"),
                   *ps_tasks.tasks(cluster, "ps")]
        return len(pids) == 3

    comes_to(all_run)
    cluster.send_signal(signal.SIGUSR2)
    cluster.send_signal(signal.SIGTSTP)
    stop = comes_to(lambda: cluster.poll() is not None or
                    all(state(pid) == "T" for pid in pids))
    check("control-Z stops all of it", stop and cluster.poll() is None,
          f"{pids} {cluster.poll()}")
    cluster.send_signal(signal.SIGCONT)
    code, out, err = ps_tasks.run(*command.split(), "--set", "closures=80")
    check("... and it goes on", code == 0 and out == ps_tasks.counts(80),
          f"{code} {out} {err}")
    cluster.send_signal(signal.SIGTERM)
    ps_tasks.end_of(cluster)


def killed(made):
    """Nothing is left of a key."""
    os.mkdir("tmp")
    cluster = ps_tasks.start(made, "--local-cluster", "workers=1,ps=1",
                             env={**os.environ, "TMPDIR": "tmp"})
    target, key, command = printed(cluster)
    before = os.path.getsize(key)
    cluster.kill()
    ps_tasks.end_of(cluster)
    check("one that is killed leaves no key", before == 32 and
          not os.path.exists(key) and not os.listdir("tmp"),
          f"{key} {os.listdir('tmp')}")


def given(made):
    """The address and the key, which stays."""
    at = ps_tasks.loopback()
    with open("own", "wb") as f:
        f.write(os.urandom(32))
    os.chmod("own", 0o600)
    cluster = ps_tasks.start(made, "--local-cluster", "workers=1,ps=1",
                             "--join", at, "--key", "own")
    target, key, command = printed(cluster)
    code, out, err = ps_tasks.run(*command.split(), "--set", "closures=80")
    check("an address and a key that are given", (target, key) == (at, "own")
          and code == 0 and out == ps_tasks.counts(80), f"{code} {out} {err}")
    cluster.send_signal(signal.SIGTERM)
    ps_tasks.end_of(cluster)
    check("... and the key stays", os.path.exists("own"))


def refusals(made):
    with open("one.tfd", "w") as f:
        f.write("main { print(\"one\") }\n")
    subprocess.run([ps_tasks.TFDC, "one.tfd"], check=True)
    for args, want in [
            ([made, "--local-cluster", "2"], '"2" is no number of tasks'),
            ([made, "--local-cluster", "workers=1,ps=1", "--listen", "*:1"],
             "--local-cluster and --listen contradict each other"),
            ([made, "--local-cluster", "workers=1,ps=1", "--checkpoint", "run"],
             "--local-cluster and --checkpoint contradict each other: a "
             "coordinator is started by itself"),
            ([made, "--local-cluster", "workers=1,ps=1", "--set",
              "closures=3"], "--local-cluster and --set contradict each other"),
            ([made, "--local-cluster", "workers=1,ps=1,evaluator=1"],
             "start it with --serve evaluator"),
            (["one.tfp", "--local-cluster", "workers=1,ps=1"],
             "--local-cluster is for plans of strategy parameter_server")]:
        code, out, err = ps_tasks.run(*args)
        check("refused: " + " ".join(args[1:]), code == 2 and want in err,
              out + err)


def full_disk(made):
    """Who could not say how it is joined does not stay."""
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [ps_tasks.RUN, made, "--local-cluster", "workers=1,ps=1"],
            stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    check("what it prints has no room: exit status 3", done.returncode == 3 and
          "cannot write standard output: No space left on device"
          in done.stderr, f"{done.returncode} {done.stderr}")


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    counting = ps_tasks.plan("counts")
    jobs(counting)
    stopped(counting)
    killed(counting)
    given(counting)
    full_disk(counting)
    refusals(counting)
end()
