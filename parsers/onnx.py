"""Reads ONNX files: opset 7 to the newest that the installed onnx and ONNX Runtime know."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import onnx
import onnx_ir
import onnxruntime

from converter.errors import ModelError, UsageError, from_os_error
from converter.filetypes import onnx_outline
from converter.inputs import parse_inputs
from converter.ir import Model, check_external_data, external_files, read_proto
from converter.ort import OrtSession
from converter.plugins import Identity, Progress, Session
from converter.request import Request
from parsers.onnx_graph import check, densify
from parsers.onnx_interface import Interface, Wishes
from parsers.onnx_reference import Reference

LARGE = 256 << 20
"""Bytes of external weights above which they stay mapped while the original runs."""


class OnnxParser:
    """The ONNX format."""

    name = "onnx"
    extra: str | None = None

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
            UsageError: It isn't there or can't be read.
            ModelError: It isn't an ONNX file, or its weights can't be used.
        """
        path = _existing(request.source)
        proto = read_proto(path)
        folder = check_external_data(path, proto)
        files = {path.name: path}
        files.update((name, folder / name) for name in external_files(proto))
        return Identity(_model_name(path), self.name, files, _versions())

    def open(self, request: Request, workdir: Path, progress: Progress) -> OnnxSource:
        """The file, not read yet."""
        return OnnxSource(_existing(request.source), request, progress)


class OnnxSource:
    """An ONNX file as a source.

    Args:
        path: The file.
        request: Its ``inputs``, ``outputs`` and ``batch`` change the model's interface.
        progress: Told what is being done.

    Attributes:
        warnings: What was changed in a way that the user should know of.
    """

    def __init__(self, path: Path, request: Request, progress: Progress) -> None:
        self.path = path
        self.warnings: list[str] = []
        self._request = request
        self._progress = progress
        self._interface: Interface | None = None
        self._session: OrtSession | None = None

    def parse(self) -> Model:
        """The file's model, in the opset it has, with the interface that was asked for.

        Raises:
            UsageError: ``--input``, ``--output`` or ``--batch`` don't fit the file.
            ModelError: It can't be read, or ONNX Runtime can't load it.
            UnsupportedError: It holds what can't be taken; all of it.
        """
        self._progress(f"reading {self.path.name}")
        proto = read_proto(self.path)
        check(proto, self.path.name)
        densify(proto)
        proto.ClearField("training_info")
        producer = f"{proto.producer_name} {proto.producer_version}".strip()
        model = Model.from_proto(proto, self.path)
        self._progress("loading it in ONNX Runtime")
        self._open_session(model)
        model.graph.graph.sort()
        self._interface = Interface.apply(model, self._wishes())
        self.warnings = list(self._interface.notes)
        model.source = {"format": "onnx", "opset": model.opset, **_named("producer", producer)}
        return model

    def _wishes(self) -> Wishes:
        return Wishes(
            parse_inputs(self._request.inputs), tuple(self._request.outputs), self._request.batch
        )

    def reference(self) -> Session:
        """The file as it is, in ONNX Runtime, under the names that were asked for.

        Raises:
            ModelError: ONNX Runtime can't load it.
        """
        if self._interface is None:
            self.parse()
        assert self._interface is not None and self._session is not None
        return Reference(self._session, self._interface)

    def dependencies(self) -> Mapping[str, Path]:
        """None: all its files are known beforehand."""
        return {}

    def close(self) -> None:
        """Gives the original's memory back."""
        if self._session is not None:
            self._session.close()
            self._session = None

    def _open_session(self, model: Model) -> None:
        if self._session is not None:
            return
        try:
            self._session = OrtSession(self.path, plain=model.mapped_bytes() > LARGE)
        except ModelError as error:
            raise ModelError(
                f"{self.path.name}: {_plain(error.message, self.path)}",
                hint="A model that doesn't run as it is can't be compared with.",
            ) from error


def _existing(source: str) -> Path:
    path = Path(source)
    try:
        if path.is_dir():
            raise UsageError(
                f"{path.name} is a folder, not an ONNX file", hint="Name the .onnx file in it."
            )
        with path.open("rb"):
            return path
    except OSError as error:
        raise from_os_error(error, f"reading {path.name}") from error


def _plain(message: str, path: Path) -> str:
    """ONNX Runtime's words without the path, and without where in its sources they stand."""
    text = message.replace(f"Load model from {path} failed:", "")
    return re.sub(r"\S+\.(?:cc|h):\d+ (?:.*?\) )?(?=[A-Z])", "", text)


def _model_name(path: Path) -> str:
    name = path.name.removesuffix(path.suffix) if path.suffix else path.name
    return re.sub(r"[^\w.-]+", "_", name).strip("._") or "model"


def _versions() -> dict[str, str]:
    return {
        "onnx": onnx.__version__,
        "onnx-ir": onnx_ir.__version__,
        "onnxruntime": onnxruntime.__version__,
    }


def _named(key: str, text: str) -> dict[str, str]:
    return {key: text} if text and "/" not in text and "\\" not in text else {}
