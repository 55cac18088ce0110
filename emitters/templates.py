"""Files of text from Jinja2 templates, which lie beside the modules that fill them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jinja2


def render(
    package: str,
    template: str,
    values: Mapping[str, Any],
    *,
    trim: bool = True,
    **filters: Callable[[Any], Any],
) -> str:
    """The text; a value that is missing is an error.

    Args:
        package: Whose folder the template lies in.
        template: Its file's name.
        values: What it is filled with, as it is: nothing is escaped.
        trim: Whether lines that hold a statement alone are left out.
        filters: By name; ``finalize`` is applied to every value.
    """
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader(package, "."),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=trim,
        lstrip_blocks=trim,
        finalize=filters.pop("finalize", None),
    )
    environment.filters.update(filters)
    return environment.get_template(template).render(values)
