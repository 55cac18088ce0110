"""Makes click options of the fields of :class:`converter.request.Request`.

An option means and defaults to the same in every command, because it is declared once,
there. A command names the fields that it takes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_args, get_type_hints

import click

from converter.request import Option, Request, group, option_of

SOURCE = group("Source")
TARGETS = group("Targets")
SAMPLES = group("Samples")
CHECKS = tuple(name for name in group("Checks") if name != "check")
PRECISION = group("Precision")
LATENCY = tuple(name for name in group("Latency") if name != "bench")
SERVING = group("Serving")
TENSORRT = group("TensorRT")
COREML = group("Core ML")

_PLAIN = Request("")


class GroupedCommand(click.Command):
    """A command whose help lists its options under their headings."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        groups: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx) if isinstance(param, click.Option) else None
            if record:
                groups.setdefault(getattr(param, "group", "Options"), []).append(record)
        for name, records in groups.items():
            with formatter.section(name):
                formatter.write_dl(records)


class _Grouped(click.Option):
    """An option that knows its heading."""

    def __init__(self, *args: Any, group: str = "Options", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.group = group


def takes(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator: the command takes these fields of Request; it gets those that were given."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in reversed(names):
            function = _click_option(name)(function)
        return function

    return decorate


def _click_option(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    option = option_of(name)
    kind = _value_type(name)
    settings: dict[str, Any] = {
        "help": _help(option, getattr(_PLAIN, name)),
        "group": option.group,
        "default": None,
    }
    if kind is bool:
        if "/" not in option.flags[0]:
            settings["is_flag"] = True
    else:
        plain = option.pairs or option.many
        settings["type"] = (
            click.Choice(option.choices) if option.choices else (str if plain else kind)
        )
        settings["metavar"] = option.metavar
        settings["multiple"] = option.many
        if option.many:
            settings["callback"] = _reader(option, kind)
    return click.option(*option.flags, name, cls=_Grouped, **settings)


def _value_type(name: str) -> type:
    """The type of one value of the field: ``int`` for ``int | None`` and for ``list[int]``."""
    hint = get_type_hints(Request)[name]
    inner = [item for item in get_args(hint) if item is not type(None)]
    kind = inner[-1] if inner else hint
    return kind if isinstance(kind, type) and kind is not Any else str


def _help(option: Option, default: Any) -> str:
    if default is None or default is False or default in ([], {}) or "Default" in option.help:
        return option.help
    shown = {True: "yes"}.get(default) if isinstance(default, bool) else default
    shown = ",".join(map(str, default)) if isinstance(default, list) else shown
    return f"{option.help} [{shown}]"


def _reader(
    option: Option, kind: type
) -> Callable[[click.Context, click.Parameter, Sequence[str]], Any]:
    """Reads repeated, comma-separated or NAME=VALUE texts; gives None where there are none."""

    def read(ctx: click.Context, param: click.Parameter, texts: Sequence[str]) -> Any:
        if not texts:
            return None
        items = [part for text in texts for part in (text.split(",") if option.split else [text])]
        try:
            if option.pairs:
                return dict(_pair(item, kind) for item in items)
            return [kind(item.strip()) if kind is not object else item for item in items]
        except ValueError as error:
            raise click.BadParameter(f"{error}", ctx, param) from error

    return read


def _pair(text: str, kind: type) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ValueError(f"{text!r} isn't NAME=VALUE")
    return name, kind(value)


def given(values: Mapping[str, Any]) -> dict[str, Any]:
    """The options that were given: the others keep the Request's own defaults."""
    return {name: value for name, value in values.items() if value is not None}


def common(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds ``--json``, ``--quiet`` and ``--debug``, which every command takes."""
    function = click.option(
        "--debug",
        is_flag=True,
        expose_value=False,
        help="Show tracebacks, and what passes left alone and why.",
    )(function)
    function = click.option(
        "--quiet", is_flag=True, expose_value=False, help="Show no progress on stderr."
    )(function)
    return click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")(
        function
    )
