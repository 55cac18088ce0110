"""Functions of the user's between a file and a model, and between its outputs and the answer."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

import modelyard
from converter.preparation.prepared import stages_of, told
from converter.preparation.staged.base import Item
from tests.acceptance.cli import typed, written
from tests.hostile.watching import watched
from tests.processes import running

MODEL = "g (float[n, 4] x) => (float[n, 4] y) { y = Mul(x, two) }"
OWN = """
import sys
import numpy as np

def bars(data):
    assert not {"click", "onnx", "pydantic"} & set(sys.modules)  # in a process of its own
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
    before = running("step_child")
    with modelyard.load(made / "out", trust_source=True) as net:
        assert net(made / "bars/2.bar").told == {"highest": 3, "of": 200.0}
        with pytest.raises(modelyard.UsageError, match="it doesn't begin with BARS"):
            net(made / "bad.bar")
        assert len(running("step_child") - before) == 1
    assert not running("step_child") - before
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
    assert "own.py:bars (own.py, line 8): it doesn't begin with BARS" in said
    (made / "r.yaml").write_text(RECIPE.replace("own.py:bars", "own.py:missing"))
    assert "own.py has no function missing" in typed("run r.yaml --trust-recipe", made, code=2).err
    (made / "r.yaml").write_text(RECIPE.replace("own.py:bars", "other.py:bars"))
    assert "can't be read" in typed("run r.yaml --trust-recipe", made, code=2).err


WRONG = {
    "return {'x': np.zeros((1, 4), np.float32)[data[9000]]}": "bars failed (own.py, line 5): Index",
    "raise ValueError('it is no bar')": "own.py:bars (own.py, line 5): it is no bar",
    "return {'x': {1: 2}}": "own.py:bars returns x, which isn't an array",
    "return 3": "own.py:bars gives a int",
    "return (": "own.py failed (own.py, line 5): SyntaxError",
    "import gone_for_good": "own.py needs the package gone_for_good",
    "sys.exit(0)": "own.py:bars failed (own.py, line 5): SystemExit",
    "print('I give up', flush=True); os.kill(os.getpid(), 9)": "killed by SIGKILL",
}


@pytest.mark.parametrize("line", WRONG)
def test_how_a_function_fails_is_told(line: str) -> None:
    code = f"import os, sys\nimport numpy as np\n\ndef bars(data):\n    {line}\n"
    step = {"kind": "step", "step": "own.py:bars", "code": code, "takes": "picture"}
    stages = stages_of({"prepare": [step], "answer": []})
    with pytest.raises(modelyard.ModelyardError) as caught, closing(stages.steps), told():
        stages.prepare(Item("picture", b"", "a.bar"))
    dead = isinstance(caught.value, modelyard.MachineError)
    assert WRONG[line] in str(caught.value)
    assert dead is ("I give up" in "".join(caught.value.details)) is ("SIGKILL" in WRONG[line])


def test_a_function_may_take_what_memory_the_command_may(made: Path) -> None:
    code = (
        "def bars(data):\n    held = []\n    while True:\n        held.append(b'x' * (50 << 20))\n"
    )
    (made / "own.py").write_text(code)
    (made / "r.yaml").write_text(RECIPE.replace("answer: {step: own.py:highest}\n", ""))
    took = watched("run", "r.yaml", "--trust-recipe", cwd=made, limit="1G")
    assert took.code == 6 and "of memory that it may take" in " ".join(took.err.split()), took.err
