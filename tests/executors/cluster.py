"""A Ray cluster on this machine: a head without cores, and nodes with a cache each."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

STORE_BYTES = 100_000_000
"""Of each node's object store."""


@contextmanager
def cluster(*nodes: dict[str, Any]) -> Iterator[Any]:
    """A cluster of processes on the loopback, which are all gone at the end. Its address isn't
    127.0.0.1: for that, Ray takes the machine's own.

    Args:
        nodes: The arguments of each node but the head (``ray.cluster_utils.Cluster.add_node``).
    """
    from ray.cluster_utils import Cluster

    place = tempfile.mkdtemp(prefix="ray-", dir="/tmp")  # names of sockets are short
    own = {"RAY_TMPDIR": place, "RAY_USAGE_STATS_ENABLED": "0"}
    common = {
        "node_ip_address": "127.0.0.2", "object_store_memory": STORE_BYTES,
        "include_dashboard": False, "temp_dir": f"{place}/ray",
    }  # fmt: skip
    handler = signal.getsignal(signal.SIGTERM)
    with mock.patch.dict(os.environ, own):
        made = Cluster(initialize_head=True, head_node_args={**common, "num_cpus": 0})
        try:
            for node in nodes:
                made.add_node(**common, **node)
            yield made
        finally:
            made.shutdown()
            signal.signal(signal.SIGTERM, handler)
            shutil.rmtree(place, ignore_errors=True)


def node(folder: Path, **more: Any) -> dict[str, Any]:
    """A node of two cores whose workers have a cache of their own in ``folder``."""
    return {"num_cpus": 2, "env_vars": {"MODELYARD_CACHE": str(folder)}, **more}
