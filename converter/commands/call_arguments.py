"""What a Python caller gives, as a request has it: paths, single values, arrays, live models."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from converter.errors import UsageError
from converter.options.request import option_of
from converter.options.spelling import as_written
from converter.pipeline.live_models import holding
from converter.pipeline.plan import Step
from converter.pipeline.run import Listener, Silent
from converter.text.words import printable

_SAMPLES = ("samples", "calibration_samples")


class Given:
    """What one call was given, and what has to stay while it lasts.

    Args:
        options: Keywords of the call.
        listener: Told how it goes on; None for ``progress`` to say.
        progress: Whether that is shown; None: on a terminal and in a notebook.

    Attributes:
        options: The keywords as fields of Request.
        listener: Told how it goes on.
    """

    def __init__(
        self, options: Mapping[str, Any], listener: Listener | None, progress: bool | None
    ) -> None:
        self._stack = ExitStack()
        self._folder: Path | None = None
        self._values = options
        self._listener = listener
        self._progress = progress
        self.options: dict[str, Any] = {}
        self.listener: Listener = Silent()

    def __enter__(self) -> Given:
        with self._stack:  # what was opened goes again where a value can't be used
            named = dict(item for pair in self._values.items() for item in as_written(*pair))
            self.options = {name: self._plain(name, v) for name, v in named.items()}
            self.listener = self._stack.enter_context(_listening(self._listener, self._progress))
            self._stack = self._stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def path(self, value: str | os.PathLike[str]) -> str:
        """A path's text.

        Raises:
            UsageError: It is no path.
        """
        if isinstance(value, (str, os.PathLike)):
            return os.fspath(value)
        raise UsageError(
            f"a {type(value).__name__} isn't a file: give the path of an artifact",
            code="python-argument",
            hint="Write the model to a file, and give the file's path.",
        )

    def source(self, value: Any) -> str:
        """A source's name: of a path, or of a live model that is held while the call lasts.

        Raises:
            UsageError: A model is converted while it is being read.
        """
        if os.environ.get("MODELYARD_READING"):
            raise UsageError(
                "the file of the model's code called modelyard when it was imported",
                code="python-argument",
                hint='Put the call under: if __name__ == "__main__":',
            )
        if isinstance(value, (str, os.PathLike)):
            return os.fspath(value)
        return self._stack.enter_context(holding(value, self._scratch()))

    def part(self, name: str, value: Any) -> dict[str, Any]:
        """The options of one of several models, its source among them.

        Args:
            name: The part's name.
            value: A source, or a mapping of options.

        Raises:
            As :meth:`source`.
        """
        given = dict(value) if isinstance(value, Mapping) else {"source": value}
        own = Given({key: v for key, v in given.items() if key != "source"}, Silent(), False)
        self._stack.enter_context(own)
        source = {"source": own.source(given["source"])} if "source" in given else {}
        return {**own.options, **source}

    def _scratch(self) -> Path:
        if self._folder is None:
            made = tempfile.TemporaryDirectory(prefix="modelyard-")
            self._folder = Path(self._stack.enter_context(made))
        return self._folder

    def _plain(self, name: str, value: Any) -> Any:
        if name in _SAMPLES and not isinstance(value, (str, os.PathLike, type(None))):
            return self._stored(name, value)
        if isinstance(value, os.PathLike):
            value = os.fspath(value)
        elif isinstance(value, (list, tuple)):
            value = [os.fspath(v) if isinstance(v, os.PathLike) else v for v in value]
        try:
            option = option_of(name)
        except KeyError:  # kwargs, or no option at all, which the request refuses
            return value
        if option.many and not option.pairs and isinstance(value, (str, int, float)):
            if option.split and isinstance(value, str):
                return option.spelled_out([part.strip() for part in value.split(",")])
            return [value]
        if option.named and isinstance(value, list):
            return option.spelled_out(value)
        return str(value) if name == "batch" and isinstance(value, int) else value

    def _stored(self, name: str, value: Any) -> str:
        """A file of the arrays that were given as samples."""
        import numpy as np

        from converter.files.arrays import save_arrays

        folder = self._scratch() / name
        folder.mkdir()
        if isinstance(value, Mapping):
            path = folder / "arrays.npz"
            arrays = {str(key): _array(item, f"{name}[{key!r}]") for key, item in value.items()}
            save_arrays(path, arrays)
        else:
            path = folder / "array.npy"
            np.save(path, _array(value, name), allow_pickle=False)
        return str(path)


def _array(value: Any, where: str) -> Any:
    """An array of whatever has one: a list, a tensor of a framework."""
    import numpy as np

    if hasattr(value, "detach"):  # a tensor with gradients
        value = value.detach().cpu()
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise UsageError(
            f"{where}: it can't become an array ({error})", code="python-argument"
        ) from error
    if array.dtype.hasobject:
        raise UsageError(
            f"{where}: a {type(value).__name__} can't become an array",
            code="python-argument",
            hint="Samples are a path, an array, or a dict of arrays with the inputs' names as "
            "keys. The first axis counts the samples.",
        )
    return array


@contextmanager
def _listening(listener: Listener | None, progress: bool | None) -> Iterator[Listener]:
    shown = _watched() if progress is None else progress
    if listener is not None or not shown:
        yield listener or Silent()
        return
    if _on_terminal():
        from converter.commands.progress import Progress

        with Progress() as told:
            yield told
    else:
        yield _Lines()


class _Lines(Silent):
    """A line for each step that is done: for notebooks and logs."""

    def finished(self, step: Step, seconds: float, cached: bool) -> None:
        taken = "cached" if cached else f"{seconds:.1f} s"
        print(printable(f"  ✓ {step.title}  {taken}"), file=sys.stderr)


def _watched() -> bool:
    """Whether somebody sees what is printed: on a terminal, or in a notebook."""
    return _on_terminal() or "ipykernel" in sys.modules


def _on_terminal() -> bool:
    return bool(sys.stderr and sys.stderr.isatty())
