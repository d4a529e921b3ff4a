"""Writes layers.json.gz: what layers, optimizers and schedules of `nn` should give, computed by PyTorch in float64.

    python3 -m venv venv && venv/bin/pip install torch numpy
    venv/bin/python tests/data/make_layer_cases.py

A layer's case holds its state dictionary, an input and the output. An optimizer's holds the parameters before and after each of some steps down the
gradient of a fixed function. LAMB, which PyTorch lacks, is written out from its paper (You et al., 2019, algorithm 2, without its bound of the
norm of the parameters). Muon makes matrices orthogonal in bfloat16 in PyTorch; here it does so in float64 by the same iteration.
"""

import gzip
import json
import math
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

torch.set_default_dtype(torch.float64)
torch.manual_seed(17)
CASES = {}


def listed(tensor):
    return {"shape": list(tensor.shape), "elements": [float(f"{value:.9g}") for value in tensor.detach().flatten().tolist()]}


def layer(name, module, x, y=None, training=False):
    for tensor in module.parameters():
        nn.init.uniform_(tensor, -0.6, 0.6)
    state = {key: listed(value) for key, value in module.state_dict().items() if value.is_floating_point()}
    module.train(training)
    y = module(x) if y is None else y
    after = {key: listed(value) for key, value in module.named_buffers() if value.is_floating_point()} if training else {}
    CASES[name] = {"state": state, "input": listed(x), "output": listed(y), "after": after}


def layers():
    layer("conv1d", nn.Conv1d(4, 6, 3, stride=2, padding=1, bias=False, groups=2), torch.randn(2, 4, 9))
    layer("conv2d", nn.Conv2d(3, 4, (3, 1), stride=(1, 2), padding=(1, 0)), torch.randn(2, 3, 5, 6))
    layer("conv3d", nn.Conv3d(2, 3, (1, 2, 3), dilation=(1, 2, 1)), torch.randn(1, 2, 3, 5, 4))
    layer("conv_transpose1d", nn.ConvTranspose1d(3, 4, 3, stride=2, padding=1, output_padding=1), torch.randn(2, 3, 5))
    layer("conv_transpose2d", nn.ConvTranspose2d(4, 6, (2, 3), stride=(2, 1), groups=2, bias=False), torch.randn(1, 4, 3, 4))
    layer("instance_norm", nn.InstanceNorm2d(3, affine=True), torch.randn(2, 3, 4, 5))
    layer("instance_norm_plain", nn.InstanceNorm1d(3), torch.randn(2, 3, 7))
    network = nn.Sequential(nn.Linear(5, 6), nn.ReLU(), nn.Dropout(0.0), nn.BatchNorm1d(6), nn.Linear(6, 2, bias=False))
    layer("sequential", network, torch.randn(4, 5))
    layer("sequential_training", nn.Sequential(nn.Linear(5, 6), nn.BatchNorm1d(6)), torch.randn(8, 5), training=True)
    layer("embedding", nn.Embedding(7, 3), torch.tensor([[1, 6], [0, 3]]))


def turned(x, base, start=0):
    """Rotary positions: element k of the first half of a head turns with element k of the second."""
    half = x.shape[-1] // 2
    angles = (start + torch.arange(x.shape[-2]))[:, None] * base ** (-torch.arange(half) / half)
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()], -1)


class Attention(nn.Module):
    def __init__(self, width, heads, key_heads, base):
        super().__init__()
        inner = width // heads * key_heads
        self.query, self.key, self.value = nn.Linear(width, width), nn.Linear(width, inner), nn.Linear(width, inner)
        self.output, self.heads, self.key_heads, self.base = nn.Linear(width, width), heads, key_heads, base

    def forward(self, x):
        split = lambda y, heads: y.unflatten(2, (heads, -1)).transpose(1, 2)
        q, k, v = split(self.query(x), self.heads), split(self.key(x), self.key_heads), split(self.value(x), self.key_heads)
        if self.base:
            q, k = turned(q, self.base), turned(k, self.base)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self.heads != self.key_heads)
        return self.output(y.transpose(1, 2).flatten(2))


def attention():
    layer("attention_plain", Attention(12, 3, 3, None), torch.randn(2, 5, 12))
    layer("attention_rotary", Attention(16, 4, 2, 10000.0), torch.randn(2, 6, 16))
    # PyTorch's own layer has the three matrices in one; taken apart here.
    own = nn.MultiheadAttention(8, 2, batch_first=True)
    nn.init.uniform_(own.in_proj_weight, -0.6, 0.6), nn.init.uniform_(own.in_proj_bias, -0.6, 0.6)
    nn.init.uniform_(own.out_proj.bias, -0.6, 0.6)
    x = torch.randn(1, 4, 8)
    parts = zip(("query", "key", "value"), own.in_proj_weight.chunk(3), own.in_proj_bias.chunk(3))
    state = {f"{name}.{part}": listed(value) for name, weight, bias in parts for part, value in [("weight", weight), ("bias", bias)]}
    state |= {f"output.{part}": listed(value) for part, value in own.out_proj.named_parameters()}
    CASES["attention_own"] = {"state": state, "input": listed(x), "output": listed(own(x, x, x)[0]), "after": {}}


class Lamb(torch.optim.Optimizer):
    def __init__(self, parameters, lr, betas, eps, weight_decay):
        super().__init__(parameters, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            (first, second), lr = group["betas"], group["lr"]
            for w in group["params"]:
                state = self.state[w]
                state["t"] = t = state.get("t", 0) + 1
                state["m"] = first * state.get("m", torch.zeros_like(w)) + (1 - first) * w.grad
                state["v"] = second * state.get("v", torch.zeros_like(w)) + (1 - second) * w.grad**2
                direction = state["m"] / (1 - first**t) / ((state["v"] / (1 - second**t)).sqrt() + group["eps"]) + group["weight_decay"] * w
                own, size = w.norm(), direction.norm()
                w -= lr * (own / size if own > 0 and size > 0 else 1.0) * direction


def orthogonal(matrix, coefficients, steps, eps):
    a, b, c = coefficients
    x = matrix.T if matrix.size(0) > matrix.size(1) else matrix
    x = x / x.norm().clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.T if matrix.size(0) > matrix.size(1) else x


def optimizer(name, make, shapes):
    parameters = [nn.Parameter(torch.randn(*shape)) for shape in shapes]
    factors = [torch.randn(*shape) for shape in shapes]
    made, steps = make(parameters), [[listed(p) for p in parameters]]
    for _ in range(4):
        made.zero_grad()
        # Not quadratic, so that a wrong step shows in the next.
        sum((p * factor).sin().sum() + 0.1 * (p**2).sum() for p, factor in zip(parameters, factors)).backward()
        made.step()
        steps.append([listed(p) for p in parameters])
    CASES[name] = {"factors": [listed(factor) for factor in factors], "steps": steps}


def optimizers():
    import torch.optim._muon as muon

    muon._zeropower_via_newtonschulz = orthogonal
    vector, matrix = [(5,), (2, 3)], [(4, 3), (3, 5)]
    optimizer("adamw", lambda p: torch.optim.AdamW(p, lr=0.05, betas=(0.8, 0.9), eps=1e-6, weight_decay=0.1), vector)
    optimizer("rmsprop", lambda p: torch.optim.RMSprop(p, lr=0.02), vector)
    optimizer("rmsprop_momentum", lambda p: torch.optim.RMSprop(p, lr=0.02, alpha=0.9, eps=1e-6, momentum=0.8, weight_decay=0.1), vector)
    optimizer("lamb", lambda p: Lamb(p, 0.05, (0.8, 0.9), 1e-6, 0.1), vector)
    optimizer("muon", lambda p: torch.optim.Muon(p, lr=0.05, momentum=0.9, weight_decay=0.1), matrix)
    gradients = [torch.randn(3, 4), torch.randn(5)]
    for name, most in [("clip", 0.7), ("clip_none", 100.0)]:
        parameters = [nn.Parameter(torch.zeros_like(g)) for g in gradients]
        for p, g in zip(parameters, gradients):
            p.grad = g.clone()
        norm = nn.utils.clip_grad_norm_(parameters, most)
        CASES[name] = {"gradients": [listed(g) for g in gradients], "most": most, "norm": float(norm), "clipped": [listed(p.grad) for p in parameters]}


def schedules():
    from torch.optim import lr_scheduler as s

    def rates(make):
        made = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.5)
        schedule, found = make(made), []
        for _ in range(12):
            found.append(made.param_groups[0]["lr"])
            made.step(), schedule.step()
        return found

    CASES["schedules"] = {
        "steps": rates(lambda o: s.StepLR(o, 3, 0.5)),
        "exponential": rates(lambda o: s.ExponentialLR(o, 0.9)),
        "cosine": rates(lambda o: s.CosineAnnealingLR(o, 11, 0.1)),
        "linear": rates(lambda o: s.LinearLR(o, 1.0, 0.2, 6)),
        "warmup": rates(lambda o: s.LambdaLR(o, lambda step: step / 4 if step < 4 else 0.9 ** (step - 4))),
    }


layers()
attention()
optimizers()
schedules()
text = json.dumps({"source": f"PyTorch {torch.__version__} in float64", "cases": CASES}, separators=(",", ":"))
(Path(__file__).parent / "layers.json.gz").write_bytes(gzip.compress(text.encode(), 9, mtime=0))
