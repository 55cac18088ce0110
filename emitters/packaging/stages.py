"""``stages.py`` and ``stages.json``: how a package's server prepares files and answers."""

from __future__ import annotations

import copy
import inspect
import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from converter.ir.model import TensorSpec
from converter.preparation import flows, stages
from converter.preparation.declared import Declaration, limits_of
from converter.preparation.staged.base import FILE, packages_of
from converter.preparation.written import require_declared as require_declared
from emitters.composing import beside, compose

REQUIRES = {
    "PIL": "pillow==13.0.0",
    "soundfile": "soundfile==0.14.0",
    "soxr": "soxr==1.1.0",
    "tokenizers": "tokenizers==0.23.3",
}
"""What pip installs for each module that stages import."""

MODULE = "stages.py"

_PARTS = (
    *map(
        "converter.preparation.staged.{}".format,
        ("base", "pictures", "sounds", "texts", "classes", "boxes", "series", "masks", "steps"),
    ),
    "converter.preparation.stages",
)

_OURS = r"converter\.preparation\.(?:stages|staged\.\w+)"


def needs_of(declared: Declaration) -> tuple[str, ...]:
    """pip's requirements of what is declared."""
    return needs_of_parts(declared.model_dump())


def needs_of_kinds(kinds: Iterable[str]) -> tuple[str, ...]:
    """The same of kinds of files, of which others than are known need nothing."""
    names = (name for kind in kinds for name in packages_of(kind))
    return tuple(dict.fromkeys(REQUIRES[name] for name in names))


def needs_of_parts(said: Mapping[str, Any]) -> tuple[str, ...]:
    """The same of a declaration as ``stages.json`` has it."""
    known = needs_of_kinds(item["kind"] for item in said["prepare"])
    own = (
        name for item in (*said["prepare"], *said["answer"]) for name in item.get("requires", ())
    )
    return tuple(dict.fromkeys([*known, *own]))


def stages_facts(
    declared: Declaration, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]
) -> dict[str, Any]:
    """What ``stages.json`` says.

    Args:
        declared: The model's declaration.
        inputs: As they are served.
        outputs: As they are served.
    """
    known = declared.model_dump(mode="json", exclude={"notes"})
    stored = [
        {"name": spec.name, "dtype": spec.dtype, "scale": spec.scale,
         "zero_point": spec.zero_point or 0}
        for spec in (*inputs, *outputs)
    ]  # fmt: skip
    return {**known, "limits": limits_of(declared).model_dump(mode="json"), "stored": stored}


def stages_texts(facts: dict[str, Any]) -> dict[str, str]:
    """The text of each file, by name."""
    own = {}
    facts = copy.deepcopy(facts)
    for item in (*facts["prepare"], *facts["answer"]):
        if item["kind"] == "step":
            own[item["step"].partition(":")[0]] = item.pop("code")
    text = json.dumps(facts, indent=1, ensure_ascii=False) + "\n"
    return {**own, MODULE: _stages_text(), FILE: text}


def facts_in(folder: Path) -> dict[str, Any]:
    """What ``stages.json`` of a package says, with the text of the files that it names."""
    facts: dict[str, Any] = json.loads((folder / FILE).read_text(encoding="utf-8"))
    for item in (*facts["prepare"], *facts["answer"]):
        if item["kind"] == "step":
            file = folder / item["step"].partition(":")[0]
            item["code"] = file.read_text(encoding="utf-8")
    return facts


def write_stages(folder: Path, facts: dict[str, Any]) -> None:
    """Writes both files.

    Raises:
        OSError: The folder can't be written.
    """
    for name, text in stages_texts(facts).items():
        (folder / name).write_text(text, encoding="utf-8")


def flows_text() -> str:
    """The text of ``flows.py``, which stands beside ``stages.py``."""
    return beside(inspect.getsource(flows), _OURS, "stages")


@cache
def _stages_text() -> str:
    head = f'"""{stages.__doc__}"""'
    return compose(head, _PARTS, "")
