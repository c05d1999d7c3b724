#!/usr/bin/env python3
"""convolutions.py > programs/convolutions.tfd: what PyTorch computes.

For convolutions, transposed ones and pooling, each with a stride, a padding, a
dilation and groups: the sum of the result with fixed weights, and the sums of
its gradients by x and w with fixed weights, in f64.  It needs torch, which no
suite does: run it when a case is added.
"""
import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)

HEAD = """# convolutions.tfd: written by tests/e2e/convolutions.py
fn numbers(shape, n, a, b) = reshape(sin(f64(a) * iota((n,), dtype = f64) + f64(b)), shape)
"""

# name, shape of x, shape of w (None: pooling), arguments
CASES = [
    ("conv1d", (2, 9, 3), (3, 3, 4), {}),
    ("conv1d", (2, 9, 3), (3, 3, 4), dict(stride=2, padding=((2, 0),))),
    ("conv1d", (2, 9, 4), (3, 2, 6), dict(padding="same", dilation=2, groups=2)),
    ("conv2d", (2, 6, 7, 3), (3, 2, 3, 5), dict(padding="same", stride=(2, 3))),
    ("conv2d", (2, 6, 7, 3), (3, 3, 3, 5), dict(padding=1, stride=2)),
    ("conv2d", (2, 6, 7, 8), (3, 3, 8, 6), dict(padding=1, stride=2)),
    ("conv2d", (2, 6, 7, 8), (1, 1, 8, 6), dict(stride=2)),
    ("conv2d", (2, 8, 8, 8), (3, 3, 8, 6), dict(padding=(2, 1), stride=(3, 2), dilation=(2, 3))),
    ("conv2d", (2, 6, 7, 5), (3, 3, 1, 5), dict(padding="same", groups=5)),
    ("conv2d", (2, 6, 7, 5), (5, 5, 1, 10), dict(padding="same", stride=2, groups=5)),
    ("conv2d", (2, 6, 7, 16), (3, 3, 1, 16), dict(padding=((1, 2), (0, 1)), stride=2, groups=16)),
    ("conv2d", (2, 6, 7, 8), (3, 3, 4, 6), dict(padding=1, stride=2, dilation=2, groups=2)),
    ("conv3d", (1, 4, 5, 6, 3), (2, 3, 3, 3, 4), dict(padding=(1, 0, 1), stride=(1, 2, 1))),
    ("conv3d", (1, 4, 5, 6, 4), (3, 1, 2, 1, 8), dict(padding="same", dilation=(2, 1, 2), groups=4)),
    ("conv_transpose1d", (2, 5, 4), (3, 3, 4), dict(stride=2, padding=1, output_padding=1)),
    ("conv_transpose2d", (2, 4, 5, 4), (3, 3, 8, 4), {}),
    ("conv_transpose2d", (2, 4, 5, 8), (3, 4, 5, 8), dict(stride=(2, 3), padding=(1, 0), output_padding=(1, 2))),
    ("conv_transpose2d", (2, 4, 5, 8), (3, 3, 3, 8), dict(stride=3, dilation=2, padding=2, groups=4)),
    ("conv_transpose2d", (2, 4, 5, 6), (4, 4, 6, 6), dict(stride=2, padding="same")),
    ("conv_transpose3d", (1, 2, 3, 4, 4), (2, 3, 2, 3, 4), dict(stride=(1, 2, 2), padding=(0, 1, 0), groups=2)),
    ("max_pool1d", (2, 9, 3), None, dict(size=3, stride=2, padding=1)),
    ("max_pool2d", (2, 6, 7, 3), None, dict(size=(3, 2), stride=2, padding="same")),
    ("max_pool3d", (1, 4, 5, 6, 2), None, dict(size=2)),
    ("avg_pool1d", (2, 9, 3), None, dict(size=3, stride=2, padding=1)),
    ("avg_pool2d", (2, 6, 7, 3), None, dict(size=(2, 3), stride=1)),
    ("avg_pool3d", (1, 4, 5, 6, 2), None, dict(size=2, padding="same")),
]


def numbers(shape, a, b):
    n = 1
    for d in shape:
        n *= d
    return torch.sin(a * torch.arange(n) + b).reshape(shape)


def each(value, n):
    return tuple(value) if isinstance(value, tuple) else (value,) * n


def channels_first(x):
    return x.movedim(-1, 1)


def sides(padding, sizes, reaches, strides):
    """(before, after) for each axis."""
    n = len(sizes)
    if padding == "valid":
        return ((0, 0),) * n
    if padding == "same":
        outside = [max(0, (-(-s // t) - 1) * t + r - s)
                   for s, r, t in zip(sizes, reaches, strides)]
        return tuple((o // 2, o - o // 2) for o in outside)
    return tuple(p if isinstance(p, tuple) else (p, p) for p in each(padding, n))


def padded(x, before_after, value=0.0):
    flat = [p for pair in reversed(before_after) for p in pair]
    return F.pad(x, flat, value=value)


def convolution(name, n, x, w, stride=1, padding="valid", dilation=1, groups=1):
    stride, dilation = each(stride, n), each(dilation, n)
    reaches = [(k - 1) * d + 1 for k, d in zip(w.shape, dilation)]
    x = padded(channels_first(x), sides(padding, x.shape[1:-1], reaches, stride))
    w = w.movedim((-1, -2), (0, 1))
    y = getattr(F, name)(x, w, stride=stride, dilation=dilation, groups=groups)
    return y.movedim(1, -1)


def transposed(name, n, x, w, padding="valid", groups=1, stride=1, **more):
    if padding == "same":
        padding = tuple((k - s) // 2 for k, s in zip(w.shape, each(stride, n)))
    elif padding == "valid":
        padding = 0
    w = w.movedim((-1, -2), (0, 1))  # [channels, new channels of a group, ...]
    y = getattr(F, name)(channels_first(x), w, padding=padding, groups=groups,
                         stride=stride, **more)
    return y.movedim(1, -1)


def pooling(name, n, x, size, stride=None, padding="valid"):
    size = each(size, n)
    stride = each(size if stride is None else stride, n)
    around = sides(padding, x.shape[1:-1], size, stride)
    x = channels_first(x)
    if name.startswith("max"):
        y = getattr(F, name)(padded(x, around, float("-inf")), size, stride)
    else:
        pool = getattr(F, name)
        y = pool(padded(x, around), size, stride)
        y = y / pool(padded(torch.ones_like(x), around), size, stride)
    return y.movedim(1, -1)


def written(value):
    if isinstance(value, tuple):
        return "(" + ", ".join(written(v) for v in value) + ("," if len(value) == 1 else "") + ")"
    return f'"{value}"' if isinstance(value, str) else str(value)


def sums(name, x_shape, w_shape, options):
    n = int(name[-2])
    x = numbers(x_shape, 0.7, 0.2).requires_grad_()
    if w_shape is None:
        y = pooling(name, n, x, **options)
        of = (x,)
    else:
        w = numbers(w_shape, 0.9, 0.4).requires_grad_()
        f = transposed if "transpose" in name else convolution
        y = f(name, n, x, w, **options)
        of = (x, w)
    loss = (y * numbers(y.shape, 1.3, 0.5)).sum()
    gradients = torch.autograd.grad(loss, of)
    values = [loss] + [(g * numbers(g.shape, 1.1, 0.3)).sum() for g in gradients]
    return y.shape, [repr(v.item()) for v in values]


def of(shape, a, b):
    return f"numbers({written(tuple(shape))}, {shape.numel()}, {a}, {b})"


def line(i, name, x_shape, w_shape, options):
    words = ", ".join(f"{k} = {written(v)}" for k, v in options.items())
    shapes = {f"x{i}": (x_shape, 0.7, 0.2)}
    if w_shape is not None:
        shapes[f"w{i}"] = (w_shape, 0.9, 0.4)
    lines = [f"  let {v} = {of(torch.Size(s), a, b)}" for v, (s, a, b) in shapes.items()]
    names = ", ".join(shapes)
    y, values = sums(name, x_shape, w_shape, options)
    lines.append(f"  let y{i} = {name}({names}{', ' if words else ''}{words})")
    lines.append(f"  let l{i} = sum(y{i} * {of(y, 1.3, 0.5)})")
    lines.append(f"  let g{i} = grad(l{i}, ({names},))")
    lines.append(f"  is_near(l{i}, {values[0]})")
    for k, (shape, _, _) in enumerate(shapes.values()):
        weights = of(torch.Size(shape), 1.1, 0.3)
        lines.append(f"  is_near(sum(g{i}.{k} * {weights}), {values[k + 1]})")
    return "\n".join(lines)


print(HEAD)
print('fn is_near(got, want) = assert(abs(got - f64(want)) < 1e-9 * (1.0 + abs(f64(want))), "{got} is not {want}")')
print("\nmain {")
for i, case in enumerate(CASES):
    print(line(i, *case))
print("}")
