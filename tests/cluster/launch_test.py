#!/usr/bin/env python3
"""launch_test.py - tfd-run -n: the same output, and nothing stays behind

    launch_test.py TFDC TFD_RUN    TAP
"""
import fcntl
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import termios
import time

import programs

TFDC, RUN = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])

PROGRAM = '''param epochs: i64 = 40
param odd: i64 = -1
var w: f32 = 0.0
dataset train = range(32).map(fn(i) = f32(i) / 32.0).batch(8)
''' + programs.step(8) + '''main {
  for epoch in 0..epochs {
    for x in distribute(train) { run train_step(x) }
    assert(epoch != odd, "an odd epoch")
    if epoch == 100 { print("it trains") }
  }
  print("w {w:.3f}")
}
'''
count = 0
failed = 0


def check(name, good, detail=''):
    global count, failed
    count += 1
    failed += not good
    print('%sok %d - %s' % ('' if good else 'not ', count, name))
    if not good:
        for line in str(detail).splitlines():
            print('# ' + line)


def start(*options, **how):
    """Of the usual 40 epochs it says nothing of the 100th."""
    return subprocess.Popen([RUN, 'train.tfp', *options], text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, **how)


def ignore_interrupts():
    """As a shell does for what a script starts in the background."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def run(*options):
    p = start(*options)
    out, err = p.communicate(timeout=60)
    return p.returncode, out, err


def children(pid):
    with open('/proc/%d/task/%d/children' % (pid, pid)) as f:
        return [int(word) for word in f.read().split()]


def rank_of(pid):
    with open('/proc/%d/environ' % pid, 'rb') as f:
        found = re.search(rb'TFD_RANK=(\d+)', f.read())
    return int(found.group(1)) if found else -1


def wait_for_ranks(p, size):
    """The processes of a job by rank, once all have joined."""
    end = time.time() + 60
    while time.time() < end:
        found = {}
        for pid in children(p.pid):
            try:
                found[rank_of(pid)] = pid
            except OSError:
                pass
        if len(found) == size and -1 not in found:
            return found
        time.sleep(0.005)
    raise SystemExit('the job did not start')


def endless_job(*options, **how):
    """Two processes by rank, of a job that has trained for 100 epochs."""
    p = start('-n', '2', '--set', 'epochs=100000000', *options, **how)
    pids = wait_for_ranks(p, 2)
    if p.stdout.readline() != 'it trains\n':
        raise SystemExit('the job has ended: ' + p.communicate()[1])
    return p, pids


def left(pids):
    return [pid for pid in pids if os.path.exists('/proc/%d' % pid)]


def takes_signals(pid):
    """Whether the parent has blocked them, to read them."""
    try:
        with open('/proc/%d/status' % pid) as f:
            blocked = re.search(r'SigBlk:\t(\w+)', f.read())
    except OSError:
        return False
    return bool(int(blocked.group(1), 16) >> (signal.SIGTERM - 1) & 1)


def interrupt_at_start(milliseconds):
    """So long after the parent takes signals: its status, and what it says."""
    p = start('-n', '2', '--set', 'epochs=100000000')
    while not takes_signals(p.pid) and p.poll() is None:
        pass
    time.sleep(milliseconds / 1e3)
    p.terminate()
    try:
        return p.communicate(timeout=20)[1], p.returncode
    except subprocess.TimeoutExpired:
        p.kill()
        return p.communicate()[1] + 'it goes on', p.returncode


FAILS = '''dataset train = range(16).batch(8)
fn step(x) {
  print("replica {replica_id}: {x}")
  assert(sum(x) != 25, "an element is wrong")
  return all_reduce(sum, sum(x))
}
main { for x in distribute(train) { run step(x) } }
'''


LOOPS = '''var n: i32 = 0
fn step(who) {
  mut y = 1
  while i64(replica_id) == who { y += 1 }
  n += all_reduce(sum, y, options = (timeout_seconds: 0.5))
}
param who: i64 = 3
main { run step(who) }
'''


# Of a device that has 12 MB, and of little else.
LARGE = '''var w: f32[1000000] = ones
fn step() { w = all_reduce(mean, w * f32(replica_id)) }
main {
  run step()
  print("{w[0]}")
}
'''


def files_of(most):
    """As ulimit -f sets for a shell."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))


def under_a_limit_on_files(plan, most):
    """What it says is recorded in a file of its own, which the limit allows."""
    own = os.path.abspath('messages')
    p = subprocess.run([RUN, plan, '-n', '2'], preexec_fn=files_of(most),
                       env=os.environ | {'TFD_MESSAGES': own}, text=True,
                       timeout=60, capture_output=True)
    if 'TFD_MESSAGES' in os.environ:
        with open(own, 'rb') as few, open(os.environ['TFD_MESSAGES'], 'ab') as record:
            record.write(few.read())
    return p


def a_limit_on_files():
    """Of what processes meet in, and of the memory of a device."""
    with open('large.tfd', 'w') as f:
        f.write(LARGE)
    subprocess.run([TFDC, 'large.tfd', '--devices', 'cpu:0-1'], check=True)
    for what, plan, most in (('memory', 'train.tfp', 4096),
                             ("a device's memory", 'large.tfp', 1 << 20)):
        p = under_a_limit_on_files(plan, most)
        check('a limit on files that %s meets is named' % what, p.returncode == 3
              and 'the limit on the size of files (ulimit -f) is below the '
              in p.stderr, p.stderr)


def a_replica_that_loops():
    """Over a link a process does not see which of another one's is late."""
    with open('loops.tfd', 'w') as f:
        f.write(LOOPS)
    subprocess.run([TFDC, 'loops.tfd', '--devices', 'cpu:0-3'], check=True)
    rank_0 = 'replicas 0, 1 have arrived, some of other processes have not'
    rank_1 = 'replica 2 has arrived, replica 3 has not'
    for options, said in (((), 'replicas 0, 1, 2 have arrived, replica 3 has not'),
                          (('--link', 'zmq'), '(%s|%s)' % (rank_0, rank_1))):
        p = subprocess.run([RUN, 'loops.tfp', '-n', '2', *options], text=True,
                           timeout=60, capture_output=True)
        check('who has not come to a collective %s' % ' '.join(options),
              p.returncode == 1 and
              re.search('after 0.5 seconds ' + said, p.stderr), p.stderr)


def a_step_that_fails():
    """Its lines are printed: by rank 0, or where rank 0 cannot have them, by
    each process; by both where a process ends before it knows that rank 0 has
    them."""
    with open('fails.tfd', 'w') as f:
        f.write(FAILS)
    subprocess.run([TFDC, 'fails.tfd', '--devices', 'cpu:0-3'], check=True)
    wanted = ['replica %d: [%d %d]' % (i // 2 % 4, i, i + 1)
              for i in range(0, 16, 2)]
    for options in ((), ('-n', '4'), ('-n', '2', '--link', 'zmq'),
                    ('-n', '4', '--link', 'zmq')):
        p = subprocess.run([RUN, 'fails.tfp', *options], text=True, timeout=60,
                           capture_output=True)
        printed = [line for line in p.stdout.splitlines()
                   if line.startswith('replica')]
        shown = re.findall(r'^(?:\[\d\] )?(replica.*)$', p.stderr, re.M)
        twice = set(printed) & set(shown) if '--link' in options else ()
        check('what a step prints before it fails is there, %s' %
              (' '.join(options) or 'in one process'),
              p.returncode == 1 and
              sorted(printed + shown) == sorted([*wanted, *twice]) and
              p.stderr.count('error: an element is wrong') == 1, (p.stdout, p.stderr))


def beside_a_launcher(alone):
    """-n in each process of a launcher: as many jobs."""
    os.environ.update(OMPI_COMM_WORLD_RANK='1', OMPI_COMM_WORLD_SIZE='4')
    status, out, err = run('-n', '2', '--checksum')
    quiet = run('-n', '2', '--checksum', '--quiet')
    del os.environ['OMPI_COMM_WORLD_SIZE']
    del os.environ['OMPI_COMM_WORLD_RANK']
    check('-n says that a launcher has started other processes',
          (status, out) == alone[:2] and err == 'tfd-run: note: mpirun (Open '
          'MPI) has started 4 processes, and this one, by -n 2, a job of its '
          'own; leave -n out for one job of all\n', err)
    check('... but with --quiet', quiet == alone, quiet)


def interrupts_at_start():
    """A signal comes while the control server is opened, while processes start,
    before they have handlers of their own, or while they join."""
    wrong = []
    for milliseconds in range(0, 60, 2):
        err, status = interrupt_at_start(milliseconds)
        if status != 130 or 'error' in err or err.count('interrupted') != 1:
            wrong.append((milliseconds, status, err))
    check('a signal to the parent at any moment of its start interrupts all',
          not wrong, wrong)


def descriptors_of(pid, path):
    """Its descriptors that are this file."""
    folder, found = '/proc/%d/fd' % pid, []
    for fd in os.listdir(folder):
        try:
            if os.readlink(os.path.join(folder, fd)) == path:
                found.append(int(fd))
        except OSError:
            pass  # it was closed meanwhile
    return found


def calls(folder, rank):
    try:
        with open('%s/rank-%d.txt' % (folder, rank)) as f:
            return f.read()
    except OSError as e:
        return str(e)


PRINTS = '''var w: f32 = 0.0
dataset train = range(8).batch(8)
fn step(x) {
  w = all_reduce(sum, f32(sum(x)))
}
main {
  for x in distribute(train) { run step(x) }
  for i in 0..20000 { print("line {i}, to a pipe that nobody reads for now") }
}
'''
PAUSE = 9  # seconds: 5 to the note that rank 0 does not come, then --silence


def wait_until_full(pipe):
    """Until its writer waits for a reader: no more bytes come."""
    before, now, end = -1, 0, time.time() + 60
    while (now < 1 << 15 or now != before) and time.time() < end:
        time.sleep(0.3)
        before = now
        now = int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)),
                             sys.byteorder)


def wait_for_text(path, part):
    """Until a file has it: its content."""
    end = time.time() + 60
    while True:
        with open(path) as f:
            text = f.read()
        if part in text or time.time() > end:
            return text
        time.sleep(0.01)


def a_reader_that_pauses():
    """As less does, of the results and the messages."""
    with open('prints.tfd', 'w') as f:
        f.write(PRINTS)
    subprocess.run([TFDC, 'prints.tfd', '--devices', 'cpu:0-1'], check=True)
    p = subprocess.Popen([RUN, 'prints.tfp', '-n', '2', '--silence', '1'],
                         text=True, stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT)
    wait_until_full(p.stdout)
    time.sleep(PAUSE)
    lines = p.communicate(timeout=60)[0].splitlines()
    others = [line for line in lines if not line.startswith('line ')]
    check('a job goes on after its reader has paused', p.returncode == 0 and
          len(lines) - len(others) == 20000 and
          any('rank 0 (' in line and 'does not come' in line
              for line in others),
          (p.returncode, len(lines), others))


def a_failure_while_the_reader_pauses():
    """Rank 0 has the control server, and main is in writing a result."""
    with socket.create_server(('127.0.0.1', 0)) as s:
        port = s.getsockname()[1]
    p = [subprocess.Popen([RUN, 'prints.tfp', '--size', '2', '--rank', str(rank),
                           '--join', '127.0.0.1:%d' % port, '--silence', '1'],
                          text=True, stdout=subprocess.PIPE,
                          stderr=open('rank%d' % rank, 'w'))
         for rank in range(2)]
    wait_for_text('rank0', 'does not come')
    time.sleep(PAUSE - 5)
    alive = [one.poll() is None for one in p]
    p[1].kill()
    p[1].communicate()
    err = wait_for_text('rank0', 'error: ')
    p[0].communicate(timeout=60)
    check('and so do processes that join; a failure is told meanwhile',
          alive == [True, True] and 'does not come' in err and
          'error: rank 1 (' in err and p[0].returncode == 3,
          (alive, p[0].returncode, err, open('rank1').read()))


STEPS = '''var w: f32 = 0.0
dataset train = range(8).repeat().batch(8)
fn step(x) {
  w += all_reduce(sum, sum(sin(f32(sum(x)) * f32(iota(%d)))))
}
main {
  for x in distribute(train) { run step(x) }
}
'''


def goes_on_after_stops(number, *options):
    """A run with a timeout of 2 seconds is stopped for 3, four times."""
    p = subprocess.Popen([RUN, 'steps.tfp', *options], text=True,
                         stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    for _ in range(4):
        time.sleep(1)
        p.send_signal(number)
        time.sleep(3)
        p.send_signal(signal.SIGCONT)
    time.sleep(1)
    goes_on = p.poll() is None
    p.terminate()
    err = p.communicate(timeout=30)[1]
    check('a time in which it is stopped is not idle: ' + ' '.join(options),
          goes_on and p.returncode == 130, (p.returncode, err))


def compile_steps(size, *options):
    with open('steps.tfd', 'w') as f:
        f.write(STEPS % size)
    subprocess.run([TFDC, 'steps.tfd', *options], check=True)


def stops():
    """In a kernel, longer than the time between two looks of the watchdog; and
    in waiting for the other process."""
    compile_steps(80000000, '--devices', 'cpu:0')
    goes_on_after_stops(signal.SIGSTOP, '--timeout', '2')
    compile_steps(8000000, '--devices', 'cpu:0-1', '--collectives',
                  'timeout_seconds=2')
    goes_on_after_stops(signal.SIGTSTP, '-n', '2')


# Seconds after the end of a job until what is left of it is killed anyway.
PATIENCE = 10


def main():
    with open('train.tfd', 'w') as f:
        f.write(PROGRAM)
    subprocess.run([TFDC, 'train.tfd', '--devices', 'cpu:0-3'], check=True)
    alone = run('--checksum')
    for size in ('1', '2', '4'):
        got = run('-n', size, '--checksum')
        check('-n %s prints what one process prints' % size, got == alone,
              (got, alone))
    beside_a_launcher(alone)
    a_step_that_fails()
    a_replica_that_loops()
    a_limit_on_files()
    status, out, err = run('-n', '3')
    check('a number that does not divide the replicas is refused once',
          status == 2 and err.count('evenly') == 1, err)
    status, out, err = run('-n', '4', '--set', 'odd=3')
    check('a failed assert is printed once, and its status is the job\'s',
          status == 1 and err.count('error: an odd epoch') == 1, err)
    p, pids = endless_job()
    nulls = descriptors_of(pids[1], '/dev/null')
    p.terminate()
    err = p.communicate(timeout=30)[1]
    check('a process that reads nothing has no file but for its input',
          nulls == [0], nulls)
    check('a signal to the parent interrupts all', p.returncode == 130 and
          not left(pids.values()), (p.returncode, err))
    interrupts_at_start()
    p, pids = endless_job(preexec_fn=ignore_interrupts)
    p.send_signal(signal.SIGINT)
    err = p.communicate(timeout=30)[1]
    check('SIGINT does, too, where it was ignored', p.returncode == 130 and
          not left(pids.values()), (p.returncode, err))
    p = start('-n', '2', '--set', 'epochs=100000000')
    pids = wait_for_ranks(p, 2)
    p.kill()
    p.communicate()
    end = time.time() + 60
    while left(pids.values()) and time.time() < end:
        time.sleep(0.01)
    check('no process outlives the parent', not left(pids.values()))
    p, pids = endless_job('--silence', '1')
    os.kill(pids[1], signal.SIGSTOP)
    began = time.time()
    err = p.communicate(timeout=30)[1]
    check('a process that is silent is killed as soon as it is judged',
          p.returncode == 3 and 'is silent' in err and
          not left(pids.values()) and time.time() - began < PATIENCE,
          (p.returncode, time.time() - began, err))
    p, pids = endless_job('--diagnose', 'killed')
    os.kill(pids[1], signal.SIGKILL)
    p.communicate(timeout=30)
    check('--diagnose writes the last collectives of all, and of who was killed',
          all('rank 1 (' in calls('killed', rank) and
              calls('killed', rank).count('train.tfd:') > 200
              for rank in range(2)), calls('killed', 1)[:500])
    run('-n', '2', '--set', 'odd=3', '--diagnose', 'failed')
    check('--diagnose writes them when the run of a rank fails',
          all('an odd epoch' in calls('failed', rank) and
              'all_reduce train.tfd:8:14' in calls('failed', rank)
              for rank in range(2)), calls('failed', 0)[:500])
    stops()
    a_reader_that_pauses()
    a_failure_while_the_reader_pauses()
    print('1..%d' % count)
    sys.exit(failed > 0)


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    main()
