"""Writes models of the domain ai.onnx.ml with the values of onnxruntime: python learning_cases.py FILE.json.gz.

Ensembles of random trees (targets, ways to compare, missing values, aggregates), encoders of labels of all types, and what prepares features. What onnxruntime has not is left
out; and a target that no leaf of a row has, to which it adds no base value. The file holds nothing of the time or machine.
"""

import gzip
import json
import random
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

CASES = {}
FLOAT, INT64, STRING = TensorProto.FLOAT, TensorProto.INT64, TensorProto.STRING
BRANCHES = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]


def add(name, op, inputs, output, version=3, **attributes):
    node = helper.make_node(op, [f"x{k}" for k in range(len(inputs))], ["y"], domain="ai.onnx.ml", **attributes)
    types = [STRING if x.dtype == object else helper.np_dtype_to_tensor_dtype(x.dtype) for x in inputs]
    given = [helper.make_tensor_value_info(f"x{k}", kind, x.shape) for k, (kind, x) in enumerate(zip(types, inputs))]
    graph = helper.make_graph([node], "graph", given, [helper.make_tensor_value_info("y", output, None)])
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", version)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString()
    found = onnxruntime.InferenceSession(model).run(None, {f"x{k}": x for k, x in enumerate(inputs)})
    found = [value.astype(object) if value.dtype.kind == "U" else value for value in map(np.asarray, found)]
    files = {f"test_data_set_0/input_{k}.pb": numpy_helper.from_array(x, f"x{k}") for k, x in enumerate(inputs)}
    files |= {f"test_data_set_0/output_{k}.pb": numpy_helper.from_array(value) for k, value in enumerate(found)}
    CASES[name] = {"model.onnx": model.hex(), **{file: value.SerializeToString().hex() for file, value in files.items()}}


def grown(source, depth, features, modes):
    """The nodes of a random tree: mode, feature, number, both children, and where what is missing goes."""
    nodes = []

    def grow(depth):
        at = len(nodes)
        nodes.append(("LEAF", 0, 0.0, 0, 0, 0))
        if depth and source.random() > 0.15:
            feature, split, missing = source.randrange(features), source.choice([0.0, 1.0, 2.0, -0.5]), source.randint(0, 1)
            nodes[at] = (source.choice(modes), feature, split, grow(depth - 1), grow(depth - 1), missing)
        return at

    grow(depth)
    return nodes


def trees(number):
    source, generator = random.Random(number), np.random.default_rng(number)
    features, count = source.randint(1, 5), source.randint(1, 3)
    modes = source.choice([BRANCHES[:1], BRANCHES[1:3], BRANCHES])
    names = ["modes", "featureids", "values", "truenodeids", "falsenodeids", "missing_value_tracks_true"]
    attributes = {f"nodes_{name}": [] for name in ["treeids", "nodeids", *names]}
    attributes |= {f"target_{name}": [] for name in ["treeids", "nodeids", "ids", "weights"]}
    for tree in range(source.randint(1, 6)):
        for at, node in enumerate(grown(source, source.randint(0, 5), features, modes)):
            for name, value in zip(["treeids", "nodeids", *names], [tree, at, *node]):
                attributes[f"nodes_{name}"].append(value)
            for target in range(count) if node[0] == "LEAF" else ():
                for name, value in zip(["treeids", "nodeids", "ids", "weights"], [tree, at, target, round(source.uniform(-2, 2), 3)]):
                    attributes[f"target_{name}"].append(value)
    aggregate = source.choice(["SUM", "SUM", "AVERAGE", "MIN", "MAX"])
    if source.random() < 0.5:
        attributes["base_values"] = [round(source.uniform(-1, 1), 2) for _ in range(count)]
    values = np.array([-1, -0.5, 0, 0.3, 1, 2, np.nan][: 7 if number % 2 else 6], np.float32)
    x = generator.choice(values, (source.randint(1, 9), features))
    add(f"trees_{number}", "TreeEnsembleRegressor", [x], FLOAT, n_targets=count, aggregate_function=aggregate,
        post_transform=source.choice(["NONE", "NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"]), **attributes)  # fmt: skip


def text(*words):
    return np.array(words, dtype=object)


def encoders():
    def encode(name, x, output, version=2, **attributes):
        add(f"labels_{name}", "LabelEncoder", [x], output, version, **attributes)

    numbers = {"keys_int64s": [1, 2, 3], "values_floats": [0.5, 0.25, 0.125]}
    encode("int_float", np.array([[1, 5], [2, 9]]), FLOAT, **numbers, default_float=-7.0)
    encode("int_float_default", np.array([1, 5]), FLOAT, **numbers)
    floats = np.array([1.5, np.nan, 2.0, 0.0], np.float32)
    encode("float_int", floats, INT64, keys_floats=[1.5, float("nan"), 2.0], values_int64s=[10, 20, 30])
    encode("float_int_4", floats, INT64, 4, keys_floats=[1.5, float("nan"), 2.0], values_int64s=[10, 20, 30])
    encode("int_text", np.array([3, 4, 1]), STRING, keys_int64s=[1, 3], values_strings=["one", "three"], default_string="?")
    encode("text_float", text("a", "z", "b"), FLOAT, keys_strings=["a", "b"], values_floats=[1.0, 2.0], default_float=0.5)
    encode("text_text", text(["a", "z"]), STRING, keys_strings=["a", "b"], values_strings=["x", "y"])
    add("one_hot_int", "OneHotEncoder", [np.array([[1, 7], [3, 5]])], FLOAT, cats_int64s=[3, 1, 7])
    add("one_hot_text", "OneHotEncoder", [text("b", "c", "a")], FLOAT, cats_strings=["a", "b"])


def features():
    x = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)
    x[3] = 0
    for norm in ("MAX", "L1", "L2"):
        add(f"normalizer_{norm}", "Normalizer", [x], FLOAT, norm=norm)
    add("scaler", "Scaler", [x], FLOAT, offset=[1.0, 2.0, 3.0], scale=[0.5, 2.0, -1.0])
    add("scaler_one", "Scaler", [np.array([[1, 2], [3, -4]])], FLOAT, offset=[1.0], scale=[0.5])
    holes = x.copy()
    holes[0, 1], holes[2, 2] = np.nan, 7
    add("imputer_nan", "Imputer", [holes], FLOAT, imputed_value_floats=[1.0, 2.0, 3.0], replaced_value_float=float("nan"))
    add("imputer_number", "Imputer", [holes], FLOAT, imputed_value_floats=[5.0], replaced_value_float=7.0)
    add("imputer_int", "Imputer", [np.array([[1, 2, 1], [0, 1, 1]])], INT64, imputed_value_int64s=[9, 8, 7], replaced_value_int64=1)
    weights = {"coefficients": [0.5, -1.0, 2.0, 1.0, 0.1, -0.3], "intercepts": [0.1, -0.2], "targets": 2}
    for transform in ("NONE", "SOFTMAX", "LOGISTIC"):
        add(f"linear_{transform}", "LinearRegressor", [x], FLOAT, 1, **weights, post_transform=transform)
    add("linear_plain", "LinearRegressor", [x], FLOAT, 1, coefficients=[0.5, -1.0, 2.0])
    add("feature_vectorizer", "FeatureVectorizer", [x, x[:, :2]], FLOAT, 1, inputdimensions=[3, 2])


def main():
    for number in range(16):
        trees(number)
    encoders()
    features()
    body = json.dumps(CASES, sort_keys=True, separators=(",", ":")).encode()
    with open(sys.argv[1], "wb") as raw, gzip.GzipFile(fileobj=raw, mode="wb", compresslevel=9, mtime=0) as out:
        out.write(body)
    print(f"{len(CASES)} cases of onnxruntime {onnxruntime.__version__} and onnx {onnx.__version__}")


main()
