"""usage.py and usage.kt, which lie beside the file: Python's is run."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from converter.ir.model import Model
from converter.options.recipe import make_request
from converter.samples import load_samples
from emitters.tflite.emitter import TfliteEmitter
from tests.operators.cases import parsed
from tests.tflite_emitter.running import module_of

PICTURE = """
g (float[batch,3,12,10] image) => (float[batch,3] scores) <int64[2] shape = {-1, 3}> {
  means = GlobalAveragePool (image) scores = Reshape (means, shape)
}"""
TEXT = """
g (int64[1,tokens] input_ids, float[1,tokens] class) => (float[1,tokens] sum, int64[1,tokens] ids) {
  real = Cast <to = 1> (input_ids) sum = Add (real, class) ids = Neg (input_ids)
}"""
INTEGER = """
g (float[2,4] x) => (float[2,4] y) <float scale = {0.05}, int8 zero = {3}> {
  q = QuantizeLinear (x, scale, zero) r = DequantizeLinear (q, scale, zero) s = Relu (r)
  t = QuantizeLinear (s, scale, zero) y = DequantizeLinear (t, scale, zero)
}"""


def _written(model: Model, folder: Path, precision: str, **options: Any) -> tuple[Any, str]:
    """The module usage.py, and the text of usage.kt."""
    request = make_request({"source": "model.onnx", "name": "my-net", **options})
    TfliteEmitter().emit(model, folder, precision, request)
    return module_of(folder / "usage.py"), (folder / "usage.kt").read_text()


@pytest.mark.parametrize("options", [
    {"image_mean": [0.5, 0.4, 0.3], "image_std": [0.2], "image_resize": "20"},
    {"image_color": "bgr", "image_scale": 1.0, "image_interpolation": "bicubic"},
    {"image_resize": "24x16", "image_std": [2.0]},
])  # fmt: skip
def test_a_picture_is_prepared_as_the_samples_were(tmp_path: Path, options: dict[str, Any]) -> None:
    (tmp_path / "photos").mkdir()
    pixels = np.random.default_rng(0).integers(0, 256, (37, 41, 3), np.uint8)
    Image.fromarray(pixels).save(tmp_path / "photos" / "a.png")
    model = parsed(PICTURE)
    asked = {"source": "model.onnx", "samples": str(tmp_path / "photos"), **options}
    samples = load_samples(make_request(asked), model.inputs, {})
    model.describe("image", **samples.meanings["image"])
    model.describe("scores", labels=["cat", "dog", "Übung"])
    module, kotlin = _written(model, tmp_path, "fp32", **options)
    prepared = module.prepare(tmp_path / "photos" / "a.png")
    (sample,) = samples
    assert prepared.dtype == np.float32
    np.testing.assert_allclose(prepared, sample.feeds["image"], rtol=1e-6, atol=1e-5)
    scores = module.MyNet()(prepared)["scores"]
    np.testing.assert_allclose(scores, prepared.mean((2, 3)), rtol=1e-5, atol=1e-5)
    assert module.labels() == ["cat", "dog", "Übung"]
    assert "fun prepare(picture: Bitmap): FloatArray" in kotlin
    assert kotlin.count("{") == kotlin.count("}") and kotlin.count("(") == kotlin.count(")")


def test_usage_py_says_what_it_wants(tmp_path: Path) -> None:
    """A line, on stderr, in each case."""
    model = parsed(PICTURE)
    span = (-1.0, 1.0)
    model.describe("image", meaning="image", layout="NCHW", value_range=span)
    for folder, made, options in (
        ("picture", model, {"image_mean": [0.5], "image_std": [0.5]}), ("text", parsed(TEXT), {})
    ):  # fmt: skip
        _written(made, tmp_path / folder, "fp32", **options)
    Image.new("RGB", (12, 10)).save(tmp_path / "picture" / "a.eps")
    for folder, arguments, code, says in (
        ("picture", [], 2, "usage: python usage.py PICTURE"),
        ("picture", ["a", "b"], 2, "usage: python usage.py PICTURE"),
        ("picture", ["none.png"], 1, "No such file or directory: 'none.png'"),
        ("picture", ["a.eps"], 1, "UnidentifiedImageError: cannot identify image file 'a.eps'"),
        ("text", [], 2, "usage: from usage import MyNet; MyNet()(input_ids, class2)"),
    ):
        line = [sys.executable, "usage.py", *arguments]
        done = subprocess.run(line, cwd=tmp_path / folder, capture_output=True, text=True,
                              check=False)  # fmt: skip
        assert (done.returncode, done.stdout) == (code, ""), done
        assert says in done.stderr and done.stderr.count("\n") == 1, done.stderr


def test_other_values_than_the_options_give_are_not_prepared(tmp_path: Path) -> None:
    """Its samples were no images: what the options say by default is nobody's word."""
    model = parsed(PICTURE)
    model.describe("image", meaning="image", layout="NCHW", value_range=(-1.0, 1.0))
    module, kotlin = _written(model, tmp_path, "fp32")
    assert not hasattr(module, "prepare")
    assert "Bitmap" not in kotlin


def test_names_that_are_words_of_the_language(tmp_path: Path) -> None:
    module, kotlin = _written(parsed(TEXT), tmp_path, "fp32")
    ids, real = np.asarray([[3, 4, 5]], np.int64), np.ones((1, 3), np.float32)
    found = module.MyNet()(input_ids=ids, class2=real)
    np.testing.assert_array_equal(found["sum"], [[4, 5, 6]])
    np.testing.assert_array_equal(found["ids"], -ids)
    assert "fun run(inputIds: LongArray, class2: FloatArray): Outputs" in kotlin
    assert '"input_ids" to inputIdsInput, "class" to class2Input' in kotlin


@pytest.mark.parametrize(("dtype", "zero"), [("int8", 3), ("uint8", 131)])
def test_integers_stand_for_real_numbers(tmp_path: Path, dtype: str, zero: int) -> None:
    module, kotlin = _written(parsed(INTEGER), tmp_path, "int8", io_dtype=dtype)
    x = np.linspace(-9, 9, 8, dtype=np.float32).reshape(2, 4)
    wanted = np.clip(np.rint(x / 0.05) + 3, -128, 127) - 3
    np.testing.assert_allclose(module.MyNet()(x)["y"], np.maximum(wanted, 0) * 0.05, atol=1e-6)
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    assert f"+ ({zero})).coerceIn({low}, {high}).toByte()" in kotlin
    assert f"- ({zero})) * 0.05" in kotlin


def test_names_can_write_no_code(tmp_path: Path) -> None:
    model = parsed(INTEGER)
    model.graph.graph.inputs[0].name = 'x\n"""$y*/\nraise SystemExit'
    module, kotlin = _written(model, tmp_path, "int8")
    assert "raise SystemExit" not in [line.strip() for line in kotlin.splitlines()]
    assert "\\$y" in kotlin and '\n"""' not in kotlin
    assert list(module.MyNet()(np.zeros((2, 4), np.float32))) == ["y"]
