"""Run by a module with probes: a test that comes by one becomes a line of a file in ``_PROBES``."""

_PROBES: str


def _reached(number: int, seen: set[tuple[int, str]] = set()) -> None:  # noqa: B006
    import os

    def running(pid: int) -> str:  # a child whose environment is empty is its parent's test's
        try:
            with open(f"{_PROBES}/test-{pid}") as file:  # type: ignore[name-defined] # noqa: PTH123, F821
                return file.read()
        except OSError:
            with open(f"/proc/{pid}/status") as file:  # noqa: PTH123
                parent = next((line for line in file if line.startswith("PPid:")), "")
        number = int(parent.partition(":")[2] or 0)
        return running(number) if number > 1 else ""

    test = os.environ.get("PYTEST_CURRENT_TEST") or running(os.getpid())
    if (number, test) not in seen:
        seen.add((number, test))
        try:
            with open(f"{_PROBES}/{os.getpid()}", "a") as file:  # type: ignore[name-defined] # noqa: PTH123, F821
                file.write(f"{number}\t{test}\n")
        except OSError:  # some tests have a full disk
            seen.discard((number, test))
