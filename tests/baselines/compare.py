"""Losses and gradients of tfd's models beside JAX's, in f64.

  compare.py BUILD [MODEL]...   spiral, convnet, charlm, lstm; else all

Both start from tfd's initial values and the same data, and make three steps,
each by its own optimizer.  The error of a tensor is the greatest difference of
two elements, relative to the greatest element; or to 1e-5 of the greatest
gradient of all, since a gradient that is zero but for rounding (a bias before
a batch norm) has no digits of its own.  Exit status 1 when one is above 1e-9.
"""
import os
import sys
import tempfile

os.environ["JAX_ENABLE_X64"] = "1"
os.environ["JAX_PLATFORMS"] = "cpu"

import jax  # noqa: E402
import numpy as np  # noqa: E402

import data  # noqa: E402
import models  # noqa: E402
import programs  # noqa: E402

STEPS = 3
LIMIT = 1e-9


def greatest(values):
    return max(float(np.max(np.abs(x))) for x in values.values())


def errors(ours, theirs):
    """By name, as the head of this file says."""
    least = 1e-5 * greatest(theirs)
    return {name: float(np.max(np.abs(ours[name] - theirs[name])))
            / max(float(np.max(np.abs(theirs[name]))), least, 1e-300)
            for name in theirs}


def worst(by_name):
    name = max(by_name, key=lambda n: (np.isnan(by_name[n]), by_name[n]))
    return by_name[name], name


def jax_steps(model, variables):
    """Loss, gradients and variables after each step."""
    variables = {name: jax.numpy.asarray(x) for name, x in variables.items()}
    value_and_grad = jax.jit(jax.value_and_grad(model.loss, has_aux=True))
    update = jax.jit(model.update)
    state = model.begin(variables)
    for batch in model.make_batches(STEPS):
        (_, shown), grads = value_and_grad(variables, batch)
        state, variables = update(state, variables, grads)
        yield float(shown), grads, variables


def compare(tfd, name, model):
    """Prints a line a step; the greatest error."""
    plan = tfd.compile(name, programs.showing(name, STEPS), "--widen")
    variables = tfd.trainable(name)
    first, ours = programs.read_steps(tfd.run(plan), variables)
    most = 0.0
    for step, (mine, theirs) in enumerate(
            zip(ours, jax_steps(model, first), strict=True)):
        loss = abs(mine[0] - theirs[0]) / abs(theirs[0])
        grad, where = worst(errors(mine[1], theirs[1]))
        var, _ = worst(errors(mine[2], theirs[2]))
        print(f"{name:8} {step + 1:4} {mine[0]:14.9f} {loss:9.1e} {grad:9.1e} "
              f"{var:9.1e}  {len(variables)} tensors, worst {where}",
              flush=True)
        most = max(most, loss, grad, var)
    return most


def main(build, wanted):
    text = programs.make_text()
    table = models.make_models(data, text)
    for name in wanted:
        if name not in table:
            raise SystemExit(f'compare: no model "{name}"')
    most = 0.0
    print("relative errors of tfd --widen against JAX " + jax.__version__)
    print(f"{'model':8} {'step':>4} {'loss':>14} {'of loss':>9} {'gradients':>9} "
          f"{'variables':>9}")
    with tempfile.TemporaryDirectory(prefix="tfd-peers-") as work:
        tfd = programs.Tfd(build, work)
        (tfd.work / "text.txt").write_bytes(text)
        for name in wanted or table:
            most = max(most, compare(tfd, name, table[name]))
    good = most <= LIMIT
    print(f"greatest {most:.1e}, limit {LIMIT:.0e}: {'ok' if good else 'WRONG'}")
    return 0 if good else 1


if __name__ == "__main__":
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    sys.exit(main(sys.argv[1], sys.argv[2:]))
