"""``python -m tests.docs.style``: what docs/style.md says, as far as a program sees it.

It looks for words that only we use in our sense, and for sentences of more than :data:`LONGEST`
words: in README, docs, the help of commands and options, the kinds of errors, and the texts that
errors and refusals are made with.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from converter.cli import COMMANDS, cli
from converter.commands.explain import kinds

ROOT = Path(__file__).resolve().parents[2]
LONGEST = 35
"""Words of a sentence: style.md's 25, and room for lists and names."""

PRIVATE = (
    *("hangs on", "hang on", "settled", "settles", "is told", "are told", "told by", "counted in"),
    *("is held to", "are held to", "is turned", "lead over", "leads over", "in which case"),
)
_WORDS = re.compile(rf"\b({'|'.join(PRIVATE)})\b", re.IGNORECASE)

LISTS = {"options", "arguments"}
"""Pages of docs/ that are mostly lists: the help of commands is looked at by itself."""


PACKAGES = ("converter", "emitters", "modelyard", "parsers", "zoo")

_ERRORS = re.compile(
    r"\w*Error|Refused|Refusal|Unsupported|Misfit|Unsaid|from_user_code|untranslated"
)
"""What is called with texts that people read."""


def texts() -> Iterator[tuple[str, str]]:
    """Where people read, and what they read there."""
    top = (ROOT / f"{name}.md" for name in ("README", "ARCHITECTURE", "CONTRIBUTING", "SECURITY"))
    for path in (*top, *sorted((ROOT / "docs").rglob("*.md"))):
        name = path.relative_to(ROOT).as_posix()
        if path.name == "style.md" or name.startswith("docs/servers/"):
            continue
        if path.parent.name != "docs" or path.stem not in LISTS:
            yield name, path.read_text("utf-8")
    for name in COMMANDS:
        yield from _help(name, cli.get_command(click.Context(cli), name))
    for kind in kinds().values():
        yield f"converter/errors.yaml, {kind.code}", f"{kind.means} {kind.causes} {kind.do}"
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            yield from _messages(path)


def _messages(path: Path) -> Iterator[tuple[str, str]]:
    """The texts in calls of errors, with ``x`` for what is put in."""
    for call in ast.walk(ast.parse(path.read_text("utf-8"))):
        name = ast.unparse(call.func).rpartition(".")[2] if isinstance(call, ast.Call) else ""
        if _ERRORS.fullmatch(name):
            for node in ast.walk(call):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield f"{path.relative_to(ROOT)}:{node.lineno}", node.value
                elif isinstance(node, ast.JoinedStr):
                    parts = [p.value if isinstance(p, ast.Constant) else "x" for p in node.values]
                    yield f"{path.relative_to(ROOT)}:{node.lineno}", "".join(map(str, parts))


def _help(name: str, command: click.Command | None) -> Iterator[tuple[str, str]]:
    assert command is not None
    yield f"modelyard {name}", (command.help or "").replace("\b", "").partition("\n\nmodelyard ")[0]
    if isinstance(command, click.Group):
        for more, sub in command.commands.items():
            yield from _help(f"{name} {more}", sub)
    for item in command.params:
        if isinstance(item, click.Option):
            yield f"modelyard {name} {item.opts[0]}", item.help or ""


def sentences(text: str) -> Iterator[str]:
    """Of Markdown: what isn't code, a table, a heading or a comment, a list's items apart."""
    text = re.sub(r"```.*?```|<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r"^(\||#|    ).*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"`[^`]*`", "x", text)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    for paragraph in re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )", text):
        yield from re.split(r"(?<=[.!?:;])\s+", " ".join(paragraph.split()))


def wrong(text: str) -> Iterator[str]:
    """What of a text style.md rules out."""
    for sentence in sentences(text):
        if found := _WORDS.search(sentence):
            yield f"{found[0]!r} in: {sentence}"
        if (count := len(sentence.split())) > LONGEST:
            yield f"{count} words: {sentence}"


def main() -> int:
    """Prints what is wrong; 1 where anything is."""
    found = [f"{where}: {said}" for where, text in texts() for said in wrong(text)]
    print("\n".join(found), end="\n" if found else "")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
