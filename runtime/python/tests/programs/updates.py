"""Updates in place, views of views, and optimizers."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from programs.common import Compile, Program, program

F = torch.nn.functional


@program
def views_of_views(device: Any, compiled: Compile) -> list[Any]:
    def step(x: Any) -> Any:
        y = x.view(4, 6)[1:, ::2].t()
        y.mul_(2)
        y[0].add_(x[0])
        z = x.as_strided((3, 3), (7, 1), 2)
        z.diagonal().copy_(y.sum(1)[:3])
        return x.flip(0), y.unfold(1, 2, 1).sum(-1), z.clone()

    x = torch.arange(24.0).to(device)
    with torch.no_grad():
        return [*compiled(step)(x), x]


@program
def results_are_views_of_arguments(device: Any, compiled: Compile) -> list[Any]:
    x = torch.arange(12.0).to(device)
    one, two, three = compiled(lambda x: (x.view(3, 4).t(), x[2:8:2], x + 1))(x)
    one[0, 0] = 50
    two.add_(100)
    return [x, one, two, three]


@program
def arguments_change_in_place(device: Any, compiled: Compile) -> list[Any]:
    def step(x: Any, y: Any, flags: Any) -> Any:
        x.add_(y).clamp_(max=3)
        y[flags > 1] = 0
        flags.scatter_(0, torch.tensor([0, 2], device=flags.device), 7)
        x.transpose_(0, 1)
        return (x * 2).sum(0)

    x, y, flags = torch.randn(3, 2).to(device), torch.randn(3, 2).to(device), torch.tensor([0, 1, 2], device=device)
    with torch.no_grad():
        call = compiled(step)
        found = call(x, y, flags)
    return [found, x.contiguous(), y, flags]


@program
def arguments_that_overlap(device: Any, compiled: Compile) -> list[Any]:
    base = torch.arange(10.0).to(device)

    def step(a: Any, b: Any) -> Any:
        a.add_(1)
        return a * b

    with torch.no_grad():
        found = compiled(step)(base[:6], base[4:])
    return [found, base]


@program
def an_optimizer_by_hand(device: Any, compiled: Compile) -> list[Any]:
    def step(weights: Any, gradients: Any, means: Any, squares: Any, count: Any) -> None:
        count += 1
        for w, g, m, v in zip(weights, gradients, means, squares):
            m.lerp_(g, 0.1)
            v.mul_(0.99).addcmul_(g, g, value=0.01)
            w.addcdiv_(m / (1 - 0.9**count), (v / (1 - 0.99**count)).sqrt_().add_(1e-8), value=-0.01)

    weights = [torch.randn(3, 4).to(device), torch.randn(4).to(device)]
    means, squares = ([torch.zeros_like(w) for w in weights] for _ in range(2))
    count, call = torch.zeros((), device=device), compiled(step)
    with torch.no_grad():
        for _ in range(3):
            call(weights, [w.sin() for w in weights], means, squares, count)
    return [*weights, *means, *squares, count]


def _optimizer(name: str, **options: Any) -> Program:
    def run(device: Any, compiled: Compile) -> list[Any]:
        weights = [nn.Parameter(torch.randn(3, 4).to(device)), nn.Parameter(torch.randn(4).to(device))]
        optimizer = getattr(torch.optim, name)(weights, **options)
        call = compiled(optimizer.step)
        for _ in range(3):
            # A step may change gradients: PyTorch's over lists of tensors with Nesterov's momentum does, the one over single tensors does not.
            for weight in weights:
                weight.grad = weight.detach().sin()
            call()
        return [weight.detach() for weight in weights]

    run.__name__ = f"optimizer_{name}{'_' if options else ''}{'_'.join(options)}"
    return program(run)


for name, options in (
    ("SGD", {"momentum": 0.9, "nesterov": True, "lr": 0.1}), ("Adam", {}), ("AdamW", {"amsgrad": True}), ("RMSprop", {"centered": True}),
    ("Adagrad", {}), ("Adamax", {}), ("NAdam", {}), ("RAdam", {}), ("Adadelta", {}), ("ASGD", {}), ("Rprop", {}),
):  # fmt: skip
    _optimizer(name, **options)


@program
def clipped_gradients(device: Any, compiled: Compile) -> list[Any]:
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)).to(device)

    def step(x: Any) -> Any:
        return F.huber_loss(model(x), torch.zeros(5, 1, device=x.device))

    loss = compiled(step)(torch.randn(5, 4).to(device) * 10)
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
    return [loss, norm, *(parameter.grad for parameter in model.parameters())]
