"""What is replaced in coremltools gives the same as coremltools' own."""

from __future__ import annotations

from typing import Any

import pytest
import sympy

from emitters.coreml.lowering import BUILDING
from emitters.coreml.quicker import _divided, one_validation, quotients
from modelyard.containers.coreml import coremltools

IS0, IS1, NEW = sympy.symbols("is0 is1 new", integer=True)


@pytest.mark.parametrize(
    ("volume", "shape", "divided"),
    [
        (IS0 * 147, [NEW, 49, 3], True),
        (IS0 * IS1 * 6, [2, NEW, 3], True),
        (IS0 * 7, [NEW, 2], True),  # half a number, as coremltools has it
        (sympy.Integer(12), [NEW, 4], True),
        ((IS0 + 1) * 4, [NEW, 2], False),
        (IS0**2 * 4, [NEW, 2], False),
        (IS0 * 4, [IS0, 4], False),
        (IS0 * 4, [NEW, IS0, 4], False),
        (IS0 * 4, [NEW, 0], False),
    ],
)
def test_an_open_size_is_what_coremltools_solves_for(
    volume: Any, shape: list[Any], divided: bool
) -> None:
    coremltools()
    from coremltools.converters.mil.mil.ops.defs.iOS15.tensor_transformation import reshape

    theirs = reshape.enforce_volumetric_constraint
    found = _divided(volume, shape)
    assert (found is not None) == divided
    if found is not None:
        wanted = theirs(volume, shape)
        assert found == wanted and [*map(type, found)] == [*map(type, wanted)]
    with BUILDING, quotients():
        assert reshape.enforce_volumetric_constraint is not theirs
    assert reshape.enforce_volumetric_constraint is theirs


def test_a_pipeline_validates_at_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    library = coremltools()
    from coremltools.converters.mil.mil import Program
    from coremltools.converters.mil.mil.passes.pass_pipeline import PassPipelineManager

    builder = library.converters.mil.Builder

    @builder.program(input_specs=[builder.TensorSpec(shape=(1, 2))])
    def program(x: Any) -> Any:
        unread = builder.add(x=x, y=1.0)
        return builder.relu(x=x) if unread is not None else x

    seen: list[object] = []
    theirs = Program.validate
    monkeypatch.setattr(Program, "validate", lambda *a, **k: (seen.append(a), theirs(*a, **k)))
    pipeline = library.PassPipeline.DEFAULT
    with BUILDING, one_validation():
        PassPipelineManager.apply_pipeline(program, pipeline)
    assert len(seen) == 1 < len(pipeline.passes)
    kinds = [one.op_type for one in program.functions["main"].operations]
    assert "relu" in kinds and "add" not in kinds  # the passes ran
