"""Answers users' files: a picture, a sound, a text, a table, by what ``stages.json`` says.

    asking = Asking(interface)
    asked = asking.read(body, "image/jpeg")  # prepared, in pieces that the model takes
    outputs = model.run(asked.feeds)         # or however the server runs requests
    asking.answer(asked, outputs)            # what JSON has

It stands beside ``inference.py`` and ``stages.py``, and needs what these do.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from inference import HERE, Arrays, InputError, Interface, Model, finish, parsed
from stages import TYPES, Item, Seen, StageError, Stages

REFUSED = (StageError, InputError)
"""What is the client's mistake."""

TEXT = {
    "type": "object",
    "properties": {"text": {"type": "string"}, "pair": {"type": "string"}},
    "required": ["text"],
}
TEXTS = {"oneOf": [TEXT, {"type": "array", "items": TEXT}]}
"""Texts in JSON, as OpenAPI describes them."""

Run = Callable[[list[Arrays]], Awaitable[list[Arrays]]]
"""Runs requests of the model, and gives the outputs of each."""


@dataclass(frozen=True)
class Asked:
    """A request of files, prepared.

    Attributes:
        feeds: What the model runs.
        files: Of each file, what its answer needs, and the rows of each of its ``feeds``.
        in_turn: Whether ``feeds`` are those of whole files, whose windows run one by one.
    """

    feeds: list[Arrays]
    files: list[tuple[Seen, list[int]]]
    in_turn: bool = False


class Asking:
    """What becomes of files; safe to call from several threads.

    Args:
        interface: What the model takes.
        folder: Where ``stages.json`` lies.
    """

    def __init__(self, interface: Interface, folder: Path = HERE) -> None:
        self.interface, self.stages = interface, Stages.load(folder)
        prepared = self.stages.declared["prepare"]
        fixed = (item for item in prepared if item["kind"] in ("constant", "state"))
        self._constants = {item["input"] for item in fixed}

    def read(self, body: bytes, content_type: str = "") -> Asked:
        """The files of a request's body; texts or the model's own arrays, where it is JSON.

        Raises:
            StageError: One of them can't be prepared; its ``status`` is HTTP's.
            InputError: The model doesn't take one of them.
        """
        if not self.stages.takes(content_type):
            return self.of_json(body)
        return self.of(self.stages.items(body, content_type))

    def of_json(self, request: Any) -> Asked:
        """A request in JSON: of texts (see :meth:`stages.Stages.texts`), or of arrays (see
        :meth:`inference.Interface.prepare`)."""
        said = parsed(request) if isinstance(request, (str, bytes, bytearray)) else request
        if texts := self.stages.texts(said):
            return self.of(texts)
        return Asked([self.interface.prepare(said)], [])

    def of(self, items: Sequence[Item]) -> Asked:
        """The same of files that the server has taken out of a body."""
        asked = Asked([], [], self.stages.in_turn)
        for item in items:
            feeds, seen = self.stages.prepare(item)
            if asked.in_turn:
                self._window(next(self.stages.turns(feeds)))  # it fits, or is refused here
                asked.feeds.append(feeds)
                asked.files.append((seen, [1]))
                continue
            pieces = list(self._pieces(feeds))
            asked.feeds.extend(self.interface.prepare(piece) for piece, _ in pieces)
            asked.files.append((seen, [rows for _, rows in pieces]))
        return asked

    def answer(self, asked: Asked, outputs: Sequence[Arrays]) -> dict[str, Any]:
        """What the outputs of ``asked.feeds`` mean: of several files, a list as ``answers``; of
        arrays, the outputs by name."""
        if not asked.files:
            plain: dict[str, Any] = finish(outputs[0])
            return plain
        answers, end = [], 0
        for seen, rows in asked.files:
            start, end = end, end + len(rows)
            answers.append(self.stages.answer(_joined(outputs[start:end], rows), seen))
        return answers[0] if len(answers) == 1 else {"answers": answers}

    def run(self, model: Model, requests: Sequence[Asked]) -> list[tuple[int, dict[str, Any]]]:
        """HTTP's status and the answer of each of several requests, which the model runs
        together."""
        joined = [feeds for asked in requests if not asked.in_turn for feeds in asked.feeds]
        outputs = iter(model.run(joined))
        given = [
            [
                self._in_turn(model, feeds) if asked.in_turn else next(outputs)
                for feeds in asked.feeds
            ]
            for asked in requests
        ]
        return [self._told(asked, found) for asked, found in zip(requests, given, strict=True)]

    def _told(self, asked: Asked, outputs: Sequence[Arrays]) -> tuple[int, dict[str, Any]]:
        try:
            return 200, self.answer(asked, outputs)
        except REFUSED as error:
            return status_of(error), {"error": str(error)}

    def _in_turn(self, model: Model, feeds: Arrays) -> Arrays:
        return dict(self.stages.run(lambda window: model.run([self._window(window)])[0], feeds))

    def _window(self, feeds: Arrays) -> Arrays:
        [(window, _)] = self._pieces(feeds)
        prepared: Arrays = self.interface.prepare(window)
        return prepared

    def run_rows(self, model: Model, feeds: Arrays) -> Arrays:
        """The outputs of what :attr:`stages` have prepared, in as many runs as it takes."""
        pieces = list(self._pieces(feeds))
        outputs = model.run([self.interface.prepare(piece) for piece, _ in pieces])
        return _joined(outputs, [rows for _, rows in pieces])

    @property
    def joins(self) -> bool:
        """Whether rows of several files may run together."""
        return self.interface.max_batch > 1 and not self._constants

    async def receive(self, request: Any) -> tuple[bytes, str]:
        """The body of one of Starlette's requests, and its content type.

        Raises:
            StageError: It is larger than is taken; the rest of it isn't read.
        """
        most = self.stages.declared["limits"]["bytes"]
        body = bytearray()
        async for chunk in request.stream():
            body += chunk
            if len(body) > most:
                raise StageError(f"the body has more than {most:,} bytes", "", 413)
        return bytes(body), request.headers.get("content-type", "")

    async def reply(self, body: bytes, content_type: str, run: Run) -> tuple[int, str]:
        """HTTP's status and the JSON that answers a body.

        Args:
            body: The request's bytes.
            content_type: The request's header: what the body is.
            run: Runs the model on arrays by input; may be awaited.
        """
        try:
            asked = await asyncio.to_thread(self.read, body, content_type)
        except REFUSED as error:
            return refusal(error)
        status, told = self._told(asked, await self._outputs(asked, run))
        return status, json.dumps(told)

    async def _outputs(self, asked: Asked, run: Run) -> list[Arrays]:
        """The outputs of what was asked; windows that run in turn, beside those of others."""
        if not asked.in_turn:
            return await run(asked.feeds)
        return list(await asyncio.gather(*(self._turned(feeds, run) for feeds in asked.feeds)))

    async def _turned(self, feeds: Arrays, run: Run) -> Arrays:
        turns = self.stages.turns(feeds)
        window = next(turns)
        while True:
            [outputs] = await run([self._window(window)])
            try:
                window = turns.send(outputs)
            except StopIteration as done:
                found: Arrays = done.value
                return found

    async def reply_to(self, request: Any, run: Run) -> tuple[int, str]:
        """The same for one of Starlette's requests."""
        try:
            body, content_type = await self.receive(request)
        except StageError as error:
            return refusal(error)
        return await self.reply(body, content_type, run)

    @property
    def openapi(self) -> dict[str, Any]:
        """How OpenAPI describes a request's body."""
        file = {"schema": {"type": "string", "format": "binary"}}
        kinds = [f"{said}*" if said.endswith("/") else said
                 for kind in self.stages.kinds for said in TYPES[kind]]  # fmt: skip
        form = {"schema": {"type": "object", "additionalProperties": file["schema"]}}
        content = {**dict.fromkeys(kinds, file), "multipart/form-data": form}
        if "text" in self.stages.kinds:
            content["application/json"] = {"schema": TEXTS}
        return {"requestBody": {"required": True, "content": content}}

    def _pieces(self, feeds: Arrays) -> Iterator[tuple[Arrays, int]]:
        """A file's arrays as requests that aren't too large, and the rows of each."""
        own = {name for name in feeds if name not in self._constants}
        name, first = next((name, feeds[name]) for name in feeds if name in own)
        rows, shape = len(first), self.interface.inputs[name]["shape"]
        single = len(shape) < first.ndim  # the model has no place for rows
        if single or isinstance(shape[0], int):
            most = 1 if single else shape[0]
        else:
            most = self.interface.max_batch or rows
        for start in range(0, rows, most):
            count = min(most, rows - start)
            piece = {}
            for name, array in feeds.items():
                if name in own and (single or count < rows):
                    array = array[start] if single else array[start : start + count]
                elif name not in own and self.interface.max_batch and len(array) == 1:
                    array = np.repeat(array, count, axis=0)
                piece[name] = array
            yield piece, count


def refusal(error: Exception) -> tuple[int, str]:
    """HTTP's status and the JSON for a client's mistake."""
    return status_of(error), json.dumps({"error": str(error)})


def status_of(error: Exception) -> int:
    """HTTP's status for a client's mistake."""
    return getattr(error, "status", 400)


def _joined(parts: Sequence[Arrays], rows: Sequence[int]) -> Arrays:
    """The outputs of a file's pieces as those of one run."""
    if len(parts) == 1:
        return parts[0]
    made = {}
    for name in parts[0]:
        arrays = [part[name] for part in parts]
        along = all(array.shape[:1] == (n,) for array, n in zip(arrays, rows, strict=True))
        made[name] = np.concatenate(arrays) if along else np.stack(arrays)
    return made
