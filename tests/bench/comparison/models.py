"""The models of the comparison: sizes, data, flops, and the network for the peers.

A model is NAME.tfd here, and a row of MODELS. Its network is a function of the
operations of a framework (o), which hold the variables by tfd's names: it is
written once, and each peer has the operations as that framework has them.
"""
import pathlib
import random
from typing import Callable, NamedTuple

import operations

HERE = pathlib.Path(__file__).resolve().parent
BATCHES = 4  # of different data


class Model(NamedTuple):
    sizes: dict                 # the constants of the .tfd
    quick: dict                 # those of --quick
    draw: Callable              # other sizes, of a random.Random
    data: Callable              # sizes, number of rows, numpy's generator -> {file: array}
    products: Callable          # sizes -> flops of each product, forward; negative: its input is data
    network: Callable           # o, sizes, the arrays of a batch -> loss
    file: str = ""              # the .tfd, if it is named otherwise
    text: str = ""              # what a .tfd would say, if there is none
    adam: float = 0.0           # the rate of Adam; else SGD
    rate: float = 0.01          # of SGD
    tolerance: float = 2e-4     # of the first losses, relative
    batch_norm: bool = False    # over all replicas


# ---- MLP, linear -----------------------------------------------------------


def labelled(s, rows, rng, *shape):
    return {"x": rng.random((rows, *shape), "float32"),
            "y": rng.integers(0, s["CLASSES"], rows, "int32")}


def mlp(o, s, x, y):
    h = o.relu(o.linear("layers.0", x))
    return o.cross_entropy(o.linear("head", o.relu(o.linear("layers.1", h))), y)


MLP = Model(
    sizes={"IN": 784, "WIDTH": 1024, "CLASSES": 10, "BATCH": 256}, quick={},
    draw=lambda r: {"IN": r.randrange(16, 2000), "WIDTH": r.randrange(32, 2048),
                    "CLASSES": r.randrange(2, 100), "BATCH": 2 * r.randrange(4, 256)},
    data=lambda s, rows, rng: labelled(s, rows, rng, s["IN"]),
    products=lambda s: [-2 * s["BATCH"] * s["IN"] * s["WIDTH"],
                        2 * s["BATCH"] * s["WIDTH"] ** 2,
                        2 * s["BATCH"] * s["WIDTH"] * s["CLASSES"]],
    network=mlp)


def linear(o, s, x, y):
    return o.mean((o.linear("fc", x)[:, 0] - y) ** 2)


LINEAR = Model(
    sizes={"IN": 64, "BATCH": 32}, quick={},
    draw=lambda r: {"IN": r.randrange(1, 1000), "BATCH": 2 * r.randrange(1, 128)},
    data=lambda s, rows, rng: {"x": rng.random((rows, s["IN"]), "float32"),
                               "y": rng.random(rows, "float32")},
    products=lambda s: [-2 * s["BATCH"] * s["IN"]],
    network=linear)

# ---- sequences ---------------------------------------------------------------


def lstm(o, s, x, y):
    h = x
    for i in range(s["LAYERS"]):
        h = o.lstm(f"layers.{i}", h)
    return o.cross_entropy(o.linear("head", h[:, -1]), y)


LSTM = Model(
    sizes={"N": 256, "S": 64, "LAYERS": 2, "CLASSES": 10, "BATCH": 16}, quick={},
    draw=lambda r: {"N": 8 * r.randrange(4, 64), "S": r.randrange(4, 100),
                    "LAYERS": r.randrange(1, 4), "CLASSES": r.randrange(2, 50),
                    "BATCH": 2 * r.randrange(1, 32)},
    data=lambda s, rows, rng: labelled(s, rows, rng, s["S"], s["N"]),
    products=lambda s: [sign * 8 * s["BATCH"] * s["S"] * s["N"] ** 2
                        for sign in [-1] + [1] * (2 * s["LAYERS"] - 1)]
    + [2 * s["BATCH"] * s["N"] * s["CLASSES"]],
    network=lstm)


def attention_flops(s, width):
    """Scores and their products with values; all of them, also those that are masked."""
    return [2 * s["BATCH"] * s["T"] ** 2 * width] * 2


def block(o, s, name, x):
    q, k, v = o.split(o.linear(name + ".att.qkv", o.layer_norm(name + ".ln1", x)), 3)
    heads = [o.heads(a, s["HEADS"]) for a in (q, k, v)]
    x = x + o.linear(name + ".att.proj", o.joined(o.causal_attention(*heads)))
    h = o.gelu(o.linear(name + ".up", o.layer_norm(name + ".ln2", x)))
    return x + o.linear(name + ".down", h)


def gpt(o, s, ids):
    x = o.rows("tokens", ids[:, :-1]) + o.var("places")
    for i in range(s["LAYERS"]):
        x = block(o, s, f"blocks.{i}", x)
    return o.cross_entropy(o.layer_norm("ln", x) @ o.turned(o.var("tokens")), ids[:, 1:])


def gpt_products(s):
    rows, c = s["BATCH"] * s["T"], s["C"]
    return s["LAYERS"] * ([24 * rows * c * c] + attention_flops(s, c)) + [
        2 * rows * c * s["VOCAB"]]


def draw_gpt(r):
    heads = r.randrange(1, 9)
    return {"T": 16 * r.randrange(2, 17), "HEADS": heads, "C": heads * r.choice([16, 24, 32, 64]),
            "LAYERS": r.randrange(1, 5), "VOCAB": r.randrange(50, 5000),
            "BATCH": 2 * r.randrange(1, 5)}


GPT = Model(
    sizes={"T": 256, "C": 768, "HEADS": 12, "LAYERS": 4, "VOCAB": 8192, "BATCH": 4,
           "BF16": "false"},
    quick={"LAYERS": 1}, draw=draw_gpt,
    data=lambda s, rows, rng: {"ids": rng.integers(0, s["VOCAB"], (rows, s["T"] + 1), "int32")},
    products=gpt_products, network=gpt, adam=1e-4)

GPT_BF16 = GPT._replace(sizes={**GPT.sizes, "BF16": "true"}, file="gpt", tolerance=1e-2)


def attention(o, s, x):
    q, k, v = (o.heads(x * o.var(n), s["HEADS"]) for n in "qkv")
    y = o.joined(o.causal_attention(q, k, v))
    return o.mean(y ** 2) * (s["HEADS"] * s["D"])


ATTENTION = Model(
    sizes={"T": 1024, "HEADS": 8, "D": 64, "BATCH": 4}, quick={"BATCH": 2},
    draw=lambda r: {"T": r.randrange(16, 1500), "HEADS": r.randrange(1, 12),
                    "D": 8 * r.randrange(1, 17), "BATCH": 2 * r.randrange(1, 4)},
    data=lambda s, rows, rng: {
        "x": rng.normal(0, 1, (rows, s["T"], s["HEADS"] * s["D"])).astype("float32")},
    products=lambda s: attention_flops(s, s["HEADS"] * s["D"]),
    network=attention)

# ---- images ------------------------------------------------------------------


def unit(o, name, x, stride=1, groups=1):
    return o.batch_norm(name + ".norm", o.conv(name, x, stride, groups))


def resnet_blocks(s):
    """(n_in, n_out, stride) of each."""
    w = s["WIDTH"]
    return [(w, w, 1), (w, w, 1), (w, 2 * w, 2), (2 * w, 2 * w, 1), (2 * w, 4 * w, 2),
            (4 * w, 4 * w, 1), (4 * w, 8 * w, 2), (8 * w, 8 * w, 1)]


def resnet18(o, s, x, y):
    h = o.relu(unit(o, "stem", o.image(x)))
    for i, (n_in, n_out, stride) in enumerate(resnet_blocks(s)):
        name = f"blocks.{i}"
        around = h if n_in == n_out else unit(o, name + ".skip.0", h, stride)
        inner = o.relu(unit(o, name + ".first", h, stride))
        h = o.relu(around + unit(o, name + ".second", inner))
    return o.cross_entropy(o.linear("head", o.mean_of_pixels(h)), y)


def conv_flops(s, size, taps, n_in, n_out):
    return 2 * s["BATCH"] * size * size * taps * n_in * n_out


def resnet_products(s):
    size = s["SIZE"]
    found = [-conv_flops(s, size, 9, 3, s["WIDTH"])]
    for n_in, n_out, stride in resnet_blocks(s):
        size = -(-size // stride)
        found += [conv_flops(s, size, 9, n_in, n_out), conv_flops(s, size, 9, n_out, n_out)]
        found += [conv_flops(s, size, 1, n_in, n_out)] * (n_in != n_out)
    return found + [2 * s["BATCH"] * 8 * s["WIDTH"] * s["CLASSES"]]


def images(s, rows, rng):
    return labelled(s, rows, rng, s["SIZE"], s["SIZE"], 3)


RESNET18 = Model(
    sizes={"SIZE": 32, "WIDTH": 64, "CLASSES": 10, "BATCH": 16}, quick={"BATCH": 8},
    draw=lambda r: {"SIZE": r.randrange(16, 65), "WIDTH": 8 * r.randrange(1, 9),
                    "CLASSES": r.randrange(2, 100), "BATCH": 2 * r.randrange(2, 9)},
    data=images, products=resnet_products, network=resnet18, rate=1e-4, tolerance=2e-3,
    batch_norm=True)

# n_out, times, count, stride of the first
INVERTED = [(16, 1, 1, 1), (24, 6, 2, 1), (32, 6, 3, 2), (64, 6, 4, 2), (96, 6, 3, 1),
            (160, 6, 3, 2), (320, 6, 1, 1)]


def inverted_blocks():
    """(n_in, n_out, times, stride) of each."""
    n_in = 32
    for n_out, times, count, stride in INVERTED:
        for i in range(count):
            yield n_in, n_out, times, stride if i == 0 else 1
            n_in = n_out


def mobilenet(o, s, x, y):
    h = o.relu6(unit(o, "stem", o.image(x)))
    for i, (n_in, n_out, times, stride) in enumerate(inverted_blocks()):
        name, wide = f"blocks.{i}", n_in * times
        inner = h if times == 1 else o.relu6(unit(o, name + ".up.0", h))
        inner = o.relu6(unit(o, name + ".depth", inner, stride, wide))
        inner = unit(o, name + ".down", inner)
        h = h + inner if stride == 1 and n_in == n_out else inner
    h = o.relu6(unit(o, "last", h))
    return o.cross_entropy(o.linear("head", o.mean_of_pixels(h)), y)


def mobilenet_products(s):
    size = s["SIZE"]
    found = [-conv_flops(s, size, 9, 3, 32)]
    for n_in, n_out, times, stride in inverted_blocks():
        wide = n_in * times
        found += [conv_flops(s, size, 1, n_in, wide)] * (times > 1)
        size = -(-size // stride)
        found += [conv_flops(s, size, s["K"] ** 2, 1, wide), conv_flops(s, size, 1, wide, n_out)]
    return found + [conv_flops(s, size, 1, 320, 1280), 2 * s["BATCH"] * 1280 * s["CLASSES"]]


MOBILENET = Model(
    sizes={"SIZE": 32, "K": 5, "CLASSES": 10, "BATCH": 16}, quick={"BATCH": 8},
    draw=lambda r: {"SIZE": r.randrange(16, 65), "K": r.choice([3, 5, 7]),
                    "CLASSES": r.randrange(2, 100), "BATCH": 2 * r.randrange(2, 9)},
    data=images, products=mobilenet_products, network=mobilenet, rate=1e-4, tolerance=2e-3,
    batch_norm=True)

# ---- recommendation ------------------------------------------------------------


def dlrm(o, s, x, ids, y):
    n = s["TABLES"] + 1
    dense = o.relu(o.linear("bottom.1", o.relu(o.linear("bottom.0", x))))
    rows = o.stack([dense] + [o.sparse_rows(f"tables.{i}.w", ids[:, i]) for i in range(n - 1)], 1)
    crossed = o.reshape(rows @ o.turned(rows), (-1, n * n))
    h = o.relu(o.linear("top.0", o.concat([dense, crossed], 1)))
    h = o.relu(o.linear("top.1", h))
    return o.binary_cross_entropy(o.linear("head", h)[:, 0], y)


def dlrm_products(s):
    b, w, n, d = s["BATCH"], s["WIDTH"], s["TABLES"] + 1, s["D"]
    return [-2 * b * s["DENSE"] * w, 2 * b * w * d, 2 * b * n * n * d, 2 * b * (d + n * n) * w,
            2 * b * w * (w // 2), 2 * b * (w // 2)]


DLRM = Model(
    sizes={"TABLES": 26, "ROWS": 10000, "D": 64, "DENSE": 13, "WIDTH": 512, "BATCH": 128}, quick={},
    draw=lambda r: {"TABLES": r.randrange(1, 40), "ROWS": r.randrange(10, 20000),
                    "D": 8 * r.randrange(1, 17), "DENSE": r.randrange(1, 50),
                    "WIDTH": 2 * r.randrange(16, 400), "BATCH": 2 * r.randrange(8, 256)},
    data=lambda s, rows, rng: {
        "x": rng.random((rows, s["DENSE"]), "float32"),
        "ids": rng.integers(0, s["ROWS"], (rows, s["TABLES"]), "int32"),
        "y": rng.integers(0, 2, rows, "int32")},
    products=dlrm_products, network=dlrm)

MODELS = {"linear": LINEAR, "mlp": MLP, "lstm": LSTM, "attention": ATTENTION, "dlrm": DLRM,
          "gpt": GPT, "gpt_bf16": GPT_BF16, "resnet18": RESNET18, "mobilenet": MOBILENET}

# ---- single operations -----------------------------------------------------


def operation(row):
    return Model(
        sizes={"BATCH": 1}, quick={}, draw=None,
        data=lambda s, rows, rng: {"i": rng.integers(*row.range, (rows, *row.indices), "int32")},
        products=lambda s: [row.flops], network=lambda o, s, i: o.operation(row, i[0]),
        text=operations.text_of(row), rate=1e-6)


OPERATIONS = {name: operation(row) for name, row in operations.OPERATIONS.items()}

# ---- cases -----------------------------------------------------------------


def step_flops(model, sizes):
    """Of a training step: forward, by the weights, and by the input unless that is data."""
    return sum(-2 * f if f < 0 else 3 * f for f in model.products(sizes))


class Case(NamedTuple):
    name: str
    sizes: dict

    @property
    def model(self):
        return {**MODELS, **OPERATIONS}[self.name]

    def changed(self):
        """The sizes that are not the model's own, as the command line takes them."""
        return ",".join(f"{k}={v}" for k, v in self.sizes.items() if v != self.model.sizes[k])


def parse_case(text, quick):
    """MODEL or MODEL:NAME=VALUE,..."""
    name, _, changes = text.partition(":")
    known = {**MODELS, **OPERATIONS}
    if name not in known:
        raise ValueError(f'there is no model "{name}", only {", ".join(known)}')
    model = known[name]
    sizes = {**model.sizes, **(model.quick if quick else {})}
    for change in filter(None, changes.split(",")):
        key, _, value = change.partition("=")
        if key not in sizes or not value.isdigit() or int(value) == 0:
            raise ValueError(f'"{change}" is no size of {name}: write NAME=NUMBER of '
                             f'{", ".join(k for k in sizes if k != "BF16")}')
        sizes[key] = int(value)
    return Case(name, sizes)


def draw_cases(count, seed):
    """Models with sizes by chance; the same for the same seed."""
    r, found = random.Random(seed), []
    for _ in range(count):
        name = r.choice(sorted(MODELS))
        found.append(Case(name, {**MODELS[name].sizes, **MODELS[name].draw(r)}))
    return found


def text_of(case):
    """The program in tfd."""
    text = case.model.text or (HERE / f"{case.model.file or case.name}.tfd").read_text()
    return text + (HERE / "main.tfd").read_text()


def write_data(case, folder):
    import numpy as np  # which the suite does without
    rng = np.random.default_rng(1)
    rows = BATCHES * case.sizes["BATCH"]
    for name, array in case.model.data(case.sizes, rows, rng).items():
        np.save(f"{folder}/{name}.npy", array)
