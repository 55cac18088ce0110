"""States: what the program keeps between calls comes in as an input and goes out as an output.

What is read is what was written last, or the input.
"""

from __future__ import annotations

from parsers.coreml.operation import Operation
from parsers.coreml.reader import Reader
from parsers.coreml.refusal import Refusal
from parsers.coreml.registry import reads


def _name(op: Operation) -> str:
    name = op.inputs["input"][0]
    if not isinstance(name, str):
        raise Refusal("its state isn't an input of the program")
    return name


@reads("read_state")
def read_state(reader: Reader, op: Operation) -> None:
    """The value that the state has by now."""
    reader.give(op, reader.named(_name(op)))


@reads("write_state")
def write_state(reader: Reader, op: Operation) -> None:
    """The name of the state stands for another value from here on."""
    if reader.outer is not None:
        raise Refusal("a condition or a loop writes a state")
    reader.written[_name(op)] = reader.value(op, "data")
    reader.bind(_name(op), reader.value(op, "data"))
