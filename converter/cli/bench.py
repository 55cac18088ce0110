"""``modelyard bench``."""

from __future__ import annotations

from typing import Any

import click

from converter.cli import completing, options


def _numbers(ctx: click.Context, param: click.Parameter, text: str | None) -> list[float]:
    """Numbers above 0, by comma."""
    try:
        found = [float(part) for part in text.split(",")] if text else []
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param) from error
    if any(not 0 < number < float("inf") for number in found):
        raise click.BadParameter(f"{text}: a rate has to be above 0", ctx, param)
    return found


@click.command("bench", cls=options.GroupedCommand)
@click.argument("artifact", type=click.Path(), shell_complete=completing.file)
@click.option(
    "--against",
    multiple=True,
    metavar="SOURCE",
    shell_complete=completing.source,
    help="Also measure this model in the same run, and show the ratio. For an output with parts,"
    " give PART=SOURCE for each part.",
)
@options.asks_a_server
@click.option(
    "--rate",
    callback=_numbers,
    metavar="N,N",
    help="With --server: send requests at random moments (Poisson) at these rates a second, "
    "separated by commas, instead of callers that wait for their answers.",
)
@click.option(
    "--requests",
    type=click.IntRange(1),
    metavar="N",
    help="With --server: send this many requests for each measurement, without a time limit.",
)
@click.option(
    "--p95",
    type=click.FloatRange(0, min_open=True),
    metavar="MS",
    help="With --server: name the measurement with the highest throughput whose p95 is at most "
    "this.",
)
@click.option("--plot", metavar="FILE.svg", help="With --server: draw latency over throughput.")
@click.option(
    "--export",
    nargs=2,
    metavar="TOOL DIR",
    help="With --server: write the load for another tool (perf-analyzer, model-analyzer) into a "
    "folder, and measure nothing.",
)
@options.takes(
    *options.SOURCE,
    "to",
    "precision",
    "io_dtype",
    *options.SAMPLES,
    *options.LATENCY,
    "max_latency",
    "max_memory",
    *options.OPENING,
    "offline",
)
@options.common
def command(
    artifact: str,
    against: tuple[str, ...],
    server: str | None,
    protocol: str | None,
    rate: list[float],
    requests: int | None,
    p95: float | None,
    plot: str | None,
    export: tuple[str, str] | None,
    as_json: bool,
    **values: Any,
) -> None:
    """Measure an artifact's latency over batch sizes and concurrency, or a server's under load.

    ARTIFACT is a file that convert wrote, or its output folder. In a folder, each artifact is
    measured; --to and --precision select some. With --server, ARTIFACT is a package, whose
    samples are sent, or the model's source.

    \b
    modelyard bench model.onnx --bench-batch 1,8 --concurrency 1,2
    modelyard bench build/net --server grpc://127.0.0.1:8001/net --concurrency 1,2,4,8 --p95 50
    """
    from converter import api
    from converter.cli.in_turn import in_turn, source_of
    from converter.cli.show import show_bench, show_load
    from converter.commands.progress import Progress

    if server is not None:
        if values.get("profile") or values.get("max_memory"):
            raise click.UsageError(
                "--profile and --max-memory work with a file, not with a --server."
            )
        with Progress() as progress:
            load = api.bench_server(artifact, server, protocol=protocol, rates=rate, p95=p95,
                                    requests=requests, plot=plot, export=export,
                                    listener=progress, **options.given(values))  # fmt: skip
        show_load(load, as_json)
        return
    if rate or requests or p95 or plot or export:
        raise click.UsageError("--rate, --requests, --p95, --plot and --export need --server.")

    def run(path: str, given: dict[str, Any]) -> api.Benchmark:
        with Progress() as progress:
            return api.bench(path, source_of(path, against, artifact), listener=progress, **given)

    in_turn(artifact, values, as_json, run, show_bench, api.Benchmark.as_dict)
