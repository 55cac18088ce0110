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
        "More of Core ML's metadata.",
        {},
        affects=("emit",),
        metavar="NAME=VALUE",
    )
    coreml_target: str = _coreml(
        "--coreml-target",
        "The oldest system that the package is for.",
        "iOS17",
        affects=("quantize", "emit"),
        choices=("iOS15", "iOS16", "iOS17", "iOS18", "iOS26"),
    )
    compute_units: str | None = _coreml(
        "--compute-units",
        "Where the package is to run: noted in it, in the manifest and in the Swift snippet, and "
        "used by checks on a Mac. Default: all, or what the package says.",
        affects=("emit", "check", "bench"),
        choices=("all", "cpu-and-ne", "cpu-and-gpu", "cpu-only"),
    )
    coreml_shapes: list[str] = _coreml(
        "--coreml-shapes",
        "The only shapes of an input, the usual one first. Default: a range (--shapes).",
        [],
        metavar="NAME:SHAPE,SHAPE",
    )
    coreml_images: list[str] = _coreml(
        "--coreml-image",
        "An input that the package takes as an image, prepared by the --image-* options.",
        [],
        metavar="NAME",
    )
    coreml_classifier: bool = _coreml(
        "--coreml-classifier",
        "Have the package give class names (--label-names) and their scores.",
        False,
    )


def package(request: Request) -> PackageRequest:
    """The request with these."""
    return request.of(PackageRequest)
