"""What the steps of a sweep of zoo models take here: ``python -m bench scale --measure``."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from bench.measure import cold_cache, where
from converter.commands.convert import planned_part
from converter.commands.sweep import CellReport, sweep
from converter.errors import GateError
from converter.pipeline.manifest import size_of
from converter.pipeline.plan import Step
from converter.pipeline.run import Silent

ROOT = Path(__file__).resolve().parent.parent
KEPT = ROOT / "bench" / "scale.json"

MODELS = ("efficientnet-lite0", "resnet50-random", "minilm", "pp-ocrv4-rec", "fer")
AXES = {"to": ["onnx", "tflite", "coreml", "openvino"], "precision": ["fp32", "int8"]}
PACKAGES = ("onnxruntime-gpu", "ai-edge-litert", "coremltools", "openvino", "torch", "simpy")


@dataclass
class Work:
    """One step of a model, as it was measured.

    Attributes:
        id: Its cell and name.
        needs: The steps whose results it takes.
        seconds: How long it took, with others beside it.
        alone, threaded, light: See :class:`converter.pipeline.plan.Step`.
    """

    id: str
    needs: list[str]
    seconds: float
    alone: bool
    threaded: bool
    light: bool

    @cached_property
    def step(self) -> Step:
        """What says what may run beside it."""
        flags = {"alone": self.alone, "threaded": self.threaded, "light": self.light}
        return Step("any", "", **flags)


@dataclass
class Model:
    """A model as it was measured: its steps, and its share of the bytes."""

    name: str
    steps: list[Work]
    source: float
    results: float
    outputs: float

    @property
    def compute(self) -> float:
        """Seconds of all steps, one after the other."""
        return sum(step.seconds for step in self.steps)

    @property
    def chain(self) -> float:
        """Seconds of the longest chain of steps that wait for each other."""
        ends: dict[str, float] = {}
        for step in self.steps:
            ends[step.id] = step.seconds + max((ends.get(n, 0.0) for n in step.needs), default=0.0)
        return max(ends.values())


@dataclass
class Measured:
    """What a sweep of some models took here.

    Attributes:
        models: The models.
        wall: Seconds of the whole sweep.
        again: Seconds of the same sweep once everything is there.
        missed: The cells that missed a gate, which takes as long.
        machine: Where, with which versions.
    """

    models: list[Model]
    wall: float
    again: float
    missed: list[str]
    machine: str

    def mean(self, of: Callable[[Model], float]) -> float:
        """Of the models."""
        return sum(map(of, self.models)) / len(self.models)

    @classmethod
    def read(cls) -> Measured:
        """What the last ``--measure`` kept."""
        told = json.loads(KEPT.read_text())
        models = [Model(**{**m, "steps": [Work(**s) for s in m["steps"]]}) for m in told["models"]]
        return cls(**{**told, "models": models})


class _Recorder(Silent):
    """Notes every step of a sweep; a :class:`converter.commands.sweep.Watcher`."""

    def __init__(self) -> None:
        self.steps: dict[str, tuple[Step, float]] = {}

    def cells(self, count: int, kept: int) -> None:
        """Nothing."""

    def ended(self, cell: CellReport) -> None:
        """Says which cell that was."""
        print(cell.name, cell.state, cell.error or "", flush=True)

    def finished(self, step: Step, seconds: float, cached: bool) -> None:
        """Notes it; one that another cell's was taken over for took no time."""
        self.steps[step.id] = step, seconds

    def of(self, cells: Sequence[CellReport]) -> list[Work]:
        """The steps of the cells of one model: what several share, once, in their order."""
        own = {f"{cell.name}/" for cell in cells}
        mine = {id: item for id, item in self.steps.items() if id.partition("/")[0] + "/" in own}
        makers = {id.partition("/")[2]: id for id, (_, seconds) in mine.items() if seconds > 0}

        def made(id: str) -> str:
            return id if id in mine and mine[id][1] > 0 else makers.get(id.partition("/")[2], id)

        return [
            Work(id, sorted({made(need) for need in step.needs}), seconds, step.alone,
                 step.threaded, step.light)
            for id, (step, seconds) in mine.items() if made(id) == id
        ]  # fmt: skip


def measure(names: Sequence[str]) -> Measured:
    """Sweeps zoo models into 8 artifacts each, with a cold cache, and once more."""
    (ROOT / "build").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=ROOT / "build", prefix="bench-") as made:
        folder, recorder, seconds = Path(made), _Recorder(), []
        recipe, out = folder / "zoo.yaml", folder / "out"
        axes = {"source": [f"zoo:{name}" for name in names], **AXES}
        recipe.write_text(json.dumps({"few_samples": True, "sweep": axes}))
        cold_cache(folder)
        for watcher in (recorder, _Recorder()):
            begun = time.perf_counter()
            done = sweep(str(recipe), out=str(out), trust_recipe=True, watcher=watcher)
            seconds.append(time.perf_counter() - begun)
            broken = [
                name
                for name, error in done.errors.items()
                if error.exit_code != GateError.exit_code
            ]
            if broken:
                raise RuntimeError(f"choose other models: {', '.join(broken)} can't be made")
        results = size_of(Path(os.environ["MODELYARD_CACHE"]) / "steps") / len(names)
        models = []
        for name in names:
            source = f"zoo:{name}"
            cells = [cell for cell in done.report.cells if cell.options["source"] == source]
            read = planned_part("", {"source": source}).identity.files.values()
            outputs = sum(map(size_of, (p for c in cells for p in out.glob(f"{c.name}*"))))
            size = sum(map(size_of, read))
            models.append(Model(name, recorder.of(cells), size, results, outputs))
        return Measured(models, *seconds, sorted(done.errors), where(*PACKAGES))
