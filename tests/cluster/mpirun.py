#!/usr/bin/env python3
"""mpirun.py TFDC TFD_RUN FAKE_MPI BLOCKING_MPI EXAMPLES

Processes that mpirun has started on this machine and told nothing but their
numbers: rank 0 has to tell the others over MPI where it listens.  Each family
of MPI that is here trains in some processes, and what cannot begin says why and
ends.  FAKE_MPI is one whose calls fail as they are asked to (fake_mpi.c),
BLOCKING_MPI one that at some time does not return (blocking_mpi.c).  TAP.
"""
import os
import shutil
import subprocess
import sys
import tempfile

from hosts import free_port

TFDC, TFD_RUN, FAKE, BLOCKING, EXAMPLES = sys.argv[1:]
SECONDS = 50
OPEN_MPI, MPICH = "mpirun.openmpi", "mpirun.mpich"
LIBRARIES = ["libmpi.so.40", "libmpi_abi.so.1", "libmpi_abi.so.0",
             "libmpich.so.12", "libmpi.so.12"]
ENVIRONMENT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_mpi_yield_when_idle": "1",
    "OMPI_MCA_odls_base_sigkill_timeout": "0",
    # The libraries' own leaks are theirs.
    "ASAN_OPTIONS": ":".join(filter(None, [os.environ.get("ASAN_OPTIONS"),
                                           "detect_leaks=0"]))}


class Skip(Exception):
    pass


def is_sanitized():
    with open(TFD_RUN, "rb") as f:
        return b"__asan_init" in f.read()


def need(launcher):
    if not shutil.which(launcher):
        raise Skip(f"there is no {launcher}")
    if launcher == MPICH and is_sanitized():
        raise Skip("MPICH crashes under AddressSanitizer")


class Case:
    def __init__(self, folder):
        self.folder = folder
        self.plan = f"{folder}/plan.tfp"
        subprocess.run([TFDC, f"{EXAMPLES}/linear.tfd", "--devices", "cpu:0-3",
                        "-o", self.plan], check=True)
        self.alone = self.run(self.tfd_run()).stdout

    def tfd_run(self, *options, plan=None):
        return [TFD_RUN, plan or self.plan, "--data", EXAMPLES, "--checksum",
                "--threads", "1", "--quiet", *options]

    def run(self, command, **env):
        return subprocess.run(command, env={**os.environ, **ENVIRONMENT, **env},
                              capture_output=True, text=True, timeout=SECONDS)

    def mpirun(self, launcher, num, *options, **env):
        need(launcher)
        return self.run([launcher, "-n", str(num), *self.tfd_run(*options)],
                        **env)

    def rank_1_differs(self, launcher, command, *options):
        """Two processes, of which the shell runs `command` first in rank 1."""
        need(launcher)
        script = ('case ${PMI_RANK:-$OMPI_COMM_WORLD_RANK} in 1) '
                  f'{command};; esac; exec "$@"')
        return self.run([launcher, "-n", "2", "sh", "-c", script, "sh",
                         *self.tfd_run(*options)])

    def with_fake(self, call, *options):
        """Rank 0 of two over an MPI in which this call does not do."""
        return self.run(self.tfd_run("--mpi", FAKE, *options), PMI_RANK="0",
                        PMI_SIZE="2", FAKE_MPI=call)


def want(done, said, status=None):
    if said not in done.stderr:
        raise AssertionError(f"{said!r} is not in: {done.stderr}{done.stdout}")
    if status is not None and done.returncode != status:
        raise AssertionError(f"status {done.returncode}, not {status}")


def trains(launcher, num, *options):
    def test(case):
        done = case.mpirun(launcher, num, *options)
        if done.returncode or done.stdout != case.alone:
            raise AssertionError(f"status {done.returncode}: {done.stdout}"
                                 f"{done.stderr}")
    return test


def an_address_that_is_given_wins(case):
    """MPI is not opened: there is none at this path."""
    address = f"127.0.0.1:{free_port()}"
    done = case.mpirun(OPEN_MPI, 2, "--mpi", "/nowhere/libmpi.so",
                       TFD_CONTROL=address)
    if done.returncode or done.stdout != case.alone:
        raise AssertionError(done.stderr)


def no_library(case):
    folder = tempfile.mkdtemp(dir=case.folder)
    for name in LIBRARIES:
        open(f"{folder}/{name}", "w").close()
    done = case.run(case.tfd_run(), LD_LIBRARY_PATH=folder,
                    OMPI_COMM_WORLD_RANK="0", OMPI_COMM_WORLD_SIZE="2")
    want(done, "there is no MPI library that can be opened (--mpi PATH names "
         "one): ", 3)
    for name in LIBRARIES:
        want(done, name)
    want(done, "; rank 0 says over MPI where it listens, unless all processes "
         "have --join HOST:PORT, or TFD_CONTROL set to it\n")


def a_path_that_is_none(case):
    done = case.run(case.tfd_run("--mpi", "/nowhere/libmpi.so"), PMI_RANK="0",
                    PMI_SIZE="2")
    want(done, "cannot open the MPI library of --mpi: /nowhere/libmpi.so: ", 1)


def the_library_of_another_launcher(case):
    need(MPICH)
    done = case.mpirun(OPEN_MPI, 2, "--mpi", "libmpich.so.12")
    # Whichever is quicker: the launcher then kills the other one.
    want(done, " is 0 of 1, and the job has 2 processes: is its launcher that "
         "of another MPI than MPICH?")


def one_with_a_key(case):
    key = f"{case.folder}/key"
    with open(os.open(key, os.O_CREAT | os.O_WRONLY, 0o600), "wb") as f:
        f.write(os.urandom(32))
    done = case.rank_1_differs(MPICH, f'set -- "$@" --key {key}')
    want(done, "one of rank 0 and rank 1 has --key, and the other has not: "
         "give it to all processes, or to none")


def what_fails_is_said(case):
    """Also where the launcher kills all when the first process ends."""
    path = f"{case.folder}/fails.tfd"
    with open(path, "w") as f:
        f.write("var w: f32 = 0.0\n"
                "fn step() { w += all_reduce(sum, f32(replica_id)) }\n"
                'main { run step()\n  assert(w < 1.0, "it is {w}") }\n')
    subprocess.run([TFDC, path, "--devices", "cpu:0-3", "-o", f"{path}p"],
                   check=True)
    need(MPICH)
    for i in range(4):
        want(case.run([MPICH, "-n", "4", *case.tfd_run(plan=f"{path}p")]),
             "error: it is 6.0")


def one_that_is_killed(launcher):
    def test(case):
        done = case.rank_1_differs(launcher, "kill -9 $$", "--timeout", "30")
        if not done.returncode:
            raise AssertionError("the job has ended well")
    return test


def one_that_does_not_come(case):
    """MPICH's launcher does not end the others."""
    done = case.rank_1_differs(MPICH, "exit 0", "--timeout", "1")
    want(done, "MPI_Init_thread (MPICH) has not come back for 1 seconds: "
         "another process of the job has died, or does not come")


def a_call_that_does_not_return(case):
    want(case.with_fake("hang", "--timeout", "0.1"),
         "MPI_Init_thread (MPICH) has not come back for 0.1 seconds", 3)


def one_that_does_not_return_later(case):
    want(case.with_fake("stuck", "--timeout", "0.1"),
         "MPI_Test (MPICH) has not come back for 2.1 seconds", 3)


ENDLESS = '''var w: f32[64] = 1.0
fn step() { w = w * 0.5 + all_reduce(mean, w * f32(replica_id)) }
main { for i in 0..1000000000 { run step() } }
'''


def one_that_does_not_return_at_last(case):
    """Each process ends by itself: the launcher must not have to do it."""
    need(MPICH)
    path = f"{case.folder}/endless.tf"
    with open(f"{path}d", "w") as f:
        f.write(ENDLESS)
    subprocess.run([TFDC, f"{path}d", "--devices", "cpu:0-1", "-o", f"{path}p"],
                   check=True)
    run = case.tfd_run("--link", "mpi", "--mpi", BLOCKING, "--timeout", "2",
                       plan=f"{path}p")
    done = case.run([MPICH, "-n", "2", "sh", "-c",
                     '"$@"; echo "$PMI_RANK has ended" >&2; sleep 8', "sh",
                     *run], BLOCK_MPI="1 2")
    want(done, "all_reduce")
    want(done, "0 has ended\n")
    want(done, "1 has ended\n")


def calls_that_fail(case):
    for call in ["MPI_Irecv", "MPI_Test"]:
        want(case.with_fake(call), f"{call} fails (MPICH) before the job has "
             "begun: another process may have died", 3)


def nobody_answers(case):
    want(case.with_fake("", "--timeout", "0.1"),
         "rank 0 has waited for rank 1 over MPI (MPICH) for 0.1 seconds, and "
         "the job has not begun", 3)


def an_interrupt(case):
    want(case.with_fake("interrupt"),
         "interrupted before rank 1 was heard of over MPI", 130)


CASES = {
    **{f"{launcher} -n {num}": trains(launcher, num)
       for launcher in (OPEN_MPI, MPICH) for num in (1, 2, 4)},
    "with a link over the same MPI": trains(OPEN_MPI, 2, "--link", "mpi"),
    "with a link over the same MPICH": trains(MPICH, 2, "--link", "mpi"),
    "with a link that has the job's key": trains(OPEN_MPI, 2, "--link", "zmq"),
    "TFD_CONTROL wins": an_address_that_is_given_wins,
    "no library of MPI": no_library,
    "--mpi names none": a_path_that_is_none,
    "the library of another launcher": the_library_of_another_launcher,
    "--key in one process": one_with_a_key,
    "what fails is said": what_fails_is_said,
    f"{OPEN_MPI}: a process is killed before": one_that_is_killed(OPEN_MPI),
    f"{MPICH}: a process is killed before": one_that_is_killed(MPICH),
    "a process does not come": one_that_does_not_come,
    "MPI does not return": a_call_that_does_not_return,
    "MPI does not return while joining": one_that_does_not_return_later,
    "MPI does not return in a step": one_that_does_not_return_at_last,
    "MPI fails": calls_that_fail,
    "nobody answers": nobody_answers,
    "an interrupt": an_interrupt,
}


def main():
    failed = 0
    print(f"1..{len(CASES)}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        case = Case(folder)
        for i, (name, test) in enumerate(CASES.items()):
            word, note = "ok", ""
            try:
                test(case)
            except Skip as why:
                note = f" # SKIP {why}"
            except (AssertionError, subprocess.TimeoutExpired) as wrong:
                word, failed = "not ok", failed + 1
                for line in str(wrong).split("\n"):
                    print(f"# {line}")
            print(f"{word} {i + 1} - {name}{note}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
