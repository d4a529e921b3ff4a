"""PyTorch's own database of ops as the judge: each entry's samples through the backend, compared with eager PyTorch.

    python tests/opinfo.py [--samples N] [--resume] [--part K/N] [--backward] [--device] [NAME ...]

Samples go through `torch.compile` as a program's functions do: Dynamo, AOTAutograd, the backend. An entry *passes* when all samples agree, each is one graph, and
nothing in it was left to PyTorch; *falls back* when they agree and PyTorch ran an op of a graph or between graphs; is *refused* when Dynamo, AOTAutograd or eager
PyTorch cannot take it as a graph; and is *wrong* otherwise. The few that take no float32 are judged in the first type that they take. The results are kept in
`tests/opinfo.txt`, a line for each entry; entries that the file has are passed over with `--resume`, one that ended the process is refused then. With
`--device` ops run on the device, with the samples moved there, and the results are kept in `tests/opinfo_device.txt`. With `--backward` gradients are judged
too, and nothing is kept.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import warnings
from pathlib import Path
from typing import Any, Iterator, Optional

import torch
from torch._functorch.aot_autograd import aot_function
from torch.utils import _pytree as pytree
from warpweft.torch import compile_graph, counters
from warpweft.torch._decompositions import decompositions

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
SECONDS = 120


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


def spread(samples: list[Any], count: int) -> list[Any]:
    """So many samples, from the whole list."""
    if len(samples) <= count:
        return samples
    return [samples[place * (len(samples) - 1) // (count - 1)] for place in range(count)]


def gradients(results: list[torch.Tensor], leaves: list[torch.Tensor], device: str = "cpu") -> list[torch.Tensor]:
    """The results, and the gradients by the leaves that have one, of a sum of results with weights."""
    total = torch.zeros((), device=device)
    for result in results:
        if result.requires_grad:
            result = torch.view_as_real(result.resolve_conj()) if result.is_complex() else result
            total = total + (result * torch.linspace(0.5, 1.5, result.numel()).reshape(result.shape).to(device)).sum()
    wanted = [leaf for leaf in leaves if leaf.requires_grad]
    if not wanted or not total.requires_grad:
        return [result.detach() for result in results]
    found = torch.autograd.grad(total, wanted, allow_unused=True)
    return [result.detach() for result in results] + [
        torch.zeros((), device=device) if gradient is None else gradient for gradient in found
    ]


def exact(entry: Any, sample: Any, backward: bool = False) -> list[torch.Tensor]:
    """What eager PyTorch gives in float64."""
    leaves, tree = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))

    def wide(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        copy = leaf.detach().double() if leaf.dtype == torch.float32 else leaf.detach().clone()
        return copy.requires_grad_(backward and leaf.requires_grad)

    leaves = [wide(leaf) for leaf in leaves]
    x, args, kwargs = pytree.tree_unflatten(leaves, tree)
    torch.manual_seed(42)
    results = [leaf for leaf in pytree.tree_leaves(entry.op(x, *args, **kwargs)) if isinstance(leaf, torch.Tensor)]
    return gradients(results, [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]) if backward else results


def is_nearer(expected: list[torch.Tensor], found: Any, right: list[torch.Tensor]) -> bool:
    """Whether what the backend gives is no further from the results in float64 than what eager PyTorch gives."""

    def distance(one: torch.Tensor, other: torch.Tensor) -> float:
        return float(torch.nan_to_num((one.double() - other).abs()).max()) if other.numel() else 0.0

    if not all(other.is_floating_point() and one.isfinite().all() and other.isfinite().all() for one, other in zip(found, right)):
        return False
    return all(distance(two, three) <= distance(one, three) for one, two, three in zip(expected, found, right))


class Differs(Exception):
    """The second call gives something else than the first."""


def copied(tensor: torch.Tensor, backward: bool) -> torch.Tensor:
    """A tensor over a copy of the whole storage, with the same strides."""
    wanted, tensor = backward and tensor.requires_grad, tensor.detach()
    if tensor.layout != torch.strided or tensor.is_conj() or tensor.is_neg():
        return tensor.clone().requires_grad_(wanted)
    storage = tensor.untyped_storage().clone()
    copy = torch.empty(0, dtype=tensor.dtype).set_(storage, tensor.storage_offset(), tensor.shape, tensor.stride())
    return copy.requires_grad_(wanted)


def compiled(entry: Any, sample: Any, backward: bool = False) -> tuple[Any, Any]:
    """What eager PyTorch gives, and what `torch.compile` with the backend gives."""
    leaves, tree = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))

    def function(x: Any, args: Any, kwargs: Any) -> Any:
        return entry.op(x, *args, **kwargs)

    sides = []
    torch._dynamo.reset()
    call = torch.compile(function, backend="warpweft", dynamic=False)
    # The second call takes a shorter way than the first.
    for call in (function, call, call):
        given = [copied(leaf, backward) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        x, args, kwargs = pytree.tree_unflatten(given, tree)
        torch.manual_seed(42)
        found = pytree.tree_leaves(call(x, args, kwargs))
        results = [leaf for leaf in found if isinstance(leaf, torch.Tensor)]
        values = [leaf for leaf in found if not isinstance(leaf, torch.Tensor)]
        results = gradients(results, [leaf for leaf in given if isinstance(leaf, torch.Tensor)]) if backward else results
        sides.append([*results, *map(_number, values)])
    try:
        agree(entry, sides[1], sides[2])
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
        sides.append([*(result.cpu() for result in results), *(tensor.detach().cpu() for tensor in tensors), *map(_number, values)])
    return sides[0], sides[1]


def _number(value: Any) -> torch.Tensor:
    """A result that is no tensor, as one."""
    return torch.tensor(float(value)) if isinstance(value, (int, float)) else torch.zeros(())


def agree(entry: Any, expected: list[torch.Tensor], found: Any) -> None:
    """Raises where results differ."""
    assert len(expected) == len(found), "another number of results"
    for one, other in zip(expected, found):
        assert one.shape == other.shape and one.dtype == other.dtype, f"{one.dtype}{one.shape} and {other.dtype}{other.shape}"
        if entry.name not in UNINITIALIZED:
            # PyTorch's own tolerance between its CPU and its compiler.
            torch.testing.assert_close(other.detach(), one.detach(), rtol=1e-4, atol=2e-5, equal_nan=True, check_stride=False)


class Slow(Exception):
    """An entry that takes too long."""


def judged(entry: Any, count: int, backward: bool = False, way: Any = compiled, dtype: Any = None) -> tuple[str, str]:
    """What became of an entry, and why."""
    counters(reset=True)
    breaks = torch._dynamo.utils.counters["graph_break"]
    breaks.clear()
    seen = 0
    dtype = dtype or dtype_of(entry)
    if dtype is None:
        return "refused", "it takes no type that we have on the CPU"
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
            return "refused", _line(f"{type(error).__name__}: {error}")
        try:
            agree(entry, expected, found)
        except AssertionError as error:
            if not is_nearer(expected, found, exact(entry, sample, backward)):
                return "wrong", " ".join(str(error).split())[:240]
        if way is compiled and not statistics["unique_graphs"]:
            return "refused", _line("; ".join(breaks) or "there is no graph")
        seen += 1
    ops = counters()["fallback_ops"]
    if not seen:
        return "refused", "there are no samples"
    if breaks:
        return "falls back", _line("between graphs: " + "; ".join(breaks))
    return ("falls back", ", ".join(sorted(ops))) if ops else ("passes", "")


def _line(text: str) -> str:
    """The first line of a text, short enough for the table."""
    return text.split("\n")[0].replace("|", "/")[:160]


def results(chosen: list[Any], count: int, backward: bool, way: Any, now: Optional[Path] = None) -> Iterator[tuple[str, str, str]]:
    """What became of each; the file `now` has the name of the one that is judged, should it end the process."""

    def stop(*_: Any) -> None:
        raise Slow()

    signal.signal(signal.SIGALRM, stop)
    for entry in chosen:
        if now is not None:
            now.write_text(full_name(entry))
        signal.alarm(SECONDS)
        try:
            with torch.set_grad_enabled(backward):
                status, why = judged(entry, count, backward, way)
        except Slow:
            status, why = "refused", f"more than {SECONDS} seconds"
        finally:
            signal.alarm(0)
        yield full_name(entry), status, why
    if now is not None:
        now.unlink(missing_ok=True)


def known(path: Path) -> dict[str, str]:
    """The lines of a table by entry."""
    lines = path.read_text().splitlines() if path.exists() else []
    return {line.split(" | ")[0]: line for line in lines if " | " in line}


def status_of(line: str) -> str:
    """What a line of the table says became of its entry."""
    return line.split("|")[1].strip()


def main() -> int:
    """Judges entries and writes the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--samples", type=int, default=3)
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--part", default="0/1")
    parser.add_argument("--backward", action="store_true")
    parser.add_argument("--device", action="store_true")
    parser.add_argument("--table", type=Path)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    if given.table is None:
        given.table = Path(os.devnull) if given.backward else DEVICE_TABLE if given.device else TABLE
    part, parts = map(int, given.part.split("/"))
    done = known(given.table)
    chosen = [entry for entry in entries() if not given.names or entry.name in given.names or full_name(entry) in given.names]
    chosen = [entry for entry in chosen if entry.supports_autograd or not given.backward]
    chosen = [entry for entry in chosen[part::parts] if not (given.resume and full_name(entry) in done)]
    now = given.table.with_suffix(f".{part}.now") if given.resume else None
    ended = now.read_text() if now is not None and now.exists() else None
    chosen = [entry for entry in chosen if full_name(entry) != ended]
    with given.table.open("a") as table:
        if ended is not None and ended not in done:
            table.write(f"{ended} | refused | it ended the process\n")
        for name, status, why in results(chosen, given.samples, given.backward, on_device if given.device else compiled, now):
            line = f"{name} | {status} | {why}".rstrip(" |")
            done[name] = line
            print(line, flush=True)
            table.write(line + "\n")
            table.flush()
    if parts == 1 and not given.backward:
        given.table.write_text("".join(f"{line}\n" for _, line in sorted(known(given.table).items())))
    counts: dict[str, int] = {}
    for status in map(status_of, done.values()):
        counts[status] = counts.get(status, 0) + 1
    print(counts)
    return int(counts.get("wrong", 0) > 0)


if __name__ == "__main__":
    sys.exit(main())
