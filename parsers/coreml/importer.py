"""A program becomes an ONNX graph: each operation by its reading, all refusals at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx_ir

from converter.errors import ModelError, Unsupported, UnsupportedError
from converter.ir.model import Model
from modelyard.containers.coreml import WEIGHTS, Package
from parsers.coreml.blob import Blob
from parsers.coreml.imported import Imported, graph_of, output
from parsers.coreml.inputs import named_inputs
from parsers.coreml.opened import PROGRAM, Opened, open_file
from parsers.coreml.operation import Named, Operation, Values, type_of
from parsers.coreml.reader import Reader, SharedNames
from parsers.coreml.refusal import MISFITS, Refusal, misfit
from parsers.coreml.registry import reading_of

_FIRST_BY_YEAR = 9
"""CoreML9 came with iOS26: from then on the numbers are those of years."""


def read(path: Path) -> Model:
    """A file's Model, with the file's names; of several functions the usual one.

    Raises:
        UsageError: It isn't there or can't be read.
        ModelError: It is damaged, or of a kind that isn't read.
        UnsupportedError: Operations can't be expressed in ONNX; all of them.
    """
    opened = open_file(path)
    return Model.wrap(import_opened(opened).graph)


def import_opened(opened: Opened, function: str | None = None) -> Imported:
    """The graph of a program's function, of a neural network, or of a pipeline.

    Raises:
        UsageError: The program has no such function.
        UnsupportedError: Operations can't be expressed in ONNX; all of them.
    """
    try:
        return _imported(opened, function)
    except MISFITS as error:
        raise ModelError(
            f"{opened.name} can't be read: {misfit(error).reason}",
            code="model-damaged",
            hint=misfit(error).remedy,
        ) from error


def _imported(opened: Opened, function: str | None = None) -> Imported:
    if opened.stages:
        from parsers.coreml.pipeline.pipeline import import_pipeline

        return import_pipeline(opened, _imported)
    if opened.kind != PROGRAM:
        from parsers.coreml.network.network import import_network

        return import_network(opened)
    program = opened.spec.mlProgram
    chosen = opened.function(function)
    told = opened.description(chosen)
    return import_program(program.functions[chosen], told, opened.parts, opened.name)


def import_program(function: Any, told: Any, parts: Package, name: str) -> Imported:
    """A function of a program as a graph.

    Args:
        function: The ``MIL.proto`` function.
        told: The ``ModelDescription``, which tells of its inputs.
        parts: The package, whose files hold large constants.
        name: The file's, for messages.

    Raises:
        UnsupportedError: Operations that have no place in ONNX; all of them.
    """
    block = function.block_specializations[function.opset]
    reader, values, refused = Reader(SharedNames()), Values(Blobs(parts)), list[Unsupported]()
    reader.read_block = lambda inner, part: read_block(inner, values, part, refused)
    reader.target = _target(function.opset)
    inputs = named_inputs([Named(i.name, type_of(i.type)) for i in function.inputs], told)
    for value in inputs:
        assert value.name is not None
        reader.names.free(value.name)
        reader.bind(value.name, value)
    for item in block.outputs:
        reader.names.free(str(item))
    read_block(reader, values, block, refused)
    if refused:
        raise UnsupportedError(
            f"{name}: {len(refused)} operations can't be converted to ONNX", refused
        )
    names = [str(item) for item in block.outputs if str(item) not in reader.dropped]
    given: set[int] = set()
    outputs = [output(reader, item, reader.named(item), given) for item in names]
    return Imported(graph_of(reader, inputs, [*outputs, *_states(reader)]), reader.classes)


def _target(opset: str) -> int:
    """The version of iOS that a function's operations are of, by its opset: CoreML5 is iOS15."""
    digits = opset.removeprefix("CoreML")
    number = int(digits) if digits.isdigit() else 0
    return number + 10 if number < _FIRST_BY_YEAR else number + 17


def _states(reader: Reader) -> list[onnx_ir.Value]:
    """What states hold in the end, outputs with their names and ``_out``."""
    outputs = []
    for name, value in reader.written.items():
        reader.op = f"{name}_out"
        made = reader.node("Identity", [value])
        made.shape = value.shape
        outputs.append(made)
    return outputs


def read_block(reader: Reader, values: Values, block: Any, refused: list[Unsupported]) -> None:
    """Reads a block's operations in order.

    Args:
        reader: Takes what is read.
        values: The program's constants.
        block: The ``MIL.proto`` block.
        refused: Operations that can't be read are added.

    Raises:
        ModelError: A constant has no value.
    """
    for message in block.operations:
        op = values.operation(message)
        reader.op = op.name
        if op.type == "const":
            if "val" not in op.attributes or not op.outputs:
                raise ModelError(
                    f"the program is damaged: the constant {op.name} has no value",
                    code="model-damaged",
                )
            reader.bind(op.outputs[0].name, op.attributes["val"])
            continue
        try:
            _read(reader, op)
        except Refusal as refusal:
            refused.append(Unsupported(op.name, op.type, refusal.reason, refusal.remedy))
            for output in op.outputs:
                reader.bind(output.name, onnx_ir.Value(name=output.name))


def _read(reader: Reader, op: Operation) -> None:
    reading = reading_of(op.type)
    if reading is None:
        raise Refusal(f"Modelyard can't read {op.type}")
    try:
        reading(reader, op)
    except MISFITS as error:
        raise misfit(error) from error


class Blobs:
    """The package's files of weights, by the names that constants have for them."""

    def __init__(self, parts: Package) -> None:
        self._parts = parts
        self._open: dict[str, Blob] = {}

    def __call__(self, name: str) -> Blob:
        if name not in self._open:
            folder = self._parts.folder
            if folder is None:
                raise ModelError(
                    f"{self._parts.model.name} has its weights in another file of its "
                    f"package, {name}",
                    code="model-damaged",
                    hint="Name the .mlpackage folder.",
                )
            if not name.startswith(WEIGHTS):
                raise ModelError(
                    f"the weights are in {name!r}, which isn't a file of the package",
                    code="path-outside",
                )
            path = (folder / name.removeprefix(WEIGHTS)).resolve()
            if not path.is_relative_to(folder.resolve()):
                raise ModelError(
                    f"the weights are in {name!r}, outside of the package", code="path-outside"
                )
            self._open[name] = Blob(path)
        return self._open[name]
