"""States: inputs and outputs of the model that is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from converter.coreml_file import coremltools
from parsers.coreml_import.importer import read
from tests.coreml.running import agrees, run


def stateful(folder: Path) -> Path:
    """A package that adds its input to what it keeps, twice, and gives both sums' product."""
    ct = coremltools()
    from coremltools.converters.mil import Builder as mb
    from coremltools.converters.mil.mil import types

    specs = [mb.TensorSpec((2, 3), types.fp16), mb.StateTensorSpec((2, 3), types.fp16)]

    def body(x: Any, total: Any) -> Any:
        once = mb.coreml_update_state(state=total, value=mb.add(x=mb.read_state(input=total), y=x))
        twice = mb.add(x=mb.read_state(input=total), y=x)
        mb.coreml_update_state(state=total, value=twice)
        return mb.mul(x=once, y=twice)

    model = ct.convert(
        mb.program(input_specs=specs, opset_version=ct.target.iOS18)(body),
        convert_to="mlprogram",
        minimum_deployment_target=ct.target.iOS18,
        skip_model_load=True,
        pass_pipeline=ct.PassPipeline.EMPTY,  # it takes two readings of a state for the same
    )
    path = folder / "stateful.mlpackage"
    model.save(str(path))
    return path


def test_a_state_comes_in_and_goes_out(tmp_path: Path) -> None:
    model = read(stateful(tmp_path))
    assert [spec.name for spec in model.inputs] == ["x", "total"]
    assert [spec.name for spec in model.outputs][1:] == ["total_out"]
    x, total = (np.full((2, 3), number, np.float16) for number in (2, 5))
    y, after = run(model, {"x": x, "total": total})
    agrees(y, (total + x) * (total + 2 * x))
    agrees(after, total + 2 * x)
