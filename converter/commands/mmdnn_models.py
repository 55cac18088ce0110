"""MMdnn's ``mmdownload`` in terms of ours: which models there are, and where others come from."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

from converter.commands.mmdnn import known_framework, plain_name, sources
from converter.errors import UsageError

if TYPE_CHECKING:
    from zoo.entry import Entry


def models_of(framework: str) -> dict[str, Entry]:
    """The zoo's models of a framework, by whichever of its names.

    Raises:
        UsageError: The framework isn't read here, or has no model.
    """
    from zoo import catalogue

    plain = known_framework(framework)
    found = {
        name: entry
        for name, entry in catalogue.entries().items()
        if plain_name(entry.framework) == plain
    }
    if not found:
        raise UsageError(
            f"the zoo has no model of {framework}", code="unknown-name", hint="modelyard zoo list"
        )
    return found


def find_model(framework: str, name: str) -> tuple[str, Entry]:
    """A model of the zoo that is of this framework.

    Raises:
        UsageError: There is none of that name; the nearest, or all, are given, and where else
            a model that MMdnn fetched comes from.
    """
    from zoo import catalogue

    models = models_of(framework)
    if name in models:
        return name, models[name]
    plain = known_framework(framework)
    if name in catalogue.entries():
        other = catalogue.entries()[name].framework
        raise UsageError(
            f"{name} is a model of {other}", code="mmdnn", hint=f"mmdownload -f {other} -n {name}"
        )
    nearest = get_close_matches(name.lower(), models, 3, 0.5)
    hint = f"The zoo has: {', '.join(nearest or models)}."
    known = sources().get(plain)
    if known and (told := known.fetched.get(name.lower())):
        raise UsageError(
            f"MMdnn fetched {name}, which Modelyard's zoo doesn't have",
            code="unknown-name",
            details=[told],
            hint=hint,
        )
    raise UsageError(
        f"the zoo has no model {name!r} of {framework}", code="unknown-name", hint=hint
    )
