"""``modelyard sweep``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click

from converter.cli import completing, options
from converter.cli.report import compares
from converter.cli.run import pairs


@click.command("sweep", cls=options.GroupedCommand)
@click.argument("recipe", metavar="RECIPE", type=click.Path(), shell_complete=completing.recipe)
@click.argument("axes", metavar="[OPTION=VALUE,VALUE]...", nargs=-1)
@options.takes(
    "out", "overwrite", "strict", "bench", "dry_run", "offline", "cache", "reuse_source",
)  # fmt: skip
@compares
@click.option(
    "--exclude",
    metavar="OPTION=VALUE,...",
    multiple=True,
    help="Leave a combination out, as to=tflite,precision=int8.",
)
@click.option(
    "--executor",
    metavar="NAME[:PLACE]",
    default="local",
    help="Where combinations run: local, or ray:ADDRESS, a Ray cluster. Without an address: "
    "RAY_ADDRESS, or the cluster of this machine.",
    shell_complete=completing.executor,
)
@click.option("--again", is_flag=True, help="Make again what an earlier run made, and replace it.")
@click.option(
    "--set",
    metavar="NAME=VALUE",
    multiple=True,
    callback=pairs,
    help="A variable: what ${NAME} stands for in the recipe.",
)
@click.option(
    "--trust-recipe", is_flag=True, help="Run code and interpreters that the recipe names."
)
@options.common
def command(
    recipe: str,
    axes: Sequence[str],
    exclude: Sequence[str],
    executor: str,
    again: bool,
    want: str | None,
    against: str | None,
    junit: str | None,
    markdown: str | None,
    csv: str | None,
    mlflow: str | None,
    mlflow_register: str | None,
    set: dict[str, str],
    trust_recipe: bool,
    as_json: bool,
    **values: Any,
) -> None:
    """Run a recipe with every combination of options, and compare the results.

    The recipe's `sweep:` maps options to lists of values, and OPTION=VALUE,VALUE adds to it.
    Each combination has its own output in OUT, and its own error. Steps that several have
    run once. If a sweep was cut short, the same command goes on with it. OUT/report.html
    compares all artifacts.

    \b
    modelyard sweep net.yaml to=onnx,tflite precision=fp32,int8 --want "p95<20ms size<10MB"
    """
    from converter.cli.errors import known
    from converter.cli.several_recipes import ask, jobs
    from converter.cli.show import show_sweep
    from converter.commands.mlflow_tracker import tracker
    from converter.commands.report import Files, require_no_worse
    from converter.commands.sweep import sweep
    from converter.commands.sweep_progress import SweepProgress
    from converter.errors import UsageError
    from converter.options.sweep import axes_from, excluded_from

    given = options.given(values)
    found = jobs([recipe], set)
    if len(found) > 1:
        raise UsageError(
            f"the recipe {recipe} holds {len(found)} recipes, and a sweep takes one", code="sweep"
        )
    if not trust_recipe and not given.get("dry_run") and sys.stdin.isatty():
        ask(found)
    with SweepProgress() as progress:
        made = sweep(
            found[0].recipe(), axes=axes_from(axes), exclude=excluded_from(exclude), want=want,
            against=against, again=again, files=Files(junit, markdown, csv),
            tracker=tracker(mlflow, mlflow_register), trust_recipe=trust_recipe,
            watcher=progress, executor=executor, known=known, **given,
        )  # fmt: skip
    show_sweep(made, as_json)
    if given.get("strict"):
        require_no_worse(made.report)
    if made.errors:
        sys.exit(max(error.exit_code for error in made.errors.values()))
