"""Programs from corners of PyTorch, as people write them who never heard of this backend: what was wrong, refused or left to PyTorch there once."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from programs.common import Compile, program, trained
from programs.derivatives import derived

F = torch.nn.functional


@program
def grouped_queries(device: Any, compiled: Compile) -> list[Any]:
    def attend(q: Any, k: Any, v: Any) -> Any:
        found = [F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True) for causal in (True, False)]
        return [*found, F.scaled_dot_product_attention(q, k[:, :1], v[:, :1], attn_mask=q[..., :4] > 0, enable_gqa=True)]

    return derived(device, compiled, attend, torch.randn(2, 6, 4, 5), torch.randn(2, 2, 4, 5), torch.randn(2, 2, 4, 5))


@program
def recurrence_over_data(device: Any, compiled: Compile) -> list[Any]:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.steps, self.out = nn.LSTM(3, 4, num_layers=2, bidirectional=True, batch_first=True), nn.Linear(8, 2)

        def forward(self, x: Any) -> Any:
            return self.out(self.steps(x)[0])

    # Dynamo does not look into recurrent networks unless it is told to.
    with torch._dynamo.config.patch(allow_rnn=True):
        return trained(Model(), device, compiled, [torch.randn(2, 4, 3)])


@program
def repeats_by_counts(device: Any, compiled: Compile) -> list[Any]:
    def spread(x: Any, counts: Any) -> Any:
        rows = x.repeat_interleave(counts, 0, output_size=6)
        return [rows, x.t().repeat_interleave(counts.int(), 1, output_size=6), rows.cumsum(0)]

    # The first, one in the middle and the last are taken not at all.
    x = torch.randn(7, 3).to(device).requires_grad_()
    found = compiled(spread)(x, torch.tensor([0, 2, 1, 0, 0, 3, 0]).to(device))
    sum(part.square().sum() for part in found).backward()
    return [*found, x.grad]


@program
def pools_of_drawn_windows(device: Any, compiled: Compile) -> list[Any]:
    plane, volume = torch.rand(2, 3, 2), torch.rand(1, 2, 3)

    def pool(x: Any, y: Any) -> Any:
        planes, volumes = plane.to(x.device), volume.to(x.device)
        found = [F.fractional_max_pool2d(x, (2, 3), output_size=size, _random_samples=planes) for size in ((4, 3), (1, 5))]
        indices = F.fractional_max_pool2d(x[0], 2, output_size=3, _random_samples=planes[:1], return_indices=True)[1]
        found.append(F.fractional_max_pool2d(x[:0], 2, output_size=3, _random_samples=planes[:0]))
        return [*found, indices, F.fractional_max_pool3d(y, (2, 1, 3), output_size=(3, 4, 2), _random_samples=volumes)]

    x, y = (torch.randn(*shape).to(device).requires_grad_() for shape in ((2, 3, 8, 7), (2, 5, 6, 7)))
    found = compiled(pool)(x, y)
    sum(part.square().sum() for part in found if part.requires_grad).backward()
    return [*found, x.grad, y.grad]


@program
def frequencies(device: Any, compiled: Compile) -> list[Any]:
    def filtered(x: Any) -> Any:
        found = []
        for n in (1, 2, 7, 8):
            waves = torch.fft.fft(x[..., :n])
            low = torch.fft.fftfreq(n, 0.1, device=x.device).abs() < 3
            found += [torch.fft.ifft(waves * low).real, torch.fft.rfftfreq(n, device=x.device) + x[0, 0], waves.conj().imag * 2]
        return found

    return derived(device, compiled, filtered, torch.randn(3, 8))


@program
def values_at_diagonals(device: Any, compiled: Compile) -> list[Any]:
    def put(x: Any, y: Any) -> Any:
        found = [torch.diag_embed(y, offset, one, other) for offset, one, other in ((0, 0, 1), (2, -1, 0), (-1, 0, 2))]
        found += [x.diagonal_scatter(y[:, : 4 - abs(offset)], offset, 0, 2) for offset in (0, 1, -2)]
        return [*found, torch.diagflat(y), torch.block_diag(x[0], y), x[:, 0].trace()]

    return derived(device, compiled, put, torch.randn(4, 3, 4), torch.randn(3, 4))


@program
def addresses(device: Any, compiled: Compile) -> list[Any]:
    def take(x: Any, y: Any) -> Any:
        z = x * 2
        found = [z[1:, 1:].as_strided((3,), (2,), offset) for offset in (0, 7, None)]
        found += [z[2:2].as_strided((2, 2), (1, 3)), z[:, 1:3].as_strided((6,), (1,)) + 1, z.t()[3].as_strided((4,), (4,), 1) * 3]
        # Of an argument: what lies before the view, and behind it.
        return [*found, y[2:][1:].as_strided((3,), (1,), 1) + 1, y[2:3].as_strided((2, 2), (2, 1)) * 2]

    return derived(device, compiled, take, torch.randn(3, 5), torch.randn(8))


@program
def checkpoints_that_drop(device: Any, compiled: Compile) -> list[Any]:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(4, 8), nn.Linear(8, 4)

        def block(self, x: Any) -> Any:
            return self.second(F.dropout(F.gelu(self.first(x)), 0.3))

        def forward(self, x: Any) -> Any:
            x = checkpoint(self.block, x, use_reentrant=False)
            return F.dropout(checkpoint(self.block, F.dropout(x, 0.2), use_reentrant=False), 0.4)

    model = Model().to(device)
    torch.manual_seed(3)
    y = compiled(model)(torch.randn(5, 4).to(device))
    y.square().sum().backward()
    return [y, *(parameter.grad for parameter in model.parameters())]


@program
def padded_batches(device: Any, compiled: Compile) -> list[Any]:
    torch.manual_seed(2)
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    model = nn.TransformerEncoder(layer, 2).eval().to(device)
    lengths = torch.tensor([3, 5, 1]).to(device)
    padding = torch.arange(5, device=device) >= lengths[:, None]
    with torch.no_grad():
        found = compiled(model)(torch.randn(3, 5, 8).to(device), src_key_padding_mask=padding)
    # What stands where there is nothing is nobody's.
    return [found.masked_fill(padding[..., None], 0)]
