"""Random functions over views and writes: the same call in eager PyTorch and through `torch.compile`.

A function is text, made step by step while it runs in eager PyTorch, so a step that PyTorch refuses is left out. Its arguments may be views of one another, and its results views of arguments or
of other results. After a call, and after a second one, results and arguments have the values, shapes and types of eager PyTorch, the same tensors share memory, and arguments and what shares memory have its strides. Numbers are small
integers, so that values are equal and not only close.
"""

from __future__ import annotations

import linecache
import random
from typing import Any, Callable

import torch

STEPS = 10
TYPES = [torch.float32, torch.float32, torch.float32, torch.float64, torch.float16, torch.int64, torch.int32, torch.uint8]
LARGEST, MOST = 1000, 2000
ARGUMENTS = ["{x}", "{x}.detach()", "{x}[..., ::2]", "{x}.view(-1)", "{x}.unsqueeze(0)", "{x}.expand(2, *{x}.shape)", "{x}.mT"]
VIEWS = [
    "{x}[{start}:]",
    "{x}[..., ::2]",
    "{x}[..., {start}:{end}]",
    "{x}[{at}]",
    "{x}.view(-1)",
    "{x}.reshape(-1)",
    "{x}.mT",
    "{x}.transpose(0, -1)",
    "{x}.unsqueeze({axis})",
    "{x}.squeeze()",
    "{x}.expand(2, *{x}.shape)",
    "{x}.diagonal()",
    "{x}.unfold({axis}, 2, 1)",
    "{x}.narrow({axis}, {start}, 1)",
    "{x}.chunk(2, {axis})[-1]",
    "{x}.unbind({axis})[0]",
    "{x}.detach()",
    "{x}.as_strided(({end}, 2), (1, {at}), {start})",
]
WRITES = [
    "{x}.add_({number})",
    "{x}.mul_({y})",
    "{x}.copy_({y})",
    "{x}.zero_()",
    "{x}[{at}] = {number}",
    "{x}[..., {start}:{end}] += 1",
    "{x}[..., ::2] = {y}",
    "{x}[1:].copy_({x}[:-1].clone())",
    "{x}.masked_fill_({y} > {number}, {number})",
    "{x}.clamp_(1, 4)",
    "{x}.index_fill_({axis}, torch.tensor([{start}]), {number})",
    "torch.add({y}, {number}, out={x})",
    "{x}.t_()",
]
VALUES = [
    "{x} + {y}",
    "{x} * 2",
    "{x} - {number}",
    "{x}.sum({axis})",
    "{x}.amax({axis})",
    "{x}.clone()",
    "{x}.flip({axis})",
    "{x}.roll(1, {axis})",
    "torch.where({x} > {number}, {y}, {x})",
    "torch.cat([{x}, {x}], {axis})",
    "{x}.cumsum({axis})",
    "{x}.to(torch.int32)",
    "{x}.contiguous()",
    "{x}.clamp(-1, 300)",
]


class Program:
    """A function of tensors as text, and how its arguments are made."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.givens: list[str] = []
        self.steps: list[str] = []
        self.values: dict[str, Any] = {"torch": torch}
        for number in range(self.random.randint(1, 3)):
            self._give(f"a{number}")
        self.arguments = self._tensors()
        for number in range(STEPS):
            self._step(f"v{number}")
        made = [name for name in self._tensors() if name not in self.arguments]
        self.results = self.random.sample(made, min(len(made), 3)) or self.arguments[:1]
        if self.random.random() < 0.2:
            self.results.append(self.arguments[0])

    def _tensors(self) -> list[str]:
        return [name for name, value in self.values.items() if isinstance(value, torch.Tensor)]

    def _give(self, name: str) -> None:
        """An argument of its own, or one that shares memory with another."""
        shape = tuple(self.random.choice([1, 2, 3, 4, 5]) for _ in range(self.random.randint(1, 3)))
        fresh = f"{name} = torch.randint(0, 6, {shape}, generator=torch.Generator().manual_seed({self.random.randrange(1000)})).to({self.random.choice(TYPES)})"
        known = self._tensors()
        shared = f"{name} = " + self.random.choice(ARGUMENTS).format(x=self.random.choice(known)) if known else ""
        line = shared if shared and self.random.random() < 0.3 else fresh
        if not self._runs(line, self.givens):
            self._runs(fresh, self.givens)

    def _step(self, name: str) -> None:
        x, y = self.random.choice(self._tensors()), self.random.choice(self._tensors())
        start = self.random.randint(0, 2)
        words = {
            "x": x,
            "y": y,
            "axis": self.random.randint(-2, 1),
            "at": self.random.randint(-2, 2),
            "start": start,
            "end": start + self.random.randint(1, 3),
            "number": self.random.randint(-1, 4),
        }
        kind = self.random.choices([VIEWS, WRITES, VALUES], [4, 3, 3])[0]
        step = self.random.choice(kind).format(**words)
        self._runs(step if kind is WRITES else f"{name} = {step}", self.steps)

    def _runs(self, line: str, lines: list[str]) -> bool:
        """Runs a line in eager PyTorch, and keeps it if that takes it and numbers stay small."""
        kept = {name: self.values[name] for name in self._tensors()}
        copies = {name: (value, value.clone()) for name, value in kept.items()}
        try:
            exec(line, self.values)
        except (RuntimeError, IndexError, TypeError):
            self.values.update(kept)
            return False
        lines.append(line)
        if all(value.numel() <= MOST and bool((value.double().abs() <= LARGEST).all()) for value in map(self.values.__getitem__, self._tensors())):
            return True
        lines.pop()
        self.values = {name: value for name, value in self.values.items() if name in kept or not isinstance(value, torch.Tensor)}
        for value, copy in copies.values():
            if value.shape == copy.shape and not any(stride == 0 for stride in value.stride()):
                value.copy_(copy)
        return False

    def __str__(self) -> str:
        body = "".join(f"    {line}\n" for line in self.steps)
        return f"def function({', '.join(self.arguments)}):\n{body}    return ({', '.join(self.results)},)\n"

    def given(self) -> list[torch.Tensor]:
        """Fresh arguments."""
        values: dict[str, Any] = {"torch": torch}
        for line in self.givens:
            exec(line, values)
        return [values[name] for name in self.arguments]

    def function(self) -> Callable[..., Any]:
        """The function, with lines that Dynamo can read."""
        file, text = f"<program {id(self)}>", str(self)
        linecache.cache[file] = (len(text), None, text.splitlines(True), file)
        values: dict[str, Any] = {"torch": torch}
        exec(compile(text, file, "exec"), values)
        return values["function"]


def shared(tensors: list[torch.Tensor]) -> list[int]:
    """For each tensor the first one in the same memory."""
    storages = [tensor.untyped_storage().data_ptr() if tensor.numel() else -1 - number for number, tensor in enumerate(tensors)]
    return [storages.index(storage) for storage in storages]


def told(tensors: list[torch.Tensor], arguments: int) -> list[Any]:
    """Values, shapes, types and strides. A part of what was computed may have strides of its own where nobody shares its memory; of axes with one element alone, and of tensors without
    elements, strides mean nothing."""
    memory = shared(tensors)

    def strides(number: int, tensor: torch.Tensor) -> Any:
        is_told = number < arguments or memory.count(memory[number]) > 1
        return [stride if is_told and length > 1 and tensor.numel() else 0 for length, stride in zip(tensor.shape, tensor.stride())]

    return [(tensor.tolist(), tensor.shape, tensor.dtype, strides(number, tensor)) for number, tensor in enumerate(tensors)]


def differences(program: Program, backend: str, dynamic: Any) -> str:
    """What differs between eager PyTorch and a backend; nothing if nothing does, or if eager PyTorch refuses the program as a whole."""
    given = program.given()
    try:
        wanted = [*given, *program.function()(*given)]
    except (RuntimeError, IndexError, TypeError):
        return ""
    torch._dynamo.reset()
    compiled = torch.compile(program.function(), backend=backend, dynamic=dynamic)
    for call in ("first", "second"):
        given = program.given()
        found = [*given, *compiled(*given)]
        if told(found, len(given)) != told(wanted, len(given)):
            return f"the {call} call gives {told(found, len(given))} and not {told(wanted, len(given))}"
        if shared(found) != shared(wanted):
            return f"after the {call} call memory is shared as {shared(found)} and not as {shared(wanted)}"
    return ""


def check(seed: int) -> bool:
    """Whether PyTorch can trace a program; raises `AssertionError` with its text if it can, and the sides differ."""
    program, dynamic = Program(seed), [None, True, False][seed % 3]
    try:
        # What tracing itself refuses or changes says nothing about a backend.
        if differences(program, "aot_eager", dynamic):
            return False
    except Exception:
        return False
    why = differences(program, "warpweft", dynamic)
    assert not why, "\n".join([why, *program.givens, str(program)])
    return True
