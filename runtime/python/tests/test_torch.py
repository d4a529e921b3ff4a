"""`torch.compile(backend="warpweft")` against eager PyTorch: values, gradients, fallbacks, strides, and PyTorch's own database of ops."""

import copy
import os
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")
opinfo = pytest.importorskip("opinfo")

from torch import nn  # noqa: E402
from warpweft.torch import counters  # noqa: E402

from compiled_programs import check  # noqa: E402

F = torch.nn.functional


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)
    counters(reset=True)


def compiled(model, **options):
    return torch.compile(model, backend="warpweft", **options)


def step(model, call, *args):
    """A result and the gradients of a step."""
    model.zero_grad()
    result = call(*args)
    (result * torch.linspace(-1, 1, result.numel()).reshape(result.shape)).sum().backward()
    return result, [parameter.grad for parameter in model.parameters()]


@pytest.mark.parametrize(
    "model, shape",
    [
        (nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4)), (5, 8)),
        (
            nn.Sequential(
                nn.Conv2d(3, 8, 3, padding=1, stride=2), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(32, 3)
            ),
            (2, 3, 8, 8),
        ),
        (
            nn.Sequential(nn.ConvTranspose2d(2, 4, 3, stride=2, output_padding=1), nn.SiLU(), nn.AvgPool2d(2), nn.GroupNorm(2, 4)),
            (2, 2, 5, 5),
        ),
        (nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True), (2, 6, 16)),
    ],
    ids=["perceptron", "convolutions", "transposed", "transformer"],
)
def test_a_training_step_is_eagers(model, shape):
    eager = copy.deepcopy(model)
    x = torch.randn(shape)
    found, gradients = step(model, compiled(model), x)
    expected, wanted = step(eager, eager, x)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    for one, other in zip(gradients, wanted):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)
    assert counters() == {"graphs": 2, "fallback_ops": {}}
    for (name, one), other in zip(model.named_buffers(), eager.buffers()):
        torch.testing.assert_close(one, other, msg=name)


def test_an_op_that_is_not_ours_is_pytorchs(caplog):
    def f(x):
        y = (x * 2).relu()
        return torch.linalg.eigvals(y).abs().sum() + y.exp().sum()

    x = torch.randn(3, 3)
    torch.testing.assert_close(compiled(f)(x), f(x), rtol=1e-4, atol=1e-4)
    assert counters() == {"graphs": 2, "fallback_ops": {"aten.linalg_eig.default": 1}}
    compiled(f)(x)
    lines = [record.message for record in caplog.records if record.name == "warpweft.torch"]
    assert len(lines) <= 1 and all("aten.linalg_eig.default is run by PyTorch" in line for line in lines)
    assert counters(reset=True) != counters()


def test_random_ops_draw_what_eager_draws():
    def f(x):
        return F.dropout(x.exp(), 0.5) + torch.rand_like(x)

    x = torch.randn(50)
    torch.manual_seed(5)
    expected = f(x)
    torch.manual_seed(5)
    found = compiled(f)(x)
    torch.testing.assert_close(found, expected)


DRAWS = {
    "bernoulli of chances": lambda x: torch.bernoulli(x.sigmoid()) * x,
    "bernoulli of chances in place": lambda x: x.exp().bernoulli_(x.sigmoid().double()) + x,
    # In place PyTorch traces it as the other one, so it draws in another order where elements do not lie in order.
    "bernoulli in place": lambda x: x.exp().contiguous().bernoulli_(0.3) + x,
    "bernoulli": lambda x: torch.bernoulli(x.exp(), 0.3) * x,
    "dropout": lambda x: F.dropout(x.exp(), 0.3) + F.dropout2d(x.exp(), 0.4) + F.alpha_dropout(x.exp().contiguous(), 0.5, True),
    "like": lambda x: torch.rand_like(x.exp()) + torch.randn_like(x.exp()) + torch.randint_like(x.exp(), 7) + torch.randint_like(x.exp(), -3, 7) + x,
    "in place": lambda x: x.exp().normal_(1, 2) + x.exp().uniform_(-1, 1) + x.exp().exponential_() + x.exp().log_normal_() + x.exp().cauchy_() + x.exp().geometric_(0.3),
    "normal": lambda x: torch.normal(x, x.exp()) + torch.normal(x, 0.5) + torch.normal(2.0, x.exp()),
    "gumbel": lambda x: F.gumbel_softmax(x.exp()),
    "places": lambda x: torch.multinomial(x.flatten(1).softmax(-1), 1) + x.flatten(1)[:, :1],
    "places, none of them twice": lambda x: x.flatten()[torch.multinomial(x.flatten().exp().double(), 5)],
    "attention": lambda x: F.scaled_dot_product_attention(x.exp(), x, x, dropout_p=0.3),
}  # fmt: skip


@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.parametrize("layout", ["rows", "columns"])
def test_what_is_drawn_for_a_function_does_not_cut_it(draw, layout):
    x = torch.randn(2, 5, 20, 3).to(memory_format=torch.contiguous_format if layout == "rows" else torch.channels_last)
    torch.manual_seed(5)
    expected = DRAWS[draw](x)
    torch.manual_seed(5)
    found = compiled(DRAWS[draw])(x)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    assert counters()["graphs"] == 1


def test_chances_that_are_none_are_refused():
    for chances in ([0.5, -0.1, 0.6], [0.0, 0.0, 0.0], [float("inf"), 1.0, 1.0]):
        torch._dynamo.reset()
        with pytest.raises(RuntimeError, match="probabilit"):
            compiled(lambda x: torch.multinomial(x, 1))(torch.tensor(chances))


def test_what_is_drawn_is_drawn_once_where_an_op_is_refused_behind_it():
    from torch.utils.checkpoint import checkpoint

    def f(x):
        # PyTorch's op for float64 is found out only when the function behind the draw is made.
        dropped = checkpoint(lambda x: F.dropout(x.sin(), 0.5), x, use_reentrant=False)
        return torch.lgamma(dropped.double() + 2) + F.dropout(x, 0.5)

    x = torch.randn(40, requires_grad=True)
    sides = []
    for call in (f, compiled(f)):
        torch.manual_seed(5)
        found = call(x)
        sides.append([found, *torch.autograd.grad(found.sum(), x), torch.rand(3)])
    for found, expected in zip(sides[1], sides[0]):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    assert counters()["fallback_ops"]["aten.lgamma.default"] == 1


def test_a_result_without_elements_can_be_made_larger():
    for call in (compiled(lambda x: x[:0] * 2), compiled(lambda x: (x[:0] * 2, x + 1))):
        for _ in range(2):
            found = call(torch.randn(3, 4))
            found = found if isinstance(found, torch.Tensor) else found[0]
            torch.cat([torch.ones(1, 4), torch.zeros(1, 4)], out=found)
            assert found.tolist() == [[1] * 4, [0] * 4]


def test_what_is_drawn_may_be_of_any_length():
    def f(x):
        return F.dropout(x.exp(), 0.3) + torch.bernoulli(x.sigmoid()) + torch.rand_like(x.exp())

    g = compiled(f, dynamic=True)
    for count in (3, 5, 8):
        x = torch.randn(count, 7)
        torch.manual_seed(count)
        expected = f(x)
        torch.manual_seed(count)
        torch.testing.assert_close(g(x), expected, rtol=1e-4, atol=1e-5)
    assert counters()["graphs"] == 1


def test_mutations_are_carried_out():
    def f(x, y):
        x.add_(y)
        x[1:] *= 2
        return x.sum()

    x, y = torch.randn(4), torch.randn(4)
    other = x.clone()
    torch.testing.assert_close(compiled(f)(x, y), f(other, y))
    torch.testing.assert_close(x, other)


def test_results_are_the_callers_own():
    f = compiled(lambda x: (x + 1, x + 1, x))
    x = torch.zeros(3)
    a, b, c = f(x)
    a.add_(5)
    assert b.tolist() == [1, 1, 1] and x.tolist() == [0, 0, 0] and c.tolist() == [0, 0, 0]
    again = f(x)
    assert again[0].tolist() == [1, 1, 1]


def test_strides_are_eagers():
    x = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    f = lambda x: x.relu() * 2  # noqa: E731
    assert compiled(f)(x).stride() == f(x).stride()
    g = lambda x: (x + 1).transpose(0, 1)  # noqa: E731
    y = torch.randn(3, 4)
    torch.testing.assert_close(compiled(g)(y), g(y))


def test_an_index_that_names_nothing_is_no_other_one():
    """Eager PyTorch refuses these; a kernel reads 0, or stores nothing."""
    x, beyond, negative = torch.ones(2, 5), torch.tensor([-7, -5, 4]), torch.tensor([[-1, 0], [4, -5]])
    assert compiled(lambda x, i: x[:, i])(x, beyond).tolist() == [[0, 1, 1]] * 2
    assert compiled(lambda x, i: x.gather(1, i))(x, negative).tolist() == [[0, 1], [1, 0]]
    added = compiled(lambda x, i: x.scatter_add(1, i, torch.ones(2, 2)))(x, negative)
    assert added.tolist() == [[2, 1, 1, 1, 1], [1, 1, 1, 1, 2]]


def test_lengths_may_change():
    f = compiled(lambda x: x.cumsum(0) / x.shape[0], dynamic=True)
    for count in (3, 5, 1, 8):
        x = torch.randn(count, 2)
        torch.testing.assert_close(f(x), x.cumsum(0) / count)


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.int32, torch.int64, torch.uint8, torch.bool]
)
def test_types_of_elements(dtype):
    x = (torch.randn(4, 5) * 4).to(dtype)
    f = lambda x: (x + x, x * x, x.sum(0), x > 1, x[:, 1:3], torch.cat([x, x]))  # noqa: E731
    for found, expected in zip(compiled(f)(x), f(x)):
        torch.testing.assert_close(found, expected)
    assert counters()["fallback_ops"] == {}


QUICK = "add baddbmm cat clamp cumsum gather index_put masked_fill matmul max.reduction_with_dim nn.functional.conv2d nn.functional.gelu \
nn.functional.layer_norm nn.functional.max_pool2d scatter_reduce.amax softmax sort std topk where".split()  # fmt: skip


@pytest.mark.parametrize("entry", [entry for entry in opinfo.entries() if opinfo.full_name(entry) in QUICK], ids=opinfo.full_name)
def test_samples_of_pytorchs_database(entry):
    with torch.no_grad():
        assert opinfo.judged(entry, 3) == ("passes", "")


DERIVED = "index_select linalg.det linalg.solve logsumexp matmul nn.functional.adaptive_max_pool2d nn.functional.avg_pool2d nn.functional.conv2d \
nn.functional.embedding nn.functional.layer_norm nn.functional.scaled_dot_product_attention softmax".split()  # fmt: skip


@pytest.mark.parametrize("entry", [entry for entry in opinfo.entries() if opinfo.full_name(entry) in DERIVED], ids=opinfo.full_name)
def test_gradients_of_samples_of_pytorchs_database(entry):
    assert opinfo.judged(entry, 2, backward=True)[0] in ("passes", "falls back")


def test_the_table_of_all_entries_has_no_wrong_one():
    lines = opinfo.known(opinfo.TABLE)
    statuses = [opinfo.status_of(line) for line in lines.values()]
    assert set(lines) == {opinfo.full_name(entry) for entry in opinfo.entries()}
    assert "wrong" not in statuses and statuses.count("passes") >= 600


def test_numbers_that_come_from_values_are_not_fixed():
    f = torch.compile(lambda x, y: x.sum().int().item() * y, backend="warpweft")
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        for k in range(3):
            x, y = torch.arange(4.0) * k, torch.randn(3)
            torch.testing.assert_close(f(x, y), x.sum().int().item() * y)


def test_parameters_are_read_at_each_call():
    w = nn.Parameter(torch.ones(3))
    f, x = compiled(lambda x: x * w), torch.randn(3)
    f(x)
    with torch.no_grad():
        w.mul_(2)
    torch.testing.assert_close(f(x), x * 2)


def test_parameters_are_bound_once(monkeypatch):
    from warpweft.torch import _calls

    crossed = []
    monkeypatch.setattr(_calls, "_to_dlpack", lambda tensor: crossed.append(tensor) or torch._C._to_dlpack(tensor))
    model, x = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)), torch.randn(2, 4)
    f = compiled(model)
    with torch.no_grad():
        f(x)
        assert len(crossed) == 4  # when the graph had run once
        for _ in range(3):
            crossed.clear()
            torch.testing.assert_close(f(x), model(x))
            assert [tensor.shape for tensor in crossed] == [x.shape]
            model[0].weight.mul_(2)
        # Other memory, the same memory in another order, another parameter.
        model[0].weight.data = torch.randn(4, 4)
        torch.testing.assert_close(f(x), model(x))
        model[0].weight.data = model[0].weight.data.t()
        torch.testing.assert_close(f(x), model(x))
        model[1].weight = nn.Parameter(torch.randn(4, 4))
        torch.testing.assert_close(f(x), model(x))
    assert counters()["fallback_ops"] == {}


def test_a_bound_parameter_is_not_kept():
    from weakref import ref

    w = nn.Parameter(torch.ones(3))
    graph = graph_of(lambda x, w: [x * w], torch.ones(3), w)
    for _ in range(2):
        assert graph(torch.ones(3), w)[0].tolist() == [1, 1, 1]
    assert graph.direct is not None
    ended = ref(w)
    del w
    assert ended() is None
    assert graph(torch.ones(3), nn.Parameter(torch.full((3,), 2.0)))[0].tolist() == [2, 2, 2]


def graph_of(function, *inputs):
    """The graph of a function as AOTAutograd gives it."""
    from torch.fx.experimental.proxy_tensor import make_fx
    from warpweft.torch._graph import Graph

    with torch.no_grad():
        return Graph(make_fx(function)(*[x.detach() for x in inputs]))


def test_complex_numbers_cross():
    f = lambda x: torch.fft.irfft(torch.fft.rfft(x)[..., :3], n=8)  # noqa: E731
    x = torch.randn(2, 8)
    torch.testing.assert_close(compiled(f)(x), f(x))
    g = lambda x: torch.fft.fft(x).conj()  # noqa: E731
    torch.testing.assert_close(compiled(g)(x), g(x).resolve_conj())
    assert counters()["fallback_ops"] == {}


@pytest.mark.parametrize("start", range(0, 48, 16))
def test_random_programs_of_views_and_writes_are_eagers(start):
    judged = [check(seed) for seed in range(start, start + 16)]
    assert sum(judged) >= 10


def test_results_that_are_views_share_memory_with_what_they_are_views_of():
    def parts(x):
        y = x * 2
        return y, y[1:], x[:, 1:]

    x = torch.arange(6.0).reshape(2, 3)
    whole, rows, columns = compiled(parts)(x)
    rows.zero_()
    columns.fill_(7)
    assert whole.tolist() == [[0.0, 2.0, 4.0], [0.0, 0.0, 0.0]]
    assert x.tolist() == [[0.0, 7.0, 7.0], [3.0, 7.0, 7.0]]
    assert not counters()["fallback_ops"]


@pytest.mark.parametrize("dynamic", [None, True])
def test_a_write_to_one_argument_is_seen_by_another_that_shares_its_memory(dynamic):
    def update(x, y):
        x.mul_(2)
        y.add_(1)
        return x + 1, y * 2

    def call(function):
        x = torch.arange(6.0)
        found = function(x, x[::2])
        return [x.tolist(), *(result.tolist() for result in found)]

    assert call(compiled(update, dynamic=dynamic)) == call(update)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.clamp(-1, 4),
        lambda x: x.clamp(2, 300),
        lambda x: x / 300,
        lambda x: x.clamp_min(-5),
        lambda x: torch.add(x, 300),
    ],
)
def test_numbers_beyond_the_type_of_integers_count_as_in_eager(function):
    x = torch.tensor([0, 3, 200, 255], dtype=torch.uint8)
    torch.testing.assert_close(compiled(function)(x), function(x))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_numbers_beside_halves_are_not_rounded_to_halves_first(dtype):
    x = torch.linspace(-4, 4, 999).to(dtype)

    def scaled(x):
        return x * 0.1234567, x / 3.3333, F.leaky_relu(x, 0.0123), torch.addcmul(x, x, x, value=0.123456)

    for found, wanted in zip(compiled(scaled)(x), scaled(x)):
        # Bit by bit.
        assert torch.equal(found, wanted)


ODD = {
    **{name: getattr(torch.special, name) for name in ("gammaln", "digamma", "erfcx", "log_ndtr", "i0e", "i1e")},
    **{name: getattr(torch.special, name) for name in ("bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1")},
    **{name: getattr(torch.special, name) for name in ("modified_bessel_k0", "modified_bessel_k1", "scaled_modified_bessel_k0", "scaled_modified_bessel_k1")},
    # At infinity PyTorch's are NaN.
    "polygamma": lambda x: torch.polygamma(2, x.clamp(max=50)),
    "zeta": lambda x: torch.special.zeta(x.abs().clamp(max=50) + 1.5, x.clamp(max=50)),
}  # fmt: skip


@pytest.mark.parametrize("name", ODD)
def test_special_functions_of_odd_numbers_are_eagers(name):
    x = torch.tensor([float("nan"), float("inf"), 0.0, 1e-30, 0.3, 1.0, 7.5, 30.25, float("nan"), 3.0])
    torch.testing.assert_close(compiled(ODD[name])(x), ODD[name](x), rtol=2e-5, atol=1e-6, equal_nan=True)
    assert counters()["fallback_ops"] == {}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_quantiles_of_small_shares_are_eagers(dtype):
    shares = torch.cat([2.0 ** -torch.arange(0, 140, 3, dtype=dtype), 1 - 2.0 ** -torch.arange(1, 24, dtype=dtype), torch.tensor([0.0, -1.0, 2.0, float("nan")], dtype=dtype)])
    for function in (torch.special.ndtri, torch.erfinv):
        torch.testing.assert_close(compiled(function)(shares), function(shares), equal_nan=True)
    assert counters()["fallback_ops"] == {}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_incomplete_gamma_functions_are_eagers(dtype):
    a = torch.tensor([0.1, 0.7, 1.0, 3.0, 9.0, 11.0, 40.0, 300.0, 1e5, 0.0, float("inf")], dtype=dtype)[:, None]
    x = torch.tensor([0.0, 0.05, 0.9, 2.0, 9.5, 12.0, 38.0, 300.0, 1.001e5, float("inf"), -1.0], dtype=dtype)
    for function in (torch.special.gammainc, torch.special.gammaincc):
        torch.testing.assert_close(compiled(function)(a, x), function(a, x), rtol=3e-5 if dtype == torch.float32 else 1e-8, atol=1e-9, equal_nan=True)
    assert counters()["fallback_ops"] == {}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_numbers_and_powers_of_two_are_taken_apart_and_put_together(dtype):
    least = torch.finfo(dtype).smallest_normal
    x = torch.tensor([1.0, -3.0, 0.0, 5e-324, least, least / 4, -least / 2 * 3, torch.finfo(dtype).max, float("inf"), float("nan"), 0.7], dtype=dtype)
    powers = torch.tensor([-5000, -2000, -1074, -300, -150, -25, -24, -1, 0, 1, 15, 16, 127, 128, 276, 1023, 1024, 2098, 5000])[:, None]
    for exponents in (powers, powers.int(), powers.clamp(-60, 60).float()):
        assert torch.equal(compiled(torch.ldexp)(x, exponents).nan_to_num(nan=-7), torch.ldexp(x, exponents).nan_to_num(nan=-7))
    for found, wanted in zip(compiled(torch.frexp)(x), torch.frexp(x)):
        assert torch.equal(found.nan_to_num(nan=-7), wanted.nan_to_num(nan=-7))
    assert counters()["fallback_ops"] == {}


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.float16, torch.int32, torch.float64])
def test_bytes_are_those_of_eager_as_elements_of_any_width(dtype):
    x = torch.randn(3, 8)
    assert torch.equal(compiled(lambda x: (x + 1).view(dtype))(x).view(torch.uint8), (x + 1).view(dtype).view(torch.uint8))


def test_arguments_of_any_dense_strides_are_not_copied():
    program = """
import torch, warpweft.torch
double = torch.compile(lambda x, y: x * 2 + y.t(), backend=warpweft.torch.backend)
double(torch.randn(6, 8).t(), torch.randn(6, 8))
{}
"""
    environment = {**os.environ, "WARPWEFT_DEBUG": "1", "CACHELEVEL": "0"}
    # What lies with gaps is copied by a kernel of its own, beside the one of its function.
    for more, kernels in (("", 1), ("double(torch.randn(8, 12)[:, ::2], torch.randn(6, 8))", 3)):
        told = subprocess.run([sys.executable, "-c", program.format(more)], env=environment, capture_output=True, text=True, check=True)
        assert told.stderr.count("1 kernels in") == kernels, told.stderr


def test_bytes_are_resampled_as_in_eager():
    x = torch.randint(0, 256, (2, 3, 8, 9), dtype=torch.uint8)

    def resized(x):
        return F.interpolate(x, (5, 7), mode="bilinear")

    counters(reset=True)
    assert torch.equal(compiled(resized)(x), resized(x))
    # PyTorch weighs them by integers, so they are left to it.
    assert "aten.upsample_bilinear2d.default" in counters()["fallback_ops"]


@pytest.mark.parametrize("shape", [(17, 33, 8), (1, 64, 24), (20, 8, 16)])
def test_products_of_quantised_numbers_are_one_graph(shape):
    m, k, n = shape
    torch.manual_seed(0)
    a, b = (torch.randint(-128, 128, size, dtype=torch.int8) for size in ((m, k), (n, k)))
    counters(reset=True)
    compiled = torch.compile(lambda a, b: torch._int_mm(a, b.t()), backend="warpweft")
    found, exact = compiled(a, b), (a.double() @ b.t().double()).int()
    assert found.dtype == torch.int32 and torch.equal(found, exact)
    x, scales = torch.randn(m, k).bfloat16(), torch.rand(n).bfloat16()
    compiled = torch.compile(lambda x, w, s: torch.ops.aten._weight_int8pack_mm(x, w, s), backend="warpweft")
    expected = (x.double() @ b.t().double()) * scales.double()
    torch.testing.assert_close(compiled(x, b, scales).double(), expected, rtol=8e-3, atol=0.2)
    assert counters()["fallback_ops"] == {}


def test_compiled_programs_do_not_ask_the_device_for_streams():
    from torch._dynamo.variables import streams

    assert torch.accelerator.current_accelerator().type == "warpweft"
    assert not streams.SymbolicStreamState().cur_stream_stack
    double = torch.compile(lambda x: x * 2, backend="eager")
    torch.testing.assert_close(double(torch.arange(4.0)), torch.arange(4.0) * 2)


def test_a_function_of_free_tensors_alone_is_called_in_their_order():
    def program(x, y, z):
        return x - 2 * y, z * x

    compiled = torch.compile(program, backend="warpweft")
    for step in range(4):
        arguments = [torch.randn(5) + step for _ in range(3)]
        torch.testing.assert_close(compiled(*arguments), program(*arguments))


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("queries,keys", [(520, 520), (700, 500), (300, 700)])
def test_gradients_of_attention_by_blocks_of_queries_are_eagers(is_causal, queries, keys):
    from warpweft.torch._backwards import blocks_of_queries

    heads = 2 if is_causal else 24
    blocks = blocks_of_queries(2 * heads * 4, queries, keys, is_causal)
    assert blocks[0][0] == 0 and blocks[-1][1] == queries and all(a[1] == b[0] for a, b in zip(blocks, blocks[1:]))
    assert len(blocks) > 1 or not is_causal
    shapes = [(2, 4 * heads, length, 8) for length in (queries, keys, keys)]
    given = [torch.randn(shape, requires_grad=True) for shape in shapes]

    def f(*given):
        return F.scaled_dot_product_attention(*given, is_causal=is_causal)

    cotangent = torch.randn(shapes[0])
    expected = torch.autograd.grad(f(*given), given, cotangent)
    found = torch.autograd.grad(compiled(f)(*given), given, cotangent)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    assert not counters()["fallback_ops"]
