"""Ops that make memory, move it, or ask for a value."""

from __future__ import annotations

import functools
from typing import Any, Callable

import torch

import warpweft as ww
from warpweft.torch._decompositions import native_dropout
from warpweft.torch._device import _cells, _dispatch, _fallback, _memory, _metas
from warpweft.torch._table import Pair, Unsupported, dtype_of, number

aten = torch.ops.aten
META = torch._C.DispatchKey.Meta


def _strided(layout: Any) -> None:
    if layout not in (None, torch.strided):
        raise NotImplementedError(f"the device holds strided tensors alone, and no {layout}")


def _only(device: Any) -> None:
    if device is not None and device.index not in (None, 0):
        raise RuntimeError(f"there is one device, warpweft:0, and no {device}")


def empty(
    size: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = None, memory_format: Any = None
) -> Any:
    """A tensor of zeros, for which no memory is taken yet."""
    _strided(layout)
    _only(device)
    meta = torch.empty(size, dtype=dtype, device="meta", memory_format=memory_format or torch.contiguous_format)
    return _memory.empty(meta.shape, meta.stride(), meta.dtype)


def empty_strided(size: Any, stride: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = None) -> Any:
    """As `empty`, with any strides."""
    _strided(layout)
    _only(device)
    return _memory.empty(size, stride, dtype or torch.get_default_dtype())


def zeros(size: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = None) -> Any:
    """PyTorch's zeros without memory, which here take none before they are used."""
    return empty(size, dtype=dtype, layout=layout, device=device)


def copy_(self: torch.Tensor, source: torch.Tensor, non_blocking: bool = False) -> Any:
    """Copies between views, types and devices."""
    if not _memory.is_ours(self):
        return self.copy_(_memory.host_of(source))
    if _memory.is_ours(source) and self.shape == source.shape and _is_same(self, source):
        return self
    try:
        if not _metas.is_plain(self):
            raise Unsupported("what it writes to is conjugate")
        if self.shape != source.shape:
            source.expand(self.shape)
        if _memory.is_ours(source):
            _dispatch._refuse_overlaps([self], [source])
            _dispatch.refuse_repeats(self)
            value = _memory.read(source)
        elif source.device.type == "cpu" and source.layout == torch.strided:
            value = _taken(source.detach().to(self.dtype, copy=True, memory_format=torch.contiguous_format))
        else:
            raise Unsupported("it copies from elsewhere")
        _memory.write(self, value)
        return self
    except _dispatch.REFUSALS:
        return _fallback.run(aten.copy_.default, (self, source, non_blocking), {})


def _taken(source: torch.Tensor) -> Any:
    """The elements of a tensor of the host that is given away."""
    source = source.resolve_conj().resolve_neg()
    if not source.is_complex():
        return ww.from_dlpack(source)
    found = ww.from_dlpack(torch.view_as_real(source))
    return Pair(found[..., 0], found[..., 1])


def _is_same(one: torch.Tensor, other: torch.Tensor) -> Any:
    """Whether two tensors are the same view."""
    if one.dtype != other.dtype or one.is_conj() != other.is_conj() or one.is_neg() != other.is_neg():
        return False
    same = one.stride() == other.stride() and one.storage_offset() == other.storage_offset()
    return same and one.untyped_storage()._cdata == other.untyped_storage()._cdata


def copy_from(self: torch.Tensor, target: torch.Tensor, non_blocking: bool = False) -> Any:
    """`copy_` the other way round."""
    return copy_(target, self, non_blocking)


def fill(self: torch.Tensor, value: Any) -> Any:
    """One number everywhere; also where positions share elements."""
    if isinstance(value, torch.Tensor):
        if value.ndim:
            raise RuntimeError(f"fill_ only supports 0-dimension value tensor but got tensor with {value.ndim} dimensions.")
        if _memory.is_ours(value):
            return copy_(self, value)
        value = value.item()
    try:
        if not _metas.is_plain(self):
            raise Unsupported("what it writes to is conjugate")
        if self.dtype.is_floating_point or isinstance(value, bool) or not isinstance(value, (int, float)):
            kind = dtype_of(self.dtype)
            _memory.write(self, ww.full((), number(value, kind), dtype=kind))
            return self
        # Of a number that does not go into the type, PyTorch says what becomes of it.
        return copy_(self, torch.empty((), dtype=self.dtype).fill_(value))
    except _dispatch.REFUSALS:
        return _fallback.run(aten.fill_.Scalar, (self, value), {})


def zero(self: torch.Tensor) -> Any:
    """Zeros everywhere."""
    return fill(self, 0)


def item(self: torch.Tensor) -> Any:
    """The value of one element."""
    return _memory.host_of(self).item()


def resize(self: torch.Tensor, size: Any, *, memory_format: Any = None) -> Any:
    """Another shape over the same storage, which grows if it must."""
    if tuple(self.shape) != tuple(size) or memory_format not in (None, torch.preserve_format):
        form = torch.contiguous_format if memory_format in (None, torch.preserve_format) else memory_format
        meta = torch.empty(size, dtype=self.dtype, device="meta", memory_format=form)
        _memory.set_layout(self, self.untyped_storage(), self.storage_offset(), meta.shape, meta.stride())
    return self


def set_storage(self: torch.Tensor, source: Any) -> Any:
    """All of another storage."""
    return _memory.set_layout(self, source, 0, [source.nbytes() // self.element_size()], [1])


def set_strided(self: torch.Tensor, source: Any, offset: int, size: Any, stride: Any = ()) -> Any:
    """Any view of another storage."""
    if not stride and len(size):
        stride = torch.empty(size, device="meta").stride()
    return _memory.set_layout(self, source, offset, size, stride)


def set_tensor(self: torch.Tensor, source: torch.Tensor) -> Any:
    """The view that another tensor is."""
    return _memory.set_layout(self, source.untyped_storage(), source.storage_offset(), source.shape, source.stride())


def set_empty(self: torch.Tensor) -> Any:
    """No elements."""
    return set_tensor(self, _memory.empty([0], [1], self.dtype))


def as_strided(self: torch.Tensor, size: Any, stride: Any, storage_offset: Any = None) -> Any:
    """Any view, within the storage: the function of the host looks at that, and that of metas does not."""
    return aten.as_strided.default._op_dk(torch._C.DispatchKey.CPU, self, size, stride, storage_offset)


def _of_parts(value: Any, change: Callable[[Any], Any]) -> Any:
    """The same of both parts of complex numbers."""
    return Pair(change(value.re), change(value.im)) if isinstance(value, Pair) else change(value)


def flip(self: torch.Tensor, dims: Any) -> Any:
    """Axes in reverse, in memory as the tensor lies there: its meta function has other strides for axes of length 1."""
    try:
        axes = [axis % max(self.ndim, 1) for axis in dims if -max(self.ndim, 1) <= axis < max(self.ndim, 1)]
        if len(set(axes)) != len(dims):
            raise Unsupported("axes that are none")
        value = _memory.read(self)
        result = torch.empty_like(self)
        _memory.write(result, _of_parts(value, lambda part: part.flip(axes)) if axes and self.ndim else value)
        return result
    except _dispatch.REFUSALS as refusal:
        return _fallback.run(aten.flip.default, (self, dims), {}, str(refusal))


def roll(self: torch.Tensor, shifts: Any, dims: Any = ()) -> Any:
    """Elements moved along an axis: in memory as the two parts put together, which is not what its meta function has."""
    if len(shifts) != 1 or len(dims) != 1 or not self.numel() or not self.ndim:
        return _dispatch.dispatch_plain(aten.roll.default, self, shifts, dims)
    length, meta = self.shape[dims[0]], _metas.meta_of(self)
    start = (length - shifts[0]) % length
    meta = torch.cat([meta.narrow(dims[0], start, length - start), meta.narrow(dims[0], 0, start)], dims[0])
    try:
        return _memory.made(_of_parts(_memory.read(self), lambda part: part.roll(list(shifts), [dims[0] % self.ndim])), meta)
    except _dispatch.REFUSALS as refusal:
        return _fallback.run(aten.roll.default, (self, shifts, dims), {}, str(refusal))


def batch_norm(
    x: torch.Tensor,
    weight: Any,
    bias: Any,
    mean: Any,
    variance: Any,
    training: bool,
    momentum: float,
    eps: float,
) -> Any:
    """Writes to its statistics, which not every schema says. In memory as PyTorch's kernel has it: by rows, or with the channels last where x has them so."""
    from torch._decomp.decompositions import native_batch_norm_helper

    *found, new_mean, new_variance = native_batch_norm_helper(x, weight, bias, mean, variance, training, momentum, eps, True)
    found[0] = found[0].contiguous(memory_format=torch._prims_common.suggest_memory_format(x))
    if training and mean is not None:
        mean.copy_(new_mean)
        variance.copy_(new_variance)
    # In evaluation nothing is kept for the gradient, as on the CPU.
    return tuple(found) if training else (found[0], x.new_zeros(0), x.new_zeros(0))


def batch_norm_with_no_statistics(x: torch.Tensor, weight: Any, bias: Any, training: bool, momentum: float, eps: float) -> Any:
    """Of the batch alone."""
    return batch_norm(x, weight, bias, None, None, training, momentum, eps)


def batch_norm_with_update(x: torch.Tensor, weight: Any, bias: Any, mean: Any, variance: Any, momentum: float, eps: float) -> Any:
    """In training, with room for a backend's own."""
    found = batch_norm(x, weight, bias, mean, variance, True, momentum, eps)
    return (*found, torch.empty(0, dtype=torch.uint8, device=x.device))


def layer_norm(*args: Any) -> Any:
    """As PyTorch takes it apart; in memory by rows, as its kernel has it, whatever the strides of the arguments."""
    found, mean, scale = aten.native_layer_norm.default._op_dk(torch._C.DispatchKey.CompositeExplicitAutograd, *args)
    return found.contiguous(), mean, scale


def equal(self: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors have the same shape and elements."""
    if self.dtype != other.dtype or not _memory.is_ours(self) or not _memory.is_ours(other):
        # The host says what is wrong with them.
        return bool(_fallback.run(aten.equal.default, (self, other), {}, "it is asked of tensors of two types or devices"))
    return self.shape == other.shape and bool((self == other).all())


def check(condition: torch.Tensor, message: str = "Expected Tensor with single nonzero value, but got zero") -> None:
    """Raises where a number is zero."""
    if not item(condition):
        raise RuntimeError(message)


def is_left_aligned(x: torch.Tensor, mask: torch.Tensor) -> bool:
    """Whether a padded batch can be a nested tensor, of which the device has none: so an encoder goes on with the padded one."""
    return False


def convolution(x: torch.Tensor, weight: torch.Tensor, *args: Any) -> Any:
    """With the channels last in memory where those of an argument are."""
    found = _dispatch.dispatch_plain(aten.convolution.default, x, weight, *args)
    forms = {torch._prims_common.suggest_memory_format(each) for each in (x, weight)} - {torch.contiguous_format}
    return found.contiguous(memory_format=forms.pop()) if forms else found


def _windows() -> dict[Any, Callable[..., Any]]:
    """Windows that PyTorch makes in memory of the device by a kernel that the device does not have: the host makes them."""
    packet: Any = aten.kaiser_window
    ops = [getattr(packet, overload) for overload in packet.overloads() if not overload.endswith("out")]
    return {op: functools.partial(_window, op) for op in ops}


def _window(op: Any, *args: Any, **kwargs: Any) -> Any:
    return _fallback.run(op, args, kwargs, "it has no expression")


def register() -> None:
    """Enters them."""
    _dispatch.SPECIAL.update(_windows())
    _dispatch.SPECIAL.update(
        {
            aten._thnn_fused_lstm_cell.default: _cells.lstm,
            aten._thnn_fused_lstm_cell_backward_impl.default: _cells.lstm_backward,
            aten._thnn_fused_gru_cell.default: _cells.gru,
            aten._thnn_fused_gru_cell_backward.default: _cells.gru_backward,
        }
    )
    _dispatch.SPECIAL.update(
        {
            aten.empty.memory_format: empty,
            aten.empty_strided.default: empty_strided,
            aten._efficientzerotensor.default: zeros,
            aten.copy_.default: copy_,
            aten._copy_from.default: copy_from,
            aten.fill_.Scalar: fill,
            aten.fill_.Tensor: fill,
            aten.zero_.default: zero,
            aten._local_scalar_dense.default: item,
            aten.resize_.default: resize,
            aten.as_strided.default: as_strided,
            aten.equal.default: equal,
            aten._assert_async.default: check,
            aten._assert_async.msg: check,
            aten.flip.default: flip,
            aten.convolution.default: convolution,
            aten._nested_tensor_from_mask_left_aligned.default: is_left_aligned,
            aten.roll.default: roll,
            aten.native_layer_norm.default: layer_norm,
            aten.set_.source_Storage: set_storage,
            aten.set_.source_Storage_storage_offset: set_strided,
            aten.set_.source_Tensor: set_tensor,
            aten.set_.default: set_empty,
            aten.native_dropout.default: native_dropout,
            aten.native_batch_norm.default: batch_norm,
            aten._native_batch_norm_legit.default: batch_norm,
            aten._batch_norm_with_update.default: batch_norm_with_update,
            aten._native_batch_norm_legit.no_stats: batch_norm_with_no_statistics,
        }
    )
