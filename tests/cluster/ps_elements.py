#!/usr/bin/env python3
"""ps_elements.py - elements of workers' datasets, whose workers are killed

    ps_elements.py TFDC TFD_RUN ROOT [FAULTS [SEED]]    TAP

A worker that is replaced goes on with its datasets where the coordinator's
record says: an element that an ended closure took is not taken again, and none
is left out.
"""
import os
import random
import re
import signal
import sys
import tempfile
import time

import ps_tasks
from tap import check, end

ps_tasks.use(*sys.argv[1:4])
FAULTS = int(sys.argv[4]) if len(sys.argv) > 4 else 1
MOST = 19000  # closures: the dataset has a few more elements
random.seed(int(sys.argv[5]) if len(sys.argv) > 5 else 1)


def used(closures, workers):
    return re.compile(rf"{closures} of {closures} used, {closures} counted, "
                      rf"at most ([1-{workers}]) each, 0 gaps\n")


def kills_during(job, seconds):
    """How many times a random worker was killed, after so many seconds each, until the job ended."""
    kills = 0
    while job.poll() is None:
        time.sleep(seconds)
        pids = list(ps_tasks.tasks(job, "worker"))
        if pids and kills < 10 * FAULTS:
            ps_tasks.send(random.choice(pids), signal.SIGKILL)
            kills += 1
    return kills


def killed(made, workers, seconds, *options):
    """A job of twice as many closures, which {} of an option is, follows one that ended before a
    worker was killed."""
    closures, kills = 2000 * FAULTS, 0
    while not kills and closures < MOST:
        closures = min(2 * closures, MOST)
        job = ps_tasks.start(made, "-n", f"workers={workers},ps=2", "--set",
                             f"closures={closures}", "--quiet",
                             *[o.format(closures) for o in options])
        kills = kills_during(job, seconds)
        code, out, err = ps_tasks.end_of(job)
    check(f"{kills} kills of {workers} worker(s): {closures} elements, each "
          "once", code == 0 and kills and used(closures, workers).match(out),
          f"{code} {out} {err}")


def resumed(made):
    """From a checkpoint, in new processes."""
    job = ["-n", "workers=2,ps=2", "--checkpoint", "saved", "--every", "1"]
    whole = ps_tasks.run(made, *job)
    os.remove("saved/step-10.ckpt")
    os.remove("saved/step-9.ckpt")
    again = ps_tasks.run(made, *job, "--resume")
    check("a job that is resumed goes on with the next elements",
          whole[0] == again[0] == 0 and used(3000, 2).match(whole[1]) and
          used(3000, 2).match(again[1]) and "resuming after step 8" in again[2],
          f"{whole} {again}")


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    elements = ps_tasks.plan("elements")
    killed(elements, 1, 0.15)
    killed(elements, 3, 0.15)
    killed(elements, 2, 0.2, "--checkpoint", "of-{}", "--every", "1")
    resumed(elements)
end()
