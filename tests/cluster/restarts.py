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

from tap import check, end

TFDC, RUN = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
KILLS = int(sys.argv[3]) if len(sys.argv) > 3 else 4
INTERRUPTS = int(sys.argv[4]) if len(sys.argv) > 4 else 2
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


def start(*options, env=None):
    return subprocess.Popen(
        [RUN, 'train.tfp', '--checksum', '--checkpoint', 'run', '--every', '100',
         *options], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env=env)


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


def newest():
    """The step of the newest checkpoint; 0: there is none."""
    names = os.listdir('run') if os.path.isdir('run') else []
    return max([int(m.group(1)) for m in
                (re.fullmatch(r'step-(\d+)\.ckpt', name) for name in names)
                if m], default=0)


def signal_one(p, size, number, step, hurt=()):
    """A random rank gets a signal once there is a checkpoint of this step.
    Returns the processes of its attempt; with those of earlier ones in hurt it
    is one of a later attempt."""
    found = {}
    while p.poll() is None and (newest() < step or len(found) < size or
                                set(hurt) & set(found.values())):
        time.sleep(0.002)
        found = ranks(p)
    time.sleep(0.02 * random.random())
    if p.poll() is None:
        os.kill(random.choice(list(found.values())), number)
    return list(found.values())


def again():
    shutil.rmtree('run', ignore_errors=True)


def undisturbed():
    again()
    out, err = start().communicate(timeout=60)
    return out.splitlines()


def moments(num, last):
    """So many steps in order, none of them near the end."""
    return sorted(random.randrange(1, last * 3 // 4) for _ in range(num))


def kill_ranks(right, last):
    done, wrong = 0, []
    while done < KILLS and not wrong:
        again()
        p = start('-n', '4', '--restarts', '3')
        num = min(3, KILLS - done)
        hurt = []
        for step in moments(num, last):
            hurt += signal_one(p, 4, signal.SIGKILL, step, hurt)
        out, err = p.communicate(timeout=60)
        done += num
        if p.returncode or out.splitlines()[-2:] != right[-2:] or \
                err.count('tfd-run: restart ') != num:
            wrong.append((num, p.returncode, out, err))
    check('%d times a random rank is killed: the bits of the undisturbed run' %
          done, not wrong, wrong)


INTERRUPTED = re.compile(r'interrupted after (\d+) steps; --resume goes on')


def interrupt_ranks(right, last):
    """The same command until the run ends: what a launcher's requeue does."""
    done, wrong = 0, []
    while done < INTERRUPTS and not wrong:
        again()
        for step in moments(min(3, INTERRUPTS - done), last):
            p = start('-n', '4', '--resume')
            signal_one(p, 4, signal.SIGTERM, max(step, newest() + 1))
            out, err = p.communicate(timeout=60)
            done += 1
            if p.returncode != 130 or \
                    INTERRUPTED.findall(err) != [str(newest())]:
                wrong.append((p.returncode, newest(), out, err))
        p = start('-n', '4', '--resume')
        out, err = p.communicate(timeout=60)
        if p.returncode or out.splitlines()[-2:] != right[-2:]:
            wrong.append((p.returncode, out, err))
    check('%d times a random rank is interrupted: one common step, and the same '
          'bits' % done, not wrong, wrong)


def change_processes(right, last):
    again()
    ends = []
    for i, size in enumerate((4, 2, 1)):
        p = start('-n', str(size), '--resume')
        signal_one(p, size, signal.SIGKILL, last * (i + 1) // 5)
        p.communicate(timeout=60)
        ends.append(p.returncode)
    at = newest()
    out, err = start('-n', '4', '--resume').communicate(timeout=60)
    check('8 replicas and 4 workers in 4, 2, 1 and 4 processes, killed in '
          'between: the same bits',
          all(ends) and 0 < at < last and out.splitlines()[-2:] == right[-2:],
          (ends, at, out, err))


def start_absent(absent, until, hangs=-1):
    """Rank 3 of 4 does not start in attempts before number `until`; in number
    `hangs` it starts and does nothing."""
    again()
    return start('-n', '4', '--restarts', '3', '--min-processes', '1',
                 env=dict(os.environ, LD_PRELOAD=absent, TEST_ABSENT='3 of 4',
                          TEST_ABSENT_UNTIL=str(until),
                          TEST_ABSENT_HANGS=str(hangs)))


def said(err):
    """What follows each attempt, and the failures, of which each is said
    once."""
    nexts = re.findall(r'^tfd-run: (restart \d of \d, with \d|goes on with .*?)'
                       r' process', err, re.M)
    failures = re.findall(r'rank \d \([^)]*pid \d+\) is dead', err)
    return nexts, len(failures) == len(set(failures))


def without_one(absent, right):
    p = start_absent(absent, 1000)
    out, err = p.communicate(timeout=60)
    nexts, once = said(err)
    check('where one process never starts the job goes on with two, which ask '
          'for it again and again, after 1, 2, 4 ... checkpoints',
          p.returncode == 0 and out.splitlines()[-2:] == right[-2:] and once and
          nexts[:4] == ['restart 1 of 3, with 4', 'restart 2 of 3, with 2',
                        'goes on with 4', 'goes on with 2'] and
          set(nexts[2:]) == {'goes on with 4', 'goes on with 2'} and
          len(nexts) <= 14, (p.returncode, nexts, once, out, err))


def with_replacement(absent, right, last):
    p = start_absent(absent, 3)
    signal_one(p, 4, signal.SIGKILL, random.randrange(last // 4, last * 3 // 4))
    out, err = p.communicate(timeout=60)
    nexts, once = said(err)
    check('a process that comes back is taken in at the next checkpoint, and '
          'lost again: the same bits',
          p.returncode == 0 and out.splitlines()[-2:] == right[-2:] and once and
          nexts == ['restart 1 of 3, with 4', 'restart 2 of 3, with 2',
                    'goes on with 4', 'restart 3 of 3, with 4'],
          (p.returncode, nexts, once, out, err))


def with_one_that_hangs(absent, right):
    p = start_absent(absent, 4, 3)
    out, err = p.communicate(timeout=120)
    nexts, _ = said(err)
    check('a process that comes back and never joins holds the others for 20 '
          'seconds: the same bits',
          p.returncode == 0 and out.splitlines()[-2:] == right[-2:] and
          nexts[:4] == ['restart 1 of 3, with 4', 'restart 2 of 3, with 2',
                        'goes on with 4', 'goes on with 2'] and
          'again: rank 3 of 4 has not come after 2' in err,
          (p.returncode, nexts, out, err))


def with_one_that_hangs_at_once(absent, right):
    p = start_absent(absent, 2, 1)
    out, err = p.communicate(timeout=120)
    nexts, _ = said(err)
    check('a process that hangs after a restart holds the others for 20 seconds: '
          'the same bits',
          p.returncode == 0 and out.splitlines()[-2:] == right[-2:] and
          nexts == ['restart 1 of 3, with 4', 'restart 2 of 3, with 2',
                    'goes on with 4'] and
          'with 2 processes: rank 3 of 4 has not come after 2' in err,
          (p.returncode, nexts, out, err))


def main():
    with open('train.tfd', 'w') as f:
        f.write(PROGRAM)
    subprocess.run([TFDC, 'train.tfd', '--strategy', 'multi_worker_mirrored',
                    '--workers', '4', '--devices', 'cpu:0-1'], check=True)
    right = undisturbed()
    last = newest()
    kill_ranks(right, last)
    interrupt_ranks(right, last)
    change_processes(right, last)
    if 'TFD_ABSENT' in os.environ:
        without_one(os.environ['TFD_ABSENT'], right)
        with_replacement(os.environ['TFD_ABSENT'], right, last)
        if KILLS > 10:
            with_one_that_hangs(os.environ['TFD_ABSENT'], right)
            with_one_that_hangs_at_once(os.environ['TFD_ABSENT'], right)
    end()


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    main()
