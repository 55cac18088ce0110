"""How an option is declared: a field of a Request, and how the command line spells it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any

STEPS = (
    *("parse", "samples", "simplify", "reference", "masks", "calibrate", "quantize"),
    *("emit", "check", "bench", "pack", "package"),
)
"""The kinds of steps that options can change (:mod:`converter.pipeline.plan`)."""

BESIDE = ("plan", "results", "run")
"""What else they can: which steps there are and for what, what is made of what steps gave (gates,
the output, the exit code), how they are carried out."""


@dataclass(frozen=True)
class Option:
    """How the command line spells a field of :class:`converter.options.request.Request`.

    Attributes:
        flags: ``("--precision",)``; a boolean may be ``("--bench/--no-bench",)``.
        help: One sentence.
        metavar: What stands for the value in the help.
        many: The option may be given several times, or (with ``split``) once with commas.
        split: Commas separate values.
        choices: The only values it takes.
        pairs: Values are ``NAME=VALUE``.
        by_name: They may be: one without a name is for all others.
        group: The heading it stands under in ``--help``.
        usual: ``--help`` shows it; the others, ``--help-all`` does.
        needs: An option that can be turned off, or a key of
            :data:`converter.options.unused_options.CONDITIONS`: without it, the option changes
            nothing.
        values: A key of :data:`converter.options.values.VALUES`: the names that it takes.
        reads: Values of a plug-in's option are files.
        named: Names that stand for several values.
    """

    flags: tuple[str, ...]
    help: str
    metavar: str | None = None
    many: bool = False
    split: bool = False
    choices: tuple[str, ...] = ()
    pairs: bool = False
    by_name: bool = False
    group: str = ""
    usual: bool = False
    values: str = ""
    needs: str = ""
    reads: bool = False
    named: Mapping[str, tuple[float, ...]] = field(default_factory=dict)

    def spelled_out(self, items: Sequence[Any]) -> list[Any]:
        """Values with what names stand for in their place."""
        lists = (self.named.get(str(item).strip().lower(), (item,)) for item in items)
        return [value for values in lists for value in values]


def declared(
    group: str,
    flag: str,
    help: str,
    default: Any = None,
    *,
    affects: tuple[str, ...],
    metavar: str | None = None,
    split: bool = False,
    choices: tuple[str, ...] = (),
    usual: bool = False,
    values: str = "",
    needs: str = "",
    reads: bool = False,
    named: Mapping[str, tuple[float, ...]] = MappingProxyType({}),
    by_name: bool = False,
) -> Any:
    """A field of a dataclass that is an option. See :class:`Option`.

    Args:
        group: The heading that it stands under in ``--help``.
        flag: How it is spelled, several separated by commas; ``--bench/--no-bench`` for a boolean.
        help: One sentence.
        default: The field's; with a list or mapping, the option may be given several times.
        affects: What it can change: of :data:`STEPS`, the kinds whose keys it is in, and of
            :data:`BESIDE`.
        metavar: What stands for the value in the help.
        split: Whether commas separate values.
        choices: The only values that it takes; empty for any.
        usual: Whether ``--help`` shows it, and not ``--help-all`` alone.
        values: A key of :data:`converter.options.values.VALUES`: the names that it takes.
        needs: The option or condition without which it changes nothing.
        reads: Whether values of a plug-in's option are files.
        named: Names that stand for several values.
        by_name: Whether ``NAME=VALUE`` may be a value alone, for all names.
    """
    many = isinstance(default, (list, dict))
    option = Option(
        tuple(flag.split(",")),
        help,
        metavar,
        many,
        split,
        choices,
        isinstance(default, dict),
        by_name,
        group,
        usual,
        values,
        needs,
        reads,
        named,
    )
    if many:
        copy: Callable[[], Any] = partial(deepcopy, default)
        return field(default_factory=copy, metadata={"option": option, "affects": affects})
    return field(default=default, metadata={"option": option, "affects": affects})
