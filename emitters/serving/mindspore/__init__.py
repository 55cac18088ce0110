"""What is known of the server mindspore-serving without its code."""

from __future__ import annotations

from converter.protocols.spec import ServerSpec

SPECS = {"mindspore-serving": ServerSpec(accepts=("mindspore",), options=("instances", "version"))}
