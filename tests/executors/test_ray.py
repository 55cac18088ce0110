"""Sweeps on a Ray cluster whose head and nodes are processes of their own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from converter.commands.convert import planned_part
from converter.commands.executor import Task
from tests.acceptance.cli import COMMAND, Said, images, modelyard, names, small_cnn, tree
from tests.docs.running import ROOT
from tests.executors.cluster import Cluster, cluster, node

if find_spec("ray") is not None:
    from converter.executors.ray.shares import shares_of

pytestmark = pytest.mark.skipif(find_spec("ray") is None, reason="Ray isn't installed")

AXES = {"to": ["onnx", "tflite"], "precision": ["fp32", "int8"]}

NET = """
import os, time
from pathlib import Path
import torch
from beside.parts import double

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        begun = Path({folder!r})
        if len(list(begun.iterdir())) < {often}:
            (begun / str(os.getpid())).touch()
            time.sleep(300)
        torch.manual_seed(0)
        self.fc = torch.nn.Linear(4, 4)

    def forward(self, x):
        return self.fc(double(x))
"""


@pytest.fixture(scope="module")
def caches(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The nodes' caches."""
    return tmp_path_factory.mktemp("nodes")


@pytest.fixture(scope="module")
def ray_cluster(caches: Path) -> Iterator[Cluster]:
    with cluster(node(caches / "a"), node(caches / "b", num_gpus=1)) as made:
        yield made


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    small_cnn(tmp_path / "cnn.onnx")
    images(tmp_path / "samples.npz", 8)
    recipe(tmp_path, sweep=AXES)
    return tmp_path


def recipe(folder: Path, **changes: Any) -> None:
    options = {"source": "cnn.onnx", "samples": "samples.npz", "bench": False, **changes}
    (folder / "r.yaml").write_text(yaml.safe_dump(options, sort_keys=False))


def on(made: Cluster, out: str = "out") -> list[str]:
    """The arguments of a sweep on a cluster."""
    return ["r.yaml", "--executor", f"ray:{made.address}", "--cache", "store", "--out", out]


def swept(folder: Path, *args: str, code: int = 0) -> Said:
    return modelyard("sweep", *args, cwd=folder, code=code)


def cells(folder: Path, where: str) -> dict[str, Any]:
    told = json.loads((folder / where / "sweep.json").read_text())
    return {cell["name"]: cell for cell in told["cells"]}


def slow_code(folder: Path, often: int) -> Path:
    """A source of code that sleeps when it is read, as often as that; gives the folder with the
    numbers of the processes in which it has begun."""
    begun = folder / "begun"
    begun.mkdir()
    (folder / "code" / "beside").mkdir(parents=True)
    (folder / "code" / "net.py").write_text(NET.format(folder=str(begun), often=often))
    (folder / "code" / "beside" / "parts.py").write_text("def double(x):\n    return x * 2\n")
    recipe(folder, source="code/net.py:Net", samples="random:4", inputs=["x:batchx4"],
           sweep={"to": ["onnx"]})  # fmt: skip
    return begun


def until(true: Callable[[], bool], seconds: float = 90) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.1)


def begin(folder: Path, *args: str) -> subprocess.Popen[str]:
    return subprocess.Popen([COMMAND, "sweep", *args, "--trust-recipe"], cwd=folder, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip


def test_sources_are_together_as_far_as_nodes_have_work(tmp_path: Path) -> None:
    def task(source: str, target: str) -> Task:
        fields = {"source": str(tmp_path / source), "to": [target], "bench": False}
        return Task(f"{source}-{target}", fields, planned_part("", fields))

    def together(nodes: int, count: int) -> list[list[str]]:
        shares = shares_of(
            [task(source, to) for source in sources[:count] for to in targets], nodes
        )
        return [sorted({t.name.split(".")[0] for t in s.tasks}) for s in shares if not s.steps]

    sources, targets = [f"{name}.onnx" for name in "abcdef"], ("onnx", "tflite", "coreml")
    for number, source in enumerate(sources):
        small_cnn(tmp_path / source, channels=2 + number)
    assert together(1, 6) == [["a", "b", "c", "d", "e", "f"]]
    assert together(2, 6) == [["a", "b"], ["c", "d"], ["e", "f"]]
    assert together(3, 2) == [["a"], ["a"], ["b"], ["b"]]


def workers(name: str) -> list[psutil.Process]:
    """Ray's processes that carry out a cell."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        line = " ".join(process.info["cmdline"] or ())
        if line.startswith("ray::") and name in line:
            found.append(process)
    return found


def gone(begun: Path) -> bool:
    """Whether no process is left in which the code had begun."""
    return not any(psutil.pid_exists(int(name)) for name in names(begun))


def artifacts(folder: Path) -> dict[str, bytes]:
    own = ("report.json", "report.html", "manifest.json")
    return {name: data for name, data in tree(folder).items() if Path(name).name not in own}


@pytest.mark.slow
def test_artifacts_are_those_of_this_machine_and_shared_steps_run_once(
    folder: Path, ray_cluster: Cluster, caches: Path
) -> None:
    swept(folder, "r.yaml", "--out", "local", "--no-cache")
    done = swept(folder, *on(ray_cluster))
    assert "[4/4]" in done.err and (folder / "out" / "report.html").exists()
    for name in ("onnx-fp32", "onnx-int8", "tflite-fp32", "tflite-int8"):
        here, there = artifacts(folder / "local" / name), artifacts(folder / "out" / name)
        assert here == there and here
        timings = json.loads((folder / "out" / name / "report.json").read_text())["timings"]
        done_here = {item["step"] for item in timings if not item["cached"]}
        assert not done_here & {"reference", "simplify", "calibrate", "trace:simplify"}
    assert all((caches / name / "steps").is_dir() for name in "ab")
    assert "4 of 4: made by an earlier run" in swept(folder, *on(ray_cluster)).err
    fresh = {"MODELYARD_CACHE": str(folder / "fresh")}
    line = ("sweep", "r.yaml", "--cache", "store", "--out", "copied")
    assert "4 of 4: made by an earlier run" in modelyard(*line, cwd=folder, env=fresh, code=0).err
    both = [tree(folder / out / "tflite-int8") for out in ("out", "copied")]
    assert both[0] == both[1]


@pytest.mark.slow
def test_errors_come_home_in_the_same_words(folder: Path, ray_cluster: Cluster) -> None:
    recipe(folder, min_cosine=1.0, max_drop=None, sweep={
        "precision": ["fp32", "int8-dynamic"], "outputs": [["scores"], ["nothing"]],
    })  # fmt: skip
    here = swept(folder, "r.yaml", "--out", "local", code=4)
    there = swept(folder, *on(ray_cluster), code=here.code)
    local, far = cells(folder, "local"), cells(folder, "out")
    assert [cell["error"] for cell in far.values()] == [
        json.loads(json.dumps(cell["error"]).replace("local/", "out/")) for cell in local.values()
    ]
    assert names(folder / "local") == names(folder / "out")
    assert there.err.count("error") == here.err.count("error")


@pytest.mark.slow
def test_a_killed_worker_leaves_no_process_and_is_tried_again(
    folder: Path, ray_cluster: Cluster
) -> None:
    begun = slow_code(folder, often=1)
    run = begin(folder, *on(ray_cluster))
    until(lambda: bool(names(begun)))
    [worker] = workers("modelyard")
    worker.kill()
    until(lambda: gone(begun), 15)
    _, err = run.communicate(timeout=120)
    assert run.returncode == 0, err
    assert names(folder / "out" / "onnx" / "onnx")


@pytest.mark.slow
def test_cells_together_are_tried_again_each_by_itself(folder: Path, tmp_path: Path) -> None:
    begun = slow_code(folder, often=1)
    sweep = {"to": ["onnx"], "precision": ["fp32", "fp16"]}
    recipe(folder, source="code/net.py:Net", samples="random:8", inputs=["x:batchx4"], sweep=sweep)
    with cluster(node(tmp_path / "cache")) as made:
        run = begin(folder, *on(made))
        until(lambda: bool(names(begun)))
        [worker] = workers("modelyard onnx-fp32 and 1 more")
        worker.kill()
        until(lambda: gone(begun), 15)
        until(lambda: bool(workers("modelyard onnx-fp32")))
        assert not workers("more")
        _, err = run.communicate(timeout=120)
    assert run.returncode == 0, err
    assert all(names(folder / "out" / f"onnx-{name}" / "onnx") for name in ("fp32", "fp16"))


@pytest.mark.slow
def test_a_worker_that_dies_three_times_fails_its_cell(folder: Path, ray_cluster: Cluster) -> None:
    begun = slow_code(folder, often=9)
    run = begin(folder, *on(ray_cluster))
    for count in (1, 2, 3):
        until(lambda count=count: len(names(begun)) == count)  # type: ignore[misc]
        [worker] = workers("modelyard")
        worker.kill()
    _, err = run.communicate(timeout=60)
    assert run.returncode == 6 and "its process died, 3 times" in err, err
    assert "reading the model" in err and "Traceback" not in err
    until(lambda: gone(begun), 15)


@pytest.mark.slow
def test_two_sweeps_share_a_cluster(folder: Path, ray_cluster: Cluster) -> None:
    recipe(folder, sweep={"to": ["onnx"], "precision": ["fp32", "int8"]})
    runs = [begin(folder, *on(ray_cluster, name)) for name in ("one", "two")]
    for run in runs:
        _, err = run.communicate(timeout=200)
        assert run.returncode == 0, err
    for name in ("onnx-int8", "onnx-fp32"):
        assert artifacts(folder / "one" / name) == artifacts(folder / "two" / name)


@pytest.mark.slow
def test_ctrl_c_ends_what_runs_on_the_cluster(folder: Path, ray_cluster: Cluster) -> None:
    begun = slow_code(folder, often=9)
    run = begin(folder, *on(ray_cluster))
    until(lambda: bool(names(begun)))
    run.send_signal(signal.SIGINT)
    _, err = run.communicate(timeout=15)
    assert run.returncode == 130 and "interrupted" in err and "Traceback" not in err, err
    until(lambda: gone(begun) and not workers("modelyard"), 15)
    assert names(folder / "out") == ["sweep.json"]


@pytest.mark.slow
def test_a_head_that_is_gone_is_told(folder: Path, tmp_path: Path) -> None:
    begun = slow_code(folder, often=1)
    with cluster(node(tmp_path / "cache")) as made:
        address = made.address
        run = begin(folder, *on(made))
        until(lambda: bool(names(begun)))
        made.kill_head()
        _, err = run.communicate(timeout=60)
        assert run.returncode == 6, err
        assert f"the head of the Ray cluster at {address} is gone" in err
        assert "Traceback" not in err
    until(lambda: gone(begun), 15)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["asks_for_a_gpu", "refuses_live_models"])
def test_in_a_process(folder: Path, ray_cluster: Cluster, name: str) -> None:
    """Ray's threads stay in a process of their own: tests of this one's worker fork."""
    argv = [sys.executable, "-m", "tests.executors.connected", name, ray_cluster.address]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(argv, cwd=folder, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("args, code, says", [
    (["--executor", "ray:127.0.0.1:9"], 2, "no --cache names one"),
    (["--executor", "ray:127.0.0.1:9", "--cache", "store"], 6, "no Ray cluster at 127.0.0.1:9"),
    (["--executor", "ray:ray://127.0.0.1:9", "--cache", "store"], 2, "address of Ray's client"),
    (["--executor", "local:there"], 2, "local is this machine"),
    (["--executor", "rey"], 2, "there is no executor 'rey'"),
])  # fmt: skip
def test_what_cant_be_carried_out_is_refused(
    folder: Path, args: list[str], code: int, says: str
) -> None:
    done = modelyard("sweep", "r.yaml", *args, "--out", "out", cwd=folder).ended(code)
    assert says in done.err and not (folder / "out" / "report.html").exists()
