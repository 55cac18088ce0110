"""An output appears whole or not at all, and what was there before isn't lost."""

from pathlib import Path

import pytest

from converter.errors import ModelyardError, UsageError
from converter.files import output_guard
from converter.options.request import Request
from converter.pipeline.manifest import build_manifest, records, write_manifest
from converter.pipeline.staging import Staging
from tests.acceptance.cli import names, tree
from tests.report import build


def fill(folder: Path, text: str = "", *, failed: bool = False) -> None:
    """Makes a folder one that the tool made."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "report.html").write_text(text)
    if not failed:
        (folder / "model").write_text(text)
    report = build.failing() if failed else build.on_random_inputs()
    write_manifest(build_manifest(Request("m.onnx"), report, files=records(folder)), folder)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """An output that was made before."""
    fill(tmp_path / "out", "old")
    return tmp_path / "out"


def test_commit_makes_the_output_by_a_rename(tmp_path: Path) -> None:
    out = tmp_path / "deep" / "out"
    for empty in (False, True):
        with Staging(out) as staging:
            (staging.folder / "file").write_text("x")
            assert out.exists() == empty
            staging.commit()
        assert tree(out) == {"file": b"x"}
        assert names(out.parent) == ["out"]
        (out / "file").unlink()


def test_a_failure_leaves_nothing_not_even_parents(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), Staging(tmp_path / "deep" / "er" / "out") as staging:
        (staging.folder / "file").write_text("x")
        raise RuntimeError
    assert names(tmp_path) == []


def test_overwrite_replaces_the_whole_folder_unless_the_run_fails(out: Path) -> None:
    before = tree(out)
    with pytest.raises(RuntimeError), Staging(out, overwrite=True):
        raise RuntimeError
    assert tree(out) == before
    with Staging(out, overwrite=True) as staging:
        (staging.folder / "new").touch()
        staging.commit()
    assert (names(out), names(out.parent)) == (["new"], ["out"])


@pytest.mark.parametrize("overwrite", [True, False])
@pytest.mark.parametrize("kind", ["folder", "file"])
def test_an_output_in_the_way_is_kept(tmp_path: Path, kind: str, overwrite: bool) -> None:
    out = tmp_path / "out"
    mine = out / "mine" if kind == "folder" else out
    mine.parent.mkdir(exist_ok=True)
    mine.write_text("mine")
    with pytest.raises(UsageError) as refusal, Staging(out, overwrite=overwrite):
        pass
    assert refusal.value.exit_code == 2
    assert mine.read_text() == "mine"
    assert names(tmp_path) == ["out"]


def test_two_runs_at_once_are_refused(tmp_path: Path) -> None:
    with Staging(tmp_path / "out") as first:
        with pytest.raises(UsageError, match="another run"), Staging(tmp_path / "out"):
            pass
        assert first.folder.is_dir()


def fail_renames(patch: pytest.MonkeyPatch, number: int, *, for_good: bool) -> list[Path]:
    """Has the rename of that number fail, or all from it on; gives what is renamed."""
    calls, rename = [], Path.rename

    def fail(path: Path, target: Path) -> Path:
        calls.append(path)
        if len(calls) == number or (for_good and len(calls) > number):
            raise OSError(5, "Input/output error")
        return rename(path, target)

    patch.setattr(Path, "rename", fail)
    return calls


@pytest.mark.parametrize("number", [1, 2, 3])
@pytest.mark.parametrize("report", ["commit", "failed"])
def test_whatever_fails_the_old_one_is_back(
    out: Path, monkeypatch: pytest.MonkeyPatch, number: int, report: str
) -> None:
    """Set aside, put in place, deleted: the third is no failure any more."""
    fill(out.with_name("out.failed"), "old", failed=True)
    before = tree(out.parent)
    with Staging(out, overwrite=True) as staging:
        fill(staging.folder, "new", failed=report == "failed")
        calls = fail_renames(monkeypatch, number, for_good=False)
        try:
            staging.commit() if report == "commit" else staging.commit_failed(["manifest.json"])
            raised = False
        except ModelyardError as error:
            raised = True
            assert "Input/output error" in error.message
    assert len(calls) >= number or report == "failed"
    assert raised == (number < 3)
    if raised:
        assert {name: found for name, found in tree(out.parent).items() if name in before} == before
        assert set(names(out.parent)) <= {"out", "out.failed", "out-2"}
    if raised and report == "commit":
        assert (out.with_name("out-2") / "model").read_text() == "new"


def test_a_later_run_gives_it_back(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = tree(out)
    with Staging(out, overwrite=True) as staging, monkeypatch.context() as patch:
        fill(staging.folder, "new")
        fail_renames(patch, 2, for_good=True)
        with pytest.raises(UsageError) as refusal:
            staging.commit()
    assert str(out.parent / ".out.modelyard-staging" / "old") in refusal.value.hint
    with pytest.raises(UsageError, match="isn't empty"), Staging(out):
        pass
    assert tree(out) == before
    assert names(out.parent) == ["out"]


def test_what_comes_meanwhile_keeps_it(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that appears after the last look at the folder, before its rename."""
    rename = Path.rename

    def late(path: Path, target: Path) -> Path:
        if path == out:
            (out / "mine").write_text("mine")
        return rename(path, target)

    with Staging(out, overwrite=True) as staging:
        fill(staging.folder, "new")
        monkeypatch.setattr(Path, "rename", late)
        with pytest.raises(UsageError, match="mine appeared in"):
            staging.commit()
    assert (out / "mine").read_text() == "mine" and (out / "model").read_text() == "old"
    assert (out.with_name("out-2") / "model").read_text() == "new"
    assert names(out.parent) == ["out", "out-2"]


def test_what_comes_into_a_free_place_stays(tmp_path: Path) -> None:
    with Staging(tmp_path / "out") as staging:
        fill(staging.folder, "new")
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "mine").write_text("mine")
        (tmp_path / "out-2").write_text("mine too")
        with pytest.raises(UsageError, match="it holds mine") as refusal:
            staging.commit()
    assert str(tmp_path / "out-3") in refusal.value.hint
    assert names(tmp_path) == ["out", "out-2", "out-3"]
    assert tree(tmp_path / "out") == {"mine": b"mine"}


def test_what_was_replaced_and_stays_is_told(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied")

    with Staging(out, overwrite=True) as staging:
        fill(staging.folder, "new")
        monkeypatch.setattr(output_guard, "remove", refuse)
        staging.commit()
    assert (out / "model").read_text() == "new"
    assert "Permission denied" in staging.left
    monkeypatch.undo()
    with Staging(out, overwrite=True):
        pass
    assert names(out.parent) == ["out"]


@pytest.mark.parametrize("mark", [None, "another's"])
def test_a_folder_that_is_not_marked_is_not_cleared(tmp_path: Path, mark: str | None) -> None:
    home = tmp_path / ".out.modelyard-staging"
    home.mkdir()
    (home / "mine").write_text("mine")
    if mark:
        (home / output_guard.MARK).write_text(mark)
    with pytest.raises(UsageError, match="is in the way"), Staging(tmp_path / "out"):
        pass
    assert (home / "mine").read_text() == "mine"


@pytest.mark.parametrize("mine", [True, False])
def test_what_a_killed_run_had_replaced_goes_unless_changed(out: Path, mine: bool) -> None:
    home = out.with_name(".out.modelyard-staging")
    fill(home / "old", "older")
    output_guard.mark(home)
    if mine:
        (home / "old" / "mine").write_text("mine")
    with Staging(out, overwrite=True):
        pass
    assert names(out.parent) == (["out", "out-2"] if mine else ["out"])


def test_a_failed_run_leaves_its_report_and_a_good_one_removes_it(tmp_path: Path) -> None:
    out = tmp_path / "out"
    for _ in range(2):
        with Staging(out) as staging:
            fill(staging.folder, failed=True)
            (staging.folder / "onnx").mkdir()
            staging.commit_failed(["report.html", "manifest.json"])
        assert names(tmp_path / "out.failed") == ["manifest.json", "report.html"]
        assert names(tmp_path) == ["out.failed"]
    with Staging(out) as staging:
        staging.commit()
    assert names(tmp_path) == ["out"]


@pytest.mark.parametrize("kind", ["folder", "edited", "output", "link"])
def test_another_folder_of_that_name_stays(tmp_path: Path, kind: str) -> None:
    failed = tmp_path / "out.failed"
    fill(failed if kind != "link" else tmp_path / "linked", "old", failed=kind == "edited")
    if kind == "folder":
        (failed / "manifest.json").unlink()
    if kind == "edited":
        (failed / "report.html").write_text("mine")
    if kind == "link":
        failed.symlink_to(tmp_path / "linked")
    before = tree(tmp_path)
    with Staging(tmp_path / "out") as staging:
        fill(staging.folder, failed=True)
        assert staging.commit_failed(["manifest.json"]) == tmp_path / "out.failed-2"
    with Staging(tmp_path / "out") as staging:
        staging.commit()
    assert before.items() <= tree(tmp_path).items()
