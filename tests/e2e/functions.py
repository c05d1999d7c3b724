#!/usr/bin/env python3
"""functions.py > programs/functions_values.tfd: what JAX and Optax compute.

The values of functions and their gradients (of a sum with the weights W) on
fixed numbers, in f64, for programs/functions.tfd.  It needs jax and optax,
which no suite does: run it when a function is added.
"""
import jax
import jax.numpy as jnp
import numpy as np
import optax

jax.config.update("jax_enable_x64", True)

X = [[0.5, -1.25, 2.25], [-3.5, 0.75, 4.0]]
Y = [[1.0, 0.0, 1.0], [0.0, 1.0, 0.0]]
P = [[0.9, 0.2, 0.15], [0.5, 0.85, 0.3]]
I = [[2, 0], [1, 1]]
LABELS = [2, 0]
BY_CLASS = [0.5, 2.0, 1.25]
W = [[0.3, -0.7, 1.1], [0.2, 0.9, -0.4]]
BIG = [[-800.0, -40.0, 0.0], [1e-9, 40.0, 800.0]]


def bce(p, y):
    return -(y * jnp.log(p) + (1 - y) * jnp.log1p(-p))


def cross_entropy(x, y, weight=1.0, smooth=0.0):
    """Each sample's, as torch.nn.CrossEntropyLoss defines it with reduction="none"."""
    y = (1 - smooth) * y + smooth / y.shape[-1]
    return -(weight * y * jax.nn.log_softmax(x)).sum(axis=-1)


HOT = jax.nn.one_hot(jnp.asarray(LABELS), 3)
ROWS = jnp.arange(2)[:, None]
FUNCTIONS = {
    "norm": lambda x, y, p: jnp.linalg.norm(x),
    "norm_rows": lambda x, y, p: jnp.linalg.norm(x, axis=1),
    "std": lambda x, y, p: jnp.std(x),
    "std_columns": lambda x, y, p: jnp.std(x, axis=0, ddof=1),
    "hypot": lambda x, y, p: jnp.hypot(x, p),
    "softplus": lambda x, y, p: jax.nn.softplus(x),
    "bce_logits": lambda x, y, p: optax.sigmoid_binary_cross_entropy(x, y).mean(axis=1),
    "bce": lambda x, y, p: bce(p, y).mean(axis=1) + 0 * x.mean(axis=1),
    "huber": lambda x, y, p: optax.huber_loss(x, y).mean(axis=1),
    "huber_wide": lambda x, y, p: optax.huber_loss(x, y, delta=2.5).mean(axis=1),
    "slice": lambda x, y, p: jax.lax.dynamic_slice(x, (0, 1), (2, 2)),
    "cross": lambda x, y, p: cross_entropy(x, HOT),
    "cross_by_class": lambda x, y, p: cross_entropy(x, HOT, jnp.asarray(BY_CLASS), 0.1),
    "cross_of_shares": lambda x, y, p: optax.softmax_cross_entropy(x, jax.nn.softmax(p)),
    "cross_mean": lambda x, y, p: cross_entropy(x, HOT, jnp.asarray(BY_CLASS)).sum()
    / (HOT * jnp.asarray(BY_CLASS)).sum(),
    "taken": lambda x, y, p: jnp.take_along_axis(x, jnp.asarray(I), axis=1),
    "put": lambda x, y, p: x.at[ROWS, jnp.asarray([[2, 0], [1, 2]])].set(p[:, :2]),
    "added": lambda x, y, p: x.at[ROWS, jnp.asarray(I)].add(p[:, :2]),
    "least": lambda x, y, p: -jax.lax.top_k(-x, 2)[0],
    "pad": lambda x, y, p: jnp.pad(x, ((1, 0), (0, 2))),
}


def text(a):
    a = np.asarray(a)
    return repr(float(a)) if a.ndim == 0 else "[" + ", ".join(text(e) for e in a) + "]"


def declare(name, value):
    dims = ", ".join(str(d) for d in np.shape(value))
    print(f"var {name}: f64{'[' + dims + ']' if dims else ''} = {text(value)} trainable(false)")


def weights(shape):
    return jnp.resize(jnp.asarray(W).ravel(), shape)


print("# functions_values.tfd: written by tests/e2e/functions.py")
for name, value in (("X", X), ("Y", Y), ("P", P), ("W", W), ("BIG", BIG)):
    declare(name, value)
args = tuple(jnp.asarray(a) for a in (X, Y, P))
for name, f in FUNCTIONS.items():
    value = f(*args)
    over = 2 if name == "bce" else 0

    def loss(*a):
        return jnp.sum(f(*a) * weights(value.shape))

    declare(f"{name}_value", value)
    declare(f"{name}_weights", weights(value.shape))
    declare(f"{name}_slope", jax.grad(loss, argnums=over)(*args))
SPREAD = [-0.5, 0.0, 0.5, 1.0, 1.75, 2.0, 2.25]
print(f"var bin_counts: i64[5] = {np.bincount([1, 0, 3, 1], minlength=5).tolist()}")
print(f"var spread: i64[4] = {np.histogram(SPREAD, 4, (0.0, 2.0))[0].tolist()}")
declare("softplus_big", jax.nn.softplus(jnp.asarray(BIG)))
