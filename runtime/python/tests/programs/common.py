"""What programs are: how they are entered, trained, run through a door, and compared.

A program gets a device and a function that compiles; it gives tensors, which agree on all sides. No op of it is left to PyTorch but those that draw random numbers, which are PyTorch's so
that they draw what eager PyTorch draws.
"""

from __future__ import annotations

from typing import Any, Callable

import torch
from torch import nn
from warpweft.torch import counters

Compile = Callable[[Any], Any]
Program = Callable[[Any, Compile], list[Any]]
PROGRAMS: dict[str, Program] = {}
DOORS: dict[str, tuple[str, bool]] = {"compile": ("cpu", True), "device": ("warpweft", False), "both": ("warpweft", True)}
# What draws is PyTorch's.
RANDOM = ("bernoulli", "rand", "normal", "uniform", "exponential", "multinomial", "native_dropout", "rrelu")


def program(run: Program) -> Program:
    """Enters a program under its name."""
    PROGRAMS[run.__name__] = run
    return run


def trained(model: nn.Module, device: Any, compiled: Compile, inputs: Any, steps: int = 2, make: Any = None, loss: Any = None) -> list[Any]:
    """Steps of training: losses, and parameters and buffers afterwards."""
    model = model.to(device)
    optimizer = (make or (lambda parameters: torch.optim.SGD(parameters, lr=0.05, momentum=0.9)))(model.parameters())
    call, found = compiled(model), []
    for step in range(steps):
        torch.manual_seed(step)
        optimizer.zero_grad()
        result = call(*(value.to(device) if isinstance(value, torch.Tensor) else value for value in inputs))
        value = (
            loss(result) if loss is not None else (result * torch.linspace(-1, 1, result.numel()).reshape(result.shape).to(device)).sum()
        )
        value.backward()
        optimizer.step()
        found += [result, value]
    with torch.no_grad():
        model.eval()
        found.append(compiled(model)(*(value.to(device) if isinstance(value, torch.Tensor) else value for value in inputs)))
    return [*found, *model.state_dict().values()]


def outcome(run: Program, door: str) -> tuple[list[torch.Tensor], dict[str, int]]:
    """What a program gives through a door, and the ops that were left to PyTorch and do not draw."""
    device, is_compiled = DOORS[door] if door != "eager" else ("cpu", False)
    torch._dynamo.reset()
    torch.manual_seed(0)
    counters(reset=True)
    compile: Compile = (lambda function: torch.compile(function, backend="warpweft")) if is_compiled else (lambda function: function)
    found = [tensor.detach().cpu() for tensor in run(device, compile)]
    left = {op: count for op, count in counters()["fallback_ops"].items() if not op.split(".")[1].startswith(RANDOM)}
    return found, left


def differences(expected: list[torch.Tensor], found: list[torch.Tensor], in_halves: bool = False) -> None:
    """Raises where results differ; a program that computes `in_halves` rounds where it is compiled at other steps."""
    assert len(expected) == len(found)
    for number, (one, other) in enumerate(zip(expected, found)):
        narrow = in_halves or one.dtype in (torch.bfloat16, torch.float16)
        tolerance = {"rtol": 2e-2, "atol": 1e-2} if narrow else {"rtol": 2e-3, "atol": 2e-4}
        torch.testing.assert_close(other, one, **tolerance, equal_nan=True, msg=lambda text: f"result {number}: {text}")
