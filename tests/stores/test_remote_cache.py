"""A store behind the cache: machines share what one of them made."""

import json
import time
from pathlib import Path

import pytest

from converter.files.digest import digest_of
from converter.files.object_store import ObjectStore
from converter.pipeline.cache import Cache, Store
from converter.pipeline.remote_cache import RemoteCache
from tests.acceptance.cli import command, small_cnn, tree

pytestmark = pytest.mark.slow

KEY, OTHER = digest_of("a"), digest_of("b")
LINE = ["convert", "model.onnx", "--samples", "random:2", "--no-bench", "--json", "--overwrite"]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> object:
    """Makes this machine one with an empty cache."""

    def making(name: str) -> Path:
        monkeypatch.setenv("MODELYARD_CACHE", str(tmp_path / name))
        return tmp_path / name

    making("first")
    return making


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """A folder to keep."""
    folder = tmp_path / "made"
    (folder / "deep").mkdir(parents=True)
    (folder / "one").write_bytes(b"1")
    (folder / "deep/two").write_bytes(b"22")
    return folder


@pytest.mark.parametrize("kind", ["local", "folder", "s3"])
def test_a_store_gives_what_was_put(
    machine: object, bucket: str, made: Path, tmp_path: Path, kind: str
) -> None:
    place = {"folder": str(tmp_path / "shared"), "s3": bucket}
    store: Store = Cache() if kind == "local" else RemoteCache(place[kind])
    assert not store.has(KEY) and not store.get(KEY, tmp_path / "none")
    store.put(KEY, made)
    (tmp_path / "got").mkdir()
    assert store.has(KEY) and store.get(KEY, tmp_path / "got")
    assert tree(tmp_path / "got") == tree(made)
    assert not store.has(OTHER)


@pytest.mark.parametrize("name", ["../out", "/tmp/out", "", "deep/../../out"])
def test_an_entry_writes_nothing_outside(
    machine: object, made: Path, tmp_path: Path, name: str
) -> None:
    shared = tmp_path / "shared"
    store = RemoteCache(str(shared))
    store.put(KEY, made)
    (entry,) = shared.glob("entries/*/*.json")
    entry.write_text(json.dumps({name: digest_of("any"), **json.loads(entry.read_text())}))
    (tmp_path / "inside/got").mkdir(parents=True)
    assert not store.get(KEY, tmp_path / "inside/got") and not entry.exists()
    assert tree(tmp_path / "inside") == {} and len(store.damaged) == 1 and not store.away


def steps(said: object) -> dict[str, bool]:
    """Which steps came from the cache."""
    return {s["step"]: s["cached"] for s in said.json["report"]["timings"]}  # type: ignore[attr-defined]


def test_another_machine_takes_what_the_first_made(
    machine: object, bucket: str, tmp_path: Path
) -> None:
    """Checked by their sha256; what is damaged is deleted, named and made anew."""
    small_cnn(tmp_path / "model.onnx")
    first = command(*LINE, "--cache", bucket, "--out", "out", cwd=tmp_path, code=0)
    assert not any(steps(first).values())
    artifacts = tree(tmp_path / "out/onnx")
    again = command(*LINE, "--out", "out", cwd=tmp_path, code=0)
    machine("second")  # type: ignore[operator]
    second = command(*LINE, "--cache", bucket, "--out", "out", cwd=tmp_path, code=0)
    assert steps(second) == steps(again) and steps(second)["simplify"]
    assert tree(tmp_path / "out/onnx") == artifacts
    store = ObjectStore(bucket)
    for name in store.names("objects"):
        store.write(name, b"damaged")
    machine("third")  # type: ignore[operator]
    third = command(*LINE, "--cache", bucket, "--out", "out", cwd=tmp_path, code=0)
    assert "THE CACHE WAS DAMAGED" in third.out + third.err
    assert tree(tmp_path / "out/onnx") == artifacts and not steps(third)["simplify"]
    assert RemoteCache(bucket).verify() > 0


def test_a_store_that_is_away_is_said_once(machine: object, tmp_path: Path) -> None:
    small_cnn(tmp_path / "model.onnx")
    away = {"AWS_ENDPOINT_URL_S3": "http://127.0.0.1:9", "AWS_ACCESS_KEY_ID": "any",
            "AWS_SECRET_ACCESS_KEY": "any"}  # fmt: skip
    begun = time.monotonic()
    said = command(*LINE, "--cache", "s3://b/cache", "--out", "out", cwd=tmp_path, env=away, code=0)
    assert time.monotonic() - begun < 60
    assert said.out.count("THE STORE BEHIND THE CACHE WAS AWAY") == 1
    again = command(*LINE, "--cache", "s3://b/cache", "--offline", cwd=tmp_path, code=0)
    assert steps(again)["simplify"] and "AWAY" not in again.out


def test_the_command_limits_and_verifies(
    machine: object, bucket: str, made: Path, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other/three").write_bytes(b"3" * 2000)
    for place in ((), ("--cache", bucket)):
        store: Store = RemoteCache(bucket) if place else Cache()
        store.put(KEY, made)
        time.sleep(1.1)  # S3 has times in seconds
        store.put(OTHER, tmp_path / "other")
        time.sleep(1.1)
        (tmp_path / f"got{len(place)}").mkdir()
        assert store.get(KEY, tmp_path / f"got{len(place)}")  # so OTHER is unused for longer
        assert command("cache", "verify", *place, "--json", code=0).json == {
            "whole": 2, "damaged": [],
        }  # fmt: skip
        said = command("cache", "limit", "1.5k", *place, "--json", code=0)
        assert said.json == {"limit": 1500, "deleted": 1}
        assert store.has(KEY) and not (RemoteCache(bucket) if place else Cache()).has(OTHER)
    assert command("cache", "--json", code=0).json["limit"] == 1500
    store_of = ObjectStore(bucket)
    store_of.write(next(iter(store_of.names("objects"))), b"damaged")
    said = command("cache", "verify", "--cache", bucket, "--json", code=0)
    assert said.json["whole"] == 0 and len(said.json["damaged"]) == 2
    assert "cache limit SIZE" in command("cache", "limit", code=2).err
