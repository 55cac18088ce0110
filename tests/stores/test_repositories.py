"""Publishing into a repository in an object store: the next version whole, or not at all."""

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from converter.errors import UsageError
from converter.files import store_writer
from converter.files.object_store import ObjectStore, local_path
from converter.pipeline.publish_journal import Journal
from converter.protocols.server import Packaged
from emitters.serving.triton.server import TritonServer, validate_folder
from tests.acceptance.cli import command, small_cnn
from tests.faults import alone
from tests.serving.models import adder, classifier, package

pytestmark = pytest.mark.slow


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Packaged]:
    """Packages a classifier, each time into a folder of its own; a version is two files."""

    def making(**fields: Any) -> Packaged:
        folder = tmp_path / f"build-{len(list(tmp_path.iterdir()))}"
        return package(classifier(), folder, external_data=True, **fields)

    return making


def contents(store: ObjectStore) -> dict[str, bytes]:
    """Every object of a store."""
    return {name: store.read(name) or b"" for name in store.names()}


def files(folder: Path, under: str) -> dict[str, bytes]:
    """Every file of a folder, as objects of a store would be called."""
    found = (item for item in folder.rglob("*") if item.is_file())
    return {f"{under}/{f.relative_to(folder).as_posix()}": f.read_bytes() for f in found}


def test_a_new_model_is_added_whole_and_versions_leave_the_rest_alone(
    make: Callable[..., Packaged], bucket: str, tmp_path: Path
) -> None:
    first, second = make(version=4), make(queue_delay=900)
    assert {f.name for f in (first.path / "4").iterdir()} == {"model.onnx", "model.onnx.data"}
    store = ObjectStore(bucket)
    assert TritonServer().publish(first, bucket).as_posix() == "tiny/4"
    assert contents(store) == files(first.path, "tiny")
    for name, data in contents(store).items():  # as Triton downloads it
        (tmp_path / "models" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "models" / name).write_bytes(data)
    assert validate_folder(tmp_path / "models/tiny") == []
    assert first.decisions[-1] == "new model tiny in the repository"
    assert TritonServer().publish(second, bucket).as_posix() == "tiny/5"
    both = {**files(first.path, "tiny"), **files(second.path / "1", "tiny/5")}
    assert contents(store) == both
    assert any("are kept" in line for line in second.decisions)


def test_refusals_write_nothing(make: Callable[..., Packaged], bucket: str, tmp_path: Path) -> None:
    TritonServer().publish(make(), bucket)
    store = ObjectStore(bucket)
    before = contents(store)
    other = package(adder(("batch", 5)), tmp_path / "other", max_batch=4)
    with pytest.raises(UsageError, match=f"{bucket}/tiny has another interface") as caught:
        TritonServer().publish(other, bucket)
    assert "max_batch_size: 8 there, 4 here" in caught.value.details
    with pytest.raises(
        UsageError, match="has tiny, which differs from TINY only in upper and lower case"
    ):
        TritonServer().publish(package(classifier(), tmp_path / "loud", name="TINY"), bucket)
    assert contents(store) == before


KILLED, LEASE = 3, 30.0
"""Which of the writers is killed; after how many seconds the others know."""


def publish(packaged: Packaged, bucket: str, variables: Mapping[str, str], number: int) -> None:
    """Publishes; the writer of one number is killed before the last copy of its turn."""
    os.environ |= variables
    store_writer.LEASE = LEASE
    copy = ObjectStore.copy

    def copying(self: ObjectStore, source: str, target: str) -> None:
        if number == KILLED and target.endswith("/model.onnx"):
            os.kill(os.getpid(), signal.SIGKILL)
        copy(self, source, target)

    ObjectStore.copy = copying  # type: ignore[method-assign]
    TritonServer().publish(packaged, bucket)


def test_ten_writers_at_once_of_which_one_is_killed(
    make: Callable[..., Packaged], bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of the others adds a version; whoever looks meanwhile sees no half one. What the killed
    one left is gone after the next."""
    packaged, store = make(), ObjectStore(bucket)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__, "s3fs"])
    variables = {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
    args = (packaged, bucket, variables)
    writers = [context.Process(target=publish, args=(*args, n), daemon=True) for n in range(10)]
    for writer in writers:
        writer.start()
    whole = {f.name: f.stat().st_size for f in (packaged.path / "1").iterdir()}
    looks = 0
    while any(writer.is_alive() for writer in writers):
        seen = store.names("tiny")
        for name in seen:
            if name.endswith("/model.onnx"):  # Triton can load it
                version = name.rpartition("/")[0]
                assert {n: seen.get(f"{version}/{n}") for n in whole} == whole
                assert "tiny/config.pbtxt" in seen
                looks += 1
        time.sleep(0.05)
    assert looks
    codes = [writer.exitcode for writer in writers]
    assert codes.pop(KILLED) == -signal.SIGKILL and codes == [0] * 9
    monkeypatch.setattr(store_writer, "LEASE", LEASE)
    TritonServer().publish(packaged, bucket)
    expected = files(packaged.path, "tiny")
    for number in range(1, 11):
        expected |= files(packaged.path / "1", f"tiny/{number}")
    assert contents(store) == expected


def test_what_was_added_is_taken_back(
    make: Callable[..., Packaged], bucket: str, tmp_path: Path
) -> None:
    journal, store = Journal(tmp_path / "journal"), ObjectStore(bucket)
    TritonServer().publish(make(), bucket)
    before = contents(store)
    TritonServer().publish(make(), bucket, journal.announce)
    assert contents(store) != before
    assert journal.take_back() == [] and contents(store) == before
    TritonServer().publish(make(), bucket, journal.announce)
    store.write("tiny/2/model.onnx", b"changed")
    assert journal.take_back() == [f"{bucket}/tiny/2"]
    assert store.read("tiny/2/model.onnx") == b"changed"


def test_a_rollback_and_back(make: Callable[..., Packaged], bucket: str, tmp_path: Path) -> None:
    """In a store and in a folder alike: only the policy changes, comments stay."""
    for place in (bucket, str(tmp_path / "models")):
        for _ in range(3):
            TritonServer().publish(make(), local_path(place) or place)
        store = ObjectStore(place if place == bucket else f"file://{place}")
        own = (store.read("tiny/config.pbtxt") or b"") + b"# version_policy { mine }\n"
        store.write("tiny/config.pbtxt", own)
        before = contents(store)
        for args, now in (
            ([], [2]), ([], [1]), (["--to", "2"], [2]), (["--undo"], [3])
        ):  # fmt: skip
            said = command("rollback", f"{place}/tiny", *args, "--json", code=0)
            assert said.json["now"] == now
            after = contents(store)
            assert b"# version_policy { mine }" in after["tiny/config.pbtxt"]
            assert {n for n in after if after[n] != before[n]} <= {"tiny/config.pbtxt"}
            assert after.keys() == before.keys()
        said = command("rollback", f"{place}/tiny", "--to", "7", code=2)
        assert "has no version 7" in said.err and "1, 2, 3" in said.err
        assert "there is no model" in command("rollback", f"{place}/none", code=2).err


@pytest.mark.parametrize("server", ["triton", "mlserver", "ovms"])
def test_servers_without_labels_refuse_one(tmp_path: Path, server: str) -> None:
    small_cnn(tmp_path / "model.onnx")
    to = "openvino" if server == "ovms" else "onnx"
    line = ["convert", "model.onnx", "--to", to, "--serve", server, "--version-label", "canary"]
    said = command(*line, "--few-samples", "--no-bench", cwd=tmp_path, code=2)
    assert "--version-label canary" in said.err and "no labels for versions" in said.err


def test_a_killed_run_s_version_is_taken_back_by_the_next(bucket: str, tmp_path: Path) -> None:
    """Between the repository and the output."""
    folder = tmp_path / "place"
    folder.mkdir()
    small_cnn(folder / "model.onnx")
    line = ["convert", "model.onnx", "--serve", "triton", "--samples", "random:2", "--no-bench"]
    line += ["--repository", bucket, "--out", "out"]
    store = ObjectStore(bucket)
    for at, code in (("before rename made out", -signal.SIGKILL), ("", 0)):
        assert alone(line, folder, at) == code, folder.with_suffix(".log").read_text()
        assert {name for name in store.names() if name.endswith("model.onnx")} == {
            "model/1/model.onnx"
        }


@pytest.mark.smoke
def test_a_conversion_publishes(bucket: str, tmp_path: Path) -> None:
    small_cnn(tmp_path / "model.onnx")
    line = ["convert", "model.onnx", "--serve", "triton", "--samples", "random:2", "--no-bench"]
    line += ["--repository", bucket]
    command(*line, "--out", "one", cwd=tmp_path, code=0)
    said = command(*line, "--out", "two", "--json", cwd=tmp_path, code=0)
    assert "added to the repository as 2" in said.out
    names = ObjectStore(bucket).names()
    assert {"model/1/model.onnx", "model/2/model.onnx", "model/config.pbtxt"} <= names.keys()
    assert not [name for name in names if store_writer.PREFIX in name]
    said = command(*line, "--offline", "--out", "three", cwd=tmp_path, code=2)
    assert "--offline" in said.err and not (tmp_path / "three").exists()


def test_a_store_that_is_away_is_said_before_or_after(tmp_path: Path) -> None:
    small_cnn(tmp_path / "model.onnx")
    line = ["convert", "model.onnx", "--serve", "triton", "--samples", "random:2", "--no-bench"]
    away = {"AWS_ENDPOINT_URL_S3": "http://127.0.0.1:9", "AWS_ACCESS_KEY_ID": "any",
            "AWS_SECRET_ACCESS_KEY": "any"}  # fmt: skip
    said = command(*line, "--repository", "s3://b/models", cwd=tmp_path, env=away, code=6)
    assert "s3://b/models" in said.err and not (tmp_path / "build/model").exists()
    for place, code, says in (
        ("nothing://b/models", 2, "no protocol nothing"), ("s3://", 2, "names no bucket"),
        ("file://elsewhere/models", 2, "elsewhere"),
    ):  # fmt: skip
        said = command(*line, "--repository", place, cwd=tmp_path, code=code)
        assert says in said.err
