"""``--io-dtype``: artifacts whose inputs and outputs are of their own precision."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tritonclient.grpc import model_config_pb2

from converter import api
from converter.errors import GateError, UsageError
from converter.ir.model import Model
from converter.report.model import ArtifactReport
from emitters.serving.triton.config import read_config
from tests.acceptance.cli import command, images, small_cnn


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("io")
    small_cnn(made / "model.onnx")
    images(made / "samples.npz", 8)
    return made


def report_of(folder: Path, out: Path, dtype: str, **options: Any) -> ArtifactReport:
    """The report of the one artifact made of the folder's model, of that type outside and in."""
    options = {"samples": str(folder / "samples.npz"), "io_dtype": dtype, **options}
    options["precision"] = [{"float16": "fp16", "bfloat16": "bf16"}[dtype]]
    made = api.convert(str(folder / "model.onnx"), out=str(out), bench=False, **options)
    assert made.report is not None
    (artifact,) = made.report.artifacts
    return artifact


@pytest.fixture(scope="module")
def converted(folder: Path) -> Iterator[api.Converted]:
    yield api.convert(
        str(folder / "model.onnx"), precision=["fp32", "fp16"], io_dtype="float16",
        samples=str(folder / "samples.npz"), serve=["triton"], out=str(folder / "out"),
        bench_seconds=0.2, bench_batches=[1, 4],
    )  # fmt: skip


def test_inputs_and_outputs_are_float16_on_request(converted: api.Converted) -> None:
    model = Model.load(converted.out / "onnx/fp16/model.onnx")
    assert [spec.describe() for spec in model.inputs] == ["float16[batch, 3, 16, 16]"]
    assert [spec.describe() for spec in model.outputs] == ["float16[batch, 10]"]
    assert not any(node.op_type == "Cast" for node in model.nodes())
    plain = Model.load(converted.out / "onnx/fp32/model.onnx")
    assert plain.inputs[0].dtype == plain.outputs[0].dtype == "float32"


def test_it_is_checked_and_measured_like_any_other(converted: api.Converted) -> None:
    assert converted.report is not None
    plain, half = converted.report.artifacts
    for artifact in (plain, half):
        assert {gate.status for gate in artifact.gates} == {"passed"}
        assert {point.batch for point in artifact.latency} == {1, 4}
    assert half.accuracy is not None
    (output,) = half.accuracy.outputs
    assert (output.reference_type, output.candidate_type) == ("float32", "float16")
    types = [item.type for item in (*half.inputs, *half.outputs)]
    assert types == ["float16[batch, 3, 16, 16]", "float16[batch, 10]"]
    assert "float16 instead of float32, as asked for: image, scores" in half.decisions
    manifest = json.loads((converted.out / "manifest.json").read_text())
    assert manifest["artifacts"][1]["outputs"][0]["type"] == "float16[batch, 10]"
    assert manifest["request"]["io_dtype"] == "float16"


def test_the_server_is_told(converted: api.Converted) -> None:
    folder = converted.out / "serving/triton/model_fp16"
    config = read_config(folder / "config.pbtxt")
    half = model_config_pb2.DataType.Value("TYPE_FP16")
    assert config.input[0].data_type == config.output[0].data_type == half
    assert config.max_batch_size == 8
    warmup = folder / "warmup" / config.model_warmup[0].inputs["image"].input_data_file
    values = np.frombuffer(warmup.read_bytes(), np.float16).reshape(3, 16, 16)
    sample = np.load(converted.out.parent / "samples.npz")["image"][0]
    assert np.array_equal(values, sample.astype(np.float16))


def test_such_an_artifact_is_checked_again(converted: api.Converted, folder: Path) -> None:
    artifact = str(converted.out / "onnx/fp16/model.onnx")
    source, samples = str(folder / "model.onnx"), str(folder / "samples.npz")
    options = {"precision": ["fp16"], "samples": samples}
    checked = api.check(artifact, source, io_dtype="float16", **options)
    assert {gate.status for gate in checked.gates} == {"passed"}
    checked = api.check(artifact, source, **options)  # its folder's manifest says it
    assert {gate.status for gate in checked.gates} == {"passed"}
    alone = str(shutil.copy(artifact, folder / "alone.onnx"))
    with pytest.raises(UsageError, match="doesn't fit") as caught:
        api.check(alone, source, **options)
    assert "--io-dtype float16" in caught.value.hint
    with pytest.raises(GateError) as missed:
        api.check(alone, source, precision=["fp16"])
    assert "made with --precision fp16 --io-dtype float16" in str(missed.value.details)
    measured = api.bench(artifact, source, bench_seconds=0.2, bench_batches=[1])
    assert len(measured.latency.ratios) == 1
    found = api.diff(source, artifact, samples=samples)
    assert found.difference.first is None


def test_a_budget_is_kept_with_it(folder: Path, tmp_path: Path) -> None:
    artifact = report_of(folder, tmp_path / "out", "float16", min_cosine=0.99999997)
    assert artifact.outputs[0].type == "float16[batch, 10]"
    assert any("stays float32" in line for line in artifact.decisions)


def test_bfloat16_is_bf16_s(folder: Path, tmp_path: Path) -> None:
    options = {"min_cosine": 0.999, "serve": ["triton"]}
    artifact = report_of(folder, tmp_path / "out", "bfloat16", **options)
    assert artifact.outputs[0].type == "bfloat16[batch, 10]"
    assert all(gate.passed for gate in artifact.gates if gate.name != "lowered")
    assert artifact.verdict == "unlowered"  # no Conv of bfloat16 in that opset
    config = (tmp_path / "out/serving/triton/model/config.pbtxt").read_text()
    assert config.count("data_type: TYPE_BF16") >= 2


@pytest.mark.slow
def test_a_server_is_held_to_it(converted: api.Converted, folder: Path) -> None:
    """As a package says it, or the command line; what is hinted at works."""
    package = converted.out / "serving/triton/model_fp16"
    source = (folder / "model.onnx", "--samples", folder / "samples.npz")
    with api.serve(str(package), port=0) as served:
        for protocol in ("v2", "grpc"):
            url = served.addresses[protocol]
            said = command("check", package, "--server", url, "--json", code=0)
            assert "but for float16 where the source has float32" in said.out
            asked = ("check", *source, "--server", url)
            hint = "--precision fp16 --io-dtype float16"
            assert hint in command(*asked, code=4).err
            assert command(*asked, *hint.split(), "--json", code=0).json["verdict"] == "passed"
            assert "Add fp16 to --precision" in command(*asked, *hint.split()[2:], code=2).err


@pytest.mark.slow
def test_a_server_that_says_no_types(converted: api.Converted, folder: Path) -> None:
    """Plain JSON: what --io-dtype says is taken for it. Integers stand for what a package says."""
    api.convert(str(folder / "model.onnx"), precision=["fp16"], io_dtype="float16", bench=False,
                samples=str(folder / "samples.npz"), serve=["litserve"],
                out=str(folder / "json"))  # fmt: skip
    source = (folder / "model.onnx", "--samples", folder / "samples.npz")
    with api.serve(str(folder / "json"), port=0) as served:
        asked = ("--server", served.addresses["json"])
        command("check", folder / "json", *asked, code=0)
        command("check", *source, *asked, "--precision", "fp16", "--io-dtype", "float16", code=0)
        integers = ("--precision", "int8", "--io-dtype", "int8")
        said = command("check", *source, *asked, *integers, code=2)
        assert (
            "a server doesn't say which real numbers" in said.err and "Name the package" in said.err
        )
