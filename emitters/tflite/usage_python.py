"""``usage.py``: a Python file that runs the model, with this model's names, types and sizes."""

from __future__ import annotations

import keyword
from collections.abc import Iterator

from converter.ir import Model
from converter.request import Request
from emitters.tflite.graph import TfliteModel
from emitters.tflite.usage import Port, Preparation, Usage, usage_of
from emitters.tflite.writer import SIGNATURE

_TAKEN = {*keyword.kwlist, *keyword.softkwlist, "self", "np", "outputs", "stored", "real"}


def snippet(made: TfliteModel, model: Model, request: Request) -> str:
    """The text of ``usage.py``; for its arguments see :func:`emitters.tflite.usage.usage_of`."""
    usage = usage_of(made, model, request, snake=True, taken=_TAKEN)
    return "\n".join([*_head(usage), *_class(usage), *_helpers(usage), *_main(usage), ""])


def _head(usage: Usage) -> Iterator[str]:
    pictures = usage.preparation is not None
    needs = ", numpy and pillow" if pictures else " and numpy"
    yield f"# Runs model.tflite; needs ai-edge-litert{needs}."
    if pictures:
        yield "# python usage.py PICTURE"
    yield ""
    if pictures:
        yield "import sys"
    if usage.labels:
        yield "import zipfile"
    yield from ["from pathlib import Path", "", "import numpy as np"]
    yield "from ai_edge_litert.interpreter import Interpreter"
    if pictures:
        yield "from PIL import Image, ImageOps"
    yield from ["", 'FILE = Path(__file__).with_name("model.tflite")', ""]


def _class(usage: Usage) -> Iterator[str]:
    names = ", ".join(port.argument for port in usage.inputs)
    yield from [
        "",
        f"class {usage.kind}:",
        "    def __init__(self, file=FILE, threads=None):",
        "        self._interpreter = Interpreter(str(file), num_threads=threads)",
        f"        self._run = self._interpreter.get_signature_runner({SIGNATURE!r})",
        "",
        f"    def __call__(self, {names}):",
        *(f"        # {port.argument}: {port.about}{_outside(port)}" for port in usage.inputs),
        "        # Gives by name:",
        *(f"        # {port.argument}: {port.about}{_outside(port)}" for port in usage.outputs),
        "        outputs = self._run(",
        "            **{",
        *(f"                {port.name!r}: {_given(port)}," for port in usage.inputs),
        "            }",
        "        )",
    ]
    if not any(port.quant for port in usage.outputs):
        yield "        return outputs"
        return
    yield "        return {"
    for port in usage.outputs:
        value = f"outputs[{port.name!r}]"
        value = f"real({value}, {_scales(port)})" if port.quant else value
        yield f"            {port.name!r}: {value},"
    yield "        }"


def _outside(port: Port) -> str:
    return "; float32 out here" if port.quant else ""


def _scales(port: Port) -> str:
    assert port.quant is not None
    return f"{port.quant[0]!r}, {port.quant[1]}"


def _given(port: Port) -> str:
    return f"stored({port.argument}, np.{port.dtype}, {_scales(port)})" if port.quant else (
        port.argument
    )  # fmt: skip


def _helpers(usage: Usage) -> Iterator[str]:
    if any(port.quant for port in usage.inputs):
        yield from [
            "",
            "",
            "def stored(values, dtype, scale, zero_point):",
            "    # The integers that stand for real numbers.",
            "    ends = np.iinfo(dtype)",
            "    values = np.rint(np.asarray(values) / scale) + zero_point",
            "    return np.clip(values, ends.min, ends.max).astype(dtype)",
        ]
    if any(port.quant for port in usage.outputs):
        yield from [
            "",
            "",
            "def real(values, scale, zero_point):",
            "    return (values.astype(np.float32) - zero_point) * np.float32(scale)",
        ]
    if usage.preparation:
        yield from _preparation(usage.preparation)
    if usage.labels:
        yield from [
            "",
            "",
            "def labels(file=FILE):",
            "    # Names of the classes, which lie in an archive behind the model.",
            "    with zipfile.ZipFile(file) as archive:",
            f"        return archive.read({usage.labels[1]!r}).decode().splitlines()",
        ]


def _preparation(way: Preparation) -> Iterator[str]:
    height, width = way.size
    mode = "L" if way.color == "gray" else "RGB"
    filter_ = f"Image.Resampling.{way.interpolation.upper()}"
    yield from [
        "",
        "",
        "def prepare(file):",
        f"    # The input {way.port.argument} of a picture, as the samples were prepared.",
        f"    picture = ImageOps.exif_transpose(Image.open(file)).convert({mode!r})",
    ]
    if isinstance(way.resize, int):
        yield "    shorter = min(picture.size)"
        yield f"    size = [{way.resize} * side // shorter for side in picture.size]"
        yield f"    picture = picture.resize(size, {filter_})"
    else:
        yield f"    picture = picture.resize({way.resize[::-1]}, {filter_})"
    if way.resize != way.size:
        yield f"    left = round((picture.width - {width}) / 2)"
        yield f"    top = round((picture.height - {height}) / 2)"
        yield f"    picture = picture.crop((left, top, left + {width}, top + {height}))"
    yield "    pixels = np.asarray(picture, np.float64)"
    if way.color == "gray":
        yield "    pixels = pixels[..., np.newaxis]"
    if way.color == "bgr":
        yield "    pixels = pixels[..., ::-1]"
    yield f"    values = (pixels * {way.scale!r} - {list(way.mean)}) / {list(way.std)}"
    if way.channels_first:
        yield "    values = values.transpose(2, 0, 1)"
    yield "    return values[np.newaxis].astype(np.float32)"


def _main(usage: Usage) -> Iterator[str]:
    if not usage.preparation:
        return
    yield from ["", "", 'if __name__ == "__main__":']
    yield f"    outputs = {usage.kind}()(prepare(sys.argv[1]))"
    if usage.labels:
        yield f"    scores, names = outputs[{usage.labels[0]!r}].ravel(), labels()"
        yield "    for index in np.argsort(-scores)[:5]:"
        yield '        print(f"{scores[index]:9.4f}  {names[index]!r}")'
    else:
        yield "    for name, values in outputs.items():"
        yield "        print(repr(name), values.shape, values.ravel()[:8])"
