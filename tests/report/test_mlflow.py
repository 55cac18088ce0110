"""Comparisons on an MLflow server: what was logged is read back by MLflow's own client."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from mlflow import MlflowClient
from mlflow.artifacts import download_artifacts
from mlflow.entities import Run

import modelyard as modelyard_api
from converter.commands import mlflow_tracker
from converter.report.compared import Compared
from tests.acceptance.cli import command, images, small_cnn
from tests.report.mlflow_server import free_port, mlflow_server

ADDRESS = "MLFLOW_TRACKING_URI"
LOGS = ("--mlflow", "nightly", "--mlflow-register", "net@champion")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("mlflow")
    with mlflow_server(folder) as address, pytest.MonkeyPatch.context() as patch:
        patch.setenv(ADDRESS, address)
        yield address


@pytest.fixture(scope="module")
def swept(server: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sweep that was logged; of its cells, one missed a gate and one had an error."""
    folder = tmp_path_factory.mktemp("swept")
    small_cnn(folder / "cnn.onnx")
    images(folder / "samples.npz", 8)
    cells = [
        {"source": "cnn.onnx", "precision": "fp32"}, {"source": "cnn.onnx", "precision": "int8"},
        {"source": "cnn.onnx", "precision": "int8", "min-cosine": 0.9999999},
        {"source": "missing.onnx", "precision": "fp32"},
    ]  # fmt: skip
    recipe = {"samples": "samples.npz", "bench_seconds": 0.2, "out": "out", "to": "onnx",
              "sweep": {"cell": cells, "want": "size cosine>0.9"}}  # fmt: skip
    (folder / "r.yaml").write_text(json.dumps(recipe))
    said = command("sweep", "r.yaml", *LOGS, cwd=folder, code=4)
    assert f"MLflow: 4 runs in {server}/#/experiments/" in said.out
    assert "registered: net, version 1 (champion)" in said.out
    return folder / "out"


def runs(server: str, experiment: str = "nightly") -> dict[str, Run]:
    """The runs of an experiment, by their names."""
    client = MlflowClient(server)
    found = client.get_experiment_by_name(experiment)
    assert found is not None
    made = client.search_runs([found.experiment_id])
    assert len({run.info.run_name for run in made}) == len(made)
    return {run.info.run_name: run for run in made}


def rows(swept: Path) -> Compared:
    return Compared.model_validate_json((swept / "sweep.json").read_bytes())


def test_each_artifact_is_a_run_with_its_figures(swept: Path, server: str) -> None:
    made, told = runs(server), rows(swept)
    assert told.logged is not None
    assert told.logged.runs == {name: run.info.run_id for name, run in made.items()}
    states = {name: (run.info.status, run.data.tags["modelyard.verdict"])
              for name, run in made.items()}  # fmt: skip
    assert sorted(states.values()) == [
        ("FAILED", "error"), ("FAILED", "failed"), ("FINISHED", "passed"), ("FINISHED", "passed"),
    ]  # fmt: skip
    for row in told.rows:
        run = made[row.name].data
        figures = {name: getattr(row, field) for field, name in mlflow_tracker._FIGURES.items()}
        figures |= {row.metric: row.value} if row.metric else {}
        assert run.metrics == pytest.approx({n: v for n, v in figures.items() if v is not None})
        if row.verdict != "error":
            assert row.verdict == "failed" or run.metrics["p50_ms"] > 0
            own = {"source": "cnn", "target": "onnx", "precision": row.precision}
            assert own.items() <= run.params.items()
            assert run.params["bench_seconds"] == "0.2"


def test_a_run_holds_the_artifact_and_what_vouches_for_it(swept: Path, server: str) -> None:
    client = MlflowClient(server)
    for name, run in runs(server).items():
        files = {item.path for item in client.list_artifacts(run.info.run_id)}
        verdict = run.data.tags["modelyard.verdict"]
        said = {"report.html", "report.json", "manifest.json"}
        assert files == {"error": set(), "failed": said, "passed": said | {"model"}}[verdict], name


def test_what_to_ship_is_a_version_with_an_alias(swept: Path, server: str, tmp_path: Path) -> None:
    told, client = rows(swept), MlflowClient(server)
    version = client.get_model_version_by_alias("net", "champion")
    assert told.logged is not None and version.run_id == told.logged.runs[told.ship]
    assert told.ship in (version.description or "")
    place = download_artifacts("models:/net@champion", dst_path=str(tmp_path))
    (made,) = (swept / told.ship).glob("onnx/*/model.onnx")
    assert Path(place, "model.onnx").read_bytes() == made.read_bytes()


def test_the_same_is_not_logged_twice(swept: Path, server: str, tmp_path: Path) -> None:
    before = {name: run.info.run_id for name, run in runs(server).items()}
    page = tmp_path / "page.html"
    said = command("report", swept, "--want", "size", *LOGS, "--out", page, "--json", code=0).json
    assert said["logged"]["runs"] == before and said["logged"]["version"] == "1"
    assert {name: run.info.run_id for name, run in runs(server).items()} == before
    made = modelyard_api.report(swept, want="p50<1us", out=page, mlflow="other",
                                mlflow_register="nothing")  # fmt: skip
    assert made.logged is not None and not made.logged.version
    assert runs(server, "other").keys() == before.keys()
    assert [model.name for model in MlflowClient(server).search_registered_models()] == ["net"]


def test_what_cannot_be_logged_says_why(
    swept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = ("--out", tmp_path / "page.html")
    said = command("report", swept, *LOGS, *page, code=2).err
    assert "needs --want" in said
    assert "needs --mlflow" in command("report", swept, *LOGS[2:], *page, code=2).err
    assert "MODEL@ALIAS" in command("report", swept, *LOGS[:3], "@a", *page, code=2).err
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.setenv(ADDRESS, f"http://me:secret@127.0.0.1:{free_port()}")
    said = command("report", swept, *LOGS[:2], *page, code=6).err
    assert "opening the experiment failed" in said and "secret" not in said
    assert not page[1].exists()
    monkeypatch.delenv(ADDRESS)
    assert f"Set {ADDRESS}" in command("report", swept, *LOGS[:2], *page, code=2).err
    monkeypatch.setattr(mlflow_tracker, "find_spec", lambda name: None)
    said = command("report", swept, *LOGS[:2], *page, code=5).err
    assert "needs MLflow" in said and re.search(r"pip install .*mlflow-skinny", said)
