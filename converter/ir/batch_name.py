"""What the batch dimension is called."""

from __future__ import annotations

import re

BATCH = "batch"
"""The symbol of the batch dimension."""


BATCH_LIKE = re.compile(
    r"(n|b|bs|nbatch|batch|batch[ _-]?(size|dim|axis|num|count|sz)|n(um)?_?(batch(es)?|samples))",
    re.IGNORECASE,
)
"""What people call a batch."""
