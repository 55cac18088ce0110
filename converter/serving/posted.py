"""Users' files: each is the body of a POST, answered in JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from converter.serving.address import Address
from converter.serving.http import message
from converter.serving.tensors import Array
from converter.serving.v2 import HttpAsker
from converter.serving.wire import Wire

PROTOCOL = "files"

_LENGTH = 4
"""Bytes before a text among binary tensors of the Open Inference Protocol."""


@dataclass(frozen=True)
class Posted(Wire):
    """A model that takes files, at one path.

    Attributes:
        address: Where it is.
        headers: Of each request.
    """

    address: Address
    headers: Mapping[str, str] = field(default_factory=dict)

    def connect(self) -> HttpAsker:
        return HttpAsker(self.address)

    def encode(self, feeds: Mapping[str, Array]) -> bytes:
        """A POST of the only array's only value, a file's bytes."""
        (array,) = feeds.values()
        return self.post(array.item())

    def post(self, file: bytes) -> bytes:
        """A POST of a file."""
        return message("POST", self.address.place, self.address.model, file, dict(self.headers))

    def decode(self, answer: bytes) -> dict[str, Array]:
        """What is said, as numbers and as everything else, each in its order."""
        said, end = json.JSONDecoder().raw_decode(answer.decode("latin-1"))
        if answer[end:].strip():  # a text among the protocol's tensors: the answer is in that
            said = json.loads(answer[end + _LENGTH :])
        values = list(_leaves(said))
        numbers = [value for value in values if isinstance(value, float)]
        rest = [json.dumps(value) for value in values if not isinstance(value, float)]
        return {"numbers": np.array(numbers), "rest": np.array(rest, object)}


def _leaves(value: Any) -> Iterator[Any]:
    """Names and values of what JSON says, whatever is in what."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield name
            yield from _leaves(item)
    elif isinstance(value, list):
        for item in value:
            yield from _leaves(item)
    else:
        yield value
