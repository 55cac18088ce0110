"""The kinds of errors that a user can meet, by their codes: ``converter/errors.yaml``, in words.

    python -m converter.commands.explain docs

writes the page that lists them, docs/reference/errors.md.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path

from converter.errors import UsageError

PAGE = "reference/errors.md"

_HEAD = """# Errors

Written by `python -m converter.commands.explain docs`.

An error's line begins with its code: `error[file-not-found]: ...`. With `--json`, the code is the
key `code`. In Python, it is the attribute `code` of a `ModelyardError`. `modelyard explain CODE`
prints the same as this page.
[Troubleshooting](../guides/troubleshooting.md) shows the most frequent errors with their commands.

<!-- run
bash $DOCS/errors.sh
-->
"""

_EXITS = {
    1: "a bug",
    2: "the command, or a file that it names",
    3: "the model",
    4: "a gate was missed",
    5: "a package or a device is missing",
    6: "the machine",
}


@dataclass(frozen=True)
class Kind:
    """One kind of error.

    Attributes:
        code: Its name: ``file-not-found``.
        exit: The exit codes that errors of this kind have, the usual one first.
        means: What is wrong, in a sentence.
        causes: What usually causes it.
        do: What to do about it.
        run: A command that ends with such an error; empty where there is none to try.
        shows: What that command prints.
    """

    code: str
    exit: tuple[int, ...]
    means: str
    causes: str
    do: str
    run: str = ""
    shows: str = ""

    def text(self) -> str:
        """All of it, for a terminal."""
        codes = " or ".join(map(str, sorted(self.exit)))
        parts = [f"{self.code} (exit code {codes})", self.means, f"Usual causes: {self.causes}"]
        example = f"$ {self.run}\n{self.shows}".rstrip()
        return "\n\n".join([*parts, f"What to do: {self.do}", *([example] if self.shows else [])])

    def section(self) -> str:
        """All of it, for the page."""
        codes = " or ".join(map(str, sorted(self.exit)))
        example = f"```console\n$ {self.run}\n{self.shows.rstrip()}\n$ echo $?\n{self.exit[0]}\n```"
        parts = [
            f"### {self.code}",
            f"{self.means} Exit code {codes}.",
            f"**Usual causes.** {self.causes}",
            f"**What to do.** {self.do}",
        ]
        return "\n\n".join([*parts, *([example] if self.shows else [])])


@cache
def kinds() -> dict[str, Kind]:
    """Every kind, by its code, in the order of the page."""
    import yaml

    text = Path(__file__).parents[1].joinpath("errors.yaml").read_text(encoding="utf-8")
    found = yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return {code: Kind(code, tuple(known.pop("exit")), **known) for code, known in found.items()}


def kind_of(code: str) -> Kind:
    """The kind of a code.

    Raises:
        UsageError: There is no such code.
    """
    if code in kinds():
        return kinds()[code]
    near = get_close_matches(code, kinds(), 3)
    hint = f"Did you mean {' or '.join(near)}? " if near else ""
    raise UsageError(
        f"there is no error code {code!r}",
        code="unknown-name",
        hint=f"{hint}modelyard explain lists all of them.",
    )


def page() -> str:
    """The page's text."""
    parts = [_HEAD.rstrip()]
    for number, title in _EXITS.items():
        parts.append(f"## {number}: {title}")
        parts += [kind.section() for kind in kinds().values() if kind.exit[0] == number]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    Path(sys.argv[1], PAGE).write_text(page(), encoding="utf-8")
