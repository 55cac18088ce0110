"""What a package is made by: a request, held against the model and against the target."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from converter.errors import UsageError
from converter.ir.model import Model, TensorSpec
from converter.options.request import Request
from converter.options.resolved import io_dtype_of
from converter.samples.labels import read_label_names
from emitters.coreml.images import Image, images_of
from emitters.coreml.request import package
from emitters.coreml.sizes import Range, Sizes, fixed_by, sizes_of

NEEDS = {
    "--compute-units cpu-and-ne": 16,
    "fp16 inputs and outputs": 16,
    "int8": 17,
    "int8-weights": 16,
    "palettized": 16,
    "int4-weights": 18,
}
"""The oldest system that has what is asked for: activations of 8 bits are ``quantize`` and
``dequantize`` of iOS17's operations, weights of 8 bits ``constexpr_affine_dequantize`` of iOS16's
and tables ``constexpr_lut_to_dense``, blocks of 4 bits ``constexpr_blockwise_shift_scale`` of
iOS18's; float16 is a type of inputs and outputs since iOS16 (coremltools' guide), and
``MLComputeUnits.cpuAndNeuralEngine`` is there since then."""


@dataclass(frozen=True)
class Options:
    """What a request means for one model.

    Attributes:
        target: The oldest system that the package is for, by its number: 15 to 18, 26.
        units: ``all``, ``cpu-and-ne``, ``cpu-and-gpu`` or ``cpu-only``.
        sizes: What free dimensions may be.
        images: Inputs that are images.
        fixed: Sizes of free dimensions that aren't free in the package.
        classifier: The output whose scores are given by class name too, and the names.
    """

    target: int
    units: str
    sizes: Sizes
    images: Mapping[str, Image]
    fixed: Mapping[str, int]
    classifier: tuple[str, tuple[str, ...]] | None = None

    @classmethod
    def of(cls, request: Request, model: Model, seen: Mapping[str, Range] | None = None) -> Options:
        """The options of a request.

        Args:
            request: Its options of packages, images and labels.
            model: What the package is made of.
            seen: What sizes the samples have, by the name of the free dimension.

        Raises:
            UsageError: One doesn't fit the model or the target.
        """
        target = target_of(request)
        images = images_of(request, model.inputs)
        sizes = sizes_of(request, model.inputs, target, seen)
        fixed = fixed_by(sizes)
        for spec in model.inputs:
            first = (spec.shape or (1,))[0]
            if spec.name in images and images[spec.name].layout[0] == "N" and first != 1:
                fixed[str(first)] = 1  # Core ML takes one image at a time
        classifier = (
            _classifier(request, model, fixed) if package(request).coreml_classifier else None
        )
        return cls(
            target, package(request).compute_units or "all", sizes, images, fixed, classifier
        )


def _classifier(
    request: Request, model: Model, fixed: dict[str, int]
) -> tuple[str, tuple[str, ...]]:
    """The output whose classes have names; its batch is fixed: there is one class a prediction."""
    spec = next((spec for spec in model.outputs if spec.labels), None)
    if spec is None and request.label_names is not None:
        spec = _with_names(model, read_label_names(request.label_names))
    if spec is None or spec.labels is None:
        raise UsageError(
            "--coreml-classifier needs the class names of an output",
            code="option-missing",
            hint="Give them with --label-names FILE: one line for each score of the output.",
        )
    rest = (spec.shape or ())[:-1]
    if any(dim != 1 for dim in rest if isinstance(dim, int)):
        raise UsageError(
            f"--coreml-classifier: {spec.name} is {spec.describe()}, which holds scores of "
            "several things",
            code="option-not-applicable",
        )
    fixed.update({dim: 1 for dim in rest if isinstance(dim, str)})
    return spec.name, told_apart(spec.labels)


def told_apart(names: Sequence[str]) -> tuple[str, ...]:
    """Names of classes with the number of the class behind those that several share: Core ML
    gives scores by name, and ImageNet has two kinds of crane."""
    count = Counter(names)
    return tuple(
        f"{name} ({index})" if count[name] > 1 else name for index, name in enumerate(names)
    )


def _with_names(model: Model, names: tuple[str, ...]) -> TensorSpec | None:
    """The first output that has a score for each name."""
    for spec in model.outputs:
        if spec.is_float and spec.shape and spec.shape[-1] == len(names):
            return replace(spec, labels=names)
    return None


def target_of(request: Request) -> int:
    """The oldest system that a package is for, by its number: 15 to 18, 26."""
    return int(package(request).coreml_target.removeprefix("iOS"))


def require_units(request: Request) -> None:
    """Refuses compute units that the target doesn't have; raises UsageError."""
    _require_since(f"--compute-units {package(request).compute_units}", request)


def require_since(precision: str, request: Request) -> None:
    """Refuses a precision that the target doesn't have; raises UsageError."""
    _require_since(precision, request)
    if io_dtype_of(request, precision) == "float16":
        _require_since("fp16 inputs and outputs", request)


def _require_since(what: str, request: Request) -> None:
    oldest = NEEDS.get(what.removeprefix("fp16+"), 15)
    if target_of(request) < oldest:
        raise UsageError(
            f"{what} for {package(request).coreml_target}: Core ML has this only since iOS{oldest}",
            code="option-not-applicable",
            hint=f"Convert with --coreml-target iOS{oldest}.",
        )
