"""What comes in and goes out: free sizes, states, and classes beside their probabilities."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from modelyard.containers.coreml import coremltools
from parsers.coreml.importer import import_opened, read
from parsers.coreml.opened import open_file
from tests.coreml.running import agrees, run, write

Sizes = dict[str, list[int | tuple[int, int]]]


@pytest.mark.parametrize(
    ("sizes", "names"),
    [
        ({"x": [(1, 8), 3, (2, 5)], "y": [4, (1, 8)]},
         {"x": ("batch", 3, "x_2"), "y": (4, "y_1")}),
        ({"x": [(1, 8), 3], "y": [(1, 8), (2, 5)], "z": [2, 3]},
         {"x": ("batch", 3), "y": ("batch", "y_1"), "z": (2, 3)}),
        ({"x": [(1, 8), 3], "y": [(1, 9), 3]}, {"x": ("x_0", 3), "y": ("y_0", 3)}),
    ],
    ids=["one input has the batch", "inputs of as many share it", "those that may differ don't"],
)  # fmt: skip
def test_names_of_free_sizes(tmp_path: Path, sizes: Sizes, names: dict[str, Any]) -> None:
    """A size is a number, or the least and the most."""
    shapes = {n: [s if isinstance(s, int) else s[0] for s in of] for n, of in sizes.items()}
    inputs = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
    free = {
        name: {axis: size for axis, size in enumerate(of) if isinstance(size, tuple)}
        for name, of in sizes.items()
    }
    package = write(
        tmp_path, lambda mb, **given: [mb.relu(x=x) for x in given.values()], inputs, free=free
    )
    assert {spec.name: spec.shape for spec in read(package).inputs} == names


@pytest.mark.parametrize("labels", [["cat", "dog", "owl"], [7, 8, 9]])
def test_the_probabilities_are_the_output(tmp_path: Path, labels: list[Any]) -> None:
    x = np.array([[1, 2, 0.5]], np.float32)
    path = write(
        tmp_path, lambda mb, x: mb.softmax(x=x, name="scores"), {"x": x}, target=16, passes=True,
        options=lambda ct: {"classifier_config": ct.ClassifierConfig(labels)},
    )  # fmt: skip
    model = read(path)
    (name,) = (spec.name for spec in model.outputs)
    (found,) = run(model, {"x": x})
    agrees(found, np.exp(x) / np.exp(x).sum())
    assert import_opened(open_file(path)).classes == {name: [str(label) for label in labels]}


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

    program = mb.program(input_specs=specs, opset_version=ct.target.iOS18)(body)
    how = {"convert_to": "mlprogram", "minimum_deployment_target": ct.target.iOS18}
    # coremltools' passes take two readings of a state for the same
    how |= {"skip_model_load": True, "pass_pipeline": ct.PassPipeline.EMPTY}
    model = ct.convert(program, **how)
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
