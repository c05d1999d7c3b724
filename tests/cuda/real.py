#!/usr/bin/env python3
"""The suite cuda-real: what the fake driver is for, on a real GPU.

  real.py TFDC TFD_RUN DRIVER_TEST ROOT [EXAMPLE...]

The other suites of this folder ask for the fake driver by LD_LIBRARY_PATH. This
one takes the driver that the system has, and is skipped, with the reason that
`tfd-run --list-devices` gives, where that has no GPU.  It runs

  - the contract of a device (driver_test --real),
  - each example at a size for tests, on the CPU, on one GPU, and from a plan for
    two replicas on one and, if there are two, on two GPUs: the same checksum,
    the same output,
  - each of them with --compare cpu: the bits of each launch of a kernel are
    those of its object for the CPU,
  - examples with products on tensor cores (--precision tf32): near the CPU's, and
    the same output in two runs,
  - charlm and convnet for two steps at their own sizes, with --compare cpu, and
    charlm in TF32.

With EXAMPLEs it takes these only, at their sizes for tests.  tests/cuda/with-fakes
runs it on the fake driver, which tests this file.
"""
import os
import re
import subprocess
import sys
import tempfile

# -D for sizes, and params, of examples that would take long.
SMALL = {
    "bigram": ([], ["epochs=1"]),
    "charlm": (["BATCH=4", "T=16", "C=32", "HEADS=2", "LAYERS=1"], ["steps=4"]),
    "convnet": (["SIZE=8", "CHANNELS=8", "BLOCKS=1", "BATCH=4"], ["epochs=1"]),
    "spiral": ([], ["epochs=2"]),
}
# Devices of plans: a replica each.  Runs are on the first GPU, and on as many as
# the plan has replicas, if they are there.
PLANS = {"contexts": ["cuda:0-1"], "ragged": ["cuda:0-2"]}
# Their products are compiled for tensor cores, too.
TF32 = {"bigram", "charlm", "convnet", "spiral"}
# It restores what charlm has saved.
WITHOUT_RUN = {"write"}
# Two steps each, at their own sizes.
FULL = {"charlm": ["steps=2"], "convnet": ["epochs=1"]}
SECONDS = 600


class Suite:
    def __init__(self, tfdc, tfd_run, root, folder):
        self.tfdc, self.tfd_run, self.folder = tfdc, tfd_run, folder
        self.examples = os.path.join(root, "docs", "examples")
        self.cases, self.failed = 0, 0

    def case(self, name, problem, skip=None):
        self.cases += 1
        self.failed += bool(problem)
        print("not ok" if problem else "ok", self.cases, "-", name
              + (f" # SKIP {skip}" if skip else ""), flush=True)
        for line in (problem or "").splitlines():
            print("#  ", line)

    def command(self, *words):
        """(exit status, standard output, standard error)."""
        try:
            done = subprocess.run(words, capture_output=True, text=True,
                                  errors="replace", timeout=SECONDS,
                                  cwd=self.folder, check=False)
        except subprocess.TimeoutExpired:
            return 124, "", f"not ended after {SECONDS} s: {' '.join(words)}"
        return done.returncode, done.stdout, done.stderr

    def compile(self, name, devices, defines, precision="exact"):
        plan = os.path.join(self.folder, f"{name}.{devices}.{precision}.tfp")
        options = [o for d in defines for o in ("-D", d)]
        options += ["--precision", precision]
        status, _, said = self.command(
            self.tfdc, os.path.join(self.examples, name + ".tfd"), "--devices",
            devices, "-o", plan, *options)
        return (plan, None) if status == 0 else (None, said)

    def run(self, plan, devices, params, *options):
        sets = [o for p in params for o in ("--set", p)]
        return self.command(self.tfd_run, plan, "--devices", devices, "--data",
                            self.examples, "--checksum", *sets, *options)


def difference(expected, got, where="on the CPU"):
    if got[0] != 0:
        return f"exit status {got[0]}\n{got[2]}"
    if got[1] != expected[1]:
        return f"{where}:\n{expected[1]}here:\n{got[1]}"
    return None


def check_bits(suite, name, num_gpus):
    defines, params = SMALL.get(name, ([], []))
    for devices in PLANS.get(name, ["cuda:0", "cuda:0-1"]):
        plan, said = suite.compile(name, devices, defines)
        if said:
            suite.case(f"{name} for {devices}", said)
            continue
        cpu = suite.run(plan, devices.replace("cuda", "cpu"), params)
        replicas = int(devices.split("-")[1]) + 1 if "-" in devices else 1
        for at in sorted({"cuda:0", devices}):
            few = at != "cuda:0" and num_gpus < replicas
            problem = None if few else (f"on the CPU: {cpu[2]}" if cpu[0] else
                                        difference(cpu, suite.run(plan, at, params)))
            suite.case(f"{name} for {devices} on {at}: the bits of the CPU",
                       problem, f"GPUs here: {num_gpus}" if few else None)
        if devices == PLANS.get(name, ["cuda:0"])[0]:
            compare_kernels(suite, f"{name}: each kernel's bits", plan, params, 3)


def compare_kernels(suite, title, plan, params, steps, tf32=False):
    status, out, said = suite.run(plan, "cuda:0", params, "--compare", "cpu",
                                  "--compare-steps", str(steps))
    problem = f"exit status {status}\n{said}" if status else None
    if tf32 and "launches with products in TF32" not in out:
        problem = problem or "no product was computed in TF32"
    suite.case(title, problem)
    for line in re.findall(r"^compared \d+ .*", out, re.M):
        print("#  ", line)


def check_tf32(suite, name):
    defines, params = SMALL.get(name, ([], []))
    plan, said = suite.compile(name, "cuda:0", defines, "tf32")
    if said:
        suite.case(f"{name} in TF32", said)
        return
    once = suite.run(plan, "cuda:0", params)
    problem = difference(once, once, "once") or difference(
        once, suite.run(plan, "cuda:0", params), "once")
    suite.case(f"{name} in TF32: the same in two runs", problem)
    compare_kernels(suite, f"{name} in TF32: each kernel near the CPU's", plan,
                    params, 3, tf32=True)


def check_full(suite, name, precision="exact"):
    plan, said = suite.compile(name, "cuda:0", [], precision)
    title = f"{name} at its own size, {precision}: each kernel as the CPU's"
    if said:
        suite.case(title, said)
    else:
        compare_kernels(suite, title, plan, FULL[name], 2, precision == "tf32")


def check_driver(suite, driver_test):
    env = {**os.environ, "CMOCKA_MESSAGE_OUTPUT": "TAP"}
    done = subprocess.run([driver_test, "--real"], capture_output=True,
                          text=True, env=env, timeout=SECONDS, check=False)
    failed = done.returncode or re.search(r"^not ok", done.stdout, re.M)
    suite.case("the contract of devices",
               done.stdout + done.stderr if failed else None)


def main():
    if len(sys.argv) < 5:
        sys.exit(__doc__)
    tfdc, tfd_run, driver_test, root = map(os.path.abspath, sys.argv[1:5])
    listed = subprocess.run([tfd_run, "--list-devices"], capture_output=True,
                            text=True, check=True).stdout
    gpus = re.findall(r"^(cuda:\d+) +(.*)$", listed, re.M)
    if not gpus:
        why = re.search(r"^cuda +(.*)$", listed, re.M)
        print("1..0 # SKIP", why[1] if why else "there is no GPU")
        return 0
    for name, what in gpus:
        print("#", name, what)
    names = sys.argv[5:] or sorted(
        f.removesuffix(".tfd") for f in os.listdir(os.path.join(root, "docs/examples"))
        if f.endswith(".tfd"))
    with tempfile.TemporaryDirectory(prefix="tfd-real-") as folder:
        suite = Suite(tfdc, tfd_run, root, folder)
        check_driver(suite, driver_test)
        for name in names:
            if name not in WITHOUT_RUN:
                check_bits(suite, name, len(gpus))
            if name in TF32:
                check_tf32(suite, name)
        for name in FULL if not sys.argv[5:] else []:
            check_full(suite, name)
        if not sys.argv[5:]:
            check_full(suite, "charlm", "tf32")
    print(f"1..{suite.cases}")
    return 1 if suite.failed else 0


if __name__ == "__main__":
    sys.exit(main())
