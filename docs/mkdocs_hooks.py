"""What the site has besides docs/: pages of files above it, and pages made of the code.

Links in Markdown are those of the repository. They are turned into the site's here, or into links
to the repository where the site has no such page.
"""

from __future__ import annotations

import json
import posixpath
import re
from pathlib import Path
from typing import Any

import griffe
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from converter.cli.reference_pages import pages
from converter.options.recipe_schema import recipe_schema

ROOT = Path(__file__).resolve().parents[1]
ABOVE = {"README.md": "index.md"} | {
    name: name for name in ("ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
}
"""Files of the repository's root that are pages, and as what."""

_ROLE = re.compile(r":\w+:`~?(?:[\w.]+\.)?([\w]+)`")
_SEVERAL = re.compile(r"^( +)(\*{0,2}\w+(?:, \*{0,2}\w+)+): ", re.MULTILINE)
_LINK = re.compile(r"(?<!!)\]\((?!\w+:|#)([^)#\s]*)(#[^)\s]*)?\)")


def on_files(files: Files, config: MkDocsConfig, **_: Any) -> Files:
    """Adds the pages that aren't in docs/."""
    for name, page in ABOVE.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=_moved(text, name, page, config)))
    made = pages()
    for page, text in made.items():
        files.append(File.generated(config, page, content=text))
    schema = json.dumps(recipe_schema(), indent=2)
    files.append(File.generated(config, "recipe.schema.json", content=schema))
    _fill(
        config.nav, "reference/commands/index.md", [page for page in made if "/commands/" in page]
    )
    return files


def _fill(nav: Any, first: str, pages: list[str]) -> None:
    """Puts pages in place of the list that holds the first of them."""
    for item in nav if isinstance(nav, list) else nav.values() if isinstance(nav, dict) else ():
        if item == [first]:
            item[:] = pages
        elif not isinstance(item, str):
            _fill(item, first, pages)


def on_page_markdown(markdown: str, page: Any, config: MkDocsConfig, **_: Any) -> str:
    """Turns links out of docs/."""
    name = page.file.src_uri
    return markdown if page.file.generated_by else _moved(markdown, f"docs/{name}", name, config)


def _moved(text: str, name: str, page: str, config: MkDocsConfig) -> str:
    """A file's text with its links as the page has them."""

    def link(found: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(name), found[1]))
        inside = ABOVE.get(target, target.removeprefix("docs/") if "docs/" in target[:5] else "")
        if inside:
            place = posixpath.relpath(inside, posixpath.dirname(page) or ".")
        else:
            place = f"{config.repo_url}/blob/main/{target}"
        return f"]({place}{found[2] or ''})"

    return _LINK.sub(link, text)


class PlainDocstrings(griffe.Extension):  # type: ignore[misc]
    """Docstrings as Markdown: Sphinx's roles as code, and a line for each of several arguments."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Changes an object's docstring."""
        if obj.docstring:
            text = _ROLE.sub(r"`\1`", obj.docstring.value).replace("``", "`")
            obj.docstring.value = _SEVERAL.sub(_apart, text)


def _apart(found: re.Match[str]) -> str:
    """``a, b: Text`` as a line for ``a`` and one for ``b``, the text with the last."""
    *first, last = found[2].split(", ")
    return (
        "".join(f"{found[1]}{name}: As `{last.strip('*')}`.\n" for name in first)
        + f"{found[1]}{last}: "
    )
