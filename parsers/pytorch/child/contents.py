"""What a file of PyTorch's holds, from the names in it alone: nothing of it is loaded or run."""

from __future__ import annotations

import pickletools
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

PROGRAM = "an exported program"
TORCHSCRIPT = "TorchScript"
MODULE = "a pickled module"
WEIGHTS = "weights"
DAMAGED = "a zip archive that is damaged or cut short"

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


class Outline(NamedTuple):
    """The globals that a pickle names, the one that makes its object (if one does), its strings."""

    globals: list[str]
    root: str | None
    strings: list[str]


def _outline(file: BinaryIO) -> Outline:
    """Read one pickle's opcodes; raises what pickletools does for bytes that are none."""
    names: list[str] = []
    strings: list[str] = []
    root: str | None = None
    contained = False
    for code, value, _place in pickletools.genops(file):
        if code.name == "GLOBAL":
            names.append(str(value).replace(" ", "."))
        elif code.name == "STACK_GLOBAL":
            names.append(".".join(strings[-2:]))
        elif isinstance(value, str):
            strings.append(value)
        contained = contained or (not names and code.name in _CONTAINERS)
        if names and not contained:
            root = names[0]
    return Outline(names, root, strings)


def outlines(file: BinaryIO) -> Iterator[Outline]:
    """The pickles at the start of a file, at most as many as torch's old format has."""
    for _ in range(_LEGACY_PICKLES):
        try:
            yield _outline(file)
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
                with archive.open(name) as file:
                    for _ in pickletools.genops(file):
                        pass
            except (ValueError, EOFError):
                return False
    return True


def _of_zip(path: Path) -> str:
    with zipfile.ZipFile(path) as archive:
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
        with archive.open(data[0]) as file:
            found = list(outlines(file))  # type: ignore[arg-type]  # IO[bytes] will do
    if found and str(found[0].root).startswith("__torch__"):
        return DAMAGED  # TorchScript without its code or constants: no module has such a name
    return _of_pickle(found[0]) if found else WEIGHTS


def kind_of(path: Path) -> str:
    """One of the kinds above; empty for a file that is none of PyTorch's. Raises OSError."""
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
