"""What the body of an If or a Loop is run on, while its model runs on samples."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np
import onnx_ir

from converter.analysis.intermediate_outputs import open_tapped
from converter.errors import ModelError
from converter.ir.edit import constant_tensor, is_op
from converter.ir.model import Model
from converter.precision.subgraphs import Body, bodies, copy_of, take_out
from converter.runtime.ort import OrtSession
from converter.samples import Sample, Samples

Array = np.ndarray[Any, Any]

HELD = 128_000_000
"""Bytes of a body's inputs that are kept, so that they needn't be computed anew."""

_BETWEEN = ("DequantizeLinear", "QuantizeLinear", "LeakyRelu")  # the last as a guard
_ENDLESS = int(np.iinfo(np.int64).max)


def opened(model: Model, samples: Samples) -> Iterator[tuple[Body, Samples]]:
    """A copy of each body of the main graph's nodes, with what it is run on.

    Args:
        model: Not changed.
        samples: Of the model.
    """
    for node, branch in bodies(model.graph.graph):
        body = copy_of(node, branch)
        yield body, BodySamples(model, body, samples)


def opened_together(
    original: Model, lowered: Model, samples: Samples
) -> Iterator[tuple[Model, Model, Samples]]:
    """As :func:`opened`, with the same body of a model that was made from it.

    Args:
        original: Not changed.
        lowered: Its bodies are the model's own, and may be changed until the next one is asked
            for; names from outside are those of ``original``.
        samples: Of ``original``. Bodies that none of them runs are left out.
    """
    nodes = {node.name: node for node in lowered.graph.graph}
    known = {value.name or "" for node in original.graph.graph for value in node.outputs}
    known |= {spec.name for spec in original.inputs}
    for body, runs in opened(original, samples):
        if not len(runs):
            continue
        twin = take_out(nodes[body.node.name], body.branch)
        for inner in twin.model.graph.graph.inputs:
            inner.name = _name_before(twin.outside.get(inner, inner), known)
        yield body.model, twin.model, runs
        twin.put_back()


def _name_before(value: onnx_ir.Value, known: Collection[str]) -> str | None:
    """What a value was called before its readers were given a DequantizeLinear's output."""
    source: onnx_ir.Value | None = value
    while source is not None and source.name not in known:
        maker = source.producer()
        source = maker.inputs[0] if maker is not None and is_op(maker, *_BETWEEN) else None
    return value.name if source is None else source.name


class BodySamples(Samples):
    """The inputs of a body, each time that it runs: of a branch on those samples that take it, of
    a loop once for each round.

    Args:
        model: In which the body's node stands.
        body: A copy of the body.
        samples: Of ``model``.
    """

    origin = "a body"

    def __init__(self, model: Model, body: Body, samples: Samples) -> None:
        self._model, self._body, self._samples = model, body, samples
        self._count: int | None = None
        self._held: list[Sample] | None = None

    def __len__(self) -> int:
        if self._count is None:
            self._count = sum(1 for _ in self)
        return self._count

    def __iter__(self) -> Iterator[Sample]:
        if self._held is not None:
            yield from self._held
            return
        held: list[Sample] = []
        left, count = HELD, 0
        for sample in self._run():
            count += 1
            left -= sum(array.nbytes for array in sample.feeds.values())
            if left >= 0:
                held.append(sample)
            else:
                held.clear()
            yield sample
        self._count = count
        self._held = held if left >= 0 else None

    def _run(self) -> Iterator[Sample]:
        wanted = self._wanted()
        session = open_tapped(self._model.graph, wanted, plain=False) if wanted else None
        try:
            runs = _Runs(self._body)
            for sample in self._samples:
                values = dict(sample.feeds)
                if session:
                    values |= _values(session, sample)
                for number, feeds in enumerate(runs.of(values)):
                    yield Sample(f"{sample.name}.{number}" if runs.loops else sample.name, feeds)
        finally:
            if session:
                session.close()

    def _wanted(self) -> list[str]:
        """Tensors of the model, computed there, that decide how the body runs."""
        given = {spec.name for spec in self._model.inputs}
        values = [*self._body.node.inputs, *self._body.outside.values()]
        names = (v.name or "" for v in values if v is not None and constant_tensor(v) is None)
        return [name for name in dict.fromkeys(names) if name and name not in given]


def _values(session: OrtSession, sample: Sample) -> dict[str, Array]:
    try:
        return session.run(sample.feeds)
    except ModelError as error:
        raise ModelError(
            f"running sample {sample.name}: {error.message}", code="runtime-failed"
        ) from error


def _held(value: onnx_ir.Value, values: Mapping[str, Array]) -> Array:
    """A value outside: a constant's own, else what was computed."""
    tensor = constant_tensor(value)
    return values[value.name or ""] if tensor is None else tensor.numpy()


class _Runs:
    """Runs a body as its node would."""

    def __init__(self, body: Body) -> None:
        self._body, self._node = body, body.node
        self.loops = is_op(body.node, "Loop")
        self._names = [value.name or "" for value in body.model.graph.graph.inputs]
        self._session: OrtSession | None = None

    def of(self, values: Mapping[str, Array]) -> Iterator[dict[str, Array]]:
        """The body's inputs at each run.

        Args:
            values: The tensors outside, by name.
        """
        captured = {
            inner.name or "": _held(outer, values)
            for inner, outer in self._body.outside.items()
            if inner.name in self._names
        }
        if self.loops:
            yield from self._rounds(values, captured)
        elif bool(self._value(0, values)) == (self._body.branch == "then_branch"):
            yield captured

    def _rounds(
        self, values: Mapping[str, Array], captured: dict[str, Array]
    ) -> Iterator[dict[str, Array]]:
        most, go_on = self._value(0, values), self._value(1, values)
        limit = _ENDLESS if most is None else int(most)
        given = [self._value(i, values) for i in range(2, len(self._node.inputs))]
        carried = [array for array in given if array is not None]
        number = 0
        while number < limit and (go_on is None or bool(go_on)):
            own: list[Array] = [np.array(number, np.int64), np.array(True), *carried]
            feeds = dict(zip(self._names, own, strict=False)) | captured
            yield feeds
            made = list(self._open().run(feeds).values())
            go_on, carried = made[0], made[1 : 1 + len(carried)]
            number += 1

    def _open(self) -> OrtSession:
        if self._session is None:
            model = self._body.model.copy()
            for value in (*model.graph.graph.inputs, *model.graph.graph.outputs):
                value.shape = None  # what is declared holds for the first round, if at all
            self._session = OrtSession(model.graph, plain=True)
        return self._session

    def _value(self, index: int, values: Mapping[str, Array]) -> Array | None:
        value: onnx_ir.Value | None = self._node.inputs[index]
        return None if value is None else _held(value, values)
