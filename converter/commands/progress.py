"""Shows what a run is at."""

from __future__ import annotations

import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table

from converter.runtime.supervised import tell
from converter.text import words
from converter.text.screen import Console, Text, quiet

if TYPE_CHECKING:
    from converter.pipeline.plan import Plan, Step


SHOW_AFTER = 1.0
"""Seconds after which a finished step stays on the screen with its time."""


LOG_AFTER = 5.0
"""The same where there is no terminal, but a log."""


class Progress:
    """Shows the steps at work, on a terminal; elsewhere, a line for each that took long. A
    :class:`converter.pipeline.run.Listener`."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, quiet=quiet(), soft_wrap=True, highlight=False)
        self._running: dict[str, tuple[Step, float, str]] = {}
        self._numbers: dict[str, str] = {}
        self._live = Live(console=self._console, get_renderable=self._render, transient=True)

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._console.is_terminal:
            self._live.stop()

    def planned(self, plan: Plan) -> None:
        """Numbers the steps, in the plan's order."""
        count = len(plan.steps)
        self._numbers = {step.id: f"[{at}/{count}] " for at, step in enumerate(plan.steps, 1)}

    def started(self, step: Step) -> None:
        """Shows a step at work."""
        self._running[step.id] = (step, time.monotonic(), "")
        tell(step.title)

    def progress(self, step: Step, text: str) -> None:
        """Says what the step is at."""
        if step.id in self._running:
            self._running[step.id] = (*self._running[step.id][:2], text)
            tell(f"{step.title} ({text})")

    def finished(self, step: Step, seconds: float, cached: bool) -> None:
        """Leaves a line for a step that took long."""
        self._running.pop(step.id, None)
        on_terminal = self._console.is_terminal
        if seconds >= (SHOW_AFTER if on_terminal else LOG_AFTER) or (cached and on_terminal):
            how = "cached" if cached else words.seconds(seconds)
            title = self._titled(step)
            self._console.print(Text.assemble(("  ✓ ", "green"), title, (f"  {how}", "dim")))

    def _titled(self, step: Step) -> str:
        """``[5/14] checking onnx int8``."""
        return self._numbers.get(step.id, "") + step.title

    def _render(self) -> Table:
        grid = Table.grid(padding=(0, 1))
        for step, since, text in list(self._running.values()):
            taken = f"{time.monotonic() - since:.0f} s"
            title = Text(self._titled(step))
            grid.add_row(Spinner("dots"), title, Text(text, "dim"), Text(taken, "dim"))
        return grid
