"""Free dimensions: ranges, listed shapes, and what a package refuses because of them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from converter.errors import UsageError
from converter.ir.model import Model
from emitters.coreml.declared import declared, read_description
from emitters.coreml.emitter import CoremlEmitter
from tests.coreml_emitter.running import agree, emitted, request, run_package
from tests.operators.cases import numbers, parsed
from tests.passes.models import ListedSamples


def two() -> Model:
    """Two inputs that share a free dimension."""
    return parsed("""g (float[batch, t, 4] x, float[batch, t] m) => (float[batch, t, 4] y)
        <int64[1] axes = {2}> { u = Unsqueeze(m, axes) y = Mul(x, u) }""")


def ranges(path: Path) -> dict[str, Any]:
    """What the package declares."""
    found = declared(read_description(path).input)
    return {name: item.listed or item.ranges for name, item in found.items()}


def feeds(batch: int, t: int) -> dict[str, np.ndarray[Any, Any]]:
    return {"x": numbers(batch, t, 4), "m": numbers(batch, t)}


def test_bounds_by_default(tmp_path: Path) -> None:
    """A batch up to 8, all else up to 4096; other sizes are refused as Core ML refuses them."""
    agree(two(), [feeds(1, 1), feeds(3, 7), feeds(8, 20)], tmp_path)
    path = tmp_path / "model.mlpackage"
    assert ranges(path) == {"x": ((1, 8), (1, 4096), (4, 4)), "m": ((1, 8), (1, 4096))}
    with pytest.raises(UsageError, match=r"x is 9x2x4, but the package takes \(1 to 8\)x"):
        run_package(path, feeds(9, 2))
    # one size is no range: the program is fixed then; a batch of several runs one by one
    agree(two(), [feeds(1, 3), feeds(4, 3)], tmp_path, max_batch=1)
    assert ranges(path)["m"] == ((1, 1), (1, 4096))


def test_bounds_that_are_asked_for(tmp_path: Path) -> None:
    """--max-batch, --dim for the usual size, --shapes over both."""
    path = emitted(two(), tmp_path, max_batch=32, dims={"t": 16})
    assert ranges(path)["x"] == ((1, 32), (1, 4096), (4, 4))
    usual = read_description(path).input[0].type.multiArrayType.shape
    assert list(usual) == [1, 16, 4]
    path = emitted(two(), tmp_path, shapes=["x:1x2x4,2x5x4,4x9x4"])
    assert ranges(path) == {"x": ((1, 4), (2, 9), (4, 4)), "m": ((1, 4), (2, 9))}


def test_bounds_from_samples(tmp_path: Path) -> None:
    """A sample may be larger than any default; the usual size is the median's."""
    emitter = CoremlEmitter()
    seen = emitter.observe(ListedSamples([feeds(1, 10), feeds(1, 30), feeds(12, 5000)]), two())
    artifact = emitter.emit(two(), tmp_path, "fp32", request(), seen)
    assert ranges(artifact.path)["m"] == ((1, 12), (1, 5000))
    assert list(read_description(artifact.path).input[1].type.multiArrayType.shape) == [1, 30]
    assert "x takes batch 1 to 12, t 1 to 5000" in artifact.details["decisions"]


def test_listed_shapes(tmp_path: Path) -> None:
    """The first is the usual one; no other is taken."""
    model = parsed("g (float[1, 2, h, w] x) => (float[1, 2, h, w] y) { y = Relu(x) }")
    shapes = [(1, 2, 8, 8), (1, 2, 4, 16)]
    listed = ["x:1x2x8x8,1x2x4x16"]
    agree(model, [{"x": numbers(*shape)} for shape in shapes], tmp_path, coreml_shapes=listed)
    path = tmp_path / "model.mlpackage"
    assert set(ranges(path)["x"]) == set(shapes)
    assert list(read_description(path).input[0].type.multiArrayType.shape) == [1, 2, 8, 8]
    with pytest.raises(UsageError, match="1x2x8x8, "):
        run_package(path, {"x": numbers(1, 2, 8, 9)})


def test_several_inputs_list_their_shapes(tmp_path: Path) -> None:
    """From iOS18 on, and then as many."""
    both = ["x:1x2x4,1x5x4", "m:1x2,1x5"]
    with pytest.raises(UsageError, match="before iOS18"):
        emitted(two(), tmp_path, coreml_shapes=both)
    agree(two(), [feeds(1, 2), feeds(1, 5)], tmp_path, target=18, coreml_shapes=both)
    with pytest.raises(UsageError, match="need lists of the same length"):
        emitted(two(), tmp_path, target=18, coreml_shapes=["x:1x2x4,1x5x4,1x6x4", "m:1x2,1x5"])


@pytest.mark.parametrize(("options", "said"), [
    ({"coreml_shapes": ["x:1x2x4"]}, "give 2 to 128 shapes"),
    ({"coreml_shapes": ["x:1x2x5,1x3x5"]}, "doesn't fit x"),
    ({"coreml_shapes": ["q:1x2,1x3"]}, "no input 'q'"),
    ({"coreml_shapes": ["x:1xtwo"]}, "--coreml-shapes x:1xtwo isn't understood"),
    ({"shapes": ["x:4x2x4,1x5x4,8x9x4"]}, "give the smallest shape first"),
    ({"shapes": ["x:1x2x4,2x2x4"]}, "isn't understood"),
    ({"shapes": ["x:1x2x4", "x:1x3x4"]}, "names an input twice"),
])  # fmt: skip
def test_what_doesnt_fit_is_refused(options: Any, said: str) -> None:
    with pytest.raises(UsageError) as error:
        CoremlEmitter().unsupported(two(), request(**options))
    assert said in str(error.value)
