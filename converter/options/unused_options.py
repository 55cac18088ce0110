"""Options that were given and change nothing, each with why.

An option says what it needs (``Option.needs``: another that is on, or a key of :data:`CONDITIONS`);
a source format, a target or a server says which options only it and its like take (``options``).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from converter import plugins
from converter.options.precisions import PRECISIONS, stores_weights
from converter.options.request import Request, all_fields, option_of

Condition = tuple[Callable[[Request], object], str]


def _lowers(request: Request) -> bool:
    return any(precision != "fp32" for precision in request.precision)


def _has_samples(request: Request) -> bool:
    return request.samples is not None and not request.samples.startswith("random:")


def _searches(request: Request) -> bool:
    budget = request.min_cosine is not None or request.max_drop is not None
    return (budget and _lowers(request)) or any(stores_weights(name) for name in request.precision)


CONDITIONS: Mapping[str, Condition] = {
    "check or quantize": (lambda r: r.check or _lowers(r), "--no-check"),
    "samples": (_has_samples, "no --samples"),
    "precisions": (lambda r: len(r.precision) > 1, "only one precision is asked for"),
    "quantize": (_lowers, "only fp32 is asked for"),
    "integers": (
        lambda r: any(PRECISIONS[name].is_calibrated for name in r.precision),
        f"for {' and '.join(p.name for p in PRECISIONS.values() if p.is_calibrated)}",
    ),
    "measured": (
        lambda r: any(PRECISIONS[name].is_measured for name in r.precision),
        f"for {', '.join(p.name for p in PRECISIONS.values() if p.is_measured)}",
    ),
    "weights": (
        lambda r: any(PRECISIONS[name].activations or stores_weights(name) for name in r.precision),
        "no precision with integer weights is asked for",
    ),
    "palettes": (
        lambda r: any("palettized" in name for name in r.precision),
        "for palettized",
    ),
    "search": (_searches, "no --min-cosine or --max-drop below fp32"),
    "in_graph": (lambda r: r.prepare == "graph", "no --prepare graph"),
    "prepares": (lambda r: r.prepare != "server" or r.serve, "no --serve"),
    "images": (lambda r: True, "the samples aren't images"),
}
"""What options need besides others, and what to say where it isn't so. Whether samples are images
is known later: :func:`without_effect` is told."""


def without_effect(
    request: Request, given: Collection[str], *, images: bool, source: str = ""
) -> list[str]:
    """A text for each option that changes nothing: ``--queue-delay (for SERVER)``.

    Args:
        request: What is asked for.
        given: The fields that the user gave.
        images: Whether the samples, or those for calibration, are images.
        source: The source's format; where it isn't known, what sources take is taken to have one.
    """
    plain = Request("")
    names = [
        item.name
        for item in all_fields()
        if item.name in given
        and "option" in item.metadata
        and request.value(item.name) != plain.value(item.name)
    ]
    claims = _Claims(request, source) if names else None
    found = ((name, _why(name, request, claims, images)) for name in names if claims is not None)
    return [f"{_flag(name, plain)} ({why})" for name, why in found if why]


def _flag(name: str, plain: Request) -> str:
    """What was given: of a switch that is on by itself, the flag that turns it off."""
    on, _, off = option_of(name).flags[0].partition("/")
    return off if off and plain.value(name) else on


def _why(name: str, request: Request, claims: _Claims, images: bool) -> str:
    option = option_of(name)
    if option.needs:
        holds, why = CONDITIONS.get(option.needs) or _on(option.needs)
        if not (images if option.needs == "images" else holds(request)):
            # a target may read it for more than what it needs that for
            return "" if claims.takers(name) & set(request.to) else why
    if option.needs == "images" or claims.asked(name) or claims.asked(option.group):
        return ""
    takers = claims.takers(name) | claims.takers(option.group)
    return f"for {', '.join(sorted(takers))}" if takers else ""


def _on(name: str) -> Condition:
    """That another option isn't turned off."""
    return lambda request: request.value(name), option_of(name).flags[0].partition("/")[2]


class _Claims:
    """Which sources, targets and servers take which options and headings."""

    def __init__(self, request: Request, source: str) -> None:
        self._asked: set[str] = set()
        self._takers: dict[str, set[str]] = {}
        claims = _claimed("emitters", "servers", "deployments")
        self._note(claims, {*request.to, *request.serve, *request.deploy})
        self._note(_claimed("parsers") if source else (), {source})

    def _note(self, claims: Iterable[tuple[str, Collection[str]]], used: Collection[str]) -> None:
        for taker, names in claims:
            for name in names:
                self._takers.setdefault(name, set()).add(taker)
            if taker in used:
                self._asked.update(names)

    def takers(self, name: str) -> set[str]:
        return self._takers.get(name, set())

    def asked(self, name: str) -> bool:
        return name in self._asked


def _claimed(*kinds: str) -> Iterator[tuple[str, Collection[str]]]:
    for name, item in plugins.specs(*kinds):
        yield name, getattr(item, "options", ())
