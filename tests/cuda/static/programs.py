"""The programs whose kernels are measured, and the program that measures them."""
import collections
import glob
import os
import subprocess

Kernel = collections.namedtuple("Kernel", "name line form items blocks bytes runs")

# Devices that a program is compiled for, where they are not two.
DEVICES = {"ragged": "cuda:0-2", "write": "cuda:0"}


# A program's path from the root, and how it is compiled; if it is not the file's
# name alone, what it is called.
Source = collections.namedtuple("Source", "path devices tf32 defines name",
                                defaults=[False, (), ""])

# Contractions of the sizes that tiles are made for; too large for the emulator.
LARGE = [Source("tests/bench/gpu/gpt2.tfd", "cuda:0"),
         Source("tests/bench/gpu/gpt2.tfd", "cuda:0", True),
         Source("tests/bench/gpu/gpt2.tfd", "cuda:0", True, ("BF16=true",),
                "gpt2_bf16"),
         Source("docs/examples/charlm.tfd", "cuda:0", True),
         Source("docs/examples/convnet.tfd", "cuda:0", True)]


def name_of(source):
    stem = os.path.basename(source.path).removesuffix(".tfd")
    return source.name or stem + ("_tf32" if source.tf32 else "")


def examples(root):
    """The sources of all examples, at their own sizes."""
    paths = sorted(glob.glob(os.path.join(root, "docs/examples/*.tfd")))
    names = [os.path.basename(p).removesuffix(".tfd") for p in paths]
    return [Source(f"docs/examples/{n}.tfd", DEVICES.get(n, "cuda:0-1"))
            for n in names]


class Program:
    """A program, compiled: .kernels by name, the PTX in files, and launches of
    kernels on the emulator."""

    def __init__(self, measure, root, folder, source):
        self.name, self.tf32 = name_of(source), source.tf32
        self.out = os.path.join(folder, self.name)
        self.process = subprocess.Popen(
            [measure, *(["--tf32"] if source.tf32 else []), root, self.out,
             source.path, source.devices, *source.defines],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.kernels = dict(self.read_kernels())

    def read_kernels(self):
        for line in self.process.stdout:
            words = line.split()
            if words == ["end"]:
                return
            yield words[1], Kernel(words[1], int(words[2]), words[3],
                                   *map(int, words[4:]))
        raise SystemExit(f"{self.name}: measure ended early")

    def text(self, target):
        return f"{self.out}.{target}.ptx"

    def launch(self, name, target, grid, blocks=0):
        """Counts of the first blocks (0: all) of a launch on the emulator."""
        self.process.stdin.write(f"{name} {target} {grid} {blocks}\n")
        self.process.stdin.flush()
        words = self.process.stdout.readline().split()
        if words[:3] != ["launch", name, target]:
            raise SystemExit(f"{self.name}: measure did not launch {name}")
        return {k: int(v) for k, v in (w.split("=") for w in words[3:])}

    def close(self):
        self.process.stdin.close()
        if self.process.wait():
            raise SystemExit(f"{self.name}: measure failed")
