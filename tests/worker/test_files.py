"""Files that hold a whole model: what they compute, and that nothing of them runs unasked."""

import io
import pickle
import sys
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from parsers.pytorch.child import contents

from .client import Bomb, Client, Failure
from .conftest import Write, check_equal, eager, in_onnxruntime, network, spec

TEXT = network("return self.layer(x).relu()", "self.layer = nn.Linear(3, 2)")


class Net(nn.Module):
    """A linear layer whose output has a name, and a branch that tracing would burn in."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)
        self.drop = nn.Dropout(0.5)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"score": self.drop(self.layer(x)) + y[:, :1], "wide": y * 2}


class Branch(nn.Module):
    """What it does depends on a value, which only TorchScript keeps."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if bool(x.sum() > 0):
            return x * 2
        return -x


class Nested(nn.Module):
    """Takes a dict and constants."""

    def forward(self, x: torch.Tensor, scale: int, batch: dict[str, torch.Tensor],
                none: Any = None) -> torch.Tensor:  # fmt: skip
        """A sum over tokens."""
        return x * scale + (batch["ids"] * batch["mask"]).sum(1, keepdim=True)


class Shifted(nn.Module):
    """Its trace has a tensor among its weights, and another among its constants."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x) + torch.tensor([1.0, 2.0])


Open = Callable[..., Any]


@pytest.fixture
def open_file(worker: Client, tmp_path: Path) -> Open:
    """Load a file, export it with the inputs it declares or those given."""

    def _open(path: Path, inputs: list[dict[str, Any]] | None = None, **params: Any) -> Any:
        loaded = worker.call("load", file=str(path), trust=True, **params)
        out = str(tmp_path / "net.onnx")
        return worker.call("export", inputs=inputs or loaded["inputs"], out=out)

    return _open


EXAMPLE = (torch.ones(2, 3), torch.ones(2, 7))


def save_program(path: Path, **more: Any) -> Path:
    """``Net`` as an exported program."""
    torch.export.save(torch.export.export(Net().eval(), EXAMPLE, **more), path)
    return path


@pytest.fixture
def program(tmp_path: Path) -> Path:
    batch, width = torch.export.Dim("batch"), torch.export.Dim("width")
    return save_program(tmp_path / "net.pt2", dynamic_shapes=({0: batch}, {0: batch, 1: width}))


@pytest.fixture
def script(tmp_path: Path) -> Path:
    torch.jit.script(Net()).save(str(tmp_path / "net.pt"))
    return tmp_path / "net.pt"


def test_an_exported_program(worker: Client, program: Path, open_file: Open) -> None:
    result = open_file(program)
    shapes = [(i["name"], i["shape"]) for i in result["inputs"]]
    assert shapes == [("x", ["batch", 3]), ("y", ["batch", "y_dim1"])]
    assert [o["name"] for o in result["outputs"]] == ["score", "wide"]
    for batch in (1, 2, 5):
        check_equal(worker, result, batch=batch, y_dim1=4)
    result = open_file(program, [spec("a", "n", 3), spec("b", "n", 7)])  # other names
    assert [i["name"] for i in result["inputs"]] == ["a", "b"]
    check_equal(worker, result, n=5)


def test_a_program_with_nested_inputs_bounds_and_constants(worker: Client, tmp_path: Path,
                                                           open_file: Open) -> None:  # fmt: skip
    batch, tokens = torch.export.Dim("batch", max=16), torch.export.Dim("tokens", min=2, max=32)
    ids, mask = torch.ones(2, 6, dtype=torch.int64), torch.ones(2, 6, dtype=torch.int64)
    free = {0: batch, 1: tokens}
    shapes = {"x": {0: batch}, "scale": None, "batch": {"ids": free, "mask": free}}
    given = (torch.ones(2, 1), 3, {"ids": ids, "mask": mask})
    made = torch.export.export(Nested(), given, dynamic_shapes=shapes)
    torch.export.save(made, tmp_path / "net.pt2")
    result = open_file(tmp_path / "net.pt2")
    assert [(i["name"], i["dtype"], i["shape"]) for i in result["inputs"]] == [
        ("x", "float32", ["batch", 1]), ("batch.ids", "int64", ["batch", "batch_ids_dim1"]),
        ("batch.mask", "int64", ["batch", "batch_ids_dim1"]),
    ]  # fmt: skip
    for size in (1, 2, 5):
        check_equal(worker, result, batch=size, batch_ids_dim1=9)


def test_a_program_of_one_size(worker: Client, tmp_path: Path, open_file: Open) -> None:
    result = open_file(save_program(tmp_path / "net.pt2"))
    assert [i["shape"] for i in result["inputs"]] == [[2, 3], [2, 7]]
    check_equal(worker, result)


@pytest.mark.parametrize("how", ["scripted", "frozen", "traced"])
def test_torchscript(worker: Client, tmp_path: Path, open_file: Open, how: str) -> None:
    scripted: Any = torch.jit.script(Net().eval())
    if how == "frozen":
        scripted = torch.jit.freeze(scripted)
    if how == "traced":
        scripted = torch.jit.trace(Net().eval(), EXAMPLE, strict=False)
    scripted.save(str(tmp_path / "net.jit"))
    result = open_file(tmp_path / "net.jit", [spec("y", "batch", 7), spec("x", "batch", 3)])
    assert result["exporter"] == "torchscript"
    assert result["reasons"] == ["the model is TorchScript already"]
    for batch in (1, 2, 5):
        assert list(check_equal(worker, result, batch=batch)) == ["score", "wide"]


def test_torchscript_says_what_it_takes(worker: Client, script: Path) -> None:
    loaded = worker.call("load", file=str(script), trust=True)
    assert [item["name"] for item in loaded["signature"]] == ["x", "y"]
    assert (loaded["inputs"], loaded["class"]) == ([], "Net")


def test_torchscript_keeps_its_branches(tmp_path: Path, open_file: Open) -> None:
    torch.jit.script(Branch()).save(str(tmp_path / "net.pt"))
    out = Path(open_file(tmp_path / "net.pt", [spec("x", "batch", 3)])["out"])
    for sign, factor in ((1, 2), (-1, -1)):
        x = np.full((2, 3), sign, np.float32)
        (found,) = in_onnxruntime(out, {"x": x}).values()
        np.testing.assert_allclose(found, x * factor)


class Odd(nn.Module):
    """Uses an operator that ONNX has no translation for."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.special.bessel_j0(x)


def test_torchscript_that_cannot_be_exported(tmp_path: Path, open_file: Open) -> None:
    torch.jit.script(Odd()).save(str(tmp_path / "net.pt"))
    with pytest.raises(Failure, match=r"cannot be exported: TorchScript: .*bessel_j0") as caught:
        open_file(tmp_path / "net.pt", [spec("x", "batch", 3)])
    assert caught.value.kind == "unsupported"


OPERATORS = """
import torch
library = torch.library.Library("torchvision", "DEF")
library.define("twice(Tensor x) -> Tensor")
library.impl("twice", lambda x: x * 2, "CPU")
"""


def test_torchscript_with_operators_of_a_package(worker: Client, tmp_path: Path) -> None:
    """Where the package is missing it is named; where it is there it is imported."""
    made: dict[str, Any] = {}
    exec(OPERATORS, made)

    class Twice(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.ops.torchvision.twice(x)

    path = tmp_path / "net.pt"
    torch.jit.trace(Twice(), torch.ones(3)).save(str(path))
    says = ("torchvision is needed for the operators",)
    failure = worker.refuses("dependency", says, "load", file=str(path), trust=True)
    assert failure.error["package"] == "torchvision"
    package = tmp_path / "installed" / "torchvision" / "__init__.py"
    package.parent.mkdir(parents=True)
    package.write_text(OPERATORS)
    with Client(env={"PYTHONPATH": str(package.parents[1])}) as client:
        client.call("load", file=str(path), trust=True)
        out = eager(client, tmp_path, {"x": np.ones(3, np.float32)})
    np.testing.assert_array_equal(out["output"], 2)


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("nested", [True, False])
def test_a_pickled_module(worker: Client, write: Write, tmp_path: Path, open_file: Open,
                          zipped: bool, nested: bool) -> None:  # fmt: skip
    path = tmp_path / "net.pth"
    _pickle_in(write(TEXT, "pickled_net.py").parent, path, zipped=zipped, nested=nested)
    assert contents.kind_of(path) == contents.MODULE
    result = open_file(path, [spec("x", "batch", 3)])
    # a shared worker may have read safetensors before: of packages, versions stand for them
    own = [m["name"] for m in result["modules"] if "site-packages" not in m["path"]]
    assert own == ["pickled_net"]
    for batch in (1, 2, 5):
        check_equal(worker, result, batch=batch)


def _pickle_in(code: Path, path: Path, *, zipped: bool = True, nested: bool = False) -> None:
    """Save a module of pickled_net.py, without leaving that imported here."""
    sys.path.insert(0, str(code))
    try:
        import pickled_net  # type: ignore[import-not-found]

        net = pickled_net.Net()
        content = {"model": net, "epoch": 3} if nested else net
        torch.save(content, path, _use_new_zipfile_serialization=zipped)
    finally:
        sys.path.remove(str(code))
        sys.modules.pop("pickled_net", None)


def test_a_module_whose_code_is_elsewhere(worker: Client, write: Write, tmp_path: Path) -> None:
    code = write(TEXT, "code/pickled_net.py").parent
    path = tmp_path / "net.pth"
    _pickle_in(code, path)
    worker.refuses("dependency", ("pickled_net",), "load", file=str(path), trust=True)
    loaded = worker.call("load", file=str(path), trust=True, search_paths=[str(code)])
    assert loaded["class"] == "Net"


class Writes(nn.Module):
    """Writes a file from within TorchScript."""

    def __init__(self, marker: str) -> None:
        super().__init__()
        self.marker = marker

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        torch.save(x, self.marker)
        return x


def _replace(path: Path, members: Mapping[str, bytes]) -> None:
    """Replace members of an archive, found by how their names end."""
    with zipfile.ZipFile(path) as archive:
        held = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in held.items():
            found = next((new for end, new in members.items() if name.endswith(end)), data)
            archive.writestr(name, found)


def _evil_program(path: Path, marker: Path) -> None:
    stream = io.BytesIO()
    torch.save(Bomb(marker), stream)
    _replace(save_program(path), {"data/sample_inputs/model.pt": stream.getvalue()})


@pytest.mark.parametrize("kind", ["pickle", "checkpoint", "plain pickle", "program", "script"])
def test_nothing_runs_unasked(worker: Client, tmp_path: Path, kind: str) -> None:
    path, marker = tmp_path / "net.pt", tmp_path / "ran"
    if kind == "program":
        _evil_program(path, marker)
    elif kind == "script":
        torch.jit.script(Writes(str(marker))).save(str(path))
    elif kind == "plain pickle":
        path.write_bytes(pickle.dumps(Bomb(marker)))
    else:
        torch.save(Bomb(marker) if kind == "pickle" else {"_modules": Bomb(marker)}, path)
    worker.refuses("untrusted", ("can run code",), "load", file=str(path))
    assert not marker.exists()
    if kind == "program":  # the reason for refusing it: torch's own reader gives no protection
        try:
            worker.call("load", file=str(path), trust=True)
        except Failure as failure:
            assert failure.kind == "source", failure
        assert marker.exists()


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("wrapped", [True, False])
def test_weights_are_no_model(worker: Client, tmp_path: Path, zipped: bool, wrapped: bool) -> None:
    path, state = tmp_path / "net.pth", Net().state_dict()
    content = {"state_dict": state, "epoch": 3} if wrapped else state
    torch.save(content, path, _use_new_zipfile_serialization=zipped)
    assert contents.kind_of(path) == contents.WEIGHTS
    worker.refuses("usage", ("holds weights, not a model",), "load", file=str(path), trust=True)


def test_several_modules_in_a_pickle(worker: Client, write: Write, tmp_path: Path) -> None:
    path = tmp_path / "net.pth"
    torch.save({"model": nn.Linear(3, 2), "ema": nn.Linear(3, 2)}, path)
    with pytest.raises(Failure, match="model, ema"):
        worker.call("load", file=str(path), trust=True)
    assert worker.call("load", file=str(path), trust=True, weights_key="ema")["parameters"] == 8


@pytest.mark.parametrize("keep", [0.3, 0.95, 0.995])
def test_a_file_that_is_cut_short(worker: Client, program: Path, script: Path, tmp_path: Path,
                                  keep: float) -> None:  # fmt: skip
    legacy = tmp_path / "old.pt"
    torch.save(nn.Linear(300, 300), legacy, _use_new_zipfile_serialization=False)
    for path in (program, script, legacy):
        data = path.read_bytes()
        path.write_bytes(data[: int(len(data) * keep)])
        with pytest.raises(Failure) as caught:
            worker.call("load", file=str(path), trust=True)
        assert caught.value.kind in ("usage", "source"), caught.value
        assert path.name in caught.value.message


def test_a_damaged_member(worker: Client, program: Path, script: Path) -> None:
    _replace(program, {"models/model.json": b"{"})
    _replace(script, {"/test_files.py": b"class"})
    for path in (program, script):
        worker.refuses("source", ("cannot be read",), "load", file=str(path), trust=True)


@pytest.mark.parametrize("member", ["/data.pkl", "/constants.pkl"])
def test_torchscript_with_a_string_of_two_gigabytes(tmp_path: Path, member: str) -> None:
    """Which torch's reader would make room for: the length says so, and the file is 3 kB."""
    path, broken = tmp_path / "m.pt", tmp_path / "broken.pt"
    torch.jit.trace(Shifted(), torch.zeros(1, 3)).save(str(path))
    with zipfile.ZipFile(path) as whole, zipfile.ZipFile(broken, "w") as made:
        for name in whole.namelist():
            content = whole.read(name)
            if name.endswith(member):
                assert b"X\x03\x00\x00\x00cpu" in content
                content = content.replace(b"X\x03\x00\x00\x00cpu", b"X\xff\xff\xff\x7fcpu")
            made.writestr(name, content)
    assert contents.kind_of(path) == contents.TORCHSCRIPT
    assert contents.kind_of(broken) == contents.PADDED
