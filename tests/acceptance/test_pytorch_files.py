"""PyTorch models that one file holds, through the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from tests.acceptance.cli import Said
from tests.acceptance.test_pytorch import PLAIN, convert, converted

pytestmark = pytest.mark.slow


class Net(nn.Module):
    """A small network with two inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.line = nn.Linear(3, 4)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """A sum."""
        result: torch.Tensor = self.line(x).relu() + y
        return result


def program(folder: Path) -> Path:
    batch = torch.export.Dim("batch")
    arguments = (torch.ones(2, 3), torch.ones(2, 4))
    made = torch.export.export(Net(), arguments, dynamic_shapes=({0: batch}, {0: batch}))
    torch.export.save(made, folder / "net.pt2")
    return folder / "net.pt2"


def refused(code: int, says: str, folder: Path, *args: str | Path) -> Said:
    said = convert(folder, *args).no_traceback()
    assert said.code == code, said.err
    assert says in said.err, said.err
    assert not (folder / "out").exists()
    return said


def test_an_exported_program_needs_no_input(tmp_path: Path) -> None:
    renamed = program(tmp_path).rename(tmp_path / "Small-Net.bin")
    session, report = converted(tmp_path, renamed.name, "--trust-source")
    assert [spec.shape for spec in session.inputs] == [("batch", 3), ("batch", 4)]
    assert report["source"]["format"] == "pytorch"
    feeds: dict[str, Any] = {"x": np.ones((5, 3), np.float32), "y": np.ones((5, 4), np.float32)}
    (out,) = session.run(feeds).values()
    assert out.shape == (5, 4)


def test_torchscript_with_the_inputs_it_asks_for(tmp_path: Path) -> None:
    torch.jit.script(Net()).save(str(tmp_path / "net.pt"))
    refused(2, "takes (x, y)", tmp_path, "net.pt", "--trust-source")
    session, _ = converted(
        tmp_path, "net.pt", "--trust-source", "--input", "x:Nx3", "--input", "y:Nx4"
    )
    assert [spec.shape for spec in session.inputs] == [("batch", 3), ("batch", 4)]


def test_a_pickled_module(tmp_path: Path) -> None:
    torch.save(nn.Sequential(nn.Linear(3, 2), nn.ReLU()), tmp_path / "net.pth")
    args = ("net.pth", "--input", "x:batchx3")
    refused(3, "--trust-source", tmp_path, *args)
    session, report = converted(tmp_path, *args, "--trust-source")
    assert session.inputs[0].shape == ("batch", 3)
    assert "NO WEIGHTS" not in str(report["alerts"])


def test_what_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    path = program(tmp_path)
    (tmp_path / "net.py").write_text(PLAIN)
    torch.save(nn.Linear(3, 4).state_dict(), tmp_path / "net.pth")
    refused(3, "can run code", tmp_path, path.name)
    refused(2, "--weights", tmp_path, path.name, "--trust-source", "--weights", "net.pth")
    refused(2, "--arg", tmp_path, path.name, "--trust-source", "--arg", "3")
    refused(2, "holds weights, not a model", tmp_path, "net.pth", "--trust-source")
    path.write_bytes(path.read_bytes()[:-100])
    refused(3, "cut short", tmp_path, path.name, "--trust-source")
