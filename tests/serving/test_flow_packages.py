"""A flow on Python servers: one package that takes files, as written and on its real server."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import modelyard
from converter import api
from tests.acceptance.cli import typed, written
from tests.acceptance.test_flows import COLORS, RECIPE, flow_files
from tests.serving.test_files_live import address, curl
from tests.serving.test_files_package import LINT
from tests.serving.test_python_live import post
from tests.serving.test_python_package import SERVERS

ASK = """import asyncio, json, sys
sys.path.insert(0, sys.argv[1])
from asking import Asking
from inference import Model
model = Model.load()
asking = Asking(model)
async def run(requests):
    return model.run(requests)
for line in sys.stdin:
    body, kind = json.loads(line)
    print(*asyncio.run(asking.reply(body.encode("latin-1"), kind, run)))"""


def asked(package: Path, *requests: tuple[bytes, str]) -> list[tuple[int, Any]]:
    """What a package's own files say to bodies of content types, in a plain Python."""
    lines = "".join(json.dumps((body.decode("latin-1"), kind)) + "\n" for body, kind in requests)
    done = subprocess.run([sys.executable, "-c", ASK, str(package)], input=lines,
                          capture_output=True, text=True, timeout=60, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = [line.partition(" ") for line in done.stdout.splitlines()]
    return [(int(status), json.loads(told)) for status, _, told in found]


def made(folder: Path, options: str, recipe: str = RECIPE) -> Path:
    """The output of a recipe's run."""
    (folder / "r.yaml").write_text(f"name: page\nprepare: server\n{options}\n{recipe}")
    typed("run r.yaml --out out", folder)
    return folder / "out"


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("flow")
    flow_files(folder)
    return made(folder, f"serve: {','.join(SERVERS)}")


def test_every_server_has_the_flow(live: Path) -> None:
    manifest = json.loads((live / "manifest.json").read_text())
    found = {item["path"] for item in manifest["packages"] if not item["part"]}
    assert found == {f"serving/{server}/page" for server in SERVERS}
    package = live / "serving/litserve/page"
    code = map(str, set(package.glob("*.py")) - {package / "selftest.py"})
    line = [str(Path(sys.executable).with_name(LINT[0])), *LINT[1:], *code]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    readme = (package / "README.md").read_text()
    assert "- `paint`: the part color, for each of `find.boxes`" in readme
    assert "curl --data-binary @cat.jpg http://127.0.0.1:8000/predict" in readme


@pytest.mark.slow
@pytest.mark.parametrize("server", ["litserve", "mlserver"])
def test_a_flow_on_its_server(live: Path, server: str) -> None:
    """Started by one command: a page in, an answer out; a bad one is told so, and it goes on."""
    page = live.parent / "page.png"
    package = live / "serving" / server / "page"
    with modelyard.load(live) as flow:
        right = flow(page)
    with api.serve(str(package), port=0) as served:
        url = address(served)
        assert curl("--data-binary", f"@{page}", url) == (200, right)
        form = ("-F", f"a=@{page}", "-F", f"b=@{page}")
        assert curl(*form, url) == (200, {"answers": [right, right]})
        cut, sent = page.read_bytes()[:90], {"Content-Type": "image/png"}
        for body, kind, status, told in (
            (b"no page", "image/png", 400, "can't be read"),
            (cut, "image/png", 400, "can't be read"),
            (b"", "image/png", 400, "empty"),
            (page.read_bytes(), "audio/wav", 415, "audio/wav"),
            (b'{"image": [[1.0]]}', "application/json", 400, "takes unchanged files"),
        ):
            found, said = post(url, body, **{"Content-Type": kind})
            assert found == status and told in said, said
            assert json.loads(post(url, page.read_bytes(), **sent)[1]) == right
        base = "/".join(url.split("/")[:3])
        test = [sys.executable, str(package / "selftest.py"), "--url", base]
        done = subprocess.run(test, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "ok"), done
        assert "2 of 2 answers" in done.stdout
        own = served.addresses.get("json", served.addresses.get("v2", "")).split("/")[2]
        client = (package / "client_requests.py").read_text()
        line = [sys.executable, "-c", re.sub(r"127.0.0.1:\d+", own, client), str(page)]
        done = subprocess.run(line, capture_output=True, text=True, check=True)
        assert json.loads(done.stdout) == right
        expected = package / "expected/0.json"
        text = expected.read_text()
        expected.write_text(text.replace('"index": 2', '"index": 1'))
        done = subprocess.run(test, capture_output=True, text=True, check=False)
        assert done.returncode == 1 and "1 of 3 answers" in done.stdout, done
        expected.write_text(text)


def test_parts_of_two_targets_and_of_one_row_each(tmp_path: Path) -> None:
    flow_files(tmp_path)
    written(tmp_path / "color.onnx", COLORS.replace("batch", "1"))
    own = "source: color.onnx\n    to: tflite\n    precision: fp16"
    out = made(tmp_path, "serve: litserve", RECIPE.replace("source: color.onnx", own))
    report = json.loads((out / "report.json").read_text())
    for item in report["artifacts"]:
        (gate,) = (gate for gate in item["gates"] if gate["name"] == "flow")
        assert gate["status"] == "passed" and gate["why"].startswith("2 of 2 answers")
    page = (tmp_path / "page.png").read_bytes()
    with modelyard.load(out) as flow:
        right = flow(page)
    package = out / "serving/litserve/page"
    needs = (package / "requirements.txt").read_text()
    assert "onnxruntime==" in needs and "ai-edge-litert==" in needs
    facts = json.loads((package / "modelyard.json").read_text())
    assert facts["gates"]["flow"] == gate["limit"]
    assert [item["expected"] for item in facts["files"]] == ["expected/0.json"]
    assert not facts["uncompared"]
    for name in ("out", package):  # an output's package that is served is the flow's
        said = typed(f"check {name} --server http://127.0.0.1:9", tmp_path, code=2).err
        assert "page is a flow that takes files" in said and "selftest.py --url" in said
    [(status, found), (refused, _)] = asked(package, (page, "image/png"), (b"no page", ""))
    assert (status, refused) == (200, 400)
    for box, known in zip(found["find"]["boxes"], right["find"]["boxes"], strict=True):
        assert box["label"] == known["label"]
        best, same = box["paint"]["classes"][0], known["paint"]["classes"][0]
        assert best["label"] == same["label"]
        np.testing.assert_allclose(best["score"], same["score"], atol=1e-3)
