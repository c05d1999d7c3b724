"""Machines of a cluster, as network namespaces of this one.

    with hosts.Hosts(3, rate="1gbit") as cluster:
        cluster.start(1, ["tfd-run", ...])

Hosts are numbered from 1: host i is called `hI`, has a network of its own with
the address 10.77.0.I on a bridge, where 10.77.0.254 is the script's.  A rate
holds for each host and direction (the token bucket of tc).

A script calls `isolate()` first: it goes on in namespaces of its own (network,
mounts, host name, processes), so nothing that it makes is seen outside, and all
of it ends with the script, however that ends.
"""
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile

ISOLATED = "TFD_TEST_ISOLATED"
NAMED_HOSTS = 16  # in /etc/hosts
NAMESPACES = ["--net", "--mount", "--uts", "--ipc", "--pid", "--fork",
              "--mount-proc", "--kill-child"]
bound = []  # sockets of free_port
TOOLS = ["ip", "tc", "unshare", "nsenter", "mount", "hostname"]
# Where Debian has some of them, and only root looks.
os.environ["PATH"] = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"


def free_port():
    """A port of loopback at which nobody listens.

    It stays bound until this script ends, so that the system gives it to
    nobody else; a server that has SO_REUSEADDR as well may listen at it.
    """
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind(("127.0.0.1", 0))
    bound.append(s)
    return s.getsockname()[1]


def why_not():
    """Why this machine has no such hosts, or None."""
    for tool in TOOLS:
        if not shutil.which(tool):
            return f"there is no program {tool} (iproute2, util-linux)"
    done = subprocess.run(
        unshare() + ["sh", "-c", "ip link add type bridge && "
                     "ip link add type veth && mount -t tmpfs none /run && "
                     "ip netns add h1"], capture_output=True, text=True)
    if done.returncode:
        return f"no network namespaces here: {done.stderr.strip()}"
    return None


def unshare():
    users = [] if os.getuid() == 0 else ["--user", "--map-root-user"]
    return ["unshare"] + users + NAMESPACES


def isolate():
    """Goes on in namespaces of its own; the script is executed again."""
    if os.environ.get(ISOLATED):
        if not os.access("/run", os.W_OK):  # of a user who is not root
            run(["mount", "-t", "tmpfs", "none", "/run"])
        for folder in ("/run/netns", "/run/munge"):
            os.makedirs(folder, exist_ok=True)
            run(["mount", "-t", "tmpfs", "none", folder])
        name_hosts()
        run(["hostname", "control"])
        run(["ip", "link", "set", "lo", "up"])
        return
    os.environ[ISOLATED] = "1"
    command = unshare() + [sys.executable] + sys.argv
    os.execvp(command[0], command)


def name_hosts():
    """Gives hosts their names, in an /etc/hosts of the script's own."""
    with tempfile.NamedTemporaryFile("w", delete=False) as f:
        f.write("127.0.0.1 localhost\n10.77.0.254 control\n")
        for i in range(1, NAMED_HOSTS + 1):
            f.write(f"{address(i)} {name(i)}\n")
    os.chmod(f.name, 0o644)
    run(["mount", "--bind", f.name, "/etc/hosts"])
    os.unlink(f.name)


def run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


class Hosts:
    def __init__(self, num, rate=None):
        self.num = num
        self.rate = rate
        self.processes = []

    def __enter__(self):
        run(["ip", "link", "add", "bridge0", "type", "bridge"])
        run(["ip", "addr", "add", "10.77.0.254/24", "dev", "bridge0"])
        run(["ip", "link", "set", "bridge0", "up"])
        for i in range(1, self.num + 1):
            self.make(i)
        return self

    def __exit__(self, *_):
        self.stop()
        for i in range(1, self.num + 1):
            run(["ip", "netns", "del", name(i)])
        run(["ip", "link", "del", "bridge0"])

    def make(self, i):
        run(["ip", "netns", "add", name(i)])
        run(["ip", "link", "add", port(i), "type", "veth", "peer", "name",
             "eth0", "netns", name(i)])
        run(["ip", "link", "set", port(i), "master", "bridge0", "up"])
        run(["ip", "-n", name(i), "link", "set", "lo", "up"])
        run(["ip", "-n", name(i), "addr", "add", f"{address(i)}/24", "dev",
             "eth0"])
        run(["ip", "-n", name(i), "link", "set", "eth0", "up"])
        if self.rate:
            run(tbf(self.rate, port(i)))
            run(["ip", "netns", "exec", name(i)] + tbf(self.rate, "eth0"))

    def start(self, i, command, env=None, **options):
        """A process on host i: its Popen, in a process group of its own."""
        process = subprocess.Popen(on_host(i) + command, env=env,
                                   start_new_session=True, **options)
        self.processes.append(process)
        return process

    def stop(self):
        """Kills what is left of what was started."""
        for process in self.processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        self.processes = []

    def link(self, i, is_up):
        """Takes the network of host i down, or brings it back."""
        run(["ip", "link", "set", port(i), "up" if is_up else "down"])


def name(i):
    return f"h{i}"


def address(i):
    return f"10.77.0.{i}"


def port(i):
    return f"port{i}"


def tbf(rate, device):
    return ["tc", "qdisc", "add", "dev", device, "root", "tbf", "rate", rate,
            "burst", "512kb", "latency", "50ms"]


def on_host(i):
    """What a command on host i begins with."""
    return ["nsenter", f"--net=/run/netns/{name(i)}", "unshare", "--uts",
            "--mount", "sh", "-c", f'hostname {name(i)}; exec "$@"', name(i)]


def remote_shell(argv):
    """As ssh: [OPTION]... HOST COMMAND...; the host by name or address."""
    while argv and argv[0].startswith("-"):
        argv = argv[1:]
    i = int(argv[0].rsplit(".", 1)[-1].lstrip("h"))
    command = on_host(i) + ["sh", "-c", " ".join(argv[1:])]
    os.execvp(command[0], command)


if __name__ == "__main__":
    remote_shell(sys.argv[1:])
