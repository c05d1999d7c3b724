#!/usr/bin/env python3
"""strangers.py BUILD [--full | --frames N] [--seed N]

Strangers at the control port of a job that trains, on loopback: half-open
connections, slow handshakes, bytes that are no protocol, processes with another
key, and N garbage frames (with --full a million).  The control server is a
thread of rank 0, which works as all others do.

The job has to go on, with steps whose 99th percentile is at most 10 ms longer
than without strangers; to keep no memory and no descriptor of them; and to end
when it is interrupted.  Once with a key, and once without one, where frames of
strangers are read.

Then strangers at the data ports of a job whose messages are not authenticated
(--wire plain): messages of any number of frames, none of which are the job's.
TAP.
"""
import argparse
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

import programs
from hosts import free_port

SIZE = 2
QUIET = 1.0  # seconds of each kind of step times, at least
MOST_LONGER = 0.010
MOST_MEMORY = 8 << 20
HELD = {False: 100, True: 500}  # half-open connections
SLOW = {False: 10, True: 100}
WRONG_KEYS = {False: 1, True: 5}
FRAMES_OF_ONE = 5000
DATA_MESSAGES = 2000

PROGRAM = programs.endless("""      run train_step(x)
      print("{now():.6f}")""")

# runtime/cluster/control/frame.h
PROTOCOL, NUM_TYPES = 2, 12


def signature(mechanism):
    """What ZMTP 3.0 begins with."""
    return (b"\xff" + bytes(8) + b"\x7f\x03\x00" +
            mechanism.ljust(20, b"\0") + bytes(32))


def ready(socket_type):
    return (b"\x05READY\x0bSocket-Type" + struct.pack(">I", len(socket_type)) +
            socket_type)


def zmtp_frame(flags, body):
    if len(body) < 256:
        return struct.pack(">BB", flags, len(body)) + body
    return struct.pack(">BQ", flags | 2, len(body)) + body


def shake_hands(s, socket_type):
    """Without a key.  Who sends messages before the server's READY has come
    breaks the protocol: a server that reads both at once closes."""
    s.sendall(signature(b"NULL") + zmtp_frame(4, ready(socket_type)))
    s.settimeout(10)
    heard = b""
    while b"\x05READY" not in heard:
        bytes = s.recv(65536)
        if not bytes:
            raise ConnectionError("the server closes instead of its READY")
        heard += bytes


def garbage(rng):
    """A frame: bytes, or the header of a message before them, or what looks
    like one of a member, with lengths that are too long."""
    kind = rng.randrange(3)
    noise = rng.randbytes(rng.randrange(1, 120))
    if kind == 0:
        return noise
    header = struct.pack("<HHIQ", rng.randrange(NUM_TYPES + 2), PROTOCOL, 0,
                         rng.randrange(4))
    if kind == 1:
        return header + noise
    return header + struct.pack("<iiqdI", rng.randrange(-1, 3), SIZE, 1, 1.0,
                                rng.choice([4, 1 << 31, 255])) + noise


def newcomer():
    """A whole hello of rank 1, which the job has: it is answered."""
    header = struct.pack("<HHIQ", 1, PROTOCOL, 0, 77)
    numbers = struct.pack("<iiqd", 1, SIZE, 4711, 1.0)
    return header + numbers + bytes(6 * 4)  # no texts, and nothing else


def data_header(rng):
    """Like one of the link of ZeroMQ, of a message with a byte: rank, tag,
    bytes, number."""
    return struct.pack("<IIQQ", rng.randrange(SIZE), rng.randrange(2048), 1,
                       rng.randrange(1000))


def data_message(rng, num):
    """Of so many frames; two are what a message of the job has, so these have
    another length than they say."""
    frames = [rng.choice([data_header(rng), b"?", b""]) for _ in range(num)]
    if num == 2:
        frames[1] = b"??"
    return b"".join(zmtp_frame(i + 1 < num, f) for i, f in enumerate(frames))


def data_messages(rng):
    """Of an odd number of frames in all: who takes two for a message is off by
    one after them."""
    nums = [rng.randrange(1, 5) for _ in range(DATA_MESSAGES)]
    nums.append(1 + sum(nums) % 2)
    return b"".join(data_message(rng, num) for num in nums)


# --- the job ----------------------------------------------------------------------

class Job:
    def __init__(self, build, folder, with_key):
        self.command = [f"{build}/tfd-run", f"{folder}/train.tfp", "--set",
                        "epochs=1000", "--threads", "1"]
        self.folder = folder
        self.with_key = with_key
        self.times = []
        self.ranks = self.start()
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def start(self):
        """Its processes, of which the first one prints."""
        self.port = free_port()
        return [self.member(rank, "key", subprocess.PIPE)
                for rank in range(SIZE)]

    def member(self, rank, key, output):
        options = ["--rank", str(rank), "--size", str(SIZE), "--join",
                   f"127.0.0.1:{self.port}"]
        if self.with_key:
            options += ["--key", f"{self.folder}/{key}"]
        return subprocess.Popen(self.command + options, stdout=output,
                                stderr=subprocess.PIPE, text=True)

    def read(self):
        for line in self.ranks[0].stdout:
            self.times.append(float(line))

    def wait_for_steps(self, seconds):
        """Until there are steps of so many seconds from now on."""
        begin = time.monotonic()
        end = begin + 60
        while time.monotonic() < end:
            if self.times and self.times[-1] > begin + seconds:
                return begin
            if self.ranks[0].poll() is not None:
                break
            time.sleep(0.02)
        raise SystemExit(f"the job does not go on: {self.end()}")

    def p99(self, begin, end):
        times = [t for t in self.times if begin <= t <= end]
        steps = sorted(b - a for a, b in zip(times, times[1:]))
        return steps[len(steps) * 99 // 100] if steps else 1e9

    def memory(self):
        with open(f"/proc/{self.ranks[0].pid}/status") as f:
            for line in f:
                if line.startswith("VmRSS:"):
                    return int(line.split()[1]) << 10

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.ranks[0].pid}/fd"))

    def end(self):
        """Interrupts it: statuses, and what was said."""
        for p in self.ranks:
            if p.poll() is None:
                p.send_signal(signal.SIGINT)
        said = []
        for p in self.ranks:
            try:
                p.wait(20)
            except subprocess.TimeoutExpired:
                p.kill()
                p.wait()
                said.append("it does not end")
            said.append(p.stderr.read())
        self.reader.join()
        return [p.returncode for p in self.ranks], "".join(said)


class PlainJob(Job):
    """Of one machine, by -n, with messages that are not authenticated."""

    def start(self):
        return [subprocess.Popen(
            self.command + ["-n", str(SIZE), "--link", "zmq", "--wire",
                            "plain", "--timeout", "5"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)]

    def data_ports(self):
        """Addresses and ports at which its ranks listen."""
        parent = self.ranks[0].pid
        with open(f"/proc/{parent}/task/{parent}/children") as f:
            return [at for pid in f.read().split() for at in listens_at(pid)]


def listens_at(pid):
    """Of a process: (address, port), in IPv4 or as IPv6 has that."""
    at = {}
    for name in ("tcp", "tcp6"):
        with open(f"/proc/{pid}/net/{name}") as f:
            for fields in map(str.split, f.readlines()[1:]):
                host, port = fields[1].split(":")
                last = struct.pack("<I", int(host[-8:], 16))
                if fields[3] == "0A":
                    at[f"socket:[{fields[9]}]"] = (socket.inet_ntoa(last),
                                                   int(port, 16))
    files = [f"/proc/{pid}/fd/{fd}" for fd in os.listdir(f"/proc/{pid}/fd")]
    return [at[f] for f in map(os.readlink, files) if f in at]


# --- strangers --------------------------------------------------------------------

class Strangers:
    def __init__(self, job, rng, full, frames):
        self.job, self.rng, self.full, self.frames = job, rng, full, frames
        self.mechanism = b"CURVE" if job.with_key else b"NULL"
        self.open = []

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.job.port), 5)

    def hold_half_open(self):
        for i in range(HELD[self.full]):
            s = self.connect()
            if i % 2:
                s.send(signature(self.mechanism)[:i % 64])
            self.open.append(s)

    def be_slow(self):
        """Handshakes a byte at a time, side by side."""
        slow = [self.connect() for _ in range(SLOW[self.full])]
        for i in range(48):
            for s in slow:
                self.send(s, signature(self.mechanism)[i:i + 1])
            time.sleep(0.01)
        self.open += slow

    def be_wrong(self):
        """Bytes, and handshakes of another kind or with wrong contents."""
        for i in range(50):
            s = self.connect()
            self.send(s, [self.rng.randbytes(500),
                          signature(b"PLAIN") + zmtp_frame(4, b"\x05HELLO"),
                          signature(b"CURVE") + zmtp_frame(
                              4, b"\x05HELLO\1\0" + self.rng.randbytes(192)),
                          b"GET / HTTP/1.1\r\n\r\n"][i % 4])
            s.close()

    def have_another_key(self):
        """Returns what such processes say that is not right."""
        if not self.job.with_key:
            return []
        wrong = []
        for _ in range(WRONG_KEYS[self.full]):
            p = self.job.member(1, "other", subprocess.DEVNULL)
            said = p.communicate(timeout=30)[1]
            if p.returncode != 1 or "does not accept this process" not in said:
                wrong.append(f"status {p.returncode}: {said}")
        return wrong

    def flood(self):
        """Returns what is wrong: without a key all has to be read, up to a
        hello that is answered."""
        wrong = []
        for _ in range(max(1, self.frames // FRAMES_OF_ONE)):
            s = self.connect()
            if self.job.with_key:
                self.send(s, signature(self.mechanism) +
                          zmtp_frame(4, ready(b"DEALER")))
            else:
                shake_hands(s, b"DEALER")
            self.send(s, b"".join(
                zmtp_frame(0, garbage(self.rng))
                for _ in range(min(self.frames, FRAMES_OF_ONE))))
            if not self.job.with_key:
                self.send(s, zmtp_frame(0, newcomer()))
                heard = self.hear(s, b"the job has begun with another rank 1")
                if heard:
                    wrong.append(f"a newcomer has no answer: {heard}")
            s.close()
        return wrong

    @staticmethod
    def hear(s, part):
        """What came instead of that part; nothing if it came."""
        heard = b""
        s.settimeout(10)
        try:
            while part not in heard:
                bytes = s.recv(65536)
                if not bytes:
                    return f"the connection was closed after {len(heard)} bytes"
                heard += bytes
        except OSError as e:
            return f"{e} after {len(heard)} bytes"
        return ""

    @staticmethod
    def send(s, bytes):
        try:
            s.sendall(bytes)
        except OSError:
            pass  # the server does not want to hear more

    def come(self):
        self.hold_half_open()
        self.be_slow()
        self.be_wrong()
        wrong = self.have_another_key()
        return wrong + self.flood()

    def go(self):
        for s in self.open:
            s.close()


def settled(read, most, seconds=15):
    """The value once it is at most that, or after so many seconds."""
    end = time.monotonic() + seconds
    while read() > most and time.monotonic() < end:
        time.sleep(0.05)
    return read()


def play(build, folder, rng, full, frames, with_key):
    """What is wrong, and a summary."""
    wrong = []
    job = Job(build, folder, with_key)
    job.wait_for_steps(0)
    quiet = job.wait_for_steps(QUIET)
    memory, descriptors = job.memory(), job.descriptors()
    strangers = Strangers(job, rng, full, frames)
    came = time.monotonic()
    wrong += strangers.come()
    job.wait_for_steps(0.1)
    gone = time.monotonic()
    strangers.go()
    left = settled(job.descriptors, descriptors)
    kept = settled(job.memory, memory + MOST_MEMORY) - memory
    statuses, said = job.end()
    before, during = job.p99(quiet, came), job.p99(came, gone)
    if during > before + MOST_LONGER:
        wrong.append(f"a step took {1e3 * during:.2f} ms, without strangers "
                     f"{1e3 * before:.2f} ms")
    if left > descriptors:
        wrong.append(f"{left} descriptors are left, of {descriptors}")
    if kept > MOST_MEMORY:
        wrong.append(f"it keeps {kept} bytes")
    if statuses != [130] * SIZE:
        wrong.append(f"statuses {statuses}: {said}")
    return wrong, (f"{'with' if with_key else 'without'} a key: {frames} "
                   f"frames in {gone - came:.1f} s; p99 of a step "
                   f"{1e3 * before:.2f} ms, with strangers "
                   f"{1e3 * during:.2f} ms; {kept >> 10} KiB more")


def send_data(port, rng):
    with socket.create_connection(("127.0.0.1", port), 5) as s:
        shake_hands(s, b"PUSH")
        s.sendall(data_messages(rng))
        time.sleep(0.2)  # what is not read yet would be lost with it


def play_data(build, folder, rng):
    """What is wrong, and a summary."""
    wrong = []
    job = PlainJob(build, folder, False)
    job.wait_for_steps(0)
    ports = job.data_ports()
    if len(ports) != SIZE or {host for host, _ in ports} != {"127.0.0.1"}:
        wrong.append(f"the data ports are {ports}")
    for _, port in ports:
        send_data(port, rng)
    job.wait_for_steps(0.2)
    statuses, said = job.end()
    if statuses != [130]:
        wrong.append(f"statuses {statuses}: {said}")
    return wrong, (f"data ports without authentication: {DATA_MESSAGES} "
                   "messages at each")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--frames", type=int)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    build, failed = os.path.abspath(args.build), 0
    frames = args.frames or (1000000 if args.full else 100000)
    rng = random.Random(args.seed)
    print("1..3", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/train.tfd", "w") as f:
            f.write(PROGRAM)
        for key in ("key", "other"):
            with open(os.open(f"{folder}/{key}", os.O_CREAT | os.O_WRONLY,
                              0o600), "wb") as f:
                f.write(os.urandom(32))
        subprocess.run([f"{build}/tfdc", "train.tfd", "--devices",
                        f"cpu:0-{SIZE - 1}"], check=True, cwd=folder)
        plays = [lambda key=key: play(build, folder, rng, args.full, frames,
                                      key) for key in (True, False)]
        plays.append(lambda: play_data(build, folder, rng))
        for play_one in plays:
            wrong, summary = play_one()
            print(f"{'not ' if wrong else ''}ok - {summary}", flush=True)
            for line in "\n".join(wrong).split("\n") if wrong else []:
                print(f"# {line}", flush=True)
            failed += bool(wrong)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
