"""What completion offers for arguments and options: quick, from names alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from converter.options.option import Option
from converter.plugins import available

Items = list[CompletionItem[Any]]
Completer = Callable[[click.Context, click.Parameter, str], Items]

_DEFINED = re.compile(r"^(?:class|def) ([A-Za-z]\w*)", re.MULTILINE)


def source(ctx: click.Context, param: click.Parameter, text: str) -> Items:
    """Of what ``convert`` takes: files, ``zoo:NAME``, and what ``FILE.py`` defines.

    Args:
        ctx: Click's context, unused.
        param: The parameter that is completed, unused.
        text: What was typed so far.
    """
    if text.startswith("zoo:"):
        return _beginning(text, (f"zoo:{name}" for name in _zoo()))
    return _files(text, ("zoo:",))


def zoo(ctx: click.Context, param: click.Parameter, text: str) -> Items:
    """Names of zoo models, without ``zoo:``.

    Args:
        ctx: Click's context, unused.
        param: The parameter that is completed, unused.
        text: What was typed so far.
    """
    return _beginning(text, _zoo())


def recipe(ctx: click.Context, param: click.Parameter, text: str) -> Items:
    """Files, and the recipes that come along.

    Args:
        ctx: Click's context, unused.
        param: The parameter that is completed, unused.
        text: What was typed so far; with nothing, recipes that come along aren't listed.
    """
    import recipes

    shipped = [path.stem for path in sorted(Path(recipes.__file__).parent.glob("*.yaml"))]
    return [*(_beginning(text, shipped) if text else ()), *_files(text)]


def executor(ctx: click.Context, param: click.Parameter, text: str) -> Items:
    """The names of ``--executor``.

    Args:
        ctx: Click's context, unused.
        param: The parameter that is completed, unused.
        text: What was typed so far.
    """
    return _beginning(text, available("executors"))


def file(ctx: click.Context, param: click.Parameter, text: str) -> Items:
    """Files and folders.

    Args:
        ctx: Click's context, unused.
        param: The parameter that is completed, unused.
        text: What was typed so far.
    """
    return _files(text)


def values(option: Option) -> Completer:
    """A completer for an option's values, by what it is declared to take.

    Of the metavar's alternatives, those in small letters are words, and those that name a FILE, a
    PATH, a CSV or a DIR are on the disk.
    """
    kinds = (option.metavar or "").split("|")
    words = [re.sub(r"[A-Z]+$", "", kind) for kind in kinds if re.match("[a-z]", kind)]
    on_disk = any(re.match("FILE|PATH|CSV", kind) for kind in kinds)

    def complete(ctx: click.Context, param: click.Parameter, text: str) -> Items:
        from converter.options.values import values_of

        before, comma, last = text.rpartition(",") if option.split else ("", "", text)
        taken = set(before.split(","))
        names = [name for name in (*values_of(option), *words) if name not in taken]
        if "DIR" in kinds:
            return [CompletionItem(text, type="dir")]
        if (on_disk or option.values == "metrics") and not comma:
            return [*_beginning(last, names), *_files(text)]
        return _beginning(text, (before + comma + name for name in names))

    return complete


def _beginning(text: str, names: Iterable[str]) -> Items:
    return [CompletionItem(name) for name in names if name.startswith(text)]


def _files(text: str, others: Iterable[str] = ()) -> Items:
    """What lies on the disk, and of ``others`` what ``text`` has begun; what a FILE.py defines."""
    path, colon, _ = text.partition(":")
    if colon and path.endswith(".py") and Path(path).is_file():
        code = Path(path).read_text(encoding="utf-8", errors="replace")
        return _beginning(text, (f"{path}:{name}" for name in _DEFINED.findall(code)))
    begun = _beginning(text, others) if text else []
    return [*begun, CompletionItem(text, type="file")]


def _zoo() -> list[str]:
    from zoo.names import names

    return names()
