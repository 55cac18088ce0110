"""TensorRT in a Triton folder: what the configurations say, and what is refused."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from converter.errors import UnsupportedError, UsageError
from converter.ir.model import Model
from converter.options.request import Request
from converter.protocols.server import Evidence, Packaged
from emitters.serving.triton import releases as triton_releases
from emitters.serving.triton.config import read_config
from emitters.serving.triton.profiles import batch_range, preferred_batches, require_batches
from emitters.serving.triton.server import TritonServer, validate_folder
from emitters.tensorrt.emitter import TensorrtRtxEmitter
from emitters.tensorrt.engine_script.lock import find_model, read_lock
from emitters.tensorrt.engine_script.switching import switch
from tests.serving.engines import (
    VERSION,
    batches,
    built_artifact,
    deferred_artifact,
    pack,
    package_artifact,
    reference_of,
    stand_in_plan,
)
from tests.serving.models import adder, classifier, identity, make_request, samples_for, text_model

TWO = batches((1, 1, 4), (4, 8, 16))


def config_of(packaged: Packaged, file: str = "config.pbtxt") -> Any:
    """A configuration of a folder."""
    return read_config(packaged.path / file)


def parameters_of(packaged: Packaged) -> dict[str, str]:
    """The parameters of the one accelerator of a folder whose engine is still to be built."""
    config = config_of(packaged)
    assert (config.backend, config.platform) == ("onnxruntime", "")
    (item,) = config.optimization.execution_accelerators.gpu_execution_accelerator
    assert item.name == "tensorrt"
    return dict(item.parameters)


# -- the folder that is served as it is --------------------------------------------------


@pytest.mark.parametrize("precision", ["fp32", "fp16", "bf16", "int8"])
def test_the_accelerator_has_the_graphs_precision(tmp_path: Path, precision: str) -> None:
    assert parameters_of(pack(tmp_path, adder(), precision))["precision_mode"] == precision.upper()


def test_profiles_and_options_reach_the_accelerator(tmp_path: Path) -> None:
    options: dict[str, Any] = {"workspace": 64, "optimization_level": 5, "sparsity": True}
    assert parameters_of(pack(tmp_path, shapes=TWO, **options)) == {
        "precision_mode": "FP32", "trt_profile_min_shapes": "x:1x3,x:4x3",
        "trt_profile_opt_shapes": "x:1x3,x:8x3", "trt_profile_max_shapes": "x:4x3,x:16x3",
        "max_workspace_size_bytes": str(64 << 20), "trt_builder_optimization_level": "5",
        "trt_sparsity_enable": "1",
    }  # fmt: skip


def test_a_graph_that_may_be_split_gets_no_profiles(tmp_path: Path) -> None:
    model = text_model("""g (float[batch, 3] x) => (float[2, found] y) {
        where = NonZero(x) y = Cast<to = 1>(where) }""")
    packaged = package_artifact(deferred_artifact(model, tmp_path, max_batch=1), model, tmp_path)
    assert parameters_of(packaged) == {"precision_mode": "FP32"}
    assert any("NonZero may split the graph" in line for line in packaged.decisions)


@pytest.mark.parametrize(("asked", "kind"), [(None, 0), ("auto", 0), ("gpu", 1)])
def test_where_instances_run(tmp_path: Path, asked: str | None, kind: int) -> None:
    packaged = pack(tmp_path, instance_kind=asked, instances=3)
    for file, wanted in (("config.pbtxt", (kind, 3, [])),
                         ("1/config.engine.pbtxt", (1, 3, ["0"]))):  # fmt: skip
        (group,) = config_of(packaged, file).instance_group
        assert (group.kind, group.count, list(group.profile)) == wanted


def test_groups_of_instances_are_on_gpus_and_have_every_profile(tmp_path: Path) -> None:
    groups = ["kind: KIND_GPU gpus: 0", "kind: KIND_GPU gpus: [1, 2] count: 2"]
    packaged = pack(tmp_path, shapes=TWO, instance_groups=groups)
    for file, profiles in (("config.pbtxt", []), ("1/config.engine.pbtxt", ["0", "1"])):
        found = config_of(packaged, file).instance_group
        assert [(list(group.gpus), group.count) for group in found] == [([0], 1), ([1, 2], 2)]
        assert [list(group.profile) for group in found] == [profiles, profiles]
    with pytest.raises(UsageError, match="TensorRT only runs on GPUs"):
        pack(tmp_path / "cpu", instance_groups=[*groups, "kind: KIND_CPU"])


def test_what_decides_shapes_is_a_shape_tensor_of_the_engine(tmp_path: Path) -> None:
    model = text_model("g (float[1] x, int64[1] s) => (float[n] y) { y = Expand(x, s) }")
    packaged = pack(tmp_path, model, values={"s": ([1], [3], [5])})
    for file, names in (("config.pbtxt", set()), ("1/config.engine.pbtxt", {"s"})):
        config = config_of(packaged, file)
        assert {item.name for item in config.input if item.is_shape_tensor} == names
        assert config.max_batch_size == 0


def test_the_folder_and_its_engines_configuration_agree(tmp_path: Path) -> None:
    packaged = pack(tmp_path, shapes=TWO, threads=2, optimization="basic")
    assert validate_folder(packaged.path) == []
    now = config_of(packaged)
    later = config_of(packaged, "1/config.engine.pbtxt")
    assert (later.backend, later.platform) == ("tensorrt", "tensorrt_plan")
    assert list(later.instance_group[0].profile) == ["0", "1"]
    assert not later.HasField("optimization")
    assert not later.parameters
    assert "intra_op_thread_count" in now.parameters
    assert now.optimization.graph.level == -1
    assert (later.max_batch_size, now.max_batch_size) == (16, 16)
    assert list(later.input) == list(now.input)
    assert list(later.output) == list(now.output)


def test_nothing_says_that_an_engine_exists(tmp_path: Path) -> None:
    packaged = pack(tmp_path)
    assert not list(packaged.path.rglob("*.plan"))
    assert any(line.startswith("no engine yet") for line in packaged.decisions)
    readme = (packaged.path / "README.md").read_text()
    assert "No engine was built" in readme
    assert "1/build_engine.py" in readme


def test_the_lock_holds_no_path_and_is_the_same_every_time(tmp_path: Path) -> None:
    files = (pack(tmp_path / place).path / "1" / "engine.lock.json" for place in ("a", "b"))
    (text,) = {file.read_text() for file in files}
    assert str(tmp_path) not in text
    lock = json.loads(text)
    assert lock["samples"]["reference"].startswith("onnxruntime")
    assert len(lock["samples"]["items"]) == len(samples_for(adder()))
    assert lock["gates"]["cosine"] == 0.9999


def test_without_a_check_there_is_nothing_to_compare_with(tmp_path: Path) -> None:
    packaged = pack(tmp_path, checked=False)
    assert json.loads((packaged.path / "1" / "engine.lock.json").read_text())["samples"] is None
    assert not (packaged.path / "1" / "samples").exists()
    assert "--unverified" in (packaged.path / "README.md").read_text()


def test_weights_in_a_file_of_their_own_go_along(tmp_path: Path) -> None:
    packaged = pack(tmp_path, classifier(), external_data=True)
    version = packaged.path / "1"
    assert (version / "model.onnx.data").is_file()
    assert validate_folder(packaged.path) == []
    lock = read_lock(version)
    assert [item["file"] for item in lock["model"]["weights"]] == ["model.onnx.data"]
    switch(version, stand_in_plan(tmp_path / "stand-in").read_bytes(), lock)
    moved = packaged.path / "onnx" / "1"
    assert sorted(item.name for item in moved.iterdir()) == ["model.onnx", "model.onnx.data"]
    assert find_model(version, lock) == moved / "model.onnx"


def test_samples_are_of_the_types_that_are_served(tmp_path: Path) -> None:
    """As with ``--io-dtype float16``: the samples and the source's outputs are float32."""
    model, source = identity("float16"), identity("float")
    samples = samples_for(source)
    evidence = Evidence(reference=reference_of(source, samples, tmp_path / "reference"))
    artifact = deferred_artifact(model, tmp_path, "fp16")
    packaged = TritonServer().package(
        artifact, model, samples, make_request(), tmp_path / "repository", evidence
    )
    version = packaged.path / "1"
    (first, *_) = read_lock(version)["samples"]["items"]
    assert (first["feeds"]["x"]["dtype"], first["expected"]["y"]["dtype"]) == ("float16", "float16")
    fed = (version / first["feeds"]["x"]["file"]).read_bytes()
    assert fed == next(iter(samples)).feeds["x"].astype(np.float16).tobytes()
    assert validate_folder(packaged.path) == []


# -- the folder of an engine -------------------------------------------------------------


def test_an_engines_folder(tmp_path: Path) -> None:
    packaged = pack(tmp_path, built=True, shapes=TWO, instances=2)
    assert validate_folder(packaged.path) == []
    assert sorted(item.name for item in (packaged.path / "1").iterdir()) == ["model.plan"]
    config = config_of(packaged)
    assert (config.backend, config.platform) == ("tensorrt", "tensorrt_plan")
    (group,) = config.instance_group
    assert (group.kind, group.count, list(group.profile)) == (1, 2, ["0", "1"])
    assert config.max_batch_size == 16
    assert list(config.dynamic_batching.preferred_batch_size) == [8]
    assert "profile 1 takes x 4x3 to 16x3, best 8x3" in packaged.decisions
    assert [(item.name, item.batch_size) for item in config.model_warmup] == [
        ("profile0_batch1_sample1", 1), ("profile0_batch4_sample1", 4),
        ("profile1_batch8_sample1", 8), ("profile1_batch16_sample1", 16),
    ]  # fmt: skip


def test_a_profile_without_a_sample_is_warmed_up_with_made_up_values(tmp_path: Path) -> None:
    model = adder(("batch", "width"))
    shapes = ["x:1x2,2x5,4x6", "x:1x7,2x8,4x9"]  # the samples' width is 5
    packaged = pack(tmp_path, model, built=True, shapes=shapes)
    entries = config_of(packaged).model_warmup
    made_up = [entry for entry in entries if entry.name.endswith("made_up")]
    found = {e.batch_size: list(e.inputs["x"].dims) for e in made_up}
    assert found == {1: [8], 2: [8], 4: [8]} and len(made_up) == 3
    assert all(entry.inputs["x"].random_data for entry in made_up)
    assert any("profile 1 with made-up values" in line for line in packaged.decisions)


def test_the_release_that_loads_it_is_said(tmp_path: Path) -> None:
    packaged = pack(tmp_path, built=True)
    assert any(f"Triton 24.12 has TensorRT {VERSION}" in line for line in packaged.decisions)
    assert "nvcr.io/nvidia/tritonserver:RELEASE-py3" in (packaged.path / "README.md").read_text()


def test_a_version_in_no_release_is_said() -> None:
    text = triton_releases.describe("10.7.0.99")
    assert "No release in our table has TensorRT 10.7.0.99" in text
    assert "24.12 has 10.7.0.23" in text
    assert triton_releases.MATRIX in text


def test_batches_that_no_profile_takes_are_refused(tmp_path: Path) -> None:
    model = adder()
    artifact = built_artifact(model, tmp_path, shapes=TWO)
    with pytest.raises(UsageError, match="profiles end at a batch of 16"):
        package_artifact(artifact, model, tmp_path, max_batch=32)
    artifact = built_artifact(model, tmp_path, shapes=batches((1, 2, 2), (6, 8, 16)))
    with pytest.raises(UsageError, match="1 to 16") as caught:
        package_artifact(artifact, model, tmp_path)
    assert caught.value.details == ("no profile takes a batch of 3..5",)
    assert package_artifact(artifact, model, tmp_path, max_batch=2).details["max_batch"] == 2


def test_batches_of_several_inputs() -> None:
    profile = {"a": ((2, 3), (4, 3), (8, 3)), "b": ((1,), (4,), (6,))}
    assert batch_range(profile) == (2, 4, 6)
    assert batch_range({"x": ((), (), ())}) == (1, 1, 1)
    assert preferred_batches([profile], 6) == [4]
    require_batches([profile, {"a": ((1, 3), (1, 3), (1, 3))}], 6)
    with pytest.raises(UsageError):
        require_batches([profile], 6)


# -- refusals ----------------------------------------------------------------------------


def test_a_plan_of_rtx_is_refused(tmp_path: Path) -> None:
    model = adder()
    request = make_request(to=["tensorrt-rtx"], compute_capabilities=["8.6"])
    artifact = TensorrtRtxEmitter().emit(model, tmp_path / "rtx", "fp32", request)
    with pytest.raises(UsageError, match="TensorRT-RTX") as caught:
        package_artifact(artifact, model, tmp_path, checked=False)
    assert "--to tensorrt" in caught.value.hint
    # And one that somebody put there by hand is found.
    made = pack(tmp_path, built=True, checked=False)
    (made.path / "1" / "model.plan").unlink()
    (made.path / "1" / "model.plan").write_bytes(artifact.path.read_bytes())
    assert validate_folder(made.path) == [
        "version 1: model.plan is of tensorrt-rtx, which Triton can't load"
    ]


@pytest.mark.parametrize(("fields", "message"), [
    ({"instance_kind": "cpu"}, "TensorRT only runs on GPUs"),
    ({"strip_weights": True}, "can't add the weights"),
])  # fmt: skip
def test_options_that_contradict_an_engine(fields: dict[str, Any], message: str) -> None:
    request = make_request(to=["tensorrt"], serve=["triton"], **fields)
    with pytest.raises(UsageError, match=message):
        TritonServer().check(adder(), request)


@pytest.mark.parametrize(
    ("model", "name"),
    [(identity("double"), "float64"), (identity("float", ()), "dimensions")],
)
def test_interfaces_that_the_backend_lacks(model: Model, name: str) -> None:
    request = Request(source="tiny.onnx", to=["tensorrt"], serve=["triton"])
    with pytest.raises(UnsupportedError) as caught:
        TritonServer().check(model, request)
    assert {item.node for item in caught.value.items} == {"x", "y"}
    assert all(name in item.reason for item in caught.value.items)


@pytest.mark.parametrize(
    ("head", "message"), [(b"ONNX", "isn't an engine of TensorRT"), (b"vtrt", "damaged")]
)
def test_what_is_no_plan_is_found(tmp_path: Path, head: bytes, message: str) -> None:
    made = pack(tmp_path, built=True)
    (made.path / "1" / "model.plan").unlink()
    stand_in_plan(made.path / "1", head)
    (problem,) = validate_folder(made.path)
    assert message in problem


def test_a_changed_file_of_the_lock_is_found(tmp_path: Path) -> None:
    made = pack(tmp_path)
    (made.path / "1" / "samples" / "0-out0.bin").write_bytes(b"changed")
    assert validate_folder(made.path) == [
        "version 1: samples/0-out0.bin is not as engine.lock.json says"
    ]


# -- repositories ------------------------------------------------------------------------


def test_an_engine_and_an_onnx_file_are_no_versions_of_one_model(tmp_path: Path) -> None:
    TritonServer().publish(pack(tmp_path), tmp_path / "served")
    plan = pack(tmp_path / "second", built=True)
    with pytest.raises(UsageError) as caught:
        TritonServer().publish(plan, tmp_path / "served")
    assert caught.value.details == ("backend: onnxruntime there, tensorrt here",)


def test_the_next_version_brings_what_its_engine_is_built_from(tmp_path: Path) -> None:
    made = pack(tmp_path)
    TritonServer().publish(made, tmp_path / "served")
    path = TritonServer().publish(made, tmp_path / "served")
    assert path.name == "2"
    assert (path / "build_engine.py").is_file()
    assert (path / "engine.lock.json").is_file()
    assert validate_folder(path.parent) == []
