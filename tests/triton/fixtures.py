"""Fixtures for tests that need a real Triton server."""

from __future__ import annotations

import pytest

from tests.triton.environment import TritonEnvironment, provide_triton_environment


@pytest.fixture(scope="session")
def triton_environment() -> TritonEnvironment:
    """The server's environment; made once per machine, so that the first run may take longer."""
    return provide_triton_environment()
