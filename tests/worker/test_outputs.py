"""What forward may return, and how the outputs are called."""

from pathlib import Path

import numpy as np
import pytest

from .client import Client
from .conftest import Write, check_equal, eager, export, make_feeds, network, refused, spec

X = spec("x", "batch", 4)
BEFORE = """
import collections, dataclasses

@dataclasses.dataclass
class Result:
    logits: torch.Tensor
    extra: object = None

class Ordered(collections.OrderedDict):
    pass

Pair = collections.namedtuple("Pair", "mean std")
"""


def net(result: str) -> str:
    init = "self.weight = nn.Parameter(torch.ones(4))"
    return BEFORE + network(f"y = x * 2\nreturn {result}", init)


@pytest.mark.parametrize(("result", "names"), [
    ("y", "output"),
    ("(y, x - 1)", "output_0 output_1"),
    ("[y]", "output_0"),
    ("(y, None, x - 1)", "output_0 output_2"),
    ("{'logits': y, 'none': None, 'mask': y > 0}", "logits mask"),
    ("Result(y)", "logits"),
    ("Result(y, {'a': x + 1, 'b': (x + 2, x + 3)})", "logits extra.a extra.b.0 extra.b.1"),
    ("Ordered(loss=y.sum(), logits=y)", "loss logits"),
    ("({}, [{'boxes': y, 'scores': y + 1}])", "boxes scores"),
    ("Pair(y.mean(1), std=y.std(1))", "mean std"),
    ("(y, {'deep': [x + 1]})", "output_0 output_1.deep.0"),
    ("{'same': y, 'again': y, 'input': x, 'weight': self.weight}", "same again input weight"),
    ("{'constant': torch.arange(3), 'file': y}", "constant file"),
])  # fmt: skip
def test_names(worker: Client, write: Write, result: str, names: str) -> None:
    made = export(worker, write(net(result)), [X])
    assert " ".join(o["name"] for o in made["outputs"]) == names
    check_equal(worker, made, batch=3)


def test_names_given_by_the_user_and_those_of_inputs(worker: Client, write: Write) -> None:
    made = export(worker, write(net("{'x': y}")), [X])
    assert [o["name"] for o in made["outputs"]] == ["x_out"]
    assert made["warnings"] == ["output x is called x_out: an input has that name"]
    check_equal(worker, made, batch=3)
    made = export(worker, write(net("(y, x - 1)")), [X], outputs=["double", "less"])
    assert [o["name"] for o in made["outputs"]] == ["double", "less"]
    check_equal(worker, made, batch=3)
    for outputs in (["one"], ["one", "one"], ["x", "y"]):
        refused(worker, write(net("(y, x - 1)")), [X], kind="usage", outputs=outputs)


@pytest.mark.parametrize("optimize", [True, False])
def test_names_of_operators_and_weights(worker: Client, write: Write, optimize: bool) -> None:
    """The exporter calls inner values `add`, `mul`, `val_0`, `model.weight` itself."""
    init = "self.weight = nn.Parameter(torch.full((4,), 3.0))", "self.layer = nn.Linear(4, 4)"
    path = write(network("""
        y = mul + 1 + model
        z = self.layer(y * 2)
        return {"add": z + self.weight, "linear": z * y, "weight": z - 1,
                "model.weight": z + 2, "val_0": z.reshape(-1, 2, 2), "add_1": y}""",
        *init, takes="mul, model"))  # fmt: skip
    inputs = [spec("mul", "batch", 4), spec("model", "batch", 4)]
    made = export(worker, path, inputs, optimize=optimize)
    assert made["inputs"] == inputs
    check_equal(worker, made, batch=3)


@pytest.mark.parametrize(("result", "message"), [
    ("(y, 3.0)", "output 'output_1' is a float"),
    ("{'n': y.shape[0]}", "output 'n' is a"),
    ("None", "returned no tensor"),
    ("{'a.b': y, 'a': {'b': y}}", "two outputs are called a.b"),
    ("torch.complex(y, y)", "complex64"),
    ("object()", "the output is a object"),
])  # fmt: skip
def test_results_that_are_refused(worker: Client, write: Write, result: str, message: str) -> None:
    refused(worker, write(net(result)), [X], message, kind="unsupported")


def test_run_without_export(worker: Client, write: Write, tmp_path: Path) -> None:
    worker.call("load", source=f"{write(net('y, y.bfloat16()'))}:Net")
    outputs = eager(worker, tmp_path, make_feeds([X], batch=3))
    found = {name: array.dtype.name for name, array in outputs.items()}
    assert found == {"output_0": "float32", "output_1": "float32"}


def test_run_many_feeds_at_once(worker: Client, write: Write, tmp_path: Path) -> None:
    worker.call("load", source=f"{write(net('y'))}:Net")
    feeds, outs = [], []
    for size in (1, 2):
        feeds.append(str(tmp_path / f"in{size}.npz"))
        outs.append(str(tmp_path / f"out{size}.npz"))
        np.savez(feeds[-1], x=np.ones((size, 4), np.float32))
    described = worker.call("run", feeds=feeds, out=outs)["outputs"]
    assert described == [{"name": "output", "dtype": "float32", "shape": [2, 4]}]
    assert np.load(outs[0])["output"].shape == (1, 4)


def test_feeds_that_do_not_fit(worker: Client, write: Write, tmp_path: Path) -> None:
    export(worker, write(net("y")), [X])
    np.savez(tmp_path / "in.npz", z=np.ones(2))
    out = str(tmp_path / "out.npz")
    for name in ("in.npz", "none.npz", "net.py"):
        worker.refuses("usage", (), "run", feeds=str(tmp_path / name), out=out, constants={"a": 1})
