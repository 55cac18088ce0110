"""Programs written with coremltools' builder, read back from disk and run in ONNX Runtime."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from converter.coreml_file import coremltools
from converter.ir import Model
from converter.ort import OrtSession
from parsers.coreml_import.importer import read

Array = np.ndarray[Any, Any]
Arrays = Mapping[str, Array]
Body = Callable[..., Any]
"""Given the builder and the inputs by name, gives what the program gives."""


def write(
    folder: Path,
    body: Body,
    inputs: Arrays,
    *,
    target: int = 17,
    free: Mapping[str, Sequence[int]] | None = None,
    passes: bool = False,
) -> Path:
    """Writes a program as a package.

    Args:
        folder: Where it goes.
        body: What the program computes: ``body(mb, x=..., y=...)``.
        inputs: Whose shapes and types the program's inputs have.
        target: iOS 15 to 18.
        free: Axes of inputs, by name, whose sizes are free.
        passes: Whether coremltools' passes rewrite it, or it stays as built.
    """
    ct = coremltools()
    from coremltools.converters.mil import Builder as mb
    from coremltools.converters.mil.mil import Function, Program, types

    deployment = getattr(ct.target, f"iOS{target}")
    kinds = {
        np.dtype(np.float32): types.fp32,
        np.dtype(np.float16): types.fp16,
        np.dtype(np.int32): types.int32,
        np.dtype(np.bool_): types.bool,
    }
    shapes = {name: _shape(array, (free or {}).get(name, ())) for name, array in inputs.items()}
    holders = {
        name: mb.placeholder(shape=shapes[name], dtype=kinds[array.dtype])
        for name, array in inputs.items()
    }
    program = Program()
    with Function(holders, opset_version=deployment) as function:
        given = body(mb, **function.inputs)
        function.set_outputs(list(given) if isinstance(given, list | tuple) else [given])
    program.add_function("main", function)
    ranges = [
        ct.TensorType(name, shape=_ranges(ct, array, (free or {}).get(name, ())))
        for name, array in inputs.items()
        if free and name in free
    ]
    model = ct.convert(
        program,
        source="milinternal",
        convert_to="mlprogram",
        minimum_deployment_target=deployment,
        skip_model_load=True,
        compute_precision=ct.precision.FLOAT32,
        inputs=ranges or None,
        **({} if passes else {"pass_pipeline": ct.PassPipeline.EMPTY}),
    )
    path = folder / "model.mlpackage"
    model.save(str(path))
    return path


def _shape(array: Array, free: Sequence[int]) -> tuple[Any, ...]:
    from coremltools.converters.mil.mil import get_new_symbol

    return tuple(
        get_new_symbol() if axis in free else size for axis, size in enumerate(array.shape)
    )


def _ranges(ct: Any, array: Array, free: Sequence[int]) -> tuple[Any, ...]:
    return tuple(
        ct.RangeDim(1, 64, default=size) if axis in free else size
        for axis, size in enumerate(array.shape)
    )


def compute(body: Body, inputs: Arrays, **how: Any) -> list[Array]:
    """What a program gives, read back and run: its outputs in order."""
    with tempfile.TemporaryDirectory() as folder:
        model = read(write(Path(folder), body, inputs, **how))
        return run(model, inputs)


def run(model: Model, inputs: Arrays) -> list[Array]:
    """A model's outputs in order."""
    session = OrtSession(model.graph, exact=True)
    found = session.run({spec.name: inputs[spec.name] for spec in model.inputs})
    return [found[spec.name] for spec in model.outputs]


def agrees(found: Array, expected: Any, tolerance: float | None = None) -> None:
    """Asserts the same type, shape and values, up to rounding of the type."""
    expected = np.asarray(expected)
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    if found.dtype.kind != "f":
        np.testing.assert_array_equal(found, expected)
        return
    bound = tolerance or (2e-3 if found.dtype == np.float16 else 1e-5)
    np.testing.assert_allclose(found, expected, rtol=bound, atol=bound)
