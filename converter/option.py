"""How an option is declared: a field of a Request, and how the command line spells it."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from typing import Any


@dataclass(frozen=True)
class Option:
    """How the command line spells a field of :class:`converter.request.Request`.

    Attributes:
        flags: ``("--precision",)``; a boolean may be ``("--bench/--no-bench",)``.
        help: One sentence.
        metavar: What stands for the value in the help.
        many: The option may be given several times, or (with ``split``) once with commas.
        split: Commas separate values.
        choices: The only values it takes.
        pairs: Values are ``NAME=VALUE``.
        group: The heading it stands under in ``--help``.
        usual: ``--help`` shows it; the others, ``--help-all`` does.
        needs: A key of :data:`converter.effect.CONDITIONS`: without it, the option changes nothing.
        values: A key of :data:`converter.option_values.VALUES`: the names that it takes.
    """

    flags: tuple[str, ...]
    help: str
    metavar: str | None = None
    many: bool = False
    split: bool = False
    choices: tuple[str, ...] = ()
    pairs: bool = False
    group: str = ""
    usual: bool = False
    values: str = ""
    needs: str = ""


def declared(
    group: str,
    flag: str,
    help: str,
    default: Any = None,
    *,
    metavar: str | None = None,
    split: bool = False,
    choices: tuple[str, ...] = (),
    usual: bool = False,
    values: str = "",
    needs: str = "",
) -> Any:
    """A field of a dataclass that is an option; its attributes are those of :class:`Option`."""
    many = isinstance(default, (list, dict))
    option = Option(
        tuple(flag.split(",")),
        help,
        metavar,
        many,
        split,
        choices,
        isinstance(default, dict),
        group,
        usual,
        values,
        needs,
    )
    if many:
        copy: Callable[[], Any] = partial(deepcopy, default)
        return field(default_factory=copy, metadata={"option": option})
    return field(default=default, metadata={"option": option})
