"""What isn't read of scikit-learn's files: pickles unasked, unknown types, broken trees."""

import importlib
import json
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import skops.io
import xgboost
from sklearn import ensemble, linear_model, manifold, preprocessing, tree

from converter.errors import ModelError
from converter.options.request import Request
from converter.pipeline.work import find_parser
from parsers.sklearn.child import export, files
from parsers.worker.errors import WorkerError, is_librarys
from tests.acceptance.cli import Said, command
from tests.acceptance.test_formats import pickled
from tests.sklearn.models import rows_of, saved, table, trained
from tests.worker.client import Bomb


def refused(code: int, path: Path, *more: str) -> Said:
    said = command("convert", path.name, *more, cwd=path.parent).no_traceback()
    assert said.code == code, said.err
    return said


def read(path: Path, trust: bool = False) -> Any:
    """A file as the child reads it."""
    kind = "pickle" if path.suffix == ".pkl" else path.suffix[1:]
    return files.opened(asked(path, kind, trust), lambda text: None)


def asked(path: Path, kind: str, trust: bool = False) -> dict[str, Any]:
    """What the child's ``load`` is asked."""
    return {"file": str(path), "kind": kind, "trust": trust, "search_paths": []}


@pytest.mark.parametrize("suffix", [".pkl", ".joblib"])
def test_a_pickle_is_refused_unread(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"m{suffix}"
    saved({"model": trained("pipeline"), "bomb": Bomb(tmp_path / "ran")}, path)
    said = refused(3, path)
    assert f"m{suffix} is a pickle" in said.err and "--trust-source" in said.err
    with pytest.raises(WorkerError, match="is a pickle"):
        read(saved(Bomb(tmp_path / "ran"), tmp_path / "m.pkl"))
    assert not (tmp_path / "ran").exists()


def test_a_graph_that_the_exporter_gets_wrong_is_told_as_its(tmp_path: Path) -> None:
    """skl2onnx 1.20 gives a RidgeClassifier of two labels a class for each pair of them."""
    rows, classes = table("iris")
    model = linear_model.RidgeClassifier().fit(rows, np.stack([classes > 0, classes > 1], 1))
    path = saved(model, tmp_path / "m.joblib")
    said = refused(3, path, "--trust-source", "--no-bench").err
    assert "the exporter skl2onnx " in said and " (scikit-learn " in said
    assert "wrote a wrong graph" in said and "The exporter made the mistake" in said
    assert "- LinearClassifier (LinearClassifier): ONNX Runtime refuses" in said, said


@pytest.mark.parametrize("name", ["m.pkl", "m.pt", "m.bin", "m"])
def test_a_pickle_is_told_by_what_is_in_it(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(pickled("sklearn.svm._classes", "SVC"))
    with pytest.raises(ModelError, match=f"{name} is a pickle"):
        find_parser(Request(str(tmp_path / name)))


def renamed(path: Path, module: str, name: str) -> Path:
    """A .skops file whose StandardScaler is called otherwise."""
    saved(preprocessing.StandardScaler().fit(rows_of("pipeline")), path)
    with zipfile.ZipFile(path) as archive:
        parts = {item: archive.read(item) for item in archive.namelist()}
    schema = json.loads(parts["schema.json"])
    schema.update({"__module__": module, "__class__": name})
    parts["schema.json"] = json.dumps(schema).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for item, content in parts.items():
            archive.writestr(item, content)
    return path


@pytest.mark.slow
def test_a_type_that_nobody_knows_is_named_and_not_made(tmp_path: Path) -> None:
    (tmp_path / "evil.py").write_text(
        f"open({str(tmp_path / 'ran')!r}, 'w').close()\nclass E: pass"
    )
    said = refused(3, renamed(tmp_path / "m.skops", "evil", "E"), "--search-path", str(tmp_path))
    assert "evil.E" in said.err and "--trust-source" in said.err
    for module, name in (("os", "system"), ("builtins", "eval"), ("subprocess", "Popen")):
        with pytest.raises(WorkerError, match="types that may run code") as caught:
            read(renamed(tmp_path / "m.skops", module, name))
        assert caught.value.details == [f"{module}.{name}"]
    assert not (tmp_path / "ran").exists()


def damaged_tree(field: str, value: int) -> Any:
    """A tree whose root has something else in a field."""
    model = tree.DecisionTreeClassifier(random_state=1).fit(*table("iris"))
    state = model.tree_.__getstate__()
    state["nodes"] = state["nodes"].copy()
    state["nodes"][field][0] = value
    model.tree_.__setstate__(state)
    return model


@pytest.mark.parametrize(("field", "value"), [
    ("left_child", 0), ("left_child", 10**9), ("right_child", -7), ("feature", 4), ("feature", -2),
])  # fmt: skip
def test_a_tree_that_leads_out_of_itself_is_broken(field: str, value: int, tmp_path: Path) -> None:
    with pytest.raises(WorkerError, match="refers to nodes or columns that don't exist") as caught:
        read(saved(damaged_tree(field, value), tmp_path / "m.skops"))
    assert caught.value.kind == "broken"


def test_trees_of_wider_tables_are_broken_in_a_forest(tmp_path: Path) -> None:
    forest = ensemble.RandomForestClassifier(3, random_state=1).fit(*table("digits"))
    read(saved(forest, tmp_path / "m.skops"))
    forest.n_features_in_ = 5
    with pytest.raises(WorkerError, match="refers to nodes or columns that don't exist"):
        read(saved(forest, tmp_path / "m.skops"))


@pytest.mark.parametrize(("field", "value"), [("left", 2**32 - 1), ("feature_idx", 10)])
def test_a_histogram_s_tree_likewise(field: str, value: int, tmp_path: Path) -> None:
    model = ensemble.HistGradientBoostingRegressor(max_iter=2).fit(*table("diabetes"))
    read(saved(model, tmp_path / "m.skops"))
    model._predictors[0][0].nodes[field][0] = value
    with pytest.raises(WorkerError, match="refers to nodes or columns that don't exist"):
        read(saved(model, tmp_path / "m.skops"))


@pytest.mark.parametrize(("name", "number"), [("left_child", 0), ("split_feature", 99)])
def test_a_tree_of_lightgbm_s_likewise(name: str, number: int, tmp_path: Path) -> None:
    path = saved(trained("lightgbm"), tmp_path / "m.txt")
    assert files.opened(asked(path, "lightgbm"), lambda text: None).n_features_in_ == 10
    path.write_text(re.sub(rf"(?m)^{name}=\S+", f"{name}={number}", path.read_text()))
    with pytest.raises(WorkerError, match="refers to nodes, columns or classes that don't exist"):
        files.opened(asked(path, "lightgbm"), lambda text: None)


@pytest.mark.parametrize(("field", "number"), [
    ("left_children", 0), ("right_children", 10**9), ("left_children", -2), ("split_indices", 99),
])  # fmt: skip
@pytest.mark.parametrize("suffix", ["json", "ubj", "skops"])
def test_a_tree_of_xgboost_s_likewise(field: str, number: int, suffix: str, tmp_path: Path) -> None:
    path = saved(trained("xgboost"), tmp_path / "m.json")
    told = json.loads(path.read_text())
    model = told["learner"]["gradient_booster"]["model"]
    inner = next(tree for tree in model["trees"] if tree["left_children"][0] > 0)
    inner[field][0] = number
    path.write_text(json.dumps(told))
    if suffix != "json":
        damaged = xgboost.XGBClassifier()
        damaged.load_model(path)
        path = saved(damaged, tmp_path / f"m.{suffix}")
    with pytest.raises(WorkerError, match="refers to nodes, columns or classes that don't exist"):
        files.opened(asked(path, "skops" if suffix == "skops" else "xgboost"), lambda text: None)


@pytest.mark.slow
def test_what_skl2onnx_cannot_translate_is_named(tmp_path: Path) -> None:
    rows, _ = table("iris")
    model = manifold.Isomap(neighbors_algorithm="brute").fit(rows)
    said = refused(3, saved(model, tmp_path / "m.pkl"), "--trust-source")
    assert "skl2onnx can't translate Isomap" in said.err and "has no converter" in said.err


@pytest.mark.slow
@pytest.mark.parametrize(("name", "content"), [
    ("m.skops", b"PK\x03\x04" + bytes(40)), ("m.json", b'{"learner":{'),
    ("m.txt", b"tree\nversion=v4\n"),
])  # fmt: skip
def test_a_broken_file_is_no_bug(name: str, content: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    assert name in refused(3, tmp_path / name).err


def test_no_estimator(tmp_path: Path) -> None:
    with pytest.raises(WorkerError, match="holds no estimator"):
        read(saved(np.arange(3), tmp_path / "m.skops"))
    assert skops.io.get_untrusted_types(file=tmp_path / "m.skops") == []


@pytest.mark.parametrize(
    ("call", "theirs"),
    [
        (lambda: json.loads("{"), True),
        (lambda: json.loads(None), True),
        (lambda: export._described(None, None), False),
        (lambda: importlib.import_module("no_such_package"), False),
        (lambda: np.zeros(1 << 50), False),
    ],
)
def test_what_a_library_raises_is_told_from_a_defect_of_ours(
    call: Callable[[], Any], theirs: bool
) -> None:
    """The first says what a model has that isn't translated; the others aren't the model's."""
    with pytest.raises(Exception) as caught:
        call()
    assert is_librarys(caught.value) is theirs
