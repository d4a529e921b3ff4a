"""Writes `python/warpweft/_core.pyi` and `_functions.pyi` from the compiled module: names, defaults and docstrings are its own, types come from
the tables here.

    python stubs.py

`tests/test_types.py` holds what is written against the module and checks that it is up to date.
"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

from warpweft import _core, _functions

FOLDER = Path(__file__).parent / "python" / "warpweft"

HEADER = '''"""Types of the compiled part, written by `stubs.py`."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, Optional, Union, final

Number = Union[bool, int, float]
Length = Union[int, "Var", "Dim"]
Lengths = Union[Length, Sequence[Length]]
Axes = Union[int, Sequence[int]]
# A type of elements: ours, a name, or another library's.
DTypeLike = Union["DType", str, type, Any]
# Tensors and numbers, and arrays of other libraries.
Operand = Union["Tensor", Number, Any]
'''

# Types of parameters by name; of one function alone as `function.name`.
PARAMETERS = {
    "other": "Operand",
    "a": "int",
    "b": "int",
    "axis": "int",
    "axes": "Sequence[int]",
    "keepdims": "bool",
    "mask": "Tensor",
    "value": "Operand",
    "min": "Optional[Number]",
    "max": "Optional[Number]",
    "weight": "Tensor",
    "rtol": "float",
    "atol": "float",
    "equal_nan": "bool",
    "nan": "float",
    "posinf": "Optional[float]",
    "neginf": "Optional[float]",
    "dtype": "DTypeLike",
    "slope": "float",
    "alpha": "float",
    "approximate": "str",
    "rounding": "str",
    "order": "float",
    "eps": "float",
    "correction": "int",
    "ddof": "Optional[int]",
    "digits": "Optional[int]",
    "memo": "Any",
    "descending": "bool",
    "k": "int",
    "largest": "bool",
    "right": "bool",
    "source": "Tensor",
    "destination": "int",
    "start": "int",
    "end": "int",
    "sizes": "Axes",
    "length": "Length",
    "offset": "int",
    "axis1": "int",
    "axis2": "int",
    "size": "int",
    "seconds": "float",
    "step": "int",
    "shift": "Axes",
    "count": "int",
    "padding": "Axes",
    "mode": "str",
    "diagonal": "int",
    "shape": "Lengths",
    "strides": "Axes",
    "bias": "Optional[Tensor]",
    "stride": "Axes",
    "dilation": "Axes",
    "groups": "int",
    "output_padding": "Axes",
    "kernel": "Axes",
    "ceil_mode": "bool",
    "indices": "bool",
    "count_include_pad": "bool",
    "align_corners": "bool",
    "lengths": "Axes",
    "mean": "Tensor",
    "variance": "Tensor",
    "keys": "Tensor",
    "values": "Tensor",
    "is_causal": "bool",
    "scale": "Optional[float]",
    "enable_gqa": "bool",
    "index": "Tensor",
    "p": "float",
    "target": "Tensor",
    "reduction": "str",
    "delta": "float",
    "ignore_index": "Optional[int]",
    "label_smoothing": "float",
    "reduce": "str",
    "include_self": "bool",
    "key": "Any",
    "classes": "int",
    "stream": "Any",
    "max_version": "Optional[tuple[int, int]]",
    "dl_device": "Optional[tuple[int, int]]",
    "copy": "Optional[bool]",
    "targets": "Sequence[Tensor]",
    "cotangent": "Tensor",
    "stop": "Optional[Number]",
    "num": "int",
    "rows": "int",
    "imaginary": "Optional[Tensor]",
    "irfft.imaginary": "Tensor",
    "columns": "Optional[int]",
    "low": "int",
    "high": "int",
    "n": "int",
    "seed": "int",
    "dim": "Length",
    "tensors": "Sequence[Tensor]",
    "equation": "str",
    "operands": "Tensor",
    "vectors": "Tensor",
    "indexing": "str",
    "condition": "Tensor",
    "array": "Any",
    "data": "Any",
    "modulus": "None",
    "callable": "Callable[[list[Tensor]], Sequence[Tensor]]",
    "specs": "Sequence[tuple[DTypeLike, Lengths]]",
    "variables": "Sequence[Any]",
    "arguments": "Sequence[Any]",
    "name": "str",
    "value_": "int",
    "clip.min": "Optional[Number]",
    "hardtanh.min": "float",
    "hardtanh.max": "float",
    "lerp.weight": "Operand",
    "lerp.other": "Tensor",
    "linear.weight": "Tensor",
    "layer_norm.weight": "Optional[Tensor]",
    "rms_norm.weight": "Optional[Tensor]",
    "group_norm.weight": "Optional[Tensor]",
    "batch_norm.weight": "Optional[Tensor]",
    "batch_norm_training.weight": "Optional[Tensor]",
    "cross_entropy.weight": "Optional[Tensor]",
    "nll_loss.weight": "Optional[Tensor]",
    "attention.mask": "Optional[Tensor]",
    "matmul.other": "Tensor",
    "dot.other": "Tensor",
    "outer.other": "Tensor",
    "__matmul__.other": "Tensor",
    "shares_storage_with.other": "Tensor",
    "shares_elements_with.other": "Tensor",
    "uniform.low": "float",
    "uniform.high": "float",
    "pad.padding": "Sequence[tuple[Length, Length]]",
    "pad.value": "Number",
    "narrow.start": "Length",
    "movedim.source": "int",
    "reshape.shape": "Lengths",
    "as_strided.shape": "Axes",
    "as_strided.offset": "Optional[int]",
    "max_pool.stride": "Optional[Axes]",
    "avg_pool.stride": "Optional[Axes]",
    "index.indices": "Sequence[Tensor]",
    "index_assign.indices": "Sequence[Tensor]",
    "full_like.value": "Number",
    "fill.value": "Number",
    "full.value": "Number",
    "arange.start": "Number",
    "arange.step": "Number",
    "linspace.start": "float",
    "linspace.stop": "float",
    "where.a": "Operand",
    "where.b": "Operand",
    "bind.values": "Mapping[Var, int]",
    "bind.value": "int",
    "call_like.arguments": "tuple[Tensor, ...]",
    "view.shape": "Axes",
    "transpose.axes": "Optional[Axes]",
    "permute.shape": "Axes",
    "repeat.shape": "Axes",
    "Var.min": "int",
    "Var.max": "int",
    "__pow__.other": "Operand",
}
OPTIONAL_AXES = set("sum prod max min mean any all logsumexp var std norm count_nonzero flip squeeze roll".split())
OPTIONAL_AXIS = {"argmax", "argmin", "repeat_interleave", "cumsum", "cumprod"}
RETURNS = {
    "sort": "tuple[Tensor, Tensor]", "fft": "tuple[Tensor, Tensor]", "ifft": "tuple[Tensor, Tensor]", "rfft": "tuple[Tensor, Tensor]", "topk": "tuple[Tensor, Tensor]", "batch_norm_training": "tuple[Tensor, Tensor, Tensor]", "split": "list[Tensor]",
    "chunk": "list[Tensor]", "unbind": "list[Tensor]", "meshgrid": "list[Tensor]", "gradient": "list[Tensor]", "gradient_with": "list[Tensor]", "item": "Any", "tolist": "Any",
    "tobytes": "bytes", "numpy": "Any", "__array__": "Any", "__dlpack__": "Any", "__dlpack_device__": "tuple[int, int]", "__len__": "int", "__iter__": "Iterator[Tensor]",
    "__bool__": "bool", "__float__": "float", "__int__": "int", "__index__": "int", "__setitem__": "None", "__delitem__": "None", "assign": "None", "fill": "None",
    "index_assign": "None", "manual_seed": "None", "realize": "Tensor", "_core.realize": "None", "program": "str", "shares_storage_with": "bool", "shares_elements_with": "bool", "overlaps_itself": "bool", "is_contiguous": "bool", "vars": "list[Var]", "gradient_or_none": "list[Optional[Tensor]]", "call": "list[Tensor]", "call_arrays": "list[Any]", "call_like": "Any", "tune": "Tuning",
    "__hash__": "int", "__repr__": "str", "Var.bind": "Dim", "numel": "int", "dim": "int",
    "__contains__": "bool", "__copy__": "Tensor", "__deepcopy__": "Tensor", "__reduce__": "Any", "__format__": "str", "__round__": "Tensor", "__divmod__": "tuple[Tensor, Tensor]",
}  # fmt: skip
PROPERTIES = {
    "Tensor": {
        "shape": "tuple[Any, ...]",
        "dtype": "DType",
        "ndim": "int",
        "size": "int",
        "strides": "tuple[int, ...]",
        "T": "Tensor",
        "is_realized": "bool",
        "storage_offset": "int",
        "nbytes": "int",
        "itemsize": "int",
        "device": "str",
        "mT": "Tensor",
    },
    "DType": {"name": "str", "itemsize": "int"},
    "Var": {"name": "str", "min": "int", "max": "int"},
    "Function": {"kernels": "int"},
    "Tuning": {"seconds": "float", "by_hand_seconds": "float", "elapsed": "float", "tried": "int"},
    "Dim": {},
}
SPECIAL = (
    "__add__ __radd__ __sub__ __rsub__ __mul__ __rmul__ __truediv__ __rtruediv__ __floordiv__ __rfloordiv__ __mod__ __rmod__ __and__ __rand__ __or__ __ror__ __xor__ "
    "__rxor__ __lshift__ __rlshift__ __rshift__ __rrshift__ __pow__ __rpow__ __matmul__ __iadd__ __isub__ __imul__ __itruediv__ __ifloordiv__ __imod__ __ipow__ __imatmul__ "
    "__iand__ __ior__ __ixor__ __ilshift__ __irshift__ __divmod__ __rdivmod__ __contains__ __format__ __copy__ __deepcopy__ __reduce__ __round__ __array_function__ "
    "__rmatmul__ __neg__ __pos__ __abs__ __invert__ __lt__ __le__ __gt__ __ge__ __eq__ __ne__ __getitem__ __setitem__ __len__ __iter__ __bool__ __float__ __int__ __index__ "
    "__array__ __dlpack__ __dlpack_device__ __hash__"
).split()
LENGTH_OPS = "__add__ __radd__ __sub__ __rsub__ __mul__ __rmul__ __floordiv__ __rfloordiv__ __mod__ __rmod__".split()
# Those of Python's slots, which have no names of parameters.
SLOTS = {
    "__getitem__": "(self, key: Any, /) -> Tensor",
    "__setitem__": "(self, key: Any, value: Operand, /) -> None",
    "__matmul__": "(self, value: Any, /) -> Tensor",
    "__rmatmul__": "(self, value: Any, /) -> Tensor",
    "__imatmul__": "(self, value: Any, /) -> Tensor",
    "__ipow__": "(self, value: Operand, /) -> Tensor",
    "__divmod__": "(self, value: Operand, /) -> tuple[Tensor, Tensor]",
    "__rdivmod__": "(self, value: Operand, /) -> tuple[Tensor, Tensor]",
    "__contains__": "(self, value: Operand, /) -> bool",
    "__format__": "(self, format: str, /) -> str",
    "__copy__": "(self) -> Tensor",
    "__deepcopy__": "(self, memo: Any, /) -> Tensor",
    "__reduce__": "(self) -> Any",
    "__round__": "(self, digits: Optional[int] = None) -> Tensor",
    "__array_function__": "(self, function: Any, types: Any, args: Any, kwargs: Any, /) -> Any",
}


def parameter(owner: str, function: str, given: inspect.Parameter) -> str:
    """A parameter with its type."""
    kind = PARAMETERS.get(f"{owner}.{given.name}") or PARAMETERS.get(f"{function}.{given.name}") or PARAMETERS[given.name]
    if given.name == "axis" and function in OPTIONAL_AXES:
        kind = "Optional[Axes]"
    if given.name == "axis" and function in OPTIONAL_AXIS or given.default is None and not kind.startswith(("Optional", "Any")):
        kind = f"Optional[{kind}]" if not kind.startswith("Optional") else kind
    if given.kind is inspect.Parameter.VAR_POSITIONAL:
        return f"*{given.name}: {kind}"
    default = "" if given.default is inspect.Parameter.empty else f" = {given.default!r}".replace("Ellipsis", "...")
    return f"{given.name}: {kind}{default}"


def signature(owner: str, name: str, function: Any, is_method: bool) -> str:
    """What stands after the name of a function."""
    parts: list[str] = ["self"] if is_method else []
    after_star = False
    for given in inspect.signature(function).parameters.values():
        if given.name == "self":
            parts.append("/")
            continue
        if given.kind is inspect.Parameter.KEYWORD_ONLY and not after_star:
            if not any(part.startswith("*") for part in parts):
                parts.append("*")
            after_star = True
        parts.append(parameter(owner, name, given))
    returns = RETURNS.get(f"{owner}.{name}") or RETURNS.get(name, "Tensor")
    return f"({', '.join(parts)}) -> {returns}"


def documented(lines: list[str], head: str, doc: Any, indent: str) -> None:
    """A definition with its docstring."""
    text = (doc or "").strip().replace("\n", f"\n{indent}    ")
    lines.append(f'{indent}def {head}:\n{indent}    """{text}"""\n' if text else f"{indent}def {head}: ...\n")


def of_class(name: str, lines: list[str]) -> None:
    """The definition of a class."""
    kind = getattr(_core, name)
    lines.append(("" if name == "Tensor" else "@final\n") + f'class {name}:\n    """{(kind.__doc__ or "").strip()}"""\n')
    if name in ("Tensor", "Function", "Var"):
        lines.append(
            f"    def __new__{signature(name, '__new__', kind, False).replace('(', '(cls, ', 1).split(' -> ')[0]} -> {name}: ...\n"
        )
    if name == "Tensor":  # a slot, which has a name in Python since 3.12
        lines.append("    __array_priority__: float\n\n    def __buffer__(self, flags: int, /) -> memoryview: ...\n")
    for attribute, its_type in PROPERTIES[name].items():
        lines.append(f'    @property\n    def {attribute}(self) -> {its_type}:\n        """{getattr(kind, attribute).__doc__}"""\n')
    for attribute, function in sorted(vars(kind).items()):
        if attribute in SLOTS and name == "Tensor":
            lines.append(f"    def {attribute}{SLOTS[attribute]}: ...\n")
        elif attribute in ("__array__", "__dlpack__", "__dlpack_device__") or not attribute.startswith("_") and callable(function):
            documented(lines, f"{attribute}{signature(name, attribute, function, True)}", function.__doc__, "    ")
        elif attribute in SPECIAL and name == "Tensor":
            lines.append(f"    def {attribute}{slot(attribute)}: ...\n")
        elif name in ("Var", "Dim") and attribute in LENGTH_OPS:
            lines.append(f"    def {attribute}(self, value: Length, /) -> Dim: ...\n")
        elif attribute in ("__hash__",):
            lines.append("    def __hash__(self) -> int: ...\n")
        elif attribute in ("__eq__", "__ne__"):
            lines.append(f"    def {attribute}(self, value: object, /) -> bool: ...\n")


def slot(name: str) -> str:
    """What stands after the name of one of Python's slots."""
    if name in ("__neg__", "__pos__", "__abs__", "__invert__"):
        return "(self) -> Tensor"
    if name in ("__len__", "__iter__", "__bool__", "__float__", "__int__", "__index__", "__hash__"):
        return f"(self) -> {RETURNS[name]}"
    if name in ("__pow__", "__rpow__"):
        return "(self, value: Operand, mod: None = None, /) -> Tensor"
    ignored = "  # type: ignore[override]" if name in ("__eq__", "__ne__") else ""
    return f"(self, value: Operand, /) -> Tensor{ignored}" if not ignored else "(self, value: Operand, /) -> Tensor"


def core() -> str:
    """The stub of the compiled module."""
    lines = [HEADER]
    for name in ("DType", "Var", "Dim", "Tensor", "Tuning", "Function"):
        of_class(name, lines)
    for name, value in sorted(vars(_core).items()):
        if isinstance(value, _core.DType):
            lines.append(f"{name}: DType")
    for name, value in sorted(vars(_core).items()):
        if inspect.isbuiltin(value):
            documented(lines, f"{name}{signature('_core', name, value, False)}", value.__doc__, "")
    text = "\n".join(lines)
    for name in ("__eq__", "__ne__"):
        text = text.replace(
            f"def {name}(self, value: Operand, /) -> Tensor: ...",
            f"def {name}(self, value: Operand, /) -> Tensor: ...  # type: ignore[override]",
        )
    text = text.replace("def __ipow__(self, value: Operand, /) -> Tensor: ...", "def __ipow__(self, value: Operand, /) -> Tensor: ...  # type: ignore[misc]")
    return text + "\n"


def functions() -> str:
    """The stub of the functions that are methods too."""
    lines = [
        '"""Types of functions that are methods of `Tensor` too, written by `stubs.py`."""\n\nfrom collections.abc import Sequence\nfrom typing import Any, Optional\n'
    ]
    lines.append(
        "from warpweft._core import Axes, DTypeLike, Length, Lengths, Number, Operand, Tensor\n\n__all__ = [\n"
        + "".join(f"    {name!r},\n" for name in _functions.__all__)
        + "]\n"
    )
    for name in _functions.__all__:
        method = getattr(_core.Tensor, name)
        head = (
            signature("Tensor", name, method, True).replace("(self, /, ", "(x: Operand, /, ", 1).replace("(self, /)", "(x: Operand, /)", 1)
        )
        documented(lines, f"{name}{head}", method.__doc__, "")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    (FOLDER / "_core.pyi").write_text(core())
    (FOLDER / "_functions.pyi").write_text(functions())
