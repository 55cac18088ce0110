"""``mmdownload``: MMdnn's command that fetched pretrained models, on our zoo."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

_DESCRIPTION = """\
Fetch a pretrained model, with MMdnn's flags; the models are those of modelyard zoo list.

  mmdownload -f keras            lists them
  mmdownload -f keras -n fer -o models
"""


def main() -> None:
    from converter.cli.around import around
    from converter.cli.errors import reporting

    with reporting(), around():
        arguments = _parser().parse_args()
        _refuse(arguments)
        if arguments.network is None:
            _list(arguments.framework)
        else:
            _fetch(arguments.framework, arguments.network, Path(arguments.path))


def _list(framework: str) -> None:
    from converter.cli.zoo_show import show_list
    from converter.commands.mmdnn_models import models_of

    show_list(models_of(framework), as_json=False)


def _fetch(framework: str, network: str, folder: Path) -> None:

    from converter.cli.printing import echo
    from converter.cli.zoo_show import show_copies
    from converter.commands.mmdnn_models import find_model
    from zoo.catalogue import fetch_model
    from zoo.copies import copy_files

    name, entry = find_model(framework, network)
    copies = copy_files(fetch_model(name), folder)
    show_copies(entry, copies)
    echo("", f"modelyard convert zoo:{shlex.quote(name)}")


def _refuse(arguments: argparse.Namespace) -> None:
    from converter.errors import UsageError

    if arguments.image or arguments.label:
        raise UsageError(
            "Modelyard doesn't run a model on one image: leave -i and -l out",
            code="mmdnn",
            hint="modelyard convert zoo:NAME runs the model on its samples, and checks the "
            "outputs.",
        )


def _parser() -> argparse.ArgumentParser:
    from converter import plugins

    parser = argparse.ArgumentParser(
        "mmdownload",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    # fmt: off
    add("-f", "--framework", metavar="NAME", required=True,
        help=f"{', '.join(plugins.available('parsers'))}")
    add("-n", "--network", metavar="NAME", help="the model; without it, all models are listed")
    add("-o", "-p", "--path", metavar="DIR", default=".", help="where to put it [.]")
    add("-i", "--image", metavar="FILE", help="refused: mmdownload doesn't run the model")
    add("-l", "--label", metavar="FILE", help="refused, as -i")
    add("--debug", action="store_true", help="show tracebacks")
    # fmt: on
    return parser


if __name__ == "__main__":
    main()
