"""A model's parameters, written beside its ONNX file while it is traced: tracing takes one core.

    Given:   y = MatMul(x, Transpose(W))     W the weight of a Linear, of 4 MB
    Result:  y = MatMul(x, val_7)            val_7 in the file, transposed there already

The exporter's optimizer would fold such a Transpose into a copy in memory, to be written after all.
"""

from __future__ import annotations

import hashlib
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, NamedTuple

import onnx_ir as ir
import torch

_ALIGNMENT = 4096  # a page, so that each can be mapped by itself
_LARGE = 4096
_INTERVAL = 0.0005  # seconds until a thread has its turn: by default ten times that, at each weight


class _Written(NamedTuple):
    """A tensor in the file. `version` counts what changed it in place (torch's own count)."""

    offset: int
    version: int
    sha256: str


class _Parameter(NamedTuple):
    tensor: torch.Tensor
    transposed: bool

    @property
    def key(self) -> tuple[Any, ...]:
        """Where its bytes lie in memory, and as what: the exporter's model knows it by that."""
        return self.tensor.data_ptr(), self.tensor.shape, self.tensor.dtype, self.transposed

    def content(self) -> torch.Tensor:
        """The bytes as they are in the file."""
        tensor = self.tensor.detach()
        whole = tensor.t().contiguous() if self.transposed else tensor
        return whole.reshape(-1).view(torch.uint8)


class Ahead:
    """Writes a module's parameters to a file, in a thread of its own; those of Linear transposed.

    Args:
        module: Its parameters stay as they are; one that is changed all the same is written anew.
        file: Made anew.

    Buffers aren't among them, which running a model may change. A disk that fills up shows when
    the model itself is written.
    """

    def __init__(self, module: torch.nn.Module, file: Path) -> None:
        linear = {id(m.weight) for m in module.modules() if type(m) is torch.nn.Linear}
        plain = [tensor for tensor in module.parameters() if _is_plain(tensor)]
        self._file = file
        self._parameters = [_Parameter(tensor, id(tensor) in linear) for tensor in plain]
        self._written: dict[tuple[Any, ...], _Written] = {}
        self._folded: dict[int, _Parameter] = {}
        self._interval = sys.getswitchinterval()
        sys.setswitchinterval(_INTERVAL)
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()

    def _write(self) -> None:
        with suppress(OSError), self._file.open("wb") as file:
            for parameter in self._parameters:
                version, content = parameter.tensor._version, parameter.content().numpy().data
                offset = _write(content, file)
                digest = hashlib.sha256(content).hexdigest()
                self._written[parameter.key] = _Written(offset, version, digest)

    def _join(self) -> None:
        self._thread.join()
        sys.setswitchinterval(self._interval)

    def drop(self) -> None:
        """Deletes the file."""
        self._join()
        with suppress(OSError):
            self._file.unlink()

    def fold(self, model: ir.Model) -> None:
        """Makes each Transpose of a weight that is transposed in the file an initializer."""
        wanted = {parameter.key for parameter in self._parameters if parameter.transposed}
        for node in list(model.graph):
            if node.op_type != "Transpose" or node.outputs[0].is_graph_output():
                continue
            weight, perm = _torch_tensor(node.inputs[0]), node.attributes["perm"].value
            if weight is not None and weight.dim() == 2 and [*perm] == [1, 0]:
                parameter = _Parameter(weight, transposed=True)
                if parameter.key in wanted:
                    self._replace(model.graph, node, parameter)

    def _replace(self, graph: ir.Graph, node: ir.Node, parameter: _Parameter) -> None:
        source, output = node.inputs[0], node.outputs[0]
        assert source is not None and source.const_value is not None
        old = source.const_value
        folded = ir.LazyTensor(
            lambda: ir.Tensor(old.numpy().T, dtype=old.dtype),
            dtype=old.dtype,
            shape=ir.Shape([*old.shape][::-1]),
            name=output.name,
        )
        name, output.name = output.name, None
        value = ir.Value(name=name, shape=folded.shape, type=ir.TensorType(old.dtype))
        value.const_value = folded
        self._folded[id(folded)] = parameter
        ir.convenience.replace_all_uses_with(output, value)
        graph.remove(node, safe=True)
        graph.register_initializer(value)
        if not source.uses():
            del graph.initializers[str(source.name)]

    def put_in(self, model: ir.Model) -> dict[str, str]:
        """Makes weights of a model references to the file; large ones are written there that
        weren't ahead.

        Returns the sha256 of those that were, by name.
        """
        self._join()
        self._file.touch()
        digests = {}
        with self._file.open("r+b") as file:
            file.seek(0, 2)
            for name, value in model.graph.initializers.items():
                tensor = value.const_value
                if tensor is None:
                    continue
                written = self._found(value)
                if written is not None:
                    digests[name], offset = written.sha256, written.offset
                elif tensor.nbytes >= _LARGE and tensor.dtype != ir.DataType.STRING:
                    offset = _write(tensor.tobytes(), file)
                else:
                    continue
                value.const_value = ir.ExternalTensor(
                    self._file.name,
                    offset,
                    tensor.nbytes,
                    tensor.dtype,
                    shape=ir.Shape(tensor.shape.numpy()),
                    name=name,
                    base_dir=self._file.parent,
                )
        return digests

    def _found(self, value: ir.Value) -> _Written | None:
        """Where a weight was written ahead; None too where it was changed since."""
        parameter, raw = self._folded.get(id(value.const_value)), _torch_tensor(value)
        if raw is not None:
            parameter = _Parameter(raw, transposed=False)
        if parameter is None:
            return None
        written = self._written.get(parameter.key)
        return written if written and written.version == parameter.tensor._version else None


def _write(content: Any, file: IO[bytes]) -> int:
    """Writes bytes at the next page; returns where that is."""
    file.seek(-file.tell() % _ALIGNMENT, 1)
    offset = file.tell()
    file.write(content)
    file.flush()
    return offset


def _torch_tensor(value: ir.Value | None) -> torch.Tensor | None:
    """The tensor of torch's that an initializer is, where its bytes are one piece of memory."""
    raw = getattr(value.const_value, "raw", None) if value is not None else None
    return raw if isinstance(raw, torch.Tensor) and _is_plain(raw) else None


def _is_plain(tensor: torch.Tensor) -> bool:
    return (
        tensor.device.type == "cpu"
        and tensor.layout == torch.strided
        and tensor.is_contiguous()
        and tensor.numel() > 0
        and not (tensor.is_inference() or tensor.is_quantized)
        and type(tensor) in (torch.Tensor, torch.nn.Parameter)
    )
