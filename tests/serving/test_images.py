"""Images of packages, built and run by a real podman on an image of this Python."""

import json
import re
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from emitters.deploying import trying
from tests.acceptance.cli import Said, converted_cnn, refused, typed
from tests.serving import boxes

CONVERT = "convert cnn.onnx --samples samples.npz --no-bench --serve litserve --deploy docker"
IMAGE = "cnn-litserve:1"


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """LitServe's package, and pip's configuration of a server with the wheels that it needs."""
    converted_cnn(tmp_path, "--serve litserve --no-check --out first")
    package = tmp_path / "first/serving/litserve/cnn"
    line = [sys.executable, "-m", "pip", "download", "--quiet", "--dest", "wheels"]
    line += ["-r", package / "requirements.txt", "-c", package / "requirements.lock"]
    subprocess.run(line, cwd=tmp_path, check=True, capture_output=True)
    handler = partial(_Quiet, directory=tmp_path / "wheels")
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}/"
    (tmp_path / "pip.conf").write_text(f"[global]\nno-index = true\nfind-links = {address}\n")
    monkeypatch.setenv(trying.PIP, str(tmp_path / "pip.conf"))
    yield tmp_path
    server.shutdown()
    server.server_close()


@pytest.fixture
def podman(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A podman with the base."""
    folder = tmp_path / "podman"
    folder.mkdir()
    boxes.podman_in(folder, monkeypatch)
    boxes.python_base(folder)
    return folder


@pytest.mark.slow
def test_an_image_is_built_runs_and_answers(podman: Path, wheels: Path) -> None:
    """By --try-image, and by the lines of the package's README."""
    typed(f"{CONVERT} --base-image {boxes.BASE} --try-image --out out", wheels)
    report = json.loads((wheels / "out/report.json").read_text())
    checks = report["packages"][0]["deployments"][0]["checks"]
    built, ran = checks["build"], checks["run"]
    assert "as user 1000, with a read-only root" in ran and "/health answer" in ran
    assert re.search(r"; ended by SIGINT after \d s$", ran)
    assert re.fullmatch(r"yes: selftest.py inside: cnn: 4 samples, .*", checks["answer"])
    over = re.search(rf"of which (\d+) lie over {boxes.BASE} \(MB: (.*)\)", built)
    assert over is not None and int(over[1]) < 300 and "requirements" in over[2], built
    left = boxes.podman("images", "--format", "{{.Repository}}:{{.Tag}}").split()
    assert boxes.BASE in left and not [name for name in left if "modelyard" in name]
    assert not boxes.podman("ps", "--all", "--quiet")

    readme = (wheels / "out/serving/litserve/cnn/README.md").read_text()
    build, run = re.search(r"## Deploy: docker.*?```\n(.+)\n(.+)\n```", readme, re.DOTALL).groups()  # type: ignore[union-attr]
    line = shlex.split(build)
    assert (line[0], line[-1]) == ("docker", "serving/litserve")
    more = ("--format", "docker", "--network", "host", "--secret", "id=pip,src=../pip.conf")
    boxes.podman("build", *more, *line[2:], cwd=wheels / "out")
    config = json.loads(boxes.podman("image", "inspect", IMAGE))[0]["Config"]
    assert (config["User"], config["StopSignal"]) == ("1000", "SIGINT")
    assert "pip.conf" not in boxes.podman("history", "--no-trunc", IMAGE).replace("/etc/pip", "")
    words = shlex.split(run)[2:]
    options = [word for word in words if word not in ("--rm", "--init", IMAGE)]
    at = options.index("--publish")
    del options[at : at + 2]
    boxes.podman("run", "--detach", "--name", "net", "--network", "none", *options, IMAGE)
    try:
        boxes.until(lambda: boxes.podman("healthcheck", "run", "net"))
        told = boxes.podman("exec", "net", "python", "-c", "import os; print(os.getuid())")
        assert told.strip() == "1000"
        wrong = subprocess.run(["podman", "exec", "net", "touch", "/models/it"], check=False)
        assert wrong.returncode != 0
        boxes.podman("exec", "net", "python3", "selftest.py", "--url", "http://127.0.0.1:8000")
    finally:
        boxes.podman("rm", "--force", "--time", "10", "net")
    assert not boxes.podman("ps", "--all", "--quiet")


@pytest.mark.slow
def test_what_cannot_be_built_leaves_nothing(podman: Path, tmp_path: Path) -> None:
    """A base that isn't there, one without pip, an image that doesn't start, and one that answers
    otherwise."""
    converted_cnn(tmp_path, "--no-check --out first")
    line = f"{CONVERT} --no-check --try-image --base-image"

    def fails(image: str, says: str, code: int = 5) -> Said:
        before = sorted(tmp_path.rglob("*"))
        outside = [path for path in before if podman not in path.parents]
        said = typed(f"{line} {image}", tmp_path, None)  # a log of the server's is shown
        assert said.code == code and says in said.err and not (tmp_path / "build").exists()
        now = [path for path in sorted(tmp_path.rglob("*")) if podman not in path.parents]
        assert now == outside
        return said

    fails("localhost/nothing:1", "couldn't pull localhost/nothing:1")
    (podman / "empty").mkdir()
    boxes.podman("build", "--tag", "localhost/bare:1", "--file", "-", podman / "empty",
                 text=f"FROM {boxes.BASE}\nENV PATH=/bin\n")  # fmt: skip
    fails("localhost/bare:1", "podman couldn't build the image of cnn")
    boxes.podman("build", "--tag", "localhost/idle:1", "--file", "-", podman / "empty",
                 text=f"FROM {boxes.BASE}\nRUN echo true > /usr/local/bin/pip\n")  # fmt: skip
    said = fails("localhost/idle:1", "its server ended after")
    assert "No module named" in said.err
    scripts = {"pip": "true", "python": "exec sleep 300", "python3": "[ $1 = -c ]"}
    lines = [f"RUN printf '#!/bin/sh\\n{text}\\n' > /usr/local/bin/{name}"
             for name, text in scripts.items()]  # fmt: skip
    boxes.podman("build", "--tag", "localhost/false:1", "--file", "-", podman / "empty",
                 text="\n".join([f"FROM {boxes.BASE}", *lines, ""]))  # fmt: skip
    fails("localhost/false:1", "the image of cnn gives other answers than the source", 4)
    assert not boxes.podman("ps", "--all", "--quiet")
    left = boxes.podman("images", "--format", "{{.Repository}}").split()
    assert not [name for name in left if "modelyard" in name]


def test_without_a_tool_it_is_refused_before_anything_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "net.onnx").write_bytes(b"no model at all")
    options = ("--serve", "litserve", "--deploy", "docker", "--try-image")
    refused(5, "neither docker nor podman works here", tmp_path, "net.onnx", *options)
