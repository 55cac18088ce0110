"""Models alive in the caller's process, run by the worker's own code there.

What a live model is made of can't be sent to another process faithfully, so that its framework's
backend (``parsers/worker``) works where it is, and puts back what it changed.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Mapping
from typing import Any

from converter.protocols.parser import Identity
from converter.runtime.child import ChildError
from converter.runtime.session import Progress
from parsers.whole_file import model_name
from parsers.worker import protocol


class _Telling(protocol.Channel):
    """The backend's way out: what it tells goes straight to whoever listens."""

    def __init__(self, listeners: Mapping[str, Callable[[str], None]]) -> None:
        self._listeners = listeners

    def send(self, message: Mapping[str, Any]) -> None:
        self._listeners[message["event"]](str(message["text"]))


class InProcess:
    """A backend of the worker, in this process; stands where a child would.

    Args:
        backend: ``MODULE:CLASS``, the module by its whole name, of any distribution; its ``load``
            takes the model as ``live``, its ``restore`` puts everything back.
        model: The live model.
        progress: Is called with what is being done.
        warning: Is called with what the report has to say.
    """

    def __init__(
        self, backend: str, model: object, progress: Progress, warning: Callable[[str], None]
    ) -> None:
        module, _, name = backend.partition(":")
        made = getattr(importlib.import_module(module), name)
        self._backend = made(_Telling({"progress": progress, "warning": warning}))
        self._methods = self._backend.methods()
        self._model = model
        self._lock = threading.RLock()

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """The answer of one method.

        Raises:
            ChildError: It answered with an error.
        """
        if method == "load":
            params["live"] = self._model
        with self._lock:
            found = protocol.answer(self._methods, {"method": method, "params": params})
        if "error" in found:
            raise ChildError(found["error"])
        result: dict[str, Any] = found["result"]
        return result

    def close(self) -> None:
        """Puts back what was changed of the model and of the process."""
        with self._lock:
            self._backend.restore()


def live_identity(format: str, name: str, versions: Mapping[str, str]) -> Identity:
    """What a live model is: it has no files.

    Args:
        format: The parser's name.
        name: The model's, before it is made a name that files may have.
        versions: Of what reads it.
    """
    return Identity(model_name(name).lower(), format, {}, versions, runs_code=True)
