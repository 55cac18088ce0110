"""LiteRT in its child process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from converter.arrays import load_arrays, save_arrays
from converter.errors import ModelError, UsageError
from converter.interpreter import interpreter
from converter.worker import Worker
from tests.tflite.build import File, adder
from tests.tflite.litert import Stepped
from tests.tflite.real import real_file

Array = np.ndarray[Any, Any]


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    """One child for all tests."""
    how = {"what": "the LiteRT process", "extra": "tflite", "source": "a test"}
    made = Worker("litert", **how, interpreter=interpreter(None), progress=lambda text: None)
    yield made
    made.close()


def _load(
    worker: Worker, file: Path, inputs: Mapping[str, int], outputs: Mapping[str, int], **more: Any
) -> Any:
    def named(numbers: Mapping[str, int]) -> list[dict[str, Any]]:
        return [{"name": name, "index": index} for name, index in numbers.items()]

    given = {"inputs": named(inputs), "outputs": named(outputs)} | more
    return worker.call("load", file=str(file), **given)


def _run(worker: Worker, folder: Path, feeds: Mapping[str, Array]) -> dict[str, Array]:
    save_arrays(folder / "in.npz", feeds)
    worker.call("run", feeds=str(folder / "in.npz"), out=str(folder / "out.npz"))
    return load_arrays(folder / "out.npz")


def _written(file: File, folder: Path) -> Path:
    path = folder / "test.tflite"
    path.write_bytes(file.content())
    return path


def test_it_says_what_is_installed(worker: Worker) -> None:
    answer = worker.call("hello")
    assert answer["ai-edge-litert"] and answer["numpy"]


def test_names_order_and_results(worker: Worker, tmp_path: Path) -> None:
    path = real_file("alexa")
    loaded = _load(worker, path, {"audio": 0}, {"probability": 69, "sound": 0})
    assert loaded["signatures"] == ["serving_default"]
    sound = np.random.default_rng(0).integers(-128, 128, (1, 3, 40)).astype(np.int8)
    found = _run(worker, tmp_path, {"audio": sound})
    assert list(found) == ["probability", "sound"]
    assert found["probability"].dtype == np.uint8  # as stored
    own = Stepped(path, inner=False)
    own.run({0: sound})
    assert np.array_equal(found["probability"], own.get(69))
    assert np.array_equal(found["sound"], sound)


def test_inputs_of_another_size(worker: Worker, tmp_path: Path) -> None:
    file, _ = adder()
    _load(worker, _written(file, tmp_path), {"x": 0}, {"y": 2})
    for batch in (1, 3, 2):
        x = np.full((batch, 4), batch, np.float32)
        assert np.array_equal(_run(worker, tmp_path, {"x": x})["y"], x + 1)


def test_a_signature_of_another_subgraph(worker: Worker, tmp_path: Path) -> None:
    file, _ = adder()
    graph = file.graph("double")
    x = graph.tensor("x", (1, 4))
    y = graph.add(x, x, (1, 4), "y")
    graph.interface([x], [y])
    file.signature("double", graph, {"number": x}, {"twice": y})
    second = {"subgraph": 1, "signature": "double"}
    _load(worker, _written(file, tmp_path), {"number": x}, {"twice": y}, **second)
    three = np.full((2, 4), 3, np.float32)
    assert np.array_equal(_run(worker, tmp_path, {"number": three})["twice"], three * 2)


@pytest.mark.parametrize(("threads", "concurrency"), [(1, 1), (2, 1), (1, 2), (None, 1)])
def test_latency(worker: Worker, tmp_path: Path, threads: int | None, concurrency: int) -> None:
    path = real_file("face-short")
    _load(worker, path, {"image": 0}, {"boxes": 175})
    save_arrays(tmp_path / "in.npz", {"image": np.zeros((1, 128, 128, 3), np.float32)})
    how = {"runs": 4, "threads": threads, "concurrency": concurrency, "warmup": 1}
    answer = worker.call("time", feeds=str(tmp_path / "in.npz"), **how)
    assert len(answer["ns"]) == 4 and all(ns > 10_000 for ns in answer["ns"])
    assert answer["total_ns"] >= max(answer["ns"])
    assert answer["threads"] == threads if threads else answer["threads"] >= 1


def test_what_litert_refuses(worker: Worker, tmp_path: Path) -> None:
    """Shapes that the file's own checks don't look at."""
    file = File()
    graph = file.graph()
    x = graph.tensor("x", (1, 4))
    three = graph.tensor("three", (3,), data=np.ones(3, np.float32))
    graph.interface([x], [graph.add(x, three, (1, 4), "y")])
    with pytest.raises(ModelError, match="LiteRT failed while"):
        _load(worker, _written(file, tmp_path), {"x": 0}, {"y": 2})
        _run(worker, tmp_path, {"x": np.zeros((1, 4), np.float32)})


def test_feeds_that_do_not_fit(worker: Worker, tmp_path: Path) -> None:
    file, _ = adder()
    _load(worker, _written(file, tmp_path), {"x": 0}, {"y": 2})
    with pytest.raises(UsageError, match="inputs are missing: x"):
        _run(worker, tmp_path, {"z": np.zeros((1, 4), np.float32)})
    with pytest.raises(ModelError, match="LiteRT failed while running the model"):
        _run(worker, tmp_path, {"x": np.zeros((1, 4), np.int8)})
    with pytest.raises(UsageError, match="the feeds can't be read"):
        worker.call("run", feeds=str(tmp_path / "none.npz"), out=str(tmp_path / "out.npz"))
