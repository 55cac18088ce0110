"""What a lowering works with: the MIL variables of ONNX values, and operations to make of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx_ir

from converter.ir import operands
from converter.ir.refused import Refused
from emitters.coreml import limits
from emitters.coreml.types import NUMPY, Array, DataType, held, narrowed

Var = Any
"""coremltools' ``Var``: a value of the program. ``shape`` holds numbers and symbols, ``val`` the
array where it is constant, ``dtype`` a MIL type."""


@dataclass
class Program:
    """What the graphs of one model share.

    Attributes:
        model: The ONNX model that is lowered.
        target: The oldest system that the package is for, by its number: 15 to 18, 26.
        names: Names of operations that are taken.
        held: Variables of int8 and uint8 of what QuantizeLinear gives.
        apart: Constants that whoever takes them makes by parts.
        turned: Compressed matrices as ``linear`` takes them, made in front of the blocks that do.
    """

    model: onnx_ir.Model
    target: int
    names: set[str] = field(default_factory=set)
    held: dict[onnx_ir.Value, Var] = field(default_factory=dict)
    apart: set[onnx_ir.Value] = field(default_factory=set)
    turned: dict[onnx_ir.Value, Var] = field(default_factory=dict)

    @property
    def opset(self) -> int:
        """The opset whose operators are lowered."""
        return self.model.opset_imports.get("", 0)

    def name(self, like: str) -> str:
        """A free identifier (letters, digits, underscores) like ``like``."""
        base = re.sub(r"\W", "_", like, flags=re.ASCII) or "value"
        base = f"_{base}" if base[0].isdigit() else base
        name, number = base, 0
        while name in self.names:
            number += 1
            name = f"{base}_{number}"
        self.names.add(name)
        return name


class Context:
    """One graph being lowered.

    Args:
        program: What all graphs share.
        outer: The variables of enclosing graphs, for If and Loop.
    """

    def __init__(self, program: Program, outer: Mapping[onnx_ir.Value, Var] | None = None) -> None:
        from modelyard.containers.coreml import coremltools

        library = coremltools()
        self.program = program
        self.mb = library.converters.mil.mil.Builder
        self.types = library.converters.mil.mil.types
        self.vars: dict[onnx_ir.Value, Var] = dict(outer or {})
        self.node = ""

    @property
    def target(self) -> int:
        """The oldest system that the package is for."""
        return self.program.target

    # -- values ------------------------------------------------------------------------

    def var(self, value: onnx_ir.Value | None) -> Var:
        """The variable of a value; a constant's is made when it is first asked for.

        Raises:
            Refused: MIL can't hold it.
        """
        if value is None:
            raise Refused("an input that it needs isn't there")
        if value not in self.vars and value in self.program.held:
            self.vars[value] = self.op("cast", x=self.program.held[value], dtype="int32")
        if value not in self.vars:
            array = self.array(value)
            if array is None:
                raise Refused(f"nothing gives its input {value.name}")
            self.vars[value] = self.const(array, like=value.name or "constant")
        return self.vars[value]

    def optional(self, node: onnx_ir.Node, index: int) -> Var | None:
        """The variable of an input that may be left out."""
        if index >= len(node.inputs) or node.inputs[index] is None:
            return None
        return self.var(node.inputs[index])

    def has(self, value: onnx_ir.Value) -> bool:
        """Whether it has a variable, or several."""
        program = self.program
        return value in self.vars or value in program.held or value in program.apart

    def hold(self, value: onnx_ir.Value, var: Var) -> None:
        """Says which variable of int8 or uint8 holds a quantized tensor: :meth:`held` gives it as
        it is, and :meth:`var` in int32, where operators want it."""
        self._check(var)
        self.program.held[value] = var

    def held(self, value: onnx_ir.Value | None) -> Var | None:
        """The variable of int8 or uint8 of a quantized tensor; None where there is none."""
        return None if value is None else self.program.held.get(value)

    def give(self, value: onnx_ir.Value, var: Var) -> None:
        """Says which variable holds a value.

        Raises:
            Refused: It has too many axes, or another type than ONNX gives it.
        """
        self._check(var)
        if value.dtype is not None and self.type_of(var) != held(value.dtype):
            raise Refused(
                f"its output is {self.type_of(var)}, but should be {held(value.dtype)} for "
                f"{value.dtype}"
            )
        self.vars[value] = var

    array, given = staticmethod(operands.array_of), staticmethod(operands.given)
    needed = staticmethod(operands.needed)

    def shape(self, value: onnx_ir.Value | None) -> tuple[int | str, ...]:
        """The shape that ONNX gives a value; free dimensions have names.

        Raises:
            Refused: Its rank isn't known.
        """
        if value is None or value.shape is None:
            raise Refused("a tensor with an unknown number of axes")
        return tuple(
            dim if isinstance(dim, int) else (dim.value or f"{value.name}?{axis}")
            for axis, dim in enumerate(value.shape)
        )

    def rank(self, value: onnx_ir.Value | None) -> int:
        """How many axes ONNX says a value has."""
        return len(self.shape(value))

    def dtype(self, value: onnx_ir.Value | None) -> DataType:
        """The type that ONNX gives a value.

        Raises:
            Refused: It isn't known.
        """
        if value is None or value.dtype is None:
            raise Refused("a tensor of unknown type")
        return value.dtype

    # -- operations --------------------------------------------------------------------

    def const(self, array: Array | float | int | bool, like: str = "") -> Var:
        """A constant variable; numbers of 64 bits are brought to 32.

        Raises:
            Refused: MIL can't hold it.
        """
        made = narrowed(np.asarray(array))
        if made.size == 0:
            raise Refused(limits.EMPTY)
        value = made if made.ndim else made[()]  # a scalar: tensors without axes are another type
        return self.mb.const(val=value, name=self.program.name(like or f"{self.node}_const"))

    def number(self, x: float, like: Var) -> Var:
        """A constant without axes, of another variable's type."""
        return self.const(np.asarray(x, NUMPY[self.type_of(like)]))

    def op(self, kind: str, **inputs: Any) -> Var:
        """What an operation of MIL gives; its version is the target's.

        Args:
            kind: Its name: ``conv``, ``reduce_sum``...
            inputs: By MIL's names; arrays and numbers become constants, None is left out.

        Returns:
            A variable, or a tuple of them.

        Raises:
            Refused: The builder refuses it, or what it gives has too many axes.
        """
        name = self.program.name(self.node)
        try:
            made = getattr(self.mb, kind)(name=name, **inputs)
        except Refused:  # of a body that is built inside
            raise
        except Exception as error:  # the builder raises whatever its inference runs into
            told = f"{type(error).__name__}: {error}".splitlines()[0][:300]
            raise Refused(f"coremltools refuses {kind} here: {told}") from error
        for var in made if isinstance(made, (list, tuple)) else [made]:
            self._check(var)
        return tuple(made) if isinstance(made, list) else made

    def cast(self, x: Var, to: str) -> Var:
        """The variable in another MIL type; itself where it has it."""
        return x if self.type_of(x) == to else self.op("cast", x=x, dtype=to)

    def type_of(self, x: Var) -> str:
        """A variable's MIL type by name: ``fp16``, ``fp32``, ``int32``, ``bool``, ``int8``..."""
        return str(self.types.builtin_to_string(x.dtype))

    def _check(self, var: Var) -> None:
        shape = getattr(var, "shape", None)
        if shape is None:
            return
        if len(shape) > limits.MAX_RANK:
            raise Refused(limits.RANK)
        if any(isinstance(dim, (int, np.integer)) and dim == 0 for dim in shape):
            raise Refused(limits.EMPTY)


def free(dim: Any) -> bool:
    """Whether a dimension of a variable isn't known before the program runs."""
    return not isinstance(dim, (int, np.integer))
