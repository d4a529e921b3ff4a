"""PyTorch's own database of modules as the judge: each entry's inputs through both doors, in training and not, with gradients, compared with eager PyTorch.

    python tests/modules.py [--samples N] [--resume] [--part K/N] [--device] [--dtype TYPE] [NAME ...]

A module is made once, and copied for each side. What is compared: what it gives, the gradients by its inputs and parameters, and its buffers afterwards; twice, since a second call
takes a shorter way than the first. Statuses are those of `opinfo.py`; the results are kept in `tests/modules.txt` and `tests/modules_device.txt`.
"""

from __future__ import annotations

import copy
import sys
from functools import partial
from pathlib import Path
from typing import Any

import torch
from judging import NARROW, Slow, agree, gradients, is_nearer, line_of, parser, run, spread
from torch.utils import _pytree as pytree
from warpweft.torch import counters

TABLE = Path(__file__).with_name("modules.txt")
DEVICE_TABLE = Path(__file__).with_name("modules_device.txt")


def entries() -> list[Any]:
    """All entries by name."""
    from torch.testing._internal.common_modules import module_db

    return sorted(module_db, key=lambda entry: str(entry.name))


def dtype_of(entry: Any) -> Any:
    """The type that an entry is judged in: float32, or the first that it takes."""
    return torch.float32 if torch.float32 in entry.dtypes else next(iter(entry.dtypes))


def side(module: Any, call: Any, inputs: Any, device: str, calls: int = 2, wide: bool = False) -> list[torch.Tensor]:
    """What a module gives when it is called so often, with all gradients, and its buffers."""

    def moved(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        twin = leaf.detach().clone().to(device)
        twin = twin.double() if wide and twin.dtype in NARROW else twin
        return twin.requires_grad_(leaf.requires_grad)

    found: list[torch.Tensor] = []
    for _ in range(calls):
        args, kwargs = pytree.tree_map(moved, (inputs.args, inputs.kwargs))
        torch.manual_seed(42)
        results = [leaf for leaf in pytree.tree_leaves(call(*args, **kwargs)) if isinstance(leaf, torch.Tensor)]
        leaves = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        parts = gradients(results, [*leaves, *module.parameters()], device)
        wrong = [part for part in parts if part.device.type != device]
        assert not wrong, f"a result is on {wrong[0].device}"
        found.extend(part.detach().cpu() for part in [*parts, *leaves])
    return [*found, *(buffer.detach().cpu().clone() for buffer in module.buffers())]


def case_of(entry: Any, sample: Any, dtype: Any, training: bool) -> Any:
    """A module of a sample, ready to be copied."""
    torch.manual_seed(0)
    module = entry.module_cls(*sample.constructor_input.args, **sample.constructor_input.kwargs)
    if not entry.is_lazy:
        module = module.to(dtype)
    return module.train(training)


def judged_case(module: Any, inputs: Any, device: bool) -> tuple[str, str]:
    """What became of one call."""
    torch._dynamo.reset()
    statistics = torch._dynamo.utils.counters["stats"]
    statistics.clear()
    eager, own = copy.deepcopy(module), copy.deepcopy(module)
    try:
        expected = side(eager, eager, inputs, "cpu")
        if device:
            own = own.to("warpweft")
            found = side(own, own, inputs, "warpweft")
        else:
            found = side(own, torch.compile(own, backend="warpweft", dynamic=False), inputs, "cpu")
    except Slow:
        raise
    except Exception as error:
        return "refused", line_of(f"{type(error).__name__}: {error}")
    try:
        agree(expected, found)
    except AssertionError as error:
        twin = copy.deepcopy(module).double()
        if not is_nearer(expected, found, side(twin, twin, inputs, "cpu", wide=True)):
            return "wrong", " ".join(str(error).split())[:240]
    if not device and not statistics["unique_graphs"]:
        return "refused", line_of("; ".join(torch._dynamo.utils.counters["graph_break"]) or "there is no graph")
    return "passes", ""


def judged(entry: Any, count: int, device: bool = False, dtype: Any = None) -> tuple[str, str]:
    """What became of an entry, and why."""
    counters(reset=True)
    breaks = torch._dynamo.utils.counters["graph_break"]
    breaks.clear()
    dtype = dtype or dtype_of(entry)
    seen = 0
    for training in (True, False):
        torch.manual_seed(1)
        samples = entry.module_inputs_func(entry, device="cpu", dtype=dtype, requires_grad=True, training=training)
        for sample in spread([sample for sample in samples if sample.forward_input is not None], count):
            status, why = judged_case(case_of(entry, sample, dtype, training), sample.forward_input, device)
            if status != "passes":
                return status, f"{why} ({'training' if training else 'evaluation'}{', ' + sample.desc if sample.desc else ''})"
            seen += 1
    ops = counters()["fallback_ops"]
    if not seen:
        return "refused", "there are no samples"
    if breaks:
        return "falls back", line_of("between graphs: " + "; ".join(breaks))
    return ("falls back", ", ".join(sorted(ops))) if ops else ("passes", "")


def main() -> int:
    """Judges entries and writes the table."""
    given = parser().parse_args()
    # Dynamo does not look into recurrent networks unless it is told to.
    torch._dynamo.config.allow_rnn = True
    dtype = given.dtype
    chosen = [entry for entry in entries() if dtype is None or dtype in entry.dtypes]
    judge = partial(judged, count=given.samples, device=given.device, dtype=dtype)
    table = None if dtype is not None else DEVICE_TABLE if given.device else TABLE
    return run(given, [(str(entry.name), entry) for entry in chosen], judge, table)


if __name__ == "__main__":
    sys.exit(main())
