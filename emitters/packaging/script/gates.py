"""The gates of modelyard's own check on outputs, for where modelyard isn't.

The limits come with the samples. Names, types and shapes are the model's; NaN or Inf nowhere where
the source has none; of floats the cosine (of the worst sample, and of all together) and the ratio
of the norms, which cosine doesn't see; of all else the share of equal values. A sample whose
largest error is within 2**-20 of the output's known range doesn't count against cosine and scale.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from converter.check.sums import Array, Sums, are_best, as_float, difference, is_float
from emitters.packaging.script.rows import in_order

ROUNDING = 2.0**-20
"""Of an output's known range: what float32 arithmetic may leave there."""


class Output:
    """One output over the samples.

    Args:
        facts: What is known of it: ``name``, ``dtype``, ``largest`` (magnitude, or None), ``scale``
            (scale and zero point where its integers and the source's stand for real numbers, or
            None), ``stored`` (the same where only its own do).
    """

    def __init__(self, facts: Mapping[str, Any]) -> None:
        self.name, self.dtype = facts["name"], facts["dtype"]
        self.rounding = ROUNDING * (facts.get("largest") or 0.0)
        self.scale, self.stored = facts.get("scale"), facts.get("stored")
        self.float = True
        self.samples = self.values = self.same = self.finite = self.compared = 0
        self.wrong = self.within = 0
        self.largest = -1.0
        self.cosines: list[float] = []
        self.sums = Sums()
        self.strange: list[str] = []

    def add(self, sample: str, expected: Array, found: Array) -> None:
        """Compares one sample's arrays.

        Args:
            sample: Its name, for messages.
            expected: What the source gave.
            found: What the artifact gave.
        """
        if not self._is_typed(found):
            self.strange.append(f"is {found.dtype.name}, and not {self.dtype}, on {sample}")
        if found.shape != expected.shape:
            shapes = f"{list(found.shape)}, and not {list(expected.shape)}"
            self.strange.append(f"has shape {shapes}, on {sample}")
            return
        if self.stored:
            found = _real(found, self.stored).astype(np.float32)
        self.samples += 1
        self.values += expected.size
        self.same += int(np.count_nonzero(_same(expected, found)))
        integers = expected.dtype.kind in "iu" and found.dtype.kind in "iu"
        if self.scale and integers:
            expected, found = _real(expected, self.scale), _real(found, self.scale)
        self.float = is_float(expected.dtype) or is_float(found.dtype)
        if self.float:
            self._add(as_float(expected).ravel(), as_float(found).ravel())

    def _is_typed(self, found: Array) -> bool:
        """Whether it has the model's type: numpy has text of several, and no bfloat16, whose
        numbers come as float32."""
        if self.dtype == "string":
            return _is_text(found)
        return found.dtype.name in (self.dtype, "float32" if self.dtype == "bfloat16" else "")

    def _add(self, r: Array, c: Array) -> None:
        finite = np.isfinite(r) & np.isfinite(c)
        self.finite += int(np.count_nonzero(np.isfinite(r)))
        self.compared += int(np.count_nonzero(finite))
        self.wrong += int(np.count_nonzero(~np.isfinite(c) & ~_same(r, c)))
        r, c = np.where(finite, r, 0.0), np.where(finite, c, 0.0)
        self.sums.add(r, c)
        if not finite.any():
            return
        error = float(np.max(np.abs(difference(r, c))))
        self.largest = max(self.largest, error)
        if 0 < error <= self.rounding:
            self.within += 1
            return
        one = Sums()
        one.add(r, c)
        self.cosines.append(one.cosine())

    @property
    def cosine(self) -> float | None:
        """The smaller of the worst sample's and of all together; None where nothing counts."""
        if self.within and self.within == self.samples:
            return math.nextafter(1.0, 0.0)
        if not self.compared or (self.sums.norm_ratio() is None and self.largest <= 0):
            return None
        return min([*self.cosines, self.sums.cosine()])

    @property
    def off(self) -> float | None:
        """By how much the ratio of the norms differs from 1; None where nothing counts."""
        ratio = self.sums.norm_ratio() if self.compared and self.within < self.samples else None
        return None if ratio is None else abs(ratio - 1)

    def misses(self, gates: Mapping[str, Any]) -> list[str]:
        """The gates that it misses, in words."""
        missed = self.strange[:3]
        if self.wrong:
            missed.append(f"{self.wrong} NaN or Inf where the source has none")
        if not self.float:
            if self.values and self.same / self.values < gates["cosine"]:
                missed.append(f"{self.told()}, at least {gates['cosine']:.4%}")
            return missed
        if self.cosine is not None and self.cosine < gates["cosine"]:
            missed.append(f"cosine {self.cosine:.9g}, at least {gates['cosine']}")
        if self.off is not None and self.off > gates["scale"]:
            missed.append(f"norm off by {self.off:.9g}, at most {gates['scale']}")
        if gates["max_abs"] is not None and self.largest > gates["max_abs"]:
            missed.append(f"error {self.largest:.9g}, at most {gates['max_abs']}")
        return missed

    def told(self) -> str:
        """What was measured, for people."""
        if not self.float:
            return f"{self.same} of {self.values} values equal"
        if self.cosine is None:
            return "nothing to compare"
        off = "" if self.off is None else f", norm off by {self.off:.2g}"
        return f"cosine {self.cosine:.9f}{off}, largest error {max(self.largest, 0):.3g}"


class Comparison:
    """All outputs over the samples.

    Args:
        facts: ``outputs`` (see :class:`Output`), ``gates`` (``cosine``, ``scale``, ``max_abs``,
            ``ties``), ``lists`` (of found things: ``outputs`` and ``axis`` of each) and ``tops``
            (outputs that are the best of another: ``of``, ``best`` and ``index`` of each).
    """

    def __init__(self, facts: Mapping[str, Any]) -> None:
        self.gates, self.lists = facts["gates"], facts["lists"]
        self.tops = facts.get("tops", ())
        follow = {top[key] for top in self.tops for key in ("best", "index")}
        items = (item for item in facts["outputs"] if item["name"] not in follow)
        self.outputs = {item["name"]: Output(item) for item in items}
        self.strange: list[str] = []
        self.samples = 0

    def add(self, sample: str, expected: Mapping[str, Any], found: Mapping[str, Any]) -> None:
        """Compares one sample's outputs.

        Args:
            sample: Its name, for messages.
            expected: What the source gave: arrays by output.
            found: What the artifact gave, likewise.
        """
        self.samples += 1
        known = {name: np.asarray(array) for name, array in found.items()}
        for top in self.tops:
            best, index = (known.pop(top[key], np.empty(0)) for key in ("best", "index"))
            if not best.size or not are_best(known.get(top["of"], best), best, index):
                self.strange.append(f"{top['best']} aren't the best {top['of']}")
        self.strange += [f"{name} is missing on {sample}" for name in expected if name not in known]
        self.strange += [f"{name} is none of the model's" for name in known if name not in expected]
        expected = {name: np.asarray(array) for name, array in expected.items()}
        known = in_order(self.lists, self.gates["ties"], expected, known)
        for name, array in expected.items():
            if name in known:
                self.outputs[name].add(sample, array, known[name])

    def misses(self) -> list[str]:
        """The gates that are missed, in words; none where the outputs are the source's."""
        missed = list(dict.fromkeys(self.strange))
        if not self.samples:
            missed.append("nothing was compared")
        for name, output in self.outputs.items():
            missed += [f"{name}: {text}" for text in output.misses(self.gates)]
        floats = [output for output in self.outputs.values() if output.float and output.samples]
        if floats and not any(output.finite or not output.values for output in floats):
            missed.append("the source itself gives only NaN or Inf: nothing to judge")
        return missed

    def lines(self) -> list[str]:
        """What was measured of each output, for people."""
        return [f"{name}: {output.told()}" for name, output in self.outputs.items()]


def _real(stored: Array, scale: Sequence[float]) -> Array:
    real: Array = (stored.astype(np.float64) - scale[1]) * scale[0]
    return real


def _is_text(array: Array) -> bool:
    return array.dtype.kind in "OSU"


def _same(r: Array, c: Array) -> Array:
    """Where two arrays of one shape hold the same; NaN is the same as NaN."""
    if _is_text(r) or _is_text(c):
        pairs = zip(r.ravel().tolist(), c.ravel().tolist(), strict=True)
        return np.array([a == b for a, b in pairs], dtype=bool).reshape(r.shape)
    same = np.asarray(r == c)
    if is_float(r.dtype) and is_float(c.dtype):
        same = same | (np.isnan(r) & np.isnan(c))
    return same
