"""Hugging Face: a local folder with config.json and safetensors becomes a Model.

transformers makes the model in a child process (``parsers/huggingface/child/backend.py``), and the
worker's torch exporter writes it. The task decides the head, the inputs and the outputs. Nothing
is fetched, code in the folder runs only with ``--trust-source``, and weights that are missing
are an error: transformers would fill them with random numbers.
"""

from __future__ import annotations

from pathlib import Path

from converter.options.request import Request
from converter.protocols.parser import Identity
from converter.runtime.frameworks import Framework
from converter.runtime.interpreter import interpreter
from converter.runtime.session import Progress
from parsers.huggingface.folder import Folder
from parsers.huggingface.source import HuggingFaceSource
from parsers.huggingface.spec import HUGGINGFACE, SPECS

_SPEC = SPECS["huggingface"]


class HuggingFaceParser:
    name = "huggingface"
    extra: str | None = _SPEC.extra
    framework: Framework | None = _SPEC.framework
    marks = _SPEC.marks
    options = _SPEC.options

    def sniff(self, source: str) -> bool:
        """A folder whose config.json names a model type or an architecture.

        Folders of adapters and of sentence-transformers are among them, whatever they lack.
        """
        return Folder(Path(source)).is_model()

    def identify(self, request: Request) -> Identity:
        """The config, the weights and what says how they are used.

        Raises:
            UsageError, ModelError, UnsupportedError: It can't be read, and why.
            DependencyError: transformers or torch isn't installed.
        """
        folder = Folder(Path(request.source))
        folder.refuse(request)
        versions = interpreter(request.python).require(
            HUGGINGFACE.needs, "reading a Hugging Face folder", HUGGINGFACE.extra
        )
        files = folder.files(request.trust_source)
        trusted = request.trust_source  # its own code, in modules that may read other files
        return Identity(folder.model_name(), self.name, files, versions, folder.assets(), trusted)

    def open(self, request: Request, workdir: Path, progress: Progress) -> HuggingFaceSource:
        """Starts the child; the framework loads while the caller goes on."""
        return HuggingFaceSource(request, workdir, progress, self.identify(request).versions)
