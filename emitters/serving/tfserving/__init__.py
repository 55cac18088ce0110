"""What is known of the server tfserving without its code."""

from __future__ import annotations

from converter.protocols.spec import ServerSpec

SPECS = {
    "tfserving": ServerSpec(
        accepts=("savedmodel",),
        options=(
            *("max_batch", "dynamic_batching", "queue_delay", "instances", "version", "warmup"),
            "version_label",
        ),
    )
}
