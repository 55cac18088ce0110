"""The file: signature, names, free dimensions, weights inside and behind."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from converter.errors import UnsupportedError
from converter.ir import Model
from converter.tflite_file import unpack
from emitters.tflite import writer
from emitters.tflite.emitter import TfliteEmitter
from emitters.tflite.lowering import lower
from tests.tflite_emitter.running import (
    REQUEST,
    emitted,
    lowered,
    numbers,
    parsed,
    run_file,
    with_weights,
)

DENSE = """
g (float[batch,6] image, float[6,4] w) => (float[batch,4] scores) { scores = MatMul (image, w) }"""


def _dense(seed: int = 0) -> Model:
    return with_weights(parsed(DENSE), w=numbers(6, 4, seed=seed))


def test_signature_and_free_batch(tmp_path: Path) -> None:
    model = unpack(emitted(_dense(), tmp_path).read_bytes(), "model.tflite")
    (signature,) = model.signatureDefs
    assert signature.signatureKey == b"serving_default"
    tensors = model.subgraphs[0].tensors
    (image,) = signature.inputs
    assert image.name == b"image"
    assert list(tensors[image.tensorIndex].shapeSignature) == [-1, 6]
    assert list(tensors[image.tensorIndex].shape) == [1, 6]
    assert [item.name for item in signature.outputs] == [b"scores"]
    assert tensors[signature.outputs[0].tensorIndex].name == b"scores"


def test_the_same_bytes_every_time(tmp_path: Path) -> None:
    first, second = (emitted(_dense(), tmp_path / name).read_bytes() for name in ("a", "b"))
    assert first == second


def test_weights_behind_the_flatbuffer(tmp_path: Path) -> None:
    made = lowered(_dense()).model
    inside, behind = tmp_path / "inside.tflite", tmp_path / "behind.tflite"
    writer.write(made, inside)
    writer.write(made, behind, inside=0)
    content = behind.read_bytes()
    assert numbers(6, 4).T.tobytes() in content[-200:]
    feeds = {"image": numbers(2, 6, seed=1)}
    outputs = [run_file(path, feeds)["scores"] for path in (inside, behind)]
    np.testing.assert_array_equal(*outputs)
    np.testing.assert_allclose(outputs[0], feeds["image"] @ numbers(6, 4), rtol=1e-5)


def test_weights_lie_on_sixteen_bytes(tmp_path: Path) -> None:
    content = emitted(_dense(), tmp_path).read_bytes()
    assert content.index(numbers(6, 4).T.tobytes()) % 16 == 0


def test_an_output_that_is_an_input_or_a_constant(tmp_path: Path) -> None:
    model = with_weights(
        parsed("""
g (float[batch,2] x, float[2] c) => (float[batch,2] same, float[2] constant, float[batch,2] again) {
  same = Identity (x)
  constant = Identity (c)
  again = Identity (x)
}"""),
        c=np.asarray([3, 4], np.float32),
    )
    found = run_file(emitted(model, tmp_path), {"x": numbers(2, 2)})
    np.testing.assert_array_equal(found["same"], numbers(2, 2))
    np.testing.assert_array_equal(found["again"], numbers(2, 2))
    np.testing.assert_array_equal(found["constant"], [3, 4])


def test_every_node_that_has_no_lowering_is_listed(tmp_path: Path) -> None:
    model = parsed("""
g (float[2,2] x) => (float[2,2] y) {
  a = ImageDecoder (x)
  b = Relu (a)
  c = StringSplit (b)
  y = ImageDecoder (x)
}""")
    found = lower(model).refusals
    assert [(item.node, item.op) for item in found] == [
        ("ImageDecoder_0", "ImageDecoder"),
        ("ImageDecoder_3", "ImageDecoder"),
    ]
    early = TfliteEmitter().unsupported(model, REQUEST, simplified=False)
    assert [item.op for item in early] == ["ImageDecoder", "StringSplit", "ImageDecoder"]
    with pytest.raises(UnsupportedError, match="2 nodes"):
        emitted(model, tmp_path)
    assert not (tmp_path / "model.tflite").exists()


def test_sniffs_by_content(tmp_path: Path) -> None:
    path = emitted(_dense(), tmp_path)
    other = tmp_path / "other"
    other.write_bytes(b"\x00" * 40)
    assert TfliteEmitter().sniff(path.rename(tmp_path / "renamed.bin"))
    assert not TfliteEmitter().sniff(other)
    assert not TfliteEmitter().sniff(tmp_path)
