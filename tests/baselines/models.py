"""The examples' models in JAX, written from their sources and from no code of
tfd's: forward, loss, and the optimizer's step.

Variables are a dictionary by the names that tfd gives them.
"""
import functools
from typing import Any, Callable, NamedTuple

import jax
import jax.numpy as jnp


class Model(NamedTuple):
    loss: Callable     # variables, batch -> (to differentiate, to print)
    begin: Callable    # variables -> state of the optimizer
    update: Callable   # state, variables, gradients -> state, variables
    make_batches: Any  # count -> batches


# ---- layers ------------------------------------------------------------------


def dense(v, name, x):
    return x @ v[name + ".w"] + v[name + ".b"]


def conv(v, name, x):
    y = jax.lax.conv_general_dilated(x, v[name + ".w"], (1, 1), "SAME",
                                     dimension_numbers=("NHWC", "HWIO", "NHWC"))
    return y + v[name + ".b"]


def layer_norm(v, name, x):
    mean = x.mean(-1, keepdims=True)
    variance = x.var(-1, keepdims=True)
    y = (x - mean) / jnp.sqrt(variance + 1e-5)
    return y * v[name + ".scale"] + v[name + ".offset"]


def batch_norm(v, name, x):
    axes = tuple(range(x.ndim - 1))
    y = (x - x.mean(axes)) / jnp.sqrt(x.var(axes) + 1e-5)
    return y * v[name + ".scale"] + v[name + ".offset"]


def cross_entropy(logits, labels):
    chosen = jnp.take_along_axis(logits, labels[..., None], -1)[..., 0]
    return jax.nn.logsumexp(logits, axis=-1) - chosen


def max_pool(x):
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1),
                                 (1, 2, 2, 1), "VALID")


# ---- models ------------------------------------------------------------------


def spiral_loss(v, batch):
    x, labels = batch
    h = jax.nn.relu(dense(v, "model.hidden.0", x))
    h = jax.nn.relu(dense(v, "model.hidden.1", h))
    losses = cross_entropy(dense(v, "model.out", h), labels)
    return losses.sum() / 96, losses.mean()


def convnet_loss(v, batch):
    x, labels = batch
    h = max_pool(jax.nn.relu(conv(v, "net.stem", x)))
    for i in range(3):
        block = f"net.blocks.{i}"
        y = batch_norm(v, block + ".norm1", conv(v, block + ".conv1", h))
        y = conv(v, block + ".conv2", jax.nn.relu(y))
        h = jax.nn.relu(h + batch_norm(v, block + ".norm2", y))
    losses = cross_entropy(dense(v, "net.head", h.mean((1, 2))), labels)
    return losses.sum() / 64, losses.sum()


def attention(v, name, x, heads=4):
    b, s, c = x.shape
    q, k, values = jnp.split(dense(v, name + ".qkv", x), 3, axis=-1)
    q, k, values = (a.reshape(b, s, heads, c // heads)
                    for a in (q, k, values))
    score = jnp.einsum("bshd,bthd->bhst", q, k) / jnp.sqrt(c // heads)
    score = jnp.where(jnp.tril(jnp.ones((s, s), bool)), score, -1e9)
    found = jnp.einsum("bhst,bthd->bshd", jax.nn.softmax(score), values)
    return dense(v, name + ".proj", found.reshape(b, s, c))


def charlm_loss(v, batch):
    window, = batch
    ids, following = window[:, :-1], window[:, 1:]
    x = v["gpt.tokens"][ids] + v["gpt.places"][:ids.shape[1]]
    for i in range(2):
        block = f"gpt.blocks.{i}"
        x = x + attention(v, block + ".att", layer_norm(v, block + ".ln1", x))
        up = dense(v, block + ".up", layer_norm(v, block + ".ln2", x))
        x = x + dense(v, block + ".down", jax.nn.gelu(up, approximate=False))
    logits = layer_norm(v, "gpt.ln", x) @ v["gpt.tokens"].T
    loss = cross_entropy(logits, following).mean()
    return loss, loss


def lstm_loss(v, batch):
    x, labels = batch
    w, u, b = v["lstm.w"], v["lstm.u"], v["lstm.b"]

    def step(state, given):
        h, c = state
        entry, keep, new, leave = jnp.split(given @ w + h @ u + b, 4, axis=-1)
        c = jax.nn.sigmoid(keep) * c + jax.nn.sigmoid(entry) * jnp.tanh(new)
        h = jax.nn.sigmoid(leave) * jnp.tanh(c)
        return (h, c), h

    zeros = jnp.zeros((x.shape[0], u.shape[0]), x.dtype)
    _, states = jax.lax.scan(step, (zeros, zeros), x.swapaxes(0, 1))
    logits = dense(v, "head", states[-1]) + dense(v, "head", states.mean(0))
    losses = cross_entropy(logits, labels)
    return losses.mean(), losses.mean()


# ---- optimizers --------------------------------------------------------------


def zeros_like(v):
    return {name: jnp.zeros_like(x) for name, x in v.items()}


def moments_begin(v):
    return {"t": jnp.zeros((), int), "m": zeros_like(v), "s": zeros_like(v)}


def adam_update(state, v, g, lr, decay=0.0):
    t = state["t"] + 1
    m = {n: 0.9 * state["m"][n] + (1 - 0.9) * g[n] for n in v}
    s = {n: 0.999 * state["s"][n] + (1 - 0.999) * g[n] ** 2 for n in v}
    power = t.astype(v[next(iter(v))].dtype)

    def moved(n):
        mean = m[n] / (1 - 0.9 ** power)
        size = jnp.sqrt(s[n] / (1 - 0.999 ** power)) + 1e-8
        return v[n] - lr * (mean / size + decay * v[n])

    return {"t": t, "m": m, "s": s}, {n: moved(n) for n in v}


def clipped_adamw_update(state, v, g):
    norm = jnp.sqrt(sum(jnp.sum(x * x) for x in g.values()))
    factor = 1.0 / jnp.maximum(norm, 1.0)
    g = {n: factor * x for n, x in g.items()}
    return adam_update(state, v, g, 3e-3, decay=0.1)


def momentum_update(state, v, g):
    m = {n: 0.9 * state[n] + g[n] for n in v}
    return m, {n: v[n] - 0.05 * m[n] for n in v}


# ---- the table ---------------------------------------------------------------


def make_models(data, text):
    adam = functools.partial(adam_update, lr=0.01)
    return {
        "spiral": Model(spiral_loss, moments_begin, adam, data.spiral),
        "convnet": Model(convnet_loss, zeros_like, momentum_update,
                         data.convnet),
        "charlm": Model(charlm_loss, moments_begin, clipped_adamw_update,
                        functools.partial(data.charlm, text=text)),
        "lstm": Model(lstm_loss, moments_begin, adam, data.lstm),
    }
