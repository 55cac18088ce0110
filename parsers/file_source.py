"""A file that holds a whole model, open: what it has in common whatever its format."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path

from converter.ir.model import Model
from converter.options.inputs import parse_inputs
from converter.options.request import Request
from converter.runtime.session import Progress, Session
from parsers.onnx.interface import Interface, Wishes
from parsers.onnx.reference import Reference


class FileSource(ABC):
    """The file as a source.

    Args:
        path: The file, or a folder that is one model.
        request: Its ``inputs``, ``outputs`` and ``batch`` shape the interface.
        progress: Told what is being done.
    """

    def __init__(self, path: Path, request: Request, progress: Progress) -> None:
        self.path = path
        self._request = request
        self._progress = progress
        self._interface: Interface | None = None
        self._session: Session | None = None
        self._arithmetic = ""

    @abstractmethod
    def parse(self) -> Model:
        """The file's model, with the interface that was asked for; opens what runs the original."""

    def reference(self) -> Session:
        """The original, under the names that were asked for.

        Raises:
            ModelError: It can't be loaded.
        """
        if self._interface is None:
            self.parse()
        assert self._interface is not None and self._session is not None
        return Reference(self._session, self._interface, self._arithmetic)

    def dependencies(self) -> Mapping[str, Path]:
        """None: all its files are known beforehand."""
        return {}

    def close(self) -> None:
        """Gives the original's memory back."""
        if self._session is not None:
            self._session.close()
            self._session = None

    def _wishes(self, *, readable: bool = False) -> Wishes:
        """What the interface is to be; ``readable`` as :class:`Wishes` has it."""
        request = self._request
        outputs = tuple(request.outputs)
        inputs, sizes = parse_inputs(request.inputs), request.dims
        return Wishes(inputs, outputs, request.batch, readable, sizes=sizes)
