"""A folder as one tar in parts, for whoever can carry only so much at a time."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO


class Parts(io.RawIOBase):
    """A file to write, in parts ``<stem>.000``, ``<stem>.001``... of ``size`` bytes each."""

    def __init__(self, folder: Path, stem: str, size: int) -> None:
        super().__init__()
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._stem, self._size = folder, stem, size
        self._count, self._room = 0, 0
        self._file: IO[bytes] | None = None

    def writable(self) -> bool:
        """Always."""
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override] # tarfile gives bytes
        """Writes all of ``data``, into as many parts as it takes."""
        rest = memoryview(data)
        while rest:
            file = self._with_room()
            piece = rest[: self._room]
            file.write(piece)
            self._room -= len(piece)
            rest = rest[len(piece) :]
        return len(data)

    def _with_room(self) -> IO[bytes]:
        if self._file is None or not self._room:
            if self._file:
                self._file.close()
            path = self._folder / f"{self._stem}.{self._count:03}"
            self._file, self._room = path.open("wb"), self._size
            self._count += 1
        return self._file

    def close(self) -> None:
        """Ends the last part."""
        if self._file:
            self._file.close()
        super().close()


def pack(folder: Path, files: Sequence[Path], size: int) -> Path:
    """Writes ``files``, under their names in ``folder``, as ``<folder>/parts/gpu.tar.NNN``.

    The bytes depend on the files alone. Nothing is compressed: wheels are, and weights can't be.
    """
    parts = Parts(folder / "parts", "gpu.tar", size)
    with parts, tarfile.open(fileobj=parts, mode="w|") as archive:
        for path in files:
            entry = tarfile.TarInfo(str(path.relative_to(folder)))
            entry.size = path.stat().st_size
            with path.open("rb") as file:
                archive.addfile(entry, file)
    return folder / "parts"
