"""Files of frameworks that ask for much, or lead out of themselves: refused before it is made."""

from __future__ import annotations

import copy
import json
import re
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import torch as safetensors_torch
from scipy import sparse
from sklearn import ensemble, neighbors, svm

from parsers.pytorch.child import contents
from parsers.pytorch.child import files as pytorch_files
from parsers.sklearn.child import files
from parsers.worker.errors import WorkerError
from tests.acceptance.cli import command
from tests.hostile.broken import NET, safetensors, zipped
from tests.sklearn.models import saved, trained
from tests.sklearn.test_refused import asked


def opened(path: Path) -> Any:
    """A file as the child reads it."""
    kind = {".txt": "lightgbm", ".skops": "skops"}[path.suffix]
    return files.opened(asked(path, kind), lambda text: None)


def changed(path: Path, line: str, text: str) -> Path:
    """LightGBM's file with another line."""
    made, count = re.subn(rf"(?m)^{line}$", text, path.read_text(), count=1)
    assert count == 1
    path.write_text(made)
    return path


LEADS = "refers to nodes, columns or classes that don't exist"
TEXTS = {
    "no leaves": ("num_leaves=.*", "num_leaves=0", LEADS),
    "many leaves": ("num_leaves=.*", "num_leaves=1000000000", LEADS),
    "no list of categories": ("num_cat=0", "num_cat=1", LEADS),
    "a category": ("decision_type=2 (.*)", r"decision_type=1 \1", LEADS),
    "fewer thresholds": ("threshold=.*", "threshold=1", LEADS),
    "fewer values": ("leaf_value=.*", "leaf_value=1", LEADS),
    "linear leaves": ("is_linear=0", "is_linear=1", LEADS),
    "no classes": ("num_tree_per_iteration=1", "num_tree_per_iteration=0", LEADS),
    "other classes": ("objective=.*", "objective=multiclass num_class:1000000000", LEADS),
    "columns": ("max_feature_idx=.*", "max_feature_idx=2147483647", LEADS),
    "two of a line": ("num_cat=0", "num_cat=0\nleft_child=0", "two lines of left_child"),
    "two over a blank line": ("num_cat=0", "num_cat=0\n\nnum_cat=0", "two lines of num_cat"),
    "no end": ("end of trees", "", "cut short"),
}


@pytest.mark.parametrize(("line", "text", "says"), TEXTS.values(), ids=TEXTS)
def test_lightgbm(line: str, text: str, says: str, tmp_path: Path) -> None:
    path = changed(saved(trained("lightgbm"), tmp_path / "m.txt"), line, text)
    with pytest.raises(WorkerError, match=says) as caught:
        opened(path)
    assert caught.value.kind == "broken"


def test_lightgbm_in_skops(tmp_path: Path) -> None:
    """It reads its text where the file is read."""
    path = saved(trained("lightgbm"), tmp_path / "m.skops")
    opened(path)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members["schema.json"], count = re.subn(
        rb"num_tree_per_iteration=1", b"num_tree_per_iteration=0", members["schema.json"]
    )
    path.write_bytes(zipped(members))
    assert count == 1
    with pytest.raises(WorkerError, match=LEADS):
        opened(path)


def test_lightgbm_cut_short_by_the_command(tmp_path: Path) -> None:
    path = saved(trained("lightgbm"), tmp_path / "m.txt")
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 10])
    said = command("convert", "m.txt", "--no-bench", cwd=tmp_path, code=3)
    assert "m.txt can't be read: it is cut short" in said.err


MACHINES: dict[str, Callable[[Any], None]] = {
    "fewer coefficients": lambda m: setattr(m, "_dual_coef_", m._dual_coef_[:, :1]),
    "fewer classes of coefficients": lambda m: setattr(m, "_dual_coef_", m._dual_coef_[:1]),
    "more vectors than there are": lambda m: setattr(m, "_n_support", m._n_support + 100_000),
    "below zero": lambda m: setattr(m, "_n_support", m._n_support * np.int32(-1)),
    "narrow vectors": lambda m: setattr(m, "support_vectors_", m.support_vectors_[:, :1].copy()),
    "fewer intercepts": lambda m: setattr(m, "_intercept_", m._intercept_[:1]),
    "fewer probabilities": lambda m: setattr(m, "_probA", m._probA[:1]),
}


@pytest.mark.parametrize("change", MACHINES.values(), ids=MACHINES)
def test_support_vectors(change: Callable[[Any], None], tmp_path: Path) -> None:
    """libsvm reads as far as the numbers say."""
    model = copy.deepcopy(trained("svc"))
    opened(saved(model, tmp_path / "m.skops"))
    change(model.steps[-1][1])
    with pytest.raises(WorkerError, match="a SVC refers to numbers that don't exist") as caught:
        opened(saved(model, tmp_path / "m.skops"))
    assert caught.value.kind == "broken"


def test_support_vectors_by_the_command(tmp_path: Path) -> None:
    model = copy.deepcopy(trained("svc"))
    MACHINES["fewer coefficients"](model.steps[-1][1])
    saved(model, tmp_path / "m.skops")
    said = command("convert", "m.skops", "--no-bench", cwd=tmp_path, code=3)
    assert "m.skops can't be read: a SVC refers to numbers that don't exist" in said.err


def test_a_kernel_s_columns(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).standard_normal((30, 4))
    model = svm.SVC(kernel="precomputed").fit(rows @ rows.T, rows[:, 0] > 0)
    opened(saved(model, tmp_path / "m.skops"))
    model.support_ = model.support_ + np.int32(1000)
    with pytest.raises(WorkerError, match="a SVC refers to numbers that don't exist"):
        opened(saved(model, tmp_path / "m.skops"))


def test_boosting_of_more_classes_than_it_says(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).standard_normal((30, 4))
    model = ensemble.GradientBoostingRegressor(n_estimators=2).fit(rows, rows[:, 0])
    opened(saved(model, tmp_path / "m.skops"))
    model.estimators_ = np.repeat(model.estimators_, 9, axis=1)
    with pytest.raises(WorkerError, match="refers to numbers that don't exist"):
        opened(saved(model, tmp_path / "m.skops"))


@pytest.mark.parametrize("kind", ["kd_tree", "ball_tree", "sparse"])
def test_native_trees_and_sparse_numbers_are_asked_about(kind: str, tmp_path: Path) -> None:
    """scikit-learn and SciPy follow their indices without looking, so they are trusted by name."""
    rows = np.random.default_rng(0).standard_normal((30, 4))
    if kind == "sparse":
        model = svm.SVC().fit(sparse.csr_matrix(rows), rows[:, 0] > 0)
    else:
        model = neighbors.KNeighborsClassifier(algorithm=kind).fit(rows, rows[:, 0] > 0)
    with pytest.raises(WorkerError, match="may run code") as caught:
        opened(saved(model, tmp_path / "m.skops"))
    assert caught.value.kind == "untrusted"


def test_a_schema_that_names_lists_again_and_again(tmp_path: Path) -> None:
    inner: dict[str, Any] = {"__id__": 0, "__loader__": "JsonNode", "content": '"a"'}
    for number in range(1, 40):
        again = {"__id__": number - 1, "__loader__": "CachedNode"}
        inner = {"__id__": number, "__loader__": "ListNode", "content": [inner, again]}
    (tmp_path / "m.skops").write_bytes(zipped({"schema.json": json.dumps(inner).encode()}))
    with pytest.raises(WorkerError, match="more than 1,000,000 values"):
        opened(tmp_path / "m.skops")


def test_an_archive_that_grows(tmp_path: Path) -> None:
    with (
        zipfile.ZipFile(tmp_path / "m.skops", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as made,
        made.open("schema.json", "w") as member,
    ):
        for _ in range(20):
            member.write(bytes(1 << 24))
    with pytest.raises(WorkerError, match="it unpacks to 335,544,320 bytes"):
        opened(tmp_path / "m.skops")


def many_members(path: Path, count: int) -> None:
    """An archive whose list says that it has so many, without them."""
    (end := struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 65535, 65535, count * 50, 30, 0))
    path.write_bytes(b"PK\3\4" + bytes(count * 50 + 26) + end)


def test_an_archive_of_a_million_members(tmp_path: Path) -> None:
    many_members(tmp_path / "m.pt", 10**6)
    assert contents.kind_of(tmp_path / "m.pt") == contents.DAMAGED
    many_members(tmp_path / "m.npz", 10**6)
    (tmp_path / "net.py").write_bytes(NET)
    command("inspect", "m.pt", cwd=tmp_path, code=3)


PADDED = {
    "instructions": b"\x80\x02" + b"N0" * 3_000_000 + b"N.",
    "a text": b"\x80\x02X" + struct.pack("<L", 1 << 30),
}


@pytest.mark.parametrize("data", PADDED.values(), ids=PADDED)
@pytest.mark.parametrize("form", ["zip", "plain"])
def test_pickles_that_are_padded(data: bytes, form: str, tmp_path: Path) -> None:
    packed = zipped({"m/data.pkl": data}, zipfile.ZIP_DEFLATED)
    (tmp_path / "m.pt").write_bytes(packed if form == "zip" else data)
    assert contents.kind_of(tmp_path / "m.pt") == contents.PADDED


NUMBERS = b'{"a": [%s]}' % b",".join([b"1"] * 4_000_000)
CONFIG = b'{"model_type": "bert", "architectures": ["BertModel"], '
FOLDERS = {
    "config.json": (CONFIG + NUMBERS[1:], "config.json has more than 1,000,000 values"),
    "tokenizer.json": (NUMBERS, "tokenizer.json has more than 3,000,000 values"),
    "tokenizer_config.json": (NUMBERS, "tokenizer_config.json has more than 1,000,000 values"),
    "labels": (CONFIG + b'"num_labels": 2000000}', "asks for 2,000,000 labels"),
}


@pytest.mark.parametrize(("name", "data", "says"), [(n, *f) for n, f in FOLDERS.items()],
                         ids=FOLDERS)  # fmt: skip
def test_a_folder_of_many_numbers(name: str, data: bytes, says: str, tmp_path: Path) -> None:
    """Nothing of it becomes objects, here or in the framework's process."""
    folder = tmp_path / "hf"
    folder.mkdir()
    weights = torch.nn.Linear(2, 2).state_dict()
    safetensors_torch.save_file(weights, folder / "model.safetensors")
    (folder / "config.json").write_bytes(CONFIG[:-2] + b"}")
    (folder / name.replace("labels", "config.json")).write_bytes(data)
    (folder / "trainer_state.json").write_bytes(NUMBERS)  # of no model's
    said = command("convert", "hf", "--no-bench", cwd=tmp_path, code=3)
    assert says in said.err and len(said.err) < 500


def test_bytes_in_a_pickle_are_not_read(tmp_path: Path) -> None:
    with (tmp_path / "m.pt").open("wb") as file:
        file.write(b"\x80\x02ctorch.nn.modules.linear\nLinear\n\x8e" + struct.pack("<Q", 1 << 40))
        file.truncate(1 << 41)
    assert contents.kind_of(tmp_path / "m.pt") == ""  # what follows is no pickle


def script(path: Path) -> Path:
    """A model that a file holds whole, by its suffix."""
    net, values = torch.nn.Linear(4, 3).eval(), (torch.randn(2, 4),)
    if path.suffix == ".pt2":
        torch.export.save(torch.export.export(net, values), path)
    else:
        torch.jit.save(torch.jit.trace(net, values), path)
    return path


@pytest.mark.parametrize("name", ["m.pt", "m.pt2"])
def test_a_bit_of_a_whole_model_that_is_another(name: str, tmp_path: Path) -> None:
    """torch compares no checksum, and would read other weights."""
    path = script(tmp_path / name)
    pytorch_files.open_file(path, True, None, [])
    content = path.read_bytes()
    for member in zipfile.ZipFile(path).infolist():
        damaged, start = bytearray(content), member.header_offset + 30
        start += sum(struct.unpack_from("<2H", content, member.header_offset + 26))
        if member.file_size and member.compress_size:
            damaged[start + member.compress_size // 2] ^= 1
            path.write_bytes(damaged)
            with pytest.raises(WorkerError, match=r"is damaged|holds|cannot be read"):
                pytorch_files.open_file(path, True, None, [])


def test_damaged_weights_of_torchscript_by_the_command(tmp_path: Path) -> None:
    path = script(tmp_path / "m.pt")
    with zipfile.ZipFile(path) as archive:
        weights = archive.read("m/data/0")
    path.write_bytes(path.read_bytes().replace(weights, bytes([weights[0] ^ 1]) + weights[1:]))
    said = command(
        "inspect", "m.pt", "--trust-source", "--input", "x:batchx4", cwd=tmp_path, code=3
    )
    assert "m.pt is damaged: the checksum of its record m/data/0 is another" in said.err
    assert len(said.err.splitlines()) < 5


@pytest.mark.slow
def test_weights_that_ask_for_much(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_bytes(NET)
    (tmp_path / "w.pt").write_bytes(zipped({"m/data.pkl": PADDED["a text"]}))
    (tmp_path / "w.safetensors").write_bytes(safetensors(b" " * (1 << 26)))
    for name, says in (("w.pt", "is a pickle of more than"), ("w.safetensors", "has a header of")):
        said = command("inspect", "net.py:Net", "--weights", name, "--input", "x:batchx2",
                       cwd=tmp_path, code=2)  # fmt: skip
        assert says in said.err and len(said.err) < 500
