#!/usr/bin/env python3
"""busy.py BUILD [--minutes M] [--busy N]

A job of four processes trains beside N busy ones (100) for M minutes (30), and
nobody may be taken for dead, silent or not coming: any error is wrong, and any
note but that a rank is slow.  TAP; on demand, since it takes the whole machine.
"""
import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

import programs

SIZE = 4
PROGRAM = programs.endless("      run train_step(x)")


def wait(job, seconds):
    try:
        job.wait(seconds)
    except subprocess.TimeoutExpired:
        pass


def take_interrupts():
    """In the job, which a shell in the background would have ignore them."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--busy", type=int, default=100)
    args = parser.parse_args()
    build = os.path.abspath(args.build)
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/train.tfd", "w") as f:
            f.write(PROGRAM)
        subprocess.run([f"{build}/tfdc", "train.tfd", "--devices",
                        f"cpu:0-{SIZE - 1}"], check=True, cwd=folder)
        busy = [subprocess.Popen(["sh", "-c", "while :; do :; done"])
                for _ in range(args.busy)]
        try:
            began = time.monotonic()
            job = subprocess.Popen(
                [f"{build}/tfd-run", "train.tfp", "-n", str(SIZE), "--set",
                 "epochs=1000000", "--threads", "1"], cwd=folder, text=True,
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                preexec_fn=take_interrupts)
            wait(job, 60 * args.minutes)
            minutes = (time.monotonic() - began) / 60
            job.send_signal(signal.SIGINT)
            said = job.communicate(timeout=120)[1]
        finally:
            for p in busy:
                p.kill()
                p.wait()
    steps = re.search(r"interrupted after (\d+) steps", said)
    slow = re.findall(r"note: rank \d.* is slow", said)
    wrong = re.findall(r"(?:^|\n)tfd-run: .*is (?:dead|silent|alive).*", said)
    good = steps and job.returncode == 130 and not wrong
    print(f"1..1\n{'' if good else 'not '}ok - {minutes:.1f} minutes beside "
          f"{args.busy} busy processes: {steps and steps.group(1)} steps, "
          f"{len(wrong)} wrong, {len(slow)} notes of a slow rank")
    if not good:
        print("# " + said.replace("\n", "\n# "))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
