"""One function for all ops of the device.

An op is, in this order: written here because it makes or moves memory (`_special`); a view, which PyTorch's meta function makes over the same storage;
an expression of lazy tensors, if the table of the compiler's backend has it; taken apart, if PyTorch has a decomposition; or run on the host and counted.
An op in place, or with `out=`, is the functional one and then a write. Before an expression is made, ATen's meta function says whether the
call is allowed and what its results look like; where it refuses, the host runs the op and raises what it raises there.

Always holds: an error or a refusal on the way leaves all tensors as they were, so the next way starts from the same.
"""

from __future__ import annotations

import functools
import math
from typing import Any, Callable, Optional

import torch

import warpweft as ww
from warpweft.torch._decompositions import decompositions
from warpweft.torch._device import _fallback, _memory, _metas
from warpweft.torch._graph import _result
from warpweft.torch._shapes import is_empty
from warpweft.torch._table import COMPLEX, TABLE, Context, Pair, Unsupported

# What a builder may raise where it does not take its arguments.
REFUSALS = (Unsupported, ValueError, IndexError, TypeError, RuntimeError, OverflowError, NotImplementedError, AttributeError, KeyError)
# Ops that have a function of their own.
SPECIAL: dict[Any, Callable[..., Any]] = {}


# What an op takes that makes a tensor; the one with `out=` takes it from there.
FACTORY = ("dtype", "layout", "device", "pin_memory")


class Kind:
    """What is known of an op whatever its arguments."""

    def __init__(self, op: Any) -> None:
        schema = op._schema
        self.written = [argument.name for argument in schema.arguments if argument.alias_info is not None and argument.alias_info.is_write]
        aliases = [result.alias_info is not None for result in schema.returns]
        self.is_view = any(aliases) and not self.written
        self.is_random = torch.Tag.nondeterministic_seeded in op.tags
        self.functional = op if not schema.is_mutable else _functional(op, self.written)
        # Whether the op may write to its first argument, which ATen then gives as `out`, too.
        self.has_in_place = hasattr(torch.ops.aten, schema.name.partition("::")[2] + "_")
        self.names = [argument.name for argument in schema.arguments]


def _functional(op: Any, written: list[str]) -> Any:
    """The op that gives what this one writes; none if there is none of the same arguments."""
    schema = op._schema
    space, _, name = schema.name.partition("::")
    is_out = all(argument.is_out for argument in schema.arguments if argument.name in written)
    if not is_out and not (name.endswith("_") and written == ["self"]):
        return None
    wanted = [(argument.name, str(argument.type)) for argument in schema.arguments if not argument.is_out]
    names = [name] if is_out else [name[:-1]]
    names += [base.removesuffix("_out") for base in names if base.endswith("_out")]
    for base in names:
        packet = getattr(getattr(torch.ops, space), base, None)
        for overload in packet.overloads() if packet is not None else ():
            found = getattr(packet, overload)
            other = found._schema
            own = [(argument.name, str(argument.type)) for argument in other.arguments]
            same = own == wanted or [pair for pair in own if pair[0] not in FACTORY] == wanted
            if same and not other.is_mutable and len(other.returns) == len(written):
                return found
    return None


@functools.cache
def kind_of(op: Any) -> Kind:
    """What is known of an op."""
    return Kind(op)


@functools.cache
def _taken_apart() -> dict[Any, Callable[..., Any]]:
    return decompositions()


def dispatch(op: Any, *args: Any, **kwargs: Any) -> Any:
    """Runs an op that has a tensor of the device among its arguments, or makes one."""
    special = SPECIAL.get(op)
    if special is not None:
        return special(*args, **kwargs)
    return dispatch_plain(op, *args, **kwargs)


def dispatch_plain(op: Any, *args: Any, **kwargs: Any) -> Any:
    """As `dispatch`, of an op without a function of its own."""
    kind = kind_of(op)
    try:
        refuse_others(op, _metas.leaves(args, kwargs))
    except OtherDevice as error:
        raise RuntimeError(str(error)) from None
    if kind.is_view:
        return op._op_dk(torch._C.DispatchKey.Meta, *args, **kwargs)
    why = "it has no expression"
    if kind.functional is not None and not kind.is_random:
        try:
            return _expressed(op, kind, args, kwargs)
        except REFUSALS as refusal:
            why = str(refusal).split("\n")[0] or why
    return _fallback.run(op, args, kwargs, why)


def _expressed(op: Any, kind: Kind, args: Any, kwargs: Any) -> Any:
    """Runs an op as expressions; raises where it cannot."""
    args, kwargs = _metas.mapped(_plain_number, args), _metas.mapped(_plain_number, kwargs)
    if _is_stricter(op, args):
        raise Unsupported("the host looks closer at it")
    if not kind.written:
        meta = _metas.call(op, args, kwargs)
        if meta is None:
            raise Unsupported("its meta function refuses it")
        return _computed(op, args, kwargs, meta, True)
    named = {**dict(zip(kind.names, args)), **kwargs}
    targets = [named[name] for name in kind.written]
    if not all(map(_metas.is_plain, targets)):
        raise Unsupported("it writes to what is no plain tensor of the device")
    functional: Any = kind.functional
    is_out = op._schema.arguments[kind.names.index(kind.written[0])].is_out
    if is_out:
        kwargs = {name: value for name, value in kwargs.items() if name not in kind.written}
        if any(argument.name == "device" for argument in functional._schema.arguments):
            kwargs.update(dtype=targets[0].dtype, device=targets[0].device)
    meta = _metas.call(functional, args, kwargs)
    if meta is None:
        raise Unsupported("its functional form is refused")
    outs = list(meta.out) if isinstance(meta.out, (tuple, list)) else [meta.out]
    has_in_place = kind.has_in_place and len(targets) == 1 and targets[0] is args[0]
    _refuse_targets(targets, outs, is_out, _metas.leaves(args, kwargs), torch.Tag.pointwise in functional.tags, has_in_place)
    found = _computed(functional, args, kwargs, meta, False)
    values = list(found) if isinstance(found, (tuple, list)) else [found]
    for target, value, out in zip(targets, values, outs):
        if target.shape != out.shape:
            _memory.set_layout(target, target.untyped_storage(), target.storage_offset(), out.shape, out.stride())
        _memory.write(target, value)
    return targets[0] if len(targets) == 1 else tuple(targets)


def _refuse_targets(
    targets: list[torch.Tensor], outs: list[Any], is_out: bool, leaves: list[Any], is_pointwise: bool, has_in_place: bool
) -> None:
    """Refuses results that do not fit what they are written to, and writes to what is read: the host says what becomes of them."""
    own = {target.untyped_storage()._cdata for target in targets}
    reads_them = any(_memory.is_ours(leaf) and leaf.untyped_storage()._cdata in own for leaf in leaves)
    for target, out in zip(targets, outs):
        if not torch.can_cast(out.dtype, target.dtype) or is_out and not is_pointwise and target.dtype != out.dtype:
            raise Unsupported("its result is cast")
        # Memory that is not empty is made larger with a warning, which is the host's.
        if target.shape != out.shape and not (is_out and target.numel() == 0 and not reads_them):
            raise Unsupported("its result has another shape")
    if is_out and reads_them and not is_pointwise and not has_in_place:
        raise Unsupported("what it writes to is what it reads")
    _refuse_overlaps(targets, leaves)
    for target in targets:
        refuse_repeats(target)


def refuse_repeats(target: torch.Tensor) -> None:
    """Refuses to write to a view whose positions may share elements."""
    pairs = sorted((stride, length) for stride, length in zip(target.stride(), target.shape) if length != 1)
    reach = 0
    for stride, length in pairs:
        if target.numel() and stride <= reach:
            raise Unsupported("positions of what it writes to share elements")
        reach += stride * (length - 1)


# Of these, what is wrong with indices into a tensor without axes is said by the functions of the host alone.
_STRICTER = {"index_select", "index_add", "index_add_", "index_copy", "index_copy_", "index_fill", "index_fill_"}


def _is_stricter(op: Any, args: Any) -> bool:
    """Whether the host raises where metas do not."""
    name = op.overloadpacket.__name__
    # What fills is no index.
    args = args[:3] if name.startswith("index_fill") else args
    return name in _STRICTER and any(isinstance(value, torch.Tensor) and not value.ndim for value in args)


def _plain_number(value: Any) -> Any:
    """A number that the host wrapped as a tensor, as it was."""
    if not isinstance(value, torch.Tensor) or value.device.type != "cpu" or value.ndim:
        return value
    return value.item() if is_wrapped(value) else value


_NARROW = {True: torch.empty((), dtype=torch.float16), False: torch.empty((), dtype=torch.int8)}


def is_wrapped(value: torch.Tensor) -> bool:
    """Whether a tensor of the host stands for a number of Python, which counts less than a tensor where types meet."""
    if value.dtype == torch.bool:
        return True
    if value.dtype not in (torch.float64, torch.int64):
        return False
    narrow = _NARROW[value.dtype.is_floating_point]
    return torch.result_type(narrow, value) == narrow.dtype


def _refuse_overlaps(targets: list[torch.Tensor], leaves: list[Any]) -> None:
    """Refuses to write where an argument that is another view of the same storage may show the same elements, or two targets do."""
    for position, target in enumerate(targets):
        own = target.untyped_storage()._cdata
        for leaf in [*leaves, *targets[position + 1 :]]:
            if leaf is target or not _memory.is_ours(leaf) or leaf.untyped_storage()._cdata != own:
                continue
            same = leaf.shape == target.shape and leaf.stride() == target.stride() and leaf.storage_offset() == target.storage_offset()
            if not same and not _apart(leaf, target):
                raise Unsupported("what it writes to overlaps what it reads")


def _apart(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two views surely share no element: their ranges do not meet."""

    def ends(tensor: torch.Tensor) -> tuple[Any, Any]:
        if not tensor.numel():
            return 0, -1
        start = tensor.storage_offset()
        return start, start + sum((length - 1) * step for length, step in zip(tensor.shape, tensor.stride()))

    (start, end), (first, last) = ends(one), ends(other)
    return one.dtype == other.dtype and (end < first or last < start)


def _lazy(value: Any) -> Any:
    """An argument of a builder."""
    if not isinstance(value, torch.Tensor):
        return value
    if value.device.type == "cpu":
        copy = value.detach().clone().contiguous()
        return Pair(*(ww.from_dlpack(part.clone()) for part in (copy.real, copy.imag))) if copy.is_complex() else ww.from_dlpack(copy)
    return _memory.read(value)


# Where indices may be told by tensors of the host, as PyTorch has it.
_INDEXED = {"index", "_unsafe_index", "index_put", "_unsafe_index_put", "_index_put_impl", "index_put_", "_index_put_impl_"}


def refuse_others(op: Any, leaves: list[Any]) -> None:
    """Raises where a tensor is on another device, as PyTorch does; numbers of the host may be anywhere."""
    if op.overloadpacket.__name__ in _INDEXED:
        return
    for leaf in leaves:
        if leaf.ndim and not _memory.is_ours(leaf):
            raise OtherDevice(
                f"Expected all tensors to be on the same device, but found at least two devices, warpweft:0 and {leaf.device}!"
            )


class OtherDevice(Exception):
    """What becomes PyTorch's `RuntimeError`, and no reason to try another way."""


def _computed(op: Any, args: Any, kwargs: Any, meta: _metas.Meta, wraps: bool) -> Any:
    """What a functional op gives: as tensors of the device if `wraps`, else as lazy ones."""
    outs = list(meta.out) if isinstance(meta.out, (tuple, list)) else [meta.out]
    if not all(out is None or isinstance(out, torch.Tensor) and out.layout == torch.strided for out in outs):
        raise Unsupported("it gives no tensors")
    refusal: Optional[BaseException] = None
    if op in TABLE:
        try:
            found = _built(op, args, kwargs, meta)
            if not wraps:
                return found
            if not isinstance(meta.out, (tuple, list)):
                return _memory.made(found, meta.out)
            made = [None if out is None else _memory.made(part, out) for part, out in zip(found, meta.out)]
            return made if isinstance(meta.out, list) else tuple(made)
        except REFUSALS as error:
            refusal = error
    how = _taken_apart().get(op)
    if how is None:
        raise refusal or Unsupported("it has no expression")
    found = how(*args, **kwargs)
    if found is NotImplemented:
        raise Unsupported("its decomposition does not take it")
    results = list(found) if isinstance(found, (tuple, list)) else [found]
    own = {leaf.untyped_storage()._cdata for leaf in _metas.leaves(args, kwargs) if _memory.is_ours(leaf)}
    values = [_fitting(result, out, own, wraps) for result, out in zip(results, outs)]
    return values if isinstance(meta.out, list) else tuple(values) if isinstance(meta.out, tuple) else values[0]


def _fitting(result: Any, meta: Any, own: set[int], wraps: bool) -> Any:
    """What a decomposition gave, as a tensor of its own with the strides that it should have."""
    if meta is None:
        return None
    if not _metas.is_plain(result) or result.shape != meta.shape or result.dtype != meta.dtype:
        raise Unsupported("its decomposition gives something else")
    if not wraps:
        return _memory.read(result)
    is_fresh = result.untyped_storage()._cdata not in own and result.storage_offset() == 0
    if is_fresh and result.stride() == meta.stride() and result.numel() * result.element_size() == result.untyped_storage().nbytes():
        own.add(result.untyped_storage()._cdata)
        return result
    return _memory.made(_memory.read(result), meta)


@functools.cache
def _changing() -> frozenset[Any]:
    """Ops that take a tensor in place of a number."""
    aten = torch.ops.aten
    return frozenset(
        [aten.add.Tensor, aten.sub.Tensor, aten.mul.Tensor, aten.div.Tensor, aten.rsub.Scalar, aten.addcmul.default, aten.addcdiv.default]
    )


_numbers: dict[Any, set[float]] = {}
# So many numbers are part of programs, for each position where they stand.
_CONSTANTS = 8


def _is_data(position: Any, value: Any) -> bool:
    """Whether a number is one of many that stand there, such as a rate that changes by the step: then it is no part of what is compiled."""
    if not isinstance(value, float) or not math.isfinite(value):
        return False
    seen = _numbers.setdefault(position, set())
    if len(seen) < _CONSTANTS:
        seen.add(value)
    return value not in seen


def _with_data(op: Any, args: Any, kwargs: Any, dtype: Any) -> Any:
    """The arguments with such numbers as tensors."""

    def change(position: Any, value: Any) -> Any:
        return ww.from_dlpack(torch.tensor(value, dtype=dtype)) if _is_data((op, position), value) else value

    return [change(position, value) for position, value in enumerate(args)], {name: change(name, value) for name, value in kwargs.items()}


def _built(op: Any, args: Any, kwargs: Any, meta: _metas.Meta) -> Any:
    """What a builder of the table gives, in the types and shapes that it should have."""
    outs = list(meta.out) if isinstance(meta.out, (tuple, list)) else [meta.out]
    leaves = _metas.leaves(args, kwargs)
    is_complex = any(leaf.dtype.is_complex for leaf in (*outs, *leaves) if leaf is not None)
    if is_complex and op not in COMPLEX:
        raise Unsupported("complex numbers")
    if all(map(is_empty, outs)):
        value: Any = [None] * len(outs) if isinstance(meta.out, (tuple, list)) else ww.zeros(0)
    else:
        values = _metas.mapped(_lazy, args), _metas.mapped(_lazy, kwargs)
        if op in _changing() and meta.out.dtype.is_floating_point:
            values = _with_data(op, *values, meta.out.dtype)
        context = Context(
            meta.out, tuple(meta.args), meta.kwargs, frozenset(number for number, out in enumerate(outs) if out is not None and out.numel())
        )
        value = TABLE[op](context, *values[0], **values[1])
    found = _result(value, meta.out)
    for part, out in zip(found if isinstance(found, tuple) else [found], outs):
        if out is not None and not isinstance(part, (ww.Tensor, Pair)) or isinstance(part, ww.Tensor) and part.shape != tuple(out.shape):
            raise Unsupported("it gives something else than its meta function says")
    return found
