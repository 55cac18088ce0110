"""What ``--samples`` names becomes samples."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path

from converter.errors import UsageError
from converter.files.reading import reading
from converter.files.scrub import base_name
from converter.ir.model import TensorSpec
from converter.options.request import Request
from converter.preparation.suggested import with_columns
from converter.samples.base import Samples, Tokenize
from converter.samples.files import SOUNDS, SUFFIXES, ArraySamples, SampleFile
from converter.samples.generated import RandomSamples
from converter.samples.labels import are_by_file, labels_of_files, read_label_names
from converter.samples.noise import NoisySamples, is_noise, is_state

DEFAULT_RANDOM = 8
"""How many random samples a float conversion is checked on when the user gives none."""

_FUNCTION = re.compile(r"(.+\.py):([A-Za-z_]\w*)")


def require_there(request: Request) -> None:
    """Raises UsageError where ``--samples`` names nothing that is there, or files whose names are
    to say their labels and don't; none of them is read."""
    path = path_of("--samples", request.samples)
    if path is None:
        return
    if path.is_dir():
        if own := _own(path, request):
            _require_labels([], own, request)
            return
        arrays, images, sounds = _held(path, request.samples_pattern)
        _require_labels(arrays, images or sounds, request)
    elif path.suffix.lower() in SUFFIXES | SOUNDS:
        _require_labels([], [SampleFile(path, path.name)], request)


def path_of(option: str, source: str | None) -> Path | None:
    """The file or folder that an option of samples names; None where it names none.

    Raises:
        UsageError: It isn't there.
    """
    if source is None:
        return None
    if source.startswith("random:"):
        _count(source)
        return None
    match = _FUNCTION.fullmatch(source)
    path = Path(match[1] if match else source)
    if not path.exists():
        raise UsageError(
            f"{option} {source}: there is no such file or folder",
            code="file-not-found",
            hint="Samples are a file or folder, FILE.py:FUNCTION, or random:N.",
        )
    return path


def _require_labels(
    arrays: Sequence[SampleFile], images: Sequence[SampleFile], request: Request
) -> None:
    """Refuses files without a label. Which ones ``--skip-bad`` leaves out isn't known yet."""
    files = images[: request.samples_limit] if images else arrays
    if request.skip_bad or not (images or are_by_file(request.labels)):
        return
    names = read_label_names(request.label_names) if request.label_names else None
    labels_of_files([file.name for file in files], request.labels, names)


def load_samples(
    request: Request,
    inputs: tuple[TensorSpec, ...],
    sizes: Mapping[str, int],
    *,
    classes: tuple[str, ...] | None = None,
    tokenize: Tokenize | None = None,
) -> Samples:
    """The samples of a request, fitted to a model's inputs.

    What can be said without reading contents (names, shapes, dtypes) is checked here; contents
    are checked while iterating, so call :meth:`Samples.validate` before any long work.

    Args:
        request: Its ``samples*``, ``label*``, ``image_*`` and ``seed`` count; for a function
            also ``search_paths``.
        inputs: The model's inputs.
        sizes: Sizes of free dimensions (``--dim``).
        classes: The names of its classes that the model itself has; ``--label-names`` counts more.
        tokenize: The source's tokenizer, for a CSV of texts; None where it has none.

    Raises:
        UsageError: The samples aren't there, can't be read, or don't fit.
        DependencyError, MachineError: As for :class:`FunctionSamples`.
    """
    others = tuple(spec for spec in inputs if not is_noise(spec))
    if len(others) < len(inputs):
        return NoisySamples(load_samples(request, others, sizes), inputs, request.seed)
    if request.samples_limit is not None and request.samples_limit < 1:
        raise UsageError(
            f"--samples-limit {request.samples_limit}: expected at least 1", code="option-value"
        )
    with reading(f"--samples {base_name(request.samples or '')}", UsageError):
        try:
            return _load(request, inputs, sizes, classes, tokenize)
        except UsageError:  # of a model with a state as the source has it, which takes none
            others = tuple(spec for spec in inputs if not is_state(spec))
            if not others or len(others) == len(inputs):
                raise
            with suppress(UsageError):
                return NoisySamples(load_samples(request, others, sizes), inputs, request.seed)
            raise


def _load(
    request: Request,
    inputs: tuple[TensorSpec, ...],
    sizes: Mapping[str, int],
    classes: tuple[str, ...] | None,
    tokenize: Tokenize | None,
) -> Samples:
    names = read_label_names(request.label_names) if request.label_names else classes
    source = request.samples
    if source is None or source.startswith("random:"):
        return _random(request, inputs, sizes, names)
    if match := _FUNCTION.fullmatch(source):
        from converter.samples.function import FunctionSamples

        return FunctionSamples(Path(match[1]), match[2], inputs, request, label_names=names)
    require_there(request)
    path = Path(source)
    if own := _own(path, request):
        from converter.samples.own import OwnSamples

        origin = f"{len(own)} files of {path.resolve().name}"
        return OwnSamples(own, inputs, request, label_names=names, origin=origin)
    if path.is_dir():
        return _folder(path, request, inputs, sizes, names)
    if request.samples_pattern:
        raise UsageError(
            f"--samples-pattern needs a folder, and {path.name} isn't a folder", code="option-value"
        )
    return _file(path, request, inputs, sizes, names, tokenize)


def _own(path: Path, request: Request) -> list[SampleFile]:
    """The files that a function of the user's prepares; none where none is declared."""
    takes = [i.get("takes", "") for i in request.preparation if i.get("kind") == "step"]
    files = [SampleFile(path, path.name)]
    if takes and path.is_dir():
        files = _files(path, request.samples_pattern)
    others = {".npz", ".npy", *([".csv"] if "row" not in takes else [])}
    return [file for file in files if takes and file.path.suffix.lower() not in others]


def _count(asked: str) -> int:
    text = asked.removeprefix("random:")
    if not re.fullmatch(r"[1-9]\d{0,5}", text):
        raise UsageError(
            f"--samples {asked}: expected random:N, as in random:16, with N below 1,000,000",
            code="option-value",
        )
    return int(text)


def _random(
    request: Request,
    inputs: tuple[TensorSpec, ...],
    sizes: Mapping[str, int],
    names: tuple[str, ...] | None,
) -> Samples:
    count, asked = DEFAULT_RANDOM, request.samples
    if asked is not None:
        count = _count(asked)
    if request.samples_limit is not None:
        count = min(count, request.samples_limit)
    why = "" if asked else ", since no samples were given"
    origin = f"{count} random inputs (seed {request.seed}){why}"
    samples = RandomSamples(count, inputs, sizes, request.seed, origin)
    samples.label_names = names
    return samples


def _file(
    path: Path,
    request: Request,
    inputs: tuple[TensorSpec, ...],
    sizes: Mapping[str, int],
    names: tuple[str, ...] | None,
    tokenize: Tokenize | None,
) -> Samples:
    suffix = path.suffix.lower()
    file = SampleFile(path, path.name)
    if suffix in (".npz", ".npy"):
        return ArraySamples(
            [file],
            inputs,
            labels=request.labels,
            label_names=names,
            limit=request.samples_limit,
            origin=path.name,
            folder=False,
        )
    if suffix == ".csv" and _holds_texts(path, inputs):
        from converter.samples.texts import TextSamples

        return TextSamples(
            path,
            inputs,
            tokenize,
            sizes,
            labels=request.labels,
            label_names=names,
            limit=request.samples_limit,
        )
    if suffix == ".csv":
        from converter.samples.table import TableSamples

        return TableSamples(
            path,
            with_columns(inputs, request.preparation),
            sizes,
            labels=request.labels,
            label_names=names,
            limit=request.samples_limit,
        )
    if suffix in SUFFIXES:
        from converter.samples.images import ImageSamples

        return ImageSamples([file], inputs, request, sizes, label_names=names, origin=path.name)
    if suffix in SOUNDS:
        from converter.samples.sounds import SoundSamples

        return SoundSamples([file], inputs, request, label_names=names, origin=path.name)
    if suffix == ".py":
        raise UsageError(
            f"--samples {path.name}: name the function in it that makes the samples",
            code="choose-one",
            hint=f"Write {path.name}:FUNCTION.",
        )
    raise UsageError(
        f"--samples {path.name}: Modelyard doesn't know this kind of file "
        f"({suffix or 'no suffix'})",
        code="file-unreadable",
        hint="Samples are .npz, .npy, .csv, images, sounds, a folder of .npz, images or sounds, "
        "FILE.py:FUNCTION, or random:N.",
    )


def _holds_texts(path: Path, inputs: tuple[TensorSpec, ...]) -> bool:
    from converter.samples.texts import holds_texts

    return holds_texts(path, inputs)


def _folder(
    path: Path,
    request: Request,
    inputs: tuple[TensorSpec, ...],
    sizes: Mapping[str, int],
    names: tuple[str, ...] | None,
) -> Samples:
    arrays, images, sounds = _held(path, request.samples_pattern)
    where = f"{path.resolve().name}/"
    if images:
        origin = f"{len(images)} images of {where}"
        from converter.samples.images import ImageSamples

        return ImageSamples(images, inputs, request, sizes, label_names=names, origin=origin)
    if sounds:
        from converter.samples.sounds import SoundSamples

        origin = f"{len(sounds)} sounds of {where}"
        return SoundSamples(sounds, inputs, request, label_names=names, origin=origin)
    return ArraySamples(
        arrays,
        inputs,
        labels=request.labels,
        label_names=names,
        limit=request.samples_limit,
        origin=f"{len(arrays)} .npz files of {where}",
        folder=True,
        skip_bad=request.skip_bad,
    )


def _held(folder: Path, pattern: str | None) -> list[list[SampleFile]]:
    """The .npz files of a folder, its images and its sounds: two of the three are empty.

    Raises:
        UsageError: There are several kinds, or none.
    """
    files = _files(folder, pattern)
    kinds = {".npz files": {".npz"}, "images": SUFFIXES, "sounds": SOUNDS}
    found = [[f for f in files if f.path.suffix.lower() in ends] for ends in kinds.values()]
    where = f"{folder.resolve().name}/"
    there = [f"{len(held)} {kind}" for kind, held in zip(kinds, found, strict=True) if held]
    if len(there) > 1:
        raise UsageError(
            f"--samples {where} holds {' and '.join(there)}",
            code="choose-one",
            hint="Choose with --samples-pattern, as in '*.npz'.",
        )
    if not there:
        what = f" that match {pattern!r}" if pattern else ""
        raise UsageError(
            f"--samples {where} holds no images, no sounds and no .npz files{what}",
            code="samples-missing",
            hint=f"Images end in {', '.join(sorted(SUFFIXES))}, sounds in "
            f"{', '.join(sorted(SOUNDS))}.",
        )
    return found


def _files(folder: Path, pattern: str | None) -> list[SampleFile]:
    """The files in a folder and those below it, hidden ones left out, in an order that is the
    same everywhere."""
    found = []
    for path in folder.rglob("*"):
        name = path.relative_to(folder).as_posix().encode(errors="backslashreplace").decode()
        hidden = any(part.startswith(".") for part in name.split("/"))
        if hidden or (pattern and not fnmatchcase(path.name, pattern)):
            continue
        if path.is_file():
            found.append(SampleFile(path, name))
    return sorted(found, key=lambda file: file.name)
