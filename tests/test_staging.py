"""An output appears whole or not at all."""

from pathlib import Path

import pytest

from converter.errors import UsageError
from converter.staging import Staging


def test_commit_makes_the_output_by_a_rename(tmp_path: Path) -> None:
    out = tmp_path / "deep" / "out"
    with Staging(out) as staging:
        (staging.folder / "file").write_text("x")
        assert not out.exists()
        staging.commit()
    assert (out / "file").read_text() == "x"
    assert [item.name for item in out.parent.iterdir()] == ["out"]


def test_a_failure_leaves_nothing_not_even_parents(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), Staging(tmp_path / "deep" / "er" / "out") as staging:
        (staging.folder / "file").write_text("x")
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def test_an_empty_output_folder_is_taken(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with Staging(tmp_path / "out") as staging:
        (staging.folder / "file").touch()
        staging.commit()
    assert (tmp_path / "out" / "file").exists()


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_an_output_in_the_way_is_refused_and_kept(tmp_path: Path, kind: str) -> None:
    out = tmp_path / "out"
    if kind == "folder":
        out.mkdir()
        (out / "mine").write_text("mine")
    else:
        out.write_text("mine")
    with pytest.raises(UsageError) as refusal, Staging(out):
        pass
    assert refusal.value.exit_code == 2
    assert (out / "mine" if kind == "folder" else out).read_text() == "mine"
    assert [item.name for item in tmp_path.iterdir()] == ["out"]


def test_overwrite_replaces_the_whole_folder(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "old").touch()
    with Staging(out, overwrite=True) as staging:
        (staging.folder / "new").touch()
        staging.commit()
    assert [item.name for item in out.iterdir()] == ["new"]
    assert [item.name for item in tmp_path.iterdir()] == ["out"]


def test_overwrite_keeps_the_old_one_when_the_run_fails(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "old").touch()
    with pytest.raises(RuntimeError), Staging(out, overwrite=True):
        raise RuntimeError
    assert [item.name for item in out.iterdir()] == ["old"]


def test_two_runs_at_once_are_refused(tmp_path: Path) -> None:
    with Staging(tmp_path / "out") as first:
        with pytest.raises(UsageError, match="another run"), Staging(tmp_path / "out"):
            pass
        assert first.folder.is_dir()


def test_what_a_killed_run_left_is_cleared(tmp_path: Path) -> None:
    left = tmp_path / ".out.modelyard-staging"
    (left / "onnx").mkdir(parents=True)
    (left / "onnx" / "half").touch()
    with Staging(tmp_path / "out") as staging:
        assert list(staging.folder.iterdir()) == []
        staging.commit()
    assert not left.exists()


def test_a_replacement_killed_halfway_is_put_right(tmp_path: Path) -> None:
    old = tmp_path / ".out.modelyard-old"
    old.mkdir()
    (old / "mine").touch()
    with pytest.raises(UsageError, match="isn't empty"), Staging(tmp_path / "out"):
        pass
    assert (tmp_path / "out" / "mine").exists()
    assert not old.exists()


def test_a_replacement_killed_after_the_rename_is_finished(tmp_path: Path) -> None:
    for name in (".out.modelyard-old", "out"):
        (tmp_path / name).mkdir()
    with Staging(tmp_path / "out") as staging:
        staging.commit()
    assert [item.name for item in tmp_path.iterdir()] == ["out"]


def test_a_failed_run_leaves_its_report_and_a_good_one_removes_it(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with Staging(out) as staging:
        (staging.folder / "onnx").mkdir()
        (staging.folder / "report.html").write_text("why")
        staging.commit_failed(["report.html"])
    failed = tmp_path / "out.failed"
    assert [item.name for item in failed.iterdir()] == ["report.html"]
    assert not out.exists()
    with Staging(out) as staging:
        staging.commit()
    assert [item.name for item in tmp_path.iterdir()] == ["out"]
