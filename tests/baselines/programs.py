"""tfd's side: an example's own step, with a main that shows what it did.

The example stays as it is: its text before main is copied, `grad(...)` handed
through `keep`, and a main is added that prints every variable and gradient in
full.  An edit that does not find its place once is an error.
"""
import pathlib
import re
import subprocess
from typing import NamedTuple

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]

KEEP = """
module Keep {
  slot g = zeros
  fn all(vars, grads, aggregated = false) {
    update_each(vars, grads, aggregated, fn(v, x) { g[v] = x })
    return grads
  }
}
let keep = Keep()

fn show(v) {
  let flat = reshape(v, (-1,))
  let whole = shape(flat)[0] // 512
  for i in 0..whole { print("{slice(flat, (i * 512,), (512,)):.17g}") }
  print("{flat[whole * 512:]:.17g}")
}
"""

MAIN = """
main {
  print("= variables")
  for v in trainable() { show(v) }
  let it = iter(distribute(train))
  for step in 0..STEPS {
    let loss = LOSS
    print("= loss {loss:.17g}")
    for v in trainable() { show(keep.g[v]) }
    print("= variables")
    for v in trainable() { show(v) }
  }
}
"""


class Program(NamedTuple):
    source: pathlib.Path
    grad: str        # what the step says
    kept: str        # and what keeps it too
    loss: str        # as its main computes it


STEP = "run train_step(next(it))"

PROGRAMS = {
    "spiral": Program(
        ROOT / "docs/examples/spiral.tfd",
        "grad(sum(loss) / f32(BATCH), vars)",
        "keep.all(vars, grad(sum(loss) / f32(BATCH), vars))",
        f"reduce(mean, {STEP}, axis = 0)"),
    "convnet": Program(
        ROOT / "docs/examples/convnet.tfd",
        "grad(sum(loss) / f32(BATCH), vars)",
        "keep.all(vars, grad(sum(loss) / f32(BATCH), vars))",
        f"reduce(sum, {STEP}, axis = 0)"),
    "charlm": Program(
        ROOT / "docs/examples/charlm.tfd",
        "all_reduce(sum, grad(loss, vars))",
        "keep.all(vars, all_reduce(sum, grad(loss, vars)), aggregated = true)",
        f"reduce(sum, {STEP})"),
    "lstm": Program(
        ROOT / "tests/baselines/lstm.tfd",
        "grad(loss, vars)",
        "keep.all(vars, grad(loss, vars))",
        f"reduce(sum, {STEP})"),
}


def make_text():
    """What charlm learns: some 100 KB of our own pages."""
    pages = sorted((ROOT / "docs").glob("*.md"))
    return b"".join(page.read_bytes() for page in pages)[:100_000]


def before_main(text):
    head, found, _ = text.partition("\nmain {")
    if not found:
        raise SystemExit("peers: an example without main")
    return head


def edited(text, old, new):
    if text.count(old) != 1:
        raise SystemExit(f'peers: "{old}" is not there once')
    return text.replace(old, new)


def showing(name, steps):
    """The program that shows `steps` steps of an example."""
    p = PROGRAMS[name]
    text = edited(before_main(p.source.read_text()), p.grad, p.kept)
    main = MAIN.replace("STEPS", str(steps)).replace("LOSS", p.loss)
    return text + "\n" + KEEP + main


def call(*command):
    done = subprocess.run([str(word) for word in command], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode:
        raise SystemExit(f"peers: {' '.join(map(str, command))}\n{done.stderr}")
    return done.stdout


class Tfd:
    """The two programs of a build, at work in a folder."""

    def __init__(self, build, work):
        self.build, self.work = pathlib.Path(build), pathlib.Path(work)

    def compile(self, name, text, *options):
        source, plan = self.work / f"{name}.tfd", self.work / f"{name}.tfp"
        source.write_text(text)
        call(self.build / "tfdc", source, "-o", plan, *options)
        return plan

    def run(self, plan, *options):
        return call(self.build / "tfd-run", plan, "--data", self.work, "--quiet",
                    *options)

    def trainable(self, name):
        """Name and shape of each variable, in the order of trainable()."""
        ir = call(self.build / "tfdc", self.work / f"{name}.tfd", "--to", "ir")
        found = re.findall(r"^var @(\S+): f32(?:\[([\d, ]*)\])? .*\btrainable\b",
                           ir, re.M)
        return [(v, tuple(int(d) for d in dims.split(",") if d))
                for v, dims in found]


def read_values(text, variables):
    """A dictionary of arrays from what show() printed of each variable."""
    numbers = np.array(text.replace("[", " ").replace("]", " ").split(), float)
    values, at = {}, 0
    for name, shape in variables:
        size = int(np.prod(shape, dtype=int))
        values[name] = numbers[at:at + size].reshape(shape)
        at += size
    if at != len(numbers):
        raise SystemExit(f"peers: {len(numbers)} numbers were printed, not {at}")
    return values


def read_steps(output, variables):
    """Initial variables, and of each step its loss, gradients, variables."""
    blocks = [block.split("\n", 1) for block in output.split("= ")[1:]]
    first = read_values(blocks[0][1], variables)
    steps = []
    for (loss, grads), (_, after) in zip(blocks[1::2], blocks[2::2]):
        steps.append((float(loss.split()[1]), read_values(grads, variables),
                      read_values(after, variables)))
    return first, steps
