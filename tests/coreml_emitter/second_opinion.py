"""Programs computed by coremltools while it builds them: an opinion besides our parser's.

coremltools infers values of constants by its own numpy code (``value_inference`` of an operation),
which nobody here wrote and which no file is needed for. With the inputs of a case as constants, the
variables of its outputs have values.

    python -m tests.coreml_emitter.second_opinion [OPERATOR,...]     # all cases, and what differs
"""

import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir

from converter.errors import Unsupported
from converter.ir.definitions import write_out
from converter.ir.refused import Refused
from converter.passes.legalize import REWRITES, legalize
from emitters.coreml.context import Context, Program
from emitters.coreml.interface import ports
from emitters.coreml.lowering import BUILDING, lower_nodes, target_of
from emitters.coreml.registry import is_legal, operators
from emitters.lowering.folding import fold_constants
from modelyard.containers.coreml import coremltools
from tests.conformance.attempt import Attempts, NotReadable
from tests.conformance.cases import Case, Store, open_store
from tests.conformance.compare import differences
from tests.conformance.outcome import Outcome, counts
from tests.conformance.selection import Filters, chosen

TARGET = 17


def opinions(filters: Filters) -> Iterator[Outcome]:
    """Of the chosen conformance cases that can be read: ``same``, ``different``, ``unknown`` (an
    operation without inference is in it) or ``refused``."""
    store = open_store()
    attempts = Attempts(store, "coreml", Path())
    for case in chosen(store, "coreml", filters):
        try:
            model = attempts.read(case, [])
        except NotReadable:
            continue
        _, refused = ports((*model.inputs, *model.outputs), set())
        if refused:
            yield Outcome(case.name, case.op, "refused", refused[0].reason)
            continue
        with warnings.catch_warnings(), BUILDING:
            warnings.simplefilter("ignore")  # numpy's, of infinities
            yield _opinion(store, case, model.graph)


def _opinion(store: Store, case: Case, model: onnx_ir.Model) -> Outcome:
    write_out(model, lambda node: node.op_type not in operators() | REWRITES.keys())
    fold_constants(model)
    # coremltools' own inference of scatter_along_axis takes every mode for "update"
    legalize(model, lambda n: n.op_type != "ScatterElements" and is_legal(n, 17))
    graph = model.graph
    for value, tensor in zip(list(graph.inputs), store.inputs(case), strict=True):
        array = onnx.numpy_helper.to_array(tensor)
        value.const_value = onnx_ir.Tensor(array, name=value.name)
        graph.inputs.remove(value)
        graph.register_initializer(value)
    try:
        found = _values(model)
    except Refused as refused:
        return Outcome(case.name, case.op, "refused", refused.reason)
    if any(var is None for var in found):
        return Outcome(case.name, case.op, "unknown")
    expected = store.outputs(case)
    values = zip(expected.items(), found, strict=True)
    given = {name: _as(value, array.dtype) for (name, array), value in values}
    wrong = differences(expected, given, case.rtol, case.atol)
    state, reason = "different" if wrong else "same", "; ".join(wrong)
    return Outcome(case.name, case.op, state, reason)


def _values(model: onnx_ir.Model) -> list[Any]:
    """The values of the outputs; None for one that coremltools doesn't know."""
    mil = coremltools().converters.mil.mil
    nothing = {"nothing": mil.Builder.placeholder(shape=(1,), dtype=mil.types.fp32)}
    refusals: list[Unsupported] = []
    with mil.Function(nothing, opset_version=target_of(TARGET)):
        context = Context(Program(model, TARGET))
        lower_nodes(context, model.graph, refusals)
        if refusals:
            raise Refused(refusals[0].reason)
        return [context.var(value).val for value in model.graph.outputs]


def _as(value: Any, dtype: Any) -> Any:
    """A value in the type that ONNX has for what MIL holds as int32."""
    array = np.asarray(value)
    return array.astype(dtype) if array.dtype.kind in "iu" and dtype.kind in "iu" else array


def main(argv: list[str]) -> int:
    """Says what differs, and how many don't."""
    found = list(opinions(Filters(ops=argv[0].split(",") if argv else ())))
    different = [f"{item.name} {item.reason}" for item in found if item.state == "different"]
    print(*different, counts(found), sep="\n")
    return int(bool(different))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
