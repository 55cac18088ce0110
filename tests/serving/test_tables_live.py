"""Columns of a table, called as they are, on the servers that have ways of their own to send them:
MLServer's DataFrames, KServe's V1, and texts over gRPC."""

import json
from collections.abc import Iterator
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import numpy as np
import pytest
from tritonclient.grpc import InferenceServerClient, InferInput

from converter import api
from converter.commands.serve import Served
from tests.serving.models import text_model
from tests.serving.test_python_package import package

pytestmark = pytest.mark.slow

COLUMNS: dict[str, Any] = {"Age": [40, None, 20], "Work class": ["State", "Self emp", "é"]}


@pytest.fixture(scope="module", params=["mlserver", "kserve"])
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
           ) -> Iterator[Served]:  # fmt: skip
    model = text_model(
        """g (float[batch, 1] Age, string[batch, 1] work) => (string[batch, 1] label,
        float[batch, 2] probabilities) <float[1] seven = {7}> {
        label = Identity(work) gone = IsNaN(Age) known = Where(gone, seven, Age)
        probabilities = Concat<axis = 1>(known, known) }"""
    )
    next(v for v in model.graph.graph.inputs if v.name == "work").name = "Work class"
    model.describe("Age", missing=(0,))
    made = package(request.param, model, tmp_path_factory.mktemp("tables"))
    with api.serve(str(made.path), port=0) as running:
        yield running


def posted(url: str, body: Any) -> tuple[int, Any]:
    """The status of a POST, and what it is answered."""
    request = Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with urlopen(request, timeout=60) as answer:
            return answer.status, json.loads(answer.read())
    except HTTPError as error:
        return error.code, error.read().decode()


def test_texts_over_grpc(served: Served) -> None:
    host, name = served.addresses["grpc"].removeprefix("grpc://").split("/")
    asked = []
    for column, values in COLUMNS.items():
        text = column == "Work class"
        array = np.array(values, object if text else np.float32)[:, None]
        asked.append(InferInput(column, [3, 1], "BYTES" if text else "FP32"))
        asked[-1].set_data_from_numpy(array)
    found = InferenceServerClient(host).infer(name, asked)
    assert [item.decode() for item in found.as_numpy("label").ravel()] == COLUMNS["Work class"]
    assert found.as_numpy("probabilities")[:, 0].tolist() == [40, 7, 20]


def test_columns_as_the_server_s_own_clients_send_them(served: Served) -> None:
    url = served.addresses["v2"]
    if served.server == "kserve":
        url = url.replace("/v2/", "/v1/") + ":predict"
        rows = [dict(zip(COLUMNS, row, strict=True)) for row in zip(*COLUMNS.values(), strict=True)]
        answers = [posted(url, {"instances": rows}), posted(url, {"inputs": COLUMNS})]
        given = [[row["label"] for row in answer["predictions"]] for _, answer in answers]
        assert given == [[[text] for text in COLUMNS["Work class"]]] * 2
        assert posted(url, {"inputs": {"Age": [1]}})[0] == 400
        return
    kinds = {"Age": ("INT64", {}), "Work class": ("BYTES", {"content_type": "str"})}
    inputs = [
        {"name": name, "shape": [3, 1], "datatype": kinds[name][0], "data": data,
         "parameters": kinds[name][1]} for name, data in COLUMNS.items()
    ]  # fmt: skip
    inputs[0] |= {"data": [40, 30, 20]}
    asked = {"inputs": inputs, "parameters": {"content_type": "pd"},
             "outputs": [{"name": "predict_proba"}, {"name": "predict"}]}  # fmt: skip
    status, answer = posted(f"{url}/infer", asked)
    assert (status, [item["name"] for item in answer["outputs"]]) == (
        200,
        ["predict_proba", "predict"],
    )
    assert answer["outputs"][0]["data"] == [40, 40, 30, 30, 20, 20]
    assert answer["outputs"][1]["data"] == COLUMNS["Work class"]
