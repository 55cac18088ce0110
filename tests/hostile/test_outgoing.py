"""What is written for others holds names as text, whatever is in them: real parsers read it back.

One model has an input and an output for each of :data:`NASTY`, another the same with plain names.
Both are converted and packaged; what their files are made of has to be the same but for the names
(no element of HTML, statement of Python or token of Kotlin more), and the names are in them.
YAML and TOML aren't written by anything of ours.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import onnx
import pytest
from google.protobuf import text_format
from onnx import TensorProto, helper
from pygments.lexers import KotlinLexer, SwiftLexer
from pygments.token import Token
from tritonclient.grpc import model_config_pb2

from converter.text.words import printable
from tests.acceptance.cli import typed

pytestmark = pytest.mark.slow

NASTY = {
    "quotes": "a'b\"c\"\"\"d'''e`f",
    "backslashes": "a\\b\\\\c\\n\\",
    "placeholders": "${HOME} $x {{ y }} {% z %} %s {0} \\(w)",
    "markup": "]]></script><script>alert(1)</script><!-- & &lt; -->",
    "lines": "a\nb\r\nc\u2028d\x0ce\tf",
    "comments": "*/ // # -- /* \n}",
    "directions": "\u202egpj\u2066x\u200f",
    "yaml": "- &a *b !c : {d: [e]} | > ? %",
    "pbtxt": 'x" dims: 9 } input { name: "y',
    "unicode": "é日本\U0001f600\u0301",
}
"""What a file's format may take for its own."""

LABELS = ["a,b", '"q"\'', "</td><b>", "${x}"]


def model(path: Path, names: list[str]) -> Path:
    """A model with an input and an output for each name."""
    info, float32 = helper.make_tensor_value_info, TensorProto.FLOAT
    graph = helper.make_graph(
        [helper.make_node("Softmax", [f"in {n}"], [f"out {n}"], f"node {n}") for n in names],
        names[0],
        [info(f"in {n}", float32, [f"batch {names[0]}", 4]) for n in names],
        [info(f"out {n}", float32, [f"batch {names[0]}", 4]) for n in names],
        doc_string=names[0],
    )
    opsets = [helper.make_opsetid("", 17)]
    made = helper.make_model(graph, opset_imports=opsets, ir_version=8, doc_string=names[0])
    onnx.save(made, path)
    return path


def converted(folder: Path, names: list[str], labels: list[str]) -> Path:
    """What becomes of a model with these names."""
    model(folder / "m.onnx", names)
    values = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    np.savez(folder / "s.npz", **{f"in {name}": values for name in names})
    (folder / "labels.txt").write_text("\n".join(labels))
    asked = "--to onnx,tflite,coreml --serve triton --no-bench --label-names labels.txt"
    typed(f"convert m.onnx {asked} --samples s.npz --out out", folder)
    return folder / "out"


@pytest.fixture(scope="module")
def outs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """What was written of the nasty names, and of plain ones."""
    nasty = converted(tmp_path_factory.mktemp("nasty"), list(NASTY.values()), LABELS)
    plain = [f"plain-{number}" for number in range(len(NASTY))]
    return nasty, converted(tmp_path_factory.mktemp("plain"), plain, ["a", "b", "c", "d"])


def both(outs: tuple[Path, Path], name: str) -> tuple[str, str]:
    """A file's texts, the one with the nasty names first."""
    first, second = (next(out.rglob(name)).read_text(encoding="utf-8") for out in outs)
    return first, second


WANTED = {f"{end} {name}" for end in ("in", "out") for name in NASTY.values()}


def test_triton_s_configuration(outs: tuple[Path, Path]) -> None:
    texts = both(outs, "config.pbtxt")
    nasty, plain = (text_format.Parse(text, model_config_pb2.ModelConfig()) for text in texts)
    assert {port.name for port in (*nasty.input, *nasty.output)} == WANTED
    assert [port.dims for port in nasty.input] == [port.dims for port in plain.input]
    fields, others = ({field.name for field, _ in each.ListFields()} for each in (nasty, plain))
    assert fields == others
    for warm_up in nasty.model_warmup:
        assert {f"{name}" for name in warm_up.inputs} == {n for n in WANTED if n.startswith("in ")}


@pytest.mark.parametrize("name", ["client.py", "usage.py", "client_requests.py", "client_grpc.py"])
def test_python(outs: tuple[Path, Path], name: str) -> None:
    """A syntax tree with the same nodes; the names are constants in it."""
    nasty, plain = (ast.parse(text) for text in both(outs, name))
    compile(both(outs, name)[0], name, "exec")

    def shape(tree: ast.AST) -> list[str]:
        return [type(node).__name__ for node in ast.walk(tree)]

    assert shape(nasty) == shape(plain)
    held = {node.value for node in ast.walk(nasty) if isinstance(node, ast.Constant)}
    assert held >= {n for n in WANTED if n.startswith("in ")}


class Page(HTMLParser):
    """What a page is made of, and its texts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.parts: list[tuple[str, ...]] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.parts.append((tag, *(name for name, _ in attrs)))

    def handle_endtag(self, tag: str) -> None:
        self.parts.append((f"/{tag}",))

    def handle_comment(self, data: str) -> None:
        self.parts.append(("comment", data))

    def unknown_decl(self, data: str) -> None:
        self.parts.append(("declaration", data))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_the_report_as_a_page(outs: tuple[Path, Path]) -> None:
    nasty, plain = map(Page, both(outs, "report.html"))
    assert nasty.parts == plain.parts
    shown = "".join(nasty.texts)
    assert [name for name in WANTED if printable(name) not in shown] == []


def test_the_report_and_the_manifest_as_json(outs: tuple[Path, Path]) -> None:
    nasty, plain = both(outs, "report.json")
    assert shape_of(json.loads(nasty)) == shape_of(json.loads(plain))
    assert set(texts(json.loads(nasty))) >= WANTED
    assert isinstance(json.loads(both(outs, "manifest.json")[0])["artifacts"], list)


def shape_of(value: object) -> object:
    """The types in it; of a mapping by names, how many there are."""
    if isinstance(value, dict):
        return [type(item).__name__ for item in value.values()]
    return [shape_of(item) for item in value] if isinstance(value, list) else type(value).__name__


def texts(value: object) -> Iterator[str]:
    """Every string in it."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in (*value, *value.values()) if isinstance(value, dict) else value:
            yield from texts(item)


_ESCAPES = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "'": "'", '"': '"', "\\": "\\", "$": "$"}


def unescaped(literal: str) -> str:
    """A string of Kotlin's, by its grammar (escapes of "Characters", "Strings")."""
    found = re.sub(
        r"\\(?:u([0-9a-fA-F]{4})|(.))",
        lambda match: chr(int(match[1], 16)) if match[1] else _ESCAPES[match[2]],
        literal,
    )
    return found.encode("utf-16", "surrogatepass").decode("utf-16")


def tokens(lexer: KotlinLexer | SwiftLexer, text: str) -> tuple[list[str], list[str]]:
    """What a file is made of, token by token, names left out; and its strings, as they stand."""
    parts, strings, inside = [], [], False
    for kind, value in lexer.get_tokens(text):
        assert kind is not Token.Error and kind is not Token.Literal.String.Interpol, value
        if kind in Token.Literal.String:
            if value == '"':
                inside = not inside
                parts += ['"'] * inside
                strings += [""] * inside
            elif inside:
                strings[-1] += value
        elif kind not in Token.Comment and kind not in Token.Text:
            named = kind in Token.Name or value == "out"  # a modifier of Kotlin's, and a name too
            parts.append("name" if named else value)
    return parts, strings


def dollars(text: str) -> str:
    r"""Kotlin's ``\$`` as ``\u0024``, which is the same: the lexer takes it for a template."""
    return re.sub(r"\\(.)", lambda match: r"\u0024" if match[1] == "$" else match[0], text)


def test_kotlin(outs: tuple[Path, Path]) -> None:
    (nasty, strings), (plain, _) = (
        tokens(KotlinLexer(), dollars(text)) for text in both(outs, "usage.kt")
    )
    assert nasty == plain
    assert {unescaped(text) for text in strings} >= WANTED


def test_swift(outs: tuple[Path, Path]) -> None:
    """Names in packages are identifiers, so that nothing nasty can be in its strings."""
    (nasty, strings), (plain, _) = (
        tokens(SwiftLexer(), text) for text in both(outs, "usage.swift")
    )
    assert nasty == plain
    assert len(strings) >= len(WANTED)
    assert all(re.fullmatch(r"[A-Za-z_][A-Za-z_0-9]*", text) for text in strings)


def test_labels(outs: tuple[Path, Path]) -> None:
    """A line each, as Triton reads it."""
    assert both(outs, "serving/triton/*/labels.txt")[0].split("\n")[: len(LABELS)] == LABELS


@pytest.mark.parametrize("place", ["", "serving/triton/*/", "tflite/fp32/", "coreml/fp32/"])
def test_readme(outs: tuple[Path, Path], place: str) -> None:
    """Code in Markdown ends where it should: as many fences, rows and headings."""
    nasty, plain = (next(out.glob(f"{place}README.md")).read_text() for out in outs)
    assert re.findall(r"(?m)^(```\w*|#+|\|)", nasty) == re.findall(r"(?m)^(```\w*|#+|\|)", plain)
