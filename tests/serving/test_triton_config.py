"""What config.pbtxt says for each kind of model and option."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from google.protobuf import text_format
from onnx import TensorProto, helper
from tritonclient.grpc import model_config_pb2 as schema

from converter.errors import UnsupportedError, UsageError
from converter.ir import Model, TensorSpec
from converter.samples import Samples
from emitters.serving.triton_config import (
    ITEM_SIZES,
    TYPES,
    make_ports,
    read_config,
    require_ports,
)
from tests.serving.models import (
    BATCH_3,
    MemorySamples,
    adder,
    classifier,
    make_model,
    package,
)

CLASSES = ("ant", "bee", "cat", "dog")


def config_of(folder: Path, model: Model, samples: Samples | None = None, **fields: Any) -> Any:
    """The configuration of a model packaged under ``folder``."""
    return read_config(package(model, folder, samples, **fields).path / "config.pbtxt")


def test_batched_model(tmp_path: Path) -> None:
    packaged = package(adder(("batch", 3, "width")), tmp_path)
    config = read_config(packaged.path / "config.pbtxt")
    assert (config.name, config.backend, config.platform) == ("tiny", "onnxruntime", "")
    assert config.max_batch_size == 8
    assert [(item.name, list(item.dims)) for item in config.input] == [("x", [3, -1])]
    assert [(item.name, list(item.dims)) for item in config.output] == [("y", [3, -1])]
    assert config.input[0].data_type == schema.TYPE_FP32
    assert packaged.details["max_batch"] == 8


@pytest.mark.parametrize("dtype", sorted(TYPES))
def test_every_type_is_in_the_schema_and_has_a_size(dtype: str) -> None:
    (port,) = make_ports([TensorSpec("x", dtype, ("batch", 2))], batched=True)
    names = set(schema.DataType.keys())
    assert port.type in names
    assert (port.type in ITEM_SIZES) is (dtype != "string")
    assert names == {"TYPE_INVALID", *TYPES.values()}


def test_scalars_and_batches_of_scalars(tmp_path: Path) -> None:
    """Rank 0 is not Triton's: [1], with an empty reshape where, and only where, it batches."""
    batched = config_of(tmp_path, adder(("batch",)), name="batched")
    assert list(batched.input[0].dims) == [1]
    assert batched.input[0].HasField("reshape") and not batched.input[0].reshape.shape
    assert list(batched.model_warmup[0].inputs["x"].dims) == [1]
    scalar = config_of(tmp_path, adder(()), name="scalar")
    assert list(scalar.input[0].dims) == [1] and not scalar.input[0].HasField("reshape")


def test_shapes_are_those_that_onnx_runtime_sees(tmp_path: Path) -> None:
    """The backend compares an output's dims exactly to what its runtime has inferred."""
    tensor = helper.make_tensor("w", TensorProto.FLOAT, [3, 4], [0.0] * 12)
    model = make_model(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        {"x": (TensorProto.FLOAT, BATCH_3)},
        {"y": (TensorProto.FLOAT, ("batch", "unknown"))},
        [tensor],
    )
    assert list(config_of(tmp_path, model).output[0].dims) == [4]


def test_what_triton_cannot_take_is_listed_whole() -> None:
    inputs = [
        TensorSpec("a", "complex64", (1,)),
        TensorSpec("b", "float32", None),
        TensorSpec("c", "float32", (0, 2)),
    ]
    outputs = [
        TensorSpec("d", "int4", None),
        TensorSpec("e", "bool", ()),
        TensorSpec("e", "bool", ()),
    ]
    with pytest.raises(UnsupportedError) as caught:
        require_ports(inputs, outputs)
    assert [(item.node, item.op) for item in caught.value.items] == [
        ("a", "input"),
        ("b", "input"),
        ("c", "input"),
        ("d", "output"),
        ("d", "output"),
        ("e", "output"),
    ]


@pytest.mark.parametrize(
    ("layout", "shape", "expected"),
    [
        ("NCHW", ("batch", 3, 8, 8), "FORMAT_NCHW"),
        ("NHWC", ("batch", 8, 8, 3), "FORMAT_NHWC"),
        ("NCHW", (1, 3, 8, 8), "FORMAT_NONE"),  # four dims, and Triton wants three
        ("NC", ("batch", 3), "FORMAT_NONE"),
        (None, ("batch", 3, 8, 8), "FORMAT_NONE"),
    ],
)
def test_format_where_triton_allows_it(
    tmp_path: Path, layout: str | None, shape: tuple[int | str, ...], expected: str
) -> None:
    model = adder(shape)
    model.describe("x", layout=layout)
    entry = config_of(tmp_path, model).input[0]
    assert schema.ModelInput.Format.Name(entry.format) == expected


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("latest:2", "latest { num_versions: 2 }"),
        ("all", "all { }"),
    ],
)
def test_version_policies(tmp_path: Path, policy: str, expected: str) -> None:
    wanted = text_format.Parse(expected, schema.ModelVersionPolicy())
    assert config_of(tmp_path, adder(), version_policy=policy).version_policy == wanted


@pytest.mark.parametrize(
    "policy", ["newest", "latest", "latest:0", "latest:x", "latest:1,2", "specific:", "all:1", ""]
)
def test_version_policies_that_are_none(tmp_path: Path, policy: str) -> None:
    with pytest.raises(UsageError, match="isn't understood"):
        package(adder(), tmp_path, version_policy=policy)


def test_specific_versions(tmp_path: Path) -> None:
    config = config_of(tmp_path, adder(), version=3, version_policy="specific:3")
    assert list(config.version_policy.specific.versions) == [3]
    with pytest.raises(UsageError, match="leaves out version 1"):
        package(adder(), tmp_path / "other", version_policy="specific:2,3")


@pytest.mark.parametrize(("kind", "number"), [("auto", 0), ("gpu", 1), ("cpu", 2)])
def test_instances(tmp_path: Path, kind: str, number: int) -> None:
    (group,) = config_of(tmp_path, adder(), instances=3, instance_kind=kind).instance_group
    assert (group.count, group.kind) == (3, number)


@pytest.mark.parametrize(
    ("level", "number"), [("none", 2), ("basic", -1), ("extended", 1), ("all", 0)]
)
def test_optimization_levels_are_the_backends(tmp_path: Path, level: str, number: int) -> None:
    config = config_of(tmp_path, adder(), optimization=level)
    assert config.optimization.graph.level == number


def test_dynamic_batching(tmp_path: Path) -> None:
    plain = config_of(tmp_path, adder(), name="plain")
    assert plain.HasField("dynamic_batching")
    assert not plain.dynamic_batching.preferred_batch_size
    assert plain.dynamic_batching.max_queue_delay_microseconds == 100
    at_once = config_of(tmp_path, adder(), name="once", queue_delay=0)
    assert at_once.HasField("dynamic_batching")
    preferred = config_of(tmp_path, adder(), name="preferred", preferred_batch=[4, 2, 4])
    assert list(preferred.dynamic_batching.preferred_batch_size) == [2, 4]
    off = config_of(tmp_path, adder(), name="off", dynamic_batching=False)
    assert not off.HasField("dynamic_batching") and off.max_batch_size == 8
    one = config_of(tmp_path, adder(), name="one", max_batch=1)
    assert not one.HasField("dynamic_batching") and one.max_batch_size == 1


def test_a_preferred_batch_raises_the_default_but_not_what_was_asked(tmp_path: Path) -> None:
    assert config_of(tmp_path, adder(), preferred_batch=[16]).max_batch_size == 16
    with pytest.raises(UsageError, match="--preferred-batch 16"):
        package(adder(), tmp_path / "asked", preferred_batch=[16], max_batch=8)
    with pytest.raises(UsageError, match="--preferred-batch 2"):
        package(adder((3,)), tmp_path / "fixed", preferred_batch=[2])


@pytest.mark.parametrize(
    "fields",
    [{"instances": 0}, {"queue_delay": -1}, {"version": 0}, {"warmup": -1}, {"max_batch": -1}],
)
def test_numbers_out_of_range(tmp_path: Path, fields: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="--"):
        package(adder(), tmp_path, **fields)


def test_parameters_and_cache(tmp_path: Path) -> None:
    parameters = {"enable_mem_arena": "false"}
    packaged = package(adder(), tmp_path, parameters=parameters, threads=2, response_cache=True)
    config = read_config(packaged.path / "config.pbtxt")
    found = {key: value.string_value for key, value in config.parameters.items()}
    assert found == {"enable_mem_arena": "false", "intra_op_thread_count": "2"}
    assert config.response_cache.enable
    assert any("--cache-config" in line for line in packaged.decisions)
    given = {"intra_op_thread_count": "3"}
    config = config_of(tmp_path, adder(), name="given", parameters=given, threads=2)
    assert config.parameters["intra_op_thread_count"].string_value == "3"


def test_labels_of_the_model_and_of_the_samples(tmp_path: Path) -> None:
    model = classifier()
    model.describe("scores", labels=CLASSES)
    packaged = package(model, tmp_path, name="model")
    config = read_config(packaged.path / "config.pbtxt")
    assert config.output[0].label_filename == "labels.txt"
    assert (packaged.path / "labels.txt").read_text() == "ant\nbee\ncat\ndog\n"
    samples = MemorySamples(label_names=CLASSES)
    config = config_of(tmp_path, classifier(), samples, name="samples")
    assert config.output[0].label_filename == "labels.txt"


def test_labels_that_fit_nothing_are_left_out_and_said(tmp_path: Path) -> None:
    packaged = package(classifier(5), tmp_path, MemorySamples(label_names=CLASSES))
    assert not (packaged.path / "labels.txt").exists()
    assert any("no labels: there are 4 names" in line for line in packaged.decisions)
    model = classifier(5)
    model.describe("scores", labels=CLASSES)
    packaged = package(model, tmp_path, name="other")
    assert any("no labels for scores: there are 4" in line for line in packaged.decisions)


def test_labels_go_to_the_scores_of_several_outputs(tmp_path: Path) -> None:
    nodes = [helper.make_node("Add", ["x", "x"], ["a"]), helper.make_node("Neg", ["x"], ["b"])]
    tensor = (TensorProto.FLOAT, ("batch", 4))
    samples = MemorySamples(label_names=CLASSES)
    model = make_model(nodes, {"x": tensor}, {"a": tensor, "b": tensor})
    packaged = package(model, tmp_path, samples, name="unclear")
    assert any("a, b all have as many values" in line for line in packaged.decisions)
    model.describe("b", meaning="scores")
    config = config_of(tmp_path, model, samples, name="clear")
    assert [item.label_filename for item in config.output] == ["", "labels.txt"]


def test_two_outputs_with_labels_of_their_own(tmp_path: Path) -> None:
    nodes = [helper.make_node("Add", ["x", "x"], [name]) for name in "abc"]
    tensor = (TensorProto.FLOAT, ("batch", 2))
    model = make_model(nodes, {"x": tensor}, {"a": tensor, "b": tensor, "c": tensor})
    for name, labels in {
        "a": ("no", "yes"),
        "b": ("cat", "line\nbreak"),
        "c": ("no", "yes"),
    }.items():
        model.describe(name, labels=labels)
    packaged = package(model, tmp_path)
    config = read_config(packaged.path / "config.pbtxt")
    files = [item.label_filename for item in config.output]
    assert files == ["labels.txt", "labels-2.txt", "labels.txt"]
    assert (packaged.path / "labels-2.txt").read_text() == "cat\nline break\n"


def test_names_that_are_no_folders(tmp_path: Path) -> None:
    packaged = package(adder(), tmp_path, name="../my model:1")
    assert packaged.path == tmp_path / "repository" / "my_model_1"
    assert read_config(packaged.path / "config.pbtxt").name == "my_model_1"
    assert packaged.decisions[0].startswith("name my_model_1:")
    with pytest.raises(UsageError, match="no name for a Triton model"):
        package(adder(), tmp_path, name="//")


def test_reading_a_config_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        read_config(tmp_path / "config.pbtxt")
    (tmp_path / "config.pbtxt").write_text("name: tiny")
    with pytest.raises(UsageError, match="not a Triton model configuration"):
        read_config(tmp_path / "config.pbtxt")
