"""Broken files: exit code 3 for models, 2 for samples and recipes, and what is wrong with them.

What nobody thought of ends with 1, a bug of ours: tests.hostile's fuzzer looks for that.
"""

from __future__ import annotations

import errno
import json
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import onnx
import onnx_ir
import pytest
from onnx import helper

from converter.errors import MachineError, ModelError, ModelyardError, UsageError, from_os_error
from converter.files.reading import reading
from converter.ir.model import Model, TensorSpec
from converter.options.recipe import load_recipe, make_request
from converter.options.request import Request
from converter.runtime.ort import OrtSession
from converter.samples import load_samples
from parsers.worker.errors import from_library
from tests.acceptance.cli import COMMAND, Said, command, modelyard, on_a_terminal, small_cnn
from tests.hostile import broken
from tests.hostile.broken import (
    BERT,
    RELU,
    RESNET,
    Maker,
    deep,
    dense,
    files,
    h5,
    header,
    hugging_face,
    nested,
    onnx_file,
    package,
    weights,
    zipped,
)


def refused(make: Maker, code: int, says: str, folder: Path) -> None:
    """Makes sure of what is said of a broken file, of the code, and that nothing is left."""
    args = make(folder)
    before = sorted(folder.rglob("*"))
    said = command("convert", *args, "--no-bench", "--out", "out", cwd=folder, code=code)
    assert says in said.err, said.err
    assert said.err.count("error[") == 1 and len(said.err) < 3000
    assert sorted(folder.rglob("*")) == before


NAMED = RELU.replace("2", "batch")
LARGE = 2**62
STORED = "g (float[4] x) => (float[4] y) <float[4] w = {}> {{ y = Add (x, w) }}"
ELSEWHERE = STORED.format('["location": "w0.bin"]')


def stored(shape: object) -> str:
    """A model with weights that say they are of that shape."""
    return STORED.format("{1, 1, 1, 1}").replace("float[4] w", f"float{shape} w")


def of_opset(version: int) -> str:
    """A function that says that it is of that opset."""
    return broken.calling("b = Relu (a)").replace('["" : 17', f'["" : {version}')


def no_utf8(name: bytes, text: str = NAMED) -> Maker:
    """A file in which a name is no UTF-8."""
    return onnx_file(text, name, name[:-2] + b"\xff\xfe")


def odd(change: Callable[[onnx.ModelProto], object]) -> Maker:
    """A model in which something is as text can't be."""
    model = broken.parsed(RELU)
    change(model)
    return files("m.onnx", {"m.onnx": model.SerializeToString()})


ONNX: dict[str, tuple[Maker, str]] = {
    "a node's name": (no_utf8(b"relu"), r"of the node Relu"),
    "an operator": (no_utf8(b"Relu"), "op_type"),
    "a dimension": (no_utf8(b"batch"), "of the tensor x"),
    "the producer": (no_utf8(b"maker"), "producer_name"),
    "a property": (
        files("m.onnx", {"m.onnx": broken.metadata("").SerializeToString().replace(
            b"modelyard", b"modelya\xff\xfe")}), "text in UTF-8"),
    "a location": (onnx_file(ELSEWHERE, b"w0.bin", b"w\xff.bin"), "of the tensor w"),
    "NUL in a location": (
        onnx_file(ELSEWHERE, b"w0.bin", b"w\0.bin"), "w: the file of its weights has a NUL"),
    "dimension 2^62": (
        onnx_file(RELU.replace("2", f"{LARGE}")), f"input x: its shape is [{LARGE}]"),
    "dimensions 2^62": (
        onnx_file(RELU.replace("2", f"{LARGE}, {LARGE}, batch")), "output y: its shape"),
    "a size of 2^62": (
        onnx_file(f"g (float[1] x) => (float[n] y) {{ s = Constant <value_ints = [{LARGE}]> () "
                  "y = Expand (x, s) }"), "output y: its shape"),
    "weights of 2^124": (onnx_file(stored([LARGE, LARGE])), "tensor w of shape"),
    "rank 2000": (onnx_file(RELU.replace("2", ",".join("1" * 2000))), "input x: 2000 dimensions"),
    "weights of rank 2000": (onnx_file(stored([1] * 2000)), "tensor w has 2000 dimensions"),
    "a function of itself": (
        onnx_file(broken.calling("b = f.F0 (a)")), "functions call themselves: F0"),
    "functions in a chain": (onnx_file(broken.chain(150)), "151 calls deep"),
    "a function of opset 2^40": (onnx_file(of_opset(1 << 40)), "opset 1099511627776 is none"),
    "a function of opset -1": (onnx_file(of_opset(-1)), "opset -1 is none"),
    "an attribute's type": (
        onnx_file(RELU.replace("Relu", 'Softmax <axis = "one">')), "relu"),
    "shapes that contradict": (
        onnx_file("g (float[2, 4] x) => (float[2, 3] y) <float[1, 3] w = {1, 2, 3}> "
                  "{ [mul] y = MatMul (x, w) }"), "mul"),
    "an axis of 2^40": (
        onnx_file(f"g (float[] x) => (float[] y) {{ [join] y = Concat <axis = {2**40}> (x, x) }}",
                  args="--input x:2x2"), "join"),
    "no such data type": (
        odd(lambda model: model.graph.input[0].type.tensor_type.__setattr__("elem_type", 4711)),
        "can't be read: 4711"),
    # a branch that takes what a later node makes, in a format that has to be written anew
    "cloning": (
        onnx_file("""g (float[2] x, bool c) => (float[2] y) {
            y = If (c) <then_branch = t () => (float[2] p) { p = Neg (x) },
                        else_branch = e () => (float[2] q) { q = Neg (later) }>
            later = Relu (x) }""", ir_version=13), "m.onnx can't be read: "),
}  # fmt: skip


@pytest.mark.parametrize(("make", "says"), ONNX.values(), ids=ONNX)
def test_onnx(make: Maker, says: str, tmp_path: Path) -> None:
    refused(make, 3, says, tmp_path)


def test_weights_that_contradict_their_bytes_in_memory() -> None:
    with pytest.raises(ModelError, match="ONNX Runtime refuses"):
        OrtSession(onnx_ir.from_proto(broken.parsed(stored([0, 3]))))


ODD = {
    "branches in branches": onnx_file(broken.nested_ifs(30)),  # protobuf reads 100 levels
    "notes that are no UTF-8": odd(lambda model: model.graph.MergeFromString(b"\x52\x02\xff\xfe")),
}


@pytest.mark.parametrize("make", ODD.values(), ids=ODD)
def test_what_is_only_odd_is_read(make: Maker, tmp_path: Path) -> None:
    command("inspect", *make(tmp_path), cwd=tmp_path, code=0)


def ours(**more: object) -> str:
    """Metadata as we write it, but for something."""
    return json.dumps({"format": 1, "tensors": {}, "source": {}, "history": [], **more})


@pytest.mark.parametrize("text", [
    deep(), "", "nonsense", "[]", "[1]", '{"format": 1}', ours(format=9), ours(format="1"),
    ours(tensors=[1]), ours(source=[]), ours(history=[1]),
    *(ours(tensors={"y": told}) for told in (
        {"nothing": 1}, {"labels": 4}, {"value_range": [1]}, {"name": "../x"}, {"layout": 5})),
])  # fmt: skip
def test_metadata_that_is_not_as_we_write_it_counts_as_none(text: str, tmp_path: Path) -> None:
    onnx.save(broken.metadata(text), tmp_path / "m.onnx")
    model = Model.load(tmp_path / "m.onnx")
    assert (model.meanings, model.source, model.history) == ({}, {}, [])
    assert [spec.name for spec in model.outputs] == ["y"]


SCRIPT = "m.pt --input x:2x2"
DEEP = deep().encode()
FORMATS: dict[str, tuple[Maker, str]] = {
    "a package's deep manifest": (package(deep()), "nested too deeply"),
    "a package's manifest": (package([]), "Manifest.json"),
    "a package's NUL": (package(broken.item(path="a\0b")), "m.mlpackage can't be read"),
    "a package's model": (package(broken.item()), "can't be decoded"),
    "TorchScript's names": (
        files(SCRIPT, {"m.pt": broken.torchscript("m/name.txt").replace(
            b"m/name.txt", b"m/na\xff\xfe.txt")}), "m.pt"),
    "a config that is deep": (hugging_face(DEEP), "hf is nested too deeply"),
    "an index that is deep": (
        hugging_face(BERT, model__safetensors__index=DEEP), "nested too deeply"),
    "an index without a map": (
        hugging_face(BERT, model__safetensors__index=b"[]"), "no weight_map"),
}  # fmt: skip


@pytest.mark.parametrize(("make", "says"), FORMATS.values(), ids=FORMATS)
def test_other_formats(make: Maker, says: str, tmp_path: Path) -> None:
    refused(make, 3, says, tmp_path)


UNCOUNTED = broken.safetensors(b'{"__metadata__": {"format": "pt"}}')[:-16]
KERAS = {"config.json": DEEP, "metadata.json": b"{}", "model.weights.h5": b"no hdf5"}
FRAMEWORKS: dict[str, tuple[Maker, int, str]] = {
    "TorchScript": (files(SCRIPT, {"m.pt": broken.torchscript("../../x", "/abs")}), 3, "m.pt"),
    "TorchScript without constants": (
        files(f"{SCRIPT} --trust-source", {"m.pt": zipped(
            {"m/data.pkl": b"\x80\x02c__torch__.m\nNet\n)\x81}b."})}), 3, "m.pt"),
    "a program": (files("m.pt2", {"m.pt2": zipped({"m/archive_format": b"pt2"})}), 3, "m.pt2"),
    "safetensors that are deep": (
        weights(broken.safetensors(deep(5000).encode())), 2, "w.safetensors"),
    "safetensors that are long": (weights(broken.safetensors(b"{}", LARGE)), 2, "w.safetensors"),
    "safetensors in a folder": (hugging_face(BERT, b"\xff" * 40), 3, "hf/model.safetensors"),
    "a config's types": (
        hugging_face(BERT.replace(b'_size": 8', b'_size": "x"')), 3, "hf/config.json"),
    "a config's sizes": (
        hugging_face(BERT.replace(b'"vocab_size": 10', b'"vocab_size": %d' % LARGE)),
        3, "BertModel from hf/"),
    "a config's architectures": (
        hugging_face(BERT.replace(b'["BertModel"]', b"[{}]")), 3, "architectures aren't names"),
    "a size of images": (
        hugging_face(RESNET, UNCOUNTED,
                     preprocessor_config=b'{"size": {"shortest_edge": {"a": 1}}}'), 3,
        "have {'a': 1} where a number is expected"),
    "HDF5": (files("m.h5", {"m.h5": b"\x89HDF\r\n\x1a\n" + bytes(50)}), 3, "m.h5 is damaged"),
    "HDF5 cut short": (h5(dense(), cut=500), 3, "m.h5 is damaged"),
    "HDF5 with other bytes": (h5(dense(), break_at=800), 3, "m.h5"),
    "Keras 250 deep": (h5(nested(250)), 3, "m.h5 can't be read: it is nested too deeply"),
    "Keras without sizes": (h5(dense(units=-1)), 3, "m.h5"),
    "Keras of other types": (h5(dense(batch_input_shape=5)), 3, "m.h5"),
    "an archive that is deep": (files("m.keras", {"m.keras": zipped(KERAS)}), 3, "m.keras"),
    "a SavedModel": (
        files("sm", {"sm/saved_model.pb": b"\x08\x01\x12\x05\x0a\xff",
                     "sm/variables/variables.index": b""}), 2, "saved_model.pb can't be read"),
}  # fmt: skip


NOISE = b"\x93garbage\x1c" * 30
TREES, LEARNER = b"tree\nversion=v4\n", b'{"learner": {"a": 1}}'
GARBAGE: dict[str, tuple[int, str]] = {
    "m.skops": (3, "File is not a zip file"),
    "other.skops": (3, "it has no schema.json"),
    "m.txt": (3, "it is cut short, or holds no trees"),
    "m.json": (3, "it is cut short, or holds no booster"),
    "m.ubj": (3, "it is cut short, or holds no booster"),
    "m.tflite": (3, "it has no TFL3 mark"),
    "m.mlmodel": (3, "damaged, encrypted, or not a Core ML model"),
    "m.keras": (2, "neither a .keras archive nor an HDF5 file"),
    "m.h5": (2, "neither a .keras archive nor an HDF5 file"),
    "cut.keras": (3, "its end is missing"),
}
HEADS = {"other.skops": zipped({"a": b"b"}), "m.txt": TREES, "m.json": LEARNER,
         "m.ubj": b"{L\0\0\0\0\0\0\0\x07learner", "cut.keras": b"PK\x03\x04"}  # fmt: skip


@pytest.mark.parametrize("name", GARBAGE)
def test_garbage_is_told_without_opening_it(name: str, tmp_path: Path) -> None:
    """So that a dry run says of it what a run says: it opens no model."""
    code, says = GARBAGE[name]
    (tmp_path / name).write_bytes(HEADS.get(name, NOISE))
    planned, run = (
        command("convert", name, option, cwd=tmp_path, code=code).err
        for option in ("--dry-run", "--no-bench")
    )
    assert says in planned and planned == run


@pytest.mark.slow
@pytest.mark.parametrize(("make", "code", "says"), FRAMEWORKS.values(), ids=FRAMEWORKS)
def test_in_frameworks(make: Maker, code: int, says: str, tmp_path: Path) -> None:
    refused(make, code, says, tmp_path)


HEADERS = {
    "open": "{",
    "deep": "(" * 3000,
    "a number": "1",
    "a dtype": header("5"),
    "a shape": header(shape="(4,'a')"),
    "below zero": header(shape="(-4,)"),
    "no tuple": header(shape="4"),
    "a unit": header("'<M8[x]'"),
    "doubled": header("[('a','<f4'),('a','<f4')]"),
    "objects": header("'|O'"),
    "huge": header(shape=f"({2**70},)"),
    "minuses": f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({'-' * 5000}1,)}}",
    "no UTF-8": b"{'descr': '\xff\xfe'}",
}


@pytest.mark.parametrize("text", HEADERS.values(), ids=HEADERS)
@pytest.mark.parametrize("kind", ["npy", "npz"])
def test_headers_of_arrays(text: str | bytes, kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"s.{kind}"
    array = broken.npy(text)
    path.write_bytes(array if kind == "npy" else zipped({"image.npy": array}))
    with pytest.raises(UsageError, match=path.name):
        load_samples(Request("", samples=str(path)), (TensorSpec("image", "float32", (4,)),), {})


def test_samples_by_the_command(model: Path) -> None:
    make = files("m.onnx --samples s.npz", {"s.npz": zipped({"image.npy": broken.npy("{")})})
    refused(make, 2, "s.npz can't be read", model.parent)


RECIPES: dict[str, str | bytes] = {
    "a date": "name: 2001-99-99",
    "a time": "name: 2001-01-01 25:61:61",
    "a whole date": "name: 2001-01-01",
    "5,000 digits": "samples-limit: " + "9" * 5000,
    "10,000 digits in hex": "seed: 0x" + "f" * 10000,
    "10,000 digits in hex as text": "name: 0x" + "f" * 10000,
    "variables of 10,000 digits in hex": "vars: 0x" + "f" * 10000,
    "a variable of 10,000 digits in hex": "name: ${n}\nvars: {n: 0x" + "f" * 10000 + "}",
    "a base of 10,000 digits in hex": "extends: 0x" + "f" * 10000,
    "a deep variable": "name: ${n}\nvars: {n: " + "[" * 900 + "]" * 900 + "}",
    "no digits in hex": "seed: 0x_",
    "!!int": "name: !!int x",
    "!!int of nothing": "name: !!int ''",
    "!!float": "name: !!float x",
    "!!bool": "name: !!bool x",
    "!!timestamp": "name: !!timestamp x",
    "a size of 23 digits": "dims: {batch: 99999999999999999999999}",
    "!!omap": "name: !!omap [a]",
    "!!python": "name: !!python/object/apply:os.system [ls]",
    "another tag": "name: !foo x",
    "a tag on a key": "!!int name: x",
    "a list for a key": "? [a]\n: 1",
    "deep": "name: " + "[" * 5000,
    "deep mappings": "".join(" " * i + "a:\n" for i in range(1500)),
    "NUL": b"name: a\0b",
    "no UTF-8": b"name: a\xffb",
    "a NUL in a path": 'samples: "a\\0b"',
    "half a character": 'samples: "\\ud800"',
    "two documents": "a: 1\n---\nb: 2",
}


@pytest.mark.parametrize("text", RECIPES.values(), ids=RECIPES)
def test_recipes(text: str | bytes, tmp_path: Path) -> None:
    content = text if isinstance(text, bytes) else text.encode()
    (tmp_path / "r.yaml").write_bytes(b"source: m.onnx\n" + content)
    with pytest.raises(UsageError, match=r"r\.yaml"):
        load_recipe(tmp_path / "r.yaml")


def test_bytes_in_a_recipe_are_text(tmp_path: Path) -> None:
    (tmp_path / "r.yaml").write_text("source: m.onnx\nmetric: !!binary dG9wMQ==\n")
    assert make_request(load_recipe(tmp_path / "r.yaml")).metric == ["top1"]


def test_a_recipe_by_the_command(model: Path) -> None:
    model.with_name("r.yaml").write_text("source: m.onnx\nname: 2001-99-99\n")
    said = command("run", "r.yaml", cwd=model.parent, code=2)
    assert "r.yaml can't be read: month must be in 1..12" in said.err


CODE = ("source: net.py:Net", "source: net:Net", "source: m.onnx\nsamples: net.py:rows",
        "source: m.onnx\nmetric: net.py:right", "source: m.onnx\npython: ./run",
        "source: m.onnx\ntrust-source: true")  # fmt: skip


@pytest.mark.parametrize("text", CODE)
def test_a_recipe_runs_nothing_unasked(model: Path, text: str) -> None:
    folder = model.parent
    (folder / "net.py").write_text("open('ran', 'w')\n")
    (folder / "run").write_text("#!/bin/sh\ntouch ran\n")
    (folder / "run").chmod(0o755)
    (folder / "r.yaml").write_text(f"{text}\nbench: false\n")
    said = command("run", "r.yaml", cwd=folder, code=2)
    named = text.splitlines()[-1].split(": ")
    assert named[0].replace("-", "_") in said.err
    assert "If you trust it: modelyard run r.yaml --trust-recipe" in said.err
    command("run", "r.yaml", "--dry-run", cwd=folder, code=0)
    assert not (folder / "ran").exists()


def test_a_recipe_is_asked_about_once(model: Path, tmp_path: Path) -> None:
    folder = model.parent
    (folder / "data.py").write_text("import numpy as np\nraise SystemExit('it ran')\n")
    (folder / "r.yaml").write_text("source: m.onnx\nsamples: data.py:rows\nbench: false\n")
    line: list[str | Path] = [COMMAND, "run", "r.yaml"]
    shown = on_a_terminal(line, folder, answers="n\n", MODELYARD_CACHE=str(tmp_path / "cache"))
    assert "samples: " in shown and "it ran" not in shown
    shown = on_a_terminal(line, folder, answers="y\n", MODELYARD_CACHE=str(tmp_path / "cache"))
    assert "Do you trust it?" in shown and "it ran" in shown
    shown = on_a_terminal(line, folder, MODELYARD_CACHE=str(tmp_path / "cache"))
    assert "Do you trust it?" not in shown and "it ran" in shown
    (folder / "r.yaml").write_text("source: m.onnx\nsamples: data.py:others\n")
    shown = on_a_terminal(line, folder, answers="n\n", MODELYARD_CACHE=str(tmp_path / "cache"))
    assert "Do you trust it?" in shown


def test_a_path_that_is_not_utf8(model: Path) -> None:
    path = model.rename(model.with_name("m\udcff.onnx"))
    said = command("convert", path.name, "--no-bench", cwd=model.parent, code=2)
    assert r"'m\udcff.onnx' isn't UTF-8 text" in said.err


# -- the rule ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ValueError("what it says"), ModelError),
        (KeyError("what it says"), ModelError),
        (OSError("what it says, as h5py does"), ModelError),
        (OSError(errno.ENOENT, "what it says"), UsageError),
        (OSError(errno.ENOSPC, "what it says"), MachineError),
        (OSError(errno.EIO, "what it says"), MachineError),
        (MemoryError(), MachineError),
        (MachineError("what it says"), MachineError),
        (UsageError("what it says"), UsageError),
        (RecursionError(), ModelError),
    ],
)
def test_what_becomes_of_an_exception(error: Exception, kind: type[ModelyardError]) -> None:
    with pytest.raises(ModelyardError) as caught, reading("m.onnx"):
        raise error
    assert caught.type is kind
    assert "says" in caught.value.message or isinstance(error, MemoryError | RecursionError)


@pytest.mark.parametrize("kind", [AttributeError, NameError, AssertionError, TypeError])
def test_a_bug_of_ours_stays_one(kind: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    """Where one of our lines raises it; where a library does, it is the file."""

    def fails(*args: object) -> None:
        raise kind("in a library, as this test's lines are")

    def read() -> None:
        with reading("m.onnx"):
            Model.from_proto(helper.make_model(helper.make_graph([], "g", [], [])), Path("m.onnx"))

    monkeypatch.setattr("onnx_ir.from_proto", fails)
    with pytest.raises(ModelError):
        read()
    monkeypatch.undo()
    monkeypatch.setattr("converter.ir.model.mapped_tensors", None)  # called in a line of ours
    with pytest.raises(TypeError):
        read()


def test_bugs_in_workers_stay_bugs() -> None:
    """Of the worker's methods, those that read files may meet broken ones."""
    error = ValueError("no")
    assert from_library(error, reading=True).kind == "broken"
    assert from_library(error, reading=False).kind == "internal"
    assert from_library(OSError(errno.ENOSPC, "full"), reading=False).kind == "machine"
    assert from_library(MemoryError(), reading=True).kind == "machine"


def test_a_folder_for_temporary_files_that_is_full() -> None:
    error = FileNotFoundError(errno.ENOENT, "No usable temporary directory found in ['/tmp']")
    assert isinstance(from_os_error(error, "working"), MachineError)


# -- the streams -------------------------------------------------------------------------


def test_a_stdout_that_is_full(model: Path) -> None:
    for line in ("inspect m.onnx", "inspect m.onnx --json", "inspect nothing.onnx --json"):
        said = in_a_shell(f"{line} > /dev/full", model.parent)
        assert said.no_traceback().code == (2 if "nothing" in line else 6), said.err
        assert "nothing" in line or "No space left on device" in said.err


def test_streams_that_are_closed(model: Path) -> None:
    """Their numbers go to no other file: what libraries print would go there."""
    said = in_a_shell("inspect m.onnx >&-", model.parent)
    assert (said.code, said.err) == (0, "")
    said = in_a_shell("inspect nothing.onnx <&- 2>&-", model.parent)
    assert (said.code, said.out) == (2, "")
    script = (
        "import os, modelyard.__main__ as m; m._open_streams(); print(os.open('f', os.O_CREAT))"
    )
    assert in_a_shell("<&- 2>&-", model.parent, "-c", script).out == "3\n"


def in_a_shell(line: str, folder: Path, *python: str) -> Said:
    """What ``modelyard LINE`` gives in a shell, with its redirections."""
    program = shlex.join([sys.executable, *(python or ("-m", "modelyard"))])
    shell = ["sh", "-c", f"{program} {line}"]
    done = subprocess.run(shell, cwd=folder, capture_output=True, text=True, check=False)
    return Said(done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize("out", ["/", "/..", "//"])
def test_the_root_is_no_output_folder(model: Path, out: str) -> None:
    said = modelyard("convert", model.name, "--out", out, "--overwrite", cwd=model.parent, code=2)
    assert "can't be the output folder" in said.err


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A good one."""
    return small_cnn(tmp_path / "m.onnx")


def test_diff_of_what_nothing_makes(model: Path) -> None:
    other = onnx.load(model)
    other.graph.node[0].input[1] = "W0"
    onnx.save(other, model.with_name("b.onnx"))
    said = command("diff", "m.onnx", "b.onnx", cwd=model.parent, code=3)
    assert "Conv (conv0) takes 'W0', which nothing computes" in said.err
