"""Programs whose derivatives PyTorch leaves whole: images resampled and looked at between their elements, bags, norms of weights, margins; and long spectra."""

from __future__ import annotations

import itertools
from typing import Any, Callable

import torch
from torch import nn

from programs.common import Compile, program

F = torch.nn.functional


def derived(device: Any, compiled: Compile, function: Callable[..., Any], *inputs: Any) -> list[Any]:
    """Results, and gradients by the inputs that are floats."""
    given = [x.detach().to(device).requires_grad_(x.is_floating_point()) for x in inputs]
    found = compiled(function)(*given)
    sum((part * torch.linspace(-1, 1, part.numel()).reshape(part.shape).to(device)).sum() for part in found).backward()
    return [*found, *(x.grad for x in given if x.grad is not None)]


@program
def grids(device: Any, compiled: Compile) -> list[Any]:
    # The identity, which looks at elements themselves and at the edges; and positions around and beyond.
    x = torch.randn(2, 2, 4, 5)
    maps = torch.tensor([[1.0, 0, 0], [0, 1, 0]]).expand(2, 2, 3)
    whole, other = F.affine_grid(maps, [2, 2, 4, 5], align_corners=True), torch.randn(2, 3, 4, 2) * 1.5

    def step(x: Any, whole: Any, other: Any) -> Any:
        ways = itertools.product(("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection"), (True, False))
        found = [F.grid_sample(x, other, mode, padding, align) for mode, padding, align in ways]
        return [*found, *(F.grid_sample(x, whole, "bilinear", padding, True) for padding in ("border", "zeros"))]

    return derived(device, compiled, step, x, whole, other)


@program
def grids_of_volumes(device: Any, compiled: Compile) -> list[Any]:
    def step(x: Any, grid: Any) -> Any:
        ways = itertools.product(("bilinear", "nearest"), ("zeros", "border", "reflection"))
        return [F.grid_sample(x, grid, mode, padding, align_corners=padding == "border") for mode, padding in ways]

    return derived(device, compiled, step, torch.randn(1, 2, 3, 4, 2), torch.randn(1, 2, 2, 3, 3))


@program
def resized(device: Any, compiled: Compile) -> list[Any]:
    line, image, volume = torch.randn(2, 2, 5), torch.randn(2, 2, 5, 6), torch.randn(1, 2, 3, 4, 3)

    def step(line: Any, image: Any, volume: Any) -> Any:
        found = []
        for x, linear in ((line, "linear"), (image, "bilinear"), (volume, "trilinear")):
            larger, smaller = [2 * length + 1 for length in x.shape[2:]], [length - 1 for length in x.shape[2:]]
            for mode in ("nearest", "nearest-exact"):
                found += [F.interpolate(x, larger, mode=mode), F.interpolate(x, scale_factor=1.7, mode=mode)]
                found += [F.interpolate(x, scale_factor=3, mode=mode), F.interpolate(x, [1] * (x.ndim - 2), mode=mode)]
            found += [F.interpolate(x, smaller, mode=linear, align_corners=align) for align in (True, False)]
            found += [F.interpolate(x, scale_factor=1.7, mode=linear, recompute_scale_factor=recompute) for recompute in (True, False)]
        found += [F.interpolate(image, (7, 3), mode="bicubic", align_corners=align) for align in (True, False)]
        # Each element goes into many results.
        found += [F.interpolate(image, (61, 9), mode=mode) for mode in ("bilinear", "bicubic", "nearest")]
        return found

    return derived(device, compiled, step, line, image, volume)


@program
def padded_by_themselves(device: Any, compiled: Compile) -> list[Any]:
    def step(line: Any, image: Any, volume: Any) -> Any:
        found = []
        for x, pads in ((line, [(2, 1), (-1, 3), (4, -2)]), (image, [(1, 2, 3, 0), (5, -1, -2, 4)]), (volume, [(1, 0, 2, 1, 1, 1), (-1, 2, 1, -1, 2, 0)])):
            found += [F.pad(x, pad, mode=mode) for pad in pads for mode in ("reflect", "replicate")]
        return found

    return derived(device, compiled, step, torch.randn(2, 2, 5), torch.randn(2, 2, 5, 6), torch.randn(1, 2, 3, 4, 3))


@program
def smoothed(device: Any, compiled: Compile) -> list[Any]:
    def step(x: Any) -> Any:
        sizes = (3, 4), (11, 5), (7, 9)
        return [F.interpolate(x, size, mode=mode, antialias=True, align_corners=align)
                for size in sizes for mode in ("bilinear", "bicubic") for align in (False, True)]  # fmt: skip

    return derived(device, compiled, step, torch.randn(2, 2, 7, 9))


@program
def bags(device: Any, compiled: Compile) -> list[Any]:
    table, indices, offsets = torch.randn(9, 4), torch.tensor([3, 1, 4, 1, 5, 1, 2, 6]), torch.tensor([0, 2, 2, 5])
    weights = torch.rand(8)

    def step(table: Any, indices: Any, offsets: Any, weights: Any) -> Any:
        def bag(**more: Any) -> Any:
            return F.embedding_bag(indices, table, offsets, **more)

        found = [bag(mode=mode, padding_idx=padding) for mode in ("sum", "mean", "max") for padding in (None, 1)]
        found += [bag(mode="sum", per_sample_weights=weights), bag(mode="sum", scale_grad_by_freq=True)]
        ends = torch.cat([offsets, offsets.new_tensor([8])])
        found.append(F.embedding_bag(indices, table, ends, mode="mean", include_last_offset=True))
        return [*found, F.embedding_bag(indices.reshape(2, 4), table, mode="max")]

    return derived(device, compiled, step, table, indices, offsets, weights)


@program
def norms_of_weights(device: Any, compiled: Compile) -> list[Any]:
    def step(v: Any, g: Any, h: Any) -> Any:
        return [torch._weight_norm(v, g, 0), torch._weight_norm(v, h, 2)]

    return derived(device, compiled, step, torch.randn(3, 4, 2), torch.rand(3, 1, 1), torch.rand(1, 1, 2))


@program
def margins(device: Any, compiled: Compile) -> list[Any]:
    labels, sets = torch.tensor([1, 0, 4]), torch.tensor([[1, 2, -1, 3, 0], [-1, 0, 0, 0, 0], [4, 3, 2, 1, 0]])

    def step(x: Any, labels: Any, sets: Any, weight: Any) -> Any:
        found = [F.multi_margin_loss(x, labels, p=p, margin=0.7, weight=given, reduction=reduction)
                 for p in (1, 2) for given in (None, weight) for reduction in ("none", "mean", "sum")]  # fmt: skip
        return [*found, *(F.multilabel_margin_loss(x, sets, reduction=reduction) for reduction in ("none", "mean", "sum"))]

    weight = torch.rand(5)
    return derived(device, compiled, lambda x, labels, sets: step(x, labels, sets, weight.to(x.device)), torch.randn(3, 5), labels, sets)


@program
def distances(device: Any, compiled: Compile) -> list[Any]:
    def step(x: Any, source: Any, mask: Any) -> Any:
        found = [F.pdist(x, p) for p in (0.0, 0.7, 1.0, 1.5, 2.0, 3.0, float("inf"))]
        return [*found, x.masked_scatter(mask, source), x.masked_scatter(mask[:1], source.reshape(-1))]

    # Two points are the same, and some share a coordinate.
    x = torch.randn(5, 3)
    x[3], x[1, 0] = x[2], x[0, 0]
    return derived(device, compiled, step, x, torch.randn(4, 4), torch.rand(5, 3) > 0.4)


@program
def quantised(device: Any, compiled: Compile) -> list[Any]:
    def step(x: Any, scale: Any, zero: Any, table: Any, at: Any) -> Any:
        scale = scale.detach()
        found = [torch.fake_quantize_per_tensor_affine(x, 0.1, 3, -8, 7), torch.fake_quantize_per_tensor_affine(x, scale[0], zero[0], 0, 15),
                 torch.fake_quantize_per_channel_affine(x, scale, zero, 1, -8, 7)]  # fmt: skip
        return [*found, F.embedding(at, table, scale_grad_by_freq=True), F.embedding(at, table, padding_idx=2, scale_grad_by_freq=True)]

    # Some lie in the middle between two integers.
    x = torch.cat([torch.randn(4, 3), torch.arange(-3, 3).reshape(2, 3) * 0.05])
    scale, zero, at = torch.tensor([0.1, 0.05, 0.3]), torch.tensor([0, 3, -2], dtype=torch.int32), torch.tensor([[1, 2, 1], [4, 1, 2]])
    return derived(device, compiled, step, x, scale, zero, torch.randn(5, 3), at)


@program
def long_spectra(device: Any, compiled: Compile) -> list[Any]:
    def step(x: Any, filter: Any) -> Any:
        n = x.shape[-1] + filter.shape[-1]
        found = torch.fft.irfft(torch.fft.rfft(x, n=n) * torch.fft.rfft(filter, n=n), n=n)
        plane = torch.fft.fft2(x.reshape(2, 3, 100), norm="ortho")
        return [found, plane.abs(), torch.fft.ifft(torch.complex(x, -x), norm="forward").real, torch.fft.hfft(plane[..., :67], n=131)]

    return derived(device, compiled, step, torch.randn(2, 300), torch.randn(2, 97))


@program
def curvatures(device: Any, compiled: Compile) -> list[Any]:
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(3, 5), nn.Softplus(), nn.Linear(5, 1)).to(device)

    def step(x: Any) -> Any:
        def value(row: Any) -> Any:
            return model(row).squeeze()

        curvature = torch.func.vmap(torch.func.hessian(value))(x)
        return [torch.func.vmap(torch.func.grad(value))(x), curvature, torch.func.vmap(torch.func.jacrev(model))(x)]

    return [*derived(device, compiled, step, torch.randn(4, 3)), *(parameter.grad for parameter in model.parameters() if parameter.grad is not None)]


@program
def one_tensor_for_several_operands(device: Any, compiled: Compile) -> list[Any]:
    """Attention to itself, and an image as its own kernel: the gradient by each operand is one part of the whole."""

    def step(x: Any, images: Any) -> Any:
        halved = x * 0.5
        found = [F.scaled_dot_product_attention(x, x, x), F.scaled_dot_product_attention(x, halved, x, is_causal=True), F.scaled_dot_product_attention(halved, x, halved)]
        return [*found, F.conv2d(images, images, padding=1), F.conv2d(images, images.sigmoid(), stride=2), F.conv_transpose2d(images, images)]

    return derived(device, compiled, step, torch.randn(2, 2, 5, 4), torch.randn(3, 3, 4, 4))
