"""The key under which is kept what AOTAutograd made of a graph: all that it depends on.

PyTorch has such a key, and most of this one is PyTorch's: the text of Dynamo's graph, types, shapes and strides of arguments, modes and settings. Left out of it is what concerns
inductor alone, which takes longer to gather than AOTAutograd takes. Added are this package, and what PyTorch leaves out: where arguments lie in their memory, ranges of variable lengths,
and switches that choose between ops. What is kept are graphs of ATen ops; so the compiler's settings are not in it.

Always: where something may matter that no key tells, nothing is kept: arguments that share memory (PyTorch makes guards of that, which a graph that is found would not have), tensors
that a graph holds, ops and functions that are not PyTorch's own, hooks. Tests: tests/test_warm_start.py.
"""

from __future__ import annotations

import functools
import hashlib
import sys
from pathlib import Path
from typing import Any

import torch
from torch._functorch._aot_autograd import autograd_cache as theirs
from torch._subclasses.fake_tensor import FakeTensor

from warpweft.torch._packed import is_of_torch

_TENSORS = (torch.Tensor, torch.nn.Parameter, FakeTensor)
_NUMBERS = (int, float, bool, torch.SymInt, torch.SymFloat, torch.SymBool)
# What nodes say to the one who parts a graph in two, and no text of the graph tells.
_OF_PARTS = {"recompute", "ac_graph_id", "partitioner_tag"}


@functools.cache
def version() -> str:
    """Of this package, Python and PyTorch: the text of all files that say what a graph becomes, and which compiled module is beside them."""
    package = Path(__file__).parent.parent
    digest = hashlib.sha256(f"{sys.version} {torch.__version__} {torch.version.git_version}".encode())
    for path in sorted(package.rglob("*")):
        if path.suffix == ".py":
            digest.update(path.read_bytes())
        elif path.suffix in (".so", ".pyd"):
            digest.update(f"{path.name} {path.stat().st_size} {path.stat().st_mtime_ns}".encode())
    return digest.hexdigest()


def has_full_key(module: Any, example_inputs: Any) -> bool:
    """Whether a key tells all that Dynamo's graph of these arguments depends on."""
    if not isinstance(module, torch.fx.GraphModule) or not all(type(value) in (*_TENSORS, *_NUMBERS) for value in example_inputs):
        return False
    tensors = [value for value in example_inputs if isinstance(value, torch.Tensor)]
    if any(tensor.layout != torch.strided for tensor in tensors) or len(set(map(_memory_of, tensors))) < len(tensors):
        return False
    if _has_hooks(module) or not _is_table_of_torch():
        return False
    return all(map(_is_text, (part for part in module.modules() if isinstance(part, torch.fx.GraphModule))))


def _memory_of(tensor: Any) -> int:
    """The same for tensors over the same memory, and for no others."""
    return int(tensor.untyped_storage()._cdata)


def _has_hooks(module: Any) -> bool:
    """Whether functions of the program see what is kept for gradients, or gradients are traced while they are computed."""
    hooks: Any = torch._C._autograd._top_saved_tensors_default_hooks(True)
    return hooks is not None or hasattr(module, "saved_tensors_hooks_pack_0") or bool(torch._dynamo.compiled_autograd.in_compiled_autograd_region)


def _is_table_of_torch() -> bool:
    """Whether none but PyTorch said how an op is taken apart."""
    return all((getattr(how, "__module__", None) or "torch").split(".")[0] == "torch" for how in torch._decomp.decomposition_table.values())


def _is_text(part: Any) -> bool:
    """Whether the text of a graph is all of it."""
    if any(isinstance(value, torch.Tensor) for value in vars(part).values()) or part._parameters or part._buffers:
        return False
    return not any(_OF_PARTS & node.meta.keys() or node.op == "call_function" and not is_of_torch(node.target) for node in part.graph.nodes)


class _Details(theirs.AOTAutogradCacheDetails):
    """What PyTorch's key is of, but for what concerns inductor."""

    def _init_fx_graph_hash_details(self, gm: Any, example_inputs: Any, fx_config: Any) -> None:
        self.gm, self.example_inputs = gm, list(example_inputs)

    def get_triton_source_codes_from_gm(self, gm: Any) -> list[str]:
        """None: ops that have kernels of Triton's are not PyTorch's own."""
        return []


def _ours(example_inputs: Any) -> list[Any]:
    """What PyTorch's key leaves out."""
    cuda: Any = torch.backends.cuda
    deterministic: Any = torch.utils.deterministic
    switches = [
        torch.compiler.config.cache_key_tag,
        torch.get_default_dtype(),
        torch.is_inference_mode_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        deterministic.fill_uninitialized_memory,
        torch.backends.mkldnn.enabled,
        torch.get_float32_matmul_precision(),
        str(torch.get_default_device()),
        *(getattr(cuda, f"{name}_sdp_enabled")() for name in ("flash", "mem_efficient", "math", "cudnn")),
    ]
    return [version(), switches, *map(_described, example_inputs)]


def _described(value: Any) -> list[Any]:
    """Of a variable number its range; of a tensor how it lies in memory, and what it is for autograd."""
    if isinstance(value, torch.SymInt):
        environment: Any = value.node.shape_env
        return ["length", str(environment.var_to_range.get(value.node.expr))]
    if not isinstance(value, torch.Tensor):
        return [str(type(value))]
    size, offset = value.untyped_storage().nbytes(), value.storage_offset()
    where = [number if isinstance(number, int) else "variable" for number in (size, offset)]
    return [*where, isinstance(value, torch.nn.Parameter), value.is_leaf, value._is_view()]


def key(module: Any, example_inputs: Any, config: Any, compiler_config_extra: Any = None, act_input_paths: Any = ()) -> tuple[str, list[str]]:
    """In place of PyTorch's function of that name: the key, and nothing to print."""
    context = torch._guards.TracingContext.try_get()
    if context is None or context.fakify_first_call or theirs.AOTAutogradCache._get_shape_env() is None:
        raise theirs.BypassAOTAutogradCache("nothing is traced")
    if not has_full_key(module, example_inputs):
        raise theirs.BypassAOTAutogradCache("no key tells all of it")
    names = {node.target for node in module.graph.find_nodes(op="placeholder", sort=True) if node.type == torch.SymInt}
    numbers = [str(value) for value in example_inputs if isinstance(value, torch.SymInt)]
    with theirs.sanitize_gm_for_cache(module):
        for part in module.modules():
            for node in getattr(getattr(part, "graph", None), "nodes", ()):
                theirs.check_node_safe(node)
        details: Any = _Details(module, example_inputs, config, theirs.create_fx_config(compiler_config_extra), act_input_paths)
        details.ours = _ours(example_inputs)
        pickler = theirs.AOTAutogradCachePickler(module, {name: f"s_{number}" for number, name in enumerate(numbers)}, names)
        return f"w{pickler.get_hash(details)}", []
