"""What ``modelyard sensitivity`` prints."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from rich.table import Table

from converter.cli.printing import echo_json
from converter.text import words
from converter.text.screen import Console, Text

if TYPE_CHECKING:
    from converter.precision.budget.cost_table import CostTable
    from converter.precision.budget.sensitivity import Cost

_HOW = {
    "alone": "lowered alone",
    "back": "alone back in float",
    "estimated": "estimated",
}
_NUMBERS = ("MACs", "share", "cost", "SQNR")


def show_sensitivity(result: CostTable, limit: int | None, as_json: bool) -> None:
    """Prints the layers' costs, the dearest first, and what they come to.

    Args:
        result: The costs, in that order.
        limit: How many layers are printed; None for all.
        as_json: Whether they are printed as JSON.
    """
    if as_json:
        echo_json(result.as_dict(limit))
        return
    console = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
    how = f" ({result.scheme})" if result.scheme else ""
    console.print(Text.assemble((result.name, "bold"), f" in {result.precision}{how}"))
    console.print(Text(result.based_on))
    table = Table("node", "op", box=None, pad_edge=False)
    table.columns[0].overflow = "fold"
    for title in _NUMBERS:
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("how measured", no_wrap=True)
    for cost in result.costs[:limit]:
        table.add_row(*map(Text, _row(result, cost)))
    console.print(table)
    for line in _ending(result, limit):
        console.print(Text(line))


def _row(result: CostTable, cost: Cost) -> tuple[str, ...]:
    return (
        cost.node,
        cost.op,
        f"{cost.macs:,}",
        words.percent(result.share(cost)),
        words.number(cost.cost),
        words.decibel(cost.sqnr_db),
        _HOW[cost.how],
    )


def _ending(result: CostTable, limit: int | None) -> list[str]:
    lines = []
    if limit is not None and limit < len(result.costs):
        more = len(result.costs) - limit
        lines.append(f"and {more} layer{'s' * (more != 1)} that cost{'s' * (more == 1)} less")
    if result.estimated:
        lines.append(
            f"Measuring stopped {result.ended}: {result.estimated} of "
            f"{len(result.costs)} costs are estimates."
        )
    lines.append(
        "A cost is 1 - cosine of the worst output. "
        f"All costs together: {words.number(result.total)}. "
        f"Every layer lowered: cosine {words.cosine(result.plain_cosine)}, "
        f"{words.number(1 - result.plain_cosine)} lost."
    )
    return lines
