"""What the scripts beside this one share that write cases in the format of ops.json.gz: how tensors are written, and files."""

import gzip
import json
import math
import pathlib

import torch


def tensor(x):
    def plain(v):
        if isinstance(v, float) and not math.isfinite(v):
            return "nan" if math.isnan(v) else "inf" if v > 0 else "-inf"
        return v

    return {"dtype": str(x.dtype).split(".")[1], "shape": list(x.shape), "data": [plain(v) for v in x.detach().reshape(-1).tolist()]}


def write(name, about, cases):
    """Writes the file of that name beside the scripts, and says how much is in it."""
    content = {"about": about, "torch": torch.__version__.split("+")[0], "cases": cases}
    path = pathlib.Path(__file__).with_name(name)
    path.write_bytes(gzip.compress(json.dumps(content, separators=(",", ":")).encode(), 9, mtime=0))
    counts = {key: sum(key in entry for entry in cases) for key in ("grads", "error")}
    print(f"{len(cases)} cases, {counts['grads']} with gradients, {counts['error']} refused, {path.stat().st_size} bytes")
