"""Files from an address and from Hugging Face's hub, over HTTP from a server on this machine."""

import hashlib
import io
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from pydantic import ValidationError

from converter.errors import DependencyError, MachineError, ModelError
from converter.files.store import folder_digest
from zoo import download as downloading
from zoo.providers import HuggingFaceFile, UrlFile

NET = b"weights" * 100_000
SHA = hashlib.sha256(NET).hexdigest()
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@dataclass
class Web:
    """A server: what it gives by path, where it redirects, and what it was asked with."""

    url: str
    files: dict[str, bytes] = field(default_factory=dict)
    redirects: dict[str, str] = field(default_factory=dict)
    cut: set[str] = field(default_factory=set)
    asked: list[tuple[str, str | None]] = field(default_factory=list)


@contextmanager
def serving() -> Iterator[Web]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            web.asked.append((self.path, self.headers.get("Authorization")))
            data, moved = web.files.get(self.path), web.redirects.get(self.path)
            self.send_response(302 if moved else 200 if data else 404)
            self.send_header("Content-Length", str(len(data or b"")))
            if moved:
                self.send_header("Location", moved)
            self.end_headers()
            self.wfile.write((data or b"")[: len(NET) // 2 if self.path in web.cut else None])

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    web = Web(f"http://127.0.0.1:{server.server_port}")
    with server, ThreadPoolExecutor(1) as pool:
        pool.submit(server.serve_forever, 0.01)
        try:
            yield web
        finally:
            server.shutdown()


@pytest.fixture
def web(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Web]:
    monkeypatch.setenv("MODELYARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("HF_TOKEN", raising=False)
    with serving() as found:
        monkeypatch.setenv("HF_ENDPOINT", found.url)
        found.files["/nets/net.pth"] = NET
        yield found


def a_file(web: Web, path: str = "/nets/net.pth", sha256: str = SHA, **more: str) -> UrlFile:
    return UrlFile(provider="url", url=web.url + path, sha256=sha256, **more)


def nothing_kept(tmp_path: Path) -> bool:
    """Whether the cache holds nothing but the locks."""
    return all(p.suffix == ".lock" for p in (tmp_path / "cache").rglob("*") if p.is_file())


def test_a_file_is_fetched_once_and_then_found_without_a_network(web: Web) -> None:
    file = a_file(web)
    assert file.cached() is None
    with pytest.raises(DependencyError, match="--offline"):
        file.fetch(offline=True)
    path = file.fetch()
    assert path.read_bytes() == NET
    assert path.name == "net.pth"
    assert file.cached() == len(NET)
    assert file.fetch(offline=True) == path
    assert web.asked == [("/nets/net.pth", None)]


def test_what_is_not_there_or_not_expected_is_not_kept(web: Web, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="not what was expected") as caught:
        a_file(web, sha256="0" * 64).fetch()
    assert SHA in str(caught.value)
    with pytest.raises(DependencyError, match="HTTP 404") as missing:
        a_file(web, "/nets/other.pth").fetch()
    assert missing.value.exit_code == 5
    with serving() as gone:
        pass
    with pytest.raises(DependencyError, match="could not be reached"):
        a_file(gone).fetch()
    assert nothing_kept(tmp_path)


def test_a_connection_cut_in_the_middle(web: Web, tmp_path: Path) -> None:
    web.cut.add("/nets/net.pth")
    with pytest.raises(DependencyError, match=r"broke: .*350,000 of 700,000"):
        a_file(web).fetch()
    assert nothing_kept(tmp_path)
    web.cut.clear()
    assert a_file(web).fetch().read_bytes() == NET


@pytest.mark.parametrize("to", ["http://192.0.2.1/net.pth", "ftp://192.0.2.1/net.pth"])
def test_a_redirect_to_an_insecure_address_is_refused(web: Web, to: str, tmp_path: Path) -> None:
    web.redirects["/net.pth"] = to
    with pytest.raises(DependencyError, match=r"isn't a secure address"):
        a_file(web, "/net.pth").fetch()
    assert nothing_kept(tmp_path)


def test_a_server_elsewhere_can_not_redirect_to_this_machine() -> None:
    downloading.require_secure("http://127.0.0.1/x")
    downloading.require_secure("https://a.example/x", "https://b.example/x")
    with pytest.raises(DependencyError):
        downloading.require_secure("http://127.0.0.1/x", "https://a.example/x")


def test_a_full_disk_is_said_before_it_is_full(web: Web, monkeypatch: pytest.MonkeyPatch,
                                               tmp_path: Path) -> None:  # fmt: skip
    monkeypatch.setattr(downloading, "_SPARE", 10**18)
    with pytest.raises(MachineError, match="room"):
        a_file(web).fetch()
    assert nothing_kept(tmp_path)


# -- archives ----------------------------------------------------------------------


def archived(kind: str, *names: str) -> bytes:
    """An archive of that kind with members of these names."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / f"nets.{kind}"
        if kind == "zip":
            with zipfile.ZipFile(place, "w") as archive:
                for name in names:
                    archive.writestr(name, NET)
        else:
            with tarfile.open(place, "w:gz") as tar:
                for name in names:
                    item = tarfile.TarInfo(name)
                    item.size = len(NET)
                    tar.addfile(item, io.BytesIO(NET))
        return place.read_bytes()


def test_a_member_and_a_folder_of_an_archive(web: Web, tmp_path: Path) -> None:
    web.files["/nets.tar.gz"] = archived("tar.gz", "nets/net.pth", "nets/other.pth")
    path = a_file(web, "/nets.tar.gz", member="nets/net.pth").fetch()
    assert (path.name, path.read_bytes()) == ("net.pth", NET)
    with pytest.raises(ModelError, match=r"holds no net\.pth"):
        a_file(web, "/nets.tar.gz", "1" * 64, member="net.pth").fetch()
    web.files["/nets.zip"] = archived("zip", "nets/a.bin", "nets/b.txt", "other/a.bin")
    (tmp_path / "nets").mkdir()
    (tmp_path / "nets/a.bin").write_bytes(NET)
    digest = folder_digest(tmp_path / "nets")
    file = a_file(web, "/nets.zip", digest, prefix="nets", pattern="*.bin")
    assert [p.name for p in file.fetch().iterdir()] == ["a.bin"]


@pytest.mark.parametrize("name", ["nets/../../evil.txt", "nets//etc/evil.txt", "nets/..\\evil.txt"])
@pytest.mark.parametrize("kind", ["zip", "tar.gz"])
def test_nothing_is_written_outside(web: Web, tmp_path: Path, name: str, kind: str) -> None:
    web.files["/nets.bin"] = archived(kind, "nets/a.bin", name)
    with pytest.raises(ModelError, match="outside of its folder"):
        a_file(web, "/nets.bin", prefix="nets").fetch()
    assert list(tmp_path.rglob("*evil*")) == []
    assert nothing_kept(tmp_path)


# -- Hugging Face ------------------------------------------------------------------


def hub_file(**more: object) -> HuggingFaceFile:
    given = {"provider": "huggingface", "repo": "maker/net", "revision": COMMIT, "sha256": SHA}
    return HuggingFaceFile.model_validate({**given, **more})


def test_a_file_of_the_hub_at_a_commit(web: Web) -> None:
    web.files[f"/maker/net/resolve/{COMMIT}/onnx/model.onnx"] = NET
    path = hub_file(file="onnx/model.onnx").fetch()
    assert (path.name, path.read_bytes()) == ("model.onnx", NET)


def test_several_files_of_the_hub_become_a_folder(web: Web, tmp_path: Path) -> None:
    names = ["config.json", "1_Pooling/config.json", "model.safetensors"]
    for name in names:
        web.files[f"/maker/net/resolve/{COMMIT}/{name}"] = name.encode()
        (tmp_path / "net" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "net" / name).write_text(name)
    folder = hub_file(files=names, sha256=folder_digest(tmp_path / "net")).fetch()
    assert folder.name == "net"
    assert (folder / "1_Pooling/config.json").read_text() == "1_Pooling/config.json"


def test_the_token_goes_to_the_hub_and_to_no_other_host(
    web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "secret")
    asked = f"/maker/net/resolve/{COMMIT}/net.pth"
    with serving() as store:  # another port is another host
        store.files["/blob"] = NET
        web.redirects[asked] = "/moved"
        web.redirects["/moved"] = f"{store.url}/blob"
        assert hub_file(file="net.pth").fetch().read_bytes() == NET
        assert web.asked == [(asked, "Bearer secret"), ("/moved", "Bearer secret")]
        assert store.asked == [("/blob", None)]


def test_the_address_on_the_hub(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    """An insecure one gets no token."""
    monkeypatch.setenv("HF_TOKEN", "secret")
    monkeypatch.setenv("HF_ENDPOINT", "http://hub.example")
    with pytest.raises(DependencyError, match="isn't a secure address") as caught:
        hub_file(file="net.pth").fetch()
    assert "secret" not in str(caught.value).replace("a secure", "")
    monkeypatch.delenv("HF_ENDPOINT")
    address = hub_file(file="onnx/model.onnx").address("onnx/model.onnx")
    assert address == f"https://huggingface.co/maker/net/resolve/{COMMIT}/onnx/model.onnx"


ADDRESS = {"provider": "url", "url": "https://a.example/net.pth", "sha256": SHA}


PLACES = (
    *({"revision": "main"}, {"repo": "../net"}, {"file": "../net.pth"}, {"file": "/etc/passwd"}),
    *({"file": None}, {"files": ["a"]}, {"file": None, "files": ["../a"]}),
)
ADDRESSES = (
    *({"url": "http://a.example/net.pth"}, {"url": "file:///etc/passwd"}),
    *({"url": "https://a.example/"}, {"url": "https://a.example/x/.."}),
    *({"member": "x/.."}, {"member": "a", "prefix": "b"}, {"pattern": "*"}),
)


@pytest.mark.parametrize("wrong", [*PLACES, *ADDRESSES])
def test_the_schema_refuses(wrong: dict[str, object]) -> None:
    hub_file(file="net.pth")
    UrlFile.model_validate(ADDRESS)
    with pytest.raises(ValidationError):
        if wrong in ADDRESSES:
            UrlFile.model_validate({**ADDRESS, **wrong})
        else:
            hub_file(**{"file": "net.pth", **wrong})
