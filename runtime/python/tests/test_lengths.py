"""Lengths that change between calls of `torch.compile(backend="warpweft")`: one compiled function for all within bounds, seen in the counters; where an op needs numbers, one for
each. Values and shapes are eager PyTorch's.
"""

import copy

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from warpweft.torch import counters  # noqa: E402


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)
    counters(reset=True)


def compiled(model, **options):
    return torch.compile(model, backend="warpweft", **options)


LENGTHS = (4, 6, 15, 2, 9, 6)
FUNCTIONS = {
    "elements": lambda x: (x * 2).relu() + x.shape[0],
    "sums": lambda x: (x.sum(0), x.mean(1), x.amax()),
    "flat": lambda x: x.reshape(-1) * 2,
    "columns": lambda x: x.t().softmax(0),
    "made": lambda x: torch.zeros(x.shape[0], 2) + torch.ones(2 * x.shape[0] + 1).sum(),
    "mean by hand": lambda x: x.cumsum(0) / x.shape[0],
    "joined": lambda x: torch.cat([x, x[:1], x]),
    "all pairs": lambda x: (x[:, None] - x[None]).abs().sum(-1),
    "product": lambda x: x @ x.t(),
    "normalised": lambda x: nn.functional.layer_norm(x, (3,)),
    "variances": lambda x: (x.var(0), x.std(), x.var(1), torch.var_mean(x, 0, correction=0)[0], x.var((0, 1), keepdim=True)),
    "normalised by the batch": lambda x: nn.functional.batch_norm(x, None, None, training=True),
    "normalised by groups": lambda x: nn.functional.group_norm(x.t()[None], 3),
    "integers": lambda x: x.to(torch.int32) + x.shape[0],
    "truth": lambda x: (x > 0) * x.shape[0],
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_one_function_serves_all_lengths(name):
    function = FUNCTIONS[name]
    call = compiled(function, dynamic=True)
    for length in LENGTHS:
        x = torch.randn(length, 3)
        torch.testing.assert_close(call(x), function(x), rtol=1e-4, atol=1e-5)
    assert counters() == {"graphs": 1, "fallback_ops": {}}


COUNTS = {
    "taken from the end": lambda x: x.take(torch.tensor([-1, -2, 0])),
    "put at the end": lambda x: x.put(torch.tensor([-1, 1]), x[0, :2], accumulate=True),
    "put where a mask holds": lambda x: x.masked_scatter(x > 0, x.flip(0)),
    "reduced by places": lambda x: torch.zeros(3, 3).index_reduce(0, torch.arange(x.shape[0]) % 3, x, "amax"),
    "histogram": lambda x: torch.histc(x, 4, -1, 1),
    "places": lambda x: torch.nonzero_static(x > 0, size=5),
    "looked up": lambda x: nn.functional.embedding(torch.arange(x.shape[0]) % 2, x[:2]),
    "resized to sizes": lambda x: nn.functional.interpolate(x.t()[None], size=x.shape[0] * 2 - 1, mode="linear", align_corners=True),
    "resized to nearest": lambda x: nn.functional.interpolate(x[None, None], size=(x.shape[0] + 1, 5), mode="nearest"),
    "resized by factors": lambda x: nn.functional.interpolate(x[None, None], scale_factor=(1.5, 2), mode="bilinear"),
}


@pytest.mark.parametrize("name", COUNTS)
def test_numbers_of_elements_are_those_of_the_call(name):
    function = COUNTS[name]
    call = compiled(function, dynamic=True)
    for length in LENGTHS:
        x = torch.randn(length, 3)
        torch.testing.assert_close(call(x), function(x), rtol=1e-4, atol=1e-5)
    assert counters()["fallback_ops"] == {}


DIAGONALS = {
    "matrix of a diagonal": lambda x: torch.diag_embed(x, 1),
    "matrix of the elements": lambda x: torch.diagflat(x),
    "diagonal replaced": lambda x: (x[:, None] * x).diagonal_scatter(x + 1),
    "lower one replaced": lambda x: (x[:, None] * x).diagonal_scatter(x[1:], -1),
    "filled": lambda x: (x[:, None] * x).fill_diagonal_(2),
}


@pytest.mark.parametrize("name", DIAGONALS)
def test_diagonals_of_any_length(name):
    function = DIAGONALS[name]
    call = compiled(function, dynamic=True)
    for length in LENGTHS:
        x = torch.randn(length)
        torch.testing.assert_close(call(x), function(x), rtol=1e-4, atol=1e-5)
    assert counters()["fallback_ops"] == {}


def test_views_by_addresses_of_variables():
    def function(x):
        y = x * 2
        return y[1:].as_strided((2, 2), (1, 2)), y[x.shape[0] // 2 :].as_strided((2,), (1,)) + 1, y[2:2].as_strided((3,), (1,), 1)

    call = compiled(function, dynamic=True)
    for length in (6, 9, 4):
        x = torch.randn(length, 3)
        for found, expected in zip(call(x), function(x)):
            torch.testing.assert_close(found, expected)


def test_bounds_are_those_that_are_told():
    call = compiled(lambda x: x.exp().sum(1))
    for length in (20, 3, 40, 7):
        x = torch.randn(length, 3)
        torch._dynamo.mark_dynamic(x, 0, min=2, max=40)
        torch.testing.assert_close(call(x), x.exp().sum(1))
    assert counters()["graphs"] == 1


def test_a_sequence_of_any_length_attends():
    attend = nn.functional.scaled_dot_product_attention
    function = lambda x: attend(x[None, None], x[None, None], x[None, None], is_causal=True)  # noqa: E731
    call = compiled(function)
    for length in (9, 5, 30, 2):
        x = torch.randn(length, 8)
        torch._dynamo.mark_dynamic(x, 0, min=2, max=64)
        torch.testing.assert_close(call(x), function(x), rtol=1e-4, atol=1e-5)
    assert counters() == {"graphs": 1, "fallback_ops": {}}


def test_a_length_beyond_the_bounds_is_compiled_for():
    call = compiled(lambda x: x.exp().sum(1), dynamic=True)
    for length in (3, 16, 17, 2000, 30, 5):
        x = torch.randn(length, 3)
        torch.testing.assert_close(call(x), x.exp().sum(1))
    assert counters()["graphs"] == 3


def test_where_an_op_needs_numbers_there_is_a_function_for_each():
    def function(x):
        return x.sort(0)[0].view(2, -1).sum(0)

    call = compiled(function, dynamic=True)
    for length in (4, 6, 10, 6, 4):
        x = torch.randn(length, 3)
        torch.testing.assert_close(call(x), function(x))
    assert counters()["graphs"] <= 3


def assert_trains_alike(model, call, eager, x):
    """The gradients of a model by its compiled call are those of its copy that runs eagerly."""
    for one, run in ((model, call), (eager, eager)):
        one.zero_grad()
        run(x).square().mean().backward()
    for found, wanted in zip(model.parameters(), eager.parameters()):
        torch.testing.assert_close(found.grad, wanted.grad, rtol=1e-4, atol=1e-5)


def test_a_training_step_of_any_batch():
    model = nn.Sequential(nn.Linear(3, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 2))
    eager, call = copy.deepcopy(model), compiled(model, dynamic=True)
    for length in (5, 9, 2, 12):
        x = torch.randn(length, 3)
        assert_trains_alike(model, call, eager, x)
    assert counters() == {"graphs": 2, "fallback_ops": {}}


def test_two_lengths():
    function = lambda x, y: (x @ y).relu().sum(1) / y.shape[1]  # noqa: E731
    call = compiled(function, dynamic=True)
    for rows, columns in ((4, 5), (7, 3), (2, 9), (16, 16)):
        x, y = torch.randn(rows, 6), torch.randn(6, columns)
        torch.testing.assert_close(call(x, y), function(x, y), rtol=1e-4, atol=1e-5)
    assert counters()["graphs"] == 1


IMAGES = {
    "convolution": lambda x, w: nn.functional.conv2d(x, w, padding=1),
    "convolution, stride 2": lambda x, w: nn.functional.conv2d(x, w, stride=2, padding=1),
    "dilated": lambda x, w: nn.functional.conv2d(x, w, padding=2, dilation=2),
    "transposed": lambda x, w: nn.functional.conv_transpose2d(x, w, stride=2, padding=1),
    "largest": lambda x, w: nn.functional.max_pool2d(x, 3, 2, 1),
    "means": lambda x, w: nn.functional.avg_pool2d(x, 2),
    "all": lambda x, w: nn.functional.adaptive_avg_pool2d(x, 1),
}
SIZES = [(9, 12), (16, 8), (11, 11), (24, 30)]


@pytest.mark.parametrize("name", IMAGES)
def test_one_function_serves_images_of_all_sizes(name):
    function, weight = IMAGES[name], torch.randn(3, 3, 3, 3)
    call = compiled(function)
    for rows, columns in SIZES:
        x = torch.randn(2, 3, rows, columns)
        for axis in (2, 3):
            torch._dynamo.mark_dynamic(x, axis, min=6, max=32)
        torch.testing.assert_close(call(x, weight), function(x, weight), rtol=1e-4, atol=1e-5)
    assert counters() == {"graphs": 1, "fallback_ops": {}}


def test_a_training_step_on_images_of_any_size():
    layers = [nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 8, 3, padding=1), nn.GELU()]
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4))
    eager, call = copy.deepcopy(model), compiled(model)
    for rows, columns in SIZES:
        x = torch.randn(2, 3, rows, columns)
        for axis in (2, 3):
            torch._dynamo.mark_dynamic(x, axis, min=8, max=32)
        assert_trains_alike(model, call, eager, x)
    assert counters() == {"graphs": 2, "fallback_ops": {}}


def test_strides_of_results_are_eagers():
    function = lambda x: x.permute(2, 0, 1) + 1  # noqa: E731
    call = compiled(function, dynamic=True)
    for length in (4, 6, 3):
        x = torch.randn(length, 3, 5)
        assert call(x).stride() == function(x).stride()
        torch.testing.assert_close(call(x), function(x))
    assert counters()["graphs"] == 1


TRANSFORMS = {
    "divided by a root": lambda x: torch.fft.fft(x, dim=0, norm="ortho").real,
    "there and back": lambda x: torch.fft.ifft(torch.fft.fft(x, dim=0), dim=0).real,
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_of_any_length_are_as_exact_as_their_type(name):
    function = TRANSFORMS[name]
    call = compiled(function, dynamic=True)
    for length in LENGTHS:
        x = torch.randn(length, 3, dtype=torch.float64)
        torch.testing.assert_close(call(x), function(x), rtol=1e-13, atol=1e-13)
    assert counters() == {"graphs": 1, "fallback_ops": {}}
