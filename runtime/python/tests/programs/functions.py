"""Functions of tensors: spectra, solving, sorting, integers, losses, derivatives."""

from __future__ import annotations

from typing import Any

import torch

from programs.common import Compile, program

F = torch.nn.functional


@program
def noise(device: Any, compiled: Compile) -> list[Any]:
    def step(x: Any) -> Any:
        y = x + 0.1 * torch.randn_like(x)
        return y * torch.rand(x.shape[1], device=x.device) + torch.randint(0, 5, x.shape, device=x.device)

    torch.manual_seed(3)
    return [compiled(step)(torch.linspace(0, 1, 12).reshape(3, 4).to(device)) for _ in range(2)]


@program
def spectra(device: Any, compiled: Compile) -> list[Any]:
    def step(x: Any) -> Any:
        spectrum = torch.fft.rfft(x, dim=-1)
        window = torch.hann_window(8, device=x.device)
        frames = torch.stft(x, 8, 4, window=window, return_complex=True)
        return torch.fft.irfft(spectrum * 0.5, n=x.shape[-1]), spectrum.abs(), frames.abs().square().sum(-1)

    x = torch.randn(2, 32).to(device).requires_grad_()
    found = compiled(step)(x)
    sum(part.square().sum() for part in found).backward()
    return [*found, x.grad]


@program
def complex_numbers(device: Any, compiled: Compile) -> list[Any]:
    def step(x: Any, y: Any, m: Any) -> Any:
        z = torch.complex(x, y)
        w = torch.polar(x.abs(), y)
        table = torch.stack([z * w, z / (w + 2j), (z - w).exp(), z.conj() * 0.5, z.sgn(), -z + x], 1)
        product = torch.view_as_complex(m) @ table[:, :, None]
        return torch.cat([table.flatten(), product.flatten()]), table.sum(0).abs(), z.angle(), table.real.mean(), torch.where(x > 0, z, w)

    x, y, m = torch.randn(3).to(device).requires_grad_(), torch.randn(3).to(device).requires_grad_(), torch.randn(3, 2, 6, 2).to(device)
    found = compiled(step)(x, y, m)
    sum(part.abs().square().sum() for part in found).backward()
    return [*found, x.grad, y.grad]


@program
def complex_parts(device: Any, compiled: Compile) -> list[Any]:
    def step(z: Any, weight: Any, at: Any) -> Any:
        y = z @ weight.t()
        first, *rest = torch.split(y, [2, 1, 3], 1)
        low, high = y.chunk(2, 1)
        rows = torch.stack([row * (index + 1) for index, row in enumerate(y.unbind(0))])
        moved = torch.zeros_like(y).scatter(0, at, y).scatter_add(0, at.flip(1), y).index_copy(0, at[:, 0], y.roll(1, 1))
        return first * 2j, rest[1].conj(), low + high, rows, moved, y.narrow(1, 1, 3).T, torch.linalg.vector_norm(y), y.flatten()[::3]

    z, weight = (torch.complex(*torch.randn(2, rows, 4)).to(device).requires_grad_() for rows in (3, 6))
    at = torch.stack([torch.randperm(3) for _ in range(6)], 1).to(device)
    found = compiled(step)(z, weight, at)
    sum(part.abs().square().sum() for part in found).backward()
    return [*found, z.grad, weight.grad]


@program
def solving(device: Any, compiled: Compile) -> list[Any]:
    def step(a: Any, b: Any) -> Any:
        spd = a @ a.t() + torch.eye(4, device=a.device)
        return torch.linalg.solve(spd, b), torch.linalg.cholesky(spd), torch.logdet(spd), torch.linalg.inv(spd)

    a, b = torch.randn(4, 4).to(device).requires_grad_(), torch.randn(4, 2).to(device)
    found = compiled(step)(a, b)
    sum(part.sum() for part in found).backward()
    return [*found, a.grad]


@program
def sorting(device: Any, compiled: Compile) -> list[Any]:
    def step(x: Any) -> Any:
        values, indices = x.sort(-1, descending=True)
        return (
            values.cumsum(-1),
            indices,
            x.argmax(-1),
            x.topk(2)[0],
            torch.bucketize(x, values.new_tensor([-1.0, 0.0, 1.0])),
            x.median(-1)[0],
        )

    return list(compiled(step)(torch.randn(3, 7).to(device)))


@program
def integers(device: Any, compiled: Compile) -> list[Any]:
    def step(x: Any, y: Any) -> Any:
        return x // y, x % y, (x << 2) ^ y, x.abs().bitwise_and(7), x.float() / y, (x > y).sum(), x.to(torch.uint8) + 200, torch.gcd(x, y), torch.lcm(x, y)

    found = compiled(step)(torch.tensor([-7, 5, 9, -12]).to(device), torch.tensor([2, -3, 4, 5]).to(device))
    return list(found)


@program
def loops_and_branches(device: Any, compiled: Compile) -> list[Any]:
    def step(x: Any, count: int, flag: bool) -> Any:
        for index in range(count):
            x = torch.where(x > index, x - 1, x * 1.5) if flag else x.tanh()
        return {"result": x, "parts": [x.mean(), x.std(), x.var(0, unbiased=False)]}

    found, call = [], compiled(step)
    for count, flag in ((2, True), (3, True), (1, False)):
        result = call(torch.randn(3, 4).to(device), count, flag)
        found += [result["result"], *result["parts"]]
    return found


@program
def second_derivatives(device: Any, compiled: Compile) -> list[Any]:
    x = torch.randn(4).to(device)
    f = lambda x: (x.sin() * x.exp()).sum()  # noqa: E731
    return [
        compiled(torch.func.grad(f))(x),
        compiled(torch.func.hessian(f))(x),
        compiled(torch.func.vmap(lambda row: row.softmax(0)))(x[None]),
    ]


@program
def capsules(device: Any, compiled: Compile) -> list[Any]:
    import warpweft as ww

    x = torch.arange(12.0).reshape(3, 4).t()
    mine = ww.from_dlpack(x)
    back = torch.from_dlpack(mine * 2)
    y = compiled(lambda t: t.relu() - 1)(back.to(device))
    return [back, y, torch.from_dlpack(ww.from_dlpack(y.detach().cpu()))]


@program
def padding_and_folding(device: Any, compiled: Compile) -> list[Any]:
    def step(x: Any) -> Any:
        padded = F.pad(F.pad(x, (1, 2, 0, 0), mode="reflect"), (0, 0, 1, 1), value=-1.0)
        columns = F.unfold(padded[:, :1], 3)
        return (
            F.fold(columns, padded.shape[-2:], 3),
            F.fold(F.unfold(x, (2, 3), (1, 2), (0, 2), (2, 1)), x.shape[-2:], (2, 3), (1, 2), (0, 2), (2, 1)),
            F.unfold(x[0], 2, stride=3),
            F.pad(x, (2, 2, 1, 1), mode="circular"),
            x.roll((1, -1), (-1, -2)),
            padded.rot90(1, (2, 3)),
        )

    x = torch.randn(1, 2, 5, 6).to(device).requires_grad_()
    found = compiled(step)(x)
    sum((part * part.detach().cos()).sum() for part in found).backward()
    return [*found, x.grad]


@program
def losses(device: Any, compiled: Compile) -> list[Any]:
    def step(x: Any, y: Any, labels: Any) -> Any:
        return torch.stack([
            F.smooth_l1_loss(x, y), F.kl_div(x.log_softmax(-1), y.softmax(-1), reduction="batchmean"), F.nll_loss(x.log_softmax(-1), labels),
            F.cosine_embedding_loss(x, y, torch.ones(4, device=x.device)), F.triplet_margin_loss(x, y, y.flip(0)), F.l1_loss(x, y),
            F.multi_margin_loss(x, labels), F.soft_margin_loss(x, y.sign()), F.poisson_nll_loss(x, y.abs()), torch.cdist(x, y).mean(),
        ])  # fmt: skip

    x, y, labels = torch.randn(4, 5).to(device).requires_grad_(), torch.randn(4, 5).to(device), torch.tensor([0, 4, 2, 1]).to(device)
    found = compiled(step)(x, y, labels)
    found.sum().backward()
    return [found, x.grad]


@program
def a_function_of_ones_own(device: Any, compiled: Compile) -> list[Any]:
    class Rounded(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x.round()

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            return gradient * (ctx.saved_tensors[0].abs() < 2)

    x = (torch.randn(6) * 2).to(device).requires_grad_()
    y = compiled(lambda x: Rounded.apply(x) * x)(x)
    y.sum().backward()
    return [y, x.grad]


@program
def factors_around_a_draw(device: Any, compiled: Compile) -> list[Any]:
    def step(x: Any) -> Any:
        q, r = torch.linalg.qr(x)
        values, indices = (q @ r).max(0)
        return q * torch.rand(3, device=x.device), r + torch.rand_like(r), values, indices

    torch.manual_seed(7)
    return list(compiled(step)(torch.randn(4, 3).to(device)))


@program
def resized_bytes(device: Any, compiled: Compile) -> list[Any]:
    image = torch.randint(0, 256, (2, 3, 8, 9), dtype=torch.uint8).to(device)

    def sizes(x: Any) -> Any:
        return [F.interpolate(x, scale_factor=2), F.interpolate(x, (5, 7)), F.interpolate(x, (4, 3), mode="nearest-exact")]

    return compiled(sizes)(image)


@program
def arguments_of_any_strides(device: Any, compiled: Compile) -> list[Any]:
    image = torch.randn(2, 8, 6, 5).to(device).to(memory_format=torch.channels_last)
    matrix, weight = torch.randn(7, 8).to(device).t(), torch.nn.Parameter(torch.randn(3, 8).to(device).t())

    def step(x: Any, matrix: Any) -> Any:
        return [x.softmax(1) + 1, x.movedim(1, -1) @ matrix, (x.movedim(1, -1) @ weight).sum((0, 2)), (x * x).transpose(1, 2).flatten(1)]

    call = compiled(step)
    found = call(image, matrix)
    with torch.no_grad():
        weight.mul_(-2)
    # Other strides of the same shapes.
    return [*found, *call(image, matrix), *call(image.contiguous(), matrix.contiguous())]


@program
def searches(device: Any, compiled: Compile) -> list[Any]:
    def step(line: Any, rows: Any, values: Any, numbers: Any) -> Any:
        found = [torch.searchsorted(line, values), torch.searchsorted(line, values, right=True), torch.searchsorted(line, numbers)]
        found += [torch.searchsorted(rows, values, side=side) for side in ("left", "right")]
        return [*found, torch.bucketize(values, line), torch.bucketize(values, line[:40], right=True), torch.searchsorted(line, values[0, 0])]

    # Many are equal, and the values are among them, between them, outside, and no numbers.
    line = torch.arange(700.0).floor_divide(3).to(device)
    rows = torch.stack([line.cpu(), line.cpu() - 90.5]).to(device)
    values = torch.tensor([[-1.0, 0.0, 7.0, 7.5, 233.0], [234.0, float("nan"), -90.5, float("inf"), float("-inf")]]).to(device)
    return compiled(step)(line, rows, values, torch.tensor([0, 7, 500]).to(device))
