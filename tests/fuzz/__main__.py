"""``python -m tests.fuzz``: random graphs through the passes and the emitters.

    python -m tests.fuzz --seeds 0:500 --target passes,tflite,coreml
    python -m tests.fuzz --seeds 148 --target tflite --shrink       # the smallest graph, as text

A graph is as its seed says, always. It is run in ONNX Runtime without optimization; what a check
gives has to be the same, to what rounding can do to that graph (tests/fuzz/values.py). The exit
code is 1 where something was found.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Sequence

import onnx

from tests.fuzz.emitting import refusals
from tests.fuzz.running import CHECKS, Tally, run


def main(argv: Sequence[str] | None = None) -> int:
    """Runs what the command line says."""
    options = _parser().parse_args(argv)
    kinds: Counter[str] = Counter()
    tally = Tally()
    for case, finding in run(options.seeds, options.target, tally, smaller=options.shrink):
        kinds[finding.kind] += 1
        print(f"{case.name} ({case.nodes} nodes): {finding.kind}: {finding.detail}", flush=True)
        if options.verbose and finding.trace:
            print(finding.trace)
        if options.shrink:
            print(onnx.printer.to_text(case.proto.graph), flush=True)
    print(f"{tally.run} run, {len(tally.useless)} of no use, {sum(kinds.values())} findings")
    for kind, count in (*kinds.most_common(), *(refusals.most_common() * options.list_refused)):
        print(f"{count:6} {kind}")
    if options.verbose:
        print(*tally.useless, sep="\n")
    return int(bool(kinds))


def _seeds(text: str) -> range:
    first, _, last = text.partition(":")
    return range(int(first), int(last or int(first) + 1))


def _targets(text: str) -> list[str]:
    names = [name for name in text.split(",") if name]
    unknown = [name for name in names if name not in CHECKS]
    if unknown:
        raise argparse.ArgumentTypeError(f"there are {', '.join(CHECKS)}, no {unknown[0]}")
    return names


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--seeds", type=_seeds, required=True, metavar="A:B", help="from A up to B, without it")
    add("--target", type=_targets, default=list(CHECKS), help="by comma; all by default")
    add("--shrink", action="store_true", help="make what is found smaller, and show it")
    add("--list-refused", action="store_true", help="refusals, by reason")
    add("--verbose", "-v", action="store_true", help="tracebacks")
    return parser


if __name__ == "__main__":
    sys.exit(main())
