"""SavedModels, frozen graphs and checkpoints: names, order, shapes and results."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from converter.errors import ModelError, UnsupportedError, UsageError

from .conftest import Arrays, Opened, Opening

pytestmark = pytest.mark.slow

Recorded = Callable[[str], tuple[Arrays, Arrays]]
SWITCHED = {"args": ["is_training=false"]}


def same(opened: Opened, feeds: Arrays, expected: Arrays) -> None:
    outputs = opened.run(feeds)
    assert set(outputs) == set(expected)
    for name, array in expected.items():
        np.testing.assert_allclose(outputs[name], array, rtol=1e-5, atol=1e-5)


def test_a_signature_has_its_function_s_order(
    opening: Opening, made: Path, recorded: Recorded
) -> None:
    opened = opening(made / "two")
    assert opened.inputs == ["zebra: float32[batch, 2]", "apple: float32[batch, 2]"]
    assert opened.outputs == ["aa", "zz"]
    assert opened.model.source["signature"] == "serving_default"
    assert opened.model.source["parameters"] == 4
    same(opened, *recorded("two"))


def test_inputs_are_renamed_by_position_and_outputs_chosen(
    opening: Opening, made: Path, recorded: Recorded
) -> None:
    opened = opening(made / "two", inputs=["p:3x2", "q:float32:n,2"], outputs=["zz"])
    assert opened.inputs == ["p: float32[3, 2]", "q: float32[batch, 2]"]
    feeds, outputs = recorded("two")
    same(opened, {"p": feeds["zebra"], "q": feeds["apple"]}, {"zz": outputs["zz"]})
    by_name = opening(made / "two", inputs=["apple:batchx2", "zebra:batchx2"], outputs=["u", "v"])
    assert by_name.inputs[0] == "zebra: float32[batch, 2]"
    assert by_name.outputs == ["u", "v"]
    with pytest.raises(UsageError, match="zebra: float32"):
        opening(made / "two", inputs=["p:3x2"])
    with pytest.raises(UsageError, match="takes float32, not int64"):
        opening(made / "two", inputs=["zebra:int64:3x2", "apple:3x2"])
    with pytest.raises(UsageError, match="2 outputs: aa, zz"):
        opening(made / "two", outputs=["one"])


def test_several_signatures_are_listed(opening: Opening, made: Path, recorded: Recorded) -> None:
    with pytest.raises(UsageError, match="--signature") as error:
        opening(made / "several")
    assert error.value.details[0].startswith("f(apple: float32[?, 2], zebra: float32[?, 2]) -> aa")
    assert error.value.details[1].startswith("g(x: float32[?, ?, 2]) -> ")
    with pytest.raises(UsageError, match="no signature h"):
        opening(made / "several", signature="h")
    opened = opening(made / "several", signature="g")
    assert opened.inputs == ["x: float32[batch, x_dim1, 2]"]
    assert opened.outputs == [f"output_{index}" for index in range(12)]
    same(opened, *recorded("several"))


def test_without_a_signature_what_is_there_is_listed(opening: Opening, made: Path) -> None:
    with pytest.raises(UsageError, match="no signature") as error:
        opening(made / "unsigned")
    shapes = ("float32[2]", "float32[2, 2]")
    said = tuple(f"it can be called: __call__(x: {shape})" for shape in shapes)
    assert error.value.details == said


def test_keras_export_with_a_loop(opening: Opening, made: Path, recorded: Recorded) -> None:
    opened = opening(made / "keras_export")
    assert opened.inputs == ["sound: float32[batch, 6, 5]"]
    assert opened.outputs == ["output_0", "output_1"]
    same(opened, *recorded("keras_export"))
    opened = opening(made / "unused")  # an input that nothing takes stays
    assert [line.partition(":")[0] for line in opened.inputs] == ["x", "y"]
    same(opened, *recorded("unused"))


def test_a_fixed_batch_becomes_free_where_asked(
    opening: Opening, made: Path, recorded: Recorded
) -> None:
    assert opening(made / "fixed").inputs == ["image: float32[1, 4, 4, 3]"]
    opened = opening(made / "fixed", batch="dynamic")
    assert opened.inputs == ["image: float32[batch, 4, 4, 3]"]
    feeds, outputs = recorded("fixed")
    name = next(iter(outputs))
    twice = {"image": np.concatenate([feeds["image"], feeds["image"]])}
    same(opened, twice, {name: np.concatenate([outputs[name], outputs[name]])})
    assert opening(made / "two", batch="4").inputs[0] == "zebra: float32[4, 2]"


@pytest.mark.parametrize("name", ["v1", "tagged"])
def test_a_savedmodel_of_tensorflow_1(
    name: str, opening: Opening, made: Path, recorded: Recorded
) -> None:
    opened = opening(made / name)
    assert opened.outputs == ["scores"]
    assert opened.model.inputs[0].layout == "NHWC"
    assert sorted(opened.inputs) == ["image: float32[batch, 8, 8, 3]", "training: bool[]"]
    same(opened, *recorded("v1"))


def test_a_frozen_graph(opening: Opening, made: Path, recorded: Recorded) -> None:
    with pytest.raises(UsageError) as error:
        opening(made / "frozen.pb")
    assert "is_training: a switch: --arg is_training=false" in error.value.details
    opened = opening(made / "frozen.pb", **SWITCHED)
    assert opened.inputs == ["image: float32[batch, 8, 8, 3]"]
    assert opened.outputs == ["probabilities"]
    same(opened, *recorded("frozen"))


def test_a_frozen_graph_s_tensors_by_name(opening: Opening, made: Path, recorded: Recorded) -> None:
    inputs = ["image:0:batchx8x8x3", "rate:"]
    opened = opening(made / "frozen.pb", inputs=inputs, outputs=["probabilities:0"], **SWITCHED)
    assert opened.inputs == ["image: float32[batch, 8, 8, 3]", "rate: float32[]"]
    assert opened.outputs == ["probabilities"]
    feeds, outputs = recorded("frozen")
    same(opened, {**feeds, "rate": np.array(0, np.float32)}, outputs)
    inner = opening(
        made / "frozen.pb", inputs=["conv/relu:batchx8x8x4"], outputs=["probabilities"], **SWITCHED
    )
    assert inner.inputs == ["conv/relu: float32[batch, 8, 8, 4]"]
    with pytest.raises(UsageError, match="no prob") as error:
        opening(made / "frozen.pb", outputs=["prob"], **SWITCHED)
    assert "probabilities" in error.value.details
    with pytest.raises(UsageError, match="more inputs") as error:
        opening(made / "frozen.pb", inputs=["rate:"])
    assert len(error.value.details) == 2


def test_a_graph_that_says_too_little(opening: Opening, made: Path) -> None:
    with pytest.raises(UsageError, match="doesn't say enough") as error:
        opening(made / "rankless.pb")
    assert error.value.details == ("a: float32 of unknown rank: --input a:float32:DIMxDIM",)
    opened = opening(made / "rankless.pb", inputs=["a:batchx3"])
    out = opened.run({"a": np.ones((2, 3), np.float32)})
    assert out["twice"].tolist() == [[2.0] * 3] * 2


def test_several_ends_of_a_frozen_graph(opening: Opening, made: Path) -> None:
    opened = opening(made / "ends.pb")
    assert opened.outputs == ["halves", "halves_1", "up"]
    assert any("--output" in line for line in opened.source.warnings)
    opened = opening(made / "ends.pb", outputs=["halves:1"])
    out = opened.run({"a": np.arange(4, dtype=np.float32)[None]})
    assert out["halves_1"].tolist() == [[2.0, 3.0]]


def test_a_checkpoint_with_its_graph(opening: Opening, made: Path, recorded: Recorded) -> None:
    with pytest.raises(UsageError, match="outputs") as error:
        opening(made / "ckpt" / "net.ckpt.meta", **SWITCHED)
    assert "--output loss" in error.value.details
    options = {"outputs": ["probabilities"], **SWITCHED}
    for source in ("ckpt/net.ckpt.meta", "ckpt"):
        opened = opening(made / source, **options)
        same(opened, *recorded("frozen"))
    assert opened.model.source["parameters"] == 3 * 3 * 3 * 4 + 4 * 5


def test_another_checkpoint_for_a_graph(
    opening: Opening, made: Path, tmp_path: Path, recorded: Recorded
) -> None:
    alone = tmp_path / "alone.meta"
    alone.write_bytes((made / "ckpt" / "net.ckpt.meta").read_bytes())
    options = {"outputs": ["probabilities"], **SWITCHED}
    with pytest.raises(UsageError, match="weights aren't there"):
        opening(alone, **options)
    opened = opening(alone, weights=str(made / "ckpt" / "net.ckpt"), **options)
    same(opened, *recorded("frozen"))
    with pytest.raises(UsageError, match="no values") as error:
        opening(alone, weights=str(made / "evil_ckpt" / "net.ckpt"), **options)
    assert len(error.value.details) == 3


def test_weights_alone_are_no_model(opening: Opening, made: Path, tmp_path: Path) -> None:
    index = made / "ckpt" / "net.ckpt.index"
    (tmp_path / "checkpoint").write_text('model_checkpoint_path: "net.ckpt"\n')
    for source in (index, tmp_path):
        with pytest.raises(UsageError, match="without its graph"):
            opening(source)


def test_options_that_mean_nothing_are_refused(opening: Opening, made: Path) -> None:
    with pytest.raises(UsageError, match="--arg means nothing"):
        opening(made / "two", args=["a=1"])
    with pytest.raises(UsageError, match="--signature means nothing"):
        opening(made / "ends.pb", signature="f")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("words", ("an input of text", "LookupTableFindV2", "lookup tables", "StringLower")),
        ("counter", ("AssignAddVariableOp",)),
    ],
)
def test_what_onnx_lacks_is_refused_whole(
    opening: Opening, made: Path, name: str, says: tuple[str, ...]
) -> None:
    with pytest.raises(UnsupportedError) as error:
        opening(made / name)
    assert error.value.exit_code == 3
    assert all(part in "\n".join(error.value.details) for part in says)


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


def test_latency_counts_every_run(opening: Opening, made: Path, recorded: Recorded) -> None:
    feeds, _ = recorded("two")
    session = opening(made / "two").source.reference()
    timing = session.time(feeds, 6, 2)
    assert len(timing.ns) == 12
    assert 0 < max(timing.ns) <= timing.total_ns
    assert session.runtime["threads"] >= 1
