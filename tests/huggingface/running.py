"""Opens a Hugging Face folder as the pipeline does, and compares the ONNX file with torch."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from converter.ir.model import Model, TensorSpec
from converter.options.recipe import make_request
from converter.runtime.ort import OrtSession
from converter.runtime.session import Session
from parsers.huggingface.parser import HuggingFaceParser

Arrays = dict[str, np.ndarray[Any, Any]]


@dataclass(frozen=True)
class Opened:
    """A folder read: its model, the framework that runs it, and ONNX Runtime's session."""

    model: Model
    reference: Session
    session: Session
    warnings: list[str]

    def compare(self, sizes: dict[str, int], tolerance: float = 1e-5) -> Arrays:
        """Runs both on random values; texts but the first are padded. Gives torch's outputs."""
        feeds = made_feeds(self.model.inputs, sizes)
        want, got = self.reference.run(feeds), self.session.run(feeds)
        assert list(want) == list(got)
        for name, array in want.items():
            np.testing.assert_allclose(got[name], array, 0, tolerance, err_msg=name, strict=True)
            assert array.std() > 1e-3, f"{name} is constant: the comparison says nothing"
        return want


def made_feeds(inputs: tuple[TensorSpec, ...], sizes: dict[str, int]) -> Arrays:
    """Random values within each input's range; masks end in zeros from the second row on."""
    generator = np.random.default_rng(1)
    feeds: Arrays = {}
    for spec in inputs:
        shape = spec.sized(sizes)
        if spec.meaning == "mask":
            feeds[spec.name] = np.ones(shape, np.int64)
            for row in range(1, shape[0]):
                feeds[spec.name][row, ..., max(1, shape[-1] - 2 * row) :] = 0
        elif spec.is_float:
            feeds[spec.name] = generator.standard_normal(shape).astype(np.float32)
        else:
            assert spec.value_range is not None, spec.name
            low, high = spec.value_range
            feeds[spec.name] = generator.integers(int(low), int(high), shape, endpoint=True)
    return feeds


@contextmanager
def opened(folder: Path, workdir: Path, **options: Any) -> Iterator[Opened]:
    """The folder, read in a process that ends with the context."""
    request = make_request({"source": str(folder), **options})
    parser = HuggingFaceParser()
    assert parser.sniff(request.source)
    source = parser.open(request, workdir, lambda text: None)
    try:
        model = source.parse()
        session = OrtSession(model.graph, plain=True)
        yield Opened(model, source.reference(), session, list(source.warnings))
    finally:
        source.close()
