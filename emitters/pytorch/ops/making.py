"""Tensors of nothing but sizes and numbers."""

from __future__ import annotations

import onnx_ir

from emitters.code.context import Context
from emitters.code.shapes import as_tuple, filling, steps_of
from emitters.pytorch.registry import op
from emitters.pytorch.types import torch_type


@op("Shape")
def shape(c: Context) -> None:
    """The sizes as a tensor, where it is one that is asked for."""
    start, end = c.attr("start", 0), c.attr("end")
    part = f"[{start or ''}:{'' if end is None else end}]" if start or end is not None else ""
    x = c.operand(0)
    c.emit(f"torch.tensor({x}.shape{part}, dtype=torch.int64, device={x}.device)")


@op("Size")
def size(c: Context) -> None:
    """How many elements there are."""
    x = c.operand(0)
    c.emit(f"torch.tensor({x}.numel(), device={x}.device)")


@op("ConstantOfShape")
def constant_of_shape(c: Context) -> None:
    """One number everywhere."""
    sizes = c.sizes(0)
    whole = as_tuple(c, sizes) if sizes is not None else f"{c.operand(0)}.tolist()"
    text = f"{whole}, {filling(c)}, dtype={torch_type(c.out_dtype())}"
    c.emit(f"torch.full({text}{_device(c)})")


def _device(c: Context) -> str:
    """Where new tensors lie: with an input of the node, or of the graph."""
    for value in c.node.inputs:
        if value is not None and not value.is_initializer() and value.dtype is not None:
            for source in (value, *_sources(value)):
                if source.is_graph_input():
                    return f", device={c.use(source, 10)}.device"
    return ""


def _sources(value: onnx_ir.Value) -> list[onnx_ir.Value]:
    found, seen = [value], {value}
    for each in found:
        node = each.producer()
        for source in node.inputs if node is not None else ():
            if source is not None and source not in seen:
                seen.add(source)
                found.append(source)
    return found


@op("Range")
def arange(c: Context) -> None:
    """Numbers in steps."""
    told = f"{', '.join(steps_of(c, '{x}.item()'))}, dtype={torch_type(c.out_dtype())}"
    c.emit(f"torch.arange({told}{_device(c)})")


@op("EyeLike")
def eye(c: Context) -> None:
    """Ones on a diagonal."""
    name, x = c.helper("eye_like"), c.arg(0)
    c.emit(f"{name}({x}, {c.attr('k', 0)}, {torch_type(c.out_dtype())})")
