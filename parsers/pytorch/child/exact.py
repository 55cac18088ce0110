"""Has the rules of onnxscript's optimizer take a constant for what it is.

Given:   log(x + 1e-8); x * 1.000005
Result:  the same; by its own tolerance (1e-8, 1e-5 of the value) log(x) and x
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def constants() -> Iterator[None]:
    """Rules match a constant that equals theirs in its own type, and no other."""
    try:
        import numpy as np  # where a model is traced alone, torch is all that there is
        from onnxscript.rewriter._matcher import SimplePatternMatcher

        match = SimplePatternMatcher._match_constant
    except (ImportError, AttributeError):  # another version's rules: the check has to see it
        yield
        return

    def match_exact(self: Any, pattern: Any, value: Any) -> Any:
        if not match(self, pattern, value):
            return False
        found = value.const_value.numpy()
        if np.array_equal(found, np.asarray(pattern._value).astype(found.dtype)):
            return True
        return self.fail(f"{value.name} is another number")

    SimplePatternMatcher._match_constant = match_exact
    try:
        yield
    finally:
        SimplePatternMatcher._match_constant = match
