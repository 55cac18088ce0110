"""Damaged files of fixed seeds, in forks and as commands; and that the fuzzer sees."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from converter import api
from tests import sweep
from tests.acceptance.cli import small_cnn
from tests.hostile import formats, running
from tests.hostile.__main__ import Case, kind_of
from tests.hostile.forking import Several
from tests.hostile.kinds import KINDS, ROOT
from tests.hostile.mutate import damaged, smaller

CASES = 1900


@pytest.mark.slow
@pytest.mark.parametrize(
    "how",
    [["--cases", sweep.piece(0, CASES)], ["--cases", sweep.piece(5300, 5400), "--command"]],
    ids=["forks", "commands"],
)
def test_nothing_is_found(how: list[str]) -> None:
    line = [sys.executable, "-m", "tests.hostile", *how]
    said = subprocess.run(line, cwd=ROOT, capture_output=True, text=True)
    assert said.returncode == 0, said.stdout + said.stderr


def test_every_kind_has_its_share() -> None:
    counts = Counter(map(kind_of, range(CASES)))
    assert set(counts) == set(KINDS)
    assert min(counts.values()) > 10 and counts["onnx"] > 400


@pytest.fixture
def good(tmp_path: Path) -> bytes:
    """A small model."""
    return small_cnn(tmp_path / "m.onnx", channels=4).read_bytes()


def test_a_seed_is_always_the_same_damage(good: bytes) -> None:
    made = {seed: damaged({"m.onnx": good}, f"{seed}", ["m.onnx"]) for seed in range(60)}
    assert all(damaged({"m.onnx": good}, f"{n}", ["m.onnx"]) == files for n, files in made.items())
    assert len({files.get("m.onnx") for files in made.values()}) > 50


def test_damage_is_of_structure_as_well_as_of_bytes(good: bytes) -> None:
    """A third and more are protobufs still, of which some still are models."""
    parsed = valid = 0
    for seed in range(200):
        try:
            model = onnx.load_from_string(
                damaged({"m.onnx": good}, f"{seed}", ["m.onnx"]).get("m.onnx", b"")
            )
            parsed += 1
            onnx.checker.check_model(model)
            valid += 1
        except Exception:  # protobuf's and the checker's, of many kinds
            continue
    assert parsed > 70 and valid > 20


def test_files_read_as_trees_are_written_the_same(good: bytes, tmp_path: Path) -> None:
    np.savez(tmp_path / "m.npz", x=np.ones((2, 3)))
    (tmp_path / "m.yaml").write_text("a: [1, {b: c}]\n")
    (tmp_path / "m.json").write_text('{"a": [1, {"b": null}]}')
    for path in sorted(tmp_path.iterdir()):
        tree = formats.read(path.name, path.read_bytes())
        assert not isinstance(tree, bytes)
        assert formats.read(path.name, formats.write(path.name, tree)) == tree
    assert formats.write("m.onnx", formats.read("m.onnx", good)) == good


# -- that it sees --------------------------------------------------------------------------


def raising() -> None:
    raise TypeError("a mistake")


SLEEPING = [sys.executable, "-c", "import time; time.sleep(60)"]
MISTAKES: dict[str, tuple[Callable[[], object], str]] = {
    "raising": (raising, "code 1: TypeError in tests/hostile/test_fuzz.py:raising"),
    "leaving": (lambda: Path("left").touch(), "leaves left"),
    "starting": (lambda: subprocess.Popen(SLEEPING, start_new_session=True), "leaves a process"),
    "taking": (lambda: np.ones(1 << 25).sum(), "takes more than 128 MiB"),
    "hanging": (lambda: time.sleep(60), "hangs"),
    "printing": (lambda: os.write(1, b"\x1b[31m"), "prints a raw"),
    "crashing": (os.abort, "code -6"),
}


def test_nothing_is_seen_in_a_good_file(good: bytes) -> None:
    outcome = running.run({"m.onnx": good}, ["inspect", "m.onnx"])
    assert (outcome.code, outcome.finding(KINDS["onnx"])) == (0, "")


@pytest.mark.parametrize("several", [
    pytest.param(None, id="alone"),
    pytest.param(Several(), id="among others", marks=pytest.mark.slow),
])  # fmt: skip
@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_seen(
    name: str, several: Several | None, good: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    mistake, says = MISTAKES[name]
    running.adopt_orphans()
    monkeypatch.setattr(running, "MEMORY", 128 << 20)
    kind, line = KINDS["onnx"], ["inspect", "m.onnx"]
    right = api.inspect

    def wrong(*args: Any, **how: Any) -> object:
        mistake()
        return right(*args, **how)

    monkeypatch.setattr(api, "inspect", wrong)
    monkeypatch.setattr(running, "SECONDS", 4 if name == "hanging" else 60)
    for _ in range(2 if several else 1):  # the first leaves nothing that the next one meets
        outcome = running.run({"m.onnx": good}, line, several=several)
        assert outcome.finding(kind).startswith(says)
    if several:
        several.end()


def test_what_is_found_is_made_small(good: bytes) -> None:
    """Of a model of 8 nodes in 2 kB, the name that something is wrong with is left."""
    files = {"m.onnx": good.replace(b"relu0", b"wrong")}
    size, again = len(good), True
    while again:
        again = False
        for tried in smaller(files, ["m.onnx"]):
            if b"wrong" in tried.get("m.onnx", b""):
                files, again = tried, True
                break
    assert size > 1000 and len(files["m.onnx"]) < 20


def test_a_case_has_a_line_and_files() -> None:
    found = Case(3, "recipe", "every")
    assert found.line == ["run", "m.yaml"] and set(found.good) == {"m.yaml", "cut.onnx"}
    assert found.files() == found.files() != found.good
