"""Cuts a model in two, for a device and a server: split()."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np

from converter.analysis.cuts import Cut, Cuts, front, smallest
from converter.commands.convert import Converted, convert_parts, plan_of, run_steps
from converter.commands.opened import closing, resolve
from converter.commands.shown import table
from converter.errors import UsageError
from converter.ir.halves import halves
from converter.ir.model import BATCH, Model
from converter.options.request import Request, group
from converter.pipeline.cache import Cache
from converter.pipeline.declaring import declaration_of
from converter.pipeline.plan import Plan
from converter.pipeline.run import Listener, Silent
from converter.pipeline.work import Work, find_parser, sized
from converter.preparation.declared import Declaration
from converter.samples import Samples

DEVICE, CLOUD = "device", "cloud"
"""The parts' names."""

COLUMNS = ("tensor", "bytes", "before", "after", "made by")

_LEFT_OUT = {
    *group("Source"), *group("Samples"), "kwargs", "preparation", "answer", "layers", "label_names",
    "labels", "metric", "max_drop", "to", "serve", "name", "out", "dims", "batch",
}  # fmt: skip
"""Options that are of the source, or that each part has for itself."""


@dataclass(frozen=True, repr=False)
class Split:
    """Where a model can be cut, and what came of it.

    Attributes:
        name: The model's name.
        cuts: Those that no other beats in bytes and work before it, the first part growing.
        chosen: Where it was cut; None where nobody said where.
        converted: What was made; None where nothing was.
    """

    name: str
    cuts: list[Cut]
    chosen: Cut | None = None
    converted: Converted | None = None

    def __repr__(self) -> str:
        at = f", cut at {', '.join(self.chosen.tensors)}" if self.chosen else ""
        return f"<Split {self.name}: {len(self.cuts)} cuts{at}>"

    def _repr_html_(self) -> str:
        return table(COLUMNS, [row(cut) for cut in self.cuts])

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        return {
            "name": self.name,
            "cuts": [_told(cut) for cut in self.cuts],
            "chosen": _told(self.chosen) if self.chosen else None,
            "converted": self.converted.as_dict() if self.converted else None,
        }


def row(cut: Cut) -> tuple[str, ...]:
    """A line of :data:`COLUMNS`."""
    from converter.text import words

    return (
        ", ".join(cut.tensors), f"{cut.bytes:,}", words.percent(cut.before),
        words.percent(cut.after), cut.node,
    )  # fmt: skip


def _told(cut: Cut) -> dict[str, Any]:
    return {**asdict(cut), "after": cut.after}


def split(
    source: str,
    *,
    at: str | None = None,
    find_smallest: bool = False,
    before: float = 1.0,
    most: int = 1,
    device: str = "onnx",
    cloud: str = "onnx",
    listener: Listener | None = None,
    **options: Any,
) -> Split:
    """Shows where a model can be cut, and cuts it.

    Args:
        source: As for :func:`converter.commands.convert.convert`.
        at: The tensor, or its node.
        find_smallest: Whether to cut where the fewest bytes lead from one part to the other.
        before: Share of the multiply-adds that the first part may have then.
        most: Tensors that may lead from one part to the other.
        device: The first part's target.
        cloud: The second part's target, whose package ``serve`` makes.
        listener: Told how it goes on.
        **options: Fields of :class:`converter.options.request.Request`; ``serve`` is the cloud's.

    Raises:
        UsageError: The model can't be cut there, or an option isn't for this.
        Others: As :func:`converter.commands.convert.convert`.
    """
    listening = listener or Silent()
    if at is not None and find_smallest:
        raise UsageError("--at and --smallest both say where to cut", code="option-conflict")
    asked = resolve({"source": source, **options})
    if asked.prepare == "graph":
        raise UsageError("--prepare graph can't be used with split", code="option-not-applicable")
    request = replace(
        asked, check=False, bench=False, serve=[], to=["onnx"], precision=["fp32"], dry_run=False
    )
    planned = plan_of(request)
    steps = [step for step in planned.steps if step.kind in ("parse", "samples", "simplify")]
    parser, identity = find_parser(request)
    name = request.name or identity.name
    with tempfile.TemporaryDirectory(prefix="modelyard-") as folder:
        scratch = Path(folder)
        work = Work(request, parser, identity, scratch, scratch, Cache.of(request))
        with closing(work):
            run = run_steps(work, Plan(tuple(steps)), listening)
            parsed, samples = run.result("parse").model, run.result("samples")
            model: Model = run.result("simplify").model
            whole = sized(request, parsed)
            cuts = Cuts(model, _sizes(model, samples), most)
            found = cuts.all()
            if at is None and not find_smallest:
                return Split(name, front(found))
            chosen = _at(cuts, at, most) if at is not None else smallest(found, before)
            if chosen is None:
                raise UsageError(
                    f"{name} can't be cut by {most} tensor{'s' * (most != 1)} with at most "
                    f"{before:.0%} of the multiply-adds before the cut",
                    code="option-value",
                    hint=f"Allow more tensors to cross the cut: --most {most + 1}.",
                )
            session = work.opened.session(parsed)
            wanted = [dict(session.run(sample.feeds)) for sample in samples]
            declared = declaration_of(whole, samples, model, identity.assets)
            parts = _parts(model, chosen, scratch, samples, declared, whole)
        shared = {key: value for key, value in options.items() if key not in _LEFT_OUT}
        for part, own in parts.items():
            own["name"] = f"{name}-{part}"
        parts[DEVICE] |= {"to": [device]}
        parts[CLOUD] |= {"to": [cloud], "serve": asked.serve, **_measured(asked, samples)}
        made = convert_parts(
            parts, listener=listener, wanted=wanted, name=f"{name}-split", **shared,
            out=asked.out or f"build/{name}-split",
            flow=[{"part": DEVICE}, {"part": CLOUD, "takes": DEVICE}],
        )  # fmt: skip
    return Split(name, front(found), chosen, made)


def _sizes(model: Model, samples: Samples) -> dict[str, int]:
    """The sizes of free dimensions, but for the batch, that the first sample has."""
    feeds = next(iter(samples)).feeds
    shapes = ((spec.shape or (), feeds[spec.name].shape) for spec in model.inputs)
    pairs = (pair for said, found in shapes for pair in zip(said, found, strict=False))
    return {dim: size for dim, size in pairs if isinstance(dim, str) and dim != BATCH}


def _at(cuts: Cuts, tensor: str, most: int) -> Cut:
    """The cut at a tensor.

    Raises:
        UsageError: There is none of that name, or more leads over there.
    """
    cut, leads = cuts.at(tensor)
    if cut is not None:
        return cut
    if not leads:
        near = get_close_matches(tensor, cuts.names, 3)
        raise UsageError(
            f"there is no node {tensor!r}, and no tensor of that name that is computed from "
            "the inputs",
            code="unknown-name",
            hint=f"Did you mean {' or '.join(near)}?"
            if near
            else "Without --at, the command lists the places.",
        )
    hint = f"--most {len(leads)} allows that." if len(leads) > most else ""
    raise UsageError(
        f"the model can't be cut at {tensor} by {most}: {', '.join(leads)} would cross the cut",
        code="option-value",
        hint=hint or "An input, or a tensor without a known shape, can't cross the cut.",
    )


def _parts(
    model: Model,
    cut: Cut,
    folder: Path,
    samples: Samples,
    declared: Declaration | None,
    request: Request,
) -> dict[str, dict[str, Any]]:
    """The options of both parts: sources and samples, and what is declared of files."""
    first, second = halves(model, cut.tensors, cut.shapes)
    made: dict[str, dict[str, Any]] = {}
    for name, part in ((DEVICE, first), (CLOUD, second)):
        file = folder / f"{name}.onnx"
        part.save(file)
        dims = {key: size for key, size in request.dims.items() if key in part.symbols}
        made[name] = {"source": str(file), "dims": dims}
    if declared is not None:
        prepare = [item for item in declared.prepare if item.kind != "text"]
        made[DEVICE]["preparation"] = [item.model_dump(exclude={"fused"}) for item in prepare]
        made[CLOUD]["answer"] = [item.model_dump(exclude={"fused"}) for item in declared.answer]
    given = [folder / f"{name}-samples" for name in (DEVICE, CLOUD)]
    _write_samples(first, samples, *given)
    made[DEVICE]["samples"], made[CLOUD]["samples"] = map(str, given)
    if samples.files and made[DEVICE].get("preparation"):
        names = ("samples", "samples_limit", "samples_pattern", "skip_bad")
        made[DEVICE] |= {key: request.value(key) for key in names}
    return made


def _write_samples(first: Model, samples: Samples, before: Path, after: Path) -> None:
    """The samples as .npz files for both parts: the second's are what the first gives of them."""
    from converter.runtime.ort import OrtSession

    session = OrtSession(first.graph)
    before.mkdir()
    after.mkdir()
    for number, sample in enumerate(samples):
        file = f"{number:06}.npz"
        label = {"label": np.asarray(sample.label)} if _is_plain(sample.label) else {}
        arrays: dict[str, Any] = {**session.run(sample.feeds), **label}
        np.savez(after / file, **arrays)
        arrays = dict(sample.feeds)
        np.savez(before / file, **arrays)
    session.close()


def _is_plain(label: Any) -> bool:
    """Whether an .npz can hold a label."""
    return label is not None and np.asarray(label).dtype.kind in "biufU"


def _measured(request: Request, samples: Samples) -> Mapping[str, Any]:
    """The options of metrics, which the part that answers has."""
    if not all(_is_plain(sample.label) for sample in samples):
        return {}
    labels = {"labels": "label", "metric": request.metric}
    return {**labels, **({} if request.max_drop is None else {"max_drop": request.max_drop})}
