"""Triton's ``config.pbtxt``: made, written and read as the protobuf message that it is.

The schema is ``model_config.proto`` of triton-inference-server/common, as the Triton client
ships it; what each field means is in the server's ``docs/user_guide/model_configuration.md``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2 as schema

from converter.errors import Unsupported, UnsupportedError, UsageError
from converter.ir.model import TensorSpec
from emitters.serving.triton.request import TritonRequest
from emitters.serving.triton.scheduling import fill_batching, groups_of

CONFIG_NAME = "config.pbtxt"
BACKEND = "onnxruntime"
MODEL_FILE = "model.onnx"
"""The name that the onnxruntime backend looks for where the configuration names none."""

TYPES = {
    "bool": "TYPE_BOOL",
    "uint8": "TYPE_UINT8",
    "uint16": "TYPE_UINT16",
    "uint32": "TYPE_UINT32",
    "uint64": "TYPE_UINT64",
    "int8": "TYPE_INT8",
    "int16": "TYPE_INT16",
    "int32": "TYPE_INT32",
    "int64": "TYPE_INT64",
    "float16": "TYPE_FP16",
    "bfloat16": "TYPE_BF16",
    "float32": "TYPE_FP32",
    "float64": "TYPE_FP64",
    "string": "TYPE_STRING",
}
"""Triton's name for each dtype that it has."""

ITEM_SIZES = {
    "TYPE_BOOL": 1,
    "TYPE_UINT8": 1,
    "TYPE_UINT16": 2,
    "TYPE_UINT32": 4,
    "TYPE_UINT64": 8,
    "TYPE_INT8": 1,
    "TYPE_INT16": 2,
    "TYPE_INT32": 4,
    "TYPE_INT64": 8,
    "TYPE_FP16": 2,
    "TYPE_BF16": 2,
    "TYPE_FP32": 4,
    "TYPE_FP64": 8,
}
"""Bytes of one element; strings have none, as each brings its own length."""

GRAPH_LEVELS = {"none": 2, "basic": -1, "extended": 1, "all": 0}
"""The onnxruntime backend's reading of ``optimization.graph.level`` (0 is its default)."""


@dataclass(frozen=True)
class Port:
    """An input or output as Triton's clients see it.

    Attributes:
        spec: The tensor in the model, batch included; its shape is ONNX Runtime's.
        type: ``TYPE_FP32``...
        dims: The shape without the batch where Triton batches; -1 for a free dimension.
        scalar: Whether ``dims`` is ``(1,)`` only because Triton has no rank 0, and the model
            gets the tensor without that dimension.
        label_file: The file of its labels, relative to the model's folder.
    """

    spec: TensorSpec
    type: str
    dims: tuple[int, ...]
    scalar: bool = False
    label_file: str | None = None


def require_types(inputs: Iterable[TensorSpec], outputs: Iterable[TensorSpec]) -> None:
    """Refuses inputs and outputs of types that Triton doesn't have.

    Raises:
        UnsupportedError: All of them.
    """
    kinds = (("input", inputs), ("output", outputs))
    _refuse([item for kind, specs in kinds for spec in specs for item in _bad_type(spec, kind)])


def require_ports(inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> None:
    """Refuses what Triton can't have as an input or output: types, shapes, names used twice.

    Raises:
        UnsupportedError: All of it.
    """
    bad = []
    for kind, specs in (("input", inputs), ("output", outputs)):
        bad += [
            item for spec in specs for item in (*_bad_type(spec, kind), *_bad_shape(spec, kind))
        ]
        names = [spec.name for spec in specs]
        bad += [
            Unsupported(name, kind, "the name is used twice", "rename one of them")
            for name in sorted({name for name in names if names.count(name) > 1})
        ]
    _refuse(bad)


def _refuse(bad: Sequence[Unsupported]) -> None:
    if bad:
        raise UnsupportedError("Triton can't take the model's inputs or outputs", bad)


def _bad_type(spec: TensorSpec, kind: str) -> list[Unsupported]:
    if spec.dtype in TYPES:
        return []
    remedy = f"cast it to one of {', '.join(TYPES)}"
    return [Unsupported(spec.name, kind, f"Triton has no type {spec.dtype}", remedy)]


def _bad_shape(spec: TensorSpec, kind: str) -> list[Unsupported]:
    if spec.shape is None:
        return [Unsupported(spec.name, kind, "its rank is unknown", "give it a shape")]
    if any(isinstance(dim, int) and dim < 1 for dim in spec.shape):
        reason = f"{spec.describe()} has no elements, and Triton's dimensions start at 1"
        return [Unsupported(spec.name, kind, reason)]
    return []


def make_ports(specs: Iterable[TensorSpec], *, batched: bool) -> list[Port]:
    """The inputs or outputs as Triton sees them.

    Args:
        specs: Tensors that :func:`require_ports` lets pass, with the shapes that ONNX Runtime
            reports: its backend compares them to the configuration, an output's exactly.
        batched: Whether Triton adds the batch dimension.
    """
    return [_port(spec, batched) for spec in specs]


def _port(spec: TensorSpec, batched: bool) -> Port:
    shape = (spec.shape or ())[1:] if batched else (spec.shape or ())
    dims = tuple(dim if isinstance(dim, int) else -1 for dim in shape)
    return Port(spec, TYPES[spec.dtype], dims or (1,), scalar=not dims)


def with_labels(port: Port, label_file: str | None) -> Port:
    """The same port with the file of its labels."""
    return replace(port, label_file=label_file)


def build_config(
    name: str,
    inputs: Sequence[Port],
    outputs: Sequence[Port],
    max_batch: int,
    request: TritonRequest,
) -> Any:
    """The ``ModelConfig`` message of the onnxruntime backend, all but its warm-up.

    ``backend`` rather than the older ``platform`` says what runs the model: Triton derives the
    platform from it, and a third-party backend of that name is found the same way.

    Args:
        name: The model's.
        inputs: As clients see them.
        outputs: As clients see them.
        max_batch: The largest batch; 0 where Triton doesn't batch.
        request: Its serving options: versions, instances, batching, cache, optimization.

    Raises:
        UsageError: A serving option doesn't fit the model or another option.
    """
    config = schema.ModelConfig(name=name, backend=BACKEND, max_batch_size=max_batch)
    for port in inputs:
        _fill_port(config.input.add(), port, max_batch)
        if len(port.dims) == 3 and port.spec.layout in ("NCHW", "NHWC") and max_batch:
            config.input[-1].format = getattr(schema.ModelInput, f"FORMAT_{port.spec.layout}")
    for port in outputs:
        _fill_port(config.output.add(), port, max_batch)
        config.output[-1].label_filename = port.label_file or ""
    _fill_versions(config, request)
    config.instance_group.extend(groups_of(request))
    fill_batching(config, max_batch, request)
    if request.response_cache:
        config.response_cache.enable = True
    if request.optimization:
        config.optimization.graph.level = GRAPH_LEVELS[request.optimization]
    for key, value in model_parameters(request).items():
        config.parameters[key].string_value = value
    return config


def _fill_port(entry: Any, port: Port, max_batch: int) -> None:
    entry.name = port.spec.name
    entry.data_type = schema.DataType.Value(port.type)
    entry.dims.extend(port.dims)
    if port.scalar and max_batch:
        # An empty reshape. Without batching Triton refuses one: there the onnxruntime backend
        # itself takes dims of [1] for a scalar.
        entry.reshape.SetInParent()


def _fill_versions(config: Any, request: TritonRequest) -> None:
    kind, _, rest = request.version_policy.partition(":")
    numbers = [int(item) for item in rest.split(",") if item.isdecimal() and int(item) > 0]
    well_formed = len(numbers) == len(rest.split(",")) if rest else not numbers
    policy = config.version_policy
    if kind == "all" and not rest:
        policy.all.SetInParent()
    elif kind == "latest" and well_formed and len(numbers) == 1:
        policy.latest.num_versions = numbers[0]
    elif kind == "specific" and well_formed and numbers:
        policy.specific.versions.extend(sorted(set(numbers)))
        if request.version not in numbers:
            raise UsageError(
                f"--version-policy {request.version_policy} leaves out version "
                f"{request.version}, which is being packaged",
                code="server-config",
                hint=f"Add {request.version} to it, or use latest:1.",
            )
    else:
        raise UsageError(
            f"--version-policy {request.version_policy!r} isn't understood",
            code="server-config",
            hint="The form is latest:N, all, or specific:N,N.",
        )


def model_parameters(request: TritonRequest) -> dict[str, str]:
    """The backend's parameters: ``--parameter``, and ``--threads`` where given."""
    threads = {"intra_op_thread_count": str(request.threads)} if request.threads else {}
    return {**threads, **request.parameters}


def write_config(config: Any) -> str:
    """The message as text: the fields in the schema's order, lists on one line, and only ASCII
    where a name holds control characters."""
    write = partial(text_format.MessageToString, config, use_short_repeated_primitives=True)
    text = write(as_utf8=True)
    if not all(map(str.isprintable, text.split("\n"))):
        text = write(as_utf8=False)
    header = f"# Triton's configuration of {config.name}, written by Modelyard.\n"
    return header + str(text)


def read_config(path: Path) -> Any:
    """The message in a ``config.pbtxt``.

    Raises:
        UsageError: It isn't there, can't be read, or isn't such a message.
    """
    try:
        return text_format.Parse(path.read_text(encoding="utf-8"), schema.ModelConfig())
    except OSError as error:
        raise UsageError(
            f"reading {path}: {error.strerror or error}", code="file-access"
        ) from error
    except (UnicodeDecodeError, text_format.ParseError) as error:
        raise UsageError(
            f"{path} is not a Triton model configuration: {error}", code="server-config"
        ) from error


def type_name(value: int) -> str:
    """``TYPE_FP32`` for the number that the message holds."""
    return str(schema.DataType.Name(value))


def describe_ports(entries: Iterable[Any]) -> Mapping[str, str]:
    """Each input or output of a message by name, in words that compare: type, dims, reshape."""
    described = {}
    for entry in entries:
        text = f"{type_name(entry.data_type)} [{', '.join(map(str, entry.dims))}]"
        if entry.HasField("reshape"):
            text += f" reshaped to [{', '.join(map(str, entry.reshape.shape))}]"
        described[entry.name] = text
    return described


def version_numbers(path: Path) -> list[int]:
    """The versions in a model's folder: subfolders named by a number without leading zeros."""
    names = [item.name for item in path.iterdir() if item.is_dir()]
    return sorted(int(name) for name in names if name.isdecimal() and str(int(name)) == name)
