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

import json
from collections.abc import Generator, Iterator, Mapping
from email.parser import BytesParser
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from converter.preparation.staged.base import (
    ANY,
    FILE,
    HERE,
    TYPES,
    Array,
    Arrays,
    Item,
    Known,
    Run,
    Seen,
    StageError,
    kind_of,
    library_of,
    packages_of,
)
from converter.preparation.staged.boxes import boxes, regions
from converter.preparation.staged.classes import classes, embedding, numbers, text
from converter.preparation.staged.masks import keypoints, masks
from converter.preparation.staged.pictures import MOST_PIXELS, encoded, read_picture, value_table
from converter.preparation.staged.series import segments, series
from converter.preparation.staged.sounds import encoded_sound, framed, read_sound, spectra
from converter.preparation.staged.steps import Steps
from converter.preparation.staged.texts import read_rows, text_item, tokenizer_of


class Stages:
    """What a declaration says, done; safe to call from several threads.

    Args:
        declared: See ``converter/preparation/declared.py``, as JSON: ``prepare``, ``answer``, and
            ``limits`` where there are some. A package's has ``stored`` besides: of inputs and
            outputs the dtype, and where their integers stand for real numbers ``scale`` and
            ``zero_point``.
        folder: Where a tokenizer's file lies.
        steps: What calls functions of the user's; left out: in this process.
    """

    def __init__(self, declared: Known, folder: Path = HERE, steps: Any = None) -> None:
        self.declared, self._folder = declared, folder
        self.steps = steps or Steps(folder)
        self._limits: Known = declared.get("limits") or {}
        self._stored = {item["name"]: item for item in declared.get("stored", ())}
        self._tokenizers: dict[str, Any] = {}
        self._tables = {
            known["input"]: value_table(known).astype(np.float32)
            for known in declared["prepare"]
            if known["kind"] == "picture"
        }

    @classmethod
    def load(cls, folder: Path = HERE) -> Stages:
        """Those of a package; what they need is imported at once."""
        made = cls(json.loads((folder / FILE).read_text("utf-8")), folder)
        for known in made.declared["prepare"]:
            for name in packages_of(known["kind"]):
                library_of(name)
        for known in (*made.declared["prepare"], *made.declared["answer"]):
            if known["kind"] == "step":
                made.steps.load(known)
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
        """The files of a request.

        Args:
            body: The request's body, a multipart form among others.
            content_type: The request's ``Content-Type``; empty where it has none.
            name: What messages call the body.

        Raises:
            StageError: It is of a type that isn't taken, empty, or too large.
        """
        asked = content_type.partition(";")[0].strip().lower()
        most = self._limits.get("bytes")
        if most is not None and len(body) > most:
            raise StageError(f"the request has {len(body):,} bytes; the limit is {most:,}", "", 413)
        if not asked and (pair := self._untold_pair(body)):
            return pair
        if asked.startswith("multipart/"):
            return list(self._of_form(body, content_type))
        return [self._item(body, asked, name)]

    def texts(self, said: Any) -> list[Item]:
        """The texts of a request in JSON: ``{"text": ..., "pair": ...}``, whose pair may be left
        out, or a list of such; none where it is something else.

        Raises:
            StageError: One of them is no text, empty, or there are too many.
        """
        several = said if isinstance(said, list) else [said]
        alike = (isinstance(one, Mapping) and isinstance(one.get("text"), str) for one in several)
        if "text" not in self.kinds or not several or not all(alike):
            return []
        most = self._limits.get("files", len(several))
        if len(several) > most:
            raise StageError(f"the request has {len(several)} texts; the limit is {most}", "", 413)
        named = [f"text {number}" for number in range(1, len(several) + 1)]
        return [text_item(one, name) for one, name in zip(several, named, strict=True)]

    def _untold_pair(self, body: bytes) -> list[Item]:
        """Two texts in JSON, of which nobody said that it is JSON."""
        if "text" not in self.kinds or not body.lstrip().startswith(b"{"):
            return []
        try:
            said = json.loads(body)
        except (ValueError, RecursionError):
            return []
        return self.texts(said) if said.keys() == {"text", "pair"} else []

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
                raise StageError(
                    f"{name} has the encoding {coded}: send its bytes as they are", "", 415
                )
            yield self._item(data, kind, name)

    def _item(self, data: bytes, content_type: str, name: str) -> Item:
        kind = next((k for k in self.kinds if content_type.startswith(TYPES[k])), None)
        if kind is None and (content_type in ANY or not content_type):
            kind = self.kinds[0] if self.kinds else None
        if kind is None:
            kinds = " or ".join(self.kinds) or "arrays in JSON"
            raise StageError(f"{name} is {content_type}, but the model takes {kinds}", "", 415)
        if not data:
            raise StageError(f"{name} is empty")
        if kind not in ("text", "row"):
            return Item(kind, data, name)
        try:
            return Item(kind, data.decode("utf-8-sig"), name)
        except UnicodeDecodeError as error:
            raise StageError(f"{name} isn't text in UTF-8: {error}") from error

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
            raise StageError(f"the model takes {kinds}, not a {item.kind}")
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
        if not self.in_turn:
            return run(feeds)
        turns = self.turns(feeds)
        window = next(turns)
        while True:
            try:
                window = turns.send(run(window))
            except StopIteration as done:
                found: Arrays = done.value
                return found

    def turns(self, feeds: Arrays) -> Generator[Arrays, Mapping[str, Array], Arrays]:
        """The windows of a file that run one by one: gives each, with the states that the
        one before left; is sent its outputs; returns those of all."""
        states = [known for known in self.declared["prepare"] if known["kind"] == "state"]
        known = next(known for known in self.declared["prepare"] if known["kind"] == "sound")
        along, feeds, found = (known["input"], known.get("mask")), dict(feeds), []
        for row in range(len(feeds[known["input"]])):
            part = {n: a[row : row + 1] if n in along else a for n, a in feeds.items()}
            found.append((yield part))
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
        if "decode" in known.get("fused", ()):
            array, seen = encoded(file, item.name, most)
        else:
            array, seen = read_picture(known, file, item.name, self._tables[known["input"]], most)
        return {known["input"]: array[np.newaxis]}, seen

    def _sound(self, known: Known, item: Item) -> tuple[Arrays, Seen]:
        if "decode" in known.get("fused", ()):
            data, seconds = encoded_sound(known, item.data, item.name, self._limits.get("seconds"))
            return {known["input"]: data[np.newaxis]}, Seen(seconds=seconds)
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
            raise StageError(f"the text has {count:,} letters; the limit is {most:,}", "", 413)
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
        if item.pair is not None:
            raise StageError(f"{known['step']} takes one text, and the request has two")
        data = item.data.read_bytes() if isinstance(item.data, Path) else item.data
        if item.kind in ("text", "row") and isinstance(data, bytes):
            data = data.decode("utf-8-sig")
        found = self.steps(known, data)
        return {name: np.asarray(array) for name, array in found.items()}, Seen()

    # -- out -------------------------------------------------------------------------

    def answer(self, outputs: Mapping[str, Array], seen: Seen) -> dict[str, Any]:
        """What the outputs of one file mean, as JSON has it; all outputs, where nothing says it."""
        real = self.real(outputs)
        made: dict[str, Any] = {}
        for known in self.declared["answer"]:
            if known["kind"] == "step":
                made |= self.steps(known, real, seen)
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
