#!/usr/bin/env python3
"""ps_jobs.py - coordinator, servers and workers as processes

    ps_jobs.py TFDC TFD_RUN ROOT [FAULTS [SEED]]    TAP

Cases of tf.distribute with real processes, and closures that are counted by
values: each is applied once on each server, whatever happens to workers.
FAULTS times as many closures and faults as in CI: 20 are 10^5 closures, a
worker killed every 50 ms, 100 stopped ones.
"""
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

from hosts import free_port
from tap import check, end

TFDC, RUN, ROOT = map(os.path.abspath, sys.argv[1:4])
FAULTS = int(sys.argv[4]) if len(sys.argv) > 4 else 1
random.seed(int(sys.argv[5]) if len(sys.argv) > 5 else 1)
PROGRAMS = os.path.join(ROOT, "tests", "cluster", "ps")
LIMIT = 60  # seconds
TRIES = 5  # of what needs that several workers are there in time


def plan(path, *options):
    out = os.path.basename(path) + "".join(options) + ".tfp"
    if not os.path.exists(out):
        subprocess.run([TFDC, path, "--strategy", "parameter_server", "-o", out,
                        *options], check=True)
    return out


def run(*args):
    done = subprocess.run([RUN, *args], text=True, capture_output=True,
                          timeout=LIMIT)
    return done.returncode, done.stdout, done.stderr


def start(*args, env=None):
    return subprocess.Popen([RUN, *args], text=True, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, env=env)


def tasks(parent, kind):
    """The processes of a job that are workers or servers, by pid."""
    found = {}
    try:
        with open(f"/proc/{parent.pid}/task/{parent.pid}/children") as f:
            pids = [int(word) for word in f.read().split()]
    except OSError:
        return found
    for pid in pids:
        try:
            with open(f"/proc/{pid}/cmdline") as f:
                words = f.read().split("\0")
        except OSError:
            continue
        for word in words:
            if word.startswith(kind + ":"):
                found[pid] = word
    return found


def wait_until_it_works(parent):
    """Until closures of a job of -n have ended: all tasks have joined it."""
    begin = time.time()
    while parent.poll() is None and time.time() - begin < LIMIT:
        found = re.search(r"(\d+) ended", run("--status", str(parent.pid))[1])
        if found and int(found[1]) > 0:
            return
        time.sleep(0.02)


def hurt_workers(parent, fault, pause, limit=LIMIT):
    """A fault of a random worker after each pause(), until the job or the time
    has ended; None: no fault. Returns how many there were."""
    times, begin = 0, time.time()
    while fault and parent.poll() is None and time.time() - begin < limit:
        time.sleep(pause())
        workers = list(tasks(parent, "worker"))
        if workers and parent.poll() is None:
            fault(random.choice(workers))
            times += 1
    return times


def seconds_of(pid):
    """Of a core, that a process has had."""
    try:
        with open(f"/proc/{pid}/stat") as f:
            words = f.read().rsplit(")", 1)[1].split()
    except OSError:
        return 0
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def send(pid, what):
    try:
        os.kill(pid, what)
    except ProcessLookupError:
        pass


# ---- the cases ------------------------------------------------------------

def conformance():
    for name in ["coordinator", "shards"]:
        source = os.path.join(ROOT, "tests", "conformance", name + ".tfd")
        for devices in ["cpu:0", "cpu:0-1"]:
            for size in ["workers=1,ps=1", "workers=3,ps=2"]:
                code, out, err = run(plan(source, "--devices", devices), "-n",
                                     size)
                check(f"{name}.tfd, {size}, {devices}", code == 0, out + err)


def one_worker_has_the_bits_of_none():
    source = os.path.join(ROOT, "docs", "examples", "coordinator.tfd")
    made = plan(source)
    alone = run(made, "--checksum")
    served = run(made, "--checksum", "-n", "workers=1,ps=2")
    check("one worker: the bits of one process", alone == served,
          f"{alone}\n{served}")
    tables = plan(os.path.join(ROOT, "docs", "examples", "recommend.tfd"))
    alone = run(tables, "--checksum")
    served = run(tables, "--checksum", "-n", "workers=1,ps=4")
    check("... with tables on four servers",
          alone == served and alone[0] == 0, f"{alone}\n{served}")
    for devices in ["cpu:0", "cpu:0-1"]:
        parts = plan(os.path.join(PROGRAMS, "parts.tfd"), "--devices", devices)
        alone = run(parts, "--checksum")
        served = [run(parts, "--checksum", "-n", f"workers=1,ps={n}")
                  for n in [1, 2, 3, 5]]
        check(f"... with parts on 1 to 5 servers, {devices}",
              alone[0] == 0 and served == [alone] * 4, f"{alone}\n{served}")
    own = plan(os.path.join(PROGRAMS, "dropout.tfd"), "--devices", "cpu:0-3")
    on_one = ["--checksum", "--devices", "cpu:0"]
    alone = run(own, *on_one)
    served = run(own, *on_one, "-n", "workers=1,ps=2")
    check("... with random numbers of four replicas on a device",
          alone == served and alone[0] == 0, f"{alone}\n{served}")
    code, out, err = run(made, "-n", "workers=3,ps=2")
    check("three workers learn the same", code == 0 and "26 of 26" in out,
          out + err)


def tutorial():
    """The program, the commands and the output of docs/parameter-server.md."""
    with open(os.path.join(ROOT, "docs", "parameter-server.md")) as f:
        page = f.read()
    blocks = dict(re.findall(r"```(\w+)\n(.*?)```", page, re.S))
    with open("tutorial.tfd", "w") as f:
        f.write(blocks["tfd"])
    for line in blocks["sh"].splitlines():
        words = line.split()
        words[0] = {"tfdc": TFDC, "tfd-run": RUN}[words[0]]
        done = subprocess.run(words, text=True, capture_output=True,
                              timeout=LIMIT)
        check(line, done.returncode == 0 and
              done.stdout == ("" if words[0] == TFDC else blocks["text"]),
              done.stdout + done.stderr)


def failures():
    """COO-12, COO-14: a program ends with the first failure of a closure."""
    made = plan(os.path.join(PROGRAMS, "fails.tfd"))
    code, out, err = run(made, "-n", "workers=2,ps=1")
    check("COO-12 a closure's failure is join's, once, with its place",
          code == 1 and err.count("error:") == 1 and
          re.search("fails.tfd:8:3: [34] is too many", err) and "while executing closure" in err and "on worker" in err,
          out + err)
    check("COO-14 nothing goes on after it",
          "v is 4.0" in out and "not reached" not in out, out)
    check("... and with the calls", "fails.tfd:16:19: note: fails is called from here" in err, err)
    failed = plan(os.path.join(PROGRAMS, "update_fails.tfd"))
    code, out, err = run(failed, "-n", "workers=1,ps=1")
    notes = [line.split("/")[-1] for line in err.splitlines() if ": note: " in line or line.startswith("note: ")]
    check("an update's failure has its calls, the server and the closure",
          code == 1 and "update_fails.tfd:5:3: 3.0 is too much" in err and
          notes[:3] == ["update_fails.tfd:10:14: note: add is called from here",
                        "update_fails.tfd:14:19: note: adds is called from here",
                        'note: on server 0, in an update of "v"'] and
          "closure 5 on worker 0" in err, out + err)
    code, out, err = run(made, "-n", "workers=2,ps=1", "--set", "most=9")
    check("without it all goes on", code == 0 and "not reached" in out,
          out + err)


STATS = re.compile(r"closures +(\d+), (\d+) again .*, (\d+) cancelled")


def waits():
    """Main sees what closures wrote, once it has waited for them."""
    made = plan(os.path.join(PROGRAMS, "waits.tfd"))
    alone = run(made)
    for workers in [1, 3]:
        served = run(made, "-n", f"workers={workers},ps=2")
        check(f"what {workers} worker(s) wrote before main goes on",
              alone[0] == 0 and served[:2] == alone[:2], f"{alone} {served}")


def shards():
    """Of which main does not know how many there are."""
    made = plan(os.path.join(PROGRAMS, "shards.tfd"))
    for workers in [1, 3]:
        done = run(made, "-n", f"workers={workers},ps=1")
        check(f"shards of {workers} worker(s) that are shuffled, kept and made "
              "ahead", done[:2] == (0, "True True True\n"), done)


def cancels():
    """What is cancelled has no update on any server; what is not has one."""
    made = plan(os.path.join(PROGRAMS, "cancels.tfd"))
    alone = run(made, "--set", "length=1")
    check("cancel() where nothing waits", alone == (0, "900 900\n908 908\n", ""),
          str(alone))
    code, out, err = run(made, "-n", "workers=2,ps=2", "--stats")
    found = STATS.search(err)
    numbers = [int(word) for word in out.split()]
    check("cancel() drops what waits, and closures after it are executed",
          code == 0 and found and len(numbers) == 4 and
          3 <= numbers[0] == 900 - int(found[3]) < 900 and
          numbers == [numbers[0]] * 2 + [numbers[0] + 8] * 2, out + err)
    code, out, err = run(made, "-n", "workers=2,ps=2", "--set", "fetches=1")
    check("... and a fetch of one says so", code == 1 and
          re.search(r"cancels.tfd:27:\d+: error: closure 901 was cancelled before a "
                    "worker had begun it", err), out + err)
    p = start(made, "-n", "workers=3,ps=2", "--stats", "--set",
              "rounds=20")
    kills, begin = 0, time.time()
    while p.poll() is None and time.time() - begin < LIMIT:
        time.sleep(0.2)
        for pid in list(tasks(p, "worker"))[:1]:
            send(pid, signal.SIGKILL)
            kills += 1
    out, err = p.communicate()
    numbers, found = [int(word) for word in out.split()], STATS.search(err)
    check(f"... while workers are killed ({kills} times)", p.returncode == 0 and
          found and kills and len(numbers) == 4 and
          20 <= numbers[0] == numbers[1] == 6000 - int(found[3]) and
          int(found[3]) > 0, f"{p.returncode} {out} {err[-2000:]}")


def attempts(name, options, closures, fault, pause):
    """Closures whose updates depend on the attempt, while fault(workers)
    happens again and again: how far two servers are apart."""
    made = plan(os.path.join(PROGRAMS, "atomic.tfd"))
    p = start(made, "-n", "workers=3,ps=2", "--stats", *options, "--set",
              f"closures={closures}")
    times = hurt_workers(
        p, fault, lambda: pause * (0.5 + random.random()), LIMIT * FAULTS)
    out, err = p.communicate(timeout=LIMIT)
    found = re.fullmatch(r"(\d+) closures, (-?\d+) apart\n", out)
    again = STATS.search(err)
    check(f"{name}: each closure once ({times} faults)", p.returncode == 0 and
          found and int(found[1]) == closures and times > 0 and
          (not fault or again), f"{p.returncode} {out} {err[-2000:]}")
    return int(found[2]) if found else None, again and int(again[2])


def atomic():
    """All servers commit the same attempt of a closure."""
    made = plan(os.path.join(PROGRAMS, "counts.tfd"))
    code, out, err = run(made, "-n", "workers=2,ps=2", "--atomic", "--set",
                         "closures=2000")
    check("--atomic: 2000 closures, each once",
          code == 0 and out == counts(2000), out + err)
    source = os.path.join(ROOT, "docs", "examples", "coordinator.tfd")
    alone = run(plan(source), "--checksum")
    served = run(plan(source), "--checksum", "-n", "workers=1,ps=2", "--atomic")
    check("... one worker: the bits of one process", alone == served,
          f"{alone}\n{served}")
    failed = plan(os.path.join(PROGRAMS, "update_fails.tfd"))
    code, out, err = run(failed, "-n", "workers=1,ps=1", "--atomic")
    check("... an update's failure has its line and the server", code == 1 and
          "update_fails.tfd:5:3: 3.0 is too much" in err and
          'note: on server 0, in an update of "v"' in err, out + err)
    kill = lambda pid: send(pid, signal.SIGKILL)
    for name, fault, pause in [("killed", kill, 0.05),
                               ("stopped for 2.5 s", stop_for(2.5), 0.3)]:
        for _ in range(3):
            apart, again = attempts(f"--atomic, workers {name}", ["--atomic"],
                                    300 * FAULTS, fault, pause)
            if apart or again:  # else the faults met no closure
                break
        check(f"... all servers have the same attempts ({again} again)",
              apart == 0 and again, f"{apart} {again}")
    apart, again = attempts("--atomic --staleness 1, workers killed",
                            ["--atomic", "--staleness", "1"], 150 * FAULTS,
                            kill, 0.1)
    check("... with --staleness, too", apart == 0, f"{apart}")
    apart, again = attempts("without --atomic", [], 300 * FAULTS, kill, 0.05)
    print(f"# without it, {again} again, two servers are {apart} apart")


ROUNDS = re.compile(r"rounds +(\d+) of \d/\d: (\d+) closures counted, "
                    r"(\d+) dropped")


def in_rounds(need, of, closures, fault=None, pause=0):
    """Closures with --sync, while fault(workers) happens: exactly so many of
    each round count, on both servers, and none has seen a part of a round."""
    made = plan(os.path.join(PROGRAMS, "rounds.tfd"))
    p = start(made, "-n", f"workers={of},ps=2", "--sync", f"{need}/{of}",
              "--stats", "--set", f"closures={closures}", "--set",
              f"need={need}")
    times = hurt_workers(p, fault, lambda: pause)
    out, err = p.communicate(timeout=LIMIT)
    found, stale = ROUNDS.search(err), STALENESS.search(err)
    full, left = divmod(closures, of)
    n = full * need + min(left, need)
    expected = f"{n} {n} 0\n{n + 1} {n + 1} {n + 1}\n"
    numbers = (full + (left > 0) + 1, n + 1, closures - n)
    check(f"--sync {need}/{of}, {closures} closures ({times} faults)",
          p.returncode == 0 and out == expected and found and
          tuple(map(int, found.groups())) == numbers and stale and
          stale[2] == "0", f"{p.returncode} {out} {expected} {err[-2000:]}")


def rounds():
    for need, of in [(1, 1), (2, 2), (3, 4)]:
        in_rounds(need, of, 202)
    kill = lambda pid: send(pid, signal.SIGKILL)
    in_rounds(3, 4, 2001 * FAULTS, kill, 0.05)
    in_rounds(2, 3, 3001 * FAULTS, stop_for(0.3), 0.05)
    in_rounds(2, 2, 1000 * FAULTS, kill, 0.05)
    made = plan(os.path.join(PROGRAMS, "rounds.tfd"))
    for options, why in [
            (["--sync", "+3/4"], '<= 4096, not "+3/4"'),
            (["--sync", "3/ 4"], '<= 4096, not "3/ 4"'),
            (["--sync", "4/3"], '--sync is N/M, as 3/4, with 1 <= N <= M <= '
             '4096, not "4/3"'),
            (["--sync", "3/4", "--staleness", "1"],
             "--staleness has no use with --sync: values of a round lack "
             "nothing")]:
        code, out, err = run(made, "-n", "workers=1,ps=1", *options)
        check(" ".join(options), code == 2 and why in err, f"{code} {err}")


STALENESS = re.compile(r"staleness    (.*)  most (\d+), (\d+) refused")


def staleness_of(n, fault=None, pause=0, closures=800):
    """What a job of three workers with --staleness n, while faults happen,
    ends with: its values, the most that one lacked, and what was refused."""
    made = plan(os.path.join(PROGRAMS, "learns.tfd"))
    for _ in range(TRIES):
        p = start(made, "-n", "workers=3,ps=2", "--staleness", str(n),
                  "--stats", "--checksum", "--set", f"closures={closures}")
        times = hurt_workers(p, fault, lambda: pause)
        out, err = p.communicate(timeout=LIMIT)
        found = STALENESS.search(err)
        if fault or n == 0 or (found and found[2] != "0"):
            break  # else one worker may have done all before others came
    check(f"--staleness {n} is kept ({times} faults)", p.returncode == 0 and
          found and int(found[2]) <= n and
          sum(map(int, re.findall(r": (\d+)", found[1]))) == 2 * closures and
          (times > 0 or found[3] == "0" and (found[2] != "0") == (n > 0)),
          f"{p.returncode} {out} {err[-2000:]}")
    return out


def bounded_staleness():
    """No push is more than N updates behind its pull; one after the other, it
    is one process."""
    made = plan(os.path.join(PROGRAMS, "learns.tfd"))
    alone = run(made, "--checksum", "--set", "closures=800")[1]
    outs = [staleness_of(n) for n in [0, 1, 4]]
    check("--staleness 0: the bits of one process", outs[0] == alone,
          f"{outs[0]} {alone}")
    kill = lambda pid: send(pid, signal.SIGKILL)
    out = staleness_of(0, kill, 0.1)
    check("... while workers are killed", out == alone, f"{out} {alone}")
    for n in [1, 4]:
        staleness_of(n, kill, 0.05, 1500 * FAULTS)
    for n in [0, 4]:
        staleness_of(n, stop_for(2.5), 0.1, 2000 * FAULTS)


def inputs():
    """COO-16, COO-23: datasets are opened where they are used."""
    made = plan(os.path.join(PROGRAMS, "inputs.tfd"))
    code, out, err = run(made, "-n", "workers=1,ps=1")
    check("COO-16 a dataset that cannot be opened and is not used", code == 0,
          out + err)
    code, out, err = run(made, "-n", "workers=1,ps=1", "--set", "uses=1")
    check("COO-16 ... and is used", code == 1 and "absent.csv" in err,
          out + err)
    made = plan(os.path.join(PROGRAMS, "orders.tfd"))
    working = []
    for _ in range(TRIES):
        if sum(n > 100 for n in working) <= 1:  # others came too late
            code, out, err = run(made, "-n", "workers=3,ps=1", "--stats")
            seen = out.split()
            working = [int(word)
                       for word in re.findall(r"worker \d +(\d+) on", err)]
    check("COO-23 each worker shuffles otherwise", code == 0 and
          sum(n > 100 for n in working) > 1 and
          len(set(seen)) > 0.9 * len(seen), f"{len(set(seen))} {err}")


def placement():
    """PSV-01: variables are dealt out to the servers."""
    made = plan(os.path.join(PROGRAMS, "four.tfd"))
    code, out, err = run(made, "-n", "workers=1,ps=3", "--stats")
    servers = re.findall(r"server \d +(.*) \(", err)
    check("PSV-01 the fourth variable is on server 0 again",
          code == 0 and servers == ["v2 v5", "v3", "v4"], out + err)
    made = plan(os.path.join(ROOT, "docs", "examples", "recommend.tfd"))
    code, out, err = run(made, "-n", "workers=1,ps=4", "--stats")
    servers = re.findall(r"server (\d) +users\[(\d+):(\d+)\].* rate.squares."
                         r"users\[(\d+):(\d+)\].* \((\d+) bytes", err)
    rows = [[100 * i, 100 * i + 100] for i in range(4)]
    check("a server has a part and its slots, and no other",
          code == 0 and [list(map(int, s[1:5])) for s in servers] ==
          [r + r for r in rows] and
          sum(int(s[5]) for s in servers) == 95376, out + err)


def placement_by_bytes():
    """One large variable and small ones: what is alike, and what it holds."""
    made = plan(os.path.join(PROGRAMS, "uneven.tfd"))
    alone = run(made, "--checksum")
    for rule in ["turn", "bytes"]:
        code, out, err = run(made, "-n", "workers=1,ps=3", "--stats",
                             "--checksum", "--placement", rule)
        sizes = [int(n) for n in re.findall(r"server \d .*\((\d+) bytes", err)]
        whole = sum(sizes) / 3
        check(f"--placement {rule}: the bits of one process", alone[0] == 0 and
              (code, out) == alone[:2], f"{alone} {out} {err}")
        check(f"... and the bytes of servers are "
              f"{'equal' if rule == 'bytes' else 'not'}", len(sizes) == 3 and
              (max(sizes) <= 1.1 * whole) == (rule == "bytes"), err)


def servers_of(*args):
    """What --stats says that each server has."""
    err = run(*args, "--stats")[2]
    return re.findall(r"server \d +(.*) \(", err)


def named_servers():
    """on("ps:1"): a variable, all parts of one, and its slots."""
    made = plan(os.path.join(PROGRAMS, "named.tfd"))
    job = [made, "-n", "workers=1,ps=4"]
    check("variables on servers that are named; others in turn",
          servers_of(*job) == ["a", "b d rate.squares.b",
                               "c[0:3] c[3:5] e", "rate.t"], servers_of(*job))
    by_bytes = servers_of(*job, "--placement", "bytes")
    check("... and by bytes, beside what they have",
          by_bytes == ["e", "b rate.squares.b", "c[0:3] c[3:5]", "a d rate.t"],
          by_bytes)
    alone = run(made, "--checksum", "--set", "each=9")
    for rule in ["turn", "bytes"]:
        served = run(*job, "--checksum", "--set", "each=9", "--placement", rule)
        check(f"... the bits of one process, --placement {rule}",
              alone[0] == 0 and served == alone, f"{alone}\n{served}")
    saves = ["--set", "each=9", "--set", "rounds=3", "--checkpoint", "named",
             "--every", "1"]
    whole = run(*job, "--checksum", *saves)
    os.remove("named/step-3.ckpt")
    again = run(made, "-n", "workers=1,ps=3", "--checksum", *saves[4:],
                "--resume")
    check("... also resumed, on another number of servers",
          whole[0] == 0 and again[:2] == whole[:2], f"{whole} {again}")
    code, out, err = run(made, "-n", "workers=1,ps=2")
    check("a server that is named and not there", code == 2 and
          'named.tfd:10:5: "c" is on server 2, and the coordinator has 2, from '
          "ps:0 on: start it with ps=3" in err and "   10 | var c" in err,
          f"{code} {out} {err}")
    page = subprocess.run([TFDC, os.path.join(PROGRAMS, "named.tfd"),
                           "--explain"], check=True, text=True,
                          capture_output=True).stdout
    check("--explain says where they are", "on the server ps:1" in page and
          "on the server ps:2" in page and "ps:0" not in page, page)


# ---- bytes ----------------------------------------------------------------

KINDS = ["pulled_parts", "pulled_rows", "pushed_rows", "pushed_parts"]


def traffic(rows, steps):
    """By kind, what a run says that has travelled."""
    made = plan(os.path.join(PROGRAMS, "rows.tfd"), "-D", f"ROWS={rows}")
    code, out, err = run(made, "-n", "workers=1,ps=2", "--stats", "--set",
                         f"steps={steps}")
    found = re.findall(r"^  (\d+) bytes pu\w+, of .*: (\d+) \w+$", err, re.M)
    check(f"{rows} rows, {steps} steps: all are counted",
          code == 0 and len(found) == len(KINDS), out + err)
    return [(int(a), int(b)) for a, b in found]


def explained(rows, symbols):
    """By kind, the bytes of a step as --explain has them."""
    source = os.path.join(PROGRAMS, "rows.tfd")
    page = subprocess.run([TFDC, source, "-D", f"ROWS={rows}", "--explain"],
                          check=True, text=True, capture_output=True).stdout
    pushes = page.split("  main.2 pushes, each time it comes there\n")[1]
    pulls = page.split("  main.2 pulls, before it begins\n")[1]
    sums = dict.fromkeys(KINDS, 0)
    for line in re.match(r"(    .*\n)*", pushes)[0].splitlines():
        name, formula = re.match(r"    (\S+) +(.*) bytes", line).groups()
        of_rows = re.search(rf"^func @{name}\(.* rows \d", placed(source, rows),
                            re.M)
        sums["pushed_rows" if of_rows else "pushed_parts"] += eval(formula,
                                                                   symbols)
    for line in re.match(r"(    .*\n)*", pulls)[0].splitlines():
        numbers = re.match(r"    \S+ +(\S+) bytes, and (\S+) of their", line)
        whole = re.match(r"    \S+ +(\d+) bytes, of parts", line)
        if whole:
            sums["pulled_parts"] += int(whole[1])
        else:
            sums["pulled_rows"] += sum(eval(n, symbols)
                                       for n in numbers.groups())
    return [sums[kind] for kind in KINDS]


def placed(source, rows):
    return subprocess.run([TFDC, source, "-D", f"ROWS={rows}", "--to",
                           "placed", "-o", "-"], check=True, text=True,
                          capture_output=True).stdout


def bytes_of_a_step():
    """What travels is what tfdc explains, however large the table is."""
    symbols = {name: 16 for name in ["R", "n", "N", "N1", "N2"]}
    for rows in [1000, 5000]:
        few, many = traffic(rows, 20), traffic(rows, 50)
        each = [(b[0] - a[0]) / 30 for a, b in zip(few, many)]
        says = explained(rows, symbols)
        check(f"the bytes of a step are those of --explain, {rows} rows",
              each == says and min(says) > 0, f"{each} {says}")
        check("... of 16 rows, 2 times 16 entries",
              many[1][1] - few[1][1] == 30 * 16 and
              many[2][1] - few[2][1] == 30 * 32, f"{few} {many}")


def memory_of_a_server():
    """Parts and slots of 3 million rows, 120 MB in all."""
    made = plan(os.path.join(PROGRAMS, "rows.tfd"), "-D", "ROWS=3000000")
    env = {k: v for k, v in os.environ.items() if k != "MALLOC_PERTURB_"}
    p = start(made, "-n", "workers=1,ps=4", "--stats", env=env)
    most = {}
    while p.poll() is None:
        for pid, name in tasks(p, "ps").items():
            try:
                with open(f"/proc/{pid}/status") as f:
                    found = re.search(r"VmHWM:\s+(\d+)", f.read())
            except OSError:
                continue
            if found:
                most[name] = int(found[1]) * 1024
        time.sleep(0.02)
    out, err = p.communicate()
    has = [int(n) for n in re.findall(r"  server \d .* \((\d+) bytes\)", err)]
    check("a server has no more memory than its parts need",
          p.returncode == 0 and len(most) == len(has) == 4 and
          all(most[f"ps:{i}"] < 1.1 * n + (20 << 20)
              for i, n in enumerate(has)),
          f"{most} {has} {out} {err}")


# ---- exactly once ---------------------------------------------------------

COUNTS = "hits {0}\ncounts [{1}]\nblock {0}.0 {0}.0\nnamed [{2}]\n"


def counts(n):
    named = [str(n // 8)] * 7 + [str(n // 8 + n)]
    return COUNTS.format(n, " ".join([str(n // 8)] * 8), " ".join(
        word.rjust(len(named[7])) for word in named))


def counted(name, n, fault, pause):
    """Closures that count themselves, while fault(workers) happens again and
    again; how often."""
    made = plan(os.path.join(PROGRAMS, "counts.tfd"))
    p = start(made, "-n", "workers=3,ps=2", "--set", f"closures={n}")
    times = hurt_workers(
        p, fault, lambda: pause * (0.5 + random.random()), LIMIT * FAULTS)
    if p.poll() is None:
        p.kill()
    out, err = p.communicate()
    check(f"{name}: {n} closures, each once ({times} faults)",
          p.returncode == 0 and out == counts(n) and times > 0,
          f"{p.returncode} {out} {err[-3000:]}")


def stop_for(seconds):
    def fault(pid):
        send(pid, signal.SIGSTOP)
        time.sleep(seconds)
        send(pid, signal.SIGCONT)
    return fault


def exactly_once():
    made = plan(os.path.join(PROGRAMS, "counts.tfd"))
    code, out, err = run(made, "-n", "workers=2,ps=2", "--set", "closures=4000")
    check("no faults: 4000 closures, each once",
          code == 0 and out == counts(4000), out + err)
    counted("a worker killed every 50 ms", 16000 * FAULTS,
            lambda pid: send(pid, signal.SIGKILL), 0.05)
    counted("workers stopped for a while", 16000 * FAULTS, stop_for(0.3), 0.05)
    # longer than it takes to be lost: another one has its closures, too
    counted("workers stopped for 3 s", 8000 + 40000 * FAULTS, stop_for(3), 0.1)


# ---- ends -----------------------------------------------------------------

def a_lost_server():
    """COO-25: its variables are nowhere else."""
    made = plan(os.path.join(PROGRAMS, "counts.tfd"))
    for what, name in [(signal.SIGKILL, "killed"), (signal.SIGSTOP, "stopped")]:
        p = start(made, "-n", "workers=2,ps=2", "--set", "closures=100000000")
        wait_until_it_works(p)
        pid = [k for k, v in tasks(p, "ps").items() if v == "ps:1"][0]
        send(pid, what)
        out, err = p.communicate(timeout=LIMIT)
        said = (rf"tfd-run: ps 1 \(pid {pid}\) was killed by signal 9\n"
                if name == "killed" else
                rf"server 1 \([^ ]*, pid {pid}\), which holds variables, has "
                r"not been heard for [2-4]\.")
        check(f"COO-25 a server that is {name}", p.returncode == 3 and
              re.search(said, err), f"{p.returncode} {out} {err}")


def interrupts():
    made = plan(os.path.join(PROGRAMS, "counts.tfd"))
    p = start(made, "-n", "workers=2,ps=1", "--set", "closures=100000000")
    wait_until_it_works(p)
    others = list(tasks(p, "worker")) + list(tasks(p, "ps"))
    p.send_signal(signal.SIGINT)
    out, err = p.communicate(timeout=LIMIT)
    left = [pid for pid in others if os.path.exists(f"/proc/{pid}")]
    check("an interrupt ends all", p.returncode == 130 and not left,
          f"{p.returncode} {out} {err} left: {left}")


def a_stopped_coordinator():
    made = plan(os.path.join(PROGRAMS, "counts.tfd"))
    p = start(made, "-n", "workers=1,ps=1", "--silence", "1", "--set",
              "closures=100000000")
    wait_until_it_works(p)
    with open(f"/proc/{p.pid}/task/{p.pid}/children") as f:
        others = list(tasks(p, "worker")) + list(tasks(p, "ps"))
        coordinator = [int(word) for word in f.read().split()
                       if int(word) not in others]
    send(coordinator[0], signal.SIGSTOP)
    out, err = p.communicate(timeout=LIMIT)
    check("a coordinator that is stopped ends the job", p.returncode == 3 and
          "the coordinator has not been heard for 1 s" in err,
          f"{p.returncode} {out} {err}")


def by_hand():
    """Tasks that are started one by one."""
    made = plan(os.path.join(PROGRAMS, "counts.tfd"))
    at = f"127.0.0.1:{free_port()}"
    coordinator = start(made, "--coordinate", "workers=1,ps=1", "--listen", at)
    other = plan(os.path.join(PROGRAMS, "fails.tfd"))
    code, out, err = run(other, "--serve", "ps:0", "--join", at)
    check("a server with another plan is refused", code == 2 and
          f"the coordinator at tcp://{at} refuses it: it has another plan" in
          err, f"{code} {out} {err}")
    code, out, err = run(made, "--serve", "ps:0", "--join", at, "--listen", at)
    check("a server listens where another process does", code == 3 and
          f"cannot listen on {at}: Address already in use" in err,
          f"{code} {out} {err}")
    parts = [start(made, "--serve", task, "--join", at)
             for task in ["worker:0", "ps:0"]]
    out, err = coordinator.communicate(timeout=LIMIT)
    ends = [part.wait(LIMIT) for part in parts]
    check("tasks started by hand", coordinator.returncode == 0 and
          out == counts(1000) and ends == [0, 0], f"{out} {err} {ends}")
    for part in parts:
        part.communicate()


def a_long_closure():
    """A worker that computes reads nothing: that is no silence of others.  Nor
    is it that a server meanwhile has nothing to do."""
    made = plan(os.path.join(PROGRAMS, "long.tfd"))
    begin = time.time()
    code, out, err = run(made, "-n", "workers=1,ps=1", "--silence", "1", "--set",
                         "rounds=200000000")
    check("a closure longer than the silence", code == 0 and out == "2.0\n" and
          "started again" not in err and time.time() - begin > 1.5,
          f"{code} {out} {err} {time.time() - begin:.1f} s")


def a_closure_that_crashes():
    """It would end each worker that gets it."""
    made = plan(os.path.join(PROGRAMS, "long.tfd"))
    p = start(made, "-n", "workers=1,ps=1", "--set", "rounds=2000000000")
    hit, begin = set(), time.time()
    while p.poll() is None and time.time() - begin < LIMIT:
        for pid in tasks(p, "worker"):
            if pid not in hit and seconds_of(pid) > 0.3:  # it is in the closure
                hit.add(pid)
                send(pid, signal.SIGSEGV)
        time.sleep(0.02)
    if p.poll() is None:
        p.kill()
    out, err = p.communicate()
    check("a closure that has ended three workers ends the job",
          p.returncode == 1 and len(hit) >= 3 and
          "long.tfd:15:3: a closure that is scheduled here has ended 3 "
          "workers, each by signal 11 (Segmentation fault)" in err and
          "executing closure" in err and err.count("error:") == 1,
          f"{p.returncode} {hit} {out} {err}")


def nobody_answers():
    """A worker waits for a server that is stopped, and its coordinator dies."""
    made = plan(os.path.join(PROGRAMS, "learns.tfd"))
    at = f"127.0.0.1:{free_port()}"
    coordinator = start(made, "--coordinate", "workers=1,ps=1", "--listen", at,
                        "--set", "closures=100000000")
    server, worker = [start(made, "--serve", task, "--join", at, "--silence",
                            "1") for task in ["ps:0", "worker:0"]]
    begin = time.time()
    while " lives" not in run("--status", at)[1] and \
            time.time() - begin < LIMIT:
        pass
    send(server.pid, signal.SIGSTOP)
    time.sleep(0.2)
    coordinator.kill()
    out, err = worker.communicate(timeout=LIMIT)
    check("a worker whom nobody answers ends", worker.returncode == 3 and
          "the coordinator has not been heard for 1 s" in err,
          f"{worker.returncode} {out} {err}")
    for other in [server, coordinator]:
        other.kill()
        other.communicate()


# ---- how the job is --------------------------------------------------------

TABLE = r"""closures       \d+ scheduled, \d+ ended \((\S+)/s\), \d+ wait, 0 again .*
((?:worker \d .*\n)+)((?:server \d .*\n)+)staleness    (.*)  most (\d+)
"""


def status_of(workers):
    """A job with a key, whose coordinator is asked."""
    made = plan(os.path.join(PROGRAMS, "learns.tfd"))
    at = f"127.0.0.1:{free_port()}"
    for name in ["key", "other"]:
        with open(name, "wb") as f:
            f.write(random.randbytes(32))
        os.chmod(name, 0o600)
    key = ["--key", "key"]
    job = [start(made, "--coordinate", f"workers={workers},ps=2", "--listen",
                 at, *key, "--set", "closures=100000000")]
    job += [start(made, "--serve", task, "--join", at, *key) for task in
            ["ps:0", "ps:1"] + [f"worker:{i}" for i in range(workers)]]
    found, begin = None, time.time()
    while not found and time.time() - begin < LIMIT:
        code, out, err = run("--status", at, *key)
        found = re.fullmatch(TABLE, out)
        if found and (found[2].count("lives") < workers or
                      found[2].count("(0.0/s)") or
                      found[3].count("busy") < 2):
            found = None
    check(f"--status of {workers} workers", found, f"{code} {out} {err}")
    if workers > 1:
        answers = [run("--status", at, *other)
                   for other in [["--key", "other"], []]]
        check("--status without the key has no answer",
              all(code == 3 and not out and f"no coordinator at {at} has "
                  "answered for 3 s" in err for code, out, err in answers),
              str(answers))
    for part in job:
        part.kill()
        part.communicate(timeout=LIMIT)
    return found


def status_by_pid():
    """A job of -n, whose key and port its parent tells its user."""
    made = plan(os.path.join(PROGRAMS, "learns.tfd"))
    job = start(made, "-n", "workers=2,ps=2", "--set", "closures=100000000")
    found, begin = None, time.time()
    while not found and time.time() - begin < LIMIT:
        code, out, err = run("--status", str(job.pid))
        found = re.fullmatch(TABLE, out)
        if found and found[2].count("lives") < 2:
            found = None
    check("--status PID of a job of -n", found, f"{code} {out} {err}")
    with open("/dev/full", "w") as full:
        done = subprocess.run([RUN, "--status", str(job.pid)], text=True,
                              stdout=full, stderr=subprocess.PIPE, timeout=60)
    check("... on a full disk", done.returncode == 3 and
          "cannot write standard output" in done.stderr, done.stderr)
    worker = min(tasks(job, "worker"))
    for pid in [worker, os.getpid(), 2 ** 31 - 1]:
        code, out, err = run("--status", str(pid))
        check("... and of what is no such job", code == 2 and not out and
              f"process {pid} is no parent of a job" in err, f"{code} {err}")
    code, out, err = run("--status", str(2 ** 40))
    check("... and of what is no pid", code == 2 and not out and
          "--status needs a whole number from 1 to" in err, f"{code} {err}")
    job.send_signal(signal.SIGSTOP)
    code, out, err = run("--status", str(job.pid))
    check("... and of one that is stopped", code == 3 and not out and
          f"process {job.pid} has not said within 3 s" in err, f"{code} {err}")
    job.send_signal(signal.SIGCONT)
    job.send_signal(signal.SIGTERM)
    job.communicate(timeout=LIMIT)


def status():
    status_by_pid()
    found = status_of(1)
    check("one worker: no value is stale", found and found[5] == "0" and
          re.fullmatch(r"  0: \d+", found[4]), found and found[0])
    found = status_of(3)
    rows = found and re.findall(r"[\d-]+(?: or more|:) (\d+)", found[4])
    applied = found and re.findall(r"(\d+) closures applied", found[3])
    check("three workers: each push has a staleness", found and
          0 < sum(map(int, rows)) <= sum(map(int, applied)) and
          float(found[1]) > 0, found and found[0])


# ---- strangers ------------------------------------------------------------

def ports(pids):
    """Where processes listen, by their sockets."""
    inodes = set()
    for pid in pids:
        try:
            fds = os.listdir(f"/proc/{pid}/fd")
        except OSError:
            continue  # it has ended
        for fd in fds:
            try:
                link = os.readlink(f"/proc/{pid}/fd/{fd}")
            except OSError:
                continue
            if link.startswith("socket:["):
                inodes.add(link[8:-1])
    found = set()
    for table in ["tcp", "tcp6"]:
        with open("/proc/net/" + table) as f:
            for line in f.readlines()[1:]:
                words = line.split()
                if words[3] == "0A" and words[9] in inodes:
                    found.add(int(words[1].rsplit(":", 1)[1], 16))
    return found


GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x00"


def strangers():
    """Whoever has no key sees a greeting at most."""
    made = plan(os.path.join(PROGRAMS, "counts.tfd"))
    n = 40000
    p = start(made, "-n", "workers=2,ps=2", "--set", f"closures={n}")
    while len(tasks(p, "worker")) < 2:
        time.sleep(0.01)
    listening, begin = set(), time.time()
    while len(listening) < 3 and time.time() - begin < LIMIT / 4:
        time.sleep(0.1)
        with open(f"/proc/{p.pid}/task/{p.pid}/children") as f:
            listening = ports([int(word) for word in f.read().split()])
    answers = []
    for port in listening:
        for greeting in [b"GET / HTTP/1.0\r\n\r\n",
                         GREETING + b"NULL".ljust(20, b"\0") + bytes(32),
                         GREETING + b"CURVE".ljust(20, b"\0") + bytes(32) +
                         random.randbytes(300), random.randbytes(2000)]:
            with socket.create_connection(("127.0.0.1", port), 5) as s:
                s.settimeout(0.3)
                try:
                    s.sendall(greeting)
                    answers.append(s.recv(4096))
                except OSError:
                    answers.append(b"")
    out, err = p.communicate(timeout=LIMIT)
    check("strangers reach nothing", p.returncode == 0 and out == counts(n) and
          len(listening) >= 3 and all(len(a) <= 64 for a in answers),
          f"{p.returncode} {out} {err} {listening} {answers}")


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    conformance()
    tutorial()
    one_worker_has_the_bits_of_none()
    failures()
    waits()
    shards()
    cancels()
    inputs()
    placement()
    placement_by_bytes()
    named_servers()
    bytes_of_a_step()
    memory_of_a_server()
    exactly_once()
    bounded_staleness()
    atomic()
    rounds()
    a_lost_server()
    interrupts()
    a_stopped_coordinator()
    a_long_closure()
    nobody_answers()
    a_closure_that_crashes()
    by_hand()
    status()
    strangers()
end()
