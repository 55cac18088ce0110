"""The options of the toys."""

from __future__ import annotations

from dataclasses import dataclass

from converter.options.option import declared
from converter.options.request import Request
from emitters.serving.request import ServingRequest

HEADING, SERVER = "Toy", "Toy server"


@dataclass
class ToyRequest(Request):
    """What is asked of a toy file."""

    toy_layers: int | None = declared(
        HEADING, "--toy-layers", "Read only the first N layers.", metavar="N", affects=("parse",)
    )
    toy_compressed: bool = declared(
        HEADING, "--toy-compressed", "Compress the arrays.", False, affects=("emit",)
    )


@dataclass
class ToyServerRequest(ServingRequest):
    """What is asked of the toy server; it has --max-batch from what servers share."""

    toy_workers: int = declared(
        SERVER, "--toy-workers", "Processes of the server.", 1, metavar="N", affects=("package",)
    )
