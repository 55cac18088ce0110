"""What is loaded, and what is refused, by one worker process for all cases."""

import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from converter.errors import ModelError, ModelyardError, UnsupportedError, UsageError
from converter.runtime.worker import Worker
from tests.frameworks import outputs
from tests.huggingface.conftest import Load
from tests.huggingface.models import save

pytestmark = pytest.mark.slow
Weights = dict[str, torch.Tensor]


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT with a head for masked tokens."""
    return save("bert-mlm", tmp_path_factory.mktemp("models") / "bert")


def copied(folder: Path, target: Path, **changed: Any) -> Path:
    """The folder again, with other values in its config.json."""
    target.mkdir()
    config = {**json.loads((folder / "config.json").read_text()), **changed}
    (target / "config.json").write_text(json.dumps(config))
    (target / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes())
    return target


def edited(folder: Path, change: Callable[[Weights], None]) -> Path:
    """The folder with other weights."""
    path = folder / "model.safetensors"
    weights = load_file(path)
    change(weights)
    save_file(weights, path, {"format": "pt"})
    return folder


Refused = Callable[..., ModelyardError]


@pytest.fixture
def refused(load: Load) -> Refused:
    """The error that loading has to end with."""

    def call(kind: type[ModelyardError], says: str, *args: Any, **more: Any) -> ModelyardError:
        with pytest.raises(kind, match=says) as caught:
            load(*args, **more)
        return caught.value

    return call


def test_missing_weights_are_listed(bert: Path, refused: Refused, tmp_path: Path) -> None:
    name = "bert.encoder.layer.1.attention.self.query.weight"
    folder = edited(copied(bert, tmp_path / "net"), lambda weights: weights.pop(name))
    assert list(refused(ModelError, "lacks 1 weights", folder).details) == [name]
    task = "text-classification"  # another task lacks its head
    error = refused(ModelError, f"needs for {task}", bert, task)
    pooler = ["bert.pooler.dense.bias", "bert.pooler.dense.weight"]
    assert list(error.details) == [*pooler, "classifier.bias", "classifier.weight"]


def test_a_pooler_that_isn_t_used_may_be_missing(bert: Path, load: Load) -> None:
    answer = load(bert, "feature-extraction")
    assert answer["class"] == "BertModel"
    # The head, which features don't need, is said to be left out.
    assert any("cls.predictions" in warning for warning in answer["warnings"])


def test_an_image_s_pooler_that_is_missing_is_left_out(worker: Worker, load: Load,
                                                       tmp_path: Path) -> None:  # fmt: skip
    folder = save("vit-features", tmp_path / "vit")

    def without(weights: Weights) -> None:
        for name in [name for name in weights if name.startswith("pooler")]:
            del weights[name]

    image = np.zeros((1, 3, 32, 32), np.float32)
    for expected in (["last_hidden_state", "pooler_output"], ["last_hidden_state"]):
        load(folder)
        assert list(outputs(worker, tmp_path, {"pixel_values": image})) == expected
        edited(folder, without)


def test_weights_of_another_shape_and_damaged(bert: Path, refused: Refused, tmp_path: Path) -> None:
    folder = copied(bert, tmp_path / "net", vocab_size=120)
    error = refused(ModelError, "do not have BertForMaskedLM's shapes", folder)
    assert any("word_embeddings" in str(line) for line in error.details)
    folder = copied(bert, tmp_path / "damaged")
    content = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(content[: len(content) // 2])
    refused(ModelError, "loading BertForMaskedLM", folder)


def test_a_header_of_megabytes(bert: Path, refused: Refused, tmp_path: Path) -> None:
    folder = copied(bert, tmp_path / "net")
    content = (folder / "model.safetensors").read_bytes()
    size = int.from_bytes(content[:8], "little")
    padded = content[8 : 8 + size] + b" " * (1 << 25)
    header = len(padded).to_bytes(8, "little") + padded
    (folder / "model.safetensors").write_bytes(header + content[8 + size :])
    refused(ModelError, "has a header of 33,5.* bytes; the limit is 33,554,432", folder)


def test_weights_in_shards_are_the_same(bert: Path, worker: Worker, load: Load,
                                        tmp_path: Path) -> None:  # fmt: skip
    model = transformers.AutoModelForMaskedLM.from_pretrained(bert)
    model.save_pretrained(tmp_path / "shards", max_shard_size="20KB")
    assert len(list((tmp_path / "shards").glob("*.safetensors"))) > 1
    torch.save(model.state_dict(), copied(bert, tmp_path / "bin") / "pytorch_model.bin")
    (tmp_path / "bin" / "model.safetensors").unlink()
    found, ids = [], np.arange(12, dtype=np.int64).reshape(2, 6)
    for folder in (bert, tmp_path / "shards", tmp_path / "bin"):
        load(folder)
        found.append(outputs(worker, tmp_path, {"input_ids": ids})["logits"])
        np.testing.assert_array_equal(found[0], found[-1])


def test_half_precision_is_read_as_float32(bert: Path, load: Load, tmp_path: Path) -> None:
    def half(weights: Weights) -> None:
        weights.update({name: value.bfloat16() for name, value in weights.items()})

    folder = edited(copied(bert, tmp_path / "net", dtype="bfloat16"), half)
    said = "the folder's weights are bfloat16: they were read as float32"
    assert said in load(folder)["warnings"]


class Bad:
    """Writes a file when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> Any:
        return os.system, (f"touch {self.marker}",)


def test_a_pickle_runs_nothing(bert: Path, refused: Refused, tmp_path: Path) -> None:
    folder, marker = copied(bert, tmp_path / "net"), tmp_path / "ran"
    (folder / "model.safetensors").unlink()
    torch.save({"bert.x": Bad(marker)}, folder / "pytorch_model.bin")
    error = refused(ModelError, "a pickle that holds more", folder)
    assert "it names posix.system" in error.details
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Bad(marker)))
    refused(ModelError, "a pickle that holds more", folder)
    assert not marker.exists()


def test_code_of_a_folder_runs_only_when_trusted(bert: Path, load: Load, tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    table = {"AutoConfig": "mine.Config", "AutoModelForMaskedLM": "mine.Net"}
    folder = copied(bert, tmp_path / "net", auto_map=table, architectures=["Net"])
    lines = ["from pathlib import Path", "from transformers import BertConfig, BertForMaskedLM"]
    lines += [f"Path({str(marker)!r}).touch()", "class Config(BertConfig): model_type = 'mine'"]
    lines += ["class Net(BertForMaskedLM): config_class = Config"]
    (folder / "mine.py").write_text("\n".join(lines))
    # Even a worker that was asked (test_folder: it isn't) takes transformers' own class.
    load(folder, "fill-mask")
    assert not marker.exists()
    answer = load(folder, trust=True)
    assert marker.exists()
    assert (answer["class"], answer["task"]) == ("Net", "fill-mask")


@pytest.mark.parametrize(("name", "task", "kind", "says"), [
    ("bert-mlm", "nonsense", UsageError, "there is no task 'nonsense'.*fill-mask"),
    ("bert-mlm", "depth-estimation", UsageError, "no bert model for depth-.*fill-mask"),
    ("bert-mlm", "sentence-embedding", UsageError, "needs a sentence-transformers folder"),
    ("t5", None, UnsupportedError, "text2text-generation cannot be converted"),
    ("whisper", None, UnsupportedError, "speech-to-text cannot be converted"),
])  # fmt: skip
def test_tasks_that_are_refused(name: str, task: str | None, kind: Any, says: str, refused: Refused,
                                tmp_path: Path) -> None:  # fmt: skip
    refused(kind, says, save(name, tmp_path / name), task)


def test_an_image_size_that_nothing_says(load: Load, refused: Refused, tmp_path: Path) -> None:
    folder = save("resnet", tmp_path / "resnet")
    assert load(folder)["inputs"][0]["shape"] == ["batch", 3, 64, 64]
    (folder / "preprocessor_config.json").unlink()
    refused(UsageError, "--input pixel_values", folder)
    given = [{"name": "pixel_values", "dtype": "float32", "shape": ["batch", 3, 96, 64]}]
    assert load(folder, inputs=given)["inputs"] == []


def test_a_config_with_endless_layers(bert: Path, tmp_path: Path, load: Load) -> None:
    """Any number fits into config.json; each layer takes a millisecond and more to make."""
    folder = copied(bert, tmp_path / "deep", num_hidden_layers=2**62)
    with pytest.raises(ModelError, match="more than 150,000 modules"):
        load(folder)
