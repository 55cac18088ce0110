"""Outputs in the cache: what a sweep made once isn't made again, wherever it is wanted."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path

from converter.errors import MachineError
from converter.files.digest import digest_of
from converter.machine import describe_machine
from converter.options.request import Request
from converter.pipeline.cache import Cache
from converter.pipeline.plan import Plan
from converter.pipeline.steps.models import KEPT_BELOW


def may_be_kept(request: Request, plan: Plan) -> bool:
    """Whether an output is all that a run gives, and nothing in it is measured.

    Args:
        request: What is asked for.
        plan: The steps.
    """
    measured = any(step.kind == "bench" for step in plan.steps)
    return not (measured or request.repository or request.deploy)


class KeptOutputs(AbstractContextManager["KeptOutputs"]):
    """Output folders in the cache, or in the store behind it, by the key of all that they depend
    on; a context manager that waits for what is being kept.

    Args:
        cache: Where they are kept.
    """

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._keeper = ThreadPoolExecutor(1, thread_name_prefix="keep-output")

    def __exit__(self, *error: object) -> None:
        self._keeper.shutdown(wait=True, cancel_futures=True)

    def get(self, key: str, folder: Path) -> bool:
        """Copies an output into an empty folder; False where the cache lacks it."""
        return self._cache.get(_key(key), folder)

    def put(self, key: str, folder: Path) -> None:
        """Keeps a copy of an output that isn't very large, beside what runs next."""
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        if self._cache.takes and size <= KEPT_BELOW:
            self._keeper.submit(self._put, _key(key), folder)

    def _put(self, key: str, folder: Path) -> None:
        try:
            (self._cache.behind or self._cache).put(key, folder)
        except (MachineError, OSError) as error:
            self._cache.give_up(error)


def _key(key: str) -> str:
    """With what kernels and engines are chosen by."""
    machine = describe_machine()
    return digest_of(["output", key, machine.flags, machine.gpus])
