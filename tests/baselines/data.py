"""The examples' data, made again from docs/datasets.md and docs/decisions.md.

Nothing here comes out of tfd: random numbers (D7), pipelines and shuffling are
written anew, so that equal losses mean that the data were equal too.
"""
import numpy as np

MULTIPLIER = (0xD2511F53, 0xCD9E8D57)
BUMP = (0x9E3779B9, 0xBB67AE85)
LOW = np.uint64(0xFFFFFFFF)
HALF = np.uint64(32)


def philox(counter, key):
    """Philox4x32-10: four words a counter; arrays of words broadcast."""
    words = np.broadcast_arrays(*[np.asarray(c, np.uint64) & LOW
                                  for c in counter])
    x0, x1, x2, x3 = words
    k0, k1 = (np.uint64(k & 0xFFFFFFFF) for k in key)
    for _ in range(10):
        p0, p1 = np.uint64(MULTIPLIER[0]) * x0, np.uint64(MULTIPLIER[1]) * x2
        x0, x2 = (p1 >> HALF) ^ x1 ^ k0, (p0 >> HALF) ^ x3 ^ k1
        x1, x3 = p1 & LOW, p0 & LOW
        k0 = np.uint64((int(k0) + BUMP[0]) & 0xFFFFFFFF)
        k1 = np.uint64((int(k1) + BUMP[1]) & 0xFFFFFFFF)
    return x0, x1, x2, x3


def bits(seed, index, shape):
    """63 random bits for each element; of numbers with an index."""
    index = np.asarray(index, np.uint64)
    place = np.arange(np.prod(shape, dtype=int), dtype=np.uint64)
    rows = index.reshape(index.shape + (1,))
    x0, x1, _, _ = philox((rows, rows >> HALF, place, place >> HALF),
                          (seed, 0))
    return ((x1 << HALF | x0) >> np.uint64(1)).reshape(index.shape + shape)


def uniform(seed, index, shape=()):
    """f64 has 53 bits of the 63."""
    return (bits(seed, index, shape) >> np.uint64(10)).astype(float) * 2.0**-53


def normal(seed, index, shape=()):
    """Box and Muller: 32 bits for the radius, 31 for the angle."""
    b = bits(seed, index, shape)
    u = ((b >> np.uint64(31)) + np.uint64(1)).astype(float) * 2.0**-32
    part = (b & np.uint64(2**31 - 1)).astype(float)
    angle = part * (6.283185307179586 * 2.0**-31)
    return np.sqrt(-2 * np.log(u)) * np.cos(angle)


def shuffled(elements, size, seed, number=0):
    """The elements in the order of pass `number` of shuffle(size, seed)."""
    drawn = philox((number, number >> 32, 0, 0x73687566), (seed, seed >> 32))
    key = [int(word) for word in drawn[:2]]
    buffer, source, position = [], iter(elements), 0
    while True:
        for element in source:
            buffer.append(element)
            if len(buffer) == size:
                break
        if not buffer:
            return
        x0, x1, _, _ = philox((position, position >> 32, 0, 0x73687566), key)
        slot = (int(x1) << 32 | int(x0)) * len(buffer) >> 64
        yield buffer[slot]
        buffer[slot] = buffer[-1]
        buffer.pop()
        position += 1


def batches(elements, size, count):
    """The first `count` batches of an iterator, as lists."""
    source = iter(elements)
    return [[next(source) for _ in range(size)] for _ in range(count)]


# ---- of the examples --------------------------------------------------------


def spiral(count, size=96):
    points = list(shuffled(range(3000), 3000, 1))
    made = []
    for batch in batches(shuffled(points[:2400], 2400, 2), size, count):
        i = np.array(batch)
        label = i % 3
        t = i / 3000.0
        angle = 4.0 * t + 2.0944 * label + 0.1 * normal(7, i)
        x = np.stack([t * np.cos(angle), t * np.sin(angle)], axis=1)
        made.append((x, label))
    return made


def images(i, size=32):
    label = i % 4
    angle = (0.7854 * label)[:, None, None]
    x = np.arange(size)[None, None, :] - size / 2.0
    y = np.arange(size)[None, :, None] - size / 2.0
    offset = (6.0 * uniform(11, i) - 3.0)[:, None, None]
    distance = np.abs(x * np.sin(angle) - y * np.cos(angle) - offset)
    bar = np.exp(-distance * distance / 4.0) + 0.3 * normal(12, i, (size, size))
    return bar[..., None], label


def convnet(count, size=64):
    order = shuffled(range(2048), 2048, 1)
    return [images(np.array(batch)) for batch in batches(order, size, count)]


def charlm(count, text, size=32, length=64):
    """Windows of one byte more, the last of which is only to be guessed."""
    source = np.frombuffer(text, np.uint8).astype(np.int32)
    starts = range(0, len(source) - length, 7)
    order = shuffled(starts, 4096, 3)
    return [(np.stack([source[s:s + length + 1] for s in batch]),)
            for batch in batches(order, size, count)]


def lstm(count, size=16, length=12, width=8):
    made = []
    for first in range(0, count * size, size):
        i = np.arange(first, first + size)
        made.append((normal(21, i, (length, width)), i % 4))
    return made
