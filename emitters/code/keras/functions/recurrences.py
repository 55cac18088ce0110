"""What recurrent layers take and give, with directions on an axis of their own."""

from typing import Any

from keras import ops

Tensor = Any


def run_recurrent(
    layer: Any, x: Tensor, states: tuple[Tensor, ...] = (), way: int = 0, backwards: bool = False
) -> tuple[Tensor, ...]:
    """One direction of a recurrent layer.

    Args:
        layer: What is run.
        x: [steps, batch, elements].
        states: What each state begins with: [directions, batch, hidden]; zeros without.
        way: Which of the directions this is.
        backwards: Whether it begins at the last step.

    Returns:
        Outputs [steps, 1, batch, hidden], and the last states [1, batch, hidden].
    """
    x = ops.transpose(x, (1, 0, 2))
    x = ops.flip(x, 1) if backwards else x
    start = [state[way] for state in states]
    outputs, *last = layer(x, initial_state=start) if start else layer(x)
    outputs = ops.flip(outputs, 1) if backwards else outputs
    outputs = ops.expand_dims(ops.transpose(outputs, (1, 0, 2)), 1)
    return (outputs, *(ops.expand_dims(state, 0) for state in last))


def side_by_side(forward: tuple[Tensor, ...], backward: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """What both directions give."""
    outputs, *last = zip(forward, backward, strict=True)
    return (ops.concatenate(outputs, 1), *(ops.concatenate(states, 0) for states in last))
