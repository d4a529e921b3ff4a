"""Which ops AOTAutograd takes apart before a graph is ours: all that PyTorch can, but for those that the table has whole; and some that PyTorch leaves whole.

Those are layers that PyTorch's modules call as one op where no gradients are wanted, derivatives (`_backwards`), ops over lists (`_lists`), and what draws random numbers (`_draws`). The device takes ops apart by the same table.
Tests: tests/test_programs.py, tests/modules.py.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any, Callable, Optional


@functools.cache
def decompositions() -> dict[Any, Callable[..., Any]]:
    """The table for AOTAutograd."""
    import torch
    from torch._decomp import core_aten_decompositions, decomposition_table

    from warpweft.torch import _backwards, _draws, _lists, _ops
    from warpweft.torch._ops import images
    from warpweft.torch._table import TABLE

    _ops.load()
    found = {**decomposition_table, **core_aten_decompositions()}
    random = {op for op in found if torch.Tag.nondeterministic_seeded in getattr(op, "tags", ())}
    found = {op: how for op, how in found.items() if op not in TABLE and op not in random}
    aten = torch.ops.aten
    found.update({op: _of_floats(how) for op, how in found.items() if "linear" in op.name() or "cubic" in op.name()})
    found[aten.native_dropout.default] = native_dropout
    found[aten._native_multi_head_attention.default] = multi_head_attention
    found[aten._transformer_encoder_layer_fwd.default] = transformer_encoder_layer
    found[aten._cdist_backward.default] = cdist_backward
    found[aten.hardshrink_backward.default] = found[aten.softshrink_backward.default] = shrink_backward
    own = {**_lists.entries(), **_backwards.entries(), **_draws.entries()}
    # Of those that the table has, too, some are taken apart where that is better.
    found.update({op: how for op, how in own.items() if op not in TABLE or op in _backwards.taken_apart()})
    every = {**decomposition_table, **core_aten_decompositions(), **own}
    found.update({op: _of_variables(every[op]) for op in images.resampling() if op in every})
    found.update({op: _of_windows(every[op]) for op in images.windows() if op in every})
    found[aten.grid_sampler_2d.default] = _of_samples(every[aten.grid_sampler_2d.default])
    return found


def _of_floats(how: Callable[..., Any]) -> Callable[..., Any]:
    """A decomposition of floats alone: the CPU weighs bytes by integers, which rounds at other steps."""

    def call(x: Any, *args: Any, **kwargs: Any) -> Any:
        return how(x, *args, **kwargs) if x.is_floating_point() else NotImplemented

    return call


@contextlib.contextmanager
def left_whole() -> Iterator[None]:
    """While this lasts, images that are resampled reach the table of decompositions, and an LSTM is taken apart on the CPU as everywhere.

    PyTorch has these ops taken apart in Python before it looks at a table, whoever traces; so that way is closed, under the lock that compilation holds.
    Overloads that take factors become those that take sizes.
    Of an LSTM it makes ops of its library for the CPU, whose derivative it cannot trace.
    """
    import torch
    from torch._decomp import decompositions as theirs
    from warpweft.torch._ops import images

    chosen: Any = getattr(theirs, "select_one_layer_lstm_function", None)
    by_steps: Any = getattr(theirs, "one_layer_lstm", None)
    if by_steps is not None:
        theirs.select_one_layer_lstm_function = lambda *args: by_steps

    keys = (torch._C.DispatchKey.Autograd, torch._C.DispatchKey.CompositeImplicitAutograd)
    closed: list[tuple[Any, Any, Any]] = []
    for op in images.resampling("vec"):
        for key in keys:
            kernels = getattr(op, "py_kernels", {})
            if key in kernels:
                closed.append((op, key, kernels.pop(key)))
                if op._overloadname == "vec":
                    kernels[key] = _of_sizes(op.overloadpacket.default)
                op._dispatch_cache.clear()
    try:
        yield
    finally:
        theirs.select_one_layer_lstm_function = chosen
        for op, key, kernel in closed:
            op.py_kernels[key] = kernel
            op._dispatch_cache.clear()


def _of_sizes(op: Any) -> Callable[..., Any]:
    """The overload of an op that takes sizes or factors, made of the one that takes sizes."""
    from torch._decomp import decompositions as theirs

    sizes_of: Any = theirs.upsample_compute_output_size

    def call(x: Any, output_size: Any, *rest: Any) -> Any:
        *options, factors = rest
        sizes = sizes_of(x.shape, output_size, factors)
        return op(x, sizes, *options, *(factors or [None] * len(sizes)))

    return call


def _of_variables(how: Callable[..., Any]) -> Callable[..., Any]:
    """A decomposition of images of floats one of whose lengths is a variable."""

    def call(x: Any, *args: Any, **kwargs: Any) -> Any:
        return how(x, *args, **kwargs) if _has_variable(x, args) and x.is_floating_point() else NotImplemented

    return call


def _of_windows(how: Callable[..., Any]) -> Callable[..., Any]:
    """A decomposition of images one of whose lengths is a variable, or of complex ones."""

    def call(x: Any, *args: Any, **kwargs: Any) -> Any:
        return how(x, *args, **kwargs) if _has_variable(x, args) or x.is_complex() else NotImplemented

    return call


def _of_samples(how: Callable[..., Any]) -> Callable[..., Any]:
    """A decomposition of images one of whose lengths is a variable, or of half floats: it rounds where PyTorch does."""

    def call(x: Any, *args: Any, **kwargs: Any) -> Any:
        return how(x, *args, **kwargs) if _has_variable(x, args) or x.element_size() < 4 else NotImplemented

    return call


def _has_variable(x: Any, args: tuple[Any, ...]) -> bool:
    """Whether a length of a tensor, or in a list among arguments, is a variable."""
    import torch

    lists = [found if isinstance(found, (list, tuple)) else getattr(found, "shape", ()) for found in (x, *args)]
    return any(isinstance(length, torch.SymInt) for lengths in lists for length in lengths)


def shrink_backward(gradient: Any, x: Any, bound: float) -> Any:
    """None between the bounds, of both functions that shrink."""
    import torch

    return torch.where((x >= -bound) & (x <= bound), 0.0, gradient)


def cdist_backward(gradient: Any, one: Any, other: Any, p: float, distances: Any) -> Any:
    """By the first points; where a distance is 0, so is the derivative."""
    import torch

    apart = one.unsqueeze(-2) - other.unsqueeze(-3)
    factor, far = gradient.unsqueeze(-1), distances.unsqueeze(-1)
    if p == 0:
        return torch.zeros_like(one)
    if p == 1:
        return (factor * apart.sign()).sum(-2)
    if p == float("inf"):
        return (factor * apart.sign() * (apart.abs() == far)).sum(-2)
    hidden = (far == 0) | (apart == 0) if p < 2 else far == 0
    safe = torch.where(hidden, 1.0, apart)
    slope = apart if p == 2 else safe.sign() * safe.abs() ** (p - 1)
    return torch.where(hidden, 0.0, factor * slope / torch.where(far == 0, 1.0, far) ** (p - 1)).sum(-2)


def native_dropout(x: Any, p: float, train: Optional[bool]) -> tuple[Any, Any]:
    """As PyTorch's on the CPU, with the draw by itself: what is drawn depends on lengths alone, so it comes before the function and does not cut it.

    Numbers are drawn in the order in which elements lie in memory.
    """
    import torch
    from torch._prims_common import compute_elementwise_output_logical_to_physical_perm as order_of
    from warpweft.torch._draws import drawn

    if train is False or not x.numel():
        return x.clone(), torch.ones_like(x, dtype=torch.bool)
    order: list[int] = order_of(x)[0]
    mask = drawn(torch.ops.aten.bernoulli.p, x.permute(order), 1 - p, dtype=torch.bool)
    mask = mask.permute([order.index(axis) for axis in range(x.ndim)])
    return x * mask * (1 / (1 - p) if p < 1 else 0.0), mask


# The kind of a mask that is of the keys of each sequence; others are of pairs of positions, for each sequence and head or for all.
_OF_KEYS = 1


def _heads(x: Any, count: int) -> Any:
    return x.unflatten(-1, (count, x.shape[-1] // count)).transpose(1, 2)


def multi_head_attention(
    query: Any, key: Any, value: Any, embed_dim: int, num_head: int, qkv_weight: Any, qkv_bias: Any, proj_weight: Any, proj_bias: Any,
    mask: Any = None, need_weights: bool = True, average_attn_weights: bool = True, mask_type: Optional[int] = None,
) -> tuple[Any, Any]:  # fmt: skip
    """The attention of `torch.nn.MultiheadAttention`; where a mask is true, there is nothing to attend to."""
    import torch

    linear = torch.nn.functional.linear
    parts = [
        _heads(linear(x, weight, bias), num_head) for x, weight, bias in zip((query, key, value), qkv_weight.chunk(3), qkv_bias.chunk(3))
    ]
    scores = (parts[0] / (embed_dim // num_head) ** 0.5) @ parts[1].transpose(-2, -1)
    if mask is not None:
        hidden = mask.to(torch.bool)
        hidden = hidden[:, None, None] if mask_type == _OF_KEYS else hidden
        scores = scores.masked_fill(hidden, float("-inf"))
    weights = scores.softmax(-1)
    found = linear((weights @ parts[2]).transpose(1, 2).flatten(2), proj_weight, proj_bias)
    if not need_weights:
        return found, query.new_empty(0)
    return found, weights.mean(1) if average_attn_weights else weights


def transformer_encoder_layer(
    src: Any, embed_dim: int, num_heads: int, qkv_weight: Any, qkv_bias: Any, proj_weight: Any, proj_bias: Any, use_gelu: bool, norm_first: bool,
    eps: float, norm_weight_1: Any, norm_bias_1: Any, norm_weight_2: Any, norm_bias_2: Any, ffn_weight_1: Any, ffn_bias_1: Any, ffn_weight_2: Any,
    ffn_bias_2: Any, mask: Any = None, mask_type: Optional[int] = None,
) -> Any:  # fmt: skip
    """`torch.nn.TransformerEncoderLayer` in evaluation."""
    import torch

    F = torch.nn.functional

    def attended(x: Any) -> Any:
        return multi_head_attention(
            x, x, x, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, mask, False, True, mask_type
        )[0]  # fmt: skip

    def fed(x: Any) -> Any:
        y = F.linear(x, ffn_weight_1, ffn_bias_1)
        return F.linear(F.gelu(y) if use_gelu else y.relu(), ffn_weight_2, ffn_bias_2)

    def norm(x: Any, weight: Any, bias: Any) -> Any:
        return F.layer_norm(x, (embed_dim,), weight, bias, eps)

    if norm_first:
        x = src + attended(norm(src, norm_weight_1, norm_bias_1))
        return x + fed(norm(x, norm_weight_2, norm_bias_2))
    x = norm(src + attended(src), norm_weight_1, norm_bias_1)
    return norm(x + fed(x), norm_weight_2, norm_bias_2)
