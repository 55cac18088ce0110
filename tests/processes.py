"""Processes that a test started."""

import psutil


def running(word: str) -> set[int]:
    """The pids of this process's descendants whose command lines have the word; a zombie has none
    any more."""
    found = set()
    for process in psutil.Process().children(recursive=True):
        try:
            if word in " ".join(process.cmdline()):
                found.add(process.pid)
        except (psutil.NoSuchProcess, psutil.ZombieProcess):
            continue
    return found
