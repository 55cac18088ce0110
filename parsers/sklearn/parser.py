"""scikit-learn: estimators and pipelines, XGBoost's and LightGBM's models, become a Model.

A child process (``parsers/worker``) reads the file, predicts for the reference and translates by
skl2onnx and onnxmltools. ``.skops`` files, XGBoost's .json and .ubj and LightGBM's .txt hold no
code; pickles are read with ``--trust-source`` alone.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from converter.errors import ModelError, from_os_error
from converter.options.request import Request
from converter.protocols.parser import Identity
from converter.runtime.frameworks import Framework
from converter.runtime.interpreter import interpreter
from converter.runtime.session import Progress
from parsers.sklearn import files
from parsers.sklearn.spec import BOOSTERS, SKLEARN, SPECS
from parsers.whole_file import model_name, refuse_class_options

if TYPE_CHECKING:
    from parsers.sklearn.source import SklearnSource

_SPEC = SPECS["sklearn"]

_BESIDES = {files.SKOPS: ("skops",), files.PICKLE: ("joblib",), **BOOSTERS}


class SklearnParser:
    name = "sklearn"
    extra: str | None = _SPEC.extra
    framework: Framework | None = _SPEC.framework
    marks = _SPEC.marks

    def sniff(self, source: str) -> bool:
        """The files of :mod:`parsers.sklearn.files`; what only has a suffix of theirs too."""
        with suppress(OSError):
            return bool(files.kind_of(Path(source)))
        return False

    def identify(self, request: Request) -> Identity:
        """The file; see :class:`converter.protocols.parser.Parser`. A trusted one may run code.

        Raises:
            ModelError: It is a pickle, and nobody vouches for it; or garbage.
        """
        path = Path(request.source)
        refuse_class_options(request, path.name)
        try:
            kind = files.kind_of(path)
        except OSError as error:
            raise from_os_error(error, f"reading {path.name}") from error
        trusted = request.trust_source and kind in (files.PICKLE, files.SKOPS)
        if kind == files.PICKLE and not trusted:
            raise ModelError(
                f"{path.name} is a pickle, which may run code when it is read. Modelyard ran "
                "nothing of it",
                code="untrusted-code",
                hint="If you trust whoever made it, pass --trust-source. It is better to ask "
                "for a .skops file: skops.io.dump(model, 'model.skops').",
            )
        files.refuse_garbage(path, kind)
        needs = (*SKLEARN.needs, *_BESIDES[kind])
        versions = interpreter(request.python).require(
            needs, "reading a scikit-learn model", SKLEARN.extra
        )
        return Identity(
            model_name(path.stem), self.name, {path.name: path}, versions, runs_code=trusted
        )

    def open(self, request: Request, workdir: Path, progress: Progress) -> SklearnSource:
        """Starts the child; the framework loads while the caller goes on."""
        from parsers.sklearn.source import SklearnSource

        return SklearnSource(Path(request.source), request, workdir, progress)
