"""A folder of an S3 server's bucket for each test."""

from collections.abc import Iterator

import pytest

from tests.stores.s3 import S3Server, s3_server


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """The server, one for all tests of a worker."""
    with s3_server(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture
def bucket(
    server: S3Server, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> str:
    """The URL of a folder of the test's own."""
    for name, value in server.variables.items():
        monkeypatch.setenv(name, value)
    return f"{server.bucket}/{request.node.name.replace('[', '-').replace(']', '')}"
