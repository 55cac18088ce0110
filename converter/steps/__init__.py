"""What each kind of step does: parse, samples, simplify, reference, emit, check, bench, package.

:mod:`converter.run` decides when; what they gave is put together in :mod:`converter.results`.
"""

from __future__ import annotations

from converter.steps.artifacts import (
    Bench,
    Check,
    CheckedArtifact,
    Emit,
    Package,
    Reference,
    choose_metrics,
    measure_session,
)
from converter.steps.base import Results, StepAction
from converter.steps.models import Made, Parse, ReadSamples, Simplify

__all__ = [
    "ACTIONS",
    "CheckedArtifact",
    "Made",
    "Results",
    "Simplify",
    "StepAction",
    "choose_metrics",
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
    "package": Package,
}
