"""The stand-ins of a driver and of TensorRT, for machines without a GPU."""

import base64
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import onnx_ir
import pytest

from converter.ir.model import Model
from converter.options.recipe import make_request
from emitters.tensorrt.libraries import Library
from emitters.tensorrt.session import EngineSession

HERE = Path(__file__).parent
LIBRARY = Library("tensorrt", "stand_in_library", "10.16.1.11")

Open = Callable[..., EngineSession]


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the stand-in driver, compiled."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler to build the stand-in driver with")
    folder = tmp_path_factory.mktemp("driver")
    source, library = str(HERE / "stand_in_driver.c"), str(folder / "libcuda.so.1")
    line = [compiler, "-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-o", library, source]
    subprocess.run(line, check=True)
    return folder


@pytest.fixture
def stand_ins(driver: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Children find the stand-ins; this process doesn't."""
    monkeypatch.setenv("LD_LIBRARY_PATH", str(driver))
    path = [str(HERE), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, path)))


def write_plan(path: Path, model: Model, profiles: list[dict[str, Any]]) -> Path:
    """The stand-in's plan of a model."""
    contents = base64.b64encode(onnx_ir.to_proto(model.graph).SerializeToString()).decode()
    path.write_text(json.dumps({"onnx": contents, "profiles": profiles}))
    return path


@pytest.fixture
def open_plan(stand_ins: None, tmp_path: Path) -> Iterator[Open]:
    """Opens a model's plan; closed at the end."""
    opened: list[EngineSession] = []

    def open_it(model: Model, profiles: list[dict[str, Any]] | None = None,
                **options: Any) -> EngineSession:  # fmt: skip
        plan = write_plan(tmp_path / "model.plan", model, profiles or [])
        opened.append(
            EngineSession(
                plan, LIBRARY, make_request({"source": "none", "cache": False, **options})
            )
        )
        return opened[-1]

    yield open_it
    for session in opened:
        session.close()
