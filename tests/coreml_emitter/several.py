"""Models of many nodes on the same inputs: one package, read back once, for many cases."""

from __future__ import annotations

from collections.abc import Sequence

from converter.ir import Model
from tests.coreml_emitter.running import parsed


def several(inputs: str, kind: str, nodes: Sequence[str], weights: str = "") -> Model:
    """A model whose outputs are what each of the nodes gives.

    Args:
        inputs: As in ONNX's text form, ``float[b, 4] x, int64[2] i``.
        kind: The outputs' type.
        nodes: What stands right of the equals sign, ``Transpose<perm = [1, 0]>(x)``.
        weights: Initializers, as :func:`vectors` gives them.
    """
    outputs = ", ".join(f"{kind}[] y{place}" for place in range(len(nodes)))
    lines = "\n".join(f"y{place} = {node}" for place, node in enumerate(nodes))
    constants = f"<{weights}>" if weights else ""
    return parsed(f"g ({inputs}) => ({outputs}) {constants} {{\n{lines}\n}}")


def vectors(**named: Sequence[int]) -> str:
    """Initializers of int64 by name."""
    return ", ".join(
        f"int64[{len(items)}] {name} = {{{', '.join(map(str, items))}}}"
        for name, items in named.items()
    )
