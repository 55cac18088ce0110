"""The site's pages that are made of the code: one a command, and a recipe's keys.

docs/options.md, with all options in one page, is :mod:`converter.cli.reference`'s.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

import click

from converter.cli import COMMANDS, cli
from converter.options.recipe_schema import recipe_schema

_INDEX = "# Commands\n\n| command | does |\n|---|---|\n"
_RECIPE = """# Recipes' keys

A recipe is a YAML file for `modelyard run`: [Recipes](../recipes.md). This page lists its keys.
[recipe.schema.json](../recipe.schema.json) is the same as a JSON schema. Editors complete and check
recipes with it. For editors that use the YAML language server, put this line first, with the path
of your copy:

```yaml
# yaml-language-server: $schema=recipe.schema.json
```

Dashes and underscores are the same in keys.

| key | is | of type |
|---|---|---|
"""
_WORDS = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "true or false",
    "array": "list",
    "object": "mapping",
}


def pages() -> dict[str, str]:
    """Markdown by the page's path in the site."""
    commands = {name: cli.get_command(click.Context(cli), name) for name in COMMANDS}
    listed = [f"| [{name}]({name}.md) | {does} |\n" for name, does in COMMANDS.items()]
    return {
        "reference/commands/index.md": _INDEX + "".join(listed),
        **{
            f"reference/commands/{name}.md": "\n".join(_command(f"modelyard {name}", command))
            for name, command in commands.items()
            if command is not None
        },
        "reference/recipe.md": _RECIPE + "".join(_keys()),
    }


def _command(name: str, command: click.Command, level: int = 1) -> Iterator[str]:
    """A command's heading, usage, help and options; then its own commands."""
    context = click.Context(command, info_name=name, **cli.context_settings)
    yield f"{'#' * level} {name}\n"
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        if paragraph.startswith("\b\n"):
            yield f"```\n{paragraph.removeprefix(chr(8)).strip()}\n```\n"
        else:
            yield f"{paragraph}\n"
    usage = " ".join(command.collect_usage_pieces(context))
    yield f"```\n{name} {usage}\n```\n"
    groups: dict[str, list[str]] = {}
    for param in command.get_params(context):
        record = param.get_help_record(context) if isinstance(param, click.Option) else None
        if record:
            cells = (f"`{record[0]}`", record[1])
            row = " | ".join(cell.replace("|", "\\|") for cell in cells)
            groups.setdefault(getattr(param, "group", "Options"), []).append(f"| {row} |")
    for group, rows in groups.items():
        yield f"{'#' * (level + 1)} {group}\n\n| option | does |\n|---|---|"
        yield "\n".join(rows) + "\n"
    if isinstance(command, click.Group):
        for own in command.list_commands(context):
            found = command.get_command(context, own)
            if found is not None:
                yield from _command(f"{name} {own}", found, level + 1)


def _keys() -> Iterator[str]:
    for name, schema in recipe_schema()["properties"].items():
        text = schema.get("description", "").replace("|", "\\|")
        yield f"| `{name}` | {text} | {_kind(schema)} |\n"


def _kind(schema: Mapping[str, Any]) -> str:
    """The types of a value in words: ``text, list``."""
    kinds = {*schema.get("anyOf", [schema])[0].get("type", ())}
    if isinstance(schema.get("type"), str):
        kinds = {schema["type"]}
    if "string" in kinds:
        kinds -= {"integer", "number"}
    return ", ".join(word for kind, word in _WORDS.items() if kind in kinds)
