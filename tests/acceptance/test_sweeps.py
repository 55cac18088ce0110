"""A recipe with every combination of options: cells, what they share, failures, going on."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

import modelyard as modelyard_api
from converter.commands.executor import Ended, Local, Task
from converter.commands.sweep import CellReport, sweep
from converter.errors import UsageError
from converter.options.sweep import Sweep, axes_from, excluded_from, read_sweep
from converter.pipeline.plan import Step
from converter.pipeline.run import Listener, Silent
from converter.pipeline.schemas import schema_text
from converter.runtime import memory
from tests.acceptance.cli import (
    COMMAND,
    command,
    images,
    modelyard,
    names,
    on_a_terminal,
    small_cnn,
    tree,
)

AXES = {"to": ["onnx", "tflite"], "precision": ["fp32", "int8"]}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    small_cnn(tmp_path / "cnn.onnx")
    images(tmp_path / "samples.npz", 8)
    recipe(tmp_path)
    return tmp_path


def recipe(folder: Path, **changes: Any) -> Path:
    options = {"source": "cnn.onnx", "samples": "samples.npz", "bench": False, "out": "out",
               "sweep": AXES, **changes}  # fmt: skip
    path = folder / "r.yaml"
    path.write_text(yaml.safe_dump(options, sort_keys=False))
    return path


def cells(folder: Path, where: str = "out") -> dict[str, Any]:
    told = json.loads((folder / where / "sweep.json").read_text())
    return {cell["name"]: cell for cell in told["cells"]}


def steps(folder: Path, step: str) -> int:
    """How many cells did a step themselves, and neither took it over nor had it from the cache."""
    reports = [json.loads(path.read_text()) for path in folder.glob("out/*/report.json")]
    timings = [item for report in reports for item in report["timings"] if item["step"] == step]
    return sum(not item["cached"] and item["seconds"] > 0 for item in timings)


def swept(written: Any) -> Sweep:
    return read_sweep(written, "r.yaml", dict)


def test_the_cells_are_all_combinations_but_those_excluded() -> None:
    asked = swept({**AXES, "exclude": [{"to": "tflite", "precision": "int8"}]})
    found = asked.cells("r.yaml")
    assert [cell.name for cell in found] == ["onnx-fp32", "onnx-int8", "tflite-fp32"]
    assert found[1].fields == {"to": "onnx", "precision": "int8"}
    assert found[1].options == {"to": "onnx", "precision": "int8"}


def test_names_of_cells_are_folders_of_their_own() -> None:
    models = [{"source": "a/net.onnx"}, {"source": "b/net.onnx", "batch": 2}]
    found = swept({"model": models, "bench-seconds": [1, 2]}).cells("r.yaml")
    assert [cell.name for cell in found] == [
        "net-bench_seconds-1", "net-bench_seconds-2", "net-bench_seconds-1-2",
        "net-bench_seconds-2-2",
    ]  # fmt: skip
    assert found[3].fields == {"source": "b/net.onnx", "batch": 2, "bench-seconds": 2}
    (long,) = swept({"inputs": ["x:" + "1x" * 300 + "3"]}).cells("r.yaml")
    assert len(long.name) < 100
    assert swept({"name": ["report.html"]}).cells("r.yaml")[0].name == "report.html-2"


@pytest.mark.parametrize(("written", "says"), [
    ([], "a mapping"),
    ({"to": "onnx"}, "a list"),
    ({"to": []}, "a list"),
    ({"out": ["a", "b"]}, "for the whole run"),
    ({"parts": [{"a": 1}]}, "for the whole run"),
    ({"model": [{"out": "a"}]}, "for the whole run"),
    ({"tu": ["onnx"]}, "tu isn't an option"),
    ({"to": ["onnx"], "exclude": {"to": "onnx"}}, "isn't a list of combinations"),
    ({"to": ["onnx"], "exclude": [{"precision": "int8"}]}, "which the sweep doesn't vary"),
    ({"to": ["onnx"], "exclude": [{"to": "onnx"}]}, "every combination is excluded"),
    ({"to": ["onnx"], "m": [{"to": "onnx"}]}, "two axes set to"),
    ({"to": ["a"] * 40, "precision": ["b"] * 40}, "1,600 combinations"),
    ({"want": "size"}, "sweeps nothing"),
])  # fmt: skip
def test_what_is_no_sweep_is_refused(written: Any, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        swept(written).cells("r.yaml")


def test_axes_of_a_command_line() -> None:
    assert axes_from(["to=onnx,tflite", "batch=1,8", "precision=fp32;fp32,int8"]) == {
        "to": ["onnx", "tflite"], "batch": [1, 8], "precision": ["fp32", "fp32,int8"],
    }  # fmt: skip
    assert excluded_from(["to=onnx,batch=1"]) == [{"to": "onnx", "batch": 1}]
    with pytest.raises(UsageError, match="isn't OPTION=VALUE"):
        axes_from(["to"])


@pytest.mark.slow
@pytest.mark.smoke
def test_a_sweep_gives_what_single_runs_give_and_does_shared_steps_once(folder: Path) -> None:
    done = command("sweep", "r.yaml", "--json", "--want", "size", "--no-cache", cwd=folder, code=0)
    told = done.json
    schema = json.loads(schema_text("comparison.schema.json"))
    jsonschema.validate(told, {**schema, "additionalProperties": True})
    made = ["onnx-fp32", "onnx-int8", "tflite-fp32", "tflite-int8"]
    assert [row["name"] for row in told["rows"]] == made
    assert {row["verdict"] for row in told["rows"]} == {"passed"}
    sizes = {row["name"]: row["bytes"] for row in told["rows"]}
    assert told["ship"] == min(sizes, key=lambda name: sizes[name])
    assert names(folder / "out") == sorted([*made, "report.html", "sweep.json"])
    assert [steps(folder, step) for step in ("parse", "simplify", "calibrate")] == [1, 1, 1]
    assert 'href="onnx-int8/report.html"' in (folder / "out" / "report.html").read_text()
    command("convert", "cnn.onnx", "--samples", "samples.npz", "--no-bench", "--to", "tflite",
            "--precision", "int8", "--out", "single", cwd=folder, code=0)  # fmt: skip
    both = [tree(place / "tflite") for place in (folder / "out/tflite-int8", folder / "single")]
    assert both[0] == both[1] and both[0]


@pytest.mark.slow
def test_a_failure_leaves_the_others_and_is_tried_again(folder: Path) -> None:
    (folder / "broken.onnx").write_bytes(b"no model")
    source = {"source": ["cnn.onnx", "broken.onnx", "missing.onnx"], "to": ["onnx", "tflite"]}
    recipe(folder, sweep=source)
    done = command("sweep", "r.yaml", cwd=folder, code=3)
    assert "broken" in done.out and "error" in done.out
    states = {name: (cell["state"], (cell["error"] or {}).get("exit_code"))
              for name, cell in cells(folder).items()}  # fmt: skip
    assert states == {
        "cnn-onnx": ("done", None), "cnn-tflite": ("done", None), "broken-onnx": ("failed", 3),
        "broken-tflite": ("failed", 3), "missing-onnx": ("failed", 2),
        "missing-tflite": ("failed", 2),
    }  # fmt: skip
    assert names(folder / "out") == ["cnn-onnx", "cnn-tflite", "report.html", "sweep.json"]
    small_cnn(folder / "broken.onnx", channels=4)
    command("sweep", "r.yaml", cwd=folder, code=2)
    kept = {name for name, cell in cells(folder).items() if cell["kept"]}
    assert kept == {"cnn-onnx", "cnn-tflite"}
    assert cells(folder)["broken-tflite"]["state"] == "done"
    (folder / "cnn.onnx").rename(folder / "away.onnx")
    command("sweep", "r.yaml", cwd=folder, code=2)
    assert cells(folder)["cnn-onnx"]["state"] == "failed"
    (folder / "away.onnx").rename(folder / "cnn.onnx")
    command("sweep", "r.yaml", "--against", "out", cwd=folder, code=2)
    again = cells(folder)
    assert all(again[name]["kept"] and again[name]["state"] == "done" for name in kept)


@pytest.mark.slow
def test_what_is_there_is_kept_and_only_replaced_where_asked(folder: Path) -> None:
    recipe(folder, sweep={"precision": ["fp32", "fp16"]})
    command("sweep", "r.yaml", cwd=folder, code=0)
    before = tree(folder / "out" / "fp32")
    command("sweep", "r.yaml", cwd=folder, code=0)
    assert all(cell["kept"] for cell in cells(folder).values())
    assert tree(folder / "out" / "fp32") == before
    images(folder / "samples.npz", 9)
    whole = tree(folder)
    refused = command("sweep", "r.yaml", cwd=folder, code=2)
    assert "holds outputs of other options" in refused.err and "  - fp16" in refused.err
    assert tree(folder) == whole
    command("sweep", "r.yaml", "--overwrite", cwd=folder, code=0)
    assert tree(folder / "out" / "fp32") != before
    (folder / "out" / "fp16" / "onnx" / "fp16" / "model.onnx").write_bytes(b"changed")
    refused = command("sweep", "r.yaml", cwd=folder, code=2)
    assert "  - fp16" in refused.err and "  - fp32" not in refused.err
    command("sweep", "r.yaml", "--overwrite", cwd=folder, code=2)
    assert cells(folder)["fp16"]["state"] == "failed" and cells(folder)["fp32"]["kept"]


@pytest.mark.slow
def test_a_missed_gate_is_a_result(folder: Path) -> None:
    recipe(
        folder, sweep={"min-cosine": [0.5, 0.9999999]}, precision="int8", **{"keep-going": False}
    )
    for _ in range(2):
        done = command("sweep", "r.yaml", "--json", cwd=folder, code=4)
        verdicts = {row["run"]: row["verdict"] for row in done.json["rows"]}
        assert list(verdicts.values()) == ["passed", "failed"], done.err
    assert all(cell["kept"] for cell in cells(folder).values())


@pytest.mark.slow
def test_a_sweep_that_was_killed_goes_on(folder: Path) -> None:
    first = folder / "out" / "onnx-fp32"
    with subprocess.Popen([COMMAND, "sweep", "r.yaml"], cwd=folder, start_new_session=True) as run:
        deadline = time.monotonic() + 120
        while not first.exists():
            assert time.monotonic() < deadline and run.poll() is None
            time.sleep(0.02)
        time.sleep(0.2)
        os.killpg(run.pid, signal.SIGKILL)
    before = (first / "manifest.json").read_bytes()
    done = modelyard("sweep", "r.yaml", cwd=folder, code=0)
    assert "made by an earlier run" in done.err
    assert (first / "manifest.json").read_bytes() == before and len(cells(folder)) == 4
    assert not [name for name in names(folder / "out") if name.startswith(".")]


CODE = """
import torch
from parts import double

class Net(torch.nn.Module):
    def forward(self, x):
        return double(x)
"""


@pytest.mark.slow
def test_what_the_cache_has_is_only_copied(folder: Path) -> None:
    (folder / "net.py").write_text(CODE)
    (folder / "parts.py").write_text("def double(x):\n    return x * 2\n")
    code = {"source": "net.py:Net", "samples": "random:2", "inputs": ["x:batchx4"]}
    recipe(folder, sweep={"model": [{"source": "cnn.onnx"}, code]}, **{"bench-seconds": 0.1})

    def made(*more: str, code: int = 0) -> list[str]:
        shutil.rmtree(folder / "out", ignore_errors=True)
        command("sweep", "r.yaml", "--trust-recipe", *more, cwd=folder, code=code)
        return [name for name, cell in cells(folder).items() if not cell["kept"]]

    both = ["cnn", "net.py-Net"]
    assert made() == both
    before = tree(folder / "out" / "cnn")
    assert made() == both[1:]  # code may read what nobody knows of
    assert tree(folder / "out" / "cnn") == before
    assert made("--reuse-source") == []
    assert made("--again", "--reuse-source") == both
    assert made("--bench", "--reuse-source") == made("--bench", "--reuse-source") == both
    (folder / "parts.py").write_text("def double(x):\n    return x * 3\n")
    line = ("sweep", "r.yaml", "--trust-recipe", "--bench", "--reuse-source")
    refused = command(*line, cwd=folder, code=2)
    assert "  - net.py-Net" in refused.err and "  - cnn" not in refused.err
    assert made("--reuse-source") == both[1:]


def test_a_dry_run_shows_the_cells_and_writes_nothing(folder: Path) -> None:
    before = tree(folder)
    line = ("sweep", "r.yaml", "to=onnx", "--exclude", "precision=int8", "--dry-run")
    done = command(*line, cwd=folder, code=0)
    assert "1 combinations" in done.out and "onnx-fp32" in done.out and tree(folder) == before


def test_what_cant_be_compared_with_is_refused_before_anything_runs(folder: Path) -> None:
    done = command("sweep", "r.yaml", "--against", "nowhere", cwd=folder, code=2)
    assert "holds no report" in done.err and not (folder / "out").exists()
    assert "isn't a limit" in command("sweep", "r.yaml", "--want", "1", cwd=folder, code=2).err


def test_what_would_run_code_has_to_be_trusted(folder: Path) -> None:
    recipe(folder, sweep={"source": ["net.py:Net"]})
    done = command("sweep", "r.yaml", cwd=folder, code=2)
    assert "net.py:Net" in done.err and "modelyard sweep" in done.err


def test_a_sweep_is_no_run_and_parts_are_no_sweep(folder: Path) -> None:
    done = command("run", "r.yaml", cwd=folder, code=2)
    assert "modelyard sweep" in done.err
    path = recipe(folder, parts={"a": {"source": "cnn.onnx"}})
    path.write_text(path.read_text().replace("source: cnn.onnx\n", "", 1))
    assert "has parts" in command("sweep", "r.yaml", cwd=folder, code=2).err


def test_nothing_of_the_users_is_replaced(folder: Path) -> None:
    (folder / "out").mkdir()
    for name, text in (("sweep.json", "{}"), ("report.html", "<p>mine</p>")):
        file = folder / "out" / name
        file.write_text(text)
        assert name in command("sweep", "r.yaml", cwd=folder, code=2).err
        assert file.read_text() == text
        file.unlink()


def test_one_sweep_at_a_time_writes_to_a_folder(folder: Path) -> None:
    (folder / "out").mkdir()
    held = os.open(folder / "out", os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    assert "another sweep is writing" in command("sweep", "r.yaml", cwd=folder, code=2).err
    os.close(held)
    assert names(folder / "out") == []


@pytest.mark.slow
def test_a_report_compares_outputs_and_tells_what_got_worse(folder: Path) -> None:
    base = ("convert", "cnn.onnx", "--samples", "samples.npz", "--no-bench")
    command(*base, "--to", "onnx", "--out", "old/cnn", cwd=folder, code=0)
    command(*base, "--to", "onnx,tflite", "--precision", "fp32,int8", "--out", "new/cnn",
            cwd=folder, code=0)  # fmt: skip
    line = ("report", "new/cnn", "--against", "old/cnn", "--want", "size", "--json")
    same = command(*line, "--strict", cwd=folder, code=0).json
    assert same["page"] == "new/comparison.html" and same["ship"] == "onnx fp32"
    assert {change["what"] for change in same["changes"]} == {"rows"}
    report = folder / "old" / "cnn" / "report.json"
    told = json.loads(report.read_text())
    told["artifacts"][0]["bytes"] //= 2
    report.write_text(json.dumps(told))
    files = ("--junit", "j.xml", "--markdown", "m.md", "--csv", "c.csv")
    done = command("report", "new/cnn", "--against", "old/cnn", "--strict", *files, cwd=folder,
                   code=4)  # fmt: skip
    assert "1 regression against cnn" in done.err and "size" in done.err
    assert 'failures="1"' in (folder / "j.xml").read_text()
    assert "1 regression" in (folder / "m.md").read_text()
    assert (folder / "c.csv").read_text().count("\n") == 5
    (folder / "new" / "comparison.html").write_text("mine")
    assert "isn't a page that modelyard made" in command(*line, cwd=folder, code=2).err
    assert "holds no report" in command("report", ".", cwd=folder, code=2).err


@pytest.mark.slow
def test_a_terminal_shows_what_runs_and_waits_and_how_long_it_takes(folder: Path) -> None:
    shown = on_a_terminal([COMMAND, "sweep", "r.yaml"], folder, TERM="xterm", COLUMNS="200")
    for said in ("0 done, ", "waiting, 0 failed", "about ", " left", "[4/4]", "report: out/"):
        assert said in shown, said


class Opened(Silent):
    """Notes the most cells that were at work at once."""

    def __init__(self) -> None:
        self.open: set[str] = set()
        self.most = 0

    def started(self, step: Step) -> None:
        self.open.add(step.part)
        self.most = max(self.most, len(self.open))

    def cells(self, count: int, kept: int) -> None:
        pass

    def ended(self, cell: CellReport) -> None:
        self.open.discard(cell.name)


@pytest.mark.slow
def test_a_cell_waits_where_memory_is_short(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plenty, little = Opened(), Opened()
    recipe(folder, sweep={"precision": ["fp32", "fp16", "bf16"]})
    monkeypatch.chdir(folder)
    assert not sweep("r.yaml", watcher=plenty, out="a", cache=False).errors
    taken = memory.taken([os.getpid(), *memory.family(os.getpid())])
    monkeypatch.setenv("MODELYARD_MEMORY_LIMIT", str(taken + (400 << 20)))
    assert not sweep("r.yaml", watcher=little, out="b", cache=False).errors
    assert plenty.most > 1 and little.most == 1


class OneByOne:
    """An executor that gets the tasks as they could be sent elsewhere, and gives each alone."""

    def carry_out(
        self, tasks: Sequence[Task], listener: Listener, ended: Callable[[Ended], None]
    ) -> None:
        for task in reversed(tasks):
            assert json.loads(json.dumps(task.fields)) == task.fields
            Local().carry_out([task], listener, ended)


@pytest.mark.slow
def test_another_executor_gives_the_same(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    recipe(folder, sweep={"precision": ["fp32"]})
    both = {"precision": ["fp32", "int8"]}
    made = modelyard_api.sweep("r.yaml", axes=both, out=Path("a"), cache=False)
    assert not made.errors and made.page == Path("a", "report.html")
    assert not sweep("r.yaml", axes=both, out="b", executor=OneByOne()).errors
    for name in ("fp32", "int8"):
        one, other = (tree(folder / out / name / "onnx") for out in "ab")
        assert one == other and one
    compared = modelyard_api.report(
        "a", Path("b", "int8"), against="b", want="cosine", out="c.html"
    )
    assert [row.name for row in compared.rows] == ["a fp32", "a int8", "int8"]
    assert compared.ship == "a fp32" and not compared.regressions
    assert 'href="b/int8/report.html"' in Path("c.html").read_text()
