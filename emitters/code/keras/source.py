"""The text of ``model.py``."""

from __future__ import annotations

from pathlib import Path

from converter.ir.model import TensorSpec
from emitters.code.classes import text_of
from emitters.code.formatting import formatted
from emitters.code.functions import texts
from emitters.code.keras.interface import Interface
from emitters.code.keras.types import keras_type
from emitters.code.paths import RESERVED, identifier
from emitters.code.program import Program, doc_of

_FUNCTIONS = Path(__file__).parent / "functions"

_LOADING = '''def load(path: str = "{file}") -> keras.Model:
    """The model with its weights."""
    return keras.saving.load_model(path)'''


def source_of(program: Program, interface: Interface, title: str, file: str) -> str:
    """The file's text.

    Args:
        program: Without refusals.
        interface: The model's inputs and outputs.
        title: What the model is, in a line.
        file: The archive with its weights.
    """
    assert program.dialect is not None
    functions = texts(_FUNCTIONS, program.helpers)
    classes = [text_of(made, program.dialect, doc_of(made)) for made in program.classes]
    registered = f'@keras.saving.register_keras_serializable(package="{interface.name}")\n'
    classes[-1] = registered + classes[-1]
    loading = _LOADING.format(file=file)
    body = "\n\n\n".join([*functions, *classes, _build(interface), loading])
    names = [name for name in ("layers", "ops") if f"{name}." in body]
    head = [
        *(f'"""{title}"""', "", "from typing import Any", "", "import keras"),
        f"from keras import {', '.join(names)}",
        *("", "Tensor = Any"),
    ]
    return "\n".join(head) + "\n\n\n" + body + "\n"


def _build(interface: Interface) -> str:
    """The function that makes the model."""
    taken = {*RESERVED, "build", "load", "Network"}
    names = []
    for spec in interface.inputs:
        names.append(identifier(spec.name, taken))
        taken.add(names[-1])
    lines = ["def build() -> keras.Model:", '    """The model, its weights as they start."""']
    for spec, name in zip(interface.inputs, names, strict=True):
        lines += formatted(f"    {name} = {_input(spec, interface)}")
    given = [identifier(spec.name, taken) for spec in interface.outputs]
    if interface.plain_outputs:
        results = given = ["output"]
    else:
        results = [f"outputs[{at}]" for at in range(len(given))] if len(given) > 1 else ["outputs"]
        given = ["outputs"]
    call = f'Network(name="{interface.layer}")({", ".join(names)})'
    lines += formatted(f"    {given[0]} = {call}")
    takes = names[0] if interface.plain_inputs else _dict(interface.inputs, names)
    gives = results[0] if interface.plain_outputs else _dict(interface.outputs, results)
    lines += formatted(f'    return keras.Model({takes}, {gives}, name="{interface.name}")')
    return "\n".join(lines)


def _dict(specs: tuple[TensorSpec, ...], names: list[str]) -> str:
    pairs = (f'"{spec.name}": {name}' for spec, name in zip(specs, names, strict=True))
    return "{" + ", ".join(pairs) + "}"


def _input(spec: TensorSpec, interface: Interface) -> str:
    shape = [str(size) for size in interface.shape(spec)]
    told = f"({', '.join(shape)}{',' if len(shape) == 1 else ''})"
    dtype = "" if spec.dtype == "float32" else f", dtype={keras_type(spec.dtype)}"
    return f'keras.Input(batch_shape={told}{dtype}, name="{interface.input_name(spec)}")'
