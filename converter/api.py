"""The Python twin of the command line: convert, run_recipe, check, bench, serve, diff, sensitivity,
inspect, doctor.

    import modelyard

    result = modelyard.convert("net.py:Net", weights="net.pth", inputs=["x:batchx3x224x224"],
                               serve="triton", samples="photos/", out="build/net")
    print(result.out, result.report.verdict)

Keywords are the fields of :class:`converter.options.request.Request`, typed in
:class:`converter.options.keywords.Keywords`; paths may be ``Path``, a list of one value may be
that value, samples may be an array or a dict of arrays by the inputs' names. A source is a path or
a name, or a live model: a ``torch.nn.Module``, a ``keras.Model``, an ``onnx.ModelProto``. The first
two run in this process while the call lasts, and are put back as they were.

Each call takes a ``listener``, told how it goes on, and ``progress``: whether that is shown on
standard error. Left out, it is on a terminal and in a notebook. Inside ``with warm_workers():``,
calls load their framework once: each model is in a fork of its process. Errors are
:class:`converter.errors.ModelyardError`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias, Unpack

from converter import plugins
from converter.commands import check as judging
from converter.commands import convert as conversion
from converter.commands import diff as differing
from converter.commands import load as loading
from converter.commands import remote
from converter.commands import sensitivity as layer_costs
from converter.commands.check import Benchmark, Checked
from converter.commands.convert import Converted
from converter.commands.load import ServerBenchmark
from converter.commands.opened import told, working
from converter.commands.serve import serve
from converter.errors import ModelError, ModelyardError
from converter.files.reading import reading
from converter.options.given import Given
from converter.options.keywords import Keywords
from converter.pipeline.folders import artifacts_of, find_artifact
from converter.pipeline.run import Listener
from converter.pipeline.work import Work, sizes_of
from converter.runtime.worker import warm_workers

if TYPE_CHECKING:
    import onnx

    from converter.commands.doctor import Findings
    from converter.commands.inspect import Inspection
    from converter.diff.result import Diffed
    from converter.precision.budget.cost_table import CostTable

    File: TypeAlias = str | os.PathLike[str]
    Model: TypeAlias = File | onnx.ModelProto | Any  # Any: frameworks' types need the framework

__all__ = [
    "Benchmark",
    "Checked",
    "Converted",
    "ServerBenchmark",
    "artifacts_of",
    "bench",
    "bench_server",
    "check",
    "check_server",
    "convert",
    "diff",
    "doctor",
    "inspect",
    "inspect_artifact",
    "run_recipe",
    "sensitivity",
    "serve",
    "warm_workers",
]


def convert(
    source: Model,
    *,
    listener: Listener | None = None,
    progress: bool | None = None,
    **options: Unpack[Keywords],
) -> Converted:
    """Turns a model into checked, deployable files: :func:`converter.commands.convert.convert`."""
    with Given(options, listener, progress) as given:
        name = given.source(source)
        return conversion.convert(name, listener=given.listener, **given.options)


def run_recipe(
    recipe: File,
    *,
    listener: Listener | None = None,
    progress: bool | None = None,
    trust_recipe: bool = False,
    **options: Unpack[Keywords],
) -> Converted:
    """Carries out a recipe; see :func:`converter.commands.convert.run_recipe`."""
    with Given(options, listener, progress) as given:
        path = given.path(recipe)
        return conversion.run_recipe(
            path, listener=given.listener, trust_recipe=trust_recipe, **given.options
        )


def check(
    artifact: File,
    source: Model,
    *,
    listener: Listener | None = None,
    progress: bool | None = None,
    **options: Unpack[Keywords],
) -> Checked:
    """Compares an artifact with the model it came from: :func:`converter.commands.check.check`."""
    with Given(options, listener, progress) as given:
        path, name = given.path(artifact), given.source(source)
        return judging.check(path, name, listener=given.listener, **given.options)


def bench(
    artifact: File,
    against: Model | None = None,
    *,
    listener: Listener | None = None,
    progress: bool | None = None,
    **options: Unpack[Keywords],
) -> Benchmark:
    """Measures an artifact's latency; see :func:`converter.commands.check.bench`."""
    with Given(options, listener, progress) as given:
        path = given.path(artifact)
        name = None if against is None else given.source(against)
        return judging.bench(path, name, listener=given.listener, **given.options)


def check_server(
    what: Model,
    server: str,
    *,
    protocol: str | None = None,
    listener: Listener | None = None,
    progress: bool | None = None,
    **options: Unpack[Keywords],
) -> Checked:
    """Holds a server's answers to the gates: :func:`converter.commands.remote.check_server`."""
    with Given(options, listener, progress) as given:
        name = given.source(what)
        return remote.check_server(
            name, server, protocol=protocol, listener=given.listener, **given.options
        )


def bench_server(
    what: Model,
    server: str,
    *,
    protocol: str | None = None,
    rates: Sequence[float] = (),
    requests: int | None = None,
    p95: float | None = None,
    plot: str | None = None,
    export: tuple[str, str] | None = None,
    listener: Listener | None = None,
    progress: bool | None = None,
    **options: Unpack[Keywords],
) -> ServerBenchmark:
    """Measures a server under load: :func:`converter.commands.load.bench_server`."""
    with Given(options, listener, progress) as given:
        name = given.source(what)
        return loading.bench_server(
            name, server, protocol=protocol, rates=rates, requests=requests, p95=p95, plot=plot,
            export=export, listener=given.listener, **given.options,
        )  # fmt: skip


def diff(
    a: Model,
    b: Model,
    *,
    tolerance: float | None = None,
    listener: Listener | None = None,
    progress: bool | None = None,
    **options: Unpack[Keywords],
) -> Diffed:
    """Finds the earliest tensor at which two models part; ``out`` is a file for a page; see
    :func:`converter.commands.diff.diff`."""
    with Given(options, listener, progress) as given:
        return differing.diff(
            given.source(a),
            given.source(b),
            tolerance=tolerance,
            listener=given.listener,
            **given.options,
        )


def sensitivity(
    source: Model,
    *,
    listener: Listener | None = None,
    progress: bool | None = None,
    **options: Unpack[Keywords],
) -> CostTable:
    """Measures what each layer's lower precision costs; see
    :func:`converter.commands.sensitivity.sensitivity`."""
    with Given(options, listener, progress) as given:
        name = given.source(source)
        return layer_costs.sensitivity(name, listener=given.listener, **given.options)


def inspect(
    source: Model,
    *,
    listener: Listener | None = None,
    progress: bool | None = None,
    **options: Unpack[Keywords],
) -> Inspection:
    """What a model is made of.

    Args:
        source: As for :func:`convert`, or an output folder that holds one artifact.
        listener: Told how it goes on.
        progress: Whether that is shown.
        **options: Fields of :class:`converter.options.request.Request`.

    Raises:
        As :func:`convert`.
    """
    with Given(options, listener, progress) as given:
        found = find_artifact(given.source(source))
        with working(str(found.path), found.options("", given.options)) as work:
            return _inspected(work, given.listener)


def _inspected(work: Work, listener: Listener) -> Inspection:
    from converter.commands.inspect import inspect_model, inspect_unread

    with told(listener, "parse", "reading the model") as tell:
        work.progress = tell
        try:
            model = work.source().parse()
        except ModelError as error:
            if (own := _listing(work)) is None:
                raise
            return inspect_unread(own, work.name, "; ".join([error.message, *error.details]))
    with work.while_reading():  # libraries look at the graph, which may be broken further in
        model.graph = plugins.load("passes", "normalize")(model.graph).model
        sizes = sizes_of(work.request, model.symbols)
        return inspect_model(model, work.name, sizes, _listing(work))


def _listing(work: Work) -> plugins.Listing | None:
    """What the source's parser says of its file, where it can."""
    with suppress(ModelyardError), work.while_reading():
        if isinstance(work.parser, plugins.Listed):
            return work.parser.listing(work.request)
    return None


def inspect_artifact(path: File) -> Mapping[str, Any] | None:
    """What an artifact is that no parser reads, an engine say; None where it is something else.

    Raises:
        ModelError: It is damaged.
    """
    file = find_artifact(os.fspath(path)).path
    for name in plugins.available("emitters") if file.exists() else ():
        emitter = plugins.load("emitters", name)
        with reading(file.name):
            if emitter.tells and emitter.sniff(file):
                told: Mapping[str, Any] = emitter.tell(file)
                return told
    return None


def doctor(
    python: File | None = None, *, progress: plugins.Progress = lambda text: None
) -> Findings:
    """What is installed and usable here, and what to do about what isn't.

    Args:
        python: Another interpreter to look at, for its frameworks.
        progress: Told what is being done.

    Raises:
        UsageError: There is no usable Python there.
    """
    from converter.commands.doctor import examine

    return examine(None if python is None else os.fspath(python), progress)
