"""Packs small cases of a folder that write_cases.py wrote into one file: python select_cases.py FOLDER FILE.json.gz.

Of each op a case of which it is the only node, and of each other set of ops one: the largest of a size that a repository bears, since cases of few
elements show less; or the smallest, if all are larger. A selection for every test run. With it goes a network that is made here.
What is not there and random numbers are left out. The file holds nothing of the time or machine, so a second run gives the same bytes.
"""

import gzip
import json
import pathlib
import sys

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

BYTES_WANTED = 3000
BYTES_MAX = 6000
ROUNDED = ["test_attention_4d_causal_fp16_expanded", "test_dft_inverse", "test_dft_inverse_opset19"]  # see tests/src/onnx.rs
ALWAYS = ["test_reshape_reordered_all_dims", "test_concat_1d_axis_0", "test_abs", "test_sequence_map_extract_shapes_expanded", "test_loop13_seq",
    "test_tfidfvectorizer_tf_batch_uniandbigrams_skip5", "test_tfidfvectorizer_tf_onlybigrams_levelempty"]  # fmt: skip
LEFT_OUT = ["Bernoulli", "Dropout", "Gradient", "ImageDecoder", "RandomUniformLike", "RegexFullMatch"]


def made():
    """A network whose batch has a name, and whose shapes are worked out by nodes, as exporters write them; with the reference's outputs."""
    generator = np.random.default_rng(0)
    make = lambda op, inputs, output, **attributes: helper.make_node(op, inputs, [output], **attributes)
    constant = lambda name, value: numpy_helper.from_array(np.array(value), name)
    weights = {"w": [4, 1, 3, 3], "b": [4], "gamma": [4], "beta": [4], "v": [36, 5], "c": [5]}
    initializers = [constant(name, generator.standard_normal(shape).astype(np.float32)) for name, shape in weights.items()]
    initializers += [constant("zero", 0), constant("front", [0]), constant("two", [2]), constant("rest", [-1])]
    nodes = [
        make("Conv", ["x", "w", "b"], "conv", pads=[1, 1, 0, 0]),
        make("InstanceNormalization", ["conv", "gamma", "beta"], "normal"),
        make("Relu", ["normal"], "relu"),
        make("MaxPool", ["relu"], "pool", kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1),
        make("Shape", ["pool"], "shape"),
        make("Gather", ["shape", "zero"], "batch"),
        make("Unsqueeze", ["batch", "front"], "batch1"),
        make("Concat", ["batch1", "rest"], "wanted", axis=0),
        make("Reshape", ["pool", "wanted"], "rows"),
        make("Gemm", ["rows", "v", "c"], "scores"),
        make("Softmax", ["scores"], "y"),
        make("Flatten", ["relu"], "flat"),
        make("ReduceMean", ["flat"], "mean", axes=[1], keepdims=0),
        make("Mul", ["batch1", "two"], "double"),
        make("Concat", ["double", "two"], "blank_shape", axis=0),
        make("ConstantOfShape", ["blank_shape"], "blank"),
    ]
    tensor = helper.make_tensor_value_info
    outputs = [tensor("y", 1, ["batch", 5]), tensor("mean", 1, ["batch"]), tensor("blank", 1, ["rows", 2])]
    graph = helper.make_graph(nodes, "network", [tensor("x", 1, ["batch", 1, 6, 6])], outputs, initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    x = generator.standard_normal([3, 1, 6, 6]).astype(np.float32)
    files = {"model.onnx": model.SerializeToString(), "test_data_set_0/input_0.pb": numpy_helper.from_array(x, "x").SerializeToString()}
    for k, value in enumerate(ReferenceEvaluator(model).run(None, {"x": x})):
        files[f"test_data_set_0/output_{k}.pb"] = numpy_helper.from_array(value).SerializeToString()
    return {"made_open_batch": files}


def made_words():
    """Grams of words, weighed; with the reference's outputs."""
    x = np.array([["a", "cow", "is", "a", "cow"], ["is", "cow", "the", "is", "a"]], dtype=object)
    grams = {"ngram_counts": [0, 3], "ngram_indexes": [4, 0, 2, 1, 3], "pool_strings": ["a", "cow", "is", "a", "cow", "is", "a"],
             "min_gram_length": 1, "max_gram_length": 2, "max_skip_count": 1}  # fmt: skip
    weights = [0.5, 2.0, 3.0, 4.0, -1.0]
    node = lambda output, mode, **more: helper.make_node("TfIdfVectorizer", ["x"], [output], mode=mode, **grams, **more)
    nodes = [node("tf", "TF"), node("idf", "IDF", weights=weights), node("both", "TFIDF", weights=weights)]
    outputs = [helper.make_tensor_value_info(name, 1, [2, 5]) for name in ("tf", "idf", "both")]
    graph = helper.make_graph(nodes, "words", [helper.make_tensor_value_info("x", onnx.TensorProto.STRING, [2, 5])], outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    # The reference counts numbers alone: the words by their places, among them one that is not in the pool.
    places = {"a": 0, "cow": 1, "is": 2, "the": 3}
    numbered = onnx.ModelProto.FromString(model.SerializeToString())
    numbered.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.INT64
    for one in numbered.graph.node:
        for attribute in one.attribute:
            if attribute.name == "pool_strings":
                attribute.CopyFrom(helper.make_attribute("pool_int64s", [places[word] for word in grams["pool_strings"]]))
    found = ReferenceEvaluator(numbered).run(None, {"x": np.vectorize(places.get)(x).astype(np.int64)})
    files = {"model.onnx": model.SerializeToString(), "test_data_set_0/input_0.pb": numpy_helper.from_array(x, "x").SerializeToString()}
    for k, value in enumerate(found):
        files[f"test_data_set_0/output_{k}.pb"] = numpy_helper.from_array(value).SerializeToString()
    return {"made_words": files}


def main():
    folder, target = pathlib.Path(sys.argv[1]), sys.argv[2]
    best = {}
    for model in sorted(folder.glob("*/*/model.onnx")):
        case = model.parent
        files = {str(f.relative_to(case)): f.read_bytes() for f in sorted(case.rglob("*")) if f.is_file()}
        size = sum(map(len, files.values()))
        nodes = onnx.load(str(model)).graph.node
        ops = {node.op_type for node in nodes}
        if case.name in ROUNDED or size > BYTES_MAX or ops & set(LEFT_OUT) or case.parent.name.startswith("pytorch"):
            continue
        name, op = case.name, nodes[0].op_type if len(nodes) == 1 else f"{case.parent.name} {sorted(ops)}"
        op = name if name in ALWAYS else op
        # Whatever is small enough is better the larger it is.
        rank = size if size <= BYTES_WANTED else -size
        if name in ALWAYS or "_expanded" not in name and (op not in best or rank > best[op][0]):
            best[op] = (rank, name, files)
    best["made"] = (0, *made().popitem())
    best["words"] = (0, *made_words().popitem())
    packed = {name: {file: data.hex() for file, data in files.items()} for _, name, files in best.values()}
    text = json.dumps(packed, sort_keys=True, separators=(",", ":"))
    with open(target, "wb") as raw, gzip.GzipFile(fileobj=raw, mode="wb", compresslevel=9, mtime=0) as out:
        out.write(text.encode())
    print(f"{len(packed)} cases")


main()
