"""The page of all options: ``python -m converter.cli.reference > docs/options.md``."""

from __future__ import annotations

from converter.options.request import Request, all_fields, option_of
from converter.options.values import values_of

_HEAD = """# Options

All of them, as `modelyard convert` takes them; other commands take those that mean something to
them, spelled the same and with the same default. A recipe's keys are the options' names without
`--`, or the names in the last column, with dashes or underscores.
Written by `python -m converter.cli.reference`.
"""


def options_page() -> str:
    """Markdown: a table of options for each heading of the help."""
    sections: dict[str, list[str]] = {}
    for item in all_fields():
        if "option" not in item.metadata:
            continue
        option = option_of(item.name)
        value = Request("").value(item.name)
        spelled = f"{' '.join(option.flags)} {option.metavar or ''}".strip().replace("|", "\\|")
        text = option.help.replace("|", "\\|")
        if values := values_of(option):
            text += f" One of {', '.join(values)}."
        cells = (f"`{spelled}`", text, _default(value), f"`{item.name}`")
        sections.setdefault(option.group, []).append(f"| {' | '.join(cells)} |")
    head = "| option | does | default | recipe |\n|---|---|---|---|\n"
    tables = (f"## {name}\n\n{head}" + "\n".join(rows) for name, rows in sections.items())
    return _HEAD + "\n" + "\n\n".join(tables) + "\n"


def _default(value: object) -> str:
    if value is None or value is False or value in ([], {}):
        return ""
    if value is True:
        return "yes"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


if __name__ == "__main__":
    print(options_page(), end="")
