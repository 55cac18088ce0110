"""``python -m tests.conformance.worker STORE TARGET``: a child that runs cases.

It speaks the JSON lines of :mod:`converter.runtime.child`. What libraries print, Python or not,
goes to standard error; a line there says which case it belongs to.
"""

import json
import os
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

MARK = "--- case "


def main() -> None:
    """Answers until its input closes."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    from converter.runtime.worker import warm_workers
    from tests.conformance.attempt import Attempts
    from tests.conformance.baseline import Baseline
    from tests.conformance.cases import Store

    store, target = Store(Path(sys.argv[1])), sys.argv[2]
    with warm_workers(), tempfile.TemporaryDirectory(prefix="modelyard-conformance-") as folder:
        runner: Attempts | Baseline | None = None
        for line in sys.stdin:
            request = json.loads(line)
            answer: dict[str, Any] = {"id": request["id"]}
            try:
                if runner is None:
                    itself = target == Baseline.target
                    runner = Baseline(store) if itself else Attempts(store, target, Path(folder))
                name = request["params"].get("case")  # none where it is only to get ready
                if name is not None:
                    print(MARK + name, file=sys.stderr, flush=True)
                    answer["result"] = asdict(runner.run(store.cases[name]))
            except Exception as error:  # what is raised here ends the whole run, in our process
                answer["error"] = {"kind": type(error).__name__, "message": str(error)}
            answers.write(json.dumps(answer) + "\n")
            answers.flush()


if __name__ == "__main__":
    main()
