"""The cache keeps whole entries or nothing."""

import os
from pathlib import Path

import pytest

from converter import cache
from converter.digest import digest_of


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MODELYARD_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_an_entry_is_found_again() -> None:
    kept = cache.Cache()
    with kept.adding("abcd") as folder:
        assert folder is not None
        (folder / "file").write_text("x")
    found = kept.find("abcd")
    assert found is not None
    assert (found / "file").read_text() == "x"
    assert kept.find("abce") is None


def test_a_failure_leaves_no_entry(own_cache: Path) -> None:
    kept = cache.Cache()
    with pytest.raises(RuntimeError), kept.adding("abcd") as folder:
        assert folder is not None
        (folder / "file").write_text("half")
        raise RuntimeError
    assert kept.find("abcd") is None
    assert [item for item in own_cache.rglob("*") if item.is_file()] == []


def test_the_first_of_two_writers_stays() -> None:
    kept = cache.Cache()
    with kept.adding("abcd") as late:
        with kept.adding("abcd") as early:
            assert early is not None
            (early / "who").write_text("early")
        assert late is not None
        (late / "who").write_text("late")
    assert (kept.find("abcd") or Path()).joinpath("who").read_text() == "early"


def test_switched_off_it_keeps_nothing(own_cache: Path) -> None:
    kept = cache.Cache(enabled=False)
    with kept.adding("abcd") as folder:
        assert folder is None
    kept.remember("note", [1])
    assert kept.recall("note") is None
    assert not own_cache.exists()


def test_notes_are_replaced() -> None:
    kept = cache.Cache()
    kept.remember("note", {"a": 1})
    kept.remember("note", {"a": 2})
    assert kept.recall("note") == {"a": 2}


def test_a_damaged_note_counts_as_none(own_cache: Path) -> None:
    kept = cache.Cache()
    kept.remember("note", {"a": 1})
    (own_cache / "steps/no/note.json").write_text('{"a": ')
    assert kept.recall("note") is None


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
        with kept.adding(key) as folder:
            assert folder is not None
        kept.supersede("slot", key)
    assert kept.find("aa1") is None and kept.find("bb2") is not None


def test_trimming_drops_what_was_unused_for_longest() -> None:
    import os

    kept = cache.Cache()
    first, second, third = map(digest_of, "abc")
    for age, key in enumerate([first, second, third]):
        with kept.adding(key) as folder:
            assert folder is not None
            (folder / "file").write_bytes(b"x" * 100)
        entry = kept.find(key)
        assert entry is not None
        os.utime(entry, (1000 + age, 1000 + age))
    kept.find(first)
    assert kept.trim(250) == 1
    assert kept.find(second) is None
    assert kept.find(first) is not None


def test_clear_and_usage() -> None:
    kept = cache.Cache()
    with kept.adding(digest_of("a")) as folder:
        assert folder is not None
        (folder / "file").write_bytes(b"x" * 10)
    assert cache.usage() == {"steps": (1, 10)}
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
