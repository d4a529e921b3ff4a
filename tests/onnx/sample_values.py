"""Prints what PyTorch gives for the calls of tests/it/samples.rs: python sample_values.py (needs torch and numpy).

Images and grids are made of small formulas that the test repeats, so that only results are written down.
"""

import torch
import torch.nn.functional as F

torch.set_printoptions(precision=8, sci_mode=False, linewidth=200)


def numbers(count, step, of):
    return torch.tensor([((k * step + 3) % of) / of * 2 - 1 for k in range(count)], dtype=torch.float64)


def show(name, x):
    print(name, [round(v, 8) for v in x.reshape(-1).tolist()])


image = numbers(2 * 2 * 4 * 5, 7, 23).reshape(2, 2, 4, 5)
grid = (numbers(2 * 3 * 2 * 2, 5, 19) * 1.3).reshape(2, 3, 2, 2)
for mode in ["nearest", "bilinear", "bicubic"]:
    for padding in ["zeros", "border", "reflection"]:
        for align in [False, True]:
            x, g = image.clone().requires_grad_(), grid.clone().requires_grad_()
            y = F.grid_sample(x, g, mode=mode, padding_mode=padding, align_corners=align)
            cotangent = numbers(y.numel(), 11, 17).reshape(y.shape)
            dx, dg = torch.autograd.grad(y, [x, g], cotangent)
            show(f"{mode} {padding} {align}", torch.stack([y.sum(), (y * cotangent).sum(), (dx * image).sum(), (dg * grid).sum()]))
theta = numbers(2 * 2 * 3, 3, 13).reshape(2, 2, 3)
for align in [False, True]:
    show(f"affine {align}", F.affine_grid(theta, [2, 1, 2, 3], align))
x = numbers(7, 3, 11)
for mode in ["linear", "cubic"]:
    for size in [4, 10]:
        y = F.interpolate(x.reshape(1, 1, 1, 7), size=(1, size), mode="bi" + mode, align_corners=False)
        show(f"resample {mode} {size}", y)
        if size < 7:
            show(f"antialias {mode} {size}", F.interpolate(x.reshape(1, 1, 1, 7), size=(1, size), mode="bi" + mode, antialias=True))
matrices = torch.tensor([(k * k * 7 + k) % 31 / 15 - 1 for k in range(32)], dtype=torch.float64).reshape(2, 4, 4).requires_grad_()
d = torch.linalg.det(matrices)
(g,) = torch.autograd.grad(d.sum(), [matrices])
show("det", d)
show("det gradient", g)
z = torch.complex(numbers(6, 5, 13), numbers(6, 3, 7))
show("dft", torch.view_as_real(torch.fft.fft(z)))
show("inverse dft", torch.view_as_real(torch.fft.ifft(z)))
show("hann", torch.hann_window(5, dtype=torch.float64))
show("hamming", torch.hamming_window(5, periodic=False, dtype=torch.float64))
show("blackman", torch.blackman_window(6, periodic=False, dtype=torch.float64))
for gates, kind in [(1, torch.nn.RNN), (3, torch.nn.GRU), (4, torch.nn.LSTM)]:
    layer = kind(2, 3).double()
    shapes = [(3 * gates, 2), (3 * gates, 3), (3 * gates,), (3 * gates,)]
    for parameter, shape, step in zip(layer.parameters(), shapes, [5, 7, 3, 11]):
        parameter.data = numbers(torch.Size(shape).numel(), step, 13).reshape(shape)
    x = numbers(4 * 2 * 2, 3, 17).reshape(4, 2, 2).requires_grad_()
    y, last = layer(x)
    cotangent = numbers(y.numel(), 5, 11).reshape(y.shape)
    grads = torch.autograd.grad((y * cotangent).sum(), [x, *layer.parameters()])
    show(f"{kind.__name__} last", y[-1])
    if gates == 4:
        show("LSTM cell", last[1])
    show(f"{kind.__name__} gradients", torch.stack([(g * w).sum() for g, w in zip(grads, [x, *layer.parameters()])]))
for kind in [torch.nn.RNN, torch.nn.GRU, torch.nn.LSTM]:
    layer = kind(2, 3, num_layers=2, bidirectional=True).double()
    for number, parameter in enumerate(layer.parameters()):
        parameter.data = numbers(parameter.numel(), 2 * number + 5, 13).reshape(parameter.shape)
    x = numbers(4 * 2 * 2, 3, 17).reshape(4, 2, 2).requires_grad_()
    first = [numbers(4 * 2 * 3, step, 19).reshape(4, 2, 3) for step in (7, 8)][: 2 if kind is torch.nn.LSTM else 1]
    y, last = layer(x, tuple(first) if len(first) == 2 else first[0])
    cotangent = numbers(y.numel(), 5, 11).reshape(y.shape)
    grads = torch.autograd.grad((y * cotangent).sum(), [x, *layer.parameters()])
    show(f"stacked {kind.__name__} states", y[:, 0])
    show(f"stacked {kind.__name__} last", torch.stack([part.sum() for part in (last if len(first) == 2 else [last])]))
    show(f"stacked {kind.__name__} gradients", torch.stack([(g * w).sum() for g, w in zip(grads, [x, *layer.parameters()])]))
small = torch.tensor([0.0, -0.0, 0.3, -1.7, 17.0, 19.0, 449.0, 464.1, -600.0, 0.001, 0.0001, 60000.0, 70000.0, float("inf"), float("nan")])
for dtype in [torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz]:
    show(f"{dtype}", small.to(dtype).to(torch.float32))
