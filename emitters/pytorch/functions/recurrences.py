"""What recurrent layers give, with directions on an axis of their own."""

import torch
from torch import Tensor


def recurrent_results(
    given: tuple[Tensor, Tensor], directions: int, reverse: bool = False
) -> tuple[Tensor, Tensor]:
    """Outputs [steps, directions, batch, hidden], and the last of each direction.

    Args:
        given: Outputs [steps, batch, directions * hidden], and the last [directions, batch,
            hidden].
        directions: 1, or 2 where the layer runs both ways.
        reverse: Whether the steps were given backwards.

    Returns:
        Outputs [steps, directions, batch, hidden], and the last as they are.
    """
    outputs, last = given
    outputs = torch.flip(outputs, (0,)) if reverse else outputs
    return outputs.unflatten(2, (directions, -1)).transpose(1, 2), last


def lstm_results(
    given: tuple[Tensor, tuple[Tensor, Tensor]], directions: int, reverse: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """As recurrent_results; the last cells too.

    Args:
        given: As of recurrent_results; the last state is one of hidden values and one of cells.
        directions: 1, or 2 where the layer runs both ways.
        reverse: Whether the steps were given backwards.
    """
    outputs, (last, cells) = given
    return *recurrent_results((outputs, last), directions, reverse), cells
