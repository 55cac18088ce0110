"""Makes click options of the fields of :class:`converter.options.request.Request`.

An option means and defaults to the same in every command, because it is declared once,
there. A command names the fields that it takes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from converter.cli import completing
from converter.options.option import Option
from converter.options.request import Request, group, of_plugins, opening, option_of
from converter.options.spelling import value_type

SOURCE = group("Source")
TARGETS = group("Targets")
SAMPLES = group("Samples")
CHECKS = tuple(name for name in group("Checks") if name != "check")
PRECISION = group("Precision")
LATENCY = tuple(name for name in group("Latency") if name != "bench")
OF_PLUGINS = tuple(name for name in of_plugins() if name not in (*SOURCE, *TARGETS))
OPENING = opening()

_PLAIN = Request("")


MANY = 30
"""With more options than that, ``--help`` shows the usual ones, and ``--help-all`` the rest."""


class GroupedCommand(click.Command):
    """A command whose help lists its options under their headings."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.many = len(self.params) > MANY
        if self.many:
            self.params.append(_help_all(sum(not getattr(p, "usual", True) for p in self.params)))

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        whole = not self.many or ctx.meta.get(_WHOLE, False)
        groups: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx) if isinstance(param, click.Option) else None
            if record and (whole or getattr(param, "usual", True)):
                groups.setdefault(getattr(param, "group", "Options"), []).append(record)
        for name, records in groups.items():
            with formatter.section(name):
                formatter.write_dl(records)


_WHOLE = "converter.cli.options.whole"


def _help_all(more: int) -> click.Option:
    def show(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
        if wanted and not ctx.resilient_parsing:
            ctx.meta[_WHOLE] = True
            click.echo(ctx.get_help())
            ctx.exit()

    return click.Option(
        ["--help-all"],
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=show,
        help=f"Show all options: {more} more.",
    )


class _Grouped(click.Option):
    """An option of a request: it knows its heading, whether it is a usual one, and its values."""

    def __init__(self, *args: Any, declared: Option, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.group, self.usual, self.declared = declared.group, declared.usual, declared

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """The option's line in the help, with the names that it takes."""
        record = super().get_help_record(ctx)
        if record is None or not self.declared.values:
            return record
        from converter.options.values import values_of

        return record[0], f"{record[1]} One of: {', '.join(values_of(self.declared))}."


def takes(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator: the command takes these fields of Request; it gets those that were given."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in reversed(names):
            function = _click_option(name)(function)
        return function

    return decorate


def _click_option(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    option = option_of(name)
    kind = value_type(name)
    settings: dict[str, Any] = {
        "help": _help(option, _PLAIN.value(name)),
        "declared": option,
        "shell_complete": completing.values(option),
        "default": None,
    }
    on, _, off = option.flags[0].partition("/")
    if off and kind is not bool:
        return _value_or_off(name, (on, off), settings, option)
    if kind is bool:
        del settings["shell_complete"]
        if "/" not in option.flags[0]:
            settings["is_flag"] = True
    else:
        many = option.many or option.by_name
        plain = option.pairs or many
        settings["type"] = (
            click.Choice(option.choices) if option.choices else (str if plain else kind)
        )
        settings["metavar"] = option.metavar
        settings["multiple"] = many
        if many:
            settings["callback"] = _reader(option, kind)
    return click.option(*option.flags, name, cls=_Grouped, **settings)


def _value_or_off(
    name: str, flags: tuple[str, str], settings: dict[str, Any], option: Option
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Two options for one field: one has a value, the other turns it off."""
    key = f"{__name__}.no_{name}"

    def turn_off(ctx: click.Context, _: click.Parameter, off: bool) -> None:
        ctx.meta[key] = off

    def choose(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
        if ctx.meta.get(key) and value is not None:
            raise click.UsageError(f"{flags[0]} and {flags[1]} contradict each other", ctx)
        return False if ctx.meta.get(key) else value

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        off = {"is_flag": True, "is_eager": True, "expose_value": False, "callback": turn_off}
        function = click.option(
            flags[1], f"no_{name}", cls=_Grouped, declared=option, help="Reuse nothing.", **off
        )(function)
        mine = {**settings, "metavar": option.metavar, "callback": choose}
        return click.option(flags[0], name, cls=_Grouped, **mine)(function)

    return decorate


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
            if option.by_name:
                return _by_name(items, kind)
            if option.pairs:
                return dict(_pair(item, kind) for item in items)
            items = option.spelled_out(items)
            return [kind(str(item).strip()) if kind is not object else item for item in items]
        except ValueError as error:
            raise click.BadParameter(f"{error}", ctx, param) from error

    return read


def _by_name(items: Sequence[str], kind: type) -> Any:
    """Values by their names, one without a name under the empty one; or that one alone."""
    found = {}
    for name, equals, value in (item.rpartition("=") for item in items):
        try:
            found[name] = kind(value)
        except ValueError:
            raise ValueError(f"{name}{equals}{value} isn't NUMBER or METRIC=NUMBER") from None
    return found[""] if found.keys() == {""} else found


def _pair(text: str, kind: type) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ValueError(f"{text!r} isn't NAME=VALUE")
    return name, kind(value)


def asks_a_server(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds ``--server`` and ``--protocol``."""
    function = click.option(
        "--protocol",
        type=click.Choice(["v2", "v2-json", "grpc", "json"]),
        help="The server's protocol: the Open Inference Protocol (V2) with binary tensors, with "
        "JSON or over gRPC, or plain JSON. Default: from the address and the server's own answer.",
    )(function)
    return click.option(
        "--server",
        metavar="URL",
        help="Ask the model on this server: http://HOST:PORT, grpc://HOST:PORT/MODEL, or "
        "http://HOST:PORT/PATH for plain JSON.",
    )(function)


def given(values: Mapping[str, Any]) -> dict[str, Any]:
    """The options that were given: the others keep the Request's own defaults."""
    return {name: value for name, value in values.items() if value is not None}


def common(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds ``--json``, ``--quiet`` and ``--debug``, which every command takes."""
    function = click.option(
        "--debug",
        is_flag=True,
        expose_value=False,
        help="Show tracebacks, and what the passes didn't change and why.",
    )(function)
    function = click.option(
        "--quiet", is_flag=True, expose_value=False, help="Show no progress on stderr."
    )(function)
    return click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")(
        function
    )
