#!/usr/bin/env python3
"""machines.py TFDC TFD_RUN

Two processes on each of two machines, over zmq: those of a machine send each
other messages in its memory, and only machines use the network.  They print
what one process prints, say so (--stats, --preflight), and what a machine sends
is what one process with its replicas would send.  All machines have a bridge
for containers with one and the same address, as Docker makes it.  TAP.
"""
import os
import re
import subprocess
import sys
import tempfile

import hosts
from tap import check, end

TFDC, TFD_RUN = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
SECONDS = 60
MACHINES, EACH = 2, 2
SIZE = MACHINES * EACH
WIDTH, STEPS = 100_000, 50
BYTES = 4 * WIDTH
SOURCE = f"""var w: f32[{WIDTH}] = zeros
fn step() {{ w += all_reduce(sum, 0.1 * f32(replica_id + 1) * (w + 1.0)) }}
main {{
  for i in 0..{STEPS} {{ run step() }}
}}
"""
# What is sent when they join, of a process, and around all messages.
JOINING, FRAMES = 2 << 20, 1.1
PAIR = re.compile(r"^ +(\d+)  \S+ +(\d+)  \S+ +(shared memory|\w+)  ", re.M)


def add_bridge(machine):
    at = ["ip", "-n", hosts.name(machine)]
    hosts.run(at + ["link", "add", "docker0", "type", "bridge"])
    hosts.run(at + ["addr", "add", "172.17.0.1/16", "dev", "docker0"])
    hosts.run(at + ["link", "set", "docker0", "up"])


def sent(machine):
    """Bytes of a machine so far: those that its port has received."""
    with open("/proc/net/dev") as f:
        return int(re.search(rf"{hosts.port(machine)}: *(\d+)", f.read())[1])


def start(machines, rank, options):
    return machines.start(
        rank // EACH + 1,
        [TFD_RUN, os.path.abspath("plan.tfp"), "--rank", str(rank), "--size",
         str(SIZE), "--join", f"{hosts.address(1)}:17000", "--key",
         os.path.abspath("key"), "--link", "zmq", "--threads", "1", *options],
        text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def run(machines, *options):
    """What rank 0 prints and says."""
    processes = [start(machines, rank, options) for rank in range(SIZE)]
    ends = [(*p.communicate(timeout=SECONDS), p.returncode) for p in processes]
    if any(status for _, _, status in ends):
        sys.exit(f"not ok 1 - a job on machines\n# {ends}")
    return ends[0][:2]


def check_run(machines):
    right = subprocess.run([TFD_RUN, "plan.tfp", "--checksum"], text=True,
                           capture_output=True, check=True).stdout
    before = sent(1)
    out, said = run(machines, "--checksum", "--stats")
    over_network = sent(1) - before
    check("the bits are those of one process",
          out == right and "checksum" in out, f"{out}{right}")
    check("machines combine what their processes have combined",
          re.search(r"all_reduce +50 .* zmq +(hierarchy|halving)$", said, re.M),
          said)
    check("most bytes are sent in memory", in_memory(said), said)
    check("a machine sends what one process would send",
          over_network < FRAMES * STEPS * BYTES + EACH * JOINING,
          f"{over_network} bytes, {STEPS} times {BYTES}")


def in_memory(said):
    """Of two processes half the operand goes to and fro in memory, and half of
    that between machines."""
    found = re.search(r"of ([\d.]+) bytes in all, from the busiest process, over "
                      r"zmq, of which [\d.]+ of ([\d.]+) bytes in memory", said)
    return found and 0.6 < float(found[2]) / float(found[1]) < 0.72


def check_preflight(machines):
    out, _ = run(machines, "--preflight")
    rows = [(int(m[1]) // EACH == int(m[2]) // EACH, m[3])
            for m in PAIR.finditer(out)]
    check("the table of pairs says what carries each",
          len(rows) == SIZE * (SIZE - 1) // 2 and all(
              over == ("shared memory" if is_near else "zmq")
              for is_near, over in rows), out)


def main():
    with open("plan.tfd", "w") as f:
        f.write(SOURCE)
    with open(os.open("key", os.O_CREAT | os.O_WRONLY, 0o600), "wb") as f:
        f.write(os.urandom(32))
    subprocess.run([TFDC, "plan.tfd", "--devices", f"cpu:0-{SIZE - 1}", "-o",
                    "plan.tfp"], check=True)
    with hosts.Hosts(MACHINES) as machines:
        for machine in range(1, MACHINES + 1):
            add_bridge(machine)
        check_run(machines)
        check_preflight(machines)
    end()


REASON = None if os.environ.get(hosts.ISOLATED) else hosts.why_not()
if REASON:
    print(f"1..0 # SKIP {REASON}")
    sys.exit(0)
hosts.isolate()
with tempfile.TemporaryDirectory() as folder:
    os.chmod(folder, 0o755)
    os.chdir(folder)
    main()
