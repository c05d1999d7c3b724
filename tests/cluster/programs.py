"""What jobs of these scripts train."""


def step(batch):
    """A step for batches of so many numbers x: the weight w goes to 1."""
    return f"""fn train_step(x) {{
  let loss = sum((w * x - x) ** 2) / {batch}.0
  let dw = grad(loss, w)
  w -= 0.1 * all_reduce(sum, dw)
  return loss
}}
"""


def endless(body):
    """A program whose epochs last for minutes: body is of each step."""
    return f"""param epochs: i64 = 1
var w: f32 = 0.0
dataset train = range(800000).map(fn(i) = f32(i % 32) / 32.0).batch(8)
{step(8)}main {{
  for epoch in 0..epochs {{
    for x in distribute(train) {{
{body}
    }}
  }}
}}
"""
