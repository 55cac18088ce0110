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

import argparse
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from converter.errors import ModelyardError
from tests.conformance import show
from tests.conformance.cases import Case, Store, open_store
from tests.conformance.outcome import FAILURES
from tests.conformance.selection import Filters, chosen
from tests.conformance.tables import run


def main(argv: Sequence[str] | None = None) -> int:
    """Runs what the command line says."""
    parser = _parser()
    options = parser.parse_args(argv)
    filters = Filters(options.only, options.op, options.share)
    if options.write and filters != Filters([], []):
        parser.error("--write is for all cases of a target")
    store = open_store()
    runs = []
    try:
        for target in options.target:
            cases = chosen(store, target, filters)
            if options.debug:
                _debug(store, cases, target)
                continue
            runs.append(run(store, target, cases, seen=show.Progress(target, len(cases))))
            show.summary(runs[-1], verbose=options.verbose, refused=options.list_refused)
    except ModelyardError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    if options.write:
        from tests.conformance.page import write

        write(store, runs)
    return int(any(outcome.state in FAILURES for run in runs for outcome in run.outcomes))


def _debug(store: Store, cases: list[Case], target: str) -> None:
    """In this process, so that a debugger can look; a crash ends it. Shows the models, too."""
    from tempfile import TemporaryDirectory

    import onnx

    from tests.conformance.attempt import Attempts, NotReadable

    with TemporaryDirectory() as folder:
        attempts = Attempts(store, target, Path(folder))
        for case in cases:
            outcome = attempts.run(case)
            with suppress(NotReadable):
                print(onnx.printer.to_text(attempts.read(case, outcome.constants).to_proto()))
            print(show.line(outcome, verbose=True))


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
    add("--share", type=int, default=1, metavar="N", help="one case in N, always the same ones")
    add("--verbose", "-v", action="store_true", help="a line for every case, and tracebacks")
    add("--list-refused", action="store_true", help="refusals, by reason")
    add("--write", action="store_true", help="write docs/conformance.md")
    add("--debug", action="store_true", help="here; shows the model that the target gets")
    return parser


if __name__ == "__main__":
    sys.exit(main())
