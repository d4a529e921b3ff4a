"""PyTorch's own database of ops as the judge: each entry's samples through the backend, compared with eager PyTorch.

    python tests/opinfo.py [--samples N] [--resume] [--part K/N] [--backward] [--device] [--dtype TYPE] [NAME ...]

Samples go through `torch.compile` as a program's functions do: Dynamo, AOTAutograd, the backend. An entry *passes* when all samples agree, each is one graph, and
nothing in it was left to PyTorch; *falls back* when they agree and PyTorch ran an op of a graph or between graphs; is *refused* when Dynamo, AOTAutograd or eager
PyTorch cannot take it as a graph; and is *wrong* otherwise. Tolerances are those of `judging.py`, or the database's own where it states wider ones. The few that take no float32 are judged in the first type that they take. The results are kept in
`tests/opinfo.txt`, a line for each entry; entries that the file has are passed over with `--resume`, one that ended the process is refused then. With
`--device` ops run on the device, with the samples moved there, and the results are kept in `tests/opinfo_device.txt`. With `--backward` gradients are judged
too, and nothing is kept; nor in another type of elements (`--dtype float16`), in which the entries that take it are judged.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Any

import torch
from judging import NARROW, Differs, Slow, agree, copied, gradients, is_nearer, known, line_of, number, parser, run, spread, status_of
from torch.utils import _pytree as pytree
from warpweft.torch import counters

__all__ = ["DEVICE_TABLE", "TABLE", "compiled", "entries", "full_name", "judged", "known", "on_device", "status_of"]

TABLE = Path(__file__).with_name("opinfo.txt")
DEVICE_TABLE = Path(__file__).with_name("opinfo_device.txt")
# Their results are on the device that they are told, which samples do not tell.
FROM_THE_HOST = set(
    "arange empty empty_permuted eye full linspace logspace ones randint randn scalar_tensor zeros".split()
    + [f"signal.windows.{name}" for name in "bartlett blackman cosine exponential gaussian general_cosine general_hamming".split()]
    + [f"signal.windows.{name}" for name in "hamming hann kaiser nuttall".split()]
)
# Their elements are what memory held before, so only shapes and types are compared.
UNINITIALIZED = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "empty_permuted"}

# Which of several equal elements they name is not said; with the position of the axis among their arguments.
TIES = {"argsort": 0, "sort": 0, "mode": 0, "kthvalue": 1, "topk": 1}

# Infinite at integers that are not above 0, near which eager PyTorch gives any large number.
POLES, FAR = {"polygamma", "special.polygamma"}, 1e12


def full_name(entry: Any) -> str:
    """The name of an entry, with its variant."""
    return f"{entry.name}.{entry.variant_test_name}" if entry.variant_test_name else str(entry.name)


def entries() -> list[Any]:
    """All entries, without the seeds that those of random ops set inside of themselves, which Dynamo cannot trace: each side is seeded before it."""
    from torch.testing._internal import common_methods_invocations as database

    database.wrapper_set_seed = lambda op, *args, **kwargs: op(*args, **kwargs)  # type: ignore[attr-defined]
    return sorted(database.op_db, key=full_name)


def dtype_of(entry: Any) -> Any:
    """The type that an entry is judged in: float32, or the first that it takes where it does not take that; none where it takes none that we have."""
    return next((dtype for dtype in (torch.float32, torch.int64, torch.bool, torch.complex64) if dtype in entry.dtypes), None)


def stated_tolerances(entry: Any) -> dict[Any, dict[str, float]]:
    """By type, the tolerance that the database itself states for an entry in all of PyTorch's common tests, on the CPU or on any device."""
    stated: dict[Any, dict[str, float]] = {}
    for decorator in entry.decorators:
        is_common = getattr(decorator, "cls_name", None) == "TestCommon" and decorator.test_name is None
        if is_common and decorator.device_type in (None, "cpu"):
            for override in decorator.decorators:
                found = getattr(override, "d", {})
                stated.update({dtype: {"atol": limit.atol, "rtol": limit.rtol} for dtype, limit in found.items() if hasattr(limit, "rtol")})
    return stated


def exact(entry: Any, sample: Any, backward: bool = False) -> list[torch.Tensor]:
    """What eager PyTorch gives in float64."""
    leaves, tree = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))

    def wide(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        copy = leaf.detach().double() if leaf.dtype in NARROW else leaf.detach().clone()
        return copy.requires_grad_(backward and leaf.requires_grad)

    leaves = [wide(leaf) for leaf in leaves]
    x, args, kwargs = pytree.tree_unflatten(leaves, tree)
    torch.manual_seed(42)
    results = [leaf for leaf in pytree.tree_leaves(entry.op(x, *args, **kwargs)) if isinstance(leaf, torch.Tensor)]
    return gradients(results, [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]) if backward else results


def compiled(entry: Any, sample: Any, backward: bool = False) -> tuple[Any, Any]:
    """What eager PyTorch gives, and what `torch.compile` with the backend gives."""
    leaves, tree = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))

    def function(x: Any, args: Any, kwargs: Any) -> Any:
        return entry.op(x, *args, **kwargs)

    sides = []
    torch._dynamo.reset()
    compiling = torch.compile(function, backend="warpweft", dynamic=False)
    # The second call takes a shorter way than the first.
    for call in (function, compiling, compiling):
        given = [copied(leaf, backward) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        x, args, kwargs = pytree.tree_unflatten(given, tree)
        torch.manual_seed(42)
        found = pytree.tree_leaves(call(x, args, kwargs))
        results = [leaf for leaf in found if isinstance(leaf, torch.Tensor)]
        values = [leaf for leaf in found if not isinstance(leaf, torch.Tensor)]
        results = gradients(results, [leaf for leaf in given if isinstance(leaf, torch.Tensor)]) if backward else results
        sides.append([*results, *map(number, values)])
    try:
        agree(sides[1], sides[2], entry.name not in UNINITIALIZED)
    except AssertionError as error:
        raise Differs(" ".join(str(error).split())[:200]) from error
    return sides[0], sides[2]


def on_device(entry: Any, sample: Any, backward: bool = False) -> tuple[Any, Any]:
    """What eager PyTorch gives on the CPU, and what it gives on the device."""
    leaves, tree = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
    sides = []
    for device in ("cpu", "warpweft"):

        def moved(leaf: Any, device: str = device) -> Any:
            if isinstance(leaf, torch.device) or isinstance(leaf, str) and leaf == "cpu":
                return torch.device(device)
            if not isinstance(leaf, torch.Tensor):
                return leaf
            copy = leaf.detach().clone() if device == "cpu" else leaf.detach().to(device)
            return copy.requires_grad_(backward and leaf.requires_grad)

        given = [moved(leaf) for leaf in leaves]
        x, args, kwargs = pytree.tree_unflatten(given, tree)
        torch.manual_seed(42)
        found, _ = pytree.tree_flatten(entry.op(x, *args, **kwargs))
        results = [leaf for leaf in found if isinstance(leaf, torch.Tensor)]
        values = [leaf for leaf in found if not isinstance(leaf, torch.Tensor)]
        tensors = [leaf for leaf in given if isinstance(leaf, torch.Tensor)]
        results = gradients(results, tensors, device) if backward else results
        wrong = [result for result in results if result.device.type != device and result.layout == torch.strided]
        assert not wrong or device == "cpu" or entry.name in FROM_THE_HOST, f"a result is on {wrong[0].device}"
        # What an op in place or with `out=` wrote to is a result, too.
        sides.append([*(result.cpu() for result in results), *(tensor.detach().cpu() for tensor in tensors), *map(number, values)])
    return sides[0], sides[1]


def settled(entry: Any, sample: Any, results: Any) -> Any:
    """Results with what is not said about them taken out: which of equal elements is named, and how large a number is at a pole."""
    if entry.name in POLES:
        return [torch.where(result.abs() > FAR, result.sign() * float("inf"), result) for result in results]
    position = TIES.get(entry.name)
    if position is None or sample.kwargs.get("stable"):
        return results
    axis = sample.kwargs.get("dim", sample.args[position] if len(sample.args) > position else -1)
    if not isinstance(axis, int):
        return results

    def elements(result: torch.Tensor) -> torch.Tensor:
        if result.dtype != torch.int64 or result.ndim not in (sample.input.ndim, sample.input.ndim - 1):
            return result
        whole = result if result.ndim == sample.input.ndim else result.unsqueeze(axis)
        return sample.input.detach().gather(axis, whole)

    # The last of them, where the op gives values, too.
    count = 1 if entry.name == "argsort" else 2
    found = [elements(result) if number == count - 1 else result for number, result in enumerate(results)]
    # What sorts names every index of its row once.
    return found + [results[count - 1].sort(axis).values] if entry.name in ("argsort", "sort") else found


def judged(entry: Any, count: int, backward: bool = False, way: Any = compiled, dtype: Any = None) -> tuple[str, str]:
    """What became of an entry, and why."""
    counters(reset=True)
    breaks = torch._dynamo.utils.counters["graph_break"]
    breaks.clear()
    seen = 0
    dtype = dtype or dtype_of(entry)
    if dtype is None:
        return "refused", "it takes no type that we have on the CPU"
    if backward and not (dtype.is_floating_point or dtype.is_complex):
        return "refused", f"{dtype} has no gradients"
    for sample in spread(list(entry.sample_inputs("cpu", dtype, requires_grad=backward)), count):
        statistics = torch._dynamo.utils.counters["stats"]
        statistics.clear()
        try:
            expected, found = way(entry, sample, backward)
        except Slow:
            raise
        except Differs as error:
            return "wrong", f"the second call: {error}"
        except Exception as error:
            return "refused", line_of(f"{type(error).__name__}: {error}")
        expected, found = settled(entry, sample, expected), settled(entry, sample, found)
        try:
            agree(expected, found, entry.name not in UNINITIALIZED, stated_tolerances(entry))
        except AssertionError as error:
            if not is_nearer(expected, found, exact(entry, sample, backward)):
                return "wrong", " ".join(str(error).split())[:240]
        if way is compiled and not statistics["unique_graphs"]:
            return "refused", line_of("; ".join(breaks) or "there is no graph")
        seen += 1
    ops = counters()["fallback_ops"]
    if not seen:
        return "refused", "there are no samples"
    if breaks:
        return "falls back", line_of("between graphs: " + "; ".join(breaks))
    return ("falls back", ", ".join(sorted(ops))) if ops else ("passes", "")


def main() -> int:
    """Judges entries and writes the table."""
    arguments = parser()
    arguments.add_argument("--backward", action="store_true")
    given = arguments.parse_args()
    dtype = given.dtype
    chosen = [entry for entry in entries() if entry.supports_autograd or not given.backward]
    chosen = [entry for entry in chosen if dtype is None or dtype in entry.dtypes]
    judge = partial(judged, count=given.samples, backward=given.backward, way=on_device if given.device else compiled, dtype=dtype)
    table = None if given.backward or dtype is not None else DEVICE_TABLE if given.device else TABLE
    with torch.set_grad_enabled(given.backward):
        return run(given, [(full_name(entry), entry) for entry in chosen], judge, table)


if __name__ == "__main__":
    sys.exit(main())
