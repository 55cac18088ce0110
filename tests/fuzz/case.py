"""A model with feeds for it, and what it computes."""

import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from converter.errors import ModelyardError
from tests.fuzz.values import NOISE, Rejected, Value, computed, given, open_session

Array = np.ndarray[Any, Any]

FIXED_WORDS = ("fixed",)
"""Beginnings of the names of float constants that no noise is put on: sizes, not weights."""


@dataclass(frozen=True)
class Case:
    """A model, and sets of feeds: each with other sizes of the free dimensions."""

    name: str
    proto: onnx.ModelProto
    feeds: tuple[Mapping[str, Array], ...]

    @property
    def nodes(self) -> int:
        """How many there are in the main graph."""
        return len(self.proto.graph.node)

    @property
    def outputs(self) -> list[str]:
        """Names of the outputs."""
        return [item.name for item in self.proto.graph.output]

    def values(self, noise: float = NOISE) -> dict[str, Value]:
        """Every value of the main graph; ``noise`` as for :func:`computed`.

        Raises:
            Rejected: It isn't valid, or ONNX Runtime can't run it.
        """
        graph = self.proto.graph
        values = {}
        for name in (item.name for item in graph.input):
            values[name] = given(name, [np.asarray(fed[name]) for fed in self.feeds], noise=noise)
        for tensor in graph.initializer:
            array = numpy_helper.to_array(tensor)
            steady = not tensor.name.startswith(FIXED_WORDS)
            values[tensor.name] = given(tensor.name, [array] * len(self.feeds), steady, noise)
        opset = opset_of(self.proto)
        for node in graph.node:
            made = computed(node, values, opset, len(self.feeds), noise)
            values.update((value.name, value) for value in made)
        return values

    def expected(self) -> dict[str, Value]:
        """The outputs, by name; what the whole model gives in ONNX Runtime is the same.

        Raises:
            Rejected: It isn't valid, or its outputs hang on rounding.
        """
        try:
            onnx.checker.check_model(self.proto, full_check=True)
            session = open_session(self.proto)
            found = [session.run(self.outputs, dict(fed)) for fed in self.feeds]
        except Exception as error:  # neither's exceptions share a public base
            raise Rejected(str(error)) from error
        values = self.values()
        result = {}
        for place, name in enumerate(self.outputs):
            value = values[name]
            value.require_steady()
            whole = tuple(np.asarray(outputs[place]) for outputs in found)
            result[name] = Value(name, whole, value.shaken)
        return result


def opset_of(proto: onnx.ModelProto) -> int:
    """The version of the standard operators."""
    return next(item.version for item in proto.opset_import if not item.domain)


def info(value: Value, symbols: Mapping[tuple[int, ...], str]) -> onnx.ValueInfoProto:
    """How a value is declared: a free axis has the symbol of its sizes, else a name of its own."""
    dims: list[int | str] = []
    for axis, size in enumerate(value.shape):
        sizes = tuple(array.shape[axis] for array in value.exact)
        free = len(set(sizes)) > 1
        dims.append(symbols.get(sizes, f"{value.name}_{axis}") if free else size)
    kind = helper.np_dtype_to_tensor_dtype(value.exact[0].dtype)
    return helper.make_tensor_value_info(value.name, kind, dims)


def difference(name: str, value: Value, index: int, found: Array, loose: float = 1.0) -> str:
    """How ``found`` isn't what ``value`` is with the feeds of that number; empty where it is.

    Args:
        loose: How much coarser than float32 the arithmetic is.
    """
    wanted = value.exact[index]
    if found.dtype != wanted.dtype or found.shape != wanted.shape:
        return f"{name} is {found.dtype}{[*found.shape]}, not {wanted.dtype}{[*wanted.shape]}"
    if not value.is_float:
        wrong = int(np.count_nonzero(found != wanted))
        return f"{name}: {wrong} of {wanted.size} values are wrong" if wrong else ""
    limit = loose * value.tolerance(index)
    same = (found == wanted) | (np.isnan(found) & np.isnan(wanted))
    with np.errstate(invalid="ignore"):
        off = np.where(same, 0.0, np.abs(found.astype(np.float64) - wanted.astype(np.float64)))
    if np.all(off <= limit):  # NaN is not
        return ""
    worst = int(np.argmax(np.nan_to_num(off, nan=np.inf)))
    place = tuple(int(i) for i in np.unravel_index(worst, off.shape))
    return (
        f"{name}{[*place]} is {found[place]:.7g}, not {wanted[place]:.7g} (limit {limit:.2g}; "
        f"{int(np.count_nonzero(~(off <= limit)))} of {off.size} wrong)"
    )


def differences(
    expected: Mapping[str, Value], index: int, found: Mapping[str, Array], loose: float = 1.0
) -> Sequence[str]:
    """All that is wrong with the outputs; empty where they are right."""
    if list(found) != list(expected):
        return [f"the outputs are {', '.join(found)}, not {', '.join(expected)}"]
    said = (difference(n, v, index, np.asarray(found[n]), loose) for n, v in expected.items())
    return [text for text in said if text]


@dataclass(frozen=True)
class Finding:
    """Something wrong with a conversion.

    Attributes:
        kind: What tells it from others, without names and numbers of the case.
        detail: In words.
        trace: Of an exception.
    """

    kind: str
    detail: str
    trace: str = ""


def raised(label: str, error: BaseException) -> Finding:
    """An exception that shouldn't have been."""
    words = str(error).strip().split("\n", 1)[0][:300]
    return Finding(f"{label}: {type(error).__name__}", words, traceback.format_exc())


@contextmanager
def noting(label: str, found: list[Finding], *, refusals: bool = False) -> Iterator[None]:
    """Notes what is raised inside; not a refusal, where the model may be one to refuse."""
    try:
        yield
    except Exception as error:  # whatever it is, it is the finding
        refused = isinstance(error, ModelyardError) and error.exit_code in REFUSALS
        if not (refusals and refused):
            found.append(raised(label, error))


REFUSALS = (2, 3)
"""Exit codes of errors that say that a model can't be taken."""
