"""Programs that one process compiles and the next finds compiled (`test_warm_start`): prints for each what PyTorch's cache and our counters say, and the values that it gave.

Arguments are the same in each process. `together` as an argument of the process has one program get two views of one memory, where it gets two tensors otherwise; other arguments are
the programs to run, in place of all.
"""

import json
import sys

import torch
from torch import nn
from torch._dynamo.utils import counters as of_torch
from warpweft.torch import counters

F = nn.functional


def compiled(model, **options):
    return torch.compile(model, backend="warpweft", **options)


def conv(call):
    model = call(nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4)).eval())
    x = torch.randn(2, 3, 9, 9)
    with torch.no_grad():
        return [model(x), model(x + 1)]


def training(call):
    plain = nn.Sequential(nn.Linear(5, 7), nn.GELU(), nn.Linear(7, 3))
    model = call(plain)
    found = []
    for _ in range(2):
        loss = F.cross_entropy(model(torch.randn(4, 5)), torch.tensor([0, 2, 1, 1]))
        loss.backward()
        found.append(loss.detach())
    return [*found, *(parameter.grad for parameter in plain.parameters())]


def lengths(call):
    def function(x):
        return (x @ x.t()).softmax(-1)[1:] * x.shape[0], x.cumsum(0)

    model = call(function, dynamic=True)
    return [part for length in (4, 6, 15) for part in model(torch.randn(length, 3))]


def lengths_in_bounds(call):
    model = call(lambda x: x.relu().sum(0) * x.shape[0])
    found = []
    for length in (5, 7):
        x = torch.randn(length, 3)
        torch._dynamo.mark_dynamic(x, 0, min=2, max=12)
        found.append(model(x))
    return found


def trained_lengths(call):
    model = call(lambda x: (x.exp() / x.shape[0]).sum(0), dynamic=True)
    found = []
    for length in (4, 6):
        x = torch.randn(length, 3, requires_grad=True)
        model(x).square().sum().backward()
        found.append(x.grad)
    return found


def in_place(call):
    x = torch.randn(3, 4)
    model = call(lambda x: (x.add_(1), x * 2)[1])
    return [model(x), x, model(x), x]


def aliases(call):
    x = torch.randn(4, 3)
    first, second, third = call(lambda x: (x.view(-1), x[1:], x * 2))(x)
    first.add_(1)
    return [x, first, second, third]


def left_to_torch(call):
    x = torch.arange(144, dtype=torch.uint8).reshape(2, 1, 8, 9)
    return [call(lambda x: F.interpolate(x, (5, 7), mode="bilinear").float() * 2)(x)]


def dropout(call):
    model = call(lambda x: F.dropout(x, 0.5).tanh())
    found = []
    for _ in range(2):
        x = torch.ones(4, 5, requires_grad=True)
        y = model(x)
        y.sum().backward()
        found += [y.detach(), x.grad]
    return found


def constants(call):
    return [call(lambda x: x * torch.tensor([1.0, 2.0, 3.0]) + torch.arange(3))(torch.randn(2, 3))]


def updated(call):
    """A program that writes to one argument, of two that may share memory."""
    memory = torch.randn(12)
    x, y = (memory[:6], memory[3:9]) if "together" in sys.argv else (memory[:6], torch.randn(12)[3:9])
    return [call(lambda x, y: (x.mul_(2), y + 1)[1])(x, y), x, y]


def held(call):
    """A tensor that Dynamo's graph may hold, of values that no text tells."""
    held = torch.randn(3)
    return [call(lambda x: x + held)(torch.randn(2, 3))]


def checkpointed(call):
    from torch.utils.checkpoint import checkpoint

    x = torch.randn(4, 4, requires_grad=True)
    call(lambda x: checkpoint(lambda x: x.sin().exp(), x, use_reentrant=False))(x).sum().backward()
    return [x.grad]


def branches(call):
    model = call(lambda x: torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,)))
    return [model(torch.ones(3)), model(-torch.ones(3))]


def solved(call):
    """A program whose checks have effects, in an order that PyTorch keeps by tokens."""
    a, b = torch.randn(3, 3, requires_grad=True), torch.randn(3, 2)
    y = call(torch.linalg.solve)(a, b)
    y.sum().backward()
    return [y.detach(), a.grad]


PROGRAMS = [
    conv, training, lengths, lengths_in_bounds, trained_lengths, in_place, aliases, left_to_torch, dropout, constants, updated, held, checkpointed, branches,
    solved,
]  # fmt: skip


def run(program, call):
    torch.manual_seed(0)
    torch._dynamo.reset()
    return program(call)


def main():
    told, named = {}, set(sys.argv[1:]) - {"together"}
    for program in (program for program in PROGRAMS if not named or program.__name__ in named):
        expected = run(program, lambda model, **options: model)
        of_torch.clear()
        counters(reset=True)
        found = run(program, compiled)
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
        seen = {name.removeprefix("autograd_cache_"): count for name, count in of_torch["aot_autograd"].items() if "cache" in name}
        told[program.__name__] = {"cache": seen, "counters": counters(), "values": [value.detach().float().flatten().tolist() for value in found]}
    print(json.dumps(told))


if __name__ == "__main__":
    main()
