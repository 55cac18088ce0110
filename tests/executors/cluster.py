"""A Ray cluster on this machine: a head without cores, and nodes with a cache each.

Ray's threads stay in a process of their own, ``python -m tests.executors.cluster``: other tests of
the same worker fork it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from tests.docs.running import ROOT

STORE_BYTES = 100_000_000
"""Of each node's object store."""


@dataclass
class Cluster:
    """A cluster that runs.

    Attributes:
        address: The head's, ``HOST:PORT``.
    """

    address: str
    _orders: IO[str]

    def kill_head(self) -> None:
        """Kills all of the head's processes."""
        self._orders.write("kill head\n")
        self._orders.flush()


@contextmanager
def cluster(*nodes: dict[str, Any]) -> Iterator[Cluster]:
    """A cluster of processes on the loopback, which are all gone at the end.

    Args:
        nodes: The arguments of each node but the head (``ray.cluster_utils.Cluster.add_node``).
    """
    place = tempfile.mkdtemp(prefix="ray-", dir="/tmp")  # names of sockets are short
    env = {**os.environ, "RAY_TMPDIR": place, "RAY_USAGE_STATS_ENABLED": "0"}
    argv = [sys.executable, "-m", "tests.executors.cluster", place, json.dumps(nodes)]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    process = subprocess.Popen(argv, cwd=ROOT, env=env, stderr=subprocess.DEVNULL, **pipes)
    try:
        assert process.stdin is not None and process.stdout is not None
        said = (line.split() for line in process.stdout)
        address = next(words[1] for words in said if words[:1] == ["address"])
        yield Cluster(address, process.stdin)
    finally:
        process.communicate(timeout=60)
        shutil.rmtree(place, ignore_errors=True)


def node(folder: Path, **more: Any) -> dict[str, Any]:
    """A node of two cores whose workers have a cache of their own in ``folder``."""
    return {"num_cpus": 2, "env_vars": {"MODELYARD_CACHE": str(folder)}, **more}


def _main(place: str, nodes: str) -> None:
    """Holds a cluster until the input ends; for 127.0.0.1, Ray takes the machine's own address."""
    from ray import cluster_utils

    common = {
        "node_ip_address": "127.0.0.2", "object_store_memory": STORE_BYTES,
        "include_dashboard": False, "temp_dir": f"{place}/ray",
    }  # fmt: skip
    made = cluster_utils.Cluster(initialize_head=True, head_node_args={**common, "num_cpus": 0})
    try:
        for each in json.loads(nodes):
            made.add_node(**common, **each)
        print("address", made.address, flush=True)
        for _ in sys.stdin:
            made.head_node.kill_all_processes(check_alive=False, allow_graceful=False)
    finally:
        made.shutdown()


if __name__ == "__main__":
    _main(*sys.argv[1:])
