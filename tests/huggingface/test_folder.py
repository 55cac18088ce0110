"""What is refused before any framework starts, and what counts as the folder's files."""

import json
from pathlib import Path
from typing import Any

import pytest

from converter.errors import ModelError, ModelyardError, UnsupportedError, UsageError
from converter.options.recipe import make_request
from converter.options.request import Request
from parsers.huggingface.parser import HuggingFaceParser

BERT = {"model_type": "bert", "architectures": ["BertModel"]}
PARSER = HuggingFaceParser()
TRANSFORMER = {"idx": 0, "path": "", "type": "sentence_transformers.models.Transformer"}
POOLING = {"idx": 1, "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}


def write(folder: Path, **files: Any) -> Path:
    """A folder with these files; ``config`` stands for config.json."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(files.pop("config", BERT)))
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content))
    return folder


def test_a_folder_is_known_by_its_config(tmp_path: Path) -> None:
    assert PARSER.sniff(str(write(tmp_path / "a")))
    assert not PARSER.sniff(str(write(tmp_path / "b", config={"module": "keras", "name": "x"})))
    assert not PARSER.sniff(str(write(tmp_path / "c", config=["model_type"])))
    assert not PARSER.sniff(str(tmp_path))
    assert not PARSER.sniff(str(tmp_path / "a" / "config.json"))


def test_names_of_folders_and_numbers_of_modules(tmp_path: Path) -> None:
    """A snapshot of the cache has its repository's name."""
    folder = tmp_path / "models--owner--Nice-Net" / "snapshots" / "0a1b2c"
    modules = [{**TRANSFORMER, "idx": {}}, POOLING]
    write(folder, **{"modules.json": modules, "model.safetensors": "1"})
    found = PARSER.identify(Request(source=str(folder)))
    assert found.name == "nice_net" and "config.json" in found.files


def test_the_files_it_depends_on(tmp_path: Path) -> None:
    table = {"weight_map": {"a": "one.safetensors", "b": "two.safetensors"}}
    files = {
        "model.safetensors.index.json": table, "one.safetensors": "1", "two.safetensors": "2",
        "modules.json": [TRANSFORMER, POOLING], "tokenizer_config.json": {},
        "1_Pooling/config.json": {"pooling_mode_mean_tokens": True},
    }  # fmt: skip
    others = {"pytorch_model.bin": "the same weights again", "README.md": "words"}
    found = PARSER.identify(Request(source=str(write(tmp_path / "My-Model v2", **files, **others))))
    assert found.name == "my_model_v2"
    assert set(found.files) == {"config.json", *files}
    assert {"torch", "transformers", "onnxscript", "safetensors"} <= set(found.versions)


def test_links_lead_where_a_cache_s_lead(tmp_path: Path) -> None:
    """From a snapshot to its repository's blobs; within a folder."""
    repository = tmp_path / "models--owner--Net"
    folder = write(repository / "snapshots" / "0a1b2c", **{"model.safetensors": "1"})
    (repository / "blobs").mkdir()
    (repository / "blobs" / "5f").write_text("a\nb\n")
    (folder / "vocab.txt").symlink_to("../../blobs/5f")
    (folder / "also.txt").symlink_to("vocab.txt")
    (tmp_path / "link").symlink_to(folder)
    for path in (folder, tmp_path / "link"):
        assert "tokenizer/vocab.txt" in PARSER.identify(Request(source=str(path))).assets


@pytest.mark.parametrize("name", ["vocab.txt", "deeper", "model.safetensors"])
def test_links_that_lead_elsewhere_are_refused(tmp_path: Path, name: str) -> None:
    """What they lead to would be read, and a tokenizer's files be copied into the output."""
    (tmp_path / "secret").mkdir()
    (tmp_path / "blobs").mkdir()
    (tmp_path / "blobs" / "secret").write_text("of another repository")
    files = {} if name == "model.safetensors" else {"model.safetensors": "1"}
    for repository in ("net", "models--owner--Net/snapshots/0a"):
        folder = write(tmp_path / repository, **files)
        target = tmp_path / ("secret" if name == "deeper" else "blobs/secret")
        (folder / name).symlink_to(target)
        with pytest.raises(ModelError, match="links to files outside") as caught:
            PARSER.identify(Request(source=str(folder)))
        assert caught.value.details == (f"{name} leads to {target}",)


CODE = {**BERT, "auto_map": {"AutoModel": "mine.Net", "AutoConfig": "settings.Own"}}
REMOTE = {**BERT, "auto_map": {"AutoModel": "owner/repo--mine.Net"}}
GPTQ = {**BERT, "quantization_config": {"quant_method": "gptq"}}
INDEX = "model.safetensors.index.json"
REFUSED: dict[str, tuple[dict[str, Any], type[ModelyardError], str]] = {
    "code": ({"config": CODE, "mine.py": "", "model.safetensors": ""}, ModelError, "code of its"),
    "code elsewhere": ({"config": REMOTE, "model.safetensors": ""}, ModelError, "isn't in the"),
    "adapter": ({"adapter_config.json": {}}, UnsupportedError, "adapter"),
    "gguf": ({"net-q4.gguf": ""}, UnsupportedError, "GGUF"),
    "tensorflow": ({"tf_model.h5": ""}, UnsupportedError, "TensorFlow"),
    "flax": ({"flax_model.msgpack": ""}, UnsupportedError, "Flax"),
    "quantized": ({"config": GPTQ, "model.safetensors": ""}, UnsupportedError, "gptq"),
    "no weights": ({"weights.safetensors": ""}, ModelError, "weights.safetensors"),
    "a shard is missing": ({INDEX: {"weight_map": {"a": "a.st"}}}, ModelError, "aren't there"),
    "a shard elsewhere": ({INDEX: {"weight_map": {"a": "../a"}}}, ModelError, "outside"),
    "no index": ({INDEX: "{"}, ModelError, "damaged"),
}


@pytest.mark.parametrize("case", list(REFUSED))
def test_refusals(case: str, tmp_path: Path) -> None:
    files, kind, says = REFUSED[case]
    folder = write(tmp_path / "net", **files)
    assert PARSER.sniff(str(folder))
    with pytest.raises(kind, match=says) as caught:
        PARSER.identify(Request(source=str(folder)))
    if case == "code":
        assert list(caught.value.details) == ["mine.py would run", "settings.py would run"]
        assert "--trust-source" in caught.value.hint
        found = PARSER.identify(Request(source=str(folder), trust_source=True))
        assert set(found.files) == {"config.json", "mine.py", "model.safetensors"}


@pytest.mark.parametrize(
    "options",
    [{"weights": "a.pth"}, {"args": ["1"]}, {"signature": "x"}, {"weights_key": "model"}],
)
def test_options_of_other_formats(options: dict[str, Any], tmp_path: Path) -> None:
    folder = write(tmp_path / "net", **{"model.safetensors": ""})
    with pytest.raises(UsageError, match="has no meaning for a Hugging Face folder"):
        PARSER.identify(make_request({"source": str(folder), **options}))


@pytest.mark.parametrize("place", ["../secret", "/etc"])
@pytest.mark.parametrize("index", [0, 1])
def test_a_module_outside_the_folder(place: str, index: int, tmp_path: Path) -> None:
    write(tmp_path / "secret", **{"model.safetensors": ""})
    items = [dict(TRANSFORMER), dict(POOLING)]
    items[index]["path"] = place
    folder = write(tmp_path / "net", **{"model.safetensors": "", "modules.json": items})
    with pytest.raises(ModelError, match="outside its folder"):
        PARSER.identify(Request(source=str(folder)))
