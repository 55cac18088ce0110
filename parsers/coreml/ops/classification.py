"""classify: a classifier's two outputs, the label and each label's probability (``classify``)."""

from __future__ import annotations

from parsers.coreml.operation import Operation
from parsers.coreml.reader import Reader
from parsers.coreml.refusal import Refusal
from parsers.coreml.registry import reads


@reads("classify")
def classify(reader: Reader, op: Operation) -> None:
    """The probabilities as they are, a tensor in the labels' order.

    The label is the one with the highest probability: it is no tensor, and no output here.
    """
    if len(op.outputs) != 2:
        raise Refusal(f"it has {len(op.outputs)} outputs, not a label and probabilities")
    label, probabilities = op.outputs
    given = reader.value(op, "probabilities")
    found = reader.node("Identity", [given])
    found.shape = given.shape
    reader.bind(probabilities.name, found)
    reader.classes[probabilities.name] = [str(name) for name in reader.setting(op, "classes")]
    reader.dropped.add(label.name)
