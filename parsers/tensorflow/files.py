"""Tells TensorFlow's files apart by their contents, without TensorFlow.

Field numbers are those of saved_model.proto (``SavedModel``), graph.proto (``GraphDef``) and
meta_graph.proto (``MetaGraphDef``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from converter.files.filetypes import varint

SAVED_MODEL = "saved_model"
GRAPH = "graph"
CHECKPOINT = "checkpoint"
WEIGHTS = "weights"
"""Weights alone, which no graph goes with."""

_NAMES = ("saved_model.pb", "saved_model.pbtxt")
_GRAPH_FIELDS = {1: 2, 2: 2, 3: 0, 4: 2, 5: 2}
_META_FIELDS = dict.fromkeys(range(1, 8), 2)
_OPERATOR = re.compile(rb"[A-Za-z_][\w.>]*")
_WEIGHTS = re.compile(r".*\.(index|data-\d{5}-of-\d{5})")
_STATE = re.compile(r'^model_checkpoint_path:\s*"(?P<path>[^"]*)"', re.MULTILINE)


def kind_of(path: Path) -> str:
    """Which of the kinds a file or folder is; empty where it is none.

    Raises:
        OSError: It can't be read.
    """
    if path.is_dir():
        if any((path / name).is_file() for name in _NAMES):
            return SAVED_MODEL
        return "" if not _has_checkpoint(path) else CHECKPOINT if newest_meta(path) else WEIGHTS
    if not path.is_file():
        return ""
    if path.name in _NAMES:
        return SAVED_MODEL
    if path.name == "checkpoint" or _WEIGHTS.fullmatch(path.name):
        return WEIGHTS
    if path.suffix == ".pbtxt":
        return GRAPH if _is_text_graph(path) else ""
    return _binary_kind(path)


def newest_meta(folder: Path) -> Path | None:
    """The .meta file of the checkpoint that a folder's state names, or the only one."""
    state = folder / "checkpoint"
    with suppress(OSError, UnicodeDecodeError):
        match = _STATE.search(state.read_text(encoding="utf-8"))
        if match:
            named = folder / f"{Path(match['path']).name}.meta"
            if named.is_file():
                return named
    found = sorted(folder.glob("*.meta"))
    return found[0] if len(found) == 1 else None


def checkpoint_files(prefix: Path) -> list[Path]:
    """The files of the checkpoint with this prefix, as they are there."""
    found = sorted(prefix.parent.glob(f"{_escaped(prefix.name)}.data-*"))
    index = prefix.with_name(f"{prefix.name}.index")
    if index.is_file():
        return [index, *found]
    return [prefix] if prefix.is_file() else []  # as TensorFlow wrote them before 0.12


def _escaped(name: str) -> str:
    return re.sub(r"([*?[])", r"[\1]", name)


def _has_checkpoint(folder: Path) -> bool:
    return (folder / "checkpoint").is_file() or any(folder.glob("*.meta"))


def _is_text_graph(path: Path) -> bool:
    with path.open("rb") as file:
        return re.match(rb"\s*(#.*\n\s*)*(node|versions|library)\s*\{", file.read(4096)) is not None


def _binary_kind(path: Path) -> str:
    """By the outermost fields and what the first of them holds."""
    with path.open("rb") as file:
        fields = list(_fields(file, path.stat().st_size))
        if not fields or fields[-1] is None:
            return ""
        known = [field for field in fields if field is not None]
        numbers = {(number, wire) for number, wire, _, _ in known}
        if numbers <= _GRAPH_FIELDS.items() and _starts_with_node(file, known):
            return GRAPH
        if numbers <= _META_FIELDS.items() and _holds_graph(file, known):
            return CHECKPOINT
    return ""


Field = tuple[int, int, int, int]
"""Number, wire type, and where it starts and ends in the file."""


def _fields(file: BinaryIO, end: int, start: int = 0) -> Iterator[Field | None]:
    """The fields of a message between two places; None at the end where it is none."""
    file.seek(start)
    while file.tell() < end:
        tag, value = varint(file), varint(file)
        if tag is None or value is None or tag & 7 not in (0, 2):
            yield None
            return
        place = file.tell()
        stop = place + value if tag & 7 == 2 else place
        if stop > end:
            yield None
            return
        yield tag >> 3, tag & 7, place, stop
        file.seek(stop)


def _starts_with_node(file: BinaryIO, fields: list[Field]) -> bool:
    """Whether the first field 1 is a NodeDef: a name, and an operator's name."""
    node = next((field for field in fields if field[0] == 1), None)
    return node is not None and _is_node(file, node)


def _is_node(file: BinaryIO, node: Field) -> bool:
    found: dict[int, bytes] = {}
    for field in _fields(file, node[3], node[2]):
        if field is None:
            return False
        number, wire, start, stop = field
        if wire == 2 and number in (1, 2) and stop - start < 4096:
            found[number] = file.read(stop - start)
    return bool(found.get(1)) and _OPERATOR.fullmatch(found.get(2, b"")) is not None


def _holds_graph(file: BinaryIO, fields: list[Field]) -> bool:
    """Whether field 2 is a GraphDef that starts with a node."""
    graph = next((field for field in fields if field[0] == 2), None)
    if graph is None:
        return False
    inner = list(_fields(file, graph[3], graph[2]))
    whole = [field for field in inner if field is not None]
    return len(whole) == len(inner) and _starts_with_node(file, whole)
