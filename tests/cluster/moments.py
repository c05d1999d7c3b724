#!/usr/bin/env python3
"""moments.py BUILD [--full | --rounds N] [--seed N] [NAME ...]

Hurts one process of a job at random moments, and checks what is said of it:
the right rank, and the operation, its line, its call and its step, in all
rounds; how soon it is named, and that no process is left after ten seconds.

    killed      kill -9
    stopped     SIGSTOP
    remote      kill -9, on another machine than the control server
    link        the network of a machine goes down
    chief       kill -9, SIGSTOP, or the network, of rank 0, which has the server
    loops       a replica's while that never ends

Machines are network namespaces (hosts.py).  Where a process was is read from
the memory in which it tells it, by this script, and compared with the message:
exactly where the server has that memory, and on other machines as exactly as
those can know that wait for it.  TAP; a few rounds each, with --full 200.
"""
import argparse
import contextlib
import concurrent.futures
import os
import queue
import random
import re
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time

import hosts

PROCESSES = 4
MACHINES = 3
NAMED_KILLED, NAMED_SILENT, LEFT = 1.0, 3.0, 10.0  # seconds
TIMEOUT = 10  # --timeout of jobs that loop: they are named after 5 seconds
JOBS_AT_ONCE = 6
FEW = {"killed": 4, "remote": 4, "stopped": 1, "loops": 1, "link": 1, "chief": 2}
GROUPS, FULL_GROUPS = 3, 4  # of machines

PROGRAM = """param epochs: i64 = 1
param stuck: i64 = -1
var w: f32 = 0.0
var n: f32 = 0.0
dataset train = range(800000).map(fn(i) = (i, f32(i % 32) / 32.0)).batch(12)
fn train_step(i, x) {
  let loss = sum((w * x - x) ** 2) / 12.0
  let dw = grad(loss, w)
  let found = sum(f32(i == stuck))
  mut rounds = 0.0
  while found > 0.5 { rounds += 1.0 }
  w -= 0.1 * all_reduce(sum, dw)
  let seen = all_reduce(sum, w * sum(x) + rounds)
  n += seen
  return loss
}
main {
  for epoch in 0..epochs {
    for (i, x) in distribute(train) { run train_step(i, x) }
  }
  print("w {w:.3f}")
}
"""
BATCH = 12
# The calls of a step, by call number modulo 3.
SITES = {0: "train.tfd:12:14 (all_reduce", 1: "train.tfd:13:14 (all_reduce",
         2: "train.tfd:19:19 (iter_has_next"}
FIRST = "train.tfd:3:5 (step"
LOOP = "train.tfd:11:3: note: rank %d is in this while\n"

# runtime/cluster/control/position.h
HEADER, PLACE, ENTRY, RING = 64, 64, 48, 256
PAGE = 4096
WAITS = 2
STATES = {3: ", waiting for data", 4: ", saving"}


class Wrong(Exception):
    pass


# --- where a process is --------------------------------------------------------

class Position:
    """The memory in which a process tells where it is, kept open."""

    def __init__(self, pid):
        self.memory = None
        folder = f"/proc/{pid}/fd"
        for name in os.listdir(folder):
            try:
                if not os.readlink(f"{folder}/{name}").startswith("/memfd:tfd"):
                    continue
                memory = open(f"{folder}/{name}", "rb", buffering=0)
            except OSError:
                continue
            if self.memory is None and self.is_it(memory):
                self.memory = memory
            else:
                memory.close()
        if self.memory is None:
            raise Wrong(f"process {pid} tells nobody where it is")

    @staticmethod
    def is_it(memory):
        numbers = os.pread(memory.fileno(), 8, 16)
        if len(numbers) < 8:
            return False  # it is being made
        places, sites = struct.unpack("=ii", numbers)
        if not (0 < places < 100 and 0 < sites < 1000):
            return False
        size = HEADER + places * PLACE + 16 * places * sites + RING * ENTRY
        return os.fstat(memory.fileno()).st_size == -(-size // PAGE) * PAGE + PAGE

    def read(self):
        bytes = os.pread(self.memory.fileno(), HEADER + PLACE, 0)
        self.step, self.state = struct.unpack_from("=qi", bytes, 0)
        self.call, self.wait_call = struct.unpack_from("=qq", bytes, HEADER + 8)
        self.waits = bytes[HEADER + 32] != 0
        return self

    def close(self):
        self.memory.close()

    def text(self):
        """What the server's machine has to say of it."""
        if self.call == 0:
            return "it was last seen before its first collective, in step " \
                f"{self.step}"
        past = not self.waits and self.wait_call == self.call
        doing = "" if self.waits else STATES.get(self.state, "")
        return (f"it was last seen {'after' if past else 'in'} call {self.call}"
                f", {site(self.call)}, step {self.step}{doing})")


def site(call):
    """Of a call; the first one of a run initialises the variables."""
    return SITES[call % 3] if call > 1 else FIRST


# --- jobs -----------------------------------------------------------------------

def descendants(pid):
    pids = [pid]
    for at in pids:
        try:
            with open(f"/proc/{at}/task/{at}/children") as f:
                pids += [int(word) for word in f.read().split()]
        except OSError:
            pass
    return pids


def rank_of(pid):
    try:
        with open(f"/proc/{pid}/environ", "rb") as f:
            variables = f.read()
        with open(f"/proc/{pid}/comm") as f:
            if f.read().strip() != "tfd-run":
                return None
    except OSError:
        return None
    found = re.search(rb"(?:^|\0)TFD_RANK=(\d+)", variables)
    return int(found.group(1)) if found else None


def positions_of(pids, least_calls):
    """Of all ranks, once each has begun so many calls."""
    end = time.monotonic() + 30
    found = {}
    while time.monotonic() < end:
        try:
            for rank, pid in pids.items():
                if rank not in found:
                    found[rank] = Position(pid)
        except (Wrong, OSError):
            time.sleep(0.005)
            continue
        if all(p.read().call >= least_calls for p in found.values()):
            return found
        time.sleep(0.002)
    raise Wrong("the job did not begin to work")


def is_left(pids):
    left = []
    for pid in pids:
        try:
            with open(f"/proc/{pid}/stat") as f:
                if f.read().rsplit(")", 1)[1].split()[0] != "Z":
                    left.append(pid)
        except OSError:
            pass
    return left


def read_until(stream, part):
    """What comes up to a line with that part, and when it came."""
    said = ""
    for line in stream:
        said += line
        if part in line:
            return said, time.monotonic()
    raise Wrong(f"{part!r} is not in:\n{said}")


def finish(processes, pids, began):
    """The rest of what they say."""
    def kill():
        for process in processes:
            process.kill()
    timer = threading.Timer(60, kill)
    timer.start()
    said = "".join(process.stderr.read() for process in processes)
    for process in processes:
        process.wait()
    timer.cancel()
    while is_left(pids) and time.monotonic() - began < LEFT:
        time.sleep(0.01)
    if is_left(pids):
        raise Wrong(f"processes {is_left(pids)} are left after {LEFT} s: {said}")
    return said


class Local:
    """tfd-run -n, on this machine: the server has everybody's memory."""

    def __init__(self, build, folder, *options):
        self.process = subprocess.Popen(
            [f"{build}/tfd-run", f"{folder}/train{PROCESSES}.tfp", "-n",
             str(PROCESSES), "--set", "epochs=1000", "--threads", "1",
             *options], text=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=folder)

    def __enter__(self):
        self.pids = {}
        end = time.monotonic() + 30
        while len(self.pids) < PROCESSES and time.monotonic() < end:
            for pid in descendants(self.process.pid)[1:]:
                rank = rank_of(pid)
                if rank is not None:
                    self.pids[rank] = pid
            time.sleep(0.002)
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stderr.close()


def check_named(said, rank, pid, what, where):
    wanted = f"rank {rank} \\([^ ]*, pid {pid}\\) {what}"
    if not re.search(wanted, said):
        raise Wrong(f"{wanted!r} is not in:\n{said}")
    if where not in said:
        raise Wrong(f"{where!r} is not in:\n{said}")


def check_readers(said, rank, positions):
    """Rank 0 reads the data of all; those whose step it has not come to wait."""
    found = re.search(r"(\S+): note: (ranks? [-0-9, ]+) waits? here for data that "
                      r"it reads for them \(step (\d+)\)", said)
    if not found or rank != 0:
        raise Wrong(f"nobody waits in:\n{said}")
    if f"{found.group(1)} (iter_has_next" != SITES[2]:
        raise Wrong(f"data is not waited for there: {said}")
    step = int(found.group(3))
    for r in named_ranks(found.group(2)):
        if r == rank or positions[r].read().step != step:
            raise Wrong(f"rank {r} does not wait for data: {said}")


def named_ranks(ranks):
    named = set()
    for part in ranks.split(" ", 1)[1].split(", "):
        ends = [int(word) for word in part.split("-")]
        named.update(range(ends[0], ends[-1] + 1))
    return named


def check_waiters(said, rank, size, positions):
    """The note says who waits, and where."""
    found = re.search(r"(\S+): note: (ranks? [-0-9, ]+) waits? here for it "
                      r"\((\w+), call (\d+)\)", said)
    if not found:
        return check_readers(said, rank, positions)
    call = int(found.group(4))
    if f"{found.group(1)} ({found.group(3)}" != site(call):
        raise Wrong(f"call {call} is not there: {said}")
    others = [positions[r].read().wait_call if r != rank else call
              for r in range(size)]
    waiting = [r for r in range(size) if r != rank and others[r] == call]
    if call != min(others):
        raise Wrong(f"others wait in call {min(others)}: {said}")
    named = named_ranks(found.group(2))
    if named - set(waiting):
        raise Wrong(f"not {sorted(named)} wait, but {waiting}: {said}")
    return call


def killed(build, folder, rng):
    return hurt_local(build, folder, rng, signal.SIGKILL, "is dead",
                      NAMED_KILLED)


def stopped(build, folder, rng):
    return hurt_local(build, folder, rng, signal.SIGSTOP, "is silent",
                      NAMED_SILENT)


def hurt_local(build, folder, rng, number, what, most):
    rank = rng.randrange(PROCESSES)
    with Local(build, folder) as job:
        positions = positions_of(job.pids, 3)
        time.sleep(0.4 * rng.random())
        began = time.monotonic()
        os.kill(job.pids[rank], number)
        said, named = read_until(job.process.stderr, what)
        # Before the rest of it is over, so that nobody has gone on.
        at = positions[rank].read().text()
        said += finish([job.process], job.pids.values(), began)
        check_named(said, rank, job.pids[rank], what, at)
        check_waiters(said, rank, PROCESSES, positions)
        check_time(named - began, most, said)
        if job.process.returncode != 3:
            raise Wrong(f"status {job.process.returncode}: {said}")
        for p in positions.values():
            p.close()
    return named - began


def check_time(seconds, most, said):
    if seconds > most:
        raise Wrong(f"named after {seconds:.2f} s:\n{said}")


def loops(build, folder, rng):
    """Element i is of replica i % BATCH // (BATCH / PROCESSES)."""
    element = rng.randrange(100 * BATCH, 2000 * BATCH)
    rank = element % BATCH // (BATCH // PROCESSES)
    step = element // BATCH + 1
    call = 3 * step
    with Local(build, folder, "--set", f"stuck={element}", "--timeout",
               str(TIMEOUT)) as job:
        positions = positions_of(job.pids, 3)
        end = time.monotonic() + 60
        while positions[rank].read().step < step and time.monotonic() < end:
            time.sleep(0.01)
        began = time.monotonic()
        said, named = read_until(job.process.stderr,
                                 "is alive but does not come")
        at = positions[rank].read().text()
        said += finish([job.process], job.pids.values(), named)
        check_named(said, rank, job.pids[rank], "is alive but does not come",
                    at)
        if LOOP % rank not in said:
            raise Wrong(f"{LOOP % rank!r} is not in:\n{said}")
        waited = check_waiters(said, rank, PROCESSES, positions)
        if waited not in (call, call + 1):
            raise Wrong(f"not call {call}, but {waited}: {said}")
        for p in positions.values():
            p.close()
    return named - began


# --- several machines ------------------------------------------------------------

class Remote:
    """Rank r on machine r + 1 of a group of them; rank 0 has the server."""

    def __init__(self, build, folder, machines, first):
        address = f"{hosts.address(first)}:17000"
        self.processes = [
            machines.start(
                first + rank,
                [f"{build}/tfd-run", f"{folder}/train{MACHINES}.tfp",
                 "--rank", str(rank), "--size", str(MACHINES), "--join",
                 address, "--key", f"{folder}/key", "--link", "zmq", "--set",
                 "epochs=1000", "--threads", "1"], text=True,
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=folder)
            for rank in range(MACHINES)]
        # start executes tfd-run in the end, without another process.
        self.pids = {r: p.pid for r, p in enumerate(self.processes)}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for p in self.processes:
            if p.poll() is None:
                p.kill()
            p.wait()
            p.stderr.close()


def remote(build, folder, rng, machines, first):
    rank = rng.randrange(1, MACHINES)
    return hurt_remote(build, folder, rng, machines, first, rank, "is dead",
                       NAMED_KILLED,
                       lambda job: os.kill(job.pids[rank], signal.SIGKILL))


def link(build, folder, rng, machines, first):
    rank = rng.randrange(1, MACHINES)
    try:
        return hurt_remote(build, folder, rng, machines, first, rank,
                           "is silent", NAMED_SILENT,
                           lambda job: machines.link(first + rank, False))
    finally:
        machines.link(first + rank, True)


def hurt_remote(build, folder, rng, machines, first, rank, what, most, hurt):
    with Remote(build, folder, machines, first) as job:
        positions = positions_of(job.pids, 3)
        time.sleep(0.4 * rng.random())
        hurt(job)
        began = time.monotonic()
        said, named = read_until(job.processes[0].stderr, what)
        position = positions[rank].read()
        said += finish(job.processes, job.pids.values(), began)
        found = re.search(rf"rank {rank} \([^ ]*, pid {job.pids[rank]}\) {what}"
                          r".*; it has not finished call (\d+), "
                          r"(\S+ \(\w+), step (\d+)\)", said)
        if not found:
            raise Wrong(f"rank {rank}: {said}")
        call, where, step = (int(found.group(1)), found.group(2),
                             int(found.group(3)))
        # It may have given its part of the next two calls, or of the last two
        # only to some of the others.
        if where != site(call) or not call - 2 <= position.call <= call + 2 or \
                abs(step - position.step) > 1:
            raise Wrong(f"rank {rank} was in call {position.call}, step "
                        f"{position.step}: {said}")
        if check_waiters(said, rank, MACHINES, positions) != call:
            raise Wrong(f"another call: {said}")
        check_time(named - began, most, said)
        for p in positions.values():
            p.close()
    return named - began


def chief(build, folder, rng, machines, first):
    """All others say that rank 0 is lost, and where they are."""
    how = rng.choice(["killed", "stopped", "link"])
    what = ("has lost the control server" if how == "killed" else
            "has not heard the control server")
    try:
        with Remote(build, folder, machines, first) as job:
            positions = positions_of(job.pids, 3)
            time.sleep(0.4 * rng.random())
            if how == "link":
                machines.link(first, False)
            else:
                os.kill(job.pids[0], signal.SIGKILL if how == "killed"
                        else signal.SIGSTOP)
            began = time.monotonic()
            said, times = zip(*[read_until(p.stderr, what)
                                for p in job.processes[1:]])
            others = "".join(said) + finish(
                job.processes[1:], list(job.pids.values())[1:], began)
            if how == "stopped":  # nobody else could end it
                os.kill(job.pids[0], signal.SIGCONT)
            own = finish(job.processes[:1], job.pids.values(), began)
            for rank in range(1, MACHINES):
                check_lost(others, rank, what, job.pids[0],
                           positions[rank].read())
            if how == "link" and "no sign of any process of another" not in own:
                raise Wrong(f"rank 0: {own}")
            most = NAMED_KILLED if how == "killed" else NAMED_SILENT
            check_time(max(times) - began, most, "".join(said))
            for p in positions.values():
                p.close()
        return max(times) - began
    finally:
        if how == "link":
            machines.link(first, True)


def check_lost(said, rank, what, chief_pid, position):
    wanted = rf"rank {rank} {what} \([0-9.:]* of rank 0 \([^ ]*, pid " \
        rf"{chief_pid}\)\)"
    if not re.search(wanted, said):
        raise Wrong(f"{wanted!r} is not in:\n{said}")
    where, operation = site(position.wait_call).split(" (")
    note = f"{where}: note: rank {rank} waits here for others ({operation}, " \
        f"call {position.wait_call}, step "
    if note not in said:
        raise Wrong(f"{note!r} is not in (call {position.call}, state "
                    f"{position.state}, waits: {position.waits}):\n{said}")


# --- all of them -----------------------------------------------------------------

LOCAL = {"killed": killed, "stopped": stopped, "loops": loops}
ON_MACHINES = {"remote": remote, "link": link, "chief": chief}


def prepare(build, folder):
    with open(f"{folder}/train.tfd", "w") as f:
        f.write(PROGRAM)
    with open(os.open(f"{folder}/key", os.O_CREAT | os.O_WRONLY, 0o600),
              "wb") as f:
        f.write(os.urandom(32))
    for size in (MACHINES, PROCESSES):
        subprocess.run([f"{build}/tfdc", "train.tfd", "--devices",
                        f"cpu:0-{size - 1}", "-o", f"train{size}.tfp"],
                       check=True, cwd=folder)


def play(name, rounds, seed, build, folder, machines, groups):
    """Rounds side by side; the longest time until it is named, the failures.
    Groups of machines are used by one job at a time."""
    def one(i):
        rng = random.Random(f"{seed} {name} {i}")
        try:
            if name in LOCAL:
                return LOCAL[name](build, folder, rng), None
            first = groups.get()
            try:
                return ON_MACHINES[name](build, folder, rng, machines,
                                         first), None
            finally:
                groups.put(first)
        except (Wrong, OSError) as wrong:
            return 0, f"round {i}: {wrong}"
    at_once = 1
    if rounds > max(FEW.values()):
        at_once = FULL_GROUPS if name in ON_MACHINES else JOBS_AT_ONCE
    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        results = list(pool.map(one, range(rounds)))
    wrong = [r[1] for r in results if r[1]]
    worst = max(r[0] for r in results)
    lines = [f"{'not ' if wrong else ''}ok - {name}: {rounds} moments, "
             f"{len(wrong)} wrong, named after {worst:.2f} s at most"]
    return lines + [f"# {line}" for line in "\n".join(wrong[:5]).split("\n")
                    if line]


def play_all(args, names, build, folder, machines, num):
    """A few rounds of all kinds go side by side, many one kind after another."""
    groups = queue.Queue()
    for i in range(num // MACHINES):
        groups.put(1 + MACHINES * i)
    rounds = args.rounds or (200 if args.full else None)
    with concurrent.futures.ThreadPoolExecutor(
            1 if rounds else max(1, len(names))) as pool:
        yield from pool.map(lambda name: play(
            name, rounds or FEW[name], args.seed, build, folder, machines,
            groups), names)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_intermixed_args()
    names = args.names or list(LOCAL) + list(ON_MACHINES)
    why = not os.environ.get(hosts.ISOLATED) and hosts.why_not()
    skipped = [name for name in names if why and name in ON_MACHINES]
    names = [name for name in names if name not in skipped]
    if not why:
        hosts.isolate()
    build, failed = os.path.abspath(args.build), 0
    print(f"1..{len(names) + len(skipped)}", flush=True)
    for name in skipped:
        print(f"ok - {name} # SKIP {why}", flush=True)
    num = 0 if why else MACHINES * (FULL_GROUPS if args.full else GROUPS)
    with tempfile.TemporaryDirectory() as folder, \
            (hosts.Hosts(num) if num else contextlib.nullcontext()) as machines:
        os.chmod(folder, 0o755)
        prepare(build, folder)
        for lines in play_all(args, names, build, folder, machines, num):
            print("\n".join(lines), flush=True)
            failed += lines[0].startswith("not ")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
