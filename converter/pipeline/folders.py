"""Output folders of ours, to be looked at again: the artifacts in them, and the options that these
were made with, as the folder's manifest says."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from converter.errors import UsageError
from converter.files.regular import require_regular
from converter.files.scrub import base_name
from converter.options.request import group, opening, option_of
from converter.preparation.flow import FlowStep, flow_of

MANIFEST = "manifest.json"

_DEPTH = 4
"""How far below an output folder an artifact lies at most: ``onnx/int8/model.onnx``, and itself."""

_OF_SOURCE = ("kwargs", *group("Source"))
_DECLARED = ("preparation", "answer")
IN_GRAPH = ("prepare", "to", *_DECLARED)
"""Options of an artifact that has them in its graph."""

_GROUPS = ("Samples", "Checks", "Latency")
_OF_SAMPLES = ("labels", "samples_pattern", "samples_limit", "metric", "max_drop")
_NOT_RECORDED = {
    *("weights", "search_paths", "python", "name", "trust_source"),
    *("samples", "label_names", "skip_bad"),
    *("check", "strict", "bench", "providers", "threads"),
}
"""What isn't taken from a manifest: names of files that it knows without their folders, what only
the user may allow, and what says how a run went."""


@dataclass(frozen=True)
class Found:
    """An artifact to look at.

    Attributes:
        path: Where it lies.
        target, precision: What the folder's manifest says that it is; empty outside of a folder.
        request: The options that its folder was made with, as the manifest has them.
        part: The part of its output that it is of; empty where that has none.
    """

    path: Path
    target: str = ""
    precision: str = ""
    request: Mapping[str, Any] = field(default_factory=dict)
    part: str = ""

    @property
    def title(self) -> str:
        """``onnx int8``, ``detect onnx int8``, or the file's name."""
        names = (self.part, self.target, self.precision)
        return " ".join(filter(None, names)) if self.target else self.path.name

    def options(self, source: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """The options to open it with: those ``given``, and where they say nothing, those that it
        was made with.

        Options of the source count where ``source`` is the one that it was made of; those that
        belong to the samples, where ``given`` names the same.
        """
        if not self.target:
            return dict(given)
        left_out = set(_NOT_RECORDED)
        if not self._is_source(source):
            left_out |= {name for name in _OF_SOURCE if name != "dims"}
        if base_name(str(given.get("samples"))) != self.request.get("samples"):
            left_out |= set(_OF_SAMPLES)
        names = {*_OF_SOURCE, *_DECLARED, *(n for g in _GROUPS for n in group(g))}
        kept = {k: v for k, v in self.request.items() if k in names - left_out}
        how = ("io_dtype", *(name for name in opening() if not option_of(name).reads))
        kept |= {k: v for k, v in self.request.items() if k in how}
        if kept.get("prepare") == "graph" and "to" in self.request:  # which say what is in it
            kept["to"] = self.request["to"]
        if isinstance(kept.get("metric"), list):  # a user's function is in a file, wherever that is
            kept["metric"] = [name for name in kept["metric"] if ":" not in str(name)]
        kept["precision"] = [self.precision]
        if not given.get("trust_source"):
            for name in set(_DECLARED) & kept.keys():  # code that it brings isn't run
                kept[name] = [item for item in kept[name] if item.get("kind") != "step"]
        if "preparation" not in kept:
            return {**kept, **given}
        from converter.pipeline.layers import overruled

        return overruled(kept, given)

    def require_weights(self, source: str, given: Mapping[str, Any]) -> None:
        """Raises UsageError where it was made with weights, and ``given`` has none."""
        weights = self.request.get("weights")
        if weights and "weights" not in given and self._is_source(source):
            raise UsageError(
                f"{self.title} was made from {source} with --weights {weights}, and the "
                "command gives no weights",
                code="option-missing",
                hint=f"Add --weights PATH/{weights}.",
            )

    def _is_source(self, source: str) -> bool:
        return not source.startswith("zoo:") and base_name(source) == self.request.get("source")


def artifacts_of(
    path: str, to: Sequence[str] = (), precision: Sequence[str] = ()
) -> list[Found] | None:
    """The artifacts of an output folder, or of a part of it, in its manifest's order.

    Args:
        path: The folder that ``convert`` wrote, one in it (``build/net/onnx``), or an artifact.
        to: Only artifacts of these targets; empty for all.
        precision: Only artifacts of these precisions; empty for all.

    Returns:
        None where ``path`` lies in no folder of ours, or is no part of what its manifest names.

    Raises:
        UsageError: There is no such artifact, or it isn't there any more.
    """
    given = Path(os.path.abspath(path))  # noqa: PTH100 - links stay, ".." goes
    root, manifest = _manifest_above(given)
    if root is None:
        return None
    listed = [item for item in manifest["artifacts"]
              if item["path"] and (root / item["path"]).is_relative_to(given)]  # fmt: skip
    if not listed and given != root:
        return None
    found = [
        Found(Path(path) / (root / item["path"]).relative_to(given), item["target"],
              item["precision"], _request(manifest, item), item.get("part", ""))
        for item in listed
        if root / item["path"] == given
        or ((not to or item["target"] in to) and (not precision or item["precision"] in precision))
    ]  # fmt: skip
    names = ", ".join(f"{item['target']} {item['precision']}" for item in listed)
    if not found:
        raise UsageError(
            f"{path} holds no artifact" + " of that target and precision" * bool(listed),
            code="not-an-artifact",
            hint=f"It holds: {names}." if listed else "Its run missed a gate or was stopped.",
        )
    gone = [item.title for item in found if not item.path.exists()]
    if gone:
        raise UsageError(
            f"{path} names {', '.join(gone)} in its manifest, but the file isn't there",
            code="package-incomplete",
            hint="Convert the model again.",
        )
    return found


def _request(manifest: Mapping[str, Any], item: Mapping[str, Any]) -> dict[str, Any]:
    """The options that an artifact was made with."""
    part = item.get("part", "")
    request = manifest["parts"][part]["request"] if part else manifest["request"]
    return {**request, "source": request.get("source", "")}


def declared_in(path: str) -> tuple[Path, Mapping[str, Any] | None]:
    """The folder of the output, or of its part, that an artifact lies in, and what its manifest
    declares of users' files; None where it says nothing."""
    place = Path(os.path.abspath(path))  # noqa: PTH100 - as in artifacts_of
    root, manifest = _manifest_above(place)
    if root is None:
        return place, None
    part, _ = part_of(path)
    said = manifest["parts"][part] if part else manifest
    return root / part, said.get("declared")


def flow_in(path: str) -> list[FlowStep]:
    """How the parts of the output that ``path`` is are joined; empty where nothing joins them.

    Raises:
        UsageError: Its manifest says what is no flow.
    """
    manifest = _read(Path(path) / MANIFEST) or {}
    said = manifest.get("flow")
    return list(flow_of(said, manifest["parts"], f"{MANIFEST} of {path}")) if said else []


def flows_of(path: str) -> list[Path]:
    """The packages that join the parts of the output that ``path`` is."""
    manifest = _read(Path(path) / MANIFEST) or {}
    made = manifest.get("packages", ()) if manifest.get("flow") else ()
    return [Path(path).absolute() / item["path"] for item in made if not item.get("part")]


def parts_of(path: str) -> list[str]:
    """The parts of the output that ``path`` is; none where it has none, or is no output."""
    return list((_read(Path(path) / MANIFEST) or {}).get("parts", {}))


def part_of(path: str) -> tuple[str, list[str]]:
    """The part of an output that ``path`` is or lies in, and all parts of that; ``""`` and none
    where there is no such."""
    place = Path(os.path.abspath(path))  # noqa: PTH100 - as in artifacts_of
    root, manifest = _manifest_above(place)
    parts = list(manifest.get("parts", {}))
    inside = (name for name in parts if root and place.is_relative_to(root / name))
    return next(inside, ""), parts


def packages_of_part(path: str) -> list[Path]:
    """The packages of a part, where ``path`` is its folder in an output; they lie beside it."""
    folder = Path(path).absolute()
    manifest = _read(folder.parent / MANIFEST) or {}
    if folder.name not in manifest.get("parts", {}):
        return []
    named = (item for item in manifest["packages"] if item.get("part") == folder.name)
    return [folder.parent / item["path"] for item in named]


def find_artifact(path: str) -> Found:
    """The one artifact that ``path`` is, or that the folder ``path`` holds.

    Raises:
        UsageError: There are several, or none, or it is a pipe or a device.
    """
    require_regular(Path(path), path)
    found = artifacts_of(path) if Path(path).exists() else None
    if found is None:
        return Found(Path(path))
    if len(found) > 1:
        parts = ", ".join(str(item.path.parent) for item in found)
        raise UsageError(
            f"{path} holds {len(found)} artifacts", code="choose-one", hint=f"Name one: {parts}."
        )
    return found[0]


def output_above(path: Path) -> Path | None:
    """The output folder that ``path`` is or lies in; None where it lies in none."""
    return _manifest_above(path)[0]


def _manifest_above(path: Path) -> tuple[Path | None, dict[str, Any]]:
    """The output folder that ``path`` is or lies in, and its manifest."""
    for folder in (path, *path.parents[:_DEPTH]):
        manifest = _read(folder / MANIFEST)
        if manifest is not None:
            return folder, manifest
    return None, {}


def _read(path: Path) -> dict[str, Any] | None:
    """A manifest of ours, of whatever version; None where ``path`` is none."""
    try:
        read = json.loads(path.read_text(encoding="utf-8"))
        ours = str(read["tool"]).startswith("modelyard ") and isinstance(read["request"], dict)
        parts = read.get("parts", {})
        known = all(isinstance(item["request"], dict) for item in parts.values())
        inside = [not Path(item["path"]).is_absolute() and ".." not in Path(item["path"]).parts
                  and bool(item["target"] and item["precision"])
                  and (not item.get("part") or item["part"] in parts)
                  for item in read["artifacts"]]  # fmt: skip
        packages = [str(item["path"]) for item in read.get("packages", ())]
        inside += [not Path(item).is_absolute() and ".." not in Path(item).parts
                   for item in packages]  # fmt: skip
        inside += [Path(name).name == name for name in parts]
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    return read if ours and known and all(inside) else None
