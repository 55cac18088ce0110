"""A framework in a process of its own: starts parsers/worker, turns its errors into ours.

Every framework's backend there answers the same methods (``load``, ``export``, ``run``,
``time``), so that one Session serves all of them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from converter.errors import (
    DependencyError,
    InternalError,
    MachineError,
    ModelError,
    ModelyardError,
    Unsupported,
    UnsupportedError,
    UsageError,
)
from converter.files.reading import AGAIN, shortened
from converter.runtime.child import Child, ChildError, worker_env
from converter.runtime.frameworks import Framework
from converter.runtime.interpreter import Interpreter
from converter.runtime.session import Progress, Timing
from converter.text.words import one_line

if TYPE_CHECKING:
    import numpy as np

    from converter.ir.model import TensorSpec

Call = Callable[..., dict[str, Any]]

_MAIN = str(Path(__file__).resolve().parents[2].joinpath("parsers", "worker", "main.py"))

_READING = {"MODELYARD_READING": "1"}
"""Tells a call from within the user's code that its model is just being read."""


class Answering(Protocol):
    """What answers a framework's methods: a process, or the caller's own."""

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """The answer of one method; raises ChildError or MachineError."""

    def close(self) -> None: ...


Kind = tuple[object, ...]
"""What tells processes apart: the interpreter, the backend, the environment."""

_resting: dict[Kind, Child] | None = None
"""Processes with their framework imported and no model; None where none is kept."""


@contextmanager
def warm_workers() -> Iterator[None]:
    """Keeps the frameworks' processes from one model to the next, until the end of the block.

    A process imports its framework and nothing of a user's, and forks for each model. One whose
    framework doesn't bear it (:attr:`Framework.forks`), or that died, is started anew as ever.

    Yields:
        Nothing.

    Example:
        >>> with modelyard.warm_workers():
        ...     for size in (64, 96):
        ...         made = modelyard.convert("net.py:Net", inputs=[f"x:batchx3x{size}x{size}"],
        ...                                  bench=False, out=f"build/{size}")
    """
    global _resting
    if _resting is not None:
        yield
        return
    kept: dict[Kind, Child] = {}
    _resting = kept
    try:
        yield
    finally:
        _resting = None
        for child in kept.values():
            child.close()


def _resumed(
    kind: Kind, what: str, progress: Progress, warning: Callable[[str], None]
) -> Child | None:
    """A process that rests, made another model's."""
    child = _resting.pop(kind, None) if _resting and kind else None
    if child is None or child.resume(what, progress, warning):
        return child
    child.close()
    return None


MakeChild = Callable[[Progress, Callable[[str], None]], Answering]


class Worker:
    """A framework's process.

    Args:
        framework: Which framework.
        what: What the process is called in messages: ``the process of the samples``.
        source: What is being read, for messages.
        interpreter: The Python that runs it.
        progress: Told what is being done.
        trusting: What to do about a file that would run code.
        exporter: What can't export the nodes that an ``unsupported`` answer lists.
        env: Additions to its environment.
        child: Makes what answers in the place of a process; told whom to tell of progress and
            of warnings.

    Attributes:
        warnings: What it warned of so far.
        interpreter, progress: As given.
    """

    def __init__(
        self,
        framework: Framework,
        *,
        what: str,
        source: str,
        interpreter: Interpreter,
        progress: Progress,
        trusting: str = "If you trust whoever made it, pass --trust-source.",
        exporter: str = "",
        env: Mapping[str, str] | None = None,
        child: MakeChild | None = None,
    ) -> None:
        self.warnings: list[str] = []
        if older := interpreter.outdated(framework.extra):
            self.warnings.append(f"OLDER THAN THE TESTED VERSIONS: {', '.join(older)}")
        self._framework, self._source, self._trusting = framework, source, trusting
        self._exporter = exporter
        self.interpreter, self.progress = interpreter, progress
        self._child: Answering
        self._kind: Kind = ()
        self._handed_on = False
        if child is not None:
            self._child = child(progress, self.warnings.append)
        else:
            changes = {**worker_env(), **_READING, **interpreter.environment(), **(env or {})}
            argv = [interpreter.path, _MAIN, framework.backend]
            if _resting is not None and framework.forks:
                argv.append("--fork")
                self._kind = (*argv, *sorted(changes.items(), key=str))
            self._child = _resumed(self._kind, what, progress, self.warnings.append) or Child(
                argv, what=what, env=changes, progress=progress, warning=self.warnings.append
            )
        threading.Thread(target=self._warm_up, daemon=True).start()

    def _warm_up(self) -> None:
        """Has the child import its framework while the caller does other things."""
        with suppress(ChildError, MachineError):  # whatever is wrong, the next call says it too
            self._child.call("warm")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """The answer of one method.

        Raises:
            UsageError, ModelError, UnsupportedError, DependencyError: As the worker says.
            MachineError: The process died, or disk or memory gave out in it.
            InternalError: A bug of ours in it.
        """
        if self._handed_on:
            raise MachineError("the process was ended", code="process-ended")
        try:
            answer = self._child.call(method, **params)
        except ChildError as error:
            raise self._translated(error) from error
        if "warnings" in answer:
            answer["warnings"] = list(map(one_line, answer["warnings"]))
        return answer

    def close(self) -> None:
        """Ends the process; where it is kept for other models, what answered for this one."""
        child, kept, kind = self._child, _resting, self._kind
        if self._handed_on:
            return
        if kept is None or not kind or kind in kept or not isinstance(child, Child):
            child.close()
        elif child.rest():
            kept[kind], self._handed_on = child, True
        else:
            child.close()

    def _translated(self, error: ChildError) -> ModelyardError:
        details, code = list(error.details), str(error.fields.get("code", ""))
        if error.kind == "usage":
            return UsageError(error.message, code=code, details=details)
        if error.kind == "dependency":
            return DependencyError(
                error.message,
                code="package-missing",
                details=details,
                hint=self._install_line(error),
            )
        if error.kind == "untrusted":
            return ModelError(
                error.message, code="untrusted-code", details=details, hint=self._trusting
            )
        if error.kind == "unsupported":
            items = [Unsupported("", self._exporter, reason) for reason in details]
            return UnsupportedError(error.message, items, code="export-unsupported")
        if error.kind == "source":
            last = map(one_line, error.traceback.splitlines()[-6:])
            code = code or "model-code-failed"
            return ModelError(error.message, code=code, details=details or list(last))
        if error.kind == "broken":
            return ModelError(
                f"{self._source} can't be read: {shortened(error.message)}",
                code="model-damaged",
                hint=AGAIN,
            )
        if error.kind == "machine":
            return MachineError(f"reading {self._source}: {error.message}", code="machine")
        return InternalError(
            f"reading {self._source}: {error.message}",
            details=[one_line(line) for line in error.traceback.splitlines()],
        )

    def _install_line(self, error: ChildError) -> str:
        """The line that installs what the child lacks: a framework's part, or the user's own."""
        python, package = self.interpreter, str(error.fields.get("package") or "")
        if not package and (module := error.fields.get("module")):
            return (
                f"If {module} is yours, name its folder: --search-path DIR. Otherwise "
                f"install the package that contains it into {python.path}."
            )
        if not package:
            return f"modelyard doctor{python.option} shows what is installed."
        if error.fields.get("broken"):
            return python.install_line(["--force-reinstall", package])
        return python.install_line([package], self._framework.extra)


class WorkerSession:
    """A framework's model, run in its own process; arrays travel as .npz files.

    Args:
        call: Asks the process: :meth:`Worker.call`.
        workdir: Where the arrays go.
        inputs: The model's inputs, in order.
        outputs: The model's outputs, in order.
        runtime: ``name``, ``version``, ``mode``, ``device``.
        threads: Inside one inference; None for the framework's default.
    """

    def __init__(
        self,
        call: Call,
        workdir: Path,
        inputs: tuple[TensorSpec, ...],
        outputs: tuple[TensorSpec, ...],
        runtime: Mapping[str, Any],
        threads: int | None,
    ) -> None:
        self.inputs = inputs
        self.outputs = outputs
        self._call = call
        self._workdir = workdir
        self._runtime = dict(runtime)
        self._asked_threads = threads
        self._threads: int | None = threads

    @property
    def runtime(self) -> dict[str, Any]:
        """Name and version of the framework, and how it runs."""
        return {**self._runtime, "threads": self._threads}

    def run(self, feeds: Mapping[str, np.ndarray[Any, Any]]) -> dict[str, np.ndarray[Any, Any]]:
        """Outputs by name, in the exported file's order."""
        return self._run(feeds)

    def run_rounded(
        self, feeds: Mapping[str, np.ndarray[Any, Any]], seed: int
    ) -> dict[str, np.ndarray[Any, Any]]:
        """What the model gives with rounding added: to the feeds and, if it can be, on the way."""
        from converter.ir.rounding import rounded

        return self._run(rounded(feeds, seed), rounding=seed)

    def _run(
        self, feeds: Mapping[str, np.ndarray[Any, Any]], **params: Any
    ) -> dict[str, np.ndarray[Any, Any]]:
        from converter.files.arrays import load_arrays

        out = self._workdir / "reference-out.npz"
        self._call("run", feeds=self._write(feeds), out=str(out), **params)
        arrays = load_arrays(out)
        return {spec.name: arrays[spec.name] for spec in self.outputs}

    def time(
        self, feeds: Mapping[str, np.ndarray[Any, Any]], runs: int, concurrency: int = 1
    ) -> Timing:
        """Wall times measured inside the child, without the transport."""
        answer = self._call(
            "time",
            feeds=self._write(feeds),
            runs=runs * concurrency,
            threads=self._asked_threads,
            concurrency=concurrency,
            warmup=0,
        )
        self._threads = answer["threads"]
        return Timing(tuple(answer["ns"]), int(answer["total_ns"]))

    def _write(self, feeds: Mapping[str, np.ndarray[Any, Any]]) -> str:
        import numpy as np

        from converter.files.arrays import save_arrays

        path = self._workdir / "reference-in.npz"
        texts = {n: array.astype(np.str_) for n, array in feeds.items() if array.dtype == object}
        save_arrays(path, {**feeds, **texts})
        return str(path)

    def close(self) -> None:
        """Nothing: the process belongs to whoever started it."""


def tensor_specs(items: Sequence[Mapping[str, Any]]) -> tuple[TensorSpec, ...]:
    """What a worker's answer says of inputs or outputs: ``{name, dtype, shape}`` each."""
    from converter.ir.model import TensorSpec

    return tuple(TensorSpec(item["name"], item["dtype"], tuple(item["shape"])) for item in items)
