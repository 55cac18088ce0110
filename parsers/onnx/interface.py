"""Gives a model the inputs, outputs and batch that the user asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import onnx_ir

from converter.analysis.shared_batch import own_sizes, set_apart, told
from converter.errors import UsageError
from converter.ir.batch import fix_batch, fixed_batch, free_batch
from converter.ir.model import BATCH, Model, TensorSpec, dtype_name, spec_of
from converter.ir.symbols import (
    free_inputs,
    is_machine_made,
    name_inputs,
    set_dimension,
    substitute,
    symbols_of,
)
from converter.options.inputs import InputSpec, fixed_to_one


@dataclass(frozen=True)
class Wishes:
    """What the user asked for.

    Attributes:
        inputs: ``--input``, in order.
        outputs: ``--output``, in order.
        batch: ``dynamic``, ``keep``, a number, or None.
        readable: Whether names that TensorFlow generated become what its user saw.
        noise: Inputs that the file doesn't have, which are nobody's to name by position.
        sizes: Of free dimensions, ``--dim``.
    """

    inputs: tuple[InputSpec, ...] = ()
    outputs: tuple[str, ...] = ()
    batch: str | None = None
    readable: bool = False
    noise: frozenset[onnx_ir.Value] = frozenset()
    sizes: Mapping[str, int] = field(default_factory=dict)


@dataclass
class Interface:
    """A model's interface next to its file's.

    Attributes:
        input_names: The file's name for each of the model's inputs.
        output_names: The model's name for each of the file's outputs.
        inputs, outputs: The model's.
        file_batch: The batch that the file fixes, where the model has another.
        batched: Which dimension of which inputs the batch is, where ``file_batch`` is given.
        notes: What was changed in a way that the user should know of.
    """

    input_names: dict[str, str]
    output_names: dict[str, str]
    inputs: tuple[TensorSpec, ...] = ()
    outputs: tuple[TensorSpec, ...] = ()
    file_batch: int | None = None
    batched: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @classmethod
    def apply(cls, model: Model, wishes: Wishes) -> Interface:
        """Changes ``model`` in place, and says how it differs from its file.

        1. ``--input`` names inputs by name or by position, sizes or names their free
           dimensions.
        2. ``--output`` names outputs by position. Generated names that the user left become
           readable, where ``wishes`` says so (:mod:`parsers.generated_names`).
        3. Free dimensions get names, the batch among them (:mod:`converter.ir.symbols`); inputs
           that share none aren't given one (:mod:`converter.analysis.shared_batch`).
        4. ``--batch`` frees a fixed batch or fixes a free one.

        Raises:
            UsageError: The file has other inputs or outputs, or fixes what should be free.
            ModelError: ``--batch`` is given and no input has a batch.
        """
        file_inputs = [value.name or "" for value in free_inputs(model.graph)]
        file_outputs = [value.name or "" for value in model.graph.graph.outputs]
        readable = _readable(model) if wishes.readable else {}
        values, wanted = _match(model, wishes, readable)
        fixed = [spec for value, spec in zip(values, wanted, strict=True) if _begins_free(value)]
        freed = _shape_inputs(model, values, wanted)
        renamed = {value: spec.name for value, spec in zip(values, wanted, strict=True)}
        renamed |= dict(_output_names(model, wishes.outputs))
        _rename(model, list({**readable, **renamed}.items()))
        taken = {} if wishes.batch not in (None, "keep") else _unnamed_firsts(model, values)
        name_inputs(model.graph)
        apart = own_sizes(model, {v.name or "": n for v, n in taken.items()}, wishes.sizes)
        set_apart(model, apart)
        names = [spec.name for spec in model.inputs]
        made = cls(
            dict(zip(names, file_inputs, strict=True)),
            dict(zip(file_outputs, [spec.name for spec in model.outputs], strict=True)),
        )
        if wishes.batch is None:
            made.notes += fixed_to_one(fixed)
        made.notes += [told(apart)] if apart else []
        made._set_batch(model, wishes.batch, freed)
        made.inputs, made.outputs = model.inputs, model.outputs
        return made

    def _set_batch(self, model: Model, batch: str | None, freed: dict[str, int]) -> None:
        batch = batch or ("dynamic" if freed else "keep")
        if batch == "keep":
            return
        size = None if batch == "dynamic" else _size(batch)
        if not any(BATCH in (spec.shape or ()) for spec in model.inputs):
            fixed = fixed_batch(model, freed or None)
            if fixed == size and fixed is not None:
                return
            self.notes += free_batch(model, freed)
            self.file_batch = fixed
            self.batched = {
                spec.name: spec.shape.index(BATCH)
                for spec in model.inputs
                if spec.shape and BATCH in spec.shape
            }
        if size is not None:
            fix_batch(model, size)


def _size(batch: str) -> int:
    if not batch.isdecimal() or int(batch) < 1:
        raise UsageError(
            f"--batch {batch}: the value has to be dynamic, keep, or a whole number of at least 1",
            code="option-value",
        )
    return int(batch)


# -- inputs ------------------------------------------------------------------------------


def _match(
    model: Model, wishes: Wishes, readable: Mapping[onnx_ir.Value, str]
) -> tuple[list[onnx_ir.Value], Sequence[InputSpec]]:
    """The file's input for each wanted one: by name if all names match, else by position."""
    wanted = wishes.inputs
    values = [value for value in free_inputs(model.graph) if value not in wishes.noise]
    by_name = {readable[value]: value for value in values if value in readable}
    by_name |= {value.name or "": value for value in values}
    if all(spec.name in by_name for spec in wanted):
        return [by_name[spec.name] for spec in wanted], wanted
    if len(wanted) != len(values):
        raise UsageError(
            f"--input names {', '.join(spec.name for spec in wanted)}, but the file has "
            f"{len(values)} inputs with other names",
            code="interface-mismatch",
            hint="Use the file's names, or name all of them in its order:",
            details=[_describe(value) for value in values],
        )
    return values, wanted


def _describe(value: onnx_ir.Value) -> str:
    return f"{value.name}: {spec_of(value).describe()}"


def _shape_inputs(
    model: Model, values: Sequence[onnx_ir.Value], wanted: Sequence[InputSpec]
) -> dict[str, int]:
    """Sizes and names the inputs' free dimensions; gives the fixed ones that are to be the
    batch, by the input's new name."""
    freed = {}
    for value, spec in zip(values, wanted, strict=True):
        _check_type(value, spec)
        if value.shape is None:
            value.shape = onnx_ir.Shape(spec.shape)
        elif len(value.shape) != len(spec.shape):
            raise _misfit(value, spec, f"the file has {len(value.shape)} dimensions there")
        for axis, dim in enumerate(spec.shape):
            if dim == BATCH and _is_fixed(value, axis):
                freed[spec.name] = axis
            else:
                _set(model, value, spec, axis, dim)
    return freed


def _check_type(value: onnx_ir.Value, spec: InputSpec) -> None:
    if spec.typed and dtype_name(value.dtype) != spec.dtype:
        raise _misfit(value, spec, f"the file has {dtype_name(value.dtype)} there")


def _begins_free(value: onnx_ir.Value) -> bool:
    return value.shape is None or (len(value.shape) > 0 and not _is_fixed(value, 0))


def _unnamed_firsts(model: Model, said: Sequence[onnx_ir.Value]) -> dict[onnx_ir.Value, str | None]:
    """Free first dimensions that nobody named, by input: what a machine called them."""
    return {
        value: name
        for value in free_inputs(model.graph)
        for axis, name in symbols_of(value)
        if axis == 0 and value not in said and is_machine_made(name)
    }


def _is_fixed(value: onnx_ir.Value, axis: int) -> bool:
    assert value.shape is not None
    dim = value.shape[axis]
    return isinstance(dim, int) and dim >= 0


def _set(model: Model, value: onnx_ir.Value, spec: InputSpec, axis: int, wanted: int | str) -> None:
    assert value.shape is not None
    dim = value.shape[axis]
    if isinstance(dim, int) and dim >= 0:
        if dim != wanted:
            raise _misfit(value, spec, f"the file fixes dimension {axis} to {dim}")
    elif isinstance(dim, int) or dim.value is None:
        set_dimension(value, axis, wanted)
    elif dim.value != wanted:
        substitute(model.graph, {dim.value: wanted})


def _misfit(value: onnx_ir.Value, spec: InputSpec, why: str) -> UsageError:
    wanted = TensorSpec(spec.name, spec.dtype, spec.shape).describe()
    return UsageError(
        f"--input {spec.name} is {wanted}; {why}",
        code="interface-mismatch",
        hint=f"The file has {_describe(value)}.",
    )


# -- names -------------------------------------------------------------------------------


def _readable(model: Model) -> dict[onnx_ir.Value, str]:
    """The inputs and outputs with generated names, and what they become."""
    from parsers.generated_names import readable_names  # TensorFlow's sources alone have them

    values = list(dict.fromkeys([*free_inputs(model.graph), *model.graph.graph.outputs]))
    names = readable_names([value.name or "" for value in values])
    return {value: names[value.name or ""] for value in values if names[value.name or ""]}


def _output_names(model: Model, names: Sequence[str]) -> list[tuple[onnx_ir.Value, str]]:
    """The file's outputs with the names that they are to get."""
    values = list(model.graph.graph.outputs)
    if not names:
        return []
    listed = [_describe(value) for value in values]
    if len(names) != len(values):
        raise UsageError(
            f"--output is given {len(names)} times, but the file has {len(values)} outputs",
            code="interface-mismatch",
            hint="Name them in the file's order:",
            details=listed,
        )
    old = [value.name for value in values]
    if set(names) == set(old) and list(names) != old:
        raise UsageError(
            "--output names the file's outputs in another order",
            code="interface-mismatch",
            hint="--output renames outputs by position, and doesn't sort them. The file's order:",
            details=listed,
        )
    return list(zip(values, names, strict=True))


def _rename(model: Model, wanted: Sequence[tuple[onnx_ir.Value, str]]) -> None:
    """Renames inputs and outputs, all at once: one may get a name that another had."""
    graph = model.graph.graph
    new = dict(wanted)
    interface = list(dict.fromkeys([*free_inputs(model.graph), *graph.outputs]))
    names = Counter(new.get(value, value.name or "") for value in interface)
    twice = [name for name, count in names.items() if count > 1]
    if twice:
        raise UsageError(
            f"{names[twice[0]]} of the model's inputs and outputs would have the name {twice[0]}",
            code="option-conflict",
            hint="Give each of them a name of its own: --input, --output.",
        )
    changed = {value: name for value, name in new.items() if value.name != name}
    for value in _inner_values(graph):
        if value.name in names and value not in interface:
            value.name = f"{value.name}__inner"
    for value in changed:
        value.name = f"{value.name}__renamed"
    for value, name in changed.items():
        value.name = name


def _inner_values(graph: onnx_ir.Graph) -> Iterator[onnx_ir.Value]:
    yield from list(graph.initializers.values())
    for node in onnx_ir.traversal.RecursiveGraphIterator(graph):
        yield from node.outputs
