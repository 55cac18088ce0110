"""Which input goes to which parameter of forward."""

from typing import Any

import numpy as np
import pytest

from .client import Client
from .conftest import Write, check_equal, export, network, refused, spec

X = spec("x", "batch", 4)
Y = spec("y", "batch", 4)


def net(parameters: str, result: str) -> str:
    batch = "import typing\nclass Batch(typing.TypedDict):\n    x: torch.Tensor\n"
    return batch + network(f"return {result}", takes=parameters)


@pytest.mark.parametrize(("parameters", "result", "inputs"), [
    ("x, y", "x - y", [X, Y]),
    ("y, x", "y - x", [X, Y]),
    ("a, b", "a - b", [X, Y]),
    ("x, *, y", "x - y", [X, Y]),
    ("*, y, x", "y - x", [X, Y]),
    ("*items", "items[0] - items[1]", [X, Y]),
    ("a, *items", "a - items[0] + items[1]", [X, Y, spec("z", "batch", 4)]),
    ("x, scale=2.0, y=None", "x * scale - y", [X, Y]),
    ("x, scale=2.0, *items", "x * scale", [X]),
    ("x, **more", "x - more['y']", [X, Y]),
    ("**batch", "batch['x'] - batch['y']", [X, Y]),
    ("batch", "batch['x'] - batch['y']", [X, Y]),
    ("batch: dict", "batch['x'] * 2", [X]),
    ("batch: Batch", "batch['x'] + 1", [X]),
    ("batch: 'Dict[str, Tensor]', flag=False", "batch['x'] - batch['y']", [X, Y]),
    (
        "batch, y",
        "batch['image']['left'] - batch['image']['right'] + y",
        [spec("batch.image.left", "batch", 4), spec("batch.image.right", "batch", 4), Y],
    ),
    ("x: 'list[torch.Tensor]'", "x[0] * len(x)", [X]),
    ("x", "x[1] - x[0] * len(x)", [spec("x.0", "batch", 4), spec("x.1", "batch", 4)]),
])  # fmt: skip
def test_matching(worker: Client, write: Write, parameters: str, result: str,
                  inputs: list[dict[str, Any]]) -> None:  # fmt: skip
    made = export(worker, write(net(parameters, result)), inputs)
    assert [i["name"] for i in made["inputs"]] == [i["name"] for i in inputs]
    assert made["exporter"] == "dynamo"
    check_equal(worker, made, batch=3)


def test_unused_input_stays_and_contradictions_are_told(worker: Client, write: Write) -> None:
    made = export(worker, write(net("x, y", "x + 1")), [X, Y])
    assert made["inputs"] == [X, Y]
    assert made["outputs"][0]["shape"] == ["batch", 4]
    check_equal(worker, made, batch=3)
    made = export(worker, write(net("x, y", "x - y")), [Y, spec("z", "batch", 4)])
    assert "input y goes to parameter x" in made["warnings"][0]


def test_constants(worker: Client, write: Write) -> None:
    path = write(net("x, shift: list, scale, flip=False", "(-x if flip else x) * scale + shift[1]"))
    made = export(worker, path, [X], constants={"scale": 3.0, "flip": True, "shift": [1, 2]})
    assert np.isfinite(check_equal(worker, made, batch=3)["output"]).all()


def test_dtypes(worker: Client, write: Write) -> None:
    results = "ids * mask, half * 2, wide * 2, small + small"
    path = write(net("ids, mask, half, wide, small", results))
    kinds = {"ids": "int64", "mask": "bool", "half": "float16", "wide": "float64", "small": "int32"}
    inputs = [spec(name, "batch", 4, dtype=kind) for name, kind in kinds.items()]
    made = export(worker, path, inputs)
    assert [o["dtype"] for o in made["outputs"]] == ["int64", "float16", "float64", "int32"]
    check_equal(worker, made, batch=3)


@pytest.mark.parametrize(("parameters", "inputs", "message", "constants"), [
    ("x, y", [X], "no input for y", {}),
    ("x", [X, X], "given twice", {}),
    ("x, y", [X, Y, spec("z", 2)], "3 inputs for 2 positional", {}),
    ("x", [], "no inputs are given", {}),
    ("x", [spec("x", 2, dtype="float33")], "no dtype 'float33'", {}),
    ("x", [spec("x", -1)], "bad shape", {}),
    ("x", [X], "no parameter for constant tempo", {"tempo": 1}),
])  # fmt: skip
def test_inputs_that_do_not_fit(
    worker: Client, write: Write, parameters: str, inputs: list[dict[str, Any]], message: str,
    constants: dict[str, int],
) -> None:  # fmt: skip
    refused(worker, write(net(parameters, "x")), inputs, message, kind="usage", constants=constants)
