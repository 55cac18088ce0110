"""Writers of a store take turns, in threads over a folder that stands for one."""

import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from converter.errors import MachineError
from converter.files import store_writer
from converter.files.object_store import ObjectStore
from converter.files.store_writer import StoreWriter

SOURCES = ("one", "last")


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ObjectStore:
    """A store whose writers count as dead after three seconds."""
    monkeypatch.setattr(store_writer, "LEASE", 3.0)
    return ObjectStore(f"file://{tmp_path / 'store'}")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Something to add."""
    (tmp_path / "file").write_bytes(b"1234")
    return tmp_path / "file"


def test_no_two_have_the_turn(store: ObjectStore) -> None:
    """Writers of another model don't wait."""
    inside, most = [0], [0]

    def write() -> None:
        for _ in range(2):
            with StoreWriter(store, "net") as writer, writer.turn():
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                time.sleep(0.02)
                inside[0] -= 1

    with StoreWriter(store, "other") as other, other.turn():
        threads = [threading.Thread(target=write) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert most == [1] and store.names() == {}


def test_one_that_lives_keeps_its_turn_however_long(store: ObjectStore, file: Path) -> None:
    order: list[str] = []

    def second() -> None:
        with StoreWriter(store, "net") as writer, writer.turn():
            order.append("second")

    with StoreWriter(store, "net") as first, first.turn():
        waiting = threading.Thread(target=second)
        waiting.start()
        time.sleep(2 * store_writer.LEASE)
        first.place({"net/1/one": file, "net/1/last": first.stage(file)}, "net/1/last")
        order.append("first")
    waiting.join()
    assert order == ["first", "second"]
    assert store.names() == {"net/1/one": 4, "net/1/last": 4}


def test_one_that_stood_still_adds_nothing(store: ObjectStore, file: Path) -> None:
    with (
        pytest.raises(MachineError, match="stood still"),
        StoreWriter(store, "net") as writer,
        writer.turn(),
    ):
        writer._over.set()  # as if the process had been stopped
        time.sleep(store_writer.LEASE / 2 + 0.2)
        writer.place({"net/1/one": file, "net/1/last": file}, "net/1/last")
    assert not any(name.startswith("net/") for name in store.names())


def test_a_failure_amid_leaves_nothing(
    store: ObjectStore, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(self: ObjectStore, source: str, target: str) -> None:
        raise MachineError("the store is away")

    with (
        pytest.raises(MachineError, match="away"),
        StoreWriter(store, "net") as writer,
        writer.turn(),
    ):
        part = writer.stage(file)
        monkeypatch.setattr(ObjectStore, "copy", fails)
        writer.place({"net/1/one": file, "net/1/last": part}, "net/1/last")
    assert store.names() == {}


def test_a_dead_writer_s_note_deletes_only_of_its_model(store: ObjectStore) -> None:
    dead, foreign = f"{store_writer.PREFIX}{'0' * 32}", f"{store_writer.PREFIX}notes.net.json"
    for name in ("net/1/one", "other/1/one", f"{dead}-0", f"{dead}.net.wish", foreign):
        store.write(name, b"x")
    writes = ["net/1/one", "other/1/one", "../out", "net/../other/1/one"]
    note = {"writes": writes, "last": "net/1/last"}
    store.write(f"{dead}.net.json", json.dumps(note).encode())
    time.sleep(store_writer.LEASE + 0.1)
    with StoreWriter(store, "net") as writer, writer.turn():
        pass
    assert store.names() == {"other/1/one": 1, foreign: 1}


def test_without_the_driver_it_says_what_installs_it() -> None:
    text = (
        "import sys; sys.modules['s3fs'] = None\n"
        "from converter.errors import DependencyError\n"
        "from converter.files.object_store import ObjectStore\n"
        "try: ObjectStore('s3://b/f')\n"
        "except DependencyError as error: print(error)\n"
    )
    line = [sys.executable, "-c", text]
    said = subprocess.run(line, capture_output=True, text=True, cwd=Path(__file__).parents[2])
    assert "s3://b/f needs fsspec's driver for s3" in said.stdout and "pip install" in said.stdout
