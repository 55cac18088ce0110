"""TorchScript's way to ONNX: a trace, held against the model on other inputs, then translated."""

# zip() knows no strict= before Python 3.10.
# ruff: noqa: B905

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from . import probes as torch_probes
from . import states
from .nothing import Reshaping
from .probes import Probe, Tensors
from .tensors import write_arrays

if TYPE_CHECKING:
    from .export import Request

# The TorchScript-based exporter knows no later one.
_MAX_OPSET = 20
# Where the tracer warns of what only looks like a value: a constant, or a shape, which it keeps.
_HARMLESS = ("results are registered as constants", "Using len to get tensor shape")

Axes = dict[str, dict[int, str]]


def try_torchscript(request: Request) -> Any:
    """The IR model by the TorchScript-based exporter.

    Raises unsupported where the trace is not the model, or none can tell; what torch's
    exporter raises else.
    """
    import onnx_ir

    flat, sizes, probes = request.flat, request.sizes, request.tried()
    torch_probes.require_found(probes)
    example = torch_probes.example_of(probes, sizes) or Probe("noise", sizes, request.tensors())
    states.require_none(flat.model, lambda: flat(*example.tensors))
    names = request.names()
    axes = _output_axes(request, names)
    for given, name in zip(flat.output_names, names):
        for axis in torch_probes.free_axes(probes, sizes).get(given, ()):
            axes[name].setdefault(axis, f"{name}_dim{axis}")
    request.progress("exporting with the TorchScript-based exporter")
    traced, noted = _trace(request, example.tensors)
    if torch_probes.ends_on_nothing(traced, probes):
        with Reshaping():
            traced, noted = _trace(request, example.tensors)
    probes = torch_probes.require_same(flat, traced, probes, example, noted)
    proto = _translate(request, traced, example.tensors, names, axes)
    request.probes = _kept_for_the_parent(request, probes, names)
    request.probed = torch_probes.told(probes, example) if probes else "no other input was taken"
    request.kept = torch_probes.never_changed(probes)
    return _with_readable_sizes(onnx_ir.from_proto(proto), request)


def _trace(request: Request, example: Tensors) -> tuple[Any, list[str]]:
    """The traced module, and the lines at which a value left a tensor."""
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always")
        # Traced here, not by the exporter: that one cannot call a ScriptModule inside.
        traced = torch.jit.trace(request.flat, example, check_trace=False)
    lines = [
        f"{n.filename}:{n.lineno}"
        for n in notes
        if issubclass(n.category, torch.jit.TracerWarning)
        and not any(text in str(n.message) for text in _HARMLESS)
    ]
    return traced, list(dict.fromkeys(lines))


def _translate(
    request: Request, traced: Any, example: Tensors, names: Sequence[str], axes: Axes
) -> Any:
    """The ONNX proto of a traced module."""
    inputs = [spec.name for spec in request.specs]
    free: dict[str, dict[int, str]] = {
        spec.name: {i: d for i, d in enumerate(spec.shape) if isinstance(d, str)}
        for spec in request.specs
    }
    scratch = Path(f"{request.out}.torchscript")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(
                traced,
                example,
                str(scratch),
                dynamo=False,
                input_names=inputs,
                output_names=list(names),
                opset_version=min(request.opset, _MAX_OPSET),
                dynamic_axes={name: found for name, found in {**free, **axes}.items() if found},
            )
        return _load(scratch)
    finally:
        scratch.unlink(missing_ok=True)


def _load(path: Path) -> Any:
    import onnx

    proto = onnx.load(path)
    for tensor in proto.graph.initializer:
        tensor.ClearField("doc_string")
    for node in proto.graph.node:
        _forget_sizes(node)
    return proto


def _forget_sizes(node: Any) -> None:
    """Inside loops the exporter has the sizes of the first turn, which may grow: they stay open."""
    for attribute in node.attribute:
        for graph in [attribute.g] if attribute.HasField("g") else attribute.graphs:
            del graph.value_info[:]
            carried = [*graph.input[2:], *graph.output[1:]] if node.op_type == "Loop" else ()
            for value in carried:
                for dim in value.type.tensor_type.shape.dim:
                    dim.Clear()
            for inner in graph.node:
                _forget_sizes(inner)


def _output_axes(request: Request, names: Sequence[str]) -> Axes:
    """Symbols of output axes, found by running the model with each symbol one larger."""
    base = request.flat(*request.tensors())
    axes: Axes = {name: {} for name in names}
    for symbol, size in request.sizes.items():
        try:
            grown = request.flat(*request.tensors({**request.sizes, symbol: size + 1}))
        except Exception:  # the model takes no other size: it names no axis of an output then
            continue
        for name, before, after in zip(names, base, grown):
            for axis, pair in enumerate(zip(before.shape, after.shape)):
                if pair == (size, size + 1):
                    axes[name][axis] = symbol
    return axes


def _with_readable_sizes(model: Any, request: Request) -> Any:
    """Sizes that hang on values are called after the first output that has them."""
    import onnx_ir

    renamed: dict[str, str] = {}
    for value in model.graph.outputs:
        for axis, dim in enumerate(value.shape or ()):
            symbol = _symbol(dim)
            if symbol and symbol not in request.sizes:
                renamed.setdefault(symbol, f"{value.name}_dim{axis}")
    for value in [*model.graph.outputs, *(v for node in model.graph for v in node.outputs)]:
        if value.shape is not None:
            value.shape = onnx_ir.Shape([renamed.get(_symbol(dim), dim) for dim in value.shape])
    return model


def _symbol(dim: Any) -> str:
    """The name of a free size; empty for a number, and for one without a name."""
    return str(getattr(dim, "value", None) or "")


def _kept_for_the_parent(
    request: Request, probes: Sequence[Probe], names: Sequence[str]
) -> list[dict[str, Any]]:
    """Files of what went in and came out, for the parent to run the ONNX file on."""
    kept = []
    for number, probe in enumerate(probes):
        feeds, outputs = (f"{request.out}.probe{number}.{side}.npz" for side in ("in", "out"))
        write_arrays(feeds, {s.name: t for s, t in zip(request.specs, probe.tensors)})
        write_arrays(outputs, dict(zip(names, probe.outputs.values())))
        kept.append({"what": str(probe), "feeds": feeds, "outputs": outputs})
    return kept
