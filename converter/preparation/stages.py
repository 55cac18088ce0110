"""From a user's file to a model's inputs, and from its outputs to an answer.

    stages = Stages.load()
    [item] = stages.items(body, "image/jpeg")    # several, of a multipart form
    feeds, seen = stages.prepare(item)           # arrays by the model's names
    answer = stages.answer(outputs, seen)        # what JSON has

What is done is declared: in ``stages.json`` beside this file, or by who calls. Python 3.10 or newer
and NumPy; besides, for what is declared alone, what :func:`packages_of` says: Pillow for pictures,
soundfile and soxr for sounds, and what reads a tokenizer's file for texts.
"""

from __future__ import annotations

import csv
import json
import math
import re
import struct
import sys
import zlib
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from email.parser import BytesParser
from importlib import import_module
from io import BytesIO, IOBase, StringIO
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO

import numpy as np

HERE = Path(__file__).resolve().parent
FILE = "stages.json"

Array = np.ndarray[Any, Any]
Arrays = dict[str, Array]
Known = Mapping[str, Any]
"""A part of a declaration."""

Run = Callable[[Mapping[str, Array]], Mapping[str, Array]]
"""Outputs by name of inputs by name."""

FORMATS = ("JPEG", "PNG", "BMP", "GIF", "WEBP", "TIFF", "PPM")
"""What picture files hold, in Pillow's words. It knows more, told by content alone: of an EPS, for
one, it runs Ghostscript."""

MOST_PIXELS = 178_956_970
"""Where Pillow refuses to decode a picture."""

MOST_RATE = 96_000
"""Values a second, all channels together, of the longest sound that is taken."""

FILTERS = {"nearest": 0, "lanczos": 1, "bilinear": 2, "bicubic": 3}
"""Pillow's numbers."""

MODES = {1: "L", 3: "RGB", 4: "RGBA"}
BYTE = 1 / 255
TYPES = {"picture": ("image/",), "sound": ("audio/",), "text": ("text/plain",),
         "row": ("text/csv",)}  # fmt: skip
"""What of a request's content type says that it is a kind; others say nothing."""

ANY = ("", "application/octet-stream", "application/x-www-form-urlencoded")
"""Content types of whoever doesn't say; the last is curl's."""

_DAMAGED = (OSError, SyntaxError, ValueError, TypeError, EOFError, struct.error, zlib.error)
_COLORS = {"1", "L", "LA", "La", "P", "PA", "RGB", "RGBA", "RGBa", "RGBX", "YCbCr"}
_DEEP = ("I", "F")


class StageError(ValueError):
    """What was sent can't be prepared: the sender's mistake, told in one line.

    Attributes:
        hint: What to do about it, in the words of the command line; may be empty.
        status: HTTP's.
    """

    def __init__(self, told: str, hint: str = "", status: int = 400) -> None:
        super().__init__(told if len(told) <= 400 else f"{told[:400]}...")
        self.hint, self.status = hint, status


class MissingPackage(ImportError):
    """A package that isn't installed; ``name`` is pip's."""


@dataclass(frozen=True)
class Item:
    """One of a request's files.

    Attributes:
        kind: ``picture``, ``sound``, ``text`` or ``row``.
        data: Its bytes, or a text.
        name: What messages call it.
        pair: A second text; None without one.
    """

    kind: str
    data: Any
    name: str
    pair: str | None = None


@dataclass(frozen=True)
class Seen:
    """What of a file its answer needs.

    Attributes:
        size: Width and height of a picture, upright.
        scale, offset: Of x and of y: in the model's picture it is ``x * scale + offset``.
        seconds: Of a sound.
        feeds: The arrays.
    """

    size: tuple[int, int] = (0, 0)
    scale: tuple[float, float] = (1.0, 1.0)
    offset: tuple[float, float] = (0.0, 0.0)
    seconds: float = 0.0
    feeds: Arrays = field(default_factory=dict)


class Stages:
    """What a declaration says, done; safe to call from several threads.

    Args:
        declared: See ``converter/preparation/declared.py``, as JSON: ``prepare``, ``answer``, and
            ``limits`` where there are some. A package's has ``stored`` besides: of inputs and
            outputs the dtype, and where their integers stand for real numbers ``scale`` and
            ``zero_point``.
        folder: Where a tokenizer's file lies.
    """

    def __init__(self, declared: Known, folder: Path = HERE) -> None:
        self.declared, self._folder = declared, folder
        self._limits: Known = declared.get("limits") or {}
        self._stored = {item["name"]: item for item in declared.get("stored", ())}
        self._tokenizers: dict[str, Any] = {}
        self._tables = {
            known["input"]: value_table(known).astype(np.float32)
            for known in declared["prepare"]
            if known["kind"] == "picture"
        }
        self._functions: dict[str, Any] = {}

    @classmethod
    def load(cls, folder: Path = HERE) -> Stages:
        """Those of a package; what they need is imported at once."""
        made = cls(json.loads((folder / FILE).read_text("utf-8")), folder)
        for known in made.declared["prepare"]:
            for name in packages_of(known["kind"]):
                _library(name)
        for known in (*made.declared["prepare"], *made.declared["answer"]):
            if known["kind"] == "step":
                made._function(known)
        return made

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of files that it takes."""
        kinds = map(kind_of, self.declared["prepare"])
        return tuple(kind for kind in kinds if kind in TYPES)

    def takes(self, content_type: str) -> bool:
        """Whether a request of that type is a file, or a form of files, and no JSON."""
        return content_type.partition(";")[0].strip().lower() != "application/json"

    # -- in --------------------------------------------------------------------------

    def items(self, body: bytes, content_type: str = "", name: str = "the body") -> list[Item]:
        """The files of a request, which messages call by ``name``.

        Raises:
            StageError: It is of a type that isn't taken, empty, or too large.
        """
        asked = content_type.partition(";")[0].strip().lower()
        most = self._limits.get("bytes")
        if most is not None and len(body) > most:
            raise StageError(f"{len(body):,} bytes came, and at most {most:,} are taken", "", 413)
        if asked.startswith("multipart/"):
            return list(self._of_form(body, content_type))
        return [self._item(body, asked, name)]

    def _of_form(self, body: bytes, content_type: str) -> Iterator[Item]:
        """A form's files. It is split by hand (RFC 7578): Python's parser of mail takes a body line
        by line, minutes and gigabytes of one that is all line breaks."""
        said = f"Content-Type: {content_type}\r\n\r\n".encode()
        boundary = BytesParser().parsebytes(said).get_boundary("").encode("ascii", "replace")
        most = self._limits.get("files", len(body))
        parts = (b"\r\n" + body).split(b"\r\n--" + boundary, most + 1)[1:] if boundary else []
        if not parts or parts[0].startswith(b"--"):
            raise StageError("the form holds no file")
        if len(parts) > most and not parts[-1].startswith(b"--"):
            raise StageError(f"the form holds more than {most} files", "", 413)
        if not parts[-1].startswith(b"--"):
            raise StageError("the form is cut short")
        for number, part in enumerate(parts[:-1], 1):
            head, _, data = part.partition(b"\r\n\r\n")
            known = BytesParser().parsebytes(head.lstrip() + b"\r\n\r\n")
            name = known.get_filename() or f"file {number}"
            kind = known.get_content_type() if "content-type" in known else ""
            coded = str(known.get("content-transfer-encoding", "binary")).lower()
            if coded not in ("binary", "8bit", "7bit"):
                raise StageError(f"{name} is sent as {coded}: send its own bytes", "", 415)
            yield self._item(data, kind, name)

    def _item(self, data: bytes, content_type: str, name: str) -> Item:
        kind = next((k for k in self.kinds if content_type.startswith(TYPES[k])), None)
        if kind is None and (content_type in ANY or not content_type):
            kind = self.kinds[0] if self.kinds else None
        if kind is None:
            kinds = " or ".join(self.kinds) or "arrays in JSON"
            raise StageError(f"{name} is {content_type}, and the model takes {kinds}", "", 415)
        if not data:
            raise StageError(f"{name} is empty")
        if kind not in ("text", "row"):
            return Item(kind, data, name)
        try:
            return Item(kind, data.decode("utf-8-sig"), name)
        except UnicodeDecodeError as error:
            raise StageError(f"{name} is no text in UTF-8: {error}") from error

    def prepare(self, item: Item) -> tuple[Arrays, Seen]:
        """A file as the model's inputs.

        Returns:
            Arrays by the model's names, with the batch first: a row for a file, or one for each
            window of a sound and each line of a table; and what its answer needs.

        Raises:
            StageError: It can't be read, or the model can't take it.
            MissingPackage: What reads it isn't installed.
        """
        for known in self.declared["prepare"]:
            if kind_of(known) == item.kind:
                feeds, seen = getattr(self, f"_{known['kind']}")(known, item)
                break
        else:
            kinds = " or ".join(self.kinds) or "arrays"
            raise StageError(f"the model takes {kinds}, and a {item.kind} came")
        for known in self.declared["prepare"]:
            if known["kind"] in ("constant", "state"):
                feeds[known["input"]] = np.full(known["shape"], known["value"], known["dtype"])
        feeds = self.stored(feeds)
        return feeds, Seen(seen.size, seen.scale, seen.offset, seen.seconds, feeds)

    @property
    def in_turn(self) -> bool:
        """Whether a file's windows run one by one, since each needs what the one before gave."""
        return any(known["kind"] == "state" for known in self.declared["prepare"])

    def run(self, run: Run, feeds: Arrays) -> Mapping[str, Array]:
        """The model's outputs for a file that was prepared.

        Args:
            run: What runs the model.
            feeds: The file's arrays.
        """
        states = [known for known in self.declared["prepare"] if known["kind"] == "state"]
        if not states:
            return run(feeds)
        known = next(known for known in self.declared["prepare"] if known["kind"] == "sound")
        along, feeds, found = (known["input"], known.get("mask")), dict(feeds), []
        for row in range(len(feeds[known["input"]])):
            found.append(run({n: a[row : row + 1] if n in along else a for n, a in feeds.items()}))
            for state in states:
                left = self._as_real(state["next"], found[-1][state["next"]])
                feeds[state["input"]] = self._as_stored(state["input"], left)
        last = {state["next"] for state in states}
        return {
            name: array if name in last else np.concatenate([np.atleast_1d(f[name]) for f in found])
            for name, array in found[-1].items()
        }

    def stored(self, feeds: Mapping[str, Array]) -> Arrays:
        """Arrays in the types of the artifact's own inputs."""
        return {name: self._as_stored(name, array) for name, array in feeds.items()}

    def _as_stored(self, name: str, array: Array) -> Array:
        """In the type of the artifact's own input."""
        said = self._stored.get(name)
        if said is None or said["dtype"] == "string":
            return array
        if said.get("scale") is not None and array.dtype.kind == "f":
            ends = np.iinfo(said["dtype"])
            array = np.rint(array / said["scale"]) + said["zero_point"]
            return array.clip(ends.min, ends.max).astype(said["dtype"])
        return array.astype(said["dtype"], copy=False)

    def _picture(self, known: Known, item: Item) -> tuple[Arrays, Seen]:
        file = BytesIO(item.data) if isinstance(item.data, bytes) else item.data
        most = self._limits.get("pixels", MOST_PIXELS)
        array, seen = read_picture(known, file, item.name, self._tables[known["input"]], most)
        return {known["input"]: array[np.newaxis]}, seen

    def _sound(self, known: Known, item: Item) -> tuple[Arrays, Seen]:
        wave, seconds = read_sound(known, item.data, item.name, self._limits.get("seconds"))
        array, feeds = framed(known, wave), {}
        if known.get("spectrum"):
            array = spectra(known["spectrum"], array, known["rate"])
        if known.get("mask"):
            feeds[known["mask"]] = framed(known, np.ones(wave.shape, np.int64))
        if known.get("channel"):
            array = np.expand_dims(array, 1 if known["channel"] == "first" else 2)
        return {known["input"]: array, **feeds}, Seen(seconds=seconds)

    def _text(self, known: Known, item: Item) -> tuple[Arrays, Seen]:
        most = self._limits.get("letters")
        count = len(item.data) + len(item.pair or "")
        if most is not None and count > most:
            raise StageError(f"{count:,} letters came, and at most {most:,} are taken", "", 413)
        if known["file"] not in self._tokenizers:
            self._tokenizers[known["file"]] = tokenizer_of(known, self._folder)
        made = self._tokenizers[known["file"]].encode(item.data, item.pair)
        feeds = {}
        for part in known["inputs"]:
            values = list(getattr(made, part["of"]))
            values += [part["fill"]] * ((known["length"] or 0) - len(values))
            feeds[part["name"]] = np.array([values], part["dtype"])
        return feeds, Seen()

    def _row(self, known: Known, item: Item) -> tuple[Arrays, Seen]:
        return read_rows(known, item.data, item.name, self._limits.get("rows")), Seen()

    def _step(self, known: Known, item: Item) -> tuple[Arrays, Seen]:
        data = item.data.read_bytes() if isinstance(item.data, Path) else item.data
        if item.kind in ("text", "row") and isinstance(data, bytes):
            data = data.decode("utf-8-sig")
        found = self._done(known, data)
        return {name: np.asarray(array) for name, array in found.items()}, Seen()

    def _done(self, known: Known, *given: Any) -> dict[str, Any]:
        """What a user's function makes."""
        function = self._function(known)
        try:
            return dict(function(*given))
        except ValueError as error:
            raise StageError(f"{known['step']}: {error}") from error
        except Exception as error:
            told = f"{known['step']} failed: {type(error).__name__}: {error}"
            raise StageError(told, "", 500) from error

    def _function(self, known: Known) -> Any:
        if known["step"] not in self._functions:
            self._functions[known["step"]] = function_of(known, self._folder)
        return self._functions[known["step"]]

    # -- out -------------------------------------------------------------------------

    def answer(self, outputs: Mapping[str, Array], seen: Seen) -> dict[str, Any]:
        """What the outputs of one file mean, as JSON has it; all outputs, where nothing says it."""
        real = self.real(outputs)
        made: dict[str, Any] = {}
        for known in self.declared["answer"]:
            if known["kind"] == "step":
                made |= self._done(known, real, seen)
            else:
                made |= ANSWERS[known["kind"]](known, real, seen)
        return made or {name: array.tolist() for name, array in real.items()}

    def real(self, outputs: Mapping[str, Array]) -> Arrays:
        """Outputs as the real numbers that they stand for."""
        return {name: self._as_real(name, array) for name, array in outputs.items()}

    def _as_real(self, name: str, array: Array) -> Array:
        said = self._stored.get(name) or {}
        if said.get("scale") is None or array.dtype.kind not in "iu":
            return array
        return np.asarray((array.astype(np.float64) - said["zero_point"]) * said["scale"])


def kind_of(known: Known) -> str:
    """The kind of files that a part of preparation takes."""
    return str(known["takes"] if known["kind"] == "step" else known["kind"])


def function_of(known: Known, folder: Path) -> Any:
    """A user's function, by its file's text, or by the file in a folder."""
    file, _, name = known["step"].rpartition(":")
    code = known.get("code") or (folder / file).read_text("utf-8")
    module = ModuleType(f"step_{Path(file).stem}")
    sys.modules[module.__name__] = module
    try:
        exec(compile(code, file, "exec"), module.__dict__)
    except ImportError as error:
        told = f"{file} needs the package {error.name}"
        raise MissingPackage(told, name=error.name or file) from error
    if not callable(getattr(module, name, None)):
        raise StageError(f"{file} has no function {name}", "", 500)
    return getattr(module, name)


def packages_of(kind: str) -> tuple[str, ...]:
    """What reads a kind of files, by the names of modules."""
    known = {"picture": ("PIL",), "sound": ("soundfile", "soxr"), "text": ("tokenizers",)}
    return known.get(kind, ())


def _library(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        wanted = {"PIL": "pillow"}.get(name, name)
        raise MissingPackage(f"it needs the package {wanted}", name=wanted) from error


# -- pictures --------------------------------------------------------------------------


def value_table(known: Known) -> Array:
    """What each value of 8 bits becomes, float64, [channels, 256]."""
    values = np.arange(256, dtype=np.float64)
    scaled = values / 255 if known["scale"] == BYTE else values * known["scale"]
    mean, std = (np.asarray(known[part])[:, np.newaxis] for part in ("mean", "std"))
    return np.asarray((scaled - mean) / std)


def read_picture(
    known: Known, file: Path | BinaryIO, name: str, table: Array, most: int = MOST_PIXELS
) -> tuple[Array, Seen]:
    """One picture as an input, without a batch.

    Resizing and cutting follow torchvision's ``Resize`` and ``CenterCrop``: the longer side is
    rounded down, the crop's corner to the nearest.

    Args:
        known: How it is prepared.
        file: The encoded picture.
        name: What messages call it.
        table: What each value becomes, [channels, 256]; its type is the result's.
        most: Pixels that it may have.

    Returns:
        [channels, height, width] or [height, width, channels]; where its pixels came from.

    Raises:
        StageError: It is truncated or of a kind that would have to be guessed about: 16-bit, CMYK,
            animated, transparent where the model sees no transparency; or it doesn't come to its
            size.
    """
    pixels, seen = read_pixels(known, file, name, MODES[len(table)], most)
    return valued(known, pixels, table), seen


def valued(known: Known, pixels: Array, table: Array) -> Array:
    """Pixels, [height, width, channels], as an input, without a batch."""
    if known["color"].startswith("bgr"):
        pixels = pixels[..., [2, 1, 0, 3][: len(table)]]
    planes = [table[channel][pixels[..., channel]] for channel in range(len(table))]
    return np.stack(planes, axis=0 if known["layout"] == "CHW" else -1)


def read_pixels(
    known: Known, file: Path | BinaryIO, name: str, mode: str, most: int
) -> tuple[Array, Seen]:
    """The pixels as uint8, [height, width, channels]; ``mode`` is Pillow's."""
    if not isinstance(file, (Path, IOBase)):
        return fit(_in_mode(file, mode, name), known, name)
    return fit(_in_mode(open_picture(file, name, most), mode, name), known, name)


def open_picture(file: Path | BinaryIO, name: str, most: int = MOST_PIXELS) -> Any:
    """Pillow's image of a file, upright; see :func:`read_picture`."""
    library, ops = _library("PIL.Image"), _library("PIL.ImageOps")
    bomb = library.DecompressionBombError
    try:
        with library.open(file, formats=FORMATS) as image:
            _check_kind(image, name, most)
            image.load()
            return ops.exif_transpose(image)
    except bomb as error:
        raise StageError(f"{name}: {error}", "Make it smaller.", 413) from error
    except StageError:
        raise
    except _DAMAGED as error:
        raise StageError(
            f"{name} can't be read: it is truncated, or no image of these kinds: "
            f"{', '.join(FORMATS)} ({_one_line(error)})",
            "Repair it, or leave such files out with --skip-bad.",
        ) from error


def _one_line(error: BaseException) -> str:
    """What an error says, without where something lies in memory."""
    return " ".join(str(error).split()).partition(" <_io.")[0]


def _check_kind(image: Any, name: str, most: int) -> None:
    """Refuses images that 8-bit pixels can't stand for, and larger ones than are taken."""
    raw = [str(tile[3]) for tile in getattr(image, "tile", ())]
    if image.mode.startswith(_DEEP) or any(";16" in item for item in raw):
        raise StageError(
            f"{name} has more than 8 bits a channel ({image.mode})",
            "Convert it to 8 bits first, by the scale that the model was trained with.",
        )
    if image.mode not in _COLORS:
        raise StageError(
            f"{name} is in the colour space {image.mode}",
            "Convert it to RGB first, with its colour profile.",
        )
    frames = getattr(image, "n_frames", 1)
    if frames > 1 and image.format != "MPO":  # a phone's JPEG: the photo comes first
        raise StageError(f"{name} holds {frames} frames", "Save the one that is meant.")
    if image.width * image.height > most:
        raise StageError(
            f"{name} has {image.width} x {image.height} pixels, and at most {most:,} are taken",
            "Make it smaller.",
            413,
        )


def _in_mode(image: Any, mode: str, name: str) -> Any:
    if image.has_transparency_data and mode != "RGBA":
        if image.convert("RGBA").getchannel("A").getextrema() != (255, 255):
            raise StageError(
                f"{name} has transparent pixels, and the model takes {mode}",
                "Put it on a background first.",
            )
        image = image.convert("RGBA").convert("RGB")
    return image if image.mode == mode else image.convert(mode)


def fit(image: Any, known: Known, name: str) -> tuple[Array, Seen]:
    """The pixels of Pillow's image, resized, and cut or filled up: [height, width, channels]."""
    framed_, seen = _frame(image, known, name)
    pixels = np.asarray(framed_)
    return (pixels[..., np.newaxis] if pixels.ndim == 2 else pixels), seen


def _frame(image: Any, known: Known, name: str) -> tuple[Any, Seen]:
    size = image.size
    wanted = (known["width"] or image.width, known["height"] or image.height)
    before = _size_to_resize(size, known, wanted)
    if before[0] * before[1] > MOST_PIXELS:
        raise StageError(
            f"{name} of {size[1]}x{size[0]} would be {before[1]}x{before[0]} when resized",
            "Cut it first, or resize to HxW (--image-resize).",
        )
    if before != size:
        image = image.resize(before, FILTERS[known["interpolation"]])
    scale = (before[0] / size[0], before[1] / size[1])
    if known.get("fill") is not None:
        wanted = (known["width"] or before[0], known["height"] or before[1])
        left, top = (round((w - b) / 2 - 0.1) for w, b in zip(wanted, before, strict=True))
        color = (known["fill"],) * len(image.getbands())
        whole = _library("PIL.Image").new(image.mode, wanted, color)
        whole.paste(image, (left, top))
        return whole, Seen(size, scale, (left, top))
    if known["width"] is None or known["height"] is None:
        wanted = (known["width"] or before[0], known["height"] or before[1])
    if before == wanted:
        return image, Seen(size, scale)
    found = f"{name} is {before[1]}x{before[0]} after resizing, the model's image"
    if not known["crop"]:
        raise StageError(
            f"{found} is {wanted[1]}x{wanted[0]}",
            "Resize to HxW (--image-resize), or cut with --image-crop center.",
        )
    if before[0] < wanted[0] or before[1] < wanted[1]:
        raise StageError(
            f"{found} of {wanted[1]}x{wanted[0]} can't be cut out of it",
            "Give a larger --image-resize.",
        )
    left, top = (round((b - w) / 2) for w, b in zip(wanted, before, strict=True))
    cut = image.crop((left, top, left + wanted[0], top + wanted[1]))
    return cut, Seen(size, scale, (-left, -top))


def _size_to_resize(
    size: tuple[int, int], known: Known, wanted: tuple[int, int]
) -> tuple[int, int]:
    """Width and height to resize to, as Pillow wants them."""
    resize = known["resize"]
    if known.get("longest"):
        ratio, step = min(1.0, known["longest"] / max(size)), known["multiple"]
        return (max(step, round(size[0] * ratio / step) * step),
                max(step, round(size[1] * ratio / step) * step))  # fmt: skip
    if known.get("fill") is not None:  # letterboxed: as large as fits
        ratio = min(wanted[0] / size[0], wanted[1] / size[1])
        return max(1, round(size[0] * ratio)), max(1, round(size[1] * ratio))
    if resize is None:
        return wanted
    if not isinstance(resize, int):
        return resize[1], resize[0]
    if size[0] <= size[1]:
        return resize, max(1, resize * size[1] // size[0])
    return max(1, resize * size[0] // size[1]), resize


# -- sounds ----------------------------------------------------------------------------


def read_sound(
    known: Known, data: Any, name: str, longest: float | None = None
) -> tuple[Array, float]:
    """A sound as float32, one channel at the model's rate, and its seconds.

    Args:
        known: How it is prepared.
        data: A file's bytes or path (WAV, FLAC, OGG, MP3: what libsndfile reads).
        name: What messages call it.
        longest: Seconds that it may have.

    Raises:
        StageError: It can't be read, is empty, or too long.
    """
    soxr = _library("soxr")
    wave, rate = decoded(data, name, longest)
    mono = wave.mean(axis=1, dtype=np.float32)
    if rate != known["rate"]:
        mono = soxr.resample(mono, rate, known["rate"], quality="HQ")
    if known["normalize"]:  # as Wav2Vec2's feature extractor does
        mono = (mono - mono.mean()) / np.sqrt(mono.var() + 1e-7)
    return np.ascontiguousarray(mono, np.float32), len(wave) / rate


def decoded(data: Any, name: str, longest: float | None = None) -> tuple[Array, int]:
    """A sound as it is, float32, [samples, channels], and its samples a second; as
    :func:`read_sound`."""
    soundfile = _library("soundfile")
    try:
        with soundfile.SoundFile(BytesIO(data) if isinstance(data, bytes) else data) as file:
            seconds = file.frames / file.samplerate
            if longest is not None and seconds > longest:
                raise StageError(
                    f"{name} is {seconds:,.0f} seconds long, and at most {longest:,.0f} are taken",
                    "Cut it first.",
                    413,
                )
            _check_sound(file, name, longest)
            wave = file.read(dtype="float32", always_2d=True)
            if len(wave) < file.frames and file.format != "MP3":  # whose length is a guess
                raise StageError(f"{name} is cut short", "Send all of it.")
    except (soundfile.SoundFileError, TypeError, OSError, ZeroDivisionError) as error:
        raise StageError(f"{name} can't be read as a sound: {_one_line(error)}") from error
    if not len(wave):
        raise StageError(f"{name} holds no sound")
    return wave, file.samplerate


def as_wave(wave: Array, rate: int) -> bytes:
    """Samples, [samples, channels], as a WAV file of float32."""
    file = BytesIO()
    _library("soundfile").write(file, wave, rate, format="WAV", subtype="FLOAT")
    return file.getvalue()


def _check_sound(file: Any, name: str, longest: float | None) -> None:
    """Refuses a sound of more values than so many seconds have, and a WAV file whose header tells
    of more than there is: libsndfile reads what it finds. Pipes write headers that don't know."""
    if longest is not None and file.frames * file.channels > longest * MOST_RATE:
        raise StageError(
            f"{name} holds {file.frames * file.channels:,} values in {file.channels} channels, "
            f"and at most {longest * MOST_RATE:,.0f} are taken", "Cut it first.", 413,
        )  # fmt: skip
    said = re.search(r"^data : (\d+) \(should be (\d+)\)", file.extra_info, re.MULTILINE)
    told, there = map(int, said.groups()) if said else (0, 0)
    if told > there and not any(end - 0x1000 <= told <= end for end in (2**31 - 1, 2**32 - 1)):
        raise StageError(
            f"{name} is cut short: of {told:,} bytes that its header tells of, there are {there:,}",
            "Send all of it.",
        )


def framed(known: Known, wave: Array) -> Array:
    """A sound as the model takes it: [windows, length], or [1, samples] without windows.

    Windows start ``before`` samples of silence early, follow one another by ``hop``, and go on
    until ``after`` samples of silence behind the sound are in one.
    """
    length, hop = known["length"], known["hop"]
    if length is None:
        return wave[np.newaxis]
    if hop is None:  # one window: cut, or filled up
        wave = wave[:length]
        return np.pad(wave, (0, length - len(wave)))[np.newaxis]
    total = known["before"] + len(wave) + known["after"]
    count = max(1, math.ceil((total - (length - hop)) / hop))
    whole = np.zeros((count - 1) * hop + length, wave.dtype)
    part = wave[: len(whole) - known["before"]]
    whole[known["before"] : known["before"] + len(part)] = part
    return np.ascontiguousarray(np.lib.stride_tricks.sliding_window_view(whole, length)[::hop])


def spectra(known: Known, windows: Array, rate: int) -> Array:
    """Each window's spectrum, float32, [windows, bins, frames].

    The formulas are librosa's (``stft``, ``filters.mel``), as its documentation has them.
    """
    size, hop = known["size"], known["hop"]
    if known["center"]:
        if windows.shape[1] <= size // 2:
            raise StageError(f"a sound of {windows.shape[1]} samples is shorter than half a frame")
        windows = np.pad(windows, ((0, 0), (size // 2, size // 2)), mode="reflect")
    if windows.shape[1] < size:
        raise StageError(f"a sound of {windows.shape[1]} samples is shorter than a frame")
    frames = np.lib.stride_tricks.sliding_window_view(windows, size, axis=1)[:, ::hop]
    turns = 2 * np.pi * np.arange(size) / size
    middle = {"hann": 0.5, "hamming": 0.54, "ones": 1.0}[known["window"]]
    shape = middle - (1 - middle) * np.cos(turns)
    found = np.abs(np.fft.rfft(frames.astype(np.float64) * shape, axis=-1)) ** known["power"]
    if known["drop_last"]:
        found = found[:, :-1]
    if known["mels"] is not None:
        found = found @ mel_bands(known, rate).T
    if known["log"]:
        found = np.log(np.maximum(found, known["floor"])) * LOGS[known["log"]]
    if known["span"] is not None:
        found = np.maximum(found, found.max(axis=(1, 2), keepdims=True) - known["span"])
    found = (found + known["shift"]) * known["gain"]
    return np.asarray(found if known["frames_first"] else found.swapaxes(1, 2), np.float32)


LOGS = {"ln": 1.0, "log10": 1 / math.log(10), "db": 10 / math.log(10)}
"""What a natural logarithm is times, by the names of others."""


def mel_bands(known: Known, rate: int) -> Array:
    """What each bin counts in each band: triangles, [bands, bins]."""
    high = rate / 2 if known["high"] is None else known["high"]
    low, top = (float(_mel(np.array(hz), known["scale"])) for hz in (known["low"], high))
    places = _hertz(np.linspace(low, top, known["mels"] + 2), known["scale"])
    bins = np.linspace(0, rate / 2, known["size"] // 2 + 1)
    rising = (bins - places[:-2, np.newaxis]) / np.diff(places)[:-1, np.newaxis]
    falling = (places[2:, np.newaxis] - bins) / np.diff(places)[1:, np.newaxis]
    bands = np.maximum(0, np.minimum(rising, falling))
    if known["norm"]:
        bands *= (2 / (places[2:] - places[:-2]))[:, np.newaxis]
    return np.asarray(bands)


def _mel(hertz: Array, scale: str) -> Array:
    if scale == "htk":
        return np.asarray(2595 * np.log10(1 + hertz / 700))
    above = 15 + np.log(np.maximum(hertz, 1e-9) / 1000) * 27 / math.log(6.4)
    return np.where(hertz < 1000, hertz * 3 / 200, above)


def _hertz(mel: Array, scale: str) -> Array:
    if scale == "htk":
        return np.asarray(700 * (10 ** (mel / 2595) - 1))
    return np.where(mel < 15, mel * 200 / 3, 1000 * np.exp((mel - 15) * math.log(6.4) / 27))


# -- texts and tables ------------------------------------------------------------------


def tokenizer_of(known: Known, folder: Path) -> Any:
    """The tokenizer of a text, set up as the model wants it.

    Raises:
        StageError: Its file isn't there.
    """
    (name,) = packages_of(known["kind"])
    library, file = _library(name), folder / known["file"]
    if not file.is_file():
        raise StageError(f"{file} isn't there, which makes tokens of a text")
    made = library.Tokenizer.from_file(str(file))
    made.no_padding()
    if known["longest"] is None:
        made.no_truncation()
    else:
        made.enable_truncation(known["longest"])
    return made


def read_rows(known: Known, text: str, name: str, most: int | None = None) -> Arrays:
    """The lines of a CSV with a header as inputs, a row each.

    Raises:
        StageError: A column is missing, a line is cut off, or a value is no number.
    """
    try:
        lines = [line for line in csv.reader(StringIO(text), strict=True) if line]
    except csv.Error as error:
        raise StageError(f"{name} is no CSV: {error}") from error
    if len(lines) < 2:
        raise StageError(f"{name} has no line below its header")
    header = [cell.strip() for cell in lines[0]]
    if most is not None and len(lines) - 1 > most:
        raise StageError(
            f"{name} has {len(lines) - 1} lines, and at most {most} are taken", "", 413
        )
    wanted = [column for part in known["inputs"] for column in part["columns"]]
    if missing := [column for column in wanted if column not in header]:
        raise StageError(f"{name} lacks the columns {', '.join(missing[:10])}")
    for number, line in enumerate(lines[1:], 2):
        if len(line) != len(header):
            raise StageError(f"{name}, line {number}: {len(line)} values for {len(header)} columns")
    feeds = {}
    for part in known["inputs"]:
        places = [header.index(column) for column in part["columns"]]
        cells = [[line[place] for place in places] for line in lines[1:]]
        feeds[part["name"]] = _numbers(cells, part, name)
    return feeds


def _numbers(cells: Sequence[Sequence[str]], part: Known, name: str) -> Array:
    if part["dtype"] == "string":
        return np.array(cells, object)
    dtype = np.dtype(part["dtype"])
    found = np.empty((len(cells), len(part["columns"])), dtype)
    for row, line in enumerate(cells):
        for place, cell in enumerate(line):
            try:
                number = float(cell) if cell.strip() or dtype.kind != "f" else math.nan
                found[row, place] = number if dtype.kind == "f" else int(cell)
            except (ValueError, OverflowError) as error:
                column = part["columns"][place]
                raise StageError(f"{name}, line {row + 2}: {column} is {cell!r}") from error
    return found


# -- answers ---------------------------------------------------------------------------


def activated(values: Array, activation: str) -> Array:
    """Probabilities of logits, float64, along the last axis."""
    values = values.astype(np.float64)
    if activation == "softmax":
        values = np.exp(values - values.max(axis=-1, keepdims=True))
        return np.asarray(values / values.sum(axis=-1, keepdims=True))
    return np.asarray((1 + np.tanh(values / 2)) / 2 if activation == "sigmoid" else values)


def classes(known: Known, outputs: Mapping[str, Array], seen: Seen) -> dict[str, Any]:
    """The best classes, the best first; of several rows a list each."""
    values = outputs[known["output"]]
    rows = activated(values.reshape(-1, values.shape[-1]), known["activation"])
    labels = known["labels"]
    found = []
    for row in rows:
        best = np.argsort(-row, kind="stable")[: known["top"]]
        found.append([
            {"index": int(i), "score": float(row[i]), **_labelled(labels, int(i))} for i in best
        ])  # fmt: skip
    return {"classes": found[0] if len(found) == 1 else found}


def _labelled(labels: Sequence[str], index: int) -> dict[str, str]:
    return {"label": labels[index]} if 0 <= index < len(labels) else {}


def boxes(known: Known, outputs: Mapping[str, Array], seen: Seen) -> dict[str, Any]:
    """What was found, in the picture's own pixels: x0, y0, x1, y1, the best first."""
    found = [
        {"box": [round(float(v), 2) for v in box], "score": float(score), "index": int(number),
         **_labelled(known["labels"], int(number))}
        for box, score, number in zip(*found_boxes(known, outputs, seen), strict=True)
    ]  # fmt: skip
    return {"boxes": found}


def found_boxes(
    known: Known, outputs: Mapping[str, Array], seen: Seen
) -> tuple[Array, Array, Array]:
    """Corners in the picture's own pixels, [n, 4]; scores and classes, [n]; the best first."""
    places, scores, index = _candidates(known, outputs)
    keep = scores >= known["threshold"]
    corners = _corners(places[keep].astype(np.float64), known, seen)
    scores, index = scores[keep], index[keep]
    chosen = suppressed(corners, scores, index, known["iou"])[: known["most"]]
    if seen.size != (0, 0):
        corners = corners.clip(0, [*seen.size, *seen.size])
    return corners[chosen], scores[chosen], index[chosen]


def _candidates(known: Known, outputs: Mapping[str, Array]) -> tuple[Array, Array, Array]:
    """Boxes [n, 4], the best class's score of each, and which it is."""
    found = outputs[known["output"]]
    found = found.reshape(found.shape[-2:])
    if known["transposed"]:
        found = found.T
    places, rest = found[:, :4], found[:, 4:]
    if known["scores"]:
        rest = outputs[known["scores"]]
        rest = rest.reshape(len(places), max(1, rest.size // max(len(places), 1)))
    if known["classes"]:
        return places, rest[:, 0], outputs[known["classes"]].reshape(-1)
    factor: Any = 1.0
    if known["objectness"]:
        factor, rest = activated(rest[:, 0], known["activation"]), rest[:, 1:]
    if known["activation"]:
        rest = activated(rest, known["activation"])
    if known["background"]:
        rest = rest[:, :-1]
    index = rest.argmax(axis=-1)
    return places, rest[np.arange(len(rest)), index] * factor, index


def _corners(places: Array, known: Known, seen: Seen) -> Array:
    """Corners in the picture's own pixels."""
    a, b, c, d = places.T
    shapes = {
        "xyxy": (a, b, c, d),
        "yxyx": (b, a, d, c),
        "xywh": (a, b, a + c, b + d),
        "cxcywh": (a - c / 2, b - d / 2, a + c / 2, b + d / 2),
    }
    corners = np.stack(shapes[known["format"]], axis=-1)
    if known["relative"]:
        height, width = input_size(seen)
        corners = corners * np.array([width, height, width, height])
    scale, offset = np.array([*seen.scale] * 2), np.array([*seen.offset] * 2)
    return np.asarray((corners - offset) / scale)


def input_size(seen: Seen) -> tuple[int, int]:
    """Height and width of the model's picture."""
    shape = next((array.shape for array in seen.feeds.values() if array.ndim == 4), (0, 1, 1, 1))
    return (shape[1], shape[2]) if shape[-1] in (1, 3, 4) else (shape[2], shape[3])


def suppressed(corners: Array, scores: Array, index: Array, iou: float | None) -> list[int]:
    """Non-maximum suppression by class: the kept boxes' numbers, the best first.

    Args:
        corners: [n, 4].
        scores, index: [n]; a box is only suppressed by one of its class.
        iou: The least overlap that is too much; None for none.
    """
    order = np.argsort(-scores, kind="stable")
    if iou is None:
        return [int(i) for i in order]
    sizes = np.prod(np.maximum(corners[:, 2:] - corners[:, :2], 0), axis=1)
    kept: list[int] = []
    while len(order):
        first, others = order[0], order[1:]
        kept.append(int(first))
        low = np.maximum(corners[first, :2], corners[others, :2])
        high = np.minimum(corners[first, 2:], corners[others, 2:])
        shared = np.prod(np.maximum(high - low, 0), axis=1)
        joined = sizes[first] + sizes[others] - shared
        apart = (shared <= iou * joined) | (index[others] != index[first])
        order = others[apart]
    return kept


def regions(known: Known, outputs: Mapping[str, Array], seen: Seen) -> dict[str, Any]:
    """Upright boxes of what is probable, in reading order."""
    found = outputs[known["output"]]
    found = found.reshape(found.shape[-2:])
    steps = [side / count for side, count in zip(input_size(seen), found.shape, strict=True)]
    told = []
    for top, left, bottom, right in components(found >= known["threshold"]):
        width, height = right - left, bottom - top
        score = float(found[top:bottom, left:right].mean())
        if min(width, height) < known["least"] or score < known["score"]:
            continue
        more = known["grow"] * width * height / (2 * (width + height))
        corners = np.array([left - more, top - more, right + more, bottom + more])
        corners = corners * np.array([*steps[::-1]] * 2) - np.array([*seen.offset] * 2)
        box = (corners / np.array([*seen.scale] * 2)).clip(0, np.array([*seen.size] * 2))
        told.append({"box": [round(float(v), 2) for v in box], "score": score})
    return {"boxes": in_reading_order(told)[: known["most"]]}


def components(mask: Array) -> list[tuple[int, int, int, int]]:
    """The bounds of each region of 8-connected pixels: top, left, bottom, right, the last two
    exclusive. Runs of a row join those of the row before that they touch (union-find)."""
    parent: list[int] = []
    bounds: list[list[int]] = []

    def root(number: int) -> int:
        while parent[number] != number:
            parent[number] = number = parent[parent[number]]
        return number

    before: list[tuple[int, int, int]] = []
    for y, row in enumerate(np.pad(mask, ((0, 0), (1, 1))).astype(np.int8)):
        edges = np.flatnonzero(np.diff(row))
        now: list[tuple[int, int, int]] = []
        for start, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
            own = len(parent)
            parent.append(own)
            bounds.append([y, start, y + 1, end])
            for first, last, number in before:
                if first <= end and start <= last:
                    parent[root(own)] = root(number)
            now.append((start, end, own))
        before = now
    whole: dict[int, list[int]] = {}
    for number, (top, left, bottom, right) in enumerate(bounds):
        known = whole.setdefault(root(number), [top, left, bottom, right])
        known[:] = [min(known[0], top), min(known[1], left), max(known[2], bottom),
                    max(known[3], right)]  # fmt: skip
    return [(a, b, c, d) for a, b, c, d in whole.values()]


def in_reading_order(found: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Boxes by lines, from the left: one belongs to a line whose middle it spans."""
    lines: list[list[dict[str, Any]]] = []
    for item in sorted(map(dict, found), key=lambda item: (item["box"][1], item["box"][0])):
        middle = (item["box"][1] + item["box"][3]) / 2
        last = lines[-1][-1]["box"] if lines else None
        if last is not None and last[1] <= middle <= last[3]:
            lines[-1].append(item)
        else:
            lines.append([item])
    return [item for line in lines for item in sorted(line, key=lambda item: item["box"][0])]


def numbers(known: Known, outputs: Mapping[str, Array], seen: Seen) -> dict[str, Any]:
    """Numbers by their names, with their unit; of several rows a list each."""
    values = outputs[known["output"]]
    rows = values.reshape(len(values) if values.ndim else 1, -1)
    named = known["names"] or [known["output"]] * (rows.shape[1] == 1)
    found = [
        dict(zip(named, row.tolist(), strict=False)) if named else row.tolist() for row in rows
    ]
    unit = {"unit": known["unit"]} if known["unit"] else {}
    return {"numbers": found[0] if len(found) == 1 else found, **unit}


def embedding(known: Known, outputs: Mapping[str, Array], seen: Seen) -> dict[str, Any]:
    """One vector of a file: pooled over tokens, of length 1 where that is declared."""
    values = outputs[known["output"]].astype(np.float64)
    if known["pool"] == "mean":
        mask = seen.feeds.get(known["mask"] or "")
        weights = np.ones(values.shape[:2]) if mask is None else mask.astype(np.float64)
        values = np.einsum("bth,bt->bh", values, weights) / weights.sum(axis=1, keepdims=True)
    elif known["pool"] == "first":
        values = values[:, 0]
    row = values.reshape(-1)
    if known["normalize"]:
        row = row / max(float(np.linalg.norm(row)), 1e-12)
    return {"embedding": row.tolist()}


def text(known: Known, outputs: Mapping[str, Array], seen: Seen) -> dict[str, Any]:
    """A text by CTC's best path: repeats are one letter, blanks none."""
    values = outputs[known["output"]]
    rows = values.reshape(-1, values.shape[-1])
    best = rows.argmax(axis=-1)
    first = np.concatenate([[True], best[1:] != best[:-1]]) & (best != known["blank"])
    letters = [known["letters"][i] for i in best[first]]
    sure = activated(rows, known["activation"]).max(axis=-1)[first]
    score = float(sure.mean()) if len(sure) else 0.0
    return {"text": "".join(letters), "score": score}


def series(known: Known, outputs: Mapping[str, Array], seen: Seen) -> dict[str, Any]:
    """Values along a sound: windows joined, what they share cut off."""
    names, rows = known["names"], along_sound(known, outputs[known["output"]], seen)
    told = rows[:, 0].tolist() if rows.shape[1] == 1 else rows.tolist()
    return {known["name"]: {"rate": known["rate"], **({"names": list(names)} if names else {}),
                            "values": told}}  # fmt: skip


def along_sound(known: Known, values: Array, seen: Seen) -> Array:
    """A sound's values, [steps, values], of those of its windows."""
    trim, names = known["trim"], known.get("names")
    width = len(names or ()) or (values.shape[-1] if values.ndim > 2 else 1)
    if values.ndim > 2:
        values = values[:, trim : values.shape[1] - trim]
    return values.reshape(-1, width)[: math.ceil(seen.seconds * known["rate"]) or None]


def segments(known: Known, outputs: Mapping[str, Array], seen: Seen) -> dict[str, Any]:
    """Where a probability is high: from and to, in seconds, and its mean there."""
    rows = activated(along_sound(known, outputs[known["output"]], seen), known["activation"])
    values, rate = rows[:, min(known["column"], rows.shape[1] - 1)], known["rate"]
    end = seen.seconds or len(values) / rate
    found = list(spans(values, known, end * rate))
    times = padded([(a / rate, min(b / rate, end)) for a, b in found], known["pad"], end)
    told = [
        {"start": round(first, 4), "end": round(last, 4), "score": float(values[a:b].mean())}
        for (first, last), (a, b) in zip(times, found, strict=True)
    ]
    return {"segments": told}


def spans(values: Array, known: Known, length: float) -> Iterator[tuple[int, int]]:
    """The steps of each segment, the last exclusive, without ``pad``; what each number of ``known``
    does is told in ``declared.py``. The sound may end within the last step, at ``length``."""
    rate, high, low = known["rate"], known["threshold"], known["release"]
    low = max(high - 0.15, 0.01) if low is None else low
    most = math.inf
    if known["longest"] is not None:
        most = (known["longest"] - 2 * known["pad"]) * rate - 1
    start, quiet, pauses = -1, -1, list[tuple[int, int]]()
    for step, value in enumerate(values.tolist()):
        if value >= high and quiet >= 0:
            pauses, quiet = [*pauses, (quiet, step)], -1
        if value >= high and start < 0:
            start = step
        elif start >= 0 and step - start > most:
            wide = [(a, b) for a, b in pauses if b - a > BREATH * rate]
            cut, after = max(wide, key=lambda p: p[1] - p[0], default=(step, -1))
            yield start, cut
            start, quiet, pauses = after, -1, []
        if value < low and start >= 0:
            quiet = step if quiet < 0 else quiet
            if step - quiet >= known["pause"] * rate:
                if quiet - start > known["least"] * rate:
                    yield start, quiet
                start, quiet, pauses = -1, -1, []
    if start >= 0 and length - start > known["least"] * rate:
        yield start, len(values)


BREATH = 0.098
"""Seconds of a pause in which a segment that is too long may be cut (Silero's value)."""


def padded(
    found: Sequence[tuple[float, float]], pad: float, end: float
) -> list[tuple[float, float]]:
    """Segments in seconds, longer by ``pad`` at each end as far as there is room."""
    ends = [0.0, *(second for pair in found for second in pair), end]
    room = [b - a for a, b in zip(ends[::2], ends[1::2], strict=True)]
    inner = [min(pad, gap / 2) for gap in room[1:-1]]
    before, after = [min(pad, room[0]), *inner], [*inner, min(pad, room[-1])]
    return [(a - b, e + f) for (a, e), b, f in zip(found, before, after, strict=False)]


def masks(known: Known, outputs: Mapping[str, Array], seen: Seen) -> dict[str, Any]:
    """Each pixel's class as a PNG of the picture's size (base64), and each class's share."""
    whole = pixel_classes(known, outputs[known["output"]], seen)
    numbers, counts = np.unique(whole, return_counts=True)
    file = BytesIO()
    _library("PIL.Image").fromarray(whole.astype(np.uint8)).save(file, "PNG")
    return {"masks": {
        "width": whole.shape[1], "height": whole.shape[0],
        "classes": [
            {"index": int(number), "share": float(count / whole.size),
             **_labelled(known["labels"], int(number))}
            for number, count in zip(numbers, counts, strict=True)
        ],
        "png": b64encode(file.getvalue()).decode(),
    }}  # fmt: skip


def pixel_classes(known: Known, found: Array, seen: Seen, size: Any = None) -> Array:
    """The class of each pixel of a picture: the nearest of the output's, [height, width].

    Args:
        known: The declaration, of ``channels_last``.
        found: The output.
        seen: Where the picture's pixels are in the model's.
        size: Height and width of another picture of the same; None for the picture's own.
    """
    if found.ndim == 4:
        found = found.argmax(axis=-1 if known["channels_last"] else 1)
    found, places = found.reshape(found.shape[-2:]), []
    for axis, side in enumerate(input_size(seen)):
        count = seen.size[1 - axis] if size is None else size[axis]
        scale, offset, steps = seen.scale[1 - axis], seen.offset[1 - axis], found.shape[axis]
        at = ((np.arange(count) + 0.5) * scale + offset) * steps / side
        places.append(np.clip(np.floor(at).astype(int), 0, steps - 1))
    return np.asarray(found[np.ix_(*places)]).astype(np.int64)


def keypoints(known: Known, outputs: Mapping[str, Array], seen: Seen) -> dict[str, Any]:
    """Points in the picture's own pixels, by their names where they have some."""
    values = outputs[known["output"]]
    rows = values.reshape(-1, values.shape[-1]).astype(np.float64)
    points = rows[:, 1::-1] if known["order"] == "yx" else rows[:, :2]
    if known["relative"]:
        points = points * np.array(input_size(seen)[::-1])
    points = (points - np.array(seen.offset)) / np.array(seen.scale)
    found = []
    for number, (x, y) in enumerate(points):
        score = {"score": float(rows[number, 2])} if rows.shape[1] > 2 else {}
        if score.get("score", known["threshold"]) >= known["threshold"]:
            name = {"name": known["names"][number]} if number < len(known["names"]) else {}
            found.append({**name, "x": round(float(x), 2), "y": round(float(y), 2), **score})
    return {"keypoints": found}


ANSWERS = {
    "regions": regions,
    "masks": masks,
    "keypoints": keypoints,
    "classes": classes,
    "boxes": boxes,
    "numbers": numbers,
    "embedding": embedding,
    "text": text,
    "series": series,
    "segments": segments,
}
"""What makes an answer of outputs, by kind."""
