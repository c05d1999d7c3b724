#!/usr/bin/env python3
"""optimizers.py > programs/keras_values.tfd: what Keras's optimizers compute.

Twenty steps in f64 on random gradients, which are numbers that f32 has, too.
It needs keras and jax, which no suite does: run it when an optimizer is added
(KERAS_BACKEND=jax).
"""
import jax
import numpy as np

jax.config.update("jax_enable_x64", True)

import keras  # after jax knows that there are 64 bits

keras.config.set_floatx("float64")

SIZE, STEPS = 5, 20
rng = np.random.default_rng(15)
GRADIENTS = rng.integers(-200, 200, (STEPS, SIZE)) / 64
START = rng.integers(-100, 100, SIZE) / 64

OPTIMIZERS = {
    "lion": keras.optimizers.Lion(0.05, beta_1=0.8, beta_2=0.95),
    "lion_decay": keras.optimizers.Lion(0.05, weight_decay=0.1),
    "adamax": keras.optimizers.Adamax(0.1),
    "nadam": keras.optimizers.Nadam(0.1, epsilon=1e-8),
    "adadelta": keras.optimizers.Adadelta(1.0, rho=0.9, epsilon=1e-6),
    "ftrl": keras.optimizers.Ftrl(0.5),
    "ftrl_sparse": keras.optimizers.Ftrl(
        0.5, l1_regularization_strength=8.0, l2_regularization_strength=0.2,
        l2_shrinkage_regularization_strength=0.01, beta=0.1,
        learning_rate_power=-0.7, initial_accumulator_value=0.2),
}


def text(values):
    return "[%s]" % ", ".join(repr(float(x)) for x in values)


def trained(optimizer):
    v = keras.Variable(START, dtype="float64")
    optimizer.build([v])
    for g in GRADIENTS:
        optimizer.apply([keras.ops.convert_to_tensor(g, dtype="float64")], [v])
    return keras.ops.convert_to_numpy(v)


print("# Made by optimizers.py, from Keras %s." % keras.__version__)
print("let start = %s" % text(START))
print("let gradients = [%s]" % ",\n  ".join(text(g) for g in GRADIENTS))
for name, optimizer in OPTIMIZERS.items():
    print("fn %s_of_keras() { let x: f64[%d] = %s\n  return x }"
          % (name, SIZE, text(trained(optimizer))))
