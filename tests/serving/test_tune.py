"""``modelyard tune``: what it proposes, what it takes for better, and both on real servers."""

import json
import re
import shutil
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from google.protobuf import text_format
from PIL import Image
from tritonclient.grpc import model_config_pb2

from converter import plugins
from converter.commands import trials
from converter.commands import tune as tuning
from converter.commands.load import LoadPoint
from converter.commands.serve import find_package
from converter.commands.tuning import GOALS, Goal, Search, Trial, best, compare, search
from converter.files.output_guard import strange
from converter.pipeline.retuned import place_of
from converter.protocols.server import Knob
from converter.report.json_ import read_report
from converter.report.model import TuningReport
from tests.acceptance.cli import COMMAND, command, converted_cnn, small_cnn

KNOBS = (
    Knob("instances", (1, 2, 4, 8), 1),
    Knob("batch", ("off", "any", 2, 4, 8), "any"),
    Knob("delay", (0, 100, 500), 100),
)
CONFIG = model_config_pb2.ModelConfig
WAITS = 1_000_000
"""Microseconds: whatever waits less than a package made with that is better, by more than a busy
machine holds up the few requests of a load."""


def point(throughput: float, p95: float, callers: int = 1, **more: Any) -> LoadPoint:
    """What a load came to."""
    times = dict.fromkeys(("mean_ms", "p50_ms", "p90_ms", "p95_ms", "p99_ms", "max_ms"), p95)
    none = dict.fromkeys(("late_p99_ms", "queue_ms", "compute_ms", "runs", "cpu_ms"))
    known: dict[str, Any] = {
        "batch": 1, "concurrency": callers, "rate": None, "n": 50, "errors": 0, "wrong": 0,
        "seconds": 1.0, "throughput": throughput, "memory": 10**8, "client_cpu_s": 0.1,
        "client_share": None, **times, **none, **more,
    }  # fmt: skip
    return LoadPoint(**known)


def model(values: Mapping[str, Any]) -> Trial:
    """A server that is best with 4 instances and batches of 4; more is quicker to no one."""
    batch = {"off": 1, "any": 2}.get(values["batch"], values["batch"])
    rate = 100 - 10 * abs(values["instances"] - 4) - 5 * abs(batch - 4) - values["delay"] / 100
    return Trial("net", values, [point(rate, 10 + values["delay"] / 100)])


# -- what is proposed ------------------------------------------------------------------------


def test_few_trials_find_what_is_best() -> None:
    goal, left = GOALS["throughput"], iter(range(25))
    made = search(Search(KNOBS, seed=1), model, lambda trial: goal.loss(trial, None),
                  lambda: next(left, None) is not None)  # fmt: skip
    assert len(made) == 25 == len({tuple(trial.values.items()) for trial in made})
    found = best(made, goal, None)
    assert found is not None and found.values == {"instances": 4, "batch": 4, "delay": 0}


def test_nothing_is_measured_twice_and_all_of_a_small_space_once() -> None:
    """Without a batcher, the delay makes no other package."""

    def same(values: Mapping[str, Any]) -> tuple[Any, ...]:
        return (*values.values(),)[: 2 if values["batch"] == "off" else 3]

    searching = Search(KNOBS, seed=0, same=same)
    searching.start({knob.name: knob.value for knob in KNOBS}, None)  # it failed
    made = search(searching, model, lambda trial: None, lambda: True)
    assert len(made) == len({same(trial.values) for trial in made}) == 4 * (4 * 3 + 1) - 1


# -- what is better --------------------------------------------------------------------------


@pytest.mark.parametrize("odd", [
    Trial("net", {}, [point(999, 1, wrong=1)]), Trial("net", {}, [point(999, 1, errors=1)]),
    Trial("net", {}, [point(999, 1)], failed="answers wrong"), Trial("net", {}),
    Trial("net", {}, [point(999, 21)]), Trial("net", {}, [point(999, 1, n=0)]),
])  # fmt: skip
@pytest.mark.parametrize("goal", GOALS.values(), ids=GOALS)
def test_what_answers_wrong_or_late_never_wins(odd: Trial, goal: Goal) -> None:
    right = Trial("net", {}, [point(5, 19)])
    assert best([odd, right], goal, 20) is right and best([odd], goal, 20) is None
    loss = goal.loss(odd, 20)
    assert loss is None or loss > (goal.loss(right, 20) or 0)


def test_goals_count_the_best_load_or_the_worst() -> None:
    trial = Trial("net", {}, [point(10, 5, memory=10**8), point(30, 15, 4, memory=3 * 10**8)])
    figures = [goal.value(trial, 20) for goal in GOALS.values()]
    assert figures == [30, 15, 300]
    assert GOALS["throughput"].value(trial, 10) == 10
    assert GOALS["latency"].value(trial, 10) is None is GOALS["memory"].value(trial, 10)


@pytest.mark.parametrize("before,after,better", [
    ([10, 11, 10], [12, 13, 12], True),
    ([10, 11, 10], [9, 8, 9], False),
    ([10, 12.5, 10], [12, 13, 12], False),  # the best round as it is beats the worst now
    ([10, 10, 10], [10.1, 10.1, 10.1], False),  # hardly
    ([10, 10, 10], [20, None, 20], False),
    ([None, None, None], [1, 1, 1], True),
    ([None, 10, None], [9, 9, 9], False),
    ([10, 10], [], False),
])  # fmt: skip
def test_it_is_never_worse(before: Any, after: Any, better: bool) -> None:
    assert compare(GOALS["throughput"], before, after)[0] is better
    turned = [[None if value is None else 1 / value for value in part] for part in (before, after)]
    assert compare(GOALS["latency"], *turned)[0] is better


# -- on real servers -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Packages whose requests wait long for others."""
    return converted_cnn(
        tmp_path_factory.mktemp("tune"),
        f"--serve triton,litserve --precision fp32,int8 --max-batch 4 --queue-delay {WAITS} "
        "--no-bench --out out",
    )


@pytest.fixture
def out(made: Path, tmp_path: Path) -> Path:
    return shutil.copytree(made / "out", tmp_path / "out")


def tuned(folder: Path, *more: str) -> Any:
    line = ("tune", folder, "--seconds", "0.4", "--concurrency", "1", "--yes", "--json", *more)
    return command(*line, code=0).json


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """One round at the end: what is compared differs by much."""
    monkeypatch.setattr(trials, "ROUNDS", 1)


@pytest.mark.slow
@pytest.mark.usefixtures("quick")
def test_a_triton_package_gets_better_settings(out: Path) -> None:
    """Of a model at two precisions, the other one, and in it; seed 3 waits little at once."""
    before = {path: path.read_bytes() for path in out.rglob("*.pbtxt")}
    said = tuned(out / "serving" / "triton", "--p95", "5s", "--trials", "1", "--seed", "3")
    assert [knob["name"] for knob in said["space"]] == [
        "package", "instances", "preferred batch", "queue delay us", "threads"]  # fmt: skip
    assert said["changed"] and len(said["trials"]) == 2, said
    assert min(said["after"]) > max(said["before"])
    package = Path(said["package"])
    assert package.name == "cnn_int8" == said["values"]["package"]
    text = (package / "config.pbtxt").read_text()
    config = text_format.Parse(text, CONFIG())
    assert config.instance_group[0].count == said["values"]["instances"]
    assert config.dynamic_batching.max_queue_delay_microseconds < WAITS
    assert sum(path.read_bytes() != data for path, data in before.items()) == 1
    # what the output says of itself is true
    assert not strange(out) and "## Tuned" in (package / "README.md").read_text()
    report = read_report(out / "report.json")
    (item,) = report.tuning
    path = package.relative_to(out).as_posix()
    assert item.package == path and item.changed and len(item.trials) == 2
    manifest = json.loads((out / "manifest.json").read_bytes())
    details = {entry["path"]: entry["details"] for entry in manifest["packages"]}
    assert details[path]["tuned"] == {**said["values"], "package": "cnn_int8"}
    assert details[path]["instances"] == said["values"]["instances"]
    page = (out / "report.html").read_text()
    assert "Tuned for throughput with a p95 of at most 5000 ms" in page and "the front" in page


@pytest.mark.slow
@pytest.mark.usefixtures("quick")
def test_a_litserve_package_gets_better_settings(out: Path, tmp_path: Path) -> None:
    """Of a package alone, its file is written."""
    package = shutil.copytree(out / "serving" / "litserve" / "cnn_fp32", tmp_path / "cnn_fp32")
    said = tuned(package, "--for", "latency", "--trials", "1", "--seed", "3")
    facts = json.loads((package / "model.json").read_bytes())
    assert said["changed"] and facts["delay"] * 1e6 < WAITS, said
    assert facts["instances"] == said["values"]["instances"]
    assert facts["threads"] == (said["values"]["threads"] or None)
    assert said["written"] == [str(package / name) for name in ("model.json", "README.md")]


def test_where_the_server_prepares_files_each_stage_is_turned(made: Path, tmp_path: Path) -> None:
    """Files are sent: the model in front, and the one behind it, have settings of their own."""
    (tmp_path / "photos").mkdir()
    for number in range(2):
        pixels = np.random.default_rng(number).integers(0, 255, (16, 16, 3), np.uint8)
        Image.fromarray(pixels).save(tmp_path / "photos" / f"{number}.png")
    line = "--samples photos --prepare server --serve triton --no-bench --out out"
    command("convert", made / "cnn.onnx", *line.split(), cwd=tmp_path, code=0)
    server, package = find_package(str(tmp_path / "out"))
    files = [path.read_bytes() for path in sorted((tmp_path / "photos").iterdir())]
    load = trials.Load([2], 0.4, 0, False, lambda download: True, files)
    values = {"instances": 2, "preferred batch": 2, "queue delay us": 0, "threads": 1,
              "stage workers": 2, "stage threads": 3}  # fmt: skip
    assert {knob.name: knob.of_files for knob in server.knobs(package)} == {
        name: name.startswith("stage") for name in values
    }
    with trials.Bench(server, [package], load, None) as bench:
        trial = bench.trial(values, [])
        assert not trial.failed and trial.points[0].n > 20 and not trial.points[0].wrong
    made_of = server.turned(package, values).files
    front, behind = (text_format.Parse(made_of[folder / "config.pbtxt"], CONFIG())
                     for folder in (package, *server.calls(package)))  # fmt: skip
    assert front.instance_group[0].count == behind.instance_group[0].count == 2
    assert front.parameters["threads"].string_value == "3"
    assert behind.parameters["intra_op_thread_count"].string_value == "1"
    assert [*behind.dynamic_batching.preferred_batch_size] == [2]


def test_a_trial_that_answers_wrong_fails(out: Path, tmp_path: Path) -> None:
    """Of two packages, one holds another model."""
    folder = shutil.copytree(out / "serving" / "triton", tmp_path / "triton")
    small_cnn(folder / "cnn_int8" / "1" / "model.onnx", channels=4)
    server = plugins.load("servers", "triton")
    load = trials.Load([1], 0.4, 0, False, lambda download: True)
    packages = [folder / "cnn_fp32", folder / "cnn_int8"]
    with trials.Bench(server, packages, load, None) as bench:
        values = {"package": "cnn_int8", "instances": 1, "preferred batch": "off",
                  "queue delay us": 0, "threads": 1}  # fmt: skip
        assert bench.trial(values, []).failed.startswith("answers wrong: ")


def test_what_stays_as_it_is_is_reported(out: Path) -> None:
    """The report has what was measured; every other file is as it was, and the manifest true."""
    before = {path: path.read_bytes() for path in (out / "serving").rglob("*") if path.is_file()}
    package = out / "serving" / "triton" / "cnn_fp32"
    measured = TuningReport(
        server="triton", package="serving/triton/cnn_fp32", goal="latency", unit="ms",
        limit_ms=None, trials=[], before=[], after=[], values={}, changed=False,
        why="no better than noise",
    )  # fmt: skip
    for _ in range(2):
        with place_of([package]) as place:
            assert place.record(package, measured, None) == []
        assert read_report(out / "report.json").tuning == [measured] and not strange(out)
    assert "The settings stay: no better than noise." in (out / "report.html").read_text()
    assert before == {path: path.read_bytes() for path in before}


def test_an_interrupt_keeps_what_was_there(out: Path) -> None:
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    line = [COMMAND, "tune", out / "serving" / "triton" / "cnn_fp32", "--yes"]
    with subprocess.Popen(line, stderr=subprocess.PIPE, text=True) as process:
        family, children = psutil.Process(process.pid), list[psutil.Process]()
        while not any("tritonserver" in child.name() for child in children):
            assert process.poll() is None
            children = family.children(recursive=True)
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
    assert not psutil.wait_procs(children, 10)[1]
    assert before == {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    assert [path.name for path in out.parent.iterdir()] == ["out"]


# -- what is refused -------------------------------------------------------------------------


def test_what_would_be_tried_is_shown(out: Path) -> None:
    said = command("tune", out / "serving" / "litserve" / "cnn_int8", "--dry-run", code=0).out
    assert f"queue delay us: 0, 100, 500, 1000, 2000, 5000, {WAITS} (now {WAITS})" in said
    assert "largest batch: 1, 2, 4 (now 4)" in said


def test_what_cannot_be_tuned_says_why(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "of several servers" in command("tune", out, code=2).err
    said = command("tune", out / "serving" / "litserve" / "cnn_fp32", "--files", out, code=2).err
    assert "doesn't take files" in said
    assert "as in 20ms" in command("tune", out, "--p95", "soon", code=2).err
    package = out / "serving" / "triton" / "cnn_fp32"
    config = package / "config.pbtxt"
    kept = config.read_text()
    config.write_text(kept + "response_cache { enable: true }\n")
    assert "response cache" in command("tune", package, code=2).err
    config.write_text(kept + "# mine\n")
    assert "changed since" in command("tune", package, code=2).err
    shutil.rmtree(package / "expected")
    (package / "modelyard.json").unlink()
    assert "no samples and expected" in command("tune", package, code=2).err
    monkeypatch.setattr(tuning, "find_spec", lambda name: None)
    said = command("tune", out / "serving" / "litserve" / "cnn_fp32", code=5).err
    assert "tune needs Optuna" in said and re.search(r"pip install .*optuna", said)
