"""What Dynamo sees of this package: next to nothing.

While a compiled program runs, Dynamo looks at every function of Python that is called outside of its graphs, and would compile ours, too: those behind the ops of the device, of
which it would make graphs over tensors without elements. So their files are on its list of those that are run as they are. Not on it are the functions that stand in the place
of PyTorch's own, which it looks into as it would into those.

Nor does it see streams: the device has none. Where PyTorch has an accelerator, Dynamo looks the current stream up and compares it at each call of each compiled program, on
the CPU too; that takes some 10 us. It does so no longer if the accelerator is this device.

Ops that keep the state of random numbers around a draw know the devices of PyTorch by name; this one draws as the CPU does. Tests: tests/test_torch.py.
"""

from __future__ import annotations

import collections
import functools
import re
from pathlib import Path
from typing import Any

_SEEN = {"_modules.py", "_precision.py"}


def register() -> None:
    """Tells Dynamo both; another PyTorch may ask neither."""
    _skip_files()
    _skip_streams()
    _draw_as_the_host()


def _draw_as_the_host() -> None:
    """Has what is computed again for gradients drawn again as on the CPU, whose state of random numbers is that of the device."""
    try:
        from torch._prims import rng_prims

        theirs: Any = rng_prims.get_device
    except (ImportError, AttributeError):
        return

    @functools.wraps(theirs)
    def get_device(args: Any, kwargs: Any) -> Any:
        found = theirs(args, kwargs)
        return "cpu" if found == "warpweft" else found

    rng_prims.get_device = get_device


def _skip_streams() -> None:
    """Begins traces with no current stream, as where there is no accelerator."""
    try:
        import torch
        from torch._dynamo.variables import streams

        state: Any = streams.SymbolicStreamState
        theirs = state.__init__
        accelerator: Any = torch.accelerator.current_accelerator
        fields = set(theirs.__code__.co_names)
        if "cur_stream_stack" not in fields or theirs.__code__.co_argcount != 1:
            return  # it keeps them elsewhere
    except (ImportError, AttributeError):
        return

    @functools.wraps(theirs)
    def __init__(self: Any) -> None:
        found = accelerator()
        if found is None or found.type != "warpweft":
            theirs(self)
        else:
            self.cur_stream_stack = collections.deque()

    state.__init__ = __init__


def _skip_files() -> None:
    """Puts the files of the package on the list of those that are run as they are."""
    try:
        from torch._dynamo import trace_rules

        rules: Any = trace_rules
        package = Path(__file__).parent.parent
        rules.SKIP_DIRS.extend(str(path) for path in sorted(package.rglob("*.py")) if path.name not in _SEEN)
        rules._recompile_re()
    except (ImportError, AttributeError, re.error):
        return
