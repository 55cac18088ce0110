"""Where an artifact parts from its source: which step, and what in it."""

import numpy as np
import pytest

from converter.diff.stage import Stage
from converter.diff.where import Outputs, Where, locate
from converter.ir.model import Model
from converter.runtime.ort import OrtSession
from converter.samples import Sample
from tests.passes.models import text_model

X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)


def model(op: str = "Relu", second: str = "Sin") -> Model:
    return text_model(
        f"m (float[3, 4] x) => (float[3, 4] y) {{ [one] a = {op}(x) [two] b = {second}(a) "
        "[three] y = Neg(b) }"
    )


def kept(expected: Outputs, given: Outputs) -> bool:
    return all(np.allclose(array, given[name], atol=1e-4) for name, array in expected.items())


def located(*stages: tuple[str, Model | None]) -> Where:
    source, samples = OrtSession(model().graph), [Sample("s", {"x": X})]
    given = [source.run(sample.feeds) for sample in samples]
    return locate([Stage(*stage) for stage in stages], samples, given, kept, lambda: source)


@pytest.mark.parametrize("wrong", [1, 2, 3])
def test_the_first_step_that_parts_is_named(wrong: int) -> None:
    steps = ["read", "simplify", "quantize to fp16", "write onnx"]
    made = [(step, model(second="Sin" if i < wrong else "Cos")) for i, step in enumerate(steps)]
    told = "at the Sin two (tensor b, which the Cos two makes afterwards)"
    found = Where(steps[wrong], f"it parts in the step {steps[wrong]}, {told}")
    assert located(*made) == found


def test_what_was_read_parts_from_the_framework() -> None:
    read = model("Abs")
    assert located(("read", read), ("write onnx", model("Abs"))) == Where(
        "read", "the graph that was read parts from onnxruntime, in the step read"
    )
    read.source["exporter"] = "tool 1.0"
    said = located(("read", read), ("write onnx", None)).sentence
    assert said == "the graph that tool 1.0 made parts from onnxruntime, in the step read"


def test_an_artifact_that_is_no_graph() -> None:
    found = located(("read", model()), ("simplify", model()), ("write onnx", None))
    assert found.sentence == "it parts in the step write onnx"
    assert located(("read", model()), ("", None)) == Where("", "")


def test_what_cant_be_run_is_named_with_the_next() -> None:
    broken = text_model("m (float[3, 4] x) => (float[3, 4] y) { y = MatMul(x, x) }")
    found = located(("read", model()), ("simplify", broken), ("write onnx", None))
    assert found.sentence == "it parts in the step simplify or write onnx"
    assert located(("read", broken), ("", model("Abs"))) == Where("", "")


def test_fused_operators_are_counted() -> None:
    one = text_model("m (float[3, 4] x) => (float[3, 4] y) { [all] y = Abs(x) }")
    assert located(("read", model()), ("simplify", one)).sentence == (
        "it parts in the step simplify, at the Neg three (tensor y) or one of the 2 nodes before it"
    )
