"""Outputs of a model on every sample, kept in a folder: computed once, compared with often."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from converter.check.sums import Array
from converter.errors import ModelError, ModelyardError, from_os_error
from converter.ir.model import dtype_from_name
from converter.runtime.session import Progress, Session

if TYPE_CHECKING:
    from converter.samples import Sample

Run = Callable[[Mapping[str, Array]], Mapping[str, Array]]

INDEX = "outputs.json"
_FORMAT = 1
_ROUNDING = 1e-3
"""Of an output's largest value: sums that threads share come out in another order."""


class ReferenceOutputs:
    """A model's outputs on every sample, one npz a sample.

    Iterating gives ``{output name: array}`` for each sample, in the samples' order; one sample
    is in memory at a time. Use :meth:`compute` or :meth:`load`.

    Attributes:
        folder: Where they lie.
        names: The samples' names, in order.
        digest: sha256 over names, dtypes, shapes and values of all outputs.
        runtime: What they were computed with: :attr:`converter.runtime.session.Session.runtime`.
    """

    def __init__(self, folder: Path, index: Mapping[str, Any]) -> None:
        self.folder = folder
        self.runtime: dict[str, Any] = dict(index["runtime"])
        self.digest: str = index["digest"]
        self._entries: list[dict[str, Any]] = list(index["samples"])
        self.names = tuple(entry["name"] for entry in self._entries)
        self._left_out = frozenset[str](index.get("left_out", ()))

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[dict[str, Array]]:
        return (self[number] for number in range(len(self)))

    def __getitem__(self, number: int) -> dict[str, Array]:
        entry = self._entries[number]
        with np.load(self.folder / entry["file"], allow_pickle=False) as stored:
            return {
                output["name"]: _unpack(stored[f"o{i}"], output["type"])
                for i, output in enumerate(entry["outputs"])
                if output["name"] not in self._left_out
            }

    @property
    def held(self) -> str:
        """What is the same where names, dtypes, shapes and values of all outputs are."""
        left_out = sorted(self._left_out)
        return json.dumps([[entry["digest"] for entry in self._entries], self.names, left_out])

    def first(self, count: int) -> ReferenceOutputs:
        """Those of the first samples alone."""
        return self._with(samples=self._entries[:count])

    def without(self, outputs: Collection[str]) -> ReferenceOutputs:
        """The same, but for some outputs."""
        return self._with(left_out=outputs) if outputs else self

    def _with(self, **changed: Any) -> ReferenceOutputs:
        own = {"samples": self._entries, "left_out": self._left_out}
        index = {"runtime": self.runtime, "digest": self.digest, **own, **changed}
        return ReferenceOutputs(self.folder, index)

    @classmethod
    def compute(
        cls,
        session: Session,
        samples: Iterable[Sample],
        folder: Path,
        progress: Progress | None = None,
    ) -> Self:
        """Runs every sample through ``session`` and keeps what comes out in ``folder``.

        The index is written last: a folder without one is not complete.

        Args:
            session: Runs the samples.
            samples: They are run in order, one at a time.
            folder: Where the outputs are kept; it is made.
            progress: Called with each sample's name before it runs.

        Raises:
            ModelError: The session failed on a sample; its name is in the error.
            MachineError: The disk is full.
        """
        folder.mkdir(parents=True, exist_ok=True)
        (folder / INDEX).unlink(missing_ok=True)
        entries = []
        digest = hashlib.sha256()
        for number, sample in enumerate(samples):
            if progress:
                progress(f"running {sample.name}")
            outputs = run_sample(session, sample)
            entry = _store(folder, number, sample.name, outputs)
            entries.append(entry)
            digest.update(f"{sample.name}\0{entry['digest']}\0".encode())
        index = {
            "format": _FORMAT,
            "runtime": session.runtime,
            "digest": digest.hexdigest(),
            "samples": entries,
        }
        _write(folder / INDEX, json.dumps(index, indent=1).encode())
        return cls(folder, index)

    def require_same(self, session: Session, sample: Sample) -> None:
        """Refuses a session that isn't the one that these are of.

        Args:
            session: It is run once.
            sample: The first one.

        Raises:
            ModelError: It gives something else, by more than threads' rounding.
        """
        found, known = run_sample(session, sample), self[0]
        if not all(_alike(array, known[name]) for name, array in found.items()):
            raise ModelError(
                "the source gave other outputs when it was read a second time, so nothing "
                "can be compared",
                code="model-random",
                hint="Its code draws random numbers, or reads data that changes. Change the "
                "code so that it does neither.",
            )

    @classmethod
    def load(cls, folder: Path) -> Self | None:
        """The outputs in ``folder``, or None where they aren't there, or not complete."""
        try:
            index = json.loads((folder / INDEX).read_bytes())
            return cls(folder, index) if index["format"] == _FORMAT else None
        except (OSError, ValueError, KeyError, TypeError):
            return None


def first_size(outputs: ReferenceOutputs, samples: Iterable[Sample]) -> int:
    """Bytes of the first sample's inputs and outputs."""
    arrays = [*next(iter(samples)).feeds.values(), *outputs[0].values()]
    return sum(array.nbytes for array in arrays)


def run_sample(session: Session, sample: Sample) -> dict[str, Array]:
    """The session's outputs on one sample; an error of ours names the sample."""
    try:
        return {name: np.asarray(value) for name, value in session.run(sample.feeds).items()}
    except ModelyardError as error:
        error.message = f"on the sample {sample.name}: {error.message}"
        raise


def require_repeatable(
    session: Session, sample: Sample, what: str, again: Run | None = None
) -> None:
    """Refuses what gives other outputs for the same sample: nothing can be compared with it.

    Args:
        session: It is run twice.
        sample: Any one.
        what: What it is, as an error says it.
        again: Runs it the second time, where it isn't asked twice otherwise.

    Raises:
        ModelError: An output's shape differs, or its values by more than threads' rounding.
    """
    once = run_sample(session, sample)
    second = again(sample.feeds) if again else run_sample(session, sample)
    other = [name for name, array in once.items() if not _alike(array, second[name])]
    if other:
        raise ModelError(
            f"{what} gives other values of {', '.join(other)} in each run for the same "
            "input, so nothing can be compared",
            code="model-random",
            hint="It draws random numbers. For an ONNX file, --random-as-input turns them into "
            "inputs. For other sources, draw them outside of the model.",
        )


def _alike(one: Array, other: Array) -> bool:
    if one.shape != other.shape:
        return False
    if one.dtype.kind != "f":
        return np.array_equal(one, other)
    scale = np.nanmax(np.abs(one[np.isfinite(one)]), initial=0.0)
    return np.allclose(one, other, rtol=0, atol=_ROUNDING * scale, equal_nan=True)


def store_outputs(path: Path, outputs: Mapping[str, Array]) -> None:
    """Writes one run's outputs; :func:`load_outputs` reads them."""
    packed = {name: _pack(array) for name, array in outputs.items()}
    index = json.dumps([[name, dtype] for name, (_, dtype) in packed.items()])
    arrays = {f"o{i}": array for i, (array, _) in enumerate(packed.values())}
    with path.open("wb") as stream:
        np.savez(stream, index=np.array(index), **arrays)  # type: ignore[arg-type]


def load_outputs(path: Path) -> dict[str, Array]:
    """What :func:`store_outputs` wrote."""
    with np.load(path, allow_pickle=False) as stored:
        index = json.loads(str(stored["index"]))
        return {name: _unpack(stored[f"o{i}"], dtype) for i, (name, dtype) in enumerate(index)}


def _store(folder: Path, number: int, name: str, outputs: Mapping[str, Array]) -> dict[str, Any]:
    packed = [_pack(array) for array in outputs.values()]
    file = folder / f"{number:06d}.npz"
    try:
        with file.open("wb") as stream:
            np.savez(stream, **{f"o{i}": array for i, (array, _) in enumerate(packed)})  # type: ignore[arg-type]
    except OSError as error:
        raise from_os_error(error, f"keeping the outputs of {name}") from error
    digest = hashlib.sha256()
    described = []
    for output, (array, dtype) in zip(outputs, packed, strict=True):
        digest.update(f"{output}\0{dtype}\0{array.dtype.str}\0{array.shape}\0".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
        described.append({"name": output, "type": dtype})
    return {
        "name": name,
        "file": file.name,
        "digest": digest.hexdigest(),
        "outputs": described,
    }


def _write(path: Path, data: bytes) -> None:
    part = path.with_suffix(".part")
    try:
        part.write_bytes(data)
        part.replace(path)
    except OSError as error:
        raise from_os_error(error, f"writing {path.name}") from error


def _pack(array: Array) -> tuple[Array, str]:
    """An array that an npz holds without pickling, and the type to give it back as."""
    name = array.dtype.name
    if array.dtype.kind == "O":
        return array.astype(np.str_), "string"
    if array.dtype.kind == "V" or name.startswith(("bfloat", "float8")):
        return array.view(f"u{array.dtype.itemsize}"), name
    return array, ""


def _unpack(array: Array, dtype: str) -> Array:
    if dtype == "string":
        return array.astype(object)
    return array.view(dtype_from_name(dtype).numpy()) if dtype else array
