"""The targets ``tensorrt`` and ``tensorrt-rtx``: engines built from the typed graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from converter.errors import DependencyError, Unsupported, from_os_error
from converter.files.digest import file_digest
from converter.ir.contents import Contents
from converter.ir.model import Model
from converter.options.request import Request
from converter.options.shape_ranges import sizes_seen
from converter.protocols.emitter import Artifact, Emitter
from converter.runtime.session import Session
from emitters.tensorrt.facts import FACTS, GRAPH, LOG, PLAN, record
from emitters.tensorrt.libraries import Library, device_capability, find, has_gpu, installed
from emitters.tensorrt.options import EngineOptions, require_had, require_sound
from emitters.tensorrt.plan_header import (
    RTX_CAPABILITIES,
    PlanHeader,
    read_header,
    require_version,
    target_of,
)
from emitters.tensorrt.profiles import Profile, Sizes, require_shapes, said
from emitters.tensorrt.request import engine
from emitters.tensorrt.scheme import TENSORRT
from emitters.tensorrt.shape_inputs import Values, shape_inputs, values_seen
from emitters.tensorrt.spec import SPECS

if TYPE_CHECKING:
    from converter.samples import Samples
    from emitters.tensorrt.build import BuildReport

DEFAULT_CAPABILITIES = ("8.6", "8.9", "12.0")
"""What TensorRT-RTX builds for where there is no GPU: GeForce RTX 30, 40 and 50."""

APART = 32 << 20
"""Bytes of weights from which the graph's are in a file of their own: that is written quicker."""

_NO_GPU = "there is no GPU here, and an engine can't even be opened without one"


class TensorrtRtxEmitter(Emitter, spec=SPECS["tensorrt-rtx"]):
    """Builds ``model.plan`` with TensorRT-RTX, with or without a GPU."""

    name = "tensorrt-rtx"
    scheme = TENSORRT
    tells = True
    gpu = True

    # -- what can't be taken -------------------------------------------------------------

    def unsupported(
        self, model: Model, request: Request, *, simplified: bool = True
    ) -> Sequence[Unsupported]:
        """Every node that the library's own parser refuses.

        Raises:
            UsageError: A precision or an option that the library doesn't have.
            DependencyError: The library isn't there, or what is asked for needs a GPU.
        """
        from emitters.tensorrt.support import unsupported_nodes

        library = find(self.name)
        self._require_possible(model, request, library)
        return unsupported_nodes(model, request, library, simplified=simplified)

    def _require_possible(self, model: Model, request: Request, library: Library) -> None:
        for precision in request.precision:
            self.require_precision(precision, request)
        require_sound(request)
        require_shapes(request, model)
        require_had(EngineOptions.plain(request, "fp32"), library)
        if request.max_latency is not None and not has_gpu():
            raise DependencyError(
                f"--max-latency can't be judged for {self.name}: {_NO_GPU}",
                code="device-missing",
                hint="Leave it out here, and give it to modelyard bench on the target machine.",
            )

    # -- building ------------------------------------------------------------------------

    def observe(self, samples: Samples, model: Model) -> tuple[Sizes | None, Values]:
        """How large free dimensions are in the samples, and what the values are that decide
        shapes, where there are any."""
        names = shape_inputs(model)
        values = values_seen((item.feeds for item in samples if names), names)
        if not model.symbols:
            return None, values
        shapes = [{name: array.shape for name, array in item.feeds.items()} for item in samples]
        return sizes_seen(shapes, model.inputs), values

    def emit(
        self, model: Model, folder: Path, precision: str, request: Request, seen: Any = None
    ) -> Artifact:
        """Builds ``<folder>/model.plan``.

        Beside it lie ``model.onnx``, the typed graph that it was built from, ``build.log`` and
        ``engine.json``: versions, options, layers.

        Raises:
            UnsupportedError, ModelError, UsageError, DependencyError, MachineError: As
                :func:`emitters.tensorrt.build.build`; and ModelError where nothing of the engine
                computes in what its network asks for.
        """
        library = find(self.name)
        options = self._options(request, model, precision, seen)
        require_had(options, library)
        return build_artifact(model, folder, library, options)

    def _options(
        self,
        request: Request,
        model: Model,
        precision: str,
        seen: tuple[Sizes | None, Values] | None,
    ) -> EngineOptions:
        options = EngineOptions.of(request, model, precision, *(seen or (None, {})))
        if not options.compute_capabilities and device_capability() not in RTX_CAPABILITIES:
            options = replace(options, compute_capabilities=DEFAULT_CAPABILITIES)
        return options

    # -- running -------------------------------------------------------------------------

    def contents(self, artifact: Artifact, request: Request, sizes: Mapping[str, int]) -> Contents:
        """What the engine's layers compute in, from its inspector or else its network; what its
        weights are stored in, from the graph that it was built from."""
        from emitters.tensorrt.contents import contents_of

        return contents_of(artifact.path, sizes)

    def sniff(self, path: Path) -> bool:
        """Whether it is an engine of this library, by its first bytes."""
        return target_of(path) == self.name

    def tell(self, path: Path) -> Mapping[str, Any]:
        """What an engine is, from its first bytes and from the record beside it.

        Raises:
            ModelError: It is damaged.
        """
        from emitters.tensorrt.facts import told

        return told(path)

    def open(self, artifact: Artifact, request: Request, *, frugal: bool = False) -> Session:
        """The engine on the GPU; without one, the graph that it was built from in its place.

        Raises:
            ModelError: The engine is damaged, or of another version of the library.
            DependencyError: The library isn't there; or no GPU is, and no graph either.
        """
        header = read_header(artifact.path)
        why = _cannot_run(header)
        if why:
            return self._stand_in(artifact.path, request, why)
        library = find(header.target)
        if not engine(request).version_compatible:
            require_version(header, library.version, artifact.path.name)
        from emitters.tensorrt.session import EngineSession

        graph = artifact.path.with_name(GRAPH)
        known = Model.load(graph) if graph.is_file() else None
        return EngineSession(
            artifact.path,
            library,
            request,
            inputs=known.inputs if known else (),
            outputs=known.outputs if known else (),
        )

    def _stand_in(self, plan: Path, request: Request, why: str) -> Session:
        """The graph beside an engine, if it is the one that the engine was built from.

        Raises:
            DependencyError: There is no graph.
            ModelError: Graph or engine were changed since.
        """
        from emitters.tensorrt.facts import require_unchanged
        from emitters.tensorrt.stand_in import StandIn

        graph = plan.with_name(GRAPH)
        if not graph.is_file() or not plan.with_name(FACTS).is_file():
            raise DependencyError(
                f"{plan.name} can't be run: {why}",
                code="device-missing",
                hint=f"With {GRAPH} and {FACTS} beside it, that graph can be checked instead.",
            )
        require_unchanged(plan)
        return StandIn(graph, plan.name, why, request.threads)


class TensorrtEmitter(TensorrtRtxEmitter, spec=SPECS["tensorrt"]):
    """Builds ``model.plan`` with TensorRT on the GPU at hand; without one, what builds it there."""

    name = "tensorrt"

    def unsupported(
        self, model: Model, request: Request, *, simplified: bool = True
    ) -> Sequence[Unsupported]:
        """Every node that the library's own parser refuses; none is known without the library.

        Raises:
            UsageError: A precision or an option that the library doesn't have.
            DependencyError: What is asked for needs a GPU.
        """
        library = installed(self.name)
        self._require_possible(model, request, library or Library(self.name, self.name, ""))
        if library is None or not has_gpu():
            return ()
        from emitters.tensorrt.support import unsupported_nodes

        return unsupported_nodes(model, request, library, simplified=simplified)

    def emit(
        self, model: Model, folder: Path, precision: str, request: Request, seen: Any = None
    ) -> Artifact:
        """Builds ``<folder>/model.plan``; without library or GPU, writes what builds it there.

        Raises:
            As :meth:`TensorrtRtxEmitter.emit`.
        """
        if installed(self.name) is not None and has_gpu():
            return super().emit(model, folder, precision, request, seen)
        from emitters.tensorrt import deferred

        options = self._options(request, model, precision, seen)
        require_had(options, Library(self.name, self.name, ""))
        asked = _asked_of_graph(model, options)
        artifact = deferred.write(model, folder, precision, request, options)
        artifact.details |= asked
        return artifact

    def _options(
        self,
        request: Request,
        model: Model,
        precision: str,
        seen: tuple[Sizes | None, Values] | None,
    ) -> EngineOptions:
        return EngineOptions.of(request, model, precision, *(seen or (None, {})))

    def open(self, artifact: Artifact, request: Request, *, frugal: bool = False) -> Session:
        """The engine on the GPU; what was deferred, as its typed graph in ONNX Runtime.

        Raises:
            As :meth:`TensorrtRtxEmitter.open`.
        """
        if not target_of(artifact.path):
            from emitters.tensorrt import deferred

            return deferred.open_artifact(artifact, request)
        return super().open(artifact, request, frugal=frugal)


def _cannot_run(header: PlanHeader) -> str:
    """Why an engine can't be run on this machine; empty where it can."""
    if not has_gpu():
        return _NO_GPU
    built, here = header.compute_capabilities, device_capability()
    if built and here not in built:
        why = f"it is for compute capability {', '.join(built)}, and the GPU here has {here}"
        return why if here in RTX_CAPABILITIES else f"{why}, which TensorRT-RTX doesn't run on"
    return ""


def build_artifact(
    model: Model, folder: Path, library: Library, options: EngineOptions
) -> Artifact:
    """The typed graph and its engine, looked at for what it computes in.

    Args:
        model: The typed graph.
        folder: Where the files go; made where it isn't there.
        library: TensorRT or TensorRT-RTX.
        options: The build's.
    """
    from emitters.tensorrt.build import build
    from emitters.tensorrt.process import started

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise from_os_error(error, f"making the folder for {PLAN}") from error
    graph, plan = folder / GRAPH, folder / PLAN
    with started(library) as child:
        written = model.copy().save(graph, external=model.weight_bytes() > APART or None)
        with ThreadPoolExecutor(1) as beside:  # the other process has work for a while
            macs = beside.submit(_macs, model, options)
            digests = beside.submit(lambda: {file.name: file_digest(file) for file in written})
            report = build(graph, plan, options, library, lambda text: None, child)
        details = _details(plan, library, options, macs.result(), report)
        (folder / LOG).write_text("".join(f"{line}\n" for line in report.log))
        record(folder, digests.result(), details, report)
    return Artifact(library.name, options.precision, plan, [plan], details)


def _details(
    plan: Path,
    library: Library,
    options: EngineOptions,
    macs: Mapping[str, int],
    report: BuildReport,
) -> dict[str, Any]:
    shares = _looked_at(macs, options, report)
    return {
        "engine": "built",
        "bytes": plan.stat().st_size,
        "sha256": {plan.name: report.sha256},
        "library": f"{library.name} {report.version}",
        "compute_capabilities": list(read_header(plan).compute_capabilities),
        "options": options.said(),
        "profiles": [dict(profile) for profile in options.profiles],
        **shares,
        "fixed_addresses": report.fixed_addresses,
        "decisions": _decisions(options, shares, report),
    }


def _decisions(options: EngineOptions, shares: Mapping[str, Any], report: BuildReport) -> list[str]:
    """What the report says of the engine, a line each."""
    from emitters.tensorrt.layers import in_words

    lines = [in_words(shares["requested_precision"], "requested precision")]
    if "engine_precision" in shares:
        lines.append(in_words(shares["engine_precision"], "the engine's own"))
        lines += [f"{name} did not fuse" for name in shares["not_fused"]]
    lines += [f"profile {index}: {said(item)}" for index, item in enumerate(options.profiles)]
    lines += [
        f"{name}, whose values decide shapes, from {low} to {high}, as in the samples; best {best}"
        for name, (low, best, high) in options.values.items()
    ]
    if not report.fixed_addresses:
        lines.append(
            "the same build may give other bytes: this system randomizes addresses of memory, "
            "and the builder orders things by them"
        )
    return lines


def _macs(model: Model, options: EngineOptions) -> Mapping[str, int]:
    """Multiply-adds by node at the best shapes of the first profile."""
    from converter.analysis.macs import macs_by_node

    return macs_by_node(model, _best_sizes(model, options.profiles))


def _looked_at(
    macs: Mapping[str, int], options: EngineOptions, report: BuildReport
) -> dict[str, Any]:
    """The shares by type, requested and where known built.

    Raises:
        ModelError: The engine computes in nothing that its network asked for.
    """
    from emitters.tensorrt.layers import built, requested, require_as_requested, unfused

    asked = requested(report.layers, macs)
    found: dict[str, Any] = {"requested_precision": asked}
    if report.engine:
        made = built(report.engine, macs)
        require_as_requested(options.precision, asked, made)
        found |= {"engine_precision": made, "not_fused": unfused(report.engine)}
    return found


def _asked_of_graph(model: Model, options: EngineOptions) -> dict[str, Any]:
    """What a graph asks to be computed in, where there is no library to parse it."""
    from emitters.tensorrt.graph_types import requested_by_graph
    from emitters.tensorrt.layers import in_words

    shares = requested_by_graph(model, _macs(model, options))
    lines = [in_words(shares, "requested precision")] if shares else []
    return {"requested_precision": shares, "decisions": lines}


def _best_sizes(model: Model, profiles: Sequence[Profile]) -> Mapping[str, int]:
    """The free dimensions' sizes in the first profile's best shapes."""
    if not profiles:
        return {}
    return {
        dim: size
        for spec in model.inputs
        for dim, size in zip(spec.shape or (), profiles[0][spec.name][1], strict=True)
        if isinstance(dim, str)
    }
