"""What the tests on a GPU share; without one, each is skipped with the reason."""

import pytest

from bench.gpu import engine_target
from converter.errors import ModelyardError


def why_no_gpu() -> str:
    """Why engines can't run here; empty where they can."""
    from emitters.tensorrt.cuda import open_device
    from emitters.tensorrt.libraries import has_gpu

    if not has_gpu():
        return "no NVIDIA GPU or driver here"
    try:
        open_device()
    except ModelyardError as error:
        return str(error)
    return ""


@pytest.fixture(scope="session", autouse=True)
def gpu() -> None:
    """Skips where there is no GPU."""
    why = why_no_gpu()
    if why:
        pytest.skip(why)


@pytest.fixture(scope="session")
def target(gpu: None) -> str:
    """The engine library that is here: ``tensorrt`` or ``tensorrt-rtx``."""
    try:
        return engine_target()
    except ModelyardError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def ort_cuda(gpu: None) -> None:
    """Skips where ONNX Runtime doesn't start on CUDA."""
    from converter.ort import require_providers

    try:
        require_providers(["cuda"])
    except ModelyardError as error:
        pytest.skip(str(error))
