"""Precisions that store weights alone in fewer bits: int8-weights, int4-weights, palettized.

Everything is computed in the type that the model has: float32, or float16 in ``fp16+...``. The
forms are :mod:`.weight_forms`'s; with samples they are fitted to what weights are multiplied with
(:mod:`.weight_learning`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np
import onnx_ir

from converter.analysis.macs import macs_by_node
from converter.errors import ModelError
from converter.ir.model import Model
from converter.precision.int8.bias_correction import add_to_bias, bias_place
from converter.precision.int8.placement import require_nodes
from converter.precision.layers import layers
from converter.precision.quantized import Kept, Quantized
from converter.precision.weights.forms import Array, Form, as_int4, as_int8, as_palette, block_of
from converter.precision.weights.places import OPS, SMALLEST, Weight, weights_of
from converter.precision.weights.writer import Writer

WIDE = "has int8 weights"
"""What a node does that a budget takes out of fewer bits."""

PLAIN = "keeps weights of float16"
"""What a node does, in a model of float16, whose weights aren't stored in fewer bits."""


class WeightStorage:
    """Stores the weights of one model, again and again.

    Args:
        model: At the pipeline's opset, every node named; not changed.
        precision: ``int8-weights``, ``int4-weights`` or ``palettized``.
        bits: Of palettized places.
        grouped: Whether palettized weights may have a table for each group of output channels.
        sizes: Of free dimensions, for counting multiply-adds; 1 for those it lacks.
        half: The model in float16, nodes called as in ``model``, to store the weights in; None for
            the model itself.

    Attributes:
        learnt: Forms fitted to samples, by node, input and kind.
        changes: What to add to biases, by node, kind, and whether the form is a fitted one.
        decisions: What was decided, for the report.

    Raises:
        ModelError: It has no weight that is large enough.
    """

    def __init__(
        self,
        model: Model,
        precision: str,
        *,
        bits: int = 6,
        grouped: bool = False,
        sizes: Mapping[str, int] | None = None,
        half: Quantized | None = None,
    ) -> None:
        self._model, self._precision, self._half = model, precision, half
        self._bits, self._grouped = bits, grouped
        self._host = model if half is None else half.model
        self.learnt: dict[tuple[str, int, str], Form] = {}
        self.changes: dict[tuple[str, str, bool], Array] = {}
        self.decisions: list[str] = []
        self._forms: dict[tuple[str, int, str, str], Form] = {}
        self._macs = macs_by_node(model, dict.fromkeys(model.symbols, 1) | dict(sizes or {}))
        if not any(weights_of(node) for node in model.nodes()):
            raise ModelError(
                f"{precision} stores weights of {', '.join(OPS)} in fewer bits, and the model "
                f"has none of {SMALLEST} elements or more",
                code="precision-unavailable",
                hint="Use --precision fp16.",
            )
        self.weights = {
            (node.name or "", weight.index): weight
            for node in model.nodes()
            for weight in weights_of(node)
        }
        self._types = {
            (node.name or "", weight.index): weight.dtype
            for node in self._host.nodes()
            for weight in weights_of(node)
        }

    @property
    def precision(self) -> str:
        """Its name, with what the model computes in."""
        return self._precision if self._half is None else f"fp16+{self._precision}"

    @property
    def kind(self) -> str:
        """Of the forms: ``int8``, ``int4`` or ``palette``."""
        return {"int4-weights": "int4", "palettized": "palette"}.get(self._precision, "int8")

    @property
    def narrow(self) -> bool:
        """Whether there is a wider form: eight bits, with a scale for each output channel."""
        return self.kind == "int4" or (self.kind == "palette" and self._bits < 8)

    def numbers(self, node: str) -> int:
        """How many numbers a node's weights hold."""
        return sum(weight.size for (name, _), weight in self.weights.items() if name == node)

    def form(self, node: str, weight: Weight, kind: str, counts: Array | None = None) -> Form:
        """A weight's form, in the type that the node computes in.

        Args:
            node: Its name.
            weight: In the float model.
            kind: ``int8``, ``int4`` or ``palette``; int4 is int8 where no block divides the input
                channels.
            counts: See :func:`converter.precision.weights.forms.as_int4`.
        """
        array = weight.array.astype(np.float32, copy=False)
        dtype = self._types.get((node, weight.index), np.dtype(np.float32))
        if kind == "palette":
            made = as_palette(
                array, weight.out, self._bits, grouped=self._grouped, counts=counts, dtype=dtype
            )
        elif kind == "int4" and block_of(array.shape[weight.into]):
            made = as_int4(array, weight.out, weight.into, counts, dtype)
        else:
            made = as_int8(array, weight.out, dtype)
        return replace(made, shape=weight.shape) if weight.flat else made

    def lower(
        self,
        keep: Collection[str] = (),
        wide: Collection[str] = (),
        *,
        fitted: bool = True,
        corrected: bool = True,
    ) -> Quantized:
        """The model with its weights in fewer bits.

        Args:
            keep: Nodes whose weights stay as they are.
            wide: Nodes whose weights are int8.
            fitted: Whether with forms that were learnt.
            corrected: Whether with biases changed.

        Returns:
            What is ``wide`` is among its ``lowered``, and isn't counted in its share.

        Raises:
            UsageError: ``keep`` or ``wide`` names a node that isn't there.
        """
        require_nodes(self._model, {*keep, *wide})
        made, writer = self._host.copy(), Writer()
        own = {layer.name: layer for layer in layers(made.graph.graph)}
        lowered: list[str] = []
        kept, whole = [], 0
        for node in list(made.nodes()):
            name = node.name or ""
            weights = [w for w in weights_of(node) if (name, w.index) in self.weights]
            if weights and name in keep:
                kept.append(self._kept(node, "asked for", PLAIN if self._half else ""))
                continue
            kind = "int8" if name in wide else self.kind
            layer = own.get(name)
            change = self.changes.get((name, kind, fitted)) if corrected and layer else None
            place = bias_place(layer) if layer is not None and change is not None else None
            for weight in weights:
                form = self.settled(name, weight.index, kind, fitted=fitted)
                whole += kind == "int4" and form.kind == "int8"
                writer.store(node, weight, form)
            if layer is not None and place is not None and change is not None:
                typed = change.astype(self._types[name, weights[0].index])
                add_to_bias(layer, place, typed, integer=False)
            if weights and name in wide:
                kept.append(self._kept(node, "asked for", WIDE))
            if weights:
                lowered.append(name)
        return self._lowered(made, lowered, kept, whole, wide)

    def settled(self, node: str, index: int, kind: str, *, fitted: bool) -> Form:
        """The form that a weight gets; made once.

        Args:
            node: The node's name.
            index: Which input of it the weight is.
            kind: ``int8``, ``int4`` or ``palette``.
            fitted: Whether the form fitted to samples is taken where there is one.
        """
        learnt = self.learnt.get((node, index, kind)) if fitted else None
        if learnt is not None:
            return learnt
        weight, dtype = self.weights[node, index], self._types.get((node, index), "float32")
        key = (weight.value.name or "", weight.out, kind, str(dtype))
        if key not in self._forms:
            self._forms[key] = self.form(node, weight, kind)
        return self._forms[key]

    def _kept(self, node: onnx_ir.Node, reason: str, instead: str) -> Kept:
        name = node.name or ""
        return Kept(name, node.op_type, reason, self._macs.get(name, 0), instead=instead)

    def _lowered(
        self,
        made: Model,
        lowered: list[str],
        kept: list[Kept],
        whole: int,
        wide: Collection[str],
    ) -> Quantized:
        half = self._half
        return Quantized(
            made,
            self.precision,
            kept=[*(half.kept if half else ()), *kept],
            lowered=lowered,
            macs=sum(self._macs.values()),
            macs_lowered=sum(self._macs.get(name, 0) for name in lowered if name not in wide),
            decisions=[
                *(half.decisions if half else ()),
                *self.decisions,
                *self._told(whole),
            ],
        )

    def _told(self, whole: int) -> list[str]:
        if self._precision == "palettized":
            tables = "a table for each group of channels" if self._grouped else "one table each"
            return [f"weights are {self._bits} bits wide, with {tables}"]
        if whole:
            return [f"{whole} weights are int8: no 8 to 32 divide their input channels"]
        return []
