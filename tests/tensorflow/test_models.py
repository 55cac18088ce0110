"""SavedModels, frozen graphs and checkpoints: names, order, shapes and results."""

import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from converter import api
from converter.errors import ModelError, UnsupportedError, UsageError
from converter.runtime.ort import OrtSession
from tests.acceptance.cli import command, modelyard

from .conftest import Opening, close

pytestmark = pytest.mark.slow

SWITCHED = {"args": ["is_training=false"]}
CHECKPOINT = "ckpt/net.ckpt.meta"


def test_a_signature_has_its_function_s_order(opening: Opening) -> None:
    opened = opening("two")
    assert opened.inputs == ["zebra: float32[batch, 2]", "apple: float32[batch, 2]"]
    assert opened.outputs == ["aa", "zz"]
    assert opened.model.source["signature"] == "serving_default"
    assert opened.model.source["parameters"] == 4
    opened.same("two")


def test_inputs_are_renamed_by_position_and_outputs_chosen(opening: Opening) -> None:
    opened = opening("two", inputs=["p:3x2", "q:float32:n,2"], outputs=["zz"])
    assert opened.inputs == ["p: float32[3, 2]", "q: float32[batch, 2]"]
    feeds, outputs = opened.recorded("two")
    close(opened.run({"p": feeds["zebra"], "q": feeds["apple"]}), {"zz": outputs["zz"]})
    by_name = opening("two", inputs=["apple:batchx2", "zebra:batchx2"], outputs=["u", "v"])
    assert by_name.inputs[0] == "zebra: float32[batch, 2]"
    assert by_name.outputs == ["u", "v"]


@pytest.mark.parametrize(("name", "options", "says", "details"), [
    ("two", {"inputs": ["p:3x2"]}, "zebra: float32", None),
    ("two", {"inputs": ["zebra:int64:3x2", "apple:3x2"]}, "takes float32, not int64", None),
    ("two", {"outputs": ["one"]}, "2 outputs: aa, zz", None),
    ("two", {"args": ["a=1"]}, "--arg has no meaning", None),
    ("ends.pb", {"signature": "f"}, "--signature has no meaning", None),
    ("several", {}, "--signature", "f(apple: float32[?, 2], zebra: float32[?, 2]) -> aa"),
    ("several", {}, "--signature", "g(x: float32[?, ?, 2]) -> "),
    ("several", {"signature": "h"}, "no signature h", None),
    ("unsigned", {}, "no signature", "it can be called: __call__(x: float32[2])"),
    ("unsigned", {}, "no signature", "it can be called: __call__(x: float32[2, 2])"),
    ("frozen.pb", {}, "", "is_training: a switch: --arg is_training=false"),
    ("frozen.pb", {"outputs": ["prob"], **SWITCHED}, "no prob", "probabilities"),
    ("frozen.pb", {"inputs": ["rate:"]}, "more inputs", "i"),
    ("rankless.pb", {}, "declare its inputs", "a: float32 of unknown rank: --input a:float32:"),
    (CHECKPOINT, SWITCHED, "outputs", "--output loss"),
    ("ckpt/net.ckpt.index", {}, "without its graph", None),
])  # fmt: skip
def test_what_is_asked_for_or_missing(name: str, options: dict[str, Any], says: str,
                                      details: str | None, opening: Opening) -> None:  # fmt: skip
    with pytest.raises(UsageError, match=says) as error:
        opening(name, **options)
    assert details is None or any(line.startswith(details) for line in error.value.details)


def test_one_of_several_signatures(opening: Opening) -> None:
    opened = opening("several", signature="g")
    assert opened.inputs == ["x: float32[batch, x_dim1, 2]"]
    assert opened.outputs == [f"output_{index}" for index in range(12)]
    opened.same("several")


def test_keras_export_with_a_loop(opening: Opening) -> None:
    opened = opening("keras_export")
    assert opened.inputs == ["sound: float32[batch, 6, 5]"]
    assert opened.outputs == ["output_0", "output_1"]
    opened.same("keras_export")
    opened = opening("unused")  # an input that nothing takes stays
    assert [line.partition(":")[0] for line in opened.inputs] == ["x", "y"]
    opened.same("unused")


def test_a_keras_model_saved_by_tensorflow(opening: Opening, made: Path, tmp_path: Path) -> None:
    """Its graph's variables aren't those that the file's own restoring assigns."""
    for name in ("scores", "features"):
        opened = opening("keras_saved", signature=name)
        feeds, expected = opened.recorded("keras_saved")
        close(opened.run(feeds), {name: expected[name]})
    assert opened.model.source["parameters"] == 3 * 4 + 4 + 4 * 4
    said = modelyard(
        *("convert", made / "keras_saved", "--signature", "scores", "--no-bench"),
        *("--samples", "random:2", "--out", tmp_path / "out"),
        code=0,
    )
    assert "lacks" not in said.err + said.out
    session = OrtSession(tmp_path / "out" / "onnx" / "fp32" / "model.onnx")
    close(session.run(feeds), {"scores": expected["scores"]})


def test_a_fixed_batch_becomes_free_where_asked(opening: Opening) -> None:
    assert opening("fixed").inputs == ["image: float32[1, 4, 4, 3]"]
    opened = opening("fixed", batch="dynamic")
    assert opened.inputs == ["image: float32[batch, 4, 4, 3]"]
    feeds, outputs = (
        {name: np.repeat(array, 2, 0) for name, array in side.items()}
        for side in opened.recorded("fixed")
    )
    close(opened.run(feeds), outputs)
    assert opening("two", batch="4").inputs[0] == "zebra: float32[4, 2]"


@pytest.mark.parametrize("name", ["v1", "tagged"])
def test_a_savedmodel_of_tensorflow_1(name: str, opening: Opening) -> None:
    opened = opening(name)
    assert opened.outputs == ["scores"]
    assert opened.model.inputs[0].layout == "NHWC"
    assert sorted(opened.inputs) == ["image: float32[batch, 8, 8, 3]", "training: bool[]"]
    opened.same("v1")


def test_a_frozen_graph_and_its_tensors_by_name(opening: Opening) -> None:
    opened = opening("frozen.pb", **SWITCHED)
    assert opened.inputs == ["image: float32[batch, 8, 8, 3]"]
    assert opened.outputs == ["probabilities"]
    opened.same("frozen")
    inputs = ["image:0:batchx8x8x3", "rate:"]
    opened = opening("frozen.pb", inputs=inputs, outputs=["probabilities:0"], **SWITCHED)
    assert opened.inputs == ["image: float32[batch, 8, 8, 3]", "rate: float32[]"]
    opened.same("frozen", {"rate": np.array(0, np.float32)})
    inner = {"inputs": ["conv/relu:batchx8x8x4"], "outputs": ["probabilities"]}
    opened = opening("frozen.pb", **inner, **SWITCHED)
    assert opened.inputs == ["conv/relu: float32[batch, 8, 8, 4]"]


def test_graphs_that_say_too_little(opening: Opening) -> None:
    """Of shapes, or of which of their ends are meant."""
    out = opening("rankless.pb", inputs=["a:batchx3"]).run({"a": np.ones((2, 3), np.float32)})
    assert out["twice"].tolist() == [[2.0] * 3] * 2
    opened = opening("ends.pb")
    assert opened.outputs == ["halves", "halves_1", "up"]
    assert any("--output" in line for line in opened.source.warnings)
    out = opening("ends.pb", outputs=["halves:1"]).run({"a": np.arange(4, dtype=np.float32)[None]})
    assert out["halves_1"].tolist() == [[2.0, 3.0]]


def test_a_checkpoint_with_its_graph_or_another(opening: Opening, made: Path,
                                                tmp_path: Path) -> None:  # fmt: skip
    options = {"outputs": ["probabilities"], **SWITCHED}
    for source in (CHECKPOINT, "ckpt"):
        opened = opening(source, **options)
        opened.same("frozen")
    assert opened.model.source["parameters"] == 3 * 3 * 3 * 4 + 4 * 5
    alone = tmp_path / "alone.meta"
    alone.write_bytes((made / CHECKPOINT).read_bytes())
    with pytest.raises(UsageError, match="weights aren't there"):
        opening(alone, **options)
    opening(alone, weights=str(made / "ckpt" / "net.ckpt"), **options).same("frozen")
    with pytest.raises(UsageError, match="no values") as error:
        opening(alone, weights=str(made / "evil_ckpt" / "net.ckpt"), **options)
    assert len(error.value.details) == 3
    (tmp_path / "checkpoint").write_text('model_checkpoint_path: "net.ckpt"\n')
    alone.unlink()
    with pytest.raises(UsageError, match="without its graph"):
        opening(tmp_path)


@pytest.mark.parametrize(("name", "says"), [
    ("words", ("an input of text", "LookupTableFindV2", "lookup tables", "StringLower")),
    ("counter", ("AssignAddVariableOp",)),
])  # fmt: skip
def test_what_onnx_lacks_is_refused_whole(opening: Opening, name: str,
                                          says: tuple[str, ...]) -> None:  # fmt: skip
    with pytest.raises(UnsupportedError) as error:
        opening(name)
    assert error.value.exit_code == 3
    assert all(part in "\n".join(error.value.details) for part in says)


def test_a_type_that_the_exporter_gets_wrong_is_told_as_its(made: Path, tmp_path: Path) -> None:
    """tf2onnx 1.17 calls what ONNX's ArgMax gives uint16, which is int64."""
    line = ("convert", made / "largest", "--samples", "random:2", "--no-bench", "--out", "out")
    said = command(*line, cwd=tmp_path, code=3).err
    assert "the exporter tf2onnx " in said and " (tensorflow " in said
    assert "wrote a wrong graph" in said and "The exporter made the mistake" in said
    assert re.search(r"- ArgMax \(.*ArgMax\): ONNX Runtime refuses .*tensor\(uint16\)", said), said


def test_a_damaged_folder(opening: Opening, made: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(made / "two", tmp_path / "two"))
    (data,) = (folder / "variables").glob("*.data-*")
    data.write_bytes(data.read_bytes()[:4])
    with pytest.raises(UsageError, match="can't be read"):
        opening(folder)
    shutil.rmtree(folder / "variables")
    model = folder / "saved_model.pb"
    whole = model.read_bytes()
    model.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UsageError, match="can't be read"):
        opening(folder)
    model.write_bytes(whole)
    with pytest.raises((UsageError, ModelError), match="no values"):
        opening(folder)


def test_latency_counts_every_run(opening: Opening) -> None:
    opened = opening("two")
    session = opened.source.reference()
    timing = session.time(opened.recorded("two")[0], 6, 2)
    assert len(timing.ns) == 12
    assert 0 < max(timing.ns) <= timing.total_ns
    assert session.runtime["threads"] >= 1


def test_latency_is_measured_with_the_threads_asked_for(made: Path, tmp_path: Path) -> None:
    done = api.convert(str(made / "two"), out=str(tmp_path / "out"), bench_seconds=0.2, threads=1)
    points = done.as_dict()["report"]["artifacts"][0]["latency"]
    (source,) = [point for point in points if point["role"] == "source"]
    assert source["name"].startswith("tensorflow 2") and source["threads"] == 1
