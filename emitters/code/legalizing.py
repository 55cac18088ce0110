"""A model brought to the operators of a table, for every target that writes code."""

from __future__ import annotations

import onnx_ir

from converter.ir.edit import add_constant, constant_tensor, is_op
from converter.passes.legalize.chain import LegalizingPass
from emitters.code.table import Table
from emitters.lowering.folding import evaluated, fold_constants, fold_rounds
from emitters.lowering.walking import name_nodes


class LegalizeToTable(LegalizingPass):
    """Brings a model to what :attr:`table` has."""

    table: Table

    def legal(self, node: onnx_ir.Node) -> bool:
        """Whether the table takes it as it is."""
        return self.table.is_legal(node)

    def chain(self, model: onnx_ir.Model) -> None:
        """Operators written out, constants folded; the rewrites."""
        if self.write_out(model, self.table.is_written_out):
            name_nodes(model)
        fold_constants(model)
        fold_weights(model)
        if self.legalize(model, self.table.is_legal):
            fold_rounds(model)


def fold_weights(model: onnx_ir.Model) -> None:
    """Makes numbers of weights that are stored as integers: layers have them as they compute."""
    for node in list(model.graph):
        stored = [constant_tensor(value) for value in node.inputs]
        if is_op(node, "DequantizeLinear") and None not in stored:
            results = evaluated(node, model)
            if results is not None and not node.outputs[0].is_graph_output():
                new = add_constant(model.graph, f"{node.outputs[0].name}_folded", results[0])
                node.outputs[0].replace_all_uses_with(new)
                model.graph.remove(node, safe=True)
