"""What the backends of all frameworks share."""

from __future__ import annotations

import platform
import sys
from typing import Any, ClassVar, Dict, Mapping, Tuple

from .packages import installed
from .protocol import VERSION, Channel, Method


class FrameworkBackend:
    """One model of one framework at a time.

    `PACKAGES` are the distributions that hello names, `METHODS` what the parent may call, each a
    method of the class.
    """

    PACKAGES: ClassVar[Tuple[str, ...]] = ()
    METHODS: ClassVar[Tuple[str, ...]] = ("hello", "warm", "load", "export", "run", "time")

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def methods(self) -> Dict[str, Method]:
        """The methods of the protocol, less shutdown."""
        return {name: getattr(self, name) for name in self.METHODS}

    def hello(self, params: Mapping[str, Any]) -> Dict[str, Any]:
        """Versions; a package that is not installed is None. Imports nothing."""
        return {
            "protocol": VERSION,
            "python": platform.python_version(),
            "executable": sys.executable,
            **{package: installed(package) for package in self.PACKAGES},
        }
