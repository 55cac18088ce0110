"""Temporary files of a run lie in a folder of its own, which goes with it, or with the next run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from converter.files.output_guard import MARK, mark
from converter.files.temporary import PREFIX, for_children, outside, own_folder

HOLDS = """
import sys, tempfile
from converter.files.temporary import own_folder
with own_folder():
    print(tempfile.mkdtemp(), flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary files lie."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return folder


def running(program: str) -> subprocess.Popen[str]:
    """A process that has printed a line."""
    return subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def test_what_is_made_in_a_run_goes_with_it(place: Path) -> None:
    with own_folder():
        (folder,) = place.iterdir()
        assert Path(tempfile.mkdtemp()).parent == folder == Path(os.environ["TMPDIR"])
        assert for_children() == folder and outside() == place
    assert list(place.iterdir()) == [] and os.environ["TMPDIR"] == str(place)
    assert tempfile.gettempdir() == str(place)


def test_what_a_killed_run_left_goes_with_the_next(place: Path) -> None:
    killed, living = running(HOLDS), running(HOLDS)
    with killed, living:
        left, kept = (Path(process.stdout.readline().strip()) for process in (killed, living))  # type: ignore[union-attr]
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        assert left.exists()
        with own_folder():
            assert not left.parent.exists() and kept.exists()
        living.stdin.close()  # type: ignore[union-attr]
        assert living.wait() == 0
    assert list(place.iterdir()) == []


def test_what_is_not_ours_stays(place: Path) -> None:
    """Other folders of such names, and what links lead to."""
    (place / f"{PREFIX}theirs").mkdir()
    (place / f"{PREFIX}theirs" / "file").write_text("theirs")
    (place / "marked").mkdir()
    mark(place / "marked")
    (place / f"{PREFIX}link").symlink_to("marked")
    with own_folder():
        pass
    assert (place / f"{PREFIX}theirs" / "file").exists() and (place / "marked" / MARK).exists()


def test_children_of_a_call_from_python(place: Path) -> None:
    """The caller's TMPDIR stays; what children leave goes with the caller."""
    program = """
import os, tempfile
from converter.runtime.child import Child

child = Child(["sh", "-c", "echo left > $TMPDIR/left"], what="a child")
child._wait(10)
child.close()
(folder,) = os.listdir(os.environ["TMPDIR"])
print(os.listdir(os.path.join(os.environ["TMPDIR"], folder)), tempfile.gettempdir())
"""
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "'left'" in said.stdout and said.stdout.endswith(f"{place}\n"), said.stderr
    assert list(place.iterdir()) == []


def test_where_none_can_be_made_a_run_goes_on(place: Path) -> None:
    """Most commands need none."""
    place.rmdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(place))
        with own_folder():
            assert tempfile.gettempdir() == str(place)
