"""Writes edges.json.gz: what PyTorch gives at edges, in the format of ops.json.gz, with errors besides.

    python3 -m venv venv && venv/bin/pip install torch==2.15.0 numpy
    venv/bin/python tests/data/make_edge_cases.py

Edges: numbers that a type does not hold, types of sums, ranges and mixed operands, indices that name nothing, and gradients where a function
has no derivative (ties, zeros, infinities, NaN). A case whose call PyTorch refuses has `error`, its message, and `says`, part of ours. Comparisons
with integers that the type does not hold are taken from Python's integers: PyTorch wraps the integer there, and tells nobody.
The file holds nothing of the time or machine, so a second run gives the same bytes.
"""

import json
import math
import operator
import warnings

import torch
import torch.nn.functional as F

from case_file import tensor, write

warnings.simplefilter("ignore")
NAN, INF = math.nan, math.inf
FLOATS = {torch.float32: (1e-5, 1e-6), torch.float64: (1e-10, 1e-12), torch.float16: (4e-3, 1e-3), torch.bfloat16: (2e-2, 1e-2)}
INTS = [torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8]
cases = []


def case(op, function, inputs, attrs=None, grad=True, note="", says=None, indices=False, exact=None):
    """One call. `indices`: outputs after the first are indices, which this project keeps in int32."""
    number = sum(other["op"] == op for other in cases)
    entry = {"id": f"{op}/{number}" + (f"/{note}" if note else ""), "op": op, "attrs": attrs or {}, "inputs": [tensor(x) for x in inputs]}
    inputs = [x.clone().requires_grad_(grad and x.is_floating_point()) for x in inputs]
    cases.append(entry)
    try:
        outputs = exact if exact is not None else function(*inputs)
    except (RuntimeError, IndexError, ValueError) as error:
        assert says, (entry["id"], error)
        entry |= {"error": str(error).split("\n")[0], "says": says}
        return
    assert not says, f"{entry['id']} should be refused"
    outputs = list(outputs) if isinstance(outputs, (tuple, list)) else [outputs]
    kept = [o.to(torch.int32) if indices and k > 0 else o for k, o in enumerate(outputs)]
    rtol, atol = FLOATS.get(outputs[0].dtype, (0, 0))
    entry |= {"outputs": [tensor(o) for o in kept], "rtol": rtol, "atol": atol}
    wanted = [x for x in inputs if x.requires_grad]
    if not wanted or not outputs[0].requires_grad:
        return
    steps = torch.arange(outputs[0].numel(), dtype=torch.float64)
    cotangent = ((steps * 7 % 5 + 1) / 2).to(outputs[0].dtype).reshape(outputs[0].shape)
    found = torch.autograd.grad(outputs[0], wanted, cotangent, allow_unused=True)
    of = {id(x): torch.zeros_like(x) if g is None else g for x, g in zip(wanted, found)}
    entry |= {"cotangent": tensor(cotangent), "grads": [tensor(of[id(x)]) if id(x) in of else None for x in inputs]}


def f32(*values):
    return torch.tensor(list(values), dtype=torch.float32)


def numbers():
    """Numbers beside tensors of integers that do not hold them."""
    edge = {torch.int8: [-128, -5, 0, 5, 127], torch.uint8: [0, 5, 255], torch.int16: [-32768, 0, 32767], torch.int32: [-(2**31), 7, 2**31 - 1]}
    edge[torch.int64] = [-(2**63), 0, 2**63 - 1]
    for dtype, data in edge.items():
        x = torch.tensor(data, dtype=dtype)
        low, high = torch.iinfo(dtype).min, torch.iinfo(dtype).max
        for least, most in [(0, 1000), (-1000, 3), (-70000, 70000), (None, 2**40), (-(2**40), None), (1, 2**62), (5, 2)]:
            fits = (least is None or least <= high) and (most is None or most >= low)
            attrs = {k: v for k, v in {"min": least, "max": most}.items() if v is not None}
            case("clamp", lambda x: x.clamp(least, most), [x], attrs, says=None if fits else "beyond", note=str(dtype)[6:])
        for least, most in [(high + 1, None), (None, low - 1)]:
            if -(2**63) <= (least or 0) < 2**63 and -(2**63) <= (most or 0) < 2**63:
                attrs = {"min": least} if most is None else {"max": most}
                case("clamp", lambda x: x.clamp(least, most), [x], attrs, says="beyond")
        case("clamp", lambda x: x.clamp(-0.5, 3.5), [x.clamp(-100, 100).to(dtype)], {"min": -0.5, "max": 3.5})
        for value in (1000, -1000, 2**40, high, low):
            for name in ("eq", "ne", "lt", "le", "gt", "ge"):
                compared = torch.tensor([getattr(operator, name)(v, value) for v in data])
                case(f"{name}_scalar", None, [x], {"value": value}, exact=compared)
            for name, choose in (("maximum", max), ("minimum", min)):
                chosen = [choose(v, value) for v in data]
                if all(low <= v <= high for v in chosen):
                    case(f"{name}_scalar", None, [x], {"value": value}, exact=torch.tensor(chosen, dtype=dtype))
            case("add_scalar", lambda x: x + value, [x], {"value": value})
            case("mul_scalar", lambda x: x * value, [x], {"value": value})
            mask = x > 0
            fits = value <= high and value >= (-high if low == 0 else low)
            says = None if fits else "outside of what"
            case("masked_fill", lambda x, m: x.masked_fill(m, value), [x, mask], {"value": value}, says=says)
            case("full_like", lambda x: torch.full_like(x, value), [x], {"value": value}, says=says)
            case("where_scalar", lambda m, x: torch.where(m, x, value), [mask, x], {"value": value}, says=says)
            if (low < 0 or value >= 0) and abs(value) < 2**53:
                case("pad", lambda x: F.pad(x, (1, 2), value=value), [x], {"padding": [[1, 2]], "value": value}, says=says)
        for value in (1.5, 1e30):
            says = None if value < high else "outside of what"
            case("masked_fill", lambda x, m: x.masked_fill(m, value), [x, x > 0], {"value": value}, says=says)
            case("full_like", lambda x: torch.full_like(x, value), [x], {"value": value}, says=says)
    flags = torch.tensor([True, False])
    case("clamp", lambda x: x.clamp(0, 2**40), [flags], {"min": 0, "max": 2**40})
    case("add_scalar", lambda x: x + 2**40, [flags], {"value": 2**40})
    case("masked_fill", lambda x, m: x.masked_fill(m, 5), [flags, ~flags], {"value": 5})
    for start, stop, step in [(0, 1 << 33, 1 << 31), (-(1 << 33), 1, 1 << 31), (1 << 40, (1 << 40) + 3, 1), (5, -(1 << 32), -(1 << 31))]:
        case("arange", lambda: torch.arange(start, stop, step), [], {"start": start, "stop": stop, "step": step})
    case("arange", lambda: torch.arange(0, 2**31, 2**30, dtype=torch.int32), [], {"start": 0, "stop": 2**31, "step": 2**30})
    case("full", lambda: torch.full((2,), 2**40), [], {"shape": [2], "value": 2**40})
    case("full", lambda: torch.full((2,), 300, dtype=torch.int8), [], {"shape": [2], "value": 300, "dtype": "int8"}, says="outside of what")


def types():
    """Types of sums, and of operands that have none in common."""
    for dtype in [torch.bool, *INTS, torch.uint16, torch.uint32]:
        for data in ([[1, 0, 1, 1], [1, 1, 1, 1]], [[100, 100, 100, 3], [2, 90, 50, 7]]):
            x = torch.tensor(data).to(dtype)
            for axis, keep in [(None, False), (0, False), (1, True)]:
                attrs = {"axis": axis, "keepdim": keep}
                case("sum", lambda x: x.sum() if axis is None else x.sum(axis, keepdim=keep), [x], attrs, note=str(dtype)[6:])
                case("prod", lambda x: x.prod() if axis is None else x.prod(axis, keepdim=keep), [x], attrs, note=str(dtype)[6:])
            if dtype != torch.int32:
                case("cumsum", lambda x: x.cumsum(1), [x], {"axis": 1}, note=str(dtype)[6:])
                case("cumprod", lambda x: x.cumprod(1), [x], {"axis": 1}, note=str(dtype)[6:])
    case("sum", lambda x: x.sum(), [torch.full((5,), 2**31 - 1, dtype=torch.int32)], {"axis": None})
    wide = torch.tensor([1, 2**63 + 5], dtype=torch.uint64)
    for other in (torch.int64, torch.int32, torch.int8):
        y = torch.tensor([-1, 2], dtype=other)
        for op in ("add", "sub", "mul", "maximum", "lt"):
            case(op, getattr(torch, op), [wide, y], says="no integer type holds all of")
    case("where", torch.where, [torch.tensor([True, False]), wide, torch.tensor([-1, 2])], says="no integer type holds all of")
    for a in INTS:
        for b in INTS:
            case("add", torch.add, [torch.tensor([100, 27], dtype=a), torch.tensor([1, 100], dtype=b)])


def indices():
    """Indices that name nothing, and those that count from the end where they may."""
    x = torch.arange(6.0).reshape(2, 3)
    out = "out of range"
    for i in (-1, 3, -3, -4, 2**31, -(2**40)):
        ix, wide = torch.tensor([i]), torch.tensor([[0, i]])
        inside = 0 <= i < 3
        case("index", lambda x, i: x[:, i], [x, ix], {"axes": [1]}, says=None if -3 <= i < 3 else out)
        case("index", lambda x, i: x[torch.tensor([0, 1]), i[0]], [x, wide], {"axes": [1]}, says=out) if i < -3 or i > 2 else None
        case("gather", lambda x, i: x.gather(1, i), [x, wide], {"axis": 1}, says=None if inside else out)
        case("index_select", lambda x, i: x.index_select(1, i), [x, ix], {"axis": 1}, says=None if inside else out)
        case("embedding", lambda i, w: F.embedding(i, w), [torch.tensor([1, i]), x.t().contiguous()], says=None if inside else out)
        case("scatter", lambda x, i, s: x.scatter(1, i, s), [x, wide, torch.ones(1, 2)], {"axis": 1}, says=None if inside else out)
        for reduce in ("sum", "amax"):
            attrs = {"axis": 1, "reduce": reduce}
            case("scatter_reduce", lambda x, i, s: x.scatter_reduce(1, i, s, reduce), [x, wide, torch.ones(1, 2)], attrs, says=None if inside else out)
        case("one_hot", lambda i: F.one_hot(i, 3), [ix], {"num_classes": 3}, says=None if inside else out)
        target = torch.tensor([1, i])
        case("cross_entropy", F.cross_entropy, [x, target], says=None if inside else out)
        case("nll_loss", F.nll_loss, [x.log_softmax(1), target], says=None if inside else out)
        for reduction in ("mean", "sum", "none"):
            attrs = {"ignore_index": i, "reduction": reduction}
            case("cross_entropy", lambda x, t: F.cross_entropy(x, t, ignore_index=i, reduction=reduction), [x, target], attrs)


def extremes():
    """Who gets the gradient of an extreme: one by its place, or all alike."""
    tied = [[1.0, 2, 2, 1], [3, 3, 3, 3], [-1, -1, 0, 0], [-0.0, 0, -0.0, 0], [INF, INF, 1, 2], [-INF, -INF, -INF, 5], [5, 4, 4, 3]]
    with_nan = [[1.0, NAN, 2, NAN], [NAN, NAN, NAN, NAN], [INF, NAN, -INF, 0]]
    for dtype in FLOATS:
        x, y = torch.tensor(tied, dtype=dtype), torch.tensor(with_nan, dtype=dtype)
        for op in ("max", "min"):
            for data in (x, y):
                case(op, lambda x: getattr(x, op)(1)[0], [data], {"axis": 1}, note="ties")
                case(op, lambda x: getattr(x, op)(0, keepdim=True)[0], [data], {"axis": 0, "keepdim": True}, note="ties")
                case(op, lambda x: getattr(x, op)(), [data], {"axis": None}, note="ties")
                case(f"cum{op}", lambda x: getattr(torch, f"cum{op}")(x, 1)[0], [data], {"axis": 1}, note="ties")
                case(f"arg{op}", lambda x: getattr(torch, f"arg{op}")(x, 1).to(torch.int32), [data], {"axis": 1}, grad=False)
                case(f"arg{op}", lambda x: getattr(torch, f"arg{op}")(x).to(torch.int32), [data], {"axis": None}, grad=False)
            case(op, lambda x: getattr(torch, f"a{op}")(x, (0, 1)), [x], {"axis": [0, 1]}, note="ties")
            case(f"{op}imum", getattr(torch, f"{op}imum"), [x, x.flip(1)], note="ties")
        case("max", lambda x: x.max(1)[0], [torch.full((2, 300), 2.0, dtype=dtype)], {"axis": 1}, note="long")
        case("cummax", lambda x: torch.cummax(x, 0)[0], [(torch.arange(600) % 7 // 2).to(dtype)], {"axis": 0}, note="long")
        case("cummin", lambda x: torch.cummin(x, 0)[0], [(torch.arange(600) % 7 // 2).to(dtype)], {"axis": 0}, note="long")
        for descending in (False, True):
            for data in (x, y):
                attrs = {"axis": 1, "descending": descending}
                case("sort", lambda x: torch.sort(x, dim=1, descending=descending, stable=True), [data], attrs, indices=True, note="ties")
        image = (torch.arange(2 * 2 * 7 * 6) * 5 % 4 // 2).to(dtype).reshape(2, 2, 7, 6)
        flat = torch.zeros(1, 1, 5, 5, dtype=dtype)
        for data in (image, flat, flat - INF, -image):
            for kernel, stride, padding in [(2, 2, 0), (3, 2, 1), (3, 1, 1), (2, 1, 0)]:
                attrs = {"kernel": kernel, "stride": stride, "padding": padding}
                case("max_pool2d", lambda x: F.max_pool2d(x, kernel, stride, padding), [data], attrs, note="ties")
                pooled = F.max_pool2d(data, kernel, stride, padding, return_indices=True)[1].to(torch.int32)
                case("max_pool_indices", None, [data], attrs, exact=pooled)
        data, index, source = torch.zeros(2, 3, dtype=dtype), torch.tensor([[0, 0, 1, 0], [2, 2, 2, 2]]), torch.ones(2, 4, dtype=dtype)
        for reduce in ("amax", "amin"):
            for include in (True, False):
                attrs = {"axis": 1, "reduce": reduce, "include_self": include}
                # PyTorch counts a tie with what is not included too, so there is none where it is not.
                for values in (source, source * 0) if include else (source,):
                    function = lambda x, i, s: x.scatter_reduce(1, i, s, reduce, include_self=include)
                    case("scatter_reduce", function, [data, index, values], attrs, note="ties")
        case("gather", lambda x, i: x.gather(1, i), [x, torch.tensor([[0, 0, 3, 1, 2], [1, 1, 1, 1, 1]])], {"axis": 1})
        case("gather", lambda x, i: x.gather(0, i), [x, torch.tensor([[0, 0], [6, 1], [6, 6]])], {"axis": 0})
        pooled = torch.tensor([[0.0, 1, 0.5, -1, 2, NAN, 0]], dtype=dtype)
        for least, most in [(0, 1), (0, None), (None, 1), (2, 1), (0.5, 0.5)]:
            attrs = {k: v for k, v in {"min": least, "max": most}.items() if v is not None}
            case("clamp", lambda x: x.clamp(least, most), [pooled], attrs, note="bounds")
    for data in ([2.0, 1, 2, 3], [2.0, 1, 2, 1]):
        case("topk", lambda x: x.topk(1), [f32(*data)[:2]], {"k": 1, "axis": 0}, indices=True)


def flat_places():
    """Gradients where a function has no derivative, or an infinite one."""
    rows = torch.tensor([[0.0, 0, 0], [0, 3, 4], [-2, 2, 1], [5, 5, 5]])
    for dtype in (torch.float32, torch.float64):
        x = rows.to(dtype)
        for order in (1.0, 2.0, 0.5, 1.5, 3.0, -1.0, -2.0):
            case("norm", lambda x: torch.linalg.vector_norm(x, order, dim=1), [x], {"ord": order, "axis": 1})
            case("norm", lambda x: torch.linalg.vector_norm(x, order), [x * 0], {"ord": order, "axis": None})
        for order in (INF, -INF):
            case("norm", lambda x: torch.linalg.vector_norm(x, order, dim=1), [x], {"ord": "inf" if order > 0 else "-inf", "axis": 1})
        # Numbers whose mean PyTorch does not round.
        equal = torch.tensor([[0.5] * 7, [2] * 7, [1e8] * 7, [-3.25] * 7, [1, 2, 3, 4, 5, 6, 7]], dtype=dtype)
        for correction in (0, 1):
            attrs = {"axis": 1, "correction": correction}
            case("std", lambda x: x.std(1, correction=correction), [equal], attrs)
            case("var", lambda x: x.var(1, correction=correction), [equal], attrs)
            case("std", lambda x: x.std(correction=correction), [equal[0]], {"axis": None, "correction": correction})
        case("std", lambda x: x.std(1, correction=0), [equal[:, :1]], {"axis": 1, "correction": 0})
        points = ([0.0, 0, -0.0, -0.0, 1, 0, -2, 0], [0.0, -0.0, 0, -0.0, 0, 1, 0, -3])
        case("atan2", torch.atan2, [torch.tensor(p, dtype=dtype) for p in points])
        powers = ([0.0, 0, 0, 0, -1, -1, -2, 2, 1, 0], [0.0, 1, -1, 0.5, 0, 2, 1.5, 0, INF, 3])
        case("pow", torch.pow, [torch.tensor(p, dtype=dtype) for p in powers])
        edges = torch.tensor([0.0, -1, 2, INF, NAN], dtype=dtype)
        for exponent in (0, 0.0, 1, 2, 3, 0.5, -1, 1.5, 2.5, -0.5):
            case("pow_scalar", lambda x: x**exponent, [edges], {"value": exponent})
        roots = torch.tensor([0.0, 4], dtype=dtype)
        for op in ("sqrt", "rsqrt", "log", "log2", "log10", "reciprocal", "abs", "sign", "square", "exp", "expm1", "log1p", "erf", "tan", "softsign"):
            case(op, getattr(F if op == "softsign" else torch, op), [roots], note="zero")
        for op, at in {"log1p": [-1.0, 0], "asin": [1.0, -1, 0], "acos": [1.0, -1, 0], "acosh": [1.0, 2], "atanh": [1.0, -1, 0], "tanh": [INF, -INF],
                       "sigmoid": [INF, -INF], "exp": [-INF, INF], "expm1": [-INF, INF], "abs": [0.0, -0.0, NAN, -INF], "erf": [INF, -INF]}.items():
            case(op, getattr(torch, op), [torch.tensor(at, dtype=dtype)], note="edge")
        for op, at in {"relu": [0.0, 1, -1, NAN], "relu6": [0.0, 6, 3], "hardtanh": [-1.0, 1, 0], "leaky_relu": [0.0, -1], "elu": [0.0, -1], "celu": [0.0, -1],
                       "selu": [0.0, -1], "hardsigmoid": [-3.0, 3, 0], "hardswish": [-3.0, 3, 0], "softplus": [INF, -INF, 30], "logsigmoid": [INF, -INF, 0]}.items():
            # PyTorch divides by 6 in single precision.
            if dtype == torch.float32 or not op.startswith("hards"):
                case(op, getattr(F, op), [torch.tensor(at, dtype=dtype)], note="edge")
        for data in ([0.0, 2, 3], [0.0, 0, 3], [0.0, 0, 0], [1.0, 2, 0], [2.0, 3, 4]):
            v = torch.tensor(data, dtype=dtype)
            case("prod", lambda x: x.prod(), [v], {"axis": None}, note="zeros")
            case("prod", lambda x: x.prod(0), [v], {"axis": 0}, note="zeros")
            case("cumprod", lambda x: x.cumprod(0), [v], {"axis": 0}, note="zeros")
        for data in ([-INF, -INF], [-INF, 1], [INF, 1], [0, 0]):
            v = torch.tensor(data, dtype=dtype)
            case("logsumexp", lambda x: x.logsumexp(0), [v], {"axis": 0}, note="infinite")
            case("softmax", lambda x: x.softmax(0), [v], {"axis": 0}, note="infinite")
            case("log_softmax", lambda x: x.log_softmax(0), [v], {"axis": 0}, note="infinite")
        for op, pair in {"copysign": ([0.0, -0.0, 2, -2], [1.0, -1, -1, 1]), "fmod": ([1.0, 5], [2.0, 3]), "huber_loss": ([1.0, 2, 3], [1.0, 1, 1]),
                         "l1_loss": ([1.0, 2], [1.0, 5]), "mse_loss": ([1.0, 2], [1.0, 5]), "binary_cross_entropy": ([0.0, 1, 0, 1, 0.3], [0.0, 1, 1, 0, 0.6])}.items():
            function = getattr(F, op, None) or getattr(torch, op)
            inputs = [torch.tensor(p, dtype=dtype) for p in pair]
            case(op, function, inputs, grad=op != "binary_cross_entropy", note="edge")
            # In double precision PyTorch's smallest divisor is 1e-12 as single precision rounds it.
            if op == "binary_cross_entropy" and dtype == torch.float32:
                target = inputs[1]
                case(op, lambda x, t: function(x, target), inputs, note="probabilities")
                del cases[-1]["grads"][1:]
                cases[-1]["grads"].append(None)
        condition = torch.tensor([True, False, True])
        case("where", torch.where, [condition, torch.tensor([1.0, NAN, INF], dtype=dtype), torch.tensor([NAN, 2, NAN], dtype=dtype)], note="untaken")


def sizes():
    """Operands of very different sizes and of mixed types, which must not pass through a type that is too narrow."""
    for dtype, tiny in ((torch.float32, 1e-45), (torch.float64, 5e-324)):
        y, x = (torch.tensor(v, dtype=dtype) for v in ([0.0, 1, tiny, -tiny, 0, tiny, 2], [tiny, tiny, tiny, 1, -tiny, -1, tiny * 3]))
        case("atan2", torch.atan2, [y, x], grad=False, note="tiny")
    wide, whole = torch.tensor([0.0, -1e-40, 5], dtype=torch.float64), torch.tensor([2147483647, 2147483646, -16777217], dtype=torch.int32)
    case("logaddexp", lambda a, b: torch.logaddexp(a, b.double()), [wide, whole], grad=False, note="mixed")
    case("logaddexp", lambda a, b: torch.logaddexp(a.double(), b), [whole, wide], grad=False, note="mixed")


def attention():
    """Queries whose keys are all hidden."""
    torch.manual_seed(3)
    q, k, v = (torch.randn(1, 2, n, 8) for n in (4, 6, 6))
    hidden = torch.ones(4, 6, dtype=torch.bool)
    hidden[1] = False
    hidden[2, 3:] = False
    scores = torch.zeros(4, 6).masked_fill(~hidden, -INF)
    for mask in (hidden, scores, torch.zeros(4, 6, dtype=torch.bool)):
        case("scaled_dot_product_attention", lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, attn_mask=m), [q, k, v, mask.detach()], note="hidden")
        if len(cases[-1]["grads"]) == 4:
            cases[-1]["grads"][3] = None


for family in (numbers, types, indices, extremes, flat_places, sizes, attention):
    family()
write("edges.json.gz", "PyTorch at edges; see make_edge_cases.py", cases)
