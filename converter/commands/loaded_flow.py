"""A loaded flow: several artifacts that take a user's file to one answer, in this process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from converter.commands.asking import is_file
from converter.commands.loaded import Loaded
from converter.errors import UsageError
from converter.preparation.flow import FlowStep
from converter.preparation.flows import Flow
from converter.preparation.prepared import told


class LoadedFlow(Loaded):
    """The parts of an output, joined as its recipe says; called with a user's file.

    Args:
        path: The output folder.
        steps: The flow.
        parts: Its parts by name, opened; closed with it.

    Attributes:
        parts: They can be called by themselves.

    Raises:
        UsageError: Nothing says how a part prepares files.
    """

    def __init__(self, path: Path, steps: Sequence[FlowStep], parts: Mapping[str, Loaded]) -> None:
        self.title, self.parts = path.name, dict(parts)
        self.inputs, self.outputs = (), ()
        self.runtime = {name: part.runtime for name, part in parts.items()}
        self._steps = list(steps)
        self._first = self.parts[steps[0].part]
        joined = {name: part.as_part() for name, part in parts.items()}
        self._flow = Flow([step.model_dump() for step in steps], joined)

    def __call__(self, *arrays: Any, **named: Any) -> Any:
        """The answer to a file, of each step by its name; of a list of files, a list; of arrays,
        where each part takes what another gives, the outputs of the last.

        Args:
            *arrays: The file, as for :meth:`ask`, or a list of files; or arrays, as the first part
                takes them.
            **named: Arrays by name.

        Raises:
            UsageError: It can't be prepared, or there are no such inputs.
            DependencyError: What prepares it isn't installed.
            ModelError: A runtime refuses it.
        """
        (file,) = arrays if len(arrays) == 1 and not named else (None,)
        if not is_file(file) and not (isinstance(file, list) and file and is_file(file[0])):
            if all(step.takes for step in self._steps[1:]):
                return self._chained(arrays, named)
            raise UsageError(
                f"{self.title} takes one file, or a list of files", code="python-argument"
            )
        if isinstance(file, list):
            return [self(item) for item in file]
        with told():
            return self._flow.ask(self._first.item(file))

    def _chained(self, arrays: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """The outputs of the last part, of arrays for the first."""
        given = {self._steps[0].name: self._first(*arrays, **named)}
        for step in self._steps[1:]:
            given[step.name] = self.parts[step.part](given[step.takes])
        return given[self._steps[-1].name]

    def close(self) -> None:
        """Ends all parts; safe to call twice."""
        for part in self.parts.values():
            part.close()

    def __repr__(self) -> str:
        return f"<{self.title}: {', '.join(map(repr, self.parts.values()))}>"
