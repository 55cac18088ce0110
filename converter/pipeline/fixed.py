"""``--fix``: an input gets one value for good, and is no input any more.

What then follows from constants is computed once: of an If whose condition hangs on it, one branch
is left. The source's own session is wrapped, so that it is fed the same value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from converter.options.fixed_values import fixed_values
from converter.protocols.wrapped import WrappedSession, WrappedSource

if TYPE_CHECKING:
    import numpy as np

    from converter.ir.model import Model, TensorSpec
    from converter.protocols.parser import Source
    from converter.runtime.session import Arrays, Session

    Array = np.ndarray[Any, Any]


class FixedSource(WrappedSource):
    """A source some of whose inputs have one value.

    Args:
        source: The source.
        texts: Every ``--fix``.
    """

    def __init__(self, source: Source, texts: Sequence[str]) -> None:
        super().__init__(source)
        self._texts = texts

    def parse(self) -> Model:
        """The source's model with constants for those inputs.

        Raises:
            UsageError: There is no such input, or the value doesn't fit it.
        """
        model = super().parse()
        fix_inputs(model, fixed_values(self._texts, model.inputs))
        return model

    def reference(self) -> Session:
        """The framework, which is fed those values too."""
        session = super().reference()
        return FixedSession(session, fixed_values(self._texts, session.inputs))


class FixedSession(WrappedSession):
    """A session that adds values to its feeds.

    Args:
        session: What runs.
        values: By input.
    """

    def __init__(self, session: Session, values: Mapping[str, Array]) -> None:
        super().__init__(session)
        self._values = values

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """The inputs that are left."""
        return tuple(spec for spec in super().inputs if spec.name not in self._values)

    def _fed(self, feeds: Arrays) -> Arrays:
        return {**feeds, **self._values}


def fix_inputs(model: Model, values: Mapping[str, Array]) -> None:
    """Makes initializers of the model's inputs, in place."""
    import onnx_ir

    graph = model.graph.graph
    for value in list(graph.inputs):
        name = value.name or ""
        if name not in values:
            continue
        graph.inputs.remove(value)
        value.const_value = onnx_ir.Tensor(values[name], name=name)
        value.shape = onnx_ir.Shape(values[name].shape)
        graph.register_initializer(value)
        model.meanings.pop(name, None)
