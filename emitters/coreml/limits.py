"""What Core ML itself hasn't: the reasons of refusals that no lowering could do away with.

Each begins with "Core ML has no", so that they can be counted apart.
"""

from __future__ import annotations

RANK = "Core ML has no tensors of more than 5 axes"
DOUBLE = "Core ML has no float64"
WIDE = "Core ML has no 64-bit integers, and a constant of it doesn't fit into 32 bits"
UNSIGNED = "Core ML has no unsigned integers of 32 bits or more, and this sets the highest"
EMPTY = "Core ML has no tensors without elements"
STRINGS = "Core ML has no operators on strings"
COMPLEX = "Core ML has no complex numbers"
BFLOAT = "Core ML has no bfloat16"
SEQUENCES = "Core ML has no sequences, optionals or maps inside a program"
SMALL_FLOATS = "Core ML has no floats of 8 bits or fewer that it computes with"
RANDOM = "Core ML has no generator that gives the numbers of any other runtime's"
TRAINING = "Core ML has no operators for training"

MAX_RANK = 5
