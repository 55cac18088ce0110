"""``modelyard doctor --python``: what another Python has, lacks, and really imports."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from converter.errors import DependencyError
from converter.options.request import Request
from converter.plugins import load
from converter.runtime.frameworks import Framework
from converter.runtime.interpreter import interpreter
from parsers.pytorch.spec import PYTORCH
from parsers.tensorflow.spec import TENSORFLOW
from parsers.tflite.spec import LITERT
from tests.acceptance.cli import modelyard
from tests.foreign.environments import claim


def frameworks(python: Path) -> tuple[int, dict[str, dict[str, Any]]]:
    """The exit code, and what was found of each framework by its name."""
    said = modelyard("doctor", "--python", python, "--json").no_traceback()
    return said.code, {item["name"]: item for item in said.json["frameworks"]}


def test_a_python_without_any(bare_python: Path) -> None:
    code, found = frameworks(bare_python)
    assert code == 5
    assert {item["state"] for item in found.values()} == {"absent"}
    assert found["PyTorch"]["install"] == f"'{bare_python}' -m pip install torch onnxscript"
    said = modelyard("doctor", "--python", bare_python, env={"COLUMNS": "80"})
    assert f"'{bare_python}' -m pip install torch onnxscript\n" in said.out  # one line, to copy
    assert "Python  3.12." in said.out


def test_one_with_a_framework(litert_python: Path) -> None:
    code, found = frameworks(litert_python)
    assert code == 0
    assert (found["LiteRT"]["state"], found["PyTorch"]["state"]) == ("works", "absent")
    assert found["LiteRT"]["packages"]["ai-edge-litert"] == "2.3.0"


@pytest.mark.slow
def test_one_that_lacks_a_part_and_one_that_does_not_import(bare_python: Path,
                                                            tmp_path: Path) -> None:  # fmt: skip
    """Packages laid in a folder of the user's PYTHONPATH stand for broken installations."""
    for name, text in (("tensorflow", ""), ("ai_edge_litert", "import no_such_part")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(text)
        claim(tmp_path, name, "2.99")
    said = modelyard("doctor", "--python", bare_python, "--json", env={"PYTHONPATH": str(tmp_path)})
    assert said.code == 5
    found = {item["name"]: item for item in said.json["frameworks"]}
    assert found["TensorFlow, Keras"]["state"] == "incomplete"
    assert found["TensorFlow, Keras"]["missing"] == ["keras", "tf2onnx", "onnx", "onnx-ir"]
    state, reason = (found["LiteRT"][key] for key in ("state", "reason"))
    assert state == "fails"
    assert "No module named" in reason or "no_such_part" in reason
    assert len(said.json["problems"]) == 2


@pytest.mark.slow
def test_our_own_python() -> None:
    said = modelyard("doctor", "--json").no_traceback()
    assert said.code == 0, said.out
    states = {item["name"]: item["state"] for item in said.json["frameworks"]}
    assert states == dict.fromkeys(states, "works")


@pytest.mark.parametrize(("parser", "source", "framework"), [
    *(("pytorch", "net.py:Net", PYTORCH), ("keras", "net.keras", TENSORFLOW)),
    *(("tensorflow", "graph.pb", TENSORFLOW), ("tflite", "net.tflite", LITERT)),
])  # fmt: skip
def test_a_parser_asks_for_what_doctor_lists(
    parser: str, source: str, framework: Framework, bare_python: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    (tmp_path / source.partition(":")[0]).write_bytes(b"")
    python = interpreter(str(bare_python))
    with pytest.raises(DependencyError) as error:
        load("parsers", parser).identify(Request(source, python=str(bare_python)))
    assert error.value.hint == python.install_line(framework.missing(python))


def test_json_is_json_whatever_the_interpreter_prints(tmp_path: Path, bare_python: Path) -> None:
    wrapper = tmp_path / "python"
    wrapper.write_text(f"#!/bin/sh\necho welcome to this machine\nexec '{bare_python}' \"$@\"\n")
    wrapper.chmod(0o755)
    said = modelyard("doctor", "--python", wrapper, "--json")
    assert json.loads(said.out)["python"].startswith("Python 3.12.")
    assert subprocess.run([wrapper, "-c", ""], capture_output=True, check=True).stdout
