"""Compares a model before and after passes, and takes back the pass that is wrong."""

from __future__ import annotations

from converter.verify.passes import run_passes
from converter.verify.probes import Probe, build_probes, effort
from converter.verify.rewrites import verify_rewrites
from converter.verify.verifier import Verdict, Verifier

__all__ = [
    "Probe",
    "Verdict",
    "Verifier",
    "build_probes",
    "effort",
    "run_passes",
    "verify_rewrites",
]
