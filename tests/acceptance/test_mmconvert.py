"""MMdnn's two commands as its users type them, and what their flags become."""

from pathlib import Path

import numpy as np
import pytest

from converter.commands import mmdnn, mmdnn_models
from converter.commands.mmdnn import Asked
from converter.errors import UsageError
from converter.runtime.ort import OrtSession
from tests.acceptance.cli import Said, modelyard, names, small_cnn
from zoo import catalogue


def run(name: str, *args: str | Path, cwd: Path, code: int = 0) -> Said:
    return modelyard(*args, cwd=cwd, env={"COLUMNS": "80"}, name=name, code=code)


def asked(**given: object) -> Asked:
    plain = {"source": "pytorch", "target": "onnx", "network": None, "weights": None, "out": "o"}
    return Asked(**{**plain, **given})  # type: ignore[arg-type]


# -- mmconvert -----------------------------------------------------------------------------


def test_a_tflite_file_comes_alone(tmp_path: Path) -> None:
    """usage.py and usage.kt know it by another name: they stay where it is called that."""
    model = small_cnn(tmp_path / "cnn.onnx")
    run("mmconvert", "-iw", model, "-df", "tflite", "-om", "net.tflite", cwd=tmp_path)
    assert names(tmp_path) == ["cnn.onnx", "net.modelyard", "net.tflite"]
    assert list(tmp_path.glob("net.modelyard/tflite/*/usage.kt"))


@pytest.mark.slow
def test_keras_as_in_mmdnns_readme(tmp_path: Path) -> None:
    (weights,) = catalogue.fetch_model("fer").values()
    said = run(
        "mmconvert", "-sf", "keras", "-iw", weights, "-df", "onnx", "-om", "net.onnx", cwd=tmp_path
    )
    assert "random inputs" in said.out and "model:  net.onnx" in said.out
    assert names(tmp_path) == ["net.modelyard", "net.onnx"]
    session = OrtSession(tmp_path / "net.onnx")
    (spec,) = session.inputs
    feeds = {spec.name: np.zeros((2, 64, 64, 1), np.float32)}
    (scores,) = session.run(feeds).values()
    assert scores.shape == (2, 7)
    np.testing.assert_allclose(scores.sum(1), 1, rtol=1e-5)


@pytest.mark.slow
def test_pytorch_with_a_shape_without_the_batch(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    (tmp_path / "net.py").write_text(
        "from torch import nn\n\n\nclass Net(nn.Sequential):\n    def __init__(self):\n"
        "        super().__init__(nn.Conv2d(3, 4, 3), nn.ReLU())\n"
    )
    torch.save(torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3)).state_dict(), tmp_path / "net.pth")
    run(
        "mmconvert", "-sf", "pytorch", "-in", "net.py:Net", "-iw", "net.pth", "-df", "onnx",
        "-om", "net.onnx", "--inputShape", "3,9,9", "-inode", "photo", "-node", "maps",
        cwd=tmp_path,
    )  # fmt: skip
    session = OrtSession(tmp_path / "net.onnx")
    assert [(s.name, s.shape) for s in session.inputs] == [("photo", ("batch", 3, 9, 9))]
    assert [spec.name for spec in session.outputs] == ["maps"]


def test_a_framework_whose_files_a_target_writes_is_that_target() -> None:
    fields = mmdnn.fields_of(asked(target="tensorflow", weights="net.onnx", source="onnx"))
    assert fields["to"] == ["savedmodel"]
    assert mmdnn.fields_of(asked(target="tf", weights="net.onnx", source="onnx")) == fields


def test_a_pickled_module_is_not_trusted(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    torch.save(torch.nn.Sequential(torch.nn.Linear(3, 2)), tmp_path / "net.pth")
    line = ("-sf", "pytorch", "-iw", "net.pth", "-df", "onnx", "-om", "net.onnx")
    said = run("mmconvert", *line, "--inputShape", "3", cwd=tmp_path, code=3)
    assert "--trust-source" in said.err
    assert [p.name for p in tmp_path.iterdir()] == ["net.pth"]


def test_the_command_refuses_with_code_2(tmp_path: Path) -> None:
    """What it can't be asked for, its own options and the files that aren't there."""
    small_cnn(tmp_path / "cnn.onnx")
    for line, says in (("-df cntk -iw cnn.onnx", "cntk isn't written here"),
                       ("-df onnx -iw cnn.onnx --nonsense", "--nonsense"),
                       ("-df onnx -iw no.onnx", "no.onnx")):  # fmt: skip
        said = run("mmconvert", "-sf", "onnx", "-om", "o", *line.split(), cwd=tmp_path, code=2)
        assert says in said.err
    assert names(tmp_path) == ["cnn.onnx"]


@pytest.mark.parametrize(("given", "says", "hint"), [
    ({"source": "mxnet", "weights": "m"}, "mxnet isn't read here", "keras"),
    ({"target": "cntk", "weights": "m"}, "cntk isn't written here", "onnx"),
    ({"source": "nothing", "weights": "m"}, "nothing isn't a framework", ""),
    ({}, "the command names no model", ""),
    ({"source": "keras", "network": "n.json", "weights": "w.h5"}, "without its weights",
     "model.save('model.keras')"),
    ({"source": "keras", "network": "n.json"}, "without its weights", "model.save("),
    ({"source": "tf", "network": "net.pb", "weights": "w"}, r"isn't a checkpoint's \.meta", ""),
    ({"weights": "m", "shapes": ["3,x,8"]}, "without the batch", ""),
    ({"weights": "m", "shapes": ["-1,3,8"]}, "without the batch", ""),
    ({"weights": "m", "shapes": ["1,2", "3"], "inputs": ["a"]}, "1 inputs are named", ""),
    ({"weights": "m", "inputs": ["a"]}, "needs --inputShape", ""),
    ({"source": "onnx", "weights": "m", "shapes": ["3,8,8"]}, "needs --inNodeName", ""),
    ({"weights": "m", "dump_tag": "SERVING"}, "-df onnx has none", ""),
])  # fmt: skip
def test_what_cannot_be_asked_for(given: dict[str, object], says: str, hint: str) -> None:
    with pytest.raises(UsageError, match=says) as caught:
        mmdnn.fields_of(asked(**given))
    assert hint in caught.value.hint


def test_targets_are_called_as_their_frameworks() -> None:
    """A target's own name is that; a framework's is what is written for it."""
    assert mmdnn.fields_of(asked(target="TorchScript", weights="m"))["to"] == ["torchscript"]
    found = mmdnn.fields_of(asked(target="pytorch", weights="m"))
    assert found["to"] == ["pytorch"] and found["trainable"] is True


def test_a_checkpoint_of_tensorflow_is_its_meta_file() -> None:
    given = {"source": "tf", "network": "a/net.ckpt.meta", "outputs": ["prob"]}
    found = mmdnn.fields_of(asked(**given, weights="a/net.ckpt"))
    assert found["source"] == "a/net.ckpt.meta"
    assert "weights" not in found
    assert found["outputs"] == ["prob"]
    found = mmdnn.fields_of(asked(**given, weights="b/other.ckpt"))
    assert found["weights"] == "b/other.ckpt"


@pytest.mark.parametrize(("shapes", "names", "inputs"), [
    (["3,224,224"], [], ["input:batch,3,224,224"]),
    (["3", "224", "224"], [], ["input:batch,3,224,224"]),
    (["3,8,8", "10"], [], ["input_0:batch,3,8,8", "input_1:batch,10"]),
    (["3,8,8", "10"], ["a", "b"], ["a:batch,3,8,8", "b:batch,10"]),
    (["16"], ["ids:0"], ["ids:0:batch,16"]),
])  # fmt: skip
def test_shapes(shapes: list[str], names: list[str], inputs: list[str]) -> None:
    found = mmdnn.fields_of(asked(weights="m", shapes=shapes, inputs=names))
    assert found["inputs"] == inputs


def test_weights_in_files_of_their_own_keep_their_names(tmp_path: Path) -> None:
    from types import SimpleNamespace

    folder = tmp_path / "net.modelyard/onnx/fp32"
    folder.mkdir(parents=True)
    (folder / "model.onnx").write_text("graph")
    (folder / "model.onnx.data").write_text("weights")
    report = SimpleNamespace(artifacts=[SimpleNamespace(path="onnx/fp32/model.onnx")])
    result = SimpleNamespace(out=tmp_path / "net.modelyard", report=report)
    placed = mmdnn.place(result, str(tmp_path / "net.onnx"))  # type: ignore[arg-type]
    assert [path.name for path in placed] == ["net.onnx", "model.onnx.data"]
    assert [path.read_text() for path in placed] == ["graph", "weights"]


@pytest.mark.slow
def test_only_the_named_file_is_replaced(tmp_path: Path) -> None:
    """What has to lie beside the model replaces what an earlier run put there, and nothing else."""
    small_cnn(tmp_path / "model.onnx")
    source = (tmp_path / "model.onnx").read_bytes()
    line = ("--srcFramework", "onnx", "--inputNetwork", "model.onnx", "--dstFramework", "onnx")
    run("mmconvert", *line, "--outputModel", "new/net.onnx", cwd=tmp_path)
    (tmp_path / "new/net.onnx").write_text("an earlier one")
    run("mmconvert", *line, "--outputModel", "new/net.onnx", cwd=tmp_path)
    assert names(tmp_path / "new") == ["net.modelyard", "net.onnx"]
    inner = tmp_path / "new/net.modelyard/onnx/fp32/model.onnx"
    assert (tmp_path / "new/net.onnx").read_bytes() == inner.read_bytes()
    args = ("-iw", "model.onnx", "-df")
    said = run("mmconvert", *args, "onnx", "-om", "model.onnx", cwd=tmp_path, code=2)
    assert "is the file that is read" in said.err
    assert (tmp_path / "model.onnx").read_bytes() == source
    args = (*args, "tensorrt", "-om", "net.onnx")
    (tmp_path / "build_engine.py").write_text("mine")
    said = run("mmconvert", *args, cwd=tmp_path, code=2)
    assert "build_engine.py" in said.err and "net.modelyard" in said.err
    assert (tmp_path / "build_engine.py").read_text() == "mine"
    (tmp_path / "build_engine.py").unlink()
    run("mmconvert", *args, cwd=tmp_path)
    small_cnn(tmp_path / "model.onnx", channels=4)
    run("mmconvert", *args, cwd=tmp_path)
    (tmp_path / "net.modelyard" / "notes.txt").write_text("mine")
    said = run("mmconvert", *args, cwd=tmp_path, code=2)
    assert "notes.txt" in said.err


# -- mmdownload ----------------------------------------------------------------------------


def test_mmdownload(tmp_path: Path) -> None:
    line = ("mmdownload", "-f", "keras", "-n", "fer")
    for _ in range(2):
        said = run(*line, "-o", "models", cwd=tmp_path)
        assert "models/emotion_model.hdf5" in said.out
    assert names(tmp_path / "models") == ["emotion_model.hdf5"]
    (tmp_path / "models/emotion_model.hdf5").write_text("mine")
    run(*line, "-p", "models", cwd=tmp_path, code=2)
    assert (tmp_path / "models/emotion_model.hdf5").read_text() == "mine"
    assert "basic-pitch" in run("mmdownload", "-f", "tf", cwd=tmp_path).out
    run("mmdownload", "-f", "tf", "-n", "basic-pitch", "-i", "x", cwd=tmp_path, code=2)


@pytest.mark.parametrize(("framework", "name", "says"), [
    ("keras", "inception_v3", "keras.applications.InceptionV3()"),
    ("tensorflow", "resnet_v2_152", "keras.applications.ResNet152V2()"),
    ("pytorch", "resnet50", "torchvision.models:resnet50"),
    ("keras", "yolo2", "Nothing that is maintained"),
    ("keras", "fre", "The zoo has: fer."),
    ("keras", "fer-tflite", "mmdownload -f tflite -n fer-tflite"),
    ("caffe", "vgg16", "caffe isn't read here"),
])  # fmt: skip
def test_what_is_not_in_the_zoo(framework: str, name: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        mmdnn_models.find_model(framework, name)
    assert says in str(caught.value)


def test_torchscript_is_pytorchs() -> None:
    assert {"silero-vad-jit", "ccexam-mnist"} <= set(mmdnn_models.models_of("pytorch"))
