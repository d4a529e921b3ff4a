"""A program that uses types as a reader would; mypy checks it."""

from __future__ import annotations

import warpweft as ww


def layer(x: ww.Tensor, w: ww.Tensor) -> ww.Tensor:
    y = (x @ w + 1.0).relu()
    y += 1
    y[0, 1:] = 2.0
    mask = y > 0.5
    return ww.where(mask, y, 0.0).sum(axis=(0, 1), keepdims=True)


x: ww.Tensor = ww.zeros(2, 3, dtype=ww.float64)
shape: tuple[object, ...] = x.shape
values, order = x.sort(axis=0)
gradients: list[ww.Tensor] = layer(x, ww.eye(3)).sum().gradient([x])
number: float = float(x.max())
n = ww.Var("n", 1, 8)
length: ww.Dim = n * 2 + 1
total: ww.Tensor = ww.exp([1.0, 2.0])
