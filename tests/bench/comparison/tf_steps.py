"""The operations of models.py in TensorFlow, and its training step, as a function or by XLA."""
import tensorflow as tf

from values import Unsupported, is_trainable


class Ops:
    def __init__(self, variables):
        self.variables = variables

    relu, relu6, mean = staticmethod(tf.nn.relu), staticmethod(tf.nn.relu6), staticmethod(tf.reduce_mean)
    stack, concat, reshape = staticmethod(tf.stack), staticmethod(tf.concat), staticmethod(tf.reshape)
    split = staticmethod(lambda x, n: tf.split(x, n, -1))
    gelu = staticmethod(tf.nn.gelu)

    def operation(self, row, i):
        raise Unsupported("operations are written for JAX and PyTorch")

    def var(self, name):
        return tf.convert_to_tensor(self.variables[name])

    def linear(self, name, x):
        w, b = self.var(name + ".w"), self.var(name + ".b")
        flat = tf.matmul(tf.reshape(x, (-1, x.shape[-1])), w) if x.shape.rank > 2 else tf.matmul(x, w)
        return tf.reshape(tf.nn.bias_add(flat, b), (*x.shape[:-1], w.shape[-1]))

    def rows(self, name, ids):
        return tf.gather(self.variables[name], ids)

    sparse_rows = rows

    def layer_norm(self, name, x):
        y = tf.cast(x, tf.float32)
        mean, variance = tf.nn.moments(y, -1, keepdims=True)
        scale, offset = (tf.cast(self.var(f"{name}.{n}"), tf.float32) for n in ("scale", "offset"))
        return tf.cast(tf.nn.batch_normalization(y, mean, variance, offset, scale, 1e-5), x.dtype)

    def batch_norm(self, name, x):
        y, mean, variance = tf.compat.v1.nn.fused_batch_norm(
            x, self.var(name + ".scale"), self.var(name + ".offset"), epsilon=1e-5)
        for what, value in (("mean", mean), ("variance", variance)):
            average = self.variables[f"{name}.{what}_average"]
            average.assign(0.9 * average + 0.1 * value)
        return y

    def conv(self, name, x, stride, groups):
        w = self.var(name + ".w")
        around = [[0, 0], [w.shape[0] // 2] * 2, [w.shape[1] // 2] * 2, [0, 0]]
        strides = [1, stride, stride, 1]
        if groups == 1:
            return tf.nn.conv2d(x, w, strides, around)
        return tf.nn.depthwise_conv2d(tf.pad(x, around), tf.transpose(w, (0, 1, 3, 2)), strides,
                                      "VALID")

    def lstm(self, name, x):
        w, u, b = (self.var(f"{name}.{n}") for n in "wub")
        given = tf.transpose(tf.matmul(x, w) + b, (1, 0, 2))
        steps, rows, _ = given.shape

        def step(t, h, c, out):
            entry, keep, new, leave = tf.split(given[t] + tf.matmul(h, u), 4, -1)
            c = tf.sigmoid(keep) * c + tf.sigmoid(entry) * tf.tanh(new)
            h = tf.sigmoid(leave) * tf.tanh(c)
            return t + 1, h, c, out.write(t, h)

        zeros = tf.zeros((rows, u.shape[0]))
        out = tf.TensorArray(tf.float32, steps, element_shape=zeros.shape)
        *_, out = tf.while_loop(lambda t, *_: t < steps, step, (0, zeros, zeros, out),
                                maximum_iterations=steps)
        return tf.transpose(out.stack(), (1, 0, 2))

    @staticmethod
    def image(x):
        return x

    @staticmethod
    def mean_of_pixels(x):
        return tf.reduce_mean(x, (1, 2))

    @staticmethod
    def turned(x):
        return tf.linalg.matrix_transpose(x)

    @staticmethod
    def heads(x, n):
        return tf.transpose(tf.reshape(x, (*x.shape[:2], n, -1)), (0, 2, 1, 3))

    @staticmethod
    def joined(x):
        return tf.reshape(tf.transpose(x, (0, 2, 1, 3)), (x.shape[0], x.shape[2], -1))

    @staticmethod
    def causal_attention(q, k, v):
        score = tf.cast(tf.matmul(q, k, transpose_b=True), tf.float32) * q.shape[-1] ** -0.5
        seen = tf.linalg.band_part(tf.ones(score.shape[-2:], tf.bool), -1, 0)
        return tf.matmul(tf.cast(tf.nn.softmax(tf.where(seen, score, -1e9)), v.dtype), v)

    @staticmethod
    def cross_entropy(logits, labels):
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels, tf.cast(logits, tf.float32)))

    @staticmethod
    def binary_cross_entropy(logits, labels):
        return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(
            tf.cast(labels, logits.dtype), logits))


def sgd(rate, v, g):
    if isinstance(g, tf.IndexedSlices):
        v.scatter_sub(tf.IndexedSlices(rate * g.values, g.indices))
    else:
        v.assign_sub(rate * g)


def adam(rate, t, v, m, s, g):
    """TensorFlow's own kernel, whose bias corrections are in its rate; 16 bits are too few for them."""
    if v.dtype != tf.float32:
        g = tf.cast(tf.convert_to_tensor(g), tf.float32)
        new_m = 0.9 * tf.cast(m, tf.float32) + 0.1 * g
        new_s = 0.999 * tf.cast(s, tf.float32) + 0.001 * g * g
        by_m, by_s = 1 - tf.pow(0.9, t), 1 - tf.pow(0.999, t)
        v.assign_sub(tf.cast(rate * (new_m / by_m) / (tf.sqrt(new_s / by_s) + 1e-8), v.dtype))
        m.assign(tf.cast(new_m, m.dtype))
        s.assign(tf.cast(new_s, s.dtype))
        return
    tf.raw_ops.ResourceApplyAdam(
        var=v.handle, m=m.handle, v=s.handle, beta1_power=tf.pow(0.9, t),
        beta2_power=tf.pow(0.999, t), lr=rate, beta1=0.9, beta2=0.999, epsilon=1e-8,
        grad=tf.convert_to_tensor(g))


def mirrored(case, replicas):
    if case.model.batch_norm:
        raise Unsupported("this batch norm is not synchronized")
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * replicas)
    return tf.distribute.MirroredStrategy([f"CPU:{i}" for i in range(replicas)])


class Peer:
    def __init__(self, case, arrays, batches, mode, threads, replicas, rank, port):
        del rank, port
        tf.config.threading.set_intra_op_parallelism_threads(threads)
        tf.config.threading.set_inter_op_parallelism_threads(threads)
        self.case = case
        self.strategy = mirrored(case, replicas) if replicas > 1 else tf.distribute.get_strategy()
        with self.strategy.scope():
            self.variables = {n: tf.Variable(a, trainable=is_trainable(n)) for n, a in arrays.items()}
            self.trainable = [v for v in self.variables.values() if v.trainable]
            zeros = [[tf.Variable(tf.zeros_like(v), trainable=False) for v in self.trainable]
                     for _ in range(2)] if case.model.adam else []
            self.slots = list(zip(*zeros)) or [()] * len(self.trainable)
        self.t = tf.Variable(0.0)
        self.batches = [self.placed(batch, replicas) for batch in batches]
        self.compiled = tf.function(self.train if replicas == 1 else self.train_all,
                                    jit_compile=mode == "xla")

    def placed(self, batch, replicas):
        if replicas == 1:
            return [tf.constant(a) for a in batch]
        part = len(batch[0]) // replicas
        return [self.strategy.experimental_distribute_values_from_function(
            lambda ctx, a=a: tf.constant(a[ctx.replica_id_in_sync_group * part:][:part]))
            for a in batch]

    def gradients(self, batch):
        with tf.GradientTape() as tape:
            loss = self.case.model.network(Ops(self.variables), self.case.sizes, *batch)
        return loss, tape.gradient(loss, self.trainable)

    def update(self, t, v, slots, g):
        if self.case.model.adam:
            adam(self.case.model.adam, t, v, *slots, g)
        else:
            sgd(self.case.model.rate, v, g)

    def train(self, *batch):
        loss, grads = self.gradients(batch)
        self.t.assign_add(1.0)
        for v, slots, g in zip(self.trainable, self.slots, grads):
            self.update(self.t, v, slots, g)
        return loss

    def train_all(self, *batch):
        self.t.assign_add(1.0)
        t = tf.identity(self.t)

        def merged(strategy, grads):
            for v, slots, g in zip(self.trainable, self.slots, grads):
                strategy.extended.update(
                    v, lambda v, *rest: self.update(t, v, rest[:-1], rest[-1]), args=(*slots, g))

        def step(*batch):
            loss, grads = self.gradients(batch)
            context = tf.distribute.get_replica_context()
            grads = context.all_reduce(tf.distribute.ReduceOp.MEAN, grads)
            context.merge_call(merged, args=(grads,))
            return loss

        losses = self.strategy.run(step, args=batch)
        return self.strategy.reduce(tf.distribute.ReduceOp.MEAN, losses, axis=None)

    def step(self, i):
        return self.compiled(*self.batches[i % len(self.batches)])

    @staticmethod
    def value(loss):
        return float(loss)


VERSION = "TensorFlow " + tf.__version__
