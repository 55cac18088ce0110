"""A child that answers the JSON lines of :mod:`converter.runtime.child`, for code of the user's.

What that code prints goes to standard error. Standard library only.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any


def answer_requests(answer: Callable[[Mapping[str, Any]], dict[str, Any]]) -> None:
    """Answers until standard input closes.

    Args:
        answer: Gives ``result`` or ``error`` of a request with ``method`` and ``params``.
    """
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    requests = _requests()
    while True:
        request = json.loads(requests.get())
        answers.write(json.dumps({"id": request["id"], **answer(request)}) + "\n")
        answers.flush()


def _requests() -> queue.Queue[str]:
    """Lines of standard input; the process ends when that does, even while code runs."""
    lines: queue.Queue[str] = queue.Queue()

    def read() -> None:
        for line in sys.stdin:
            lines.put(line)
        os._exit(0)

    threading.Thread(target=read, daemon=True).start()
    return lines
