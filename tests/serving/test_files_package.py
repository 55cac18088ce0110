"""Packages of Python servers that prepare users' files, as written; and what answers files in them,
alone in a plain Python."""

import json
import subprocess
import sys
import tracemalloc
import zipfile
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

import modelyard
from converter.preparation.staged.base import StageError
from converter.preparation.stages import Stages
from tests.acceptance.cli import refused, small_cnn, typed, written
from tests.serving.test_python_package import SERVERS

LINT = ("ruff", "check", "--isolated", "--select", "E,F,W,I,B", "--line-length", "100")
OURS = ("service.py", "model.py", "server.py", "runtime.py", "app.py", "asking.py", "stages.py")
PHOTOS = "--image-mean 0.5 --image-std 0.25 --no-bench --no-check --prepare server"

ASK = """import asyncio, json, sys
sys.path.insert(0, sys.argv[1])
from asking import REFUSED, Asking, refusal
from inference import Model
model = Model.load()
asking, told = Asking(model), []
async def run_all(requests):
    return model.run(requests)
for line in sys.stdin:
    body, kind = json.loads(line)
    try:
        asked = asking.read(body.encode("latin-1"), kind)
        rows = [len(next(iter(feeds.values()))) for feeds in asked.feeds]
        told.append([rows, asking.run(model, [asked])[0][1]])
    except REFUSED as error:
        told.append(refusal(error))
    status, said = asyncio.run(asking.reply(body.encode("latin-1"), kind, run_all))
    assert told[-1] == (status, said) if status >= 400 else told[-1][1] == json.loads(said)
print(json.dumps(told))"""


def asked(package: Path, *requests: tuple[str, str]) -> list[Any]:
    """What a package's own files say to bodies (latin-1) of content types."""
    lines = "".join(json.dumps(request) + "\n" for request in requests)
    done = subprocess.run([sys.executable, "-c", ASK, str(package)], input=lines,
                          capture_output=True, text=True, timeout=60, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: list[Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("batching", ["", "--no-dynamic-batching"])
def test_packages_say_how_files_are_sent(batching: str, tmp_path: Path) -> None:
    small_cnn(tmp_path / "cnn.onnx")
    typed(f"convert cnn.onnx {PHOTOS} {batching} --serve {','.join(SERVERS)} --out out", tmp_path)
    paths = {"bentoml": "ask", "litserve": "predict", "rayserve": "cnn"}
    paths |= dict.fromkeys(("kserve", "mlserver"), "v2/models/cnn/ask")
    for server in SERVERS:
        package = tmp_path / "out/serving" / server / "cnn"
        needs = (package / "requirements.txt").read_text().splitlines()
        assert needs[-1].startswith("pillow==")
        assert needs[-1] in (package / "requirements.lock").read_text().splitlines()
        readme = (package / "README.md").read_text()
        path = paths.get(server, "predictions/cnn")
        assert f"/{path}\n" in readme.partition("--data-binary @cat.jpg http://127.0.0.1:")[2]
        assert "64,000,000 pixels" in readme and "64 MB a request" in readme
        files = [file for name in OURS if (file := package / name).is_file()]
        if server == "torchserve":
            with zipfile.ZipFile(package / "model_store/cnn.mar") as archive:
                archive.extractall(tmp_path / "mar")
            files = [*(tmp_path / "mar").glob("*.py")]
        assert {"asking.py", "stages.py"} < {file.name for file in files}
        line = [str(Path(sys.executable).with_name(LINT[0])), *LINT[1:], *map(str, files)]
        done = subprocess.run(line, capture_output=True, text=True, check=False)
        assert done.returncode == 0, (server, done.stdout)


def test_nothing_declared_is_refused_early(tmp_path: Path) -> None:
    small_cnn(tmp_path / "cnn.onnx")
    for server in ("litserve", "torchserve"):
        refused(2, "there is no description of how files become", tmp_path,
                "cnn.onnx", "--prepare", "server", "--serve", server, "--out", "out")  # fmt: skip


def test_a_table_is_run_in_pieces(tmp_path: Path) -> None:
    """Of at most the largest batch; a row of another table in none of them."""
    text = """g (float[batch, 2] size, float[batch, 1] bias) => (float[batch, 1] y) {
        s = ReduceSum<keepdims = 1>(size, axis) y = Add(s, bias) }"""
    written(tmp_path / "t.onnx", text, axis=np.array([1]))
    (tmp_path / "t.yaml").write_text("""
source: t.onnx
bench: false
serve: litserve
max_batch: 8
out: out
prepare:
  - server
  - {kind: row, inputs: [{name: size, columns: [height, width], dtype: float32}]}
  - {kind: constant, input: bias, shape: [1, 1], value: 2}
answer: {kind: numbers, names: [price]}
""")
    typed("run t.yaml", tmp_path)
    lines = [f"{n},{2 * n}" for n in range(20)]
    (tmp_path / "a.csv").write_text("\n".join(("width,height", *lines)))
    table = (tmp_path / "a.csv").read_text()
    form = "".join(f'--x\r\nContent-Disposition: form-data; name="f"\r\n\r\n{part}\r\n'
                   for part in (table, "height,width\n1,1\n"))  # fmt: skip
    many = "height,width\n" + "1,1\n" * 10_001
    arrays = json.dumps({"size": [[1, 2]], "bias": [[3]]})
    answers = asked(
        tmp_path / "out/serving/litserve/t", (table, "text/csv"), (table, ""),
        (form + "--x--\r\n", "multipart/form-data; boundary=x"), (arrays, "application/json"),
        (many, "text/csv"), ("height\n1\n", "text/csv"), ("", "text/csv"), (table, "image/png"),
        ('--x\r\n\r\n1\r\n' * 65 + "--x--", "multipart/form-data; boundary=x"),
        ('{"size": [[1]]}', "application/json"),
    )  # fmt: skip
    prices = [{"price": 3.0 * n + 2} for n in range(20)]
    with modelyard.load(tmp_path / "out") as net:
        ones = np.ones((1, 1), np.float32)
        assert net(size=2 * ones.repeat(2, 1), bias=ones)["y"].tolist() == [[5]]
    assert answers[:2] == [[[8, 8, 4], {"numbers": prices}]] * 2
    assert answers[2] == [
        [8, 8, 4, 1],
        {"answers": [{"numbers": prices}, {"numbers": {"price": 4}}]},
    ]
    assert answers[3] == [[1], {"y": [[6.0]]}]
    told = ("the limit is 10000", "lacks the columns width", "empty", "image/png", "more than 64",
            "missing: bias")  # fmt: skip
    statuses = (413, 400, 400, 415, 413, 400)
    for (status, said), wanted, part in zip(answers[4:], statuses, told, strict=True):
        assert status == wanted and part in json.loads(said)["error"], said


@pytest.mark.parametrize("shape", ["1, 8", "8"])
def test_windows_of_a_model_without_a_batch(shape: str, tmp_path: Path) -> None:
    """They are run one by one."""
    written(
        tmp_path / "s.onnx",
        f"""g (float[{shape}] x) => (float[1] y) {{
        f = Reshape(x, flat) y = ReduceSum<keepdims = 1>(f) }}""",
        flat=np.array([8]),
    )
    modelyard.convert(
        tmp_path / "s.onnx", bench=False, out=tmp_path / "out", serve="litserve",
        prepare=["server", {"kind": "sound", "rate": 16000, "length": 8, "hop": 8}],
        answer={"kind": "series", "rate": 2000, "name": "sums"},
    )  # fmt: skip
    wave = np.arange(30, dtype=np.float32) / 32
    into = BytesIO()
    soundfile.write(into, wave, 16000, format="WAV", subtype="FLOAT")
    sent = into.getvalue().decode("latin-1")
    [(rows, answer)] = asked(tmp_path / "out/serving/litserve/s", (sent, "audio/wav"))
    sums = np.pad(wave, (0, 2)).reshape(4, 8).sum(axis=1)
    assert rows == [1] * 4 if shape == "1, 8" else len(rows) == 4
    np.testing.assert_allclose(answer["sums"]["values"], sums)


def test_without_a_server_it_is_without_effect(tmp_path: Path) -> None:
    small_cnn(tmp_path / "cnn.onnx")
    said = typed("convert cnn.onnx --prepare server --dry-run", tmp_path)
    assert "--prepare (no --serve)" in said.out + said.err


def test_a_form_of_line_breaks_takes_no_more_than_any() -> None:
    stages = Stages({"prepare": [{"kind": "text"}], "answer": [], "limits": {"files": 2}})
    kind, text = "multipart/form-data; boundary=x", "\r\n" * 1_000_000
    form = f'--x\r\nContent-Disposition: form-data; filename="a.txt"\r\n\r\n{text}\r\n--x'.encode()
    tracemalloc.start()
    [item] = stages.items(form + b"--\r\n", kind)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (item.name, item.data) == ("a.txt", text)
    assert most < 8 * len(form)
    for body, says in ((form, "cut short"), (b"abc", "no file"), (form * 3 + b"--", "more than 2")):
        with pytest.raises(StageError, match=says):
            stages.items(body.replace(b"--x--x", b"--x\r\n--x"), kind)


TURNS = """g (float[batch, 8] x, float[batch, 1] state, float gain)
    => (float[batch] y, float[batch, 1] left) {
    s = ReduceSum<keepdims = 1>(x, axis) g = Mul(s, gain) left = Add(g, state)
    y = Squeeze(left, axis) }"""


@pytest.mark.parametrize("text", [TURNS, TURNS.replace("batch", "1")])
def test_windows_that_hand_on_a_state_run_in_turn(text: str, tmp_path: Path) -> None:
    """Each request has a state of its own, whatever runs beside it."""
    written(tmp_path / "s.onnx", text, axis=np.array([1]))
    modelyard.convert(
        tmp_path / "s.onnx", bench=False, check=False, out=tmp_path / "out", serve="litserve",
        prepare=["server", {"kind": "sound", "input": "x", "rate": 16000, "length": 8, "hop": 8},
                 {"kind": "state", "input": "state", "next": "left", "shape": [1, 1]},
                 {"kind": "constant", "input": "gain", "shape": [], "value": 2}],
        answer={"kind": "series", "output": "y", "rate": 2000, "name": "sums"},
    )  # fmt: skip
    waves = [np.arange(first, first + 30, dtype=np.float32) / 64 for first in (0, 9)]
    sent = []
    for wave in waves:
        into = BytesIO()
        soundfile.write(into, np.stack([wave, wave], 1), 16000, format="WAV", subtype="FLOAT")
        sent.append((into.getvalue().decode("latin-1"), "audio/wav"))
    form = "".join(f'--q\r\nContent-Disposition: form-data; name="f"\r\n\r\n{body}\r\n'
                   for body, _ in sent)  # fmt: skip
    package = tmp_path / "out/serving/litserve/s"
    answers = asked(package, *sent, (form + "--q--", "multipart/form-data; boundary=q"))
    right = [np.pad(2 * wave, (0, 2)).reshape(4, 8).sum(axis=1).cumsum() for wave in waves]
    told = [answers[0][1], answers[1][1], *answers[2][1]["answers"]]
    for one, wanted in zip(told, [*right, *right], strict=True):
        np.testing.assert_allclose(one["sums"]["values"], wanted, rtol=1e-6)


def test_texts_come_in_json_of_one_form() -> None:
    stages = Stages({"prepare": [{"kind": "text"}], "answer": [], "limits": {"files": 2}})
    one, two = {"text": "a cow"}, {"text": "the cat", "pair": "naïve"}
    found = [(item.data, item.pair) for item in stages.texts([one, two])]
    assert found == [("a cow", None), ("the cat", "naïve")]
    [item] = stages.items(json.dumps(two).encode())  # of which nobody says that it is JSON
    assert (item.data, item.pair) == ("the cat", "naïve")
    for other in (json.dumps(one), '{"text": "a', "{" * 100_000):
        [item] = stages.items(other.encode())
        assert (item.data, item.pair) == (other, None)
    for arrays in ({"input_ids": [[1]]}, {"text": ["a"]}, [], [1], "a", None):
        assert stages.texts(arrays) == []
    for bad, says in (
        ({"text": ""}, "text of text 1 is empty"),
        ([one, {**two, "pair": ["b"]}], "pair of text 2 isn't a text"),
        ({"text": "a", "other": 1}, "holds other"),
        ({"text": "\ud800"}, "half of a surrogate pair"),
        ([one] * 3, "the limit is 2"),
    ):
        with pytest.raises(StageError, match=says):
            stages.texts(bad)
