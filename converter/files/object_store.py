"""Folders in object stores, over fsspec: ``s3://bucket/models``, ``gs://bucket/models``.

An object store has names and contents, and neither folders nor a rename. One object appears whole,
when its upload ends. What fsspec's drivers take from their environment (credentials, the address
of a server that isn't the provider's own) is their documentation's.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit
from uuid import uuid4

from converter.errors import DependencyError, MachineError, ModelyardError, UsageError

EXTRAS = {"s3": "s3", "s3a": "s3"}
"""The install extra of ours that brings a protocol's driver."""

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")
_QUICK: dict[str, Any] = {
    "config_kwargs": {"connect_timeout": 3, "retries": {"max_attempts": 3, "mode": "standard"}}
}
"""How s3fs asks, so that a store that is away is known to be within a minute."""

_TIMES = ("LastModified", "mtime", "last_modified")
"""What drivers call the time of a listed object."""

_CLIENTS = ("botocore", "aiobotocore", "aiohttp", "gcsfs", "google", "fsspec", "adlfs", "azure")
"""The packages whose exceptions say that a store refuses, or can't be reached."""


def local_path(place: str | Path) -> Path | None:
    """The folder of this machine that a place is: a path, or a ``file://`` URL; None of others.

    Raises:
        UsageError: A ``file://`` URL that names another machine.
    """
    found = _URL.match(str(place))
    if found is None:
        return Path(place)
    if found[1].lower() != "file":
        return None
    parts = urlsplit(str(place))
    if parts.netloc not in ("", "localhost"):
        raise UsageError(
            f"{place} names a folder of {parts.netloc}",
            code="option-value",
            hint="Write file:///FOLDER.",
        )
    return Path(unquote(parts.path))


class ObjectStore:
    """The objects below a URL, by their names in it: ``net/1/model.onnx``.

    Args:
        url: Of a protocol that fsspec knows.

    Raises:
        DependencyError: The protocol's driver isn't installed.
        UsageError: fsspec doesn't know the protocol, or the URL names no bucket.
    """

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        protocol, _, path = url.partition("://")
        protocol = protocol.lower()
        if not path.strip("/"):
            raise UsageError(
                f"{url} names no bucket",
                code="option-value",
                hint=f"Write {protocol}://BUCKET/FOLDER.",
            )
        try:
            import fsspec

            kind = fsspec.get_filesystem_class(protocol)
        except ImportError as error:
            raise _missing(protocol, url, str(error)) from error
        except ValueError as error:
            raise UsageError(
                f"{url}: fsspec knows no protocol {protocol}", code="option-value"
            ) from error
        self._local = protocol == "file"
        how = (
            {"auto_mkdir": True} if self._local else _QUICK if EXTRAS.get(protocol) == "s3" else {}
        )
        with self._asking("opening"):
            self._files: Any = kind(use_listings_cache=False, skip_instance_cache=True, **how)
        self._root = str(kind._strip_protocol(self.url)).rstrip("/")

    def at(self, name: str) -> str:
        """The URL of an object."""
        return f"{self.url}/{name}"

    def has(self, name: str) -> bool:
        """Whether there is such an object."""
        with self._asking("looking for", name):
            try:  # isfile of fsspec's takes every error for a no
                return bool(self._files.info(self._path(name))["type"] == "file")
            except FileNotFoundError:
                return False

    def names(self, folder: str = "") -> dict[str, int]:
        """All objects below a folder, by their names in the store: their bytes.

        Names that lead out of a folder (``..``) are left out.
        """
        with self._asking("listing", folder):
            try:
                found = self._files.find(self._path(folder), detail=True)
            except FileNotFoundError:
                found = {}
        sizes = {  # a server may list a folder that is empty by now
            key.removeprefix(f"{self._root}/"): int(item["size"])
            for key, item in found.items()
            if item["type"] == "file"
        }
        return {n: size for n, size in sizes.items() if ".." not in PurePosixPath(n).parts}

    def folders(self) -> list[str]:
        """The names of the folders that lie in the store and no deeper."""
        return [name for name, item in self._top().items() if item["type"] == "directory"]

    def times(self) -> dict[str, float]:
        """When the objects that lie in the store and no deeper were last written, in seconds by
        the store's clock: what one listing says."""
        found = {}
        for name, item in self._top().items():
            if item["type"] == "file":
                known = next((item[key] for key in _TIMES if key in item), None)
                if isinstance(known, datetime):
                    known = known.timestamp()
                written = known if isinstance(known, float) else self.modified(name)
                if written is not None:
                    found[name] = written
        return found

    def _top(self) -> dict[str, dict[str, Any]]:
        with self._asking("listing"):
            try:
                found = self._files.ls(self._root, detail=True)
            except FileNotFoundError:
                found = []
        return {item["name"].rstrip("/").rpartition("/")[2]: item for item in found}

    def read(self, name: str) -> bytes | None:
        """An object's contents; None where there is none."""
        with self._asking("reading", name):
            try:
                return bytes(self._files.cat_file(self._path(name)))
            except FileNotFoundError:
                return None

    def write(self, name: str, data: bytes) -> None:
        """Makes an object, or replaces it."""
        with self._asking("writing", name), self._whole(name) as path:
            self._files.pipe_file(path, data)

    def put(self, file: Path, name: str) -> None:
        """Makes an object of a file."""
        with self._asking("writing", name), self._whole(name) as path:
            self._files.put_file(str(file), path)

    def fetch(self, name: str, file: Path) -> bool:
        """Copies an object into a file; False where there is none."""
        with self._asking("reading", name):
            try:
                self._files.get_file(self._path(name), str(file))
            except FileNotFoundError:
                return False
        return True

    def copy(self, source: str, target: str) -> None:
        """Has the store copy an object."""
        with self._asking("writing", target):
            self._files.cp_file(self._path(source), self._path(target))

    def delete(self, name: str) -> None:
        """Deletes an object; one that is gone already is none."""
        with self._asking("deleting", name), suppress(FileNotFoundError):
            self._files.rm_file(self._path(name))

    def modified(self, name: str) -> float | None:
        """When an object was last written, in seconds by the store's clock; None without one."""
        with self._asking("looking for", name):
            try:
                return float(self._files.modified(self._path(name)).timestamp())
            except FileNotFoundError:
                return None

    def outline(self, folder: str, into: Path) -> Path:
        """Makes a local folder like one of the store, with the files that lie right in it; of those
        that lie deeper, the folders in it alone; gives the local folder."""
        made = into / folder
        for name in self.names(folder):
            first, *deeper = name.removeprefix(f"{folder}/").split("/")
            made.mkdir(exist_ok=True)
            if deeper:
                (made / first).mkdir(exist_ok=True)
            else:
                self.fetch(name, made / first)
        return made

    def digest(self, name: str) -> str | None:
        """The sha256 of an object, which is read whole; None where there is none."""
        with self._asking("reading", name):
            try:
                with self._files.open(self._path(name), "rb") as stream:
                    whole = hashlib.sha256()
                    while piece := stream.read(1 << 20):
                        whole.update(piece)
                    return whole.hexdigest()
            except FileNotFoundError:
                return None

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}" if name else self._root

    @contextmanager
    def _whole(self, name: str) -> Iterator[str]:
        """Where to write an object, so that it appears whole: stores see to that themselves, but
        for a folder of this machine."""
        path = self._path(name)
        if not self._local:
            yield path
            return
        part = Path(f"{path}.{uuid4().hex}.part")
        try:
            yield str(part)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)

    @contextmanager
    def _asking(self, doing: str, name: str = "") -> Iterator[None]:
        """Makes an error of the user's of what the driver raises."""
        try:
            yield
        except ModelyardError:
            raise
        except Exception as error:
            told = type(error).__module__.split(".")[0] in _CLIENTS
            if not told and not isinstance(error, (OSError, TimeoutError)):
                raise
            wrong = isinstance(error, (PermissionError, FileNotFoundError))
            kind = UsageError if wrong else MachineError
            said = str(error) or type(error).__name__
            raise kind(
                f"{doing} {self.at(name) if name else self.url}: {said}",
                code="store-failed",
                hint="Check the address and the credentials that the driver finds in the "
                "environment.",
            ) from error


def _missing(protocol: str, url: str, said: str) -> DependencyError:
    """What to install for a protocol's driver."""
    from converter.plugins.extras import install_line

    extra = EXTRAS.get(protocol)
    hint = install_line(extra) if extra else said  # fsspec names the package
    return DependencyError(
        f"{url} needs fsspec's driver for {protocol}", code="package-missing", hint=hint
    )
