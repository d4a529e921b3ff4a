"""Whatever is given to a method, it answers with a value or an exception: never a panic, never the end of the process."""

import random
import warnings

import numpy as np
import warpweft as ww

CALLS = 10_000
BIG = [2**31, -(2**31), 2**62, -(2**63), 2**63 - 1, 2**63, -(2**70), 1 << 40]


def odd(rng, depth=0):
    """Something that a caller might give, or would never."""
    kinds = [
        lambda: rng.randint(-4, 5),
        lambda: rng.choice(BIG),
        lambda: rng.choice([0.0, -0.0, 1.5, -2.5, float("nan"), float("inf"), -float("inf"), 1e308, 1e-320]),
        lambda: rng.choice([None, True, False, Ellipsis, "", "sum", "none", "ij,jk->ik", "->", "\0", "float32", "int8", "nonsense"]),
        lambda: slice(*(rng.choice([None, rng.randint(-4, 4), rng.choice(BIG)]) for _ in range(3))),
        lambda: tensor(rng),
        lambda: tensor(rng),
        lambda: rng.choice([object(), int, float, ww.float32, ww.int8, np.float16, b"bytes", {1: 2}, {1, 2}, 1j, print]),
        lambda: np.array(
            [rng.randint(-3, 3) for _ in range(rng.randint(0, 3))], dtype=rng.choice(["int64", "float32", "bool", "complex64"])
        ),
        lambda: ww.Var("n", 1, 4),
        lambda: ww.Var("n", 1, 4) * 2 - 1,
    ]
    if depth < 3:
        kinds += [lambda: [odd(rng, depth + 1) for _ in range(rng.randint(0, 4))]] * 2
        kinds += [lambda: tuple(odd(rng, depth + 1) for _ in range(rng.randint(0, 4)))] * 2
        kinds += [lambda: [rng.randint(-3, 4) for _ in range(rng.randint(0, 4))]] * 3
    return rng.choice(kinds)()


def tensor(rng):
    """A small tensor of any type, also of no elements, without axes, or with a symbolic length."""
    shape = [rng.choice([0, 1, 2, 3]) for _ in range(rng.randint(0, 4))]
    dtype = rng.choice([ww.float32, ww.float64, ww.float16, ww.bfloat16, ww.bool_, ww.int8, ww.int64, ww.uint8, ww.uint64])
    kind = rng.randint(0, 8)
    if kind == 0:
        return ww.arange(int(np.prod(shape))).reshape(shape).astype(dtype)
    if kind == 1:
        return ww.zeros(shape, dtype=dtype).realize().expand([2, *shape])
    if kind == 2 and shape:
        return ww.ones([ww.Var("n", 1, 4), *shape], dtype=dtype)
    return (ww.rand(shape) * 4 - 2).astype(dtype).realize()


def functions():
    """Every method of `Tensor`, and every function of the module."""
    hidden = {
        "__class__",
        "__getattribute__",
        "__setattr__",
        "__delattr__",
        "__init_subclass__",
        "__subclasshook__",
        "__reduce__",
        "__reduce_ex__",
    }
    methods = [getattr(ww.Tensor, name) for name in dir(ww.Tensor) if callable(getattr(ww.Tensor, name)) and name not in hidden]
    names = [name for name in ww.__all__ if name not in ("DType", "Dim")]
    return methods, [getattr(ww, name) for name in names if callable(getattr(ww, name))]


def test_odd_arguments_are_values_or_exceptions():
    rng = random.Random(20240607)
    methods, module = functions()
    answered = 0
    warnings.simplefilter("ignore")
    for number in range(CALLS):
        is_method = number % 4 != 0
        function = methods[number % len(methods)] if is_method else module[number // 4 % len(module)]
        arguments = [odd(rng) for _ in range(rng.choice([0, 1, 1, 1, 2, 2, 3, 4]))]
        if is_method:
            arguments.insert(0, tensor(rng))
        try:
            value = function(*arguments)
            # A quarter of the values are computed too.
            if isinstance(value, ww.Tensor) and number % 8 == 1 and value.size < 10_000:
                value.tobytes()
                repr(value)
            answered += 1
        except Exception as error:
            assert type(error).__name__ != "PanicException", f"{function} of {arguments}"
        except BaseException as error:
            raise AssertionError(f"{function} of {arguments!r}") from error
    assert answered > CALLS // 10


def test_depth_is_no_crash():
    inside = [ww.ones(2)]
    inside.append(inside)
    plain = [1]
    plain.append(plain)
    for nested in (inside, plain):
        for call in (lambda: ww.Tensor(nested), lambda: ww.ones(3)[nested], lambda: ww.cat(nested), lambda: ww.zeros(nested)):
            try:
                call()
            except Exception:
                continue
            raise AssertionError("a list that holds itself is no tensor")
    x = ww.ones(2).realize()
    for _ in range(20_000):
        x = x + 1
    assert x.tolist() == [20_001, 20_001]
    del x
