"""The cache keeps whole entries or nothing."""

import json
import os
import shutil
from collections.abc import Callable
from itertools import zip_longest
from pathlib import Path

import pytest

from converter.files.digest import digest_of
from converter.pipeline import cache
from tests import sweep
from tests.acceptance.cli import Said, command, small_cnn, tree


def flip(path: Path) -> None:
    """Turns one bit, as a disk or a memory does: neither size nor time tells it."""
    data, facts = bytearray(path.read_bytes()), path.stat()
    data[-1 if path.name == cache.SUMS else len(data) // 2] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))


OTHERS: list[Callable[[Path], object]] = [
    lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    lambda path: path.write_bytes(b""),
    Path.unlink,
    lambda path: (path.unlink(), path.mkdir()),
]
WAYS = [flip, *OTHERS]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MODELYARD_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def add(kept: cache.Cache, key: str, text: str = "x") -> Path:
    """An entry of one file."""
    with kept.adding(key) as folder:
        assert folder is not None
        (folder / "file").write_text(text)
    return kept.find(key) or Path()


def test_an_entry_is_found_again_but_of_a_failure(own_cache: Path) -> None:
    kept = cache.Cache()
    with pytest.raises(RuntimeError), kept.adding("abcd") as folder:
        assert folder is not None
        (folder / "file").write_text("half")
        raise RuntimeError
    assert kept.find("abcd") is None
    assert [item for item in own_cache.rglob("*") if item.is_file()] == []
    assert (add(kept, "abcd") / "file").read_text() == "x"
    assert kept.find("abce") is None


def test_the_first_of_two_writers_stays() -> None:
    kept = cache.Cache()
    with kept.adding("abcd") as late:
        add(kept, "abcd", "early")
        assert late is not None
        (late / "file").write_text("late")
    assert (kept.find("abcd") or Path()).joinpath("file").read_text() == "early"


def test_switched_off_it_keeps_nothing(own_cache: Path) -> None:
    kept = cache.Cache(enabled=False)
    with kept.adding("abcd") as folder:
        assert folder is None
    kept.remember("note", [1])
    assert kept.recall("note") is None
    assert not own_cache.exists()


def test_notes_are_replaced_and_a_damaged_one_counts_as_none(own_cache: Path) -> None:
    kept = cache.Cache()
    for value in ({"a": 1}, {"a": 2}):
        kept.remember("note", value)
        assert kept.recall("note") == value
    place = own_cache / "steps/no/note.json"
    for text in ("", '{"a": ', "[" * 100_000, place.read_text().replace("2}", "3}"), "null"):
        place.write_text(text)
        assert kept.recall("note") is None and not place.exists()
    place.mkdir()
    assert kept.recall("note") is None and kept.damaged == ["steps/no/note.json"]
    kept.remember("note", 1)
    assert kept.recall("note") == 1 and not kept.trouble


def test_a_cache_that_cannot_be_written_to_is_given_up(own_cache: Path) -> None:
    own_cache.write_text("a file in its place")
    kept = cache.Cache()
    assert kept.find("abcd") is None and kept.recall("note") is None
    kept.remember("note", 1)
    assert kept.trouble == "Not a directory"
    with kept.adding("abcd") as folder:
        assert folder is None
    assert kept.trim(0) == 0


def test_what_supersedes_an_entry_is_the_only_one_left() -> None:
    kept = cache.Cache()
    for key in ("aa1", "bb2", "bb2"):
        add(kept, key)
        kept.supersede("slot", key)
    assert kept.find("aa1") is None and kept.find("bb2") is not None


def test_trimming_drops_what_was_unused_for_longest() -> None:
    kept = cache.Cache()
    first, second, third = map(digest_of, "abc")
    for age, key in enumerate([first, second, third]):
        os.utime(add(kept, key, "x" * 100), (1000 + age, 1000 + age))
    kept.find(first)
    assert kept.trim(400) == 1
    assert kept.find(second) is None
    assert kept.find(first) is not None


def test_clear_and_usage() -> None:
    add(cache.Cache(), digest_of("a"), "x" * 10)
    assert cache.usage() == {"steps": (2, 10 + len('{"file": ""}') + 64)}
    cache.clear()
    assert cache.usage() == {}


def test_the_digest_ignores_the_order_of_keys() -> None:
    assert digest_of({"a": 1, "b": [2]}) == digest_of({"b": [2], "a": 1})
    assert digest_of({"a": 1}) != digest_of({"a": "1"})


def test_what_is_being_made_is_not_trimmed() -> None:
    kept = cache.Cache()
    with kept.adding(digest_of("a")) as folder:
        assert folder is not None
        (folder / "file").write_bytes(b"1234")
        assert kept.trim(0) == 0
    found = kept.find(digest_of("a"))
    assert found is not None
    old = found.parent / ".adding-old"
    old.mkdir()
    os.utime(old, (0, 0))
    assert kept.trim(0) == 2 and not old.exists()


def test_a_deletion_that_is_killed_leaves_no_half_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither by what is damaged, nor by trimming and clearing."""
    kept, key = cache.Cache(), digest_of("a")
    ways = (lambda: kept.drop(key), lambda: kept.trim(0), cache.clear)
    for delete in ways:
        with kept.adding(key) as folder:
            assert folder is not None
            for name in ("model", "weights"):
                (folder / name).write_text("x")
        with monkeypatch.context() as patch:
            patch.setattr(os, "unlink", _killed)
            with pytest.raises(KeyboardInterrupt):
                delete()
        assert kept.find(key) is None
        cache.clear()
        assert cache.usage() == {}


def _killed(*args: object, **how: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ["file", cache.SUMS])
def test_what_is_damaged_is_named_and_goes(name: str, way: Callable[[Path], object]) -> None:
    made, kept = add(cache.Cache(), "abcd"), cache.Cache()
    assert kept.find("abcd") == made
    way(made / name)
    kept = cache.Cache()
    assert kept.find("abcd") is None and not made.exists()
    assert kept.damaged == [f"steps/ab/abcd/{name}"]
    assert add(kept, "abcd") == made and cache.Cache().find("abcd") == made


def _refused(folder: Path) -> str:
    raise KeyError("of another kind")


@pytest.mark.parametrize("load", [_refused, lambda folder: None])
def test_what_cannot_be_read_counts_as_none(load: Callable[[Path], str | None]) -> None:
    """Whole as it may be: whatever kind of result it is, it goes, and is named."""
    kept = cache.Cache()
    assert kept.load("abcd", load) is None and not kept.damaged
    for text in ("first", "second"):
        kept.save("abcd", lambda folder, text=text: (folder / "file").write_text(text))  # type: ignore[misc]
        assert kept.load("abcd", lambda folder: (folder / "file").read_text()) == "first"
    assert kept.load("abcd", load) is None and kept.damaged == ["steps/ab/abcd"]
    assert kept.find("abcd") is None
    add(kept, "abcd")
    with pytest.raises(ZeroDivisionError):  # a bug is no damage
        kept.load("abcd", lambda folder: str(1 // 0))


def test_what_is_no_folder_makes_way_for_the_entry(own_cache: Path) -> None:
    place = own_cache / "steps/ab/abcd"
    place.parent.mkdir(parents=True)
    for put in (Path.touch, Path.mkdir, lambda path: path.symlink_to("nowhere")):
        put(place)
        kept = cache.Cache()
        assert kept.find("abcd") is None and kept.damaged == ["steps/ab/abcd/sums.json"]
        assert add(kept, "abcd") == place and kept.find("abcd") == place
        shutil.rmtree(place)


@pytest.mark.slow
def test_a_run_makes_what_is_damaged_anew(tmp_path: Path, own_cache: Path) -> None:
    """Every file of every entry with a bit turned, and each with other damage: the same bytes."""
    small_cnn(tmp_path / "model.onnx")

    def convert(source: str, *args: str) -> tuple[Said, dict[str, bytes]]:
        said = command("convert", source, "--no-bench", "--overwrite", *args, cwd=tmp_path, code=0)
        files = tree(tmp_path / "out")
        return said, {k: v for k, v in files.items() if k.startswith(("onnx/", "tflite/"))}

    convert("model.onnx", "--to", "tflite", "--out", "source", "--no-cache")
    asked = "--to onnx,tflite --precision fp32,int8 --samples random:2 --few-samples --out out"
    line = ("source/tflite/fp32/model.tflite", *asked.split())
    _, first = convert(*line)
    said, again = convert(*line)
    assert again == first and "DAMAGED" not in said.out
    assert "from the cache: parse, reference, simplify, " in said.out
    entries: dict[str, list[str]] = {}
    for name in tree(own_cache / "steps"):
        entries.setdefault(name.split("/")[1], []).append(name)
    counts = {len(files) for files in entries.values()}
    assert counts >= {1, 2, 3} and max(counts) > 4  # note, trace, model; outputs and answers
    rounds = [[(name, flip) for name in names if name] for names in zip_longest(*entries.values())]
    for turn, way in enumerate(OTHERS):
        rounds.append([(names[turn % len(names)], way) for names in entries.values()])
    first_round, end = map(int, sweep.piece(0, len(rounds)).split(":"))
    for damage in rounds[first_round:end]:
        for name, way in damage:
            way(own_cache / "steps" / name)
        said, again = convert(*line)
        assert again == first
        alerts = json.loads((tmp_path / "out/report.json").read_text())["alerts"]
        (told,) = [item["text"] for item in alerts if "THE CACHE WAS DAMAGED" in item["text"]]
        for name, way in damage:  # a note that is gone was never there
            note = name.count("/") == 1
            assert (f"steps/{name}" in told) != (note and way is Path.unlink)
        assert "! THE CACHE WAS DAMAGED:" in said.out
        assert tree(own_cache / "steps").keys() == {n for names in entries.values() for n in names}
