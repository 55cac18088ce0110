"""What converter/ knows of sources: it names none, but where that is listed here."""

import re
from pathlib import Path

from converter import plugins
from converter.runtime.frameworks import frameworks

CONVERTER = Path(__file__).parents[1] / "converter"
NAMED = {
    "api.py": 1,
    "cli/convert.py": 1,
    "cli/mmdownload.py": 2,
    "files/coreml.py": 1,
    "options/request.py": 1,
    "passes/fuse/limits.py": 1,
    "passes/fuse/moments.py": 1,
    "passes/fuse/normalization.py": 1,
    "passes/libraries/child.py": 1,
    "precision/int8/weight_only.py": 1,
}
"""Lines that name a source, by file: this only ever shrinks."""


def sources() -> set[str]:
    """Names of the sources that are no target too, and the distributions that are theirs alone."""
    parsers = set(plugins.available("parsers")) - set(plugins.available("emitters"))
    targets = plugins.available("emitters")
    return parsers | {n for item in frameworks() if item.extra not in targets for n in item.own}


def test_no_source_is_named() -> None:
    names = sources()
    assert {"pytorch", "torch", "keras", "huggingface", "transformers", "sklearn"} <= names
    word = re.compile(rf"(?<![\w-])({'|'.join(map(re.escape, sorted(names)))})(?![\w-])", re.I)
    found = {}
    for path in sorted(CONVERTER.rglob("*.py")):
        lines = [line for line in path.read_text().splitlines() if word.search(line)]
        if lines:
            found[path.relative_to(CONVERTER).as_posix()] = len(lines)
    assert found == NAMED
