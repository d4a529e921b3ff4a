"""What the judges of ops (`opinfo.py`) and of modules (`modules.py`) share: which samples are taken, how results are compared, and the tables that keep what was found.

A table has a line for each entry: its name, what became of it (`passes`, `falls back`, `refused`, `wrong`), and why. A judge gives the last two; what it takes too long for is
refused, and so is, with `--resume`, what ended the process.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import warnings
from functools import partial
from pathlib import Path
from typing import Any, Callable, Iterator, Optional

import torch

SECONDS = 120
# By type of elements: the tolerance of PyTorch's own comparisons between its CPU and its compiler, of 8 and 4 steps between numbers where they are halves.
TOLERANCES = {
    torch.float16: {"rtol": 4e-3, "atol": 1e-3},
    torch.bfloat16: {"rtol": 3e-2, "atol": 8e-3},
    torch.float64: {"rtol": 1e-7, "atol": 1e-7},
    torch.complex128: {"rtol": 1e-7, "atol": 1e-7},
}
TOLERANCE = {"rtol": 1e-4, "atol": 2e-5}
NARROW = (torch.float16, torch.bfloat16, torch.float32)


class Slow(Exception):
    """An entry that takes too long."""


class Differs(Exception):
    """The second call gives something else than the first."""


def spread(samples: list[Any], count: int) -> list[Any]:
    """So many samples, from the whole list."""
    if len(samples) <= count:
        return samples
    return [samples[index * (len(samples) - 1) // max(count - 1, 1)] for index in range(count)]


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


def copied(tensor: torch.Tensor, backward: bool) -> torch.Tensor:
    """A tensor over a copy of the whole storage, with the same strides."""
    wanted, tensor = backward and tensor.requires_grad, tensor.detach()
    if tensor.layout != torch.strided or tensor.is_conj() or tensor.is_neg():
        return tensor.clone().requires_grad_(wanted)
    storage = tensor.untyped_storage().clone()
    copy = torch.empty(0, dtype=tensor.dtype).set_(storage, tensor.storage_offset(), tensor.shape, tensor.stride())
    return copy.requires_grad_(wanted)


def agree(expected: list[torch.Tensor], found: list[torch.Tensor], values: bool = True, wider: Optional[dict[Any, Any]] = None) -> None:
    """Raises where results differ; in `values` only if these are told. `wider` has tolerances by type that stand in place of the usual ones where they are larger."""
    assert len(expected) == len(found), "another number of results"
    for one, other in zip(expected, found):
        assert one.shape == other.shape and one.dtype == other.dtype, f"{one.dtype}{one.shape} and {other.dtype}{other.shape}"
        if values:
            tolerance = TOLERANCES.get(one.dtype, TOLERANCE)
            own = (wider or {}).get(one.dtype, {})
            tolerance = {name: max(limit, own.get(name, 0.0)) for name, limit in tolerance.items()}
            torch.testing.assert_close(other.detach(), one.detach(), **tolerance, equal_nan=True, check_stride=False)


def is_nearer(expected: list[torch.Tensor], found: list[torch.Tensor], right: list[torch.Tensor]) -> bool:
    """Whether what is found is no further from the results in float64 than what eager PyTorch gives; or than four steps between halves, where each op on the way rounds."""

    def differs(one: torch.Tensor, two: torch.Tensor, three: torch.Tensor) -> bool:
        if one.dtype.is_complex and two.dtype.is_complex and three.dtype.is_complex:
            # Of halves PyTorch compares no complex ones.
            one, two, three = (torch.view_as_real(x.resolve_conj()) for x in (one, two, three))
        if not one.dtype.is_floating_point or not three.dtype.is_floating_point or one.shape != three.shape or one.shape != two.shape:
            return not torch.equal(one, two)
        tolerance = TOLERANCES.get(one.dtype, TOLERANCE)
        eager, ours = one.double(), two.double()
        same = (ours == eager) | (ours == three) | (ours.isnan() & (eager.isnan() | three.isnan()))
        # Of what is not finite here or in float64, the same is wanted; where eager PyTorch alone is not, its error says nothing.
        judged = ~same & ours.isfinite() & three.isfinite()
        if not bool((same | judged).all()):
            return True
        alone = judged & ~eager.isfinite()
        if not torch.allclose(ours[alone], three[alone], **tolerance):
            return True
        both = judged & eager.isfinite()
        if not bool(both.any()):
            return False
        finite = three.isfinite()
        step = 4 * torch.finfo(one.dtype).eps * float(three[finite].abs().max()) if one.dtype in (torch.float16, torch.bfloat16) else 0.0
        error = (eager - three).abs()[finite & eager.isfinite()].max()
        return float((ours - three).abs()[both].max()) > max(float(error), step)

    return not any(differs(one, two, three) for one, two, three in zip(expected, found, right))


def number(value: Any) -> torch.Tensor:
    """A result that is no tensor, as one."""
    return torch.tensor(float(value)) if isinstance(value, (int, float)) else torch.zeros(())


def line_of(text: str) -> str:
    """The first line of a text, short enough for the table."""
    return text.split("\n")[0].replace("|", "/")[:160]


def known(path: Path) -> dict[str, str]:
    """The lines of a table by entry."""
    lines = path.read_text().splitlines() if path.exists() else []
    return {line.split(" | ")[0]: line for line in lines if " | " in line}


def status_of(line: str) -> str:
    """What a line of the table says became of its entry."""
    return line.split("|")[1].strip()


Judge = Callable[[Any], tuple[str, str]]


def results(chosen: list[tuple[str, Any]], judge: Judge, now: Optional[Path] = None) -> Iterator[tuple[str, str, str]]:
    """What became of each; the file `now` has the name of the one that is judged, should it end the process."""

    def stop(*_: Any) -> None:
        raise Slow()

    signal.signal(signal.SIGALRM, stop)
    for name, entry in chosen:
        if now is not None:
            now.write_text(name)
        signal.alarm(SECONDS)
        try:
            status, why = judge(entry)
        except Slow:
            status, why = "refused", f"more than {SECONDS} seconds"
        finally:
            signal.alarm(0)
        yield name, status, why
    if now is not None:
        now.unlink(missing_ok=True)


def parser() -> argparse.ArgumentParser:
    """The arguments that all judges take."""
    found = argparse.ArgumentParser()
    found.add_argument("names", nargs="*")
    found.add_argument("--samples", type=int, default=3)
    found.add_argument("--resume", action="store_true")
    found.add_argument("--part", default="0/1")
    found.add_argument("--device", action="store_true")
    found.add_argument("--dtype", type=partial(getattr, torch))
    found.add_argument("--table", type=Path)
    return found


def run(given: argparse.Namespace, named: list[tuple[str, Any]], judge: Judge, table: Optional[Path]) -> int:
    """Judges entries and writes the table, or none; 1 if one is wrong."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    path = given.table or table or Path(os.devnull)
    part, parts = map(int, given.part.split("/"))
    if not 0 <= part < parts:
        raise SystemExit(f"--part {given.part}: parts of {parts} are 0/{parts} to {parts - 1}/{parts}")
    done = known(path)
    chosen = [(name, entry) for name, entry in named if not given.names or any(f"{name}.".startswith(f"{start}.") for start in given.names)]
    chosen = [(name, entry) for name, entry in chosen[part::parts] if not (given.resume and name in done)]
    now = path.with_suffix(f".{part}.now") if given.resume else None
    ended = now.read_text() if now is not None and now.exists() else None
    chosen = [(name, entry) for name, entry in chosen if name != ended]
    with path.open("a") as lines:
        if ended is not None and ended not in done:
            lines.write(f"{ended} | refused | it ended the process\n")
        for name, status, why in results(chosen, judge, now):
            line = f"{name} | {status} | {why}".rstrip(" |")
            done[name] = line
            print(line, flush=True)
            lines.write(line + "\n")
            lines.flush()
    if parts == 1 and str(path) != os.devnull:
        path.write_text("".join(f"{line}\n" for _, line in sorted(known(path).items())))
    counts: dict[str, int] = {}
    for status in map(status_of, done.values()):
        counts[status] = counts.get(status, 0) + 1
    print(counts, file=sys.stderr)
    return int(counts.get("wrong", 0) > 0)
