"""Text from files in pages of ours: escaped as HTML, and its control characters shown."""

from __future__ import annotations

from typing import Any

import markupsafe
from jinja2 import Environment, PackageLoader, StrictUndefined

from converter.text.words import printable


class Markup(markupsafe.Markup):
    """Markup that escapes what :meth:`format` puts into it."""

    @classmethod
    def escape(cls, s: Any, /) -> Markup:
        """What isn't markup as such."""
        return super().escape(shown(s))


def shown(value: Any) -> Any:
    """A value for a page: a string as :func:`printable` has it, unless it is markup."""
    plain = isinstance(value, str) and not isinstance(value, markupsafe.Markup)
    return printable(value) if plain else value


def environment(**options: Any) -> Environment:
    """Jinja2 for pages, every value put into which goes through :func:`shown`."""
    return Environment(
        loader=PackageLoader("converter.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=shown,
        **options,
    )
