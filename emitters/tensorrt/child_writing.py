"""In the build's process: the engine to its file, and its sha256, in one pass over its memory."""

from __future__ import annotations

import hashlib
import os
import threading
from pathlib import Path

from emitters.tensorrt.child_threads import all_cores


def write_and_digest(path: Path, content: memoryview) -> str:
    """Writes ``content`` to ``path`` and gives its sha256; both at once, without the GIL.

    Raises:
        OSError: The file can't be written.
    """
    digest = hashlib.sha256()

    all_cores()  # threads have this thread's cores

    def feed() -> None:
        digest.update(content)

    thread = threading.Thread(target=feed)
    thread.start()
    try:
        with path.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, len(content))  # twice as quick
            file.write(content)
    finally:
        thread.join()
    return digest.hexdigest()
