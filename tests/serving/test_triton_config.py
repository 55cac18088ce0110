"""What config.pbtxt says for each kind of model and option."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2 as schema

from converter.errors import DependencyError, UnsupportedError, UsageError
from converter.ir.model import Model, TensorSpec
from converter.samples import Samples
from emitters.serving.triton.config import ITEM_SIZES, TYPES, make_ports, read_config, require_ports
from emitters.serving.triton.server import TritonServer
from tests.serving.models import MemorySamples, adder, classifier, package, text_model

CLASSES = ("ant", "bee", "cat", "dog")
GROUP = 'kind: KIND_CPU host_policy: "a"'
POLICIES = ("", "newest", "latest", "latest:0", "latest:x", "latest:1,2", "specific:", "all:1")


def config_of(folder: Path, model: Model, samples: Samples | None = None, **fields: Any) -> Any:
    """The configuration of a model packaged under ``folder``."""
    return read_config(package(model, folder, samples, **fields).path / "config.pbtxt")


def said(config: Any) -> str:
    """A configuration, or a part of one, in one line."""
    return text_format.MessageToString(config, as_one_line=True)


def test_batched_model(tmp_path: Path) -> None:
    packaged = package(adder(("batch", 3, "width")), tmp_path)
    config = read_config(packaged.path / "config.pbtxt")
    assert (config.name, config.backend, config.platform) == ("tiny", "onnxruntime", "")
    assert config.max_batch_size == packaged.details["max_batch"] == 8
    assert [said(item) for item in config.input] == [
        'name: "x" data_type: TYPE_FP32 dims: 3 dims: -1'
    ]
    assert [(item.name, list(item.dims)) for item in config.output] == [("y", [3, -1])]


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
    text = "g (float[batch, 3] x) => (float[batch, unknown] y) { y = MatMul(x, w) }"
    model = text_model(text, w=np.zeros((3, 4), np.float32))
    assert list(config_of(tmp_path, model).output[0].dims) == [4]


def test_what_triton_cannot_take_is_listed_whole() -> None:
    inputs = [("a", "complex64", (1,)), ("b", "float32", None), ("c", "float32", (0, 2))]
    outputs = [("d", "int4", None), ("e", "bool", ()), ("e", "bool", ())]
    with pytest.raises(UnsupportedError) as caught:
        require_ports([TensorSpec(*i) for i in inputs], [TensorSpec(*o) for o in outputs])
    found = [f"{item.node} {item.op}" for item in caught.value.items]
    assert found == ["a input", "b input", "c input", "d output", "d output", "e output"]


def test_format_where_triton_allows_it(tmp_path: Path) -> None:
    for name, layout, shape, expected in (
        ("first", "NCHW", ("batch", 3, 8, 8), "FORMAT_NCHW"),
        ("last", "NHWC", ("batch", 8, 8, 3), "FORMAT_NHWC"),
        ("whole", "NCHW", (1, 3, 8, 8), "FORMAT_NONE"),  # four dims, and Triton wants three
        ("flat", "NC", ("batch", 3), "FORMAT_NONE"),
        ("none", None, ("batch", 3, 8, 8), "FORMAT_NONE"),
    ):
        model = adder(shape)
        model.describe("x", layout=layout)
        entry = config_of(tmp_path, model, name=name).input[0]
        assert schema.ModelInput.Format.Name(entry.format) == expected, name


@pytest.mark.parametrize(("fields", "wanted"), [
    ({"version_policy": "latest:2"}, "version_policy { latest { num_versions: 2 } } max_"),
    ({"version_policy": "all"}, "version_policy { all { } } max_"),
    (
        {"version": 3, "version_policy": "specific:3"},
        "version_policy { specific { versions: 3 } } max_",
    ),
    ({"instances": 3, "instance_kind": "auto"}, "instance_group { count: 3 } dynamic"),
    ({"instances": 3, "instance_kind": "gpu"}, "instance_group { count: 3 kind: KIND_GPU } "),
    ({"instances": 3, "instance_kind": "cpu"}, "instance_group { count: 3 kind: KIND_CPU } "),
    (
        {"instance_groups": ["kind: KIND_GPU count: 2 gpus: [0, 1]", GROUP]},
        "instance_group { count: 2 gpus: 0 gpus: 1 kind: KIND_GPU } "
        'instance_group { count: 1 kind: KIND_CPU host_policy: "a" } dynamic',
    ),
    (
        {"instance_groups": ['rate_limiter { priority: 2 resources { name: "R" count: 3 } }']},
        'instance_group { count: 1 rate_limiter { resources { name: "R" count: 3 } priority: 2 } }',
    ),
    (
        {"priority_levels": "3:2", "queue_policies": ["max_queue_size: 9"], "queue_delay": 0},
        "dynamic_batching { priority_levels: 3 default_priority_level: 2 "
        "default_queue_policy { max_queue_size: 9 } } model",
    ),
    (
        {"priority_levels": "2", "queue_policies": ["1=timeout_action: DELAY"], "queue_delay": 0},
        "dynamic_batching { priority_levels: 2 default_priority_level: 2 "
        "priority_queue_policy { key: 1 value { timeout_action: DELAY } } } model",
    ),
    ({"optimization": "none"}, "optimization { graph { level: 2 } } model"),
    ({"optimization": "basic"}, "optimization { graph { level: -1 } } model"),
    ({"optimization": "extended"}, "optimization { graph { level: 1 } } model"),
    ({"optimization": "all"}, "optimization { graph { } } model"),
    ({}, "dynamic_batching { max_queue_delay_microseconds: 100 } model"),
    ({"queue_delay": 0}, "dynamic_batching { } model"),
    (
        {"preferred_batch": [4, 2, 4]},
        "dynamic_batching { preferred_batch_size: 2 preferred_batch_size: 4 max_queue",
    ),
    ({"preferred_batch": [16]}, " max_batch_size: 16 "),
    ({"dynamic_batching": False}, " max_batch_size: 8 "),
    ({"max_batch": 1}, " max_batch_size: 1 "),
])  # fmt: skip
def test_options(tmp_path: Path, fields: dict[str, Any], wanted: str) -> None:
    text = said(config_of(tmp_path, adder(), **fields))
    assert wanted in text
    alone = fields.get("max_batch") == 1 or not fields.get("dynamic_batching", True)
    assert ("dynamic_batching {" in text) is not alone


@pytest.mark.parametrize(("fields", "says"), [
    *(({"version_policy": policy}, "isn't understood") for policy in POLICIES),
    ({"version_policy": "specific:2,3"}, "leaves out version 1"),
    ({"preferred_batch": [16], "max_batch": 8}, "--preferred-batch 16"),
    ({"instances": 0}, "--"),
    ({"queue_delay": -1}, "--"),
    ({"version": 0}, "--"),
    ({"warmup": -1}, "--"),
    ({"max_batch": -1}, "--"),
    ({"instance_groups": ["kind: KIND_TPU"]}, "isn't the text of Triton's ModelInstanceGroup"),
    ({"instance_groups": ["kind: KIND_CPU gpus: 0"]}, "KIND_CPU has no gpus"),
    ({"instance_groups": ["count: -1"]}, "at least one"),
    ({"instance_groups": ['profile: "0"']}, "by themselves"),
    ({"instance_groups": ["count: 1"], "instances": 2}, "can't be used with --instances"),
    *(({"priority_levels": text}, "isn't understood") for text in ("", "0", "x", "2:3", "2:0")),
    ({"queue_policies": ["1=max_queue_size: 1"]}, "there is no level 1"),
    ({"queue_policies": ["size: 1"]}, "isn't the text of Triton's ModelQueuePolicy"),
    ({"queue_policies": ["max_queue_size: 1"], "max_batch": 1}, "the largest batch is 1"),
    ({"name": "//"}, "can't be the name of a Triton model"),
])  # fmt: skip
def test_options_that_are_refused(tmp_path: Path, fields: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        package(adder(), tmp_path, **fields)


def test_a_preferred_batch_of_a_model_without_one(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--preferred-batch 2"):
        package(adder((3,)), tmp_path, preferred_batch=[2])


def test_what_the_server_has_to_be_told_is_said(tmp_path: Path) -> None:
    group = 'count: 2 kind: KIND_CPU host_policy: "near" rate_limiter { priority: 1 }'
    packaged = package(adder(), tmp_path, instance_groups=[group, "kind: KIND_GPU"],
                       priority_levels="4:3")  # fmt: skip
    said = "\n".join(packaged.decisions)
    for words in ("--host-policy=near,numa-node=N", "--rate-limit=execution_count",
                  "4 priority levels", "doesn't has 3", "KIND_GPU: not run here"):  # fmt: skip
        assert words in said
    assert (packaged.details["instances"], packaged.details["instance_kind"]) == (3, "cpu+gpu")
    assert "--gpus all" in (packaged.path / "README.md").read_text()
    with pytest.raises(DependencyError, match="instances on GPUs"):
        TritonServer().environment(packaged.path)


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


@pytest.mark.parametrize("of_samples", [False, True])
def test_labels_of_the_model_and_of_the_samples(tmp_path: Path, of_samples: bool) -> None:
    """Those that fit nothing are left out, which is said."""
    samples = MemorySamples(label_names=CLASSES) if of_samples else None
    for classes in (4, 5):
        model = classifier(classes)
        if not of_samples:
            model.describe("scores", labels=CLASSES)
        packaged = package(model, tmp_path, samples, name=f"of{classes}")
        config = read_config(packaged.path / "config.pbtxt")
        file = packaged.path / "labels.txt"
        assert config.output[0].label_filename == ("labels.txt" if classes == 4 else "")
        if classes == 4:
            assert file.read_text() == "ant\nbee\ncat\ndog\n"
    assert not file.exists()
    left_out = "no labels: there are 4 names" if of_samples else "no labels for scores: there are 4"
    assert any(left_out in line for line in packaged.decisions)


def test_labels_go_to_the_scores_of_several_outputs(tmp_path: Path) -> None:
    model = text_model("""g (float[batch, 4] x) => (float[batch, 4] a, float[batch, 4] b) {
        a = Add(x, x) b = Neg(x) }""")
    samples = MemorySamples(label_names=CLASSES)
    packaged = package(model, tmp_path, samples, name="unclear")
    assert any("a, b all have as many values" in line for line in packaged.decisions)
    model.describe("b", meaning="scores")
    config = config_of(tmp_path, model, samples, name="clear")
    assert [item.label_filename for item in config.output] == ["", "labels.txt"]


def test_two_outputs_with_labels_of_their_own(tmp_path: Path) -> None:
    model = text_model("""g (float[batch, 2] x) => (float[batch, 2] a, float[batch, 2] b,
        float[batch, 2] c) { a = Add(x, x) b = Neg(x) c = Abs(x) }""")
    for name, labels in {"a": "no yes", "b": "cat line\nbreak", "c": "no yes"}.items():
        model.describe(name, labels=tuple(labels.split(" ")))
    packaged = package(model, tmp_path)
    files = [item.label_filename for item in read_config(packaged.path / "config.pbtxt").output]
    assert files == ["labels.txt", "labels-2.txt", "labels.txt"]
    assert (packaged.path / "labels-2.txt").read_text() == "cat\nline break\n"


def test_names_that_are_no_folders(tmp_path: Path) -> None:
    packaged = package(adder(), tmp_path, name="../my model:1")
    assert packaged.path == tmp_path / "repository" / "my_model_1"
    assert read_config(packaged.path / "config.pbtxt").name == "my_model_1"
    assert packaged.decisions[0].startswith("name my_model_1:")


def test_reading_a_config_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        read_config(tmp_path / "config.pbtxt")
    (tmp_path / "config.pbtxt").write_text("name: tiny")
    with pytest.raises(UsageError, match="not a Triton model configuration"):
        read_config(tmp_path / "config.pbtxt")
