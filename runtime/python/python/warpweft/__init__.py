"""Warpweft: lazy tensors that become fused kernels and machine code.

A `Tensor` is computed when a value is asked for: printed, read, or handed to another library. Names are numpy's where numpy
has them and PyTorch's elsewhere. `jit` compiles a function once and calls it as one program.
"""

from warpweft import _functions
from warpweft._core import (
    Dim,
    DType,
    Function,
    Tensor,
    Tuning,
    Var,
    arange,
    bfloat16,
    bool_,
    cat,
    einsum,
    eye,
    float16,
    float32,
    float64,
    from_dim,
    from_dlpack,
    full,
    int8,
    int16,
    int32,
    int64,
    linspace,
    manual_seed,
    meshgrid,
    ones,
    rand,
    randint,
    randn,
    randperm,
    realize,
    stack,
    uint8,
    uint16,
    uint32,
    uint64,
    uniform,
    where,
    zeros,
)
from warpweft._functions import *  # noqa: F403
from warpweft._jit import Compiled, jit

concatenate = cat
concat = cat
tensor = Tensor
array = Tensor

__version__ = "0.1.0"
# fmt: off
__all__ = [
    "Compiled", "Dim", "DType", "Function", "Tensor", "Tuning", "Var", "arange", "array", "bfloat16", "bool_", "cat",
    "concat", "concatenate", "einsum", "eye", "float16", "float32", "float64", "from_dim", "from_dlpack",
    "full", "int8", "int16", "int32", "int64", "jit", "linspace", "manual_seed", "meshgrid", "ones", "rand",
    "randint", "randn", "randperm", "realize", "stack", "tensor", "uint8", "uint16", "uint32", "uint64", "uniform", "where", "zeros",
]
# fmt: on
__all__ += _functions.__all__
