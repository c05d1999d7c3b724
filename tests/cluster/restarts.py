#!/usr/bin/env python3
"""restarts.py - a job that is killed goes on to the bits of an undisturbed run

    restarts.py TFDC TFD_RUN [KILLS [INTERRUPTS [SEED]]]    TAP

Kills a random rank at KILLS random moments of jobs with --restarts, interrupts
a random rank INTERRUPTS times, and changes the number of processes in between.
CI takes a few; on demand 100 and 50.
"""
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

TFDC, RUN = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
KILLS = int(sys.argv[3]) if len(sys.argv) > 3 else 6
INTERRUPTS = int(sys.argv[4]) if len(sys.argv) > 4 else 3
random.seed(int(sys.argv[5]) if len(sys.argv) > 5 else 1)

PROGRAM = '''param epochs: i64 = 2000
var w: f32 = 0.0
dataset train = range(64).map(fn(i) = f32(i) / 64.0).shuffle(16).batch(16)
fn train_step(x) {
  let loss = sum((w * x - x) ** 2) / 16.0
  let dw = grad(loss, w)
  w -= 0.01 * all_reduce(sum, dw) + 0.0001 * w
  return loss
}
main {
  for epoch in 0..epochs {
    for x in distribute(train) { run train_step(x) }
  }
  print("w {w:.9f}")
}
'''
count = failed = 0


def check(name, good, detail=''):
    global count, failed
    count += 1
    failed += not good
    print('%sok %d - %s' % ('' if good else 'not ', count, name), flush=True)
    for line in [] if good else str(detail).splitlines():
        print('# ' + line)


def start(*options):
    return subprocess.Popen(
        [RUN, 'train.tfp', '--checksum', '--checkpoint', 'run', '--every', '200',
         *options], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def ranks(p):
    found = {}
    try:
        with open('/proc/%d/task/%d/children' % (p.pid, p.pid)) as f:
            pids = [int(word) for word in f.read().split()]
    except OSError:
        return found
    for pid in pids:
        try:
            with open('/proc/%d/environ' % pid, 'rb') as f:
                rank = re.search(rb'TFD_RANK=(\d+)', f.read())
        except OSError:
            continue
        if rank:
            found[int(rank.group(1))] = pid
    return found


def signal_one(p, size, number, after):
    """A random rank gets a signal so many seconds after all were started; none
    where the run ends before."""
    while p.poll() is None and len(ranks(p)) < size:
        time.sleep(0.002)
    time.sleep(after)
    found = ranks(p)
    if p.poll() is not None or not found:
        return False
    try:
        os.kill(random.choice(list(found.values())), number)
    except ProcessLookupError:
        return False
    return True


def again():
    shutil.rmtree('run', ignore_errors=True)


def undisturbed():
    again()
    out, err = start().communicate(timeout=60)
    return out.splitlines()


def steps():
    return sorted(name for name in os.listdir('run') if name.endswith('.ckpt'))


def kill_ranks(right):
    done, wrong = 0, []
    while done < KILLS and not wrong:
        again()
        p = start('-n', '4', '--restarts', '3')
        killed = 0
        for _ in range(3):
            if done + killed < KILLS:
                killed += signal_one(p, 4, signal.SIGKILL,
                                     0.05 + 0.5 * random.random())
        out, err = p.communicate(timeout=60)
        restarts = err.count('tfd-run: restart ')
        done += max(killed, 1)
        if p.returncode or out.splitlines()[-2:] != right[-2:] or \
                restarts > killed:
            wrong.append((killed, p.returncode, out, err))
    check('%d times a random rank is killed: the bits of the undisturbed run' %
          done, not wrong, wrong)


def interrupt_ranks(right):
    """The same command until the run ends: what a launcher's requeue does."""
    done, wrong = 0, []
    while done < INTERRUPTS and not wrong:
        again()
        status = 130
        while status == 130:
            p = start('-n', '4', '--resume')
            if done < INTERRUPTS:
                done += signal_one(p, 4, signal.SIGTERM,
                                   0.1 + 0.4 * random.random())
            out, err = p.communicate(timeout=60)
            status = p.returncode
        if status or out.splitlines()[-2:] != right[-2:]:
            wrong.append((status, out, err))
    check('%d times a random rank is interrupted: one common step, and the same '
          'bits' % done, not wrong, wrong)


def change_processes(right):
    again()
    for size in (4, 2, 1):
        p = start('-n', str(size), '--resume')
        signal_one(p, size, signal.SIGKILL, 0.3)
        p.communicate(timeout=60)
    out, err = start('-n', '4', '--resume').communicate(timeout=60)
    check('8 replicas and 4 workers in 4, 2, 1 and 4 processes, killed in '
          'between: the same bits', out.splitlines()[-2:] == right[-2:],
          (out, err))


def with_fewer(absent, right):
    again()
    environment = dict(os.environ, LD_PRELOAD=absent, TEST_ABSENT='3 of 4')
    p = subprocess.run([RUN, 'train.tfp', '--checksum', '--checkpoint', 'run',
                        '-n', '4', '--restarts', '3', '--min-processes', '1'],
                       text=True, capture_output=True, timeout=60,
                       env=environment)
    check('where one process never starts the job goes on with two',
          p.returncode == 0 and p.stdout.splitlines() == right and
          'restart 1 of 3, with 4 processes: rank 3 ' in p.stderr and
          'restart 2 of 3, with 2 processes: rank 3 ' in p.stderr,
          (p.returncode, p.stdout, p.stderr))


def main():
    with open('train.tfd', 'w') as f:
        f.write(PROGRAM)
    subprocess.run([TFDC, 'train.tfd', '--strategy', 'multi_worker_mirrored',
                    '--workers', '4', '--devices', 'cpu:0-1'], check=True)
    right = undisturbed()
    kill_ranks(right)
    interrupt_ranks(right)
    change_processes(right)
    if 'TFD_ABSENT' in os.environ:
        with_fewer(os.environ['TFD_ABSENT'], right)
    print('1..%d' % count)
    sys.exit(failed > 0)


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    main()
