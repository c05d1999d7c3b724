#!/usr/bin/env python3
"""files.py TFDC TFD_RUN [--few]

Processes whose machines have other files: each is in a folder of its own, with
the plan and what it has of the data.  All end with one line that says which file
differs between which ranks, before anything is read; nothing hangs.  --few: two
of the cases.  TAP.
"""
import os
import shutil
import socket
import subprocess
import sys
import tempfile

from hosts import free_port
from tap import check, end

TFDC, RUN = map(os.path.abspath, sys.argv[1:3])
FEW = sys.argv[3:] == ["--few"]
SECONDS = 30
PROGRAM = """\
strategy multi_worker_mirrored(workers = 2, devices = "cpu:0-1")
dataset train = SOURCE.batch(8)
fn step(x) { return all_reduce(sum, sum(f32(x))) }
main {
  print("begun")
  for x in distribute(train, shard = POLICY) { print(run step(x)) }
}
"""
LINES = 'lines("*.txt", u8[8])'
REPAIR = ("processes that divide a dataset read the same files: copy them, or "
          "give --data a folder that all reach")
line = b"1234567\n"
two = {"a.txt": 8 * line, "b.txt": 8 * line}
longer = dict(two, **{"b.txt": 9 * line})


def npy(num):
    head = b"{'descr': '<f4', 'fortran_order': False, 'shape': (%d,), }" % num
    head += b" " * (117 - len(head)) + b"\n"
    return (b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head +
            bytes(4 * num))


def hosts(folders, source, policy):
    """A folder for each host, with its files."""
    for rank, files in enumerate(folders):
        shutil.rmtree(f"h{rank}", ignore_errors=True)
        os.mkdir(f"h{rank}")
        for name, content in files.items():
            with open(f"h{rank}/{name}", "wb") as f:
                f.write(content)
    with open("h0/job.tfd", "w") as f:
        f.write(PROGRAM.replace("SOURCE", source).replace("POLICY", policy))
    subprocess.run([TFDC, "job.tfd"], cwd="h0", check=True)
    for rank in range(1, len(folders)):
        shutil.copy("h0/job.tfp", f"h{rank}")


def run(folders, source=LINES, policy="auto"):
    """The status, and output and errors, of each process."""
    hosts(folders, source, policy)
    size, at = len(folders), f"127.0.0.1:{free_port()}"
    all_ = [subprocess.Popen([RUN, "job.tfp", "--rank", str(r), "--size",
                              str(size), "--join", at, "--threads", "1"],
                             cwd=f"h{r}", text=True, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE) for r in range(size)]
    ends = [p.communicate(timeout=SECONDS) for p in all_]
    return ([p.returncode for p in all_], "".join(out for out, _ in ends),
            "".join(err for _, err in ends))


def refused(name, says, folders, source=LINES, policy="auto"):
    codes, out, err = run(folders, source, policy)
    errors = [line for line in err.splitlines() if "error: " in line]
    want = f"tfd-run: error: {says}; {REPAIR}"
    want = want.replace("HOST", socket.gethostname())
    check(name, set(codes) == {1} and not out and errors == [want],
          f"wanted {want}\n{codes}\n{out}{err}")


def runs(name, folders, source=LINES, policy="auto"):
    codes, out, err = run(folders, source, policy)
    check(name, set(codes) == {0} and out.startswith("begun\n") and not err,
          f"{codes}\n{out}{err}")


def cases():
    for policy in ("file", "data", "off"):
        runs(f"the same files, {policy}", [two, two], policy=policy)
    for policy in ("auto", "data"):
        refused(f"another size, {policy}",
                'job.tfd:2:17: "b.txt" has 64 bytes for rank 0 (HOST), and 72 for '
                'rank 1 (HOST)', [two, longer], policy=policy)
    runs("another size where all read their own", [two, longer], policy="off")
    runs("another size for the two processes of another worker",
         [two, two, longer, longer], policy="off")
    refused("another size for one of the two processes of a worker",
            'job.tfd:2:17: "b.txt" has 64 bytes for rank 2 (HOST), and 72 for '
            'rank 3 (HOST)', [longer, longer, two, longer], policy="off")
    three = dict(two, **{"c.txt": 8 * line})
    refused("a file too many of the last process",
            'job.tfd:2:17: "c.txt" is a file of rank 3 (HOST), and not of rank 0 '
            '(HOST)', [two, two, two, three], policy="data")
    refused("a file too many", 'job.tfd:2:17: "c.txt" is a file of rank 1 (HOST), '
            'and not of rank 0 (HOST)', [two, three])
    refused("a file too few", 'job.tfd:2:17: "c.txt" is a file of rank 0 (HOST), '
            'and not of rank 1 (HOST)', [three, two])
    other = {"a.txt": 8 * line, "x.txt": 8 * line}
    refused("another name", 'job.tfd:2:17: file 2 of all is "b.txt" for rank 0 '
            '(HOST), and "x.txt" for rank 1 (HOST)', [two, other])
    refused("two arrays", 'job.tfd:2:17: "b.npy" has 144 bytes for rank 0 (HOST), '
            'and 160 for rank 1 (HOST)',
            [{"a.npy": npy(4), "b.npy": npy(4)},
             {"a.npy": npy(4), "b.npy": npy(8)}], 'npy("?.npy", f32)')
    refused("a table", 'job.tfd:2:17: "t.csv" has 4 bytes for rank 0 (HOST), and '
            '6 for rank 1 (HOST)', [{"t.csv": b"1\n2\n"},
                                    {"t.csv": b"1\n2\n3\n"}],
            'csv("t.csv", f32)', "data")
    codes, out, err = run([two, {}])
    check("no file", codes == [1, 1] and not out and
          err.count('error: no file matches "./*.txt"') == 1 and
          'while opening the datasets of rank 1 (' in err, f"{codes}\n{out}{err}")


def main():
    runs("the same files", [two, two])
    refused("one of 600 files", 'job.tfd:2:17: "333.txt" has 8 bytes for rank 0 '
            '(HOST), and 16 for rank 1 (HOST)',
            [{"%03d.txt" % i: line for i in range(600)},
             {"%03d.txt" % i: line * (1 + (i == 333)) for i in range(600)}])
    if not FEW:
        cases()
    end()


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    main()
