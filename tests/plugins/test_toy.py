"""A distribution outside of the tree, with a plug-in of each kind, in an environment of its own."""

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from tests.acceptance.cli import Said, written
from tests.environments import installed

TOY = Path(__file__).with_name("toy")
NAMES = ("toy", "toy-npz", "toy-merge", "toy-server")

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Installed:
    """The environment that it is installed in, beside all that is installed here."""

    python: Path
    package: Path

    def __call__(self, *args: str | Path, cwd: Path, code: int | None = 0) -> Said:
        """Runs ``modelyard ARGS`` there; ``code`` is how it has to end."""
        done = subprocess.run(
            [self.python, "-m", "modelyard", *map(str, args)], cwd=cwd, timeout=300,
            env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
            capture_output=True, text=True,
        )  # fmt: skip
        return Said(done.returncode, done.stdout, done.stderr).ended(code)


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    folder = tmp_path_factory.mktemp("toy")
    shutil.copytree(TOY, folder / "source")
    python = installed(folder / "source", folder / "venv")
    (ours,) = (folder / "venv/lib").glob("python*/site-packages")
    return Installed(python, ours / "modelyard_toy")


def layered(path: Path, *widths: int, relu: bool = False) -> Path:
    """A toy file, seeded, with layers of these widths."""
    rng = np.random.default_rng(0)
    layers = [
        {
            "weights": rng.standard_normal((first, second)).round(3).tolist(),
            "bias": rng.standard_normal(second).round(3).tolist(),
            "relu": relu,
        }
        for first, second in pairwise(widths)
    ]
    path.write_text(json.dumps({"toy": 1, "layers": layers}))
    return path


SERVED = (
    *("convert", "model.toy", "--to", "toy", "--serve", "toy-server", "--out", "out"),
    *("--toy-compressed", "--toy-workers", "3", "--max-batch", "4", "--bench-seconds", "0.1"),
)
"""All kinds and all options at once."""


@pytest.mark.smoke
def test_every_kind_takes_part(toy: Installed, tmp_path: Path) -> None:
    layered(tmp_path / "model.toy", 4, 5, 3)
    said = toy(*SERVED, "--json", cwd=tmp_path).json["report"]
    assert {record["name"]: record["status"] for record in said["passes"]}["toy-merge"] == "changed"
    assert said["verdict"] == "passed"
    config = json.loads((tmp_path / "out/serving/toy-server/model/config.json").read_text())
    assert (config["workers"], config["max_batch"]) == (3, 4)
    with np.load(tmp_path / "out/toy/fp32/model.npz") as file:
        assert file["weights0"].shape == (4, 3) and "weights1" not in file
    assert "modelyard-toy" in (tmp_path / "out/manifest.json").read_text()
    toy("check", "out", "--against", "model.toy", cwd=tmp_path)


def test_a_backend_elsewhere_reads_and_runs_in_the_worker(toy: Installed, tmp_path: Path) -> None:
    layered(tmp_path / "model.toy", 4, 6, 6, 2, relu=True)
    toy(*SERVED, "--no-bench", cwd=tmp_path)
    arrays = tmp_path / "out/toy/fp32/model.npz"
    done = toy(
        "convert", arrays, "--out", "again", "--bench-seconds", "0.1", "--json", cwd=tmp_path
    )
    assert done.json["report"]["verdict"] == "passed"
    told = toy("inspect", arrays, "--json", cwd=tmp_path).json
    assert told["parameters"] == 4 * 6 + 6 + 6 * 6 + 6 + 6 * 2 + 2
    np.savez(arrays, weights0=np.zeros(3, np.float32), bias0=np.zeros(3), relu0=False)
    assert "layer 0 is no matrix" in toy("convert", arrays, cwd=tmp_path, code=3).err
    np.savez(arrays, weights0=np.zeros((3, 3), np.float32))
    assert "model.npz can't be read" in toy("convert", arrays, cwd=tmp_path, code=3).err


def test_help_and_doctor_know_it(toy: Installed, tmp_path: Path) -> None:
    told = "".join(toy("convert", "--help-all", cwd=tmp_path).out.split())  # its lines are wrapped
    for word in ("Toyserver:", "--toy-workers", "--toy-compressed", *NAMES[2:]):
        assert word in told
    found = toy("doctor", "--json", cwd=tmp_path, code=None).json
    assert {*NAMES} <= {name for kind in found["plugins"].values() for name in kind}
    assert {item["name"]: item["state"] for item in found["frameworks"]}["Toy arrays"] == "works"
    assert found["packages"]["modelyard-toy"] == "0.1.0"


def test_it_refuses(toy: Installed, tmp_path: Path) -> None:
    layered(tmp_path / "model.toy", 4, 4)
    wrong = ("convert", "model.toy", "--to", "toy", "--serve", "toy-server", "--toy-workers", "0")
    assert "--toy-workers 0" in toy(*wrong, cwd=tmp_path, code=2).err
    has = toy("convert", "model.toy", "--to", "toy", "--precision", "int8", cwd=tmp_path, code=2)
    assert "toy has no int8" in has.err
    written(tmp_path / "other.onnx", "g (float[batch, 4] x) => (float[batch, 4] y) { y = Tanh(x) }")
    assert "Tanh" in toy("convert", "other.onnx", "--to", "toy", cwd=tmp_path, code=3).err
    for layer, code, words in (("{}", 3, "broken.toy can't be read"), ("3", 1, "a bug")):
        (tmp_path / "broken.toy").write_text(f'{{"toy": 1, "layers": [{layer}]}}')
        assert words in toy("convert", "broken.toy", cwd=tmp_path, code=code).err


def test_what_another_version_of_it_made_is_not_taken(toy: Installed, tmp_path: Path) -> None:
    """Nor what was made with another option of its parser's."""
    layered(tmp_path / "model.toy", 4, 4, 4)
    line = ("convert", "model.toy", "--no-bench", "--overwrite", "--json")
    for change, more, cached in (
        ("", (), False),
        ("", (), True),
        ("", ("--toy-layers", "1"), False),
        ("# changed\n", (), False),
    ):
        with (toy.package / "merge.py").open("a") as file:
            file.write(change)
        timings = toy(*line, *more, cwd=tmp_path).json["report"]["timings"]
        assert {item["step"]: item["cached"] for item in timings}["simplify"] is cached
