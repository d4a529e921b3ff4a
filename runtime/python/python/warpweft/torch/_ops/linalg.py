"""Factorisations of small matrices, step by step, in float64 for float32: Cholesky, LU with partial pivots, QR by reflections, and what is made of them.

Each step of a factorisation is a few ops on whole matrices, so a graph grows with the number of columns; larger matrices than `LARGEST` are left to
PyTorch. The order of pivots and the signs are LAPACK's, which PyTorch's results have.
"""

from __future__ import annotations

import functools
from typing import Any, Callable

import warpweft as ww
from warpweft.torch._table import Context, Unsupported, dtype_of, op

LARGEST = 64


def small(*names: str, nothing: float = 0.0) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enters a builder of a factorisation; of a matrix without elements its results are that number."""

    def enter(build: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(build)
        def built(c: Context, x: ww.Tensor, *args: Any, **kwargs: Any) -> Any:
            if x.size:
                return build(c, x, *args, **kwargs)
            if not nothing and any(out.is_floating_point() and out.numel() for out in c.outs):
                raise Unsupported("a matrix without elements")
            values = [ww.full(tuple(out.shape), 0 if index else nothing, dtype=dtype_of(out.dtype)) for index, out in enumerate(c.outs)]
            return tuple(values) if isinstance(c.out, (tuple, list)) else values[0]

        return op(*names)(built)

    return enter


def _wide(c: Context, x: ww.Tensor) -> ww.Tensor:
    """In float64, if it is small, and has elements."""
    if x.dtype not in (ww.float32, ww.float64):
        raise Unsupported("a factorisation of other elements than float32 and float64")
    if min(x.shape[-2:]) > LARGEST:
        raise Unsupported(f"a matrix of {x.shape[-2]} rows and {x.shape[-1]} columns: more than {LARGEST}")
    return x.astype(ww.float64)


def _at(n: int, k: int) -> ww.Tensor:
    """1 at an index of so many."""
    return ww.arange(n).equal(k)


def _column(x: ww.Tensor, k: int) -> ww.Tensor:
    return x[..., :, k : k + 1]


def _row(x: ww.Tensor, k: int) -> ww.Tensor:
    return x[..., k : k + 1, :]


def cholesky(x: ww.Tensor) -> tuple[ww.Tensor, ww.Tensor]:
    """The lower factor, and the number of the first column without one."""
    n = x.shape[-1]
    columns, rest = [], x.tril()
    info = ww.zeros(x.shape[:-2], dtype=ww.int64)
    for k in range(n):
        pivot = rest[..., k, k]
        bad = ~(pivot > 0)
        info = ww.where((info.equal(0)) & bad, k + 1, info)
        scale = ww.where(bad, 1.0, pivot).sqrt().unsqueeze(-1).unsqueeze(-1)
        below = ww.arange(n).greater_equal(k).unsqueeze(-1)
        column = ww.where(below, _column(rest, k) / scale, 0.0)
        columns.append(column)
        rest = rest - column @ column.t()
    return ww.cat(columns, -1), info


@small("linalg_cholesky_ex")
def cholesky_ex(c: Context, x: ww.Tensor, *, upper: bool = False, check_errors: bool = False) -> Any:
    wide = _wide(c, x)
    factor, info = cholesky(wide.t() if upper else wide)
    return factor.t() if upper else factor, info


def lu(x: ww.Tensor) -> tuple[ww.Tensor, ww.Tensor, ww.Tensor, ww.Tensor]:
    """Both factors in one matrix, LAPACK's pivots (from 1), the order of rows, and the number of the first zero pivot."""
    m, n = x.shape[-2:]
    rows = ww.arange(m, dtype=ww.int64)
    order = rows.expand(*x.shape[:-2], m)
    pivots = []
    info = ww.zeros(x.shape[:-2], dtype=ww.int64)
    for k in range(min(m, n)):
        size = ww.where(rows.greater_equal(k), x[..., :, k].abs(), -1.0)
        at = size.argmax(-1).astype(ww.int64)
        pivots.append(at + 1)
        chosen = rows.equal(at.unsqueeze(-1))
        # The row of the pivot and row k are swapped.
        from_k, to_k = _row(x, k), (x * chosen.unsqueeze(-1).astype(x.dtype)).sum(-2, True)
        x = ww.where(_at(m, k).unsqueeze(-1), to_k, ww.where(chosen.unsqueeze(-1), from_k, x))
        number = (order * chosen.astype(ww.int64)).sum(-1, True)
        order = ww.where(_at(m, k), number, ww.where(chosen, order[..., k : k + 1], order))
        pivot = x[..., k : k + 1, k : k + 1]
        is_zero = pivot.equal(0.0)
        info = ww.where(info.equal(0) & is_zero.reshape(info.shape), k + 1, info)
        below = rows.greater(k).unsqueeze(-1)
        factor = ww.where(below, _column(x, k) / ww.where(is_zero, 1.0, pivot), 0.0)
        right = ww.arange(n).greater(k)
        x = x - factor * ww.where(right, _row(x, k), 0.0)
        x = ww.where(below & _at(n, k), factor, x)
    return x, ww.stack(pivots, -1), order, info


def _is_odd(pivots: ww.Tensor) -> ww.Tensor:
    """-1 where the exchanges of rows are odd in number, else 1."""
    moved = pivots.not_equal(ww.arange(pivots.shape[-1], dtype=ww.int64) + 1).astype(ww.int64).sum(-1)
    return (1 - 2 * (moved % 2)).astype(ww.float64)


def solve_triangular(a: ww.Tensor, b: ww.Tensor, upper: bool, unit: bool) -> ww.Tensor:
    """x of a x = b."""
    n = a.shape[-1]
    solved: dict[int, ww.Tensor] = {}
    # What is known is taken from all rows at once; of those that are solved already, nothing is read any more.
    for k in range(n - 1, -1, -1) if upper else range(n):
        row = _row(b, k)
        solved[k] = row if unit else row / a[..., k : k + 1, k : k + 1]
        b = b - _column(a, k) * solved[k]
    return ww.cat([solved[k] for k in range(n)], -2)


def _solve(factors: ww.Tensor, order: ww.Tensor, b: ww.Tensor) -> ww.Tensor:
    n = factors.shape[-1]
    permuted = (order.unsqueeze(-1).equal(ww.arange(n, dtype=ww.int64))).astype(factors.dtype) @ b
    return solve_triangular(factors, solve_triangular(factors, permuted, False, True), True, False)


def _order_of(pivots: ww.Tensor, n: int) -> ww.Tensor:
    """The order of rows that exchanges make."""
    rows = ww.arange(n, dtype=ww.int64)
    order = rows.expand(*pivots.shape[:-1], n)
    for k in range(pivots.shape[-1]):
        chosen = rows.equal(pivots[..., k : k + 1].astype(ww.int64) - 1)
        number = (order * chosen.astype(ww.int64)).sum(-1, True)
        order = ww.where(_at(n, k), number, ww.where(chosen, order[..., k : k + 1], order))
    return order


def _lu_of_determinant(c: Context, x: ww.Tensor) -> tuple[ww.Tensor, ww.Tensor]:
    """The factors that derivatives of determinants ask for: ATen's, which are those of the transpose of a matrix in row-major order."""
    wide = _wide(c, x)
    factors, pivots, _, _ = lu(wide.t() if c.args[0].is_contiguous() else wide)
    return factors, pivots


@small("_linalg_det", nothing=1.0)
def det(c: Context, x: ww.Tensor) -> Any:
    factors, pivots = _lu_of_determinant(c, x)
    return factors.diagonal(0, x.ndim - 2, x.ndim - 1).prod(-1) * _is_odd(pivots), factors, pivots


@small("_linalg_slogdet", nothing=1.0)
def slogdet(c: Context, x: ww.Tensor) -> Any:
    factors, pivots = _lu_of_determinant(c, x)
    diagonal = factors.diagonal(0, x.ndim - 2, x.ndim - 1)
    return diagonal.sign().prod(-1) * _is_odd(pivots), diagonal.abs().log().sum(-1), factors, pivots


@small("linalg_lu_factor_ex")
def lu_factor_ex(c: Context, x: ww.Tensor, *, pivot: bool = True, check_errors: bool = False) -> Any:
    if not pivot:
        raise Unsupported("a factorisation without pivots")
    factors, pivots, _, info = lu(_wide(c, x))
    return factors, pivots, info


def _unpacked(factors: ww.Tensor) -> tuple[ww.Tensor, ww.Tensor]:
    m, n = factors.shape[-2:]
    k = min(m, n)
    return factors[..., :, :k].tril(-1) + ww.eye(m, k, dtype=factors.dtype), factors[..., :k, :].triu()


def _permutation(order: ww.Tensor, m: int, dtype: ww.DType) -> ww.Tensor:
    return order.unsqueeze(-1).equal(ww.arange(m, dtype=ww.int64)).astype(dtype).t()


@op("linalg_lu")
def linalg_lu(c: Context, x: ww.Tensor, *, pivot: bool = True) -> Any:
    if not pivot:
        raise Unsupported("a factorisation without pivots")
    factors, _, order, _ = lu(_wide(c, x))
    return (_permutation(order, x.shape[-2], ww.float64), *_unpacked(factors))


@op("lu_unpack")
def lu_unpack(c: Context, factors: ww.Tensor, pivots: ww.Tensor, unpack_data: bool = True, unpack_pivots: bool = True) -> Any:
    if factors.size == 0 or min(factors.shape[-2:]) > LARGEST:
        raise Unsupported("factors of none, or of many columns")
    m = factors.shape[-2]
    return (_permutation(_order_of(pivots, m), m, factors.dtype), *_unpacked(factors))


@op("linalg_lu_solve")
def lu_solve(c: Context, factors: ww.Tensor, pivots: ww.Tensor, b: ww.Tensor, *, left: bool = True, adjoint: bool = False) -> Any:
    wide, right = _wide(c, factors), b.astype(ww.float64)
    order = _order_of(pivots, wide.shape[-1])
    right = right if left else right.t()
    if left != adjoint:
        found = _solve(wide, order, right)
    else:
        # Of the transpose: the factors come in the other order, and rows are put back in the end.
        found = solve_triangular(wide.t(), solve_triangular(wide.t(), right, False, False), True, True)
        found = _permutation(order, wide.shape[-1], wide.dtype) @ found
    return found if left else found.t()


@small("_linalg_solve_ex")
def solve_ex(c: Context, a: ww.Tensor, b: ww.Tensor, *, left: bool = True, check_errors: bool = False) -> Any:
    wide, right = _wide(c, a), b.astype(ww.float64)
    is_vector = (
        list(c.out[0].shape) != [*c.out[0].shape[:-2], *b.shape[-2:]] or b.ndim == 1 or (b.ndim == a.ndim - 1 and b.shape == a.shape[:-1])
    )
    right = right.unsqueeze(-1) if is_vector else right
    factors, pivots, order, info = lu(wide if left else wide.t())
    found = _solve(factors, order, right if left or is_vector else right.t())
    if not left:
        # The factors that are given back are those of the matrix itself.
        factors, pivots, _, info = lu(wide)
    found = found.squeeze(-1) if is_vector else (found if left else found.t())
    return found, factors, pivots, info


@small("linalg_inv_ex")
def inv_ex(c: Context, x: ww.Tensor, *, check_errors: bool = False) -> Any:
    factors, _, order, info = lu(_wide(c, x))
    return _solve(factors, order, ww.eye(x.shape[-1], dtype=ww.float64)), info


@op("linalg_solve_triangular")
def linalg_solve_triangular(c: Context, a: ww.Tensor, b: ww.Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Any:
    wide, right = _wide(c, a), b.astype(ww.float64)
    if left:
        return solve_triangular(wide, right, upper, unitriangular)
    return solve_triangular(wide.t(), right.t(), not upper, unitriangular).t()


@op("triangular_solve")
def triangular_solve(
    c: Context, b: ww.Tensor, a: ww.Tensor, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> Any:
    wide = _wide(c, a)
    found = solve_triangular(wide.t() if transpose else wide, b.astype(ww.float64), upper != transpose, unitriangular)
    return found, a.expand(c.out[1].shape)


@op("cholesky_solve")
def cholesky_solve(c: Context, b: ww.Tensor, factor: ww.Tensor, upper: bool = False) -> Any:
    wide = _wide(c, factor)
    lower = wide.t() if upper else wide
    return solve_triangular(lower.t(), solve_triangular(lower, b.astype(ww.float64), False, False), True, False)


@small("cholesky_inverse")
def cholesky_inverse(c: Context, factor: ww.Tensor, upper: bool = False) -> Any:
    wide = _wide(c, factor)
    lower = wide.t() if upper else wide
    one = ww.eye(factor.shape[-1], dtype=ww.float64)
    return solve_triangular(lower.t(), solve_triangular(lower, one, False, False), True, False)


def reflections(x: ww.Tensor) -> tuple[ww.Tensor, ww.Tensor]:
    """LAPACK's `geqrf`: R above, the vectors of reflections below the diagonal, and their factors."""
    m, n = x.shape[-2:]
    rows = ww.arange(m).unsqueeze(-1)
    factors = []
    for k in range(min(m, n)):
        column = _column(x, k)
        first = x[..., k : k + 1, k : k + 1]
        below = ww.where(rows.greater(k), column, 0.0)
        rest = (below * below).sum(-2, True)
        is_done = rest.equal(0.0)
        length = (first * first + rest).sqrt().copysign(first.negative())
        beta = ww.where(is_done, first, length)
        tau = ww.where(is_done, 0.0, (beta - first) / ww.where(is_done, 1.0, beta))
        vector = below / ww.where(is_done, 1.0, first - beta) + rows.equal(k).astype(x.dtype)
        x = ww.where(ww.arange(n).greater_equal(k), x - tau * vector @ (vector.t() @ x), x)
        x = ww.where(rows.greater(k) & _at(n, k), vector, x)
        factors.append(tau.squeeze(-1).squeeze(-1))
    return x, ww.stack(factors, -1)


def _product(vectors: ww.Tensor, tau: ww.Tensor, columns: int) -> ww.Tensor:
    """The first columns of the product of reflections."""
    m = vectors.shape[-2]
    rows = ww.arange(m).unsqueeze(-1)
    found = ww.eye(m, columns, dtype=vectors.dtype).expand(*vectors.shape[:-2], m, columns)
    for k in range(tau.shape[-1] - 1, -1, -1):
        vector = ww.where(rows.greater(k), _column(vectors, k), 0.0) + rows.equal(k).astype(vectors.dtype)
        found = found - tau[..., k : k + 1].unsqueeze(-1) * vector @ (vector.t() @ found)
    return found


@small("geqrf")
def geqrf(c: Context, x: ww.Tensor) -> Any:
    return reflections(_wide(c, x))


@op("linalg_householder_product")
def householder_product(c: Context, vectors: ww.Tensor, tau: ww.Tensor) -> Any:
    if tau.size == 0:
        return ww.eye(*vectors.shape[-2:]).expand(c.shape)
    return _product(_wide(c, vectors), tau.astype(ww.float64), vectors.shape[-1])


@op("ormqr")
def ormqr(c: Context, vectors: ww.Tensor, tau: ww.Tensor, other: ww.Tensor, left: bool = True, transpose: bool = False) -> Any:
    if tau.size == 0:
        return other
    wide = _wide(c, vectors)
    q = _product(wide, tau.astype(ww.float64), wide.shape[-2])
    q, other = (q.t() if transpose else q), other.astype(ww.float64)
    return q @ other if left else other @ q


@op("linalg_qr")
def qr(c: Context, x: ww.Tensor, mode: str = "reduced") -> Any:
    if x.size == 0:
        raise Unsupported("a matrix without elements")
    wide = _wide(c, x)
    m, n = x.shape[-2:]
    packed, tau = reflections(wide)
    columns = m if mode == "complete" else min(m, n)
    q = ww.zeros(0, dtype=ww.float64) if mode == "r" else _product(packed[..., :, : min(m, n)], tau, columns)
    return q, packed[..., :columns, :].triu()


@op("linalg_matrix_exp")
def matrix_exp(c: Context, x: ww.Tensor) -> Any:
    halvings = 12
    scaled = _wide(c, x) * 2.0**-halvings
    one = ww.eye(x.shape[-1], dtype=ww.float64)
    found = one
    for k in range(9, 0, -1):
        found = one + scaled @ found * (1 / k)
    for _ in range(halvings):
        found = found @ found
    return found
