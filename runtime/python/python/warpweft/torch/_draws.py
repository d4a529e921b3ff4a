"""Ops that draw random numbers, so that a graph draws before its function runs and is not cut.

PyTorch draws, and so what is drawn is what eager PyTorch draws. Most of these ops take a tensor for its lengths, strides and type alone: they get memory without values in its place, which waits for nothing.
Where chances or deviations are tensors, numbers are drawn that do not depend on them, and then compared or scaled, as PyTorch does itself.
What is drawn depends on values in `multinomial` with replacement, `poisson` and `rrelu`: these cut a graph.
"""

from __future__ import annotations

import threading
from typing import Any, Callable

# What looks at the elements of no tensor.
_BY_LENGTHS = "bernoulli.p rand_like randn_like randint_like uniform normal_functional exponential geometric cauchy log_normal random".split()
_state = threading.local()


def drawn(op: Any, like: Any, *args: Any, dtype: Any = None, **kwargs: Any) -> Any:
    """What an op draws into memory of the lengths and strides of that tensor: how these lie in memory says in which order numbers are drawn."""
    import torch
    from torch._prims_common import compute_elementwise_output_logical_to_physical_perm as order_of

    order: list[int] = order_of(like)[0]
    memory = torch.empty_permuted(like.shape, order, dtype=dtype or like.dtype, device=like.device)
    _state.is_drawing = True
    try:
        return op(memory, *args, **kwargs)
    finally:
        _state.is_drawing = False


def _by_lengths(op: Any) -> Callable[..., Any]:
    """A decomposition into the same op of a tensor without values."""

    def call(x: Any, *args: Any, **kwargs: Any) -> Any:
        return NotImplemented if getattr(_state, "is_drawing", False) else drawn(op, x, *args, **kwargs)

    return call


def bernoulli(chances: Any, generator: Any = None) -> Any:
    """Ones by chances of their own, in the order of indices."""
    import torch

    numbers = torch.rand(chances.shape, dtype=_drawn_in(chances), device=chances.device, **_of(generator))
    return (numbers < chances).to(chances.dtype)


def bernoulli_in(x: Any, chances: Any, generator: Any = None) -> Any:
    """As `bernoulli`, in the order in which a tensor lies in memory."""
    import torch

    return (drawn(torch.ops.aten.uniform.default, x, dtype=_drawn_in(chances), **_of(generator)) < chances).to(x.dtype)


def _drawn_in(chances: Any) -> Any:
    import torch

    return torch.float64 if chances.dtype == torch.float64 else torch.float32


def _of(generator: Any) -> dict[str, Any]:
    return {} if generator is None else {"generator": generator}


def normal(mean: Any, std: Any = 1.0, generator: Any = None) -> Any:
    """Of means and deviations, of which at least one is a tensor."""
    import torch

    like = mean if isinstance(mean, torch.Tensor) else std
    shape = (mean + std).shape if isinstance(std, torch.Tensor) else like.shape
    return torch.randn(shape, dtype=like.dtype, device=like.device, **_of(generator)) * std + mean


def multinomial(chances: Any, count: int, replacement: bool = False, generator: Any = None) -> Any:
    """Places by chances, none of them twice: those whose chances are the largest beside exponential numbers, as PyTorch has it."""
    import torch

    aten = torch.ops.aten
    if replacement and count != 1 or chances.dtype not in (torch.float32, torch.float64) or not chances.numel():
        return NotImplemented
    numbers = drawn(aten.exponential.default, chances, 1.0, **_of(generator))
    is_valid = (chances.max() < float("inf")) & (chances.min() >= 0)
    aten._assert_async.msg(is_valid, "probability tensor contains either `inf`, `nan` or element < 0")
    is_any = (chances.sum(-1) != 0).all()
    aten._assert_async.msg(is_any, "invalid multinomial distribution (sum of probabilities <= 0)")
    weighed = chances / numbers
    return weighed.argmax(-1, keepdim=True) if count == 1 else weighed.topk(count)[1]


def entries() -> dict[Any, Callable[..., Any]]:
    """Decompositions by op."""
    import torch

    aten = torch.ops.aten
    found: dict[Any, Callable[..., Any]] = {}
    for name in _BY_LENGTHS:
        packet, _, only = name.partition(".")
        for overload in [only] if only else getattr(aten, packet).overloads():
            op = getattr(getattr(aten, packet), overload)
            if not op._schema.is_mutable and op._schema.arguments[0].name == "self":
                found[op] = _by_lengths(op)
    found[aten.multinomial.default] = multinomial
    found[aten.bernoulli.default], found[aten.bernoulli.Tensor] = bernoulli, bernoulli_in
    found.update({op: normal for op in (aten.normal.Tensor_Tensor, aten.normal.Tensor_float, aten.normal.float_Tensor)})
    return found
