"""The names that options take, for help, completion and refusals: quick, without what they name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path

from converter.errors import UsageError
from converter.options.option import Option
from converter.options.precisions import PRECISIONS
from converter.options.request import Request, option_of
from converter.passes.order import pass_names
from converter.plugins import available

METRICS = ("top1", "top5", "mse", "f1", "map", "miou", "wer", "cer", "spearman")
"""The task metrics of ours."""

PROVIDERS = ("cpu", "cuda", "tensorrt")
"""Where ONNX Runtime runs."""

WEIGHT_METHODS = ("equalize", "rounding", "bias", "none")
"""What can be done to weights in fewer bits."""

VALUES: Mapping[str, Callable[[], Sequence[str]]] = {
    "emitters": lambda: tuple(available("emitters")),
    "servers": lambda: tuple(available("servers")),
    "deployments": lambda: tuple(available("deployments")),
    "precisions": lambda: tuple(PRECISIONS),
    "metrics": lambda: METRICS,
    "passes": pass_names,
    "providers": lambda: PROVIDERS,
    "weight methods": lambda: WEIGHT_METHODS,
}
"""The kinds of names (``Option.values``), and those that there are."""


def values_of(option: Option) -> tuple[str, ...]:
    """The values that an option takes, where they can be told; plug-ins' names among them."""
    return option.choices or (tuple(VALUES[option.values]()) if option.values else ())


def require_known(request: Request) -> None:
    """Refuses metrics, providers and weight methods that there aren't, before any work is done.

    Raises:
        UsageError: The first that isn't known, with those that are.
    """
    for name in ("metric", "providers", "weight_methods"):
        option = option_of(name)
        for value in request.value(name):
            if name == "metric" and ":" in value:
                _require_file(value)
            elif value not in values_of(option):
                known = [*values_of(option), *(["FILE.py:FUNCTION"] if name == "metric" else [])]
                nearest = get_close_matches(value, known, 1)
                raise UsageError(
                    f"{option.flags[0]} {value}: there is no such {_SINGULAR[option.values]}",
                    code="unknown-name",
                    hint=(f"Did you mean {nearest[0]}? " if nearest else "")
                    + f"There are: {', '.join(known)}.",
                )


_SINGULAR = {"metrics": "metric", "providers": "provider", "weight methods": "method"}


def _require_file(metric: str) -> None:
    file = metric.rpartition(":")[0]
    if not Path(file).expanduser().is_file():
        raise UsageError(f"--metric {metric}: there is no file {file}", code="file-not-found")
