"""Writes the test cases of the installed package `onnx` as files: python write_cases.py FOLDER.

    FOLDER/KIND/CASE/model.onnx, tolerance.txt (rtol and atol), test_data_set_N/input_K.pb and output_K.pb

The node cases are made by functions of the package, with the reference implementation's outputs, since its wheel holds no files for them;
the others lie in the wheel. Cases whose model must be downloaded are left out.
"""

import os
import shutil
import sys
import warnings

import numpy as np
from onnx import TensorProto, numpy_helper
from onnx.backend.test.loader import DATA_DIR, load_model_tests

warnings.filterwarnings("ignore")


def proto_of(value, info):
    kind = info.type.WhichOneof("value")
    if isinstance(value, TensorProto):
        return value
    if kind == "map_type":
        return numpy_helper.from_dict(value, info.name)
    if kind == "sequence_type":
        return numpy_helper.from_list(value, info.name)
    if kind == "optional_type":
        return numpy_helper.from_optional(value, info.name)
    return numpy_helper.from_array(np.asarray(value), info.name)


def write(path, data):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)


def write_made(folder, case):
    write(f"{folder}/model.onnx", case.model.SerializeToString())
    for number, (inputs, outputs) in enumerate(case.data_sets):
        for what, values, infos in [("input", inputs, case.model.graph.input), ("output", outputs, case.model.graph.output)]:
            for k, value in enumerate(values):
                write(f"{folder}/test_data_set_{number}/{what}_{k}.pb", proto_of(value, infos[k]).SerializeToString())


def main():
    target = sys.argv[1]
    counts = {}
    for kind in ["node"] + sorted(kind for kind in os.listdir(DATA_DIR) if os.path.isdir(f"{DATA_DIR}/{kind}")):
        for case in load_model_tests(kind=kind):
            folder = f"{target}/{kind}/{case.name}"
            if case.model is not None:
                write_made(folder, case)
            elif case.model_dir:
                shutil.copytree(case.model_dir, folder, dirs_exist_ok=True)
            else:
                continue
            write(f"{folder}/tolerance.txt", f"{case.rtol} {case.atol}\n".encode())
            counts[kind] = counts.get(kind, 0) + 1
    print(", ".join(f"{count} {kind}" for kind, count in counts.items()))


main()
