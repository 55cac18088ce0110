"""Samples from a function of the user's."""

import os
from pathlib import Path

import numpy as np
import pytest

from converter.errors import DependencyError, MachineError
from converter.options.request import Request
from converter.samples import load_samples
from tests.samples.conftest import Load, Refuse, spec

X = spec("x", "batch", 3)
NUMPY = "import numpy as np\n"
TOKENS = (spec("ids", "batch", "length", dtype="int64"), spec("mask", "batch", "length"))


@pytest.fixture
def code(tmp_path: Path) -> Path:
    return tmp_path / "data.py"


def test_arrays_dicts_and_labels(code: Path, load: Load) -> None:
    code.write_text("""
import numpy as np
import os
import sys
print("noise on standard output")

def arrays():
    assert sys.stdin.read() == ""
    for i in range(3):
        print("more noise", os.getpid())
        yield np.full((1, 3), i, np.float32)

def pairs():
    return [(np.full((3,), i, np.float32), i * 10) for i in range(3)]

def batches():
    yield np.zeros((2, 3), np.float32), [1, 2]
    yield np.ones((3, 3), np.float32), [3, 4, 5]

def tokens():
    for n in (2, 5):
        yield {"ids": np.ones((1, n), np.int64), "mask": np.ones((1, n), np.float32)}, "text"
""")
    samples = load(f"{code}:arrays", X)
    assert [s.feeds["x"].tolist() for s in samples] == [[[i, i, i]] for i in (0.0, 1.0, 2.0)]
    assert [s.name for s in samples] == ["arrays[0]", "arrays[1]", "arrays[2]"]
    assert not samples.labelled
    assert samples.origin == "data.py:arrays"
    assert [s.label for s in load(f"{code}:pairs", X)] == [0, 10, 20]
    assert not load(f"{code}:pairs", X, labels="none").labelled
    batches = load(f"{code}:batches", X)
    assert [s.label for s in batches] == [1, 2, 3, 4, 5]
    assert len(load(f"{code}:batches", X, samples_limit=4)) == 4
    tokens = load(f"{code}:tokens", *TOKENS)
    assert [s.feeds["ids"].shape for s in tokens] == [(1, 2), (1, 5)]
    assert [s.label for s in tokens] == ["text", "text"]


def test_it_runs_once_in_another_process(code: Path, load: Load, tmp_path: Path) -> None:
    log = tmp_path / "log"
    code.write_text(f"""
import os, random
import numpy as np
def f():
    open({str(log)!r}, "a").write(f"{{os.getpid()}}\\n")
    for _ in range(3):
        yield np.array([[random.random()] * 3], np.float32)
""")
    samples = load(f"{code}:f", X)
    one, other = ([s.feeds["x"] for s in samples] for _ in range(2))
    np.testing.assert_array_equal(one, other)
    assert [int(line) == os.getpid() for line in log.read_text().splitlines()] == [False]
    assert load(f"{code}:f", X).digest != samples.digest  # other random numbers


def test_an_endless_function_is_stopped_by_the_limit(code: Path, load: Load) -> None:
    code.write_text(f"{NUMPY}def f():\n    while True:\n        yield np.zeros((1, 3), 'f')\n")
    assert len(load(f"{code}:f", X, samples_limit=5)) == 5


def test_modules_beside_it_and_on_the_search_path(code: Path, load: Load, tmp_path: Path) -> None:
    """A module named as one of ours, or as one of the standard library's helpers, is the user's."""
    (tmp_path / "table.py").write_text("SIZE = 3\n")
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "more.py").write_text("KIND = 'float32'\n")
    code.write_text("""
import numpy as np
from table import SIZE
from more import KIND
def f():
    yield np.zeros((1, SIZE), KIND)
""")
    assert len(load(f"{code}:f", X, search_paths=[str(tmp_path / "lib")])) == 1


def test_tensors(code: Path, load: Load) -> None:
    pytest.importorskip("torch")
    code.write_text("""
import torch
def f():
    yield torch.ones(1, 3, requires_grad=True), torch.tensor(4)
""")
    (sample,) = load(f"{code}:f", X)
    assert sample.feeds["x"].tolist() == [[1, 1, 1]]
    assert sample.label == 4


@pytest.mark.parametrize(("body", "says"), [
    ("yield np.zeros((1, 3))", ("what f() yields", "array.astype('float32')")),
    ("yield np.zeros((1, 4), np.float32)", ("dimension 1 is 4 instead of 3",)),
    ("yield {'z': np.zeros(1), 'q': np.zeros(1)}", ("missing: x", "not an input: q, z")),
    ("yield np.full((1, 3), np.nan, np.float32)", ("f[0]: the input 'x' holds NaN",)),
    ("return iter(())", ("f() of data.py yielded no samples",)),
    ("return np.zeros((1, 3), np.float32)", ("f() returned ndarray, but has to yield",)),
    ("return 3", ("f() returned int",)),
    ("yield object()", ("item 0 of f, '': object can't become an array",)),
    ("yield [[1], [2, 3]]", ("item 0 of f, '': it can't become an array",)),
    ("1 / 0\n    yield 1", ("f raised ZeroDivisionError", "data.py, line 3: 1 / 0")),
    ("raise SystemExit(0)", ("f raised SystemExit",)),
    ("open('/nowhere/x')\n    yield 1", ("FileNotFoundError",)),
    ("yield 1, 2, 3", ("array.astype('float32')",)),
])  # fmt: skip
def test_what_does_not_fit(code: Path, refuse: Refuse, body: str, says: tuple[str, ...]) -> None:
    code.write_text(f"{NUMPY}def f():\n    {body}\n")
    refuse(f"{code}:f", X, says=says)


def test_code_that_can_not_be_used_and_a_killed_process_which_is_the_machines(
    code: Path, refuse: Refuse
) -> None:
    refuse(f"{code}:f", X, says="data.py:f: there is no such file")
    code.write_text("def g(): pass\nfrom os import path\n")
    error = refuse(f"{code}:f", X, says="data.py has no function 'f'")
    assert error.details == ("it has g",)
    refuse(code, X, says="data.py:FUNCTION")
    refuse(f"{code}:g", X, labels="key", says="can't be used with a function")
    code.write_text("def f(:\n")
    refuse(f"{code}:f", X, says="data.py raised SyntaxError")
    code.write_text("import no_such_module\n")
    with pytest.raises(DependencyError, match="imports no_such_module") as caught:
        load_samples(Request("net", samples=f"{code}:f"), (X,), {})
    assert caught.value.exit_code == 5
    code.write_text("import os\ndef f():\n    os.kill(os.getpid(), 9)\n    yield 1\n")
    with pytest.raises(MachineError, match="was killed by SIGKILL") as caught:
        load_samples(Request("net", samples=f"{code}:f"), (X,), {})
    assert caught.value.exit_code == 6


def test_side_by_side_iterators_and_digest(code: Path, load: Load) -> None:
    code.write_text(f"{NUMPY}def f():\n    for i in range(4): yield np.full((1, 3), i, 'f'), i\n")
    samples = load(f"{code}:f", X)
    for one, other in zip(samples, samples, strict=True):
        np.testing.assert_array_equal(one.feeds["x"], other.feeds["x"])
    assert load(f"{code}:f", X).digest == samples.digest
    assert load(f"{code}:f", X, labels="none").digest != samples.digest
    assert load(f"{code}:f", X, samples_limit=2).digest != samples.digest
