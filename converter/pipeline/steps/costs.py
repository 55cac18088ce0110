"""What an artifact costs besides time: memory, and where the time goes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from converter import plugins
from converter.check.latency import LatencyResult
from converter.options.request import Request
from converter.protocols.emitter import Artifact, Emitter
from converter.runtime.session import Footprint, Profile, Progress

if TYPE_CHECKING:
    from converter.check.sums import Array


def with_costs(
    found: LatencyResult,
    artifact: Artifact,
    request: Request,
    feeds: Mapping[str, Array],
    progress: Progress,
) -> LatencyResult:
    """With the memory that an artifact takes and, where asked for, its time by operator.

    Args:
        found: Its latency.
        artifact: What is run, in a process of its own.
        request: What was asked for.
        feeds: What it is run on, of its own types.
        progress: Told what is being done.
    """
    emitter: Emitter = plugins.load("emitters", artifact.target)
    alone = emitter.alone(artifact, request)
    if isinstance(alone, str):
        activations = _computed(artifact.path, feeds) if emitter.lowers else None
        profile = Profile(why=alone) if request.profile else None
        return replace(found, memory=Footprint(activations=activations, why=alone), profile=profile)
    progress("measuring memory")
    memory = alone.memory(feeds)
    if not request.profile:
        return replace(found, memory=memory)
    progress("profiling")
    return replace(found, memory=memory, profile=alone.profile(feeds))


def _computed(path: Path, feeds: Mapping[str, Array]) -> int | None:
    """Bytes that the tensors of a run need at once, computed from a file that is read as data."""
    from converter.analysis.activations import peak_activations
    from converter.pipeline.where import as_graph

    with TemporaryDirectory(prefix="modelyard-") as folder:
        graph = as_graph(path, Path(folder))
        if graph is None:
            return None
        sizes = {
            dim: size
            for spec in graph.inputs
            if spec.name in feeds
            for dim, size in zip(spec.shape or (), feeds[spec.name].shape, strict=False)
            if isinstance(dim, str)
        }
        return peak_activations(graph, sizes)
