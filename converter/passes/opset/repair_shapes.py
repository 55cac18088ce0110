"""Makes declared types and shapes true: those of inner values and of outputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import onnx_ir
from onnx_ir.passes import PassResult

from converter.analysis.batch import Ran
from converter.errors import ModelError
from converter.ir.inference import Inferred, infer
from converter.ir.model import BATCH, TensorSpec, dtype_from_name, spec_of
from converter.ir.symbols import free_inputs, is_readable, name_outputs
from converter.passes.base import ModelPass
from converter.runtime.ort import OrtSession

_GUESSES = (64, 32, 16, 128, 256, 512, 224, 8, 1)
"""Sizes that free dimensions are tried at, one after the other, until the model runs."""

Shapes = dict[str, tuple[int, ...]]
Dim = int | str | None


@dataclass(frozen=True)
class Sizes:
    """Sizes of free dimensions that the model is known to run at."""

    sizes: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class Run:
    """One run on zeros: the sizes of the symbols, and the shapes that came out."""

    sizes: Mapping[str, int]
    shapes: Shapes


class RepairShapes(ModelPass):
    """Replaces what a file says of inner values and outputs by what is so.

    Cases:
        1. Types and shapes of inner values are inferred anew; declared ones are dropped.
        2. The model is run on zeros (or was run), at batch 1 and 2, and at half the other sizes. An
           output whose declared shape isn't what comes out gets the right one; a missing one is
           filled in. A dimension that went from 1 to 2 with the batch is the batch, and one that
           was as large as one free dimension each time is that.
        3. Where inference contradicts the run, inner values keep their types alone.
        4. Where the model runs at none of the sizes tried, what is declared stays, and what is
           missing is filled in by inference.

    Args:
        sizes: Sizes of free dimensions to run it at; other sizes are tried for the rest.
        ran: Runs that were made already, in whose place it needn't run: inputs and outputs by name.

    Attributes:
        findings: What was wrong, a line each.
    """

    name = "repair-shapes"
    summary = "Corrects declared types and shapes of inner values and outputs."

    def __init__(self, sizes: Mapping[str, int] | None = None, ran: Iterable[Ran] = ()) -> None:
        self._ran = tuple(ran)
        self.parameters = Sizes(tuple(sorted((sizes or {}).items())))
        self.findings: list[str] = []

    def call(self, model: onnx_ir.Model) -> PassResult:
        """Changes ``model`` in place."""
        self.findings = []
        before = [spec_of(value) for value in _declared(model)]
        inferred = infer(model)
        dtypes: dict[str, str] = {}
        runs = _known(model, self._ran)
        if not runs:
            runs, dtypes = _probe(model, dict(self.parameters.sizes))
        for value in model.graph.outputs:
            if value.dtype is None and value.name in dtypes:
                value.dtype = dtype_from_name(dtypes[value.name])
            self._repair(value, inferred.get(value), runs)
        name_outputs(model)
        believed = self._agrees(model, inferred, runs)
        _declare(model, inferred, shapes=believed)
        if not runs:
            self.findings.append("the model was not run: no size tried for its inputs fits")
        return PassResult(model, before != [spec_of(value) for value in _declared(model)])

    def _repair(self, value: onnx_ir.Value, inferred: Inferred | None, runs: list[Run]) -> None:
        declared = _dims(value.shape)
        guess = _dims(inferred.shape) if inferred is not None else None
        true = _true_shape(value.name or "", declared, guess, runs)
        if true == declared or true is None:
            return
        was = spec_of(value).describe()
        value.shape = onnx_ir.Shape(true)
        if declared is None or _contradicts(declared, true):
            self.findings.append(
                f"output {value.name}: declared {was}, is {spec_of(value).describe()}"
            )

    def _agrees(
        self, model: onnx_ir.Model, inferred: Mapping[onnx_ir.Value, Inferred], runs: list[Run]
    ) -> bool:
        """Whether inference gives what came out; says which output it doesn't for."""
        for value in model.graph.outputs:
            guess = _dims(inferred[value].shape) if value in inferred else None
            for run in runs:
                shape = run.shapes.get(value.name or "")
                if guess is None or shape is None or _fits(guess, shape, run.sizes):
                    continue
                self.findings.append(
                    f"output {value.name}: shape inference gives {guess}, the model {list(shape)}; "
                    "shapes of inner values are left out"
                )
                return False
        return True


def _true_shape(
    name: str, declared: list[Dim] | None, guess: list[Dim] | None, runs: list[Run]
) -> list[Dim] | None:
    """What the output's shape is, as far as it is known."""
    shapes = [(run.sizes, run.shapes[name]) for run in runs if name in run.shapes]
    if not shapes:
        return declared if declared is not None else guess
    rank = len(shapes[0][1])
    if any(len(shape) != rank for _, shape in shapes):
        return None
    if declared is None or len(declared) != rank:
        declared = [None] * rank
    if guess is None or len(guess) != rank:
        guess = [None] * rank
    return [
        _true_dim(declared[axis], guess[axis], [(sizes, shape[axis]) for sizes, shape in shapes])
        for axis in range(rank)
    ]


def _true_dim(declared: Dim, guess: Dim, seen: list[tuple[Mapping[str, int], int]]) -> Dim:
    """The first of these that fits every run: the declared dimension where somebody chose it,
    the inferred one, the batch, the declared one. None where none does: it may depend on what
    is in the inputs, or onnx's checker would refuse the truth."""
    names = {name for sizes, _ in seen for name in sizes}
    chosen = isinstance(declared, int) or declared in names or is_readable(declared)
    batch_seen = len({sizes.get(BATCH) for sizes, _ in seen}) > 1
    candidates: list[Dim] = [declared] if chosen and not _made_up(declared) else []
    candidates += [guess, BATCH if batch_seen else None, declared]
    if len({size for _, size in seen}) > 1:
        same = [name for name in sorted(names) if all(s.get(name) == size for s, size in seen)]
        candidates += same if len(same) == 1 else ()
    for dim in candidates:
        if dim is not None and all(_dim_fits(dim, size, sizes) for sizes, size in seen):
            return dim
    return None


def _made_up(dim: Dim) -> bool:
    """Whether the name is one that :mod:`converter.ir.symbols` gave."""
    return isinstance(dim, str) and "_dim" in dim and dim.rsplit("_dim", 1)[1].isdigit()


def _dim_fits(dim: Dim, size: int, sizes: Mapping[str, int]) -> bool:
    if isinstance(dim, int):
        return dim == size
    return dim is None or sizes.get(dim, size) == size


def _fits(dims: list[Dim], shape: tuple[int, ...], sizes: Mapping[str, int]) -> bool:
    return len(dims) == len(shape) and all(
        _dim_fits(dim, size, sizes) for dim, size in zip(dims, shape, strict=True)
    )


def _contradicts(declared: list[Dim], true: list[Dim]) -> bool:
    """Whether a declared shape was wrong, not only vague."""
    if len(declared) != len(true):
        return True
    return any(
        old != new and old is not None and not _made_up(old)
        for old, new in zip(declared, true, strict=True)
    )


# -- running -----------------------------------------------------------------------------


def _known(model: onnx_ir.Model, ran: Sequence[Ran]) -> list[Run]:
    """What runs at batch 1 and 2 tell; nothing where more than the batch is free, or a type isn't
    declared."""
    declared = {spec.name: spec.shape or (None,) for spec in map(spec_of, free_inputs(model))}
    free = {dim for shape in declared.values() for dim in shape if not isinstance(dim, int)}
    if free != {BATCH} or any(value.dtype is None for value in model.graph.outputs):
        return []
    found: list[Run] = []
    for feeds, outputs in ran:
        sizes = {
            feeds[name].shape[shape.index(BATCH)]
            for name, shape in declared.items()
            if BATCH in shape and name in feeds
        }
        shapes = {name: array.shape for name, array in outputs.items() if _is_array(array)}
        found += (Run({BATCH: size}, shapes) for size in sizes)
    return found if {run.sizes[BATCH] for run in found} == {1, 2} else []


def _probe(model: onnx_ir.Model, known: Mapping[str, int]) -> tuple[list[Run], dict[str, str]]:
    """Runs on zeros at batch 1 and 2 (once without a batch), and at half the other sizes, where
    the model runs at them; and the outputs' types."""
    try:
        session = OrtSession(_undeclared(model), plain=True)
    except ModelError:
        return [], {}
    dtypes = {spec.name: spec.dtype for spec in session.outputs}
    specs = [spec_of(value) for value in free_inputs(model)]
    if any(spec.shape is None for spec in specs):
        return [], dtypes
    symbols = {dim for spec in specs for dim in spec.shape or () if isinstance(dim, str)}
    open_symbols = sorted(symbols - set(known) - {BATCH})
    batches = (1, 2) if BATCH in symbols else (1,)
    for guess in _GUESSES if open_symbols else _GUESSES[:1]:
        sizes = {**known, **dict.fromkeys(open_symbols, guess)}
        runs = [run for batch in batches if (run := _run(session, specs, {**sizes, BATCH: batch}))]
        if runs:
            others = {name: max(size // 2, 1) for name, size in sizes.items()}
            half = _run(session, specs, {**others, BATCH: 1}) if others != sizes else None
            return [*runs, half] if half else runs, dtypes
    return [], dtypes


def _run(session: OrtSession, specs: list[TensorSpec], sizes: Mapping[str, int]) -> Run | None:
    feeds = {spec.name: _zeros(spec, sizes) for spec in specs}
    try:
        outputs = session.run(feeds)
    except ModelError:
        return None
    return Run(sizes, {name: array.shape for name, array in outputs.items() if _is_array(array)})


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray)


def _zeros(spec: TensorSpec, sizes: Mapping[str, int]) -> np.ndarray[Any, Any]:
    shape = spec.sized(sizes)
    if spec.dtype == "string":
        return np.full(shape, "", dtype=object)
    return np.zeros(shape, dtype_from_name(spec.dtype).numpy())


def _undeclared(model: onnx_ir.Model) -> onnx_ir.Model:
    """A copy that declares nothing but its inputs."""
    copy = model.clone()
    for graph in copy.graphs():
        for node in graph:
            for value in node.outputs:
                value.shape = None
                if not value.is_graph_output():
                    value.type = None
    return copy


# -- writing down ------------------------------------------------------------------------


def _declare(
    model: onnx_ir.Model, inferred: Mapping[onnx_ir.Value, Inferred], *, shapes: bool
) -> None:
    outputs = set(model.graph.outputs)
    for value, known in inferred.items():
        if value in outputs:
            continue
        if known.type is not None:
            value.type = known.type
        value.shape = known.shape if shapes and known.shape is not None else None


def _declared(model: onnx_ir.Model) -> Iterator[onnx_ir.Value]:
    for graph in model.graphs():
        yield from chain(graph.inputs, *(node.outputs for node in graph))


def _dims(shape: onnx_ir.Shape | None) -> list[Dim] | None:
    if shape is None:
        return None
    return [dim if isinstance(dim, int) else dim.value for dim in shape]
