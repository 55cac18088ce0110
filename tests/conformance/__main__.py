"""``python -m tests.conformance``: the official ONNX node tests through our targets.

    python -m tests.conformance --target tflite                     # all its cases
    python -m tests.conformance --target tflite --only 'test_conv*' --verbose
    python -m tests.conformance --target tflite --op Conv,Gemm      # operators under test
    python -m tests.conformance --target tflite --list-refused      # and why, by reason
    python -m tests.conformance --target tflite --only test_abs --debug   # in this process, with
                                                                          # the model it gets
    python -m tests.conformance --target onnx,tensorrt-rtx,tflite --write # docs/conformance.md

A target is an emitter's name, or ``module:Class`` of one that isn't registered. The exit code is 1
where a case is wrong, rejected or crashed.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from converter.errors import ModelyardError
from tests.conformance import show
from tests.conformance.cases import Case, Store, open_store
from tests.conformance.outcome import FAILURES, Settings, counts
from tests.conformance.pool import LIMIT_SECONDS
from tests.conformance.running import chosen, run
from tests.conformance.selection import SELECTIONS, Filters
from tests.conformance.tables import Run


def main(argv: Sequence[str] | None = None) -> int:
    """Runs what the command line says."""
    parser = _parser()
    options = parser.parse_args(argv)
    if options.write and _filters(options) != Filters():
        parser.error("--write is for all cases of a target")
    store = open_store()
    runs = []
    try:
        for target in options.target:
            cases = chosen(store, target, options.select, _filters(options))
            settings = _settings(options, target)
            if options.debug:
                _debug(store, cases, settings)
                continue
            runs.append(_run(store, cases, settings, options))
    except ModelyardError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    if options.json:
        print(json.dumps([_as_dict(run) for run in runs], indent=1))
    if options.write:
        from tests.conformance.page import write

        write(store, runs)
    failed = any(outcome.state in FAILURES for run in runs for outcome in run.outcomes)
    return int(failed)


def _run(store: Store, cases: list[Case], settings: Settings, options: Any) -> Run:
    progress = show.Progress(settings.target, len(cases))
    how = {"jobs": options.jobs, "limit": options.limit, "seen": progress}
    done = run(store, settings.target, cases, settings, **how)
    progress.end()
    if not options.json:
        show.summary(done, verbose=options.verbose, refused=options.list_refused, ops=options.table)
    return done


def _debug(store: Store, cases: list[Case], settings: Settings) -> None:
    """In this process, so that a debugger can look; a crash ends it. Shows the models, too."""
    from tempfile import TemporaryDirectory

    import onnx

    from tests.conformance.attempt import Attempts, NotReadable

    with TemporaryDirectory() as folder:
        attempts = Attempts(store, settings, Path(folder))
        for case in cases:
            outcome = attempts.run(case)
            with suppress(NotReadable):
                print(onnx.printer.to_text(attempts.read(case, outcome.constants).to_proto()))
            print(show.line(outcome, verbose=True))


def _as_dict(run: Run) -> dict[str, Any]:
    return {
        "target": run.target,
        "counts": counts(run.outcomes),
        "seconds": run.seconds,
        "cases": [asdict(outcome) for outcome in run.outcomes],
    }


def _filters(options: Any) -> Filters:
    return Filters(tuple(options.only), tuple(options.op), tuple(options.uses), options.share)


def _settings(options: Any, target: str) -> Settings:
    fields = dict(item.split("=", 1) for item in options.option)
    values = {name: _value(text) for name, text in fields.items()}
    return Settings(target, options.precision, options.simplify, values, options.keep)


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _list(text: str) -> list[str]:
    return [item for item in text.split(",") if item]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.conformance",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--target", type=_list, required=True, help="emitters, by comma")
    add("--only", type=_list, default=[], help="patterns of names, by comma; parts of names do")
    add("--op", type=_list, default=[], help="operators under test, by comma")
    add("--uses", type=_list, default=[], help="operators in the model, by comma")
    add("--share", type=int, default=1, metavar="N", help="one case in N, always the same ones")
    add("--select", choices=sorted(SELECTIONS), help="which cases; default by target")
    add("--verbose", "-v", action="store_true", help="a line for every case, and tracebacks")
    add("--table", action="store_true", help="the table by operator")
    add("--list-refused", action="store_true", help="refusals, by reason")
    add("--json", action="store_true", help="everything as JSON on standard output")
    add("--write", action="store_true", help="write docs/conformance.md")
    add("--simplify", action="store_true", help="run the simplifying passes too")
    add("--precision", default="fp32", help="what the emitter is told")
    add("--option", action="append", default=[], metavar="NAME=JSON", help="of the request")
    add("--keep", metavar="FOLDER", help="leave the artifacts there")
    add("--jobs", type=int, default=2, help="child processes")
    add("--limit", type=float, default=LIMIT_SECONDS, help="seconds for one case")
    add(
        "--debug", action="store_true", help="in this process; shows the model that the target gets"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
