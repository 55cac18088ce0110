"""What recurrent layers take and give, with directions on an axis of their own."""

from typing import Any

from keras import ops

Tensor = Any


def run_recurrent(
    layers: list[Any], x: Tensor, states: list[Tensor], backwards: list[bool]
) -> tuple[Tensor, ...]:
    """Outputs [steps, directions, batch, hidden], and the last states of each direction.

    A layer a direction; x is [steps, batch, elements], and states are [directions, batch, hidden].
    """
    x, whole, last = ops.transpose(x, (1, 0, 2)), [], []
    for way, layer in enumerate(layers):
        given = ops.flip(x, 1) if backwards[way] else x
        start = [state[way] for state in states]
        found, *ends = layer(given, initial_state=start) if start else layer(given)
        whole.append(ops.flip(found, 1) if backwards[way] else found)
        last.append(ends)
    outputs = ops.transpose(ops.stack(whole, 1), (2, 1, 0, 3))
    return (outputs, *(ops.stack(ends) for ends in zip(*last, strict=True)))
