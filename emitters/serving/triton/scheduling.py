"""How Triton's scheduler runs a model: on which instances, in which order, in which batches.

Options that hold several fields take them in the text form that they have in ``config.pbtxt``, and
Triton's own protobuf messages read it. The rules are those of the server core's
``ValidateModelConfig`` and ``ValidateInstanceGroup`` (``model_config_utils.cc``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

from google.protobuf import text_format
from google.protobuf.message import Message
from tritonclient.grpc import model_config_pb2 as schema

from converter.errors import UsageError
from emitters.serving.triton.request import TritonRequest

KINDS = {"auto": "KIND_AUTO", "cpu": "KIND_CPU", "gpu": "KIND_GPU"}

DEFAULT_KIND = "cpu"

_Read = TypeVar("_Read", bound=Message)


def parse(option: str, text: str, message: _Read) -> _Read:
    """A message with what a text says.

    Args:
        option: Whose text it is, for the error.
        text: In protobuf's text format.
        message: What is filled in and given back.

    Raises:
        UsageError: It isn't the text form of such a message.
    """
    try:
        return text_format.Parse(text, message)
    except text_format.ParseError as error:
        kind = message.DESCRIPTOR.name
        raise UsageError(
            f"{option} {text!r} isn't the text of Triton's {kind}: {error}",
            code="server-config",
            hint=f"Its fields: {', '.join(field.name for field in message.DESCRIPTOR.fields)}.",
        ) from error


def groups_of(request: TritonRequest) -> list[Any]:
    """The groups of instances, as ``--instance-group`` or the shorter options say them.

    Raises:
        UsageError: One is no such message, contradicts itself, or both ways are used.
    """
    if request.instances < 1:
        raise UsageError(
            f"--instances {request.instances}: there must be at least one", code="option-value"
        )
    kind = request.instance_kind or DEFAULT_KIND
    if kind not in KINDS:
        raise UsageError(
            f"--instance-kind {request.instance_kind!r} isn't known",
            code="unknown-name",
            hint=f"There are: {', '.join(KINDS)}.",
        )
    if not request.instance_groups:
        number = schema.ModelInstanceGroup.Kind.Value(KINDS[kind])
        return [schema.ModelInstanceGroup(count=request.instances, kind=number)]
    if request.instances != 1 or request.instance_kind:
        raise UsageError(
            "--instance-group can't be used with --instances or --instance-kind: a group sets both",
            code="option-conflict",
            hint="An example of a group: 'kind: KIND_GPU count: 2 gpus: [0, 1]'",
        )
    return [_group(text) for text in request.instance_groups]


def _group(text: str) -> Any:
    group = parse("--instance-group", text, schema.ModelInstanceGroup())
    group.count = group.count or 1
    problem = ""
    if group.count < 0:
        problem = "there must be at least one instance"
    elif group.gpus and kind_of(group) in ("KIND_CPU", "KIND_MODEL"):
        problem = f"{kind_of(group)} has no gpus"
    elif group.profile:
        problem = "an engine's profiles are named by themselves"
    if problem:
        raise UsageError(f"--instance-group {text!r}: {problem}", code="server-config")
    return group


def kind_of(group: Any) -> str:
    """``KIND_GPU``, for example."""
    return str(schema.ModelInstanceGroup.Kind.Name(group.kind))


def require_kinds(request: TritonRequest, kinds: tuple[str, ...], why: str) -> None:
    """Refuses groups of instances of other kinds.

    Args:
        request: Its ``instance_groups``.
        kinds: Those that may be: ``KIND_CPU``, ``KIND_GPU``...
        why: Why others may not, for the message.

    Raises:
        UsageError: There is one.
    """
    for text in request.instance_groups:
        if kind_of(_group(text)) not in kinds:
            raise UsageError(f"--instance-group {text!r}: {why}", code="server-config")


def fill_batching(config: Any, max_batch: int, request: TritonRequest) -> None:
    """Batches that requests wait for, and the queues in which they do.

    Args:
        config: The ``ModelConfig``, which is changed.
        max_batch: The largest batch; below 2 there is none to wait for.
        request: Its ``preferred_batch``, ``dynamic_batching``, ``queue_delay`` (microseconds) and
            queues.

    Raises:
        UsageError: An option contradicts the model or another option.
    """
    sizes = sorted(set(request.preferred_batch))
    wrong = [size for size in sizes if not 1 <= size <= max_batch]
    if wrong:
        raise UsageError(
            f"--preferred-batch {','.join(map(str, wrong))} isn't between 1 and the largest "
            f"batch, {max_batch}",
            code="server-config",
            hint="Raise --max-batch, or leave the size out.",
        )
    if request.queue_delay < 0:
        raise UsageError(
            f"--queue-delay {request.queue_delay}: it can't be negative", code="option-value"
        )
    batching = schema.ModelDynamicBatching()
    _fill_queues(batching, request)
    if not request.dynamic_batching:
        return
    if max_batch < 2:
        if batching.ByteSize():
            raise UsageError(
                "--priority-levels and --queue-policy belong to the dynamic batcher, and "
                f"the largest batch is {max_batch}",
                code="server-config",
                hint="Leave them out, or serve a model that takes batches.",
            )
        return
    batching.preferred_batch_size.extend(sizes)
    batching.max_queue_delay_microseconds = request.queue_delay
    config.dynamic_batching.CopyFrom(batching)


def _fill_queues(batching: Any, request: TritonRequest) -> None:
    levels, default = _levels(request.priority_levels)
    batching.priority_levels, batching.default_priority_level = levels, default
    for text in request.queue_policies:
        head, equals, rest = text.partition("=")
        if not (equals and head.isdecimal()):
            batching.default_queue_policy.CopyFrom(_policy(text))
        elif 1 <= int(head) <= levels:
            batching.priority_queue_policy[int(head)].CopyFrom(_policy(rest))
        else:
            raise UsageError(
                f"--queue-policy {text!r}: there is no level {head}",
                code="server-config",
                hint=f"--priority-levels sets the number of levels; it is {levels or 'not given'}.",
            )


def _policy(text: str) -> Any:
    return parse("--queue-policy", text, schema.ModelQueuePolicy())


def _levels(text: str | None) -> tuple[int, int]:
    """How many levels there are, and that of requests which name none."""
    if text is None:
        return 0, 0
    count, colon, default = text.partition(":")
    default = default if colon else count
    if not (count.isdecimal() and default.isdecimal() and 1 <= int(default) <= int(count)):
        raise UsageError(
            f"--priority-levels {text!r} isn't understood",
            code="option-value",
            hint="Give the number of levels and, after a colon, the default level: 3, or 3:2.",
        )
    return int(count), int(default)


def notes(config: Any) -> Iterator[str]:
    """What the server has to be started with, or a client to send, for the configuration to act."""
    policies = {group.host_policy for group in config.instance_group} - {""}
    for name in sorted(policies):
        yield (
            f"host policy {name}: the server's --host-policy={name},numa-node=N defines it; "
            "without that it changes nothing"
        )
    if is_limited(config):
        yield (
            "rate limiter: the server has to be started with --rate-limit=execution_count; "
            "without that, resources and priorities of instances change nothing"
        )
    if config.dynamic_batching.priority_levels:
        yield (
            f"{config.dynamic_batching.priority_levels} priority levels, 1 the first: a request "
            f"names its own; one that doesn't has {config.dynamic_batching.default_priority_level}"
        )
    kinds = sorted({kind_of(group) for group in config.instance_group} - {"KIND_CPU"})
    if kinds:
        yield f"instances of {', '.join(kinds)}: not run here"


def is_limited(config: Any) -> bool:
    """Whether a group of instances waits for the rate limiter."""
    return any(group.HasField("rate_limiter") for group in config.instance_group)
