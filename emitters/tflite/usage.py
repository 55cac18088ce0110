"""What a program that runs a file has to know: names, types, scales, how images are prepared.

:mod:`emitters.tflite.usage_python` and :mod:`emitters.tflite.usage_kotlin` write it down as code.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from converter.ir.model import Model, TensorSpec, dtype_name
from converter.options.request import Request
from converter.text.words import printable
from emitters.packaging.photos import Preparation, preparation_of
from emitters.tflite.graph import Shape, Tensor, TfliteModel

_IMPORTED = {
    "Any", "AutoCloseable", "Bitmap", "ByteArray", "ByteBuffer", "ByteOrder", "DoubleArray",
    "False", "FloatArray", "Image", "ImageOps", "Int", "IntArray", "Interpreter", "LongArray",
    "Math", "None", "Outputs", "Path", "ShortArray", "True",
}  # fmt: skip
"""What the class itself can't be called: other classes that the files use."""


@dataclass(frozen=True)
class Port:
    """An input or output of the file.

    Attributes:
        name: As the signature has it.
        argument: The same as a name of a variable, in Python's or Kotlin's style.
        dtype: Of what is stored: ``float32``, ``int8``...
        shape: Symbols for free dimensions.
        quant: Scale and zero point where integers stand for real numbers, else None.
        about: ``image, NCHW: float32[batch, 3, 224, 224]``, in one line.
    """

    name: str
    argument: str
    dtype: str
    shape: Shape
    quant: tuple[float, int] | None
    about: str


@dataclass(frozen=True)
class Usage:
    """All of it.

    Attributes:
        kind: A name for the class.
        inputs, outputs: In the signature's order.
        preparation: None where the input is no picture, or it isn't known how one becomes it.
        labels: The output that has names of classes, and the file with them in the archive
            behind the model; None where there are none.
    """

    kind: str
    inputs: list[Port]
    outputs: list[Port]
    preparation: Preparation | None = None
    labels: tuple[str, str] | None = None


def usage_of(
    made: TfliteModel, model: Model, request: Request, *, snake: bool, taken: Collection[str] = ()
) -> Usage:
    """What is known of a file.

    Args:
        made: What the file holds, with its metadata's files.
        model: What it was made of.
        request: Its name, and how images are prepared.
        snake: Whether variables are called like ``input_ids``; else like ``inputIds``.
        taken: Names that variables can't have.
    """
    specs = {spec.name: spec for spec in (*model.inputs, *model.outputs)}
    kind = _words(request.name or str(model.source.get("class") or ""))
    inputs = _ports(made.inputs, specs, snake, taken)
    preparation = None
    if len(inputs) == 1:
        preparation = _preparation(inputs[0], specs[inputs[0].name], request)
    labelled = [spec.name for spec in model.outputs if spec.labels]
    files = [name for name in made.files if name.startswith("labels")]
    labels = (labelled[0], files[0]) if labelled and files else None
    named = "".join(_capital(word) for word in kind) or "Model"
    return Usage(
        f"{named}Model" if named in _IMPORTED else named,
        inputs,
        _ports(made.outputs, specs, snake, taken),
        preparation,
        labels,
    )


def _ports(
    tensors: Mapping[str, Tensor],
    specs: Mapping[str, TensorSpec],
    snake: bool,
    taken: Collection[str],
) -> list[Port]:
    used = set(taken)
    return [_port(name, tensor, specs[name], snake, used) for name, tensor in tensors.items()]


def _port(name: str, tensor: Tensor, spec: TensorSpec, snake: bool, used: set[str]) -> Port:
    dtype, quant = dtype_name(tensor.dtype), None
    if tensor.quant is not None and tensor.quant.scale.size == 1:
        quant = float(tensor.quant.scale[0]), int(tensor.quant.zero_point[0])
    words = [word for word in (spec.meaning, spec.layout) if word]
    text = f"{dtype}[{', '.join(map(str, tensor.shape))}]"
    about = ": ".join(part for part in (", ".join(words), text) if part)
    return Port(name, _argument(name, snake, used), dtype, tensor.shape, quant, one_line(about))


def _preparation(port: Port, spec: TensorSpec, request: Request) -> Preparation | None:
    """None where the options don't give the values that the model was made for."""
    served = replace(spec, dtype=port.dtype, shape=port.shape)
    return preparation_of(served, request, real=port.quant is not None)


def _argument(name: str, snake: bool, used: set[str]) -> str:
    words = _words(name) or ["value"]
    if snake:
        base = "_".join(words).lower()
    else:
        base = words[0][0].lower() + words[0][1:] + "".join(map(_capital, words[1:]))
    base = f"_{base}" if base[0].isdigit() else base
    made, number = base, 1
    while made in used:
        number += 1
        made = f"{base}{number}"
    used.add(made)
    return made


def _words(text: str) -> list[str]:
    return [part for part in re.split(r"[^A-Za-z0-9]+", text) if part]


def _capital(word: str) -> str:
    return ("_" if word[0].isdigit() else "") + word[0].upper() + word[1:]


def one_line(text: str) -> str:
    """Text that stays in one line of a comment, whatever a model's names hold."""
    return printable(" ".join(text.split()))
