"""The distributions that can take part in a conversion."""

from __future__ import annotations

import sys
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version

from converter.plugins import others, specs
from converter.plugins.extras import canonical
from converter.runtime.frameworks import frameworks

_PACKAGES = (
    "modelyard", "onnx", "onnx-ir", "onnxscript", "onnxsim", "onnxslim", "onnxruntime",
    "onnxruntime-gpu", "numpy", "pillow",
)  # fmt: skip


def packages() -> list[str]:
    """The distributions that can take part in a conversion, each once."""
    choices = [choice for item in frameworks() for choice in (*item.needs, *item.uses)]
    read = [choice.split("|")[0] for choice in choices]
    dists = [canonical(entry.dist.name) for entry in others() if entry.dist]
    write = [name for _, item in specs("emitters", "servers") for name in item.packages]
    return list(dict.fromkeys([*_PACKAGES, *read, *write, *dists]))


def environment_summary() -> dict[str, str]:
    """Versions of the packages that can take part in a conversion, for the manifest."""
    found = {name: _version(name) for name in packages()}
    return {
        "python": ".".join(map(str, sys.version_info[:3])),
        **{name: has for name, has in found.items() if has is not None},
    }


def _version(name: str) -> str | None:
    with suppress(PackageNotFoundError):
        return version(name)
    return None
