"""How a Triton server is started on this machine, from the Python package that carries one.

The server in nvidia-pytriton needs no container and no driver. It has Triton's Python backend and
none of the compiled ones, so that ``onnxruntime`` is the backend of ours beside this file
(:mod:`emitters.serving.triton.onnxruntime_backend.model`), which runs models by ONNX Runtime's CPU
provider, and ``pytorch`` the one that runs TorchScript by PyTorch
(:mod:`emitters.serving.triton.pytorch_backend.model`). Instances on GPUs, engines of TensorRT and
SavedModels want Triton's own container, which is started where docker or podman is.
"""

from __future__ import annotations

import shutil
import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from converter.errors import DependencyError, UsageError
from converter.protocols.server import (
    Command,
    Container,
    Endpoint,
    Environment,
    Launch,
    ServedBy,
)
from converter.serving.asking import answers
from emitters.serving.triton.config import CONFIG_NAME, read_config, version_numbers
from emitters.serving.triton.engine import PLAN_FILE
from emitters.serving.triton.front_files import called_by, calls, needs
from emitters.serving.triton.litert import is_litert
from emitters.serving.triton.releases import NEWEST, newest_with, releases_with
from emitters.serving.triton.scheduling import is_limited, kind_of
from emitters.serving.triton.validate import beside_problems
from emitters.serving.triton.validate_engine import is_engine
from emitters.tensorrt.plan_header import read_header

CACHE_BYTES = 100 << 20
"""Of the response cache, as the package's README has it."""


REQUIREMENTS = (
    "nvidia-pytriton==0.7.0",  # carries tritonserver 2.51.0
    "numpy==1.26.4",  # with NumPy 2 the server's Python backend corrupts tensors
    "onnxruntime==1.31.1",
)
"""All that the server imports: what else its wheel asks for, only its Python interface uses."""

LITERT = "ai-edge-litert==2.3.0"
"""For TFLite files, which the Python backend runs."""

TORCH = (
    "torch==2.13.0+cpu",  # the other builds need the GPU's libraries
    *("typing_extensions==4.16.0", "filelock==4.2.11", "fsspec==2026.9.0"),
    *("sympy==1.14.0", "mpmath==1.3.0", "networkx==3.6.1", "Jinja2==3.1.6", "MarkupSafe==3.0.4"),
)
"""For TorchScript files, which a backend of ours runs."""

_MEGABYTES, _LITERT_MEGABYTES, _TORCH_MEGABYTES, _FILES_MEGABYTES = 95, 22, 210, 9
OWN = ("onnxruntime", "pytorch")
"""Backends of ours, in folders beside this file."""

_TORCH_HINT = (
    "PyTorch's CPU build for Linux is in PyTorch's own package index, and not in PyPI: name that "
    "one in PIP_EXTRA_INDEX_URL. It is fetched once."
)
_HINT = "Its container serves it, where docker or podman is; the package's README has the line."
_IMAGE = "nvcr.io/nvidia/tritonserver:{}-py3"
_MODELS = "/models"

_STUB = "triton_python_backend_stub"

_DEEP = ("sh", "-c", 'ulimit -s 524288 2>/dev/null; exec "$@"', "sh")
"""Gives a server's threads stacks of 512 MB, where that is allowed: tritonserver 2.51 lays a body
that isn't all binary tensors on its stack twice, and ends at 4 MB of the usual 8 (its makers use
the heap since triton-inference-server/server pull request 8305, of July 2025)."""


def models_in(folder: Path) -> list[Path]:
    """The package that a folder is, and what that asks; of a repository, those in it."""
    if (folder / CONFIG_NAME).is_file():
        return [folder, *calls(folder)]
    return sorted(item for item in folder.iterdir() if (item / CONFIG_NAME).is_file())


def environment(folder: Path) -> Environment:
    """What a package needs, or a repository of several.

    Raises:
        DependencyError: It needs a GPU, or a system that the wheel isn't for.
        UsageError: What was edited doesn't fit the rest: Triton would end without a word.
    """
    if sys.platform != "linux":
        raise DependencyError(
            "Modelyard only starts Triton on Linux", code="device-missing", hint=_HINT
        )
    found = dict.fromkeys(map(_started, models_in(folder)))
    more = dict.fromkeys(item for needed, _ in found for item in needed)
    megabytes = _MEGABYTES + sum(size for _, size in found)
    wanted = Environment("triton", (*REQUIREMENTS, *more), megabytes, dependencies=False)
    return replace(wanted, hint=_TORCH_HINT) if TORCH[0] in more else wanted


def _started(folder: Path) -> tuple[Sequence[str], int]:
    """What a package that can be started here needs beside what the server does, and pip's download
    of it in megabytes; raises as :func:`environment`."""
    config = read_config(folder / CONFIG_NAME)
    if problems := beside_problems(folder, config):
        raise UsageError(
            f"{folder.name}: {CONFIG_NAME} and the files beside it don't fit together",
            code="server-config",
            details=problems,
            hint="Undo what was edited, or convert the model again with other options.",
        )
    if is_engine(config):
        raise DependencyError(
            f"{folder.name} holds an engine of TensorRT, but the server that Modelyard "
            "starts here has no GPU",
            code="device-missing",
            hint=_HINT,
        )
    if any(kind_of(group) == "KIND_GPU" for group in config.instance_group):
        raise DependencyError(
            f"{folder.name} has instances on GPUs, but the server that Modelyard starts here "
            "has no GPU",
            code="device-missing",
            hint=_HINT,
        )
    if config.backend == "tensorflow":
        raise DependencyError(
            f"{folder.name} holds a SavedModel, but the server that Modelyard starts here "
            "has no TensorFlow",
            code="device-missing",
            hint=_HINT,
        )
    if called_by(config):
        return tuple(needs(folder)), _FILES_MEGABYTES
    if is_litert(config):
        return (LITERT,), _LITERT_MEGABYTES
    return (TORCH, _TORCH_MEGABYTES) if config.backend == "pytorch" else ((), 0)


def command(launch: Launch) -> Command:
    """The server over a repository of this one package, or of those in a folder."""
    models = models_in(launch.folder)
    configs = [read_config(model / CONFIG_NAME) for model in models]
    bundle = launch.packages / "pytriton" / "tritonserver"
    repository = launch.scratch / "repository"
    repository.mkdir()
    for model, config in zip(models, configs, strict=True):
        (repository / config.name).symlink_to(model.resolve())
    shared = f"modelyard-{uuid.uuid4().hex[:16]}"
    line = [*_DEEP, str(bundle / "bin" / "tritonserver"), f"--model-repository={repository}"]
    line += [f"--backend-directory={lay_out(launch.packages, launch.scratch / 'backends')}"]
    line += [f"--cache-directory={bundle / 'caches'}", "--allow-gpu-metrics=false"]
    line += ["--pinned-memory-pool-byte-size=0", *_usual(launch, configs)]
    # A backend written in Python has settings of its own, apart from the Python backend's.
    for backend in ("python", *OWN):
        line.append(f"--backend-config={backend},shm-region-prefix-name={shared}")
    libraries = str(launch.packages / "nvidia_pytriton.libs")  # without them its stub hangs
    return Command(line, {"LD_LIBRARY_PATH": libraries}, shared=shared)


def container(folder: Path) -> Container | None:
    """Triton's own: of the release that has an engine's TensorRT, or of the newest that has the
    backend. None has LiteRT; which one has what prepares files, isn't known. Of several packages,
    one that takes them all; none where there is no such one."""
    models = models_in(folder)
    found = [_container(model) for model in models]
    several = [item for item in found if item is not None]
    images = {item.image for item in several}
    if len(several) < len(found) or len(images - {""}) > 1:
        return None
    place = several[0].folder if models[0] == folder else _MODELS
    beside = models[1:] if models[0] == folder else []
    return Container(min(images), place, any(item.gpus for item in several), beside)


def _container(folder: Path) -> Container | None:
    config = read_config(folder / CONFIG_NAME)
    if called_by(config):
        images = {image_of(behind) for behind in calls(folder)}
        image = "" if needs(folder) or len(images) > 1 else images.pop()
        return Container(image, f"{_MODELS}/{config.name}")
    if is_litert(config):
        return None
    gpus = any(kind_of(group) == "KIND_GPU" for group in config.instance_group)
    releases = [newest_with(config.backend)]
    if is_engine(config):
        plan = folder / str(version_numbers(folder)[-1])
        plan /= config.default_model_filename or PLAN_FILE
        releases = [known.release for known in releases_with(read_header(plan).version)]
    image = _IMAGE.format(releases[0]) if releases else ""
    return Container(image, f"{_MODELS}/{config.name}", gpus or is_engine(config))


def image_of(folder: Path) -> str:
    """The image that has what one package needs; empty where none is known."""
    found = _container(folder)
    return found.image if found else ""


def contained(launch: Launch) -> Sequence[str]:
    """The server in its container, over what is mounted there."""
    configs = [read_config(model / CONFIG_NAME) for model in models_in(launch.folder)]
    return ["tritonserver", f"--model-repository={_MODELS}", *_usual(launch, configs)]


def deployed(folder: Path, root: str, ports: Mapping[str, int]) -> ServedBy:
    """The server in an image of its own, with what its Python backend imports.

    Args:
        folder: The package.
        root: Where models lie in the image.
        ports: Numbers by name: ``http``, ``grpc``, ``metrics``.
    """
    models = models_in(folder)
    configs = [read_config(model / CONFIG_NAME) for model in models]
    found = container(folder)
    more = [item for m, c in zip(models, configs, strict=True) for item in _imports(m, c)]
    launch = Launch(folder, Path(), Path(), "0.0.0.0", ports)
    usual = [item for item in _usual(launch, configs) if item != _AT_ONCE]
    counts = [group.count or 1 for config in configs for group in config.instance_group]
    return ServedBy(
        base=found.image if found and found.image else _IMAGE.format(NEWEST),
        command=["tritonserver", f"--model-repository={root}", "--exit-timeout-secs=30", *usual],
        ports=ports,
        ready=f"/v2/models/{configs[0].name}/ready",
        live="/v2/health/live",
        metrics=("metrics", "/metrics"),
        requirements=list(dict.fromkeys(more)),
        model=[str(number) for number in version_numbers(folder)],
        instances=max(counts, default=1),
        gpu=bool(found and found.gpus),
        version=version_numbers(folder)[-1],
        runtime=("kserve-tritonserver", "triton", "v2") if not more else (),
    )


def _imports(folder: Path, config: Any) -> Sequence[str]:
    """pip's requirements that Triton's own container lacks."""
    if called_by(config):
        return needs(folder)
    return (LITERT,) if is_litert(config) else ()


def lay_out(packages: Path, folder: Path) -> Path:
    """Makes ``folder`` a backend directory: the Python backend, and ours in Python."""
    bundle = packages / "pytriton" / "tritonserver"
    version = "{}.{}".format(*sys.version_info[:2])
    # Copies: the server refuses a backend that a link leads out of its folder.
    shutil.copytree(bundle / "backends" / "python", folder / "python")
    shutil.copy2(bundle / "python_backend_stubs" / version / _STUB, folder / "python" / _STUB)
    for name in OWN:
        (folder / name).mkdir()
        own = Path(__file__).resolve().parent / f"{name}_backend" / "model.py"
        shutil.copy2(own, folder / name / "model.py")
    return folder


_AT_ONCE = "--exit-timeout-secs=2"


def _usual(launch: Launch, configs: Sequence[Any]) -> Iterator[str]:
    """The packages' configurations as they are, an end without lingering, and where to listen."""
    yield "--disable-auto-complete-config"
    yield _AT_ONCE
    if any(map(is_limited, configs)):
        yield "--rate-limit=execution_count"
    if any(config.response_cache.enable for config in configs):
        yield f"--cache-config=local,size={CACHE_BYTES}"
    for kind, port in launch.ports.items():
        yield f"--{kind}-address={launch.host}"
        yield f"--{kind}-port={port}"


def ready(launch: Launch) -> bool:
    """Whether every model of the server is."""
    return answers(f"http://{launch.address('http')}/v2/health/ready")


def endpoints(folder: Path) -> Sequence[Endpoint]:
    """Of each model, over gRPC, and over HTTP."""
    names = [read_config(model / CONFIG_NAME).name for model in models_in(folder)]
    ways = (("grpc", "grpc"), ("v2", "http"))
    return [Endpoint(protocol, port, name) for name in names for protocol, port in ways]


def files_at(folder: Path) -> Endpoint | None:
    """Where a model in front takes files: the whole body is its only tensor (the binary tensor data
    extension's "raw binary request"); None of every other."""
    config = read_config(folder / CONFIG_NAME)
    if not called_by(config):
        return None
    raw = {"Inference-Header-Content-Length": "0"}
    return Endpoint("files", "http", f"/v2/models/{config.name}/infer", raw)
