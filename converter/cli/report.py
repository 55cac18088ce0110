"""``modelyard report``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

from converter.cli import completing, options


def compares(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds what commands take that compare runs."""
    function = click.option(
        "--mlflow-register",
        metavar="MODEL[@ALIAS]",
        help="Also register the artifact that --want ships as a version of this model, and give "
        "it the alias.",
    )(function)
    function = click.option(
        "--mlflow",
        metavar="EXPERIMENT",
        help="Log each artifact as a run of this experiment, on the MLflow server that "
        "MLFLOW_TRACKING_URI names.",
    )(function)
    for name, what in (("csv", "a table of every figure"), ("markdown", "a pull request's comment"),
                       ("junit", "JUnit XML, for CI servers")):  # fmt: skip
        function = click.option(
            f"--{name}", metavar="FILE", shell_complete=completing.file,
            help=f"Also write {what}.",
        )(function)  # fmt: skip
    function = click.option(
        "--want",
        metavar="TEXT",
        help='What you need, as "p95<20ms drop<0.5 size<10MB": says what to ship, and why. The '
        "first figure is the one to be best in; one without a number comes before it.",
    )(function)
    return click.option(
        "--against",
        metavar="EARLIER",
        shell_complete=completing.file,
        help="Show what changed since that output or sweep.",
    )(function)


@click.command("report", cls=options.GroupedCommand)
@click.argument(
    "outputs", metavar="OUTPUT...", nargs=-1, required=True, shell_complete=completing.file
)
@compares
@click.option("--strict", is_flag=True, help="Exit with 4 where something got worse since EARLIER.")
@click.option(
    "--out",
    metavar="FILE",
    shell_complete=completing.file,
    help="Write the page there. Default: comparison.html in the folder that holds the outputs.",
)
@options.common
def command(
    outputs: Sequence[str],
    against: str | None,
    want: str | None,
    strict: bool,
    out: str | None,
    junit: str | None,
    markdown: str | None,
    csv: str | None,
    mlflow: str | None,
    mlflow_register: str | None,
    as_json: bool,
) -> None:
    """Compare runs: accuracy, latency and size of every artifact, on one page.

    OUTPUT is an output folder of convert or run, a sweep's folder, or the report.json of one. The
    page shows which artifacts no other beats, and what to ship for a stated need.

    \b
    modelyard report build/net build/other --want "p95<20ms size<10MB"
    modelyard report build/net --against released/net --strict --markdown comment.md
    modelyard report build/net --want size --mlflow nightly --mlflow-register net@champion
    """
    from converter.cli.show import show_compared
    from converter.commands.mlflow_tracker import tracker
    from converter.commands.report import Files, report, require_no_worse

    compared, page = report(
        outputs, against=against, want=want, out=out, files=Files(junit, markdown, csv),
        tracker=tracker(mlflow, mlflow_register),
    )  # fmt: skip
    show_compared(compared, page, as_json)
    if strict:
        require_no_worse(compared)
