"""How a package is run, as ``modelyard.json`` says it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True)
class Wire:
    """How a server is asked over HTTP.

    Attributes:
        kind: ``v2``: the inference protocol's JSON; ``v2-binary``: the same with values as raw
            bytes behind it; ``json``: ``{input: nested lists}``, answered by outputs likewise.
        url: Where it is by default: ``http://127.0.0.1:8000``.
        path: Of a request: ``/v2/models/cnn/infer``.
        ready: What answers 200 once the model is.
        inputs, outputs: Of ``json``: the key that inputs and outputs stand under; empty where their
            names stand at the top; ``*`` where the answer is the only output's values.
        grpc: Where it has the inference protocol's gRPC: ``127.0.0.1:8001``; empty without it.
    """

    kind: Literal["v2", "v2-binary", "json"]
    url: str
    path: str
    ready: str
    inputs: str = ""
    outputs: str = ""
    grpc: str = ""
    part: str = field(default="over_http", init=False)


@dataclass(frozen=True)
class Device:
    """What runs a package that no server is asked for.

    Attributes:
        part: The module of :mod:`emitters.packaging.script` that runs it: ``on_litert``.
        facts: What that has to know besides: the signature, ports.
    """

    part: str
    facts: Mapping[str, Any] = field(default_factory=dict)
