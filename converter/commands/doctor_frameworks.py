"""Which frameworks a Python has: what is installed of each, and whether it really imports."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from converter.errors import MachineError, ModelyardError
from converter.runtime.frameworks import Framework, frameworks
from converter.runtime.interpreter import Interpreter
from converter.runtime.session import Progress
from converter.runtime.worker import Worker

IMPORT_SECONDS = 120.0
"""How long a framework may take to import."""


@dataclass(frozen=True)
class FrameworkState:
    """A framework in a Python.

    Attributes:
        name: For people.
        state: ``works``, ``fails`` (all is installed, and importing it fails), ``incomplete``
            (the framework is there, something it needs isn't) or ``absent``.
        packages: Versions of what is installed of it.
        missing: Distributions that it still needs.
        reason: Why importing it fails.
        install: The line that installs what is missing, or mends what fails.
    """

    name: str
    state: str
    packages: dict[str, str]
    missing: list[str]
    reason: str = ""
    install: str = ""


def examine_frameworks(python: Interpreter, progress: Progress) -> list[FrameworkState]:
    """Every framework in ``python``, imported there in a child, two at a time."""
    with ThreadPoolExecutor(2, thread_name_prefix="doctor") as pool:
        return list(pool.map(lambda item: _examine(item, python, progress), frameworks()))


def _examine(framework: Framework, python: Interpreter, progress: Progress) -> FrameworkState:
    present, missing = framework.present(python), framework.missing(python)
    if missing:
        state = "incomplete" if framework.is_there(python) else "absent"
        line = python.install_line(missing, framework.extra)
        return FrameworkState(framework.title, state, present, missing, install=line)
    error = _import_error(framework, python, progress)
    if error is None:
        return FrameworkState(framework.title, "works", present, [])
    reason = ": ".join([error.message, *error.details[-1:]])
    return FrameworkState(framework.title, "fails", present, [], reason, error.hint)


def _import_error(
    framework: Framework, python: Interpreter, progress: Progress
) -> ModelyardError | None:
    """What importing a framework ends with, in a child that is stopped where it takes too long."""
    worker = Worker(
        framework,
        what=f"the {framework.title} process",
        source=framework.title,
        interpreter=python,
        progress=progress,
        env={"TF_CPP_MIN_LOG_LEVEL": "2"},
    )
    expired = threading.Event()

    def stop() -> None:
        expired.set()
        worker.close()

    timer = threading.Timer(IMPORT_SECONDS, stop)
    timer.start()
    try:
        worker.call("warm")
    except ModelyardError as error:
        late = MachineError(
            f"the import takes longer than {IMPORT_SECONDS:g} s", code="process-ended"
        )
        return late if expired.is_set() else error
    finally:
        timer.cancel()
        worker.close()
    return None


def problems(found: Iterable[FrameworkState], python: Interpreter) -> list[str]:
    """What is wrong: what is there and can't be used, and a Python of the user's without any."""
    wrong = []
    for item in found:
        if item.state == "incomplete":
            wrong.append(f"{item.name} lacks {', '.join(item.missing)}: {item.install}")
        elif item.state == "fails":
            wrong.append(f"{item.name} doesn't import: {item.reason}\n{item.install}".rstrip())
    if python.foreign and all(item.state == "absent" for item in found):
        wrong.append(f"there is no framework in {python.path}")
    return wrong
