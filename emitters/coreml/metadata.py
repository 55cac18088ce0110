"""What a package says of itself: description, author, licence, version, inputs and outputs."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from converter.ir import Model
from converter.request import Request
from emitters.coreml.interface import KEY, Port, stored
from emitters.coreml.lowering import Lowered
from emitters.coreml.options import Options

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
            **request.metadata,
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
    """``image, NCHW: float32[batch, 3, 224, 224]; batch 1 to 8``."""
    spec = port.spec
    words = ", ".join(word for word in (spec.meaning, spec.layout) if word)
    text = ": ".join(part for part in (words, spec.describe()) if part)
    ranges = options.sizes.free(port)
    if port.image is not None:
        ranges.append(f"pixels of 0..255, {port.image.color}, prepared inside")
    return "; ".join([text, *ranges])
