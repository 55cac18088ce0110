"""What runs if a recipe is carried out: code and interpreters that it names.

A recipe may come from anybody. One that names some is carried out where its user says so: by
``--trust-recipe``, or once on a terminal, which is kept for that file with that content.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from converter.errors import UsageError
from converter.files.cache_root import cache_root

if TYPE_CHECKING:
    from converter.options.recipe_files import Recipe

_CODE = re.compile(r"\.py(:|$)")
_MODULE = re.compile(r"[\w.]+:[\w.]+")
_RUNS = ("python", "trust_source")


def code_in(values: Mapping[str, Any]) -> list[str]:
    """What of a recipe names code or an interpreter, as ``key: value`` lines.

    Args:
        values: Its fields, as :func:`converter.options.recipe.load_recipe` gives them.
    """
    found = [f"{key}: {values[key]}" for key in _RUNS if values.get(key)]
    for name, own in values.get("parts", {}).items():
        found += [f"{name}: {item}" for item in code_in(own)]
    for choice in values["sweep"].choices() if "sweep" in values else ():
        found += code_in(choice.fields)
    for key, value in values.items():
        if key in ("parts", "sweep"):
            continue
        texts = value if isinstance(value, list) else [value]
        texts = [text.get("step", "") if isinstance(text, Mapping) else text for text in texts]
        found += [f"{key}: {text}" for text in texts if _CODE.search(str(text))]
    source = str(values.get("source", ""))
    if _MODULE.fullmatch(source) and not source.startswith("zoo:") and not _CODE.search(source):
        found.append(f"source: {source}")
    return found


def untrusted(recipe: Recipe) -> list[str]:
    """What a recipe names, unless its user trusted it as it is now; see :func:`code_in`."""
    named = code_in(recipe.values)
    return [] if named and _kept(recipe).exists() else named


def require_trusted(recipe: Recipe) -> None:
    """Refuses a recipe that names code and isn't trusted.

    Raises:
        UsageError: With what it names, and the line that carries it out.
    """
    if named := untrusted(recipe):
        command = "sweep" if "sweep" in recipe.values else "run"
        raise UsageError(
            f"{recipe.where} names code that would run with your rights",
            code="untrusted-code",
            details=named,
            hint=f"If you trust it: modelyard {command} {recipe.path} --trust-recipe\n--dry-run "
            "shows the plan and runs nothing.",
        )


def trust(recipe: Recipe) -> None:
    """Keeps that this recipe, as it is now, may run what it names."""
    _kept(recipe).parent.mkdir(parents=True, exist_ok=True)
    _kept(recipe).touch()


def _kept(recipe: Recipe) -> Path:
    """What says that it is trusted: of the files that it was read from, the extended ones too, and
    of what it names, its variables replaced."""
    read = [[str(path), text] for path, text in recipe.read.items()]
    known = json.dumps([read, code_in(recipe.values)])
    return cache_root() / "trusted" / sha256(known.encode()).hexdigest()
