"""Tests that connect to a cluster: ``python -m tests.executors.connected TEST ADDRESS``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import modelyard
from converter.commands.convert import planned_part
from converter.commands.executor import Task
from converter.errors import UsageError
from converter.executors.ray.cluster import connected
from converter.executors.ray.shares import shares_of


def asks_for_a_gpu(address: str) -> None:
    """What runs on one; a node says that it has one, and nothing here uses it."""

    def task(**options: Any) -> Task:
        fields = {"source": str(Path("cnn.onnx").resolve()), **options}
        return Task("-".join(map(str, options.values())), fields, planned_part("", fields))

    tasks = [task(to=["onnx"], bench=True), task(to=["tensorrt"], bench=False)]
    shared, onnx, tensorrt = shares_of(tasks, 2)
    assert shared.cells == {task.name for task in tasks} and not shared.measures
    with connected(address) as found:
        asked = [found.resources(share, 1 << 50) for share in (shared, onnx, tensorrt)]
    assert [item["num_gpus"] for item in asked] == [0, 0, 1]
    assert [item["num_cpus"] for item in asked] == [2, 2, 2]
    assert all(0 < item["memory"] < 1 << 50 for item in asked)


def refuses_live_models(address: str) -> None:
    with pytest.raises(UsageError, match="can't take a live dict"):
        modelyard.sweep("r.yaml", axes={"source": [{}]}, executor=f"ray:{address}", cache="store")


if __name__ == "__main__":
    globals()[sys.argv[1]](sys.argv[2])
