"""The ONNX file: symbols, determinism, what it must not hold, and models that do not export."""

import hashlib
import shutil
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir
import pytest
import torch
import torch.nn.functional as F

from parsers.pytorch.child import decompose
from parsers.pytorch.child.ahead import Ahead
from parsers.pytorch.child.export import _merged, translate
from parsers.pytorch.child.tensors import Spec
from parsers.worker.errors import WorkerError

from .client import Client
from .conftest import (
    Write,
    check_equal,
    eager,
    export,
    in_onnxruntime,
    make_feeds,
    network,
    refused,
    spec,
)

CONVNET = network("""
    features = self.body(image)
    return {"logits": self.head(features.mean((2, 3))), "features": features}""",
    "one = nn.Conv2d(3, 64, 3, 2, 1), nn.BatchNorm2d(64), nn.ReLU()",
    "two = nn.Conv2d(64, 128, 3, 2, 1), nn.BatchNorm2d(128), nn.ReLU()",
    "self.body, self.head = nn.Sequential(*one, *two), nn.Linear(128, 5)",
    takes="image")  # fmt: skip


def test_equal_to_eager_at_several_batches(worker: Client, write: Write, tmp_path: Path) -> None:
    made = export(worker, write(CONVNET), [spec("image", "batch", 3, 32, 32)])
    assert made["exporter"] == "dynamo"
    assert made["sizes"] == {"batch": 2}
    assert [o["shape"] for o in made["outputs"]] == [["batch", 5], ["batch", 128, 8, 8]]
    for batch in (1, 2, 5):
        check_equal(worker, made, batch=batch)
    content = Path(made["out"]).read_bytes()  # nothing leaks into the file
    for leak in (str(tmp_path), "net.py", "site-packages", "stack_trace", "pkg.torch", "self.body"):
        assert leak.encode() not in content


def test_symbolic_sizes_with_any_name(worker: Client, write: Write) -> None:
    image = spec("image", "batch", 3, "height", "width")
    made = export(worker, write(CONVNET), [image], sizes={"height": 32})
    assert made["inputs"] == [image]
    assert made["sizes"] == {"batch": 2, "height": 32, "width": 64}
    check_equal(worker, made, batch=1, height=48, width=40)
    path = write(network("return x + 1"))
    for names in (("N-1", "seq len"), ("I", "S"), ("lambda", "_")):
        made = export(worker, path, [spec("x", *names, 4)])
        assert made["inputs"][0]["shape"] == made["outputs"][0]["shape"] == [*names, 4]


def test_a_symbol_that_became_a_number_must_be_fixed() -> None:
    """Which torch.onnx.export may still make of one, after torch.export has let it be."""
    specs = [Spec("x", "float32", ("batch", "seq", 3))]
    assert _merged(specs, [{"shape": ["batch", "batch", 3]}]) == ["seq is always batch"]
    with pytest.raises(WorkerError, match="only for one size of seq") as caught:
        _merged(specs, [{"shape": ["batch", 8, 3]}])
    assert caught.value.extra == {"specialized": {"seq": 8}}


def test_names_of_weights_and_valid_file(worker: Client, write: Write) -> None:
    made = export(worker, write(CONVNET), [spec("image", "batch", 3, 32, 32)], optimize=False)
    model = onnx.load(made["out"])
    onnx.checker.check_model(model, full_check=True)
    assert model.opset_import[0].version == 20
    names = {tensor.name for tensor in model.graph.initializer}
    assert {"body.0.weight", "body.3.weight", "head.bias"} <= names
    # Written by hand in part: it must be what protobuf itself would write.
    assert len(model.SerializeToString()) == Path(made["out"]).stat().st_size


def test_recurrent_network_with_symbolic_length(worker: Client, write: Write) -> None:
    path = write(network("return self.rnn(x)[0]", "self.rnn = nn.LSTM(3, 4, batch_first=True)"))
    made = export(worker, path, [spec("x", "batch", "seq", 3)])
    assert made["outputs"][0]["shape"] == ["batch", "seq", 4]
    assert any("traced assuming batch != 1" in w for w in made["warnings"])
    for batch, seq in ((1, 7), (3, 1)):
        check_equal(worker, made, batch=batch, seq=seq)


@pytest.mark.slow
def test_byte_identical_from_other_folders_and_seeds(tmp_path: Path, write: Write) -> None:
    path = write(CONVNET)
    files = []
    for seed in ("0", "1234"):
        folder = tmp_path / f"copy{seed}" / "deep"
        folder.mkdir(parents=True)
        shutil.copy(path, folder / "net.py")
        with Client(cwd=folder, env={"PYTHONHASHSEED": seed}) as client:
            made = export(client, folder / "net.py", [spec("image", "batch", 3, "h", "w")])
        files.append(Path(made["out"]).read_bytes())
    assert files[0] == files[1]


@pytest.mark.parametrize(("body", "shape", "symbol", "size"), [
    ("return x + torch.zeros(int(x.shape[0]), 4)", ("batch", 4), "batch", 2),
    ("return sum(x[:, i] for i in range(x.shape[1]))", ("batch", "seq", 4), "seq", 64),
])  # fmt: skip
def test_symbols_that_must_be_fixed(
    worker: Client, write: Write, body: str, shape: tuple[int | str, ...], symbol: str, size: int
) -> None:
    path = write(network(body))
    failure = refused(worker, path, [spec("x", *shape)], kind="unsupported")
    assert failure.error["specialized"] == {symbol: size}
    assert f"{symbol} must be fixed" in failure.details[0]
    made = export(worker, path, [spec("x", *(size if d == symbol else d for d in shape))])
    assert size in made["inputs"][0]["shape"]
    check_equal(worker, made, batch=3)


@pytest.mark.parametrize(("body", "shape", "warning"), [
    ("return x + 1 if x.shape[1] > 3 else x", ("batch", "seq"), "traced assuming 4 <= seq"),
    ("return x @ x", ("batch", "h", "w"), "w is always h"),
])  # fmt: skip
def test_conditions_on_symbols_are_told(worker: Client, write: Write, body: str,
                                        shape: tuple[str, ...], warning: str) -> None:  # fmt: skip
    made = export(worker, write(network(body)), [spec("x", *shape)], sizes={"h": 64, "w": 64})
    assert warning in made["warnings"]


@pytest.mark.parametrize("body", [
    "return x + 1 if x.sum() > 0 else x - 1",
    "return x * float(x.sum().item() > 0)",
    "return x * torch.ones(int(x.abs().sum().item()), 1).sum()",
    "return x * torch.from_numpy(x.numpy())",
])  # fmt: skip
def test_decisions_by_values(worker: Client, write: Write, body: str) -> None:
    """A trace keeps one branch; other inputs show it."""
    path, says = write(network(body)), "branches on the values"
    failure = refused(worker, path, [spec("x", "batch", 4)], says, kind="unsupported")
    assert failure.message.startswith(f"{path}:8 takes ")


def test_every_missing_operator_is_named(worker: Client, write: Write) -> None:
    path = write(network("return torch.special.airy_ai(x) + torch.special.bessel_y0(x)"))
    text = "\n".join(refused(worker, path, [spec("x", "batch", 4)], kind="unsupported").details)
    assert "no ONNX translation for aten.special_airy_ai.default" in text
    for part in ("special_bessel_y0", f"{path}:8", "TorchScript"):
        assert part in text


def test_error_in_forward_is_the_users(worker: Client, write: Write) -> None:
    path = write(network("return x @ torch.zeros(3, 3)"))
    failure = refused(worker, path, [spec("x", "batch", 4)], "batch=2", kind="source")
    assert failure.message.startswith(f"{path}:8: RuntimeError while running forward")


def test_ids_without_a_dtype(worker: Client, write: Write) -> None:
    path = write(network("return self.table(x)", "self.table = nn.Embedding(9, 3)"))
    refused(worker, path, [spec("x", "batch", 4)], "write --input x:int64:...", kind="source")


def test_external_data(worker: Client, write: Write) -> None:
    made = export(worker, write(CONVNET), [spec("image", "batch", 3, 32, 32)], external_from=1000)
    assert made["external"] == ["net.onnx.data"]
    assert Path(made["out"]).stat().st_size < 20_000
    check_equal(worker, made, batch=2)


TIED = network("""
    return self.head(self.mix(self.table(ids))) * self.scale + self.bias""",
    "self.table, self.mix = nn.Embedding(40, 24), nn.Linear(24, 24)",
    "self.head = nn.Linear(24, 40, bias=False)",
    "self.head.weight = self.table.weight",
    "self.bias = nn.Parameter(torch.randn(40, 2)[:, 0])",
    "self.register_buffer('scale', torch.randn(40))",
    takes="ids")  # fmt: skip


def test_weights_are_written_ahead_as_the_model_has_them(worker: Client, write: Write) -> None:
    """One is read as it is and transposed, one is a column of another; one is a buffer."""
    ids = [spec("ids", "batch", 3, dtype="int64")]
    made = export(worker, write(TIED), ids, external_from=1)
    check_equal(worker, made, batch=4)
    stored = onnx.load(made["out"])
    found = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in stored.graph.initializer}
    assert {array.shape for array in found.values()} > {(40, 24), (24, 40), (24, 24)}
    ahead = made["sha256"]
    assert sorted(found[name].shape for name in ahead) == [(24,), (24, 24), (24, 40)]
    for name, digest in ahead.items():
        assert digest == hashlib.sha256(found[name].tobytes()).hexdigest()


def test_a_weight_that_changes_meanwhile_is_written_anew(tmp_path: Path) -> None:
    module = torch.nn.Linear(300, 200, bias=False)
    program = torch.export.export(module, (torch.zeros(2, 5, 300),))
    ahead = Ahead(module, tmp_path / "weights")
    with redirect_stdout(None):
        model = torch.onnx.export(program, dynamo=True, optimize=False).model
    ahead.fold(model)
    with torch.no_grad():
        module.weight.add_(1)
    assert ahead.put_in(model) == {}
    (weight,) = (value.const_value for value in model.graph.initializers.values())
    assert weight.path == str(tmp_path / "weights")
    np.testing.assert_array_equal(weight.numpy(), module.weight.detach().numpy().T)


class Plain(torch.nn.Module):
    """Nothing in it needs to be decomposed but what a function does to it."""

    def __init__(self, change: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.norm, self.change = torch.nn.Conv2d(3, 4, 3), torch.nn.LayerNorm(4), change

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The mean of each channel, changed, and which of them are above the others' mean."""
        pooled = F.adaptive_avg_pool2d(self.conv(x.to(torch.float32)), 1).flatten(1)
        return self.change(pooled) + (self.norm(pooled) > 0).to(torch.float32)


@pytest.mark.parametrize(
    ("change", "again"),
    [(lambda x: F.dropout(x.reshape(-1, 2, 2).flatten(1), 0.5, False), 0),
     (lambda x: F.adaptive_avg_pool1d(x.double()[:, None], [1]).to(torch.float32)[:, 0], 0),
     (lambda x: F.adaptive_avg_pool1d(x[:, None], [2]).repeat(1, 1, 2)[:, 0], 1),
     (lambda x: x.clone().mul_(3), 1)],
    ids=["views", "pooled", "pooled to two", "in place"],
)  # fmt: skip
def test_what_needs_no_decomposition_isnt_traced_again(
    change: Callable[[torch.Tensor], torch.Tensor], again: int, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    whole, traced = torch.export.ExportedProgram.run_decompositions, []

    def counted(program: Any, table: Any) -> Any:
        traced.append(program)
        return whole(program, table)

    monkeypatch.setattr(torch.export.ExportedProgram, "run_decompositions", counted)
    model, x = Plain(change).eval(), torch.randn(3, 3, 9, 9)
    program = torch.export.export(model, (x,), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},))
    made = translate(program, [Spec("x", "float32", ("n", 3, 9, 9))], ["y"], False)
    onnx_ir.save(made, tmp_path / "net.onnx")
    assert len(traced) == again
    for images in (x, x[:1], x[:0]):
        found = in_onnxruntime(tmp_path / "net.onnx", {"x": images.numpy()})["y"]
        np.testing.assert_allclose(found, model(images).detach().numpy(), 1e-5, 1e-6)


def test_what_fails_without_decomposition_is_decomposed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program with an operator that has no translation, taken for one that has."""
    monkeypatch.setattr(decompose, "_is_translated", lambda *args: True)
    model, x = Plain(torch.square).eval(), torch.randn(2, 3, 9, 9)
    program = torch.export.export(model, (x,))
    made = translate(program, [Spec("x", "float32", (2, 3, 9, 9))], ["y"], False)
    onnx_ir.save(made, tmp_path / "net.onnx")
    found = in_onnxruntime(tmp_path / "net.onnx", {"x": x.numpy()})["y"]
    np.testing.assert_allclose(found, model(x).detach().numpy(), 1e-5, 1e-6)


def test_dropout_and_gradients_are_off(worker: Client, write: Write, tmp_path: Path) -> None:
    made = "self.layer = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.9)); self.train()"
    net = network("assert not torch.is_grad_enabled()\nreturn self.layer(x)", made)
    path = write(f"torch.set_grad_enabled(True)\n{net}")
    check_equal(worker, export(worker, path, [spec("x", "batch", 4)]), batch=3)
    feeds = make_feeds([spec("x", 2, 4)])
    first, second = (eager(worker, tmp_path, feeds) for _ in range(2))
    np.testing.assert_array_equal(first["output"], second["output"])


@pytest.mark.parametrize("concurrency", [1, 3])
def test_timing(worker: Client, write: Write, tmp_path: Path, concurrency: int) -> None:
    path = write(network("import time; time.sleep(0.01); return x + 1"))
    worker.call("load", source=f"{path}:Net")
    np.savez(tmp_path / "in.npz", x=np.ones(4, np.float32))
    took = worker.call(
        "time", feeds=str(tmp_path / "in.npz"), runs=9, threads=1, concurrency=concurrency
    )
    assert len(took["ns"]) == 9
    assert all(9_000_000 < ns < 500_000_000 for ns in took["ns"])
    assert took["threads"] == 1
    parallel = sum(took["ns"]) / took["total_ns"]
    assert parallel <= 1 if concurrency == 1 else parallel > 1.5


def test_timing_of_a_failing_model(worker: Client, write: Write, tmp_path: Path) -> None:
    path = write(network("raise ValueError('tired')"))
    worker.call("load", source=f"{path}:Net")
    np.savez(tmp_path / "in.npz", x=np.ones(4, np.float32))
    feeds = str(tmp_path / "in.npz")
    worker.refuses("source", ("tired",), "time", feeds=feeds, runs=2, concurrency=2, warmup=0)
