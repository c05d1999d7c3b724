#!/usr/bin/env python3
"""metrics.py > programs/keras_metrics_values.tfd: what Keras's metrics are.

After each of twenty updates with random data, which are numbers that f32 has.
It needs keras and jax, which no suite does: run it when a metric is added
(KERAS_BACKEND=jax).
"""
import math

import jax
import numpy as np

jax.config.update("jax_enable_x64", True)

import keras  # after jax knows that there are 64 bits

keras.config.set_floatx("float64")

UPDATES, ROWS, WIDTH, CLASSES, IGNORED = 20, 5, 3, 4, 3
rng = np.random.default_rng(23)
SHAPE = (UPDATES * ROWS, WIDTH)
X = rng.integers(-200, 200, SHAPE) / 64
Y = rng.integers(-200, 200, SHAPE) / 64
X[7] = 0  # a vector without an angle
P = rng.integers(0, 65, SHAPE[0]) / 64  # 0 and 1 among them
POSITIVE = (rng.integers(0, 65, SHAPE[0]) / 64 < P).astype(int)
LOGITS = rng.integers(-200, 200, (SHAPE[0], CLASSES)) / 64
LABELS = rng.integers(0, CLASSES, SHAPE[0])
TAKEN = rng.integers(0, CLASSES - 1, SHAPE[0])  # one class is never taken

COUNTED = {"sample_weight": (LABELS != IGNORED).astype("float64")}
M = keras.metrics
METRICS = {  # the metric, what it is given, and what its result is
    "mse": (M.MeanSquaredError(), (Y, X), {}),
    "rmse": (M.RootMeanSquaredError(), (Y, X), {}),
    "mae": (M.MeanAbsoluteError(), (Y, X), {}),
    "cosine": (M.CosineSimilarity(), (Y, X), {}),
    "log_loss": (M.BinaryCrossentropy(), (POSITIVE[:, None], P[:, None]), {}),
    "precise": (M.PrecisionAtRecall(0.75), (POSITIVE, P), {}),
    "precise_coarse": (M.PrecisionAtRecall(0.5, 11), (POSITIVE, P), {}),
    "iou": (M.MeanIoU(CLASSES), (LABELS, TAKEN), {}),
    "iou_absent": (M.MeanIoU(CLASSES + 2), (LABELS, TAKEN), {}),
    "iou_ignoring": (M.MeanIoU(CLASSES, ignore_class=IGNORED),
                     (LABELS, TAKEN), {}),
    # Of keras_hub: e to the power of this mean.
    "perplexity": (M.SparseCategoricalCrossentropy(from_logits=True),
                   (LABELS, LOGITS), {}),
    "perplexity_ignoring": (M.SparseCategoricalCrossentropy(from_logits=True),
                            (LABELS, LOGITS), COUNTED),
}


def text(values):
    if np.ndim(values) == 0:
        return repr(values.item())
    return "[%s]" % (",\n  " if np.ndim(values) > 1 else ", ").join(
        text(v) for v in values)


def results(name):
    metric, data, weights = METRICS[name]
    for i in range(0, SHAPE[0], ROWS):
        rows = slice(i, i + ROWS)
        metric.update_state(*[np.asarray(d[rows], "float64") for d in data],
                            **{w: v[rows] for w, v in weights.items()})
        value = float(metric.result())
        yield math.exp(value) if name.startswith("perplexity") else value


print("# Made by metrics.py, from Keras %s." % keras.__version__)
for name, values in {"x": X, "y": Y, "p": P, "positive": POSITIVE,
                     "logits": LOGITS, "labels": LABELS,
                     "taken": TAKEN}.items():
    print("let %s = %s" % (name, text(values)))
print("let of_keras = [\n  %s]" % ",\n  ".join(
    text(np.array(list(results(name)))) for name in METRICS))
print("let names = [%s]" % ", ".join('"%s"' % name for name in METRICS))
