"""Puts other settings into a package, and what was measured into the report of its output."""

from __future__ import annotations

import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pydantic import ValidationError

from converter.errors import UsageError
from converter.files.digest import file_digest
from converter.files.output_guard import NAME, REPORT, listed, strange
from converter.pipeline.folders import output_above
from converter.pipeline.manifest import FileRecord, Manifest, write_manifest
from converter.pipeline.staging import Staging
from converter.protocols.server import Turned
from converter.report.files import write_report
from converter.report.json_ import read_report
from converter.report.model import Report, TuningReport

_README, _HEADING = "README.md", "## Tuned"


class Place(ABC):
    """Where packages lie whose settings are about to change."""

    @abstractmethod
    def record(self, package: Path, tuning: TuningReport, turned: Turned | None) -> list[str]:
        """Writes what was measured, and the settings of a package; gives the files' paths.

        Args:
            package: Its folder.
            tuning: What was measured.
            turned: The package at other settings; None leaves it as it is.

        Raises:
            UsageError: It was changed while it was measured.
            MachineError: The disk is full. What was there is there.
        """


class Alone(Place):
    """Packages outside of an output: there is no report, and no manifest."""

    def __init__(self, packages: Sequence[Path]) -> None:
        self._before = _digests(packages)

    def record(self, package: Path, tuning: TuningReport, turned: Turned | None) -> list[str]:
        if turned is None:
            return []
        if self._before != _digests(list(self._before)):
            raise UsageError(
                f"{package} was changed during the measurement, so its settings stay as they are",
                code="output-busy",
            )
        files = {**turned.files, package / _README: _noted(package, tuning)}
        for path, text in files.items():
            if text:
                write_over(path, text)
        return [str(path) for path, text in files.items() if text]


def _digests(packages: Sequence[Path]) -> dict[Path, str]:
    return {folder: file_digest(folder) for folder in packages}


class InOutput(Place):
    """Packages in an output folder, which is replaced as a whole."""

    def __init__(self, root: Path, staging: Staging) -> None:
        self._root, self._staging = root, staging
        self._before = file_digest(root / NAME)
        try:
            self._manifest = Manifest.model_validate_json((root / NAME).read_bytes())
            self._report = read_report(root / "report.json")
        except (OSError, ValidationError) as error:
            raise UsageError(
                f"the report in {root} is missing, or was written by another version of Modelyard",
                code="not-an-artifact",
                hint="Convert the model again, or copy the package to another folder and tune "
                "the copy.",
            ) from error

    def record(self, package: Path, tuning: TuningReport, turned: Turned | None) -> list[str]:
        if file_digest(self._root / NAME) != self._before:
            raise UsageError(
                f"{self._root} was changed during the measurement, so its settings stay as "
                "they are",
                code="output-busy",
            )
        made = self._staging.folder
        shutil.copytree(self._root, made, copy_function=_linked, dirs_exist_ok=True)
        files = {**turned.files, package / _README: _noted(package, tuning)} if turned else {}
        changed = [path.resolve().relative_to(self._root) for path, text in files.items() if text]
        for path, text in files.items():
            if text:
                write_over(made / path.resolve().relative_to(self._root), text)
        report = self._told(tuning, turned)
        for name in (*REPORT, NAME):
            (made / name).unlink()  # a link to that of the output
        write_report(report, made)
        write_manifest(self._recorded(report, [path.as_posix() for path in changed]), made)
        self._staging.commit()
        return [str(self._root / path) for path in changed]

    def _told(self, tuning: TuningReport, turned: Turned | None) -> Report:
        report = self._report
        others = [item for item in report.tuning if item.package != tuning.package]
        report = report.model_copy(update={"tuning": [*others, tuning]})
        for item in report.packages:
            if turned is not None and item.path == tuning.package:
                item.details = {**item.details, **turned.details, "tuned": dict(tuning.values)}
        return report

    def _recorded(self, report: Report, changed: Sequence[str]) -> Manifest:
        """The manifest with what the report says now, and what the files that changed are."""
        made, manifest = self._staging.folder, self._manifest
        files = [FileRecord.of(made / item.path, item.path) if item.path in changed else item
                 for item in manifest.files]  # fmt: skip
        details = {item.path: item.details for item in report.packages}
        packages = [item.model_copy(update={"details": details.get(item.path, item.details)})
                    for item in manifest.packages]  # fmt: skip
        own = [FileRecord.of(made / name, name) for name in REPORT]
        measured = manifest.measured.model_copy(update={"files": own, "seal": ""})
        return manifest.model_copy(
            update={"files": files, "packages": packages, "measured": measured}
        )


@contextmanager
def place_of(packages: Sequence[Path]) -> Iterator[Place]:
    """Where packages lie, held until they are written.

    Raises:
        UsageError: Their output was edited, or another run writes to it.
    """
    root = output_above(packages[0])
    if root is None:
        yield Alone(packages)
        return
    root = root.resolve()
    if found := strange(root):
        raise UsageError(
            f"{root} holds files that Modelyard didn't make, or that were changed since: "
            f"{listed(found)}",
            code="output-in-the-way",
            hint="Copy the package to another folder, and tune the copy.",
        )
    with Staging(root, overwrite=True) as staging:
        yield InOutput(root, staging)


def write_over(path: Path, text: str) -> None:
    """Writes a file in the place of another by a rename; other links to that one keep it."""
    new = path.with_name(f".{path.name}.new")
    new.write_text(text, encoding="utf-8", newline="\n")
    if path.exists():
        shutil.copymode(path, new)
    new.replace(path)


def _noted(package: Path, tuning: TuningReport) -> str:
    """The package's README with its settings; nothing where it has none."""
    file = package / _README
    if not file.is_file():
        return ""
    before = file.read_text(encoding="utf-8").partition(f"\n{_HEADING}\n")[0]
    lines = "".join(f"- {name}: {value}\n" for name, value in tuning.values.items())
    told = "`modelyard tune` set these; where a line above says otherwise, it was so before."
    return f"{before}\n{_HEADING}\n\n{told}\n\n{lines}"


def _linked(source: str, target: str) -> str:
    """Of a file that stays as it is: a link where it can be one."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
    return target
