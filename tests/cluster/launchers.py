#!/usr/bin/env python3
"""launchers.py BUILD [NAME ...]

Trains bigram in three processes, started by everything that starts processes:
tfd-run -n, TF_CONFIG, torchrun's variables, --rank, mpirun of Open MPI and of
MPICH, srun, and the batch script of docs/examples.  All but the first put each process on a machine of its own
(hosts.py).  Each job has to print what one process prints, with its checksum.
TAP; what a machine cannot do is skipped with the reason.
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

import hosts
import slurm

WORKERS = 3
SECONDS = 60
PORT = 17000
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
EXAMPLE = f"{ROOT}/docs/examples/bigram.tfd"
# Shrunk so that a run takes a fraction of a second.
SIZES = ["-D", "BATCH=96"]
ADDRESS = f"{hosts.address(1)}:{PORT}"


class Skip(Exception):
    pass


class Job:
    def __init__(self, build, folder, machines):
        self.build = os.path.abspath(build)
        self.folder = folder
        self.machines = machines
        self.plan = f"{folder}/bigram.tfp"
        self.key = f"{folder}/key"
        with open(f"{folder}/text.txt", "w") as f:
            f.write("the quick brown fox jumps over the lazy dog. " * 60)
        with open(os.open(self.key, os.O_CREAT | os.O_WRONLY, 0o600),
                  "wb") as f:
            f.write(os.urandom(32))
        subprocess.run([f"{self.build}/tfdc", EXAMPLE, *SIZES, "--strategy",
                        "multi_worker_mirrored", "--workers", str(WORKERS),
                        "--devices", "cpu:0-1", "-o", self.plan], check=True)

    def expected(self, epochs):
        """What one process prints."""
        return from_done(self.run(self.tfd_run(epochs=epochs)))

    def tfd_run(self, *options, epochs=1):
        return [f"{self.build}/tfd-run", self.plan, "--data", self.folder,
                "--quiet", "--checksum", "--threads", "1", "--set",
                f"epochs={epochs}", *options]

    def member(self, *options):
        """The command of a process on a machine of its own."""
        return self.tfd_run("--key", self.key, *options)

    def run(self, command, env=None):
        return subprocess.run(command, env=env, capture_output=True, text=True,
                              timeout=SECONDS)

    def on_hosts(self, environment=lambda rank: {},
                 options=lambda rank: [], each=1):
        """Processes on each host, with what these two have for a rank."""
        processes = [
            self.machines.start(
                rank // each + 1, self.member(*options(rank)),
                env=dict(os.environ, **environment(rank)),
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for rank in range(WORKERS * each)]
        out = ""
        for rank, process in enumerate(processes):
            printed, said = process.communicate(timeout=SECONDS)
            if process.returncode or (rank and printed):
                raise AssertionError(f"rank {rank}: status "
                                     f"{process.returncode}: {printed}{said}")
            out += printed
        return out


def from_done(done):
    if done.returncode:
        raise AssertionError(f"status {done.returncode}: {done.stderr}"
                             f"{done.stdout}")
    return done.stdout


# --- what starts processes ---------------------------------------------------

def tfd_run_n(job):
    return from_done(job.run(job.tfd_run("-n", str(WORKERS))))


def tf_config(job):
    workers = [f"{hosts.address(i + 1)}:{PORT}" for i in range(WORKERS)]

    def environment(rank):
        task = ({"type": "chief", "index": 0} if rank == 0 else
                {"type": "worker", "index": rank - 1})
        return {"TF_CONFIG": json.dumps(
            {"cluster": {"chief": workers[:1], "worker": workers[1:]},
             "task": task})}
    return job.on_hosts(environment)


def torchrun(job):
    return job.on_hosts(lambda rank: {
        "RANK": str(rank), "WORLD_SIZE": str(WORKERS),
        "MASTER_ADDR": hosts.address(1), "MASTER_PORT": str(PORT - 1)})


def by_hand(job):
    return job.on_hosts(options=lambda rank: [
        "--rank", str(rank), "--size", str(WORKERS), "--join", ADDRESS])


def two_on_each(job):
    """Those of a machine combine their replicas before machines do."""
    return job.on_hosts(each=2, options=lambda rank: [
        "--rank", str(rank), "--size", str(2 * WORKERS), "--join", ADDRESS,
        "--link", "zmq"])


def remote_shell(job):
    path = f"{job.folder}/rsh"
    with open(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o755),
              "w") as f:
        f.write(f'#!/bin/sh\nexec {sys.executable} {hosts.__file__} "$@"\n')
    return path


def need(program, package):
    if not shutil.which(program):
        raise Skip(f"there is no {program} (Debian: {package})")


def mpirun(job, command, **more):
    process = job.machines.start(1, command, text=True,
                                 env=dict(os.environ, **more),
                                 stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE)
    out, said = process.communicate(timeout=SECONDS)
    if process.returncode:
        raise AssertionError(f"status {process.returncode}: {said}{out}")
    return out


def all_addresses():
    return ",".join(hosts.address(i + 1) for i in range(WORKERS))


def open_mpi(job, options=(), each=1, **more):
    need("mpirun.openmpi", "openmpi-bin")
    # The library's own leaks are its.
    more["ASAN_OPTIONS"] = ":".join(filter(None, [
        os.environ.get("ASAN_OPTIONS"), "detect_leaks=0"]))
    hosts_and_slots = ",".join(f"{hosts.address(i + 1)}:{each}"
                               for i in range(WORKERS))
    return mpirun(job, [
        "mpirun.openmpi", "-n", str(each * WORKERS), "--host",
        hosts_and_slots, "--mca", "plm", "rsh", "--mca", "plm_rsh_agent",
        remote_shell(job), "--mca", "btl_tcp_if_include", "eth0", "--mca",
        "oob_tcp_if_include", "eth0", "--mca", "mpi_yield_when_idle", "1",
        *[word for name in more for word in ("-x", name)],
        *job.tfd_run(*options)],
        OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", **more)


def mpich(job, options=(), each=1, **more):
    need("mpiexec.mpich", "mpich")
    if is_sanitized(job):
        raise Skip("MPICH crashes under AddressSanitizer")
    return mpirun(job, [
        "mpiexec.mpich", "-launcher", "ssh", "-launcher-exec",
        remote_shell(job), "-hosts", all_addresses(), "-ppn", str(each),
        "-iface", "eth0", "-n", str(each * WORKERS), *job.tfd_run(*options)],
        **more)


def is_sanitized(job):
    with open(f"{job.build}/tfd-run", "rb") as f:
        return b"__asan_init" in f.read()


def srun(job, mpi):
    why = slurm.why_not()
    if why:
        raise Skip(why)
    folder = tempfile.mkdtemp(dir=job.folder)
    with slurm.Slurm(job.machines, folder) as cluster:
        return from_done(cluster.run(
            ["srun", f"-N{WORKERS}", f"-n{WORKERS}", f"--mpi={mpi}",
             *job.member()], SECONDS))


# --- the batch script of the documentation -----------------------------------

BATCH_EPOCHS = 60
SAID = re.compile("tfd-run|srun|slurmstepd")
BATCH_SCRIPT = f"{ROOT}/docs/examples/cluster/train.sbatch"


def batch_home(job):
    """A home with the key, the plan and its data, and a tfd-run that prints the
    checksum of a few epochs."""
    home = f"{job.folder}/home"
    os.makedirs(f"{home}/bin")
    shutil.copy(job.key, f"{home}/.tfd-key")
    shutil.copy(job.plan, f"{home}/train.tfp")
    shutil.copy(f"{job.folder}/text.txt", home)
    command = job.tfd_run(epochs=BATCH_EPOCHS)
    with open(os.open(f"{home}/bin/tfd-run", os.O_CREAT | os.O_WRONLY, 0o755),
              "w") as f:
        f.write(f'#!/bin/sh\nexec {command[0]} "$@" {" ".join(command[4:])}\n')
    return home


def wait_until(what, is_so):
    end = time.monotonic() + SECONDS
    while not is_so():
        if time.monotonic() > end:
            raise AssertionError(f"after {SECONDS} s: {what}")
        time.sleep(0.02)


def contents(path):
    try:
        with open(path) as f:
            return f.read()
    except FileNotFoundError:
        return ""


def sbatch(job):
    """The job is requeued after its first epochs, and has to end as if it had
    not been."""
    why = slurm.why_not()
    if why:
        raise Skip(why)
    home = batch_home(job)
    out = f"{home}/out"
    with slurm.Slurm(job.machines, tempfile.mkdtemp(dir=job.folder)) as cluster:
        def command(*words):
            return from_done(cluster.run(
                list(words), SECONDS, cwd=home, HOME=home,
                PATH=f"{home}/bin:{os.environ['PATH']}"))
        number = command("sbatch", "--parsable", f"-N{WORKERS}", f"-o{out}",
                         "--open-mode=append", BATCH_SCRIPT).strip()
        wait_until("no epoch has ended", lambda: "epoch 2" in contents(out))
        command("scontrol", "requeue", number)
        wait_until("the job has not ended", lambda: command(
            "squeue", "-h", "-o", "%i") == "")
    said = contents(out)
    if "; --resume goes on from there\n" not in said:
        raise AssertionError(f"it was not interrupted: {said}")
    if "checksum" not in said:
        raise AssertionError(f"it did not end: {said}")
    return "".join(line for line in said.splitlines(keepends=True)
                   if not SAID.match(line))


LAUNCHERS = {
    "tfd-run -n": tfd_run_n,
    "TF_CONFIG": tf_config,
    "torchrun": torchrun,
    "--rank, --size and --join": by_hand,
    "two processes on each machine": two_on_each,
    "mpirun of Open MPI": open_mpi,
    "mpirun of Open MPI with two processes on each machine":
        lambda job: open_mpi(job, each=2),
    "mpirun of Open MPI with TFD_CONTROL":
        lambda job: open_mpi(job, options=["--key", job.key],
                             TFD_CONTROL=ADDRESS),
    "mpiexec of MPICH": mpich,
    "mpiexec of MPICH with two processes on each machine":
        lambda job: mpich(job, each=2),
    "srun": lambda job: srun(job, "none"),
    "srun --mpi=pmi2": lambda job: srun(job, "pmi2"),
    "srun --mpi=pmix": lambda job: srun(job, "pmix"),
    "train.sbatch": sbatch,
}
EPOCHS = {"train.sbatch": BATCH_EPOCHS}


def verdict(job, name):
    """What TAP says of a job."""
    try:
        out = LAUNCHERS[name](job)
        expected = job.expected(EPOCHS.get(name, 1))
    except Skip as why:
        return True, f" # SKIP {why}", ""
    except slurm.NotStarted as why:
        return True, f" # SKIP {why}", ""
    except (AssertionError, subprocess.TimeoutExpired) as wrong:
        job.machines.stop()
        return False, "", str(wrong)
    same = out == expected and "checksum" in out
    return same, "", "" if same else f"{out!r} is not {expected!r}"


def main():
    why = not os.environ.get(hosts.ISOLATED) and hosts.why_not()
    if why:
        print(f"1..0 # SKIP {why}")
        return 0
    hosts.isolate()
    names = sys.argv[2:] or list(LAUNCHERS)
    failed = 0
    print(f"1..{len(names)}", flush=True)
    with tempfile.TemporaryDirectory() as folder, \
            hosts.Hosts(WORKERS) as machines:
        os.chmod(folder, 0o755)
        job = Job(sys.argv[1], folder, machines)
        for i, name in enumerate(names):
            ok, note, wrong = verdict(job, name)
            print(f"{'' if ok else 'not '}ok {i + 1} - {name}{note}",
                  flush=True)
            for line in wrong.strip().split("\n") if wrong else []:
                print(f"# {line}", flush=True)
            failed += not ok
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
