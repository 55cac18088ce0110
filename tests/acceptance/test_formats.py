"""Formats that are known and not read, names that are no files, and what pickles name."""

import re
import sys
from pathlib import Path

import pytest
import torch

from converter.errors import ModelError
from converter.options.request import Request
from converter.pipeline.work import find_parser
from tests.acceptance.cli import Said, command


def refused(code: int, folder: Path, *args: str, says: tuple[str, ...]) -> Said:
    said = command("convert", *args, cwd=folder).no_traceback()
    assert said.code == code, said.err
    for text in says:
        assert text in said.err, said.err
    return said


def pickled(module: str, name: str) -> bytes:
    """A pickle of an object of a class, by the names of both."""
    texts = (text.encode() for text in (module, name))
    named = b"".join(b"\x8c" + bytes([len(text)]) + text for text in texts)
    return b"\x80\x04" + named + b"\x93)\x81."


PADDLE = "paddle2onnx --model_dir . --model_filename x.p"
FILES = {
    "x.pdmodel": (b"\n\x04\x08", "a Paddle model", PADDLE),
    "x.pdiparams": (b"\0", "a Paddle model", "--params_filename x.pdiparams"),
    "x.caffemodel": (b"\n\x03net", "a Caffe model", "--caffemodel x.caffemodel"),
    "x.prototxt": (b'name: "x"\nlayer {}', "a Caffe model", "--prototxt x.prototxt"),
    "x-0000.params": (b"\x12\x01" + bytes(14), "an MXNet model", "mxnet.onnx.export_model("),
    "x-symbol.json": (b'{"nodes": [{"op": "null"}]}', "an MXNet model", "export_model("),
    "x.xml": (b'<?xml version="1.0"?><net name="x">', "an OpenVINO model", "made from"),
    "x.bin": (bytes(64), "an OpenVINO model", "made from"),
    "x.gguf": (b"GGUF\3\0\0\0", "a GGUF model", "Hugging Face folder"),
    "renamed.onnx": (b"GGUF\3\0\0\0", "a GGUF model", "Hugging Face folder"),
    "flax_model.msgpack": (b"\x81\xa6params", "Flax", "jax2tf.convert"),
    "x.rknn": (b"RKNN", "compiled for one device", "made from"),
    "x.param": (b"7767517\n3 3\n", "compiled for one device", "made from"),
}


def test_files_and_folders_of_known_formats_say_what_to_do(tmp_path: Path) -> None:
    for name, (content, _, _) in FILES.items():
        (tmp_path / name).write_bytes(content)
    for name, (_, title, advice) in FILES.items():
        with pytest.raises(ModelError) as caught:
            find_parser(Request(str(tmp_path / name)))
        assert title in caught.value.message, name
        assert advice.replace(" .", f" {tmp_path}") in caught.value.hint, name
    refused(3, tmp_path, "x.pdmodel", says=("x.pdmodel is a Paddle model", "paddle2onnx"))
    for folder, name in (("paddle", "inference.pdiparams"), ("orbax", "manifest.ocdbt")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / name).touch()
    refused(3, tmp_path, "paddle", says=("a folder of a Paddle model", "--model_dir paddle"))
    refused(3, tmp_path, "orbax", says=("a checkpoint of JAX (Orbax)", "jax2tf"))


def test_python_code_without_a_class_names_those_in_it(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(
        "raise SystemExit('run')\n"
        "import torch\n"
        "class Config: pass\n"
        "class Net(torch.nn.Module): pass\n"
    )
    refused(2, tmp_path, "net.py", says=("It defines Net: modelyard convert net.py:Net",))
    (tmp_path / "net.py").write_text("def (")
    refused(2, tmp_path, "net.py", says=("net.py:CLASS",))


def test_a_hubs_name_says_how_to_fetch_it(tmp_path: Path) -> None:
    for name, folder in (("bert-base-uncased", "bert-base-uncased"), ("org/net-v1.5", "net-v1.5")):
        line = f"hf download {name} --local-dir {folder}"
        refused(2, tmp_path, name, says=(f"there is no {name} here", line))


def test_a_bare_state_dict_asks_for_its_class(tmp_path: Path) -> None:
    torch.save(torch.nn.Linear(2, 2).state_dict(), tmp_path / "w.pth")
    refused(2, tmp_path, "w.pth", says=("holds weights, not a model", "FILE.py:CLASS --weights"))
    (tmp_path / "config.json").write_text("{}")
    says = ("name the hugging face folder", "modelyard convert .")
    assert says[0] in refused(2, tmp_path, "w.pth", says=says[1:]).err.lower()


@pytest.mark.slow
def test_a_pickle_chooses_no_line_for_pip(tmp_path: Path) -> None:
    (tmp_path / "net.pt").write_bytes(pickled("evil_pkg.sub", "Net"))
    args = ("net.pt", "--trust-source", "--input", "x:batchx3")
    said = refused(5, tmp_path, *args, says=("'evil_pkg' is neither beside the source",))
    assert "pip install" not in said.err
    (tmp_path / "net.pt").write_bytes(pickled("timm.models", "Net"))
    line = rf"^{re.escape(sys.executable)} -m pip install -c \S+constraints\.txt timm$"
    said = refused(5, tmp_path, *args, says=("'timm' is neither beside the source",))
    assert re.search(line, said.err, re.M), said.err
