"""The transformers process that many tests share."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from converter.runtime.worker import Worker
from parsers.huggingface.source import offline
from parsers.huggingface.spec import HUGGINGFACE
from tests.frameworks import framework

Load = Callable[..., dict[str, Any]]


@pytest.fixture(scope="package")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    """The transformers process, as a source starts it."""
    with framework(HUGGINGFACE, env=offline(tmp_path_factory.mktemp("work"))) as made:
        yield made


@pytest.fixture
def load(worker: Worker) -> Load:
    """Loads a folder for a task."""

    def call(folder: Path, task: str | None = None, **more: Any) -> dict[str, Any]:
        return worker.call("load", **{"file": str(folder), "task": task, "trust": False} | more)

    return call
