"""The Open Inference Protocol (V2) over HTTP, with JSON or the binary tensor data extension."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from converter.errors import UsageError
from converter.serving.address import Address
from converter.serving.http import Connection, message
from converter.serving.tensors import (
    DATATYPES,
    DTYPES,
    Array,
    from_bytes,
    from_values,
    name_of,
    to_lists,
)
from converter.serving.tensors import to_bytes as raw
from converter.serving.wire import ErrorAnswer, Specs, Statistics, Wire, spec, sum_statistics

_LENGTH = "Inference-Header-Content-Length"
_BINARY = "binary_tensor_data"


class HttpAsker:
    """A connection over HTTP: any answer but 200 is an error."""

    def __init__(self, address: Address) -> None:
        self._connection = Connection(address.host, address.port, secure=address.secure)

    def ask(self, request: bytes) -> bytes:
        """The answer's body."""
        answer = self._connection.ask(request)
        if answer.status != 200:
            raise ErrorAnswer(str(answer.status), answer.body.decode(errors="replace"))
        return answer.body

    def close(self) -> None:
        self._connection.close()


class V2(Wire):
    """A model behind HTTP.

    Args:
        address: Where it is; without a model, the only one that the server has is meant.

    Raises:
        UsageError: Which model is meant isn't known.
        ErrorAnswer, OSError: The server doesn't say what it is asked.
    """

    def __init__(self, address: Address) -> None:
        if not address.protocol:
            known = _extensions(address)
            address = replace(address, protocol="v2" if _BINARY in known else "v2-json")
        if not address.model:
            address = replace(address, model=_only_model(address))
        self.address, self._binary = address, address.protocol == "v2"
        self._path = f"/v2/models/{quote(address.model, safe='')}"

    def connect(self) -> HttpAsker:
        return HttpAsker(self.address)

    def encode(self, feeds: Mapping[str, Array]) -> bytes:
        """A POST to ``/infer``."""
        body, headers = self.body(feeds)
        return message("POST", self.address.place, f"{self._path}/infer", body, headers)

    def body(self, feeds: Mapping[str, Array]) -> tuple[bytes, dict[str, str]]:
        """The body and its headers."""
        entries: list[dict[str, Any]] = []
        data: list[bytes] = []
        for name, array in feeds.items():
            entry: dict[str, Any] = {"name": name, "shape": list(array.shape)}
            entry["datatype"] = DATATYPES[name_of(array)]
            if self._binary:
                data.append(raw(array))
                entry["parameters"] = {"binary_data_size": len(data[-1])}
            else:
                entry["data"] = to_lists(array.reshape(-1))
            entries.append(entry)
        asked: dict[str, Any] = {"inputs": entries}
        if not self._binary:
            return json.dumps(asked).encode(), {"Content-Type": "application/json"}
        asked["parameters"] = {"binary_data_output": True}
        head = json.dumps(asked).encode()
        headers = {"Content-Type": "application/octet-stream", _LENGTH: str(len(head))}
        return b"".join([head, *data]), headers

    def decode(self, answer: bytes) -> dict[str, Array]:
        """The outputs: values in the JSON, or behind it."""
        _, end = json.JSONDecoder().raw_decode(answer.decode("latin-1"))
        outputs: dict[str, Array] = {}
        for entry in json.loads(answer[:end])["outputs"]:
            dtype, shape = DTYPES[entry["datatype"]], entry["shape"]
            size = (entry.get("parameters") or {}).get("binary_data_size")
            if size is None:
                outputs[entry["name"]] = from_values(entry["data"], dtype, shape)
            else:
                outputs[entry["name"]] = from_bytes(answer[end : end + size], dtype, shape)
                end += size
        return outputs

    def specs(self) -> Specs:
        """What ``/v2/models/NAME`` says."""
        said = _get(self.address, self._path)
        inputs, outputs = (
            tuple(spec(item["name"], DTYPES[item["datatype"]], [int(n) for n in item["shape"]])
                  for item in said[key])
            for key in ("inputs", "outputs")
        )  # fmt: skip
        return inputs, outputs

    def statistics(self) -> Statistics | None:
        """What ``/v2/models/NAME/stats`` says, where the server has that extension."""
        try:
            said = _get(self.address, f"{self._path}/stats")
        except (ErrorAnswer, ValueError):
            return None
        return sum_statistics(said.get("model_stats", ()))


def _get(address: Address, path: str, method: str = "GET") -> Any:
    asker = HttpAsker(address)
    try:
        body = b"{}" if method == "POST" else b""
        return json.loads(asker.ask(message(method, address.place, path, body)))
    finally:
        asker.close()


def _extensions(address: Address) -> Any:
    """What the server has of V2."""
    try:
        return dict(_get(address, "/v2")).get("extensions", ())
    except (ErrorAnswer, ValueError, TypeError) as error:
        raise UsageError(
            f"{address.place} doesn't speak the Open Inference Protocol: GET /v2 gives {error}",
            code="server-unreachable",
            hint="For plain JSON, give the whole address that takes requests: "
            f"http://{address.place}/predict, for example.",
        ) from error


def _only_model(address: Address) -> str:
    """The name of the only model, by the model repository extension."""
    try:
        names = sorted({item["name"] for item in _get(address, "/v2/repository/index", "POST")})
    except (ErrorAnswer, ValueError, KeyError, TypeError):
        names = []
    if len(names) == 1:
        return str(names[0])
    has = f"it has {', '.join(names)}" if names else "it doesn't say which it has"
    raise UsageError(
        f"the address doesn't name a model of {address.place}: {has}",
        code="option-missing",
        hint=f"--server http://{address.place}/v2/models/NAME",
    )
