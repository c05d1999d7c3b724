#!/usr/bin/env python3
"""stuck.py TFDC TFD_RUN BLOCKING_ZMQ [--count N | --full] [--seed N]

Jobs whose libzmq does not return from a call (blocking_zmq.c), or whose control
server says nothing: each ends by --timeout, and by SIGTERM, with a line that
says why, and leaves no process.  TAP.  --full takes every function, process and
way; --count N of them by chance.
"""
import argparse
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import programs

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
SECONDS = 40  # in which a job with --timeout 2 has to end
AT_ONCE = 8
PARENT = ""
# Of these the first call is in joining; others are looked at in a run, too.
AFTER = (0, 3, 40)
LINE = re.compile(r"^(\[\d+\] )?tfd-run: (error: |interrupted|note: the library)",
                  re.M)


def functions():
    with open(f"{ROOT}/runtime/cluster/zmq/zmq.def") as f:
        return re.findall(r"^ZMQ_CALL\([^,]*, *(\w+),", f.read(), re.M)


def path_of_libzmq():
    """Where the system has it."""
    code = ("import ctypes; ctypes.CDLL('libzmq.so.5'); print([line.split()[-1]"
            " for line in open('/proc/self/maps') if 'libzmq' in line][0])")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True,
                          text=True)
    return done.stdout.strip()


class Case:
    def __init__(self, args):
        self.tfd_run = args.tfd_run
        self.libzmq = path_of_libzmq()
        self.folder = os.getcwd()
        os.mkdir("lib")
        shutil.copy(args.library, "lib/libzmq.so.5")
        self.key = os.path.abspath("key")
        with open(os.open(self.key, os.O_CREAT | os.O_WRONLY, 0o600),
                  "wb") as f:
            f.write(os.urandom(32))
        with open("train.tfd", "w") as f:
            f.write(programs.endless("      run train_step(x)"))
        subprocess.run([args.tfdc, "train.tfd", "--devices", "cpu:0-1"],
                       check=True)
        self.plan = os.path.abspath("train.tfp")
        self.marks = {}  # of what blocks, by it

    def start(self, options, env=None):
        return subprocess.Popen(
            [self.tfd_run, self.plan, "--threads", "1", *options], text=True,
            env=dict(os.environ, **(env or {})), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            start_new_session=True)

    def environment(self, function, rank, after):
        mark = tempfile.mktemp(dir=self.folder)
        self.marks[mark] = f"{function} of rank {rank or 'none'}"
        path = os.environ.get("LD_LIBRARY_PATH")
        return mark, {"LD_LIBRARY_PATH": f"{self.folder}/lib" +
                      (f":{path}" if path else ""),
                      "TEST_ZMQ": self.libzmq, "TEST_BLOCK": function,
                      "TEST_BLOCK_RANK": rank, "TEST_BLOCK_AFTER": str(after),
                      "TEST_BLOCK_MARK": mark}


def left_of(group):
    """Processes of a process group that have not ended."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat") as f:
                    words = f.read().rsplit(")", 1)[1].split()
                if int(words[3]) == group and words[0] != "Z":
                    found.append(int(name))  # of the session
            except OSError:
                pass
    return found


def end_of(process, seconds=SECONDS):
    """Its status, None if it has none in time, and what it said."""
    try:
        out, err = process.communicate(timeout=seconds)
        status = process.returncode
    except subprocess.TimeoutExpired:
        for pid in left_of(process.pid):
            os.kill(pid, signal.SIGKILL)
        out, err = process.communicate()
        status = None
    return status, out, err


def wait_for(path, process, seconds=2):
    """Whether the file comes while the process runs."""
    end = time.time() + seconds
    while time.time() < end and process.poll() is None:
        if os.path.exists(path):
            return True
        time.sleep(0.005)
    return os.path.exists(path)


def judge(name, status, err, allowed):
    if status is None:
        return f"{name}: it has not ended: {err!r}"
    if status not in allowed:
        return f"{name}: status {status}: {err!r}"
    if status and not LINE.search(err):
        return f"{name}: status {status}, and no line says why: {err!r}"
    return ""


def by_timeout(case, function, rank, after, link):
    """A short run; where the function is not called it trains."""
    _, env = case.environment(function, rank, after)
    name = f"{function} of rank {rank or 'none'}, call {after + 1}{link}"
    p = case.start(["-n", "2", "--timeout", "2", "--silence", "2",
                    "--set", "epochs=0", *link], env)
    status, _, err = end_of(p)
    left = left_of(p.pid)
    if left:
        return f"{name}: processes are left: {left}"
    return judge(name, status, err, (0, 3))


def by_signal(case, function, rank, after, link):
    """One that would run for long, when the function has been called."""
    mark, env = case.environment(function, rank, after)
    name = (f"{function} of rank {rank or 'none'}, call {after + 1}{link}, "
            f"SIGTERM")
    p = case.start(["-n", "2", "--timeout", "1000", "--silence", "1000",
                    "--set", "epochs=0" if after == 0 else "epochs=1", *link],
                   env)
    if wait_for(mark, p) or p.poll() is None:
        p.send_signal(signal.SIGTERM)
    status, _, err = end_of(p)
    left = left_of(p.pid)
    if left:
        return f"{name}: processes are left: {left}"
    return judge(name, status, err, (0, 3, 130, -signal.SIGTERM))


# ---- servers that say nothing ----------------------------------------------

GREETING = (b"\xff" + bytes(8) + b"\x7f" + b"\x03\x00" + b"NULL" + bytes(16) +
            b"\x00" + bytes(31))
READY = (b"\x04\x19\x05READY\x0bSocket-Type" + (6).to_bytes(4, "big") +
         b"ROUTER")


class Silent:
    """A control server that accepts, or shakes hands, and says no more."""

    def __init__(self, shakes_hands):
        self.shakes_hands = shakes_hands
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.connections = []
        self.connected = threading.Event()
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                c, _ = self.socket.accept()
            except OSError:
                return
            self.connections.append(c)
            if self.shakes_hands:
                c.sendall(GREETING)
                c.sendall(READY)
            self.connected.set()


def a_silent_server(case, shakes_hands, signalled):
    server = Silent(shakes_hands)
    name = (f"a server that {'shakes hands' if shakes_hands else 'accepts'} "
            f"and is silent, {'SIGTERM' if signalled else '--timeout'}")
    p = case.start(["--rank", "1", "--size", "2", "--join",
                    f"127.0.0.1:{server.port}", "--timeout",
                    "1000" if signalled else "2"])
    if signalled:
        server.connected.wait(10)
        p.send_signal(signal.SIGTERM)
    status, _, err = end_of(p)
    server.socket.close()
    wrong = judge(name, status, err, (130,) if signalled else (3,))
    if not wrong and not signalled and "has not answered after 2 seconds" \
            not in err:
        return f"{name}: {err!r}"
    return wrong


# ---- all of it ---------------------------------------------------------------

def ways():
    """Every function, in each process, by both ends."""
    found = []
    for function in functions():
        for rank in (PARENT, "0", "1"):
            for after in AFTER:
                for link in ((), ("--link", "zmq")):
                    if rank == PARENT and link:
                        continue
                    for end in (by_timeout, by_signal):
                        found.append((end, function, rank, after, link))
    return found


# Each thread and each moment once: what the others are chosen beside.
ALWAYS = [(by_timeout, "zmq_poll", PARENT, 0, ()),
          (by_signal, "zmq_poll", PARENT, 0, ()),
          (by_timeout, "zmq_poll", "1", 0, ()),
          (by_signal, "zmq_poll", "0", 0, ()),
          (by_signal, "zmq_ctx_new", "1", 0, ()),
          (by_timeout, "zmq_ctx_term", "1", 0, ()),
          (by_timeout, "zmq_close", PARENT, 0, ()),
          (by_signal, "zmq_bind", PARENT, 0, ()),
          (by_signal, "zmq_bind", "1", 0, ("--link", "zmq"))]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tfdc")
    parser.add_argument("tfd_run")
    parser.add_argument("library")
    parser.add_argument("--count", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--full", action="store_true")
    args = parser.parse_args()
    args.tfdc = os.path.abspath(args.tfdc)
    args.tfd_run = os.path.abspath(args.tfd_run)
    args.library = os.path.abspath(args.library)
    rows = ways()
    if not args.full:
        rows = ALWAYS + random.Random(args.seed).sample(rows, args.count)
    silent = [(a_silent_server, hands, signalled) for hands in (False, True)
              for signalled in (False, True)]
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        case = Case(args)
        print(f"1..{len(rows) + len(silent) + 1}", flush=True)
        with ThreadPoolExecutor(AT_ONCE) as pool:
            results = pool.map(lambda row: row[0](case, *row[1:]),
                               silent + rows)
            for i, (row, wrong) in enumerate(zip(silent + rows, results)):
                failed += bool(wrong)
                words = " ".join(str(word) for word in row[1:] if word != ())
                print(f"{'not ' if wrong else ''}ok {i + 1} - "
                      f"{row[0].__name__} {words}", flush=True)
                if wrong:
                    print(f"# {wrong}", flush=True)
        missed = [what for mark, what in case.marks.items()
                  if not os.path.exists(mark)]
        for what in missed:
            print(f"# not called: {what}")
        none = len(missed) == len(rows)
        failed += none
        print(f"{'not ' if none else ''}ok {len(rows) + len(silent) + 1} - "
              "some of these calls were reached", flush=True)
        os.chdir("/")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
