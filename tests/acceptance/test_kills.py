"""A run killed at any point leaves nothing half-written and no process, and can be repeated.

The tables below name every point at which a run moves or removes what others see (tests.faults);
``python -m tests.soak`` kills at random times.
"""

import hashlib
import json
import re
import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from converter.files import output_guard
from converter.pipeline.cache import SUMS
from tests.acceptance.cli import names, small_cnn, tree
from tests.faults import NET, alone, forked, require_ended, start

pytestmark = pytest.mark.slow

ONNX = ["model.onnx", "--serve", "triton", "--repository", "repo"]
MISSED = ["--max-latency", "0.000001", "--bench-seconds", "0.02"]
TORCH = ["net.py:Net", "--input", "x:batchx3x16x16", "--batch", "1", "--no-simplify"]
PARTS = """
to: onnx
samples: random:2
parts: {one: {source: model.onnx}, two: {source: model.onnx, batch: 1}}
"""
STEPS = ("parse", "samples", "simplify", "reference", "emit:onnx:fp32", "check:onnx:fp32")


@dataclass(frozen=True)
class Way:
    """A command, the points at which it is killed (``>`` between runs that are, one after the
    other), what it leaves beside a repository, its code, and whether the cache is cleared before.
    """

    args: list[str]
    points: tuple[str, ...]
    out: str = "out"
    code: int = 0
    cold: bool = False


WAYS = {
    "replacing": Way([*ONNX, "--no-bench"], (
        "amid mark modelyard-run", "amid mark .out.modelyard-staging",
        *(f"after step {name}" for name in (*STEPS, "package:triton:onnx:fp32")),
        "amid mark .modelyard", "before rename content N", "after rename content N",
        "after rename content N > amid mark .modelyard",
        "after rename content N > before rename N content",
        "after rename content N > after rename N content",
        "after remove .modelyard", "before rename out old", "after rename out old",
        "after rename out old > before rename old out",
        "after rename out old > after rename old out",
        "before rename made out > before remove made", "after rename made out",
        "before rename old gone", "after rename old gone", "amid remove gone",
        "before remove .out.modelyard-staging", "after remove .out.modelyard-staging",
        "SIGTERM after rename out old", "SIGTERM after rename content N",
    )),
    "cold": Way(["model.onnx", "--no-bench"], (
        "before replace .adding KEY.json", "after replace .adding KEY.json", "amid call simplify",
        "child call simplify", "before rename entry KEY", "after rename entry KEY",
        "after remove .adding", "SIGINT amid call simplify",
    ), cold=True),
    "missing a gate": Way([*ONNX, *MISSED], (
        "after step bench:onnx:fp32", "before rename out.failed gone",
        "after rename out.failed gone", "before rename made out.failed",
        "after rename made out.failed", "amid remove gone",
    ), out="out.failed", code=4),
    "in parts": Way(["both.yaml"], (
        "after step one/parse", "after step two/check:onnx:fp32", "before rename out old",
        "after rename out old", "before rename made out > before remove made",
        "after rename made out", "SIGTERM after step two/emit:onnx:fp32",
    )),
    "in a framework": Way(TORCH, (
        "amid call export", "child call export", "child call run", "SIGTERM amid call export",
    ), cold=True),
}  # fmt: skip


class Place:
    """A folder with a user's files, where a way was gone undisturbed."""

    def __init__(self, folder: Path, way: Way) -> None:
        self.folder, self.way = folder, way
        self._cache = folder.with_suffix(".cache")
        (folder / "repo/theirs").mkdir(parents=True)
        (folder / "repo/theirs/config.pbtxt").write_text("theirs")
        (folder / "net.py").write_text(NET)
        small_cnn(folder / "model.onnx")
        (folder / "both.yaml").write_text(PARTS)
        self.names: list[str] = []
        for _ in range(2):  # the second replaces the first, and finds more in the cache
            self.go()
        self.known = {name: data for name, data in tree(folder).items() if not self._made(name)}
        self.result, self.names = self._result(), names(folder)
        self.kept = self._kept()

    def clear(self) -> None:
        """Empties the cache, where the way is gone without one."""
        if self.way.cold:
            shutil.rmtree(self._cache)

    def go(self, at: str = "", run: Callable[[list[str], Path, str], int] = forked) -> None:
        """Goes the way up to a point."""
        args = ["convert", *self.way.args, "--samples", "random:2"]
        if self.way.args == ["both.yaml"]:
            args = ["run", *self.way.args, "--no-bench"]
        code = run([*args, "--out", "out", "--overwrite"], self.folder, at)
        temporary = self.folder.with_suffix(".temporary")
        codes = {"": self.way.code, "child": 6, "SIGINT": 130, "SIGTERM": 143}
        codes["child call simplify"] = 0  # it goes on without
        wanted = codes.get(at, codes.get(at.split(" ")[0], -signal.SIGKILL))
        assert code == wanted, self._said(".log")
        require_ended(self.folder)
        if code != -signal.SIGKILL:
            assert names(self.folder) == self.names or not self.names
            assert names(temporary) == []  # of killed runs before it neither

    def came_by(self) -> set[str]:
        """What the last run did that others see."""
        return {line.split(" ", 1)[1] for line in self._said(".points").splitlines()}

    def versions(self) -> int:
        """How many versions the repository has."""
        return len([*(self.folder / "repo").glob("model/*/")])

    def seal(self) -> bytes:
        """What tells one output from another; empty where there is none."""
        manifest = self.folder / self.way.out / output_guard.NAME
        return manifest.read_bytes() if manifest.exists() else b""

    def require_nothing_lost(self, before: dict[str, bytes]) -> None:
        """What was there is there as it was, or the new is; nothing else is to be seen."""
        now, out = tree(self.folder), self.way.out
        assert self.known.items() <= now.items()
        assert {name for name in names(self.folder) if name[0] != "."} <= {*self.names}
        old, new = ({n: d for n, d in there.items() if n.startswith(f"{out}/")}
                    for there in (before, now))  # fmt: skip
        if new != old and new:
            self._require_whole()
        if not new and out == "out":
            aside = tree(self.folder / ".out.modelyard-staging/old")
            assert aside == {name.removeprefix("out/"): data for name, data in old.items()}
        for version in (self.folder / "repo").glob("model/*/"):
            assert tree(version) in self.result[1], version
        assert {*names(self.folder / "repo")} <= {"model", "theirs"}
        for key, entry in self._kept().items():
            assert entry == self.kept.get(key, entry), key

    def require_undisturbed(self) -> None:
        """All is as a run leaves it that nobody disturbs."""
        self._require_whole()
        assert names(self.folder) == self.names
        assert self._result() == self.result

    def _made(self, name: str) -> bool:
        return name.startswith((f"{self.way.out}/", "repo/model/"))

    def _said(self, suffix: str) -> str:
        return self.folder.with_suffix(suffix).read_text()

    def _require_whole(self) -> None:
        folder = self.folder / self.way.out
        manifest = json.loads((folder / output_guard.NAME).read_text())
        named = {item["path"] for item in (*manifest["files"], *manifest["measured"]["files"])}
        assert output_guard.strange(folder) == [] and named | {output_guard.NAME} == {*tree(folder)}

    def _result(self) -> tuple[dict[str, object], list[dict[str, bytes]]]:
        """What is the same in every run: the output without what was measured, and versions."""
        found: dict[str, object] = {**tree(self.folder / self.way.out)}
        said = (self.folder / self.way.out / output_guard.NAME).read_text()
        manifest = json.loads(re.sub(r"to the repository as \d+", "to the repository", said))
        del manifest["measured"]
        found |= {**dict.fromkeys(("report.html", "report.json")), output_guard.NAME: manifest}
        versions: list[dict[str, bytes]] = []
        for folder in (self.folder / "repo").glob("model/*/"):
            versions += [tree(folder)] if tree(folder) not in versions else []
        return found, sorted(versions, key=repr)

    def _kept(self) -> dict[str, dict[str, bytes]]:
        """The entries of the cache, each as its sums have it, without how long its making took."""
        took, entries = rb'"seconds": [-+.e0-9]+', {}
        for path in self._cache.glob("steps/??/*/"):
            if path.name[0] != ".":
                files = tree(path)
                sums = json.loads(files.pop(SUMS))
                assert sums == {n: hashlib.sha256(d).hexdigest() for n, d in files.items()}
                entries[path.name] = {n: re.sub(took, b"", d) for n, d in files.items()}
        return entries


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Place]:
    """The place of each way."""
    made: dict[str, Place] = {}

    def place(name: str) -> Place:
        if name not in made:
            made[name] = Place(tmp_path_factory.mktemp("way") / "place", WAYS[name])
        return made[name]

    return place


@pytest.mark.parametrize(
    ("way", "point"), [(name, point) for name, way in WAYS.items() for point in way.points]
)
def test_a_kill(places: Callable[[str], Place], way: str, point: str) -> None:
    place = places(way)
    place.clear()
    before, versions, seals = tree(place.folder), place.versions(), {place.seal(), b""}
    for at in point.split(" > "):
        place.go(at)
        place.require_nothing_lost(before)
        seals.add(place.seal())
    place.go()
    place.require_undisturbed()
    if way == "replacing":  # a version for each output that was put in place
        assert place.versions() - versions == len(seals) - 1


def test_a_kill_of_a_process_of_its_own(places: Callable[[str], Place]) -> None:
    place = places("replacing")
    before = tree(place.folder)
    place.go("before rename made out", alone)
    place.require_nothing_lost(before)
    place.go("", alone)
    place.require_undisturbed()


def test_every_point_is_in_the_table(places: Callable[[str], Place]) -> None:
    """At which something is moved or removed where others see it."""
    for name in ("replacing", "missing a gate"):
        place = places(name)
        place.go()
        listed = {point.split(" ", 1)[1] for way in WAYS.values() for point in way.points}
        moved = {what for what in place.came_by() if what.startswith(("rename", "remove", "step"))}
        assert moved <= listed


SLOW = """
import numpy as np, time

def samples():
    while True:
        open("began", "w").close()
        time.sleep(0.2)
        yield {"image": np.zeros((3, 16, 16), np.float32)}
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_interrupt_waits_for_nothing(
    tmp_path: Path, number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Children have sessions of their own: Ctrl-C has to be passed on to them. A second one cuts
    nothing short. What was imported leaves no bytecode in the user's folder."""
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    folder = tmp_path / "place"
    folder.mkdir()
    small_cnn(folder / "model.onnx")
    (folder / "slow.py").write_text(SLOW)
    args = ["convert", "model.onnx", "--samples", "slow.py:samples", "--out", "deep/out"]
    process = start(args, folder)
    deadline = time.monotonic() + 60
    while not (folder / "began").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(number)
    if number == signal.SIGTERM:  # systemd and timeout(1) may send two
        process.send_signal(number)
    begun = time.monotonic()
    assert process.wait(timeout=60) in (128 + number, 130)
    assert time.monotonic() - begun < 20
    require_ended(folder, 0)
    assert names(folder) == ["began", "model.onnx", "slow.py"]


def test_stopped_and_continued_it_goes_on(tmp_path: Path) -> None:
    """As by Ctrl-Z and fg, at many points."""
    small_cnn(tmp_path / "model.onnx")
    process = start(["convert", "model.onnx", "--no-bench", "--out", "out"], tmp_path)
    while process.poll() is None:
        for number in (signal.SIGSTOP, signal.SIGCONT):
            process.send_signal(number)
            time.sleep(0.06)
    assert process.returncode == 0
