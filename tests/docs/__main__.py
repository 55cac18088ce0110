"""``python -m tests.docs PAGE... [--write]``: runs pages, and says what isn't as they say.

With ``--write``, outputs that differ are replaced by what was seen.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.docs.running import Reader, written_anew


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.docs", description=__doc__)
    parser.add_argument("pages", nargs="+", type=Path)
    parser.add_argument("--write", action="store_true", help="write the outputs that were seen")
    options = parser.parse_args()
    failed = 0
    for path in options.pages:
        text, start = path.read_text(encoding="utf-8"), time.monotonic()
        with tempfile.TemporaryDirectory() as folder, Reader(Path(folder)) as reader:
            wrong = list(reader.follow(text))
        print(f"{path}: {len(wrong)} wrong, {time.monotonic() - start:.0f} s")
        print(*wrong, sep="\n\n")
        if options.write and wrong:
            path.write_text(written_anew(text, wrong), encoding="utf-8")
        failed += bool(wrong)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
