"""What ONNX Runtime's CPU is slow at is written otherwise: the same numbers, in files that are the
same wherever they are written."""

import json
import re
from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.kernels import MAPS, NETS, least, network, rewritten
from converter.ir.model import Model
from converter.options.recipe import make_request
from converter.runtime.ort import OrtSession
from emitters.onnx.kernels import FORMS, TABLE, FasterKernels, OrtKernels, faster
from tests.acceptance.cli import command, tree
from tests.artifacts import Made
from tests.passes.models import Array, ops, run, text_model

REQUEST = make_request({"source": "model.onnx"})
ODD = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 3e38, -3e38], np.float32)

SLOPES = "float[1,32,4,4] x, float[32,1,1] s"
PRELU = f"net ({SLOPES}) => (float[1,32,4,4] y) {{ a = Add(x, x) y = PRelu(a, s) }}"
SUM = """net (float[1,16,4,4] x, float[1,16,4,4] u, float[32,16,1,1] w)
    => (float[1,32,4,4] y) <int64[8] p = {0,0,0,0,0,16,0,0}>
    { a = Pad(x, p) b = Conv(u, w) y = Add(a, b) }"""


def prelu(text: str = PRELU, slope: Array | None = None) -> Model:
    default = np.linspace(-1, 2, 32, dtype=np.float32).reshape(32, 1, 1)
    return text_model(text, s=default if slope is None else slope)


def padded(text: str = SUM) -> Model:
    return text_model(text, w=np.random.default_rng(0).standard_normal((32, 16, 1, 1), np.float32))


def values(shape: tuple[int, ...]) -> Array:
    """Seeded numbers of all sizes, and such that arithmetic treats otherwise."""
    rng = np.random.default_rng(1)
    x = (rng.standard_normal(shape) * 10.0 ** rng.integers(-30, 30, shape)).astype(np.float32)
    x.flat[: 21 * len(ODD) : 7] = np.tile(ODD, 3)
    return x


@pytest.mark.parametrize("form", FORMS)
def test_the_same_numbers(form: str) -> None:
    model = padded() if form == "halves" else prelu()
    feeds = {spec.name: values(tuple(map(int, spec.shape or ()))) for spec in model.inputs}
    if form == "halves":  # a channel that isn't a number makes all of a Conv's so
        feeds["u"] = np.random.default_rng(2).standard_normal((1, 16, 4, 4)).astype(np.float32)
    before, after = run(model, feeds)["y"], run(rewritten(model, form), feeds)["y"]
    np.testing.assert_array_equal(after, before)  # NaN in the same places; -0.0 is 0.0
    assert np.isnan(before).any() and np.isinf(before).any()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("channels", "height"), MAPS[2:])
def test_every_size_of_the_table_bit_for_bit(form: str, channels: int, height: int) -> None:
    model = network(form, channels, height)
    feeds = {"x": np.random.default_rng(3).standard_normal((1, channels, height, height), "f4")}
    assert run(model, feeds)["y"].tobytes() == run(rewritten(model, form), feeds)["y"].tobytes()


def test_blocks_are_kept() -> None:
    """ONNX Runtime goes back to rows of pixels once, behind the last Conv."""
    for form in ("blocked", "halves"):
        made = rewritten(network(form, 32, 8), form)
        assert set(ops(made)) <= {"Conv", "Relu", "Add", "Concat"}
        session = OrtSession(made.graph, stock=True, threads=1)
        feeds = {"x": np.ones((1, 32, 8, 8), np.float32)}
        np.testing.assert_allclose(
            session.run(feeds)["y"], run(network(form, 32, 8), feeds)["y"], rtol=1e-4, atol=1e-5
        )


LEFT = {
    "a slope that isn't finite": lambda: prelu(slope=np.full((32, 1, 1), np.inf, np.float32)),
    "a slope for each place": lambda: prelu(
        PRELU.replace("[32,1,1] s", "[32,4,4] s"), np.ones((32, 4, 4), np.float32)
    ),
    "no blocks before": lambda: prelu(PRELU.replace("a = Add(x, x) y = PRelu(a", "y = PRelu(x")),
    "channels in front": lambda: padded(SUM.replace("{0,0,0,0,0,16,0,0}", "{0,16,0,0,0,0,0,0}")),
    "rows too": lambda: padded(
        SUM.replace("{0,0,0,0,0,16,0,0}", "{0,0,1,0,0,16,0,0}").replace("x, f", "x, f", 1)
        .replace("float[1,16,4,4] x", "float[1,16,3,4] x")
    ),
    "by ones": lambda: padded(
        SUM.replace("0,0}>", "0,0}, float k = {1}>").replace("(x, p)", "(x, p, k)")
    ),
    "by mirroring": lambda: padded(SUM.replace("Pad(", 'Pad<mode = "wrap">(')),
    "a sum that is used twice": lambda: padded(
        SUM.replace("=> (", "=> (float[1,32,4,4] z, ").replace("y = Add", "z = Relu(b) y = Add")
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", LEFT)
def test_what_no_form_holds_for(what: str) -> None:
    step = FasterKernels({"blocked": 0, "halves": 0})
    assert not step.wanted(LEFT[what]())


def test_the_table_decides() -> None:
    table = json.loads(TABLE.read_text())
    assert table["forms"].keys() == FORMS.keys() == NETS.keys()
    for name, row in table["forms"].items():
        sizes = [prod(map(int, shape.split(" x "))) for shape in row["gains"]]
        assert len(sizes) == len(MAPS)
        assert row["least"] == least(list(zip(sizes, row["gains"].values(), strict=True))), name
        form = FORMS[name]
        assert (row["operator"], tuple(row["targets"])) == (form.operator, form.targets)
    assert least([(4, 1.2), (8, 1.0), (16, 1.1), (32, 2.0)]) == 16
    assert least([(4, 1.2), (8, 1.0)]) is None
    assert not FasterKernels({"blocked": 513}).wanted(prelu())
    assert FasterKernels({"blocked": 512}).wanted(prelu())
    assert not OrtKernels({"blocked": 0}).wanted(prelu())
    assert not FasterKernels({}).wanted(prelu())


def test_only_on_cpus_and_in_floats() -> None:
    def asked(**options: Any) -> Any:
        return faster(
            network("blocked", 16, 96), make_request({"source": "m", **options}), FasterKernels()
        )

    assert asked() is not None
    assert asked(providers=["cuda"]) is asked(instance_kind="gpu") is None
    assert asked(simplify=False) is None
    rounded = "<float k = {1}> { q = QuantizeLinear(x, k) a = DequantizeLinear(q, k)"
    integers = prelu(PRELU.replace("{ a = Add(x, x)", rounded))
    assert faster(integers, REQUEST, FasterKernels()) is None


FEWEST = {
    "face-landmark": {"PRelu": 12, "Add": 3},
    "iris-landmark": {"PRelu": 20, "Add": 1},
    "face-detection-full-range": {"Add": 8},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FEWEST)
def test_real_models(name: str, artifact: Callable[[str, str, str], Made]) -> None:
    made = artifact(name, "onnx", "fp32")
    written = Model.load(made.path)
    (record,) = (item for item in made.report.passes if item.name == "legalize:onnx:fp32")
    assert record.status == "changed" and record.max_abs == 0  # on every probe, bit for bit
    done = {operator: int(n) for n, operator in re.findall(r"(\d+) (\w+)", record.detail)}
    assert all(done[operator] >= count for operator, count in FEWEST[name].items())
    assert not FasterKernels().wanted(written)  # what is left is too small


@pytest.mark.slow
@pytest.mark.smoke
def test_the_same_bytes_twice(tmp_path: Path) -> None:
    """Through the command line, in processes with hash tables of their own."""
    network("blocked", 32, 48).save(tmp_path / "net.onnx")
    asked = ("--to", "onnx,ort", "--no-bench", "--samples", "random:4", "--few-samples")
    for name in ("one", "two"):
        command("convert", "net.onnx", *asked, "--no-cache", "--out", name, cwd=tmp_path, code=0)
    files = {
        target: [tree(tmp_path / name / target / "fp32") for name in ("one", "two")]
        for target in ("onnx", "ort")
    }
    assert all(one == two for one, two in files.values())
    written = ops(Model.load(tmp_path / "one" / "onnx" / "fp32" / "model.onnx"))
    assert written == {"Conv": 4, "Relu": 2, "Add": 1}
    required = files["ort"][0]["required_operators.config"].decode()
    assert "Where" in required and "PRelu" not in required
