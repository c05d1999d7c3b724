"""The model, data and optimizer of gpt2.tfd in PyTorch; prints as it does.

  gpt2_torch.py f32|tf32|bf16 STEPS DEVICE VOCAB=... T=... C=... HEADS=... LAYERS=... BATCH=...

Eager, with PyTorch's own attention and fused AdamW.  Initial values are those of
torch's random numbers, so losses are alike and not equal.
"""
import contextlib
import math
import sys

import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self, width, heads, layers):
        super().__init__()
        self.heads = heads
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = linear(width, 3 * width, 0.02)
        self.proj = linear(width, width, 0.02 / math.sqrt(2 * layers))
        self.up = linear(width, 4 * width, 0.02)
        self.down = linear(4 * width, width, 0.02 / math.sqrt(2 * layers))

    def attention(self, x):
        batch, length, width = x.shape
        q, k, v = (a.view(batch, length, self.heads, -1).transpose(1, 2)
                   for a in self.qkv(x).split(width, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.proj(y.transpose(1, 2).reshape(batch, length, width))

    def forward(self, x):
        x = x + self.attention(self.ln1(x))
        return x + self.down(F.gelu(self.up(self.ln2(x))))


class Gpt(nn.Module):
    def __init__(self, vocab, length, width, heads, layers):
        super().__init__()
        self.tokens = nn.Parameter(torch.randn(vocab, width) * 0.02)
        self.places = nn.Parameter(torch.randn(length, width) * 0.02)
        self.blocks = nn.ModuleList(Block(width, heads, layers)
                                    for _ in range(layers))
        self.ln = nn.LayerNorm(width)

    def forward(self, ids):
        x = self.tokens[ids] + self.places[:ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.ln(x) @ self.tokens.T


def linear(n_in, n_out, stddev):
    layer = nn.Linear(n_in, n_out)
    nn.init.normal_(layer.weight, std=stddev)
    nn.init.zeros_(layer.bias)
    return layer


def windows(vocab, length, batch, device):
    """Batches of made-up tokens, as gpt2.tfd has them."""
    at = torch.arange(length + 1, device=device)
    first = 0
    while True:
        rows = torch.arange(first, first + batch, device=device)
        yield (rows[:, None] * 7919 + at * 104729) % vocab
        first += batch


def main():
    precision, steps, device = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    n = {k: int(v) for k, v in (w.split("=") for w in sys.argv[4:])}
    torch.manual_seed(1)
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    torch.backends.cudnn.allow_tf32 = precision == "tf32"
    model = Gpt(n["VOCAB"], n["T"], n["C"], n["HEADS"], n["LAYERS"]).to(device)
    adam = torch.optim.AdamW(model.parameters(), lr=6e-4, betas=(0.9, 0.95),
                             weight_decay=0.1, fused=device.startswith("cuda"))
    mixed = (torch.autocast(device.split(":")[0], dtype=torch.bfloat16)
             if precision == "bf16" else contextlib.nullcontext())
    data = windows(n["VOCAB"], n["T"], n["BATCH"], device)
    for step in range(steps):
        window = next(data)
        with mixed:
            logits = model(window[:, :-1])
            loss = F.cross_entropy(logits.reshape(-1, n["VOCAB"]).float(),
                                   window[:, 1:].reshape(-1))
        adam.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        adam.step()
        # item() waits for the device, as the print of gpt2.tfd does.
        print(f"step {step}: loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
