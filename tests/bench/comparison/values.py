"""What all peers share: the variables that tfd saved, by its names."""
import json

import ml_dtypes
import numpy as np

DTYPES = {"F32": np.dtype("float32"), "BF16": np.dtype(ml_dtypes.bfloat16)}


class Unsupported(Exception):
    """What this peer does not do on a CPU, and why."""


def is_trainable(name):
    return not name.endswith("_average")


def read_values(path):
    """{name: array} of the network's variables, without those of the optimizer."""
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        data = file.read()
    found = {}
    for name, row in header.items():
        if name.startswith("net."):
            begin, end = row["data_offsets"]
            array = np.frombuffer(data[begin:end], DTYPES[row["dtype"]])
            found[name[4:]] = array.reshape(row["shape"])
    return found
