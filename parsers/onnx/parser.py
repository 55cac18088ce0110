"""Reads ONNX files: opset 7 to the newest that the installed onnx and ONNX Runtime know."""

from __future__ import annotations

from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from converter.errors import UsageError, from_os_error
from converter.files.filetypes import onnx_outline
from converter.ir.listing import Listing
from converter.options.request import Request
from converter.protocols.parser import Identity, Parser
from converter.runtime.frameworks import Framework
from converter.runtime.session import Progress
from parsers.onnx.spec import SPECS
from parsers.whole_file import model_name, refuse_class_options

if TYPE_CHECKING:
    from converter.runtime.frameworks import Framework
    from parsers.onnx.source import OnnxSource

_SPEC = SPECS["onnx"]


class OnnxParser:
    name = "onnx"
    extra: str | None = _SPEC.extra
    framework: Framework | None = _SPEC.framework
    marks = _SPEC.marks
    options = _SPEC.options

    def sniff(self, source: str) -> bool:
        """Whether ``source`` is an ONNX file by its contents, or is called one.

        A file that is only called one is taken too: what it really is stands in the error.
        """
        path = Path(source)
        if path.suffix.lower() == ".onnx":
            return True
        try:
            return path.is_file() and onnx_outline(path).is_onnx
        except OSError:
            return False

    def identify(self, request: Request) -> Identity:
        """Its name, and its files: the model's, and those of its weights.

        Raises:
            UsageError: It isn't there or can't be read, or an option goes with a class.
            ModelError: It isn't an ONNX file, or its weights can't be used.
        """
        from converter.ir.external import check_external_data, external_files, read_proto

        path = _existing(request.source)
        refuse_class_options(request, path.name)
        proto = read_proto(path)
        folder = check_external_data(path, proto)
        files = {path.name: path}
        files.update((name, folder / name) for name in external_files(proto))
        return Identity(_model_name(path), self.name, files, _versions())

    def living(self, value: object, folder: Path) -> Parser | None:
        """An onnx.ModelProto, written down; see :class:`converter.protocols.parser.Living`."""
        import onnx

        if not isinstance(value, onnx.ModelProto):
            return None
        name = model_name(value.graph.name or "model")
        path = folder / "model.onnx"
        try:
            onnx.save(value, path)
        except ValueError:  # above 2 GB; writing weights apart would take them out of the user's
            whole = onnx.ModelProto()
            whole.CopyFrom(value)
            onnx.save(whole, path, save_as_external_data=True, location="model.data")
        return _Written(path, name)

    def open(self, request: Request, workdir: Path, progress: Progress) -> OnnxSource:
        """The file, not read yet."""
        from parsers.onnx.source import OnnxSource

        return OnnxSource(_existing(request.source), request, progress)

    def listing(self, request: Request) -> Listing:
        """The file's operators, those of other domains too."""
        from converter.ir.listing import listing_of
        from converter.ir.model import Model

        return listing_of(Model.load(Path(request.source)))


class _Written(OnnxParser):
    """Reads a model that was written to ``path`` for this, under its graph's name."""

    def __init__(self, path: Path, name: str) -> None:
        self._path = path
        self._name = name

    def identify(self, request: Request) -> Identity:
        found = super().identify(replace(request, source=str(self._path)))
        return replace(found, name=self._name)

    def open(self, request: Request, workdir: Path, progress: Progress) -> OnnxSource:
        return super().open(replace(request, source=str(self._path)), workdir, progress)


def _existing(source: str) -> Path:
    path = Path(source)
    try:
        if path.is_dir():
            raise UsageError(
                f"{path.name} is a folder, not an ONNX file",
                code="choose-one",
                hint="Name the .onnx file in it.",
            )
        with path.open("rb"):
            return path
    except OSError as error:
        raise from_os_error(error, f"reading {path.name}") from error


def _model_name(path: Path) -> str:
    name = path.name.removesuffix(path.suffix) if path.suffix else path.name
    return model_name(name)


def _versions() -> dict[str, str]:
    runtime = _version("onnxruntime-gpu") or _version("onnxruntime")
    return {
        "onnx": _version("onnx"),
        "onnx-ir": _version("onnx-ir"),
        "onnxruntime": runtime,
    }


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""
