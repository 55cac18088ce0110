"""What a file of PyTorch's holds, from the names in it alone: nothing of it is loaded or run."""

from __future__ import annotations

import os
import pickletools
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

from ...worker.archive import opened

PROGRAM = "an exported program"
TORCHSCRIPT = "TorchScript"
MODULE = "a pickled module"
WEIGHTS = "weights"
DAMAGED = "a zip archive that is damaged or cut short"
MOST_STEPS = 5_000_000
MOST_BYTES = 1 << 28
PADDED = f"a pickle of more than {MOST_STEPS:,} instructions or {MOST_BYTES:,} bytes beside tensors"
BROKEN = (DAMAGED, PADDED)

# torch's old file format is a sequence of this many pickles, followed by raw bytes; the fourth
# is the object.
_LEGACY_PICKLES = 5
_LEGACY_OBJECT = 3
_ZIP = b"PK\x03\x04"
_PICKLE = b"\x80"
# Every torch.nn.Module has this attribute, so its name is in every pickle that holds one.
_ATTRIBUTE = "_modules"
# What a dict of tensors starts with, if it starts with a global at all.
_PLAIN = ("torch._utils.", "torch._tensor.", "torch.storage.", "collections.OrderedDict")
_CONTAINERS = frozenset({"EMPTY_DICT", "EMPTY_LIST", "MARK", "DICT", "LIST"})


# What has its length in front of it, in so many bytes.
_LENGTHS = {
    **dict.fromkeys(("BINBYTES", "BINSTRING", "BINUNICODE", "LONG4"), 4),
    **dict.fromkeys(("BINBYTES8", "BINUNICODE8", "BYTEARRAY8"), 8),
}
_FARTHEST = 1 << 62
_STEPS = {step.code: step for step in pickletools.opcodes}


class PaddedError(ValueError):
    """A pickle that is longer than any of a model."""


class _Bounded:
    """A file of which so much is read."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._left = file, MOST_BYTES

    def read(self, count: int) -> bytes:
        if count > self._left:
            raise PaddedError
        return self._read(self._file.read(count))

    def readline(self) -> bytes:
        return self._read(self._file.readline(self._left + 1))

    def _read(self, data: bytes) -> bytes:
        self._left -= len(data)
        if self._left < 0:
            raise PaddedError
        return data

    def skip(self, count: int) -> None:
        if count > _FARTHEST:
            raise ValueError("no file has this length")
        self._file.seek(count, os.SEEK_CUR)


def steps(file: IO[bytes]) -> Iterator[tuple[str, Any]]:
    """The instructions of the pickle at a file's place, as pickletools.genops has them; of bytes
    nothing but their place is looked at.

    Raises what pickletools does for bytes that are no pickle; PaddedError.
    """
    bounded = _Bounded(file)
    for _ in range(MOST_STEPS):
        step = _STEPS.get(bounded.read(1).decode("latin-1"))
        if step is None:
            raise ValueError("no pickle, or the end of its file")
        value = None
        if step.name in _LENGTHS:
            length = int.from_bytes(bounded.read(_LENGTHS[step.name]), "little")
            if "UNICODE" in step.name:
                value = bounded.read(length).decode("utf-8", "surrogatepass")
            else:
                bounded.skip(length)
        elif step.arg is not None:
            value = step.arg.reader(bounded)  # type: ignore[arg-type]  # it reads alone
        yield step.name, value
        if step.name == "STOP":
            return
    raise PaddedError


class Outline(NamedTuple):
    """The globals that a pickle names, the one that makes its object (if one does), its strings."""

    globals: list[str]
    root: str | None
    strings: list[str]


def _outline(file: IO[bytes]) -> Outline:
    """Read one pickle's instructions; raises as `steps`."""
    names: list[str] = []
    strings: list[str] = []
    root: str | None = None
    contained = False
    for step, value in steps(file):
        if step == "GLOBAL":
            names.append(str(value).replace(" ", "."))
        elif step == "STACK_GLOBAL":
            names.append(".".join(strings[-2:]))
        elif isinstance(value, str):
            strings.append(value)
        contained = contained or (not names and step in _CONTAINERS)
        if names and not contained:
            root = names[0]
    return Outline(names, root, strings)


def outlines(file: IO[bytes]) -> Iterator[Outline]:
    """The pickles at the start of a file, at most as many as torch's old format has. Raises
    PaddedError."""
    for _ in range(_LEGACY_PICKLES):
        try:
            yield _outline(file)
        except PaddedError:
            raise
        # The end of the pickles, or bytes that never were one.
        except (ValueError, EOFError, IndexError, KeyError, UnicodeError):
            return


def _of_pickle(outline: Outline) -> str:
    made = outline.root is not None and not outline.root.startswith(_PLAIN)
    return MODULE if made or _ATTRIBUTE in outline.strings else WEIGHTS


def _walkable(archive: zipfile.ZipFile) -> bool:
    """Whether TorchScript's pickles are whole: torch's reader of them, in C++, makes room for
    whatever length a string says that it has, before it looks for its characters."""
    for name in archive.namelist():
        if name.endswith(("/data.pkl", "/constants.pkl")):
            try:
                with _pickle_in(archive, name) as file:
                    for _ in steps(file):
                        pass
            except PaddedError:
                raise
            except (ValueError, EOFError):
                return False
    return True


def _pickle_in(archive: zipfile.ZipFile, name: str) -> IO[bytes]:
    """A pickle in an archive, whose tensors lie beside it."""
    if archive.getinfo(name).file_size > MOST_BYTES:
        raise PaddedError
    return archive.open(name)


def _of_zip(path: Path) -> str:
    with opened(path) as archive:
        names = archive.namelist()
        # The end that was found is that of an archive within this one, whose own is missing.
        if all(member.header_offset > 0 for member in archive.infolist()):
            return DAMAGED
        if any(n.endswith(("/archive_format", "serialized_exported_program.json")) for n in names):
            return PROGRAM
        if any(n.endswith("/constants.pkl") for n in names) and any("/code/" in n for n in names):
            return TORCHSCRIPT if _walkable(archive) else DAMAGED
        data = [n for n in names if n.endswith("data.pkl") and n.count("/") <= 1]
        if not data:
            return ""
        with _pickle_in(archive, data[0]) as file:
            found = list(outlines(file))
    if found and str(found[0].root).startswith("__torch__"):
        return DAMAGED  # TorchScript without its code or constants: no module has such a name
    return _of_pickle(found[0]) if found else WEIGHTS


def kind_of(path: Path) -> str:
    """One of the kinds above; empty for a file that is none of PyTorch's. Raises OSError."""
    try:
        return _kind_of(path)
    except PaddedError:
        return PADDED


def _kind_of(path: Path) -> str:
    with path.open("rb") as file:
        head = file.read(len(_ZIP))
        if head == _ZIP:
            try:
                return _of_zip(path)
            except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError):
                return DAMAGED
        if not head.startswith(_PICKLE):
            return ""
        file.seek(0)
        found = list(outlines(file))
    if not found:
        return ""
    return _of_pickle(found[_LEGACY_OBJECT] if len(found) > _LEGACY_OBJECT else found[0])
