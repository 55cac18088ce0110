"""What is known of the server ovms without its code."""

from __future__ import annotations

from converter.protocols.spec import ServerSpec

SPECS = {"ovms": ServerSpec(accepts=("openvino",), options=("instances", "version"))}
