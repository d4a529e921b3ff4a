"""Networks of layers, trained for some steps: convolutions, norms, recurrence, dropout, halves, experts."""

from __future__ import annotations

import copy
import io
from typing import Any

import torch
from torch import nn

from programs.common import Compile, program, trained

F = torch.nn.functional


class Residual(nn.Module):
    def __init__(self, width: int, stride: int = 1) -> None:
        super().__init__()
        self.one, self.two = nn.Conv2d(width, 2 * width, 3, stride, 1, bias=False), nn.Conv2d(2 * width, width, 3, 1, 1, groups=2)
        self.norm, self.other = nn.BatchNorm2d(2 * width), nn.BatchNorm2d(width)
        self.short = nn.AvgPool2d(stride) if stride > 1 else nn.Identity()

    def forward(self, x: Any) -> Any:
        return F.relu(self.short(x) + self.other(self.two(F.silu(self.norm(self.one(x))))))


@program
def residual_network(device: Any, compiled: Compile) -> list[Any]:
    model = nn.Sequential(
        nn.Conv2d(3, 8, 5, padding=2), Residual(8), Residual(8, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4)
    )
    return trained(model, device, compiled, [torch.randn(3, 3, 12, 12)])


@program
def channels_last(device: Any, compiled: Compile) -> list[Any]:
    model = nn.Sequential(nn.Conv2d(4, 8, 3), nn.BatchNorm2d(8), nn.ReLU6(), nn.MaxPool2d(2, ceil_mode=True), nn.Conv2d(8, 4, 1))
    return trained(
        model.to(memory_format=torch.channels_last), device, compiled, [torch.randn(2, 4, 9, 9).to(memory_format=torch.channels_last)]
    )


@program
def depthwise(device: Any, compiled: Compile) -> list[Any]:
    model = nn.Sequential(
        nn.Conv2d(6, 6, 3, padding="same", groups=6, dilation=2),
        nn.Hardswish(),
        nn.Conv2d(6, 12, 1),
        nn.GroupNorm(3, 12),
        nn.PixelShuffle(2),
    )
    return trained(model, device, compiled, [torch.randn(2, 6, 7, 7)])


@program
def upsampling(device: Any, compiled: Compile) -> list[Any]:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.down, self.up = nn.Conv2d(2, 4, 3, 2, 1), nn.ConvTranspose2d(4, 2, 4, 2, 1)

        def forward(self, x: Any) -> Any:
            small = F.leaky_relu(self.down(x), 0.1)
            wide = F.interpolate(small, scale_factor=2, mode="bilinear", align_corners=False)
            return torch.cat([self.up(small), wide, F.interpolate(small, size=x.shape[-2:], mode="nearest")], 1)

    return trained(Model(), device, compiled, [torch.randn(2, 2, 8, 8)])


@program
def sound(device: Any, compiled: Compile) -> list[Any]:
    model = nn.Sequential(
        nn.Conv1d(1, 8, 7, stride=2, padding=3), nn.InstanceNorm1d(8, affine=True), nn.GLU(1), nn.Conv1d(4, 4, 3, padding="same"), nn.Tanh()
    )
    return trained(model, device, compiled, [torch.randn(2, 1, 33)])


@program
def volumes(device: Any, compiled: Compile) -> list[Any]:
    model = nn.Sequential(nn.Conv3d(1, 3, 3, padding=1), nn.BatchNorm3d(3), nn.ELU(), nn.MaxPool3d(2), nn.AdaptiveAvgPool3d((1, 2, 2)))
    return trained(model, device, compiled, [torch.randn(2, 1, 6, 6, 6)])


@program
def perceptron_in_doubles(device: Any, compiled: Compile) -> list[Any]:
    model = nn.Sequential(nn.Linear(5, 9), nn.Mish(), nn.RMSNorm(9), nn.Linear(9, 3), nn.LogSoftmax(1)).double()
    return trained(model, device, compiled, [torch.randn(4, 5).double()], make=lambda parameters: torch.optim.Adam(parameters, lr=0.01))


@program
def classifier_with_embedding_bag(device: Any, compiled: Compile) -> list[Any]:
    model = nn.Sequential(nn.EmbeddingBag(20, 6, mode="mean"), nn.LayerNorm(6), nn.Linear(6, 3))
    labels = torch.tensor([0, 2, 1])
    return trained(
        model, device, compiled, [torch.randint(0, 20, (3, 5))], loss=lambda y: F.cross_entropy(y, labels.to(device), label_smoothing=0.1)
    )


@program
def recurrent_by_hand(device: Any, compiled: Compile) -> list[Any]:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell, self.out = nn.LSTMCell(3, 5), nn.Linear(5, 2)

        def forward(self, x: Any) -> Any:
            h = c = x.new_zeros(x.shape[0], 5)
            found = []
            for row in x.unbind(1):
                h, c = self.cell(row, (h, c))
                found.append(self.out(h))
            return torch.stack(found, 1)

    return trained(Model(), device, compiled, [torch.randn(2, 4, 3)])


@program
def gated_recurrence(device: Any, compiled: Compile) -> list[Any]:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers, self.out = nn.GRUCell(3, 4), nn.Bilinear(4, 3, 2)

        def forward(self, x: Any) -> Any:
            state = torch.zeros(x.shape[1], 4, dtype=x.dtype, device=x.device)
            for row in x:
                state = self.layers(row, state)
            return self.out(state, x[-1])

    return trained(Model(), device, compiled, [torch.randn(4, 2, 3)])


@program
def dropout_in_training(device: Any, compiled: Compile) -> list[Any]:
    model = nn.Sequential(nn.Linear(6, 12), nn.Dropout(0.3), nn.ReLU(), nn.Linear(12, 8), nn.Dropout(0.5), nn.Linear(8, 2))
    return trained(model, device, compiled, [torch.randn(5, 6)])


def _autocast(device: Any, compiled: Compile, dtype: Any) -> list[Any]:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.norm, self.two = nn.Linear(8, 16), nn.LayerNorm(16), nn.Linear(16, 4)

        def forward(self, x: Any) -> Any:
            with torch.autocast(x.device.type, dtype=dtype):
                y = self.two(F.gelu(self.norm(self.one(x))))
                return F.mse_loss(y, torch.ones_like(y)) + y.float().softmax(-1).max()

    return trained(Model(), device, compiled, [torch.randn(4, 8)], loss=lambda y: y)


@program
def autocast_to_bfloat16(device: Any, compiled: Compile) -> list[Any]:
    return _autocast(device, compiled, torch.bfloat16)


@program
def autocast_to_float16(device: Any, compiled: Compile) -> list[Any]:
    return _autocast(device, compiled, torch.float16)


@program
def model_in_bfloat16(device: Any, compiled: Compile) -> list[Any]:
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4)).bfloat16()
    return trained(model, device, compiled, [torch.randn(4, 8).bfloat16()], steps=1)


@program
def batches_that_change(device: Any, compiled: Compile) -> list[Any]:
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 5)).to(device)
    call, found = compiled(model), []
    for batch in (4, 6, 3):
        y = call(torch.randn(batch, 1, 8, 8).to(device))
        loss = F.cross_entropy(y, torch.arange(batch, device=device) % 5)
        loss.backward()
        found += [y, loss]
    return [*found, *(parameter.grad for parameter in model.parameters()), *model.buffers()]


@program
def graph_network(device: Any, compiled: Compile) -> list[Any]:
    def step(x: Any, edges: Any, weight: Any) -> Any:
        messages = (x @ weight)[edges[0]]
        total = torch.zeros(x.shape[0], weight.shape[1], device=x.device).index_add_(0, edges[1], messages)
        count = torch.zeros(x.shape[0], device=x.device).scatter_add_(0, edges[1], torch.ones(edges.shape[1], device=x.device))
        most = torch.full_like(total, -9.0).scatter_reduce(0, edges[1][:, None].expand_as(messages), messages, "amax")
        return total / count.clamp(min=1)[:, None] + most

    edges = torch.tensor([[0, 1, 2, 3, 3, 1], [1, 0, 3, 2, 0, 1]]).to(device)
    x, weight = torch.randn(4, 3).to(device).requires_grad_(), torch.randn(3, 2).to(device).requires_grad_()
    y = compiled(step)(x, edges, weight)
    y.square().sum().backward()
    return [y, x.grad, weight.grad]


@program
def choice_of_experts(device: Any, compiled: Compile) -> list[Any]:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gate, self.experts = nn.Linear(6, 4), nn.Parameter(torch.randn(4, 6, 5))

        def forward(self, x: Any) -> Any:
            weights, chosen = self.gate(x).softmax(-1).topk(2, -1)
            found = torch.einsum("bi,eio->beo", x, self.experts)
            taken = found.gather(1, chosen[..., None].expand(-1, -1, 5))
            return (taken * weights[..., None]).sum(1) + F.one_hot(chosen[:, 0], 4).float().mean()

    return trained(Model(), device, compiled, [torch.randn(5, 6)])


@program
def variational_coder(device: Any, compiled: Compile) -> list[Any]:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inside, self.outside = nn.Linear(6, 4), nn.Linear(2, 6)

        def forward(self, x: Any) -> Any:
            mean, spread = self.inside(x).chunk(2, -1)
            z = mean + torch.randn_like(mean) * (0.5 * spread).exp()
            kl = -0.5 * (1 + spread - mean.pow(2) - spread.exp()).sum(-1).mean()
            return F.binary_cross_entropy_with_logits(self.outside(z), x.sigmoid()) + kl

    return trained(Model(), device, compiled, [torch.randn(5, 6)], loss=lambda y: y)


@program
def checkpoints(device: Any, compiled: Compile) -> list[Any]:
    from torch.utils.checkpoint import checkpoint

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = nn.Linear(4, 8), nn.Linear(8, 4)

        def forward(self, x: Any) -> Any:
            return checkpoint(lambda y: self.two(self.one(y).relu()), x, use_reentrant=False)

    return trained(Model(), device, compiled, [torch.randn(3, 4)])


@program
def files(device: Any, compiled: Compile) -> list[Any]:
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 2))
    found = trained(model, device, compiled, [torch.randn(6, 4)], steps=1)
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    other = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 2)).to(device)
    other.load_state_dict(torch.load(file))
    with torch.no_grad():
        found.append(compiled(other.eval())(torch.ones(2, 4, device=device)))
        found.append(copy.deepcopy(other)(torch.ones(2, 4, device=device)))
    return found
