"""Starts the simplifiers' process once for all tests here, and ends it."""

from collections.abc import Iterator

import pytest

from converter.passes.libraries.tools import start_tools, stop_tools


@pytest.fixture(scope="session", autouse=True)
def tools() -> Iterator[None]:
    """The shared child process."""
    start_tools()
    yield
    stop_tools()
