"""A Ray cluster that runs: reaching it, what its nodes have, whether its head is still there."""

from __future__ import annotations

import logging
import os
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import ray

from converter.errors import MachineError, UsageError
from converter.executors.ray.shares import Share

_LOOKS_EVERY, _WAITS = 1.0, 2.0
_MISSES = 3
"""How often in a row the head doesn't answer before it counts as gone."""


class Cluster:
    """A cluster that this process is connected to.

    Args:
        head: The address of the head's control service, ``HOST:PORT``.
    """

    def __init__(self, head: str) -> None:
        self._head = head
        self._looked = time.monotonic()
        self._missed = 0

    def require_head(self) -> None:
        """Looks now and then whether the head is there.

        Raises:
            MachineError: It is gone.
        """
        if time.monotonic() < self._looked + _LOOKS_EVERY:
            return
        why = _unreachable(self._head)
        self._looked = time.monotonic()
        self._missed = self._missed + 1 if why else 0
        if self._missed >= _MISSES:
            raise MachineError(
                f"the head of the Ray cluster at {self._head} is gone: {why}",
                hint="Start the cluster again, and run the same command: it goes on with what is "
                "left.",
                code="cluster",
            )

    def nodes(self) -> list[dict[str, float]]:
        """What each node has that carries tasks out.

        Raises:
            MachineError: No node has cores.
        """
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        if able := [node for node in nodes if node.get("CPU", 0) >= 1]:
            return able
        raise MachineError(f"no node of the Ray cluster at {self._head} has cores", code="cluster")

    def resources(self, share: Share, memory: int) -> dict[str, float]:
        """What a task asks Ray for: cores, memory and GPUs.

        Args:
            share: What the task does.
            memory: Bytes that it is believed to take: of no node more than it has.

        Raises:
            MachineError: No node has cores.
        """
        able = self.nodes()
        gpu = share.gpu and any(node.get("GPU", 0) >= 1 for node in able)
        if gpu:
            able = [node for node in able if node.get("GPU", 0) >= 1]
        cores = [int(node["CPU"]) for node in able]
        asked = {"num_cpus": share.cores(max(cores), min(cores)), "num_gpus": float(gpu)}
        room = [node.get("memory", 0) for node in able if node["CPU"] >= asked["num_cpus"]]
        return {**asked, "memory": int(min(memory, max(room)))}


@contextmanager
def connected(address: str) -> Iterator[Cluster]:
    """Connects this process to a cluster, unless its caller has.

    Args:
        address: ``HOST:PORT``; empty for ``RAY_ADDRESS``, else the cluster of this machine.

    Raises:
        UsageError: It is the address of Ray's client.
        MachineError: There is no cluster.
    """
    address = address or os.environ.get("RAY_ADDRESS", "") or "auto"
    if "://" in address:
        raise UsageError(
            f"{address} is an address of Ray's client, which can't carry a sweep out",
            hint="Run the command on a node of the cluster, with --executor ray:HOST:PORT.",
            code="cluster",
        )
    ours = not ray.is_initialized()
    if ours:
        _connect(address)
    cluster = Cluster(str(ray.get_runtime_context().gcs_address))
    try:
        yield cluster
    finally:
        if ours:
            ray.shutdown()


def _connect(address: str) -> None:
    hint = "Start one with: ray start --head. Name it with --executor ray:HOST:PORT."
    if address != "auto" and (why := _unreachable(address)):
        raise MachineError(
            f"there is no Ray cluster at {address}: {why}", hint=hint, code="cluster"
        )
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        _init(address)
    except (OSError, RuntimeError, ValueError) as error:
        said = str(error).strip().split("\n")[0]
        raise MachineError(
            f"there is no Ray cluster at {address}: {said}", hint=hint, code="cluster"
        ) from error
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _init(address: str) -> Any:
    return ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)


def _unreachable(address: str) -> str:
    """Why nothing answers at an address; empty where something does."""
    host, _, port = address.rpartition(":")
    if host in ("localhost", "127.0.0.1"):  # which Ray takes for the machine's own address
        host = ray.util.get_node_ip_address()
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=_WAITS):
            return ""
    except (OSError, ValueError) as error:
        return str(getattr(error, "strerror", None) or error)
