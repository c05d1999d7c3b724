"""How long a training step takes in tfd and in JAX, on this machine.

  time_steps.py BUILD [--threads 1,2] [--rounds N] [MODEL]...

One device, f32, the examples' own sizes.  Both make a burst of steps in turn,
round after round, each as a process of its own that may use so many cores and
no more; the first steps of a burst are not counted.  A burst gives the median
of its steps; what is printed are the medians of bursts, and of the ratios of
neighbours.  tfd's time is that of its whole loop, input included; JAX's is a
jitted step with donated buffers over batches that are ready.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import data
import models
import programs

BURST = {"spiral": 400, "convnet": 12, "charlm": 24}
WARM_UP = 4

MAIN = """
main {
  mut step = 0
  mut before = now()
  for example in distribute(train.repeat()) {
    let loss = LOSS
    let after = now()
    print("{loss} {after - before:.9f}")
    before = after
    step += 1
    if step == STEPS { break }
  }
}
"""


def use_cores(count):
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:count])


def timed_program(name):
    p = programs.PROGRAMS[name]
    text = programs.before_main(p.source.read_text())
    loss = p.loss.replace("next(it)", "example")
    steps = WARM_UP + BURST[name]
    return text + MAIN.replace("LOSS", loss).replace("STEPS", str(steps))


def tfd_burst(build, plan, threads):
    output = subprocess.run(
        [build + "/tfd-run", plan, "--quiet", "--threads", str(threads),
         "--data", os.path.dirname(plan)],
        check=True, text=True, stdout=subprocess.PIPE,
        preexec_fn=lambda: use_cores(threads)).stdout
    times = [float(line.split()[1]) for line in output.splitlines()]
    return statistics.median(times[WARM_UP:])


def jax_burst(name, threads, work):
    output = subprocess.run(
        [sys.executable, __file__, "--jax", name, work],
        check=True, text=True, stdout=subprocess.PIPE,
        env=dict(os.environ, JAX_PLATFORMS="cpu",
                 XLA_FLAGS="" if threads > 1 else
                 "--xla_cpu_multi_thread_eigen=false"),
        preexec_fn=lambda: use_cores(threads)).stdout
    return json.loads(output)


def run_jax(name, work):
    """A burst in a process of its own: prints the median of its steps."""
    import jax
    import numpy as np
    with open(os.path.join(work, "text.txt"), "rb") as file:
        model = models.make_models(data, file.read())[name]
    shapes = json.load(open(os.path.join(work, name + ".json")))
    source = np.random.default_rng(1)
    variables = {
        n: jax.numpy.asarray(source.normal(0, 0.05, shape), "float32")
        for n, shape in shapes}
    batches = [tuple(x.astype("float32" if x.dtype == float else "int32")
                     for x in batch) for batch in model.make_batches(8)]

    def train_step(state, variables, batch):
        (_, shown), grads = jax.value_and_grad(model.loss, has_aux=True)(
            variables, batch)
        state, variables = model.update(state, variables, grads)
        return state, variables, shown

    step = jax.jit(train_step, donate_argnums=(0, 1))
    state, times = model.begin(variables), []
    for i in range(WARM_UP + BURST[name]):
        before = time.perf_counter()
        state, variables, loss = step(state, variables, batches[i % 8])
        float(loss)
        times.append(time.perf_counter() - before)
    print(json.dumps(statistics.median(times[WARM_UP:])))


def measure(tfd, build, name, threads, rounds):
    plan = tfd.compile(name, timed_program(name))
    with open(tfd.work / f"{name}.json", "w") as file:
        json.dump(tfd.trainable(name), file)
    ours, theirs = [], []
    for _ in range(rounds):
        ours.append(tfd_burst(build, str(plan), threads))
        theirs.append(jax_burst(name, threads, str(tfd.work)))
    ratio = statistics.median(x / y for x, y in zip(ours, theirs))
    print(f"{name:8} {threads:7} {1e3 * statistics.median(ours):10.3f} "
          f"{1e3 * statistics.median(theirs):10.3f} {ratio:8.2f}", flush=True)


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("build")
    options.add_argument("models", nargs="*", default=[])
    options.add_argument("--threads", default="1,2")
    options.add_argument("--rounds", type=int, default=5)
    args = options.parse_intermixed_args()
    import jax
    print(f"milliseconds a step, medians of {args.rounds} bursts; "
          f"JAX {jax.__version__}")
    print(f"{'model':8} {'threads':>7} {'tfd':>10} {'JAX':>10} {'tfd/JAX':>8}")
    with tempfile.TemporaryDirectory(prefix="tfd-peers-") as work:
        tfd = programs.Tfd(args.build, work)
        (tfd.work / "text.txt").write_bytes(programs.make_text())
        for name in args.models or BURST:
            for threads in map(int, args.threads.split(",")):
                measure(tfd, args.build, name, threads, args.rounds)


if __name__ == "__main__":
    if len(sys.argv) == 4 and sys.argv[1] == "--jax":
        run_jax(*sys.argv[2:])
    else:
        main()
