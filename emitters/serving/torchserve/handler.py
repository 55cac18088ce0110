"""The model for TorchServe: POST /predictions/NAME {input: lists}, answered by {output: lists};
GET /predictions/NAME/VERSION/ready, answered once the model is loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from inference import InputError, Model, finish


class Handler:
    """One worker's; TorchServe hands it the requests of a batch: over HTTP its body, which it may
    have parsed, over gRPC the input ``data``."""

    def initialize(self, context: Any) -> None:
        """Loads the model, from where TorchServe has unpacked the archive."""
        self.model = Model.load(Path(context.system_properties["model_dir"]))

    def handle(self, data: list[dict[str, Any]], context: Any) -> list[dict[str, Any]]:
        """An answer for each request; those that are wrong get status 400, the others run."""
        answers: list[dict[str, Any]] = [{}] * len(data)
        feeds = {}
        for number, request in enumerate(data):
            if context.get_all_request_header(number).get("url_path") == "ready":
                answers[number] = {"ready": True}
                continue
            try:
                feeds[number] = self.model.prepare(request.get("body") or request.get("data"))
            except InputError as error:
                context.set_response_status(400, "Bad Request", number)
                answers[number] = {"error": str(error)}
        for number, outputs in zip(feeds, self.model.run(list(feeds.values())), strict=True):
            answers[number] = finish(outputs)
        return answers
