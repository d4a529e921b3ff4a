"""Shapes and orders of elements, joining and cutting. In a function of ours a view is a value like any other."""

from __future__ import annotations

from typing import Any

import warpweft as ww
from warpweft.torch._table import Context, Unsupported, axis_of, moved, number, numbers, op, tensor_of


@op("view", "reshape", "_unsafe_view", "_reshape_alias", "view_copy", "unflatten.int", "flatten.using_ints")
def view(c: Context, x: ww.Tensor, *args: Any) -> Any:
    return x.reshape(c.shape)


@op("permute", "permute_copy")
def permute(c: Context, x: ww.Tensor, dims: Any) -> Any:
    return x.permute([axis_of(axis, x.ndim) for axis in dims])


@op("transpose.int", "transpose_copy.int", "swapaxes", "swapdims")
def transpose(c: Context, x: ww.Tensor, a: int, b: int) -> Any:
    return x.transpose(a, b) if x.ndim else x


@op("t", "t_copy", "mT", "numpy_T")
def t(c: Context, x: ww.Tensor) -> Any:
    return x.t()


@op("expand", "expand_copy", "broadcast_to")
def expand(c: Context, x: ww.Tensor, size: Any, *, implicit: bool = False) -> Any:
    return x.expand(c.shape)


@op("squeeze", "squeeze.dim", "squeeze.dims", "unsqueeze", "squeeze_copy", "squeeze_copy.dim", "squeeze_copy.dims", "unsqueeze_copy")
def squeeze(c: Context, x: ww.Tensor, dim: Any = None) -> Any:
    return x.reshape(c.shape)


@op("slice.Tensor", "slice_copy.Tensor")
def slice_(c: Context, x: ww.Tensor, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Any:
    return x[_part(x, dim, start, end, step)]


# Where ATen has a part go on to the end, of whatever length.
_END = 2**63 - 1


def _part(x: ww.Tensor, dim: int, start: Any, end: Any, step: int) -> tuple[slice, ...]:
    """A part of one axis, as an index."""
    is_end = isinstance(end, int) and end == _END
    return (slice(None),) * axis_of(dim, x.ndim) + (slice(start, None if is_end else end, step),)


@op("select.int", "select_copy.int")
def select(c: Context, x: ww.Tensor, dim: int, index: int) -> Any:
    return x[(slice(None),) * axis_of(dim, x.ndim) + (int(index),)]


@op("narrow", "narrow_copy")
def narrow(c: Context, x: ww.Tensor, dim: int, start: int, length: int) -> Any:
    return x.narrow(dim, int(start), int(length))


@op("slice_scatter")
def slice_scatter(c: Context, x: ww.Tensor, source: ww.Tensor, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Any:
    return _with(c, x, _part(x, dim, start, end, step), source)


@op("select_scatter")
def select_scatter(c: Context, x: ww.Tensor, source: ww.Tensor, dim: int, index: int) -> Any:
    return _with(c, x, (slice(None),) * axis_of(dim, x.ndim) + (int(index),), source)


def _with(c: Context, x: ww.Tensor, index: Any, source: ww.Tensor) -> ww.Tensor:
    """This with a part replaced."""
    changed = x.copy()
    changed[index] = moved(source, x.dtype)
    return changed


@op("diagonal_scatter")
def diagonal_scatter(c: Context, x: ww.Tensor, source: ww.Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    axes = [axis_of(dim1, x.ndim), axis_of(dim2, x.ndim)]
    order = [axis for axis in range(x.ndim) if axis not in axes] + axes
    found = _on_diagonal(x.permute(order), moved(source, x.dtype), offset)
    return found.permute([order.index(axis) for axis in range(x.ndim)])


def _on_diagonal(x: ww.Tensor, source: ww.Tensor, offset: int) -> ww.Tensor:
    """Matrices with other elements on a diagonal: an expression, since of two lengths that are variables it may not be known which one ends the diagonal."""
    rows, columns = x.shape[-2:]
    before = max(-offset, 0)
    along = source.pad([(0, 0)] * (source.ndim - 1) + [(before, rows - before - source.shape[-1])])
    is_on = (ww.arange(rows, dtype=ww.int64) + offset).unsqueeze(-1).equal(ww.arange(columns, dtype=ww.int64))
    return ww.where(is_on, along.unsqueeze(-1), x)


def _plain(meta: Any) -> None:
    """Refuses what does not lie in row-major order from the start of its memory: only then are its strides those of a value of ours."""
    if not meta.is_contiguous() or meta.storage_offset() != 0:
        raise Unsupported("strides over memory that is not in row-major order")


@op("as_strided", "as_strided_copy")
def as_strided(c: Context, x: ww.Tensor, size: Any, stride: Any, storage_offset: Any = None) -> Any:
    _plain(c.args[0])
    return x.copy().as_strided(numbers(size), numbers(stride), int(storage_offset or 0))


@op("as_strided_scatter")
def as_strided_scatter(c: Context, x: ww.Tensor, source: ww.Tensor, size: Any, stride: Any, storage_offset: Any = None) -> Any:
    _plain(c.args[0])
    changed = x.copy()
    changed.as_strided(numbers(size), numbers(stride), int(storage_offset or 0)).assign(source)
    return changed


_WORDS = {1: ww.uint8, 2: ww.uint16, 4: ww.uint32, 8: ww.uint64}


def _bits(x: ww.Tensor) -> ww.Tensor:
    """Elements as unsigned integers of the same bits."""
    return moved(x, ww.uint8) if x.dtype == ww.bool_ else x.bitcast(_WORDS[x.dtype.itemsize])


@op("view.dtype", "view_copy.dtype")
def view_dtype(c: Context, x: ww.Tensor, dtype: Any) -> Any:
    """The same bytes as elements of another type, the lowest first."""
    own, wanted = x.dtype.itemsize, c.dtype.itemsize
    bits = _bits(x)
    if wanted < own:
        parts = [moved(bits >> 8 * wanted * position, _WORDS[wanted]) for position in range(own // wanted)]
        bits = ww.stack(parts, -1).reshape(c.shape)
    elif wanted > own:
        count = wanted // own
        parts = bits.reshape((*c.shape, count)).astype(_WORDS[wanted]).unbind(-1)
        bits = parts[0]
        for position in range(1, count):
            bits = bits | parts[position] << 8 * own * position
    return moved(bits, ww.bool_) if c.dtype == ww.bool_ else bits.bitcast(c.dtype)


@op("unfold", "unfold_copy")
def unfold(c: Context, x: ww.Tensor, dim: int, size: int, step: int) -> Any:
    if not x.ndim:
        return x.reshape(1) if size else x.reshape(1)[0:0]
    return x.unfold(dim, int(size), int(step))


@op("diagonal", "diagonal_copy")
def diagonal(c: Context, x: ww.Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    return x.diagonal(offset, dim1, dim2)


@op("flip")
def flip(c: Context, x: ww.Tensor, dims: Any) -> Any:
    return x.flip([axis_of(axis, x.ndim) for axis in dims]) if dims and x.ndim else x


@op("roll")
def roll(c: Context, x: ww.Tensor, shifts: Any, dims: Any = ()) -> Any:
    if not x.ndim or not x.size:
        return x
    return x.roll(numbers(shifts), numbers(dims) if dims or isinstance(dims, int) else None)


@op("repeat")
def repeat(c: Context, x: ww.Tensor, repeats: Any) -> Any:
    counts = numbers(repeats)
    return x.reshape((1,) * (len(counts) - x.ndim) + x.shape).repeat(counts) if counts else x


@op("cat", "concat", "concatenate")
def cat(c: Context, tensors: Any, dim: int = 0) -> Any:
    kept = [moved(tensor, c.dtype) for tensor in tensors if tensor.shape != (0,)]
    return ww.cat(kept, axis_of(dim, kept[0].ndim)) if kept else ww.zeros(c.shape, dtype=c.dtype)


@op("stack")
def stack(c: Context, tensors: Any, dim: int = 0) -> Any:
    return ww.stack([moved(tensor, c.dtype) for tensor in tensors], axis_of(dim, tensors[0].ndim + 1))


def _parts(x: ww.Tensor, lengths: list[int], dim: int) -> list[ww.Tensor]:
    parts, start = [], 0
    for length in lengths:
        parts.append(x.narrow(dim, start, length))
        start += length
    return parts


@op(
    "split_with_sizes",
    "split_with_sizes_copy",
    "split.Tensor",
    "split_copy.Tensor",
    "unsafe_split.Tensor",
    "unsafe_split_with_sizes",
    "chunk",
    "unsafe_chunk",
    "split.sizes",
)
def split(c: Context, x: ww.Tensor, sizes: Any, dim: int = 0) -> Any:
    axis = axis_of(dim, x.ndim)
    return _parts(x, [int(part.shape[axis]) for part in c.out], axis)


@op("unbind.int", "unbind_copy.int")
def unbind(c: Context, x: ww.Tensor, dim: int = 0) -> Any:
    return x.unbind(dim)


@op("constant_pad_nd")
def constant_pad_nd(c: Context, x: ww.Tensor, pad: Any, value: Any = 0) -> Any:
    pairs = [(0, 0)] * x.ndim
    amounts = numbers(pad)
    for position in range(len(amounts) // 2):
        pairs[x.ndim - 1 - position] = (amounts[2 * position], amounts[2 * position + 1])
    # What is cut off comes first, so that only what is added is the number.
    for axis, (before, after) in enumerate(pairs):
        start, end = max(-before, 0), x.shape[axis] - max(-after, 0)
        if end < start:
            raise Unsupported("more is cut off than there is")
        x = x.narrow(axis, start, end - start)
    return x.pad([(max(before, 0), max(after, 0)) for before, after in pairs], "constant", number(value, x.dtype))


@op("tril")
def tril(c: Context, x: ww.Tensor, diagonal: int = 0) -> Any:
    return x.tril(diagonal)


@op("triu")
def triu(c: Context, x: ww.Tensor, diagonal: int = 0) -> Any:
    return x.triu(diagonal)


@op("diag_embed")
def diag_embed(c: Context, x: ww.Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    rank, length = len(c.shape), x.shape[-1] + abs(offset)
    found = _on_diagonal(ww.zeros((*x.shape[:-1], length, length), dtype=c.dtype), x, offset)
    axes = [axis_of(dim1, rank), axis_of(dim2, rank)]
    order = [axis for axis in range(rank) if axis not in axes] + axes
    return found.permute([order.index(axis) for axis in range(rank)])


@op("repeat_interleave.self_int")
def repeat_interleave(c: Context, x: ww.Tensor, repeats: Any, dim: Any = None, *, output_size: Any = None) -> Any:
    return x.repeat_interleave(int(repeats), dim)


@op("repeat_interleave.Tensor")
def repeated_indices(c: Context, repeats: ww.Tensor, *, output_size: Any = None) -> Any:
    """Each index as often as a tensor says; how often all together is known."""
    (length,) = c.shape
    indices = repeats.astype(ww.int64).cumsum(0).searchsorted(ww.arange(length, dtype=ww.int64), True)
    return indices.astype(ww.int64).minimum(repeats.shape[0] - 1)


@op("copy", "fill.Scalar", "fill.Tensor")
def fill(c: Context, x: ww.Tensor, value: Any, non_blocking: bool = False) -> Any:
    return tensor_of(value, c.dtype).expand(c.shape)
