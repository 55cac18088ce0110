"""What recurrent layers give, with directions on an axis of their own."""

import torch
from torch import Tensor


def recurrent_results(
    given: tuple[Tensor, Tensor], directions: int, reverse: bool = False
) -> tuple[Tensor, Tensor]:
    """Outputs [steps, directions, batch, hidden], and the last of each direction."""
    outputs, last = given
    outputs = torch.flip(outputs, (0,)) if reverse else outputs
    return outputs.unflatten(2, (directions, -1)).transpose(1, 2), last


def lstm_results(
    given: tuple[Tensor, tuple[Tensor, Tensor]], directions: int, reverse: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """As recurrent_results; the last cells too."""
    outputs, (last, cells) = given
    return *recurrent_results((outputs, last), directions, reverse), cells
