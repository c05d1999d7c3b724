"""A Slurm cluster whose nodes are hosts (hosts.py): one slurmd each, slurmctld
beside the script.

    with hosts.Hosts(3) as machines, slurm.Slurm(machines, folder) as cluster:
        cluster.run(["srun", "-N3", "-n3", "--mpi=pmix", ...])
"""
import os
import shutil
import subprocess
import time

import hosts

TOOLS = ["slurmctld", "slurmd", "srun", "sbatch", "scontrol", "sinfo", "squeue", "munged"]
START_SECONDS = 20
CRED_SECONDS = 5  # so long a requeued job waits; fewer are not heeded

SLURM_CONF = """\
ClusterName=tfd
SlurmctldHost=control(10.77.0.254)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire={cred_seconds}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SchedulerType=sched/builtin
SchedulerParameters=sched_interval=1
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
ReturnToService=2
SlurmdTimeout=30
SwitchType=switch/none
SlurmdParameters=config_overrides
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
{nodes}
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def why_not():
    """Why there is no Slurm here, or None."""
    for tool in TOOLS:
        if not shutil.which(tool):
            return f"there is no program {tool} (Debian: slurm-wlm, munge)"
    if os.getuid() != 0 or is_root_of_one():
        return "slurmd has to be started by root"
    return None


def is_root_of_one():
    """Whether this is a user who is root in a namespace of his own alone."""
    with open("/proc/self/uid_map") as f:
        return f.read().split()[2::3] == ["1"]


class NotStarted(Exception):
    """A daemon of Slurm does not run on this machine."""


class Slurm:
    def __init__(self, machines, folder):
        self.machines = machines
        self.folder = folder
        self.conf = f"{folder}/slurm.conf"
        self.daemons = []

    def __enter__(self):
        self.write_files()
        self.daemon(["munged", "--foreground", "--force",
                     f"--socket={self.folder}/munge.socket",
                     f"--key-file={self.folder}/munge.key",
                     f"--pid-file={self.folder}/munged.pid",
                     f"--seed-file={self.folder}/munged.seed",
                     f"--log-file={self.folder}/munged.log"])
        self.wait_for("munged", lambda: os.path.exists(
            f"{self.folder}/munge.socket"))
        self.daemon(["slurmctld", "-D", "-c", "-f", self.conf])
        for i in range(1, self.machines.num + 1):
            self.daemon(hosts.on_host(i) + [
                "sh", "-c", f"mount -t tmpfs none {self.folder}/pmix; "
                f"exec slurmd -D -f {self.conf} -N {hosts.name(i)}"])
        self.wait_for("the nodes", self.is_idle)
        return self

    def __exit__(self, *_):
        for process in reversed(self.daemons):
            process.kill()
            process.wait()

    def write_files(self):
        for name in ("state", "pmix"):
            os.makedirs(f"{self.folder}/{name}")
        nodes = [f"NodeName={hosts.name(i)} NodeHostname={hosts.name(i)} "
                 f"NodeAddr={hosts.address(i)} CPUs=2 RealMemory=1000"
                 for i in range(1, self.machines.num + 1)]
        with open(self.conf, "w") as f:
            f.write(SLURM_CONF.format(folder=self.folder,
                                      cred_seconds=CRED_SECONDS,
                                      nodes="\n".join(nodes)))
        with open(f"{self.folder}/mpi.conf", "w") as f:
            f.write(f"PMIxCliTmpDirBase={self.folder}/pmix\n")
        with open(os.open(f"{self.folder}/munge.key",
                          os.O_CREAT | os.O_WRONLY, 0o400), "wb") as f:
            f.write(os.urandom(1024))

    def daemon(self, command):
        self.daemons.append(subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL))

    def wait_for(self, what, is_there):
        end = time.monotonic() + START_SECONDS
        while not is_there():
            if time.monotonic() > end:
                self.__exit__()
                raise NotStarted(f"{what} of Slurm did not come up in "
                                 f"{START_SECONDS} s")
            time.sleep(0.05)

    def is_idle(self):
        done = subprocess.run(
            ["sinfo", "-h", "-t", "idle", "-o", "%D"], capture_output=True,
            text=True, env=self.environment(), timeout=START_SECONDS)
        return done.stdout.strip() == str(self.machines.num)

    def environment(self, **more):
        return dict(os.environ, SLURM_CONF=self.conf, **more)

    def run(self, command, timeout, cwd=None, **more):
        """A command of Slurm, run beside slurmctld."""
        return subprocess.run(command, env=self.environment(**more), cwd=cwd,
                              capture_output=True, text=True, timeout=timeout)
