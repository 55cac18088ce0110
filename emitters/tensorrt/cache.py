"""Where the builder's timings are kept: in our cache, by device and by the library's version."""

from __future__ import annotations

import re

from converter.files.cache_root import cache_root
from emitters.tensorrt.libraries import Library, device_name


def timing_cache_of(library: Library) -> str | None:
    """The file of the timings for the first device; None where none can be kept.

    TensorRT-RTX measures nothing when it builds: its timing cache does nothing since 1.2.
    """
    device = device_name() if library.name == "tensorrt" else ""
    if not device:
        return None
    folder = cache_root() / "tensorrt"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:  # the build measures anew then
        return None
    plain = re.sub(r"[^A-Za-z0-9.]+", "-", f"{library.version}-{device}")
    return str(folder / f"{plain}.timing")
