"""Names of inputs' sizes that are free: what is the batch, and what only may be as large."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from converter.coreml_file import coremltools
from parsers.coreml_import.importer import read

Ranges = Mapping[str, Sequence[int | tuple[int, int]]]


def _names(ranges: Ranges) -> dict[str, list[int | str]]:
    """What the inputs of a program with such sizes are: a number, or the least and the most."""
    ct = coremltools()
    from coremltools.converters.mil import Builder as mb
    from coremltools.converters.mil.mil import Function, Program, get_new_symbol

    target = ct.target.iOS17
    holders = {
        name: mb.placeholder([s if isinstance(s, int) else get_new_symbol() for s in sizes])
        for name, sizes in ranges.items()
    }
    program = Program()
    with Function(holders, opset_version=target) as function:
        function.set_outputs([mb.relu(x=value) for value in function.inputs.values()])
    program.add_function("main", function)
    shapes = {name: [_size(ct, size) for size in sizes] for name, sizes in ranges.items()}
    model = ct.convert(
        program,
        source="milinternal",
        minimum_deployment_target=target,
        skip_model_load=True,
        compute_precision=ct.precision.FLOAT32,
        inputs=[ct.TensorType(name, shape, dtype=np.float32) for name, shape in shapes.items()],
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.mlpackage"
        model.save(str(path))
        found = read(path)
    return {spec.name: list(spec.shape or ()) for spec in found.inputs}


def _size(ct: Any, size: int | tuple[int, int]) -> Any:
    return size if isinstance(size, int) else ct.RangeDim(*size, default=size[0])


def test_one_input_has_the_batch() -> None:
    found = _names({"x": [(1, 8), 3, (2, 5)], "y": [4, (1, 8)]})
    assert found == {"x": ["batch", 3, "x_2"], "y": [4, "y_1"]}


def test_inputs_of_as_many_share_it() -> None:
    found = _names({"x": [(1, 8), 3], "y": [(1, 8), (2, 5)], "z": [2, 3]})
    assert found == {"x": ["batch", 3], "y": ["batch", "y_1"], "z": [2, 3]}


def test_inputs_that_may_differ_have_names_of_their_own() -> None:
    found = _names({"x": [(1, 8), 3], "y": [(1, 9), 3]})
    assert found == {"x": ["x_0", 3], "y": ["y_0", 3]}
