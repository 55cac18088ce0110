"""What every package has, around a Triton model folder: Triton passes over all of it.

The samples are ``warmup/`` files like those that ``config.pbtxt`` names, so that the first ones are
just those.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from converter.check.shipping import Shipped
from converter.options.request import Request
from converter.protocols.emitter import Artifact
from converter.samples import Sample, Samples
from emitters.packaging import Package, Wire
from emitters.serving.triton.config import Port

URL, GRPC = "http://localhost:8000", "localhost:8001"


def first_shipped(samples: Samples, shipped: Shipped | None) -> Iterator[Sample]:
    """The samples, those first that go along with the package."""
    items = shipped.items if shipped else ()
    yield from (Sample(item.name, item.feeds) for item in items)
    names = {item.name for item in items}
    yield from (sample for sample in samples if sample.name not in names)


def pack(
    path: Path,
    artifact: Artifact,
    file: str,
    ports: tuple[Sequence[Port], Sequence[Port]],
    shipped: Shipped | None,
    request: Request,
) -> list[str]:
    """Writes facts, samples, ``selftest.py`` and clients into a model's folder.

    Args:
        path: The model's folder.
        artifact: What is served.
        file: Its file, by its path in the folder.
        ports: Inputs and outputs as they are served.
        shipped: The samples that go along.
        request: What was asked for.

    Returns:
        What was decided, a line each.

    Raises:
        OSError: The folder can't be written.
    """
    inputs, outputs = ports
    base = f"/v2/models/{path.name}"
    return Package(
        name=path.name,
        server="triton",
        title="A model folder for the Triton Inference Server",
        target=artifact.target,
        precision=artifact.precision,
        file=file,
        inputs=[port.spec for port in inputs],
        outputs=[port.spec for port in outputs],
        shipped=shipped,
        request=request,
        runs=Wire("v2-binary", URL, f"{base}/infer", f"{base}/ready", grpc=GRPC),
        form="bin",
        wider={port.spec.name for port in (*inputs, *outputs) if port.scalar},
        labels={port.spec.name: port.label_file for port in outputs if port.label_file},
    ).write(path)
