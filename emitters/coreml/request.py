"""The options of Core ML packages: ."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from converter.options.option import declared
from converter.options.request import Request

_coreml = partial(declared, "Core ML", affects=("emit",))


@dataclass
class PackageRequest(Request):
    """What is asked of a package; docs/options.md lists it."""

    metadata: dict[str, str] = declared(
        "Targets",
        "--metadata",
        "An additional entry of Core ML's metadata.",
        {},
        affects=("emit",),
        metavar="NAME=VALUE",
    )
    coreml_target: str = _coreml(
        "--coreml-target",
        "The oldest system that must run the package.",
        "iOS17",
        affects=("quantize", "emit"),
        choices=("iOS15", "iOS16", "iOS17", "iOS18", "iOS26"),
    )
    compute_units: str | None = _coreml(
        "--compute-units",
        "Where the package should run. The package, the manifest and the Swift snippet note it,"
        " and checks on a Mac use it. Default: all, or what the package says.",
        affects=("emit", "check", "bench"),
        choices=("all", "cpu-and-ne", "cpu-and-gpu", "cpu-only"),
    )
    coreml_shapes: list[str] = _coreml(
        "--coreml-shapes",
        "The only shapes of an input, the most common one first. Default: a range (--shapes).",
        [],
        metavar="NAME:SHAPE,SHAPE",
    )
    coreml_images: list[str] = _coreml(
        "--coreml-image",
        "Take this input as an image. The --image-* options say how it is prepared.",
        [],
        metavar="NAME",
    )
    coreml_classifier: bool = _coreml(
        "--coreml-classifier",
        "Make the package a classifier: it gives class names (--label-names) and their scores.",
        False,
    )


def package(request: Request) -> PackageRequest:
    """The request with these."""
    return request.of(PackageRequest)
