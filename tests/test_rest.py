"""The source's process ends once nobody needs it, and is there again where somebody does."""

from pathlib import Path

import numpy as np
import pytest

from converter.api import convert
from converter.check.gates import JUDGED
from converter.check.informative import untold
from converter.check.reference import ReferenceOutputs
from converter.commands.opened import working
from converter.errors import ModelError
from converter.pipeline.open_source import OpenSource
from tests.passes.models import Array, ListedSamples
from tests.processes import running

ONES = {"x": np.ones((1, 4), np.float32)}
NET = """
import os
import torch

class Steady(torch.nn.Linear):
    def __init__(self):
        super().__init__(4, 2)

class Late(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x - 15)

class Drawn(Steady):
    def __init__(self):
        super().__init__()
        self.bias.data.fill_(int.from_bytes(os.urandom(2), "big"))
"""


@pytest.mark.parametrize("name", ["Steady", "Drawn"])
def test_a_source_that_rests_comes_back_as_it_was_or_not_at_all(tmp_path: Path, name: str) -> None:
    (tmp_path / "net.py").write_text(NET)
    samples = ListedSamples([ONES])
    before = running("worker/main.py")
    with working(f"{tmp_path}/net.py:{name}", {"inputs": ["x:batchx4"]}) as work:
        known = ReferenceOutputs.compute(work.opened.session(), samples, tmp_path / "known")
        assert len(running("worker/main.py") - before) == 1
        work.opened.rest(lambda session: known.require_same(session, next(iter(samples))))
        assert not running("worker/main.py") - before
        if name == "Drawn":
            with pytest.raises(
                ModelError, match="gave other outputs when it was read a second time"
            ):
                work.opened.session()
        else:
            found = work.opened.session().run(ONES)
            np.testing.assert_array_equal(list(found.values()), list(known[0].values()))
    assert not running("worker/main.py") - before


@pytest.mark.parametrize(("outputs", "read", "tells"), [
    ([[1, 2], [1, 3], [4, 4]], 2, True),
    ([[0, 0], [0, 0]], 2, False),
    ([[0, 0], [np.nan, 0], [2, 0]], 3, True),
    ([[1, 2]], 1, False),
])  # fmt: skip
def test_what_a_reference_says_is_known_of_its_first_samples(
    outputs: list[list[float]], read: int, tells: bool
) -> None:
    seen: list[Array] = []

    def given(dtype: type) -> bool:
        seen.clear()
        arrays = (np.nan_to_num(np.array(values)).astype(dtype) for values in outputs)
        return not untold({"y": seen.append(array) or array} for array in arrays)  # type: ignore[func-returns-value]

    assert (given(np.float32), len(seen)) == (tells, read)


def test_what_samples_do_not_tell_is_asked_before_the_source_rests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Relu(x - 15) is zero on samples of about 1, and told by larger ones."""
    (tmp_path / "net.py").write_text(NET)
    said: list[str] = []
    rest, same = OpenSource.rest, ReferenceOutputs.require_same
    monkeypatch.setattr(OpenSource, "rest", lambda *args: said.append("rests") or rest(*args))
    monkeypatch.setattr(
        ReferenceOutputs, "require_same", lambda *args: said.append("opened again") or same(*args)
    )
    for precision, expected in (("fp32", ["rests"]), ("fp16", [])):
        said.clear()
        found = convert(
            f"{tmp_path}/net.py:Late", inputs=["x:batchx4"], to=["onnx"], precision=[precision],
            samples="random:8", bench=False, cache=False, out=tmp_path / precision,
        )  # fmt: skip
        gates = {gate.name: gate for gate in found.report.artifacts[0].gates}
        assert "was judged on random values of about 1" in gates[JUDGED].why
        assert said == expected
