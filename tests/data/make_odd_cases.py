"""Writes odd.json.gz: what PyTorch gives for tensors without elements or axes, integers, NaN, infinities and ends of domains, in the format of ops.json.gz.

    python3 -m venv venv && venv/bin/pip install torch==2.15.0 numpy
    venv/bin/python tests/data/make_odd_cases.py

A call that PyTorch refuses is no case here. Left out are points at which PyTorch's value is not the function's: `sinc` of whole numbers, which pi rounded
decides, and `i0`, `i1`, `zeta` and `polygamma` of infinity, which are NaN there.
The file holds nothing of the time or machine, so a second run gives the same bytes.
"""

import json
import math
import random
import warnings

import torch
import torch.nn.functional as F

from case_file import tensor, write

warnings.simplefilter("ignore")
NAN, INF = math.nan, math.inf
L, S = torch.linalg, torch.special
FLOATS = {torch.float32: (2e-5, 2e-6), torch.float64: (1e-10, 1e-12), torch.float16: (4e-3, 1e-3), torch.bfloat16: (2e-2, 1e-2)}
WHOLE = (torch.int32, torch.int64, torch.uint8, torch.int8, torch.bool)
cases = []


def case(op, function, inputs, attrs=None, grad=True, near=None, indices=0):
    """One call, of which the types are PyTorch's, and the values those in float64. Outputs from the one of number `indices` on are indices, which this
    project keeps in int32."""
    number = sum(other["op"] == op for other in cases)
    entry = {"id": f"{op}/{number}", "op": op, "attrs": attrs or {}, "inputs": [tensor(x) for x in inputs]}
    types = [x.dtype for x in inputs]
    listed = lambda found: list(found) if isinstance(found, (tuple, list)) else [found]
    try:
        narrow = [o.dtype for o in listed(function(*inputs))]
    except (RuntimeError, IndexError, ValueError):
        return
    inputs = [x.double() if x.dtype == torch.float32 else x.clone() for x in inputs]
    inputs = [x.requires_grad_(grad and x.is_floating_point()) for x in inputs]
    outputs = [o.to(dtype) for o, dtype in zip(listed(function(*inputs)), narrow)]
    kept = [o.to(torch.int32) if indices is not None and k >= indices and o.dtype == torch.int64 else o for k, o in enumerate(outputs)]
    rtol, atol = near or FLOATS.get(outputs[0].dtype, (0, 0))
    cases.append(entry | {"outputs": [tensor(o) for o in kept], "rtol": rtol, "atol": atol})
    wanted = [x for x in inputs if x.requires_grad]
    if not wanted or not outputs[0].requires_grad:
        return
    steps = torch.arange(outputs[0].numel(), dtype=torch.float64)
    cotangent = ((steps * 7 % 5 + 1) / 2).to(outputs[0].dtype).reshape(outputs[0].shape)
    found = torch.autograd.grad(outputs[0], wanted, cotangent, allow_unused=True)
    of = {id(x): torch.zeros_like(x) if g is None else g for x, g in zip(wanted, found)}
    cases[-1] |= {"cotangent": tensor(cotangent), "grads": [tensor(of[id(x)].to(dtype)) if id(x) in of else None for x, dtype in zip(inputs, types)]}


def some(shape, seed, low=-2.0, high=2.0, dtype=torch.float32):
    source = random.Random(f"{shape} {seed}")
    count = math.prod(shape)
    return torch.tensor([round(source.uniform(low, high), 3) for _ in range(count)], dtype=dtype).reshape(shape)


def special():
    names = "digamma erfinv erfc erfcx ndtr ndtri log_ndtr entr sinc i0 i0e i1 i1e bessel_j0 bessel_j1 bessel_y0 bessel_y1 logit"
    functions = {name: getattr(S, name) for name in names.split()}
    functions |= {"lgamma": torch.lgamma, "bessel_k0": S.modified_bessel_k0, "bessel_k1": S.modified_bessel_k1}
    for name, function in functions.items():
        smooth = "bessel" not in name
        ends = [NAN, 0.0, -0.0, 0.5, 1e-20] + ([1.0, -1.0, 2.0, 30.0, -30.0] if name != "sinc" else [])
        ends += [INF, -INF] if name not in ("i0", "i1") else [88.0]
        for dtype in (torch.float32, torch.float64):
            case(name, function, [torch.tensor(ends, dtype=dtype)], grad=False, near=(2e-5, 1e-12) if dtype == torch.float32 else (1e-10, 1e-12))
        for shape in ((), (0,), (2, 0, 3), (1, 1, 1)):
            case(name, function, [some(shape, name, 0.1, 0.9)], grad=smooth)
        case(name, function, [torch.tensor([NAN, 0.25, 0.6])], grad=smooth)
        for dtype in WHOLE:
            case(name, function, [torch.tensor([0, 0] if name == "sinc" else [0, 1, 2, 5]).to(dtype)])
    tails = torch.tensor([1e-300, 1e-100, 1e-20, 1e-9, 0.3, 1 - 1e-9], dtype=torch.float64)
    case("ndtri", S.ndtri, [tails])
    case("ndtri", S.ndtri, [torch.tensor([0.0, 1.0, -0.1, 1.1])], grad=False)
    case("logit", torch.logit, [torch.tensor([0.0, 0.2, 1.0])])
    for eps in (0.0, 0.25):
        case("logit", lambda x: torch.logit(x, eps), [torch.tensor([0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0, -0.5, 1.5])], {"eps": eps})
    for n in (0, 1, 3):
        case("polygamma", lambda x: torch.polygamma(n, x), [torch.tensor([NAN, 1.0, 0.5, 30.0, -0.5])], {"n": n}, grad=False)
        case("polygamma", lambda x: torch.polygamma(n, x), [torch.tensor([1, 2, 3])], {"n": n})
    for name in ("xlogy", "xlog1py"):
        pairs = torch.tensor([[0.0, 0], [0, INF], [0, NAN], [NAN, 0], [0, -2], [1, 0], [2, INF], [3, -2.5], [NAN, 1]])
        case(name, getattr(S, name), [*pairs.T.contiguous()], grad=False)
        case(name, getattr(S, name), [some((2, 1, 3), name), some((4, 1), name, 0.5, 3)])
        case(name, getattr(S, name), [torch.tensor([1, 2, 3]), torch.tensor([2, 3, 4])])
    case("zeta", S.zeta, [torch.tensor([1.0, 3, 2, 0.5]), torch.tensor([2.0, -2.5, 0, 1])], grad=False)


def losses():
    for reduction in ("none", "sum", "mean"):
        attrs = {"reduction": reduction}
        for shape in ((), (0,), (3, 0), (1,), (2, 3, 4)):
            x, y = some(shape, "loss"), some(shape, "target", 0.1, 0.9)
            for name in ("kl_div", "mse_loss", "l1_loss", "huber_loss", "binary_cross_entropy_with_logits"):
                case(name, lambda a, b: getattr(F, name)(a, b, reduction=reduction), [x, y], attrs)
            case("smooth_l1_loss", lambda a, b: F.smooth_l1_loss(a, b, reduction=reduction, beta=0.7), [x, y], attrs | {"beta": 0.7})
        case("kl_div", lambda x, t: F.kl_div(x, t, reduction=reduction), [some((2, 4), "kl"), torch.tensor([[0.0, 1, 0, 0.5], [0, 0, 0, 0]])], attrs, grad=False)
        for lengths, steps in (([3, 2], [6, 6]), ([0, 0], [6, 6]), ([3, 0], [6, 0]), ([0, 0], [0, 3]), ([1, 2], [0, 6])):
            inputs = [some((6, 2, 5), "ctc"), torch.tensor([[1, 2, 2], [3, 1, 4]]), torch.tensor(steps), torch.tensor(lengths)]
            for zero in (False, True):
                function = lambda x, t, s, l: F.ctc_loss(torch.log_softmax(x, 2), t, s, l, 0, reduction, zero)
                # Without a path PyTorch's gradient is NaN, and ours zero.
                case("ctc_loss", function, inputs, attrs | {"blank": 0, "zero_infinity": zero}, grad=zero or steps[0] > 0)
    for a, b, axis in (((3, 4), (3, 4), 1), ((2, 0), (2, 0), 1), ((0, 3), (0, 3), 1), ((3, 1, 4), (1, 2, 4), 1), ((3, 1, 4), (2, 4), -2), ((4,), (3, 4), 0)):
        case("cosine_similarity", lambda x, y: F.cosine_similarity(x, y, axis, 1e-8), [some(a, "a"), some(b, "b")], {"axis": axis})


def algebra():
    near = (1e-3, 1e-4)
    for shape in ((0, 0), (2, 0, 0), (0, 3, 3), (1, 1), (2, 1, 3, 3)):
        square = some(shape, "square") + 3 * torch.eye(shape[-1])
        positive = square @ square.mT + torch.eye(shape[-1])
        columns = some((*shape[:-1], 2), "columns")
        case("inverse", L.inv, [square], near=near)
        case("det", L.det, [square], near=near)
        case("slogdet", lambda x: L.slogdet(x)[::-1], [square], near=near)
        case("cholesky", lambda x: L.cholesky((x + x.mT) / 2), [positive], {"symmetric": True}, near=near)
        case("solve", L.solve, [square, columns], near=near)
        case("solve", L.solve, [square, columns[..., :0]], near=near)
        case("matrix_power", lambda x: L.matrix_power(x, 3), [square], {"power": 3}, near=near)
        case("eigh", lambda x: (lambda w, v: (w, v.abs()))(*L.eigh((x + x.mT) / 2)), [positive], near=near)
    for shape in ((0, 3), (3, 0), (2, 0, 4), (0, 2, 3), (1, 3), (3, 1)):
        x = some(shape, "oblong")
        case("svd", lambda x: (lambda u, s, v: (s, u.abs(), v.mT.abs()))(*L.svd(x, full_matrices=False)), [x], near=near)
        case("qr", L.qr, [x], near=near, grad=shape[-1] <= shape[-2])
        case("pinv", L.pinv, [x], near=near)
        for order in ("fro", "nuc", "2", "1", "inf"):
            value = {"2": 2, "1": 1, "inf": INF}.get(order, order)
            case("matrix_norm", lambda x: L.matrix_norm(x, value), [x], {"ord": order}, near=near)
    three = some((2, 3, 3), "three") + 3 * torch.eye(3)
    for a, b in ((three[0], some((3,), "b")), (three, some((2, 3), "b")), (three, some((3, 2), "b")), (three[0], some((2, 3, 2), "b"))):
        case("solve", L.solve, [a, b], near=near)
    for shape in ((1,), (0,), (3, 1), (3, 0)):
        case("trapezoid", lambda x: torch.trapezoid(x, dx=0.5, dim=-1), [some(shape, "y")], {"dx": 0.5, "axis": -1})
        case("trapezoid_at", lambda x, y: torch.trapezoid(x, y, dim=-1), [some(shape, "y"), some(shape, "x")], {"axis": -1})
    for order in (0.0, 0.5, 1.0, 2.0, INF):
        for a, b in (((0, 3), (2, 3)), ((2, 0), (3, 0)), ((2, 2, 3), (1, 4, 3))):
            attrs = {"p": "inf" if order == INF else order}
            case("cdist", lambda x, y: torch.cdist(x, y, order), [some(a, "a"), some(b, "b")], attrs, grad=order >= 1)


def selecting():
    for dtype in (torch.float32, torch.float16, *WHOLE):
        x = torch.tensor([[3, 1, 2, 1], [0, 0, 5, 3]]).to(dtype)
        case("sort", lambda x: torch.sort(x, dim=0, stable=True, descending=True), [x], {"axis": 0, "descending": True}, grad=False, indices=1)
        case("nonzero", torch.nonzero, [x], grad=False)
        case("unique", lambda x: torch.unique(x, return_inverse=True, return_counts=True), [x], grad=False, indices=1)
        case("median", lambda x: torch.median(x, 1), [x], {"axis": 1}, grad=False, indices=1)
        case("searchsorted", torch.searchsorted, [x[0].sort().values, x], {"right": False}, grad=False)
        case("masked_select", torch.masked_select, [x, x > 0], grad=False, indices=None)
        case("histogram", lambda x: tuple(torch.histogram(x, 3)), [x], {"bins": 3}, grad=False)
    for shape, axis in (((0,), 0), ((2, 0), 1), ((0, 3), 1), ((1,), 0), ((), 0)):
        x = some(shape, "few")
        case("sort", lambda x: torch.sort(x, dim=axis, stable=True), [x], {"axis": axis, "descending": False}, indices=1)
        case("nonzero", torch.nonzero, [x], grad=False)
        case("unique", lambda x: torch.unique(x, return_inverse=True, return_counts=True), [x], grad=False, indices=1)
        case("median", lambda x: torch.median(x, axis), [x], {"axis": axis}, indices=1)
        case("masked_select", torch.masked_select, [x, x > 0])
        case("logcumsumexp", lambda x: x.logcumsumexp(axis), [x], {"axis": axis})
    for data in ([NAN, 1, 2, NAN], [INF, -INF, NAN, 0], [-0.0, 0.0, -0.0, 1], [INF, INF, -INF, -INF]):
        x = torch.tensor(data)
        case("median", lambda x: torch.median(x, 0), [x], {"axis": 0}, grad=False, indices=1)
        for share in (0.0, 0.5, 1.0):
            case("quantile", lambda x: torch.quantile(x, torch.tensor([share], dtype=x.dtype), 0), [x], {"q": [share], "axis": 0}, grad=False)
        case("unique", lambda x: torch.unique(x, return_inverse=True, return_counts=True), [x], grad=False, indices=1)
        case("logcumsumexp", lambda x: x.logcumsumexp(0), [x], {"axis": 0}, grad=False)
    # Where the search meets NaN, PyTorch's answer depends on the way that it takes: it stands behind all that is looked at here.
    line = torch.tensor([-INF, 0.0, INF, INF, INF, NAN])
    for right in (False, True):
        case("searchsorted", lambda a, b: torch.searchsorted(a, b, right=right), [line, torch.tensor([-1.0, 0, -INF, NAN])], {"right": right}, grad=False)
    case("histogram", lambda x: tuple(torch.histogram(x, 3)), [some((0,), "none")], {"bins": 3}, grad=False)
    case("histogram", lambda x: tuple(torch.histogram(x, 3)), [torch.full((4,), 2.0)], {"bins": 3}, grad=False)
    for weights in (torch.tensor([1, 2, 3]), torch.tensor([True, False, True]), some((3,), "w", dtype=torch.float64), some((3,), "w")):
        case("bincount", torch.bincount, [torch.tensor([1, 0, 1]), weights], grad=False)
    case("bincount", torch.bincount, [torch.zeros(0, dtype=torch.int64)], grad=False)


for family in (special, losses, algebra, selecting):
    family()
write("odd.json.gz", "PyTorch at odd operands; see make_odd_cases.py", cases)
