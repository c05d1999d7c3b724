"""peer.py FRAMEWORK MODE MODEL SIZES FOLDER THREADS REPLICAS [RANK PORT]: a live peer.

SIZES is JSON. FOLDER has initial/variables.safetensors and the data. Once its
first step is done it prints a line of JSON. Then each line of standard input, a
number of lines and of steps for each, makes it train on and print a line with
their losses, and seconds of one step: so it waits, idle, while others are measured.
"""
import importlib
import json
import os
import pathlib
import socket
import subprocess
import sys
import time

import numpy as np

import models
import values


def peak_bytes(process="self"):
    text = pathlib.Path(f"/proc/{process}/status").read_text()
    return 1024 * int(text.split("VmHWM:")[1].split()[0])


def say(**words):
    print(json.dumps(words), flush=True)


def read_batches(case, folder):
    names = list(case.model.data(case.sizes, 1, np.random.default_rng(1)))
    arrays = [np.load(f"{folder}/{name}.npy") for name in names]
    n = case.sizes["BATCH"]
    return [tuple(a[i * n:(i + 1) * n] for a in arrays) for i in range(models.BATCHES)]


def train(peer, begin, lines, chunk):
    """The last loss of each line's steps, and the seconds of one."""
    losses, times = [], []
    for _ in range(lines):
        before = time.perf_counter()
        for i in range(begin, begin + chunk):
            loss = peer.step(i)
        losses.append(peer.value(loss))
        times.append((time.perf_counter() - before) / chunk)
        begin += chunk
    return losses, times


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def make(case, framework, mode, folder, threads, replicas, rank, port):
    steps = importlib.import_module(framework + "_steps")
    arrays = values.read_values(f"{folder}/initial/variables.safetensors")
    peer = steps.Peer(case, arrays, read_batches(case, folder), mode, threads, replicas, rank, port)
    return peer, steps.VERSION


def commands(share):
    """Those of standard input; in all processes of a job the same."""
    for line in sys.stdin:
        yield [int(word) for word in (share(line) if share else line).split()]
    if share:
        share("")


def followed(share):
    while line := share(None):
        yield [int(word) for word in line.split()]


def serve(peer, version, lines, helper, quiet):
    (first,), (seconds,) = train(peer, 0, 1, 1)
    if not quiet:
        say(loss=first, seconds=seconds, version=version)
    done = 1
    for count, chunk in lines:
        losses, times = train(peer, done, count, chunk)
        done += count * chunk
        if not quiet:
            memory = peak_bytes() + (peak_bytes(helper.pid) if helper else 0)
            say(losses=losses, times=times, memory=memory)


def main():
    framework, mode, name, sizes, folder, threads, replicas, *job = sys.argv[1:]
    case = models.Case(name, json.loads(sizes))
    rank, port = map(int, job) if job else (0, free_port())
    helper = None
    if framework == "torch" and int(replicas) > 1 and rank == 0:
        helper = subprocess.Popen([sys.executable, *sys.argv, "1", str(port)],
                                  stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        peer, version = make(case, framework, mode, folder, int(threads), int(replicas), rank, port)
        share = peer.share if framework == "torch" and int(replicas) > 1 else None
        serve(peer, version, followed(share) if rank else commands(share), helper, rank > 0)
        if helper:
            helper.wait()
    except Exception as error:  # whatever a framework cannot do is a line of the table
        words = str(error).strip().splitlines() or [""]
        say(error=words[0] if isinstance(error, values.Unsupported)
            else f"{type(error).__name__}: {words[0]}")
        if not isinstance(error, values.Unsupported):
            raise
    finally:
        if helper and helper.poll() is None:
            helper.kill()


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
