"""What the install extras bring: ``modelyard[torch]``..., as our own metadata has them."""

from __future__ import annotations

from functools import cache
from importlib.metadata import requires
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from packaging.requirements import Requirement

_OURSELVES = "modelyard"


@cache
def requirements(extra: str = "") -> tuple[Requirement, ...]:
    """What an extra asks for on this machine, the extras that it includes in its place.

    Args:
        extra: Its name; ``""`` for what is always installed.
    """
    found: dict[str, Requirement] = {}
    for needed in _all():
        if needed.marker is None or needed.marker.evaluate({"extra": ""}):
            asked = not extra
        else:
            asked = bool(extra) and needed.marker.evaluate({"extra": extra})
        if not asked:
            continue
        inner = sorted(needed.extras) if needed.name == _OURSELVES else None
        for item in [needed] if inner is None else [i for e in inner for i in requirements(e)]:
            found[item.name] = item
    return tuple(found.values())


def extras() -> tuple[str, ...]:
    """The names of all extras."""
    from importlib.metadata import metadata

    return tuple(metadata(_OURSELVES).get_all("Provides-Extra") or ())


def brings(extra: str, package: str) -> bool:
    """Whether installing us with that extra installs a distribution."""
    wanted = canonical(package)
    both = (*requirements(), *requirements(extra))
    return any(canonical(needed.name) == wanted for needed in both)


def canonical(package: str) -> str:
    """A distribution's name as it is compared: PyPA's "Names and normalization"."""
    from packaging.utils import canonicalize_name

    return canonicalize_name(package)


@cache
def _all() -> tuple[Requirement, ...]:
    from packaging.requirements import Requirement

    return tuple(Requirement(text) for text in requires(_OURSELVES) or ())
