"""The Python twin of the command line: convert, run_recipe, sweep, report, check, bench, serve,
tune, diff, sensitivity, inspect, doctor; and load, which runs an artifact.

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
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias, Unpack

from converter import plugins
from converter.commands.call_arguments import Given
from converter.errors import ModelError, ModelyardError
from converter.files.reading import reading
from converter.ir.listing import Listing
from converter.options.keywords import Keywords
from converter.pipeline.folders import artifacts_of, find_artifact
from converter.pipeline.run import Listener
from converter.pipeline.work import Work, sizes_of
from converter.protocols.parser import Listed
from converter.runtime.session import Progress
from converter.runtime.worker import warm_workers

if TYPE_CHECKING:
    import onnx

    from converter.commands.asking import Answer
    from converter.commands.check import Benchmark, Checked
    from converter.commands.convert import Converted
    from converter.commands.doctor import Findings
    from converter.commands.inspect import Inspection
    from converter.commands.load import ServerBenchmark
    from converter.commands.loaded import Loaded
    from converter.commands.rollback import rollback
    from converter.commands.serve import serve
    from converter.commands.split import Split
    from converter.commands.sweep import Swept, Watcher
    from converter.commands.tune import Tuning, tune
    from converter.precision.budget.cost_table import CostTable
    from converter.report.compared import Compared
    from converter.report.diff_result import Diffed

    File: TypeAlias = str | os.PathLike[str]
    Model: TypeAlias = File | onnx.ModelProto | Any  # Any: frameworks' types need the framework

__all__ = [
    "Answer",
    "Benchmark",
    "Checked",
    "Converted",
    "ServerBenchmark",
    "Tuning",
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
    "load",
    "report",
    "rollback",
    "run_recipe",
    "sensitivity",
    "serve",
    "sweep",
    "tune",
    "warm_workers",
]

_COMMANDS = {
    "Answer": "asking",
    "Benchmark": "check",
    "Checked": "check",
    "Converted": "convert",
    "ServerBenchmark": "load",
    "packages_of": "remote",
    "rollback": "rollback",
    "Tuning": "tune",
    "serve": "serve",
    "tune": "tune",
}


def __getattr__(name: str) -> Any:
    """A command's module is imported when something of it is first asked for."""
    if name not in _COMMANDS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"converter.commands.{_COMMANDS[name]}"), name)


def convert(
    source: Model | Mapping[str, Model | Mapping[str, Any]],
    *,
    listener: Listener | None = None,
    progress: bool | None = None,
    **options: Unpack[Keywords],
) -> Converted:
    """Turns a model into checked, deployable files, as ``modelyard convert`` does.

    Args:
        source: A path, ``FILE.py:CLASS``, ``zoo:NAME``, or a model that is alive in this process;
            or several as parts of one output, by name: each one of these, or a mapping of options
            with its ``source`` among them, which count more than ``options``.
        listener: Called as the run goes on.
        progress: Whether progress is shown on standard error; None for on a terminal and in a
            notebook.
        **options: Fields of :class:`converter.options.request.Request`: the options of the command
            line, ``-`` written ``_``.

    Returns:
        Where they are, what the checks found, and the artifacts.

    Raises:
        UsageError: The request, the samples or the output folder aren't right.
        ModelError: The model can't be read or converted.
        GateError: It was converted, and missed a gate; only ``OUT.failed/`` was left.
        PartlyError: With ``keep_going``, some of it missed a gate; the rest is in the output.
        DependencyError, MachineError: Something is missing, or gave out.

    Example:
        >>> made = modelyard.convert("net.onnx", samples="photos/", to="tflite", precision="int8",
        ...                          bench=False, out="build/small")
        >>> print(made.artifacts["tflite:int8"].path)
        build/small/tflite/int8/model.tflite
    """
    from converter.commands import convert as conversion

    with Given(options, listener, progress) as given:
        if isinstance(source, Mapping):
            parts = {str(name): given.part(str(name), own) for name, own in source.items()}
            return conversion.convert_parts(parts, listener=given.listener, **given.options)
        name = given.source(source)
        return conversion.convert(name, listener=given.listener, **given.options)


def run_recipe(
    recipe: File,
    *,
    listener: Listener | None = None,
    progress: bool | None = None,
    trust_recipe: bool = False,
    set: Mapping[str, Any] | None = None,
    document: int | None = None,
    **options: Unpack[Keywords],
) -> Converted:
    """Carries out a recipe, a conversion written down as YAML, as ``modelyard run`` does.

    Args:
        recipe: A file, or the name of one that comes with modelyard.
        listener: Called as the run goes on.
        progress: Whether progress is shown on standard error; None for on a terminal and in a
            notebook.
        trust_recipe: Whether code and interpreters that it names may run.
        set: Its variables, by name; texts are read as ``--set`` reads them.
        document: Which recipe of a file of several YAML documents, counted from 1.
        **options: As for :func:`convert`; they override the recipe's.

    Returns:
        As :func:`convert`.

    Raises:
        UsageError: It names code or an interpreter, and isn't trusted; a variable isn't one of
            its own, or has no value.
        Others: As :func:`convert`.

    Example:
        >>> modelyard.run_recipe("net.yaml", set={"target": "ort"}, out="build/phone")
        <Converted net: passed, ort:fp32, in build/phone>
    """
    from converter.commands import convert as conversion

    with Given(options, listener, progress) as given:
        path = given.path(recipe)
        return conversion.run_recipe(
            path,
            listener=given.listener,
            trust_recipe=trust_recipe,
            set=set,
            document=document,
            **given.options,
        )


def sweep(
    recipe: File,
    *,
    axes: Mapping[str, Sequence[Any]] | None = None,
    exclude: Sequence[Mapping[str, Any]] = (),
    want: str | None = None,
    against: File | None = None,
    again: bool = False,
    executor: str = "local",
    mlflow: str | None = None,
    mlflow_register: str | None = None,
    watcher: Watcher | None = None,
    trust_recipe: bool = False,
    set: Mapping[str, Any] | None = None,
    document: int | None = None,
    **options: Unpack[Keywords],
) -> Swept:
    """Carries out a recipe with every combination of options, as ``modelyard sweep`` does.

    Args:
        recipe: A file, or the name of one that comes with modelyard.
        axes: Options and their values: ``{"to": ["onnx", "tflite"]}``.
        exclude: Combinations that are left out.
        want: What is needed: ``"p95<20ms size<10MB"``.
        against: An earlier output or sweep, to be compared with.
        again: Whether what an earlier run made is made again.
        executor: Where combinations run: ``local``, ``ray`` or ``ray:ADDRESS``.
        mlflow: As for :func:`report`.
        mlflow_register: As for :func:`report`.
        watcher: Called with the progress.
        trust_recipe: Whether code and interpreters that it names may run.
        set: Its variables, by name; texts are read as ``--set`` reads them.
        document: Which recipe of a file of several YAML documents, counted from 1.
        **options: As for :func:`convert`; ``out`` is the sweep's folder.

    Returns:
        The cells, their comparison, and the errors of those that failed.

    Raises:
        UsageError: The recipe or the axes aren't right, or something is in the way.

    Example:
        >>> made = modelyard.sweep("net.yaml", axes={"to": ["onnx", "tflite"]}, want="size<10MB",
        ...                        out="build/sweep")
        >>> made.report.verdicts
        '2 passed'
    """
    from converter.commands import sweep as sweeping
    from converter.commands.mlflow_tracker import tracker

    with Given(options, None, False) as given:
        return sweeping.sweep(
            given.path(recipe), axes=axes, exclude=exclude, want=want,
            against=None if against is None else given.path(against), again=again,
            executor=executor, tracker=tracker(mlflow, mlflow_register), watcher=watcher,
            trust_recipe=trust_recipe, set=set, document=document, **given.options,
        )  # fmt: skip


def report(
    *outputs: File,
    against: File | None = None,
    want: str | None = None,
    strict: bool = False,
    out: File | None = None,
    mlflow: str | None = None,
    mlflow_register: str | None = None,
) -> Compared:
    """Compares runs and writes a page of them, as ``modelyard report`` does.

    Args:
        *outputs: Output folders, sweeps' folders, or their report.json.
        against: An earlier one. The comparison has what changed since then.
        want: What is needed: ``"p95<20ms size<10MB"``.
        strict: Whether what got worse is an error.
        out: The page; None for comparison.html in the folder that holds the outputs.
        mlflow: An experiment on an MLflow server: each artifact is logged as a run of it. The
            server is the one of ``mlflow.set_tracking_uri`` or MLFLOW_TRACKING_URI.
        mlflow_register: ``"MODEL@ALIAS"``: what to ship becomes a version of that model.

    Returns:
        The comparison: a row an artifact, what to ship, and what changed.

    Raises:
        UsageError: One is no output of ours, or the page can't be written there.
        DependencyError, MachineError: MLflow isn't installed, or its server doesn't answer.
        GateError: With ``strict``, something got worse.

    Example:
        >>> modelyard.report("build/net", "build/other", want="size<10MB").verdicts
        '3 passed'
    """
    from converter.commands import report as comparing
    from converter.commands.mlflow_tracker import tracker

    compared, _ = comparing.report(
        [os.fspath(path) for path in outputs], want=want, strict=strict,
        against=None if against is None else os.fspath(against),
        out=None if out is None else os.fspath(out),
        tracker=tracker(mlflow, mlflow_register),
    )  # fmt: skip
    return compared


def check(
    artifact: File,
    source: Model | None = None,
    *,
    against: Model | None = None,
    listener: Listener | None = None,
    progress: bool | None = None,
    **options: Unpack[Keywords],
) -> Checked:
    """Compares an artifact with the model it came from, as ``modelyard check`` does.

    Args:
        artifact: A file, or an output folder that holds one artifact.
        source: The model that the artifact came from.
        against: Another name for ``source``; give one of them.
        listener: Called as the run goes on.
        progress: Whether progress is shown on standard error; None for on a terminal and in a
            notebook.
        **options: As for :func:`convert`.

    Returns:
        What was found, and each gate.

    Raises:
        GateError: A gate was missed.
        TypeError: The source isn't given, or twice.
        Others: As :func:`convert`.

    Example:
        >>> modelyard.check("build/other", "net.onnx", samples="photos/").verdict
        'passed'
    """
    from converter.commands import check as judging

    if (source is None) == (against is None):
        raise TypeError("check() takes one source: check(artifact, source)")
    model = against if source is None else source
    assert model is not None
    with Given(options, listener, progress) as given:
        path, name = given.path(artifact), given.source(model)
        return judging.check(path, name, listener=given.listener, **given.options)


def bench(
    artifact: File,
    against: Model | None = None,
    *,
    listener: Listener | None = None,
    progress: bool | None = None,
    **options: Unpack[Keywords],
) -> Benchmark:
    """Measures an artifact's latency, as ``modelyard bench`` does.

    Args:
        artifact: A file, or an output folder that holds one artifact.
        against: A model or another artifact to measure in turns with it; None for neither.
        listener: Called as the run goes on.
        progress: Whether progress is shown on standard error; None for on a terminal and in a
            notebook.
        **options: As for :func:`convert`.

    Returns:
        Percentiles in milliseconds and samples a second, by batch and number of callers.

    Raises:
        ModelyardError: As :func:`convert`.

    Example:
        >>> modelyard.bench("build/net/onnx/int8", "net.onnx", bench_batches=[1, 8])
        <Benchmark: ... ms at batch 1, ... ms at batch 8...>
    """
    from converter.commands import check as judging

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
    """Holds a server's answers to the gates, as ``modelyard check --server`` does.

    Args:
        what: A package, whose samples and expected outputs are sent; or the source, which then runs
            here.
        server: Its address: ``http://HOST:PORT``.
        protocol: What it speaks, where the address doesn't say.
        listener: Called as the run goes on.
        progress: Whether progress is shown on standard error; None for on a terminal and in a
            notebook.
        **options: As for :func:`convert`.

    Returns:
        What was found, and each gate.

    Raises:
        GateError: A gate was missed.
        Others: As :func:`convert`.

    Example:
        >>> with modelyard.serve("build/other", port=0) as served:
        ...     modelyard.check_server("build/other", served.addresses["v2"]).verdict
        'passed'
    """
    from converter.commands import remote

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
    """Measures a server under load, as ``modelyard bench --server`` does.

    Args:
        what: A package, whose samples are sent; or the source, which then runs here.
        server: Its address: ``http://HOST:PORT``.
        protocol: What it speaks, where the address doesn't say.
        rates: Requests a second of open loops; without any, closed loops of ``bench_concurrency``
            callers.
        requests: How many are sent at each point, whatever time that takes.
        p95: Milliseconds that the best point's p95 has to stay below.
        plot: A file to draw latency over throughput into.
        export: A load tool and a folder: the load is written for it, and nothing is measured.
        listener: Called as the run goes on.
        progress: Whether progress is shown on standard error; None for on a terminal and in a
            notebook.
        **options: As for :func:`convert`.

    Returns:
        Latencies, throughput and the server's own times at each load.

    Raises:
        ModelyardError: As :func:`convert`.

    Example:
        >>> with modelyard.serve("build/other", port=0) as served:
        ...     found = modelyard.bench_server("build/other", served.addresses["v2"],
        ...                                    bench_concurrency=[1, 4], bench_seconds=1)
        >>> [point.concurrency for point in found.points]
        [1, 4]
    """
    from converter.commands import load as loading

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
    """Finds the earliest tensor at which two models part, as ``modelyard diff`` does.

    Args:
        a: A model or an artifact.
        b: The model or artifact to compare ``a`` with.
        tolerance: How far apart values may be, as a share of the tensor's largest.
        listener: Called as the run goes on.
        progress: Whether progress is shown on standard error; None for on a terminal and in a
            notebook.
        **options: As for :func:`convert`; ``out`` is a file for a page.

    Returns:
        The tensors that differ, the earliest first.

    Raises:
        ModelyardError: As :func:`convert`.

    Example:
        >>> modelyard.diff("build/net/onnx/fp32", "build/net/onnx/int8", samples="photos/").verdict
        'They part at scores: off by 0... of its largest value.'
    """
    from converter.commands import diff as differing

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
    """Measures what each layer's lower precision costs, as ``modelyard sensitivity`` does.

    Args:
        source: As for :func:`convert`.
        listener: Called as the run goes on.
        progress: Whether progress is shown on standard error; None for on a terminal and in a
            notebook.
        **options: As for :func:`convert`.

    Returns:
        A row for each layer: what the outputs lose where it alone is lowered.

    Raises:
        ModelyardError: As :func:`convert`.

    Example:
        >>> found = modelyard.sensitivity("net.onnx", precision="int8", samples="photos/")
        >>> sorted(cost.node for cost in found.costs)
        ['add', 'block', 'head', 'pool', 'stem']
    """
    from converter.commands import sensitivity as layer_costs

    with Given(options, listener, progress) as given:
        name = given.source(source)
        return layer_costs.sensitivity(name, listener=given.listener, **given.options)


def split(
    source: Model,
    *,
    at: str | None = None,
    find_smallest: bool = False,
    before: float = 1.0,
    most: int = 1,
    device: str = "onnx",
    cloud: str = "onnx",
    listener: Listener | None = None,
    progress: bool | None = None,
    **options: Unpack[Keywords],
) -> Split:
    """Shows where a model can be cut in two, and cuts it, as ``modelyard split`` does.

    Args:
        source: As for :func:`convert`.
        at: The tensor, or its node.
        find_smallest: Whether to cut where the fewest bytes lead from one part to the other; with
            neither, the places are shown.
        before: Share of the multiply-adds that the first part may have then.
        most: Tensors that may lead over.
        device: The first part's target, as ``to`` names it.
        cloud: The second part's target.
        listener: Called as the run goes on.
        progress: Whether progress is shown on standard error; None for on a terminal and in a
            notebook.
        **options: As for :func:`convert`; ``serve`` is of the second part.

    Returns:
        The places, or the two parts.

    Raises:
        UsageError: The model can't be cut there.
        Others: As :func:`convert`.

    Example:
        >>> modelyard.split("net.onnx", find_smallest=True, before=0.3, device="tflite",
        ...                 samples="photos/", bench=False, out="build/parts")
        <Split net: 2 cuts, cut at a>
    """
    from converter.commands import split as splitting

    with Given(options, listener, progress) as given:
        return splitting.split(
            given.source(source), at=at, find_smallest=find_smallest, before=before, most=most,
            device=device, cloud=cloud, listener=given.listener, **given.options,
        )  # fmt: skip


def load(path: File, artifact: str | None = None, **options: Unpack[Keywords]) -> Loaded:
    """Runs an artifact of an output folder in this process.

    Args:
        path: An output folder of ours, a folder in it, or an artifact.
        artifact: ``TARGET`` or ``TARGET:PRECISION``, as ``"tflite:int8"``. Left out where there are
            several: the one with the smallest latency that the folder's report measured, of those
            that run here.
        **options: How it is opened: ``threads``, ``providers``.

    Returns:
        What is called with arrays, in order or by name, and gives the outputs by name. Arrays of
        another size of the same kind are cast (float64 to float32). Where the conversion knew how a
        picture or a text becomes the inputs (its samples were pictures, ``image_mean`` and the like
        were given, the source has a tokenizer), it takes a picture's path or bytes, or a text, and
        gives an :class:`Answer`.

    Raises:
        UsageError: There is no such artifact.
        DependencyError: Its runtime isn't installed, or runs on another system.
        ModelError: It can't be opened.

    Example:
        >>> pixels = np.zeros((1, 3, 32, 32), np.float32)
        >>> with modelyard.load("build/net", "onnx:int8") as net:
        ...     net(image=pixels)["scores"].shape
        ...     net("photo.png").label
        (1, 3)
        'bars'
    """
    from converter.commands import loaded

    with Given(options, None, False) as given:
        return loaded.load(given.path(path), artifact, given.options)


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

    Returns:
        Inputs, outputs, operators, parameters, multiply-adds.

    Raises:
        ModelyardError: As :func:`convert`.

    Example:
        >>> modelyard.inspect("net.onnx").inputs
        [{'name': 'image', 'dtype': 'float32', 'shape': ('batch', 3, 32, 32)}]
    """
    from converter.commands.opened import working

    with Given(options, listener, progress) as given:
        found = find_artifact(given.source(source))
        with working(str(found.path), found.options("", given.options)) as work:
            return _inspected(work, given.listener)


def _inspected(work: Work, listener: Listener) -> Inspection:
    from converter.commands.inspect import inspect_model, inspect_unread
    from converter.commands.opened import told

    with told(listener, "parse", "reading the model") as tell:
        work.opened.progress = tell
        try:
            model = work.opened.source().parse()
        except ModelError as error:
            if (own := _listing(work)) is None:
                raise
            return inspect_unread(own, work.name, "; ".join([error.message, *error.details]))
    with work.opened.while_reading():  # libraries look at the graph, which may be broken further in
        model.graph = plugins.load("passes", "normalize")(model.graph).model
        sizes = sizes_of(work.request, model.symbols)
        return inspect_model(model, work.name, sizes, _listing(work))


def _listing(work: Work) -> Listing | None:
    """What the source's parser says of its file, where it can."""
    with suppress(ModelyardError), work.opened.while_reading():
        if isinstance(work.parser, Listed):
            return work.parser.listing(work.request)
    return None


def inspect_artifact(path: File) -> Mapping[str, Any] | None:
    """What an artifact is that no parser reads, an engine say.

    Args:
        path: The artifact, or an output folder that holds it alone.

    Returns:
        What its file says; None where it is something else.

    Raises:
        ModelError: It is damaged.

    Example:
        >>> modelyard.inspect_artifact("build/ort")["operators"]["Gemm"]
        1
    """
    file = find_artifact(os.fspath(path)).path
    for name in plugins.working("emitters") if file.exists() else ():
        emitter = plugins.load("emitters", name)
        with reading(file.name):
            if emitter.tells and emitter.sniff(file):
                told: Mapping[str, Any] = emitter.tell(file)
                return told
    return None


def doctor(python: File | None = None, *, progress: Progress = lambda text: None) -> Findings:
    """What is installed and usable here, and what to do about what isn't.

    Args:
        python: Another interpreter to look at, for its frameworks.
        progress: Told what is being done.

    Returns:
        Each source, target and server: whether it is usable, and the line that installs it.

    Raises:
        UsageError: There is no usable Python there.

    Example:
        >>> "onnx" in modelyard.doctor().plugins["parsers"]
        True
    """
    from converter.commands.doctor import examine

    return examine(None if python is None else os.fspath(python), progress)
