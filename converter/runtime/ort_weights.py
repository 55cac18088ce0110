"""Models as ONNX Runtime takes them without copies of their weights: lent, mapped, or left in their
file."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnx
import onnx_ir
import onnxruntime
from google.protobuf.message import DecodeError

from converter.errors import ModelError
from converter.ir.edit import weights_first
from converter.ir.external import mapped_tensors
from converter.ir.serialized import is_read_so, read_outline
from converter.runtime.memory import give_back
from converter.runtime.ort_integers import of_8_bits, saturates, to_unsigned
from converter.text.words import one_line

_NUMPYS = frozenset(
    onnx_ir.DataType[name]
    for name in ("FLOAT", "FLOAT16", "DOUBLE", "INT8", "UINT8", "INT32", "INT64")
)
"""Types of weights that numpy and ONNX Runtime lay out the same."""

_NOWHERE = 1 << 60
"""Where in a file nothing is."""

FOLDER = "session.model_external_initializers_file_folder_path"
"""The setting of a session that names the folder of a model's weights."""

LENT = 1 << 16
"""Bytes from which a weight in memory is lent to a session: none is read to infer shapes."""


def lendable(model: onnx_ir.Model) -> dict[str, onnxruntime.OrtValue]:
    """The weights that ONNX Runtime can use where they lie: to put them into the protobuf and read
    them from it takes longer than several runs, and copies them three times. Weights of int8 may be
    replaced (:func:`to_unsigned`)."""
    types = _NUMPYS - {onnx_ir.DataType.INT8} if saturates() else _NUMPYS
    return {
        name: onnxruntime.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(tensor.numpy()))
        for name, value in model.graph.initializers.items()
        if (tensor := value.const_value) is not None
        and tensor.nbytes >= LENT
        and tensor.dtype in types
        and not isinstance(tensor, onnx_ir.ExternalTensor)
        and not value.is_graph_input()
        and value.uses()  # ONNX Runtime drops others first, and then doesn't find them
    }


@contextmanager
def written_down(
    model: onnx_ir.Model, options: onnxruntime.SessionOptions, lent: Collection[str]
) -> Iterator[bytes]:
    """A model in memory as a protobuf, and in ``options`` the folder of its weights.

    Those that are lent are said to lie in some file that is there, behind its end: it isn't read,
    or that fails, and whatever else would have ONNX Runtime take them copies them first.

    Args:
        model: The model, in memory.
        options: The session's, which get the folder of the weights.
        lent: Names of weights that are lent.
    """
    with ExitStack() as stack:
        mapped = next(mapped_tensors(model), None)
        folder, file = _weights_folder(model), str(mapped.location) if mapped else "lent"
        if lent and folder is None:
            folder = stack.enter_context(TemporaryDirectory(prefix="modelyard-"))
            (Path(folder) / file).touch()
        if folder:
            options.add_session_config_entry(FOLDER, folder)
        proto = onnx_ir.to_proto(_outside(model, lent, file) if lent else model)
        _put_weights_first(proto.graph, model)
        if saturates():
            to_unsigned(proto.graph, of_8_bits(model))
        what = proto.SerializeToString()
        del proto  # a copy of all that isn't lent
        yield what


def _put_weights_first(graph: onnx.GraphProto, model: onnx_ir.Model) -> None:
    places = {node: place for place, node in enumerate(model.graph)}
    order = [places[node] for node in weights_first(model.graph)]
    if order != sorted(order):
        nodes = list(graph.node)
        del graph.node[:]
        graph.node.extend(nodes[place] for place in order)


def outline_of(model: Path) -> onnx.ModelProto:
    """A file's outline. A file that protobuf's own parser reads otherwise is refused: with that
    parser ONNX Runtime takes the file.

    Raises:
        ModelError: It can't be parsed, or it isn't what the outline says.
    """
    try:
        outline = read_outline(model)
        same = is_read_so(model, outline)
    except DecodeError as error:
        raise ModelError(
            f"{model.name} can't be read: {one_line(error)}", code="model-damaged"
        ) from error
    give_back()
    if not same:
        raise ModelError(
            f"{model.name} was read back differently than it was written", code="model-damaged"
        )
    return outline


def _outside(model: onnx_ir.Model, names: Iterable[str], file: str) -> onnx_ir.Model:
    """A copy that says of these weights that they lie in a file."""
    copy = model.clone()
    for name in names:
        value = copy.graph.initializers[name]
        old = value.const_value
        assert old is not None
        value.const_value = onnx_ir.ExternalTensor(
            file, _NOWHERE, old.nbytes, old.dtype, shape=onnx_ir.Shape([*old.shape]), name=name
        )
    return copy


def _weights_folder(model: onnx_ir.Model) -> str | None:
    """The one folder that holds the model's external weights, if it has any."""
    folders = {
        str(value.const_value.base_dir)
        for graph in model.graphs()
        for value in graph.initializers.values()
        if isinstance(value.const_value, onnx_ir.ExternalTensor)
    }
    if len(folders) > 1:
        raise ModelError(
            "the model's weights are in several folders",
            code="model-too-large",
            details=sorted(folders),
        )
    return folders.pop() if folders else None
