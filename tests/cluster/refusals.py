#!/usr/bin/env python3
"""refusals.py TFDC TFD_RUN OLD_ZMQ ZMQ_WITHOUT_VERSION WITHOUT_SIGNALFD

What processes of a job are told where it cannot begin or go on: by a libzmq
that is not there or cannot be used, by the system, by the control server or
its silence.  TAP.
"""
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile

from hosts import free_port

TFDC, TFD_RUN, OLD, WITHOUT_VERSION, WITHOUT_SIGNALFD = sys.argv[1:]
SECONDS = 30
NUM_FILES = (8, 16, 20, 36, 39, 47, 48, 64)  # some too few, for -n 8
SOURCE = """\
strategy multi_worker_mirrored(workers = 2, devices = "cpu:0")
param steps: i64 = 1
var w: f32 = 0.0
fn step() { w += all_reduce(sum, f32(replica_id)) }
main {
  run step()
  print("begun")
  for i in 0..steps { run step() }
  print("{w}")
}
"""


class Case:
    def __init__(self, folder):
        self.folder = folder
        self.plan = f"{folder}/job.tfp"
        self.key = f"{folder}/key"
        with open(f"{folder}/job.tfd", "w") as f:
            f.write(SOURCE)
        with open(os.open(self.key, os.O_CREAT | os.O_WRONLY, 0o600),
                  "wb") as f:
            f.write(os.urandom(32))
        subprocess.run([TFDC, f"{folder}/job.tfd", "-o", self.plan],
                       check=True)
        self.eight = f"{folder}/eight.tfp"
        subprocess.run([TFDC, f"{folder}/job.tfd", "--workers", "8", "-o",
                        self.eight], check=True)

    def start(self, *options, env=None, plan=None, **more):
        return subprocess.Popen(
            [TFD_RUN, plan or self.plan, "--threads", "1", *options],
            env=dict(os.environ, **(env or {})), text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)

    def member(self, rank, port, *options, **more):
        return self.start("--rank", str(rank), "--size", "2", "--join",
                          f"127.0.0.1:{port}", "--key", self.key, *options,
                          **more)

    def said(self, *options, **more):
        return self.start(*options, **more).communicate(timeout=SECONDS)[1]

    def with_libzmq(self, library):
        """What a process of a job on another machine says with it."""
        folder = tempfile.mkdtemp(dir=self.folder)
        path = f"{folder}/libzmq.so.5"
        if library:
            shutil.copy(library, path)
        else:
            open(path, "w").close()
        return self.said("--rank", "1", "--size", "2", "--join",
                         "192.0.2.1:9", env={"LD_LIBRARY_PATH": folder})


def a_library_that_is_none(case):
    return case.with_libzmq(None), "cannot open libzmq.so.5"


def a_library_that_is_too_old(case):
    return case.with_libzmq(OLD), "libzmq.so.5 is ZeroMQ 4.1.0"


def a_library_without_a_function(case):
    return case.with_libzmq(WITHOUT_VERSION), "libzmq.so.5 has no zmq_version"


def with_files(soft, hard):
    """What a process is started with."""
    return {"preexec_fn": lambda: resource.setrlimit(
        resource.RLIMIT_NOFILE, (soft, hard))}


def too_few_files(case):
    """It is refused at once, in one line, or trains."""
    statuses = []
    for most in NUM_FILES:
        p = case.start("-n", "8", plan=case.eight, **with_files(most, most))
        said = p.communicate(timeout=SECONDS)[1]
        statuses.append(p.returncode)
        if p.returncode and (p.returncode != 3 or said.count("\n") != 1 or
                             "needs 48 open files in a process, and the hard "
                             f"limit here is {most}" not in said):
            break
    return (f"{statuses} {said}", str([3] * 6 + [0] * 2))


def the_soft_limit_is_raised(case):
    p = case.start("-n", "8", plan=case.eight, **with_files(8, 64))
    said = p.communicate(timeout=SECONDS)
    return f"{p.returncode} {said}", "0 ('begun"


def a_process_with_too_few_files(case):
    """The control server's needs more than the others, and has none here."""
    port = free_port()
    one = case.member(1, port, "--timeout", "6")
    said = case.member(0, port, **with_files(43, 43)).communicate(
        timeout=SECONDS)[1]
    end([one])
    return said, "needs 44 open files in a process, and the hard limit here is 43"


def a_process_over_a_link_with_too_few_files(case):
    said = case.said("-n", "8", "--link", "zmq", plan=case.eight,
                     **with_files(60, 60))
    return said, "needs 61 open files in a process, and the hard limit here is 60"


def a_system_without_signalfd(case):
    return (case.said("-n", "2", env={"LD_PRELOAD": WITHOUT_SIGNALFD}),
            "a job of several processes needs signalfd, which fails")


def too_many_processes(case):
    return (case.said("--resolve", "--limit", "processes=2",
                      env={"RANK": "0", "WORLD_SIZE": "3"}),
            "a cluster of more than 2 processes")


def nobody_listens(case):
    process = case.member(1, free_port(), "--timeout", "6")
    return (process.communicate(timeout=SECONDS)[1],
            "rank 1 waits for the control server at")


def a_host_that_does_not_resolve(case):
    said = case.said("--rank", "1", "--size", "2", "--join",
                     "no-host.invalid:17000", "--key", case.key, "--timeout",
                     "2")
    return (said, "the control server at no-host.invalid:17000 (this machine "
            "finds no host of this name: ")


def an_interrupt_while_joining(case):
    process = case.member(1, free_port(), "--timeout", "1000")
    process.stderr.readline()  # it waits
    process.terminate()
    said = process.communicate(timeout=SECONDS)[1]
    return (f"{said}status {process.returncode}",
            "interrupted before all processes had joined the job\nstatus 130")


def running_job(case, port, *options):
    """Two processes that run for long, when both have begun."""
    return [case.member(rank, port, "--set", "steps=1000000000", *options)
            for rank in range(2)]


def wait_until_it_runs(chief):
    if chief.stdout.readline() != "begun\n":
        raise AssertionError(f"it has ended: {chief.stderr.read()}")


def a_newcomer(case):
    port = free_port()
    both = running_job(case, port)
    wait_until_it_runs(both[0])
    said = case.member(1, port).communicate(timeout=SECONDS)[1]
    end(both)
    return said, "the job has begun with another rank 1"


def a_server_that_is_stopped(case):
    port = free_port()
    both = running_job(case, port, "--silence", "1")
    wait_until_it_runs(both[0])
    both[0].send_signal(signal.SIGSTOP)
    said = both[1].communicate(timeout=SECONDS)[1]
    end(both)
    return said, "rank 1 has not heard the control server"


def another_link(case):
    port = free_port()
    both = [case.member(rank, port, "--link", link)
            for rank, link in enumerate(("zmq", "ucx"))]
    said = both[1].communicate(timeout=SECONDS)[1]
    said += both[0].communicate(timeout=SECONDS)[1]
    return said, "has another --link or --wire than rank 0"


def a_link_that_only_one_has(case):
    """The other one would try memory first, and the two never meet."""
    port = free_port()
    both = [case.member(0, port), case.member(1, port, "--link", "zmq")]
    said = both[1].communicate(timeout=SECONDS)[1]
    said += both[0].communicate(timeout=SECONDS)[1]
    host = socket.gethostname()
    return said, (f"rank 1 ({host}) has another --link or --wire than rank 0 "
                  f"({host}): zmq, not memory or zmq; start all processes alike")


def another_output(case):
    port = free_port()
    both = [case.member(0, port, "--stats", "--checksum"),
            case.member(1, port, "--checksum")]
    said = both[1].communicate(timeout=SECONDS)[1]
    said += both[0].communicate(timeout=SECONDS)[1]
    return said, ": --checksum, not --checksum --stats; give all processes"


def end(processes):
    for process in processes:
        process.kill()
        process.communicate()


CASES = [a_library_that_is_none, a_library_that_is_too_old,
         a_library_without_a_function, too_few_files,
         the_soft_limit_is_raised, a_process_with_too_few_files,
         a_process_over_a_link_with_too_few_files, a_system_without_signalfd,
         too_many_processes, nobody_listens,
         a_host_that_does_not_resolve, an_interrupt_while_joining, a_newcomer,
         another_link, a_link_that_only_one_has, another_output,
         a_server_that_is_stopped]


def main():
    failed = 0
    print(f"1..{len(CASES)}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        case = Case(folder)
        for i, check in enumerate(CASES):
            said, expected = check(case)
            ok = expected in said
            failed += not ok
            print(f"{'' if ok else 'not '}ok {i + 1} - {check.__name__}",
                  flush=True)
            if not ok:
                print(f"# {expected!r} is not in {said!r}", flush=True)
    return 1 if failed else 0


sys.exit(main())
