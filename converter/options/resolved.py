"""What options mean together."""

from __future__ import annotations

from collections.abc import Iterator

from converter import plugins
from converter.errors import UsageError
from converter.options.precisions import PRECISIONS
from converter.options.request import Request
from converter.text import words


def has_own_samples(request: Request) -> bool:
    """Whether there are samples that weights can be fitted to: not made up ones."""
    asked = request.calibration_samples or request.samples
    return asked is not None and not asked.startswith("random:")


def io_dtype_of(request: Request, precision: str) -> str:
    """The type of an artifact's inputs and outputs that are float32 in the source."""
    asked = request.io_dtype
    return asked if asked in PRECISIONS[precision].border else "float32"


def has_grouped_tables(request: Request) -> bool:
    """Whether palettized weights may have a table for each group of channels in every target."""
    targets = (plugins.load("emitters", name) for name in request.to)
    return all(target.has_grouped_tables(request) for target in targets)


def passes_left_out(request: Request) -> Iterator[str]:
    """Simplifying passes that would take away what a target keeps, as it is asked to."""
    for _, spec in plugins.specs("emitters"):
        for option, passes in spec.passes_left_out.items():
            if request.value(option):
                yield from passes


def keeps_layers(request: Request) -> bool:
    """Whether a source is to be read as it trains: nothing folded, nothing left out."""
    return any(passes_left_out(request))


def tells_of_images(request: Request) -> bool:
    """Whether an option says how images become the model's input."""
    plain = Request(request.source)
    names = (name for name in vars(plain) if name.startswith("image_"))
    return any(request.value(name) != plain.value(name) for name in names)


def memory_limit(request: Request) -> int | None:
    """The bytes of ``--max-memory``; None without.

    Raises:
        UsageError: It is no size.
    """
    if request.max_memory is None:
        return None
    try:
        return words.bytes_of(request.max_memory)
    except ValueError as error:
        raise UsageError(f"--max-memory {error}", code="option-value") from error


def served_name(request: Request, name: str, precision: str) -> str:
    """The name that a served model gets: one for each precision, or for all.

    Args:
        request: Its precisions, and whether all have one name.
        name: The model's.
        precision: The artifact's.
    """
    several = len(request.precision) > 1 and not request.one_name
    return f"{name}_{precision}" if several else name
