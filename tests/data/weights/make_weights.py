"""Writes small files of weights in every format, by the formats' own libraries, what is in them (expected.json.gz), and seeds of fuzzers.

    python3 -m venv venv && venv/bin/pip install torch numpy safetensors gguf
    venv/bin/python tests/data/weights/make_weights.py

Each case of expected.json.gz names a file, and for each tensor of it its name, shape, and elements: numbers, or texts where a reader
of JSON might round. Values of quantised tensors are those of the package `gguf`, computed by NumPy; those of floats of 8 bits are PyTorch's.
The files are made without clocks and random state of the machine: archives carry a fixed date, numbers come from fixed seeds.
"""

import gzip
import io
import json
import math
import zipfile
from collections import OrderedDict
from pathlib import Path

import gguf
import numpy as np
import torch
from safetensors.torch import save as safetensors_bytes
from safetensors.torch import save_file

HERE = Path(__file__).parent
CASES = []


def element(value):
    value = value.item() if hasattr(value, "item") else value
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, float):
        if math.isnan(value):
            return "nan"
        if math.isinf(value):
            return "inf" if value > 0 else "-inf"
        return int(value) if value == int(value) and abs(value) < 2**53 else repr(value)
    return value if abs(value) < 2**53 else str(value)


def listed(array):
    """Shape and elements of an array of either library."""
    if isinstance(array, torch.Tensor):
        array = array.detach()
        if array.dtype in (torch.float8_e4m3fn, torch.float8_e5m2, torch.bfloat16, torch.float16):
            array = array.to(torch.float32)
        array = array.numpy()
    return {"shape": list(array.shape), "elements": [element(value) for value in array.flatten().tolist()]}


def case(file, tensors, **more):
    CASES.append({"file": file, "tensors": {name: listed(array) for name, array in tensors.items()}, **more})


def pattern(shape, dtype):
    count = math.prod(shape)
    if dtype == np.bool_:
        return (np.arange(count) % 3 == 1).reshape(shape)
    if np.issubdtype(dtype, np.integer):
        info = np.iinfo(dtype)
        values = [info.min, info.max, 0, 1, *range(2, 2 + count)][:count]
        return np.array([value % (info.max + 1) if value > info.max else value for value in values], dtype=dtype).reshape(shape)
    return ((np.arange(count) - count / 2) * 0.375).astype(dtype).reshape(shape)


NUMPY_TYPES = [np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64, np.float16,
               np.float32, np.float64]


def fixed_zip(path, members, deflated):
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            info = zipfile.ZipInfo(name, date_time=(2026, 1, 1, 0, 0, 0))
            info.compress_type = zipfile.ZIP_DEFLATED if deflated else zipfile.ZIP_STORED
            archive.writestr(info, data)


def numpy_cases():
    # Files of one array, all in two archives: a folder of small files says no more.
    members, expected = {}, {}
    for dtype in NUMPY_TYPES:
        for order in "<>":
            for layout in "CF":
                array = pattern((2, 3, 2), dtype)
                name = f"{array.dtype.name}_{'little' if order == '<' else 'big'}_{layout}"
                stored = np.asarray(array.astype(array.dtype.newbyteorder(order)), order=layout)
                buffer = io.BytesIO()
                np.lib.format.write_array(buffer, stored, version=(1, 0))
                members[f"{name}.npy"], expected[name] = buffer.getvalue(), array
    for version in [(1, 0), (2, 0), (3, 0)]:
        for shape in [(), (0, 3), (5,)]:
            array = pattern(shape, np.float32)
            name = f"version_{version[0]}_{'_'.join(map(str, shape)) or 'scalar'}"
            buffer = io.BytesIO()
            np.lib.format.write_array(buffer, array, version=version)
            members[f"{name}.npy"], expected[name] = buffer.getvalue(), array
    for deflated, file in [(False, "stored.npz"), (True, "deflated.npz")]:
        fixed_zip(HERE / file, members, deflated)
        case(file, expected)
    array = np.asfortranarray(pattern((3, 4), np.dtype(">f8")))
    np.save(HERE / "array.npy", array)
    case("array.npy", {"array": array})


def safetensors_cases():
    dtypes = [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16,
              torch.float32, torch.float64]
    tensors = {str(dtype)[6:]: torch.arange(6).reshape(2, 3).sub(2).to(dtype) for dtype in dtypes}
    bytes_ = torch.arange(256).to(torch.uint8)
    tensors["e4m3"] = bytes_.view(torch.float8_e4m3fn).reshape(16, 16)
    tensors["e5m2"] = bytes_.clone().view(torch.float8_e5m2).reshape(16, 16)
    tensors["scalar"], tensors["empty"] = torch.tensor(2.5), torch.zeros(0, 4)
    save_file(tensors, HERE / "types.safetensors", metadata={"format": "pt", "who": "warpweft"})
    case("types.safetensors", tensors, metadata={"format": "pt", "who": "warpweft"})
    shards = {"model-00001-of-00002.safetensors": {"a.weight": torch.arange(6.0).reshape(2, 3)},
              "model-00002-of-00002.safetensors": {"b.weight": torch.arange(4.0) * 0.5, "b.bias": torch.tensor([1, -1])}}
    for file, part in shards.items():
        save_file(part, HERE / file)
    index = {"metadata": {"total_size": 56}, "weight_map": {name: file for file, part in shards.items() for name in part}}
    (HERE / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n")
    case("model.safetensors.index.json", {name: tensor for part in shards.values() for name, tensor in part.items()},
         metadata={"total_size": "56"})


def torch_case(file, saved, tensors, metadata=None, **options):
    buffer = io.BytesIO()
    torch.save(saved, buffer, **options)
    # The same members, with a fixed date and no padding, so that another run gives the same bytes.
    with zipfile.ZipFile(buffer) as archive:
        members = {name: archive.read(name) for name in archive.namelist() if not name.endswith((".data/serialization_id",))}
    fixed_zip(HERE / file, members, False)
    case(file, tensors, **({"metadata": metadata} if metadata else {}))


def torch_cases():
    base = torch.arange(24.0).reshape(4, 6)
    dtypes = [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16,
              torch.float32, torch.float64, torch.uint16, torch.uint32, torch.uint64]
    state = OrderedDict((f"types.{str(dtype)[6:]}", torch.arange(1, 7).reshape(2, 3).to(dtype)) for dtype in dtypes)
    state.update(whole=base, transposed=base.t(), row=base[1], column=base[:, 2], block=base[1:3, 2:5], steps=base[::2, ::3],
                 expanded=torch.tensor([7.0]).expand(3), scalar=torch.tensor(3), empty=torch.zeros(0, 2),
                 e4m3=torch.arange(256).to(torch.uint8).view(torch.float8_e4m3fn),
                 e5m2=torch.arange(256).to(torch.uint8).view(torch.float8_e5m2),
                 parameter=torch.nn.Parameter(torch.tensor([1.5, -2.0])))
    for protocol in (2, 4):
        torch_case(f"state_{protocol}.pt", state, state, pickle_protocol=protocol)
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2))
    optimizer = torch.optim.Adam(network.parameters(), 1e-3)
    network(torch.ones(5, 3)).sum().backward()
    optimizer.step()
    checkpoint = {"epoch": 3, "model": network.state_dict(), "optimizer": optimizer.state_dict(), "losses": [0.5, 0.25], "note": "x",
                  "size": torch.Size([2, 3])}
    tensors = {f"model.{name}": tensor for name, tensor in network.state_dict().items()}
    for number, entry in checkpoint["optimizer"]["state"].items():
        tensors |= {f"optimizer.state.{number}.{name}": value for name, value in entry.items()}
    metadata = {"epoch": "3", "losses.0": "0.5", "note": "x", "optimizer.param_groups.0.lr": "0.001", "size.1": "3"}
    torch_case("checkpoint.pt", checkpoint, tensors, metadata)
    buffer = io.BytesIO()
    torch.save({"weights": torch.ones(2), "function": print}, buffer)
    with zipfile.ZipFile(buffer) as archive:
        members = {name: archive.read(name) for name in archive.namelist() if "serialization_id" not in name}
    fixed_zip(HERE / "calls.pt", members, False)


QUANTISED = "Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_NL".split()


def gguf_cases():
    writer = gguf.GGUFWriter(HERE / "types.gguf", "none")
    writer.add_uint32("a.whole", 7)
    writer.add_float32("a.float", 0.5)
    writer.add_bool("a.bool", True)
    writer.add_array("a.list", ["x", "yz"])
    writer.add_string("a.text", "some text")
    expected, source = {}, np.random.default_rng(11)
    for dtype in [np.float32, np.float16, np.float64, np.int8, np.int16, np.int32, np.int64]:
        array = pattern((2, 4), dtype)
        writer.add_tensor(array.dtype.name, array)
        expected[array.dtype.name] = array
    half = np.array([[1.5, -2.25], [3.0, 0.0078125]], dtype=np.float32)
    writer.add_tensor("bfloat16", gguf.quants.quantize(half, gguf.GGMLQuantizationType.BF16), raw_dtype=gguf.GGMLQuantizationType.BF16)
    expected["bfloat16"] = half
    for name in QUANTISED:
        kind = gguf.GGMLQuantizationType[name]
        elements, size = gguf.GGML_QUANT_SIZES[kind]
        # Any bytes are blocks; scales are made small and finite, so that values are.
        packed = source.integers(0, 256, (3, 2 * size), dtype=np.uint8).reshape(3, 2, size)
        scales = {"Q2_K": [80, 82], "Q3_K": [108], "Q6_K": [208], "Q4_1": [0, 2], "Q5_1": [0, 2], "Q4_K": [0, 2], "Q5_K": [0, 2]}.get(name, [0])
        for at in scales:
            halves = source.normal(0, 0.02, (3, 2, 1)).astype(np.float16)
            halves[0, 0, 0] = np.float16(6e-8) * source.integers(1, 900)  # one that is subnormal
            packed[:, :, at:at + 2] = halves.view(np.uint8)
        packed = packed.reshape(3, 2 * size)
        writer.add_tensor(name, packed, raw_dtype=kind)
        expected[name] = gguf.quants.dequantize(packed, kind)
        assert expected[name].shape == (3, 2 * elements)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    case("types.gguf", expected, metadata={"a.whole": "7", "a.float": "0.5", "a.bool": "true", "a.list": "2 values", "a.text": "some text",
                                           "general.architecture": "none"})


def fuzz_seeds():
    """Small right files of each format, for fuzzers to damage: of archives also what goes into one (see tests/src/weights.rs)."""

    def seed(target, number, data):
        folder = HERE.parents[2] / "fuzz" / "seeds" / target
        folder.mkdir(parents=True, exist_ok=True)
        (folder / str(number)).write_bytes(data)

    def npy(array, version=(1, 0)):
        buffer = io.BytesIO()
        np.lib.format.write_array(buffer, array, version=version)
        return buffer.getvalue()

    plain, turned = pattern((2, 3), np.float32), np.asfortranarray(pattern((2, 2, 2), np.dtype(">i2")))
    seed("numpy_bytes", 0, b"\0" + npy(plain))
    seed("numpy_bytes", 1, b"\1" + npy(turned, (2, 0)))
    seed("numpy_bytes", 2, b"\1" + npy(np.zeros(600, np.uint8), (3, 0)))
    for number, deflated in [(3, False), (4, True)]:
        fixed_zip(HERE / "seed.npz", {"a.npy": npy(plain), "b.npy": npy(turned)}, deflated)
        seed("numpy_bytes", number, b"\0" + (HERE / "seed.npz").read_bytes())
        (HERE / "seed.npz").unlink()
    for number, tensors in enumerate([{"a": torch.arange(4.0)}, {"x.weight": torch.zeros(2, 2, dtype=torch.bool), "x.bias": torch.ones(3)},
                                      {"f": torch.zeros(4, dtype=torch.float8_e4m3fn), "g": torch.tensor(1)}]):
        seed("safetensors_bytes", number, safetensors_bytes(tensors, metadata={"format": "pt"}))
    base = torch.arange(12.0)
    states = [{"w": base, "v": base.reshape(3, 4).t(), "n": 1}, OrderedDict(a=torch.nn.Parameter(base[2:5]), b=torch.ones(5, dtype=torch.int64)),
              {"list": [base[::2], (1.5, "x", None)], "size": torch.Size([2])}]
    for number, state in enumerate(states):
        for protocol in (2, 4):
            buffer = io.BytesIO()
            torch.save(state, buffer, pickle_protocol=protocol)
            with zipfile.ZipFile(buffer) as archive:
                members = {name: archive.read(name) for name in archive.namelist() if "serialization_id" not in name}
            pickle = next(data for name, data in members.items() if name.endswith("data.pkl"))
            seed("torch_bytes", 4 * number + protocol, b"\1" + pickle)
        if number < 2:
            fixed_zip(HERE / "seed.pt", members, False)
            seed("torch_bytes", 4 * number, b"\0" + (HERE / "seed.pt").read_bytes())
            (HERE / "seed.pt").unlink()
    for number, names in enumerate([["Q4_0"], ["Q6_K", "F32"], ["F16", "I8", "Q8_0"]]):
        writer = gguf.GGUFWriter(HERE / "seed.gguf", "none")
        writer.add_array("a.list", ["x", "yz"])
        writer.add_array("a.lists", [1, 2, 3])
        writer.add_float64("a.float", 0.5)
        for name in names:
            kind = gguf.GGMLQuantizationType[name]
            elements, size = gguf.GGML_QUANT_SIZES[kind]
            writer.add_tensor(name, np.arange(2 * size, dtype=np.uint8).reshape(2, size), raw_dtype=kind)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        seed("gguf_bytes", number, (HERE / "seed.gguf").read_bytes())
        (HERE / "seed.gguf").unlink()


def float8_cases():
    """Floats of 32 bits, and the bytes that PyTorch rounds them to: all values of both types, what lies in the middle of two, and near that."""
    values = set()
    for dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
        known = torch.arange(128).to(torch.uint8).view(dtype).to(torch.float32)
        known = known[known.isfinite()].sort().values
        middle = (known[:-1] + known[1:]) / 2
        for tensor in (known, middle):
            for toward in (tensor, torch.nextafter(tensor, torch.tensor(0.0)), torch.nextafter(tensor, torch.tensor(math.inf))):
                values |= set(toward.view(torch.int32).tolist())
    edges = torch.tensor([449.0, 464.0, 464.1, 479.9, 480.0, 1e9, 61439.9, 61440.0, 65535.0, 65536.0, math.inf, math.nan, 1e-30])
    bits = torch.tensor(sorted(values | set(edges.view(torch.int32).tolist())), dtype=torch.int32)
    bits = torch.cat([bits, bits | -(2**31)])
    floats = bits.view(torch.float32)
    return {"bits": bits.tolist(), "e4m3": floats.to(torch.float8_e4m3fn).view(torch.uint8).tolist(),
            "e5m2": floats.to(torch.float8_e5m2).view(torch.uint8).tolist()}


numpy_cases()
fuzz_seeds()
safetensors_cases()
torch_cases()
gguf_cases()
versions = f"PyTorch {torch.__version__}, NumPy {np.__version__}, gguf {__import__('importlib.metadata').metadata.version('gguf')}"
text = json.dumps({"source": versions, "cases": CASES, "float8": float8_cases()}, separators=(",", ":"))
(HERE / "expected.json.gz").write_bytes(gzip.compress(text.encode(), 9, mtime=0))
