"""Inputs for calibration, checks and warm-up, with their labels: read one at a time, checked
against the model's inputs, from whatever ``--samples`` names."""

from __future__ import annotations

from converter.samples.base import Sample, Samples, Tokenize
from converter.samples.load import load_samples, path_of, require_there

__all__ = ["Sample", "Samples", "Tokenize", "load_samples", "path_of", "require_there"]
