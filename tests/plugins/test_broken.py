"""Broken plug-ins of another distribution: left out, told, and in nobody's way."""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.acceptance.cli import modelyard, written

CODE = {
    "parsers": "raise RuntimeError('half an update')",
    "passes": "import a_package_that_is_not_there",
    "emitters": "class Bad:\n    def __init__(self):\n        raise ValueError('no licence')",
    "servers": "class Bad(",
    "options": "class Bad:\n    pass",
}
"""What is wrong with the module of each kind."""

WHY = {
    "parsers": "half an update",
    "passes": "a_package_that_is_not_there",
    "emitters": "no licence",
    "servers": "SyntaxError",
    "options": "aren't a dataclass that extends",
}


def installed(folder: Path, *kinds: str) -> Mapping[str, str]:
    """The environment of a command beside a distribution with broken plug-ins of these kinds."""
    lines = []
    for kind in kinds:
        (folder / f"modelyard_bad_{kind}.py").write_text(CODE[kind])
        lines.append(f"[modelyard.{kind}]\nbad = modelyard_bad_{kind}:Bad\n")
    about = folder / "modelyard_bad-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: modelyard-bad\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("\n".join(lines))
    return {**os.environ, "PYTHONPATH": str(folder)}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    text = "g (float[batch, 4] x) => (float[batch, 4] y) { y = Tanh(x) }"
    return written(tmp_path / "m.onnx", text)


def test_a_run_goes_on_without_them(tmp_path: Path, model: Path) -> None:
    bad = installed(tmp_path, *CODE)
    done = modelyard("convert", model, "--no-bench", cwd=tmp_path, env=bad, code=0)
    told = " ".join(done.out.split())
    assert told.count("'bad' of modelyard-bad is left out") == 3
    assert all(
        WHY[kind] in told for kind in ("parsers", "passes", "options")
    )  # could have been used
    assert "no licence" not in told and "SyntaxError" not in told


@pytest.mark.parametrize(("option", "kind"), [("--to", "emitters"), ("--serve", "servers")])
def test_one_that_is_named_is_an_error(tmp_path: Path, model: Path, option: str, kind: str) -> None:
    bad = installed(tmp_path, kind)
    done = modelyard("convert", model, option, "bad", cwd=tmp_path, env=bad, code=5)
    assert "'bad' of modelyard-bad can't be loaded" in done.err and WHY[kind] in done.err


@pytest.mark.slow
def test_doctor_shows_each_with_its_error(tmp_path: Path) -> None:
    told = modelyard("doctor", "--json", cwd=tmp_path, env=installed(tmp_path, *CODE)).json
    for kind, why in WHY.items():
        assert told["plugins"][kind]["bad"].endswith("(broken)")
        assert any(why in problem and "pip uninstall" in problem for problem in told["problems"])


def test_a_name_of_ours_stays_ours(tmp_path: Path, model: Path) -> None:
    bad = installed(tmp_path, "emitters")
    about = tmp_path / "modelyard_bad-1.0.dist-info/entry_points.txt"
    about.write_text(about.read_text().replace("bad =", "onnx ="))
    modelyard("convert", model, "--no-bench", cwd=tmp_path, env=bad, code=0)
