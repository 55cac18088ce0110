"""A transformers model from a folder: its class, its weights, and what is wrong with them.

Nothing is fetched: the parent sets HF_HUB_OFFLINE and TRANSFORMERS_OFFLINE, and every call says
`local_files_only`. Weights are read from safetensors, or from a pickle with `weights_only`.
"""

from __future__ import annotations

import importlib
import pickle
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from ...pytorch.child.weights import globals_beyond_tensors, require_small_header
from ...worker.distributions import DISTRIBUTIONS
from ...worker.errors import WorkerError
from ...worker.packages import installed
from . import tasks as hf_tasks

_MOST = 20
_MOST_MODULES = 150_000
"""Modules that a model may have: the largest that are published, with 60 layers of 256 experts,
have 80,000. A config.json can ask for any number of layers, whatever its weights hold."""


@contextmanager
def _told(folder: Path, doing: str) -> Iterator[None]:
    """What transformers raises as a `source` error with its own words."""
    try:
        yield
    except WorkerError:
        raise
    except pickle.UnpicklingError as error:
        raise _pickled(folder, error) from error
    except ImportError as error:
        module = str(error.name or "").partition(".")[0]
        if not module:
            raise WorkerError(
                "source", f"{doing}: {_first(error)}", code="model-code-failed"
            ) from error
        package = DISTRIBUTIONS.get(module)
        raise WorkerError(
            "dependency", f"{doing}: {_first(error)}", package=package, module=module
        ) from error
    # Whatever a damaged or unusual folder raises: it is about this folder.
    except Exception as error:
        raise WorkerError(
            "source",
            f"{doing}: {_first(error)}".replace(f"{folder}", "."),
            code="model-code-failed",
        ) from error


@contextmanager
def _bounded(name: str) -> Iterator[None]:
    """Ends with a `source` error once more modules were made than any model has."""
    made = 0

    def count(*_: Any) -> None:
        nonlocal made
        made += 1
        if made > _MOST_MODULES:
            raise WorkerError(
                "source",
                f"config.json asks for a {name} of more than {_MOST_MODULES:,} modules: its "
                "numbers of layers can't be right",
                code="model-too-large",
            )

    handle = torch.nn.modules.module.register_module_module_registration_hook(count)
    try:
        yield
    finally:
        handle.remove()


def _pickled(folder: Path, error: Exception) -> WorkerError:
    """The error for weights that are no plain tensors."""
    files = sorted(folder.glob("pytorch_model*.bin"))
    names = [name for path in files for name in globals_beyond_tensors(path)]
    return WorkerError(
        "source",
        "the folder's weights are a pickle that holds more than tensors, so reading it "
        "could run code. Modelyard ran nothing of it. Ask for safetensors",
        [f"it names {name}" for name in dict.fromkeys(names)] or [_first(error)],
        code="untrusted-code",
    )


def _first(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(lines[:3]) or type(error).__name__


def read_config(folder: Path, trust: bool) -> Any:
    """The folder's config. Raises source, or usage where transformers does not know its type."""
    import transformers

    with _told(folder, f"reading {folder.name}/config.json"):
        config = transformers.AutoConfig.from_pretrained(
            str(folder), local_files_only=True, trust_remote_code=trust
        )
    made = config.architectures or []
    if not isinstance(made, list) or not all(isinstance(name, str) for name in made):
        raise WorkerError(
            "source",
            f"{folder.name}/config.json: its architectures aren't names",
            code="model-damaged",
        )
    return config


def _float32() -> dict[str, Any]:
    """The argument for weights as float32, under the name that this version knows."""
    version = str(installed("transformers") or "5.0").split(".")
    old = (int(version[0]), int(version[1])) < (4, 56)
    return {"torch_dtype" if old else "dtype": torch.float32}


def _class(task: hf_tasks.Task, config: Any, trust: bool) -> Any:
    import transformers

    if trust and getattr(config, "auto_map", None):
        return getattr(transformers, hf_tasks.auto_name(task))
    name = hf_tasks.class_name(task, config)
    found = getattr(transformers, name, None)
    if found is None:
        module = importlib.import_module("transformers")
        raise WorkerError(
            "source", f"transformers {module.__version__} has no {name}", code="package-missing"
        )
    return found


def load(folder: Path, task: hf_tasks.Task, config: Any, trust: bool) -> tuple[Any, dict[str, Any]]:
    """The model in float32, and transformers' account of its weights' keys.

    Args:
        folder: The model's.
        task: What it is loaded for.
        config: transformers' configuration of it.
        trust: Whether code that the folder brings may run.

    Raises:
        WorkerError: ``source`` where the folder can't be loaded.
    """
    made = _class(task, config, trust)
    for path in sorted(folder.glob("*.safetensors")):
        require_small_header(path, "source")
    safe = ("model.safetensors", "model.safetensors.index.json")
    found = next((name for name in safe if (folder / name).is_file()), "pytorch_model.bin")
    options: dict[str, Any] = {"trust_remote_code": True} if trust else {}
    doing = f"loading {made.__name__} from {folder.name}/{found}"
    with _told(folder, doing), _bounded(made.__name__):
        model, info = made.from_pretrained(
            str(folder),
            config=config,
            local_files_only=True,
            use_safetensors=found in safe,
            weights_only=True,
            attn_implementation="eager",
            ignore_mismatched_sizes=True,
            output_loading_info=True,
            **_float32(),
            **options,
        )
    return model.float().eval(), info


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST} more" if len(names) > _MOST else ""
    return ", ".join(names[:_MOST]) + more


def check_mismatched(info: Mapping[str, Any], name: str) -> None:
    """Raise source where weights have other shapes than the model."""
    wrong = sorted(info.get("mismatched_keys") or ())
    if wrong:
        details = [
            f"{key}: {list(found)} in the file, {list(own)} in it" for key, found, own in wrong
        ]
        raise WorkerError(
            "source",
            f"{len(wrong)} weights of the folder do not have {name}'s shapes: config.json and "
            "the weights are of different models",
            details,
            code="weights-mismatch",
        )


def unexpected(info: Mapping[str, Any], name: str) -> list[str]:
    """A warning for weights that the model has no place for."""
    keys = sorted(info.get("unexpected_keys") or ())
    if not keys:
        return []
    return [f"{len(keys)} weights of the folder are none of {name}'s and left out: {_some(keys)}"]


def needed(model: Any, module: Any, missing: Sequence[str], example: Sequence[Any]) -> list[str]:
    """Those of the missing weights that a module's outputs depend on.

    transformers fills missing weights with random numbers. Whether they count is found by
    differentiating the outputs for the example inputs by them.

    Args:
        model: The transformers model, whose parameters are named.
        module: What is run: the model for its task.
        missing: Names of parameters and buffers.
        example: The module's inputs, in order.
    """
    own = dict(model.named_parameters(remove_duplicate=False))
    # A buffer has no gradient: it counts, unless inference never reads it.
    counted = [k for k in missing if k not in own and not k.endswith("num_batches_tracked")]
    wanted = {key: own[key] for key in missing if key in own}
    if not wanted:
        return counted
    with torch.enable_grad():
        for parameter in wanted.values():
            parameter.requires_grad_(True)
        outputs = [t for t in module(*example).values() if t.requires_grad]
        if outputs:
            total = torch.stack([t.float().sum() for t in outputs]).sum()
            grads = torch.autograd.grad(total, list(wanted.values()), allow_unused=True)
            counted += [key for key, grad in zip(wanted, grads) if grad is not None]  # noqa: B905
        for parameter in wanted.values():
            parameter.requires_grad_(False)
    return sorted(counted)


def refuse_missing(keys: Sequence[str], name: str, task: str, fitting: Sequence[str]) -> None:
    """Refuses weights that the folder lacks.

    Args:
        keys: The weights' names; nothing is raised where there are none.
        name: The model's class.
        task: What it was loaded for.
        fitting: Tasks that models of this type do.

    Raises:
        WorkerError: ``source``, with the first of them as details.
    """
    if keys:
        raise WorkerError(
            "source",
            f"the folder lacks {len(keys)} weights that {name} needs for {task}, so they "
            f"would be random. Tasks of this model type: {', '.join(fitting)}",
            list(keys[:_MOST]) + ([f"and {len(keys) - _MOST} more"] if len(keys) > _MOST else []),
            code="weights-mismatch",
        )
