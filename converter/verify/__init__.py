"""Compares a model before and after a pass, and takes back the pass where they differ."""

from __future__ import annotations

from converter.verify.passes import run_passes
from converter.verify.probes import Probe, build_probes
from converter.verify.verifier import Verdict, Verifier

__all__ = ["Probe", "Verdict", "Verifier", "build_probes", "run_passes"]
