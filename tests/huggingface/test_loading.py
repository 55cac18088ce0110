"""What is loaded, and what is refused, by one worker process for all cases."""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from converter.arrays import load_arrays, save_arrays
from converter.errors import ModelError, ModelyardError, UnsupportedError, UsageError
from converter.request import Request
from converter.worker import Worker
from parsers.huggingface import HuggingFaceParser
from tests.huggingface.models import save

pytestmark = pytest.mark.slow
Load = Callable[..., dict[str, Any]]


@pytest.fixture
def load(worker: Worker) -> Load:
    """Loads a folder for a task."""

    def call(folder: Path, task: str | None = None, **more: Any) -> dict[str, Any]:
        return worker.call("load", file=str(folder), task=task, trust=False, **more)

    return call


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


def edited(folder: Path, change: Callable[[dict[str, torch.Tensor]], None]) -> Path:
    """The folder with other weights."""
    path = folder / "model.safetensors"
    weights = load_file(path)
    change(weights)
    save_file(weights, path, {"format": "pt"})
    return folder


def refused(kind: type[ModelyardError], says: str, call: Callable[[], object]) -> ModelyardError:
    with pytest.raises(kind, match=says) as caught:
        call()
    return caught.value


def test_missing_weights_are_listed(bert: Path, load: Load, tmp_path: Path) -> None:
    name = "bert.encoder.layer.1.attention.self.query.weight"
    folder = edited(copied(bert, tmp_path / "net"), lambda weights: weights.pop(name))
    error = refused(ModelError, "lacks 1 weights", lambda: load(folder))
    assert list(error.details) == [name]


def test_another_task_lacks_its_head(bert: Path, load: Load) -> None:
    error = refused(
        ModelError, "needs for text-classification", lambda: load(bert, "text-classification")
    )
    pooler = ["bert.pooler.dense.bias", "bert.pooler.dense.weight"]
    assert list(error.details) == [*pooler, "classifier.bias", "classifier.weight"]


def test_a_pooler_that_isn_t_used_may_be_missing(bert: Path, load: Load) -> None:
    answer = load(bert, "feature-extraction")
    assert answer["class"] == "BertModel"
    # The head, which features don't need, is said to be left out.
    assert any("cls.predictions" in warning for warning in answer["warnings"])


def test_an_image_s_pooler_that_is_missing_is_left_out(worker: Worker, tmp_path: Path) -> None:
    folder = save("vit-features", tmp_path / "vit")

    def without(weights: dict[str, torch.Tensor]) -> None:
        for name in [name for name in weights if name.startswith("pooler")]:
            del weights[name]

    for expected in (["last_hidden_state", "pooler_output"], ["last_hidden_state"]):
        worker.call("load", file=str(folder), task=None, trust=False)
        save_arrays(tmp_path / "in.npz", {"pixel_values": np.zeros((1, 3, 32, 32), np.float32)})
        worker.call("run", feeds=str(tmp_path / "in.npz"), out=str(tmp_path / "out.npz"))
        assert list(load_arrays(tmp_path / "out.npz")) == expected
        edited(folder, without)


def test_weights_of_another_shape(bert: Path, load: Load, tmp_path: Path) -> None:
    folder = copied(bert, tmp_path / "net", vocab_size=120)
    error = refused(ModelError, "do not have BertForMaskedLM's shapes", lambda: load(folder))
    assert any("word_embeddings" in str(line) for line in error.details)


def test_damaged_weights(bert: Path, load: Load, tmp_path: Path) -> None:
    folder = copied(bert, tmp_path / "net")
    content = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(content[: len(content) // 2])
    refused(ModelError, "loading BertForMaskedLM", lambda: load(folder))


def test_weights_in_shards_are_the_same(bert: Path, worker: Worker, tmp_path: Path) -> None:
    import transformers

    model = transformers.AutoModelForMaskedLM.from_pretrained(bert)
    model.save_pretrained(tmp_path / "shards", max_shard_size="20KB")
    assert len(list((tmp_path / "shards").glob("*.safetensors"))) > 1
    torch.save(model.state_dict(), copied(bert, tmp_path / "bin") / "pytorch_model.bin")
    (tmp_path / "bin" / "model.safetensors").unlink()
    ids = np.arange(12, dtype=np.int64).reshape(2, 6)
    save_arrays(tmp_path / "in.npz", {"input_ids": ids})
    found = []
    for folder in (bert, tmp_path / "shards", tmp_path / "bin"):
        worker.call("load", file=str(folder), task=None, trust=False)
        worker.call("run", feeds=str(tmp_path / "in.npz"), out=str(tmp_path / "out.npz"))
        found.append(load_arrays(tmp_path / "out.npz")["logits"])
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


def test_half_precision_is_read_as_float32(bert: Path, load: Load, tmp_path: Path) -> None:
    def half(weights: dict[str, torch.Tensor]) -> None:
        weights.update({name: value.bfloat16() for name, value in weights.items()})

    folder = edited(copied(bert, tmp_path / "net", dtype="bfloat16"), half)
    assert (
        "the folder's weights are bfloat16: they were read as float32" in load(folder)["warnings"]
    )


class Bad:
    """Writes a file when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> Any:
        return os.system, (f"touch {self.marker}",)


def test_a_pickle_runs_nothing(bert: Path, load: Load, tmp_path: Path) -> None:
    folder, marker = copied(bert, tmp_path / "net"), tmp_path / "ran"
    (folder / "model.safetensors").unlink()
    torch.save({"bert.x": Bad(marker)}, folder / "pytorch_model.bin")
    error = refused(ModelError, "a pickle that holds more", lambda: load(folder))
    assert "it names posix.system" in error.details
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Bad(marker)))
    refused(ModelError, "a pickle that holds more", lambda: load(folder))
    assert not marker.exists()


def test_code_of_a_folder_runs_only_when_trusted(
    bert: Path, worker: Worker, tmp_path: Path
) -> None:
    marker = tmp_path / "ran"
    table = {"AutoConfig": "mine.Config", "AutoModelForMaskedLM": "mine.Net"}
    folder = copied(bert, tmp_path / "net", auto_map=table, architectures=["Net"])
    (folder / "mine.py").write_text(
        "from pathlib import Path\n"
        "from transformers import BertConfig, BertForMaskedLM\n"
        f"Path({str(marker)!r}).touch()\n"
        "class Config(BertConfig): model_type = 'mine'\n"
        "class Net(BertForMaskedLM): config_class = Config\n"
    )
    request = Request(source=str(folder))
    refused(ModelError, "code of its own", lambda: HuggingFaceParser().identify(request))
    # Even a worker that was asked all the same takes transformers' own class.
    worker.call("load", file=str(folder), task="fill-mask", trust=False)
    assert not marker.exists()
    answer = worker.call("load", file=str(folder), task=None, trust=True)
    assert marker.exists()
    assert (answer["class"], answer["task"]) == ("Net", "fill-mask")


@pytest.mark.parametrize(
    ("name", "task", "kind", "says"),
    [
        ("bert-mlm", "nonsense", UsageError, "there is no task 'nonsense'.*fill-mask"),
        (
            "bert-mlm",
            "depth-estimation",
            UsageError,
            "no bert model for depth-estimation.*fill-mask",
        ),
        ("bert-mlm", "sentence-embedding", UsageError, "needs a sentence-transformers folder"),
        ("t5", None, UnsupportedError, "text2text-generation cannot be converted"),
        ("whisper", None, UnsupportedError, "speech-to-text cannot be converted"),
    ],
)
def test_tasks_that_are_refused(
    name: str,
    task: str | None,
    kind: type[ModelyardError],
    says: str,
    load: Load,
    tmp_path: Path,
) -> None:
    folder = save(name, tmp_path / name)
    refused(kind, says, lambda: load(folder, task))


def test_an_image_size_that_nothing_says(load: Load, tmp_path: Path) -> None:
    folder = save("resnet", tmp_path / "resnet")
    assert load(folder)["inputs"][0]["shape"] == ["batch", 3, 64, 64]
    (folder / "preprocessor_config.json").unlink()
    refused(UsageError, "--input pixel_values", lambda: load(folder))
    given = [{"name": "pixel_values", "dtype": "float32", "shape": ["batch", 3, 96, 64]}]
    assert load(folder, inputs=given)["inputs"] == []
