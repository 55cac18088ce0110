"""Functions of the user's between a file and a model, and between its outputs and the answer."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import modelyard
from tests.acceptance.cli import typed, written

MODEL = "g (float[n, 4] x) => (float[n, 4] y) { y = Mul(x, two) }"
OWN = """
import numpy as np

def bars(data):
    if not data.startswith(b"BARS"):
        raise ValueError("it doesn't begin with BARS")
    return {"x": np.frombuffer(data[4:8], np.uint8).astype(np.float32)[None]}

def highest(outputs, seen):
    y = outputs["y"][0]
    return {"highest": int(y.argmax()), "of": float(seen.feeds["x"].max())}
"""
RECIPE = """
source: net.onnx
samples: bars/
bench: false
serve: litserve
prepare: [server, {step: own.py:bars, requires: [numpy]}]
answer: {step: own.py:highest}
out: out
"""


@pytest.fixture
def made(tmp_path: Path) -> Path:
    written(tmp_path / "net.onnx", MODEL, two=np.float32(2))
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "bars").mkdir()
    for number in range(4):
        (tmp_path / f"bars/{number}.bar").write_bytes(b"BARS" + bytes([9, number, 3, 200]))
    (tmp_path / "r.yaml").write_text(RECIPE)
    return tmp_path


def test_a_function_prepares_and_another_answers(made: Path) -> None:
    said = typed("run r.yaml", made, code=2).err
    assert "preparation: " in said and "own.py:bars" in said and "--trust-recipe" in said
    typed("run r.yaml --trust-recipe", made)
    with pytest.raises(modelyard.UsageError, match=r"brings code .* own.py:bars, own.py:highest"):
        modelyard.load(made / "out")
    (made / "bad.bar").write_bytes(b"nothing")
    with modelyard.load(made / "out", trust_source=True) as net:
        assert net(made / "bars/2.bar").told == {"highest": 3, "of": 200.0}
        with pytest.raises(modelyard.UsageError, match="it doesn't begin with BARS"):
            net(made / "bad.bar")
    package = made / "out/serving/litserve/net"
    assert (package / "own.py").read_text() == OWN
    assert "numpy" in (package / "requirements.txt").read_text().split()
    assert "own.py" in (package / "stages.json").read_text()
    test = """
from stages import Stages
stages = Stages.load()
[item] = stages.items(open("../../../../bars/1.bar", "rb").read())
feeds, seen = stages.prepare(item)
print(stages.answer({"y": feeds["x"] * 2}, seen), stages.kinds)
"""
    told = subprocess.run([sys.executable, "-c", test], cwd=package, capture_output=True, text=True)
    assert told.stdout.strip() == "{'highest': 3, 'of': 200.0} ('picture',)", told.stderr
    samples = json.loads((made / "out/report.json").read_text())["samples"]
    assert "4 files of bars" in json.dumps(samples)


def test_what_a_function_does_wrong_is_told(made: Path) -> None:
    (made / "bars/4.bar").write_bytes(b"nothing")
    said = typed("run r.yaml --trust-recipe", made, code=2).err
    assert "own.py:bars: it doesn't begin with BARS" in said
    (made / "r.yaml").write_text(RECIPE.replace("own.py:bars", "own.py:missing"))
    assert "own.py has no function missing" in typed("run r.yaml --trust-recipe", made, code=2).err
    (made / "r.yaml").write_text(RECIPE.replace("own.py:bars", "other.py:bars"))
    assert "can't be read" in typed("run r.yaml --trust-recipe", made, code=2).err
