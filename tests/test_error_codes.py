"""Every error that we raise has the code of its kind, and every kind is on the page of errors."""

import ast
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from converter import errors
from converter.commands.explain import PAGE, kinds, page
from converter.runtime.ort import RefusedModel
from tests.acceptance.cli import command
from tests.docs.running import ROOT

PACKAGES = ("converter", "emitters", "modelyard", "parsers", "recipes", "zoo")
WORKERS = {"usage": 2, "source": 3}
"""Exit codes of a worker's errors, by their kind; the parent has codes for the other kinds."""

GENERAL = ("UsageError", "ModelError", "DependencyError", "MachineError", "RefusedModel")
"""Classes of many kinds: each call has to name its own."""


def _called() -> Iterator[tuple[str, ast.Call, str]]:
    """Where an error is made: file and line, the call, and the class's name."""
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                    yield f"{path.relative_to(ROOT)}:{node.lineno}", node, node.func.id


def _exit_of(call: ast.Call, name: str) -> int | None:
    """The exit code of an error that has to have a code; None for what has none of its own."""
    if name == "WorkerError" and call.args and isinstance(call.args[0], ast.Constant):
        return WORKERS.get(str(call.args[0].value))
    if name == "RefusedModel":
        return 3
    found = getattr(errors, name, None)
    if isinstance(found, type) and issubclass(found, errors.ModelyardError):
        return found.exit_code
    return None


def _codes(call: ast.Call) -> list[str | None]:
    """The codes that a call gives: None where they are computed."""
    given = [keyword.value for keyword in call.keywords if keyword.arg == "code"]
    return [item.value if isinstance(item, ast.Constant) else None for item in given]


def test_every_error_has_a_code_of_its_exit_code() -> None:
    wrong, used = [], {kind.code for kind in _classes()}
    for place, call, name in _called():
        code = _exit_of(call, name)
        if code is None:
            continue
        given = _codes(call)
        if not given and name in (*GENERAL, "WorkerError") and name != "RefusedModel":
            wrong.append(f"{place}: {name} without code=")
        for item in given:
            if item is not None and (item not in kinds() or code not in kinds()[item].exit):
                wrong.append(f"{place}: {item!r} is no code of exit code {code}")
        used |= {item for item in given if item}
    assert not wrong, "\n".join(wrong)
    assert used | _computed() == set(kinds())


def test_there_are_few_kinds() -> None:
    """A page that people can look through."""
    assert len(kinds()) <= 80


def _classes() -> list[type[errors.ModelyardError]]:
    found = [*vars(errors).values(), RefusedModel]
    return [
        item for item in found if isinstance(item, type) and issubclass(item, errors.ModelyardError)
    ]


def _computed() -> set[str]:
    """Codes that are chosen in a line above the call."""
    return {"file-access", "file-unreadable", "model-damaged", "model-code-failed"}


@pytest.mark.parametrize("kind", _classes())
def test_a_class_has_a_code_for_whoever_gives_none(kind: type[errors.ModelyardError]) -> None:
    """Plug-ins that know nothing of codes raise our errors too."""
    assert kind.exit_code in kinds()[kind.code].exit


def test_the_page_is_as_the_kinds_are() -> None:
    assert (ROOT / "docs" / PAGE).read_text("utf-8") == page()


def test_the_terminal_json_and_explain_have_the_code(tmp_path: Path) -> None:
    said = command("inspect", "gone.onnx", "--json", cwd=tmp_path, code=2)
    assert json.loads(said.out)["code"] == "file-not-found"
    assert said.err.startswith("error[file-not-found]: there is no gone.onnx")
    said = command("inspect", "--nothing", cwd=tmp_path, code=2)
    assert "error[command-line]: No such option" in said.err
    kind = kinds()["file-not-found"]
    assert kind.do in command("explain", "file-not-found").out
    assert json.loads(command("explain", "file-not-found", "--json").out)["causes"] == kind.causes
    assert command("explain").out.count("\n") == len(kinds())
    said = command("explain", "file-not-fond", code=2)
    assert "Did you mean file-not-found" in said.err
