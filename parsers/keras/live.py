"""A keras.Model of the caller's process."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from converter.errors import UsageError
from converter.files.signatures import Marks
from converter.options.request import Request
from converter.protocols.parser import Identity
from converter.runtime.frameworks import Framework
from converter.runtime.session import Progress
from parsers.keras.parser import refuse_options, versions
from parsers.live import InProcess, live_identity
from parsers.tensorflow.source import TensorFlowSource
from parsers.tensorflow.spec import TENSORFLOW


class LiveKeras:
    """In the parser's place, for one model."""

    name = "keras"
    framework: Framework | None = TENSORFLOW
    marks = Marks()
    extra: str | None = None
    """None: it is read anew always, so that nothing is kept of it."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def sniff(self, source: str) -> bool:
        """Never: it is asked for by the model alone."""
        return False

    def identify(self, request: Request) -> Identity:
        """Its own name; see :class:`converter.protocols.parser.Parser`."""
        import keras

        refuse_options(request)
        if keras.backend.backend() != "tensorflow":
            raise UsageError(
                f"this model computes in {keras.backend.backend()}, but Modelyard reads "
                "Keras models in TensorFlow",
                code="python-argument",
                hint="Save it with model.save('model.keras'), and convert the file.",
            )
        return live_identity(self.name, str(self._model.name), versions(request))

    def open(self, request: Request, workdir: Path, progress: Progress) -> TensorFlowSource:
        """Nothing is started: the model is here."""
        here = partial(InProcess, "parsers.keras.child.live:LiveKerasBackend", self._model)
        return TensorFlowSource(request, workdir, progress, self.name, child=here)
