"""``stages.py`` and ``stages.json``: how a package's server prepares files and answers."""

from __future__ import annotations

import inspect
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from converter.errors import UsageError
from converter.ir.model import TensorSpec
from converter.preparation import stages
from converter.preparation.declared import Declaration, Limits

REQUIRES = {
    "PIL": "pillow==13.0.0",
    "soundfile": "soundfile==0.14.0",
    "soxr": "soxr==1.1.0",
    "tokenizers": "tokenizers==0.23.3",
}
"""What pip installs for each module that stages import."""

MODULE = "stages.py"


def require_declared(declared: Declaration | None) -> Declaration:
    """The declaration of a package whose server prepares.

    Raises:
        UsageError: Nothing says how files become the model's inputs.
    """
    if declared is None or not any(item.kind != "constant" for item in declared.prepare):
        raise UsageError(
            "--prepare server: nothing says how files become the model's inputs",
            hint="Write it under prepare: in a recipe, or give --image-size, --image-mean and "
            "--image-std, or samples of the kind that users send.",
        )
    return declared


def needs_of(declared: Declaration) -> tuple[str, ...]:
    """pip's requirements of what is declared."""
    names = (name for item in declared.prepare for name in stages.packages_of(item.kind))
    return tuple(dict.fromkeys(REQUIRES[name] for name in names))


def stages_facts(
    declared: Declaration, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]
) -> dict[str, Any]:
    """What ``stages.json`` says.

    Args:
        declared: The model's declaration.
        inputs, outputs: As they are served.
    """
    known = declared.model_dump(mode="json", exclude={"notes"})
    stored = [
        {"name": spec.name, "dtype": spec.dtype, "scale": spec.scale,
         "zero_point": spec.zero_point or 0}
        for spec in (*inputs, *outputs)
    ]  # fmt: skip
    return {**known, "limits": Limits().model_dump(mode="json"), "stored": stored}


def write_stages(folder: Path, facts: dict[str, Any]) -> None:
    """Writes both files.

    Raises:
        OSError: The folder can't be written.
    """
    (folder / MODULE).write_text(inspect.getsource(stages), encoding="utf-8")
    text = json.dumps(facts, indent=1, ensure_ascii=False) + "\n"
    (folder / stages.FILE).write_text(text, encoding="utf-8")
