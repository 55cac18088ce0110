"""A case through an emitter: written, opened from disk, run at all sizes, compared."""

import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path

from converter import plugins
from converter.errors import ModelyardError
from converter.ir.model import Model
from converter.options.recipe import make_request
from converter.protocols.emitter import Emitter
from converter.runtime.session import Session
from tests.fuzz.case import REFUSALS, Case, Finding, differences, raised
from tests.fuzz.pipeline import read, simplified
from tests.fuzz.values import Array, Value
from tests.passes.models import ListedSamples

Compare = Callable[[str, int, Mapping[str, Array]], Iterable[Finding]]
"""Takes a label, the number of the feeds, and the outputs; gives what is wrong with them."""

refusals: Counter[str] = Counter()
"""How often a target refused, by reason: a check that refuses everything finds nothing."""


def check_target(
    name: str, case: Case, expected: Mapping[str, Value], *, simplify: bool
) -> Iterator[Finding]:
    """A target's artifact, on all kernels that its emitter knows of."""
    try:
        model = simplified(case) if simplify else read(case)
    except Exception:  # what passes do is checked by itself
        return

    def compare(label: str, index: int, found: Mapping[str, Array]) -> Iterator[Finding]:
        for text in differences(expected, index, found):
            yield Finding(f"{label}: wrong", f"feeds {index}: {text}")
            return

    with tempfile.TemporaryDirectory(prefix="modelyard-fuzz-") as folder:
        yield from check_model(name, model, case, Path(folder), compare)


def check_model(
    name: str, model: Model, case: Case, folder: Path, compare: Compare, precision: str = "fp32"
) -> Iterator[Finding]:
    """A target's artifact of a model that was made of a case."""
    try:
        yield from _emitted(name, model, case, folder, compare, precision)
    except ModelyardError as error:
        if error.exit_code not in REFUSALS:
            yield raised(name, error)
            return
        refusals[f"{name} raises {error.message}"] += 1
    except Exception as error:  # whatever isn't ours is the finding
        yield raised(name, error)


def _emitted(
    name: str, model: Model, case: Case, folder: Path, compare: Compare, precision: str
) -> Iterator[Finding]:
    emitter: Emitter = plugins.load("emitters", name)
    asked = {"source": "model.onnx", "to": [name], "threads": 1, "precision": [precision]}
    request = make_request(asked)
    items = emitter.unsupported(model, request)
    if items:
        for item in items:
            refusals[f"{name}: {item.op}: {item.reason}"] += 1
        return
    seen = emitter.observe(ListedSamples([dict(feeds) for feeds in case.feeds]), model)
    artifact = emitter.emit(model, folder, precision, request, seen)
    label = name if precision == "fp32" else f"{name} {precision}"
    openers: dict[str, Callable[[], Session]] = {"": partial(emitter.open, artifact, request)}
    openers |= {f" {how}": make for how, make in emitter.others(artifact, request).items()}
    for how, make in openers.items():
        try:
            session = make()
        except ModelyardError as error:
            yield raised(f"{label}{how}: opening", error)
            continue
        try:
            yield from _compared(f"{label}{how}", session, case, compare)
        finally:
            session.close()


def _compared(label: str, session: Session, case: Case, compare: Compare) -> Iterator[Finding]:
    for index, feeds in enumerate(case.feeds):
        try:
            found = session.run(feeds)
        except ModelyardError as error:
            yield raised(f"{label}: running", error)
            return
        wrong = list(compare(label, index, found))
        if wrong:
            yield from wrong
            return
