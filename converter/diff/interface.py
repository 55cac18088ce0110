"""Which input and output of one model is which of the other."""

from __future__ import annotations

from collections.abc import Sequence

from converter.errors import UsageError
from converter.ir.model import Model, TensorSpec


def matched_inputs(a: Model, b: Model) -> dict[str, str]:
    """The inputs of ``b`` by those of ``a``: by name, those left over by position.

    Raises:
        UsageError: They can't be fed the same: other numbers of inputs, types, ranks or sizes.
    """
    found = _matched("inputs", a.inputs, b.inputs)
    others = {spec.name: spec for spec in b.inputs}
    wrong = [
        f"{spec.name} is {spec.describe()} in A, and {others[found[spec.name]].describe()} in B"
        for spec in a.inputs
        if not _alike(spec, others[found[spec.name]])
    ]
    if wrong:
        raise UsageError(
            "the two models don't take the same inputs",
            code="interface-mismatch",
            details=wrong,
            hint="Compare models that take the same samples. --layout gives a source the layout "
            "of the other model.",
        )
    return found


def matched_outputs(a: Model, b: Model) -> dict[str, str]:
    """The outputs of ``b`` by those of ``a``: by name, those left over by position.

    Where the models have other numbers of outputs, those of one name.

    Raises:
        UsageError: They have none in common.
    """
    if len(a.outputs) == len(b.outputs):
        return _matched("outputs", a.outputs, b.outputs)
    names = {spec.name for spec in b.outputs}
    found = {spec.name: spec.name for spec in a.outputs if spec.name in names}
    if not found:
        raise _unmatched("outputs", a.outputs, b.outputs)
    return found


def _matched(what: str, a: Sequence[TensorSpec], b: Sequence[TensorSpec]) -> dict[str, str]:
    if len(a) != len(b):
        raise _unmatched(what, a, b)
    names = {spec.name for spec in b}
    found = {spec.name: spec.name for spec in a if spec.name in names}
    left_a = [spec.name for spec in a if spec.name not in found]
    left_b = [spec.name for spec in b if spec.name not in found]
    return found | dict(zip(left_a, left_b, strict=True))


def _unmatched(what: str, a: Sequence[TensorSpec], b: Sequence[TensorSpec]) -> UsageError:
    names = {"A": ", ".join(spec.name for spec in a), "B": ", ".join(spec.name for spec in b)}
    return UsageError(
        f"the two models don't have the same {what}",
        code="interface-mismatch",
        details=[f"{side}: {listed}" for side, listed in names.items()],
    )


def _alike(a: TensorSpec, b: TensorSpec) -> bool:
    same_kind = a.dtype == b.dtype or (a.is_float and b.is_float)
    if a.shape is None or b.shape is None:
        return same_kind
    sizes = zip(a.shape, b.shape, strict=False)
    fits = all(x == y or isinstance(x, str) or isinstance(y, str) for x, y in sizes)
    return same_kind and fits and len(a.shape) == len(b.shape)
