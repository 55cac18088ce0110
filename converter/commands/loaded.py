"""``modelyard.load``: an artifact that runs in this process, with the model's names."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from pydantic import ValidationError

from converter.check.feeding import Fed, takes_integers
from converter.check.sums import Array
from converter.commands.asking import Answer, Preparing, is_file
from converter.commands.opened import emitter_of
from converter.errors import DependencyError, ModelyardError, UsageError
from converter.files.reading import reading
from converter.ir.model import TensorSpec, dtype_from_name
from converter.options.recipe import make_request
from converter.pipeline.folders import MANIFEST, Found, artifacts_of, declared_in, flow_in
from converter.preparation.declared import Declaration
from converter.preparation.flows import Part
from converter.preparation.prepared import run_rows
from converter.preparation.staged.base import Item, Seen
from converter.preparation.stages import Stages
from converter.protocols.emitter import Artifact
from converter.runtime.session import Session

_NOTHING: dict[str, Any] = {"prepare": (), "answer": ()}


class Loaded:
    """An artifact that runs in this process. It is called with arrays, and closed at the end of a
    ``with`` block or by :meth:`close`.

    Args:
        title: ``onnx int8``, or the file's name.
        session: The artifact, opened; it is closed with this.
        preparing: Prepares the user's files as the run that made the artifact did; None where
            arrays alone are taken.

    Attributes:
        title: ``onnx int8``, or the file's name.
        inputs, outputs: Name, type and shape of each, in order.
        runtime: What really runs: name, version, threads.
    """

    def __init__(self, title: str, session: Session, preparing: Preparing | None = None) -> None:
        self.title = title
        self._preparing = preparing
        self.inputs, self.outputs = session.inputs, session.outputs
        self.runtime = session.runtime
        self._session = session
        self._types = {spec.name: dtype_from_name(spec.dtype).numpy() for spec in session.inputs}

    def __call__(self, *arrays: Any, **named: Any) -> Any:
        """Outputs by name; of a user's file, an :class:`Answer`, of a list of files a list.

        Args:
            *arrays: The inputs in order, or one mapping of them by name, or a table with their
                columns (pandas). Or a picture (its path or its bytes) or a text, which become the
                inputs as the samples did, or a list of such.
            **named: Inputs by name.

        Raises:
            UsageError: An input is missing, there is none of that name, or a type doesn't fit.
            ModelError: The runtime refuses the arrays.
        """
        if len(arrays) == 1 and not self._takes_texts():
            if is_file(arrays[0]):
                return self.ask(arrays[0])
            if isinstance(arrays[0], list) and arrays[0] and all(map(is_file, arrays[0])):
                return self.ask_all(arrays[0])
        feeds = self._feeds(arrays, named)
        if feeds.keys() != self._types.keys():
            missing = [name for name in self._types if name not in feeds]
            unknown = [name for name in feeds if name not in self._types]
            raise UsageError(
                f"{self.title}: "
                + "; ".join(
                    f"{what} {', '.join(names)}"
                    for what, names in (("no input is called", unknown), ("missing:", missing))
                    if names
                ),
                code="python-argument",
                hint="It takes " + _listed(self.inputs) + ".",
            )
        return self._session.run({name: self._typed(name, v) for name, v in feeds.items()})

    def _takes_texts(self) -> bool:
        """Whether a text may be an input's own value."""
        apart = self._preparing is None or self._preparing.takes_texts_as_they_are
        return apart and any(spec.dtype == "string" for spec in self.inputs)

    def ask(self, value: Any) -> Answer:
        """What the model says of a user's file.

        Args:
            value: A picture's path or bytes, a text, or two texts as a tuple.

        Raises:
            UsageError: Nothing says how it becomes an input, or it can't.
            DependencyError: What prepares it isn't installed.
            ModelError: The runtime refuses it.
        """
        return self.ask_all([value])[0]

    def ask_all(self, values: Sequence[Any]) -> list[Answer]:
        """What the model says of each of several files, in as few runs as it takes.

        Args:
            values: As for :meth:`ask`.

        Raises:
            ModelyardError: As :meth:`ask`.
        """
        rows = [self._prepares().rows(value, self.title) for value in values]
        shapes = {tuple(array.shape for array in feeds.values()) for feeds, _ in rows}
        stages = self._prepares().stages
        single = (
            len(shapes) == 1
            and not stages.in_turn
            and all(shape[:1] == (1,) for shape in next(iter(shapes)))
        )
        free = all(isinstance((spec.shape or (1,))[0], str) for spec in self.inputs)
        if not (single and free):
            return [self._answer(stages.run(self._run, feeds), seen, 0) for feeds, seen in rows]
        names = rows[0][0]
        outputs = self._run({n: np.concatenate([feeds[n] for feeds, _ in rows]) for n in names})
        return [self._answer(outputs, rows[i][1], i, len(rows)) for i in range(len(rows))]

    def item(self, value: Any) -> Item:
        """A user's file as stages take it; see :meth:`ask`."""
        return self._prepares().item(value, self.title)

    def as_part(self) -> Part:
        """This artifact in a flow."""
        free = all(isinstance((spec.shape or (1,))[0], str) for spec in self.inputs)
        stages = self._preparing.stages if self._preparing else Stages(_NOTHING)
        return Part(stages, self._run, free)

    def _prepares(self) -> Preparing:
        if self._preparing is None:
            raise UsageError(
                f"{self.title} has no description of how a file becomes an input",
                code="preparation",
                hint="Convert the model with samples of the kind that users send, or with "
                "--image-size, --image-mean and --image-std. Then the artifact carries the "
                "description. Or give arrays.",
            )
        return self._preparing

    def _run(self, rows: Mapping[str, Array]) -> dict[str, Array]:
        """Outputs of prepared rows."""
        return run_rows(self._run_typed, self.inputs, rows)

    def _run_typed(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        return self._session.run({name: self._typed(name, a) for name, a in feeds.items()})

    def _answer(self, outputs: Mapping[str, Array], seen: Seen, index: int, of: int = 1) -> Answer:
        """The answer for one row of several; outputs without that many rows are all of theirs."""
        own = {
            name: array[index : index + 1] if of > 1 and array.shape[:1] == (of,) else array
            for name, array in outputs.items()
        }
        return self._prepares().answer(own, seen)

    def _feeds(self, arrays: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
        if len(arrays) == 1 and isinstance(arrays[0], Mapping):
            return {**arrays[0], **named}
        if len(arrays) == 1 and hasattr(arrays[0], "columns") and not named:
            return self._columns(arrays[0])
        if len(arrays) > len(self.inputs):
            raise UsageError(
                f"{self.title} takes {len(self.inputs)} inputs, not {len(arrays)}",
                code="python-argument",
            )
        return {**dict(zip(self._types, arrays, strict=False)), **named}

    def _columns(self, table: Any) -> dict[str, Any]:
        """Inputs of a table's columns: as declared; each by its name; or all as the only input."""
        if self._preparing and (known := self._preparing.columns(table)):
            return known
        names = [str(name) for name in table.columns]
        if len(self.inputs) == 1 and self.inputs[0].name not in names:
            return {self.inputs[0].name: table.to_numpy()}
        known = {
            spec.name: table[spec.name].to_numpy() for spec in self.inputs if spec.name in names
        }
        return {name: values[:, np.newaxis] for name, values in known.items()}

    def _typed(self, name: str, value: Any) -> Array:
        array = np.asarray(value)
        wanted = self._types[name]
        if array.dtype == wanted:
            return array
        if not np.can_cast(array.dtype, wanted, "same_kind"):
            raise UsageError(
                f"{self.title}: {name} takes {wanted}, not an array of {array.dtype}",
                code="python-argument",
            )
        return array.astype(wanted)

    def close(self) -> None:
        """Ends it; safe to call twice."""
        self._session.close()
        if self._preparing is not None:
            self._preparing.close()

    def __enter__(self) -> Loaded:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{self.title}: {_listed(self.inputs)} -> {_listed(self.outputs)}>"


def _listed(specs: tuple[TensorSpec, ...]) -> str:
    return ", ".join(f"{spec.name} {spec.describe()}" for spec in specs)


def load(path: str, artifact: str | None, options: Mapping[str, Any]) -> Loaded:
    """Opens an artifact.

    Args:
        path: An output folder, a folder in it, or an artifact.
        artifact: ``TARGET`` or ``TARGET:PRECISION``, where there are several; None for the one with
            the smallest latency that its report measured, of those that run here.
        options: How it is opened: ``threads``, ``providers``.

    Raises:
        UsageError: There is no such artifact.
        DependencyError: Its runtime isn't installed, or runs on another system.
        ModelError: It can't be opened.
    """
    if not Path(path).exists():
        raise UsageError(f"there is no {path}", code="file-not-found")
    target, _, precision = (artifact or "").partition(":")
    asked = [target] if target else [], [precision] if precision else []
    found = artifacts_of(path, *asked) or [Found(Path(path))]
    parts = dict.fromkeys(item.part for item in found)
    if len(parts) > 1 or flow_in(path):
        return _load_flow(Path(path), list(parts), artifact, options)
    return _quickest(found, Path(path), options)


def _load_flow(
    path: Path, parts: Sequence[str], artifact: str | None, options: Mapping[str, Any]
) -> Loaded:
    """All parts of an output, joined.

    Raises:
        As :func:`load`.
    """
    from converter.commands.loaded_flow import LoadedFlow

    steps = flow_in(str(path))
    if not steps:
        raise UsageError(
            f"{path} has the parts {', '.join(parts)}, and no flow joins them",
            code="choose-one",
            hint=f"Load one of them: {', '.join(str(path / part) for part in parts)}.",
        )
    opened: dict[str, Loaded] = {}
    with ExitStack() as stack:  # those that are open are closed where another can't be
        for part in dict.fromkeys(step.part for step in steps):
            opened[part] = stack.enter_context(load(str(path / part), artifact, options))
        flow = LoadedFlow(path, steps, opened)
        stack.pop_all()
    return flow


def _quickest(found: list[Found], path: Path, options: Mapping[str, Any]) -> Loaded:
    """The quickest artifact that runs here."""
    ordered = found if len(found) == 1 else _quickest_first(found, path)
    refused: list[str] = []
    for item in ordered:
        try:
            return _opened(item, options)
        except ModelyardError as error:
            if len(ordered) == 1:
                raise
            refused.append(f"{item.title}: {error.message}")
    raise DependencyError(
        f"no artifact of {path} runs here", code="device-missing", details=refused
    )


def _quickest_first(found: list[Found], path: Path) -> list[Found]:
    """By the median of one caller at batch 1; what wasn't measured comes last, in its order."""
    folder = next((p for p in (path, *path.parents) if (p / MANIFEST).is_file()), path)
    measured = json.loads((folder / MANIFEST).read_text(encoding="utf-8")).get("measured", {})
    medians = {
        entry["artifact"]: point["p50_ms"]
        for entry in measured.get("latency", [])
        for point in entry["points"]
        if (point["role"], point["batch"], point["concurrency"]) == ("artifact", 1, 1)
    }
    return sorted(found, key=lambda item: medians.get(item.title, float("inf")))


def _opened(found: Found, options: Mapping[str, Any]) -> Loaded:
    request = make_request({"source": str(found.path), **found.options("", options)})
    emitter = emitter_of(found)
    made = Artifact(emitter.name, request.precision[0], found.path, [found.path])
    with reading(found.path.name):
        session = emitter.load(made, request)
    if other := session.runtime.get("stands_for"):
        why = session.runtime["not_run"]
        session.close()
        raise DependencyError(f"{other} doesn't run here: {why}", code="device-missing")
    if takes_integers(request, request.precision[0]):
        session = Fed(session, real=True)
    folder, declared = declared_in(str(found.path))
    if not declared:
        return Loaded(found.title, session)
    try:
        known = Declaration.model_validate(declared)
    except ValidationError as error:
        session.close()
        raise UsageError(
            f"{MANIFEST} of {folder} holds a declaration that isn't valid: {error}",
            code="not-an-artifact",
        ) from error
    if known.steps and not options.get("trust_source"):
        session.close()
        raise UsageError(
            f"{folder.name} brings code that prepares files or makes answers: "
            f"{', '.join(known.steps)}",
            code="untrusted-code",
            hint="If you trust that code, pass trust_source=True to modelyard.load.",
        )
    return Loaded(found.title, session, Preparing(known, folder, session.inputs))
