"""Single operations, which models.py makes models of: with their gradients, and an update by SGD.

A row says the same three times: in tfd, in JAX and in PyTorch. Its variables are
uniform between -1 and 1; the loss is half the sum of the squares of what the
operation gives. i is data: indices below a bound, other ones in each step; or a
one, by which tfd multiplies the loss, since gradients that do not depend on data are
the same on all replicas, and an optimizer refuses to sum them.

Images x are rows, axes, channels, and weights w of convolutions axes, channels,
new channels; PyTorch has both as it wants them, channels first in their shape and last in memory.
"""
import math
from typing import NamedTuple


class Operation(NamedTuple):
    variables: dict        # name -> shape
    tfd: str
    jax: str
    torch: str
    indices: tuple = ()    # the shape of i
    range: tuple = (1, 2)  # of what is in i, the second not included
    flops: int = 0         # of products, forward
    uses: str = ""         # what tfd defines before


def product(formula, tfd="", **variables):
    """An einsum."""
    extents = {}
    for axes, shape in zip(formula.partition("->")[0].split(","), variables.values()):
        extents |= dict(zip(axes, shape))
    call = f'einsum("{formula}", {", ".join(variables)})'
    return Operation(variables, tfd or call, "jnp." + call, "torch." + call,
                     flops=2 * math.prod(extents.values()))


def convolution(x, w, stride=1, dilation=1, groups=1):
    n = len(x) - 2
    pads = [dilation * (k // 2) for k in w[:n]]
    layout = "DHW"[3 - n:]
    places = math.prod((e + 2 * p - dilation * (k - 1) - 1) // stride + 1
                       for e, p, k in zip(x[1:], pads, w))
    return Operation(
        {"x": x, "w": w},
        f"conv{n}d(x, w, stride = {stride}, padding = {pads[0]}, dilation = {dilation}, groups = {groups})",
        f"lax.conv_general_dilated(x, w, {(stride,) * n}, {[(p, p) for p in pads]}, "
        f"rhs_dilation={(dilation,) * n}, feature_group_count={groups}, "
        f"dimension_numbers=('N{layout}C', '{layout}IO', 'N{layout}C'))",
        f"F.conv{n}d(x, w, None, {stride}, {tuple(pads)}, {dilation}, {groups})",
        flops=2 * x[0] * places * math.prod(w))


def same(text, **variables):
    """What JAX spells jnp.NAME and PyTorch torch.NAME."""
    return Operation(variables, text, "jnp." + text, "torch." + text)


OPERATIONS = {
    # Products
    "matmul": product("ij,jk->ik", "a @ b", a=(509, 384), b=(384, 771)),
    "matmul_narrow": product("ij,jk->ik", "a @ b", a=(4096, 64), b=(64, 10)),
    "matmul_thin": product("ij,jk->ik", "a @ b", a=(2048, 3), b=(3, 512)),
    "matmul_few_rows": product("ij,jk->ik", "a @ b", a=(4, 1024), b=(1024, 1024)),
    "matmul_long_sum": product("ij,jk->ik", "a @ b", a=(64, 20000), b=(20000, 64)),
    "matmul_transposed": product("ji,kj->ik", a=(512, 500), b=(640, 512)),
    "matrix_vector": product("ij,j->i", "a @ b", a=(2000, 1500), b=(1500,)),
    "outer": product("i,j->ij", a=(1000,), b=(1200,)),
    "batched_matmul": product("bij,bjk->bik", "a @ b", a=(48, 65, 64), b=(48, 64, 96)),
    "batched_small": product("bij,bjk->bik", "a @ b", a=(1000, 8, 8), b=(1000, 8, 8)),
    "batched_vectors": product("bij,bj->bi", a=(64, 128, 96), b=(64, 96)),
    "bilinear": product("bi,ijk,bk->bj", a=(64, 48), b=(48, 32, 40), c=(64, 40)),
    "pairs": product("bnd,bmd->bnm", a=(128, 27, 64), b=(128, 27, 64)),
    # Convolutions
    "conv1d": convolution((16, 500, 64), (5, 64, 96)),
    "conv3x3": convolution((8, 28, 28, 96), (3, 3, 96, 96)),
    "conv5x5": convolution((8, 28, 28, 32), (5, 5, 32, 64)),
    "conv7x7_stride2": convolution((4, 112, 112, 3), (7, 7, 3, 64), stride=2),
    "conv1x1": convolution((8, 28, 28, 160), (1, 1, 160, 96)),
    "conv3x3_dilated": convolution((4, 32, 32, 64), (3, 3, 64, 64), dilation=2),
    "conv3d": convolution((2, 12, 24, 24, 16), (3, 3, 3, 16, 32)),
    "depthwise3x3": convolution((8, 28, 28, 96), (3, 3, 1, 96), groups=96),
    "depthwise_times2": convolution((8, 28, 28, 96), (3, 3, 1, 192), groups=96),
    "groups_of_3": convolution((8, 28, 28, 96), (3, 3, 3, 96), groups=32),
    "groups_of_4": convolution((8, 28, 28, 128), (3, 3, 4, 128), groups=32),
    "groups_of_6": convolution((8, 28, 28, 96), (3, 3, 6, 96), groups=16),
    "groups_of_16": convolution((8, 28, 28, 128), (3, 3, 16, 128), groups=8),
    "groups_of_64": convolution((8, 28, 28, 128), (3, 3, 64, 128), groups=2),
    # Windows
    "max_pool": Operation(
        {"x": (8, 56, 56, 64)}, "max_pool2d(x, 2)",
        "lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), 'VALID')",
        "F.max_pool2d(x, 2)"),
    "max_pool3x3_stride2": Operation(
        {"x": (8, 56, 56, 64)}, "max_pool2d(x, 3, stride = 2, padding = 1)",
        "lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1),"
        " [(0, 0), (1, 1), (1, 1), (0, 0)])",
        "F.max_pool2d(x, 3, 2, 1)"),
    "avg_pool": Operation(
        {"x": (8, 56, 56, 64)}, "avg_pool2d(x, 2)",
        "lax.reduce_window(x, 0.0, lax.add, (1, 2, 2, 1), (1, 2, 2, 1), 'VALID') / 4",
        "F.avg_pool2d(x, 2)"),
    # Over axes
    "sum_of_rows": Operation({"x": (2000, 1000)}, "sum(x, axis = 1)", "jnp.sum(x, 1)", "torch.sum(x, 1)"),
    "sum_of_columns": Operation({"x": (2000, 1000)}, "sum(x, axis = 0)", "jnp.sum(x, 0)",
                                "torch.sum(x, 0)"),
    "max_of_rows": Operation({"x": (2000, 1000)}, "max(x, axis = 1)", "jnp.max(x, 1)", "torch.amax(x, 1)"),
    "max_of_columns": Operation({"x": (2000, 1000)}, "max(x, axis = 0)", "jnp.max(x, 0)",
                                "torch.amax(x, 0)"),
    "std": Operation({"x": (2000, 1000)}, "std(x, axis = 1)", "jnp.std(x, 1)",
                     "torch.std(x, 1, unbiased=False)"),
    "norm": Operation({"x": (2000, 1000)}, "norm(x, axis = 1)", "jnp.linalg.norm(x, axis=1)",
                      "torch.linalg.vector_norm(x, dim=1)"),
    "cumsum": Operation({"x": (500, 1000)}, "cumsum(x, axis = 1)", "jnp.cumsum(x, 1)",
                        "torch.cumsum(x, 1)"),
    "sort": Operation({"x": (200, 1000)}, "sort(x, axis = 1)", "jnp.sort(x, 1)", "torch.sort(x, 1)[0]"),
    "top_k": Operation({"x": (200, 1000)}, "top_k(x, 10).0", "lax.top_k(x, 10)[0]", "torch.topk(x, 10)[0]"),
    # Normalisations and losses
    "softmax": Operation({"x": (512, 1000)}, "softmax(x)", "jax.nn.softmax(x)", "torch.softmax(x, -1)"),
    "logsumexp": Operation({"x": (512, 1000)}, "logsumexp(x)", "jax.nn.logsumexp(x, -1)",
                           "torch.logsumexp(x, -1)"),
    "layer_norm": Operation(
        {"x": (512, 768), "g": (768,), "b": (768,)},
        "layer_norm(x, g, b)",
        "(x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * g + b",
        "F.layer_norm(x, (768,), g, b)",
        uses="fn layer_norm(x, g, b) {\n"
             "  let d = x - mean(x, axis = 1, keepdims = true)\n"
             "  return d * rsqrt(mean(d * d, axis = 1, keepdims = true) + 1e-5) * g + b\n}\n"),
    "cross_entropy": Operation(
        {"x": (256, 8192)}, "softmax_cross_entropy(x, i)",
        "-jnp.take_along_axis(jax.nn.log_softmax(x), i[:, None], 1)[:, 0]",
        "F.cross_entropy(x, i.long(), reduction='none')", indices=(256,), range=(0, 8192)),
    # Element by element
    "gelu": Operation({"x": (512, 1000)}, "gelu(x)", "jax.nn.gelu(x, approximate=False)", "F.gelu(x)"),
    "tanh": Operation({"x": (512, 1000)}, "tanh(x)", "jnp.tanh(x)", "torch.tanh(x)"),
    "power": Operation({"x": (512, 1000)}, "(x * x + 0.1) ** 1.7", "(x * x + 0.1) ** 1.7",
                       "(x * x + 0.1) ** 1.7"),
    "sin": same("sin(x)", x=(512, 1000)),
    "add_row": Operation({"x": (2000, 1000), "b": (1000,)}, "x + b", "x + b", "x + b"),
    "scale_columns": Operation({"x": (2000, 1000), "b": (2000, 1)}, "x * b", "x * b", "x * b"),
    # Moving elements
    "transpose": Operation({"x": (1000, 1000), "y": (1000, 1000)}, "x.T * y", "x.T * y", "x.T * y"),
    "concat": Operation({"x": (500, 300), "y": (500, 500)}, "concat([x, y], axis = 1)",
                        "jnp.concatenate([x, y], 1)", "torch.cat([x, y], 1)"),
    "pad": Operation({"x": (500, 1000)}, "pad(x, ((1, 2), (3, 4)))", "jnp.pad(x, ((1, 2), (3, 4)))",
                     "F.pad(x, (3, 4, 1, 2))"),
    "embedding": Operation({"x": (10000, 64)}, "x[i]", "x[i]", "F.embedding(i, x)",
                           indices=(4096,), range=(0, 10000)),
    "take_along_axis": Operation(
        {"x": (512, 1000)}, "take_along_axis(x, i, axis = 1)", "jnp.take_along_axis(x, i, 1)",
        "torch.gather(x, 1, i.long())", indices=(512, 200), range=(0, 1000)),
    "add_along_axis": Operation(
        {"x": (512, 200)}, "add_along_axis(zeros((512, 1000)), i, x, axis = 1)",
        "jnp.zeros((512, 1000)).at[jnp.arange(512)[:, None], i].add(x)",
        "torch.zeros(512, 1000).scatter_add(1, i.long(), x)", indices=(512, 200), range=(0, 1000)),
    "segment_sum": Operation(
        {"x": (5000, 256)},
        "add_along_axis(zeros((1000, 256)), i[:, none], x, axis = 0)",
        "jax.ops.segment_sum(x, i, 1000)", "torch.zeros(1000, 256).index_add(0, i, x)",
        indices=(5000,), range=(0, 1000)),
}


def text_of(row):
    """A model of tfd's, as those of the other files."""
    variables = "".join(f"  var {name}: f32[{', '.join(map(str, shape))}] = uniform(low = -1.0, high = 1.0)\n"
                        for name, shape in row.variables.items())
    shape = f"[{', '.join(map(str, row.indices))}]" if row.indices else ""
    factor = "" if row.indices else " * f32(i)"
    return (f"use nn, optim\n\nconst BATCH = 1\n\n{row.uses}"
            f"module Operation {{\n{variables}  fn call(i) = {row.tfd}\n}}\n\n"
            "let net = Operation()\nlet optimizer = Sgd(1e-6)\n\n"
            f'dataset train = npy("i.npy", i32{shape}).batch(BATCH, drop_remainder = true).cache().repeat()\n\n'
            "fn loss_of(example) {\n  let i = sum(example, axis = 0)  # of one\n  let y = net(i)\n"
            f"  return 0.5 * sum(y * y){factor}\n}}\n")
