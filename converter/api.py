"""The Python twin of the command line: convert, run_recipe, check, bench, diff, sensitivity,
inspect, doctor.

    from converter import api

    result = api.convert("net.py:Net", weights="net.pth", inputs=["x:batchx3x224x224"],
                         serve=["triton"], samples="photos/", out="build/net")
    print(result.out, result.report.verdict)

Options are the fields of :class:`converter.request.Request`. Errors are
:class:`converter.errors.ModelyardError`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from converter import plugins
from converter.conversion import Converted, convert, run_recipe
from converter.differing import diff
from converter.judging import Benchmark, Checked, bench, check
from converter.layer_costs import sensitivity
from converter.opened import told, working
from converter.run import Listener
from converter.work import sizes_of

if TYPE_CHECKING:
    from converter.doctor import Findings
    from converter.inspection import Inspection

__all__ = [
    "Benchmark",
    "Checked",
    "Converted",
    "bench",
    "check",
    "convert",
    "diff",
    "doctor",
    "inspect",
    "inspect_artifact",
    "run_recipe",
    "sensitivity",
]


def inspect(source: str, *, listener: Listener | None = None, **options: Any) -> Inspection:
    """What a model is made of.

    Args:
        source: As for :func:`convert`.
        listener: Told how it goes on.
        **options: Fields of :class:`converter.request.Request`.

    Raises:
        As :func:`convert`.
    """
    with working(source, options) as work:
        from converter.inspection import inspect_model

        with told(listener, "parse", "reading the model") as progress:
            work.progress = progress
            model = work.source().parse()
        model.graph = plugins.load("passes", "normalize")(model.graph).model
        return inspect_model(model, work.name, sizes_of(work.request, model.symbols))


def inspect_artifact(path: str) -> Mapping[str, Any] | None:
    """What an artifact is that no parser reads, an engine say; None where it is something else.

    Raises:
        ModelError: It is damaged.
    """
    file = Path(path)
    for name in plugins.available("emitters") if file.exists() else ():
        emitter = plugins.load("emitters", name)
        if isinstance(emitter, plugins.Telling) and emitter.sniff(file):
            return emitter.tell(file)
    return None


def doctor(
    python: str | None = None, *, progress: plugins.Progress = lambda text: None
) -> Findings:
    """What is installed and usable here, and what to do about what isn't.

    Args:
        python: Another interpreter to look at, for its frameworks.
        progress: Told what is being done.

    Raises:
        UsageError: There is no usable Python there.
    """
    from converter.doctor import examine

    return examine(python, progress)
