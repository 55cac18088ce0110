"""Names from files are text: on the terminal, in pages and in generated files."""

import ast
import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import converter
import emitters
import parsers
import zoo
from converter.text.words import one_line, printable
from tests.acceptance.cli import COMMAND, Said, command, modelyard, on_a_terminal

EVIL = "é\x1b[31m\x07\r\n\t\x7f\x9b2J\u202e\u2066\u2028日本"
SHOWN = r"é\x1b[31m\x07\r\n\t\x7f\x9b2J\u202e\u2066\u2028日本"


def named(path: Path, evil: str = EVIL, last: str = "Relu", domain: str = "") -> Path:
    """A model whose every name ends with ``evil``; ``last`` makes its output."""
    values = np.random.default_rng(0).standard_normal((8, 4)).astype(np.float32)
    x, y, w, h = (f"{name}{evil}" for name in "xywh")
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        [
            helper.make_node("Gemm", [x, w], [h], f"fc{evil}", f"doc{evil}"),
            helper.make_node(last, [h], [y], f"act{evil}", domain=domain),
        ],
        f"graph{evil}",
        [info(x, TensorProto.FLOAT, [f"batch{evil}", 8])],
        [info(y, TensorProto.FLOAT, [f"batch{evil}", 4])],
        [numpy_helper.from_array(values, w)],
        f"doc{evil}",
    )
    opsets = [helper.make_opsetid(name, 17 if not name else 1) for name in {"", domain}]
    model = helper.make_model(
        graph, opset_imports=opsets, ir_version=8, producer_name=evil, doc_string=evil
    )
    helper.set_model_props(model, {f"key{evil}": f"value{evil}"})
    onnx.save(model, path)
    return path


def raw(text: str) -> set[str]:
    """The characters in it that no terminal and no page may get."""
    kinds = ("Cc", "Cf", "Cs", "Zl", "Zp")
    return {char for char in text if char != "\n" and unicodedata.category(char) in kinds}


def clean(said: Said, code: int = 0, shows: str = SHOWN) -> Said:
    """What was said, which is text alone, and shows the names."""
    assert said.code == code, said.err
    assert not raw(said.out + said.err) and shows in said.out + said.err
    return said.no_traceback()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model, and what ``convert`` made of it."""
    folder = tmp_path_factory.mktemp("names")
    named(folder / "m.onnx")
    labels = "".join(f"{number}\x1b[31m\u202e\n" for number in range(4))
    (folder / "labels.txt").write_text(labels)
    np.savez(folder / "s.npz", **{f"x{EVIL}": np.ones((3, 8), np.float32)})
    clean(
        modelyard(
            "convert", "m.onnx", "--to", "onnx,tflite,coreml", "--serve", "triton",
            "--samples", "s.npz", "--label-names", "labels.txt", "--out", "out",
            "--min-cosine", "0.5", "--debug", cwd=folder,
        ),
        shows="out/report.html",
    )  # fmt: skip
    return folder


def test_printable_shows_what_commands_a_terminal_and_keeps_all_else() -> None:
    assert printable(EVIL) == SHOWN and printable(SHOWN) == SHOWN
    kept = "Übung 日本\u3000語 \U0001f600 \xa0 עברית \\n"
    assert printable(kept) == kept
    assert printable("\0\u202a\u2069\ud800") == r"\x00\u202a\u2069\ud800"


def test_what_libraries_say_is_one_line() -> None:
    said = (
        "\x1b[1;31mno\x1b[0m:\r\n\n  kernel\t3\x1b]8;;http://a\x07link\x1b]8;;\x1b\\ \x07é\u2028x"
    )
    assert one_line(said) == "no: kernel 3link é x"
    assert one_line(ValueError("two  words")) == "two  words"


def test_errors_of_libraries_and_of_the_user_s_code_are_one_line(tmp_path: Path) -> None:
    named(tmp_path / "m.onnx")
    text = "\x1b[31mno such row:\n  3\n  4\x1b[0m"
    (tmp_path / "s.py").write_text(f"text = {text!r}\ndef samples():\n    raise ValueError(text)\n")
    (tmp_path / "r.yaml").write_text("source: m.onnx\nto: [onnx\n")
    for line in (("convert", "m.onnx", "--samples", "s.py:samples"), ("run", "r.yaml")):
        said = modelyard(*line, cwd=tmp_path, code=2)
        assert not re.search(r"\\n|\\x1b", said.err) and "\x1b" not in said.err, said.err
        assert "no such row: 3 4" in said.err or "isn't YAML: while parsing" in said.err


def test_files_of_ours_hold_text(folder: Path) -> None:
    texts = {
        path.relative_to(folder / "out").as_posix(): path.read_text(encoding="utf-8")
        for kind in ("*.html", "*.md", "*.py", "*.kt", "*.swift", "*.pbtxt")
        for path in (folder / "out").rglob(kind)
    }
    assert {Path(name).name for name in texts} == {
        "report.html", "README.md", "client.py", "usage.py", "usage.kt", "usage.swift",
        "config.pbtxt", "client_requests.py", "client_grpc.py", "selftest.py",
    }  # fmt: skip
    assert {name: raw(text) for name, text in texts.items() if raw(text)} == {}
    nameless = ("selftest.py", "README.md")  # the latter at the top, where no tensor is named
    for name, text in texts.items():
        if name.endswith("/selftest.py") or name in nameless:
            continue
        assert name.endswith((".kt", ".swift", ".pbtxt")) or SHOWN in text, name
        if name.endswith(".py"):
            held = {n.value for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Constant)}
            assert f"x{EVIL}" in held


def test_commands_show_names_as_text_and_json_holds_themselves(folder: Path) -> None:
    clean(command("inspect", "m.onnx", cwd=folder))
    made = "out/onnx/fp32/model.onnx"
    clean(command("inspect", made, cwd=folder))
    clean(command("inspect", "out/tflite/fp32/model.tflite", cwd=folder))
    clean(command("check", made, "--against", "m.onnx", cwd=folder))
    clean(command("bench", made, "--against", "m.onnx", cwd=folder), shows="p50")
    clean(command("sensitivity", "m.onnx", "--precision", "int8", "--samples", "s.npz",
                  "--few-samples", cwd=folder))  # fmt: skip
    named(folder / "other.onnx", last="Cos")
    clean(command("diff", "m.onnx", "other.onnx", "--out", "parted.html", cwd=folder))
    page = (folder / "parted.html").read_text()
    assert SHOWN in page and not raw(page)
    clean(command("check", made, "--against", "other.onnx", cwd=folder), 4)
    said = command("inspect", "m.onnx", "--json", cwd=folder)
    assert said.json["inputs"][0]["name"] == f"x{EVIL}" and not raw(said.out)


def test_a_terminal_gets_our_own_styles_alone(folder: Path) -> None:
    shown = on_a_terminal([COMMAND, "inspect", "m.onnx"], folder, TERM="xterm", COLUMNS="200")
    assert f"x{SHOWN}" in shown and "\x1b[1m" in shown
    assert "\x1b[31m" not in shown and not raw(shown) & set(EVIL) - set("\x1b\r")


def test_refusals_show_names_as_text_and_those_with_a_nul_are_refused(tmp_path: Path) -> None:
    for number, (last, domain) in enumerate([(f"No{EVIL}", ""), ("Relu", f"co{EVIL}")]):
        path = named(tmp_path / f"{number}.onnx", last=last, domain=domain)
        clean(command("convert", path, "--to", "tflite", "--out", tmp_path / "out"), 3)
    path = named(tmp_path / "m.onnx", "a\0b")
    said = clean(command("convert", path, "--out", tmp_path / "out"), 3, r"xa\x00b")
    assert "m.onnx holds 2 things" in said.err and "NUL" in said.err


def test_what_libraries_log_of_names_is_text_too(tmp_path: Path) -> None:
    """ONNX's IR warns of a name that nothing computes."""
    model = onnx.load(named(tmp_path / "m.onnx"))
    model.graph.node[0].input[0] = f"gone{EVIL}"
    onnx.save(model, tmp_path / "m.onnx")
    assert "cannot be found" not in clean(modelyard("inspect", tmp_path / "m.onnx"), 3).err
    debugged = modelyard("inspect", tmp_path / "m.onnx", "--debug").err
    assert f"Input 'gone{SHOWN}'" in debugged and not raw(debugged)


PRINTS = {
    "converter/cli/printing.py": "the function itself",
    "converter/cli/errors.py": "a styled title before lines that were made printable",
    "converter/cli/options.py": "help", "converter/cli/completion.py": "a script of ours",
    "converter/cli/reference.py": "a page of ours", "converter/cli/keywords.py": "a module of ours",
    "converter/serving/generator.py": "JSON for its parent",
    "emitters/mindspore/child/usage.py": "JSON, which is ASCII, for its parent",
    "emitters/packaging/script/on_mindspore.py": "JSON for its child",
    "emitters/serving/web/page/serve.py": "its address, which the user gave",
    "zoo/page.py": "rows of a page of ours", "zoo/recipe_page.py": "a page of ours",
    "converter/text/screen.py": "the classes themselves",
}  # fmt: skip
"""Modules that may go around what makes names printable, and what they print."""


def test_nothing_goes_around_what_makes_names_printable() -> None:
    found = {}
    for package in (converter, emitters, parsers, zoo):
        root = Path(package.__path__[0])
        for path in sorted(root.rglob("*.py")):
            name = path.relative_to(root.parent).as_posix()
            if lines := list(around(ast.parse(path.read_text(encoding="utf-8")))):
                found[name] = lines
    assert {name: lines for name, lines in found.items() if name not in PRINTS} == {}
    assert set(PRINTS) == set(found)


def around(tree: ast.AST) -> Iterator[str]:
    """Prints whose text isn't made printable, and imports of rich's own classes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            own = {alias.name for alias in node.names} & {"Text", "Console", "text", "console"}
            if str(node.module).partition(".")[0] == "rich" and own:
                yield ast.unparse(node)
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in _PRINTING:
            texts = [ast.unparse(arg) for arg in node.args if not isinstance(arg, ast.Constant)]
            if not all(re.search(r"^(printable|shown)\(|map\(shown, ", text) for text in texts):
                yield ast.unparse(node)


_PRINTING = {"print", "click.echo", "click.secho", "sys.stdout.write", "sys.stderr.write"}
