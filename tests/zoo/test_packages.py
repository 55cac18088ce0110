"""Files out of packages: pip takes wheels from a local folder, so that no network is needed."""

import hashlib
import io
import os
import signal
import subprocess
import sys
import tarfile
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from converter.errors import DependencyError, MachineError, ModelError
from converter.files import store
from converter.files.digest import file_digest
from converter.files.store import folder_digest
from zoo import packages
from zoo.archives import take_file
from zoo.packages import fetch_package_file, fetch_package_folder

NET = b"weights" * 1000
SHA = hashlib.sha256(NET).hexdigest()
FILES = {
    "toy/__init__.py": b"", "toy/net.bin": NET, "toy/data/a_1.txt": b"one",
    "toy/data/b_2.txt": b"two", "toy/__pycache__/junk.pyc": b"junk",
}  # fmt: skip


def write_wheel(folder: Path, files: dict[str, bytes], version: str = "1.0") -> Path:
    info = f"toy-{version}.dist-info"
    about = {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: toy\nVersion: {version}\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": b"",
    }
    wheel = folder / f"toy-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, data in {**files, **about}.items():
            archive.writestr(name, data)
    return wheel


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels that pip looks into instead of an index, and an empty cache."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("MODELYARD_CACHE", str(tmp_path / "cache"))
    return folder


@pytest.fixture
def toy(index: Path) -> Path:
    return write_wheel(index, FILES)


def left_over(index: Path) -> list[str]:
    return sorted(p.name for p in (index.parent / "cache" / "packages").glob("*.part*"))


def fetched(version: str = "1.0", member: str = "toy/net.bin", sha256: str = SHA,
            **more: bool) -> Path:  # fmt: skip
    """A file of the package."""
    return fetch_package_file("toy", version, member, sha256, **more)


def test_a_file_is_fetched_once_and_then_found_without_a_network(toy: Path, index: Path) -> None:
    path = fetched()
    assert path.read_bytes() == NET
    assert path.name == "net.bin"
    assert path.parent.name == SHA[:16]
    toy.unlink()
    assert fetched() == path
    assert fetched(offline=True) == path
    assert left_over(index) == []


def test_a_folder_has_the_digest_of_its_names_and_contents(toy: Path, tmp_path: Path) -> None:
    source = tmp_path / "source"
    for name in ("toy/__init__.py", "toy/net.bin", "toy/data/a_1.txt", "toy/data/b_2.txt"):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes(FILES[name])
    digest = folder_digest(source / "toy")
    assert digest == file_digest(source / "toy")
    folder = fetch_package_folder("toy", "1.0", "toy", digest)
    assert folder.name == "toy"
    assert sorted(p.name for p in folder.parent.iterdir()) == [".record.json", "toy"]
    digest_of_one = hashlib.sha256(b"a_1.txt\0one").hexdigest()
    some = fetch_package_folder("toy", "1.0", "toy/data", digest_of_one, pattern="a_*")
    assert [p.name for p in some.iterdir()] == ["a_1.txt"]
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "toy.pyc").write_bytes(b"made by an import")
    toy.unlink()
    assert fetch_package_folder("toy", "1.0", "toy", digest, offline=True) == folder


def test_another_content_is_refused_and_not_kept(toy: Path, index: Path) -> None:
    wrong = "0" * 64
    with pytest.raises(ModelError) as caught:
        fetched(sha256=wrong)
    assert caught.value.exit_code == 3
    assert wrong in str(caught.value) and SHA in str(caught.value)
    assert not (index.parent / "cache" / "packages" / wrong[:16]).exists()
    assert left_over(index) == []


@pytest.mark.parametrize("damage", [b"", NET[:-1], NET[:-1] + b"?"])
def test_a_damaged_file_in_the_cache_is_fetched_again(toy: Path, damage: bytes) -> None:
    fetched().write_bytes(damage)
    with pytest.raises(DependencyError, match="damaged"):
        fetched(offline=True)
    assert fetched().read_bytes() == NET


def test_a_large_file_is_verified_by_its_size_and_record(
    toy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = fetched()
    monkeypatch.setattr(store, "VERIFY_BELOW", 10)
    monkeypatch.setattr(store, "digest_of_path", lambda _: pytest.fail("read the whole file"))
    assert fetched(offline=True) == path
    monkeypatch.undo()


def test_offline_says_what_is_missing_and_where_it_goes(index: Path) -> None:
    with pytest.raises(DependencyError) as caught:
        fetched(offline=True)
    assert caught.value.exit_code == 5
    assert "toy==1.0" in caught.value.hint
    assert SHA in str(caught.value)
    place = index.parent / "cache" / "packages" / SHA[:16] / "net.bin"
    assert str(place) in str(caught.value)
    place.parent.mkdir(parents=True)
    place.write_bytes(NET)  # put there by hand, as the message says
    assert fetched(offline=True) == place


def test_a_version_or_a_member_that_is_not_there(toy: Path, index: Path) -> None:
    with pytest.raises(DependencyError, match=r"could not download toy 2\.0") as caught:
        fetched("2.0")
    assert caught.value.exit_code == 5
    with pytest.raises(ModelError, match=r"toy 1\.0 holds no toy/other\.bin") as missing:
        fetched(member="toy/other.bin")
    assert "it holds toy/net.bin" in missing.value.details
    assert left_over(index) == []


def test_without_pip_the_error_holds_the_line_that_installs_it(
    toy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packages.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(DependencyError, match="needs pip") as caught:
        fetched()
    assert "ensurepip" in caught.value.hint


def test_a_full_disk_is_the_machines(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = "ERROR: Could not install: [Errno 28] No space left on device"
    full = subprocess.CompletedProcess([], 1, "", said)
    monkeypatch.setattr(packages.subprocess, "run", lambda *_, **__: full)
    with pytest.raises(MachineError) as caught:
        fetched()
    assert caught.value.exit_code == 6


def test_links_in_an_archive_are_not_followed(index: Path) -> None:
    link = zipfile.ZipInfo("toy/net.bin")
    link.external_attr = 0o120777 << 16
    with zipfile.ZipFile(write_wheel(index, {"toy/__init__.py": b""}), "a") as archive:
        archive.writestr(link, "/etc/hostname")
    with pytest.raises(ModelError, match="holds no"):
        fetched()


def test_many_callers_at_once_get_one_whole_file(toy: Path, index: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        assert {path.read_bytes() for path in pool.map(lambda _: fetched(), range(4))} == {NET}
    assert left_over(index) == []


def test_killed_in_the_middle_nothing_half_is_taken_for_whole(toy: Path, index: Path) -> None:
    """A process is killed while pip works; what it left is cleared away by the next."""
    part = index.parent / "cache" / "packages" / f"{SHA[:16]}.part"
    call = f"from zoo.packages import *; fetch_package_file('toy','1.0','toy/net.bin','{SHA}')"
    process = subprocess.Popen([sys.executable, "-c", call], start_new_session=True)
    end = time.monotonic() + 20
    while not part.exists() and time.monotonic() < end:
        time.sleep(0.002)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert part.exists()
    assert not part.with_suffix("").exists()
    assert fetched().read_bytes() == NET
    assert left_over(index) == []


def test_a_source_distribution_is_read_below_its_top_folder(tmp_path: Path) -> None:
    archive = tmp_path / "toy-1.0.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        for name in ("toy-1.0/toy/net.bin", "toy-1.0/setup.py"):
            item = tarfile.TarInfo(name)
            item.size = len(NET)
            tar.addfile(item, io.BytesIO(NET))
        link = tarfile.TarInfo("toy-1.0/toy/link.bin")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/hostname"
        tar.addfile(link)
    take_file(archive, "toy/net.bin", tmp_path / "out.bin", "toy 1.0", top=False)
    assert (tmp_path / "out.bin").read_bytes() == NET
    for member, top in (("toy/link.bin", False), ("toy/net.bin", True)):
        with pytest.raises(ModelError, match="holds no"):
            take_file(archive, member, tmp_path / "none.bin", "toy 1.0", top=top)
    archive.write_bytes(archive.read_bytes()[:-20])
    with pytest.raises(ModelError, match="damaged archive"):
        take_file(archive, "toy/net.bin", tmp_path / "half.bin", "toy 1.0", top=False)
