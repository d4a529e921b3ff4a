"""Elements named by indices: reading, writing, combining."""

from __future__ import annotations

from typing import Any

import warpweft as ww
from warpweft.torch._table import Context, Unsupported, axis_of, count_of, moved, op, tensor_of


def _wide(index: ww.Tensor) -> ww.Tensor:
    return index if index.dtype in (ww.int64, ww.int32) else index.astype(ww.int64)


def _positive(index: ww.Tensor, length: int) -> ww.Tensor:
    """Places counted from the start."""
    index = _wide(index)
    return ww.where(index < 0, index + length, index)


def _split(c: Context, x: ww.Tensor, indices: Any) -> tuple[list[int], list[ww.Tensor]]:
    axes, found = [], []
    for axis, index in enumerate(indices):
        if index is None:
            continue
        if index.dtype in (ww.bool_, ww.uint8):
            raise Unsupported("a mask names indices that depend on values")
        axes.append(axis)
        found.append(index)
    return axes, found


@op("index.Tensor", "_unsafe_index.Tensor")
def index(c: Context, x: ww.Tensor, indices: Any) -> Any:
    axes, found = _split(c, x, indices)
    if not axes:
        return x
    if 0 in c.shape:
        return ww.zeros(c.shape, dtype=c.dtype)
    return x.index(axes, found)


@op("index_put", "_unsafe_index_put", "_index_put_impl")
def index_put(c: Context, x: ww.Tensor, indices: Any, values: ww.Tensor, accumulate: bool = False, unsafe: bool = False) -> Any:
    masks = [index for index in indices if index is not None]
    if len(masks) == 1 and masks[0].dtype == ww.bool_ and values.size == 1:
        (axis,) = [axis for axis, index in enumerate(indices) if index is not None]
        mask = masks[0]
        mask = mask.reshape((1,) * axis + mask.shape + (1,) * (x.ndim - axis - mask.ndim))
        one = moved(values, x.dtype).reshape(())
        return ww.where(mask, x + one if accumulate else one, x)
    if len(masks) == 1 and masks[0].dtype == ww.bool_ and indices[0] is not None and masks[0].size:
        return _put_where(x, masks[0], moved(values, x.dtype), accumulate)
    axes, found = _split(c, x, indices)
    if not axes:
        return x + values if accumulate else moved(values, x.dtype).expand(x.shape)
    changed = x.copy()
    if x.size == 0 or any(index.size == 0 for index in found) or values.size == 0:
        return x
    if not accumulate:
        changed.index_assign(axes, found, moved(values, x.dtype))
        return changed
    return _accumulated(x, axes, found, values)


def _put_where(x: ww.Tensor, mask: ww.Tensor, values: ww.Tensor, accumulate: bool) -> ww.Tensor:
    """Rows of values for the positions where a mask of the first axes holds, in their order."""
    rest = x.shape[mask.ndim :]
    if values.ndim == len(rest) + 1 and values.shape[0] != 1:
        if not values.shape[0]:
            return x
        indices = (mask.reshape(-1).astype(ww.int64).cumsum(0) - 1).clip(0, values.shape[0] - 1)
        rows = values.index_select(0, indices)
    else:
        rows = values
    rows = rows.expand((count_of(mask), *rest)).reshape(x.shape)
    return ww.where(mask.reshape(mask.shape + (1,) * len(rest)), x + rows if accumulate else rows, x)


def _accumulated(x: ww.Tensor, axes: list[int], indices: list[ww.Tensor], values: ww.Tensor) -> ww.Tensor:
    """Sums at indices: the indexed axes become one, which is scattered to."""
    adjacent = axes == list(range(axes[0], axes[0] + len(axes)))
    order = axes + [axis for axis in range(x.ndim) if axis not in axes]
    rest = [x.shape[axis] for axis in order[len(axes) :]]
    shape: tuple[int, ...] = ()
    for found in indices:
        shape = _broadcast(shape, found.shape)
    position: Any = 0
    for axis, found in zip(axes, indices):
        position = _positive(found.astype(ww.int64), x.shape[axis]).expand(shape) + position * x.shape[axis]
    count = 1
    for length in shape:
        count *= length
    inner = 1
    for length in rest:
        inner *= length
    lead = axes[0] if adjacent else 0
    whole = [*rest[:lead], *shape, *rest[lead:]]
    spread = moved(values, x.dtype).expand(whole)
    spread = spread.permute([*range(lead, lead + len(shape)), *range(lead), *range(lead + len(shape), len(whole))])
    flat = x.permute(order).reshape(-1, inner)
    index = position.reshape(count, 1).expand(count, inner)
    summed = flat.scatter_reduce(0, index, spread.reshape(count, inner), "sum")
    back = [order.index(axis) for axis in range(x.ndim)]
    return summed.reshape([x.shape[axis] for axis in order]).permute(back)


def _broadcast(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    length = max(len(a), len(b))
    a, b = (1,) * (length - len(a)) + a, (1,) * (length - len(b)) + b
    return tuple(y if x == 1 else x for x, y in zip(a, b))


@op("gather")
def gather(c: Context, x: ww.Tensor, dim: int, index: ww.Tensor, *, sparse_grad: bool = False) -> Any:
    if not x.ndim:
        return x.expand(index.shape)
    if not index.size:
        return ww.zeros(c.shape, dtype=c.dtype)
    axis = axis_of(dim, x.ndim)
    if not index.ndim:
        return x.gather(0, _wide(index).reshape(1)).reshape(())
    return x.gather(axis, _wide(index))


def _scattered(c: Context, x: ww.Tensor, dim: int, index: ww.Tensor, source: ww.Tensor, how: Any, include: bool = True) -> Any:
    if not index.size:
        return x
    flat = not x.ndim
    if flat:
        x = x.reshape(1)
    if not index.ndim:
        index = index.reshape(1)
    if not source.ndim:
        source = source.reshape(1)
    axis = axis_of(dim, x.ndim)
    source = source[tuple(slice(0, length) for length in index.shape)]
    index = _wide(index)
    found = x.scatter(axis, index, source) if how is None else x.scatter_reduce(axis, index, source, how, include)
    return found.reshape(()) if flat else found


@op("scatter.src")
def scatter(c: Context, x: ww.Tensor, dim: int, index: ww.Tensor, source: ww.Tensor) -> Any:
    return _scattered(c, x, dim, index, source, None)


@op("scatter.value")
def scatter_value(c: Context, x: ww.Tensor, dim: int, index: ww.Tensor, value: Any) -> Any:
    return _scattered(c, x, dim, index, tensor_of(value, x.dtype).expand(index.shape), None)


_HOW = {"add": "sum", "multiply": "prod", "sum": "sum", "prod": "prod", "mean": "mean", "amax": "amax", "amin": "amin"}


@op("scatter.reduce", "scatter.value_reduce")
def scatter_how(c: Context, x: ww.Tensor, dim: int, index: ww.Tensor, source: Any, *, reduce: str) -> Any:
    source = source if isinstance(source, ww.Tensor) else tensor_of(source, x.dtype).expand(index.shape)
    return _scattered(c, x, dim, index, source, _HOW[reduce])


@op("scatter_add")
def scatter_add(c: Context, x: ww.Tensor, dim: int, index: ww.Tensor, source: ww.Tensor) -> Any:
    return _scattered(c, x, dim, index, source, "sum")


@op("scatter_reduce.two")
def scatter_reduce(
    c: Context, x: ww.Tensor, dim: int, index: ww.Tensor, source: ww.Tensor, reduce: str, *, include_self: bool = True
) -> Any:
    return _scattered(c, x, dim, index, source, _HOW[reduce], include_self)


@op("index_select")
def index_select(c: Context, x: ww.Tensor, dim: int, index: ww.Tensor) -> Any:
    if not x.ndim:
        return x.expand(c.shape)
    if 0 in c.shape:
        return ww.zeros(c.shape, dtype=c.dtype)
    return x.index_select(dim, _wide(index).reshape(-1))


@op("embedding")
def embedding(c: Context, weight: ww.Tensor, index: ww.Tensor, *args: Any, **kwargs: Any) -> Any:
    return weight.index_select(0, _wide(index).reshape(-1)).reshape(c.shape) if index.size else ww.zeros(c.shape, dtype=c.dtype)


@op("embedding_dense_backward")
def embedding_backward(c: Context, cotangent: ww.Tensor, index: ww.Tensor, count: int, padding: int, scale: bool) -> Any:
    rows, width = count_of(index), cotangent.shape[-1]
    flat = cotangent.reshape(rows, width)
    indices = _wide(index).reshape(rows, 1)
    if padding >= 0:
        flat = ww.where(indices == padding, 0.0, flat)
    if scale:
        line = indices.reshape(rows)
        often = ww.zeros(int(count), dtype=ww.int64).scatter_reduce(0, line, ww.ones(rows, dtype=ww.int64), "sum")
        flat = flat / often.index_select(0, line).reshape(rows, 1).astype(flat.dtype)
    return ww.zeros(int(count), width, dtype=c.dtype).scatter_reduce(0, indices.expand(rows, width), flat, "sum")


@op("masked_scatter")
def masked_scatter(c: Context, x: ww.Tensor, mask: ww.Tensor, source: ww.Tensor) -> Any:
    if source.size == 0 or x.size == 0:
        return x
    x, mask = x.expand(c.shape), mask.expand(c.shape)
    flat = mask.reshape(-1)
    indices = (flat.astype(ww.int64).cumsum(0) - 1).clip(0, count_of(source) - 1)
    return ww.where(flat, source.reshape(-1).index_select(0, indices), x.reshape(-1)).reshape(c.shape)


@op("take")
def take(c: Context, x: ww.Tensor, index: ww.Tensor) -> Any:
    if not index.size:
        return ww.zeros(c.shape, dtype=c.dtype)
    flat = x.reshape(-1)
    return flat.index_select(0, _positive(index, count_of(x)).reshape(-1)).reshape(c.shape)


@op("put")
def put(c: Context, x: ww.Tensor, index: ww.Tensor, source: ww.Tensor, accumulate: bool = False) -> Any:
    if not index.size:
        return x
    indices, values = _positive(index, count_of(x)).reshape(-1), source.reshape(-1)
    flat = x.reshape(-1)
    found = flat.scatter_reduce(0, indices, values, "sum") if accumulate else flat.scatter(0, indices, values)
    return found.reshape(x.shape)


# Of fewer elements, looking at all of them in vectors takes less time than a load for each halving.
_SEARCHED_BY_HALVES = 512


def _searched(c: Context, sequence: ww.Tensor, values: ww.Tensor, right: bool, sorter: Any) -> ww.Tensor:
    """How many of each row are before each value."""
    if sorter is not None:
        sequence = sequence.gather(-1, _wide(sorter))
    if isinstance(sequence.shape[-1], int) and sequence.shape[-1] >= _SEARCHED_BY_HALVES:
        return sequence.searchsorted(values, right).astype(ww.int64).reshape(c.shape)
    if sequence.ndim == 1:
        sequence = sequence.reshape((1,) * max(values.ndim, 1) + sequence.shape)
    else:
        sequence = sequence.unsqueeze(-2)
    value = values.unsqueeze(-1)
    # Every element counts that is not after the value, so rows need not be looked at in order; NaN is after all.
    before = sequence <= value if right else sequence < value
    nan = value.isnan() if value.dtype.name.startswith(("float", "bfloat")) else None
    if nan is not None:
        before = before | nan if right else before | (nan & ~sequence.isnan())
    return before.astype(ww.int64).sum(-1).reshape(c.shape)


@op("searchsorted.Tensor", "searchsorted.Scalar")
def searchsorted(
    c: Context, sequence: Any, value: Any, *, out_int32: bool = False, right: bool = False, side: Any = None, sorter: Any = None
) -> Any:
    value = value if isinstance(value, ww.Tensor) else ww.full((), float(value), dtype=sequence.dtype)
    if not value.size or not sequence.size:
        return ww.zeros(c.shape, dtype=ww.int64)
    return _searched(c, sequence, value, right or side == "right", sorter)


@op("bucketize.Tensor", "bucketize.Scalar")
def bucketize(c: Context, value: Any, boundaries: ww.Tensor, *, out_int32: bool = False, right: bool = False) -> Any:
    return searchsorted(c, boundaries, value, right=right)


@op("index_reduce")
def index_reduce(c: Context, x: ww.Tensor, dim: int, index: ww.Tensor, source: ww.Tensor, reduce: str, *, include_self: bool = True) -> Any:
    if not x.ndim:
        x, source = x.reshape(1), source.reshape(1)
        return index_reduce(c, x, 0, index.reshape(-1), source, reduce, include_self=include_self).reshape(())
    shape = [1] * source.ndim
    shape[dim] = count_of(index)
    spread = index.reshape(shape).expand(source.shape)
    return _scattered(c, x, dim, spread, source, _HOW[reduce], include_self)


@op("trace")
def trace(c: Context, x: ww.Tensor) -> Any:
    return x.diagonal().sum() if 0 not in x.shape else ww.zeros((), dtype=c.dtype)


@op("nonzero_static")
def nonzero_static(c: Context, x: ww.Tensor, *, size: int, fill_value: int = -1) -> Any:
    held = x.reshape(-1).not_equal(0)
    count = held.astype(ww.int64).sum()
    if not x.size:
        return ww.full(c.shape, fill_value, dtype=ww.int64)
    # Each position goes to its number among those that hold something; all others, and those that are too many, go to one more.
    number = (held.astype(ww.int64).cumsum(0) - 1).minimum(int(size))
    target = ww.where(held, number, int(size))
    flat = ww.zeros(int(size) + 1, dtype=ww.int64).scatter(0, target, ww.arange(count_of(x), dtype=ww.int64))[: int(size)]
    is_there = ww.arange(int(size), dtype=ww.int64) < count
    stride, columns = count_of(x), []
    for length in x.shape:
        stride //= length
        columns.append(ww.where(is_there, (flat.floor_divide(stride)) % length, fill_value))
    return ww.stack(columns, 1) if columns else ww.zeros(c.shape, dtype=ww.int64)


@op("histc")
def histc(c: Context, x: ww.Tensor, bins: int = 100, min: Any = 0, max: Any = 0) -> Any:
    flat = x.reshape(-1)
    low, high = (ww.full((), float(bound), dtype=x.dtype) for bound in (min, max))
    if min == max:
        if not x.size:
            low, high = low - 0.0, high + 1.0
        else:
            low, high = flat.min(), flat.max()
        low, high = ww.where(low.equal(high), low - 1, low), ww.where(low.equal(high), high + 1, high)
    if not x.size:
        return ww.zeros(c.shape, dtype=c.dtype)
    inside = (flat >= low) & (flat <= high)
    # In PyTorch's order, which tells where a number on an edge belongs.
    number = ((flat - low) * int(bins) / (high - low)).floor()
    number = ww.where(inside, number, 0.0).astype(ww.int64).minimum(int(bins) - 1)
    target = ww.where(inside, number, int(bins))
    return ww.zeros(int(bins) + 1, dtype=x.dtype).scatter_reduce(0, target, ww.ones(count_of(x), dtype=x.dtype), "sum")[: int(bins)]


@op("embedding_renorm")
def embedding_renorm(c: Context, weight: ww.Tensor, index: ww.Tensor, max_norm: float, norm_type: float) -> Any:
    rows = weight.shape[0]
    used = ww.zeros(rows, dtype=ww.int64).scatter(0, _wide(index).reshape(-1), ww.ones(count_of(index), dtype=ww.int64))
    norm = weight.norm(float(norm_type), -1)
    scale = ww.where((norm > max_norm) & used.equal(1), max_norm / (norm + 1e-7), 1.0)
    return weight * scale.unsqueeze(-1)


@op("segment_reduce")
def segment_reduce(
    c: Context,
    x: ww.Tensor,
    reduce: str,
    *,
    lengths: Any = None,
    indices: Any = None,
    offsets: Any = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: Any = None,
) -> Any:
    ends = lengths.cumsum(axis) if lengths is not None else None if offsets is None else offsets.narrow(axis, 1, offsets.shape[axis] - 1)
    if ends is None or axis != ends.ndim - 1 or indices is not None:
        raise Unsupported("segments by indices")
    rows, count = x.shape[axis], ends.shape[axis]
    # The segment of a row is how many segments end before it or at it.
    marks = ww.zeros([*ends.shape[:-1], rows + 1], dtype=ww.int32)
    marks = marks.scatter_reduce(-1, ends.clip(0, rows), ww.ones(ends.shape, dtype=ww.int32), "sum")
    segment = marks.cumsum(-1).narrow(-1, 0, rows).astype(ww.int64)
    start = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "max": -float("inf"), "min": float("inf")}[reduce] if initial is None else float(initial)
    shape = [*x.shape[:axis], count + 1, *x.shape[axis + 1 :]]
    spread = segment.reshape(segment.shape + (1,) * (x.ndim - axis - 1)).expand(x.shape)
    how = {"sum": "sum", "mean": "sum", "prod": "prod", "max": "amax", "min": "amin"}[reduce]
    found = ww.full(shape, start, dtype=x.dtype).scatter_reduce(axis, spread, x, how).narrow(axis, 0, count)
    if reduce == "mean":
        sizes = ww.cat([ends.narrow(axis, 0, 1), ends.diff(axis)], axis) if lengths is None else lengths
        if lengths is None:
            sizes = offsets.diff(axis)
        sizes = sizes.reshape(sizes.shape + (1,) * (x.ndim - axis - 1)).astype(x.dtype)
        found = ww.where(sizes > 0, found / sizes, found if initial is not None else float("nan"))
    return found


@op("_embedding_bag_forward_only", "_embedding_bag")
def embedding_bag(
    c: Context,
    weight: ww.Tensor,
    indices: ww.Tensor,
    offsets: ww.Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Any = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> Any:
    if not indices.size:
        raise Unsupported("bags of nothing")
    bags, rows = c.shape[0], count_of(indices)
    positions = ww.arange(rows, dtype=ww.int64)
    # The bag of a row is the last that begins before it or at it: of several that begin there, all but one are empty.
    begins = ww.zeros(rows + 1, dtype=ww.int64)
    begins = begins.scatter_reduce(0, _wide(offsets).astype(ww.int64)[:bags], ww.ones(bags, dtype=ww.int64), "sum")
    bag = begins.cumsum(0)[:rows] - 1
    counts = (_wide(indices).astype(ww.int64) != padding_idx) if padding_idx >= 0 else ww.ones(rows, dtype=ww.bool_)
    if include_last_offset:
        counts = counts & (positions < offsets.astype(ww.int64)[bags])
    taken = weight.index_select(0, _wide(indices))
    if per_sample_weights is not None:
        taken = taken * per_sample_weights.unsqueeze(1)
    # What does not count goes to one more bag.
    target = ww.where(counts, bag, bags)
    spread = target.unsqueeze(1).expand(rows, weight.shape[1])
    number = ww.zeros(bags + 1, dtype=ww.int64).scatter_reduce(0, target, ww.ones(rows, dtype=ww.int64), "sum")[:bags].unsqueeze(1)
    empty = ww.zeros(bags + 1, weight.shape[1], dtype=weight.dtype)
    rest = [ww.zeros(tuple(out.shape), dtype=ww.int64) for out in c.outs[1:]]
    if 1 in c.used and tuple(c.outs[1].shape) == (rows,):
        rest[0] = bag
    if 2 in c.used and tuple(c.outs[2].shape) == (bags,):
        rest[1] = number.reshape(bags)
    if mode == 2:
        found = (empty - float("inf")).scatter_reduce(0, spread, taken, "amax")[:bags]
        if 3 in c.used and tuple(c.outs[3].shape) == tuple(found.shape):
            # The first of the largest rows, as the number of its embedding.
            is_largest = taken.equal(ww.concat([found, empty[:1]], 0).gather(0, spread))
            first = ww.full((bags + 1, weight.shape[1]), rows - 1, dtype=ww.int64)
            first = first.scatter_reduce(0, spread, ww.where(is_largest, positions.unsqueeze(1), rows - 1), "amin")[:bags]
            rest[2] = ww.where(number > 0, _wide(indices).astype(ww.int64).index_select(0, first.reshape(-1)).reshape(first.shape), 0)
        found = ww.where(number > 0, found, 0.0)
    else:
        found = empty.scatter_reduce(0, spread, taken, "sum")[:bags]
        if mode == 1:
            found = found / number.maximum(1).astype(weight.dtype)
    return (found, *rest)


def _histogram(x: ww.Tensor, edges: ww.Tensor, weight: Any, density: bool) -> tuple[ww.Tensor, ww.Tensor]:
    """How much lies between neighbouring edges, the last edge included."""
    flat, bins = x.reshape(-1), count_of(edges) - 1
    number = (edges.unsqueeze(0) <= flat.unsqueeze(1)).astype(ww.int64).sum(1) - 1
    number = ww.where(flat.equal(edges[bins]), bins - 1, number)
    target = ww.where((number < 0) | (number >= bins) | flat.isnan(), bins, number)
    weights = ww.ones(count_of(flat), dtype=x.dtype) if weight is None else weight.reshape(-1)
    found = ww.zeros(bins + 1, dtype=x.dtype).scatter_reduce(0, target, weights, "sum")[:bins]
    return (found / edges.diff() / found.sum() if density else found), edges


@op("histogram.bins_tensor")
def histogram(c: Context, x: ww.Tensor, edges: ww.Tensor, *, weight: Any = None, density: bool = False) -> Any:
    return _histogram(x, edges, weight, density) if x.size else (ww.zeros(edges.size - 1, dtype=x.dtype), edges)


@op("histogram.bin_ct")
def histogram_of(c: Context, x: ww.Tensor, bins: int = 100, *, range: Any = None, weight: Any = None, density: bool = False) -> Any:
    if not x.size:
        raise Unsupported("a histogram of nothing")
    low, high = (x.min(), x.max()) if range is None else (ww.full((), float(end), dtype=x.dtype) for end in range)
    is_one = low.equal(high)
    low, high = ww.where(is_one, low - 0.5, low), ww.where(is_one, high + 0.5, high)
    steps = ww.arange(int(bins) + 1, dtype=ww.int64).astype(x.dtype)
    width = (high - low) / int(bins)
    # From both ends, as linspace does, so that the last edge is the end.
    edges = ww.where(steps < (int(bins) + 1) // 2, low + width * steps, high - width * (int(bins) - steps))
    return _histogram(x, edges, weight, density)
