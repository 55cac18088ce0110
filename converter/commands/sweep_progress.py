"""Shows what a sweep is at: which cells run, wait and have failed, and how long it will take."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rich.table import Table

from converter.commands.progress import Progress
from converter.text import words
from converter.text.screen import Text

if TYPE_CHECKING:
    from converter.commands.sweep import CellReport
    from converter.pipeline.plan import Plan, Step


class SweepProgress(Progress):
    """On a terminal, a table; elsewhere, a line for each cell that ends. A
    :class:`converter.commands.sweep.Watcher`."""

    def __init__(self) -> None:
        self._count = self._kept = self._done = self._failed = 0
        self._begun = time.monotonic()
        super().__init__()  # which renders it once

    def cells(self, count: int, kept: int) -> None:
        """How many there are, and how many an earlier run made."""
        self._count, self._kept, self._begun = count, kept, time.monotonic()
        if kept:
            self._console.print(Text(f"{kept} of {count}: made by an earlier run"))

    def ended(self, cell: CellReport) -> None:
        """Leaves a line."""
        for step in [step for step, _, _ in [*self._running.values()] if step.part == cell.name]:
            self._running.pop(step.id, None)  # that it failed in
        failed = cell.state == "failed"
        self._failed += failed
        self._done += not failed
        said = str((cell.error or {}).get("message", "")).split("\n")[0]
        sign = ("  ✗ ", "red") if failed else ("  ✓ ", "green")
        at = f"[{self._kept + self._done + self._failed}/{self._count}] "
        told = f"  {said}" if failed else f"  {words.seconds(cell.seconds)}"
        self._console.print(Text.assemble(sign, at + cell.name, (told, "dim")))

    def planned(self, plan: Plan) -> None:
        """Nothing: cells are counted, not steps."""

    def finished(self, step: Step, seconds: float, cached: bool) -> None:
        """Cells leave lines, not steps."""
        self._running.pop(step.id, None)

    def left(self) -> float | None:
        """Seconds until the end, if the others take as long as those that ended; None before the
        first."""
        ended = self._done + self._failed
        if not ended:
            return None
        waiting = self._count - self._kept - ended
        return (time.monotonic() - self._begun) / ended * waiting

    def _render(self) -> Table:
        grid = super()._render()
        names = {step.part for step, _, _ in [*self._running.values()]}
        waiting = self._count - self._kept - self._done - self._failed - len(names)
        told = [f"{self._kept + self._done} done", f"{len(names)} running",
                f"{max(0, waiting)} waiting", f"{self._failed} failed"]  # fmt: skip
        if (left := self.left()) is not None:
            told.append(f"about {words.seconds(left)} left")
        grid.add_row(Text(""), Text(", ".join(told), "bold"), Text(""), Text(""))
        return grid
