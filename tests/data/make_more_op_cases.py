"""Writes more_ops.json.gz: values and gradients of linear algebra, Fourier transforms, special functions, and what finds elements by their values.

    python3 -m venv venv && venv/bin/pip install torch numpy
    venv/bin/python tests/data/make_more_op_cases.py

The format and what always holds are those of make_op_cases.py. What has no sign of its own (singular vectors, eigenvectors) is compared without one.
"""

import gzip
import itertools
import json
from pathlib import Path

import mpmath
import torch
import torch.nn.functional as F

import make_op_cases as cases
from make_op_cases import add, ints, numbers, whole

L = torch.linalg
# Of what is eliminated in float32, and of float64.
SINGLE, DOUBLE = (3e-4, 3e-4), (1e-9, 1e-9)
F64 = torch.float64


def positive(name, shape, dtype=torch.float32):
    """Symmetric positive matrices."""
    x = numbers(shape, name, dtype=F64)
    return (x @ x.mT + torch.eye(shape[-1], dtype=F64)).to(dtype)


def well(name, shape, dtype=torch.float32):
    """Matrices far from singular."""
    return (numbers(shape, name, dtype=F64) + 2.5 * torch.eye(*shape[-2:], dtype=F64)).to(dtype)


def symmetric(x):
    return (x + x.mT) / 2


def algebra():
    for dtype, near in ((torch.float32, SINGLE), (F64, DOUBLE)):
        for shape in ((1, 1), (3, 3), (2, 1, 5, 5)) if dtype == torch.float32 else ((4, 4),):
            square = lambda name: well(f"{name} {shape}", shape, dtype)
            add("inverse", {}, [square("inverse")], L.inv, tolerance=near)
            add("det", {}, [square("det")], L.det, tolerance=near)
            add("slogdet", {}, [square("slogdet")], lambda x: L.slogdet(x)[::-1], tolerance=near)
            add("cholesky", {"symmetric": True}, [positive(f"cholesky {shape}", shape, dtype)], lambda x: L.cholesky(symmetric(x)), tolerance=near)
            columns = numbers((*shape[:-1], 2), f"columns {shape}", dtype=dtype)
            add("solve", {}, [square("solve"), columns], L.solve, tolerance=near)
            for upper, unit in itertools.product((False, True), (False, True)):
                attrs = {"upper": upper, "unit": unit}
                add("solve_triangular", attrs, [square("triangle"), columns],
                    lambda a, b: L.solve_triangular(a.triu(int(unit)) + unit * torch.eye(shape[-1], dtype=F64) if upper else a.tril(-int(unit)) + unit * torch.eye(shape[-1], dtype=F64),
                                                    b, upper=upper, unitriangular=unit), tolerance=near)
            for power in (-2, 0, 1, 6):
                add("matrix_power", {"power": power}, [square("power") / 3], lambda x: L.matrix_power(x, power), grads=power != 0, tolerance=near)
        for shape in ((4, 3), (2, 3, 5), (6, 1), (1, 4)) if dtype == torch.float32 else ((3, 3),):
            x = numbers(shape, f"tall {shape}", dtype=dtype)
            columns = numbers((*shape[:-1], 2), f"tall columns {shape}", dtype=dtype)
            add("qr", {}, [x], lambda x: L.qr(x), tolerance=near)
            add("qr_r", {}, [x], lambda x: L.qr(x)[1], tolerance=near)
            tall = shape[-2] >= shape[-1]
            add("lstsq", {}, [x, columns], lambda a, b: L.lstsq(a, b, driver="gelsd").solution if tall else L.pinv(a) @ b, tolerance=near)
            add("pinv", {}, [x], L.pinv, tolerance=near)
            add("svd", {}, [x], lambda x: (lambda u, s, v: (s, u.abs(), v.mT.abs()))(*L.svd(x, full_matrices=False)), tolerance=near)
            add("svd_left", {}, [x], lambda x: L.svd(x, full_matrices=False)[0].abs(), tolerance=near)
            add("svd_right", {}, [x], lambda x: L.svd(x, full_matrices=False)[2].mT.abs(), tolerance=near)
            for order in ("fro", "nuc", "2", "-2", "1", "inf"):
                value = {"2": 2, "-2": -2, "1": 1, "inf": float("inf")}.get(order, order)
                add("matrix_norm", {"ord": order}, [x], lambda x: L.matrix_norm(x, value), tolerance=near)
        for shape in ((1, 1), (2, 4, 4), (13, 13)) if dtype == torch.float32 else ((5, 5),):
            x = numbers(shape, f"symmetric {shape}", dtype=dtype)
            add("eigh", {}, [x], lambda x: (lambda w, v: (w, v.abs()))(*L.eigh(symmetric(x))), tolerance=near)
            add("eigh_vectors", {}, [x], lambda x: L.eigh(symmetric(x))[1].abs(), tolerance=near)
    add("eigh", {}, [torch.eye(5)], lambda x: (lambda w, v: (w, v.abs()))(*L.eigh(x)), grads=False, tolerance=SINGLE)
    # No column is above the diagonal's in size: rows change places.
    add("det", {}, [torch.tensor([[0.0, 2, 1, 3], [1, 0, 5, 2], [4, 1, 0, 1], [2, 3, 1, 0]])], L.det, tolerance=SINGLE)
    low = numbers((4, 2), "rank two", dtype=F64) @ numbers((2, 5), "rank two b", dtype=F64)
    add("pinv", {"rtol": 1e-6}, [low], lambda x: L.pinv(x, rtol=1e-6), grads=False, tolerance=DOUBLE)


def products():
    for order in (1.0, 2.0, 3.0, float("inf")):
        name = order if order < 9 else "inf"
        # Short decimals are as far apart in two directions, so the largest distance has no one direction.
        add("cdist", {"p": name}, [(2, 3, 4), (2, 5, 4)], lambda a, b: torch.cdist(a, b, order), grads=order < 9, tolerance=(1e-5, 1e-5))
    for axis, shape in ((0, (3, 4)), (1, (2, 3)), (-1, (2, 1, 3))):
        add("cross", {"axis": axis}, [shape, shape], lambda a, b: L.cross(a, b, dim=axis))
    for a, b in (((2, 3), (3, 2)), ((4,), (2, 2)), ((2, 1, 2), (3,))):
        add("kron", {}, [a, b], torch.kron)
    for axis in (0, 1, -1):
        add("trapezoid", {"dx": 0.3, "axis": axis}, [(3, 4, 2)], lambda y: torch.trapezoid(y, dx=0.3, dim=axis))
        add("trapezoid_at", {"axis": axis}, [(3, 4, 2), (3, 4, 2)], lambda y, x: torch.trapezoid(y, x, dim=axis))
    add("trapezoid_at", {"axis": 1}, [(3, 4), (4,)], lambda y, x: torch.trapezoid(y, x, dim=1))


def fourier():
    near = {torch.float32: (3e-6, 3e-6), F64: (1e-11, 1e-11)}
    for dtype, length in [(torch.float32, n) for n in (1, 2, 5, 12, 67, 128, 130)] + [(F64, n) for n in (8, 67, 130)]:
        shape = (2, length) if length < 64 else (length,)
        for name in ("fft", "ifft"):
            x = numbers(shape, f"{name} {length}", dtype=dtype)
            y = numbers(shape, f"{name} {length} b", dtype=dtype)
            function = getattr(torch.fft, name)
            pair = lambda z: (z.real, z.imag)
            add(name, {"axis": -1}, [x], lambda x: pair(function(x)), tolerance=near[dtype])
            add(name, {"axis": -1}, [x, y], lambda x, y: pair(function(torch.complex(x, y))), tolerance=near[dtype])
        x = numbers(shape, f"real {length}", dtype=dtype)
        add("rfft", {"axis": -1}, [x], lambda x: pair(torch.fft.rfft(x)), tolerance=near[dtype])
        half = numbers((*shape[:-1], length // 2 + 1), f"half {length}", dtype=dtype)
        other = numbers((*shape[:-1], length // 2 + 1), f"half {length} b", dtype=dtype)
        add("irfft", {"axis": -1, "n": length}, [half, other], lambda a, b: torch.fft.irfft(torch.complex(a, b), length), tolerance=near[dtype])
    add("fft", {"axis": 1}, [(2, 6, 3)], lambda x: pair(torch.fft.fft(x, dim=1)), tolerance=near[torch.float32])


def by_mpmath(function):
    """PyTorch's Bessel functions are right to eight digits alone."""
    return lambda x: torch.tensor([float(function(value)) for value in x.flatten().tolist()], dtype=F64).reshape(x.shape)


def special():
    S = torch.special
    J, Y, K = (lambda n, f=f: by_mpmath(lambda x: f(n, x)) for f in (mpmath.besselj, mpmath.bessely, mpmath.besselk))
    ranges = {"lgamma": (torch.lgamma, -3.7, 9), "digamma": (torch.digamma, -2.6, 9), "erfinv": (S.erfinv, -0.995, 0.995), "erfc": (S.erfc, -3, 5),
              "erfcx": (S.erfcx, -2, 9), "ndtr": (S.ndtr, -5, 5), "ndtri": (S.ndtri, 0.003, 0.997), "log_ndtr": (S.log_ndtr, -9, 4),
              "entr": (S.entr, 0.05, 3), "sinc": (torch.sinc, -3, 3), "i0": (S.i0, -20, 20), "i0e": (S.i0e, -20, 20), "i1": (S.i1, -20, 20),
              "i1e": (S.i1e, -20, 20), "bessel_j0": (J(0), -30, 30), "bessel_j1": (J(1), -30, 30), "bessel_y0": (Y(0), 0.1, 30),
              "bessel_y1": (Y(1), 0.1, 30), "bessel_k0": (K(0), 0.1, 20), "bessel_k1": (K(1), 0.1, 20),
              "logit": (torch.logit, 0.03, 0.97)}
    # PyTorch has no derivative of these.
    values_alone = {"bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "bessel_k0", "bessel_k1"}
    for name, (function, low, high) in ranges.items():
        for dtype in (torch.float32, F64):
            add(name, {}, [numbers((25,), name, low, high, dtype)], function, grads=name not in values_alone,
                tolerance=(1e-5, 1e-6) if dtype == torch.float32 else (1e-9, 1e-10))
    poles = torch.tensor([0.0, -1.0, -2.0, 1.0, float("inf"), -float("inf"), float("nan")])
    for name in ("lgamma", "digamma", "erfinv", "erfc", "ndtr", "entr", "sinc", "i0", "i0e", "i1e"):
        add(name, {}, [poles], ranges[name][0], grads=False)
    for n in (0, 1, 2, 4):
        add("polygamma", {"n": n}, [numbers((20,), f"polygamma {n}", 0.2, 9)], lambda x: torch.polygamma(n, x), tolerance=(1e-5, 1e-5))
    add("zeta", {}, [numbers((20,), "zeta", 1.1, 6), numbers((20,), "zeta q", 0.2, 7)], S.zeta, grads=False, tolerance=(1e-5, 1e-5))
    for name in ("xlogy", "xlog1py"):
        add(name, {}, [(3, 4), numbers((3, 4), name, 0.1, 3)], getattr(S, name), tolerance=(1e-5, 1e-5))
        add(name, {}, [torch.tensor([0.0, 0.0, 0.0, 2.0]), torch.tensor([0.0, 3.0, float("nan"), 1.0])], getattr(S, name), grads=False)
    add("logit", {"eps": 0.1}, [numbers((12,), "logit eps", 0.01, 0.99)], lambda x: torch.logit(x, 0.1), tolerance=(1e-5, 1e-5))
    for p in (1, 3):
        add("multigammaln", {"p": p}, [numbers((9,), f"multi {p}", 1.2, 9)], lambda x: S.multigammaln(x, p), tolerance=(1e-5, 1e-5))


def selecting():
    for dtype in (torch.int32, torch.float32):
        x = whole((3, 4), "few", -2, 3).to(dtype)
        add("nonzero", {}, [x], lambda x: ints(torch.nonzero(x)), grads=False)
        add("unique", {}, [x], lambda x: tuple(v if k == 0 else ints(v) for k, v in enumerate(torch.unique(x, return_inverse=True, return_counts=True))), grads=False)
    add("nonzero", {}, [torch.zeros(2, 3)], lambda x: ints(torch.nonzero(x)), grads=False)
    add("masked_select", {}, [(3, 4), whole((3, 1), "mask", 0, 2).bool()], torch.masked_select)
    add("masked_select", {}, [(3, 4), whole((3, 4), "mask b", 0, 2).bool()], torch.masked_select)
    for right in (False, True):
        line = torch.tensor([-1.0, 0.5, 0.5, 0.5, 2.0])
        wanted = torch.tensor([-2.0, -1.0, 0.5, 0.6, 2.0, 3.0, float("nan")])
        add("searchsorted", {"right": right}, [line, wanted], lambda a, b: ints(torch.searchsorted(a, b, right=right)), grads=False)
        rows = numbers((3, 7), "rows").sort(-1).values
        add("searchsorted", {"right": right}, [rows, numbers((3, 4), "wanted")], lambda a, b: ints(torch.searchsorted(a, b, right=right)), grads=False)
    few = whole((9,), "counted", 0, 6, torch.int32)
    for length in (0, 8):
        add("bincount", {"minlength": length}, [few], lambda x: torch.bincount(x, minlength=length).to(torch.int32), grads=False)
    add("bincount", {}, [few, (9,)], lambda x, w: torch.bincount(x, w), grads=False)
    for bins, ends in ((5, None), (4, (-1.0, 1.5))):
        attrs = {"bins": bins, "range": list(ends) if ends else None}
        add("histogram", attrs, [(40,)], lambda x: tuple(torch.histogram(x, bins, range=ends)), grads=False)
    for axis, shape in ((0, (5, 3)), (1, (4, 6)), (-1, (2, 3, 7))):
        add("median", {"axis": axis}, [shape], lambda x: (lambda m: (m.values, ints(m.indices)))(torch.median(x, axis)))
        shares = [0.0, 0.3, 0.5, 1.0]
        add("quantile", {"q": shares, "axis": axis}, [shape], lambda x: torch.quantile(x, torch.tensor(shares, dtype=F64), axis))
    for name, attrs in (("median", {"axis": 1}), ("quantile", {"q": [0.5], "axis": 1})):
        holes = torch.tensor([[1.0, float("nan"), 0.5], [3.0, 1.0, 2.0]])
        function = (lambda x: torch.median(x, 1).values) if name == "median" else lambda x: torch.quantile(x, torch.tensor([0.5], dtype=F64), 1)
        add(name + "_values" * (name == "median"), attrs, [holes], function, grads=False)


def windows():
    for sizes, shape in (([3], (2, 2, 7)), ([2, 5], (1, 2, 4, 5)), ([4, 3], (1, 2, 3, 7)), ([2, 2, 3], (1, 1, 3, 4, 5))):
        average = getattr(F, f"adaptive_avg_pool{len(sizes)}d")
        largest = getattr(F, f"adaptive_max_pool{len(sizes)}d")
        add("adaptive_avg_pool", {"sizes": sizes}, [shape], lambda x: average(x, sizes))
        add("adaptive_max_pool", {"sizes": sizes}, [shape], lambda x: largest(x, sizes))
        add("interpolate_area", {"sizes": sizes}, [shape], lambda x: F.interpolate(x, sizes, mode="area"))
    for align, sizes in itertools.product((False, True), ([7, 5], [3, 9], [2, 3])):
        add("interpolate_cubic", {"sizes": sizes, "align_corners": align}, [(1, 2, 4, 5)],
            lambda x: F.interpolate(x, sizes, mode="bicubic", align_corners=align), tolerance=(1e-5, 1e-5))
    for factor in (2, 3):
        add("pixel_shuffle", {"factor": factor}, [(2, 2 * factor * factor, 2, 3)], lambda x: F.pixel_shuffle(x, factor))
        add("pixel_unshuffle", {"factor": factor}, [(2, 2, 2 * factor, 3 * factor)], lambda x: F.pixel_unshuffle(x, factor))
    index = whole((3, 4), "bags", 0, 6)
    for mode in ("sum", "mean", "max"):
        add("embedding_bag", {"mode": mode}, [(6, 3), index], lambda t, i: F.embedding_bag(i, t, mode=mode))
        flat, offsets = whole((7,), "flat bags", 0, 6), torch.tensor([0, 3, 3, 5])
        add("embedding_bag_at", {"mode": mode}, [(6, 3), flat, offsets], lambda t, i, o: F.embedding_bag(i, t, o, mode=mode), grads=mode != "max")
    add("embedding_bag", {"mode": "sum"}, [(6, 3), index, (3, 4)], lambda t, i, w: F.embedding_bag(i, t, mode="sum", per_sample_weights=w))


def losses():
    near = (1e-5, 5e-6)
    for axis in (0, 1):
        add("cosine_similarity", {"axis": axis}, [(3, 4), (3, 4)], lambda a, b: F.cosine_similarity(a, b, axis, 1e-8), tolerance=near)
    # Below the least length, PyTorch's gradient is that of another function.
    add("cosine_similarity", {"axis": 1, "eps": 3.0}, [(3, 4), (3, 4)], lambda a, b: F.cosine_similarity(a, b, 1, 3.0), grads=False, tolerance=near)
    target = torch.softmax(numbers((3, 4), "distribution"), 1)
    for reduction in ("none", "sum", "mean"):
        add("kl_div", {"reduction": reduction}, [(3, 4), target], lambda x, t: F.kl_div(x, t, reduction=reduction), tolerance=near)
        add("kl_div", {"reduction": reduction, "log_target": True}, [(3, 4), target.log()], lambda x, t: F.kl_div(x, t, reduction=reduction, log_target=True), tolerance=near)
        for beta in (0.0, 0.4, 1.7):
            add("smooth_l1_loss", {"reduction": reduction, "beta": beta}, [(3, 4), (3, 4)], lambda a, b: F.smooth_l1_loss(a, b, reduction=reduction, beta=beta))
        steps, lengths = torch.tensor([6, 5, 6, 3]), torch.tensor([3, 2, 0, 1])
        targets = torch.tensor([[1, 2, 2], [3, 1, 1], [1, 1, 1], [2, 1, 1]])
        for blank in (0, 4):
            # PyTorch's gradient is right only behind a softmax, which is therefore part of the case.
            add("ctc_loss", {"reduction": reduction, "blank": blank}, [(6, 4, 5), targets, steps, lengths],
                lambda x, t, s, l: F.ctc_loss(torch.log_softmax(x, 2), t, s, l, blank, reduction), tolerance=near)
    # No path is so short.
    add("ctc_loss", {"reduction": "none", "zero_infinity": True}, [(2, 1, 3), torch.tensor([[1, 1]]), torch.tensor([2]), torch.tensor([2])],
        lambda x, t, s, l: F.ctc_loss(torch.log_softmax(x, 2), t, s, l, 0, "none", True))


def margins():
    near = (1e-5, 5e-6)
    signs = torch.tensor([1, -1, -1, 1]).reshape(4, 1).expand(4, 3).contiguous()
    one_of = torch.tensor([2, 0, 1, 2])
    named = torch.tensor([[1, -1, 0], [0, 2, -1], [2, 1, 0], [-1, 2, 2]])
    yes_or_no = whole((4, 3), "yes or no", 0, 2).float()
    chances = lambda name: numbers((4, 3), name, 0.05, 0.95)
    factors = lambda name, shape=(3,): numbers(shape, name, 0.3, 3.0)
    for reduction in ("none", "sum", "mean"):
        attrs = {"reduction": reduction}
        for margin in (0.0, 0.7):
            more = attrs | {"margin": margin}
            add("margin_ranking_loss", more, [(4, 3), (4, 3), ints(signs)], lambda a, b, t: F.margin_ranking_loss(a, b, t, margin, reduction=reduction))
            add("hinge_embedding_loss", more, [(4, 3), ints(signs)], lambda x, t: F.hinge_embedding_loss(x, t, margin, reduction=reduction))
            add("cosine_embedding_loss", more, [(4, 3), (4, 3), ints(signs[:, 0])], lambda a, b, t: F.cosine_embedding_loss(a, b, t, margin, reduction=reduction), tolerance=near)
        add("soft_margin_loss", attrs, [(4, 3), ints(signs)], lambda x, t: F.soft_margin_loss(x, t, reduction=reduction), tolerance=near)
        add("multilabel_soft_margin_loss", attrs, [(4, 3), yes_or_no], lambda x, t: F.multilabel_soft_margin_loss(x, t, reduction=reduction), grads=False, tolerance=near)
        add("multilabel_soft_margin_loss", attrs, [(4, 3), yes_or_no, factors("classes")],
            lambda x, t, w: F.multilabel_soft_margin_loss(x, t, w, reduction=reduction), grads=False, tolerance=near)
        for squared, margin in ((False, 1.0), (True, 0.4)):
            more = attrs | {"squared": squared, "margin": margin}
            add("multi_margin_loss", more, [(4, 3), ints(one_of)], lambda x, t: F.multi_margin_loss(x, t.long(), 1 + squared, margin, reduction=reduction))
            add("multi_margin_loss", more, [(4, 3), ints(one_of), factors("margins")],
                lambda x, t, w: F.multi_margin_loss(x, t.long(), 1 + squared, margin, w.detach(), reduction=reduction), grads=False)
        add("multi_margin_loss", attrs, [(3,), ints(one_of[:1])], lambda x, t: F.multi_margin_loss(x, t[0].long(), reduction=reduction))
        add("multilabel_margin_loss", attrs, [(4, 3), ints(named)], lambda x, t: F.multilabel_margin_loss(x, t.long(), reduction=reduction))
        add("multilabel_margin_loss", attrs, [(3,), ints(named[1])], lambda x, t: F.multilabel_margin_loss(x, t.long(), reduction=reduction))
        for order, swap in ((2.0, False), (2.0, True), (1.0, False), (3.0, True)):
            more = attrs | {"order": order, "swap": swap, "margin": 1.3, "eps": 1e-3}
            add("triplet_margin_loss", more, [(4, 3)] * 3, lambda a, p, n: F.triplet_margin_loss(a, p, n, 1.3, order, 1e-3, swap, reduction=reduction), tolerance=near)
        add("weighted_binary_cross_entropy", attrs, [chances("chances"), chances("targets"), factors("weights", (4, 3))],
            lambda x, t, w: F.binary_cross_entropy(x, t.detach(), w.detach(), reduction=reduction), grads=False, tolerance=near)
        for weight, positive in itertools.product((False, True), (False, True)):
            inputs = [numbers((4, 3), "logits"), yes_or_no] + [factors("weight")] * weight + [factors("positive")] * positive
            def logits(x, t, *given, weight=weight, positive=positive):
                given = list(given)
                first = given.pop(0) if weight else None
                return F.binary_cross_entropy_with_logits(x, t, first, pos_weight=given.pop(0) if positive else None, reduction=reduction)
            has_gradients = not weight and not positive  # PyTorch has none by weights.
            add("weighted_binary_cross_entropy_with_logits", attrs | {"weight": weight, "positive": positive}, inputs, logits, grads=has_gradients, tolerance=near)
        counts = whole((4, 3), "counts", 0, 5).float()
        for log_input, full in itertools.product((True, False), (False, True)):
            x = numbers((4, 3), "rates", -1, 1) if log_input else numbers((4, 3), "rates", 0.2, 4)
            add("poisson_nll_loss", attrs | {"log_input": log_input, "full": full}, [x, counts],
                lambda x, t: F.poisson_nll_loss(x, t.detach(), log_input, full=full, reduction=reduction), grads=False, tolerance=near)
        variance = numbers((4, 3), "variance", 0.01, 2)
        for full in (False, True):
            add("gaussian_nll_loss", attrs | {"full": full, "eps": 0.2}, [(4, 3), (4, 3), variance],
                lambda x, t, v: F.gaussian_nll_loss(x, t, v, full=full, eps=0.2, reduction=reduction), tolerance=near)
    for order in (1.0, 2.0, 3.0):
        add("pairwise_distance", {"order": order, "eps": 1e-3}, [(4, 3), (4, 3)], lambda a, b: F.pairwise_distance(a, b, order, 1e-3))
        add("pairwise_distance", {"order": order, "eps": 1e-3, "keepdim": True}, [(4, 3), (4, 3)], lambda a, b: F.pairwise_distance(a, b, order, 1e-3, True))
    # Targets of whole numbers have no gradient.
    for case_name, function in {
        "multilabel_soft_margin_loss": lambda x: F.multilabel_soft_margin_loss(x, yes_or_no.double()),
        "poisson_nll_loss": lambda x: F.poisson_nll_loss(x, counts.double(), full=True),
    }.items():
        target = yes_or_no if case_name.startswith("multilabel") else counts
        add(case_name, {"full": True} if case_name.startswith("poisson") else {}, [(4, 3), ints(target)], lambda x, t: function(x), tolerance=near)


def main():
    for family in (algebra, products, fourier, special, selecting, windows, losses, margins):
        family()
    source = f"PyTorch {torch.__version__} on the CPU in float64, Bessel functions by mpmath, by tests/data/make_more_op_cases.py"
    text = json.dumps({"source": source, "cases": cases.CASES}, separators=(",", ":"))
    Path(__file__).with_name("more_ops.json.gz").write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    print(f"{len(cases.CASES)} cases, {sum('grads' in case for case in cases.CASES)} with gradients")


if __name__ == "__main__":
    main()
