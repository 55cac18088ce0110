"""What a pass is: an ``onnx_ir`` pass with a name, parameters, and promises it is held to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import onnx_ir
from onnx_ir.passes import PostconditionError

from converter.ir.edit import all_nodes
from converter.ir.model import TensorSpec, spec_of

STANDARD_DOMAINS = frozenset({"", "ai.onnx", "ai.onnx.ml"})
"""Domains that the ONNX specification defines and that any runtime may be asked to know."""


@dataclass(frozen=True)
class NoParameters:
    """The parameters of a pass that has none."""


class ModelPass(onnx_ir.passes.InPlacePass):
    """A pass over a whole model, registered under ``modelyard.passes``.

    A subclass implements ``call(model) -> PassResult``, changing ``model`` in place, and may
    check what it needs in ``requires`` and what it promises in ``ensures``.

    Attributes:
        name: As in ``--skip-pass NAME`` and in the report.
        summary: One line: what it does.
        parameters: A dataclass; its fields are part of the step's cache key.
        must_shrink: A result with more nodes than before is of no use and is rolled back.
        shapes_count: A result that differs only in what is known of inner shapes and types
            counts as changed.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    must_shrink: ClassVar[bool] = False
    shapes_count: ClassVar[bool] = True
    parameters: Any = NoParameters()

    def versions(self) -> Mapping[str, str]:
        """Versions of the libraries that do the work, for the step's cache key."""
        return {"onnx-ir": onnx_ir.__version__}

    def key(self) -> dict[str, Any]:
        """What the pass's result depends on besides the model."""
        return {
            "pass": self.name,
            "parameters": asdict(self.parameters),
            "versions": dict(self.versions()),
        }


class SimplifyingPass(ModelPass):
    """A pass that may change how a model computes, and nothing that a caller can see.

    Inputs and outputs keep their names, order, types and declared shapes, with the user's
    symbols; opset and file version stay; no operator of a domain that isn't standard comes in.
    """

    must_shrink = True
    shapes_count = False

    def requires(self, model: onnx_ir.Model) -> None:
        """Remembers what has to stay."""
        self._before = Promises.of(model)

    def ensures(self, model: onnx_ir.Model) -> None:
        """Raises PostconditionError, saying what did not stay."""
        broken = self._before.broken_by(model)
        if broken:
            raise PostconditionError(broken)


@dataclass(frozen=True)
class Promises:
    """What a caller, or a later step, can see of a model and a simplifying pass must keep."""

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    opset: int
    ir_version: int
    domains: frozenset[str]

    @classmethod
    def of(cls, model: onnx_ir.Model) -> Promises:
        """The promises that ``model`` makes."""
        return cls(
            tuple(spec_of(value) for value in free_inputs(model)),
            tuple(spec_of(value) for value in model.graph.outputs),
            model.opset_imports.get("", 0),
            model.ir_version,
            used_domains(model),
        )

    def broken_by(self, model: onnx_ir.Model) -> str:
        """What ``model`` doesn't keep, in words; empty where it keeps all."""
        now = Promises.of(model)
        for kind, before, after in (
            ("input", self.inputs, now.inputs),
            ("output", self.outputs, now.outputs),
        ):
            if [spec.name for spec in before] != [spec.name for spec in after]:
                return f"the {kind}s are now {', '.join(spec.name for spec in after) or 'none'}"
            for old, new in zip(before, after, strict=True):
                if (old.dtype, old.shape) != (new.dtype, new.shape):
                    return f"{kind} {old.name} is now {new.describe()}, not {old.describe()}"
        if (now.opset, now.ir_version) != (self.opset, self.ir_version):
            return f"the model is now of opset {now.opset}, file version {now.ir_version}"
        foreign = now.domains - self.domains - STANDARD_DOMAINS
        if foreign:
            return f"operators of {', '.join(sorted(foreign))} came in"
        return ""


def free_inputs(model: onnx_ir.Model) -> list[onnx_ir.Value]:
    """The inputs that a caller feeds: those that aren't initializers too."""
    graph = model.graph
    return [value for value in graph.inputs if value.name not in graph.initializers]


def used_domains(model: onnx_ir.Model) -> frozenset[str]:
    """The domains of all operators in the main graph, its subgraphs and the functions, but for
    those that the functions are."""
    return frozenset(
        node.domain for node in all_nodes(model) if node.op_identifier() not in model.functions
    )
