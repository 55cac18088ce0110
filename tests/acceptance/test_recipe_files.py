"""Recipes that share a file, extend one another and have variables; what is shown of several."""

from __future__ import annotations

import json
from contextlib import chdir
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pytest

from converter import api
from converter.cli import several_recipes
from converter.errors import UsageError
from tests.acceptance.cli import COMMAND, Said, command, names, on_a_terminal, tree, written

NET = "g (float[batch, 4] x) => (float[batch, 3] y) { y = MatMul(x, w) }"
WEIGHTS = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)
SHARED = "samples: random:2\nbench: false\nfew-samples: true\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name in ("first", "second"):
        written(tmp_path / f"{name}.onnx", NET, w=WEIGHTS)
    (tmp_path / "base.yaml").write_text(SHARED)
    return tmp_path


def planned(folder: Path, *args: str, code: int = 0) -> Said:
    return command("run", *args, "--dry-run", cwd=folder, code=code)


def plan(folder: Path, text: str, *args: str) -> dict[str, Any]:
    """The plan of a recipe, which wrote nothing."""
    (folder / "r.yaml").write_text(text)
    found: dict[str, Any] = planned(folder, "r.yaml", "--json", *args).json
    return found


def refused(folder: Path, text: str, *args: str) -> str:
    """What is said of a recipe that can't be carried out."""
    (folder / "r.yaml").write_text(text)
    before = tree(folder)
    said = planned(folder, "r.yaml", *args, code=2).err
    assert tree(folder) == before
    return said


class Links(HTMLParser):
    """What a page links to, and its text."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.to: list[str] = []
        self.text = ""
        self.feed(page.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.to += [unquote(value or "") for name, value in attrs if name == "href"]

    def handle_data(self, data: str) -> None:
        self.text += data


# -- documents ------------------------------------------------------------------------------

ALL = """\
{extends: base.yaml, source: first.onnx, to: [onnx]}
---
{extends: base.yaml, source: second.onnx, presicion: fp32}
---
{extends: base.yaml, source: second.onnx, precision: "fp32,fp16", max-abs-error: 1e-12}
---
"""


def test_documents_are_carried_out_in_turn_and_shown_together(project: Path) -> None:
    (project / "all.yaml").write_text(ALL)
    said = command("run", "all.yaml", cwd=project, code=4)
    assert "the recipe all.yaml, document 2 isn't right" in said.err
    assert "presicion: no such key; did you mean precision?" in said.err
    assert names(project / "build") == ["first", "index.html", "second.failed"]
    table = said.out[said.out.index("3 recipes: 1 passed, 1 error, 1 failed") :]
    for text in ("build/first/report.html", "build/second.failed/report.html", "onnx fp32, fp16",
                 "all.yaml, document 2", "random", "index: build/index.html"):  # fmt: skip
        assert text in table, table
    page = Links(project / "build" / "index.html")
    assert page.to == ["first/report.html", "second.failed/report.html"]
    assert all((project / "build" / link).is_file() for link in page.to)
    for text in ("onnx fp16", "all.yaml, document 2 isn't right", "all.yaml, document 3"):
        assert text in page.text
    assert str(project) not in page.text


def test_a_dry_run_plans_all_and_writes_nothing(project: Path) -> None:
    (project / "all.yaml").write_text(ALL.replace("presicion", "precision"))
    before = tree(project)
    told = planned(project, "all.yaml", "--json", code=2).json["recipes"]
    assert [item["document"] for item in told] == [1, 2, 3]
    assert [item["name"] for item in told[:2]] == ["first", "second"]
    assert (
        "the output build/second is already the output of all.yaml, document 2"
        in told[2]["message"]
    )
    assert tree(project) == before


def test_one_output_is_not_replaced_with_another_of_the_same_command(project: Path) -> None:
    for name in ("a", "b"):
        (project / f"{name}.yaml").write_text(f"source: {name}/net.onnx\n{SHARED}")
        (project / name).mkdir()
    (project / "first.onnx").rename(project / "a" / "net.onnx")
    written(project / "b" / "net.onnx", NET, w=-WEIGHTS)
    said = command("run", "a.yaml", "b.yaml", "--overwrite", "--json", cwd=project, code=2)
    made, other = said.json["recipes"]
    assert made["report"]["verdict"] == "passed" and (project / "build" / "net").is_dir()
    assert "build/net is already the output of a.yaml" in other["message"]
    assert "its own out: FOLDER" in other["hint"]


def test_one_of_several_is_named_in_python(project: Path) -> None:
    (project / "all.yaml").write_text("source: first.onnx\n---\n---\nsource: second.onnx\n")
    with chdir(project):
        with pytest.raises(UsageError, match=r"all\.yaml holds 2 recipes") as refusal:
            api.run_recipe("all.yaml", dry_run=True)
        assert "document=1" in refusal.value.hint
        assert api.run_recipe("all.yaml", document=3, dry_run=True).name == "second"
        with pytest.raises(UsageError, match="has the documents 1, 3, but not 2"):
            api.run_recipe("all.yaml", document=2, dry_run=True)


def test_what_is_no_yaml_names_the_document_and_runs_nothing(project: Path) -> None:
    said = refused(project, "source: first.onnx\n---\nsource: [\n")
    assert "the recipe r.yaml, document 2, isn't YAML" in said
    assert "${name} needs quotes" in refused(project, "to: [${target}]\n")
    said = refused(project, "source: first.onnx\n---\nname: 2001-99-99\n")
    assert "the recipe r.yaml, document 2 can't be read: month must be" in said


@pytest.mark.parametrize(("text", "says"), [
    ("---\n".join(["x: &x [" + "1," * 99 + "]\ny: [" + "*x," * 99 + "]\n"] * 11), "100,000 values"),
    ("---\n".join(["extends: big.yaml\nname: a\n"] * 30), "has more than 100,000 values"),
    ("vars: {v: '" + "x" * 9999 + "'}\narg: ['" + "${v}" * 9999 + "']\n", "4,194,304 bytes"),
    ("vars:\n  v0: xx\n" + "".join(f"  v{n}: '{f'${{v{n - 1}}}' * 9}'\n" for n in range(1, 15))
     + "arg: ['${v14}']\n", "has more than 100,000 values or 4,194,304 bytes"),
    ("vars:\n  v: [" + "1," * 999 + "]\narg: [" + "'${v}'," * 999 + "]\n", "100,000 values"),
], ids=["documents", "documents that extend", "texts", "texts of texts", "lists"])  # fmt: skip
def test_limits_hold_over_the_whole_file(project: Path, text: str, says: str) -> None:
    (project / "big.yaml").write_text("arg: [" + "1," * 9000 + "]\n")
    assert says in refused(project, text)


# -- extends --------------------------------------------------------------------------------


def test_a_recipe_says_what_is_otherwise_than_in_what_it_extends(project: Path) -> None:
    shared = project / "shared"
    shared.mkdir()
    (shared / "third.onnx").write_bytes((project / "first.onnx").read_bytes())
    (shared / "top.yaml").write_text("bench-batches: [1]\nprecision: fp16\ndims: {batch: 1}\n")
    (shared / "base.yaml").write_text(
        "extends: top.yaml\nsource: third.onnx\nbench-batch: 2\nmetadata: {a: 1}\nout: o\n"
    )
    text = "extends: shared/base.yaml\nbench_batches: 4\nmetadata: {b: 2}\nout: here\n"
    found = plan(project, text)
    assert (found["name"], found["out"]) == ("third", "here")
    assert "emit:onnx:fp16" in [step["id"] for step in found["steps"]]
    from converter.options.recipe import load_recipe

    values = load_recipe(project / "r.yaml")
    assert values["source"] == str(shared / "third.onnx")
    assert (values["bench_batches"], values["dims"]) == ([4], {"batch": 1})
    assert values["metadata"] == {"b": "2"}  # a key replaces the whole value


def test_one_that_comes_along_is_extended_by_its_name(project: Path) -> None:
    (project / "efficientnet-lite0-triton").mkdir()  # only what lies beside the recipe counts
    (project / "in").mkdir()
    (project / "in" / "r.yaml").write_text(
        "extends: efficientnet-lite0-triton\nsource: ../first.onnx\nserve: []\nmetric: []\n"
    )
    found = planned(project, "in/r.yaml", "--json").json
    assert found["out"] == "build/demo"
    said = refused(project, "extends: nothing\nsource: first.onnx\n")
    assert "there is no recipe 'nothing'" in said and "efficientnet-lite0-triton" in said


@pytest.mark.parametrize(("base", "says"), [
    ("extends: r.yaml", "recipes extend each other in a circle\n  - r.yaml extends b.yaml\n"
     "  - b.yaml extends r.yaml"),
    ("extends: b.yaml", "  - b.yaml extends b.yaml"),
    ("bench-bach: 1", "the recipe b.yaml (extended by r.yaml) isn't right"),
    ("extends: gone.yaml", "reading the recipe gone.yaml (extended by b.yaml): No such file"),
    ("extends: [base.yaml]", "the recipe b.yaml (extended by r.yaml) has extends: ['base.yaml']"),
    ("bench: false\n---\nbench: true", "extends b.yaml, which holds 2 recipes"),
    ("extends: c0.yaml", "a recipe is a chain of more than 10 files\n  - r.yaml extends b.yaml\n"),
    ("", "the recipe b.yaml (extended by r.yaml) isn't a list of 'key: value' lines"),
])  # fmt: skip
def test_what_can_not_be_extended(project: Path, base: str, says: str) -> None:
    (project / "b.yaml").write_text(base)
    for n in range(10):
        (project / f"c{n}.yaml").write_text(f"extends: c{n + 1}.yaml\n")
    assert says in refused(project, "extends: b.yaml\nsource: first.onnx\n")


def test_what_is_extended_counts_as_written_for_trust(project: Path, tmp_path: Path) -> None:
    (project / "data.py").write_text("raise SystemExit('it ran')\n")
    base = "samples: data.py:rows\nbench: false\nname: ${name}\nvars: {name: one}\n"
    (project / "base.yaml").write_text(base)
    (project / "r.yaml").write_text("extends: base.yaml\nsource: first.onnx\n")
    said = command("run", "r.yaml", cwd=project, code=2)
    assert (
        "r.yaml names code that would run with your rights" in said.err
        and "data.py:rows" in said.err
    )
    home = {"MODELYARD_CACHE": str(tmp_path / "cache")}
    assert "it ran" in on_a_terminal([COMMAND, "run", "r.yaml"], project, answers="y\n", **home)
    said = command("run", "r.yaml", "--set", "name=a", cwd=project, env=home)
    assert "it ran" in said.err
    (project / "base.yaml").write_text(base + "seed: 1\n")
    said = command("run", "r.yaml", cwd=project, env=home, code=2)
    assert "r.yaml names code that would run with your rights" in said.err


def test_parts_are_extended_and_have_variables(project: Path) -> None:
    (project / "in").mkdir()
    parts = "parts: {a: {source: '${one}.onnx'}, b: {source: second.onnx, precision: fp16}}\n"
    (project / "base.yaml").write_text(f"{parts}bench: false\nsamples: random:2\n")
    (project / "in" / "r.yaml").write_text(
        "extends: ../base.yaml\nout: o\nsamples: random:1\n---\n"
    )
    told = planned(project, "in/r.yaml", "--json", "--set", "one=first").json
    assert (told["name"], told["out"]) == ("a-b", "o")
    assert "b/emit:onnx:fp16" in str(told["steps"]) or "b emit" in str(told["steps"])
    said = refused(project, "extends: base.yaml\nsource: first.onnx\n", "--set", "one=first")
    assert "the recipe r.yaml has a source beside its parts" in said
    (project / "all.yaml").write_text(f"{parts}out: x\n---\nsource: first.onnx\nout: x\n")
    said = planned(project, "all.yaml", "--set", "one=first", code=2)
    assert "the output x is already the output of all.yaml, document 1" in said.err


# -- variables ------------------------------------------------------------------------------

VARIABLES = """\
vars: {model: first, batch: 4, version: 1.10, kinds: [fp32, fp16], to: "x/${model}-${version}"}
source: ${model}.onnx
out: ${to}
max-batch: ${batch}
precision: ${kinds}
metadata: {version: "v${version}", note: "$${model} of ${model}, $$5", empty: "<${batch}>"}
"""


def recipe_of(folder: Path, text: str, **given: Any) -> dict[str, Any]:
    from converter.options.recipe_files import open_recipe

    (folder / "r.yaml").write_text(text)
    return open_recipe(folder / "r.yaml", given).values


def test_variables_have_the_types_of_what_they_stand_for(project: Path) -> None:
    values = recipe_of(project, VARIABLES)
    assert values["source"] == str(project / "first.onnx")
    assert (values["out"], values["max_batch"]) == ("x/first-1.10", 4)
    assert values["precision"] == ["fp32", "fp16"]
    told = {"version": "v1.10", "note": "${model} of first, $5", "empty": "<4>"}
    assert values["metadata"] == {**told, "note": "${model} of first, $$5"}
    values = recipe_of(project, VARIABLES, batch="8", version="2.0", kinds="int8,fp16", to="${a}")
    assert (values["max_batch"], values["out"]) == (8, "${a}")  # what is given is taken as it is
    assert values["precision"] == ["int8", "fp16"]
    assert values["metadata"]["version"] == "v2.0"
    values = recipe_of(project, "bench: ${on}\nseed: ${n}\nname: a-${on}\n", on=True, n=3)
    assert values == {"bench": True, "seed": 3, "name": "a-true"}


def test_variables_are_given_by_the_command(project: Path) -> None:
    said = plan(project, VARIABLES, "--set", "model=second", "--set", "kinds=fp32")
    assert (said["name"], said["out"]) == ("second", "x/second-1.10")
    with chdir(project):
        made = api.run_recipe("r.yaml", set={"model": Path("second"), "batch": 2}, dry_run=True)
    assert made.name == "second"


def test_a_variable_adds_no_key_and_no_type_but_plain_ones(project: Path) -> None:
    values = recipe_of(project, "name: ${x}\n", x="a\nbench: true")
    assert values == {"name": "a\nbench: true"}
    values = recipe_of(project, "metadata: {a: '${x}'}\n", x="!!python/object:os.system {b: c}")
    assert values["metadata"] == {"a": "!!python/object:os.system {b: c}"}
    assert recipe_of(project, "name: ${x}\n", x="0x_") == {"name": "0x_"}


def test_variables_of_what_is_extended_are_its_defaults(project: Path) -> None:
    base = "vars: {model: first, batch: 2}\nsource: ${model}.onnx\nmax-batch: ${batch}\n"
    (project / "base-a.yaml").write_text(f"{base}name: ${{needed}}\n")
    text = "extends: base-${kind}.yaml\nvars: {model: second, kind: a}\nname: n-${batch}\n"
    values = recipe_of(project, text, batch="3")
    assert Path(values["source"]).name == "second.onnx"
    assert (values["max_batch"], values["name"]) == (3, "n-3")


@pytest.mark.parametrize(("text", "args", "says"), [
    ("name: ${a}\nout: b/${b}", (), "  - the recipe r.yaml: ${a}\n  - the recipe r.yaml: ${b}\n"),
    ("name: ${a}\nvars: {b: 1}", ("--set", "c=1"), "There are: b, c."),
    ("name: x\nvars: {b: 1, d: '${e}'}", ("--set", "c=1"), "the recipe r.yaml has b, d, e"),
    ("name: x", ("--set", "c=1"), "variables that don't exist: c\n  - the recipe r.yaml has none"),
    ("vars: {a: '${b}', b: '${a}'}\nname: ${a}", (), "in a circle, or too deeply: a -> b -> a"),
    ("vars: {a: [1]}\nname: x${a}", (), "${a} inside a text, but its value is list"),
    ("name: ${a b}", (), "'${a b}', which isn't a variable"),
    ("name: a${", (), "'${', which isn't a variable"),
    ("vars: [a]", (), "has vars: ['a']; write a mapping"),
    ("vars: {1: a}", (), "the variable 1: a name consists"),
    ("vars: {batch: many}\nmax-batch: ${batch}", (), "max-batch: "),
    ("name: ${a}", ("--set", "a b=1"), "--set names a variable 'a b': a name consists"),
    ("name: ${a}", ("--set", "a"), "'a' isn't NAME=VALUE"),
])  # fmt: skip
def test_variables_that_are_wrong(project: Path, text: str, args: tuple[str], says: str) -> None:
    said = refused(project, f"source: first.onnx\n{text}\n", *args)
    assert says in said, said


def test_a_variable_of_one_recipe_is_none_of_another(project: Path) -> None:
    (project / "a.yaml").write_text("source: first.onnx\nname: ${name}\n")
    (project / "b.yaml").write_text("source: second.onnx\n")
    told = planned(project, "a.yaml", "b.yaml", "--set", "name=n", "--json").json["recipes"]
    assert [item["name"] for item in told] == ["n", "second"]
    said = planned(project, "a.yaml", "b.yaml", "--set", "name=n", "--set", "nam=n", code=2)
    assert "don't exist: nam\n  - the recipe a.yaml has name\n" in said.err
    said = planned(project, "gone.yaml", "b.yaml", "--set", "name=n", code=2)
    assert "gone.yaml" in said.err and "second would become" not in said.out


def test_a_variable_that_makes_the_source_code_is_not_trusted(project: Path) -> None:
    (project / "net.py").write_text("open('ran', 'w')\n")
    (project / "r.yaml").write_text(f"source: ${{source}}\nvars: {{source: first.onnx}}\n{SHARED}")
    said = command("run", "r.yaml", "--set", "source=net.py:Net", cwd=project, code=2)
    assert "source: " in said.err and "net.py:Net" in said.err and "--trust-recipe" in said.err
    assert not (project / "ran").exists()


# -- the index ------------------------------------------------------------------------------


def two(folder: Path, *outs: str) -> None:
    """A file of two recipes, of which the second one fails at once."""
    first = f"source: first.onnx\nout: {outs[0]}\n{SHARED}"
    (folder / "two.yaml").write_text(f"{first}---\nsource: <b>gone.onnx\nout: {outs[1]}\n")


def run_two(folder: Path, *args: str, code: int = 2) -> Said:
    return command("run", "two.yaml", "--overwrite", *args, cwd=folder, code=code)


def test_an_index_of_outputs_beside_the_recipe_is_in_build(project: Path) -> None:
    two(project, "a b%20", "b")
    assert run_two(project, "--json").json["index"] == "build/index.html"
    page = project / "build" / "index.html"
    assert Links(page).to == ["../a b%20/report.html"]
    assert (page.parent / Links(page).to[0]).is_file()
    assert "<b>gone" not in page.read_text() and "<b>gone" in Links(page).text


def test_an_index_replaces_its_own_alone(project: Path) -> None:
    two(project, "all/a", "all/b")
    page = project / "all" / "index.html"
    page.parent.mkdir()
    page.write_text("mine")
    said = run_two(project)
    assert page.read_text() == "mine"
    assert "no index: all/index.html isn't a page that modelyard made" in said.err
    said = run_two(project, "--index", "all/index.html", "--json")
    assert page.read_text() == "mine" and "--index all/index.html" in said.json["message"]
    page.unlink()
    assert run_two(project, "--index", "pages/p.html", "--json").json["index"] == "pages/p.html"
    other = project / "pages" / "p.html"
    assert not page.exists() and Links(other).to == ["../all/a/report.html"]
    other.write_text(other.read_text().replace("Recipes", "Mine"))
    assert "or was changed since" in run_two(project, "--index", "pages/p.html").err
    assert names(project / "all") == ["a"] and names(project / "pages") == ["p.html"]


def test_an_index_is_not_put_into_an_output(project: Path) -> None:
    two(project, "build", "other")
    said = run_two(project)
    assert "no index: " in said.err and "build is an output, which stays as it was made" in said.err
    manifest = json.loads((project / "build" / "manifest.json").read_text())
    assert manifest["tool"].startswith("modelyard")
    assert "index.html" not in names(project / "build")


def test_one_recipe_has_an_index_where_one_is_asked_for(project: Path) -> None:
    (project / "r.yaml").write_text(f"source: first.onnx\nout: o\n{SHARED}")
    command("run", "r.yaml", "--index", "i.html", "--out", "p", cwd=project, code=0)
    assert Links(project / "i.html").to == ["p/report.html"]


def test_a_bug_in_one_leaves_the_others_their_turn(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    two(project, "a", "b")
    text = (project / "two.yaml").read_text()
    (project / "two.yaml").write_text("source: first.onnx\nname: odd\n---\n" + text)
    plain = several_recipes.run_recipe

    def odd(recipe: Any, **options: Any) -> api.Converted:
        assert recipe.values.get("name") != "odd", "a check of ours"
        return plain(recipe, **options)

    monkeypatch.setattr(several_recipes, "run_recipe", odd)
    told = planned(project, "two.yaml", "--json", code=2).json["recipes"]
    assert [item.get("error") for item in told] == ["internal", None, "usage"]
    assert "a bug in modelyard: AssertionError: a check of ours" in told[0]["message"]
