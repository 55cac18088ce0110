"""The site builds with every link and anchor right, and asks nobody else for anything."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import jsonschema
import pytest
import yaml

from converter.cli import cli
from converter.cli.reference_pages import pages
from converter.options.recipe_schema import recipe_schema
from tests.docs.running import ROOT, blocks_of, commands_of
from tests.docs.style import LONGEST, wrong

MARKDOWN = sorted(
    path
    for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"))
    if path.name not in ("CHANGELOG.md", "ARCHITECTURE.md", "troubleshooting.md", "errors.md")
)
"""The pages; without those of errors, whose commands are wrong."""


@pytest.mark.slow
@pytest.mark.smoke
def test_it_builds_with_right_links_and_without_a_third_host(tmp_path: Path) -> None:
    line = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", tmp_path]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    loads = re.compile(r'<(?:script|img|iframe|link rel="?(?:stylesheet|preconnect))[^>]*//[^>]*>')
    for page in tmp_path.rglob("*.html"):
        assert not loads.search(page.read_text("utf-8")), page
    assert json.loads((tmp_path / "recipe.schema.json").read_text()) == recipe_schema()
    assert (tmp_path / "reference/commands/convert.html").is_file()
    found = (tmp_path / "search/search_index.json").read_text("utf-8")
    assert "Your first model in ten minutes" in found


def typed_in(page: Path) -> list[str]:
    """The lines of a page that call ``modelyard``, whole, comments left out."""
    text = page.read_text("utf-8")
    fences = re.findall(r"^```(\w*)[^\n]*\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    listed = [inner for kind, inner in fences if kind in ("", "sh", "console", "bash")]
    whole = "\n".join(listed).replace("\\\n", " ")
    inline = re.findall(
        r"`(modelyard [^`]+)`", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)
    )
    lines = [line.removeprefix("$ ") for line in (*whole.splitlines(), *inline)]
    return [line for line in lines if re.match(r"(\.venv/bin/)?modelyard [a-z]", line)]


def wrong_in(line: str) -> str:
    """Which command or option there isn't, of a line that calls ``modelyard``; empty for none."""
    words = [word for word in shlex.split(line, comments=True)[1:] if word not in ("...", "&")]
    command: click.Command | None = cli
    while isinstance(command, click.Group):
        name = words.pop(0)
        command = command.get_command(
            click.Context(command, help_option_names=["-h", "--help"]), name
        )
        if command is None:
            return f"there is no {name}"
    assert command is not None
    try:
        command.make_parser(click.Context(command, help_option_names=["-h", "--help"])).parse_args(
            words
        )
    except click.NoSuchOption as error:
        return error.message
    except click.UsageError:  # a text names an option without its value
        pass
    return ""


def test_commands_of_the_pages_have_options_that_there_are() -> None:
    lines = [(page.name, line) for page in MARKDOWN for line in typed_in(page)]
    assert len(lines) > 150  # of more than 200
    assert [(page, line, wrong) for page, line in lines if (wrong := wrong_in(line))] == []


def test_a_wrong_option_would_be_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```\nmodelyard convert net.onnx --two tflite\nmodelyard zoo lost x\n```\n")
    assert [wrong_in(line) for line in typed_in(page)] == [
        "No such option '--two'.",
        "there is no lost",
    ]


def test_each_command_has_its_page_with_its_options() -> None:
    made = pages()
    assert "`--precision PRECISION`" in made["reference/commands/convert.md"]
    assert "## modelyard zoo fetch" in made["reference/commands/zoo.md"]
    assert "| `precision` | The precisions, separated by commas." in made["reference/recipe.md"]


def recipes_in(page: Path) -> list[object]:
    written = re.findall(r"^```yaml[^\n]*\n(.*?)^```", page.read_text("utf-8"), re.M | re.S)
    documents = [item for text in written for item in yaml.safe_load_all(text)]
    return [item for item in documents if isinstance(item, dict) and {"source", "parts"} & {*item}]


def test_recipes_of_the_docs_keep_to_the_schema() -> None:
    found = [(page, recipe) for page in MARKDOWN for recipe in recipes_in(page)]
    shipped = [(path, yaml.safe_load(path.read_text())) for path in ROOT.glob("recipes/*.yaml")]
    assert len(found) > 20 and len(shipped) > 34
    schema = recipe_schema()
    validator = jsonschema.validators.validator_for(schema)(schema)
    for page, recipe in (*found, *shipped):
        try:
            validator.validate(recipe)
        except jsonschema.ValidationError as error:
            raise AssertionError(f"{page.name}: {recipe}: {error.message}") from error


@pytest.mark.parametrize(
    "wrong", [{"presicion": "int8"}, {"bench": "maybe"}, {"layout": "hwcn"}, {"out": ["a", "b"]}]
)
def test_the_schema_refuses(wrong: dict[str, object]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"source": "net.onnx", **wrong}, recipe_schema())


def test_tutorials_show_outputs() -> None:
    """A page whose commands showed nothing would pass whatever they did."""
    for page in (ROOT / "docs/tutorials").glob("*.md"):
        console = [block for block in blocks_of(page.read_text("utf-8")) if block.kind == "console"]
        shown = [command for block in console for command in commands_of(block) if command.expected]
        assert len(shown) >= 2 or page.name in ("index.md", "python-program.md"), page


def test_the_check_of_style_sees() -> None:
    long = "One " + "more " * LONGEST + "word."
    found = [said.split(":")[0] for said in wrong(f"It hangs on this. {long}\n\n```\n{long}\n```")]
    assert found == ["'hangs on' in", f"{LONGEST + 2} words"]
    assert not [*wrong("Modelyard checks `what hangs on it`.\n\n| hangs on |\n")]
