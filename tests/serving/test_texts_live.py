"""A text classifier's package on its real server: the clients take texts as they are."""

from pathlib import Path

import pytest

from converter import api
from tests.acceptance.cli import modelyard
from tests.huggingface.models import save
from tests.huggingface.test_texts import clients_answer, with_tokenizer
from tests.serving.test_python_package import SERVERS

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model in ``bert``, and every server's package of it."""
    folder = tmp_path_factory.mktemp("texts")
    with_tokenizer(save("bert-classes", folder / "bert", max_position_embeddings=20))
    line = ("--no-bench", "--serve", ",".join(SERVERS), "--out", "out")
    modelyard("convert", "bert", *line, cwd=folder, code=0)
    return folder


@pytest.mark.parametrize("server", SERVERS)
def test_clients_answer_a_text(server: str, folder: Path) -> None:
    package = folder / "out" / "serving" / server / "bert"
    with api.serve(str(package), port=0) as running:
        web = running.addresses.get("json") or running.addresses["v2"]
        addresses = {"client_requests": "/".join(web.split("/")[:3])}
        if server in ("kserve", "mlserver"):
            addresses["client_grpc"] = running.addresses["grpc"].split("/")[2]
        clients_answer(folder / "bert", package, addresses)
