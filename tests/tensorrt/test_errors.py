"""What a machine can lack: one clear error each, and the tool lives on."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from converter.errors import DependencyError, MachineError
from emitters.tensorrt import process
from emitters.tensorrt.build import build
from emitters.tensorrt.cuda import open_device
from emitters.tensorrt.libraries import find, has_gpu, installed
from emitters.tensorrt.plan_header import read_header
from tests.tensorrt.models import conv_model, saved
from tests.tensorrt.test_build import RTX, options

_LIMITED = """
import resource
from emitters.tensorrt import build_child
build_child.LOOK_SECONDS = 0.3
resource.setrlimit(resource.RLIMIT_AS, ({limit}, {limit}))
build_child.main()
"""
"""A build's process that may have so many bytes of addresses."""


def test_too_little_memory_wherever_it_runs_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the library is loaded, and while it builds; an engine is whole or not there."""
    model = conv_model()
    plan = saved(model, tmp_path).with_name("model.plan")
    ran_out = []
    for megabytes in (100, 200, 250, 300, 350, 400, 450, 100_000):
        script = _LIMITED.format(limit=megabytes << 20)
        monkeypatch.setattr(process, "COMMAND", (sys.executable, "-P", "-c", script))
        try:
            build(plan.with_name("model.onnx"), plan, options(model), RTX, lambda text: None)
        except MachineError as error:
            assert error.message == f"{RTX.title} ran out of memory", (megabytes, error.details)
            assert error.hint == process.MORE_MEMORY and not plan.exists()
            ran_out.append(megabytes)
        else:
            assert read_header(plan).target == "tensorrt-rtx"
            plan.unlink()
    assert len(ran_out) >= 4 and 100_000 not in ran_out


_SHORT = """
import resource, signal
from emitters.tensorrt import build_child
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
build_child.main()
"""
"""A build's process whose files may have so many bytes: what a full disk says, too."""


def test_no_room_for_the_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = conv_model()
    plan = saved(model, tmp_path).with_name("model.plan")
    monkeypatch.setattr(process, "COMMAND", (sys.executable, "-P", "-c", _SHORT))
    with pytest.raises(MachineError, match=r"writing the engine: .*File too large") as error:
        build(plan.with_name("model.onnx"), plan, options(model), RTX, lambda text: None)
    assert error.value.hint == process.MORE_SPACE


@pytest.mark.skipif(installed("tensorrt") is not None, reason="it is about machines without it")
def test_no_library() -> None:
    with pytest.raises(DependencyError, match="needs the Python package tensorrt") as error:
        find("tensorrt")
    assert "pip install" in error.value.hint


@pytest.mark.skipif(has_gpu(), reason="it is about machines without a GPU")
def test_no_driver() -> None:
    with pytest.raises(DependencyError, match="driver"):
        open_device()
