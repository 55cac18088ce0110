"""docs/records/scoreboard.md: the ONNX backend scoreboard's own tests on Modelyard."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bench.measure import where
from bench.records.pages import PACKAGES, block, table

_HEAD = """\
# The ONNX backend scoreboard

[The scoreboard](https://onnx.ai/backend-scoreboard/) runs onnx's backend tests on backends. To
submit Modelyard, copy these files of `bench/records/scoreboard` into a fork of
[its repository](https://github.com/onnx/backend-scoreboard):

| file | to |
|---|---|
| `backend.py` | `backends/modelyard/backend.py` |
| `Dockerfile` | `runtimes/modelyard/stable/Dockerfile` |
| `config.json`: its entry | `setup/config.json`, under `stable` |

Then add a job to `.github/workflows/benchmark-backends.yml` as its ADD-BACKEND.md says. Modelyard
has to be on PyPI first. Modelyard hasn't been submitted, and the image hasn't been built.

The numbers below come from the scoreboard's own tests, run here without the image:

```
git clone https://github.com/onnx/backend-scoreboard build/scoreboard
pip install tabulate
mkdir -p build/records/scoreboard
RESULTS_DIR=build/records/scoreboard python -m pytest -c build/scoreboard/pyproject.toml \\
  build/scoreboard/test/test_backend.py -k 'not _cuda' \\
  --onnx_backend=bench.records.scoreboard.backend
python -m bench.records scoreboard build/records/scoreboard
```

A model that Modelyard refuses counts as failed. Nothing is made constant, other than in
[conformance.md](../conformance.md).
"""


def page(report: Mapping[str, Any], ops: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The page's lines."""
    yield from _HEAD.splitlines()
    yield from ("", where(*PACKAGES), f"Run: {report['date']}.", "")
    groups = sorted({name.partition("::")[0] for s in _STATES for name in report.get(s, ())})
    rows = [
        (group, *(sum(n.startswith(f"{group}::") for n in report.get(s, ())) for s in _STATES))
        for group in groups
    ]
    total = ("all", *(len(report.get(state, ())) for state in _STATES))
    yield from table(("tests", *_STATES), [*rows, total])
    yield from ("", "## Operators with failures", "")
    bad = [op for op in ops if op["failed_tests"]]
    yield from table(
        ("operator", "domain", "passed", "failed"),
        [(o["op_type"], o["domain"], o["passed_tests"], o["failed_tests"]) for o in bad],
    )
    failed = [name.partition("::")[2] for name in report["failed"]]
    yield from ("", "## Failed tests", "", *block(failed))


_STATES = ("passed", "failed", "skipped")
