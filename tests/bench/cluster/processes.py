#!/usr/bin/env python3
"""processes.py - a program on two processes, beside two devices of one process

    processes.py TFDC TFD_RUN PROGRAM [--rounds N] [--check] [--set NAME=VALUE]

Both runs have the same replicas and threads.  They are timed in turns, as whole
commands; printed are the medians and their ratio.  --check fails if it is above
1.1, or if the checksums differ.
"""
import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time


def run_once(command, folder):
    """Seconds, and the checksum."""
    begin = time.perf_counter()
    done = subprocess.run(command, cwd=folder, check=True, timeout=600,
                          stdout=subprocess.PIPE, text=True)
    return time.perf_counter() - begin, done.stdout.splitlines()[-1]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('tfdc')
    parser.add_argument('tfd_run')
    parser.add_argument('program')
    parser.add_argument('--rounds', type=int, default=5)
    parser.add_argument('--check', action='store_true')
    parser.add_argument('--set', action='append', default=[])
    args = parser.parse_args()
    args.tfdc, args.tfd_run, args.program = (
        os.path.abspath(p) for p in (args.tfdc, args.tfd_run, args.program))
    with tempfile.TemporaryDirectory() as folder:
        for name in os.listdir(os.path.dirname(args.program)):
            if name.endswith(('.tfd', '.txt')):
                shutil.copy(os.path.join(os.path.dirname(args.program), name),
                            folder)
        name = os.path.basename(args.program)
        subprocess.run([args.tfdc, name, '--devices', 'cpu:0-1', '-o',
                        'plan.tfp'], cwd=folder, check=True)
        run = [args.tfd_run, 'plan.tfp', '--checksum']
        for value in args.set:
            run += ['--set', value]
        times, sums = ([], []), set()
        for _ in range(args.rounds):
            for i, more in enumerate(([], ['-n', '2'])):
                seconds, checksum = run_once(run + more, folder)
                times[i].append(seconds)
                sums.add(checksum)
    one, two = (statistics.median(t) for t in times)
    print('%s: 2 devices %.2f s, 2 processes %.2f s, ratio %.3f; %s' % (
        name, one, two, two / one, ', '.join(sorted(sums))))
    sys.exit(len(sums) != 1 or (args.check and two / one > 1.1))


if __name__ == '__main__':
    main()
