"""``--fix``: what it takes, and that model and reference agree on it."""

import numpy as np
import pytest

from converter.errors import UsageError
from converter.ir.model import Model
from converter.options.fixed_values import fixed_values
from converter.pipeline.fixed import FixedSession, fix_inputs
from converter.runtime.ort import OrtSession
from tests.passes.models import text_model


def scaled() -> Model:
    return text_model("""
    m (float[batch,3] x, float[1] scale, int64 power, float[batch] weights) => (float[batch,3] y) {
        p = CastLike(power, x) s = Mul(x, scale) a = Pow(s, p) i = Constant<value_ints = [1]>()
        w = Unsqueeze(weights, i) y = Mul(a, w)
    }""")


def test_model_and_reference_agree() -> None:
    model, session = scaled(), OrtSession(scaled().graph, plain=True)
    values = fixed_values(["scale=0.5", "power = 3"], model.inputs)
    fix_inputs(model, values)
    assert [spec.name for spec in model.inputs] == ["x", "weights"]
    x, weights = np.arange(6, dtype=np.float32).reshape(2, 3), np.array([1, 2], np.float32)
    feeds = {"x": x, "weights": weights}
    reference = FixedSession(session, values)
    assert [spec.name for spec in reference.inputs] == ["x", "weights"]
    expected = (feeds["x"] * 0.5) ** 3 * feeds["weights"][:, None]
    np.testing.assert_allclose(reference.run(feeds)["y"], expected, rtol=1e-6)
    found = OrtSession(model.graph, plain=True).run(feeds)["y"]
    np.testing.assert_array_equal(found, reference.run(feeds)["y"])
    (weights,) = fixed_values(["weights=[1, 2.5]"], scaled().inputs).values()
    np.testing.assert_array_equal(weights, np.array([1, 2.5], np.float32))


@pytest.mark.parametrize(("texts", "said"), [
    (["scale"], "NAME=VALUE"),
    (["=3"], "NAME=VALUE"),
    (["rate=3"], "no input rate"),
    (["power=2.5"], "int64 can't hold"),
    (["power=two"], "isn't a value"),
    (["scale=[1, 2]"], r"shape \[2\]"),
    (["weights=1"], r"shape \[\]"),
    (["power=1", "power=2"], "twice"),
    (["x=[[1,2,3]]", "scale=1", "power=1", "weights=[1]"], "without an input"),
])  # fmt: skip
def test_what_doesnt_fit(texts: list[str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        fixed_values(texts, scaled().inputs)
