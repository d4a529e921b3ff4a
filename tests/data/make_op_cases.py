"""Writes op_cases.json.gz: values and gradients of every op of the library, for every option that it takes, computed by PyTorch.

    python3 -m venv venv && venv/bin/pip install torch numpy
    venv/bin/python tests/data/make_op_cases.py

The format is that of ops.json (see README.md), under the key `cases`, beside `source`, which says what computed the values.

What always holds:
- Inputs are short decimals that differ from each other, from 0 and from the kinks of the functions that they go into. So no case lies on
  a tie or an edge, where conventions decide; those are cases of their own, elsewhere.
- Everything is computed in float64 from the inputs as their type holds them, and rounded once. A case's tolerance is therefore what the
  library may err, not what two libraries may differ.
- A case's numbers depend on its id alone: a new case changes no other.
"""

import gzip
import itertools
import json
import math
import random
from pathlib import Path

import torch
import torch.nn.functional as F

CASES = []
NAMES = {torch.float32: "float32", torch.float64: "float64", torch.float16: "float16", torch.bfloat16: "bfloat16",
         torch.int32: "int32", torch.int64: "int64", torch.bool: "bool"}
# What a result of one op may err: a few units of the last place of the type, for short sums of numbers near 1.
TOLERANCE = {torch.float32: (3e-6, 2e-6), torch.float64: (1e-11, 1e-12), torch.float16: (2e-3, 1e-3), torch.bfloat16: (1.6e-2, 1e-2)}


def numbers(shape, seed, low=-2.0, high=2.0, dtype=torch.float32):
    """Distinct short decimals in no order, between the ends; two seeds give no common number but by accident."""
    count, source = math.prod(shape), random.Random(seed)
    step = (high - low) / max(count, 1)
    phase = source.uniform(0.1, 0.9)
    values = [low + (k + phase) * step for k in range(count)]
    # Kinks stand at simple numbers.
    values = [v + 0.0113 if abs(v * 10 - round(v * 10)) < 0.02 else v for v in values]
    source.shuffle(values)
    return torch.tensor([round(v, 4) for v in values], dtype=dtype).reshape(shape)


def whole(shape, seed, low, high, dtype=torch.int64):
    """Whole numbers from low to high, the latter excluded."""
    source = random.Random(seed)
    return torch.tensor([source.randrange(low, high) for _ in range(math.prod(shape))], dtype=dtype).reshape(shape)


def element(value, dtype):
    if dtype == torch.bool or not dtype.is_floating_point:
        return value
    if math.isnan(value) or math.isinf(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    digits = 17 if dtype == torch.float64 else 9
    short = float(f"{value:.{digits}g}")
    return int(short) if short == int(short) and abs(short) < 2**53 else short


def written(tensor, dtype=None):
    dtype = dtype or tensor.dtype
    flat = tensor.detach().to(dtype).reshape(-1)
    return {"dtype": NAMES[dtype], "shape": list(tensor.shape), "data": [element(v, dtype) for v in flat.tolist()]}


def add(op, attrs, inputs, function, grads=True, tolerance=None, dtype=None, seed=None):
    """One case. An input is a tensor, or a shape, which is filled with numbers. `function` gets the inputs in float64."""
    number = sum(case["op"] == op for case in CASES)
    name = f"{op}/{number}"
    inputs = [x if isinstance(x, torch.Tensor) else numbers(x, f"{seed or name} {k}") for k, x in enumerate(inputs)]
    wide = [x.double().requires_grad_(grads) if x.is_floating_point() else x for x in inputs]
    outputs = function(*wide)
    outputs = list(outputs) if isinstance(outputs, (tuple, list)) else [outputs]
    floats = [x.dtype for x in inputs if x.is_floating_point()]
    # The widest input's type; what is computed of whole numbers alone is a float32.
    narrow = dtype or (max(floats, key=lambda t: t.itemsize) if floats else torch.float32)
    rounded = [o.to(narrow) if o.is_floating_point() else o.to(torch.int32) if o.dtype == torch.int64 and floats else o for o in outputs]
    rtol, atol = tolerance or TOLERANCE[narrow]
    case = {"id": name, "op": op, "attrs": attrs, "inputs": [written(x) for x in inputs],
            "outputs": [written(o) for o in rounded], "rtol": rtol, "atol": atol}
    if grads and outputs[0].requires_grad:
        cotangent = numbers(outputs[0].shape, name + " cotangent", dtype=narrow)
        targets = [x for x in wide if x.requires_grad]
        found = iter(torch.autograd.grad((outputs[0] * cotangent.double()).sum(), targets, allow_unused=True))
        by_input = [next(found) if x.requires_grad else None for x in wide]
        case["cotangent"] = written(cotangent)
        case["grads"] = [None if g is None else written(g, x.dtype) for g, x in zip(by_input, inputs)]
    CASES.append(case)


def ints(tensor):
    """Indices of the library are int32."""
    return tensor.to(torch.int32)


def elementwise():
    anywhere = ["exp", "exp2", "expm1", "sin", "cos", "atan", "sinh", "cosh", "tanh", "asinh", "erf", "sigmoid", "square", "abs",
                "neg", "relu", "sign", "trunc", "floor", "ceil", "round", "tan", "reciprocal"]
    named = {"log": (0.1, 5), "log2": (0.1, 5), "log10": (0.1, 5), "log1p": (-0.9, 3), "sqrt": (0.1, 5), "rsqrt": (0.1, 5),
             "asin": (-0.95, 0.95), "acos": (-0.95, 0.95), "atanh": (-0.95, 0.95), "acosh": (1.1, 5)}
    ranges = {name: (-2, 2) for name in anywhere} | named
    # PyTorch's gradient of hardsigmoid has 1 / 6 as a float32, whatever the type, so that one is spelled out.
    layers = {"relu6": (F.relu6, -3, 9), "silu": (F.silu, -4, 4), "mish": (F.mish, -4, 4), "softsign": (F.softsign, -4, 4),
              "hardswish": (F.hardswish, -5, 5), "hardsigmoid": (lambda x: torch.clamp((x + 3) / 6, 0, 1), -5, 5), "logsigmoid": (F.logsigmoid, -5, 5),
              "selu": (F.selu, -3, 3), "softplus": (F.softplus, -4, 4), "quick_gelu": (lambda x: x * torch.sigmoid(1.702 * x), -4, 4)}
    functions = {name: (getattr(torch, name), *ends) for name, ends in ranges.items()} | layers
    for name, (function, low, high) in functions.items():
        for dtype in (torch.float32, torch.float64):
            add(name, {}, [numbers((3, 5), name, low, high, dtype)], function)
    for name in ("exp", "sin", "sigmoid", "mish", "erf", "log1p"):
        for dtype in (torch.float16, torch.bfloat16):
            add(name, {}, [numbers((9,), name, -0.9, 3, dtype)], functions[name][0], grads=False)
    add("signbit", {}, [(3, 4)], torch.signbit, grads=False)
    for approximate in ("none", "tanh"):
        add("gelu", {"approximate": approximate}, [numbers((4, 4), "gelu", -4, 4)], lambda x: F.gelu(x, approximate=approximate))
    for slope in (0.01, 0.3):
        add("leaky_relu", {"negative_slope": slope}, [(3, 4)], lambda x: F.leaky_relu(x, slope))
    for alpha in (0.7, 1.0, 1.6):
        add("elu", {"alpha": alpha}, [(3, 4)], lambda x: F.elu(x, alpha))
        add("celu", {"alpha": alpha}, [(3, 4)], lambda x: F.celu(x, alpha))
    for low, high in ((-1.0, 1.0), (-0.3, 1.4)):
        add("hardtanh", {"min": low, "max": high}, [(3, 4)], lambda x: F.hardtanh(x, low, high))
    for low, high in ((-0.6, 1.1), (None, 0.4), (0.4, None)):
        add("clamp", {"min": low, "max": high}, [(3, 4)], lambda x: torch.clamp(x, low, high))
    two = {"add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "maximum": torch.maximum, "minimum": torch.minimum,
           "atan2": torch.atan2, "copysign": torch.copysign, "logaddexp": torch.logaddexp, "fmod": torch.fmod, "remainder": torch.remainder}
    for name, function in two.items():
        add(name, {}, [(3, 1, 4), (2, 1)], function)
        add(name, {}, [numbers((5,), name, dtype=torch.float64), numbers((5,), name + "b", dtype=torch.float64)], function)
    add("pow", {}, [numbers((3, 1), "base", 0.2, 3), numbers((4,), "exponent")], torch.pow)
    add("pow", {}, [numbers((6,), "base", 0.2, 3, torch.float64), numbers((6,), "exponent", dtype=torch.float64)], torch.pow)
    for name in ("eq", "ne", "lt", "le", "gt", "ge"):
        add(name, {}, [whole((4, 4), name, -2, 3, torch.int32), whole((4, 4), name + "b", -2, 3, torch.int32)], getattr(torch, name))
    for name in ("logical_and", "logical_or", "logical_xor"):
        add(name, {}, [whole((3, 4), name, 0, 2).bool(), whole((3, 4), name + "b", 0, 2).bool()], getattr(torch, name))
    for mode in ("floor", "trunc"):
        add("div", {"rounding_mode": mode}, [(3, 4), (4,)], lambda a, b: torch.div(a, b, rounding_mode=mode), grads=False)
        places = [whole((3, 4), "a", -20, 20, torch.int32), whole((3, 4), "b", 1, 6, torch.int32)]
        add("div", {"rounding_mode": mode}, places, lambda a, b: torch.div(a, b, rounding_mode=mode))
    add("where", {}, [whole((3, 4), "c", 0, 2).bool(), (3, 4), (4,)], torch.where)
    add("masked_fill", {"value": 1.5}, [(3, 4), whole((3, 1), "m", 0, 2).bool()], lambda x, m: x.masked_fill(m, 1.5))
    add("lerp", {}, [(3, 4), (4,), (3, 1)], torch.lerp)
    for equal_nan in (False, True):
        # The fifth and sixth tell the relative tolerance of one operand from that of the other.
        near = torch.tensor([1.0, 1.02, 1.2, 0.0, 10.355, -10.0, math.nan, math.inf, math.inf])
        base = torch.tensor([1.0, 1.0, 1.0, 0.04, 10.0, -10.355, math.nan, math.inf, -math.inf])
        add("isclose", {"rtol": 0.03, "atol": 0.05, "equal_nan": equal_nan}, [near, base],
            lambda a, b: torch.isclose(a, b, 0.03, 0.05, equal_nan), grads=False)
    for nan, high, low in ((0.0, None, None), (7.0, 5.0, -6.0)):
        add("nan_to_num", {"nan": nan, "posinf": high, "neginf": low}, [torch.tensor([1.5, math.nan, math.inf, -math.inf])],
            lambda x: torch.nan_to_num(x, nan, 3.4028234663852886e38 if high is None else high, -3.4028234663852886e38 if low is None else low))


def reductions():
    sets = [None, 0, -1, [0, 2], [1, 2]]
    for axis, keepdim in itertools.product(sets, (False, True)):
        dims = tuple(range(3)) if axis is None else axis
        attrs = {"axis": axis, "keepdim": keepdim}
        for name in ("sum", "mean", "logsumexp"):
            add(name, attrs, [(3, 4, 5)], lambda x: getattr(torch, name)(x, dims, keepdim))
        add("max", attrs, [(3, 4, 5)], lambda x: torch.amax(x, dims, keepdim))
        add("min", attrs, [(3, 4, 5)], lambda x: torch.amin(x, dims, keepdim))
        add("count_nonzero" if not keepdim else "any", {"axis": axis} if not keepdim else attrs, [whole((3, 4, 5), "z", 0, 2, torch.int32)],
            lambda x: torch.count_nonzero(x, dims) if not keepdim else torch.any(x.bool(), dims, keepdim))
        add("all", attrs, [whole((3, 2, 2), f"a{axis}", 0, 5, torch.int32).bool()], lambda x: torch.all(x, dims, keepdim))
        for correction in (0, 1, 2):
            for name in ("var", "std"):
                add(name, attrs | {"correction": correction}, [(3, 4, 5)], lambda x: getattr(torch, name)(x, dims, correction=correction, keepdim=keepdim))
    for order in (0.0, 0.5, 1.0, 2.0, 3.0, math.inf, -math.inf):
        for axis, keepdim in ((None, False), (1, True)):
            # JSON has no infinity.
            name = order if math.isfinite(order) else "inf" if order > 0 else "-inf"
            add("norm", {"ord": name, "axis": axis, "keepdim": keepdim}, [(3, 4)],
                lambda x: torch.linalg.vector_norm(x, order, axis, keepdim), grads=order != 0.0)
    for order, axis, eps in ((1.0, 0, 1e-12), (2.0, -1, 1e-12), (3.0, 1, 1e-12), (2.0, 1, 4.0)):
        add("normalize", {"p": order, "axis": axis, "eps": eps}, [(3, 4)], lambda x: F.normalize(x, order, axis, eps))
    for axis in (0, -1):
        for keepdim in (False, True):
            add("prod", {"axis": axis, "keepdim": keepdim}, [(3, 4)], lambda x: torch.prod(x, axis, keepdim))
            for name in ("argmax", "argmin"):
                add(name, {"axis": axis, "keepdim": keepdim}, [(3, 4, 5)], lambda x: ints(getattr(torch, name)(x, axis, keepdim)), grads=False)
    for name in ("argmax", "argmin"):
        add(name, {"axis": None}, [(3, 4, 5)], lambda x: ints(getattr(torch, name)(x)), grads=False)
    for axis in (0, 1, -1):
        for name in ("softmax", "log_softmax", "cumsum", "cumprod", "logcumsumexp"):
            add(name, {"axis": axis}, [(3, 4, 5)], lambda x: getattr(torch, name)(x, axis))
        for name in ("cummax", "cummin"):
            add(name, {"axis": axis}, [(3, 4, 5)], lambda x: getattr(torch, name)(x, axis).values)
        add("diff", {"axis": axis}, [(3, 4, 5)], lambda x: torch.diff(x, dim=axis))
        for descending in (False, True):
            attrs = {"axis": axis, "descending": descending}
            add("sort", attrs, [(3, 4, 5)], lambda x: torch.sort(x, axis, descending))
            add("argsort", attrs, [(3, 4, 5)], lambda x: ints(torch.argsort(x, axis, descending)), grads=False)
        for k, largest in itertools.product((1, 2), (False, True)):
            add("topk", {"k": k, "axis": axis, "largest": largest}, [(3, 4, 5)], lambda x: torch.topk(x, k, axis, largest))


def movement():
    add("reshape", {"shape": [4, -1]}, [(2, 3, 4)], lambda x: x.reshape(4, -1))
    add("permute", {"order": [1, 2, 0]}, [(2, 3, 4)], lambda x: x.permute(1, 2, 0))
    add("transpose", {"dim0": 0, "dim1": -1}, [(2, 3, 4)], lambda x: x.transpose(0, -1))
    add("t", {}, [(3, 4)], lambda x: x.t())
    add("contiguous", {}, [(3, 4)], lambda x: x.contiguous())
    add("detach", {}, [(3, 4)], lambda x: x.detach())
    for start, end in ((0, 2), (2, 0), (-1, 0)):
        add("movedim", {"from": start, "to": end}, [(2, 3, 4)], lambda x: torch.movedim(x, start, end))
    add("narrow", {"axis": 1, "start": 1, "length": 2}, [(3, 4)], lambda x: x.narrow(1, 1, 2))
    add("expand", {"shape": [4, 3, 2]}, [(3, 1)], lambda x: x.expand(4, 3, 2))
    add("flip", {"axis": [-1, 0]}, [(2, 3, 4)], lambda x: x.flip(-1, 0))
    for axis in (0, -1):
        add("unsqueeze", {"axis": axis}, [(3, 4)], lambda x: x.unsqueeze(axis))
    add("squeeze", {"axis": [0, 2]}, [(1, 3, 1, 1)], lambda x: x.squeeze((0, 2)))
    add("flatten", {"start": 1, "end": 2}, [(2, 3, 4, 2)], lambda x: x.flatten(1, 2))
    add("unflatten", {"axis": 0, "sizes": [2, 3]}, [(6, 2)], lambda x: x.unflatten(0, (2, 3)))
    for shifts, axis in (([1], [0]), ([-2, 1], [1, 2]), ([3], [])):
        add("roll", {"shifts": shifts, "axis": axis}, [(2, 3, 4)], lambda x: torch.roll(x, shifts, axis or None))
    for repeats in ([2, 3], [2, 1, 3]):
        add("repeat", {"repeats": repeats}, [(2, 3)], lambda x: x.repeat(repeats))
    for axis in (None, 0, -1):
        add("repeat_interleave", {"repeats": 2, "axis": axis}, [(2, 3)], lambda x: torch.repeat_interleave(x, 2, axis))
    for offset in (-1, 0, 2):
        add("diag", {"diagonal": offset}, [(3,)], lambda x: torch.diag(x, offset))
        add("diag", {"diagonal": offset}, [(3, 4)], lambda x: torch.diag(x, offset))
        add("diagonal", {"offset": offset, "dim0": 2, "dim1": 0}, [(4, 2, 3)], lambda x: torch.diagonal(x, offset, 2, 0))
        add("tril", {"diagonal": offset}, [(2, 3, 4)], lambda x: torch.tril(x, offset))
        add("triu", {"diagonal": offset}, [(2, 4, 3)], lambda x: torch.triu(x, offset))
    for size, step in ((3, 1), (2, 3)):
        add("unfold", {"axis": 1, "size": size, "step": step}, [(2, 7)], lambda x: x.unfold(1, size, step))
    add("as_strided", {"shape": [3, 2], "strides": [1, 3], "offset": 2}, [(2, 5)], lambda x: x.reshape(-1).as_strided((3, 2), (1, 3), 2))
    for slices in ([[1, None, 1], [None, None, 2]], [-1, [-3, None, 1]], [[None, -1, 1], 2]):
        index = tuple(slice(*s) if isinstance(s, list) else s for s in slices)
        add("slice", {"slices": slices}, [(3, 5)], lambda x: x[index])
    add("slice", {"slices": [[None, None, -2], [3, 0, -1]]}, [(3, 5)], lambda x: x.flip(0)[::2].index_select(1, torch.tensor([3, 2, 1])))
    images = {"constant": [[1, 2], [0, 3]], "reflect": [[1, 2], [3, 0]], "replicate": [[2, 1], [0, 3]], "circular": [[1, 3], [2, 0]]}
    for mode, ((top, bottom), (left, right)) in images.items():
        value = {"value": 0.7} if mode == "constant" else {}
        attrs = {"padding": [[0, 0], [0, 0], [top, bottom], [left, right]], "mode": mode} | value
        add("pad", attrs, [(2, 1, 4, 5)], lambda x: F.pad(x, (left, right, top, bottom), mode, **value))
    add("pad", {"padding": [[-1, 2], [1, -2]], "value": 0.0}, [(3, 4)], lambda x: F.pad(x, (1, -2, -1, 2)))
    add("cat", {"axis": -1}, [(2, 3), (2, 1), (2, 2)], lambda *x: torch.cat(x, -1))
    for axis in (0, -1):
        add("stack", {"axis": axis}, [(2, 3), (2, 3)], lambda *x: torch.stack(x, axis))
    add("split", {"sizes": [1, 4], "axis": -1}, [(2, 5)], lambda x: torch.split(x, [1, 4], -1))
    for chunks in (2, 3, 4):
        add("chunk", {"chunks": chunks, "axis": 1}, [(2, 7)], lambda x: torch.chunk(x, chunks, 1))
    add("unbind", {"axis": 1}, [(2, 3)], lambda x: torch.unbind(x, 1))
    for indexing in ("ij", "xy"):
        add("meshgrid", {"indexing": indexing}, [(2,), (3,), (4,)], lambda *x: torch.meshgrid(*x, indexing=indexing))
    for start, stop, steps in ((-1.5, 2.5, 5), (3.0, 1.0, 4), (2.0, 7.0, 1)):
        add("linspace", {"start": start, "stop": stop, "steps": steps, "dtype": "float32"}, [], lambda: torch.linspace(start, stop, steps, dtype=torch.float64))
    for n, m in ((3, 2), (2, 4)):
        add("eye", {"n": n, "m": m, "dtype": "float32"}, [], lambda: torch.eye(n, m, dtype=torch.float64))


def indexing():
    for axis in (0, -1):
        add("index_select", {"axis": axis}, [(3, 4), torch.tensor([2, 0, 2, 1])], lambda x, i: torch.index_select(x, axis, i))
        add("gather", {"axis": axis}, [(3, 4), whole((2, 3), "g", 0, 3)], lambda x, i: torch.gather(x, axis, i))
        add("scatter", {"axis": axis}, [(3, 4), torch.tensor([[2, 0, 1], [1, 2, 0]]), (2, 3)], lambda x, i, s: torch.scatter(x, axis, i, s))
    picks = {"[0]": ([0], 1), "[1]": ([1], 1), "[0, 2]": ([0, 2], 2), "[1, 2]": ([1, 2], 2)}
    for axes, count in picks.values():
        places = [whole((5,), f"i{axes}{k}", 0, 3) for k in range(count)]
        index = tuple(places[axes.index(k)] if k in axes else slice(None) for k in range(3))
        add("index", {"axes": axes}, [(3, 4, 3), *places], lambda x, *_: x[index])
    rows = torch.tensor([2, 0])
    add("index_assign", {"axes": [0]}, [(3, 4), (2, 4), rows], lambda x, v, i: x.index_put((i,), v))
    add("index_assign", {"axes": [1]}, [(3, 4), (3, 2), torch.tensor([3, 1])], lambda x, v, i: x.t().index_put((i,), v.t()).t())
    add("embedding", {}, [torch.tensor([[1, 0], [4, 1]]), (5, 3)], lambda i, w: F.embedding(i, w))
    add("one_hot", {"num_classes": 4}, [torch.tensor([[1, 0], [3, 1]])], lambda i: ints(F.one_hot(i, 4)))
    names = {"sum": "sum", "prod": "prod", "mean": "mean", "amax": "amax", "amin": "amin"}
    for (name, reduce), include_self, axis in itertools.product(names.items(), (True, False), (0, 1)):
        places = torch.tensor([[1, 0, 2, 1], [1, 2, 2, 1], [0, 1, 2, 1]]) if axis == 0 else torch.tensor([[0, 3, 3, 1], [2, 2, 2, 0], [1, 1, 0, 0]])
        # PyTorch has no gradient of a product that leaves out what was there.
        add("scatter_reduce", {"axis": axis, "reduce": name, "include_self": include_self}, [(3, 4), places, (3, 4)],
            lambda x, i, s: torch.scatter_reduce(x, axis, i, s, reduce, include_self=include_self), grads=name != "prod" or include_self)
    for op in ("setitem", "slice_assign"):
        for slices, shape in (([[0, 2, 1], 1], (2,)), ([[None, None, 2]], (2, 4)), ([1, [None, None, 3]], ()), ([[1, None, 1], [-2, None, 1]], (1, 2))):
            index = tuple(slice(*s) if isinstance(s, list) else s for s in slices)

            def assigned(x, v):
                x = x.clone()
                x[index] = v
                return x
            add(op, {"slices": slices}, [(3, 4), shape], assigned)
    for op, function in {"add_assign": torch.add, "sub_assign": torch.sub, "mul_assign": torch.mul, "div_assign": torch.div}.items():
        add(op, {}, [(3, 4), (4,)], function)


def products():
    for a, b in (((3,), (3,)), ((3,), (3, 4)), ((2, 3), (3,)), ((2, 3), (3, 4)), ((2, 1, 2, 3), (4, 3, 2)), ((5, 2, 3), (3, 2))):
        add("matmul", {}, [a, b], torch.matmul)
    add("matmul", {}, [numbers((3, 5), "ma", dtype=torch.float64), numbers((5, 2), "mb", dtype=torch.float64)], torch.matmul)
    add("dot", {}, [(5,), (5,)], torch.dot)
    add("outer", {}, [(3,), (4,)], torch.outer)
    add("linear", {}, [(2, 3), (4, 3)], F.linear)
    add("linear", {}, [(2, 2, 3), (4, 3), (4,)], F.linear)
    equations = {"ij,jk->ki": ((2, 3), (3, 4)), "bij,bkj->bik": ((2, 3, 4), (2, 2, 4)), "ijk->ki": ((2, 3, 4),), "i,i->": ((4,), (4,)),
                 "ij,kj,lj->ikl": ((2, 3), (3, 3), (2, 3)), "iij->j": ((3, 3, 2),), "...i,i->...": ((2, 3, 4), (4,))}
    for equation, shapes in equations.items():
        add("einsum", {"equation": equation}, list(shapes), lambda *x: torch.einsum(equation, *x))


def convolutions():
    forms = [((2, 4, 9), (6, 2, 3), {"stride": [2], "padding": [1], "dilation": [2], "groups": 2}),
             ((2, 3, 6, 7), (4, 3, 3, 2), {"stride": [2, 1], "padding": [1, 0], "dilation": [1, 2], "groups": 1}),
             ((1, 4, 5, 6), (4, 1, 2, 3), {"stride": [1, 2], "padding": [0, 2], "dilation": [2, 1], "groups": 4}),
             ((1, 2, 4, 3, 5), (2, 2, 2, 3, 2), {"stride": [1, 1, 2], "padding": [1, 1, 0], "dilation": [1, 1, 1], "groups": 1})]
    for bias, (x, weight, o) in itertools.product((False, True), forms):
        function = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}[len(x) - 2]
        add("conv", o, [x, weight] + [(weight[0],)] * bias,
            lambda x, w, b=None: function(x, w, b, o["stride"], o["padding"], o["dilation"], o["groups"]))
    forms = [((2, 4, 5), (4, 3, 3), {"stride": [2], "padding": [1], "dilation": [2], "groups": 2, "output_padding": [1]}),
             ((1, 2, 3, 4), (2, 3, 2, 3), {"stride": [2, 3], "padding": [1, 0], "dilation": [1, 2], "groups": 1, "output_padding": [1, 2]}),
             ((1, 2, 2, 3, 2), (2, 1, 2, 2, 3), {"stride": [1, 2, 1], "padding": [0, 1, 1], "dilation": [1, 1, 1], "groups": 1, "output_padding": [0, 0, 0]})]
    for bias, (x, weight, o) in itertools.product((False, True), forms):
        function = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}[len(x) - 2]
        add("conv_transpose", o, [x, weight] + [(weight[1] * o["groups"],)] * bias,
            lambda x, w, b=None: function(x, w, b, o["stride"], o["padding"], o["output_padding"], o["groups"], o["dilation"]))


    # As many elements more at the end as a stride has, or more, which dilation allows.
    for shape, weight, stride, padding, extra, dilation in (((2, 2, 4), (2, 3, 2), [1], [0], [1], [2]), ((1, 4, 5, 3), (4, 1, 3, 2), [2, 1], [1, 0], [2, 2], [3, 3]),
                                                            ((1, 1, 1, 2), (1, 2, 1, 2), [1, 2], [0, 1], [1, 1], [2, 1])):
        function = {1: F.conv_transpose1d, 2: F.conv_transpose2d}[len(stride)]
        o = {"stride": stride, "padding": padding, "output_padding": extra, "groups": 1, "dilation": dilation}
        add("conv_transpose", o, [shape, weight], lambda x, w: function(x, w, None, stride, padding, extra, 1, dilation))


def pools():
    forms = [((1, 2, 7, 6), [3, 2], [2, 1], [1, 0], [1, 1]), ((1, 2, 7, 8), [3, 3], [2, 3], [1, 1], [2, 1]),
             ((1, 1, 4, 5, 4), [2, 3, 2], [2, 2, 1], [0, 1, 1], [1, 1, 1]),
             # Rounded up, the last windows reach behind the padding.
             ((1, 2, 6, 9), [3, 2], [2, 2], [1, 0], [1, 1]), ((1, 1, 5, 6, 7), [2, 3, 3], [3, 2, 2], [1, 1, 1], [1, 1, 1])]
    for (shape, kernel, stride, padding, dilation), ceil_mode in itertools.product(forms, (False, True)):
        attrs = {"kernel": kernel, "stride": stride, "padding": padding, "ceil_mode": ceil_mode}
        rank = len(shape) - 2
        function = {2: F.max_pool2d, 3: F.max_pool3d}[rank]
        found = lambda x: function(x, kernel, stride, padding, dilation, ceil_mode, return_indices=True)
        add("max_pool", attrs | {"dilation": dilation}, [shape], lambda x: found(x)[0])
        add("max_pool_indices", attrs | {"dilation": dilation}, [shape], lambda x: ints(found(x)[1]), grads=False)
        mean = {2: F.avg_pool2d, 3: F.avg_pool3d}[rank]
        for count in (False, True):
            add("avg_pool", attrs | {"count_include_pad": count}, [shape], lambda x: mean(x, kernel, stride, padding, ceil_mode, count))
    # One number is of all spatial axes.
    for rank, shape in ((1, (2, 3, 9)), (2, (1, 2, 6, 7)), (3, (1, 2, 4, 5, 4))):
        attrs = {"kernel": [3], "stride": [2], "padding": [1], "ceil_mode": False}
        largest, mean = getattr(F, f"max_pool{rank}d"), getattr(F, f"avg_pool{rank}d")
        found = lambda x: largest(x, 3, 2, 1, return_indices=True)
        add("max_pool", attrs, [shape], lambda x: found(x)[0])
        add("max_pool_indices", attrs, [shape], lambda x: ints(found(x)[1]), grads=False)
        add("avg_pool", attrs, [shape], lambda x: mean(x, 3, 2, 1))
    sizes = [((2, 1, 5), "linear"), ((1, 2, 4, 5), "bilinear"), ((1, 1, 3, 4, 2), "trilinear")]
    for (shape, line), factor in itertools.product(sizes, ((3, 7, 2), (9, 4, 5))):
        size = list(factor[:len(shape) - 2])
        for mode in ("nearest", "nearest-exact"):
            add("interpolate", {"size": size, "mode": mode}, [shape], lambda x: F.interpolate(x, size, mode=mode))
        for align in (False, True):
            add("interpolate", {"size": size, "mode": line, "align_corners": align}, [shape], lambda x: F.interpolate(x, size, mode=line, align_corners=align), tolerance=(1e-5, 5e-6))


def norms():
    for lengths, eps in (([4], 1e-5), ([3, 4], 0.3)):
        for extra in (0, 1, 2):
            add("layer_norm", {"normalized_shape": lengths, "eps": eps}, [(2, 3, 4)] + [tuple(lengths)] * extra,
                lambda x, w=None, b=None: F.layer_norm(x, lengths, w, b, eps), tolerance=(1e-5, 1e-5))
        add("rms_norm", {"eps": eps}, [(2, 3, 4), tuple(lengths)], lambda x, w: F.rms_norm(x, lengths, w, eps), tolerance=(1e-5, 1e-5))
    add("rms_norm", {"eps": 1e-3}, [(2, 3, 4)], lambda x: F.rms_norm(x, [4], None, 1e-3), tolerance=(1e-5, 1e-5))
    for groups, extra in ((1, 0), (2, 1), (3, 2), (6, 2)):
        add("group_norm", {"num_groups": groups, "eps": 0.01}, [(2, 6, 3)] + [(6,)] * extra,
            lambda x, w=None, b=None: F.group_norm(x, groups, w, b, 0.01), tolerance=(1e-5, 1e-5))
    mean, variance = numbers((3,), "mean"), numbers((3,), "variance", 0.3, 2)
    add("batch_norm", {"training": False, "eps": 0.02}, [(2, 3, 4), (3,), (3,), mean, variance],
        lambda x, w, b, m, v: F.batch_norm(x, m.detach(), v.detach(), w, b, False, 0.1, 0.02), tolerance=(1e-5, 1e-5))
    for extra in (0, 1, 2):
        add("batch_norm_training", {"eps": 0.02}, [(4, 3, 2)] + [(3,)] * extra,
            lambda x, w=None, b=None: (F.batch_norm(x, None, None, w, b, True, 0.1, 0.02), x.mean((0, 2)), x.var((0, 2))), tolerance=(1e-5, 1e-5))


def attention():
    attend = F.scaled_dot_product_attention
    near = (1e-5, 5e-6)
    for queries, keys in ((4, 4), (3, 5), (5, 3)):
        for causal, scale in itertools.product((False, True), (None, 0.3)):
            add("scaled_dot_product_attention", {"is_causal": causal, "scale": scale}, [(2, queries, 4), (2, keys, 4), (2, keys, 3)],
                lambda q, k, v: attend(q, k, v, is_causal=causal, scale=scale), tolerance=near)
    for heads, shared in ((4, 2), (6, 2), (6, 3), (3, 1)):
        for causal in (False, True):
            add("scaled_dot_product_attention", {"is_causal": causal, "enable_gqa": True},
                [(1, heads, 3, 4), (1, shared, 3, 4), (1, shared, 3, 2)],
                lambda q, k, v: attend(q, k, v, is_causal=causal, enable_gqa=True), tolerance=near)
    seen = torch.tensor([[True, False, True], [True, True, False], [False, True, True], [True, False, False]])
    for mask in (seen, numbers((2, 4, 3), "mask")):
        # A mask is an option, which no gradient is asked of.
        add("scaled_dot_product_attention", {}, [(2, 4, 2), (2, 3, 2), (2, 3, 2), mask], lambda q, k, v, m: attend(q, k, v, m.detach()), tolerance=near)


def losses():
    classes, weight = torch.tensor([2, 0, 3, 2, 1]), numbers((4,), "weight", 0.3, 2)
    shares = torch.softmax(numbers((5, 4), "shares"), 1)
    grid = whole((2, 3), "grid", 0, 4)
    near = (1e-5, 3e-6)
    for reduction, smoothing in itertools.product(("none", "sum", "mean"), (0.0, 0.2)):
        attrs = {"reduction": reduction, "label_smoothing": smoothing}
        options = {"reduction": reduction, "label_smoothing": smoothing}
        add("cross_entropy", attrs, [(5, 4), classes], lambda x, t: F.cross_entropy(x, t, **options), tolerance=near)
        add("cross_entropy", attrs, [(5, 4), classes, weight], lambda x, t, w: F.cross_entropy(x, t, w.detach(), **options), tolerance=near)
        add("cross_entropy", attrs | {"ignore_index": 2}, [(5, 4), classes, weight], lambda x, t, w: F.cross_entropy(x, t, w.detach(), ignore_index=2, **options), tolerance=near)
        add("cross_entropy", attrs, [(5, 4), shares], lambda x, t: F.cross_entropy(x, t, **options), tolerance=near)
        add("cross_entropy", attrs, [(5, 4), shares, weight], lambda x, t, w: F.cross_entropy(x, t, w.detach(), **options), tolerance=near)
        add("cross_entropy", attrs, [(2, 4, 3), grid], lambda x, t: F.cross_entropy(x, t, **options), tolerance=near)
    for reduction in ("none", "sum", "mean"):
        attrs = {"reduction": reduction}
        add("nll_loss", attrs, [(5, 4), classes], lambda x, t: F.nll_loss(x, t, **attrs))
        add("nll_loss", attrs | {"ignore_index": 0}, [(5, 4), classes, weight], lambda x, t, w: F.nll_loss(x, t, w.detach(), ignore_index=0, **attrs))
        add("mse_loss", attrs, [(3, 4), (3, 4)], lambda a, b: F.mse_loss(a, b, **attrs))
        add("l1_loss", attrs, [(3, 4), (3, 4)], lambda a, b: F.l1_loss(a, b, **attrs))
        for delta in (0.4, 1.0, 2.5):
            add("huber_loss", attrs | {"delta": delta}, [(3, 4), (3, 4)], lambda a, b: F.huber_loss(a, b, delta=delta, **attrs))
        share = [numbers((3, 4), "p", 0.05, 0.95), numbers((3, 4), "q", 0.05, 0.95)]
        add("binary_cross_entropy", attrs, share, lambda a, b: F.binary_cross_entropy(a, b.detach(), **attrs), tolerance=near)
        add("binary_cross_entropy_with_logits", attrs, [(3, 4), share[1]], lambda a, b: F.binary_cross_entropy_with_logits(a, b, **attrs), tolerance=near)


def optimizers():
    """Several steps down given gradients: the inputs are the parameter and one gradient a step."""
    def steps(make):
        def run(x, *gradients):
            parameter = torch.nn.Parameter(x.detach().clone())
            optimizer = make([parameter])
            for gradient in gradients:
                parameter.grad = gradient.detach().clone()
                optimizer.step()
            return parameter.detach()
        return run
    shapes = [(2, 3)] * 4
    for momentum, decay in itertools.product((0.0, 0.9), (0.0, 0.1)):
        add("sgd", {"lr": 0.1, "momentum": momentum, "weight_decay": decay}, shapes,
            steps(lambda p: torch.optim.SGD(p, 0.1, momentum, weight_decay=decay)), grads=False)
    for dampening, nesterov, decay in ((0.3, False, 0.1), (1.0, False, 0.0), (0.0, True, 0.1)):
        add("sgd", {"lr": 0.1, "momentum": 0.9, "dampening": dampening, "nesterov": nesterov, "weight_decay": decay}, shapes,
            steps(lambda p: torch.optim.SGD(p, 0.1, 0.9, dampening, decay, nesterov)), grads=False)
    for betas, eps, decay in (((0.9, 0.999), 1e-8, 0.0), ((0.8, 0.95), 0.01, 0.1)):
        add("adamw", {"lr": 0.05, "beta1": betas[0], "beta2": betas[1], "eps": eps, "weight_decay": decay}, shapes,
            steps(lambda p: torch.optim.AdamW(p, 0.05, betas, eps, decay)), grads=False)


def main():
    for family in (elementwise, reductions, movement, indexing, products, convolutions, pools, norms, attention, losses, optimizers):
        family()
    source = f"PyTorch {torch.__version__} on the CPU in float64, by tests/data/make_op_cases.py"
    text = json.dumps({"source": source, "cases": CASES}, separators=(",", ":"))
    # Without a time stamp, so that the same values make the same file.
    Path(__file__).with_name("op_cases.json.gz").write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    print(f"{len(CASES)} cases, {sum('grads' in case for case in CASES)} with gradients")


if __name__ == "__main__":
    main()
