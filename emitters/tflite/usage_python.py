"""``usage.py``: a Python file that runs the model, with this model's names, types and sizes."""

from __future__ import annotations

import keyword

from converter.ir.model import Model
from converter.options.request import Request
from emitters.templates import render
from emitters.tflite.graph import TfliteModel
from emitters.tflite.usage import usage_of
from emitters.tflite.writer import SIGNATURE

_TAKEN = {*keyword.kwlist, *keyword.softkwlist, "self", "np", "outputs", "stored", "real"}


def snippet(made: TfliteModel, model: Model, request: Request) -> str:
    """The text of ``usage.py``.

    Args:
        made: The TFLite model, as it is written.
        model: What it was made of.
        request: Its ``name``, and how images are prepared.
    """
    usage = usage_of(made, model, request, snake=True, taken=_TAKEN)
    way = usage.preparation
    photo = way.python(f"The input {usage.inputs[0].argument}") if way else ""
    values = {"usage": usage, "signature": SIGNATURE, "photo": photo}
    return render("emitters.tflite", "usage.py.j2", values, repr=repr)
