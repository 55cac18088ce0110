"""A SavedModel is copied as it is, and links in it can bring no other files along."""

from __future__ import annotations

from pathlib import Path

import onnx_ir
import pytest

from converter.errors import ModelError
from converter.ir.model import Model
from converter.options.recipe import make_request
from emitters.as_is.emitter import SavedModelEmitter

TEXT = '<ir_version: 10, opset_import: ["": 20]> m (float[1] x) => (float[1] y) { y = Relu(x) }'
FILE = {"kind": "saved_model", "inputs": {"x": [1]}, "outputs": {"y": [1]}}
LINKS = {
    "assets/words.txt": "../../secret.txt",
    "more": "../elsewhere",
    "variables": "../elsewhere",
    "loop": ".",
}


def refused(source: Path, out: Path) -> list[str]:
    """The links for which a SavedModel is refused, before anything is written and by the copy."""
    model = Model.wrap(onnx_ir.from_onnx_text(TEXT))
    model.source = {"file": FILE}
    request = make_request({"source": str(source)})
    said = "scorer holds links to files outside of it, or to a folder"
    with pytest.raises(ModelError, match=said) as early:
        SavedModelEmitter().unsupported(model, request)
    with pytest.raises(ModelError, match=said) as late:
        SavedModelEmitter().emit(model, out, "fp32", request)
    assert early.value.details == late.value.details and not out.exists()
    return list(late.value.details)


@pytest.mark.parametrize("name", LINKS)
def test_a_saved_model_brings_no_other_files(tmp_path: Path, name: str) -> None:
    """Nor is a folder copied that lies in itself."""
    source, elsewhere, out = tmp_path / "scorer", tmp_path / "elsewhere", tmp_path / "out"
    (source / "assets").mkdir(parents=True)
    elsewhere.mkdir()
    (source / "saved_model.pb").touch()
    (source / "assets" / "same.pb").symlink_to("../saved_model.pb")
    for path in (tmp_path / "secret.txt", elsewhere / "secret.txt"):
        path.write_text("of the user's")
    (source / name).symlink_to(LINKS[name])
    for named in (source, source / "saved_model.pb"):
        assert refused(named, out) == [f"{name} leads to {LINKS[name]}"]


def test_what_links_to_itself_is_copied(tmp_path: Path) -> None:
    """Links to files of the folder are files in the copy, and the folder may be a link."""
    source = tmp_path / "scorer"
    source.mkdir()
    (source / "saved_model.pb").write_text("the graph")
    (source / "same.pb").symlink_to("saved_model.pb")
    (tmp_path / "link").symlink_to(source)
    request = make_request({"source": str(tmp_path / "link")})
    model = Model.wrap(onnx_ir.from_onnx_text(TEXT))
    model.source = {"file": FILE}
    made = SavedModelEmitter().emit(model, tmp_path / "out", "fp32", request)
    assert {file.name: file.is_symlink() for file in made.files} == {
        "saved_model.pb": False, "same.pb": False
    }  # fmt: skip
