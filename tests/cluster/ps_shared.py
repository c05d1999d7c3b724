#!/usr/bin/env python3
"""ps_shared.py - datasets that workers share, also when workers are killed

    ps_shared.py TFDC TFD_RUN ROOT [FAULTS [SEED]]    TAP

By element, by file, and with files that the coordinator deals to whichever
worker is free: each element of each pass is used once.
"""
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

import ps_tasks
from tap import check, end

ps_tasks.use(*sys.argv[1:4])
FAULTS = int(sys.argv[4]) if len(sys.argv) > 4 else 1
random.seed(int(sys.argv[5]) if len(sys.argv) > 5 else 1)
MOST = 600  # elements


def files():
    """Elements 0 to MOST - 1 in files of different sizes; one has none."""
    at, sizes = 0, [0, 150, 3, 97, 1, 120, 40, 29, 60, 11, 50, 39]
    assert sum(sizes) == MOST
    for i, n in enumerate(sizes):
        with open(f"dealt-{i:02}.bin", "wb") as f:
            for k in range(at, at + n):
                f.write(k.to_bytes(8, "little"))
        at += n


def plan(shard, **consts):
    source = os.path.join(ps_tasks.ROOT, "tests/cluster/ps/shared.tfd")
    out = f"shared-{shard}{consts}.tfp"
    if not os.path.exists(out):
        words = [word for name, value in consts.items()
                 for word in ["-D", f"{name}={value}"]]
        subprocess.run([ps_tasks.TFDC, source, "-o", out, "-D",
                        f"SHARD={shard}", *words], check=True)
    return out


def used(passes):
    return (f"{passes * MOST} used, from {passes} to {passes} times each\n",
            ["--set", f"closures={passes * MOST}"])


TWICE, ALL = used(2)


def each_once():
    for shard in ["data", "file", "dynamic"]:
        made = plan(shard)
        alone = ps_tasks.run(made, "--checksum", *ALL)
        check(f"shard = {shard}: one process takes all",
              alone[0] == 0 and alone[1].startswith(TWICE), str(alone))
        served = ps_tasks.run(made, "--checksum", *ALL, "-n", "workers=1,ps=2")
        check("... one worker has its bits", served[:2] == alone[:2],
              f"{alone} {served}")
        for workers in [2, 5]:
            code, out, err = ps_tasks.run(made, *ALL, "-n",
                                          f"workers={workers},ps=2", "--stats")
            check(f"... {workers} workers take each element once a pass",
                  code == 0 and out == TWICE, f"{code} {out} {err}")


def killed(workers, *options):
    """A random worker again and again, until the job ends."""
    passes = 20 * min(FAULTS, 10)
    right, all_of_them = used(passes)
    job = ps_tasks.start(plan("dynamic", PASSES=passes), "-n",
                         f"workers={workers},ps=2", *all_of_them, "--quiet",
                         *options)
    kills = 0
    while job.poll() is None:
        time.sleep(random.uniform(0.05, 0.3))
        pids = list(ps_tasks.tasks(job, "worker"))
        if pids and kills < 12 * FAULTS:
            ps_tasks.send(random.choice(pids), signal.SIGKILL)
            kills += 1
    code, out, err = ps_tasks.end_of(job)
    check(f"{kills} kills of {workers} workers: each element once a pass "
          + " ".join(options[:1]), code == 0 and kills and out == right,
          f"{code} {out} {err}")


def resumed(shard):
    """From a checkpoint, in new processes: files that were dealt stay so."""
    job = ["-n", "workers=2,ps=2", "--checkpoint", "saved-" + shard, "--every",
           "1", *ALL]
    whole = ps_tasks.run(plan(shard), *job)
    for step in [9, 10]:
        os.remove(f"saved-{shard}/step-{step}.ckpt")
    again = ps_tasks.run(plan(shard), *job, "--resume")
    check(f"shard = {shard}: a job that is resumed takes the other elements",
          whole[0] == again[0] == 0 and whole[1] == again[1] == TWICE and
          "resuming after step 8" in again[2], f"{whole} {again}")


def many_passes():
    """A coordinator's record of them is larger than all else of its state."""
    with open("one.bin", "wb") as f:
        f.write(b"\1")
    job = [ps_tasks.plan("passes"), "-n", "workers=1,ps=1", "--checkpoint",
           "saved-passes", "--every", "1"]
    whole = ps_tasks.run(*job)
    size = os.path.getsize("saved-passes/step-1.ckpt")
    os.remove("saved-passes/step-2.ckpt")
    again = ps_tasks.run(*job, "--resume")
    check("a job is resumed after many passes over files that are dealt",
          whole[:2] == again[:2] == (0, "6\n") and size > 1120000 and
          "resuming after step 1," in again[2], f"{size} {whole} {again}")


def ends():
    """More closures than there are elements; fewer files than workers."""
    for shard in ["data", "dynamic"]:
        code, out, err = ps_tasks.run(plan(shard), "-n", "workers=2,ps=1",
                                      "--set", f"closures={2 * MOST + 10}")
        check(f"shard = {shard}: no worker has an element left", code == 1 and
              re.search(r"shared\.tfd:23:\d+: the closure that is scheduled "
                        "here takes an element of a dataset that workers "
                        "share, and none of them has one left", err),
              f"{code} {err}")
    code, out, err = ps_tasks.run(plan("file"), "-n", "workers=3,ps=1", "--set",
                                  "path=dealt-0[12].bin")
    check("fewer files than workers", code == 1 and "cannot be sharded by "
          "file: it has 2 of them, and there are 3 workers" in err,
          f"{code} {err}")
    code, out, err = ps_tasks.run(plan("dynamic"), "-n", "workers=3,ps=1",
                                  "--set", "path=dealt-0[12].bin", "--set",
                                  "closures=300")
    check("... may be dealt", code == 0 and out.startswith("300 used"),
          f"{code} {out} {err}")


def other_files():
    """A worker that sees other files is no part of a deal. The job is long:
    it would go on without a worker that comes late."""
    at = ps_tasks.loopback()
    os.mkdir("elsewhere")
    os.link("dealt-01.bin", "elsewhere/dealt-01.bin")
    passes = 500
    made = plan("dynamic", PASSES=passes)
    tasks = [ps_tasks.start(made, "--coordinate", "workers=2,ps=1", "--listen",
                            at, *used(passes)[1])]
    for task in [["ps:0"], ["worker:0"], ["worker:1", "--data", "elsewhere"]]:
        tasks.append(ps_tasks.start(made, "--serve", *task, "--join", at))
    begun = time.time()
    ended = [ps_tasks.end_of(task) for task in tasks]
    took = time.time() - begun
    check("a worker with other files", ended[0][0] == 1 and
          "has other files of a dataset that is dealt to workers" in
          ended[0][2], str(ended))
    check("... and no worker waits for a file when the job has ended",
          [task[0] for task in ended[1:]] == [0, 0, 0] and
          took < ps_tasks.LIMIT / 4, f"{took} s {ended}")


def context():
    made = ps_tasks.plan("context")
    for tasks in [[], ["-n", "workers=1,ps=1"], ["-n", "workers=3,ps=2"]]:
        code, out, err = ps_tasks.run(made, *tasks)
        check(f"a dataset is made with its worker's number {tasks}",
              code == 0 and out == "10 1 10 1 of 10\n", f"{code} {out} {err}")
    code, out, err = ps_tasks.run(made, "--set", "worker.pipeline_id=1")
    check("... which nobody sets", code == 2 and 'no param '
          '"worker.pipeline_id"' in err, f"{code} {out} {err}")


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    files()
    each_once()
    killed(1)
    killed(3)
    killed(3, "--atomic")
    killed(2, "--checkpoint", "saving", "--every", "1")
    resumed("dynamic")
    resumed("data")
    many_passes()
    ends()
    other_files()
    context()
end()
