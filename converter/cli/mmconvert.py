"""``mmconvert``: MMdnn's command line, for those who have it in their scripts."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from converter.commands.mmdnn import Asked

_DESCRIPTION = """\
Convert a model, with MMdnn's flags. modelyard convert does the same, and has all options.

"""

_EPILOG = """\
-om net.onnx gives that file, opened again and checked against the source, and beside it
net.modelyard/ with the report, the manifest and the same model. Both are replaced where they
are there already, as with MMdnn; other files of yours are not. Without --samples the check is
on random inputs. Where it fails, net.modelyard.failed/ has the report, and there is no new
net.onnx.

Exit codes: 0 done and checked, 1 a bug, 2 flags and files, 3 the model can't be converted,
4 the check failed, 5 something isn't installed, 6 the machine gave out.
"""


def main() -> None:
    from converter.cli.around import around
    from converter.cli.errors import reporting

    with reporting(), around():
        arguments = _parser().parse_args()
        run(_asked(arguments), arguments.json)


def run(asked: Asked, as_json: bool) -> None:
    """Converts, puts the file in place and says what was done."""
    from converter import api
    from converter.cli.printing import echo
    from converter.cli.show import show_result
    from converter.commands import mmdnn
    from converter.commands.progress import Progress
    from converter.files import output_guard

    fields = mmdnn.fields_of(asked)
    source = fields.pop("source")
    mmdnn.require_format(source, asked.source, fields)
    ours = output_guard.digests(mmdnn.report_folder(asked.out))
    with Progress() as progress:
        result = api.convert(source, listener=progress, **fields)
    placed = mmdnn.place(result, asked.out, ours)
    show_result(result, as_json)
    if not as_json:
        echo(f"model:  {', '.join(map(str, placed))}")


def _asked(arguments: argparse.Namespace) -> Asked:
    from converter.commands.mmdnn import Asked

    options = {"samples": arguments.samples, "trust_source": arguments.trust_source or None}
    return Asked(
        arguments.source,
        arguments.target,
        arguments.network,
        arguments.weights,
        arguments.out,
        arguments.shapes or (),
        arguments.inputs or (),
        arguments.outputs or (),
        arguments.dump_tag,
        {name: value for name, value in options.items() if value is not None},
    )


def _parser() -> argparse.ArgumentParser:
    from converter import plugins
    from converter.commands.mmdnn import sources
    from converter.files.signatures import all_marks, one_of

    examples = [f"  mmconvert {item.example}\n" for item in sources().values() if item.example]
    marks = all_marks()
    suffixes = ", ".join(suffix for item in marks for suffix in item.suffixes)
    folders = one_of([item.folder for item in marks if item.folder])
    parser = argparse.ArgumentParser(
        "mmconvert",
        description=_DESCRIPTION + "".join(examples),
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    # fmt: off
    add("-sf", "--srcFramework", dest="source", metavar="NAME",
        help=f"{', '.join(plugins.available('parsers'))}; default: by the file")
    add("-in", "--inputNetwork", "--network", "-n", dest="network", metavar="FILE",
        help="the network without its weights (a checkpoint's .meta, or FILE.py:CLASS), or the "
        "whole model")
    add("-iw", "--inputWeight", "--weights", "-w", dest="weights", metavar="FILE",
        help=f"the weights (.pth), or the whole model: {suffixes}, or a folder: {folders}")
    add("-df", "--dstFramework", dest="target", metavar="NAME", required=True,
        help=f"what to make: {', '.join(plugins.available('emitters'))}")
    add("-om", "--outputModel", dest="out", metavar="FILE", required=True,
        help="the file to write")
    add("--inputShape", dest="shapes", metavar="SIZES", nargs="+",
        help="the sizes of each input without the batch, separated by commas: 3,224,224")
    add("-inode", "--inNodeName", dest="inputs", metavar="NAME", nargs="+",
        help="the names of the inputs of --inputShape")
    add("-node", "--dstNodeName", dest="outputs", metavar="NAME", nargs="+",
        help="names of the outputs")
    add("--dump_tag", dest="dump_tag", choices=("SERVING", "TRAINING"),
        help="refused: the written files have no such tags")
    add("--samples", metavar="PATH",
        help="inputs to check on, as modelyard convert takes them")
    add("--trust-source", action="store_true",
        help="allow the model file to run its own code (pickles and others)")
    add("--json", action="store_true", help="print the report as JSON")
    add("--debug", action="store_true", help="show tracebacks")
    # fmt: on
    return parser


if __name__ == "__main__":
    main()
