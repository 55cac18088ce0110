"""Runs the model beside this file, whatever server asks: load, prepare, run, finish.

    model = Model.load()
    feeds = model.prepare({"image": [[...]]})  # one request, checked
    [outputs] = model.run([feeds])             # any number of requests, joined into batches
    finish(outputs)                            # what JSON has

``model.json`` says what the model takes and gives. A request holds every input by its name, with
the batch as the first dimension where ``max_batch`` isn't 0. Python 3.10 or newer, NumPy, and
ONNX Runtime (``model.onnx``), LiteRT (``model.tflite``) or PyTorch (``model.pt``).
"""

from __future__ import annotations

import json
import math
import os
import threading
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

HERE = Path(__file__).resolve().parent
Arrays = dict[str, "np.ndarray[Any, Any]"]


LONGEST = 400
"""Characters of an error."""

DATATYPES = {
    "BOOL": "bool",
    **{f"{sign}INT{n}": f"{sign.lower()}int{n}" for sign in ("", "U") for n in (8, 16, 32, 64)},
    **{f"FP{n}": f"float{n}" for n in (16, 32, 64)},
    "BYTES": "string",
}
"""NumPy's names of the Open Inference Protocol's types; ``string`` is ours."""

SORTS = {bool: "bool", int: "number", float: "number", str: "text", bytes: "text",
         type(None): "null"}  # fmt: skip
"""What values in lists are; those of NumPy's types are called by these."""


class InputError(ValueError):
    """What was asked isn't what the model takes: the client's mistake, told in one line, which
    doesn't repeat all that was sent."""

    def __init__(self, told: str) -> None:
        super().__init__(told if len(told) <= LONGEST else f"{told[:LONGEST]}...")


class Interface:
    """What the model takes and gives, known without loading it.

    Attributes:
        facts: What ``model.json`` holds.
        name: The model's name.
        max_batch: The largest batch; 0 where the first dimension is no batch.
        inputs, outputs: By name: ``dtype``, ``datatype`` (the same in the Open Inference Protocol)
            and ``shape`` of each; a free dimension is its name.
    """

    def __init__(self, folder: Path = HERE) -> None:
        self.facts: dict[str, Any] = json.loads((folder / "model.json").read_text("utf-8"))
        self.name: str = self.facts["name"]
        self.max_batch: int = self.facts["max_batch"]
        self.inputs = {item["name"]: item for item in self.facts["inputs"]}
        self.outputs = {item["name"]: item for item in self.facts["outputs"]}

    def prepare(self, request: Any) -> Arrays:
        """The inputs of one request, as arrays of the model's own types.

        Args:
            request: By name, nested lists (numbers are cast to the input's type where it can hold
                them; None is a missing value, where the model has an answer for it) or arrays,
                whose type has to be the input's; or the JSON of such lists. An input of one value
                a row may come as a list of those.

        Raises:
            InputError: It says which input, what was found and what was expected.
        """
        if "flow" in self.facts:
            raise InputError(f"{self.name} takes unchanged files, not arrays")
        if isinstance(request, (str, bytes, bytearray)):
            request = parsed(request)
        if not isinstance(request, Mapping):
            raise InputError(
                f"a request is an object with the inputs' names as keys: {self._names()}"
            )
        if missing := [name for name in self.inputs if name not in request]:
            raise InputError(f"missing: {', '.join(missing)}; the inputs are {self._names()}")
        if unknown := [str(name) for name in request if name not in self.inputs]:
            raise InputError(f"no such input: {', '.join(unknown)}; there are {self._names()}")
        sizes: dict[Any, int] = {}
        return {
            name: self._sized(_typed(request[name], item), item, sizes)
            for name, item in self.inputs.items()
        }

    def choose_outputs(self, names: Sequence[str]) -> list[str]:
        """The outputs that a request names; all where it names none.

        Raises:
            InputError: There is no such output.
        """
        if unknown := [name for name in names if name not in self.outputs]:
            there = ", ".join(self.outputs)
            raise InputError(f"no such output: {', '.join(unknown)}; there are {there}")
        return list(names or self.outputs)

    def rows(self, feeds: Arrays) -> int:
        """How much of a batch a request fills; 1 where there are no batches."""
        return len(next(iter(feeds.values()))) if self.max_batch and feeds else 1

    def _sized(
        self, array: np.ndarray[Any, Any], item: Mapping[str, Any], sizes: dict[Any, int]
    ) -> np.ndarray[Any, Any]:
        """The array, where its shape fits; a free dimension has one size in all inputs."""
        wanted = [sizes.get(dim, dim) for dim in item["shape"]]  # as other inputs have set it
        if array.ndim == 1 and self.max_batch and item["shape"][1:] == [1]:
            array = array[:, None]
        fits = array.ndim == len(wanted)
        for size, dim in zip(array.shape, wanted, strict=False):
            expected = sizes.setdefault(dim, size) if isinstance(dim, str) else dim
            fits = fits and 0 < size == expected
        if not fits:
            raise InputError(
                f"{item['name']} has the shape {list(array.shape)}, but the model takes "
                f"{_shown(wanted)}"
            )
        if self.max_batch and len(array) > self.max_batch:
            raise InputError(
                f"{item['name']} holds a batch of {len(array)}, but the largest batch is "
                f"{self.max_batch} (this package's --max-batch): send fewer at a time, or "
                "convert with a larger one"
            )
        return array

    def _names(self) -> str:
        return ", ".join(self.inputs) or "none"


class Model(Interface):
    """The model, loaded: requests in, answers out; safe to call from several threads."""

    def __init__(self, folder: Path = HERE) -> None:
        super().__init__(folder)
        path = folder / self.facts["file"]
        self._runtime = RUNTIMES[path.suffix](path, self.facts)

    @classmethod
    def load(cls, folder: Path = HERE) -> Model:
        """The model of a folder, warmed up: each sample of ``warmup`` ran alone and as the largest
        batch."""
        model = cls(folder)
        for files in model.facts["warmup"]:
            stored = {name: np.load(folder / file) for name, file in files.items()}
            feeds = model.prepare(stored)
            model.run([feeds])
            if model.max_batch > 1:
                model.run([feeds] * model.max_batch)
        return model

    def run(self, requests: Sequence[Arrays]) -> list[Arrays]:
        """The outputs of each request, of which those of equal shapes share batches.

        Args:
            requests: What :meth:`prepare` gave for each.
        """
        answers: list[Arrays] = [{}] * len(requests)
        for group in self._groups(requests):
            feeds = requests[group[0]]
            if len(group) > 1:
                parts = [requests[number] for number in group]
                feeds = {name: np.concatenate([part[name] for part in parts]) for name in feeds}
            outputs = self._runtime.run(feeds)
            end = 0
            for number in group:
                start, end = end, end + self.rows(requests[number])
                answers[number] = (
                    {name: array[start:end] for name, array in outputs.items()}
                    if len(group) > 1
                    else outputs
                )
        return answers

    def _groups(self, requests: Sequence[Arrays]) -> list[list[int]]:
        """The numbers of the requests that run together, in order."""
        groups: list[list[int]] = []
        filling: dict[Any, tuple[list[int], int]] = {}
        for number, feeds in enumerate(requests):
            shapes = tuple(array.shape[1:] for array in feeds.values())
            group, taken = filling.get(shapes, ([], self.max_batch))
            rows = self.rows(feeds)
            if taken + rows > self.max_batch:
                group, taken = [], 0
                groups.append(group)
            group.append(number)
            filling[shapes] = group, taken + rows
        return groups


class OnnxRuntime:
    """``model.onnx`` in ONNX Runtime."""

    def __init__(self, path: Path, facts: Mapping[str, Any]) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.intra_op_num_threads = _threads(facts)
        if facts["instances"] > 1:  # idle threads that spin take the other instances' time
            options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        wanted = ["CPUExecutionProvider"]
        if facts["device"] == "gpu" or (
            facts["device"] == "auto"
            and "CUDAExecutionProvider" in onnxruntime.get_available_providers()
        ):
            wanted.insert(0, "CUDAExecutionProvider")
        self._session = onnxruntime.InferenceSession(
            str(path), options, wanted, disabled_optimizers=facts["disabled_optimizers"]
        )
        if facts["device"] == "gpu" and self._session.get_providers()[0] != wanted[0]:
            raise RuntimeError("the model is to run on a GPU, and CUDA doesn't start here")
        self._outputs = [item["name"] for item in facts["outputs"]]

    def run(self, feeds: Arrays) -> Arrays:
        """The outputs by name."""
        values = self._session.run(self._outputs, feeds)
        return dict(zip(self._outputs, values, strict=True))


class LiteRT:
    """``model.tflite`` in LiteRT, whose interpreter answers one call at a time."""

    def __init__(self, path: Path, facts: Mapping[str, Any]) -> None:
        from ai_edge_litert.interpreter import Interpreter

        interpreter = Interpreter(str(path), num_threads=_threads(facts))
        self._runner = interpreter.get_signature_runner()
        self._lock = threading.Lock()

    def run(self, feeds: Arrays) -> Arrays:
        """The outputs by name."""
        with self._lock:
            return dict(self._runner(**feeds))


class TorchScript:
    """``model.pt`` in PyTorch, called by the names of forward's arguments."""

    def __init__(self, path: Path, facts: Mapping[str, Any]) -> None:
        import torch

        torch.set_num_threads(_threads(facts))
        asked = facts["device"]
        gpu = asked == "gpu" or (asked == "auto" and torch.cuda.is_available())
        self._device = "cuda" if gpu else "cpu"
        self._module = torch.jit.load(str(path), map_location=self._device).eval()
        self._arguments = facts["arguments"]
        self._outputs = [item["name"] for item in facts["outputs"]]

    def run(self, feeds: Arrays) -> Arrays:
        """The outputs by name, which are in forward's order."""
        import torch

        given = {
            self._arguments[name]: torch.tensor(array, device=self._device)
            for name, array in feeds.items()
        }
        with torch.inference_mode():
            found = self._module(**given)
        values = (found,) if isinstance(found, torch.Tensor) else found
        pairs = zip(self._outputs, values, strict=True)
        return {name: value.cpu().numpy() for name, value in pairs}


RUNTIMES: dict[str, Any] = {".onnx": OnnxRuntime, ".tflite": LiteRT, ".pt": TorchScript}


def finish(outputs: Arrays) -> dict[str, Any]:
    """The outputs as JSON has them: nested lists by name."""
    return {name: np.asarray(array).tolist() for name, array in outputs.items()}


def tensor(
    item: Mapping[str, Any], datatype: str, shape: Sequence[int], data: Any
) -> np.ndarray[Any, Any]:
    """An input of the Open Inference Protocol, in the type and the shape that the request says.

    Args:
        item: What is known of the model's input of this name; its name alone where it has none.
        datatype: As the protocol has it: ``FP32``.
        shape: Sizes.
        data: The values, flat or in nested lists; or an array of them.

    Raises:
        InputError: They aren't of this type, or not as many as the shape says.
    """
    name = item["name"]
    if datatype not in DATATYPES:
        raise InputError(f"{name}: there is no datatype {datatype}; use {', '.join(DATATYPES)}")
    if not all(type(size) is int and size >= 0 for size in shape):
        raise InputError(
            f"{name} has the shape {list(shape)}, but sizes are whole numbers of at least 0"
        )
    is_array = isinstance(data, np.ndarray)
    found = data if is_array else _listed(data, name)
    if found.size != (said := math.prod(shape)):
        raise InputError(f"{name} holds {found.size} values, but its shape {list(shape)} {said}")
    found = found.reshape(tuple(shape))
    found = found if is_array else _filled(found, item)
    return _cast(found, name, DATATYPES[datatype], f"its datatype is {datatype}", typed=is_array)


def parsed(text: str | bytes | bytearray) -> Any:
    """What the JSON says."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"the request isn't JSON: {error}") from error


def _typed(value: Any, item: Mapping[str, Any]) -> np.ndarray[Any, Any]:
    """One input in its type, of any shape."""
    name, dtype = item["name"], item["dtype"]
    wanted = f"the model takes {dtype}"
    if isinstance(value, np.ndarray):
        return _cast(value, name, dtype, wanted, typed=True)
    found = _filled(_listed(value, name), item)
    if found.dtype.kind == "f" and np.isnan(found).any():
        _require_missing(np.isnan(found), item)
    return _cast(found, name, dtype, wanted, typed=False)


def _listed(value: Any, name: str) -> np.ndarray[Any, Any]:
    """Nested lists of values of one sort as an array. NumPy makes 1.0 of true beside numbers, and
    a text of a number beside texts."""
    try:
        found = np.asarray(value)
    except ValueError as error:
        what = "its lists are of several lengths, or too deep"
        raise InputError(f"{name} isn't an array: {what}") from error
    flat: Any = value if found.ndim else (value,)
    for _ in range(found.ndim - 1):
        flat = chain.from_iterable(flat)
    sorts = sorted({SORTS.get(kind, kind.__name__) for kind in set(map(type, flat))} - {"null"})
    if len(sorts) > 1:
        raise InputError(f"{name} holds values of several types: {', '.join(sorts)}")
    return np.array(value, object) if sorts == ["text"] else found  # NumPy's texts end before NULs


def _cast(
    found: np.ndarray[Any, Any], name: str, dtype: str, wanted: str, *, typed: bool
) -> np.ndarray[Any, Any]:
    """An array in a type: its own, or where it comes from lists one that holds its values.
    ``wanted`` is for the error."""
    if dtype == "string" and found.dtype.kind in "UOS":
        texts = [t.decode("utf-8", "replace") if isinstance(t, bytes) else t for t in found.flat]
        if all(isinstance(text, str) for text in texts):
            return np.array(texts, object).reshape(found.shape)
    elif dtype != "string":
        kinds = {"f": "fiu", "i": "iu", "u": "iu", "b": "b"}[np.dtype(dtype).kind]
        if found.dtype == dtype:
            return found
        if not typed and (found.dtype.kind in kinds or not found.size):
            with np.errstate(over="ignore"):
                cast = found.astype(dtype)
            if np.dtype(dtype).kind == "f":
                kept = np.array_equal(np.isfinite(cast), np.isfinite(found))
            else:
                kept = np.array_equal(cast, found)
            if kept:
                return cast
            raise InputError(f"{name} holds numbers that {dtype} doesn't have")
    raise InputError(f"{name} holds {_what(found)}, but {wanted}")


def _what(found: np.ndarray[Any, Any]) -> str:
    """What values are, for an error: where they are objects, texts or what NumPy has no type of."""
    if found.dtype.kind in "biufc":
        return f"{found.dtype.name} values"
    kinds = sorted({SORTS.get(type(value), type(value).__name__) for value in found.flat})
    return "numbers of over 64 bits" if kinds == ["number"] else f"{' and '.join(kinds)} values"


def _filled(found: np.ndarray[Any, Any], item: Mapping[str, Any]) -> np.ndarray[Any, Any]:
    """Values with what stands for a missing one in the place of None: NaN, or the empty text."""
    if found.dtype.kind != "O":
        return found
    gone = np.array([value is None for value in found.flat], bool).reshape(found.shape)
    if not gone.any():
        return found
    _require_missing(gone, item)
    made = np.where(gone, "" if item["dtype"] == "string" else np.nan, found)
    return np.array(made.tolist(), object if item["dtype"] == "string" else None)


def _require_missing(gone: np.ndarray[Any, Any], item: Mapping[str, Any]) -> None:
    """Refuses missing values for which the model has no answer."""
    places = item.get("missing", ())
    if not places or (gone.ndim > 1 and not np.isin(np.nonzero(gone)[-1], places).all()):
        raise InputError(f"{item['name']} holds null or NaN, which the model can't answer")


def _threads(facts: Mapping[str, Any]) -> int:
    """Threads of one run: as asked for, or this machine's cores, shared among the instances."""
    return int(facts["threads"] or max(1, (os.cpu_count() or 1) // facts["instances"]))


def _shown(shape: Sequence[int | str]) -> str:
    return "[" + ", ".join(map(str, shape)) + "]"
