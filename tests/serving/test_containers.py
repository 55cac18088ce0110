"""``modelyard serve --container``, by a real podman; the server in the image is that of Triton's
wheel, and stands in for NVIDIA's image of several GB."""

import os
import tarfile
import time
from pathlib import Path

import pytest

from converter import api
from converter.serving import containers, environments
from emitters.serving.triton import releases, running
from tests.acceptance.cli import command, converted_cnn
from tests.serving import boxes
from tests.serving.test_serve import started

IMAGE = "localhost/tritonserver:1"

SERVER = """#!/bin/sh
export LD_LIBRARY_PATH={packages}/nvidia_pytriton.libs PATH={environment}/bin:$PATH
exec {packages}/pytriton/tritonserver/bin/tritonserver --backend-directory={backends} \
    --allow-gpu-metrics=false --pinned-memory-pool-byte-size=0 "$@"
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package for Triton in ``out``."""
    return converted_cnn(tmp_path_factory.mktemp("boxed"), "--serve triton --out out")


@pytest.fixture
def podman(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A podman that works, with the image; its folder of images."""
    package = made / "out" / "serving" / "triton" / "cnn"
    home = environments.set_up(running.environment(package), lambda text: None)
    packages = next(home.glob("lib/python*/site-packages"))
    backends = running.lay_out(packages, tmp_path / "backends")
    kept = [Path("/usr"), *Path("/").glob("lib*"), Path("/bin"), home, tmp_path / "backends"]
    base = Path(os.path.realpath(home / "bin" / "python")).parents[1]
    boxes.podman_in(tmp_path, monkeypatch, [*kept, base])
    text = SERVER.format(packages=packages, environment=home, backends=backends)
    server = boxes.script(tmp_path / "root" / "opt" / "tritonserver", text)
    with tarfile.open(tmp_path / "root.tar", "w") as archive:
        archive.add(server, "opt/tritonserver")
    boxes.podman("import", "--change", "ENV PATH=/opt:/usr/bin:/bin", "root.tar", IMAGE,
                 cwd=tmp_path)  # fmt: skip
    return tmp_path


def _containers() -> str:
    return boxes.podman("ps", "--all", "--quiet")


@pytest.mark.slow
def test_it_serves_and_leaves_no_container(made: Path, podman: Path) -> None:
    assert containers.program() == "podman"  # whether docker's command is there or not
    with api.serve(str(made / "out"), port=0, image=IMAGE) as served:
        assert _containers()
        url = served.addresses["v2"].split("/v2/")[0]
        said = command("check", made / "out", "--server", url, "--json", code=0)
        assert said.json["verdict"] == "passed"
    assert not _containers()


@pytest.mark.slow
def test_a_killed_serve_leaves_no_container(made: Path, podman: Path) -> None:
    process, _ = started(made / "out", "--image", IMAGE)
    assert _containers()
    process.kill()
    process.communicate()
    deadline = time.monotonic() + 20
    while _containers():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_the_newest_release_is_taken(made: Path, tmp_path: Path) -> None:
    """By its name in a list of ours: docker, which fetches nothing here, is asked for that."""
    asked = tmp_path / "asked"
    tool = f'#!/bin/sh\n[ "$1" = info ] && exit 0\necho "$@" >> {asked}\nexit 1\n'
    boxes.script(tmp_path / "bin" / "docker", tool)
    path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
    line = ("serve", made / "out", "--container", "--yes", "--port", "0")
    said = command(*line, env={"PATH": path}, code=5)
    image = f"nvcr.io/nvidia/tritonserver:{releases.NEWEST}-py3"
    assert f"couldn't pull {image}" in said.err
    assert asked.read_text().splitlines()[-1] == f"pull {image}"
    readme = (made / "out/serving/triton/cnn/README.md").read_text()
    assert f"such as {releases.NEWEST}:" in readme


def test_what_is_said_where_none_can(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(made))
    said = command("serve", made / "out", "--container", code=5)
    assert "neither docker nor podman works here" in said.err
