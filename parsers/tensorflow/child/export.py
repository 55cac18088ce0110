"""From an open TensorFlow function to an ONNX file: trace, freeze, translate by tf2onnx, check.

tf2onnx logs an error for an operator that it can't translate and writes an invalid model all the
same. Here every such error, and every node of the result that isn't ONNX, is a refusal.
"""

# zip() knows no strict= before Python 3.10.
# ruff: noqa: B905

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ...worker import onnx_file
from ...worker.errors import WorkerError
from ...worker.packages import require
from . import export_graph as tf_export_graph
from . import export_names as tf_export_names
from .model import Opened

# tf2onnx has no handlers for later ones.
HIGHEST_OPSET = 18

# Bytes of weights from which tf2onnx keeps them out of its messages: protobuf ends at 2 GiB.
_LARGE_FROM = 1_500_000_000


class Spec(NamedTuple):
    """Name, dtype and shape of one input; a str in the shape is a symbol."""

    name: str
    dtype: str
    shape: tuple[int | str, ...]


@dataclass
class Request:
    """What to export, and where to.

    `specs` stand in the order of `opened.inputs` and carry the final names; `outputs` are the
    final names of the outputs, in order, or None for those that the model has.
    """

    opened: Opened
    specs: list[Spec]
    outputs: list[str] | None
    opset: int
    out: str
    progress: Callable[[str], None]
    warnings: list[str] = field(default_factory=list)
    keeps_layers: bool = False
    large_from: int = _LARGE_FROM

    def output_names(self) -> list[str]:
        """The final names of the outputs. Raises usage where there are too many or too few."""
        own = [output.name for output in self.opened.outputs]
        names = list(self.outputs) if self.outputs else own
        if len(names) != len(own):
            raise WorkerError(
                "usage",
                f"{len(names)} output names are given; the model has {len(own)} outputs: "
                f"{', '.join(own)}",
                code="interface-mismatch",
            )
        return names


def export(request: Request) -> dict[str, Any]:
    """Export and write the file.

    Returns out, exporter, opset, inputs, outputs, external and warnings. Raises unsupported with
    every operator that can't be translated, usage where the inputs don't fit the model, source
    where the model itself fails.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    tf2onnx = require("tf2onnx", "tf2onnx", "to translate the model to ONNX")
    names = request.output_names()
    opset = min(request.opset, HIGHEST_OPSET)
    with _layers(request):
        request.progress("tracing the model")
        concrete = tf_export_graph.trace(request.opened.function, _signature(request.specs))
        large = tf_export_graph.weight_bytes(concrete) >= request.large_from
        request.progress("translating to ONNX")
        proto = tf_export_graph.translate(concrete, opset, large)
    model = _as_ir(proto)
    shapes = _output_shapes(request, concrete, names)
    tf_export_names.apply(model, request.specs, names, shapes)
    onnx_file.strip(model)
    onnx_file.unique_names(model)
    request.progress("writing the ONNX file")
    external_from = min(request.large_from, onnx_file.EXTERNAL_FROM)
    out, external = onnx_file.save(model, request.out, external_from)
    result = {
        "out": out,
        "external": external,
        "exporter": f"tf2onnx {tf2onnx.__version__}",
        "opset": opset,
        "inputs": onnx_file.describe(model.graph.inputs),
        "outputs": onnx_file.describe(model.graph.outputs),
        "warnings": list(dict.fromkeys(request.warnings)),
    }
    _check(request, result, concrete)
    return result


@contextmanager
def _layers(request: Request) -> Iterator[None]:
    """Has layers stay that training needs, where that is asked for."""
    if not request.keeps_layers:
        yield
        return
    from . import kept_layers

    with kept_layers.kept(), request.opened.kept():
        yield


def _signature(specs: Sequence[Spec], sizes: dict[str, int] | None = None) -> list[Any]:
    """TensorSpecs of the inputs; a symbol is free unless `sizes` has it."""
    import tensorflow as tf

    chosen = sizes or {}
    return [
        tf.TensorSpec(
            [chosen.get(d) if isinstance(d, str) else d for d in spec.shape],
            tf.as_dtype(spec.dtype),
        )
        for spec in specs
    ]


def _as_ir(proto: Any) -> Any:
    import onnx_ir

    return onnx_ir.from_proto(proto)


def _output_shapes(
    request: Request, concrete: Any, names: Sequence[str]
) -> list[tuple[int | str, ...] | None]:
    """The outputs' shapes, free dimensions named after the inputs' symbols they follow.

    A second trace, with a number of its own for each symbol, tells which they follow.
    """
    symbols = dict.fromkeys(d for s in request.specs for d in s.shape if isinstance(d, str))
    sizes = tf_export_names.marks(list(symbols))
    try:
        marked = tf_export_graph.trace(request.opened.function, _signature(request.specs, sizes))
        outputs = tf_export_graph.output_shapes(marked)
    # It doesn't take these sizes (a product of two has to fit, say): no names then.
    except WorkerError:
        outputs = [None] * len(names)
    free = tf_export_graph.output_shapes(concrete)
    return [
        tf_export_names.shape(name, own, other, sizes)
        for name, own, other in zip(names, free, outputs)
    ]


def _check(request: Request, result: dict[str, Any], concrete: Any) -> None:
    """Raise internal if the file isn't the model that was promised."""
    import onnx

    try:
        onnx.checker.check_model(result["out"], full_check=False)
    except onnx.checker.ValidationError as error:
        raise WorkerError(
            "unsupported", "tf2onnx wrote a model that isn't valid", [str(error)]
        ) from error
    types = tf_export_graph.output_types(concrete)
    wanted = [(s.name, s.dtype) for s in request.specs]
    found = [(i["name"], i["dtype"]) for i in result["inputs"]]
    wanted += list(zip(request.output_names(), types))
    found += [(o["name"], o["dtype"]) for o in result["outputs"]]
    if wanted != found:
        raise WorkerError(
            "internal", f"tf2onnx changed inputs or outputs: {found}, expected {wanted}"
        )
