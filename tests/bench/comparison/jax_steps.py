"""The operations of models.py in JAX, and its training step, jitted with donated buffers."""
import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from values import is_trainable


class Ops:
    def __init__(self, variables, axis):
        self.variables, self.axis, self.updates = variables, axis, {}

    relu, relu6 = staticmethod(jax.nn.relu), staticmethod(jax.nn.relu6)
    gelu = staticmethod(functools.partial(jax.nn.gelu, approximate=False))
    mean, stack, concat = staticmethod(jnp.mean), staticmethod(jnp.stack), staticmethod(jnp.concatenate)
    reshape = staticmethod(jnp.reshape)

    def var(self, name):
        return self.variables[name]

    def linear(self, name, x):
        return x @ self.var(name + ".w") + self.var(name + ".b")

    def rows(self, name, ids):
        return self.var(name)[ids]

    sparse_rows = rows

    def layer_norm(self, name, x):
        y = x.astype(jnp.float32)
        centred = y - y.mean(-1, keepdims=True)
        y = centred * lax.rsqrt((centred ** 2).mean(-1, keepdims=True) + 1e-5)
        return (y * self.var(name + ".scale") + self.var(name + ".offset")).astype(x.dtype)

    def over_all(self, x):
        x = x.mean((0, 1, 2))
        return lax.pmean(x, self.axis) if self.axis else x

    def batch_norm(self, name, x):
        mean = self.over_all(x)
        variance = self.over_all((x - mean) ** 2)
        for what, value in (("mean", mean), ("variance", variance)):
            average = f"{name}.{what}_average"
            self.updates[average] = 0.9 * self.var(average) + 0.1 * lax.stop_gradient(value)
        normal = (x - mean) * lax.rsqrt(variance + 1e-5)
        return normal * self.var(name + ".scale") + self.var(name + ".offset")

    def conv(self, name, x, stride, groups):
        w = self.var(name + ".w")
        return lax.conv_general_dilated(
            x, w, (stride, stride), [(w.shape[0] // 2,) * 2] * 2,
            dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=groups)

    def lstm(self, name, x):
        w, u, b = (self.var(f"{name}.{n}") for n in "wub")

        def step(state, given):
            h, c = state
            entry, keep, new, leave = jnp.split(given + h @ u, 4, -1)
            c = jax.nn.sigmoid(keep) * c + jax.nn.sigmoid(entry) * jnp.tanh(new)
            h = jax.nn.sigmoid(leave) * jnp.tanh(c)
            return (h, c), h

        zeros = jnp.zeros((x.shape[0], u.shape[0]), x.dtype)
        _, out = lax.scan(step, (zeros, zeros), (x @ w + b).swapaxes(0, 1))
        return out.swapaxes(0, 1)

    @staticmethod
    def image(x):
        return x

    @staticmethod
    def mean_of_pixels(x):
        return x.mean((1, 2))

    @staticmethod
    def split(x, n):
        return jnp.split(x, n, -1)

    @staticmethod
    def turned(x):
        return x.swapaxes(-1, -2)

    @staticmethod
    def heads(x, n):
        return x.reshape(*x.shape[:2], n, -1)  # as dot_product_attention has them

    @staticmethod
    def joined(x):
        return x.reshape(*x.shape[:2], -1)

    @staticmethod
    def causal_attention(q, k, v):
        return jax.nn.dot_product_attention(q, k, v, is_causal=True)

    @staticmethod
    def cross_entropy(logits, labels):
        logs = jax.nn.log_softmax(logits.astype(jnp.float32))
        return -jnp.take_along_axis(logs, labels[..., None], -1).mean()

    @staticmethod
    def binary_cross_entropy(logits, labels):
        return (jax.nn.softplus(logits) - logits * labels).mean()

    def operation(self, row, i):
        y = eval(row.jax, globals(), {**self.variables, "i": i})  # pylint: disable=eval-used
        return jnp.sum(y * y) / 2


def adam(rate, state, values, grads):
    t = state["t"] + 1
    m = jax.tree.map(lambda a, g: 0.9 * a + 0.1 * g, state["m"], grads)
    s = jax.tree.map(lambda a, g: 0.999 * a + 0.001 * g * g, state["s"], grads)
    by_m, by_s = 1 - 0.9 ** t, 1 - 0.999 ** t

    def new_value(v, m, s):
        return (v - rate * (m / by_m) / (jnp.sqrt(s / by_s) + 1e-8)).astype(v.dtype)

    return {"t": t, "m": m, "s": s}, jax.tree.map(new_value, values, m, s)


def sgd(rate, state, values, grads):
    return state, jax.tree.map(lambda v, g: v - rate * g, values, grads)


def make_step(case, axis):
    def loss_of(values, others, batch):
        o = Ops({**values, **others}, axis)
        return case.model.network(o, case.sizes, *batch), o.updates

    def step(state, values, others, *batch):
        (loss, others), grads = jax.value_and_grad(loss_of, has_aux=True)(values, others, batch)
        if axis:
            loss, grads = lax.pmean((loss, grads), axis)
        update = functools.partial(*((adam, case.model.adam) if case.model.adam else (sgd, case.model.rate)))
        state, values = update(state, values, grads)
        return state, values, others, loss

    return step


class Peer:
    def __init__(self, case, arrays, batches, mode, threads, replicas, rank, port):
        del mode, threads, rank, port
        values = {n: jnp.asarray(a) for n, a in arrays.items() if is_trainable(n)}
        others = {n: jnp.asarray(a) for n, a in arrays.items() if not is_trainable(n)}
        state = {}
        if case.model.adam:
            state = {"t": jnp.zeros(()), "m": jax.tree.map(jnp.zeros_like, values),
                     "s": jax.tree.map(jnp.zeros_like, values)}
        self.state, step, place = (state, values, others), make_step(case, None), jnp.asarray
        if replicas > 1:
            mesh = Mesh(np.array(jax.devices()[:replicas]), ("replica",))
            one, divided = PartitionSpec(), PartitionSpec("replica")
            step = jax.shard_map(make_step(case, "replica"), mesh=mesh, check_vma=False,
                                 in_specs=(one, one, one) + (divided,) * len(batches[0]),
                                 out_specs=one)
            place = functools.partial(jax.device_put, device=NamedSharding(mesh, divided))
            self.state = jax.device_put(self.state, NamedSharding(mesh, one))
        self.batches = [tuple(map(place, batch)) for batch in batches]
        self.compiled = jax.jit(step, donate_argnums=(0, 1, 2))

    def step(self, i):
        *self.state, loss = self.compiled(*self.state, *self.batches[i % len(self.batches)])
        return loss

    @staticmethod
    def value(loss):
        return float(loss)


VERSION = "JAX " + jax.__version__
