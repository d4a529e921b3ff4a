"""`torch.device("warpweft")`: views, writes, gradients, files and random numbers are those of the CPU; ops without an expression are counted."""

import copy
import io
import itertools
import pickle

import pytest

torch = pytest.importorskip("torch")
opinfo = pytest.importorskip("opinfo")

from device_programs import Program  # noqa: E402
from torch import nn  # noqa: E402
from warpweft.torch import counters  # noqa: E402

F = torch.nn.functional
DEVICE = torch.device("warpweft", 0)


@pytest.fixture(autouse=True)
def fresh():
    torch.manual_seed(0)
    counters(reset=True)


def numbers(*shape):
    """0, 1, 2 and so on."""
    count = torch.Size(shape).numel()
    return torch.arange(float(count)).reshape(shape).to(DEVICE)


def fallbacks():
    return counters()["fallback_ops"]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("start", range(0, 60, 10))
def test_random_programs_are_those_of_the_cpu(start):
    for seed in range(start, start + 10):
        Program(seed).run(25)


def test_a_tensor_says_where_it_is():
    x = torch.ones(2, 3, device="warpweft")
    assert x.device == DEVICE and x.is_warpweft and type(x) is torch.Tensor and not x.cpu().is_warpweft
    assert repr(x) == "tensor([[1., 1., 1.],\n        [1., 1., 1.]], device='warpweft:0')"
    assert x.tolist() == [[1.0] * 3] * 2 and x.warpweft() is x
    with pytest.raises(RuntimeError, match="one device"):
        torch.ones(2, device="warpweft:1")
    with pytest.raises(RuntimeError, match="same device"):
        x + torch.ones(2, 3)
    with pytest.raises(TypeError, match="can't convert warpweft"):
        x.numpy()
    assert (x * torch.tensor(2.0)).sum().item() == 12
    assert torch.warpweft.device_count() == 1


def test_views_share_and_copies_do_not():
    x = numbers(4, 6)
    v = x[1:3, ::2].t()
    assert v.shape == (3, 2) and v.stride() == (2, 6) and v.storage_offset() == 6 and not v.is_contiguous() and v._is_view()
    assert v._base is x and v.untyped_storage()._cdata == x.untyped_storage()._cdata
    c = v.contiguous()
    v.mul_(10)
    assert x[1].tolist() == [60, 7, 80, 9, 100, 11] and c.tolist() == [[6, 12], [8, 14], [10, 16]]
    with pytest.raises(RuntimeError, match="view size is not compatible"):
        v.view(6)
    with pytest.raises(RuntimeError, match="out of bounds"):
        x.as_strided((4, 7), (6, 1))
    assert v.reshape(6)._base is None and x.view(-1)._base is x
    diagonal = torch.as_strided(x, (4,), (7,))
    diagonal.fill_(-1)
    assert x.diagonal().tolist() == [-1] * 4
    assert fallbacks() == {}


def test_axes_in_any_order():
    host = torch.arange(120.0).reshape(2, 3, 4, 5)
    for order in itertools.permutations(range(4)):
        x, y = host.to(DEVICE).permute(order), host.clone().permute(order)
        found, expected = x * 2, y * 2
        assert found.stride() == expected.stride() and torch.equal(found.cpu(), expected) and torch.equal((found + 1).cpu(), expected + 1)
        x.copy_(found.flip(0))
        y.copy_(expected.flip(0))
        assert torch.equal(x._base.cpu(), y._base) and torch.equal(found.clone().cpu(), expected)


def test_a_write_is_not_seen_by_what_was_computed_before():
    x = numbers(5)
    y = x + 1
    z = x[1:] * 2
    x.zero_()
    assert y.tolist() == [1, 2, 3, 4, 5] and z.tolist() == [2, 4, 6, 8] and x.sum().item() == 0


def test_what_cpu_refuses_is_refused():
    x = numbers(6)
    for wrong in (
        lambda: x[1:].add_(x[:-1]),
        lambda: x[:1].expand(6).add_(1),
        lambda: x.add_(torch.ones(2, 6, device=DEVICE)),
        lambda: x.int().add_(1.5),
        lambda: torch.add(x, 1, out=torch.empty(6, dtype=torch.int32, device=DEVICE)),
        lambda: x.view(4),
        lambda: x @ torch.ones(5, device=DEVICE),
        lambda: x.copy_(torch.ones(5, device=DEVICE)),
    ):
        with pytest.raises(RuntimeError):
            wrong()
    assert x.tolist() == [0, 1, 2, 3, 4, 5]


def test_out_is_written_to_by_all_its_aliases():
    x, out = numbers(3), torch.zeros(2, 3, device=DEVICE)
    torch.exp(x, out=out[1])
    torch.testing.assert_close(out.cpu()[1], torch.arange(3.0).exp())
    empty = torch.empty(0, device=DEVICE)
    assert torch.add(x, x, out=empty) is empty and empty.tolist() == [0, 2, 4]
    values, indices = torch.zeros(2, device=DEVICE), torch.zeros(2, dtype=torch.int64, device=DEVICE)
    torch.max(numbers(2, 3), 1, out=(values, indices))
    assert values.tolist() == [2, 5] and indices.tolist() == [2, 2] and fallbacks() == {}


def test_other_types_of_the_same_bytes():
    x = torch.tensor([1.0, -2.0], device=DEVICE)
    bits = x.view(torch.int32)
    assert bits.tolist() == torch.tensor([1.0, -2.0]).view(torch.int32).tolist()
    bits[1] = 0x40000000
    assert x.tolist() == [1.0, 2.0] and x.view(torch.uint8).shape == (8,)
    z = torch.view_as_complex(torch.tensor([[1.0, 2.0]], device=DEVICE))
    z.conj().imag.add_(1)
    assert z.tolist() == [1 + 1j]


def test_storages_change_hands_and_grow():
    x = numbers(4)
    y = torch.empty(0, device=DEVICE).set_(x.untyped_storage(), 1, (3,), (1,))
    y += 1
    assert x.tolist() == [0, 2, 3, 4]
    x.resize_(6)
    x[4:] = 9
    assert x.tolist() == [0, 2, 3, 4, 9, 9] and y.tolist() == [2, 3, 4]
    z = numbers(3)
    z.data = x[:3]
    x.zero_()
    assert z.tolist() == [0, 0, 0]


def test_what_crosses_from_the_host_is_a_copy():
    host = torch.ones(3)
    x = host.to(DEVICE)
    host += 1
    back = x.cpu()
    x += 5
    assert x.tolist() == [6] * 3 and back.tolist() == [1] * 3
    host.copy_(x)
    assert host.tolist() == [6] * 3
    half = x.to("cpu", torch.float16)
    assert half.dtype == torch.float16 and torch.ones(2).to(DEVICE, torch.int8).dtype == torch.int8


def test_random_numbers_are_those_of_the_cpu():
    for draw in (
        lambda device: torch.randn(3, 4, device=device),
        lambda device: torch.rand(5, device=device),
        lambda device: torch.randint(0, 9, (4,), device=device),
        lambda device: torch.randperm(6, device=device),
        lambda device: F.dropout(torch.ones(20, device=device), 0.5),
        lambda device: torch.empty(3, device=device).uniform_(2, 3),
        lambda device: torch.bernoulli(torch.full((8,), 0.5, device=device)),
    ):
        torch.manual_seed(7)
        expected = draw("cpu")
        torch.manual_seed(7)
        torch.testing.assert_close(draw(DEVICE).cpu(), expected)
    state = torch.warpweft.get_rng_state()
    first = torch.rand(2, device=DEVICE)
    torch.warpweft.set_rng_state(state)
    assert torch.rand(2, device=DEVICE).tolist() == first.tolist()


def test_files_and_copies():
    x = numbers(2, 3)
    view = x[1]
    buffer = io.BytesIO()
    torch.save({"x": x, "view": view}, buffer)
    buffer.seek(0)
    found = torch.load(buffer)
    found["view"].zero_()
    assert found["x"].device == DEVICE and found["x"].tolist() == [[0, 1, 2], [0, 0, 0]]
    buffer.seek(0)
    assert torch.load(buffer, map_location="cpu")["x"].tolist() == x.tolist()
    twin, twins_view = copy.deepcopy([x, view])
    twins_view.zero_()
    assert twin.tolist() == [[0, 1, 2], [0, 0, 0]] and x[1].tolist() == [3, 4, 5]
    assert pickle.loads(pickle.dumps(x)).tolist() == x.tolist()
    model = nn.Linear(3, 2).to(DEVICE)
    other = nn.Linear(3, 2)
    other.load_state_dict(model.state_dict())
    torch.testing.assert_close(other.weight, model.weight.cpu())


def test_gradients_flow_through_views_and_writes():
    def f(x):
        y = x * 2
        y[0].mul_(3)
        y.t()[2] = x.sum()
        return (y.sin() * y).sum()

    x = torch.randn(3, 4)
    grads = []
    for device in ("cpu", DEVICE):
        leaf = x.clone().to(device).requires_grad_()
        f(leaf).backward()
        grads.append(leaf.grad.cpu())
    torch.testing.assert_close(*grads)
    leaf = x.to(DEVICE).requires_grad_()
    with pytest.raises(RuntimeError, match="leaf Variable"):
        leaf.add_(1)
    y = leaf.exp()
    loss = y.sum()
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()
    assert fallbacks() == {}


OPTIMIZERS = ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adamax", "NAdam"]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_do_what_they_do_on_the_cpu(name):
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.BatchNorm1d(8), nn.Linear(8, 2))
    models = [model, copy.deepcopy(model).to(DEVICE)]
    x, labels = torch.randn(6, 4), torch.tensor([0, 1, 1, 0, 1, 0])
    for each in models:
        optimizer = getattr(torch.optim, name)(each.parameters(), lr=0.01)
        device = next(each.parameters()).device
        for _ in range(4):
            optimizer.zero_grad()
            F.cross_entropy(each(x.to(device)), labels.to(device)).backward()
            optimizer.step()
    for one, other in zip(models[0].state_dict().values(), models[1].state_dict().values()):
        torch.testing.assert_close(other.cpu(), one, rtol=1e-4, atol=1e-5)
    assert fallbacks() == {}


def test_a_number_that_changes_by_the_step_is_not_compiled_each_time():
    from warpweft.torch._device import _dispatch

    x = numbers(4)
    for step in range(20):
        x = x * (1.0 + step / 100)
    found = _dispatch._numbers[(torch.ops.aten.mul.Tensor, 1)]
    assert len(found) == _dispatch._CONSTANTS
    expected = torch.arange(4.0)
    for step in range(20):
        expected = expected * (1.0 + step / 100)
    torch.testing.assert_close(x.cpu(), expected)


def test_nothing_is_computed_before_it_is_asked_for():
    from warpweft.torch._device import _memory

    x = numbers(8)
    y = x.exp().relu() + 1
    memory, _ = _memory.memory_of(y)
    assert not memory.value.is_realized
    y.sum().item()
    assert memory.value.is_realized
    for _ in range(2 * _memory._LONGEST):
        x = x + 1
    assert x[0].item() == 2 * _memory._LONGEST


def test_ops_without_an_expression_are_the_hosts():
    x = numbers(3, 3) + torch.eye(3, device=DEVICE)
    found = torch.linalg.eigvals(x)
    assert found.device == DEVICE and fallbacks() == {"aten._linalg_eigvals.default": 1}
    torch.testing.assert_close(found.cpu(), torch.linalg.eigvals(x.cpu()))
    assert counters(reset=True) != counters()
    with pytest.raises(NotImplementedError, match="strided"):
        x.to_sparse()


def test_functions_of_functions():
    x = torch.randn(3, 4)
    f = lambda row: (row.sin() * row).sum()  # noqa: E731
    torch.testing.assert_close(torch.vmap(torch.func.grad(f))(x.to(DEVICE)).cpu(), torch.vmap(torch.func.grad(f))(x))
    q = torch.randn(1, 2, 5, 8)
    expected = F.scaled_dot_product_attention(q, q, q, is_causal=True)
    torch.testing.assert_close(F.scaled_dot_product_attention(*[q.to(DEVICE)] * 3, is_causal=True).cpu(), expected)
    assert torch.zeros(2, device=DEVICE)[torch.tensor([1, 1])].shape == (2,)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_computes_in_the_types_of_the_cpu(dtype):
    x, y, wide = torch.randn(4, 4), torch.randn(4, 4), torch.randn(4, 4).double()
    sides = []
    for device in ("cpu", "warpweft"):
        a, b, c = (value.clone().to(device).requires_grad_() for value in (x, y, wide))
        with torch.autocast(device, dtype=dtype):
            product = a @ b
            found = [
                product,
                F.mse_loss(product, b),
                torch.cat([product, b]),
                product.softmax(-1),
                F.linear(c, c),
                product.sum() + b.exp().sum(),
            ]
            with torch.autocast(device, enabled=False):
                found.append(a @ b)
        sum(part.sum() for part in found).backward()
        sides.append([*found, a.grad, b.grad, c.grad])
    for one, other in zip(*sides):
        torch.testing.assert_close(other.cpu(), one, rtol=3e-2, atol=3e-2)
    assert fallbacks() == {}


QUICK = "add as_strided as_strided_scatter cat clamp cumsum expand fft.rfft gather index_put masked_fill matmul max.reduction_with_dim \
nn.functional.batch_norm nn.functional.conv2d nn.functional.layer_norm scatter_reduce.amax softmax sort std t topk unfold where".split()


@pytest.mark.parametrize("entry", [entry for entry in opinfo.entries() if opinfo.full_name(entry) in QUICK], ids=opinfo.full_name)
def test_samples_of_pytorchs_database(entry):
    with torch.no_grad():
        assert opinfo.judged(entry, 3, way=opinfo.on_device) == ("passes", "")


DERIVED = "index_select linalg.det logsumexp matmul nn.functional.conv2d nn.functional.embedding nn.functional.layer_norm softmax".split()


@pytest.mark.parametrize("entry", [entry for entry in opinfo.entries() if opinfo.full_name(entry) in DERIVED], ids=opinfo.full_name)
def test_gradients_of_samples_of_pytorchs_database(entry):
    assert opinfo.judged(entry, 2, backward=True, way=opinfo.on_device)[0] in ("passes", "falls back")


def test_the_table_of_all_entries_has_no_wrong_one():
    lines = opinfo.known(opinfo.DEVICE_TABLE).values()
    statuses = [opinfo.status_of(line) for line in lines]
    assert "wrong" not in statuses and statuses.count("passes") >= 595


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_networks_learn_what_they_learn_on_the_cpu(kind):
    model, x = kind(3, 4, 2, batch_first=True, bidirectional=True), torch.randn(2, 5, 3)
    sides = []
    for device in ("cpu", DEVICE):
        each = copy.deepcopy(model).to(device)
        result, _ = each(x.to(device))
        (result * torch.linspace(-1, 1, result.numel()).reshape(result.shape).to(device)).sum().backward()
        sides.append([result.detach(), *(parameter.grad for parameter in each.parameters())])
    for one, other in zip(*sides):
        torch.testing.assert_close(other.cpu(), one, rtol=1e-4, atol=1e-5)
    assert fallbacks() == {}


def test_compiled_functions_take_tensors_of_the_device():
    torch._dynamo.reset()
    model = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.BatchNorm1d(8), nn.Linear(8, 2))
    x = torch.randn(5, 4)
    sides = []
    for device, call in (("cpu", lambda module: module), (DEVICE, lambda module: torch.compile(module, backend="warpweft"))):
        each = copy.deepcopy(model).to(device)
        optimizer = torch.optim.SGD(each.parameters(), lr=0.1)
        compiled = call(each)
        for _ in range(2):
            optimizer.zero_grad()
            loss = compiled(x.to(device)).square().mean()
            loss.backward()
            optimizer.step()
        sides.append([loss.detach(), *each.state_dict().values()])
    for one, other in zip(*sides):
        torch.testing.assert_close(other.cpu(), one, rtol=1e-4, atol=1e-5)
    assert counters() == {"graphs": 2, "fallback_ops": {}}
    double = torch.compile(lambda x: (x[1:] * 2, x.t(), x.add_(1)), backend="warpweft")
    x = numbers(3, 2)
    part, turned, same = double(x)
    assert part.device == DEVICE and part.tolist() == [[4, 6], [8, 10]] and same.tolist() == [[1, 2], [3, 4], [5, 6]]
    x.zero_()
    assert turned.tolist() == [[0] * 3] * 2 and turned.stride() == (1, 2)


def test_modules_keep_their_parameters_when_they_move():
    model = nn.Sequential(nn.Embedding(6, 4), nn.Linear(4, 6, bias=False))
    model[1].weight = model[0].weight
    weight, expected = model[0].weight, copy.deepcopy(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model.to(DEVICE)
    assert model[1].weight is weight is model[0].weight and weight.device == DEVICE and isinstance(weight, nn.Parameter)
    labels = torch.tensor([1, 2, 2])
    other = torch.optim.SGD(expected.parameters(), lr=0.1)
    for module, each, device in ((model, optimizer, DEVICE), (expected, other, "cpu")):
        F.cross_entropy(module(labels.to(device)), labels.to(device)).backward()
        each.step()
    torch.testing.assert_close(weight.cpu(), expected[0].weight)
    torch.testing.assert_close(weight.grad.cpu(), expected[0].weight.grad)
    model.cpu()
    assert model[1].weight is weight and weight.device.type == "cpu" and weight.grad.device.type == "cpu"
    model.to(torch.float64).to(DEVICE).to(DEVICE)
    assert weight.dtype == torch.float64 and weight.device == DEVICE


def test_what_is_rolled_lies_in_memory_as_on_the_cpu():
    for x in (torch.arange(12.0).reshape(3, 4), torch.arange(12.0).reshape(3, 4).t(), torch.arange(24.0).reshape(2, 3, 4).transpose(0, 2)):
        for shift, axis in ((1, 0), (-1, 1), (5, -1)):
            wanted, found = x.roll(shift, axis), x.to("warpweft").roll(shift, axis)
            assert (found.stride(), found.cpu().tolist()) == (wanted.stride(), wanted.tolist())


def test_batch_norm_keeps_nothing_for_the_gradient_in_evaluation():
    x, mean, variance = torch.randn(4, 2), torch.randn(2), torch.rand(2) + 1
    arguments = [x, None, None, mean, variance, False, 0.1, 1e-5]
    wanted = torch.native_batch_norm(*arguments)
    found = torch.native_batch_norm(*(value.to("warpweft") if isinstance(value, torch.Tensor) else value for value in arguments))
    for one, other in zip(found, wanted):
        torch.testing.assert_close(one.cpu(), other)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_a_loss_by_chunks_computes_halves_as_precisely_as_on_the_cpu(dtype, reduction):
    options = torch.nn.LinearCrossEntropyOptions(batch_chunk_size=4)
    x, weight, labels = torch.randn(16, 8).to(dtype) * 3, torch.randn(64, 8).to(dtype), torch.randint(0, 64, (16,))
    x[:4] += weight[labels[:4]] * 2  # losses near 0, of which halves lose most
    sides = []
    for device, type in (("cpu", dtype), (DEVICE, dtype), ("cpu", torch.float64)):
        given = [value.to(type).to(device).detach().requires_grad_() for value in (x, weight)]
        loss = F.linear_cross_entropy(*given, labels.to(device), options=options, reduction=reduction)
        loss.sum().backward()
        sides.append([loss.detach().cpu(), *(value.grad.cpu() for value in given)])
    for theirs, ours, right in zip(*sides):
        error = (theirs - right).abs().max()
        assert (ours - right).abs().max() <= 2 * error + torch.finfo(dtype).tiny


@pytest.mark.parametrize("way", ["plain", "compiled", "exported"])
def test_modules_move_that_somebody_refers_to(way):
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    x = torch.randn(2, 3)
    if way == "exported":
        model = torch.export.export(model, (x,)).module()
    call = torch.compile(model, backend="warpweft") if way == "compiled" else model
    call(x).sum().backward()
    expected, gradients = call(x), [parameter.grad.clone() for parameter in model.parameters()]
    kept = call(x)  # graphs of both live on
    for device in (DEVICE, "cpu", DEVICE):
        parameters = list(model.parameters())
        model.to(device)
        assert all(one is other for one, other in zip(parameters, model.parameters()))
        model.zero_grad()
        found = call(x.to(device))
        found.sum().backward()
        torch.testing.assert_close(found.cpu(), expected)
        for parameter, gradient in zip(model.parameters(), gradients):
            torch.testing.assert_close(parameter.grad.cpu(), gradient)
    with pytest.raises(RuntimeError, match="moved to another device between forward and backward"):
        kept.sum().backward()


@pytest.mark.filterwarnings("ignore")
def test_windows_are_those_of_the_cpu():
    for periodic in (True, False):
        expected = torch.kaiser_window(7, periodic, beta=5.0)
        found = torch.kaiser_window(7, periodic, beta=5.0, device="warpweft")
        assert found.device.type == "warpweft"
        torch.testing.assert_close(found.cpu(), expected)
    torch.testing.assert_close(torch.kaiser_window(4, device="warpweft").cpu(), torch.kaiser_window(4))


@pytest.mark.parametrize("of", ["images", "weights", "both"])
def test_convolutions_lie_in_memory_as_on_the_cpu(of):
    last = torch.channels_last
    x, weight = torch.randn(2, 4, 5, 6), torch.randn(4, 4, 3, 3)
    x = x if of == "weights" else x.to(memory_format=last)
    weight = weight if of == "images" else weight.to(memory_format=last)
    calls = [F.conv2d, lambda x, w: F.conv2d(x, w, stride=2, padding=1).relu(), lambda x, w: F.conv2d(x, w[:, :2], groups=2)]
    for call in calls:
        expected, found = call(x, weight), call(x.to("warpweft"), weight.to("warpweft"))
        assert found.stride() == expected.stride()
        torch.testing.assert_close(found.cpu(), expected, rtol=1e-4, atol=1e-5)


def test_equal_tensors_are_told_without_the_host():
    x = torch.arange(6.0, device="warpweft").reshape(2, 3)
    counters(reset=True)
    assert torch.equal(x, x.clone()) and not torch.equal(x, x + 1) and not torch.equal(x, x[:1])
    y = torch.zeros(5, device="warpweft", dtype=torch.float64)
    y.index_fill_(0, torch.tensor([1, 3], device="warpweft"), x.double().sum())
    assert y.tolist() == [0, 15, 0, 15, 0]
    assert counters()["fallback_ops"] == {}


def test_what_a_compiled_function_leaves_is_run_as_it_is():
    """Dynamo compiles what it meets outside of graphs, but nothing of the package: of the device's ops it would make graphs over tensors without elements."""
    torch._dynamo.reset()
    model, x = nn.GRU(3, 4, batch_first=True), torch.randn(2, 5, 3)
    expected, _ = model(x)
    found, _ = torch.compile(model.to(DEVICE), backend="warpweft")(x.to(DEVICE))
    torch.testing.assert_close(found.cpu(), expected)
    assert fallbacks() == {}
    chances, words = torch.randn(7, 2, 5), torch.tensor([[1, 2, 2], [3, 1, 0]])
    lengths = torch.tensor([7, 6]), torch.tensor([3, 2])
    loss = lambda x: F.ctc_loss(x.log_softmax(-1), words.to(x.device), *(each.to(x.device) for each in lengths))
    torch.testing.assert_close(torch.compile(loss, backend="warpweft")(chances.to(DEVICE)).cpu(), loss(chances))
    graphs = counters()["graphs"]
    assert graphs <= 2 and set(fallbacks()) == {"aten._ctc_loss.default"}


NORMS = {
    "layer_norm": lambda x: F.layer_norm(x, x.shape[-1:]),
    "batch_norm": lambda x: F.batch_norm(x, torch.zeros(x.shape[1]).to(x.device), torch.ones(x.shape[1]).to(x.device), training=False),
    "batch_norm_in_training": lambda x: F.batch_norm(x, None, None, training=True),
    "dropout_backward": lambda x: torch.ops.aten.native_dropout_backward(x, x > 0, 2.0),
}


@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize("x", [torch.randn(4, 3, 5).transpose(0, 2), torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)])
def test_results_of_norms_have_the_strides_of_kernels(name, x):
    found, wanted = NORMS[name](x.to("warpweft")), NORMS[name](x)
    assert found.stride() == wanted.stride()
    torch.testing.assert_close(found.cpu(), wanted)


def test_unsafe_parts_share_memory():
    x = torch.arange(6.0).to("warpweft")
    for part in (*torch.unsafe_split(x, 2), *torch.unsafe_chunk(x, 2), *torch.ops.aten.unsafe_split_with_sizes(x, [1, 5])):
        part += 1
    assert x.tolist() == [3, 4, 5, 6, 7, 8]
