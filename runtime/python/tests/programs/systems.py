"""Programs around networks: detection, search, filters, integrators, diffusion, adversaries, modules that came from elsewhere."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from programs.common import Compile, program, trained
from torch import nn


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    """Normal numbers of a seed."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@program
def detection(device: Any, compiled: Compile) -> list[Any]:
    def overlaps(boxes: Any) -> Any:
        low = torch.max(boxes[:, None, :2], boxes[None, :, :2])
        high = torch.min(boxes[:, None, 2:], boxes[None, :, 2:])
        common = (high - low).clamp(min=0).prod(-1)
        area = (boxes[:, 2:] - boxes[:, :2]).prod(-1)
        return common / (area[:, None] + area[None] - common)

    def suppressed(boxes: Any, scores: Any) -> Any:
        best, label = scores.max(-1)
        order = best.argsort(descending=True)
        boxes, best, label = boxes[order], best[order], label[order]
        over = overlaps(boxes + label[:, None] * 1000.0) > 0.5
        keep = torch.ones(len(boxes), dtype=torch.bool, device=boxes.device)
        for k in range(len(boxes)):
            keep[k + 1 :] &= ~(over[k, k + 1 :] & keep[k])
        return boxes * keep[:, None], best.masked_fill(~keep, -1), label, keep

    boxes = draw(24, 4).abs() * 20
    boxes[:, 2:] += boxes[:, :2] + 5
    return list(compiled(suppressed)(boxes.to(device), draw(24, 3, seed=1).softmax(-1).to(device)))


class _Block(nn.Module):
    def __init__(self, inside: int, outside: int) -> None:
        super().__init__()
        self.first, self.convolution = nn.GroupNorm(4, inside), nn.Conv2d(inside, outside, 3, padding=1)
        self.time, self.second = nn.Linear(8, 2 * outside), nn.GroupNorm(4, outside)
        self.last, self.short = nn.Conv2d(outside, outside, 3, padding=1), nn.Conv2d(inside, outside, 1)

    def forward(self, x: Any, time: Any) -> Any:
        scale, shift = self.time(F.silu(time))[:, :, None, None].chunk(2, 1)
        h = self.second(self.convolution(F.silu(self.first(x)))) * (1 + scale) + shift
        return self.short(x) + self.last(F.silu(h))


class _Denoiser(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.begin, self.down, self.up = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, 2, 1), nn.ConvTranspose2d(8, 8, 4, 2, 1)
        self.left, self.middle, self.right = _Block(8, 8), _Block(8, 8), _Block(16, 8)
        self.qkv, self.end = nn.Conv2d(8, 24, 1), nn.Conv2d(8, 3, 3, padding=1)

    def forward(self, x: Any, step: Any) -> Any:
        angles = step[:, None].float() * torch.exp(-torch.arange(4, device=x.device) * 2.0)
        time = torch.cat([angles.sin(), angles.cos()], -1)
        side = self.left(self.begin(x), time)
        h = self.middle(self.down(side), time)
        batch, channels, rows, columns = h.shape
        q, k, v = self.qkv(h).reshape(batch, 3, 2, channels // 2, rows * columns).mT.unbind(1)
        h = h + F.scaled_dot_product_attention(q, k, v).mT.reshape(h.shape)
        return self.end(self.right(torch.cat([self.up(h), side], 1), time))


@program
def diffusion(device: Any, compiled: Compile) -> list[Any]:
    model = _Denoiser().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    kept = (1 - torch.linspace(1e-4, 0.02, 100)).cumprod(0).to(device)
    image, noise = draw(2, 3, 8, 8).to(device), draw(2, 3, 8, 8, seed=2).to(device)
    step, call, found = torch.tensor([3, 70], device=device), compiled(model), []
    for _ in range(2):
        share = kept[step][:, None, None, None]
        loss = F.mse_loss(call(share.sqrt() * image + (1 - share).sqrt() * noise, step), noise)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss)
    return found


@program
def beams(device: Any, compiled: Compile) -> list[Any]:
    def step(scores: Any, words: Any, logits: Any) -> Any:
        total = scores[..., None] + logits.log_softmax(-1)
        ended = words[..., -1] == 0
        total = total.masked_fill(ended[..., None], float("-inf"))
        total[..., 0] = torch.where(ended, scores, total[..., 0])
        best, indices = total.flatten(1).topk(3, dim=1)
        parent, word = indices // 11, indices % 11
        return best, torch.cat([words.gather(1, parent[..., None].expand(-1, -1, words.shape[-1])), word[..., None]], -1)

    table, call = draw(11, 11).to(device), compiled(step)
    words = torch.ones(2, 3, 1, dtype=torch.long, device=device)
    scores = torch.tensor([[0.0, -1e9, -1e9]] * 2, device=device)
    for _ in range(3):
        scores, words = call(scores, words, table[words[..., -1]])
    return [scores, words]


@program
def kalman_filter(device: Any, compiled: Compile) -> list[Any]:
    move, see = torch.tensor([[1.0, 0.1], [0.0, 1.0]]).to(device), torch.tensor([[1.0, 0.0]]).to(device)

    def run(seen: Any) -> Any:
        x, spread, one = torch.zeros(2, device=seen.device), torch.eye(2, device=seen.device), torch.eye(2, device=seen.device)
        states = []
        for k in range(seen.shape[0]):
            x, spread = move @ x, move @ spread @ move.T + 0.01 * one
            gain = torch.linalg.solve(see @ spread @ see.T + 0.1, see @ spread).T
            x, spread = x + gain @ (seen[k] - see @ x), (one - gain @ see) @ spread
            states.append(x)
        return torch.stack(states), torch.linalg.cholesky(spread).diagonal().log().sum()

    seen = draw(6, 1).cumsum(0).to(device).requires_grad_()
    states, size = compiled(run)(seen)
    (states.sum() + size).backward()
    return [states, size, seen.grad]


@program
def integrators(device: Any, compiled: Compile) -> list[Any]:
    field = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 2)).to(device)

    def path(y: Any, h: float = 0.1) -> Any:
        states = [y]
        for _ in range(4):
            a = field(y)
            b = field(y + h / 2 * a)
            c = field(y + h / 2 * b)
            y = y + h / 6 * (a + 2 * b + 2 * c + field(y + h * c))
            states.append(y)
        return torch.stack(states)

    start = draw(3, 2).to(device).requires_grad_()
    states = compiled(path)(start)
    states[-1].square().sum().backward()
    return [states, start.grad, *(parameter.grad for parameter in field.parameters())]


@program
def adversaries(device: Any, compiled: Compile) -> list[Any]:
    writer = nn.Sequential(nn.Linear(3, 8), nn.LeakyReLU(0.2), nn.Unflatten(1, (2, 4)), nn.ConvTranspose1d(2, 1, 4, 2, 1), nn.Tanh())
    critic = nn.Sequential(nn.utils.parametrizations.spectral_norm(nn.Conv1d(1, 4, 3, 2, 1)), nn.SiLU(), nn.Flatten(), nn.Linear(16, 1))
    writer, critic = writer.to(device), critic.to(device)
    steps = [torch.optim.Adam(each.parameters(), 1e-3, betas=(0.5, 0.9)) for each in (writer, critic)]
    write, judge, found = compiled(writer), compiled(critic), []
    for seed in range(2):
        real, fake = draw(4, 1, 8, seed=seed).to(device), write(draw(4, 3, seed=seed + 9).to(device))
        between = (real + fake.detach()).div(2).requires_grad_()
        slopes = torch.autograd.grad(critic(between).sum(), between, create_graph=True)[0].flatten(1)
        loss = F.relu(1 - judge(real)).mean() + F.relu(1 + judge(fake.detach())).mean() + slopes.norm(dim=1).sub(1).square().mean()
        steps[1].zero_grad()
        loss.backward()
        steps[1].step()
        other = -judge(fake).mean()
        steps[0].zero_grad()
        other.backward()
        steps[0].step()
        found += [loss, other]
    return found


@program
def transforms_of_functions(device: Any, compiled: Compile) -> list[Any]:
    from torch.func import functional_call, grad, hessian, jacrev, jvp, vmap

    network = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2)).to(device)
    weights = {name: value.detach() for name, value in network.named_parameters()}
    x, y = draw(4, 3).to(device), draw(4, 2, seed=1).to(device)

    def of(x: Any) -> Any:
        return functional_call(network, weights, (x,))

    def loss(weights: Any, x: Any, y: Any) -> Any:
        return (functional_call(network, weights, (x,)) - y).square().sum()

    each = compiled(lambda weights, x, y: vmap(grad(loss), (None, 0, 0))(weights, x, y))(weights, x, y)
    slopes = compiled(lambda x: vmap(jacrev(of))(x))(x)
    bends = compiled(lambda x: hessian(lambda x: of(x).sin().sum())(x))(x[0])
    along = compiled(lambda x: jvp(of, (x,), (torch.ones_like(x),)))(x)
    return [*each.values(), slopes, bends, *along]


@program
def exported(device: Any, compiled: Compile) -> list[Any]:
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3)).eval()
    batch = torch.export.Dim("batch", min=1, max=16)
    found = torch.export.export(model, (draw(2, 1, 8, 8),), dynamic_shapes=({0: batch},))
    call = compiled(found.module().to(device))
    with torch.no_grad():
        return [call(draw(count, 1, 8, 8).to(device)) for count in (2, 5)]


@dataclasses.dataclass
class _Result:
    scores: Any
    states: Any
    rest: Any = None


class _Pair(NamedTuple):
    first: Any
    second: Any


@program
def results_in_classes(device: Any, compiled: Compile) -> list[Any]:
    def run(given: Any, count: int) -> _Result:
        y = given["x"] * 2 + given["y"][0]
        return _Result(y, [y.sum(), (y.max(), {"mean": y.mean(0)})], _Pair(y.t(), count + 1))

    found = compiled(run)({"x": draw(2, 3).to(device), "y": (draw(3, seed=1).to(device),)}, 4)
    assert found.rest.second == 5
    return [found.scores, found.states[0], found.states[1][0], found.states[1][1]["mean"], found.rest.first]


@program
def hooks(device: Any, compiled: Compile) -> list[Any]:
    network = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2)).to(device)
    network[0].register_forward_hook(lambda module, inputs, output: output * 2)
    network[2].weight.register_hook(lambda gradient: gradient * 3)
    network[1].register_full_backward_hook(lambda module, inner, outer: (inner[0] + 1,))
    x = draw(3, 4).to(device).requires_grad_()
    y = compiled(network)(x)
    y.register_hook(lambda gradient: gradient * 0.5)
    y.sum().backward()
    return [y, x.grad, *(parameter.grad for parameter in network.parameters())]


@program
def ring_of_memory(device: Any, compiled: Compile) -> list[Any]:
    ring, slot = torch.zeros(4, 3, device=device), torch.zeros((), dtype=torch.long, device=device)

    def push(ring: Any, slot: Any, x: Any) -> Any:
        ring.index_copy_(0, (slot % 4)[None], x[None])
        slot.add_(1)
        return ring.mean(0), torch.roll(ring, 1, 0)

    call, found = compiled(push), []
    for seed in range(5):
        found += call(ring, slot, draw(3, seed=seed).to(device))
    return [*found, ring, slot]


@program
def gaussian_process(device: Any, compiled: Compile) -> list[Any]:
    points, values = draw(10, 2).to(device), draw(10, seed=1).to(device)

    def loss(scale: Any) -> Any:
        near = torch.exp(-0.5 * torch.cdist(points, points).square() / scale**2) + 0.1 * torch.eye(10, device=points.device)
        root = torch.linalg.cholesky(near)
        return 0.5 * (values @ torch.cholesky_solve(values[:, None], root)).sum() + root.diagonal().log().sum()

    scale = torch.tensor(0.5, device=device, requires_grad=True)
    found = compiled(loss)(scale)
    found.backward()
    return [found, scale.grad]


@program
def transducer(device: Any, compiled: Compile) -> list[Any]:
    def loss(logits: Any, words: Any) -> Any:
        steps, positions, _ = logits.shape
        chances = logits.log_softmax(-1)
        blank, said = chances[..., 0], chances[:, :-1].gather(2, words[None, :, None].expand(steps, -1, 1)).squeeze(-1)
        row = torch.cat([torch.zeros(1, device=logits.device), said[0].cumsum(0)])
        for step in range(1, steps):
            above = row + blank[step - 1]
            cells = [above[0]]
            for position in range(1, positions):
                cells.append(torch.logaddexp(above[position], cells[-1] + said[step, position - 1]))
            row = torch.stack(cells)
        return -(row[-1] + blank[-1, -1])

    x = draw(4, 4, 5).to(device).requires_grad_()
    found = compiled(loss)(x, torch.tensor([1, 3, 2], device=device))
    found.backward()
    return [found, x.grad]


@program
def experts_with_slots(device: Any, compiled: Compile) -> list[Any]:
    class Experts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gate = nn.Linear(8, 4)
            self.up, self.down = nn.Parameter(draw(4, 8, 16) * 0.2), nn.Parameter(draw(4, 16, 8, seed=1) * 0.2)

        def forward(self, x: Any) -> Any:
            shares, chosen = self.gate(x).softmax(-1).topk(2, -1)
            ours = (chosen[..., None] == torch.arange(4, device=x.device)).to(x.dtype)
            slot = ((ours.flatten(0, 1).cumsum(0) - 1).view_as(ours) * ours).long()
            kept = (slot < 6) * ours
            spots = (slot.clamp(max=5)[..., None] == torch.arange(6, device=x.device)).to(x.dtype)
            sent = torch.einsum("tke,tkec->tec", kept, spots)
            hidden = F.gelu(torch.einsum("tec,td->ecd", sent, x) @ self.up) @ self.down
            weight = torch.zeros(len(x), 4, device=x.device).scatter(1, chosen, shares)
            return torch.einsum("tec,te,ecd->td", sent, weight, hidden)

    return trained(Experts(), device, compiled, (draw(10, 8),))
