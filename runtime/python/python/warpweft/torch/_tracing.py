"""What Dynamo sees of this package: next to nothing.

While a compiled program runs, Dynamo looks at every function of Python that is called outside of its graphs, and would compile ours, too: those behind the ops of the device, of
which it would make graphs over tensors without elements. So their files are on its list of those that are run as they are. Not on it are the functions that stand in the places
of PyTorch's own, which it looks into as it would into those.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

_SEEN = {"_modules.py", "_precision.py"}


def register() -> None:
    """Puts the files of the package on the list; another PyTorch may have none."""
    try:
        from torch._dynamo import trace_rules

        rules: Any = trace_rules
        package = Path(__file__).parent.parent
        rules.SKIP_DIRS.extend(str(path) for path in sorted(package.rglob("*.py")) if path.name not in _SEEN)
        rules._recompile_re()
    except (ImportError, AttributeError, re.error):
        return
