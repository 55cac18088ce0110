"""A target's way to operators that it has, as one pass; single rewrites of it can be left out."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping

import onnx_ir
from onnx_ir.passes import PassResult

from converter import plugins
from converter.ir.definitions import write_out
from converter.ir.edit import all_nodes
from converter.ir.model import Legalized, Model
from converter.ir.refused import Refused
from converter.passes.base import ModelPass
from converter.passes.cleanup.naming import name_values
from converter.passes.legalize import REWRITES, WHY, Rewritten, legalize
from converter.passes.legalize.builder import Rewrite

Takes = Callable[[onnx_ir.Node], bool]
"""Whether something holds of a node."""


class LegalizingPass(ModelPass):
    """Writes a model in operators that a target has, in ONNX.

    Attributes:
        undone: Rewrites that aren't to be done, by their keys: what is wrong with each.
        rewritten: Those that the last run did, in order.
        told: What the last run took for given, in words, by the name of what told it.
        same_integers: Whether the last run left the integers of a model that rounds as they are, so
            that it is compared as any model is.
        assumed: The model at what the last run took for given, where that makes it another one:
            what the result is to be compared with.
    """

    summary = "operators that the target hasn't, as simpler ones"
    shapes_count = False

    def __init__(self) -> None:
        super().__init__()
        self.undone: dict[str, str] = {}
        self.rewritten: list[Rewritten] = []
        self.told: dict[str, list[str]] = {}
        self.same_integers = False
        self.assumed: onnx_ir.Model | None = None

    @abstractmethod
    def legal(self, node: onnx_ir.Node) -> bool:
        """Whether the target takes a node as it is."""

    @abstractmethod
    def chain(self, model: onnx_ir.Model) -> None:
        """Readies the model for the target, in place; its rewrites by :meth:`write_out`,
        :meth:`legalize`, :meth:`each` and :meth:`whole`. Operators that aren't ONNX's are functions
        of the model (:func:`converter.ir.definitions.define`)."""

    def call(self, model: onnx_ir.Model) -> PassResult:
        """Does all that isn't undone; an illegal node whose rewrite is says so
        (:func:`converter.passes.legalize.why_illegal`)."""
        self.rewritten, self.told, self.assumed = [], {}, None
        self.chain(model)
        name_values(model)
        for node in all_nodes(model) if self.undone else ():
            wrong = self.wrong(node)
            if wrong is not None and not self.legal(node):
                node.meta[WHY] = wrong
        return PassResult(model, modified=True)

    def wrong(self, node: onnx_ir.Node) -> Refused | None:
        """What is wrong with a node's rewrite, where it isn't to be done."""
        found = self.undone.get(node.name or "") or self.undone.get(f"::{node.op_type}")
        if not found:
            return None
        return Refused(
            f"Modelyard's rewrite of it for the target ({node.op_type}) computes something "
            f"else: {found}",
            "report it, because this is a bug in Modelyard",
        )

    def apply(self, model: Model) -> Legalized:
        """The model's graph as this leaves it, to be changed further; where that was done and
        verified before, as it was then. The model stays as it is. Without functions: the target
        has the operators that these say in ONNX."""
        made = model.legalized or Legalized(self(model.copy().graph).model, self.told)
        graph = made.graph.clone()
        graph.functions.clear()
        return Legalized(graph, made.told)

    def write_out(self, model: onnx_ir.Model, wanted: Takes) -> bool:
        """As :func:`converter.ir.definitions.write_out`."""
        found = write_out(model, lambda node: wanted(node) and not self._left(node))
        self.rewritten += [Rewritten(f"::{op_type}", "", op_type) for op_type in found]
        return bool(found)

    def legalize(
        self, model: onnx_ir.Model, legal: Takes, rewrites: Mapping[str, Rewrite] = REWRITES
    ) -> bool:
        """Rewrites what isn't legal, as :func:`converter.passes.legalize.legalize`, but for
        ``undone``.

        Args:
            model: Changed in place; every node has a name.
            legal: Whether the target takes a node as it is.
            rewrites: By operator, where the target has its own.

        Returns:
            Whether anything was rewritten.
        """
        found = legalize(model, lambda node: legal(node) or self._left(node), rewrites)
        self.rewritten += found
        return bool(found)

    def each(self, model: onnx_ir.Model, rewrite: Takes, way: str) -> None:
        """Rewrites nodes, each by itself.

        Args:
            model: Changed in place.
            rewrite: Rewrites a node, and says whether it did.
            way: See :class:`converter.passes.legalize.Rewritten`.
        """
        for node in all_nodes(model):
            done = Rewritten(node.name or "", node.name or "", node.op_type, way)
            if not self._left(node) and rewrite(node):
                self.rewritten.append(done)

    def whole(self, model: onnx_ir.Model, name: str) -> None:
        """Runs another pass, by its name."""
        done = Rewritten(f"::{name}", "", name, "passes")
        if done.key not in self.undone and plugins.load("passes", name).call(model).modified:
            self.rewritten.append(done)

    def _left(self, node: onnx_ir.Node) -> bool:
        return bool(self.undone) and not self.undone.keys().isdisjoint(
            (node.name or "", f"::{node.op_type}")
        )

    def findings(self) -> str:
        """What the last run rewrote, for people."""
        listed = []
        for way in dict.fromkeys(item.way for item in self.rewritten):
            count = Counter(item.op_type for item in self.rewritten if item.way == way)
            numbers = (f"{number} {op_type}" for op_type, number in sorted(count.items()))
            listed.append(f"{way}: {', '.join(numbers)}")
        return "; ".join(listed) or "constants folded"
