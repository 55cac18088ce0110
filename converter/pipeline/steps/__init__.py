"""What each kind of step does: parse, samples, simplify, reference, emit, check, bench, pack,
package.

:mod:`converter.pipeline.run` decides when; what they gave is put together in
:mod:`converter.pipeline.results`.
"""

from __future__ import annotations

from converter.pipeline.steps.artifacts import (
    Bench,
    Check,
    CheckedArtifact,
    Emit,
    Pack,
    Package,
    Reference,
    measure_session,
)
from converter.pipeline.steps.base import Results, StepAction
from converter.pipeline.steps.models import Made, Parse, ReadSamples, Simplify

__all__ = [
    "ACTIONS",
    "CheckedArtifact",
    "Emit",
    "Made",
    "Results",
    "Simplify",
    "StepAction",
    "measure_session",
]

ACTIONS: dict[str, type[StepAction]] = {
    "parse": Parse,
    "samples": ReadSamples,
    "simplify": Simplify,
    "reference": Reference,
    "emit": Emit,
    "check": Check,
    "bench": Bench,
    "pack": Pack,
    "package": Package,
}
