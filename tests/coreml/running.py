"""Programs written with coremltools' builder, read back from disk and run in ONNX Runtime."""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from converter.ir.model import Model
from converter.runtime.ort import OrtSession
from modelyard.containers.coreml import coremltools
from parsers.coreml.importer import read

Array = np.ndarray[Any, Any]
Arrays = Mapping[str, Array]
Body = Callable[..., Any]
"""Given the builder and the inputs by name, gives what the program gives."""


Free = Sequence[int] | Mapping[int, tuple[int, int]]
"""Axes of free sizes; with their least and most, or from 1 to 64."""


def write(
    folder: Path, body: Body, inputs: Arrays, *, target: int = 17,
    free: Mapping[str, Free] | None = None, passes: bool = False,
    options: Callable[[Any], dict[str, Any]] = lambda ct: {}, told: Mapping[str, Any] | None = None,
    lean: bool = False,
) -> Path:  # fmt: skip
    """Writes a program as a package.

    Args:
        folder: Where it goes.
        body: What the program computes: ``body(mb, x=..., y=...)``.
        inputs: Whose shapes and types the program's inputs have.
        target: iOS 15 to 18.
        free: Axes of inputs, by name, whose sizes are free.
        passes: Whether coremltools' passes rewrite it, or it stays as built.
        options: Others of ``ct.convert``, given coremltools.
        told: What the model says of itself, by coremltools' names.
        lean: Without inputs of operations that are what coremltools has as their default, and
            always writes.
    """
    ct = coremltools()
    from coremltools.converters.mil import Builder as mb
    from coremltools.converters.mil.mil import Function, Program, get_new_symbol, types

    deployment = getattr(ct.target, f"iOS{target}")
    builtin, holders, ranges = types.numpy_type_to_builtin_type, {}, []
    for name, array in inputs.items():
        axes = (free or {}).get(name, ())
        bounds = {axis: axes[axis] if isinstance(axes, Mapping) else (1, 64) for axis in axes}
        sizes = list(enumerate(array.shape))
        shape = [get_new_symbol() if axis in bounds else size for axis, size in sizes]
        holders[name] = mb.placeholder(shape=shape, dtype=builtin(array.dtype))
        if bounds:
            limits = [
                ct.RangeDim(*bounds[axis], default=size) if axis in bounds else size
                for axis, size in sizes
            ]
            ranges.append(ct.TensorType(name, shape=limits, dtype=array.dtype.type))
    program = Program()
    with Function(holders, opset_version=deployment) as function:
        function.set_outputs(list(_several(body(mb, **function.inputs))))
    program.add_function("main", function)
    defaults = _defaults(function) if lean else {}
    given = {"inputs": ranges or None, "source": "milinternal", "convert_to": "mlprogram"}
    given |= {"minimum_deployment_target": deployment, "compute_precision": ct.precision.FLOAT32}
    given |= options(ct)
    if not passes:
        given["pass_pipeline"] = ct.PassPipeline.EMPTY
    model = ct.convert(program, skip_model_load=True, **given)
    if lean:
        spec = model.get_spec()
        for block in spec.mlProgram.functions["main"].block_specializations.values():
            for operation in block.operations:
                for name in defaults.get(operation.outputs[0].name, ()):
                    operation.inputs.pop(name, None)
        model = ct.models.MLModel(spec, weights_dir=model.weights_dir, skip_model_load=True)
    for name, value in (told or {}).items():
        if isinstance(value, dict):
            for key, text in value.items():
                getattr(model, name)[key] = text
        else:
            setattr(model, name, value)
    path = folder / "model.mlpackage"
    model.save(str(path))
    return path


def _defaults(function: Any) -> dict[str, list[str]]:
    """The inputs of each operation, by its first output, that are as they are by default."""
    found = {}
    for operation in function.operations:
        usual = dict(operation.default_inputs().items())
        given = {name: operation.inputs[name] for name in usual if operation.inputs.get(name)}
        found[operation.outputs[0].name] = [
            name for name, value in given.items() if np.array_equal(value.val, usual[name])
        ]
    return found


def compute(body: Body, inputs: Arrays, **how: Any) -> list[Array]:
    """What a program gives, read back and run: its outputs in order.

    Without what are defaults it has to be read as the same.
    """
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as other:
        model = read(write(Path(folder), body, inputs, **how))
        found = run(model, inputs)
        lean = run(read(write(Path(other), body, inputs, **how, lean=True)), inputs)
        for full, short in zip(found, lean, strict=True):
            np.testing.assert_array_equal(short, full)
        return found


def run(model: Model, inputs: Arrays) -> list[Array]:
    """A model's outputs in order."""
    session = OrtSession(model.graph, exact=True)
    found = session.run({spec.name: inputs[spec.name] for spec in model.inputs})
    return [found[spec.name] for spec in model.outputs]


def agrees(found: Array, expected: Any, tolerance: float | None = None) -> None:
    """Asserts the same type, shape and values, up to rounding of the type."""
    if found.dtype.kind != "f":
        np.testing.assert_array_equal(found, expected, strict=True)
        return
    bound = tolerance or (2e-3 if found.dtype == np.float16 else 1e-5)
    np.testing.assert_allclose(found, np.asarray(expected), bound, bound, strict=True)


Case = tuple[Any, ...]
"""A body and what it gives: an array, or one for each of its outputs."""


def check(cases: Sequence[Case], inputs: Arrays, tolerance: float | None = None,
          **how: Any) -> None:  # fmt: skip
    """Asserts what the cases give, all in one program."""
    agree(compute(together(cases), inputs, **how), cases, inputs, tolerance)


def together(cases: Sequence[Case]) -> Body:
    """The program of all cases."""
    return lambda mb, **given: [out for case in cases for out in _several(case[0](mb, **given))]


def agree(found: Sequence[Array], cases: Sequence[Case], inputs: Arrays,
          tolerance: float | None = None) -> None:  # fmt: skip
    """Asserts that outputs are the cases'. What numpy makes float64 is of the first input's type
    that isn't an integer, and its int64 and truths are int32, for programs give neither."""
    real = next((a.dtype for a in inputs.values() if a.dtype.kind == "f"), np.dtype(np.float32))
    narrow = {"float64": real, "int64": np.dtype(np.int32), "bool": np.dtype(np.int32)}
    wanted = [np.asarray(value) for case in cases for value in _several(case[1])]
    for at, (value, expected) in enumerate(zip(found, wanted, strict=True)):
        try:
            agrees(
                value, expected.astype(narrow.get(expected.dtype.name, expected.dtype)), tolerance
            )
        except AssertionError as error:
            error.add_note(f"output {at} of {len(wanted)}")
            raise


def _several(given: Any) -> Sequence[Any]:
    return given if isinstance(given, list | tuple) else [given]


class _Operations:
    """``op.add("x", "p")`` is the body of that operation: of these inputs as its x and y, or of
    all inputs by their own names."""

    def __getattr__(self, name: str) -> Callable[..., Body]:
        def make(*of: str, **given: Any) -> Body:
            def body(mb: Any, **inputs: Any) -> Any:
                taken = {to: inputs[one] for to, one in zip("xy", of, strict=False)} or inputs
                return getattr(mb, name)(**taken, **given)

            return body

        return make


op = _Operations()


def cast(body: Body, to: str = "int32") -> Body:
    """What it gives, as numbers of another type: each of its outputs."""

    def changed(mb: Any, **inputs: Any) -> Any:
        return [mb.cast(x=given, dtype=to) for given in _several(body(mb, **inputs))]

    return changed


def as_numpy(names: str, **inputs: Array) -> list[Case]:
    """Operations that numpy has too: ``name``, or ``name:`` and numpy's, each of these inputs."""
    wide = [a.astype(np.float64) if a.dtype.kind == "f" else a for a in inputs.values()]
    pairs = (name.partition(":") for name in names.split())
    return [(getattr(op, n)(*inputs), getattr(np, other or n)(*wide)) for n, _, other in pairs]


def drawing(seed: int, low: float = -1, high: float = 1) -> Callable[..., Array]:
    """Draws float32 arrays of shapes, the same ones for the same seed."""
    chance = np.random.default_rng(seed)
    return lambda *shape: chance.uniform(low, high, shape).astype(np.float32)
