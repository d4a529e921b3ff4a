"""Methods of `Tensor` as functions of the module: `warpweft.exp(x)` is `warpweft.Tensor(x).exp()`."""

from __future__ import annotations

import inspect
from typing import Any, Callable

from warpweft._core import Tensor

_METHODS = (
    "abs sign signbit square reciprocal trunc floor ceil round isnan isinf isfinite logical_not negative bitwise_not exp exp2 "
    "expm1 log log2 log10 log1p sqrt rsqrt sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf relu relu6 sigmoid "
    "logsigmoid silu quick_gelu softplus mish softsign hardsigmoid hardswish selu zeros_like ones_like full_like "
    "add subtract multiply divide floor_divide remainder fmod pow atan2 copysign logaddexp logical_and logical_or logical_xor "
    "bitwise_and bitwise_or bitwise_xor left_shift right_shift equal not_equal less less_equal greater greater_equal maximum "
    "minimum clip lerp isclose nan_to_num leaky_relu elu celu gelu hardtanh masked_fill "
    "sum prod max min mean any all logsumexp cumsum cumprod cummax cummin logcumsumexp diff softmax log_softmax var std norm "
    "normalize argmax argmin count_nonzero sort argsort topk "
    "reshape expand permute transpose movedim flip unsqueeze squeeze flatten unflatten diagonal roll repeat repeat_interleave "
    "diag pad tril triu split chunk unbind "
    "matmul dot outer linear conv conv_transpose max_pool avg_pool interpolate layer_norm rms_norm group_norm batch_norm "
    "attention embedding dropout mse_loss l1_loss binary_cross_entropy binary_cross_entropy_with_logits cross_entropy nll_loss "
    "huber_loss gather index_select one_hot scatter scatter_reduce fft ifft rfft irfft"
).split()

__all__ = list(_METHODS)


def _function(name: str) -> Callable[..., Any]:
    method = getattr(Tensor, name)

    def function(x: Any, *args: Any, **kwargs: Any) -> Any:
        return method(x if isinstance(x, Tensor) else Tensor(x), *args, **kwargs)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = method.__doc__
    function.__module__ = "warpweft"
    parameters = list(inspect.signature(method).parameters.values())
    parameters[0] = inspect.Parameter("x", inspect.Parameter.POSITIONAL_ONLY)
    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return function


globals().update({name: _function(name) for name in _METHODS})
