"""README.md's own lines run, on a small model of the names that it uses."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from converter.plugins import available
from tests.docs.running import HERE, ROOT, Reader

README = (ROOT / "README.md").read_text("utf-8")
NET = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = torch.nn.Conv2d(3, 8, 7, stride=4)
        self.head = torch.nn.Linear(8, 3)

    def forward(self, x):
        return self.head(torch.relu(self.stem(x)).mean(dim=(2, 3)))

if __name__ == "__main__":
    torch.manual_seed(0)
    torch.save(Net().state_dict(), "net.pth")
"""


def block(kind: str, start: str) -> str:
    """The block of the README that begins so."""
    found = re.findall(rf"^```{kind}\n({re.escape(start)}.*?)^```", README, re.M | re.S)
    assert len(found) == 1
    return str(found[0])


@pytest.fixture
def reader(tmp_path: Path) -> Reader:
    reader = Reader(tmp_path)
    subprocess.run([sys.executable, HERE / "small.py"], cwd=reader.folder, check=True)
    (reader.folder / "net.py").write_text(NET)
    photo = next((reader.folder / "photos").iterdir())
    shutil.copy(photo, reader.folder / "cat.jpg")
    (reader.folder / "names.txt").write_text("cat\ndog\nbird\n")
    return reader


@pytest.mark.slow
def test_your_own_model(reader: Reader) -> None:
    line = block("", "modelyard convert net.py:Net")
    page = f"```console\n$ python net.py\n$ {line}```\n"
    assert not list(reader.follow(page))
    made = {path.name for path in (reader.folder / "build/net").iterdir()}
    written = {"README.md", "report.html", "report.json", "manifest.json"}
    assert made == {*written, "onnx", "tflite", "serving"}


def test_each_target_server_and_deployment_is_named() -> None:
    for kind in ("emitters", "servers", "deployments"):
        assert not [name for name in available(kind) if not re.search(rf"\b{name}\b", README)]


@pytest.mark.slow
def test_from_python(reader: Reader) -> None:
    assert not list(reader.follow(f"```python\n{block('python', 'import modelyard')}```\n"))
