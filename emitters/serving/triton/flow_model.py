"""Takes users' files in Triton through several models: what flow.json beside this says.

It asks the models of the flow's parts inside the server. Written by Modelyard.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import Any

from files import TritonPythonModel as OfFiles
from files import run
from flows import Flow, Part
from stages import Item, Stages


class TritonPythonModel(OfFiles):  # type: ignore[misc]
    """One instance: a process of its own, with threads."""

    def initialize(self, args: Mapping[str, str]) -> None:
        """Reads the flow."""
        super().initialize(args)
        said = json.loads((self._folder / "flow.json").read_text("utf-8"))
        parts = {
            name: Part(
                Stages(facts, self._folder / "parts" / name),
                partial(run, facts["model"]),
                facts["model"]["batched"],
            )
            for name, facts in said["parts"].items()
        }
        self._flow = Flow(said["steps"], parts)

    def _told(self, item: Item) -> dict[str, Any]:
        told: dict[str, Any] = self._flow.ask(item)
        return told
