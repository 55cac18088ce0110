"""Finds where two models part: diff()."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from converter import plugins
from converter.commands.opened import resolve, told, working
from converter.ir.randomness import require_no_random
from converter.pipeline.folders import find_artifact
from converter.pipeline.run import Listener
from converter.pipeline.work import sizes_of
from converter.runtime.session import Progress

if TYPE_CHECKING:
    from converter.ir.model import Model, TensorSpec
    from converter.report.diff_result import Diffed
    from converter.samples import Samples


def diff(
    a: str,
    b: str,
    *,
    tolerance: float | None = None,
    out: str | None = None,
    listener: Listener | None = None,
    **options: Any,
) -> Diffed:
    """Finds the earliest tensor at which two models part.

    Args:
        a: An ONNX file, the output folder (or the part of one) that holds one artifact, or a
            source as for :func:`convert`.
        b: The other; it has to take the same inputs.
        tolerance: Largest error of tensors that agree, as a share of a tensor's largest value;
            None for what rounding explains.
        out: A file for a page with the error along the graph.
        listener: Told how it goes on.
        **options: Fields of :class:`converter.options.request.Request`; those of the source are
            for what isn't an ONNX file.

    Raises:
        UsageError: The models don't take the same inputs, or the samples don't fit.
        Others: As :func:`convert`.
    """
    from converter.diff.difference import compare_models
    from converter.report.diff_result import Diffed
    from converter.samples import load_samples

    found_a, found_b = find_artifact(a), find_artifact(b)
    dims = options.get("dims", {})
    for_a, for_b = found_b.options(a, options), found_a.options(b, options)
    a, b = str(found_a.path), str(found_b.path)
    with ExitStack() as stack:
        with told(listener, "parse", "reading the models") as progress:
            one = _model_of(a, for_a, stack, progress)
            other = _model_of(b, for_b, stack, progress)
        source = next((s for s in (a, b) if not _is_onnx(s)), a)
        request = resolve({**for_a, **for_b, "source": source})
        known = (*one.symbols, *dims)
        at = {name: size for name, size in request.dims.items() if name in known}
        sizes = sizes_of(replace(request, dims=at), one.symbols)
        samples = load_samples(request, _known_inputs(one, other), sizes)
        samples.validate()
        with told(listener, "diff", f"comparing {Path(a).name} and {Path(b).name}") as progress:
            found = compare_models(one, other, samples, tolerance=tolerance, progress=progress)
    page = Path(out) if out else None
    result = Diffed(Path(a).name, Path(b).name, _compared_on(samples, found.samples), found, page)
    if page:
        result.write(page)
    return result


def _is_onnx(source: str) -> bool:
    from converter.files.filetypes import onnx_outline

    path = Path(source)
    return path.is_file() and onnx_outline(path).is_onnx


def _model_of(
    source: str, options: Mapping[str, Any], stack: ExitStack, progress: Progress
) -> Model:
    """A model as it is; its names are the file's, and everything has one."""
    from converter.ir.broken import check_graph
    from converter.ir.external import read_proto
    from converter.ir.model import Model

    if _is_onnx(source):
        path = Path(source)
        proto = read_proto(path)
        check_graph(proto, path.name)
        model = Model.from_proto(proto, path)
    else:
        work = stack.enter_context(working(source, options))  # its files have to stay
        work.opened.progress = progress
        model = work.opened.source().parse()
    model.graph = plugins.load("passes", "normalize")(model.graph).model
    require_no_random(model.graph)
    return model


def _known_inputs(a: Model, b: Model) -> tuple[TensorSpec, ...]:
    """The inputs of A, with what is known of them in either model."""
    from converter.ir.model import described

    return tuple(
        described(spec, {**b.meanings.get(spec.name, {}), **a.meanings.get(spec.name, {})})
        for spec in a.inputs
    )


def _compared_on(samples: Samples, used: int) -> str:
    if samples.random:
        return f"Compared on RANDOM inputs only ({samples.origin}): give --samples."
    many = f"the first {used} of {len(samples)}" if used < len(samples) else str(used)
    return f"Compared on {many} samples ({samples.origin})."
