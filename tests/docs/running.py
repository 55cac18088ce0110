"""Runs a page: its commands, its files, its Python, in a folder of its own, as a reader does.

A page is Markdown. What counts in it:

- a block ``console``: lines of ``$ COMMAND``, each with the output that it has to show below it. A
  command that ends with ``\\`` goes on in the next line; one that ends with ``&`` runs on until the
  page ends, or ``kill %1`` ends it. ``$ echo $?`` shows the exit code of the command before it,
  which must be 0 where no such line is. ``$ export NAME=VALUE`` is for all that follows.
- a block with a title (``python title="net.py"``): that file is written.
- a block ``python`` without a title: it runs.
- a comment ``<!-- run``: a shell script that readers don't see.

:func:`same` says how outputs are compared. Ports from 8000 to 8002 become free ones.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from converter.files.cache_root import cache_root

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]

_BLOCK = re.compile(
    r"^(?:```(?P<kind>\w+)(?P<info>[^\n]*)\n(?P<text>.*?)^```$|<!-- run\n(?P<hidden>.*?)^-->$)",
    re.MULTILINE | re.DOTALL,
)
_TITLE = re.compile(r'title="([^"]+)"')
_NUMBER = re.compile(r"(?<![\w.])-?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?")
_TIME = re.compile(r"\s?(?:ms|s|µs|seconds?|minutes?|per second|requests/s|samples/s|/s)\b")
_SIZE = re.compile(r"\s?(?:bytes|[kMG]i?B)\b")
_TIMED = re.compile(r"p50 ms|per second|\bms\b")
_LINE = re.compile("─{2,}|━{2,}")
_SPEED = re.compile(
    r" (?:(?:about )?(?:as fast|[\d.,]+×(?: faster| slower)?)|about(?: as)?|unsteady|too few runs)$"
)
_SPEED_ON = re.compile(r"(?:as )?fast|(?:[\d.,]+× )?(?:faster|slower)")
_PROGRESS = re.compile(r"^ *✓ \[\d+/\d+\] .*\n", re.MULTILINE)
_CACHED = re.compile(r"^from the cache: .*\n?", re.MULTILINE)
_EXPORT = re.compile(r"export (\w+)=(\S+)")
_PORT = re.compile(r"\b800([0-2])\b")
_WAIT, _QUIET = 300.0, 5.0


@dataclass(frozen=True)
class Block:
    """A part of a page that runs.

    Attributes:
        kind: ``console``, ``python``, another language, or ``hidden``.
        title: The file that it is; empty where it is none.
        text: What stands in it.
        start: Where that begins, in characters from the page's start.
    """

    kind: str
    title: str
    text: str
    start: int


@dataclass
class Command:
    """A command of a ``console`` block, and the output that stands below it."""

    line: str
    expected: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Wrong:
    """A command whose output, or exit code, isn't the page's."""

    block: Block
    command: Command
    said: str
    code: int

    def __str__(self) -> str:
        wanted = "\n".join(self.command.expected)
        return (
            f"$ {self.command.line}\nhas to show\n{wanted}\nand shows\n{self.said}\n({self.code})"
        )


def blocks_of(page: str) -> Iterator[Block]:
    """The blocks of a page's text that count, in order."""
    for found in _BLOCK.finditer(page):
        if found["hidden"] is not None:
            yield Block("hidden", "", found["hidden"], found.start("hidden"))
            continue
        title = _TITLE.search(found["info"])
        kept = "" if title is None else title[1]
        if found["kind"] in ("console", "python") or kept:
            yield Block(found["kind"], kept, found["text"], found.start("text"))


def commands_of(block: Block) -> list[Command]:
    """The commands of a ``console`` block."""
    commands: list[Command] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            commands.append(Command(line[2:]))
        elif commands and commands[-1].line.endswith("\\") and not commands[-1].expected:
            commands[-1].line += f"\n{line}"
        elif commands:
            commands[-1].expected.append(line)
        else:
            raise ValueError(f"{line!r} stands before the first command of a block")
    return commands


def same(expected: Sequence[str], said: str) -> bool:
    """Whether an output is the page's.

    A line ``...`` stands for any lines, ``...`` within a line for any text, and spaces for any
    spaces. Whole numbers are equal. Times are free; so are numbers in a table that has times.
    Sizes may differ by 2%, percentages by 1 point, other fractions by 5%, or by 0.001. What came
    from the cache counts only where the page says it.
    """
    if not any(_CACHED.match(line) for line in expected):
        said = _CACHED.sub("", said)
    pattern = "".join(_line_pattern(line) for line in _squeezed(expected))
    found = re.fullmatch(pattern, "".join(f"{line}\n" for line in _squeezed(said.splitlines())))
    if found is None:
        return False
    numbers = enumerate(_numbers(_squeezed(expected)), 1)
    return all(_near(found[index], *number) for index, number in numbers)


def _squeezed(lines: Sequence[str]) -> list[str]:
    texts = [" ".join(line.split()) for line in lines]
    texts = [text for text in texts if not _SPEED_ON.fullmatch(text)]  # a cell's second line
    while texts and not texts[-1]:
        texts.pop()
    return [_SPEED.sub(" SPEED", _LINE.sub("──", text)) for text in texts]


def _line_pattern(line: str) -> str:
    if line == "...":
        return r"(?:[^\n]*\n)*?"
    pieces = re.split(rf"(\.\.\.|{_NUMBER.pattern})", line)
    texts = [
        r"[^\n]*?" if piece == "..." else f"({_NUMBER.pattern})" if index % 2 else re.escape(piece)
        for index, piece in enumerate(pieces)
    ]
    return "".join(texts) + r"\n"


def _numbers(lines: Sequence[str]) -> Iterator[tuple[str, str, bool]]:
    """The numbers of the lines, what stands behind each, and whether a table of times is there."""
    table = False
    for line in lines:
        table = bool(line) and line != "..." and (table or bool(_TIMED.search(line)))
        for found in _NUMBER.finditer("" if line == "..." else line.replace("...", "\n\n\n")):
            yield found[0], line[found.end() :], table


def _near(given: str, wanted: str, after: str, table: bool) -> bool:
    if _TIME.match(after) or wanted == given:
        return True
    a, b = (float(text.replace(",", "")) for text in (wanted, given))
    if after.startswith("%"):
        return abs(a - b) <= 1
    if _SIZE.match(after):
        return abs(a - b) <= 0.02 * max(abs(a), abs(b))
    if table:
        return True
    fractions = {".", "e"} & {*wanted} and {".", "e"} & {*given}
    return bool(fractions) and abs(a - b) <= max(0.001, 0.05 * max(abs(a), abs(b)))


class Reader:
    """Who follows a page in a folder: commands run there, and end with the reader.

    Its cache is its own, but for what was fetched.

    Args:
        scratch: An empty folder.

    Attributes:
        folder: Where commands run.
    """

    def __init__(self, scratch: Path) -> None:
        self.folder, cache = scratch / "page", scratch / "cache"
        self.folder.mkdir()
        for part in ("packages", "downloads", "zoo", "servers"):
            (cache_root() / part).mkdir(parents=True, exist_ok=True)
            cache.mkdir(exist_ok=True)
            (cache / part).symlink_to(cache_root() / part)
        own = {
            "COLUMNS": "100",
            "DOCS": str(HERE),
            "MODELYARD_CACHE": str(cache),
            "NO_COLOR": "1",
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        }
        self.variables = {**os.environ, **own}
        self.ports = {f"800{index}": str(port) for index, port in enumerate(_free_ports())}
        self.behind: list[subprocess.Popen[bytes]] = []
        self.code = 0

    def __enter__(self) -> Reader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        while self.behind:
            self._end()

    def follow(self, page: str) -> Iterator[Wrong]:
        """Runs a page's blocks in order, and gives what isn't as the page says."""
        for block in blocks_of(page):
            if block.title:
                path = self.folder / block.title
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(self._ours(block.text), encoding="utf-8")
            elif block.kind == "console":
                yield from self._console(block)
            else:
                line = ["bash", "-ec"] if block.kind == "hidden" else [sys.executable, "-c"]
                code, said = self._run([*line, self._ours(block.text)])
                if code:
                    yield Wrong(block, Command(block.text), said, code)

    def _console(self, block: Block) -> Iterator[Wrong]:
        commands = commands_of(block)
        shown = [command.line == "echo $?" for command in [*commands[1:], Command("")]]
        for command, code_shown in zip(commands, shown, strict=True):
            said = self._typed(command)
            wrong_code = self.code != 0 and not code_shown and command.line != "echo $?"
            if wrong_code or (command.expected and not same(command.expected, said)):
                yield Wrong(block, command, said, self.code)

    def _typed(self, command: Command) -> str:
        if command.line == "echo $?":
            return str(self.code)
        if command.line == "kill %1":
            self.code = self._end()
            return ""
        if found := _EXPORT.fullmatch(command.line):
            _, value = self._run(["bash", "-c", f"printf %s {found[2]}"])
            self.variables[found[1]] = value.replace("/home/you", str(self.folder))
            return ""
        if command.line.endswith("&"):
            self.code = 0
            return self._started(command)
        self.code, said = self._run(["bash", "-c", self._ours(command.line)])
        return said

    def _run(self, line: Sequence[str]) -> tuple[int, str]:
        """What it says on standard output, and on standard error too where it fails."""
        done = subprocess.run(
            line, cwd=self.folder, env=self.variables, capture_output=True, text=True, check=False
        )
        complaint = _PROGRESS.sub("", done.stderr) if done.returncode else ""
        return done.returncode, self._theirs(done.stdout + complaint)

    def _started(self, command: Command) -> str:
        """Starts what runs on; waits until it has said what the page says, or something and then
        nothing more for a while, or has ended."""
        log = self.folder / f".behind-{len(self.behind)}"
        words = shlex.split(self._ours(command.line.removesuffix("&")))
        with log.open("wb") as out, log.with_suffix(".err").open("wb") as err:
            process = subprocess.Popen(
                words, cwd=self.folder, env=self.variables, stdout=out, stderr=err
            )
        self.behind.append(process)
        said, since, until = "", time.monotonic(), time.monotonic() + _WAIT
        while process.poll() is None and time.monotonic() < until:
            last, said = said, self._theirs(log.read_text())
            if said != last:
                since = time.monotonic()
            if same(command.expected, said) or (said and time.monotonic() > since + _QUIET):
                return said
            time.sleep(0.2)
        self.code = process.poll() or 0
        return self._theirs(log.read_text() + log.with_suffix(".err").read_text())

    def _end(self) -> int:
        process = self.behind.pop()
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        code = process.wait(timeout=60)
        return 0 if code == -signal.SIGTERM else code

    def _ours(self, text: str) -> str:
        return _PORT.sub(lambda found: self.ports[found[0]], text)

    def _theirs(self, text: str) -> str:
        for page, port in self.ports.items():
            text = text.replace(port, page)
        return text.replace(str(self.folder), "/home/you")


def _free_ports() -> list[int]:
    """Three ports in a row that nothing listens on."""
    for _ in range(50):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            first = int(probe.getsockname()[1])
        ports = [first, first + 1, first + 2]
        if first < 65000 and all(map(_is_free, ports)):
            return ports
    raise OSError("there are no three free ports in a row")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


def written_anew(page: str, wrong: Sequence[Wrong]) -> str:
    """The page with the outputs that were seen in place of those that aren't the page's."""
    for item in reversed(wrong):
        if item.block.kind != "console":
            continue
        start, end = item.block.start, item.block.start + len(item.block.text)
        head = f"$ {item.command.line}\n"
        old = head + "".join(f"{line}\n" for line in item.command.expected)
        kept = "\n".join(line.rstrip() for line in item.said.strip("\n").splitlines())
        new = page[start:end].replace(old, f"{head}{kept}\n" if kept else head, 1)
        page = page[:start] + new + page[end:]
    return page
