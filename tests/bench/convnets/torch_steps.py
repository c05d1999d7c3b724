"""torch_steps.py NET SIZE BATCH K STEPS LAST: the steps of convnets.tfd in PyTorch, on one thread.

Prints the seconds of the best step but the first two; LAST is 1 for channels last.
"""
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

NET, SIZE, BATCH, K, STEPS, LAST = map(int, sys.argv[1:])
torch.set_num_threads(1)


def unit(n_in, n_out, size, stride, groups=1):
    return nn.Sequential(nn.Conv2d(n_in, n_out, size, stride, size // 2, groups=groups, bias=False),
                         nn.BatchNorm2d(n_out))


class Basic(nn.Module):
    def __init__(self, n_in, n_out, stride):
        super().__init__()
        self.first = unit(n_in, n_out, 3, stride)
        self.second = unit(n_out, n_out, 3, 1)
        self.skip = nn.Identity() if n_in == n_out else unit(n_in, n_out, 1, stride)

    def forward(self, x):
        return F.relu(self.skip(x) + self.second(F.relu(self.first(x))))


class Inverted(nn.Module):
    def __init__(self, n_in, n_out, times, stride):
        super().__init__()
        wide = n_in * times
        layers = [] if times == 1 else [unit(n_in, wide, 1, 1), nn.ReLU6()]
        layers += [unit(wide, wide, K, stride, wide), nn.ReLU6(), unit(wide, n_out, 1, 1)]
        self.layers = nn.Sequential(*layers)
        self.adds = stride == 1 and n_in == n_out

    def forward(self, x):
        y = self.layers(x)
        return x + y if self.adds else y


class Head(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.fc = nn.Linear(width, 10)

    def forward(self, x):
        return self.fc(x.mean((2, 3)))


def resnet():
    shapes = [(64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1),
              (256, 512, 2), (512, 512, 1)]
    return nn.Sequential(unit(3, 64, 3, 1), nn.ReLU(), *[Basic(*s) for s in shapes], Head(512))


def mobilenet():
    rows = [(16, 1, 1, 1), (24, 6, 2, 1), (32, 6, 3, 2), (64, 6, 4, 2), (96, 6, 3, 1), (160, 6, 3, 2),
            (320, 6, 1, 1)]
    layers, n_in = [unit(3, 32, 3, 1), nn.ReLU6()], 32
    for n_out, times, count, stride in rows:
        for i in range(count):
            layers.append(Inverted(n_in, n_out, times, stride if i == 0 else 1))
            n_in = n_out
    return nn.Sequential(*layers, unit(320, 1280, 1, 1), nn.ReLU6(), Head(1280))


net = mobilenet() if NET else resnet()
x = torch.rand(BATCH, 3, SIZE, SIZE)
if LAST:
    net, x = net.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
y = torch.arange(BATCH) % 10
sgd = torch.optim.SGD(net.parameters(), 0.01, momentum=0.9)
times = []
for i in range(STEPS):
    begin = time.perf_counter()
    sgd.zero_grad(set_to_none=True)
    F.cross_entropy(net(x), y).backward()
    sgd.step()
    times.append(time.perf_counter() - begin)
print(f"{min(times[2:]):.6f}")
