"""Formats that no parser reads, each with the way from it to one that is read."""

from __future__ import annotations

from pathlib import Path

from converter.files.unread_formats import (
    Foreign,
    any_of,
    ends_and_has,
    ends_with,
    holds,
    starts_with,
)

_APART = "In an environment of its own: "
_THEN = "; then convert model.onnx."


def _is_openvino(xml: Path) -> bool:
    return xml.is_file() and b"<net " in xml.read_bytes()[:4096]


UNREAD = (
    Foreign(
        "a Paddle model",
        f"{_APART}pip install paddlepaddle paddle2onnx && paddle2onnx --model_dir {{folder}} "
        "--model_filename {stem}.pdmodel --params_filename {stem}.pdiparams --save_file model.onnx"
        f"{_THEN} (Newer ones have {{stem}}.json in the place of {{stem}}.pdmodel.)",
        any_of(
            ends_with(".pdmodel", ".pdiparams", ".pdparams"),
            ends_and_has(".json", b'"magic"', b'"pir"'),
        ),
    ),
    Foreign(
        "a folder of a Paddle model",
        f"{_APART}pip install paddlepaddle paddle2onnx && paddle2onnx --model_dir {{name}} "
        "--model_filename inference.pdmodel --params_filename inference.pdiparams --save_file "
        f"model.onnx{_THEN}",
        holds("inference.pdmodel", "inference.pdiparams"),
    ),
    Foreign(
        "a Caffe model",
        f"{_APART}pip install caffe2onnx && python -m caffe2onnx.convert --prototxt "
        f"{{stem}}.prototxt --caffemodel {{stem}}.caffemodel --onnx model.onnx{_THEN}",
        ends_with(".caffemodel", ".prototxt"),
    ),
    Foreign(
        "an MXNet model",
        f"{_APART}pip install mxnet, and in Python: mxnet.onnx.export_model("
        "'NAME-symbol.json', 'NAME-0000.params', [(1, 3, 224, 224)], numpy.float32, "
        f"'model.onnx'){_THEN}",
        any_of(
            ends_and_has(".params", b"\x12\x01\0\0\0\0\0\0"),
            ends_and_has(".json", b'"nodes"', b'"op"'),
        ),
    ),
    Foreign(
        "an OpenVINO model",
        "OpenVINO writes no other format: convert the model that it was made from.",
        any_of(
            ends_and_has(".xml", b"<net "),
            lambda path, head: path.suffix == ".bin" and _is_openvino(path.with_suffix(".xml")),
        ),
    ),
    Foreign(
        "a GGUF model",
        "It holds a language model's weights, and no graph: convert the Hugging Face folder "
        "(config.json and safetensors) that it was made from.",
        starts_with(b"GGUF"),
    ),
    Foreign(
        "weights of JAX (Flax msgpack)",
        "These files only hold weights. In JAX: jax.experimental.jax2tf.convert(apply), "
        "tf.saved_model.save(..., FOLDER); then convert that FOLDER.",
        ends_with(".msgpack"),
    ),
    Foreign(
        "a checkpoint of JAX (Orbax)",
        "The file only holds weights. In JAX: jax.experimental.jax2tf.convert(apply), "
        "tf.saved_model.save(..., FOLDER); then convert that FOLDER.",
        holds("_CHECKPOINT_METADATA", "manifest.ocdbt", "_METADATA"),
    ),
    Foreign(
        "a model compiled for one device",
        "It can't be turned back: convert the model that it was made from.",
        any_of(
            starts_with(b"RKNN", b"7767517"),  # Rockchip; ncnn's text
            ends_with(".rknn", ".mnn", ".dlc", ".hef", ".om"),
        ),
    ),
)
