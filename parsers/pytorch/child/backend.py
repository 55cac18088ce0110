"""The worker's methods for PyTorch.

torch is imported by the first method that needs it, so that `hello` answers at once and a missing
torch is an answer and not a crash.
"""

# zip() knows no strict= before Python 3.10.
# ruff: noqa: B905

from __future__ import annotations

import gc
import importlib
import inspect
import os
import random
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Any,
)

from ...worker.backend import FrameworkBackend
from ...worker.errors import WorkerError
from ...worker.packages import require
from ...worker.protocol import Channel
from . import modules, pictures, source, submodule
from .signature import Plan, describe, plan_inputs, returned

if TYPE_CHECKING:
    from .files import Opened
    from .flatten import Flat

_PACKAGES = ("torch", "onnxscript", "onnx", "numpy", "safetensors")
# Loaded lazily by the first export otherwise; early, they overlap with what the parent does.
_EXPORTER = ("onnx", "onnx_ir", "onnxscript", "torch.onnx", "torch.export")
# The same for modules without a public name, which another version may lack.
_EXPORTER_INTERNALS = (
    "torch.export._trace",
    "torch.onnx._internal.exporter._core",
    "torch.onnx._internal.exporter._compat",
    "torch.onnx._internal.exporter._torchlib._torchlib_registry",
    "onnxscript.function_libs.torch_lib.ops",
)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Pause the garbage collector: tracing makes millions of objects that all stay alive."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _seed() -> None:
    """Make constructors and random operators repeatable."""
    import torch

    random.seed(0)
    with suppress(ImportError):  # torch doesn't need it
        import numpy as np

        np.random.seed(0)
    torch.manual_seed(0)


def _unwrap(model: Any) -> Any:
    """The module inside torch.compile's and data-parallel wrappers."""
    import torch

    while True:
        if hasattr(model, "_orig_mod"):
            model = model._orig_mod
        elif isinstance(model, (torch.nn.DataParallel, torch.nn.parallel.DistributedDataParallel)):
            model = model.module
        else:
            return model


def _is_model(value: Any) -> bool:
    import torch

    if isinstance(value, type):
        return issubclass(value, torch.nn.Module) and not value.__module__.startswith("torch.")
    return isinstance(value, torch.nn.Module)


def _call(target: Any, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Call a class or factory; arguments that do not fit are a usage error."""
    try:
        signature = inspect.signature(target)
    except (TypeError, ValueError):
        signature = None
    if signature is not None:
        try:
            signature.bind(*args, **kwargs)
        except TypeError as error:
            raise WorkerError(
                "usage",
                f"{name}{signature} cannot be called with these arguments: {error}",
                code="code-not-found",
            ) from error
    with source.user_code(f"calling {name}"):
        return target(*args, **kwargs)


def _make(target: Any, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The nn.Module that a class, factory or instance stands for. Raises usage or source."""
    import torch

    if isinstance(target, torch.nn.Module):
        if args or kwargs:
            raise WorkerError(
                "usage", f"{name} is a module already and takes no arguments", code="code-not-found"
            )
        return target
    if not callable(target):
        raise WorkerError(
            "usage",
            f"{name} is a {type(target).__name__}, not a model or a function that makes one",
            code="not-a-model",
        )
    made = _call(target, name, args, kwargs)
    if not isinstance(made, torch.nn.Module):
        raise WorkerError(
            "usage",
            f"{name} returned a {type(made).__name__}, not a torch.nn.Module",
            code="not-a-model",
        )
    return made


class TorchBackend(FrameworkBackend):
    """One model at a time, and what was learnt about its inputs."""

    PACKAGES = _PACKAGES
    METHODS = (*FrameworkBackend.METHODS, "translate", "parts")

    def __init__(self, channel: Channel) -> None:
        super().__init__(channel)
        self._framework: frozenset[str] | None = None
        self._base_path = list(sys.path)
        self._model: Any = None
        self._flat: Flat | None = None
        self._outputs: list[str] | None = None
        self._dtypes: dict[str, str] = {}
        self._opened: Opened | None = None
        # Whether another Python of the parent's translates what this one traces.
        self._elsewhere = bool(os.environ.pop("MODELYARD_TRANSLATED", ""))

    def warm(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Import torch and its exporter. Raises dependency."""
        start = time.perf_counter()
        with _no_collection():
            self._import_framework()
        return {"seconds": time.perf_counter() - start}

    def _import_framework(self) -> None:
        if self._framework is not None:
            return
        self._channel.progress("importing torch")
        require("torch", "torch", "to load the model")
        for name in ("torch.export",) if self._elsewhere else _EXPORTER:
            require(name, name.replace("_", "-"), "to export the model to ONNX")
        for name in () if self._elsewhere else _EXPORTER_INTERNALS:
            with suppress(ImportError):
                importlib.import_module(name)
        # Everything alive now stays: the collector need not look at it again.
        gc.freeze()
        self._framework = modules.top_packages()

    def load(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Import the user's code, make the model, load weights; or open the `file` that holds all.

        Returns {class, parameters, weights, weights_key, weights_prefix, signature, mode, returns,
        inputs, pictures, warnings}; inputs are those that the file declares, if it does, returns is
        the type that TorchScript's forward gives, and pictures is pictures.Found.
        """
        with _no_collection():
            self._import_framework()
            self._forget()
            self._channel.progress("loading the model")
            model, weights = self._construct(params)
            key, prefix = self._load_weights(model, params)
            model = submodule.take(model, params.get("submodule"))
            submodule.require_stateless(model)
        self._model = model
        return {
            "class": self._opened.name if self._opened else type(model).__name__,
            "parameters": sum(p.numel() for p in model.parameters()),
            "weights": "file" if params.get("weights") else weights,
            "weights_key": key,
            "weights_prefix": prefix,
            "signature": describe(model.forward),
            "mode": self._opened.mode if self._opened else "eager",
            "returns": returned(model.forward),
            "inputs": self._opened.inputs if self._opened else [],
            "pictures": pictures.found(model, params).told(),
            "warnings": [],
        }

    def _forget(self) -> None:
        """Drop the previous model and its modules, so that a name can be loaded anew."""
        self._model = self._flat = self._outputs = self._opened = None
        before = self._framework or frozenset()
        since = modules.files_since(before)
        files = [name for name, file in since if "site-packages" not in file]
        private = [name for name in sys.modules if name.startswith(source.PRIVATE)]
        for name in {*files, *modules.folders(before), *private}:
            sys.modules.pop(name, None)
        sys.path[:] = self._base_path

    def _construct(self, params: Mapping[str, Any]) -> tuple[Any, str]:
        """The module in eval mode on the CPU, and where its weights are from."""
        import torch

        # A user's folder stays as it was: no __pycache__ appears in it.
        sys.dont_write_bytecode = True
        torch.set_grad_enabled(False)
        _seed()
        made, weights = self._open(params) if params.get("file") else self._build(params)
        # User code may have switched it on again.
        torch.set_grad_enabled(False)
        model = _unwrap(made).eval()
        # One by one: a ScriptModule has no requires_grad_ of its own.
        for parameter in model.parameters():
            parameter.requires_grad_(False)
        if any(t.device.type not in ("cpu", "meta") for t in model.parameters()):
            model = model.cpu()
        return model, weights

    def _build(self, params: Mapping[str, Any]) -> tuple[Any, str]:
        """What the user's code makes."""
        name = params["source"]
        target = source.find(name, params.get("search_paths") or [], _is_model)
        _seed()
        made = _make(target, name, params.get("args") or [], params.get("kwargs") or {})
        return made, "none" if isinstance(target, type) else "by-code"

    def _open(self, params: Mapping[str, Any]) -> tuple[Any, str]:
        """What a file holds whole."""
        from . import files

        self._opened = files.open_file(
            Path(params["file"]),
            bool(params.get("trust")),
            params.get("weights_key"),
            params.get("search_paths") or [],
        )
        return self._opened.model, "file"

    def _load_weights(self, model: Any, params: Mapping[str, Any]) -> tuple[str, str]:
        path = params.get("weights")
        if path:
            from . import weights

            self._channel.progress("loading weights")
            trust = bool(params.get("trust"))
            key, prefix = weights.load_into(model, Path(path), params.get("weights_key"), trust)
        elif params.get("weights_key") and not self._opened:
            raise WorkerError(
                "usage", "a weights key is given, but no weights file", code="option-missing"
            )
        else:
            key, prefix = "", ""
        if any(t.is_meta for t in model.parameters()):
            raise WorkerError(
                "usage",
                "the model is on the meta device and needs a weights file",
                code="option-missing",
            )
        return key, prefix

    def _loaded(self) -> Any:
        if self._model is None:
            raise WorkerError("usage", "no model is loaded", code="usage")
        return self._model

    def _plan(self, names: Sequence[str], constants: Mapping[str, Any]) -> Plan:
        declared = self._opened.constants if self._opened else {}
        return plan_inputs(self._loaded().forward, names, {**declared, **constants})

    def export(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Export the model to ONNX; see torch_export.export for the result.

        Only trace it where another Python translates; see torch_program.save then. Adds
        `modules`, the source files that the user's code brought in.
        """
        self._loaded()
        from . import export as torch_export
        from . import tensors
        from .examples import Examples
        from .flatten import Flat

        specs = tensors.read_specs(params["inputs"])
        plan = self._plan([s.name for s in specs], params.get("constants") or {})
        flat = Flat(self._model, plan, bool(params.get("states", True)))
        known = self._opened.sizes if self._opened else {}
        given = tensors.read_feeds(params["example"]) if params.get("example") else {}
        examples = Examples(specs, given)
        asked = {**known, **(params.get("sizes") or {}), **examples.sizes()}
        sizes = tensors.trace_sizes(specs, asked)
        request = torch_export.Request(
            flat=flat,
            specs=specs,
            examples=examples,
            sizes=sizes,
            opset=int(params.get("opset", 20)),
            out=params["out"],
            outputs=params.get("outputs"),
            external_from=params.get("external_from"),
            optimize=bool(params.get("optimize", True)),
            keeps_layers=bool(params.get("keeps_layers")),
            progress=self._channel.progress,
            warnings=list(plan.warnings),
        )
        with _no_collection():
            _seed()
            if self._elsewhere:
                from . import program as torch_program

                result = torch_program.save(request)
                names = result["names"]
            else:
                result = torch_export.export(request)
                names = [o["name"] for o in result["outputs"]]
        self._flat, self._outputs = flat, names
        self._dtypes = {spec.name: spec.dtype for spec in request.specs}
        result["sizes"] = sizes
        result["states"] = [
            {"input": state.name, "output": f"{state.name}_out", "initial": state.start()}
            for state in flat.states.fed
        ]
        result["modules"] = modules.brought_in(self._framework or frozenset())
        return result

    def translate(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Make an ONNX file of a program from another Python; see torch_program.translate."""
        with _no_collection():
            self._import_framework()
            from . import program as torch_program

            self._channel.progress("translating to ONNX")
            return torch_program.translate(params)

    def _flat_for(self, names: Sequence[str], params: Mapping[str, Any]) -> Flat:
        """The exported module if it takes these inputs, else one made for them."""
        from .flatten import Flat

        if self._flat is not None and set(self._flat.names) <= set(names):
            return self._flat
        flat = Flat(self._loaded(), self._plan(names, params.get("constants") or {}))
        self._outputs = None
        return flat

    def run(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Run the eager model on .npz feeds and write .npz outputs.

        `feeds` and `out` are paths, or lists of paths of the same length; with `rounding`, a seed,
        operators round in another way (see rounding.Rounding). Returns {"outputs":
        [{name, dtype, shape}]} of the (last) run. Raises source or usage.
        """
        self._loaded()
        feeds, outs = params["feeds"], params["out"]
        pairs = [(feeds, outs)] if isinstance(feeds, str) else list(zip(feeds, outs))
        if not isinstance(feeds, str) and len(feeds) != len(outs):
            raise WorkerError("usage", "feeds and out differ in length", code="usage")
        described: list[dict[str, Any]] = []
        for feed, out in pairs:
            described = self._run_one(feed, out, params)
        return {"outputs": described}

    def _run_one(self, feed: str, out: str, params: Mapping[str, Any]) -> list[dict[str, Any]]:
        from . import tensors

        values = tensors.read_feeds(feed)
        flat = self._flat_for(list(values), params)
        inputs = tensors.in_order(flat.names, values, self._dtypes)
        _seed()
        seed = params.get("rounding")
        rounding: Any = nullcontext()
        if seed is not None:
            from .rounding import Rounding

            rounding = Rounding(seed)
        with source.user_code("running forward"), rounding:
            results = flat(*inputs)
        names = params.get("outputs") or self._outputs
        names, _ = flat.final_names(names)
        tensors.write_arrays(out, dict(zip(names, results)))
        return [
            {"name": n, "dtype": tensors.dtype_name(t.dtype), "shape": list(t.shape)}
            for n, t in zip(names, results)
        ]

    def parts(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Run the eager model on .npz feeds and note what the module `inside` calls and gives.

        `inside` is its path; see parts.Recorder. Writes chosen values of every tensor to `out`, an
        .npz path; returns {"parts": [{name, kind, place, inputs, outputs,
        call}], "shapes": by tensor}. Raises source or usage.
        """
        from . import tensors
        from .parts import Recorder

        model = self._loaded()
        values = tensors.read_feeds(params["feeds"])
        flat = self._flat_for(list(values), params)
        inputs = tensors.in_order(flat.names, values, self._dtypes)
        _seed()
        recorder = Recorder(model, getattr(model, "INNER", ""), params["inside"])
        with source.user_code("running forward"), recorder:
            flat(*inputs)
        tensors.write_arrays(params["out"], recorder.tensors)
        return {"parts": recorder.parts, "shapes": recorder.shapes}

    def time(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Latency of the eager model: {"ns": [each run], "total_ns", "threads"}.

        No file is touched while the clock runs. `warmup` runs (default 2) go before.
        """
        import torch

        from ...worker import timing
        from . import tensors

        self._loaded()
        values = tensors.read_feeds(params["feeds"])
        flat = self._flat_for(list(values), params)
        args, kwargs = flat.plan.arguments(tensors.in_order(flat.plan.names, values, self._dtypes))
        model = self._loaded()

        def call() -> object:
            # Entered on each call, because the mode belongs to a thread.
            with torch.inference_mode():
                return model(*args, **kwargs)

        before = torch.get_num_threads()
        torch.set_num_threads(int(params.get("threads") or before))
        try:
            with source.user_code("running forward"):
                for _ in range(int(params.get("warmup", 2))):
                    call()
                runs, concurrency = int(params["runs"]), int(params.get("concurrency") or 1)
                result = timing.measure(call, max(runs, 1), concurrency)
            return {**result, "threads": torch.get_num_threads()}
        finally:
            torch.set_num_threads(before)
