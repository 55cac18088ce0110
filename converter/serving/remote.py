"""A model on a server, as a session: the check runs it like any other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from converter.errors import ModelError, UsageError
from converter.ir.model import TensorSpec
from converter.runtime.session import Timing
from converter.serving.address import Address, parse
from converter.serving.tensors import Array
from converter.serving.wire import ErrorAnswer, Wire


def wire_to(
    url: str, protocol: str | None, model: str = "", outputs: Sequence[TensorSpec] = (),
    keys: tuple[str, str] = ("", ""),
) -> Wire:  # fmt: skip
    """What asks the model at ``url``.

    Args:
        url: As :func:`converter.serving.address.parse` takes it.
        protocol: What the user says that it speaks.
        model: Its name, where the address has none.
        outputs: Types of outputs, for plain JSON.
        keys: What inputs and outputs stand under in plain JSON.

    Raises:
        UsageError: Nothing answers there, or which model is meant isn't known.
    """
    address = parse(url, protocol)
    if not address.model and address.protocol != "json":
        address = replace(address, model=model)
    with reaching(address):
        return open_wire(address, outputs, keys)


def open_wire(
    address: Address, outputs: Sequence[TensorSpec] = (), keys: tuple[str, str] = ("", "")
) -> Wire:
    """What asks a model by the protocol of its address.

    Args:
        address: ``json``, ``files``, ``grpc`` or v2 over HTTP.
        outputs: Types of outputs, for plain JSON.
        keys: What inputs and outputs stand under in plain JSON.
    """
    if address.protocol == "json":
        from converter.serving.plain import Plain

        return Plain(address, tuple(outputs), *keys)
    if address.protocol == "files":
        from converter.serving.posted import Posted

        return Posted(address)
    if address.protocol == "grpc":
        from converter.serving.rpc import V2Rpc

        return V2Rpc(address)
    from converter.serving.v2 import V2

    return V2(address)


@contextmanager
def reaching(address: Address) -> Iterator[None]:
    """Raises as errors of ours what comes of asking a server."""
    try:
        yield
    except OSError as error:
        raise UsageError(
            f"{address.place} doesn't answer: {error}",
            code="server-unreachable",
            hint="Check that the server runs there, and is ready.",
        ) from error
    except ErrorAnswer as error:
        raise ModelError(
            f"{address.place} refuses a request for {address.model}: {error}", code="server-refused"
        ) from error
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise ModelError(
            f"{address.place} gives an answer that doesn't follow its protocol: {error!r}",
            code="server-refused",
            hint="--protocol sets the protocol that the server speaks.",
        ) from error


class RemoteSession:
    """A :class:`converter.runtime.session.Session` over the wire.

    Args:
        wire: What asks.
        specs: Inputs and outputs where they are known; else the server's own.
    """

    def __init__(self, wire: Wire, specs: tuple[Sequence[TensorSpec], ...] | None = None) -> None:
        self._wire, self._asker = wire, wire.connect()
        with reaching(wire.address):
            found = specs or wire.specs()
        if found is None:
            raise UsageError(
                f"{wire.address.place} doesn't say what the model takes",
                code="inputs-unknown",
                hint="Name the package that the server serves, or the model's source.",
            )
        self.inputs, self.outputs = (tuple(items) for items in found)

    @property
    def runtime(self) -> dict[str, Any]:
        """The protocol and the place; outputs have names alone."""
        address = self._wire.address
        name = f"{address.protocol} at {address.place}"
        return {"name": name, "version": "", "by_name": True}

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """One request; outputs in the model's order.

        Raises:
            ModelError: The server refuses it.
        """
        with reaching(self._wire.address):
            found = self._wire.decode(self._asker.ask(self._wire.encode(feeds)))
        names = [item.name for item in self.outputs if item.name in found]
        return {name: found[name] for name in (*names, *(n for n in found if n not in names))}

    def time(self, feeds: Mapping[str, Array], runs: int, concurrency: int = 1) -> Timing:
        """Not here: ``bench --server`` has a process of its own for that."""
        raise NotImplementedError

    def close(self) -> None:
        self._asker.close()
