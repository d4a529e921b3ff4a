"""Updates in place, views of views, and optimizers."""

from __future__ import annotations

from functools import partial
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


@program
def compiled_optimizers(device: Any, compiled: Compile) -> list[Any]:
    makers: list[Any] = [
        partial(torch.optim.AdamW, lr=0.01, foreach=True), partial(torch.optim.Adam, lr=0.01, amsgrad=True, foreach=True),
        partial(torch.optim.SGD, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.1, foreach=True),
        partial(torch.optim.RMSprop, lr=0.01, centered=True, momentum=0.5, foreach=True), partial(torch.optim.Adagrad, lr=0.1, foreach=True),
    ]  # fmt: skip
    found = []
    for make in makers:
        torch.manual_seed(2)
        model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh(), torch.nn.Linear(3, 2)).to(device)
        optimizer, x = make(model.parameters()), torch.linspace(-1, 1, 20).reshape(5, 4).to(device)
        step = compiled(optimizer.step)
        for _ in range(3):
            optimizer.zero_grad()
            model(x).square().sum().backward()
            step()
        found += list(model.state_dict().values())
    return found


@program
def lists(device: Any, compiled: Compile) -> list[Any]:
    def step(x: Any, y: Any, z: Any) -> Any:
        found = [torch._foreach_add(x, 2.0), torch._foreach_add(x, y, alpha=3), torch._foreach_mul(x, [2.0, 3.0]), torch._foreach_sub(x, y, alpha=0.5),
                 torch._foreach_div(x, z), torch._foreach_addcmul(x, y, z, 0.5), torch._foreach_addcdiv(x, y, z, [0.5, 2.0]),
                 torch._foreach_addcmul(x, y, z, torch.tensor([0.5, 2.0])), torch._foreach_lerp(x, y, 0.3), torch._foreach_lerp(x, y, z),
                 torch._foreach_pow(z, 2), torch._foreach_pow(2.0, x), torch._foreach_maximum(x, 0.1), torch._foreach_minimum(x, y),
                 torch._foreach_clamp_min(x, y), torch._foreach_norm(x), torch._foreach_norm(x, 1), torch._foreach_norm(x, float("inf")),
                 torch._foreach_sqrt(z), torch._foreach_neg(x), torch._foreach_reciprocal(z), torch._foreach_exp(x), torch._foreach_mul(x, z[0][0, 0])]  # fmt: skip
        torch._foreach_add_(y, x)
        torch._foreach_zero_(z)
        return [part for parts in found for part in parts]

    x, y, z = ([torch.randn(2, 3).to(device), torch.randn(4).to(device)] for _ in range(3))
    z = [part.abs() + 0.5 for part in z]
    return [*compiled(step)(x, y, z), *y, *z]
