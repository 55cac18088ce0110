"""The model for TorchServe: POST /predictions/NAME a file, answered by what it means; or
{input: lists}, in JSON, answered by {output: lists}; GET /predictions/NAME/VERSION/ready, answered
once the model is loaded."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any

from asking import REFUSED, Asked, Asking, status_of
from inference import Model
from stages import StageError

UNTOLD = "application/x-www-form-urlencoded"
"""What curl says of a body unless told, which TorchServe takes apart as a form's fields."""


class Handler:
    """One worker's; TorchServe hands it the requests of a batch: over HTTP its body, which it may
    have parsed, or a form's files by their fields; over gRPC inputs by name, of which ``data`` is
    JSON and others are files."""

    def initialize(self, context: Any) -> None:
        """Loads the model, from where TorchServe has unpacked the archive."""
        folder = Path(context.system_properties["model_dir"])
        self.model = Model.load(folder)
        self.asking = Asking(self.model, folder)

    def handle(self, data: list[dict[str, Any]], context: Any) -> list[dict[str, Any]]:
        """An answer for each request; those that are wrong get a status of 400 or so, the others
        run."""
        answers: list[dict[str, Any]] = [{}] * len(data)
        asked, told = {}, {}
        for number, request in enumerate(data):
            headers = context.get_all_request_header(number)
            if headers.get("url_path") == "ready":
                answers[number] = {"ready": True}
                continue
            try:
                asked[number] = self.read(request, headers)
            except REFUSED as error:
                told[number] = status_of(error), {"error": str(error)}
        told |= zip(asked, self.asking.run(self.model, list(asked.values())), strict=True)
        for number, (status, answer) in told.items():
            answers[number] = answer
            if status != HTTPStatus.OK:
                context.set_response_status(status, HTTPStatus(status).phrase, number)
        return answers

    def read(self, request: Mapping[str, Any], headers: Mapping[str, Any]) -> Asked:
        """A request, prepared."""
        known = (value for name, value in headers.items() if name.lower() == "content-type")
        content_type = next((value for value in known if isinstance(value, str)), "")
        if content_type.startswith(UNTOLD):
            told = "say what the body is: -H 'Content-Type: image/jpeg', or whatever it is"
            raise StageError(f"the name of the body is {UNTOLD}: {told}", "", 415)
        if "body" in request:
            body = request["body"]
            if isinstance(body, (str, bytes, bytearray)):
                return self.asking.read(_bytes(body), content_type)
            return self.asking.of_json(body)
        if "data" in request and not content_type:
            return self.asking.of_json(request["data"])
        items = [self.asking.stages.items(_bytes(v), "", name) for name, v in request.items()]
        if not items:
            raise StageError("the form holds no file")
        return self.asking.of([item for found in items for item in found])


def _bytes(value: Any) -> bytes:
    """A value as it was sent, where TorchServe has made a text of it."""
    if isinstance(value, (bytes, bytearray)):
        return bytes(value)
    if isinstance(value, str):
        return value.encode()
    raise StageError("JSON came among files")
