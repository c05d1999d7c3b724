"""Training steps in tfd and in its peers, in turn, on this machine's CPU.

Every model is one text of tfd's and one of the peers' (models.py), with equal
initial values and data; a difference of the first losses is an error. Each
contestant trains in short bursts, round after round, and waits idle between them,
so that what else the machine does hits all of them. Compilation and the time to the first step
are measured with caches that are empty (cold) and filled (warm).
"""
import argparse
import contextlib
import json
import os
import pathlib
import re
import select
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import datetime, timezone

import models
import report

HERE = pathlib.Path(__file__).resolve().parent
LOSSES = 4      # that are compared

PEERS = {"JAX": ("jax", "jit"), "PyTorch": ("torch", "eager"),
         "PyTorch compile": ("torch", "compile"), "TensorFlow": ("tf", "function"),
         "TensorFlow XLA": ("tf", "xla")}
REPLICATED = {"JAX": "JAX shard_map", "PyTorch": "PyTorch DDP", "TensorFlow": "TensorFlow Mirrored"}


def use_cores(count):
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-count:])


def burst_of(seconds, length):
    """(lines, steps of a line) of a burst of so many seconds: a line lasts long enough to be timed."""
    chunk = max(1, round(0.01 / seconds))
    return max(2, min(200, round(length / (seconds * chunk)))), chunk


class Setting:
    """One model on so many threads, as one replica or as two: a folder with all that is needed."""

    def __init__(self, args, case, threads, replicas, folder):
        self.args, self.case, self.threads, self.replicas = args, case, threads, replicas
        self.folder = pathlib.Path(folder)
        # Settings of a case share their caches: cold starts take long, and depend little on threads.
        self.cache_folder = self.folder.parent / f"cache-{replicas}"
        is_first = not self.cache_folder.exists()
        self.cache_folder.mkdir(exist_ok=True)
        self.starts = (["cold"] if args.quick else ["cold", "warm"]) if is_first else ["warm"]
        self.folder.mkdir()
        (self.folder / "model.tfd").write_text(models.text_of(case))
        models.write_data(case, folder)

    def cache(self, name):
        return str(self.cache_folder / name)

    def environment(self):
        flags = [f"--xla_force_host_platform_device_count={self.replicas}"] * (self.replicas > 1)
        flags += ["--xla_cpu_multi_thread_eigen=false"] * (self.threads == 1)
        return dict(os.environ, OMP_NUM_THREADS=str(max(1, self.threads // self.replicas)),
                    MKL_NUM_THREADS=str(max(1, self.threads // self.replicas)),
                    JAX_PLATFORMS="cpu", XLA_FLAGS=" ".join(flags), TF_CPP_MIN_LOG_LEVEL="3",
                    JAX_COMPILATION_CACHE_DIR=self.cache("jax"),
                    JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS="0",
                    JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES="-1",
                    TORCHINDUCTOR_CACHE_DIR=self.cache("inductor"), CUDA_VISIBLE_DEVICES="",
                    TFD_CACHE=self.cache("tfd"))

    def start(self, command, **options):
        return subprocess.Popen([str(word) for word in command], cwd=self.folder, text=True,
                                env=self.environment(),
                                preexec_fn=lambda: use_cores(self.threads), **options)


class Contestant:
    """What is measured of all; step_seconds is a first guess."""

    def __init__(self, setting, name):
        self.setting, self.name = setting, name
        self.times, self.memory, self.version = [], 0, ""
        self.first_step, self.compile_seconds = {}, {}

    def row(self):
        return {"peer": self.name, "version": self.version, "seconds_min": min(self.times),
                "seconds_median": statistics.median(self.times), "memory_bytes": self.memory,
                "first_step_seconds": self.first_step, "compile_seconds": self.compile_seconds}


def precision_options(sizes):
    """The order of sums that the peers' products of bf16 have where there is AVX512-BF16 and no
    AMX."""
    flags = pathlib.Path("/proc/cpuinfo").read_text().split()
    has_avx_alone = "avx512_bf16" in flags and "amx_bf16" not in flags
    return ["--precision", "vdpbf16ps"] if has_avx_alone and sizes.get("BF16") == "true" else []


class Tfd(Contestant):
    def __init__(self, setting):
        super().__init__(setting, "tfd")
        build = pathlib.Path(setting.args.build).resolve()
        self.tfdc, self.tfd_run = build / "tfdc", build / "tfd-run"

    def finish(self, command):
        """Its output and the most memory that it had, once it ends; a failure ends all."""
        process = self.setting.start(command, stdout=subprocess.PIPE)
        output = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            sys.exit(f"compare: {' '.join(map(str, command))}: exit status {process.returncode}")
        return output, 1024 * usage.ru_maxrss

    def compile(self):
        sizes = self.setting.case.sizes
        defines = [o for k, v in sizes.items() for o in ("-D", f"{k}={v}")]
        self.finish([self.tfdc, "model.tfd", *defines, *precision_options(sizes), "-o", "model.tfp",
                     "--devices", f"cpu:0-{self.setting.replicas - 1}"])

    def run(self, lines, chunk):
        output, self.memory = self.finish(
            [self.tfd_run, "model.tfp", "--quiet", "--threads", self.setting.threads,
             "--set", f"steps={lines * chunk}", "--set", f"chunk={chunk}"])
        return [[float(word) for word in line.split()] for line in output.splitlines()]

    def begin(self):
        """Compiles twice, and gives the first losses."""
        self.version, _ = self.finish([self.tfdc, "--version"])
        self.version = self.version.strip()
        for cache in self.setting.starts:
            before = time.monotonic()
            self.compile()
            self.compile_seconds[cache] = time.monotonic() - before
            self.run(1, 1)
            self.first_step[cache] = time.monotonic() - before
        self.finish([self.tfd_run, "model.tfp", "--quiet", "--set", "steps=0"])
        lines = self.run(LOSSES, 1)
        self.step_seconds = min(seconds for _, seconds in lines)
        return [loss for loss, _ in lines]

    def burst(self, length):
        """A process of its own; its first line is not counted."""
        lines, chunk = burst_of(self.step_seconds, length)
        self.times += [seconds for _, seconds in self.run(1 + lines, chunk)[1:]]

    def end(self):
        pass


class PeerFailed(Exception):
    pass


class Peer(Contestant):
    """A live process: see peer.py."""

    def __init__(self, setting, key):
        super().__init__(setting, REPLICATED[key] if setting.replicas > 1 else key)
        framework, mode = PEERS[key]
        case = setting.case
        self.command = [sys.executable, HERE / "peer.py", framework, mode, case.name,
                        json.dumps(case.sizes), setting.folder, setting.threads, setting.replicas]
        self.process = None

    def answer(self):
        if not select.select([self.process.stdout], [], [], self.setting.args.limit)[0]:
            self.process.kill()
            raise PeerFailed(f"took longer than {self.setting.args.limit} seconds")
        line = self.process.stdout.readline()
        if not line:
            raise PeerFailed(f"exit status {self.process.wait()}")
        words = json.loads(line)
        if "error" in words:
            raise PeerFailed(words["error"])
        return words

    def launch(self, cache):
        self.end()
        log = open(self.setting.folder / "peer.log", "a", encoding="utf-8")
        before = time.monotonic()
        self.process = self.setting.start(self.command, stdin=subprocess.PIPE,
                                          stdout=subprocess.PIPE, stderr=log)
        log.close()
        first = self.answer()
        self.first_step[cache] = time.monotonic() - before
        self.version = first["version"]
        return first

    def ask(self, lines, chunk):
        try:
            self.process.stdin.write(f"{lines} {chunk}\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # the answer says how it ended
        answer = self.answer()
        self.memory = answer["memory"]
        return answer["losses"], answer["times"]

    def begin(self):
        firsts = {cache: self.launch(cache) for cache in self.setting.starts}
        losses, times = self.ask(LOSSES - 1, 1)
        self.step_seconds = min(times)
        for cache, first in firsts.items():
            self.compile_seconds[cache] = first["seconds"] - self.step_seconds
        return [first["loss"]] + losses

    def burst(self, length):
        lines, chunk = burst_of(self.step_seconds, length)
        self.times += self.ask(1 + lines, chunk)[1][1:]

    def end(self):
        if self.process:
            with contextlib.suppress(BrokenPipeError):
                self.process.stdin.close()
            self.process.stdout.close()
            try:
                self.process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            self.process = None


def peak_of(build):
    """Flops a second of one core, which kernels measures now: multiply-adds in registers, in thread time."""
    output = subprocess.check_output([f"{build}/tests/bench/kernels", "matmul nn 256", "--rounds", "3"],
                                     text=True)
    _, peak = output.splitlines()[-1].partition("256 256 256")[2].split()[:2]
    return float(peak) * 1e9


def differs(ours, theirs, tolerance):
    return any(abs(a - b) > tolerance * max(abs(a), abs(b), 1e-6) or a != a or b != b
               for a, b in zip(ours, theirs))


def why_not(contestant, ours, errors):
    """Begins; what keeps it from taking part: it has to work, and to have our losses."""
    try:
        theirs = contestant.begin()
    except PeerFailed as failure:
        return str(failure)
    tolerance = contestant.setting.case.model.tolerance
    if differs(ours, theirs, tolerance):
        errors.append(f"{contestant.setting.case.name}, {contestant.name}: losses {theirs}, "
                      f"and tfd's are {ours} (tolerance {tolerance:g})")
        return "other losses"
    return None


def begin_all(setting, contestants, errors):
    """Puts all that work on the list, tfd first; gives the rows of the others."""
    contestants.append(Tfd(setting))
    ours, rows = contestants[0].begin(), []
    for key in setting.args.peers:
        if setting.replicas == 1 or key in REPLICATED:
            contestants.append(Peer(setting, key))
            if why := why_not(contestants[-1], ours, errors):
                contestants[-1].end()
                rows.append({"peer": contestants.pop().name, "error": why})
    return rows


def round_of(contestants, length):
    """A burst of each; gives the rows of those that fail, and takes them from the list."""
    rows = []
    for contestant in list(contestants):
        try:
            contestant.burst(length)
        except PeerFailed as failure:
            contestant.end()
            contestants.remove(contestant)
            rows.append({"peer": contestant.name, "error": str(failure)})
    return rows


def measure(setting, errors):
    """The rows of one setting."""
    args, case, contestants, peaks = setting.args, setting.case, [], []
    try:
        rows = begin_all(setting, contestants, errors)
        for _ in range(args.rounds):
            peaks.append(peak_of(args.build))
            rows += round_of(contestants, args.burst)
    finally:
        for contestant in contestants:
            contestant.end()
    flops, peak = models.step_flops(case.model, case.sizes), max(peaks) * setting.threads
    rows = [c.row() for c in contestants] + rows
    for row in rows:
        row.update(model=case.name, sizes=case.sizes, changed=case.changed(), threads=setting.threads,
                   replicas=setting.replicas, flops=flops, peak_flops=peak)
        if "seconds_min" in row:
            row["of_peak"] = flops / row["seconds_min"] / peak
    return rows


def settings_of(args):
    """(threads, replicas) of all tables."""
    return [(t, 1) for t in args.threads] + ([(2, 2)] if args.replicas else [])


def cases_of(args):
    if args.draw:
        print(f"seed {args.seed}", flush=True)
        return models.draw_cases(args.draw, args.seed)
    names = args.models or (models.OPERATIONS if args.operations else models.MODELS)
    return [models.parse_case(text, args.quick) for text in names]


def compare(args, cases):
    found = {"machine": report.machine(), "cores": os.cpu_count(), "command": args.command,
             "date": datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
             "rounds": args.rounds, "rows": []}
    errors = []
    for case in cases:
        with tempfile.TemporaryDirectory(prefix="tfd-compare-", dir=args.work) as folder:
            for threads, replicas in settings_of(args):
                rows = measure(Setting(args, case, threads, replicas, f"{folder}/{threads}-{replicas}"),
                               errors)
                found["rows"] += rows
                print(report.table(rows), flush=True)
                if args.json:
                    pathlib.Path(args.json).write_text(json.dumps(found, indent=1) + "\n")
    print(report.summary(found["rows"]))
    return found, errors


def parsed(words):
    parser = argparse.ArgumentParser(description=__doc__, prog="compare",
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", help=argparse.SUPPRESS)
    parser.add_argument("models", nargs="*", metavar="MODEL[:SIZE=N,...]",
                        help=f"default: all, {', '.join(models.MODELS)}")
    parser.add_argument("--operations", action="store_true",
                        help="single operations with their gradients instead of the models: "
                        f"{', '.join(models.OPERATIONS)}; or name some")
    parser.add_argument("--threads", default="1,2", help="default: 1,2")
    parser.add_argument("--replicas", action="store_true",
                        help="two replicas, too, beside shard_map, DDP over gloo and MirroredStrategy")
    parser.add_argument("--peers", help="default: " + ",".join(PEERS) + "; none: an empty text")
    parser.add_argument("--rounds", type=int, help="bursts of each (default: 5)")
    parser.add_argument("--burst", type=float, help="seconds of a burst (default: 1)")
    parser.add_argument("--limit", type=float, help="seconds that a peer may take to begin, or for a "
                        "burst (default: 300)")
    parser.add_argument("--draw", type=int, metavar="N", help="N models and sizes by chance instead")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of --draw")
    parser.add_argument("--quick", action="store_true",
                        help="smaller sizes, one thread, two rounds, no warm starts, and without PyTorch "
                        "compile, which takes long: under ten minutes")
    parser.add_argument("--json", metavar="FILE", help="write all figures there")
    parser.add_argument("--page", metavar="FILE.md",
                        help="put tables and a chart, compare.svg, between the page's lines "
                        "<!-- compare --> and <!-- /compare -->")
    parser.add_argument("--from", dest="read", metavar="FILE",
                        action="append",
                        help="measure nothing: --page from what --json wrote, of one run or of several")
    parser.add_argument("--work", help="where temporary files are (default: TMPDIR)")
    args = parser.parse_intermixed_args(words)
    # Without what says only where files are.
    args.command = re.sub(r" --(work|json|page) \S+", "", " ".join(["tests/bench/compare"] + words[1:]))
    args.rounds = args.rounds or (2 if args.quick else 5)
    args.burst = args.burst or (0.3 if args.quick else 1.0)
    args.limit = args.limit or (60 if args.quick else 300)
    args.threads = [1] if args.quick else [int(t) for t in args.threads.split(",")]
    if args.peers is None:
        args.peers = ",".join(p for p in PEERS if not args.quick or p != "PyTorch compile")
    args.peers = list(filter(None, args.peers.split(",")))
    if unknown := [p for p in args.peers if p not in PEERS]:
        parser.error(f'there is no peer "{unknown[0]}", only {", ".join(PEERS)}')
    return args


def main():
    args = parsed(sys.argv[1:])
    errors = []
    if args.read:
        runs = [json.loads(pathlib.Path(path).read_text()) for path in args.read]
    else:
        try:
            cases = cases_of(args)
        except ValueError as error:
            sys.exit(f"compare: {error}")
        found, errors = compare(args, cases)
        runs = [found]
    if args.page:
        report.write_page(args.page, runs)
    if errors:
        sys.exit("compare: " + "\n".join(errors))


if __name__ == "__main__":
    main()
