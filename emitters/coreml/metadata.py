"""What a package says of itself: description, author, licence, version, inputs and outputs."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from converter.ir.model import Model
from converter.options.request import Request
from emitters.coreml.interface import KEY, Port, stored
from emitters.coreml.lowering import Lowered
from emitters.coreml.options import Options
from emitters.coreml.request import package

_COREMLTOOLS = "com.github.apple.coremltools.version"
"""The key under which coremltools' own conversions say which version made them."""

UNITS = "modelyard.compute_units"


def describe(
    description: Any, lowered: Lowered, model: Model, request: Request, options: Options
) -> None:
    """Fills in a ``ModelDescription`` (``Model.proto``).

    Args:
        description: The package's.
        lowered: Its ports.
        model: Where it came from, and what its inputs and outputs mean.
        request: ``--description``, ``--author``, ``--license``, ``--model-version``,
            ``--metadata``.
        options: Sizes of free dimensions, compute units.
    """
    told = description.metadata
    told.shortDescription = request.description or described(model)
    told.author = request.author or str(model.source.get("author") or "")
    told.license = request.license or str(model.source.get("license") or "")
    told.versionString = request.model_version or str(model.source.get("version") or "")
    told.userDefined.clear()
    told.userDefined.update(
        {
            _COREMLTOOLS: version("coremltools"),
            KEY: stored(lowered.inputs, lowered.outputs),
            UNITS: options.units,
            **package(request).metadata,
        }
    )
    by_name = {port.name: port for port in (*lowered.inputs, *lowered.outputs)}
    for feature in (*description.input, *description.output):
        if feature.name in by_name:
            feature.shortDescription = about(by_name[feature.name], options)


def described(model: Model) -> str:
    """One line: what it was made of."""
    kind = model.source.get("class") or model.source.get("architecture")
    parts = [str(kind)] if kind else []
    if model.source.get("framework"):
        parts.append(f"from {model.source['framework']}")
    return " ".join([*parts, "converted by modelyard"])


def about(port: Port, options: Options) -> str:
    """``tokens: int32[batch, 128]; batch 1 to 8``: as the package has it."""
    shape = "x".join(map(str, port.shape[2:])) if port.image else ", ".join(map(str, port.shape))
    words = [word for word in (port.spec.meaning, port.spec.layout) if word]
    if port.image is not None:
        words, text = [], f"image of {shape} pixels, {port.image.color}, prepared inside"
    else:
        text = f"{port.dtype}[{shape}]"
    told = ": ".join(part for part in (", ".join(words), text) if part)
    return "; ".join([told, *filter(None, [", ".join(options.sizes.free(port))])])
