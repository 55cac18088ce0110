"""The wheel, in an empty environment outside the checkout."""

import os
import re
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest
from packaging.metadata import Metadata

from tests.acceptance.cli import small_cnn
from tests.acceptance.conftest import ROOT

pytestmark = pytest.mark.slow

PACKAGES = {"converter", "emitters", "modelyard", "parsers", "recipes", "zoo"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    checkout = folder / "checkout"
    left_out = shutil.ignore_patterns(".*", "build", "*.egg-info", "__pycache__", "tests")
    shutil.copytree(ROOT, checkout, ignore=left_out)
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, checkout],
        check=True, capture_output=True,
    )  # fmt: skip
    return next(folder.glob("modelyard-*.whl"))


def test_it_holds_what_it_needs_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    for needed in (
        "zoo/catalogue.yaml", "recipes/efficientnet-lite0-triton.yaml", "parsers/worker/main.py",
        "converter/report/report.html.j2", "converter/py.typed", "modelyard/constraints.txt",
        "modelyard/py.typed",
    ):  # fmt: skip
        assert needed in names
    tree = [path.relative_to(ROOT) for path in ROOT.glob("*/**/*.py")]
    ours = {path.as_posix() for path in tree if path.parts[0] in PACKAGES}
    assert not ours - set(names)
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if ".dist-info" not in top} == PACKAGES


def test_its_page_has_urls_and_no_link_that_leads_nowhere(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        name = next(item for item in archive.namelist() if item.endswith(".dist-info/METADATA"))
        page = Metadata.from_email(archive.read(name), validate=True)  # as an index would
    assert {"Repository", "Issues", "Changelog"} <= set(page.project_urls or {})
    assert "Operating System :: POSIX :: Linux" in (page.classifiers or [])
    assert page.description_content_type == "text/markdown"
    links = re.findall(r"\]\(([^)]*)\)", page.description or "")
    assert f"{(page.project_urls or {})['Repository']}/blob/main/ARCHITECTURE.md" in links
    assert all(link.startswith("https://") for link in links)


def test_it_installs_and_converts_an_onnx_file(wheel: Path, tmp_path: Path) -> None:
    environment = tmp_path / "venv"
    venv.create(environment, with_pip=True)
    python = environment / "bin" / "python"
    clean = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}

    def said(*line: str | Path, shell: bool = False) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            line[0] if shell else line, shell=shell, cwd=tmp_path, env=clean,
            capture_output=True, text=True,
        )  # fmt: skip

    installed = said(python, "-m", "pip", "install", "-qc", ROOT / "constraints.txt", wheel)
    assert installed.returncode == 0, installed.stderr
    command = environment / "bin" / "modelyard"
    assert "convert" in said(command, "--help").stdout
    small_cnn(tmp_path / "model.onnx")
    few = ("--serve", "triton", "--bench-seconds", "0.2")
    done = said(command, "convert", "model.onnx", *few)
    assert done.returncode == 0, done.stderr
    lite = ("--to", "tflite", "--out", "lite", "--no-bench")
    wanting = said(command, "convert", "model.onnx", *lite)
    assert wanting.returncode == 5, wanting.stderr
    printed = next(line for line in wanting.stderr.splitlines() if " -m pip install " in line)
    assert printed.startswith(f"{python} -m pip install -c ") and "'ai-edge-litert>=" in printed
    dry = said(f"{printed} -q --dry-run", shell=True)
    assert dry.returncode == 0, dry.stderr
    assert (tmp_path / "build/model/serving/triton/model/config.pbtxt").is_file()
