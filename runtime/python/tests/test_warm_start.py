"""What AOTAutograd made of a program is found by the next process: the same values, the same counters, and nothing of it made again. Where it is damaged, another's, or not to be kept,
programs are compiled as without it.

Each process runs all of `warm_programs`.
"""

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch._functorch._aot_autograd.autograd_cache")

import warm_programs  # noqa: E402
from torch._dynamo.utils import counters as of_torch  # noqa: E402
from warpweft.torch import _keys, _packed, _warm, counters  # noqa: E402

HERE = Path(__file__).parent
# Not kept: graphs in graphs, and what has effects.
NEVER = {"branches": {"bypass"}, "solved": {"miss", "bypass"}}


def run(folder, *arguments, program=str(HERE / "warm_programs.py"), **more):
    environment = {**os.environ, "WARPWEFT_CACHE_DIR": str(folder), "TORCHINDUCTOR_CACHE_DIR": str(folder / "of-torch"), **more}
    environment.pop("CACHELEVEL", None) if "CACHELEVEL" not in more else None
    told = subprocess.run([sys.executable, program, *arguments], env=environment, capture_output=True, text=True)
    assert told.returncode == 0, told.stderr
    # A line of our own for each op that is left to PyTorch, and no word of caches.
    assert not [line for line in told.stderr.splitlines() if "is run by PyTorch" not in line], told.stderr
    return json.loads(told.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def cold(folder):
    return run(folder)


def states(told):
    return {name: set(program["cache"]) for name, program in told.items()}


def same(told, cold, *without):
    for name in told.keys() - set(without):
        assert told[name]["values"] == cold[name]["values"], name
        assert told[name]["counters"] == cold[name]["counters"], name


def test_first_process_makes_and_keeps(cold):
    assert states(cold) == {name: NEVER.get(name, {"miss", "saved"}) for name in cold}
    assert cold["left_to_torch"]["counters"]["fallback_ops"] and cold["dropout"]["counters"]["fallback_ops"]


def test_next_process_finds_all_and_computes_the_same(folder, cold):
    # Two views of one memory in place of two tensors: what was kept of those is not for these.
    warm = run(folder, "together")
    assert states(warm) == {name: NEVER.get(name, set() if name == "updated" else {"hit"}) for name in cold}
    same(warm, cold, "updated")
    assert warm["updated"]["values"] != cold["updated"]["values"]


def test_damage_is_made_again(folder, cold):
    files = [path for path in (folder / "graphs").rglob("*") if path.is_file()]
    assert len(files) == len(cold) - len(NEVER)
    for number, path in enumerate(files):
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes((data, data[: len(data) // 3], b"")[number % 3])
    again = run(folder)
    assert states(again) == states(cold)
    same(again, cold)


def test_nothing_is_kept_with_the_cache_off(tmp_path, cold):
    for variable in ("CACHELEVEL", "WARPWEFT_CACHELEVEL"):
        assert _folder_with({variable: "0", "CACHE_DIR": "/c"}) is None
    told = run(tmp_path, "conv", "training", WARPWEFT_CACHELEVEL="0")
    assert not any(map(set, states(told).values())) and not (tmp_path / "graphs").exists()
    same(told, cold)


PRECOMPILED = """
import json, sys, torch, warpweft.torch
from torch._dynamo.utils import counters as of_torch
sys.path.insert(0, {here!r})
from small_model import model
torch.manual_seed(0)
module, x = model(), torch.randn(2, 5)
with torch.no_grad():
    expected = module(x)
    found = torch.compile(module, backend="warpweft")(x)
torch.testing.assert_close(found, expected)
if "keep" in sys.argv:
    torch.compiler.save_cache_artifacts()
print(json.dumps([of_torch["stats"].get("unique_graphs", 0), warpweft.torch.counters()["graphs"]]))
"""
SMALL = """
import torch
def model():
    return torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.ReLU(), torch.nn.Linear(7, 3)).eval()
"""


def test_precompiled_programs_are_not_traced_again(tmp_path):
    (tmp_path / "small_model.py").write_text(SMALL)
    (tmp_path / "program.py").write_text(PRECOMPILED.format(here=str(tmp_path)))
    environment = {"TORCH_CACHING_PRECOMPILE": "1", "TORCH_LOGS": "-all"}
    found = [run(tmp_path, *more, program=str(tmp_path / "program.py"), **environment) for more in (["keep"], [])]
    assert found == [[1, 1], [0, 1]]


def _folder_with(variables):
    with pytest.MonkeyPatch.context() as patch:
        for name in ("CACHELEVEL", "CACHE_DIR", "XDG_CACHE_HOME", "HOME"):
            patch.delenv(name, raising=False)
            patch.delenv(f"WARPWEFT_{name}", raising=False)
        for name, value in variables.items():
            patch.setenv(name, value)
        return _warm.folder()


def test_folder_is_the_one_of_kernels():
    assert _folder_with({"HOME": "/home/a"}) == Path("/home/a/.cache/warpweft/graphs")
    assert _folder_with({"HOME": "/home/a", "XDG_CACHE_HOME": "/x", "CACHELEVEL": "1"}) == Path("/x/warpweft/graphs")
    assert _folder_with({"CACHE_DIR": "/c"}) == Path("/c/warpweft/graphs")
    assert _folder_with({"CACHE_DIR": "/c", "WARPWEFT_CACHE_DIR": "/w"}) == Path("/w/graphs")
    assert _folder_with({"CACHE_DIR": "redis://c", "HOME": "/home/a"}) == Path("/home/a/.cache/warpweft/graphs")
    assert _folder_with({}) is None


@pytest.fixture
def own_folder(tmp_path, monkeypatch):
    """A folder for what this process keeps."""
    monkeypatch.setenv("WARPWEFT_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("WARPWEFT_CACHELEVEL", raising=False)
    monkeypatch.delenv("CACHELEVEL", raising=False)
    torch._dynamo.reset()
    of_torch.clear()
    return tmp_path / "graphs"


def seen():
    """What PyTorch's cache did since this was asked last."""
    found = {name.removeprefix("autograd_cache_") for name in of_torch["aot_autograd"] if "cache" in name}
    of_torch.clear()
    torch._dynamo.reset()
    return found


def double(x):
    return x * 2 + x.sum()


def call(function=double, x=None, **options):
    x = torch.ones(3) if x is None else x
    assert torch.equal(torch.compile(function, backend="warpweft", **options)(x), function(x))
    return seen()


def test_settings_are_as_before(own_folder):
    from torch._functorch import config
    from torch._functorch._aot_autograd import autograd_cache

    def settings():
        cache = autograd_cache.AOTAutogradCache
        return config.save_config(), autograd_cache.autograd_cache_key, vars(cache)["_get_tmp_dir_for_key"], torch.compiler.config.save_config()

    before = settings()
    assert call() == {"miss", "saved"} and settings() == before
    assert call() == {"hit"} and settings() == before
    with pytest.raises(RuntimeError):
        torch.compile(lambda x: x @ torch.ones(4), backend="warpweft")(torch.ones(3))
    assert settings() == before


@pytest.mark.parametrize("name", ["version", "autocast", "default type", "tag"])
def test_what_a_graph_depends_on_is_in_the_key(own_folder, monkeypatch, name):
    assert call() == {"miss", "saved"}
    if name == "version":
        monkeypatch.setattr(_keys, "version", lambda: "another")
        assert call() == {"miss", "saved"}
    elif name == "autocast":
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert call() == {"miss", "saved"}
    elif name == "default type":
        torch.set_default_dtype(torch.float64)
        try:
            assert call(x=torch.ones(3, dtype=torch.float32)) == {"miss", "saved"}
        finally:
            torch.set_default_dtype(torch.float32)
    else:
        with torch.compiler.config.patch(cache_key_tag="another"):
            assert call() == {"miss", "saved"}
    monkeypatch.undo()
    monkeypatch.setenv("WARPWEFT_CACHE_DIR", str(own_folder.parent))
    assert call() == {"hit"}


def test_entries_of_others_are_made_again(own_folder, monkeypatch):
    from torch._inductor.codecache import sha256_hash

    assert call() == {"miss", "saved"}
    (path,) = (path for path in own_folder.rglob("*") if path.is_file())
    folder = path.parent
    path.unlink()
    content = pickle.dumps({"another": "entry"})
    (folder / sha256_hash(content)).write_bytes(content)
    assert "hit" not in call()


def test_another_version_is_not_read(own_folder, monkeypatch):
    from warpweft.torch import _kept

    graph = torch.fx.Graph()
    graph.output(graph.create_node("placeholder", "x"))
    kept = pickle.dumps(_kept.KeptGraph(_packed.Restored(graph), _kept.FORWARD))
    assert pickle.loads(kept).kind == _kept.FORWARD
    monkeypatch.setattr(_keys, "version", lambda: "another")
    with pytest.raises(_kept.Stale):
        pickle.loads(kept)


def test_ops_of_programs_are_not_kept(own_folder):
    @torch.library.custom_op("warpweft_tests::tripled", mutates_args=())
    def tripled(x: torch.Tensor) -> torch.Tensor:
        return x * 3

    tripled.register_fake(torch.empty_like)
    assert call(lambda x: tripled(x) + 1) == set()


def test_folders_that_others_may_write_to_are_not_read(own_folder):
    assert call() == {"miss", "saved"}
    own_folder.chmod(0o777)
    assert call() == set()
    own_folder.chmod(0o700)
    assert call() == {"hit"}


def test_other_torch_compiles_without(own_folder, monkeypatch):
    monkeypatch.delattr("torch._functorch._aot_autograd.autograd_cache.AOTAutogradCache._get_tmp_dir_for_key")
    assert call() == set()


def test_what_is_used_least_is_removed(own_folder, monkeypatch):
    assert call() == {"miss", "saved"}
    monkeypatch.setattr(_warm, "_MOST_BYTES", 1)
    monkeypatch.setattr(_warm, "_NOW_AND_THEN", 1)
    assert call(lambda x: x - 1) == {"miss", "saved"}
    assert not list(own_folder.iterdir())


def test_a_graph_that_fails_to_be_read_is_made(own_folder, monkeypatch):
    assert call() == {"miss", "saved"}
    counters(reset=True)

    def unpacked(data):
        raise ValueError("not these bytes")

    monkeypatch.setattr(_packed, "unpacked", unpacked)
    assert "hit" not in call()
    assert counters() == {"graphs": 1, "fallback_ops": {}}


def test_bytes_tell_all_of_a_graph():
    told = []

    def check(module, example_inputs):
        restored = _packed.unpacked(_packed.packed(module))
        for node, again in zip(module.graph.nodes, restored.graph.nodes, strict=True):
            assert (node.op, str(node.args), str(node.kwargs)) == (again.op, str(again.args), str(again.kwargs))
            assert node.op != "call_function" or node.target is again.target
            told.append((described(node.meta.get("val")), described(again.meta.get("val"))))
        return module.forward

    from torch._dynamo.backends.common import aot_autograd
    from functorch.compile import make_boxed_func

    backend = aot_autograd(fw_compiler=lambda *given: make_boxed_func(check(*given)))
    for program in warm_programs.PROGRAMS:
        if program.__name__ not in NEVER:
            warm_programs.run(program, lambda model, **options: torch.compile(model, backend=backend, **options))
    assert len(told) > 50 and all(one == other for one, other in told)


def described(value):
    if isinstance(value, torch.Tensor):
        return f"{tuple(value.shape)} {value.stride()} {value.storage_offset()} {value.dtype} {value.device}"
    return str([described(part) for part in value]) if isinstance(value, (list, tuple)) else f"{value} {type(value)}"
