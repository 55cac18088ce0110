"""Names of free dimensions: which of them is the batch, which are readable, which to make up.

ONNX leaves a free dimension unnamed, and exporters fill in ``unk__53``, ``s77`` or
``p2o.DynamicDimension.0``. Users have to write these names (``--dim tokens=128``), and two
dimensions of one name are one dimension. So:

    1. The first dimension of an input is the batch where it is unnamed, named by a machine, or
       named like a batch (``N``, ``batch_size``). Whether it really is one is for
       :func:`converter.analysis.batch.check_batch` to find out.
    2. Another dimension without a readable name is ``<value>_dim<axis>``, after the first
       input (else output) that has it.
    3. Whatever had the same name before has the same name after.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

import onnx_ir

from converter.ir.batch_name import BATCH_LIKE
from converter.ir.model import BATCH

_MACHINE_MADE = re.compile(
    r"unk__\d+|[su]\d+|\d+|none|unknown\w*|dim_?\d*|dynamic\w*|\w*_dynamic_axes_\d+|"
    r"p2o\..*|_d\d+|__\w+|\w+_dim_\d+",
    re.IGNORECASE,
)
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def is_readable(name: str | None) -> bool:
    """Whether a dimension's name is one that somebody chose: ``tokens``, ``height``."""
    return bool(
        name
        and _IDENTIFIER.fullmatch(name)
        and not _MACHINE_MADE.fullmatch(name)
        and not BATCH_LIKE.fullmatch(name)
    )


def is_machine_made(name: str | None) -> bool:
    """Whether nobody chose a dimension's name: there is none, or a machine did."""
    return not is_readable(name) and not (name and BATCH_LIKE.fullmatch(name))


def symbols_of(value: onnx_ir.Value) -> list[tuple[int, str | None]]:
    """The free dimensions of a value: axis and name; -1 is a free one too, without a name."""
    return [
        (axis, _name(dim))
        for axis, dim in enumerate(value.shape or ())
        if not isinstance(dim, int) or dim < 0
    ]


def _name(dim: int | onnx_ir.SymbolicDim) -> str | None:
    name = None if isinstance(dim, int) else dim.value
    return None if name in ("", "?") else name


def free_inputs(model: onnx_ir.Model) -> list[onnx_ir.Value]:
    """The inputs that a caller feeds: those that aren't initializers too."""
    return [v for v in model.graph.inputs if v.name not in model.graph.initializers]


def name_inputs(model: onnx_ir.Model) -> bool:
    """Gives every free dimension of the inputs its name, in place, wherever it appears.

    Returns:
        Whether anything was renamed.
    """
    inputs = free_inputs(model)
    firsts = [name for value in inputs for axis, name in symbols_of(value) if axis == 0]
    batches = {name: BATCH for name in firsts if name and name != BATCH and not is_readable(name)}
    substitute(model, batches)
    unnamed = [v for v in inputs for axis, name in symbols_of(v) if axis == 0 and name is None]
    for value in unnamed:
        set_dimension(value, 0, BATCH)
    return bool(batches or unnamed) | _name_others(model, inputs)


def name_outputs(model: onnx_ir.Model) -> bool:
    """Gives every free dimension of the outputs that has no readable name one, in place.

    Returns:
        Whether anything was renamed.
    """
    return _name_others(model, model.graph.outputs)


def _name_others(model: onnx_ir.Model, values: Iterable[onnx_ir.Value]) -> bool:
    taken = {name for value in _values(model) for _, name in symbols_of(value) if name}
    changed = False
    for value in values:
        for axis, name in symbols_of(value):
            if is_readable(name) or name == BATCH:
                continue
            new = _fresh(f"{_identifier(value.name)}_dim{axis}", taken)
            if name:
                substitute(model, {name: new})
            else:
                set_dimension(value, axis, new)
            changed = True
    return changed


def set_dimension(value: onnx_ir.Value, axis: int, dim: int | str | None) -> None:
    """Sets one dimension of a value.

    Args:
        value: It has a shape, which is replaced.
        axis: The dimension's place.
        dim: Its size, or the name of a free one; None for a free one without a name.
    """
    assert value.shape is not None
    dims: list[int | str | None] = [
        item if isinstance(item, int) else item.value for item in value.shape
    ]
    dims[axis] = dim
    value.shape = onnx_ir.Shape(dims)


def substitute(model: onnx_ir.Model, sizes: Mapping[str, int | str]) -> None:
    """Puts a size, or another name, for symbols: in every value of every graph.

    A dimension that is an expression over a symbol (``2*batch``) becomes unnamed where the
    symbol gets a size; shape inference finds its size again.
    """
    if not sizes:
        return
    fixed = {name for name, size in sizes.items() if isinstance(size, int)}
    for value in _values(model):
        for axis, name in symbols_of(value):
            if name is None:
                continue
            if name in sizes:
                set_dimension(value, axis, sizes[name])
            elif not _IDENTIFIER.fullmatch(name) and fixed & set(_words(name)):
                set_dimension(value, axis, None)


def _words(expression: str) -> list[str]:
    return _IDENTIFIER.findall(expression)


def _values(model: onnx_ir.Model) -> Iterator[onnx_ir.Value]:
    for graph in model.graphs():
        yield from graph.inputs
        for node in graph:
            yield from node.outputs


def _identifier(name: str | None) -> str:
    text = re.sub(r"\W+", "_", name or "").strip("_") or "dim"
    return f"_{text}" if text[0].isdigit() else text


def _fresh(name: str, taken: set[str]) -> str:
    number, candidate = 0, name
    while candidate in taken:
        number += 1
        candidate = f"{name}_{number}"
    taken.add(candidate)
    return candidate
