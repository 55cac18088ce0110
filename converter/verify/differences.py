"""How two outputs differ, and how much of it is rounding.

Results must be the same bit for bit where they are integers, bools or strings, and within the
rounding of the model's own arithmetic where they are floating point.

How close is close: a rewrite that is right in exact arithmetic (a scale folded into a weight,
a sum in another order) moves a result by a few units in the last place of every layer it goes
through. On the models of the zoo that came to at most 1e-5 of the largest output; wrong
rewrites were off by 1e-2 and more. The limit lies between, at 1e-4 (:data:`RELATIVE`, wider
where the model itself computes in fewer bits), relative to the largest magnitude in that
output on that input. On inputs whose output is all but zero, rounding is measured against
what the output usually is (:data:`FLOOR`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import onnx_ir

from converter.ir.model import Model
from converter.text import words
from converter.verify.probes import Array

RELATIVE: Mapping[onnx_ir.DataType, float] = {
    onnx_ir.DataType.BFLOAT16: 5e-2,
    onnx_ir.DataType.FLOAT16: 1e-2,
    onnx_ir.DataType.FLOAT: 1e-4,
    onnx_ir.DataType.DOUBLE: 1e-4,
}
"""Largest difference, as a share of the output's largest magnitude, by the coarsest type that
the model computes in. 1e-4 is 840 units in the last place of float32."""

ROUNDED = 2e-2
"""The same for a model that rounds to 8 bits on the way: one value that falls on the other side
of a rounding moves by 1/255 of its range, and takes others with it."""

FLOOR = 1e-6
"""Differences below this share of an output's largest magnitude over the samples are rounding."""

AMPLIFIED = 16.0
"""Some inputs are ill-conditioned: a constant signal leaves a normalization nothing but rounding
to scale up. There a difference is rounding if it is at most this many times what the original
itself does when its inputs, or its weights, change by 2**-22, four units in the last place of
float32."""

MIN_COSINE = 0.99999
"""Least cosine between outputs, where both have a direction."""

ROUNDED_COSINE = 0.999
"""The same for a model that computes in fewer bits than float32."""

ROUNDING = frozenset({"QuantizeLinear", "DynamicQuantizeLinear"})
"""Operators that round to integers of 8 or 16 bits."""


@dataclass(frozen=True)
class Tolerance:
    """What passes for rounding.

    Attributes:
        relative: Largest difference, as a share of the largest magnitude in the output.
        cosine: Least cosine.
        floors: By output, the difference that is always rounding.
    """

    relative: float
    cosine: float
    floors: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Difference:
    """How one output differs.

    Attributes:
        reason: In words where it is too much, else empty.
        cosine: None where an output has no direction, or isn't floating point.
        max_abs: Largest absolute difference; None where it isn't floating point.
    """

    reason: str = ""
    cosine: float | None = None
    max_abs: float | None = None

    def worse(self, other: Difference) -> Difference:
        """The worse numbers of two differences that are both within the limits."""
        cosines = [c for c in (self.cosine, other.cosine) if c is not None]
        sizes = [size for size in (self.max_abs, other.max_abs) if size is not None]
        return Difference("", min(cosines, default=None), max(sizes, default=None))


def difference(before: Array, after: Array, tolerance: Tolerance, name: str = "") -> Difference:
    """How an output of a changed model differs from the model's before.

    Args:
        before: The output before, of any dtype.
        after: The output after; another shape or dtype is a difference.
        tolerance: How much of a difference is rounding, where it is floats.
        name: The output's, for the tolerance of its own; empty for none.
    """
    if before.shape != after.shape:
        return Difference(f"its shape is {_dims(after)}, was {_dims(before)}")
    if before.dtype != after.dtype:
        return Difference(f"its type is {after.dtype}, was {before.dtype}")
    if not _is_float(before):
        wrong = int(np.count_nonzero(before != after))
        if wrong:
            return Difference(f"{wrong} of {before.size} values differ")
        return Difference("")
    old, new = before.astype(np.float64), after.astype(np.float64)
    odd = _odd_values(old, new)
    if odd:
        return Difference(odd)
    finite = np.isfinite(old)
    return _finite(old[finite], new[finite], tolerance, tolerance.floors.get(name, 0.0))


def _finite(old: Array, new: Array, tolerance: Tolerance, floor: float) -> Difference:
    if not old.size:
        return Difference("", None, 0.0)
    max_abs, largest = float(np.max(np.abs(old - new))), float(np.max(np.abs(old)))
    limit = tolerance.relative * largest + floor
    if max_abs > limit:
        said = (
            f"off by {words.beside(max_abs, limit)} where values reach {words.number(largest)} "
            f"(limit {words.number(limit)})"
        )
        return Difference(said, _cosine(old, new), max_abs)
    cosine = _cosine(old, new) if largest > floor else None
    if cosine is not None and cosine < tolerance.cosine:
        found = words.beside(cosine, tolerance.cosine, words.cosine)
        said = f"cosine {found} (limit {words.limit(tolerance.cosine)})"
        return Difference(said, cosine, max_abs)
    return Difference("", cosine, max_abs)


def _odd_values(old: Array, new: Array) -> str:
    """How NaN and infinities differ, in words."""
    nan_old, nan_new = np.isnan(old), np.isnan(new)
    if not np.array_equal(nan_old, nan_new):
        return f"NaN in {int(nan_new.sum())} values, was in {int(nan_old.sum())}"
    inf_old, inf_new = np.isinf(old), np.isinf(new)
    if not np.array_equal(inf_old, inf_new) or np.any(old[inf_old] != new[inf_old]):
        return f"infinite in {int(inf_new.sum())} values, was in {int(inf_old.sum())}"
    return ""


def _cosine(old: Array, new: Array) -> float | None:
    lengths = float(np.linalg.norm(old) * np.linalg.norm(new))
    if lengths == 0 or not np.isfinite(lengths):
        return None
    return min(1.0, float(np.dot(old, new)) / lengths)


def _is_float(array: Array) -> bool:
    return array.dtype.kind == "f" or str(array.dtype) == "bfloat16"


def largest_change(one: Array, other: Array) -> float:
    """The largest difference where both are finite; 0.0 where shapes differ or none are."""
    if one.shape != other.shape or not _is_float(one):
        return 0.0
    with np.errstate(invalid="ignore"):
        change = np.abs(one.astype(np.float64) - other.astype(np.float64))
    return float(np.max(change[np.isfinite(change)], initial=0.0))


def overflows(array: Array) -> bool:
    """Whether a float array holds an infinity or NaN."""
    return _is_float(array) and not bool(np.isfinite(array.astype(np.float64)).all())


def magnitude(array: Array) -> float:
    """The largest finite magnitude in a float array; 0.0 for any other."""
    if not _is_float(array) or not array.size:
        return 0.0
    values = np.abs(array.astype(np.float64))
    return float(np.max(values[np.isfinite(values)], initial=0.0))


def identical(one: Array, other: Array) -> bool:
    """Whether two arrays have the same shape and bytes."""
    return one.shape == other.shape and one.tobytes() == other.tobytes()


def _dims(array: Array) -> str:
    return "x".join(str(size) for size in array.shape) or "scalar"


def tolerance_of(model: Model) -> Tolerance:
    """Limits for the coarsest arithmetic in the model."""
    exact = RELATIVE[onnx_ir.DataType.FLOAT]
    dtypes = {v.dtype for node in model.nodes() for v in (*node.inputs, *node.outputs) if v}
    relative = max([exact, *(RELATIVE[t] for t in dtypes if t is not None and t in RELATIVE)])
    if any(node.op_type in ROUNDING for node in model.nodes()):
        relative = max(relative, ROUNDED)
    return Tolerance(relative, MIN_COSINE if relative <= exact else ROUNDED_COSINE)
