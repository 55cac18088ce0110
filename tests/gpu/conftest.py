"""What the tests on a GPU share; without one, each is skipped with the reason."""

from collections.abc import Callable
from typing import Any

import pytest

from bench.gpu import engine_target
from converter.errors import ModelyardError


def _or_skip(ask: Callable[[], Any]) -> Any:
    """What it gives; skips where it can't, with its reason."""
    try:
        return ask()
    except ModelyardError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session", autouse=True)
def gpu() -> None:
    """Skips where there is no GPU that engines can run on."""
    from emitters.tensorrt.cuda import open_device
    from emitters.tensorrt.libraries import has_gpu

    if not has_gpu():
        pytest.skip("no NVIDIA GPU or driver here")
    _or_skip(open_device)


@pytest.fixture(scope="session")
def target(gpu: None) -> str:
    """The engine library that is here and runs on this card: ``tensorrt`` or ``tensorrt-rtx``."""
    from emitters.tensorrt.libraries import device_capability
    from emitters.tensorrt.plan_header import RTX_CAPABILITIES

    name, here = str(_or_skip(engine_target)), device_capability()
    if name == "tensorrt-rtx" and here not in RTX_CAPABILITIES:
        pytest.skip(f"TensorRT-RTX doesn't run on compute capability {here}")
    return name


@pytest.fixture(scope="session")
def ort_cuda(gpu: None) -> None:
    """Skips where ONNX Runtime doesn't start on CUDA."""
    from converter.runtime.ort import require_providers

    _or_skip(lambda: require_providers(["cuda"]))
