"""OpInfo's samples, in a process of their own (tests/opinfo_child.py)."""

import subprocess
import sys

import pytest

from tests.docs.running import ROOT


@pytest.mark.parametrize("name", ["operator_through_targets", "what_differs_is_wrong"])
def test_opinfo(name: str) -> None:
    pytest.importorskip("expecttest", reason="PyTorch's samples need it")
    argv = [sys.executable, "-m", "tests.opinfo_child", name]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
