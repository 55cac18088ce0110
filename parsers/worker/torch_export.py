"""From a module to an ONNX file: one trace with torch.export, one translation, one write."""

# zip() knows no strict= before Python 3.10.
# ruff: noqa: B905

from __future__ import annotations

import logging
import os
import time
import warnings
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

import torch

from . import export_errors, onnx_file
from .errors import WorkerError, from_user_code
from .flatten import Flat, final_names
from .tensors import Dim, Spec, example

# The TorchScript-based exporter knows no later one.
_TORCHSCRIPT_MAX_OPSET = 20
_PREFIX = "model."


@dataclass
class Request:
    """What to export, and where to."""

    flat: Flat
    specs: List[Spec]
    sizes: Dict[str, int]
    opset: int
    out: str
    outputs: Optional[List[str]]
    external_from: int
    optimize: bool
    progress: Callable[[str], None]
    warnings: List[str] = field(default_factory=list)

    def tensors(self, sizes: Optional[Dict[str, int]] = None) -> Tuple[torch.Tensor, ...]:
        """Example inputs for the given sizes of symbols."""
        return tuple(example(spec, sizes or self.sizes) for spec in self.specs)

    def names(self) -> List[str]:
        """Final output names; warns where they differ from what forward said."""
        names, notes = final_names(self.flat.output_names, self.outputs, self.flat.plan.names)
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
) -> Optional[Tuple[Dict[int, Any], ...]]:
    """For each input, its symbolic axes and what `make` makes of their symbols."""
    axes = tuple({i: make(d) for i, d in enumerate(s.shape) if isinstance(d, str)} for s in specs)
    return axes if any(axes) else None


def _dims(specs: Sequence[Spec]) -> Tuple[Callable[[str], Any], Dict[str, str]]:
    """One torch Dim for each symbol, and the symbols whose Dim needs another name."""
    symbols = dict.fromkeys(d for s in specs for d in s.shape if isinstance(d, str))
    names = {d: d if d.isidentifier() else f"symbol_{i}" for i, d in enumerate(symbols)}
    dims = {symbol: torch.export.Dim(name) for symbol, name in names.items()}
    return dims.__getitem__, {name: d for d, name in names.items() if name != d}


def _enter_tracing(stack: ExitStack, flat: Flat) -> None:
    """The settings that torch.onnx.export itself traces with; they have no public names."""
    stack.enter_context(_quiet())
    with suppress(ImportError, AttributeError):
        from torch.fx.experimental import _config

        # Sizes 0 and 1 are sizes like any other.
        stack.enter_context(_config.patch(backed_size_oblivious=True))
    if any(isinstance(m, (torch.nn.LSTM, torch.nn.GRU)) for m in flat.modules()):
        with suppress(ImportError, AttributeError):
            from torch.export import _patches

            # Recurrent layers would be unrolled, and their length fixed, without these.
            stack.enter_context(_patches.register_lstm_while_loop_decomposition())
            stack.enter_context(_patches.register_gru_while_loop_decomposition())


def _trace(request: Request, make: Callable[[str], Any]) -> Any:
    """torch.export of the flat module. Raises what torch or the user's code raises."""
    axes = _dynamic_shapes(request.specs, make)
    shapes = None if axes is None else {"tensors": axes}
    with ExitStack() as stack:
        _enter_tracing(stack, request.flat)
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


def _raise_if_specialized(error: Exception, request: Request, aliases: Dict[str, str]) -> str:
    """Raise unsupported if a symbol became a constant; else return the readable text."""
    text = export_errors.named(str(error), request.specs, aliases)
    constants = export_errors.specialized(text)
    if constants:
        raise export_errors.must_be_fixed(text, constants, error) from error
    return text


def _translate(request: Request, program: Any, names: List[str]) -> Any:
    """The ONNX IR model of an exported program."""
    with ExitStack() as stack:
        # Decompositions run here again; without the same settings a recurrent layer's output
        # would be labelled with the length of the example.
        _enter_tracing(stack, request.flat)
        result = torch.onnx.export(
            program,
            (),
            None,
            dynamo=True,
            verbose=False,
            input_names=[spec.name for spec in request.specs],
            output_names=names,
            opset_version=request.opset,
            dynamic_shapes=_nested(_dynamic_shapes(request.specs, str)),
            optimize=request.optimize,
        )
    return result.model


def _nested(axes: Optional[Tuple[Dict[int, Any], ...]]) -> Any:
    """Axes in the form of the arguments of Flat.forward: one *tensors."""
    return None if axes is None else (axes,)


def _explain(request: Request, error: Exception) -> None:
    """Raise the right error if the trace failed for a reason no other exporter would cure."""
    if request.flat.problem is not None:
        raise request.flat.problem
    sizes = ", ".join(f"{k}={v}" for k, v in request.sizes.items())
    hint = f" (inputs as declared{', with ' + sizes if sizes else ''})"
    try:
        request.flat(*request.tensors())
    # The model fails on real tensors too: its own code, or the inputs declared for it.
    except Exception as own:
        raise from_user_code(own, "running forward", hint) from own
    if export_errors.is_data_dependent(error):
        raise export_errors.depends_on_data(error) from error


def _try_dynamo(request: Request) -> Tuple[Any, List[str]]:
    """The IR model by torch.export, or None and the reasons why not.

    Raises unsupported or source where the other exporter would fail, or deceive, as well.
    """
    if isinstance(request.flat.model, torch.jit.ScriptModule):
        return None, ["the model is TorchScript already"]
    request.progress("tracing the model")
    try:
        program = _capture(request)
    except WorkerError:
        raise
    except Exception as error:
        _explain(request, error)
        return None, [export_errors.summary(error)]
    names = request.names()
    request.progress("translating to ONNX")
    try:
        return _translate(request, program, names), []
    except Exception as error:
        texts = [str(e) for e in export_errors.chain(error)]
        reasons = [f"no ONNX translation for {n}" for n in _operators(program, request, texts)]
        return None, reasons or [export_errors.summary(export_errors.chain(error)[-1])]


def _operators(program: Any, request: Request, texts: Sequence[str]) -> List[str]:
    with _quiet():
        found = export_errors.missing_operators(program, request.opset)
    return found or export_errors.operators_in("\n".join(texts))


def _output_axes(request: Request) -> Dict[str, Dict[int, str]]:
    """Symbols of output axes, found by running the model with each symbol one larger."""
    base = request.flat(*request.tensors())
    axes: Dict[str, Dict[int, str]] = {name: {} for name in request.flat.output_names}
    for symbol, size in request.sizes.items():
        try:
            grown = request.flat(*request.tensors({**request.sizes, symbol: size + 1}))
        except Exception:  # the model takes no other size: it names no axis of an output then
            continue
        for name, before, after in zip(list(axes), base, grown):
            for axis, pair in enumerate(zip(before.shape, after.shape)):
                if pair == (size, size + 1):
                    axes[name][axis] = symbol
    return axes


def _try_torchscript(request: Request) -> Any:
    """The IR model by the TorchScript-based exporter. Raises what that raises."""
    import onnx_ir

    request.progress("exporting with the TorchScript-based exporter")
    found = _output_axes(request)
    names = request.names()
    inputs = [spec.name for spec in request.specs]
    axes = dict(zip(inputs, _dynamic_shapes(request.specs, str) or ()))
    axes.update(zip(names, found.values()))
    scratch = Path(f"{request.out}.torchscript")
    try:
        with warnings.catch_warnings(record=True) as notes:
            warnings.simplefilter("always")
            # Traced here, not by the exporter: that one cannot call a ScriptModule inside.
            traced = torch.jit.trace(request.flat, request.tensors(), check_trace=False)
            torch.onnx.export(
                traced,
                request.tensors(),
                str(scratch),
                dynamo=False,
                input_names=inputs,
                output_names=names,
                opset_version=min(request.opset, _TORCHSCRIPT_MAX_OPSET),
                dynamic_axes=axes,
            )
        burnt_in = [
            f"{n.filename}:{n.lineno}: {str(n.message).partition('. ')[0]}"
            for n in notes
            if issubclass(n.category, torch.jit.TracerWarning)
        ]
        if burnt_in:
            raise export_errors.burnt_in(burnt_in)
        return onnx_ir.from_proto(_load(scratch))
    finally:
        scratch.unlink(missing_ok=True)


def _load(path: Path) -> Any:
    import onnx

    proto = onnx.load(path)
    for tensor in proto.graph.initializer:
        tensor.ClearField("doc_string")
    return proto


def _either(request: Request) -> Tuple[Any, str, List[str]]:
    """The IR model, the exporter that made it, and why it was not the first choice."""
    model, reasons = _try_dynamo(request)
    if model is not None:
        return model, "dynamo", []
    try:
        return _try_torchscript(request), "torchscript", reasons
    except WorkerError as error:
        error.details = reasons + error.details
        raise
    except Exception as error:
        texts = export_errors.operators_in(str(error))
        second = [f"TorchScript: no ONNX translation for {name}" for name in texts]
        second = second or [f"TorchScript: {export_errors.summary(error)}"]
        # For TorchScript there is one exporter only, and its reason is the one to read.
        scripted = isinstance(request.flat.model, torch.jit.ScriptModule)
        why = second[0] if scripted else reasons[0]
        raise WorkerError(
            "unsupported", f"the model cannot be exported: {why}", reasons + second
        ) from error


def _compare_inputs(request: Request, described: Sequence[Dict[str, Any]]) -> None:
    """Warn of symbols that the trace merged; raise unsupported for one that became a number."""
    merged: Dict[str, str] = {}
    fixed: Dict[str, int] = {}
    for spec, got in zip(request.specs, described):
        pairs: Iterator[Tuple[Dim, Any]] = zip(spec.shape, got["shape"])
        for asked, made in pairs:
            if isinstance(asked, str) and isinstance(made, int):
                fixed[asked] = made
            elif isinstance(asked, str) and asked != made:
                merged[asked] = str(made)
    if fixed:
        raise export_errors.must_be_fixed("", fixed, ValueError("specialized"))
    request.warnings += [f"{asked} is always {made}" for asked, made in merged.items()]


def export(request: Request) -> Dict[str, Any]:
    """Export and write the file.

    Returns out, inputs, outputs, exporter, reasons, seconds, external and warnings. Raises
    unsupported (with every reason, and `specialized` sizes if those are it), source or usage.
    """
    start = time.perf_counter()
    model, exporter, reasons = _either(request)
    onnx_file.strip(model)
    onnx_file.unique_names(model)
    onnx_file.drop_prefix(model, _PREFIX)
    inputs = onnx_file.describe(model.graph.inputs)
    _compare_inputs(request, inputs)
    request.progress("writing the ONNX file")
    out, external = onnx_file.save(model, request.out, request.external_from)
    return {
        "out": out,
        "external": external,
        "inputs": inputs,
        "outputs": onnx_file.describe(model.graph.outputs),
        "exporter": exporter,
        "reasons": reasons,
        "seconds": time.perf_counter() - start,
        "warnings": list(dict.fromkeys(request.warnings)),
    }
