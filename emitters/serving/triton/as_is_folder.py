"""The model folder of a framework's file: the configuration, and the file as the source has it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from converter.check.shipping import Shipped
from converter.ir.model import Model
from converter.protocols.emitter import Artifact
from converter.runtime.session import Session
from converter.samples import Samples
from emitters.serving.files import link_or_copy
from emitters.serving.triton import as_is
from emitters.serving.triton.as_is import BackendNames
from emitters.serving.triton.folder import Folder
from emitters.serving.triton.request import TritonRequest


class SourceFolder(Folder):
    """A :class:`Folder` whose inputs and outputs have the backend's names.

    Args:
        artifact: The framework's file.
        model: What it was made of.
        samples: What batches are proven on; the warm-up's too.
        request: What was asked for.
        shipped: Samples that go along; None without.
    """

    def __init__(
        self,
        artifact: Artifact,
        model: Model,
        samples: Samples,
        request: TritonRequest,
        shipped: Shipped | None = None,
    ) -> None:
        target = artifact.target
        as_is.require_servable(model, target, request)
        self.names = BackendNames.of(model, target)
        self.framework = model.source
        self.backend = as_is.BACKENDS[target]
        named = self.names.model(model), as_is.NamedSamples(samples, self.names)
        super().__init__(artifact, *named, request, None, self.names.shipped(shipped))
        self.decisions += self.names.notes()

    def own_name(self, served: str) -> str:
        return self.names.own[served]

    def _open(self) -> Session:
        return as_is.open_session(self.artifact, self.request, self.names)

    def _make_config(self) -> Any:
        config = super()._make_config()
        as_is.fill_config(config, self.artifact.target, self.framework, self.max_batch > 0)
        return config

    @property
    def _file_name(self) -> str:
        return self.backend.file

    def _put(self, version: Path) -> None:
        """The file, or the folder with all that is in it."""
        path, to = self.artifact.path, version / self._file_name
        if path.is_dir():
            shutil.copytree(path, to, copy_function=_place)
        else:
            link_or_copy(path, to)

    def _framework(self) -> str:
        return self.backend.runs


def _place(source: str, target: str) -> None:
    link_or_copy(Path(source), Path(target))
