"""Several recipes in one command: the framework is imported once, and no model meets another."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest
import yaml

from tests.acceptance.cli import COMMAND, modelyard

NET = """
import os, sys
import torch

with open({pids!r}, "a") as told:
    print(os.getppid(), os.getpid(), file=told)
assert not hasattr(torch, "patched")
assert {{name for name in sys.modules if name.startswith("net_")}} <= {{__name__}}
torch.patched = True
torch.relu = torch.tanh
{dies}

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 3)

    def forward(self, x):
        return self.linear(x).relu()
"""


@pytest.fixture
def pids(tmp_path: Path) -> Path:
    return tmp_path / "pids"


def recipe(name: str, pids: Path, dies: str = "") -> str:
    folder = pids.parent
    (folder / f"net_{name}.py").write_text(NET.format(pids=str(pids), dies=dies))
    options = {"source": f"net_{name}.py:Net", "inputs": ["x:batchx4"], "samples": "random:2",
               "to": "onnx", "bench": False, "out": name}  # fmt: skip
    (folder / f"{name}.yaml").write_text(yaml.safe_dump(options))
    return f"{name}.yaml"


def processes(pids: Path) -> list[tuple[int, int]]:
    """For each model that was read, the process that forked, and the one that read it."""
    found = [line.split() for line in pids.read_text().splitlines()]
    return [(int(parent), int(own)) for parent, own in found]


@pytest.mark.slow
@pytest.mark.smoke
def test_a_framework_is_imported_once_and_no_model_meets_another(pids: Path) -> None:
    names = [recipe(name, pids) for name in ("first", "second", "third")]
    names.insert(1, "missing.yaml")
    done = modelyard("run", *names, "--trust-recipe", "--json", cwd=pids.parent, code=2)
    told = done.json["recipes"]
    assert [item["recipe"] for item in told] == names
    assert "missing.yaml" in told[1]["message"]
    verdicts = {item["out"]: item["report"]["verdict"] for item in told if "out" in item}
    assert verdicts.keys() == {"first", "second", "third"}
    (one, first), (two, second), (three, third) = processes(pids)
    assert one == two == three
    assert len({first, second, third}) == 3
    assert not any(psutil.pid_exists(pid) for pid in (one, first, second, third))


@pytest.mark.slow
def test_a_model_that_crashes_its_process_leaves_the_others(pids: Path) -> None:
    crash = "os.kill(os.getpid(), 11)"
    names = [recipe("first", pids), recipe("crash", pids, crash), recipe("last", pids)]
    done = modelyard("run", *names, "--trust-recipe", cwd=pids.parent, code=6)
    assert "SIGSEGV" in done.err
    assert (pids.parent / "first" / "manifest.json").exists()
    assert (pids.parent / "last" / "manifest.json").exists()
    (one, _), (two, _), (three, _) = processes(pids)
    assert one == two != three


def test_its_processes_die_with_a_command_that_is_killed(pids: Path) -> None:
    hangs = "import time; time.sleep(600)"
    names = [recipe("first", pids), recipe("hangs", pids, hangs)]
    with subprocess.Popen([COMMAND, "run", *names, "--trust-recipe"], cwd=pids.parent) as command:
        deadline = time.monotonic() + 120
        while not pids.exists() or len(processes(pids)) < 2:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        forking, own = processes(pids)[1]
        os.kill(psutil.Process(forking).ppid(), signal.SIGKILL)
        command.wait(30)
    while psutil.pid_exists(forking) or psutil.pid_exists(own):
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_one_output_for_several_is_refused(pids: Path) -> None:
    names = [recipe(name, pids) for name in ("first", "second")]
    done = modelyard("run", *names, "--trust-recipe", "--out", "all", cwd=pids.parent, code=2)
    assert "--out all names one output, but there are 2 recipes" in done.err
    assert not pids.exists()
