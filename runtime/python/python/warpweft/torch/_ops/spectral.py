"""Singular values and eigenvalues of small matrices, and what of them does not depend on the signs of vectors.

By rotations of pairs of columns until all are orthogonal (one-sided Jacobi), in float64 for float32; pairs are chosen as in a tournament, so that each
round turns all columns at once. Vectors by themselves, whose signs are nobody's, are left to PyTorch.
"""

from __future__ import annotations

from typing import Any, Optional

import warpweft as ww
from warpweft.torch._table import Context, Unsupported, dtype_of, op

WIDEST = 12
SWEEPS = 9


def _wide(x: ww.Tensor) -> ww.Tensor:
    if x.dtype != ww.float32 or min(x.shape[-2:]) > WIDEST or x.size == 0:
        raise Unsupported(f"singular values of other than float32, or of more than {WIDEST} columns, or of none")
    return x.astype(ww.float64)


def _turned(x: ww.Tensor, half: int) -> tuple[ww.Tensor, ww.Tensor]:
    """The cosines and sines that make columns k and k + half orthogonal."""
    a, b = x[..., :half], x[..., half:]
    product = (a * b).sum(-2, True)
    difference = ((b * b).sum(-2, True) - (a * a).sum(-2, True)) * 0.5
    is_done = product.equal(0.0)
    zeta = difference / ww.where(is_done, 1.0, product)
    tangent = ww.where(zeta < 0, -1.0, 1.0) / (zeta.abs() + (1 + zeta * zeta).sqrt())
    tangent = ww.where(is_done, 0.0, tangent)
    cosine = 1 / (1 + tangent * tangent).sqrt()
    return cosine, cosine * tangent


def _rotated(x: ww.Tensor, half: int, cosine: ww.Tensor, sine: ww.Tensor, order: ww.Tensor) -> ww.Tensor:
    a, b = x[..., :half], x[..., half:]
    return ww.cat([cosine * a - sine * b, sine * a + cosine * b], -1).index_select(-1, order)


def orthogonal(x: ww.Tensor) -> tuple[ww.Tensor, ww.Tensor]:
    """x V with orthogonal columns, and V; columns may be one more than x has, of zeros."""
    n = x.shape[-1]
    if n == 1:
        return x, ww.ones(*x.shape[:-2], 1, 1, dtype=x.dtype)
    even = n + n % 2
    half = even // 2
    v = ww.eye(even, dtype=x.dtype).expand(*x.shape[:-2], even, even)
    x = x.pad([(0, 0)] * (x.ndim - 1) + [(0, even - n)])
    # One stays, and all others move on by one position around the two rows.
    ring = list(range(1, half)) + list(range(even - 1, half - 1, -1))
    moved = dict(zip(ring, ring[-1:] + ring[:-1]))
    order = ww.Tensor([moved.get(row, row) for row in range(even)])
    for _ in range(SWEEPS * (even - 1)):
        cosine, sine = _turned(x, half)
        x, v = _rotated(x, half, cosine, sine, order), _rotated(v, half, cosine, sine, order)
    return x, v[..., :n, :]


def _decomposed(x: ww.Tensor) -> tuple[ww.Tensor, ww.Tensor, ww.Tensor]:
    """x V, the lengths of its columns, and V, of a matrix that is not wide."""
    columns, v = orthogonal(x)
    return columns, (columns * columns).sum(-2).sqrt(), v


def singular_values(x: ww.Tensor) -> ww.Tensor:
    """The largest first."""
    m, n = x.shape[-2:]
    _, lengths, _ = _decomposed(x if m >= n else x.t())
    return lengths.sort(-1, True)[0][..., : min(m, n)]


@op("_linalg_svd")
def svd(c: Context, x: ww.Tensor, full_matrices: bool = False, compute_uv: bool = True, *, driver: Any = None) -> Any:
    if c.used - {1}:
        raise Unsupported("singular vectors")
    empty = [ww.zeros(tuple(out.shape), dtype=dtype_of(out.dtype)) for out in c.outs]
    return empty[0], singular_values(_wide(x)) if c.outs[1].numel() else empty[1], empty[2]


def _symmetric(x: ww.Tensor, upper: bool) -> ww.Tensor:
    lower = x.t().tril() if upper else x.tril()
    return lower + lower.tril(-1).t()


def _shifted(x: ww.Tensor) -> tuple[ww.Tensor, ww.Tensor, ww.Tensor]:
    """Eigenvalues and vectors of a symmetric matrix, made positive by adding a multiple of one."""
    shift = (x * x).sum((-2, -1), True).sqrt()
    n = x.shape[-1]
    columns, lengths, v = _decomposed(x + shift * ww.eye(n, dtype=x.dtype))
    values = lengths - shift.squeeze(-1)
    return values, lengths, v


@op("_linalg_eigh")
def eigh(c: Context, x: ww.Tensor, uplo: str = "L", compute_v: bool = True) -> Any:
    if c.used - {0}:
        raise Unsupported("eigenvectors")
    n = x.shape[-1]
    vectors = ww.zeros(tuple(c.outs[1].shape), dtype=dtype_of(c.outs[1].dtype))
    values, _, _ = _shifted(_symmetric(_wide(x), uplo.upper() == "U"))
    # Of a column that was added for an even number of them, the length is 0, and what was shifted is below all others.
    return values.sort(-1)[0][..., values.shape[-1] - n :], vectors


@op("linalg_pinv.atol_rtol_tensor")
def pinv(c: Context, x: ww.Tensor, *, atol: Optional[ww.Tensor] = None, rtol: Optional[ww.Tensor] = None, hermitian: bool = False) -> Any:
    wide = _symmetric(_wide(x), False) if hermitian else _wide(x)
    m, n = x.shape[-2:]
    tall = wide if m >= n else wide.t()
    columns, lengths, v = _decomposed(tall)
    default = 1.1920928955078125e-07 * max(m, n)
    absolute = ww.full((), 0.0, dtype=ww.float64) if atol is None else atol.astype(ww.float64)
    relative = ww.where(absolute > 0, 0.0, default) if rtol is None else rtol.astype(ww.float64)
    cut = ww.maximum(absolute, relative * lengths.max(-1)).unsqueeze(-1)
    inverse = ww.where(lengths > cut, 1 / ww.where(lengths > cut, lengths * lengths, 1.0), 0.0).unsqueeze(-2)
    found = (v * inverse) @ columns.t()
    return found if m >= n else found.t()


@op("linalg_matrix_sqrth")
def matrix_sqrth(c: Context, x: ww.Tensor, uplo: str = "L") -> Any:
    values, _, v = _shifted(_symmetric(_wide(x), uplo.upper() == "U"))
    return (v * values.maximum(0.0).sqrt().unsqueeze(-2)) @ v.t()
