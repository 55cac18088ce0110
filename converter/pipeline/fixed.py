"""``--fix``: an input gets one value for good, and is no input any more.

What then follows from constants is computed once: of an If whose condition hangs on it, one branch
is left. The source's own session is wrapped, so that it is fed the same value.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from converter.errors import UsageError
from converter.ir.model import dtype_from_name
from converter.protocols.wrapped import WrappedSession, WrappedSource

if TYPE_CHECKING:
    import numpy as np

    from converter.ir.model import Model, TensorSpec
    from converter.protocols.parser import Source
    from converter.runtime.session import Arrays, Session

    Array = np.ndarray[Any, Any]

_FORM = "NAME=VALUE, as in sr=16000, or NAME=[1, 2] for more than one number"


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


def fixed_values(texts: Iterable[str], specs: Sequence[TensorSpec]) -> dict[str, Array]:
    """What ``--fix`` says, in the inputs' types and shapes; one number fills an input of one
    element.

    Raises:
        UsageError: It isn't of the form, names no input, or the value doesn't fit.
    """
    found: dict[str, Array] = {}
    by_name = {spec.name: spec for spec in specs}
    for text in texts:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not name:
            raise UsageError(f"--fix {text}: it is {_FORM}")
        if name not in by_name:
            raise UsageError(
                f"--fix {text}: the model has no input {name}",
                details=[f"it has {', '.join(by_name)}"],
            )
        if name in found:
            raise UsageError(f"--fix {name} is given twice")
        found[name] = _array(text, value, by_name[name])
    if found and len(found) == len(by_name):
        raise UsageError("--fix leaves the model no input", hint="Leave one of them out.")
    return found


def _array(text: str, value: str, spec: TensorSpec) -> Array:
    import numpy as np

    dtype = dtype_from_name(spec.dtype).numpy()
    try:
        given = np.asarray(json.loads(value))
        made: Array = given.astype(dtype)
    except (ValueError, TypeError) as error:
        raise UsageError(f"--fix {text}: {value!r} is no value; it is {_FORM}") from error
    if not np.array_equal(made, given):
        raise UsageError(f"--fix {text}: {spec.dtype} can't hold {value}")
    shape = spec.shape
    if shape is not None and made.ndim == 0 and all(dim == 1 for dim in shape):
        made = made.reshape((1,) * len(shape))
    fits = shape is None or (
        len(shape) == made.ndim
        and all(isinstance(d, str) or d == n for d, n in zip(shape, made.shape, strict=True))
    )
    if not fits:
        raise UsageError(
            f"--fix {text}: the value has the shape {list(made.shape)}, and {spec.name} "
            f"{list(shape or ())}"
        )
    return made


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
