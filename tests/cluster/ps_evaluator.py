#!/usr/bin/env python3
"""ps_evaluator.py - an evaluator beside a job with servers and workers

    ps_evaluator.py TFDC TFD_RUN ROOT [ROUNDS]    TAP

Every line of an evaluator has the values of the checkpoint that it names, and
whatever happens to it, the job does what it does without one.
"""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from hosts import free_port
from tap import check, end

TFDC, RUN, ROOT = map(os.path.abspath, sys.argv[1:4])
ROUNDS = int(sys.argv[4]) if len(sys.argv) > 4 else 300
LIMIT = 60  # seconds
JOB = ["-n", "1 coordinator, 2 ps, 2 workers, 1 evaluator"]
SAVES = ["--checkpoint", "saved", "--every"]
LINE = re.compile(r"evaluator, step (\d+): count (\d+), table \[(.*)\],\n"
                  r"evaluator, step (\d+): test 6\n")


def source_of(name):
    return os.path.join(ROOT, "tests", "cluster", "ps", name + ".tfd")


def plan(name):
    subprocess.run([TFDC, source_of(name), "-o", name + ".tfp"], check=True)
    return name + ".tfp"


def run(*args):
    done = subprocess.run([RUN, *args], text=True, capture_output=True,
                          timeout=LIMIT)
    return done.returncode, done.stdout, done.stderr


def start(*args, env=None):
    return subprocess.Popen([RUN, *args], text=True, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, env=env)


def anew():
    shutil.rmtree("saved", ignore_errors=True)


def evaluations(out):
    """The steps of an output, and whether each has the values of its step."""
    steps, good = [], True
    for step, count, table, again in LINE.findall(out):
        good &= step == count == again and table == " ".join([step] * 6)
        steps.append(int(step))
    return steps, good and len(steps) * 2 == out.count("evaluator, ")


def result(rounds):
    return f"{rounds} rounds, table [{' '.join([str(rounds)] * 6)}]\n"


def pid_of(parent, task):
    """A process of a job, once it is there."""
    begin = time.time()
    while time.time() - begin < LIMIT:
        with open(f"/proc/{parent.pid}/task/{parent.pid}/children") as f:
            pids = f.read().split()
        for pid in pids:
            try:
                with open(f"/proc/{pid}/cmdline") as f:
                    if task in f.read().split("\0"):
                        return int(pid)
            except OSError:
                continue
        time.sleep(0.01)
    return None


# ---- what it does -----------------------------------------------------------

def alone(made):
    code, out, err = run(made)
    check("without an evaluator nobody executes main evaluate",
          (code, out) == (0, result(12)), out + err)


def follows(made):
    """Each round is saved, and files are removed while they are read."""
    anew()
    code, out, err = run(made, *JOB, *SAVES, "1", "--set", f"rounds={ROUNDS}")
    steps, good = evaluations(out)
    check("each evaluation has the values of the checkpoint that it names",
          code == 0 and good and steps == sorted(set(steps)) and
          result(ROUNDS) in out, out + err)
    check("... and the last one is evaluated", steps[-1:] == [ROUNDS],
          out + err)
    check("... and nothing is said of files that had gone", err == "", err)


def short(made):
    anew()
    code, out, err = run(made, *JOB, *SAVES, "1", "--set", "rounds=1")
    check("a job that ends before its evaluator has begun is evaluated",
          code == 0 and evaluations(out) == ([1], True), out + err)


def folders_of_events(made):
    """Each of them once for each file in it."""
    anew()
    shutil.rmtree("events", ignore_errors=True)
    code, out, err = run(made, *JOB, *SAVES, "4", "--log-dir", "events")
    folders = [os.path.relpath(d, "events")
               for d, _, files in os.walk("events") for _ in files]
    return sorted(folders), f"{code} {folders} {out} {err}"


def with_summary_in_main():
    with open(source_of("evaluated")) as f:
        text = f.read()
    with open("both.tfd", "w") as f:
        f.write(text.replace("    join()\n", "    join()\n"
                             "    summary(\"round\", count, count)\n", 1))
    subprocess.run([TFDC, "both.tfd", "-o", "both.tfp"], check=True)
    return "both.tfp"


def summaries(made):
    folders, text = folders_of_events(made)
    check("tasks that write no summary, the coordinator too, have no file",
          folders == ["evaluator"], text)
    folders, text = folders_of_events(with_summary_in_main())
    check("summaries of an evaluator are in a folder beside the coordinator's",
          folders == [".", "evaluator"], text)


# ---- what happens to it -----------------------------------------------------

def fails(made):
    anew()
    code, out, err = run(made, *JOB, *SAVES, "1", "--set", "fails_at=0")
    check("one that fails does not fail the job",
          code == 0 and out == result(12) and " is refused" in err and
          re.search(r"evaluator \(pid \d+\) ended with status 1(; the job goes "
                    r"on without it)?$", err, re.M), out + err)
    anew()
    code, out, err = run(made, *JOB, *SAVES, "12", "--set", "fails_at=12")
    check("... also at the job's last checkpoint",
          code == 0 and out.count(result(12)) == 1 and " is refused" in err and
          re.search(r"evaluator \(pid \d+\) ended with status 1", err), out + err)


def is_killed(made):
    anew()
    job = start(made, *JOB, *SAVES, "20", "--set", f"rounds={20 * ROUNDS}")
    while not job.stdout.readline().endswith("test 6\n"):
        pass
    os.kill(pid_of(job, "evaluator:0"), signal.SIGKILL)
    out, err = job.communicate(timeout=LIMIT)
    steps, good = evaluations(out)
    check("one that is killed is started again",
          job.returncode == 0 and good and steps[-1] == 20 * ROUNDS and
          "was killed by signal 9, and is started again" in err, out + err)


def is_stopped(made):
    anew()
    job = start(made, *JOB, *SAVES, "1")
    evaluator = pid_of(job, "evaluator:0")
    os.kill(evaluator, signal.SIGSTOP)
    begin = time.time()
    line = job.stdout.readline()
    took = time.time() - begin
    time.sleep(0.1)
    os.kill(evaluator, signal.SIGCONT)
    out, err = job.communicate(timeout=LIMIT)
    while line.startswith("evaluator"):
        line, _, out = out.partition("\n")
        line += "\n"
    check("nobody waits for one that is stopped", took < 20 and
          line == result(12) and job.returncode == 0, f"{took} {line}{out}{err}")


def is_interrupted(made):
    """While the job waits for it alone."""
    anew()
    rounds = 5 * ROUNDS
    job = start(made, *JOB, *SAVES, "1", "--set", f"rounds={rounds}")
    while not job.stdout.readline().startswith("evaluator"):
        pass
    evaluator = pid_of(job, "evaluator:0")
    os.kill(evaluator, signal.SIGSTOP)
    while job.stdout.readline() != result(rounds):
        pass
    time.sleep(1)
    job.send_signal(signal.SIGINT)
    os.kill(evaluator, signal.SIGCONT)
    err = job.communicate(timeout=LIMIT)[1]
    check("an interrupt ends the wait for it", job.returncode == 130,
          f"{job.returncode} {err}")


# ---- how it is started ------------------------------------------------------

def by_hand(made):
    anew()
    at = f"127.0.0.1:{free_port()}"
    parts = [["--coordinate", "workers=1,ps=1,evaluator=1", "--listen", at,
              *SAVES, "3"],
             ["--serve", "ps:0", "--join", at],
             ["--serve", "worker:0", "--join", at],
             ["--serve", "evaluator", "--join", at, "--checkpoint", "saved"]]
    jobs = [start(made, *part) for part in parts]
    ends = [job.communicate(timeout=LIMIT) for job in jobs]
    check("tasks that are started one by one",
          [job.returncode for job in jobs] == [0] * 4 and
          ends[0][0] == result(12) and evaluations(ends[3][0])[0][-1:] == [12],
          ends)


def tf_config(made):
    """TensorFlow's clusters do not have it, and it has itself as a task."""
    anew()
    at = {job: [f"127.0.0.1:{free_port()}"] for job in ["chief", "ps", "worker"]}

    def task(kind, *options):
        config = {"cluster": at, "task": {"type": kind, "index": 0}}
        env = dict(os.environ, TF_CONFIG=json.dumps(config))
        return start(made, *options, env=env)

    evaluator = task("evaluator", "--checkpoint", "saved")
    rounds = 10 * ROUNDS
    jobs = [task("chief", *SAVES, str(ROUNDS), "--set", f"rounds={rounds}"),
            task("ps"), task("worker"), evaluator]
    ends = [job.communicate(timeout=LIMIT) for job in jobs]
    check("... and that of TF_CONFIG",
          [job.returncode for job in jobs] == [0] * 4 and
          evaluations(ends[3][0])[0][-1:] == [rounds], ends)


def late(made):
    """It comes when the job has ended."""
    anew()
    at = f"127.0.0.1:{free_port()}"
    code, out, err = run(made, "-n", "workers=1,ps=2", *SAVES, "3")
    check("a job that has ended leaves a mark", code == 0 and out == result(12)
          and os.path.exists("saved/ended"), out + err)
    begin = time.time()
    code, out, err = run(made, "--serve", "evaluator", "--join", at,
                         "--checkpoint", "saved")
    check("... by which one that comes later evaluates the last checkpoint",
          code == 0 and evaluations(out) == ([12], True) and
          time.time() - begin < 30, out + err)
    os.remove("saved/ended")
    code, out, err = run(made, "--serve", "evaluator", "--join", at,
                         "--checkpoint", "saved", "--timeout", "1")
    check("... and without it waits for --timeout", code == 3 and
          "no coordinator has answered" in err, out + err)
    for name in os.listdir("saved"):
        os.remove("saved/" + name)
    open("saved/ended", "w").close()
    code, out, err = run(made, "--serve", "evaluator", "--join", at,
                         "--checkpoint", "saved")
    check("... and says where there is no checkpoint", code == 3 and
          'the job has ended, and has left no checkpoint in "saved"' in err,
          out + err)


def recommend(_):
    """The commands in the comment of the example, for smaller tables."""
    source = os.path.join(ROOT, "docs", "examples", "recommend.tfd")
    with open(source) as f:
        lines = re.findall(r"^#   (tfdc|tfd-run) (.*)$", f.read(), re.M)
    check("recommend.tfd says how it is run", len(lines) == 4, lines)
    for program, rest in lines:
        rest = rest.replace("10000000", "40000").replace("1000000", "30000")
        words = [source if word == "recommend.tfd" else word
                 for word in rest.split()]
        shutil.rmtree("run", ignore_errors=True)
        if program == "tfdc":
            subprocess.run([TFDC, *words, "-o", "recommend.tfp"], check=True)
            continue
        code, out, err = run(*words)
        auc = re.findall(r"^evaluator, step (\d): AUC (.*)$", out, re.M)
        check(rest, code == 0 and auc and auc[-1][0] == "3" and
              float(auc[-1][1]) > 0.95, out + err)


def refusals(made):
    for what, args, message in [
            ("without checkpoints", [made, *JOB],
             "an evaluator needs --checkpoint DIR"),
            ("without main evaluate", [plan("counts"), *JOB, *SAVES, "1"],
             "an evaluator executes main evaluate { ... }, and the program "
             "has none"),
            ("two", [made, "-n", "workers=1,ps=1,evaluator=2"],
             "a job has one evaluator at most"),
            ("the second", [made, "--serve", "evaluator:1", "--join", "h:1"],
             "a job has one evaluator at most")]:
        code, out, err = run(*args)
        check("refused: " + what, code == 2 and message in err, out + err)


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    evaluated = plan("evaluated")
    for test in [alone, follows, short, summaries, fails, is_killed, is_stopped,
                 is_interrupted, by_hand, tf_config, late, recommend, refusals]:
        test(evaluated)
end()
