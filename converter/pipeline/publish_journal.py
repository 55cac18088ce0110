"""What a run adds to repositories before its output is in place, so that it can be taken back.

A run that is killed in between leaves a version that no output goes with. The run writes down what
it is about to add, in the folder that it works in; the next run for that output takes back what is
still exactly that, and then adds its own.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from converter.errors import ModelyardError
from converter.files.digest import file_digest
from converter.files.locked import REPOSITORY_PREFIX, locked_folder
from converter.files.object_store import ObjectStore

JOURNAL = "published.jsonl"


class Journal:
    """What a run adds, in a file.

    Args:
        file: Where that is.
    """

    def __init__(self, file: Path) -> None:
        self._file = file

    def announce(self, made: Path, target: Path | str, aside: Path) -> None:
        """Writes down that the folder ``made`` is about to be renamed to ``target``, or copied
        there where that is a URL.

        Args:
            made: The folder, complete.
            target: Its place in the repository.
            aside: A folder of the same file system in which no server looks for models; of a URL,
                the file of ``made`` that is written last.

        Raises:
            OSError: It can't be written: then nothing may be added.
        """
        record: dict[str, Any] = {"files": _sums(made)}
        if isinstance(target, Path):
            state = made.stat()
            record |= {"inode": [state.st_dev, state.st_ino]}
            record |= {"target": str(target.absolute()), "aside": str(aside.absolute())}
        else:
            record |= {"url": target, "last": aside.as_posix()}
        with self._file.open("a") as file:
            file.write(json.dumps(record) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def take_back(self) -> list[str]:
        """Removes from repositories what was announced and is there as it was made; gives what
        isn't as it was any more, and so stays."""
        kept = []
        for record in reversed(self._records()):
            if "url" in record:
                kept += _take_back_stored(record)
                continue
            target = Path(record["target"])
            try:
                state = target.stat(follow_symlinks=False)
                if [state.st_dev, state.st_ino] != record["inode"]:
                    continue  # another's, under that name
                if _sums(target) != record["files"]:
                    kept.append(str(target))
                    continue
                with locked_folder(Path(record["aside"]), REPOSITORY_PREFIX) as folder:
                    target.rename(folder / "content")
            except FileNotFoundError:
                continue  # it never got there, or is gone
            except OSError:
                kept.append(str(target))
        self._file.unlink(missing_ok=True)
        return kept

    def _records(self) -> list[dict[str, Any]]:
        records = []
        with suppress(FileNotFoundError):
            for line in self._file.read_text().splitlines():
                with suppress(ValueError):  # cut short: what it announces was not done
                    records.append(json.loads(line))
        return records


def _take_back_stored(record: dict[str, Any]) -> list[str]:
    """Deletes from an object store what was announced and is there as it was made."""
    above, _, name = record["url"].rpartition("/")
    try:
        store = ObjectStore(above)
        there = {item.removeprefix(f"{name}/"): item for item in store.names(name)}
        if any(store.digest(item) != record["files"].get(n) for n, item in there.items()):
            return [record["url"]]
        for item in sorted(there, key=lambda item: item != record["last"]):
            store.delete(there[item])
    except ModelyardError:
        return [record["url"]]
    return []


def _sums(folder: Path) -> dict[str, str]:
    """The sha256 of all files in a folder, by their paths in it."""
    files = (path for path in sorted(folder.rglob("*")) if not path.is_dir())
    return {path.relative_to(folder).as_posix(): file_digest(path) for path in files}
