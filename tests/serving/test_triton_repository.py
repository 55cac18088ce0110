"""Publishing into a repository: next version, nothing touched, never half there."""

import multiprocessing
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from converter.errors import UsageError
from converter.pipeline.publish_journal import Journal
from converter.protocols.server import Packaged
from converter.samples import Samples
from emitters.serving.triton import repository as triton_repository
from emitters.serving.triton.server import TritonServer, validate_folder
from tests.serving.models import MemorySamples, adder, classifier, package


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "around" / "models"
    folder.mkdir(parents=True)
    return folder


Make = Callable[..., Packaged]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Packages a classifier, each time into a folder of its own."""

    def making(samples: Samples | None = None, **fields: Any) -> Packaged:
        folder = tmp_path / f"build-{len(list(tmp_path.iterdir()))}"
        return package(classifier(), folder, samples, **fields)

    return making


def publish(packaged: Packaged, repository: Path) -> Path:
    return TritonServer().publish(packaged, repository)


def snapshot(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Content and time of every file below ``folder``."""
    files = (item for item in folder.rglob("*") if item.is_file())
    return {str(item): (item.read_bytes(), item.stat().st_mtime_ns) for item in files}


def test_a_new_model_is_added_whole(make: Make, repository: Path) -> None:
    packaged = make()
    assert publish(packaged, repository) == repository / "tiny" / "1"
    assert validate_folder(repository / "tiny") == []
    assert {item.name for item in (repository / "tiny").iterdir()} == {
        item.name for item in packaged.path.iterdir()
    }
    assert packaged.decisions[-1] == "new model tiny in the repository"


def test_the_next_version_leaves_the_rest_alone(make: Make, repository: Path) -> None:
    publish(make(), repository)
    before = snapshot(repository)
    packaged = make(queue_delay=900, warmup=2)
    assert publish(packaged, repository) == repository / "tiny" / "2"
    after = snapshot(repository)
    assert {name: after[name] for name in before} == before
    assert set(after) - set(before) == {str(repository / "tiny" / "2" / "model.onnx")}
    assert any("are kept" in line for line in packaged.decisions)
    assert validate_folder(repository / "tiny") == []
    assert [item.name for item in repository.iterdir()] == ["tiny"]
    assert [item.name for item in repository.parent.iterdir()] == ["models"]


def test_names_that_differ_by_case_alone_are_refused(make: Make, repository: Path) -> None:
    publish(make(), repository)
    (repository / "tiny").rename(repository / "Tiny")
    with pytest.raises(
        UsageError, match="has Tiny, which differs from tiny only in upper and lower case"
    ):
        publish(make(), repository)
    assert [item.name for item in repository.iterdir()] == ["Tiny"]


def test_a_repository_that_is_not_there_is_made(tmp_path: Path, make: Make) -> None:
    path = publish(make(version=4), tmp_path / "new" / "models")
    assert path == tmp_path / "new" / "models" / "tiny" / "4"


@pytest.mark.parametrize(
    ("there", "expected"),
    [(["7"], 8), (["2", "10"], 11), (["007"], 8), (["12abc"], 13), ([".modelyard-old"], 2)],
)
def test_no_number_is_used_twice(make: Make, repository: Path, there: list[str],
                                 expected: int) -> None:  # fmt: skip
    """Triton reads a folder's number from the start of its name, so all of these are taken."""
    publish(make(), repository)
    for name in there:
        (repository / "tiny" / name).mkdir()
    assert publish(make(), repository).name == str(expected)


def test_published_files_can_be_read_by_others(make: Make, repository: Path) -> None:
    packaged = make()
    (packaged.path / "1" / "model.onnx").chmod(0o600)
    packaged.path.chmod(0o700)
    path = publish(packaged, repository)
    mask = os.umask(0)
    os.umask(mask)
    for item, wanted in ((path.parent, 0o777), (path, 0o777), (path / "model.onnx", 0o666)):
        assert stat.S_IMODE(item.stat().st_mode) == wanted & ~mask


def test_a_published_model_is_no_link_to_the_build(make: Make, repository: Path) -> None:
    packaged = make()
    path = publish(packaged, repository)
    before = (path / "model.onnx").read_bytes()
    (packaged.path / "1" / "model.onnx").write_bytes(b"rebuilt")
    assert (path / "model.onnx").read_bytes() == before


def test_another_interface_is_refused_with_every_difference(tmp_path: Path, make: Make,
                                                            repository: Path) -> None:  # fmt: skip
    publish(make(), repository)
    before = snapshot(repository)
    other = package(adder(("batch", 5)), tmp_path / "other", max_batch=4)
    with pytest.raises(UsageError, match="another interface") as caught:
        publish(other, repository)
    assert caught.value.details == (
        "max_batch_size: 8 there, 4 here", "input x: TYPE_FP32 [3] there, TYPE_FP32 [5] here",
        "output scores: TYPE_FP32 [4] there, none here", "output y: none there, TYPE_FP32 [5] here",
    )  # fmt: skip
    assert snapshot(repository) == before


@pytest.mark.parametrize(("new", "message"), [
    ('platform: "tensorrt_plan"', "backend: tensorrt there"),
    ('backend: "onnxruntime" default_model_filename: "m.onnx"', "m.onnx"),
    ('platform: "onnxruntime_onnx"', None),  # the older spelling of the same
])  # fmt: skip
def test_another_backend_or_file_is_refused(make: Make, repository: Path, new: str,
                                            message: str | None) -> None:  # fmt: skip
    publish(make(), repository)
    config = repository / "tiny" / "config.pbtxt"
    text = config.read_text().replace('backend: "onnxruntime"', new)
    config.write_text(text)
    if message:
        with pytest.raises(UsageError, match="another interface") as caught:
            publish(make(), repository)
        assert message in caught.value.details[0]
    else:
        assert publish(make(), repository).name == "2"
        assert config.read_text() == text


def test_other_labels_are_refused(make: Make, repository: Path) -> None:
    first, same, swapped = (
        make(MemorySamples(label_names=tuple(n))) for n in ("abcd", "abcd", "bacd")
    )
    publish(first, repository)
    assert publish(same, repository).name == "2"
    with pytest.raises(UsageError, match="another interface") as caught:
        publish(swapped, repository)
    assert "labels of scores" in caught.value.details[0]


@pytest.mark.parametrize("there", ["file", "empty", "version"])
def test_a_model_without_configuration_is_refused(make: Make, repository: Path, there: str) -> None:
    if there == "file":
        (repository / "tiny").write_text("a file")
    else:
        (repository / "tiny").mkdir()
    if there == "version":
        (repository / "tiny" / "1").mkdir()
        (repository / "tiny" / "1" / "model.onnx").write_bytes(b"?")
    with pytest.raises(UsageError, match=r"no config\.pbtxt"):
        publish(make(), repository)


def test_a_version_that_the_policy_leaves_out_is_said(make: Make, repository: Path) -> None:
    publish(make(version_policy="specific:1"), repository)
    packaged = make()
    assert publish(packaged, repository).name == "2"
    assert any("version 2 is not served yet" in line for line in packaged.decisions)


@pytest.mark.parametrize("beside", [True, False])
def test_staging_is_where_no_poll_takes_it_for_a_model(
    make: Make, repository: Path, monkeypatch: pytest.MonkeyPatch, beside: bool
) -> None:
    """Beside the repository; in a mount of its own, a folder deeper than Triton looks."""
    seen: list[Path] = []
    copy = triton_repository._copy

    def watch(source: Path, target: Path) -> None:
        seen.append(target)
        copy(source, target)

    monkeypatch.setattr(triton_repository, "_copy", watch)
    if not beside:
        monkeypatch.setattr(os, "access", lambda path, mode: False)
    for _ in range(2):
        publish(make(), repository)
    roots = [path for path in seen if path.name == "content"]
    parents = [path.parent.parent for path in roots]
    around = repository.parent
    assert parents == ([around, around] if beside else [repository, repository / "tiny"])
    assert all(path.parent.name.startswith(".modelyard-") for path in roots)


def die_after_copying(packaged: Packaged, repository: Path) -> None:
    """Publishes, and is gone just before the rename."""

    def stop(self: Path, target: Path) -> None:
        os._exit(9)

    Path.rename = stop  # type: ignore[method-assign, assignment]
    publish(packaged, repository)


def publish_four(packaged: Packaged, repository: Path) -> None:
    for _ in range(4):
        publish(packaged, repository)


def run(target: Callable[..., None], *args: object, count: int = 1) -> list[int | None]:
    """Exit codes of ``count`` processes that run ``target`` at once."""
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=target, args=args) for _ in range(count)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    return [process.exitcode for process in processes]


def test_a_killed_publisher_leaves_no_version_and_is_swept_up(make: Make, repository: Path) -> None:
    packaged, mine = make(), repository.parent / ".modelyard-ab12cd34"
    mine.mkdir()
    (mine / "mine.txt").write_text("mine")
    assert run(die_after_copying, packaged, repository) == [9]
    assert list(repository.iterdir()) == []
    (left,) = {item.name for item in repository.parent.iterdir()} - {mine.name, "models"}
    assert left.startswith(".modelyard-")
    publish(packaged, repository)
    assert sorted(item.name for item in repository.parent.iterdir()) == [mine.name, "models"]


def test_publishers_side_by_side_each_get_a_version(make: Make, repository: Path) -> None:
    assert run(publish_four, make(), repository, count=4) == [0] * 4
    versions = sorted(
        int(item.name) for item in (repository / "tiny").iterdir() if item.name.isdigit()
    )
    assert versions == list(range(1, 17))
    assert validate_folder(repository / "tiny") == []
    assert [item.name for item in repository.parent.iterdir()] == ["models"]


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "journal")


def test_what_was_added_is_taken_back(make: Make, repository: Path, journal: Journal) -> None:
    """Versions, and a model that was added whole."""
    for _ in range(2):
        TritonServer().publish(make(), repository, journal.announce)
    assert {item.name for item in (repository / "tiny").iterdir()} >= {"1", "2"}
    assert journal.take_back() == []
    assert list(repository.iterdir()) == [] and list(repository.parent.iterdir()) == [repository]
    assert journal.take_back() == []


def test_what_was_announced_and_not_done_is_nothing(make: Make, repository: Path, journal: Journal,
                                                    tmp_path: Path) -> None:  # fmt: skip
    journal.announce(publish(make(), repository), repository / "tiny" / "2", repository.parent)
    with (tmp_path / "journal").open("a") as file:
        file.write('{"target": "cut sho')
    before = snapshot(repository)
    assert journal.take_back() == [] and snapshot(repository) == before


def test_what_was_changed_or_replaced_since_stays(make: Make, repository: Path,
                                                  journal: Journal) -> None:  # fmt: skip
    paths = [publish(make(), repository)]
    paths += [TritonServer().publish(make(), repository, journal.announce) for _ in range(2)]
    (paths[1] / "notes").write_text("mine")
    theirs = repository / "tiny" / "theirs"
    shutil.copytree(paths[2], theirs)
    shutil.rmtree(paths[2])
    theirs.rename(paths[2])
    before = snapshot(repository)
    assert journal.take_back() == [str(paths[1])] and snapshot(repository) == before
