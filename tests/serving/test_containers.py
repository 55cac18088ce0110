"""``modelyard serve --container``, by a real podman; the server in the image is that of Triton's
wheel, and stands in for NVIDIA's image of several GB."""

import os
import shutil
import subprocess
import tarfile
import time
from pathlib import Path

import pytest

from converter import api
from converter.serving import containers, environments
from emitters.serving.triton import releases, running
from tests.acceptance.cli import command, converted_cnn
from tests.serving.test_serve import started

IMAGE = "localhost/tritonserver:1"

LIMITS = """
[containers]
default_ulimits = ["nofile=1024:4096", "nproc=4096:4096"]
volumes = [{volumes}]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
"""

STORAGE = '[storage]\ndriver = "vfs"\ngraphroot = "{0}/graph"\nrunroot = "{0}/run"\n'

TOOL = """#!/bin/sh
[ "$1" = in ] || exec unshare --mount "$0" in "$@"
umount -R /sys/fs/cgroup/unified 2>/dev/null
shift
exec {podman} "$@"
"""
"""crun takes cgroups of one version or of the other, and some machines have both."""

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
    real = shutil.which("podman")
    if real is None or os.geteuid() or not shutil.which("unshare"):
        pytest.skip("podman isn't installed, or not root's")
    package = made / "out" / "serving" / "triton" / "cnn"
    home = environments.set_up(running.environment(package), lambda text: None)
    packages = next(home.glob("lib/python*/site-packages"))
    backends = running.lay_out(packages, tmp_path / "backends")
    kept = [Path("/usr"), *Path("/").glob("lib*"), Path("/bin"), home, tmp_path / "backends"]
    base = Path(os.path.realpath(home / "bin" / "python")).parents[1]
    volumes = ", ".join(f'"{item}:{item}:ro"' for item in [*kept, base])
    (tmp_path / "containers.conf").write_text(LIMITS.format(volumes=volumes))
    (tmp_path / "storage.conf").write_text(STORAGE.format(tmp_path))
    for name in ("containers", "storage"):
        monkeypatch.setenv(f"{name.upper()}_CONF", str(tmp_path / f"{name}.conf"))
    tool = _script(tmp_path / "bin" / "podman", TOOL.format(podman=real))
    monkeypatch.setenv("PATH", f"{tool.parent}{os.pathsep}{os.environ['PATH']}")
    text = SERVER.format(packages=packages, environment=home, backends=backends)
    server = _script(tmp_path / "root" / "opt" / "tritonserver", text)
    with tarfile.open(tmp_path / "root.tar", "w") as archive:
        archive.add(server, "opt/tritonserver")
    line = ["podman", "import", "--change", "ENV PATH=/opt:/usr/bin:/bin", "root.tar", IMAGE]
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return tmp_path


def _script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def _containers() -> str:
    return subprocess.run(
        ["podman", "ps", "--all", "--quiet"], capture_output=True, text=True, check=True
    ).stdout


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
    _script(tmp_path / "bin" / "docker", tool)
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
