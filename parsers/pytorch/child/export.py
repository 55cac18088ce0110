"""From a module to an ONNX file: one trace with torch.export, one translation, one write."""

# zip() knows no strict= before Python 3.10.
# ruff: noqa: B905

from __future__ import annotations

import logging
import os
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from ...worker.errors import WorkerError, from_user_code
from . import (
    decompose,
    decompositions,
    encoders,
    exact,
    export_errors,
    parametrized,
    states,
    translations,
)
from .decompositions import bags
from .examples import Examples
from .flatten import Flat
from .probes import Probe, run_all
from .taken import Watch
from .tensors import Dim, Spec
from .trace import try_torchscript

if TYPE_CHECKING:
    from .ahead import Ahead

_PREFIX = "model."
_SCRIPTED = "the model is TorchScript already"


@dataclass
class Request:
    """What to export, and where to."""

    flat: Flat
    specs: list[Spec]
    examples: Examples
    sizes: dict[str, int]
    opset: int
    out: str
    outputs: list[str] | None
    external_from: int | None
    optimize: bool
    progress: Callable[[str], None]
    warnings: list[str] = field(default_factory=list)
    # What the model gave for other inputs, where a trace had to be held against it.
    probes: list[dict[str, Any]] = field(default_factory=list)
    probed: str = ""
    kept: str = ""
    ran: list[Probe] | None = None
    keeps_layers: bool = False
    ahead: Ahead | None = None

    def tensors(self, sizes: dict[str, int] | None = None) -> tuple[torch.Tensor, ...]:
        """Example inputs for the given sizes of symbols."""
        return self.examples.tensors(sizes or self.sizes)

    def write_ahead(self) -> None:
        """Starts to write the parameters, where they go to a file of their own."""
        from ...worker import onnx_file
        from .ahead import Ahead

        parameters = self.flat.model.parameters()
        large = sum(p.numel() * p.element_size() for p in parameters) >= self.limit
        if large and self.optimize and hasattr(torch.onnx.ONNXProgram, "optimize"):
            self.ahead = Ahead(self.flat.model, onnx_file.beside(self.out))

    def write_as_ever(self) -> None:
        """Takes that back."""
        if self.ahead is not None:
            self.ahead.drop()
            self.ahead = None

    @property
    def limit(self) -> int:
        """Bytes of weights from which on they go to a file of their own."""
        from ...worker.onnx_file import EXTERNAL_FROM

        return EXTERNAL_FROM if self.external_from is None else self.external_from

    def settle(self) -> None:
        """Has the examples be what the model runs on, where that can be found."""
        self.examples.settle(self.flat, self.sizes)

    def tried(self) -> list[Probe]:
        """The model's own outputs on other inputs, run once."""
        if self.ran is None:
            self.progress("running the model on other inputs")
            self.settle()
            self.ran = run_all(self.flat, self.specs, self.sizes, self.tensors())
        return self.ran

    def names(self) -> list[str]:
        """Final output names; warns where they differ from what forward said."""
        names, notes = self.flat.final_names(self.outputs)
        self.warnings.extend(notes)
        return names


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the exporter's advice to its own developers off the user's terminal."""
    logger = logging.getLogger("torch")
    level = logger.level
    if not os.environ.get("TORCH_LOGS"):
        logger.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def _dynamic_shapes(
    specs: Sequence[Spec], make: Callable[[str], Any]
) -> tuple[dict[int, Any], ...] | None:
    """For each input, its symbolic axes and what `make` makes of their symbols."""
    axes = tuple({i: make(d) for i, d in enumerate(s.shape) if isinstance(d, str)} for s in specs)
    return axes if any(axes) else None


def _dims(specs: Sequence[Spec]) -> tuple[Callable[[str], Any], dict[str, str]]:
    """One torch Dim for each symbol, and the symbols whose Dim needs another name."""
    symbols = dict.fromkeys(d for s in specs for d in s.shape if isinstance(d, str))
    names = {d: d if d.isidentifier() else f"symbol_{i}" for i, d in enumerate(symbols)}
    dims = {symbol: torch.export.Dim(name) for symbol, name in names.items()}
    return dims.__getitem__, {name: d for d, name in names.items() if name != d}


def _enter_tracing(stack: ExitStack, recurrent: bool) -> None:
    """The settings that torch.onnx.export itself traces with; they have no public names."""
    stack.enter_context(_quiet())
    with suppress(ImportError, AttributeError):
        from torch.fx.experimental import _config

        # Sizes 0 and 1 are sizes like any other.
        stack.enter_context(_config.patch(backed_size_oblivious=True))
    if recurrent:
        with suppress(ImportError, AttributeError):
            from torch.export import _patches

            # Recurrent layers would be unrolled, and their length fixed, without these.
            stack.enter_context(_patches.register_lstm_while_loop_decomposition())
            stack.enter_context(_patches.register_gru_while_loop_decomposition())


@contextmanager
def _first_by_type() -> Iterator[None]:
    """Has the rules of onnxscript's optimizer look at a node's type before anything else.

    Without it each node is held against all rules whole, and one of them lists the graph's nodes
    anew for each: most of a translation's time, and quadratic. What matches is the same.
    """
    try:
        from onnxscript.rewriter._matcher import SimplePatternMatcher
        from onnxscript.rewriter._rewrite_rule import Pattern

        match = Pattern.match
    except (ImportError, AttributeError):  # another version: only slower
        yield
        return

    def match_typed(self: Any, model: Any, graph: Any, node: Any, **options: Any) -> Any:
        if isinstance(self._matcher, SimplePatternMatcher):
            first = self._matcher.pattern.output_nodes[0]
            if not first.op.matches(node.op_type):
                return None
        return match(self, model, graph, node, **options)

    Pattern.match = match_typed
    try:
        yield
    finally:
        Pattern.match = match


def is_recurrent(flat: Flat) -> bool:
    """Whether there are layers in it that torch.export unrolls unless told otherwise."""
    return any(isinstance(m, (torch.nn.LSTM, torch.nn.GRU)) for m in flat.modules())


def _trace(request: Request, make: Callable[[str], Any]) -> Any:
    """torch.export of the flat module. Raises what torch or the user's code raises."""
    axes = _dynamic_shapes(request.specs, make)
    shapes = None if axes is None else {"tensors": axes}
    with ExitStack() as stack:
        _enter_tracing(stack, is_recurrent(request.flat))
        stack.enter_context(encoders.traced())
        stack.enter_context(bags.traced())
        stack.enter_context(parametrized.computed(request.flat))
        return torch.export.export(
            request.flat, request.tensors(), dynamic_shapes=shapes, strict=False
        )


def _capture(request: Request) -> Any:
    """Trace with the user's symbols; if they do not hold for all sizes, say so and relax them.

    Raises unsupported, naming the symbols, when the code makes a constant of one.
    """
    make, aliases = _dims(request.specs)
    try:
        return _trace(request, make)
    except Exception as error:
        if not export_errors.is_violation(error):
            raise
        text = _raise_if_specialized(error, request, aliases)
    try:
        program = _trace(request, lambda _: torch.export.Dim.DYNAMIC)
    except Exception as error:
        if export_errors.is_violation(error):
            _raise_if_specialized(error, request, aliases)
        raise
    request.warnings += [f"traced assuming {a}" for a in export_errors.assumptions(text)]
    return program


def _capture_decided(request: Request) -> Any:
    """Trace; where Python asks for the value of a constant, with the model's own answer.

    Weights and buffers have no values while torch.export traces, so that `if self.pad.any():`
    looks like a decision by an input.
    """
    try:
        return _capture(request)
    except WorkerError:
        raise
    except Exception as error:
        answers = _constants(request) if export_errors.is_data_dependent(error) else []
        if not answers:
            raise
    request.progress("tracing the model with what its constants decide")
    try:
        request.flat.watch(lambda: Watch(request.flat, answers))
        return _capture(request)
    finally:
        request.flat.watch(None)


def _constants(request: Request) -> list[Any]:
    """What Python takes out of weights and buffers, where that is alike for all inputs."""
    found = [probe.constants for probe in request.tried() if probe.sizes == request.sizes]
    alike = found and all(repr(answers) == repr(found[0]) for answers in found)
    return found[0] if alike else []


def _raise_if_specialized(error: Exception, request: Request, aliases: dict[str, str]) -> str:
    """Raise unsupported if a symbol became a constant; else return the readable text."""
    text = export_errors.named(str(error), request.specs, aliases)
    constants = export_errors.specialized(text)
    if constants:
        raise export_errors.must_be_fixed(text, constants, error) from error
    return text


def translate(
    program: Any,
    specs: Sequence[Spec],
    names: list[str],
    recurrent: bool,
    keeps_layers: bool = False,
    **options: Any,
) -> Any:
    """The ONNX IR model of an exported program.

    Args:
        program: What torch.export gave.
        specs: The inputs.
        names: Of the outputs.
        recurrent: Whether the program was traced with the settings for recurrent layers.
        keeps_layers: Whether layers that do nothing in inference stay, as Dropout.
        **options: torch.onnx.export's.
    """
    table = translations.table()
    with ExitStack() as stack:
        if keeps_layers:
            from . import layers

            stack.enter_context(layers.kept())
            table.update(layers.TABLE)
        # Decompositions run here again; without the same settings a recurrent layer's output
        # would be labelled with the length of the example.
        _enter_tracing(stack, recurrent)
        stack.enter_context(_first_by_type())
        stack.enter_context(exact.constants())
        stack.enter_context(translations.in_place())
        export = partial(
            torch.onnx.export,
            decompositions.apply(program),
            (),
            None,
            dynamo=True,
            verbose=False,
            input_names=[spec.name for spec in specs],
            output_names=names,
            dynamic_shapes=_nested(_dynamic_shapes(specs, str)),
            custom_translation_table=table,
            **options,
        )
        with decompose.as_needed() as taken:
            try:
                return export().model
            except torch.onnx.OnnxExporterError:
                if not taken:
                    raise
        return export().model


def _nested(axes: tuple[dict[int, Any], ...] | None) -> Any:
    """Axes in the form of the arguments of Flat.forward: one *tensors."""
    return None if axes is None else (axes,)


def _explain(request: Request, error: Exception) -> None:
    """Raise the right error if the trace failed for a reason no other exporter would cure."""
    if request.flat.problem is not None:
        raise request.flat.problem
    sizes = ", ".join(f"{k}={v}" for k, v in request.sizes.items())
    request.settle()
    declared = f"inputs as declared{', with ' + sizes if sizes else ''}"
    hint = f" ({declared}: {request.examples.told()})"
    try:
        request.flat(*request.tensors())
    # The model fails on real tensors too: its own code, or the inputs declared for it.
    except Exception as own:
        hint += export_errors.wants_integers(own, request.specs)
        raise from_user_code(own, "running forward", hint) from own


def trace(request: Request) -> tuple[Any, list[str]]:
    """The program by torch.export, or None and the reasons why not.

    Raises unsupported or source where the other exporter would fail as well.
    """
    if isinstance(request.flat.model, torch.jit.ScriptModule):
        return None, [_SCRIPTED]
    request.progress("tracing the model")
    try:
        return _with_states(request, _capture_decided(request)), []
    except WorkerError:
        raise
    except Exception as error:
        _explain(request, error)
        if export_errors.is_data_dependent(error):
            return None, [export_errors.depends_on_data(error)]
        return None, [export_errors.summary(error)]


def _with_states(request: Request, program: Any) -> Any:
    """The program with what forward keeps in buffers as inputs and outputs; see states.State."""
    flat = request.flat
    if flat.states.replaced:
        states.require_none(flat.model, lambda: flat(*request.tensors()))
    found = states.changed(program, _PREFIX)
    if not found:
        return program
    taken = [*request.flat.names, *request.flat.output_names, *(request.outputs or ())]
    request.flat.states.note(found, taken)
    request.warnings += request.flat.states.warnings()
    fed = request.flat.states.fed
    if not fed:
        return program
    request.specs = [*request.specs, *(state.spec for state in fed)]
    request.examples = request.examples.extended({state.spec: state.initial for state in fed})
    request.progress("tracing the model with its state as inputs")
    return _capture_decided(request)


def _try_dynamo(request: Request) -> tuple[Any, list[str]]:
    """The IR model by torch.export, or None and the reasons why not; raises what `trace` does."""
    request.write_ahead()
    model = None
    try:
        model, reasons = _by_dynamo(request)
    finally:
        if model is None:  # or it was refused
            request.write_as_ever()
    return model, reasons


def _by_dynamo(request: Request) -> tuple[Any, list[str]]:
    program, reasons = trace(request)
    if program is None:
        return None, reasons
    if request.keeps_layers:
        from . import layers

        layers.mark(program)
    program = _decomposed(request, program)
    names, recurrent = request.names(), is_recurrent(request.flat)
    request.progress("translating to ONNX")
    options: dict[str, Any] = {"opset_version": request.opset, "optimize": request.optimize}
    options["keeps_layers"] = request.keeps_layers
    if request.ahead is not None:
        try:
            with _folding(request.ahead):
                return translate(program, request.specs, names, recurrent, **options), []
        except Exception:  # by another version's ways, maybe: once more without
            request.write_as_ever()
    try:
        return translate(program, request.specs, names, recurrent, **options), []
    except Exception as error:
        return None, why_untranslated(program, request.opset, error)


def _decomposed(request: Request, program: Any) -> Any:
    """The program with our own decompositions, which may not fix a size: where one is just what a
    table has room for, the model is traced on a smaller one."""
    with ExitStack() as stack:
        _enter_tracing(stack, False)
        free = decompositions.free_sizes(program)
        made = decompositions.apply(program)
    if decompositions.free_sizes(made) == free:
        return made
    request.sizes = {name: max(size - 1, 2) for name, size in request.sizes.items()}
    return _capture_decided(request)


@contextmanager
def _folding(ahead: Ahead) -> Iterator[None]:
    """Has weights that are written ahead in the model before it is optimized."""
    optimize = torch.onnx.ONNXProgram.optimize

    def fold_first(program: Any) -> None:
        ahead.fold(program.model)
        optimize(program)

    torch.onnx.ONNXProgram.optimize = fold_first
    try:
        yield
    finally:
        torch.onnx.ONNXProgram.optimize = optimize


def why_untranslated(program: Any, opset: int, error: Exception) -> list[str]:
    """The operators that have no translation, or else what the exporter said.

    Args:
        program: What torch.export gave.
        opset: The ONNX version that was asked for.
        error: What the exporter raised.

    Raises:
        WorkerError: A refusal of one of our translations, as it is: no other exporter would do
            better.
    """
    refused = next((e for e in export_errors.chain(error) if isinstance(e, WorkerError)), None)
    if refused is not None:
        raise refused from error
    with _quiet():
        found = export_errors.missing_operators(program, opset)
    texts = [str(e) for e in export_errors.chain(error)]
    found = found or export_errors.operators_in("\n".join(texts))
    reasons = [f"no ONNX translation for {name}" for name in found]
    return reasons or [export_errors.summary(export_errors.chain(error)[-1])]


def _either(request: Request) -> tuple[Any, str, list[str]]:
    """The IR model, the exporter that made it, and why it was not the first choice."""
    model, reasons = _try_dynamo(request)
    if model is not None:
        return model, "dynamo", []
    try:
        return try_torchscript(request), "torchscript", reasons
    except WorkerError as error:
        error.details = [reason for reason in reasons if reason != _SCRIPTED] + error.details
        raise
    except Exception as error:
        texts = export_errors.operators_in(str(error))
        second = [f"TorchScript: no ONNX translation for {name}" for name in texts]
        second = second or [
            f"TorchScript: {export_errors.summary(error)}",
            f"traced on {request.examples.told()}",
        ]
        # For TorchScript there is one exporter only, and its reason is the one to read.
        scripted = isinstance(request.flat.model, torch.jit.ScriptModule)
        why = second[0] if scripted else reasons[0]
        raise WorkerError(
            "unsupported", f"the model cannot be exported: {why}", reasons + second
        ) from error


def _merged(specs: Sequence[Spec], described: Sequence[dict[str, Any]]) -> list[str]:
    """Words on symbols that the trace merged; raises unsupported for one that became a number."""
    merged: dict[str, str] = {}
    fixed: dict[str, int] = {}
    for spec, got in zip(specs, described):
        pairs: Iterator[tuple[Dim, Any]] = zip(spec.shape, got["shape"])
        for asked, made in pairs:
            if isinstance(asked, str) and isinstance(made, int):
                fixed[asked] = made
            elif isinstance(asked, str) and asked != made:
                merged[asked] = str(made)
    if fixed:
        raise export_errors.must_be_fixed("", fixed, ValueError("specialized"))
    return [f"{asked} is always {made}" for asked, made in merged.items()]


def require_count(request: Request) -> None:
    """Raise unsupported for a free number of images where forward takes a list of them."""
    for spec in request.specs:
        count = spec.shape[0] if len(spec.shape) == 4 else 1
        if isinstance(count, str) and spec.name in request.flat.plan.images():
            text = (
                f"forward takes {spec.name} as a list of images, and a graph fixes the list's "
                "length"
            )
            raise WorkerError("unsupported", text, [text], specialized={count: 1})


def inner_name(request: Request) -> str:
    """What our wrappers add to the names of the user's modules."""
    return _PREFIX + getattr(request.flat.model, "INNER", "")


def write(
    model: Any, specs: Sequence[Spec], inner: str, out: str, request: Request | None = None
) -> dict[str, Any]:
    """Name what is in an IR model and write the file.

    Args:
        model: The IR model, whose names are changed.
        specs: The inputs.
        inner: What our wrappers add to the names of the user's modules.
        out: The file.
        request: What was asked for; None: defaults.

    Returns:
        ``out``, ``external``, ``inputs``, ``outputs``, ``warnings``, and the ``sha256`` of weights
        by name, as far as it is known.
    """
    from ...worker import onnx_file
    from . import node_names

    node_names.name_nodes(model, inner)
    onnx_file.strip(model)
    onnx_file.unique_names(model)
    onnx_file.drop_prefix(model, _PREFIX)
    inputs = onnx_file.describe(model.graph.inputs)
    told = _merged(specs, inputs)
    limit = request.limit if request else onnx_file.EXTERNAL_FROM
    known = request.ahead.put_in(model) if request and request.ahead else {}
    path, external = onnx_file.save(model, out, limit)
    outputs = onnx_file.describe(model.graph.outputs)
    return {
        "out": path, "external": external, "inputs": inputs, "outputs": outputs, "warnings": told,
        "sha256": known,
    }  # fmt: skip


def export(request: Request) -> dict[str, Any]:
    """Export and write the file.

    Returns out, inputs, outputs, exporter, reasons, seconds, external and warnings. Raises
    unsupported (with every reason, and `specialized` sizes if those are it), source or usage.
    """
    start = time.perf_counter()
    require_count(request)
    model, exporter, reasons = _either(request)
    request.progress("writing the ONNX file")
    written = write(model, request.specs, inner_name(request), request.out, request)
    return {
        **written,
        "exporter": exporter,
        "reasons": reasons,
        "seconds": time.perf_counter() - start,
        "warnings": list(dict.fromkeys([*request.warnings, *written["warnings"]])),
        "probes": request.probes,
        "probed": request.probed,
        "kept": request.kept,
    }
