"""Functions that register themselves by a decorator, in a package with a module for each family."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import TypeVar

Key = TypeVar("Key")
Made = TypeVar("Made")


@cache
def load(package: str) -> None:
    """Imports every module of a package, so that what they have is registered."""
    for module in iter_modules(import_module(package).__path__):
        import_module(f"{package}.{module.name}")


def registering(table: dict[Key, Made], keys: Iterable[Key]) -> Callable[[Made], Made]:
    """A decorator that puts what it is given into a table, and gives it back.

    Args:
        table: What there is by key.
        keys: Where it is put.

    Raises:
        ValueError: There is something already.
    """

    def register(made: Made) -> Made:
        for key in keys:
            if table.setdefault(key, made) is not made:
                raise ValueError(f"{key} is there twice: remove one of the two functions")
        return made

    return register
