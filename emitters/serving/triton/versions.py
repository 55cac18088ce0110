"""Which versions of a model in a repository Triton serves, and how others are served instead.

``version_policy`` in ``config.pbtxt`` decides it (the server's ``docs/user_guide/
model_configuration.md``, "Version Policy"). Everything else in the file stays as its user wrote it,
comments too. A comment of ours keeps the policy that was there before the first rollback.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2 as schema

from converter.errors import UsageError
from emitters.serving.triton.config import CONFIG_NAME, read_config, version_numbers

FIELD = "version_policy"
_BEFORE = re.compile(r"^# Before `modelyard rollback`: (.*)\n", re.MULTILINE)
_TOKEN = re.compile(
    r"#[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|[{}<>\[\]]|\w+|.", re.DOTALL
)


def served(folder: Path) -> list[int]:
    """The versions that the policy of a model's folder has Triton serve, of those that are there.

    Raises:
        UsageError: The configuration can't be read.
    """
    policy, there = read_config(folder / CONFIG_NAME).version_policy, version_numbers(folder)
    if policy.HasField("specific"):
        return [number for number in there if number in policy.specific.versions]
    if policy.HasField("all"):
        return there
    return there[-(policy.latest.num_versions or 1) :]


def serving(folder: Path, version: int | None) -> str:
    """The text of ``config.pbtxt`` with which Triton serves one version alone.

    Args:
        folder: The model's.
        version: Its number; None for the policy from before the first rollback.

    Raises:
        UsageError: The configuration can't be read, or there was no rollback.
    """
    path = folder / CONFIG_NAME
    config, text = read_config(path), path.read_text(encoding="utf-8")
    before = _BEFORE.search(text)
    if version is not None:
        policy = f"{FIELD} {{ specific {{ versions: [{version}] }} }}"
    elif before is None:
        raise UsageError(
            f"{folder.name}/{CONFIG_NAME} has no policy from before a rollback",
            code="repository",
            hint="Name a version: --to N.",
        )
    else:
        policy = before[1]
    old = _one_line(config)
    bare = _BEFORE.sub("", _without(text)).rstrip("\n")
    note = f"# Before `modelyard rollback`: {before[1] if before else old}\n" * (
        version is not None
    )
    made = f"{bare}\n{note}{policy}\n"
    config.ClearField(FIELD)
    text_format.Parse(policy, config)
    if text_format.Parse(made, schema.ModelConfig()) != config:
        raise UsageError(
            f"{folder.name}/{CONFIG_NAME}: its {FIELD} can't be found in the text",
            code="repository",
            hint=f"Edit it: {policy}",
        )
    return made


def _one_line(config: Any) -> str:
    """A configuration's policy as text, Triton's usual one where it has none."""
    alone = schema.ModelConfig(version_policy=config.version_policy)
    if alone.version_policy.WhichOneof("policy_choice") is None:
        alone.version_policy.latest.num_versions = 1
    return str(text_format.MessageToString(alone, as_one_line=True)).strip()


def _without(text: str) -> str:
    """The text of a message without its field ``version_policy``."""
    kept, start, depth = "", 0, 0
    for begin, token, end in _tokens(text):
        if token in "{<[":
            depth += 1
        elif token in "}>]":
            depth -= 1
            if depth == 0 and start < 0:
                start = end + (text[end : end + 1] == "\n")
        elif token == FIELD and depth == 0:
            kept, start = kept + text[start:begin], -1
    return kept + text[max(start, 0) :]


def _tokens(text: str) -> Iterator[tuple[int, str, int]]:
    for match in _TOKEN.finditer(text):
        yield match.start(), match[0], match.end()
