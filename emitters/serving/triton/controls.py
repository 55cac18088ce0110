"""Inputs that Triton's sequence batcher fills in: where a sequence starts, ends, and is ready.

The rules are ``GetBooleanSequenceControlProperties`` in the core's ``model_config_utils.cc``, and
those of the onnxruntime and tensorrt backends: the model has the input, of that type and of one
value a request.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from tritonclient.grpc import model_config_pb2 as schema

from converter.check.sums import Array
from converter.errors import UsageError
from converter.ir.model import TensorSpec

_FIELDS = {"int32_false_true": "int32", "fp32_false_true": "float32", "bool_false_true": "bool"}

_KINDS = {"CONTROL_SEQUENCE_START": "start", "CONTROL_SEQUENCE_END": "end"}
"""Of the flags in a step; a request that runs is always ready."""


@dataclass(frozen=True)
class Control:
    """An input that the server fills in.

    Attributes:
        name: The input's.
        kind: ``CONTROL_SEQUENCE_START``...
        values: Where the flag is false, and where it is true.
        shape: Of one request's array.
    """

    name: str
    kind: str
    values: tuple[Any, Any]
    dtype: str
    shape: tuple[int, ...]

    def array(self, flags: Mapping[str, bool]) -> Array:
        """What a request with these flags (``start``, ``end``) brings."""
        flag = flags[_KINDS[self.kind]] if self.kind in _KINDS else True
        return np.full(self.shape, self.values[int(flag)], self.dtype)


def controls_of(
    batching: Any, inputs: Mapping[str, TensorSpec], taken: Collection[str], batched: bool
) -> tuple[Control, ...]:
    """The controls of a message, held against the model.

    Args:
        batching: The ``ModelSequenceBatching`` message.
        inputs: The model's, by name.
        taken: Names of inputs that are states.
        batched: Whether Triton batches: the first dimension is then the batch.

    Raises:
        UsageError: One is no input of the model, of another type or shape, or can't be made.
    """
    made: list[Control] = []
    for entry in batching.control_input:
        where = f"--sequence-batching: the control {entry.name!r}"
        spec = inputs.get(entry.name)
        if spec is None or entry.name in taken:
            raise UsageError(
                f"{where} isn't an input of the model, or is a state",
                code="server-states",
                hint=f"Inputs: {', '.join(sorted(set(inputs) - set(taken)))}.",
            )
        if len(entry.control) != 1:
            raise UsageError(
                f"{where} has {len(entry.control)} kinds, but needs exactly one",
                code="server-states",
            )
        made.append(_control(entry.control[0], spec, where, batched))
    kinds = [control.kind for control in made]
    if len(set(kinds)) < len(kinds):
        raise UsageError(
            "--sequence-batching: two controls have the same kind", code="server-states"
        )
    return tuple(made)


def _control(message: Any, spec: TensorSpec, where: str, batched: bool) -> Control:
    kind = schema.ModelSequenceBatching.Control.Kind.Name(message.kind)
    if kind == "CONTROL_SEQUENCE_CORRID":
        raise UsageError(
            f"{where}: clients choose the correlation ids, so their effect on the source "
            "isn't known; use START, END and READY only",
            code="server-states",
        )
    given = [(name, list(getattr(message, name))) for name in _FIELDS if getattr(message, name)]
    if len(given) != 1 or len(given[0][1]) != 2:
        raise UsageError(
            f"{where} needs two values, for false and true: {', '.join(_FIELDS)}",
            code="server-states",
        )
    name, values = given[0]
    shape = tuple(spec.shape or ())
    if spec.dtype != _FIELDS[name] or shape[int(batched) :] != (1,):
        raise UsageError(
            f"{where}: {name} is one {_FIELDS[name]}, but the model's input is {spec.describe()}",
            code="server-states",
        )
    size = (1, 1) if batched else (1,)
    return Control(spec.name, kind, (values[0], values[1]), spec.dtype, size)
