"""Attention in its forms, positions, and caches of keys."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from programs.common import Compile, program, trained

F = torch.nn.functional


class Attention(nn.Module):
    def __init__(self, width: int, heads: int, causal: bool = True) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Any, mask: Any = None) -> Any:
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        found = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=self.causal and mask is None)
        return self.out(found.transpose(1, 2).reshape(batch, length, width))


@program
def language_model(device: Any, compiled: Compile) -> list[Any]:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.positions = nn.Embedding(30, 16), nn.Parameter(torch.randn(10, 16) * 0.02)
            self.norm, self.attention, self.last = nn.LayerNorm(16), Attention(16, 4), nn.LayerNorm(16)
            self.perceptron = nn.Sequential(nn.Linear(16, 32), nn.GELU("tanh"), nn.Linear(32, 16))

        def forward(self, tokens: Any) -> Any:
            x = self.tokens(tokens) + self.positions[: tokens.shape[1]]
            x = x + self.attention(self.norm(x))
            return (x + self.perceptron(self.last(x))) @ self.tokens.weight.t()

    tokens, labels = torch.randint(0, 30, (2, 8)), torch.randint(0, 30, (2, 8))
    labels[0, 3:] = -100
    return trained(
        Model(), device, compiled, [tokens], make=lambda parameters: torch.optim.AdamW(parameters, lr=0.01, eps=1e-3, weight_decay=0.1),
        loss=lambda y: F.cross_entropy(y.flatten(0, 1), labels.flatten().to(device)),
    )  # fmt: skip


@program
def attention_with_a_mask(device: Any, compiled: Compile) -> list[Any]:
    mask = torch.ones(6, 6, dtype=torch.bool).tril().logical_or(torch.eye(6, dtype=torch.bool).flip(0))
    return trained(Attention(8, 2), device, compiled, [torch.randn(2, 6, 8), mask])


@program
def attention_by_hand(device: Any, compiled: Compile) -> list[Any]:
    def attend(q: Any, k: Any, v: Any) -> Any:
        scores = torch.einsum("bhid,bhjd->bhij", q, k) / q.shape[-1] ** 0.5
        scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), float("-inf"))
        return torch.einsum("bhij,bhjd->bhid", scores.softmax(-1), v)

    q, k, v = (torch.randn(2, 2, 5, 4).to(device).requires_grad_() for _ in range(3))
    y = compiled(attend)(q, k, v)
    y.square().sum().backward()
    return [y, q.grad, k.grad, v.grad]


@program
def multi_head_attention(device: Any, compiled: Compile) -> list[Any]:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

        def forward(self, x: Any, y: Any) -> Any:
            padding = torch.zeros(2, 6, dtype=torch.bool, device=x.device)
            padding[0, 4:] = True
            found, weights = self.attention(x, y, y, key_padding_mask=padding)
            return found + weights.sum()

    return trained(Model(), device, compiled, [torch.randn(2, 5, 8), torch.randn(2, 6, 8)])


@program
def encoder_and_decoder(device: Any, compiled: Compile) -> list[Any]:
    model = nn.Transformer(8, 2, 1, 1, 16, dropout=0.0, batch_first=True)
    return trained(model, device, compiled, [torch.randn(2, 5, 8), torch.randn(2, 3, 8)])


@program
def rotary_positions(device: Any, compiled: Compile) -> list[Any]:
    def rotate(x: Any) -> Any:
        positions = torch.arange(x.shape[1], device=x.device, dtype=torch.float32)
        angles = torch.outer(positions, 10000.0 ** (-torch.arange(0, 8, 2, device=x.device) / 8))
        cos, sin = angles.cos()[None, :, None], angles.sin()[None, :, None]
        one, two = x[..., ::2], x[..., 1::2]
        return torch.stack([one * cos - two * sin, one * sin + two * cos], -1).flatten(-2)

    x = torch.randn(2, 5, 3, 8).to(device).requires_grad_()
    y = compiled(rotate)(x)
    (y * y.detach().roll(1, 1)).sum().backward()
    return [y, x.grad]


@program
def cache_of_keys(device: Any, compiled: Compile) -> list[Any]:
    def step(cache: Any, x: Any, position: Any) -> Any:
        cache.index_copy_(1, position, x[:, None])
        weights = (cache @ x[:, :, None]).squeeze(-1)
        weights = weights.masked_fill(torch.arange(cache.shape[1], device=x.device) > position, float("-inf"))
        return (weights.softmax(-1)[:, :, None] * cache).sum(1)

    cache, call, found = torch.zeros(2, 6, 4, device=device), compiled(step), []
    with torch.no_grad():
        for position in range(5):
            found.append(call(cache, torch.randn(2, 4).to(device), torch.tensor([position], device=device)))
    return [*found, cache]


@program
def cache_by_slices(device: Any, compiled: Compile) -> list[Any]:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("cache", torch.zeros(2, 8, 4))

        def forward(self, x: Any, start: int) -> Any:
            self.cache[:, start : start + x.shape[1]] = x
            return F.scaled_dot_product_attention(x, self.cache[:, : start + x.shape[1]], self.cache[:, : start + x.shape[1]])

    model, found = Model().to(device), []
    call = compiled(model)
    with torch.no_grad():
        for start, length in ((0, 3), (3, 1), (4, 1), (5, 2)):
            found.append(call(torch.randn(2, length, 4).to(device), start))
    return [*found, model.cache]


@program
def transformer_with_dropout(device: Any, compiled: Compile) -> list[Any]:
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.2, batch_first=True, norm_first=True)
    return trained(nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), device, compiled, [torch.randn(2, 5, 8)])


@program
def lengths_that_change(device: Any, compiled: Compile) -> list[Any]:
    model = nn.Sequential(nn.Embedding(12, 8), nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True), nn.Linear(8, 3))
    model, found = model.to(device).eval(), []
    call = compiled(model)
    with torch.no_grad():
        for batch, length in ((2, 5), (2, 7), (3, 4), (1, 9)):
            found.append(call(torch.randint(0, 12, (batch, length)).to(device)))
    return found
