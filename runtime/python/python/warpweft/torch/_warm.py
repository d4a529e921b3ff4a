"""What AOTAutograd made of a program is kept on disk, in the folder of the cache of kernels, so that the next process need not make it again.

PyTorch has a cache of it (`AOTAutogradCache`), which backends may use whose functions can be kept (`_kept`). Here it is used, in a folder of ours and with keys of ours (`_keys`).

Always: PyTorch's settings are others only while our backend compiles, under the lock that compilation holds. Whatever is not as this file expects (another PyTorch, a folder that
others may write to, damaged files) means that a program is compiled as if there were no cache. Tests: tests/test_warm_start.py.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Callable, Optional

from warpweft.torch._decompositions import decompositions, left_whole

# So many bytes are kept at most; beyond, what was used last the longest ago is removed.
_MOST_BYTES = 256 << 20
# How often something was kept; whether it is too much is looked at now and then.
_count = itertools.count()
_NOW_AND_THEN = 64


def _setting(name: str) -> tuple[str, bool]:
    """A variable of the environment under its long or its short name, and whether that is the long one; the same rule as the compiler's."""
    long, short = (os.environ.get(prefix + name, "").strip() for prefix in ("WARPWEFT_", ""))
    return (long, True) if long else (short, False)


def folder() -> Optional[Path]:
    """Where graphs are kept; none where nothing is to be kept."""
    level = _setting("CACHELEVEL")[0]
    if level.isdecimal() and int(level) == 0:
        return None
    found, is_long = _setting("CACHE_DIR")
    if found and is_long:
        return Path(found, "graphs")
    if found and "://" not in found:
        return Path(found, "warpweft", "graphs")
    home = os.environ.get("XDG_CACHE_HOME") or (os.environ.get("HOME") and Path(os.environ["HOME"], ".cache"))
    return Path(home, "warpweft", "graphs") if home else None


def _is_own(path: Path) -> bool:
    """Whether none but this user may write to a folder, which is made where there is none: what is read from it is as good as code. False where files have no owners."""
    try:
        for one in (path.parent, path):
            one.mkdir(mode=0o700, parents=True, exist_ok=True)
            found = one.lstat() if one is path else one.stat()
            if not hasattr(os, "geteuid") or not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
                return False
        return os.access(path, os.W_OK)
    except OSError:
        return False


def is_kept(module: Any, example_inputs: Any) -> bool:
    """Whether what AOTAutograd makes of this graph is looked for and kept."""
    where = folder()
    try:
        import torch
        from torch._functorch import config
        from torch._functorch._aot_autograd import autograd_cache
        from torch._functorch.aot_autograd import SerializableAOTDispatchCompiler  # type: ignore[attr-defined]
        from torch._inductor import config as of_functions

        from warpweft.torch import _keys, _kept

        # What another PyTorch may not have is asked for here.
        _ = autograd_cache.AOTAutogradCache._get_tmp_dir_for_key, autograd_cache.autograd_cache_key
        _ = _kept.KeptGraph, SerializableAOTDispatchCompiler
        _ = config.bundled_autograd_cache, config.force_non_lazy_backward_lowering
        is_on = config.enable_autograd_cache and not torch.compiler.config.force_disable_caches
        # Who lays a wrapper around functions that were found does so for inductor's.
        is_on = is_on and getattr(of_functions, "cudagraph_policy", None) is None and torch._guards.TracingContext.try_get() is not None
        # Processes that compute together find together or not at all, and one may see another folder.
        is_on = is_on and not (torch.distributed.is_available() and torch.distributed.is_initialized())
        return is_on and where is not None and _is_own(where) and _keys.has_full_key(module, example_inputs)
    except (ImportError, AttributeError, TypeError, OSError, RuntimeError, NotImplementedError):
        return False


class _Decompositions(Mapping[Any, Any]):
    """The table of decompositions, which is made when it is first looked at: it is not where a graph is found."""

    def __getitem__(self, op: Any) -> Any:
        return decompositions()[op]

    def __iter__(self) -> Iterator[Any]:
        return iter(decompositions())

    def __len__(self) -> int:
        return len(decompositions())


@contextlib.contextmanager
def _keeping(where: Path) -> Iterator[None]:
    """While this lasts, PyTorch's cache is in this folder, its keys are ours, and it takes functions of ours.

    The graph of gradients is taken with the other, so that nothing is written later.
    """
    from torch._dynamo.convert_frame import compile_lock
    from torch._functorch import config
    from torch._functorch._aot_autograd import autograd_cache

    from warpweft.torch import _keys

    module: Any = autograd_cache
    cache: Any = module.AOTAutogradCache
    with compile_lock:
        folder_of, key_of = vars(cache)["_get_tmp_dir_for_key"], module.autograd_cache_key
        cache._get_tmp_dir_for_key = classmethod(lambda cls, key: _of_key(where, key))
        module.autograd_cache_key = _keys.key
        try:
            with config.patch(bundled_autograd_cache=True, force_non_lazy_backward_lowering=True):
                yield
        finally:
            cache._get_tmp_dir_for_key, module.autograd_cache_key = folder_of, key_of


def _of_key(where: Path, key: str) -> str:
    """The folder of a key, without the files in it that are not as they were written: they are named by what they hold."""
    from torch._inductor.codecache import sha256_hash

    found = where / key
    for path in found.glob("[!.]*"):
        with contextlib.suppress(OSError):
            if path.name != sha256_hash(path.read_bytes()):
                path.unlink()
    with contextlib.suppress(OSError):
        os.utime(found)
    return str(found)


def _tidy(where: Path) -> None:
    """Removes what was used last the longest ago, where there is too much."""
    with contextlib.suppress(OSError):
        sizes = {path: sum(file.stat().st_size for file in path.iterdir()) for path in where.iterdir() if path.is_dir()}
        total = sum(sizes.values())
        for path in sorted(sizes, key=lambda path: path.stat().st_mtime):
            if total <= _MOST_BYTES:
                return
            shutil.rmtree(path, ignore_errors=True)
            total -= sizes[path]


# What a backend makes: a function, and the graphs for inference in it with what is to be known of them.
Made = tuple[Callable[..., Any], list[tuple[Any, Any]]]


def compiled(module: Any, example_inputs: Any, about: Callable[[Any], Any]) -> Optional[Made]:
    """What AOTAutograd makes or made of a graph; none where it is to be made without being kept."""
    if not is_kept(module, example_inputs):
        return None
    from torch._dynamo import exc

    begun_anew: Any = getattr(exc, "RestartAnalysis", ())
    try:
        return _found_or_made(module, example_inputs, about)
    except begun_anew:
        raise
    except Exception:  # it comes again if it is not of the cache
        return None


def _found_or_made(module: Any, example_inputs: Any, about: Callable[[Any], Any]) -> Made:
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch.aot_autograd import SerializableAOTDispatchCompiler  # type: ignore[attr-defined]
    from torch._guards import TracingContext

    from warpweft.torch._kept import BACKWARD, FORWARD, INFERENCE, KeptGraph, reading

    made: list[KeptGraph] = []
    read: list[KeptGraph] = []

    def compiler_of(kind: str) -> Any:
        def compile_graph(module: Any, example_inputs: Any) -> KeptGraph:
            made.append(KeptGraph(module, kind, about(TracingContext.try_get()) if kind == INFERENCE else None))
            if kind != BACKWARD:
                made[-1].built()
            return made[-1]

        return SerializableAOTDispatchCompiler(KeptGraph, compile_graph)

    compiler = aot_autograd(
        fw_compiler=compiler_of(FORWARD),
        bw_compiler=compiler_of(BACKWARD),
        inference_compiler=compiler_of(INFERENCE),
        decompositions=_Decompositions(),  # type: ignore[arg-type]
    )
    where = folder() or Path()
    with _keeping(where), left_whole(), reading(read):
        found: Callable[..., Any] = compiler(module, example_inputs)
    if made and next(_count) % _NOW_AND_THEN == 0:
        _tidy(where)
    # Where something was read and could not be used, all was made.
    graphs = [graph for graph in made or read if graph.kind != BACKWARD]
    return found, [(looked_at, graph.about) for graph in graphs if (looked_at := graph.built()) and graph.kind == INFERENCE]
