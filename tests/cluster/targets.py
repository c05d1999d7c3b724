#!/usr/bin/env python3
"""targets.py TFDC TFD_RUN [PROGRAM ...]

Machines of different CPUs train together, to the bits of either: one plan has
code for x86-64-v3 and x86-64-v4, and each process takes the best that its CPU
runs.  Here odd ranks are given a CPU without AVX-512 (TFD_TARGET).  Programs are
those of same_bits.py, joined by memory and by sockets.  TAP.
"""
import os
import subprocess
import sys
import tempfile

import same_bits

OLDER, NEWER = "x86-64-v3", "x86-64-v4"
PROGRAMS = ["bigram", "convnet", "f16"]
DEVICES = ["--devices", "cpu:0-1"]
SECONDS = 60


class Job:
    def __init__(self, runner, name):
        case = {"program": name, "processes": 2, "devices": 2, "each": 1,
                "workers": "mirrored", "algorithm": "auto"}
        text, options, run = same_bits.program(name, None)
        self.runner = runner
        self.plan = runner.compile(case, text, [*options, "--target",
                                                f"{OLDER},{NEWER}"])
        self.command = [runner.tfd_run, self.plan, "--data", runner.folder,
                        "--quiet", "--checksum", "--threads", "2", *run]

    def alone(self, target):
        return self.runner.call(self.command, TFD_TARGET=target)

    def together(self, *options):
        """The output of rank 0, on the newer CPU, and rank 1, on the older."""
        join = f"127.0.0.1:{same_bits.free_port()}"
        processes = [subprocess.Popen(
            [*self.command, *DEVICES, "--rank", str(rank), "--size", "2",
             "--join", join, *options],
            env=dict(os.environ, TFD_TARGET=target), text=True,
            errors="backslashreplace",
            cwd=self.runner.folder, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            for rank, target in enumerate([NEWER, OLDER])]
        try:
            ends = [p.communicate(timeout=SECONDS) for p in processes]
        finally:
            for p in processes:
                p.kill()
        for p, (_, said) in zip(processes, ends):
            if p.returncode:
                raise AssertionError(f"status {p.returncode}: {said}")
        return ends[0][0]


def same(*outputs):
    if "checksum" not in outputs[0] or len(set(outputs)) != 1:
        raise AssertionError("\nand\n".join(outputs))


def of_program(name):
    def test(runner):
        job = Job(runner, name)
        same(job.alone(NEWER), job.alone(OLDER), job.together(),
             job.together("--link", "zmq"))
    return test


def refused(runner, target, *options):
    path = f"{runner.folder}/small.tfd"
    with open(path, "w") as f:
        f.write("main { print(\"1\") }\n")
    runner.call([runner.tfdc, path, "-o", f"{path}p", *options])
    return subprocess.run([runner.tfd_run, f"{path}p"], text=True,
                          env=dict(os.environ, TFD_TARGET=target),
                          capture_output=True, timeout=SECONDS)


def code_for_a_better_cpu(runner):
    done = refused(runner, OLDER, "--target", NEWER)
    if f"its code is for {NEWER}, which this CPU is not" not in done.stderr:
        raise AssertionError(done.stderr)


def what_is_no_cpu(runner):
    done = refused(runner, "sm_80")
    if done.returncode != 2 or ("TFD_TARGET is the name of a target for CPUs, "
                                'or not set, not "sm_80"') not in done.stderr:
        raise AssertionError(done.stderr)


def has_newer(runner):
    path = f"{runner.folder}/here.tfd"
    with open(path, "w") as f:
        f.write("main { print(\"1\") }\n")
    runner.call([runner.tfdc, path, "-o", f"{path}p"])
    info = runner.call([runner.tfd_run, "--info", f"{path}p"])
    return any("this machine's CPU" in line and NEWER in line
               for line in info.splitlines())


def main():
    cases = {"a TFD_TARGET that is no CPU": (False, what_is_no_cpu),
             f"{OLDER} does not run {NEWER}": (True, code_for_a_better_cpu),
             **{f"{OLDER} and {NEWER} train {name}": (True, of_program(name))
                for name in sys.argv[3:] or PROGRAMS}}
    failed = 0
    print(f"1..{len(cases)}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        runner = same_bits.Runner(sys.argv[1], sys.argv[2], folder)
        both = has_newer(runner)
        for i, (name, (needs_newer, test)) in enumerate(cases.items(), 1):
            if needs_newer and not both:
                print(f"ok {i} - {name} # SKIP this CPU is not {NEWER}")
                continue
            word = "ok"
            try:
                test(runner)
            except (AssertionError, subprocess.TimeoutExpired) as wrong:
                word, failed = "not ok", failed + 1
                print("".join(f"# {line}\n" for line in
                              str(wrong).splitlines()), end="")
            print(f"{word} {i} - {name}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
